//! Ladder of textures: an image sampled along a rotated raster, from global memory, constant memory
//! and textures.

use orrery_device::{Buffer, Device, DeviceError};
use orrery_measure::MeasureError;
use orrery_measure::timing::{Times, time_on_device, time_once};

use super::repeats::{time_rung_on_cpu, time_rung_on_device};
use super::{
    Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, Roofs, RungResult, Scale, Sweep, SweepSeries,
    TimedRuns, Work,
};
use crate::experiments::texture::{Gather, GatherMethod, Image, Raster, TABLE_SIDE, rungs};

pub static LADDER: LadderEntry = LadderEntry {
    name: "texture",
    description: "Samples of an image along a rotated raster, with and without textures",
    title: "image sampled along a rotated raster",
    size_unit: "pixels",
    host_bytes: |n| (n as u64).saturating_mul(16),
    sizes: DefaultSizes { gpu: 1 << 26, opencl_cpu: 1 << 18, host: 1 << 22 },
    counted: Counted {
        item: "pixel",
        rate_unit: "pixels/s",
        heading: "Gpix/s",
        to_column: |rate| rate / 1e9,
    },
    measure,
};

/// Rotation of the raster of all rungs. The sweep has further angles.
const DEGREES: f64 = 30.0;
/// Number of timed runs for each angle of the sweep.
const SWEEP_REPEATS: usize = 5;
/// Largest number of pixels on the CPU, which samples about 1e8 pixels per second and core.
const MAX_CPU_PIXELS: usize = 1 << 22;
/// Number of pixels whose error is computed.
const MAX_CHECKED_PIXELS: usize = 1 << 16;

/// Bytes per pixel if each texel is read from memory once: one load and one store. A table is in
/// the cache, so only the store remains.
fn bytes_per_pixel(method: GatherMethod) -> f64 {
    if method.reads_table() { 4.0 } else { 8.0 }
}

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let side = request.n.isqrt().max(1);
    add_cpu_rungs(request, ladder, side);
    let Some(device) = request.device else { return Ok(()) };
    ladder.roofs = Roofs::of_device(device)?;
    ladder.roof = ladder.roofs.copy_roof();
    ladder.remarks.push(format!("Raster rotated by {DEGREES} degrees about the centre of the image."));
    ladder.remarks.push(
        "error: largest difference to the exact interpolation at the same positions, for values from 0 to 1. Texture \
         units of NVIDIA keep 8 fractional bits of weights: an error of up to 2^-8 per axis, 7.8e-3 for both."
            .to_owned(),
    );
    let has_textures = device.properties().has_textures;
    if !has_textures {
        ladder.remarks.push("This device has no textures. Their rungs are left out.".to_owned());
    }
    let (image, table) = (Image::random(side, side), Image::random(TABLE_SIDE, TABLE_SIDE));
    let out = device.zeros::<f32>(side * side)?;
    let mut series = Vec::new();
    for rung in rungs().into_iter().filter(|rung| has_textures || !rung.method.uses_texture()) {
        (request.progress)(rung.name);
        let source = if rung.method.reads_table() { &table } else { &image };
        let gather = Gather::new(device, rung.method, source)?;
        let raster = Raster::new(side, side, DEGREES);
        let times = time_rung_on_device(device, || gather.launch(device.queue(), &raster, &out))?;
        let error = largest_error(rung.method, source, &raster, &out)?;
        let bytes = bytes_per_pixel(rung.method);
        let (kernel, occupancy) = gather.resources();
        ladder.add_rung(RungResult {
            note: rung.note.to_owned(),
            work: Work { flops: None, bytes: Some(bytes) },
            roof: ladder.roofs.bandwidth_roof(bytes),
            registers: kernel.registers,
            shared_bytes: Some(kernel.shared_bytes),
            occupancy,
            error: Some(error),
            ..RungResult::new(rung.name, &timed(side, times))
        });
        if let Some(name) = rung.series_name {
            let points = time_angles(device, &gather, side, &out)?;
            series.push(SweepSeries { name: name.to_owned(), points });
        }
    }
    ladder.sweeps.push(Sweep {
        title: "samples by the angle of the raster".to_owned(),
        parameter: "angle, degrees",
        unit: "Gpix/s",
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        values: angles().collect(),
        series,
    });
    Ok(())
}

/// Adds the nearest samples on the CPU.
fn add_cpu_rungs(request: &mut LadderRequest, ladder: &mut Ladder, side: usize) {
    let side = side.min(MAX_CPU_PIXELS.isqrt());
    let image = Image::random(side, side);
    let raster = Raster::new(side, side, DEGREES);
    let bytes = bytes_per_pixel(GatherMethod::GlobalNearest);
    ladder.roof = ladder.host_roofs.copy_roof();
    let roof = ladder.host_roofs.bandwidth_roof(bytes);
    let mut add_on_cpu = |name, nearest: fn(&Raster, &Image) -> Vec<f32>| {
        (request.progress)(name);
        let runs = timed(side, time_rung_on_cpu(|| nearest(&raster, &image)));
        ladder.add_rung(RungResult {
            work: Work { flops: None, bytes: Some(bytes) },
            roof,
            error: Some(0.0),
            ..RungResult::new(name, &runs)
        });
    };
    add_on_cpu("CPU, one thread, nearest", Raster::nearest);
    add_on_cpu("CPU, all cores, nearest", Raster::nearest_on_cpu);
}

fn timed(side: usize, times: Times) -> TimedRuns {
    let n = side * side;
    TimedRuns { n, items: n as f64, times }
}

/// Returns the largest difference to the reference over at most [`MAX_CHECKED_PIXELS`] pixels. NaN
/// if a sample is NaN.
fn largest_error(
    method: GatherMethod,
    image: &Image,
    raster: &Raster,
    out: &Buffer<f32>,
) -> Result<f64, DeviceError> {
    // The distance is odd, so that the pixels are in all columns of a side that is a power of two.
    let (side, distance) = (out.len().isqrt(), out.len().div_ceil(MAX_CHECKED_PIXELS) | 1);
    let errors = out.to_vec()?.into_iter().enumerate().step_by(distance).map(|(pixel, found)| {
        let expected = method.reference_at(raster, image, pixel % side, pixel / side);
        (f64::from(found) - expected).abs()
    });
    Ok(errors.fold(0.0, |largest, error| if error > largest || error.is_nan() { error } else { largest }))
}

/// Angles of the sweep in degrees.
fn angles() -> impl Iterator<Item = f64> {
    (0..=90).step_by(5).map(f64::from)
}

/// Measures the samples per second, in units of 1e9, for each angle of the sweep.
fn time_angles(
    device: &Device,
    gather: &Gather,
    side: usize,
    out: &Buffer<f32>,
) -> Result<Vec<Option<f64>>, DeviceError> {
    let rate_at = |degrees| {
        let raster = Raster::new(side, side, degrees);
        let mut launch = || gather.launch(device.queue(), &raster, out);
        let run_seconds = time_once(device, &mut launch)?;
        let times = time_on_device(device, SWEEP_REPEATS, run_seconds, launch)?;
        Ok(Some(out.len() as f64 / times.median() / 1e9))
    };
    angles().map(rate_at).collect()
}
