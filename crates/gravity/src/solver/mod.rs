//! Force solvers: from positions and masses to accelerations, and to potentials if requested.
//!
//! The terms of a sum and their order depend only on the bodies, the settings and the instruction
//! set. The number of threads affects only which thread computes which targets.

pub mod device;
pub mod direct;
mod frame;
pub mod jerk;
mod kernels;
mod memory;
mod near;
pub mod reference;
pub mod tree;

pub use memory::CpuMemory;

use orrery_cluster::ClusterError;
use orrery_model::{Precision, Vec3s};
use orrery_simd::InstructionSet;

use crate::settings::{Acceptance, GravitySettings, SolverChoice};
use crate::share::{Evaluation, SharedEvaluation, TargetShare};

/// Results of a solver, in the user's order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forces {
    /// Accelerations, one entry per body.
    pub acceleration: Vec3s,
    /// Potentials per unit mass, one entry per body, if requested.
    pub potential: Option<Vec<f64>>,
}

/// Input of a solver: the bodies and the constants of the law.
#[derive(Clone, Copy, Debug)]
pub struct ForceProblem<'a> {
    /// Positions, one entry per body. All must be finite.
    pub position: &'a Vec3s,
    /// Masses, one entry per body. None may be negative.
    pub mass: &'a [f64],
    /// Gravitational constant.
    pub g: f64,
    /// Plummer softening length.
    pub eps: f64,
    /// Whether potentials are computed as well.
    pub with_potential: bool,
}

/// Force solver on the CPU, with its parameters. It is plain data, so that benchmarks and tests can
/// enumerate strategies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GravityCpuStrategy {
    /// Direct sum over all pairs.
    Direct(direct::DirectCpuStrategy),
    /// Barnes-Hut tree.
    Tree(tree::TreeCpuStrategy),
}

/// Number of bodies from which the CPU uses the tree.
///
/// On two cores with AVX-512 the direct sum was as fast as the tree at theta = 0.6, or faster, for
/// 4,000 bodies, and slower for 6,000 (`orrery bench crossover`, benchmarks/runs).
pub const MIN_TREE_BODIES: usize = 5_000;

impl GravityCpuStrategy {
    /// Returns the strategy for `n` bodies on this machine with these settings.
    pub fn resolve(settings: &GravitySettings, n: usize) -> Self {
        let is_tree = match settings.solver {
            SolverChoice::Auto => n >= MIN_TREE_BODIES,
            SolverChoice::Direct => false,
            SolverChoice::Tree => true,
        };
        let (precision, set) = (settings.precision, InstructionSet::best());
        if is_tree {
            Self::Tree(tree::TreeCpuStrategy {
                acceptance: settings.acceptance,
                ..tree::TreeCpuStrategy::new(precision, set)
            })
        } else {
            Self::Direct(direct::DirectCpuStrategy::new(precision, set))
        }
    }

    /// Returns the same strategy with another precision.
    pub fn with_precision(self, precision: Precision) -> Self {
        match self {
            Self::Direct(direct) => Self::Direct(direct::DirectCpuStrategy { precision, ..direct }),
            Self::Tree(tree) => Self::Tree(tree::TreeCpuStrategy { precision, ..tree }),
        }
    }

    /// Returns a short name for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Direct(_) => "direct",
            Self::Tree(_) => "tree",
        }
    }

    /// Computes the forces.
    ///
    /// `previous` contains the accelerations of the previous step, which the relative acceptance
    /// needs. Without them it uses its opening angle.
    pub fn forces(&self, problem: &ForceProblem, previous: Option<&Vec3s>) -> Forces {
        let mut forces = Forces::default();
        self.forces_into(problem, previous, &mut CpuMemory::default(), &mut forces);
        forces
    }

    /// Writes the result of [`GravityCpuStrategy::forces`] to `forces`.
    ///
    /// A caller that keeps `memory` and `forces` for the next evaluation saves the time that the
    /// operating system needs to provide fresh memory. Their contents do not affect the result.
    pub fn forces_into(
        &self,
        problem: &ForceProblem,
        previous: Option<&Vec3s>,
        memory: &mut CpuMemory,
        forces: &mut Forces,
    ) {
        on_one_rank(|alone| self.shared_forces_into(problem, previous, alone, memory, forces));
    }

    /// Does [`GravityCpuStrategy::forces_into`] together with other ranks, which have the same
    /// bodies. All of them get the forces on all bodies.
    pub(crate) fn shared_forces_into(
        &self,
        problem: &ForceProblem,
        previous: Option<&Vec3s>,
        evaluation: SharedEvaluation<'_>,
        memory: &mut CpuMemory,
        forces: &mut Forces,
    ) -> Result<(), ClusterError> {
        if problem.mass.is_empty() {
            *forces = Forces { potential: problem.with_potential.then(Vec::new), ..Forces::default() };
            return Ok(());
        }
        match self {
            Self::Direct(strategy) => {
                direct::shared_forces_into(problem, strategy, evaluation, memory, forces)
            }
            Self::Tree(strategy) => {
                tree::shared_forces_into(problem, strategy, previous, evaluation, memory, forces).map(drop)
            }
        }
    }
}

/// Runs an evaluation that is not divided among ranks.
fn on_one_rank<T>(evaluate: impl FnOnce(SharedEvaluation<'_>) -> Result<T, ClusterError>) -> T {
    evaluate(TargetShare::default().of(Evaluation::Forces)).expect("one rank exchanges no messages")
}

/// Splits `results` among the items of `work`, in order. Each item gets `length(item)` entries.
fn split_results<W>(
    results: &mut [[f64; 4]],
    work: impl IntoIterator<Item = W>,
    length: impl Fn(&W) -> usize,
) -> impl Iterator<Item = (W, &mut [[f64; 4]])> {
    let mut rest = results;
    work.into_iter().map(move |item| {
        let share = rest.split_off_mut(..length(&item)).expect("one entry per target");
        (item, share)
    })
}

impl Default for Acceptance {
    fn default() -> Self {
        Self::Geometric { theta: 0.6 }
    }
}

#[cfg(test)]
mod close_pairs;
#[cfg(test)]
mod properties;
#[cfg(test)]
pub(crate) mod tests;
