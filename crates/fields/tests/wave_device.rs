//! Compares the wave solver on every device with the reference.

use orrery_device::testing::test_devices;
use orrery_fields::wave::device::selftest;

#[test]
fn selftest_passes_on_every_device() {
    for device in test_devices() {
        for check in selftest::checks() {
            if let Err(message) = (check.run)(&device) {
                panic!("{}: {}: {message}", device.title(), check.name);
            }
        }
    }
}
