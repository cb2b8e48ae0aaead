//! Ladder of copies: vector widths and loads in flight, and the effective bandwidth of copies with
//! offsets and strides.

use orrery_device::{Buffer, Device, DeviceError, DeviceKind};
use orrery_measure::MeasureError;
use orrery_measure::format::format_rate;
use rayon::prelude::*;

use super::repeats::time_point;
use super::{
    BYTES, CheckedRung, DefaultSizes, Ladder, LadderEntry, LadderRequest, LadderRung, Parameter,
    PrepareResult, PreparedRung, RungClock, RungLabel, RungLimit, RungSet, ShownValue, Sweep, SweepScale,
    SweepSeries, Work,
};
use crate::experiments::copy::patterns::{OFFSETS, PatternCopy, STRIDES, TextureCopy};
use crate::experiments::copy::{
    BLOCK_SIZES, CopyMethod, CopyRung, RungCopy, copy_on_cpu, copy_reference, rungs, selftest,
};

pub static LADDER: LadderEntry = LadderEntry {
    name: "copy",
    description: "Copy of an array, and its bandwidth with offsets and strides",
    title: "copy of f32",
    size_unit: "numbers",
    host_bytes: |n| (n as u64).saturating_mul(8),
    sizes: DefaultSizes { gpu: 1 << 28, opencl_cpu: 1 << 24, host: 1 << 26 },
    counted: BYTES,
    rungs: &[RungSet::of::<CopyRung>()],
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

/// Source and target of a copy on a device.
pub struct CopyBuffers {
    from: Buffer<f32>,
    to: Buffer<f32>,
}

impl LadderRung for CopyRung {
    type Input = CopyBuffers;

    const VALUES: usize = BLOCK_SIZES.len();

    fn all(_: &Device) -> Vec<Self> {
        rungs()
    }

    fn new_input(device: &Device, n: usize) -> Result<CopyBuffers, MeasureError> {
        Ok(CopyBuffers { from: device.upload(&example_numbers(n))?, to: device.zeros(n)? })
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel::new(self.name, self.note)
    }

    /// The copy of the driver has no block size.
    fn has_parameter(&self) -> bool {
        self.method != CopyMethod::Driver
    }

    fn prepare<'a>(
        &'a self,
        CopyBuffers { from, to }: &'a CopyBuffers,
        n: usize,
        value: usize,
    ) -> PrepareResult<'a> {
        let (device, block) = (from.device(), BLOCK_SIZES[value]);
        if self.has_parameter() && !is_measured(device, block) {
            return Ok(None);
        }
        let copy = RungCopy::new(device, self.method, block)?;
        let kernel = copy.resources();
        let launch = move || copy.launch(device.queue(), from, to);
        let prepared = PreparedRung::new(RungClock::of(device), n, BYTES_PER_NUMBER * n as f64, launch)
            .with_work(WORK, RungLimit::Bandwidth);
        Ok(Some(match kernel {
            Some(kernel) => prepared.with_kernel(kernel),
            None => prepared,
        }))
    }
}

impl CheckedRung for CopyRung {
    fn check(&self, device: &Device) -> Result<(), String> {
        selftest::check_method(device, self.method)
    }
}

fn example_numbers(n: usize) -> Vec<f32> {
    (0..n).into_par_iter().map(|i| (i % 1024) as f32).collect()
}

fn measure_on_host(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    type CopyOnHost = fn(&[f32], &mut [f32]);
    let n = request.n;
    let (numbers, mut target) = (example_numbers(n), vec![0.0; n]);
    let copies: [(&str, CopyOnHost); 2] =
        [("CPU, one thread", copy_reference), ("CPU, all cores", copy_on_cpu)];
    for (name, copy) in copies {
        let prepared = PreparedRung::on_host(n, BYTES_PER_NUMBER * n as f64, || copy(&numbers, &mut target))
            .with_work(WORK, RungLimit::Bandwidth);
        ladder.measure_prepared(request, name, "", prepared)?;
    }
    Ok(())
}

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    ladder.roof = ladder.host_roofs.copy_roof();
    measure_on_host(request, ladder)?;
    let Some(device) = request.device else { return Ok(()) };
    ladder.use_copy_roof_of(device)?;
    ladder.remarks.extend(bandwidth_remarks(device));
    ladder.parameter = Some(Parameter {
        name: "threads per block",
        values: BLOCK_SIZES.map(|block| block.to_string()).to_vec(),
        shown: ShownValue::Fastest,
    });
    let buffers = CopyRung::new_input(device, request.n)?;
    ladder.measure_rungs(request, &rungs(), &buffers)?;
    (request.progress)("offsets");
    let offsets = sweep_offsets(device, request.n, &mut ladder.remarks)?;
    ladder.sweeps.push(offsets);
    (request.progress)("strides");
    ladder.sweeps.push(sweep_strides(device, &buffers.from, &buffers.to)?);
    Ok(())
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
        x_scale: SweepScale::Linear,
        y_scale: SweepScale::Linear,
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
        x_scale: SweepScale::Linear,
        y_scale: SweepScale::Linear,
        values: STRIDES.map(|stride| stride as f64).collect(),
        series: vec![SweepSeries { name: "global memory".to_owned(), points }],
    })
}

/// Measures a copy of `copied` numbers. Returns the useful bytes in GB/s: those of the copied
/// numbers, not those that the memory moves with them.
fn effective_bandwidth(
    device: &Device,
    copied: usize,
    queue_copy: impl FnMut() -> Result<(), DeviceError>,
) -> Result<f64, DeviceError> {
    let times = time_point(device, SWEEP_REPEATS, queue_copy)?;
    Ok(BYTES_PER_NUMBER * copied as f64 / times.median() / 1e9)
}
