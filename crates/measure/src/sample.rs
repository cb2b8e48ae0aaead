//! Bodies for measurements, and reference forces on a sample of them.

use orrery_gravity::accuracy::ForceErrors;
use orrery_gravity::solver::{ForceProblem, reference};
use orrery_model::Vec3s;
use orrery_model::ic::Plummer;
use orrery_model::rng::Draws;

/// Number of bodies whose forces are compared with the sum over all pairs.
const MAX_SAMPLE: usize = 1000;
/// Smallest sample, used for millions of bodies.
const MIN_SAMPLE: usize = 100;
/// Pairs that a comparison may compute before the sample is made smaller: a few seconds on 16
/// cores.
const MAX_PAIRS: usize = 4_000_000_000;

/// Spatial distribution of the bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Plummer sphere.
    Plummer,
    /// Uniform unit cube.
    Cube,
}

impl Shape {
    /// Returns the name used in reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plummer => "plummer",
            Self::Cube => "cube",
        }
    }

    /// Returns positions and masses of `n` bodies with total mass 1. The same `n` always gives the
    /// same bodies.
    pub fn bodies(self, n: usize) -> (Vec3s, Vec<f64>) {
        let mass = vec![1.0 / n as f64; n];
        let position = match self {
            Self::Plummer => {
                let model = Plummer { n, seed: 1, ..Plummer::default() };
                model.generate(1.0).map(|particles| particles.position).unwrap_or_default()
            }
            Self::Cube => {
                let mut position = Vec3s::default();
                for body in 0..n as u64 {
                    let mut draws = Draws::new(1, 0, body);
                    position.push([draws.uniform(), draws.uniform(), draws.uniform()]);
                }
                position
            }
        };
        (position, mass)
    }
}

/// Reference accelerations of a sample of bodies, summed over all pairs in f64.
#[derive(Clone, Debug)]
pub struct ReferenceForces {
    /// Indices of the sampled bodies.
    sample: Vec<usize>,
    /// One acceleration per sampled body.
    expected: Vec3s,
}

impl ReferenceForces {
    /// Computes the accelerations of 1,000 evenly spaced bodies. For millions of bodies the sample
    /// shrinks to as few as 100.
    pub fn compute(problem: &ForceProblem) -> Self {
        let n = problem.mass.len();
        let sample = evenly_spaced_indices(n, (MAX_PAIRS / n.max(1)).clamp(MIN_SAMPLE, MAX_SAMPLE));
        let expected = reference::forces_on(problem, &sample).0;
        Self { sample, expected }
    }

    /// Compares `accelerations`, one per body of the problem, with the reference.
    pub fn errors(&self, accelerations: &Vec3s) -> ForceErrors {
        ForceErrors::measure(accelerations, &self.sample, &self.expected)
    }
}

/// Returns `count` evenly spaced indices below `n`, or all `n` indices if `count >= n`.
pub fn evenly_spaced_indices(n: usize, count: usize) -> Vec<usize> {
    let count = count.min(n);
    (0..count).map(|i| (i as u128 * n as u128 / count as u128) as usize).collect()
}
