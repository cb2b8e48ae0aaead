//! What a user may choose about forces and time steps, as plain data.

use serde::{Deserialize, Serialize};

/// The arithmetic of the force path; the state is f64 always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// f32 coordinates, products and sums.
    Single,
    /// f32 products on differences taken relative to a nearby centre in f64; sums carried in f64.
    #[default]
    Mixed,
    /// f64 throughout.
    Double,
}

/// Which force solver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SolverChoice {
    /// Direct for few bodies, tree for many: whichever is faster.
    #[default]
    Auto,
    /// All pairs.
    Direct,
    /// Barnes-Hut.
    Tree,
}

/// The largest opening angle that may be asked for; the relative form never opens fewer cells than it would.
pub const MAX_THETA: f64 = 1.2;

/// When a tree cell may act as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Acceptance {
    /// r > l / theta + distance of the centre of mass from the cell's centre.
    Geometric {
        /// Opening angle.
        theta: f64,
    },
    /// G M / r² (l / r)³ <= alpha |a|, with |a| the body's acceleration at the step before.
    Relative {
        /// Tolerated share of the acceleration.
        alpha: f64,
        /// Opening angle of the first evaluation, when no acceleration is known.
        theta: f64,
    },
}

/// Gravity as a user chooses it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GravitySettings {
    /// The gravitational constant.
    pub g: f64,
    /// Plummer softening length.
    pub eps: f64,
    /// Which solver.
    pub solver: SolverChoice,
    /// The tree's acceptance.
    pub acceptance: Acceptance,
    /// The arithmetic.
    pub precision: Precision,
}

/// How time advances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IntegratorChoice {
    /// Kick-drift-kick, second order.
    #[default]
    Leapfrog,
    /// Yoshida's fourth-order composition.
    Yoshida4,
    /// Yoshida's sixth-order composition.
    Yoshida6,
    /// Blanes and Moan's fourth-order method, six evaluations a step and far smaller errors.
    BlanesMoan4,
    /// Fourth-order Hermite predictor-corrector; direct forces only.
    Hermite4,
}

/// How long a step is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepChoice {
    /// Always the same.
    Fixed(f64),
    /// Chosen from the state before each step; see `integrator::adaptive`.
    Adaptive {
        /// The accuracy parameter.
        eta: f64,
    },
}
