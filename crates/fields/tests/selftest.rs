//! Compares the solvers on every device with the references.

use orrery_device::check::Check;
use orrery_device::testing::test_devices;
use orrery_fields::{heat, wave};

fn require(checks: &[Check]) {
    for device in test_devices() {
        for check in checks {
            if let Err(message) = (check.run)(&device) {
                panic!("{}: {}: {message}", device.title(), check.name);
            }
        }
    }
}

#[test]
fn heat_passes_on_every_device() {
    require(&heat::device::selftest::checks());
}

#[test]
fn waves_pass_on_every_device() {
    require(&wave::device::selftest::checks());
}
