//! Runs the checks of `orrery selftest` on every device of this machine.

use orrery_device::testing::test_devices;
use orrery_lab::selftest;

#[test]
fn every_device_passes_every_check() {
    for device in &test_devices() {
        let summary = selftest::run_checks(device, "", &mut |_| ());
        assert!(summary.failures.is_empty(), "{}: {:#?}", device.label(), summary.failures);
        assert!(summary.passed_and_total().0 >= 9, "{summary:?}");
    }
}
