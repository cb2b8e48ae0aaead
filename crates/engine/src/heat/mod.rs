//! Heat conduction: u_t = ∇·(k ∇u) + s on a rectangular plate.

mod start;

pub use start::{build_problem, initial_values};
