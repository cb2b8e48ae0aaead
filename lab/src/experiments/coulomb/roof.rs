//! Measured rate of reciprocal square roots, the roof of the fastest kernel.

use orrery_device::{Device, DeviceError, DeviceKind, KernelFile, Math};

use orrery_measure::timing::time_on_device;

// SAFETY: each thread writes one element of `out`, which has one element per thread.
const RSQRT: KernelFile = unsafe { KernelFile::new("rsqrt.cu", include_str!("rsqrt.cu")) };

/// Independent chains per thread.
const CHAINS: u32 = 8;
/// Steps of a round.
const STEPS: u32 = 16;
/// Number of measurements. The fastest counts.
const REPEATS: usize = 5;
/// Approximate time of a measurement.
const SECONDS: f64 = 0.01;

/// Measures the reciprocal square roots of f32 per second, with denormals flushed to zero.
pub fn rsqrt_rate(device: &Device) -> Result<f64, DeviceError> {
    let properties = device.properties();
    let is_gpu = properties.kind == DeviceKind::Gpu;
    let block_size = properties.max_block_size.min(256);
    let block_count = properties.sm_count.max(1) * if is_gpu { 32 } else { 4 };
    let definitions = [
        ("BLOCK_SIZE", block_size.to_string()),
        ("CHAINS", CHAINS.to_string()),
        ("STEPS", STEPS.to_string()),
        // OpenCL on a CPU turns the threads between two barriers into a loop, which it vectorises.
        ("AFTER_ROUND", if is_gpu { "" } else { "BARRIER()" }.to_owned()),
    ];
    let kernel = device.build(&RSQRT, &definitions, Math::FlushToZero)?.kernel("rsqrt_chains")?;
    let threads = block_count * block_size;
    let out = device.zeros::<f32>(threads as usize)?;
    let fastest = |repeats: usize, rounds: i32| {
        let launch =
            || device.queue().launch(&kernel, block_count, block_size, &[(&out).into(), rounds.into()]);
        launch()?;
        time_on_device(device, repeats, SECONDS, launch).map(|times| times.fastest())
    };
    let first: f64 = fastest(1, 16)?;
    let rounds = ((16.0 * SECONDS / first) as i32).clamp(16, 65_536);
    let seconds = fastest(REPEATS, rounds)?;
    Ok(f64::from(threads) * f64::from(CHAINS * STEPS) * f64::from(rounds) / seconds)
}
