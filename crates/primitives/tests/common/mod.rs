//! Helpers for the tests of all primitives.

use orrery_device::Device;
use orrery_device::check::Check;

/// Returns all devices. Fails if there is none, because a test without a device would always pass.
/// Set ORRERY_NO_DEVICE_TESTS on a machine without drivers.
pub fn devices() -> Vec<Device> {
    let listing = Device::list();
    let may_be_empty = std::env::var_os("ORRERY_NO_DEVICE_TESTS").is_some();
    assert!(
        !listing.devices.is_empty() || may_be_empty,
        "no device to test on: {}",
        listing.notes.join("; ")
    );
    listing.devices
}

/// Runs every check on every device.
pub fn run_checks(checks: &[Check]) {
    for device in devices() {
        for check in checks {
            (check.run)(&device)
                .unwrap_or_else(|error| panic!("{}: {}: {error}", device.title(), check.name));
        }
    }
}
