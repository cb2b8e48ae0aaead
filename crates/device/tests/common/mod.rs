//! Helpers for the tests of this crate.

use std::process::Command;

use orrery_device::testing::random_bits;
use orrery_device::{Backend, Device, DeviceChoice, KernelFile};

/// Returns the choice that selects a device.
pub fn choice_of(device: &Device) -> DeviceChoice {
    device.label().parse().unwrap()
}

pub fn is_cuda(device: &Device) -> bool {
    device.properties().backend == Backend::Cuda
}

/// Returns a kernel file with this text.
pub fn test_file(text: &str) -> KernelFile<'_> {
    // SAFETY: the tests launch kernels only with buffers as long as the arguments say.
    unsafe { KernelFile::new("test.cu", text) }
}

/// Runs one ignored test of this binary in a separate process and returns its output.
pub fn run_child(test: &str, variables: &[(&str, &str)]) -> String {
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

/// Returns the lines that a child marked with `child: `, without the mark.
pub fn child_lines(output: &str) -> Vec<String> {
    output.lines().filter_map(|line| line.split_once("child: ")).map(|(_, text)| text.to_owned()).collect()
}

/// Returns a pseudorandom number in [0.5, 8.5).
pub fn random_number(index: usize) -> f64 {
    0.5 + 8.0 * (random_bits(index as u64) >> 11) as f64 / (1u64 << 53) as f64
}
