//! Bodies that act on one another: the laws, the force solvers and the integrators. This room knows no
//! files and no user input.

pub mod accuracy;
pub mod bodies;
mod builder;
pub mod integrator;
pub mod law;
pub mod settings;
pub mod simd;
pub mod solver;
pub mod tree;
