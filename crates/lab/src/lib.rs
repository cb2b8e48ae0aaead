//! How fast, how right, and why: ladders (one computation in several ways), benchmarks, the tuner that picks
//! between strategies, the self-test, and what there is to say of each device.
//!
//! This room only measures: what it enumerates and times are strategies of the solvers, each of which a run
//! could take as well. It prints nothing; the command does.

pub mod bench;
pub mod devices;
mod error;
pub mod ladder;
pub mod sample;
pub mod selftest;
pub mod show;
mod stage;
pub mod timing;
pub mod tuning;

pub use error::LabError;

use orrery_particles::settings::Precision;

/// By the usual count, for a body-body term.
pub const FLOPS_A_PAIR: f64 = 20.0;

/// The three precisions, narrowest first.
pub const PRECISIONS: [Precision; 3] = [Precision::Single, Precision::Mixed, Precision::Double];

/// A precision as a case file writes it.
pub fn precision_name(precision: Precision) -> &'static str {
    match precision {
        Precision::Single => "single",
        Precision::Mixed => "mixed",
        Precision::Double => "double",
    }
}

/// A device to test with. A machine without one tests nothing, and that must be asked for.
#[cfg(test)]
fn test_device() -> Option<orrery_device::Device> {
    let found = orrery_device::Device::list();
    let first = found.devices.into_iter().next();
    let allowed = std::env::var_os("ORRERY_NO_DEVICE_TESTS").is_some();
    assert!(first.is_some() || allowed, "no device: {:?}", found.notes);
    first
}
