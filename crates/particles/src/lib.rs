//! Bodies that act on one another: the laws, the force solvers and the integrators. This room knows no
//! files and no user input.

pub mod settings;
