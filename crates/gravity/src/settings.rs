//! Choices of a user about forces and time steps, as plain data.

use orrery_model::Precision;
use serde::{Deserialize, Serialize};

/// Force solver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SolverChoice {
    /// The faster one: direct for few bodies, tree for many.
    #[default]
    Auto,
    /// Direct sum over all pairs.
    Direct,
    /// Barnes-Hut tree.
    Tree,
}

/// Largest opening angle that a user may choose. The relative criterion opens at least the cells
/// that this angle opens.
pub const MAX_THETA: f64 = 1.2;

/// Criterion for a tree cell to act as one source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Acceptance {
    /// r > l / theta + distance of the centre of mass from the centre of the cell.
    Geometric {
        /// Opening angle.
        theta: f64,
    },
    /// G M / r² (l / r)³ <= alpha |a|, where |a| is the body's acceleration at the previous step.
    Relative {
        /// Tolerated error, as a fraction of the acceleration.
        alpha: f64,
        /// Opening angle of the first evaluation, when no acceleration is known yet.
        theta: f64,
    },
}

/// Settings of gravity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GravitySettings {
    /// Gravitational constant.
    pub g: f64,
    /// Plummer softening length.
    pub eps: f64,
    /// Force solver.
    pub solver: SolverChoice,
    /// Acceptance criterion of the tree.
    pub acceptance: Acceptance,
    /// Arithmetic of the forces.
    pub precision: Precision,
}

/// Time integrator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IntegratorChoice {
    /// Kick-drift-kick, second order.
    #[default]
    Leapfrog,
    /// Yoshida's fourth-order composition.
    Yoshida4,
    /// Yoshida's sixth-order composition.
    Yoshida6,
    /// Blanes and Moan's fourth-order method: six force evaluations per step, with much smaller
    /// errors than Yoshida's.
    BlanesMoan4,
    /// Fourth-order Hermite predictor-corrector. Direct forces only.
    Hermite4,
}

/// Length of the time step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepChoice {
    /// Constant.
    Fixed(f64),
    /// Computed from the state before each step (see `integrator::adaptive`).
    Adaptive {
        /// Accuracy parameter.
        eta: f64,
    },
}
