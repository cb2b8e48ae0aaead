//! Barnes-Hut tree: near bodies act one by one, far bodies as cells with their multipole moments.
//!
//! - `cpu`: solver for the CPU. Its header defines the acceptance criteria.
//! - `group_sum`: walk and sums of one group, for `cpu`.
//! - `device`: kernels for GPUs.
//! - `selftest`: checks of every device solver against the direct sum.

pub mod cpu;
pub mod device;
mod group_sum;
pub mod selftest;
pub(crate) mod test_systems;

pub use cpu::{CpuTreeReport, TreeCpuStrategy, forces, forces_into};
pub(super) use cpu::{OpeningData, shared_forces_into};
