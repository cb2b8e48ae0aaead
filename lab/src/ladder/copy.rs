//! Ladder of copies: vector widths and loads in flight, and the effective bandwidth of copies with
//! offsets and strides.

use orrery_device::{Buffer, Device, DeviceError, DeviceKind};
use orrery_measure::MeasureError;
use orrery_measure::format::format_rate;
use orrery_measure::timing::{Times, time_on_device, time_once};
use rayon::prelude::*;

use super::repeats::{time_rung_on_cpu, time_rung_on_device};
use super::{
    BYTES, DefaultSizes, Ladder, LadderEntry, LadderRequest, Parameter, Roofs, RungResult, Scale, ShownValue,
    Sweep, SweepSeries, TimedRuns, Work,
};
use crate::experiments::copy::patterns::{OFFSETS, PatternCopy, STRIDES, TextureCopy};
use crate::experiments::copy::{BLOCK_SIZES, CopyMethod, Rung, RungCopy, copy_on_cpu, copy_reference, rungs};

pub static LADDER: LadderEntry = LadderEntry {
    name: "copy",
    description: "Copy of an array, and its bandwidth with offsets and strides",
    title: "copy of f32",
    size_unit: "numbers",
    host_bytes: |n| (n as u64).saturating_mul(8),
    sizes: DefaultSizes { gpu: 1 << 28, opencl_cpu: 1 << 24, host: 1 << 26 },
    counted: BYTES,
    measure,
};

/// Each number is read and written once.
const BYTES_PER_NUMBER: f64 = 8.0;
/// The counted item is a byte that is read or written.
const WORK: Work = Work { flops: None, bytes: Some(1.0) };

/// Largest number of elements of the copies with offsets: their source is also a texture of CUDA's
/// linear memory, which has at most 2^27 texels on older cards. 256 MiB do not fit into any cache.
const MAX_SHIFTED_LEN: usize = 1 << 26;
/// Number of timed runs for each offset and each stride.
const SWEEP_REPEATS: usize = 7;

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let n = request.n;
    let numbers: Vec<f32> = (0..n).into_par_iter().map(|i| (i % 1024) as f32).collect();
    let mut target = vec![0.0; n];
    ladder.roof = ladder.host_roofs.copy_roof();
    let host_roof = ladder.host_roofs.bandwidth;
    let mut add_on_cpu = |name, copy: fn(&[f32], &mut [f32])| {
        (request.progress)(name);
        let times = time_rung_on_cpu(|| copy(&numbers, &mut target));
        ladder.add_rung(RungResult {
            work: WORK,
            roof: host_roof,
            ..RungResult::new(name, &timed(n, times))
        });
    };
    add_on_cpu("CPU, one thread", copy_reference);
    add_on_cpu("CPU, all cores", copy_on_cpu);
    drop(target);

    let Some(device) = request.device else { return Ok(()) };
    ladder.roofs = Roofs::of_device(device)?;
    ladder.roof = ladder.roofs.copy_roof();
    ladder.remarks.extend(bandwidth_remarks(device));
    ladder.parameter = Some(Parameter {
        name: "threads per block",
        values: BLOCK_SIZES.map(|block| block.to_string()).to_vec(),
        shown: ShownValue::Fastest,
    });
    let (from, to) = (device.upload(&numbers)?, device.zeros::<f32>(n)?);
    for rung in rungs() {
        (request.progress)(rung.name);
        let Some(result) = measure_rung(device, &rung, &from, &to)? else { continue };
        let (note, roof) = (rung.note.to_owned(), ladder.roofs.bandwidth);
        ladder.add_rung(RungResult { note, work: WORK, roof, ..result });
    }
    (request.progress)("offsets");
    let offsets = sweep_offsets(device, n, &mut ladder.remarks)?;
    ladder.sweeps.push(offsets);
    (request.progress)("strides");
    ladder.sweeps.push(sweep_strides(device, &from, &to)?);
    Ok(())
}

fn timed(n: usize, times: Times) -> TimedRuns {
    TimedRuns { n, items: BYTES_PER_NUMBER * n as f64, times }
}

/// Measures a rung for all block sizes. The copy of the driver has none. Returns `None` if the
/// device supports no block size.
fn measure_rung(
    device: &Device,
    rung: &Rung,
    from: &Buffer<f32>,
    to: &Buffer<f32>,
) -> Result<Option<RungResult>, DeviceError> {
    let time_copy = |copy: &RungCopy| {
        let times = time_rung_on_device(device, || copy.launch(device.queue(), from, to))?;
        Ok::<_, DeviceError>(timed(from.len(), times))
    };
    if rung.method == CopyMethod::Driver {
        let copy = RungCopy::new(device, rung.method, BLOCK_SIZES[0])?;
        return Ok(Some(RungResult::new(rung.name, &time_copy(&copy)?)));
    }
    let (mut runs, mut resources) = (Vec::new(), Vec::new());
    for block in BLOCK_SIZES {
        let copy =
            is_measured(device, block).then(|| RungCopy::new(device, rung.method, block)).transpose()?;
        runs.push(copy.as_ref().map(time_copy).transpose()?);
        resources.push(copy.as_ref().and_then(RungCopy::resources));
    }
    let result = RungResult::with_sweep(rung.name, &runs, ShownValue::Fastest);
    Ok(result.map(|result| {
        let (kernel, occupancy) = result.value.and_then(|value| resources[value]).unzip();
        RungResult {
            registers: kernel.and_then(|kernel| kernel.registers),
            shared_bytes: kernel.map(|kernel| kernel.shared_bytes),
            occupancy: occupancy.flatten(),
            ..result
        }
    }))
}

/// Returns the theoretical bandwidths of this device and of the course's.
fn bandwidth_remarks(device: &Device) -> Vec<String> {
    let peak = device.properties().peak_bandwidth;
    let own = peak.map(|peak| format!("Theoretical bandwidth: {}.", format_rate(peak, "B/s")));
    let course = "Theoretical bandwidths in the course: 141 GB/s (GTX 280), 77 GB/s (FX 5600).";
    own.into_iter().chain([course.to_owned()]).collect()
}

/// Returns whether the ladder measures a block size. OpenCL on a CPU compiles slowly and has no
/// warps, so there one block size represents all.
fn is_measured(device: &Device, block: u32) -> bool {
    let properties = device.properties();
    block <= properties.max_block_size && (properties.kind == DeviceKind::Gpu || block == BLOCK_SIZES[1])
}

/// Measures to_i = from_(i + offset) for the offsets of the course, in at most
/// [`MAX_SHIFTED_LEN`] numbers. Adds a remark if the device cannot copy them through a texture.
fn sweep_offsets(device: &Device, n: usize, remarks: &mut Vec<String>) -> Result<Sweep, DeviceError> {
    let len = n.min(MAX_SHIFTED_LEN);
    let source: Vec<f32> = (0..len + OFFSETS.end()).into_par_iter().map(|i| (i % 1024) as f32).collect();
    let to = device.zeros::<f32>(len)?;
    let series_of = |name: &str, launch: &dyn Fn(usize) -> Result<(), DeviceError>| {
        let points = OFFSETS.map(|offset| effective_bandwidth(device, len, || launch(offset)).map(Some));
        Ok(SweepSeries { name: name.to_owned(), points: points.collect::<Result<_, DeviceError>>()? })
    };
    let (copy, from) = (PatternCopy::new(device)?, device.upload(&source)?);
    let mut series =
        vec![series_of("global memory", &|offset| copy.launch_shifted(device.queue(), &from, offset, &to))?];
    match TextureCopy::new(device, &source) {
        Ok(copy) => {
            series.push(series_of("1-D texture", &|offset| copy.launch(device.queue(), offset, &to))?)
        }
        Err(error) => remarks.push(format!("No copy through a texture: {error}.")),
    }
    Ok(Sweep {
        title: "copy with an offset, useful bytes".to_owned(),
        parameter: "offset, floats",
        unit: "GB/s",
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        values: OFFSETS.map(|offset| offset as f64).collect(),
        series,
    })
}

/// Measures to_(i stride) = from_(i stride) for the strides of the course. All strides cover the
/// same memory, so a copy with stride s has 1/s of the numbers.
fn sweep_strides(device: &Device, from: &Buffer<f32>, to: &Buffer<f32>) -> Result<Sweep, DeviceError> {
    let copy = PatternCopy::new(device)?;
    let from_memory = STRIDES.map(|stride| {
        let launch = || copy.launch_strided(device.queue(), from, stride, to);
        effective_bandwidth(device, to.len().div_ceil(stride), launch).map(Some)
    });
    let points = from_memory.collect::<Result<_, _>>()?;
    Ok(Sweep {
        title: "copy with a stride, useful bytes".to_owned(),
        parameter: "stride, floats",
        unit: "GB/s",
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        values: STRIDES.map(|stride| stride as f64).collect(),
        series: vec![SweepSeries { name: "global memory".to_owned(), points }],
    })
}

/// Measures a copy of `copied` numbers. Returns the useful bytes in GB/s: those of the copied
/// numbers, not those that the memory moves with them.
fn effective_bandwidth(
    device: &Device,
    copied: usize,
    mut queue_copy: impl FnMut() -> Result<(), DeviceError>,
) -> Result<f64, DeviceError> {
    let run_seconds = time_once(device, &mut queue_copy)?;
    let times = time_on_device(device, SWEEP_REPEATS, run_seconds, queue_copy)?;
    Ok(BYTES_PER_NUMBER * copied as f64 / times.median() / 1e9)
}
