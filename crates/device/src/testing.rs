//! Devices and input data for tests, self-tests and benchmarks. They are in this crate because all
//! their users know this crate. Random numbers of a simulation come from `orrery_model::rng`.

mod local_memory;

use crate::device::Device;
use crate::driver::cuda::compile_only::TestCode;
pub use crate::driver::cuda::compile_only::{CompileOnlyCuda, CompiledKernel};
pub use local_memory::AllowedLocalMemory;

/// Returns the devices that a test runs on: all devices of this machine.
///
/// # Panics
/// If there is no device, because a test without a device would always pass. On a machine without
/// drivers, set the environment variable `ORRERY_NO_DEVICE_TESTS`. The list is then empty.
pub fn test_devices() -> Vec<Device> {
    let list = Device::list();
    let may_be_empty = std::env::var_os("ORRERY_NO_DEVICE_TESTS").is_some();
    assert!(!list.devices.is_empty() || may_be_empty, "no device to test on: {}", list.notes.join("; "));
    list.devices
}

/// Returns the devices of [`test_devices`] that have f64. Panics only where [`test_devices`] does.
pub fn test_devices_with_f64() -> Vec<Device> {
    test_devices().into_iter().filter(|device| device.properties().has_f64).collect()
}

/// Returns a device that compiles kernels for a CUDA GPU of this compute capability (7.5, 8.0 or
/// 9.0) and does not run them. Needs NVRTC and no GPU.
///
/// Without NVRTC it prints that the test is skipped and returns None.
///
/// # Panics
/// If `ORRERY_NVRTC_DIR` is set, as in `cargo xtask test`, and has no NVRTC that can be loaded. If
/// `ORRERY_NO_DEVICE_TESTS` is set too, the test is skipped.
pub fn compile_only_cuda(capability: (u32, u32)) -> Option<CompileOnlyCuda> {
    open_compiler(capability, TestCode::Cubin)
}

/// As [`compile_only_cuda`], but compiles to PTX. That takes two thirds of the time, and the
/// registers and local memory of kernels are unknown.
pub fn ptx_only_cuda(capability: (u32, u32)) -> Option<CompileOnlyCuda> {
    open_compiler(capability, TestCode::Ptx)
}

fn open_compiler(capability: (u32, u32), code: TestCode) -> Option<CompileOnlyCuda> {
    match CompileOnlyCuda::new(capability, code) {
        Ok(device) => Some(device),
        Err(why) => {
            let is_set = |name| std::env::var_os(name).is_some();
            let may_skip = !is_set("ORRERY_NVRTC_DIR") || is_set("ORRERY_NO_DEVICE_TESTS");
            assert!(
                may_skip,
                "{why}: expected the folder of libnvrtc.so.13 (`pip install nvidia-cuda-nvrtc==13.0.*` has it \
                 in nvidia/cu13/lib)"
            );
            println!("skipped: no NVRTC: {why} (`cargo xtask test` installs it and runs this test)");
            None
        }
    }
}

/// Returns whether tests run everything, because `cargo xtask soak` has set `ORRERY_SOAK`. In
/// `cargo xtask test` they repeat runs less often, and with fewer installations of MPI.
pub fn is_soak() -> bool {
    std::env::var_os("ORRERY_SOAK").is_some()
}

/// Returns the cases that a test runs: all in `cargo xtask soak`, and the first `count` of them in
/// `cargo xtask test`.
pub fn suite_cases<T>(all: &[T], count: usize) -> &[T] {
    if is_soak() { all } else { &all[..count] }
}

/// Increment of the state: 2^64 divided by the golden ratio, rounded to an odd number.
const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Sequence of pseudorandom numbers: SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable
/// pseudorandom number generators"). The same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Starts a sequence.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Draws 64 random bits.
    pub fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(INCREMENT);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next_bits() % end as u64) as usize
    }
}

/// Returns 64 random bits for an index: element `index` of the SplitMix64 sequence with seed 0.
pub fn random_bits(index: u64) -> u64 {
    SplitMix64::new(index.wrapping_mul(INCREMENT)).next_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers for seed 0 that the reference implementation prints (Vigna,
    /// `splitmix64.c`).
    #[test]
    fn split_mix_gives_the_published_numbers() {
        let expected = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f];
        let mut sequence = SplitMix64::new(0);
        for (index, bits) in expected.into_iter().enumerate() {
            assert_eq!(sequence.next_bits(), bits);
            assert_eq!(random_bits(index as u64), bits);
        }
    }
}
