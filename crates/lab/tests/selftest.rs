//! Runs the checks of `orrery selftest` on every device of this machine.

use orrery_device::Device;
use orrery_lab::selftest;

/// Fails if there is no device, unless `ORRERY_NO_DEVICE_TESTS` is set.
#[test]
fn every_device_passes_every_check() {
    let found = Device::list();
    if found.devices.is_empty() && std::env::var_os("ORRERY_NO_DEVICE_TESTS").is_some() {
        return;
    }
    assert!(!found.devices.is_empty(), "no device: {:?}", found.notes);
    for device in &found.devices {
        let summary = selftest::run_checks(device, "", &mut |_| ());
        assert!(summary.failures.is_empty(), "{}: {:#?}", device.label(), summary.failures);
        assert!(summary.passed_and_total().0 >= 9, "{summary:?}");
    }
}
