//! Ladder of textures: an image sampled along a rotated raster, from global memory, constant memory
//! and textures.

use std::hint::black_box;

use orrery_device::{Buffer, Device, DeviceError};
use orrery_measure::MeasureError;

use super::repeats::time_point;
use super::{
    CheckedRung, Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, LadderRung, PrepareResult,
    PreparedRung, RungClock, RungDetails, RungLabel, RungLimit, RungSet, Sweep, SweepScale, SweepSeries,
    TimedRuns, Work,
};
use crate::experiments::texture::{
    Gather, GatherMethod, Raster, TABLE_SIDE, TextureImage, TextureRung, rungs, selftest,
};

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
    rungs: &[RungSet::of::<TextureRung>()],
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

/// Image and table on the host, and the samples on a device.
pub struct TextureInput {
    image: TextureImage,
    table: TextureImage,
    out: Buffer<f32>,
    raster: Raster,
}

impl TextureInput {
    /// Uploads the image or the table of a rung.
    fn upload(&self, rung: &TextureRung) -> Result<(Gather, &TextureImage), DeviceError> {
        let source = if rung.method.reads_table() { &self.table } else { &self.image };
        Ok((Gather::new(self.out.device(), rung.method, source)?, source))
    }
}

/// Returns the rungs that a device has.
fn supported_rungs(device: &Device) -> Vec<TextureRung> {
    let has_textures = device.properties().has_textures;
    rungs().into_iter().filter(|rung| has_textures || !rung.method.uses_texture()).collect()
}

impl LadderRung for TextureRung {
    type Input = TextureInput;

    fn all(device: &Device) -> Vec<Self> {
        supported_rungs(device)
    }

    fn new_input(device: &Device, n: usize) -> Result<TextureInput, MeasureError> {
        let side = n.isqrt().max(1);
        Ok(TextureInput {
            image: TextureImage::random(side, side),
            table: TextureImage::random(TABLE_SIDE, TABLE_SIDE),
            out: device.zeros(side * side)?,
            raster: Raster::new(side, side, DEGREES),
        })
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel::new(self.name, self.note)
    }

    fn prepare<'a>(&'a self, input: &'a TextureInput, _: usize, _: usize) -> PrepareResult<'a> {
        let TextureInput { out, raster, .. } = input;
        let (device, pixels, bytes) = (out.device(), out.len(), bytes_per_pixel(self.method));
        let (gather, source) = input.upload(self)?;
        let kernel = gather.resources();
        let launch = move |gather: &mut Gather| gather.launch(device.queue(), raster, out);
        let details = move |_: &mut Gather, _: &TimedRuns| {
            let error = Some(largest_error(self.method, source, raster, out)?);
            Ok(RungDetails { error, ..RungDetails::default() })
        };
        let clock = RungClock::of(device);
        let prepared = PreparedRung::with_details(clock, pixels, pixels as f64, gather, launch, details);
        let work = Work { flops: None, bytes: Some(bytes) };
        Ok(Some(prepared.with_work(work, RungLimit::Bandwidth).with_kernel(kernel)))
    }
}

impl CheckedRung for TextureRung {
    fn check(&self, device: &Device) -> Result<(), String> {
        selftest::check_method(device, self.method)
    }
}

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    ladder.roof = ladder.host_roofs.copy_roof();
    measure_on_host(request, ladder)?;
    let Some(device) = request.device else { return Ok(()) };
    ladder.use_copy_roof_of(device)?;
    ladder.remarks.push(format!("Raster rotated by {DEGREES} degrees about the centre of the image."));
    ladder.remarks.push(
        "error: largest difference to the exact interpolation at the same positions, for values from 0 to 1. Texture \
         units of NVIDIA keep 8 fractional bits of weights: an error of up to 2^-8 per axis, 7.8e-3 for both."
            .to_owned(),
    );
    if !device.properties().has_textures {
        ladder.remarks.push("This device has no textures. Their rungs are left out.".to_owned());
    }
    let input = TextureRung::new_input(device, request.n)?;
    let mut series = Vec::new();
    for rung in supported_rungs(device) {
        ladder.measure_rung(request, &rung, &input)?;
        if let Some(name) = rung.series_name {
            let points = time_angles(&input.upload(&rung)?.0, &input.out)?;
            series.push(SweepSeries { name: name.to_owned(), points });
        }
    }
    ladder.sweeps.push(Sweep {
        title: "samples by the angle of the raster".to_owned(),
        parameter: "angle, degrees",
        unit: "Gpix/s",
        x_scale: SweepScale::Linear,
        y_scale: SweepScale::Linear,
        values: angles().collect(),
        series,
    });
    Ok(())
}

/// Adds the nearest samples on the CPU.
fn measure_on_host(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    type NearestOnHost = fn(&Raster, &TextureImage) -> Vec<f32>;
    let side = request.n.min(MAX_CPU_PIXELS).isqrt().max(1);
    let (image, raster) = (TextureImage::random(side, side), Raster::new(side, side, DEGREES));
    let work = Work { flops: None, bytes: Some(bytes_per_pixel(GatherMethod::GlobalNearest)) };
    let versions: [(&str, NearestOnHost); 2] =
        [("CPU, one thread, nearest", Raster::nearest), ("CPU, all cores, nearest", Raster::nearest_on_cpu)];
    for (name, nearest) in versions {
        let (n, run) = (side * side, |(): &mut ()| {
            black_box(nearest(&raster, &image));
            Ok::<_, MeasureError>(())
        });
        let exact =
            |(): &mut (), _: &TimedRuns| Ok(RungDetails { error: Some(0.0), ..RungDetails::default() });
        let prepared = PreparedRung::with_details(RungClock::Host, n, n as f64, (), run, exact);
        ladder.measure_prepared(request, name, "", prepared.with_work(work, RungLimit::Bandwidth))?;
    }
    Ok(())
}

/// Returns the largest difference to the reference over at most [`MAX_CHECKED_PIXELS`] pixels. NaN
/// if a sample is NaN.
fn largest_error(
    method: GatherMethod,
    image: &TextureImage,
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
fn time_angles(gather: &Gather, out: &Buffer<f32>) -> Result<Vec<Option<f64>>, DeviceError> {
    let (device, side) = (out.device(), out.len().isqrt());
    let rate_at = |degrees| {
        let raster = Raster::new(side, side, degrees);
        let times = time_point(device, SWEEP_REPEATS, || gather.launch(device.queue(), &raster, out))?;
        Ok(Some(out.len() as f64 / times.median() / 1e9))
    };
    angles().map(rate_at).collect()
}
