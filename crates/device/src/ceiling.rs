//! Measured ceilings: the copy bandwidth and FMA rates that a device reaches. They are compared
//! with the theoretical rates, and the speed of every other kernel is compared with them.
//! [`measure_caches`] measures the levels between the SMs and the memory.

mod caches;

pub use caches::{CacheCeilings, ReadRate, measure_caches};

use crate::device::Device;
use crate::element::{Element, ElementType};
use crate::error::DeviceError;
use crate::kernel::{KernelFile, Math};
use crate::launch::Arg;
use crate::properties::DeviceKind;

// SAFETY: each thread writes one element of `out`, which has one element per thread.
const CEILING: KernelFile = unsafe { KernelFile::new("ceiling.cu", include_str!("kernels/ceiling.cu")) };

/// Measured ceilings of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Bytes read plus bytes written per second, in a copy within device memory.
    pub copy_bytes_per_s: f64,
    /// f32 flop/s in independent chains of FMAs. An FMA counts as two.
    pub f32_flops: f64,
    /// The same in f64. None if the device has no f64.
    pub f64_flops: Option<f64>,
}

/// Number of measurements. The best one counts, because a ceiling is what can be reached.
const REPEATS: usize = 8;

/// Measures all three. Takes at most a second.
pub fn measure(device: &Device) -> Result<Ceilings, DeviceError> {
    Ok(Ceilings {
        copy_bytes_per_s: copy_bandwidth(device)?,
        f32_flops: fma_rate(device, "FMA", 0.5f32, 1.0)?,
        f64_flops: match device.properties().has_f64 {
            true => Some(fma_rate(device, "FMA64", 0.5f64, 1.0)?),
            false => None,
        },
    })
}

fn copy_bandwidth(device: &Device) -> Result<f64, DeviceError> {
    let memory = device.memory()?;
    // On a CPU: larger than its caches, but quickly copied.
    let max_bytes = if device.properties().kind == DeviceKind::Cpu { 64 << 20 } else { 1 << 30 };
    let bytes = max_bytes.min(memory.total / 4).min(memory.free / 4);
    let from = device.zeros::<u64>(bytes as usize / 8)?;
    let to = device.zeros::<u64>(from.len())?;
    let seconds = shortest_seconds(device, || device.queue().copy(&from, &to))?;
    Ok(2.0 * 8.0 * from.len() as f64 / seconds)
}

fn fma_rate<T: Element + Into<Arg<'static>>>(
    device: &Device,
    multiply_add: &str,
    factor: T,
    term: T,
) -> Result<f64, DeviceError> {
    const CHAINS: u32 = 8;
    const STEPS: u32 = 16;
    let is_cpu = device.properties().kind == DeviceKind::Cpu;
    let block_size = device.properties().max_block_size.min(256);
    // Eight blocks of 256 threads fill the 2048 threads of an SM. Four times as many even out the
    // end of the launch.
    let block_count = device.properties().sm_count * if is_cpu { 4 } else { 32 };
    let definitions = [
        ("REAL", ElementType::of::<T>().to_string()),
        ("MULTIPLY_ADD", multiply_add.to_owned()),
        ("BLOCK_SIZE", block_size.to_string()),
        ("CHAINS", CHAINS.to_string()),
        ("STEPS", STEPS.to_string()),
        // OpenCL on a CPU turns the threads between two barriers into a loop, which it vectorises.
        ("AFTER_ROUND", if is_cpu { "BARRIER()" } else { "" }.to_owned()),
    ];
    let kernel = device.build(&CEILING, &definitions, Math::Precise)?.kernel("fma_chains")?;
    let out = device.zeros::<T>((block_count * block_size) as usize)?;
    let launch = |rounds: i32| {
        let args = [Arg::from(&out), rounds.into(), factor.into(), term.into()];
        device.queue().launch(&kernel, block_count, block_size, &args)
    };
    // A short launch gives an estimate of the rate, and with it the number of rounds for a launch
    // of about 20 ms.
    let first = shortest_seconds(device, || launch(16))?;
    let rounds = ((16.0 * 0.02 / first) as i32).clamp(16, 65536);
    let seconds = shortest_seconds(device, || launch(rounds))?;
    let fmas = f64::from(block_count) * f64::from(block_size) * f64::from(CHAINS * STEPS) * f64::from(rounds);
    Ok(2.0 * fmas / seconds)
}

/// Calls `call` once to warm up and then [`REPEATS`] times. Returns the shortest device time.
fn shortest_seconds(
    device: &Device,
    mut call: impl FnMut() -> Result<(), DeviceError>,
) -> Result<f64, DeviceError> {
    call()?;
    let mut shortest = f64::INFINITY;
    for _ in 0..REPEATS {
        let before = device.queue().record()?;
        call()?;
        let after = device.queue().record()?;
        shortest = shortest.min(after.seconds_since(&before)?);
    }
    Ok(shortest)
}
