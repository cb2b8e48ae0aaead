//! Measurements of speed and accuracy: ladders (one computation by several kernels, from the
//! textbook version to the production kernel), benchmarks of solvers and primitives, the tuner that
//! finds the fastest strategy for a device, the self-test of devices, and the device listing. The
//! crate only enumerates and times strategies of the solvers, so every strategy measured here can
//! also be used by a run. It prints nothing: the command line prints the tables and writes the JSON
//! values that this crate returns. Start with [`ladder::LADDERS`], or with [`timing::time_on_host`]
//! to time a closure.

pub mod bench;
mod cpu_bandwidth;
mod cpu_peak;
pub mod devices;
mod error;
pub mod experiments;
pub mod format;
pub mod ladder;
#[cfg(test)]
mod nvrtc_tests;
pub mod occupancy;
pub mod roofline;
pub mod sample;
pub mod scaling;
pub mod selftest;
pub mod timing;
pub mod tuning;
mod workload;

pub use error::LabError;

/// Floating-point operations per body-body interaction, by the count that is usual for N-body codes
/// (Nyland, Harris & Prins 2007, GPU Gems 3, chapter 31).
pub const FLOPS_PER_PAIR: f64 = 20.0;

/// Returns the first device to test on. None only if `ORRERY_NO_DEVICE_TESTS` is set.
#[cfg(test)]
fn test_device() -> Option<orrery_device::Device> {
    orrery_device::testing::test_devices().into_iter().next()
}
