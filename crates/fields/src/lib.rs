//! Partial differential equations on grids.
//!
//! [`heat`] solves the heat equation on a rectangle. This crate reads no files and no user input.

pub mod heat;
mod scalar;
mod search;

pub use scalar::Scalar;
