//! All-pairs gravity:  a_i = G Σ_j m_j (x_j − x_i) / (|x_j − x_i|² + eps²)^{3/2}
//!
//! 20 flops per interaction by the usual count. N² interactions on 32 N bytes are bound by
//! arithmetic from a few hundred bodies on. Every strategy is therefore about keeping the
//! arithmetic units busy.
//!
//! `cpu` is the solver for the CPU, `mixed` its mixed precision, and `device` has the kernels for
//! GPUs. `selftest` compares each kernel with the reference implementation (`solver::reference`).

pub mod cpu;
pub mod device;
mod mixed;
pub mod selftest;

pub(super) use cpu::shared_forces_into;
pub use cpu::{DirectCpuStrategy, MIXED_MIN_BODIES, forces, forces_into, forces_on_range};
