//! Force solvers: given positions and masses, accelerations, and potentials when asked.
//!
//! Which terms are summed, and in which order, depends on the bodies, the settings and the instruction set
//! alone; threads only decide who computes which group of targets.

pub mod device;
pub mod direct;
mod frame;
pub mod jerk;
mod kernels;
pub mod reference;
pub mod tree;

use orrery_model::Vec3s;

use crate::settings::{Acceptance, GravitySettings, Precision, SolverChoice};
use crate::simd::InstructionSet;

/// What a solver gives, in the user's order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forces {
    /// Accelerations.
    pub acceleration: Vec3s,
    /// Potentials per unit mass, if they were asked for.
    pub potential: Option<Vec<f64>>,
}

/// What is to be computed: the bodies and the law's constants.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// Positions, finite.
    pub position: &'a Vec3s,
    /// Masses, not negative.
    pub mass: &'a [f64],
    /// The gravitational constant.
    pub g: f64,
    /// Plummer softening.
    pub eps: f64,
    /// Whether potentials are wanted as well.
    pub with_potential: bool,
}

/// How it is computed. Data, so that benchmarks and tests can enumerate it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CpuStrategy {
    /// All pairs.
    Direct(direct::DirectCpuStrategy),
    /// Barnes-Hut.
    Tree(tree::TreeCpuStrategy),
}

/// Below about this many bodies all pairs are as fast as the tree at theta = 0.6 or faster, on two cores with AVX-512: at
/// 4,000 they were, at 6,000 not (`orrery bench crossover`, benchmarks/runs).
pub const MIN_TREE_BODIES: usize = 5_000;

impl CpuStrategy {
    /// What the settings come to for `n` bodies on this machine.
    pub fn resolve(settings: &GravitySettings, n: usize) -> Self {
        let tree = match settings.solver {
            SolverChoice::Auto => n >= MIN_TREE_BODIES,
            SolverChoice::Direct => false,
            SolverChoice::Tree => true,
        };
        let (precision, set) = (settings.precision, InstructionSet::best());
        if tree {
            Self::Tree(tree::TreeCpuStrategy {
                acceptance: settings.acceptance,
                ..tree::TreeCpuStrategy::new(precision, set)
            })
        } else {
            Self::Direct(direct::DirectCpuStrategy::new(precision, set))
        }
    }

    /// The same with other arithmetic.
    pub fn with_precision(self, precision: Precision) -> Self {
        match self {
            Self::Direct(direct) => Self::Direct(direct::DirectCpuStrategy { precision, ..direct }),
            Self::Tree(tree) => Self::Tree(tree::TreeCpuStrategy { precision, ..tree }),
        }
    }

    /// A short name for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Direct(_) => "direct",
            Self::Tree(_) => "tree",
        }
    }

    /// Computes. `previous` are the accelerations of the step before, which the relative acceptance needs;
    /// without them it falls back on its opening angle.
    pub fn forces(&self, problem: &Problem, previous: Option<&Vec3s>) -> Forces {
        if problem.mass.is_empty() {
            return Forces { potential: problem.with_potential.then(Vec::new), ..Forces::default() };
        }
        match self {
            Self::Direct(strategy) => direct::forces(problem, strategy),
            Self::Tree(strategy) => tree::forces(problem, strategy, previous).0,
        }
    }
}

/// Hands each piece of work, in order, its own run of `results`, as long as `length` says.
fn split_results<W>(
    results: &mut [[f64; 4]],
    work: impl IntoIterator<Item = W>,
    length: impl Fn(&W) -> usize,
) -> Vec<(W, &mut [[f64; 4]])> {
    let mut rest = results;
    let mut shares = Vec::new();
    for piece in work {
        let (own, others) = rest.split_at_mut(length(&piece));
        rest = others;
        shares.push((piece, own));
    }
    shares
}

impl Default for Acceptance {
    fn default() -> Self {
        Self::Geometric { theta: 0.6 }
    }
}

#[cfg(test)]
pub(crate) mod tests;
