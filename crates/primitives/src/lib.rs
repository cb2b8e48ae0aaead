//! Parallel building blocks: each with its definition, a plain version, one for the processor and one for devices.
//!
//! Every one is deterministic: the order in which floats are added depends on the number of elements (and, on a device,
//! on the strategy) alone.

pub mod histogram;
mod number;
pub mod reduce;
pub mod scan;
pub mod sort;

pub use number::Number;
