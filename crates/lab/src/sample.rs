//! Bodies to measure with, and the right forces on some of them.

use orrery_model::Vec3s;
use orrery_model::ic::Plummer;
use orrery_model::rng::Draws;
use orrery_particles::accuracy::ForceErrors;
use orrery_particles::solver::{Problem, reference};

/// Bodies whose forces are compared with the sum over all pairs, and the fewest of them where there are very many bodies.
const SAMPLE: usize = 1000;
const FEWEST: usize = 100;
/// Pairs that the comparison may take, unless the fewest need more: some seconds on 16 cores.
const PAIRS: usize = 4_000_000_000;

/// Where the bodies are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A Plummer sphere.
    Plummer,
    /// A uniform unit cube.
    Cube,
}

impl Shape {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plummer => "plummer",
            Self::Cube => "cube",
        }
    }

    /// Positions and masses of `n` bodies, of total mass 1; always the same ones.
    pub fn bodies(self, n: usize) -> (Vec3s, Vec<f64>) {
        let mass = vec![1.0 / n as f64; n];
        let position = match self {
            Self::Plummer => {
                let model = Plummer { n, seed: 1, ..Plummer::default() };
                model.generate(1.0).map(|particles| particles.position).unwrap_or_default()
            }
            Self::Cube => {
                let mut position = Vec3s::default();
                for i in 0..n as u64 {
                    let mut draws = Draws::new(1, 0, i);
                    position.push([draws.uniform(), draws.uniform(), draws.uniform()]);
                }
                position
            }
        };
        (position, mass)
    }
}

/// The right accelerations of a sample.
#[derive(Clone, Debug)]
pub struct Reference {
    sample: Vec<usize>,
    right: Vec3s,
}

impl Reference {
    /// Of a thousand bodies, spread evenly; of fewer where there are millions.
    pub fn of(problem: &Problem) -> Self {
        let n = problem.mass.len();
        let sample = spread(n, (PAIRS / n.max(1)).clamp(FEWEST, SAMPLE));
        let right = reference::forces_on(problem, &sample).0;
        Self { sample, right }
    }

    /// How far all bodies' accelerations `found` are from it.
    pub fn errors(&self, found: &Vec3s) -> ForceErrors {
        ForceErrors::measure(found, &self.sample, &self.right)
    }
}

/// `k` numbers below `n`, evenly spread; all of them where k >= n.
pub fn spread(n: usize, k: usize) -> Vec<usize> {
    let k = k.min(n);
    (0..k).map(|i| (i as u128 * n as u128 / k as u128) as usize).collect()
}
