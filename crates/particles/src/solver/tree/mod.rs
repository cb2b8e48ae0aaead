//! Barnes-Hut: bodies near by one by one, bodies far away as cells with their multipoles.
//!
//! `cpu` is the native solver and says what is accepted when; `device` the kernels for GPUs; `rungs` the way from the
//! first to the best of them, `selftest` what holds each against the plain sum.

pub mod cpu;
pub mod device;
pub mod rungs;
pub mod selftest;
pub(crate) mod test_systems;

pub use cpu::{CpuTreeReport, TreeCpuStrategy, forces};
