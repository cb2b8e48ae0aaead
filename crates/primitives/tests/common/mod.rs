//! Helpers for the tests of all primitives.

use orrery_device::check::Check;
use orrery_device::testing::test_devices;

/// Runs every check on every device.
pub fn run_checks(checks: &[Check]) {
    for device in test_devices() {
        for check in checks {
            (check.run)(&device)
                .unwrap_or_else(|error| panic!("{}: {}: {error}", device.title(), check.name));
        }
    }
}
