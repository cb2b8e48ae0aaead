//! Measured roofs: what this very device reaches at copying and at multiply-adds, to set against the
//! theoretical figures and to judge every other kernel by.

use crate::device::Device;
use crate::error::DeviceError;
use crate::kernel::{Math, Source};
use crate::properties::DeviceKind;
use crate::queue::Arg;

/// What a device reaches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Bytes read plus bytes written a second, from device memory to device memory.
    pub copy_bytes_per_s: f64,
    /// f32 flop/s in independent chains of FMAs, an FMA being two.
    pub f32_flops: f64,
    /// The same in f64, where the device has it.
    pub f64_flops: Option<f64>,
}

/// Best of this many: a roof is what can be reached, not what is usual.
const REPEATS: usize = 8;

/// Measures all three; a second at most.
pub fn measure(device: &Device) -> Result<Ceilings, DeviceError> {
    Ok(Ceilings {
        copy_bytes_per_s: copy(device)?,
        f32_flops: flops(device, "float", "FMA", Arg::F32(0.5), Arg::F32(1.0))?,
        f64_flops: match device.properties().has_f64 {
            true => Some(flops(device, "double", "FMA64", Arg::F64(0.5), Arg::F64(1.0))?),
            false => None,
        },
    })
}

fn copy(device: &Device) -> Result<f64, DeviceError> {
    let memory = device.memory()?;
    // On a processor: beyond its caches, and no longer than a blink.
    let most = if device.properties().kind == DeviceKind::Cpu { 64 << 20 } else { 1 << 30 };
    let bytes = most.min(memory.total / 4).min(memory.free / 4);
    let from = device.zeros::<u64>(bytes as usize / 8)?;
    let to = device.zeros::<u64>(from.len())?;
    let seconds = best(device, || device.queue().copy(&from, &to))?;
    Ok(2.0 * 8.0 * from.len() as f64 / seconds)
}

fn flops(
    device: &Device,
    real: &str,
    multiply_add: &str,
    factor: Arg<'_>,
    term: Arg<'_>,
) -> Result<f64, DeviceError> {
    const CHAINS: u32 = 8;
    const STEPS: u32 = 16;
    let is_cpu = device.properties().kind == DeviceKind::Cpu;
    let group = device.properties().max_block_size.min(256);
    // Eight groups of 256 fill a multiprocessor's 2048 threads; four times that evens out the tail.
    let groups = device.properties().sm_count * if is_cpu { 4 } else { 32 };
    let definitions = [
        ("REAL", real.to_owned()),
        ("MULTIPLY_ADD", multiply_add.to_owned()),
        ("BLOCK_SIZE", group.to_string()),
        ("CHAINS", CHAINS.to_string()),
        ("STEPS", STEPS.to_string()),
        // A processor's compiler turns the threads between two barriers into a loop, which it vectorises.
        ("AFTER_ROUND", if is_cpu { "BARRIER()" } else { "" }.to_owned()),
    ];
    let text = include_str!("kernels/ceiling.cu");
    let source = Source { name: "ceiling.cu", text, definitions: &definitions, math: Math::Precise };
    let kernel = device.build(&source)?.kernel("fma_chains")?;
    // Eight bytes for either kind of number.
    let out = device.zeros::<f64>((groups * group) as usize)?;
    let launch = |rounds: i32| {
        let args = [Arg::from(&out), rounds.into(), factor, term];
        device.queue().launch(&kernel, groups, group, &args)
    };
    // A first guess of the rate gives a length that events resolve and nobody waits for.
    let first = best(device, || launch(16))?;
    let rounds = ((16.0 * 0.02 / first) as i32).clamp(16, 65536);
    let seconds = best(device, || launch(rounds))?;
    let fmas = f64::from(groups) * f64::from(group) * f64::from(CHAINS * STEPS) * f64::from(rounds);
    Ok(2.0 * fmas / seconds)
}

/// The shortest device time of some calls.
fn best(device: &Device, mut call: impl FnMut() -> Result<(), DeviceError>) -> Result<f64, DeviceError> {
    call()?;
    let mut least = f64::INFINITY;
    for _ in 0..REPEATS {
        let before = device.queue().record()?;
        call()?;
        let after = device.queue().record()?;
        least = least.min(after.seconds_since(&before)?);
    }
    Ok(least)
}
