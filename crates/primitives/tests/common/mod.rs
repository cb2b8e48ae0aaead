//! What the tests of every primitive need.

use orrery_device::Device;
use orrery_device::check::Check;

/// Every device; none is a failure, as tests that run on nothing would pass for ever. A machine that is
/// known to have no driver sets ORRERY_NO_DEVICE_TESTS.
pub fn devices() -> Vec<Device> {
    let listing = Device::list();
    let excused = std::env::var_os("ORRERY_NO_DEVICE_TESTS").is_some();
    assert!(!listing.devices.is_empty() || excused, "no device to test on: {}", listing.notes.join("; "));
    listing.devices
}

/// Every check on every device.
pub fn hold(checks: &[Check]) {
    for device in devices() {
        for check in checks {
            (check.run)(&device).unwrap_or_else(|word| panic!("{}: {}: {word}", device.title(), check.name));
        }
    }
}
