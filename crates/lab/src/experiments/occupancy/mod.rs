//! Experiments on occupancy and on hiding latency.
//!
//! Little's law: to keep a unit with a throughput of T operations per cycle and a latency of L
//! cycles busy, L T independent operations must be in flight. They come from warps (occupancy),
//! from independent instructions of one thread, or from both.
//!
//! - [`pressure`]: a kernel that needs about 128 registers, compiled with a limit of registers.

pub mod pressure;
pub mod selftest;
