//! Bodies that attract one another: pair laws, force solvers and integrators.
//!
//! [`bodies::Bodies`] stores the state on the host or on a device. A solver ([`solver`]) computes
//! the accelerations, either as a direct sum over all pairs or with a Barnes-Hut tree, from laws
//! ([`law`]) that are written once for all CPU instruction sets ([`orrery_simd`]). An integrator
//! ([`integrator`]) moves the bodies in time. [`settings`] contains the choices of a user as plain
//! data. This crate reads no files and no user input.

pub mod accuracy;
pub mod bodies;
pub mod integrator;
pub mod law;
mod precision;
pub mod resolution;
pub mod settings;
mod share;
pub mod solver;
pub mod tree;
