//! The suite that `orrery selftest` runs, on every device of this machine.

use orrery_device::Device;
use orrery_lab::selftest;

/// A machine without a device tests nothing: that must be asked for.
#[test]
fn every_device_passes_every_check() {
    let found = Device::list();
    if found.devices.is_empty() && std::env::var_os("ORRERY_NO_DEVICE_TESTS").is_some() {
        return;
    }
    assert!(!found.devices.is_empty(), "no device: {:?}", found.notes);
    for device in &found.devices {
        let summary = selftest::run(device, "", &mut |_| ());
        assert!(summary.failures.is_empty(), "{}: {:#?}", device.label(), summary.failures);
        assert!(summary.counts().0 >= 9, "{summary:?}");
    }
}
