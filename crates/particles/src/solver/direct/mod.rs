//! All-pairs gravity:  a_i = G Σ_j m_j (x_j − x_i) / (|x_j − x_i|² + eps²)^{3/2}
//!
//! 20 flops a pair by the usual count. N² pairs on 32 N bytes: bound by arithmetic from a few hundred bodies on,
//! so every strategy is about feeding the arithmetic units. `cpu` is the native solver, `device` the kernels for
//! GPUs, `rungs` the way from the first to the best of them, `selftest` what holds each against the plain sum
//! (`solver::reference`).

pub mod cpu;
pub mod device;
pub mod rungs;
pub mod selftest;

pub use cpu::{DirectCpuStrategy, MIXED_FROM, forces};
