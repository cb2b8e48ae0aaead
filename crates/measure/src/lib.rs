//! Measurements of production code: benchmarks of solvers and primitives, the tuner that finds the
//! fastest strategy for a device, the self-test of devices, the device listing, roofline, occupancy
//! and the scaling over ranks.
//!
//! This crate enumerates and times strategies that a run can use, and compares their results with
//! reference implementations. It prints nothing: the command line prints the tables and writes the
//! JSON values that this crate returns. Start with [`mod@bench`], or with [`timing::time_on_host`]
//! to time a closure. The laboratory measures with it too.

pub mod bench;
pub mod cpu_bandwidth;
pub mod cpu_peak;
pub mod devices;
mod error;
pub mod format;
#[cfg(test)]
mod nvrtc_tests;
pub mod occupancy;
pub mod roofline;
pub mod sample;
pub mod scaling;
pub mod selftest;
pub mod text_table;
pub mod timing;
pub mod tuning;
pub mod workload;

pub use error::MeasureError;

/// Floating-point operations per body-body interaction, by the count that is usual for N-body codes
/// (Nyland, Harris & Prins 2007, GPU Gems 3, chapter 31).
pub const FLOPS_PER_PAIR: f64 = 20.0;

/// Returns the first device to test on. None only if `ORRERY_NO_DEVICE_TESTS` is set.
#[cfg(test)]
fn test_device() -> Option<orrery_device::Device> {
    orrery_device::testing::test_devices().into_iter().next()
}
