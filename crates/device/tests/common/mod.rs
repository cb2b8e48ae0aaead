//! What the tests share.
#![allow(dead_code, reason = "each test file uses its part")]

use std::process::Command;

use orrery_device::{Backend, Device, DeviceChoice, Math, Source};

/// Every device; none is a failure, as tests that run on nothing would pass for ever. A machine that is
/// known to have no driver sets ORRERY_NO_DEVICE_TESTS.
pub fn devices() -> Vec<Device> {
    let listing = Device::list();
    let excused = std::env::var_os("ORRERY_NO_DEVICE_TESTS").is_some();
    assert!(!listing.devices.is_empty() || excused, "no device to test on: {}", listing.notes.join("; "));
    listing.devices
}

/// The choice that names a device.
pub fn choice(device: &Device) -> DeviceChoice {
    device.label().parse().unwrap()
}

pub fn is_cuda(device: &Device) -> bool {
    device.properties().backend == Backend::Cuda
}

pub fn source<'a>(text: &'a str, definitions: &'a [(&'a str, String)]) -> Source<'a> {
    Source { name: "some.cu", text, definitions, math: Math::Precise }
}

/// Runs one ignored test of this binary in a process of its own and gives what it printed.
pub fn child(test: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    for (name, value) in variables {
        command.env(name, value);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test}: {}\n{text}\n{errors}", output.status);
    text
}

/// The lines that a child marked with `said: `.
pub fn said(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.split_once("said: ")).map(|(_, words)| words.to_owned()).collect()
}

/// A well-mixed number from an index (splitmix64).
pub fn mixed(index: u64) -> u64 {
    let mut z = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// In [0.5, 8.5).
pub fn number(index: usize) -> f64 {
    0.5 + 8.0 * (mixed(index as u64) >> 11) as f64 / (1u64 << 53) as f64
}
