//! Ladder of connected components: a random image above a threshold, pixels that share a side.

use orrery_device::testing::random_bits;
use orrery_device::{Buffer, Device, DeviceError};
use orrery_measure::MeasureError;
use orrery_measure::format::format_rate;
use rayon::prelude::*;

use super::repeats::{build_thread_pool, time_rung_on_device};
use super::rung::kernel_use;
use super::{
    Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, LadderRung, PrepareResult, PreparedRung,
    RungClock, RungLabel, RungLimit, RungSet, Sweep, SweepScale, SweepSeries, Work,
};
use crate::primitives::bench::LABEL_IMAGE;
use crate::primitives::label::rungs::{LabelRung, rungs};
use crate::primitives::label::{
    Connectivity, Label, LabelStrategy, MaskShape, RunTiles, Threshold, label_on_cpu, label_reference,
    threshold_on_cpu,
};
use crate::rungs::gravity::ThreadCount;

pub static LADDER: LadderEntry = LadderEntry {
    name: "label",
    description: "Connected components of a random image at its percolation threshold",
    title: "connected components",
    size_unit: "pixels",
    host_bytes: |n| (n as u64).saturating_mul(9),
    sizes: DefaultSizes { gpu: 1 << 26, opencl_cpu: 1 << 18, host: 1 << 24 },
    counted: Counted {
        item: "pixel",
        rate_unit: "pixels/s",
        heading: "Gpix/s",
        to_column: |rate| rate / 1e9,
    },
    rungs: &[RungSet::of::<LabelRung>()],
    measure,
};

/// Site percolation threshold of the square lattice: above it a component spans the image. Near it
/// components are large and have long, winding paths, which is the hardest case.
const CRITICAL_FRACTION: f32 = 0.593;
/// Fractions of set pixels of the sweeps.
const FRACTIONS: [f32; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, CRITICAL_FRACTION, 0.7, 0.8, 0.9];
/// Bytes of the mask that are read and of the label that is written, per pixel.
const BYTES_PER_PIXEL: f64 = 5.0;
const WORK: Work = Work { flops: None, bytes: Some(BYTES_PER_PIXEL) };
/// Largest number of pixels for one thread of the CPU, which labels about 2e7 per second.
const MAX_SERIAL_PIXELS: usize = 1 << 22;
/// Largest number of pixels for the sweep over properties of the components.
const MAX_COUNTED_PIXELS: usize = 1 << 20;
/// Longest run of a rung that sweeps over the image until nothing changes, in seconds.
const MAX_SWEEP_SECONDS: f64 = 0.5;

/// Returns the largest square with at most `n` pixels.
fn square_of(n: usize) -> MaskShape {
    MaskShape::image(n.isqrt(), n.isqrt())
}

/// Returns an image of random numbers from 0 to 1. The fraction p of its pixels is above 1 - p.
fn random_image(n: usize) -> Vec<f32> {
    let pixel = |index: u64| (random_bits(index) >> 40) as f32 / (1 << 24) as f32;
    (0..n as u64).into_par_iter().map(pixel).collect()
}

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let image = random_image(square_of(request.n).pixel_count());
    ladder.roof = ladder.host_roofs.copy_roof();
    measure_on_host(request, ladder, &image)?;
    if let Some(device) = request.device {
        ladder.use_copy_roof_of(device)?;
        measure_on_device(request, ladder, device)?;
    }
    (request.progress)("percolation");
    ladder.sweeps.push(sweep_components(&image[..image.len().min(MAX_COUNTED_PIXELS)]));
    Ok(())
}

fn measure_on_host(
    request: &mut LadderRequest,
    ladder: &mut Ladder,
    image: &[f32],
) -> Result<(), MeasureError> {
    type LabelFunction = fn(MaskShape, Connectivity, &[u8], &mut [u32]) -> u32;
    let [one, all] = [build_thread_pool(ThreadCount::One)?, build_thread_pool(ThreadCount::All)?];
    let (mut mask, mut labels) = (vec![0; image.len()], vec![0; image.len()]);
    threshold_on_cpu(image, 1.0 - CRITICAL_FRACTION, &mut mask);
    let serial = image.len().min(MAX_SERIAL_PIXELS);
    let functions: [(&str, &str, _, usize, LabelFunction); 3] = [
        (
            "CPU, one thread, flood fill",
            "breadth-first, from each first pixel",
            &one,
            serial,
            label_reference,
        ),
        ("CPU, one thread, union-find", "two passes over runs of pixels", &one, serial, label_on_cpu),
        ("CPU, all cores", "strips of rows, then their borders", &all, image.len(), label_on_cpu),
    ];
    for (name, note, pool, n, label) in functions {
        let shape = square_of(n);
        let n = shape.pixel_count();
        let run = || pool.install(|| label(shape, Connectivity::Faces, &mask[..n], &mut labels[..n]));
        let prepared = PreparedRung::on_host(n, n as f64, run).with_work(WORK, RungLimit::Bandwidth);
        ladder.measure_prepared(request, name, note, prepared)?;
    }
    Ok(())
}

fn measure_on_device(
    request: &mut LadderRequest,
    ladder: &mut Ladder,
    device: &Device,
) -> Result<(), MeasureError> {
    let shape = square_of(request.n);
    let tuned = request.tuning.and_then(|tuning| tuning.tuned_candidate(LABEL_IMAGE, shape.pixel_count()));
    let tiles = tuned.map_or_else(RunTiles::default, |candidate| RunTiles::CANDIDATES[candidate]);
    let images = LabelRung::new_input(device, request.n)?;
    let threshold_times = time_rung_on_device(device, || images.queue_threshold())?;
    let threshold_rate = BYTES_PER_PIXEL * shape.pixel_count() as f64 / threshold_times.median();
    ladder.remarks.extend([
        format!("{0} x {0} pixels, {CRITICAL_FRACTION} of them set, neighbours share a side", shape.rows),
        "5 bytes per pixel: one of the mask is read, four of the label are written".to_owned(),
        format!("threshold of the image, not counted: {}", format_rate(threshold_rate, "B/s")),
        format!("runs in tiles of {}{}", tiles.name(), if tuned.is_some() { " (tuned)" } else { "" }),
    ]);
    ladder.measure_rungs(request, &rungs(tiles), &images)?;
    (request.progress)("fractions of set pixels");
    ladder.sweeps.push(images.sweep_fractions(tiles, shape)?);
    Ok(())
}

impl LadderRung for LabelRung {
    type Input = LabelImages;

    fn all(_: &Device) -> Vec<Self> {
        rungs(RunTiles::default()).to_vec()
    }

    fn new_input(device: &Device, n: usize) -> Result<LabelImages, MeasureError> {
        let image = random_image(square_of(n).pixel_count());
        let images = LabelImages {
            device: device.clone(),
            threshold: Threshold::new(device)?,
            image: device.upload(&image)?,
            mask: device.zeros(image.len())?,
            count: device.zeros(1)?,
        };
        images.queue_threshold()?;
        Ok(images)
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel::new(self.name, self.note)
    }

    /// Sweeps over the image until nothing changes take long.
    fn max_seconds(&self) -> Option<f64> {
        let has_sweeps = matches!(self.strategy, LabelStrategy::Propagation | LabelStrategy::Wavefront);
        has_sweeps.then_some(MAX_SWEEP_SECONDS)
    }

    fn prepare<'a>(&'a self, images: &'a LabelImages, n: usize, _: usize) -> PrepareResult<'a> {
        let LabelImages { device, count, .. } = images;
        let shape = square_of(n);
        let (mut label, mask, labels) = images.prepare(self.strategy, shape)?;
        let (kernel, n) = (label.main_kernel(), shape.pixel_count());
        let kernel = kernel_use(kernel.0, kernel.1);
        let launch = move || label.launch(device.queue(), &mask, &labels, count);
        let prepared = PreparedRung::new(RungClock::of(device), n, n as f64, launch);
        Ok(Some(prepared.with_work(WORK, RungLimit::Bandwidth).with_kernel(kernel)))
    }
}

/// Image, and its mask at the percolation threshold, on a device.
pub struct LabelImages {
    device: Device,
    threshold: Threshold,
    image: Buffer<f32>,
    mask: Buffer<u8>,
    count: Buffer<u32>,
}

impl LabelImages {
    /// Queues the threshold. The mask has its result.
    fn queue_threshold(&self) -> Result<(), DeviceError> {
        self.threshold.launch(self.device.queue(), &self.image, 1.0 - CRITICAL_FRACTION, &self.mask)
    }

    /// Compiles a strategy and returns it with a mask of the first pixels and memory for the
    /// labels.
    fn prepare(
        &self,
        strategy: LabelStrategy,
        shape: MaskShape,
    ) -> Result<(Label, Buffer<u8>, Buffer<u32>), DeviceError> {
        let label = Label::with_strategy(&self.device, shape, Connectivity::Faces, strategy)?;
        let mask = self.device.zeros(shape.pixel_count())?;
        self.device.queue().copy(self.mask.range(..mask.len())?, &mask)?;
        Ok((label, mask, self.device.zeros(shape.pixel_count())?))
    }

    /// Measures the strategies without sweeps for all fractions of set pixels.
    fn sweep_fractions(&self, tiles: RunTiles, shape: MaskShape) -> Result<Sweep, DeviceError> {
        let strategies = [
            ("all pixels", LabelStrategy::UnionFind),
            ("tiles", LabelStrategy::TileMerge),
            ("runs", LabelStrategy::Runs(tiles)),
        ];
        let mut series = Vec::new();
        for (name, strategy) in strategies {
            let (mut label, mask, labels) = self.prepare(strategy, shape)?;
            let mut points = Vec::new();
            for fraction in FRACTIONS {
                self.threshold.launch(self.device.queue(), &self.image, 1.0 - fraction, &mask)?;
                let times = time_rung_on_device(&self.device, || {
                    label.launch(self.device.queue(), &mask, &labels, &self.count)
                })?;
                points.push(Some(shape.pixel_count() as f64 / times.median() / 1e9));
            }
            series.push(SweepSeries { name: name.to_owned(), points });
        }
        Ok(Sweep {
            title: "labels by fraction of set pixels".to_owned(),
            parameter: "fraction",
            unit: "Gpixel/s",
            x_scale: SweepScale::Linear,
            y_scale: SweepScale::Log,
            values: FRACTIONS.map(f64::from).to_vec(),
            series,
        })
    }
}

/// Counts components on the CPU: their number per pixel, and the share of the set pixels that
/// belong to the largest one.
fn sweep_components(image: &[f32]) -> Sweep {
    let shape = square_of(image.len());
    let n = shape.pixel_count();
    let (mut mask, mut labels) = (vec![0; n], vec![0; n]);
    let (mut largest_shares, mut numbers) = (Vec::new(), Vec::new());
    for fraction in FRACTIONS {
        threshold_on_cpu(&image[..n], 1.0 - fraction, &mut mask);
        let count = label_on_cpu(shape, Connectivity::Faces, &mask, &mut labels);
        let mut sizes = vec![0usize; count as usize + 1];
        labels.iter().for_each(|label| sizes[*label as usize] += 1);
        let set = n - sizes[0];
        let largest = sizes[1..].iter().max().copied().unwrap_or(0);
        largest_shares.push(Some(largest as f64 / set.max(1) as f64));
        numbers.push(Some(f64::from(count) / n as f64));
    }
    let series = |name: &str, points| SweepSeries { name: name.to_owned(), points };
    Sweep {
        title: format!("components of {0} x {0} random pixels", shape.rows),
        parameter: "fraction",
        unit: "share",
        x_scale: SweepScale::Linear,
        y_scale: SweepScale::Linear,
        values: FRACTIONS.map(f64::from).to_vec(),
        series: vec![series("largest / set", largest_shares), series("number / all", numbers)],
    }
}

#[cfg(test)]
mod tests {
    use orrery_draw::picture::{Image, body_colour, write_png};

    use super::*;

    /// Below the threshold all components are small, above it one has nearly all pixels. The number
    /// of components per pixel is p (1 - p)^4 for single pixels alone, which is a lower bound, and
    /// p for pixels without any neighbours, an upper bound.
    #[test]
    fn the_largest_component_appears_at_the_threshold() {
        let sweep = sweep_components(&random_image(1 << 16));
        let [shares, numbers] = [0, 1].map(|series| sweep.series[series].points.clone());
        for (i, fraction) in FRACTIONS.into_iter().map(f64::from).enumerate() {
            let (share, number) = (shares[i].unwrap(), numbers[i].unwrap());
            assert!(if fraction < 0.55 { share < 0.1 } else { fraction < 0.65 || share > 0.9 }, "{share}");
            // The standard deviation of the number of single pixels is below 0.0004 per pixel.
            let single = fraction * (1.0 - fraction).powi(4);
            assert!(number > single - 0.002 && number < fraction, "{fraction}: {number}");
        }
    }

    /// Draws the components of three images next to each other, 128 x 128 pixels each. Every
    /// component has a random colour, and the largest one is white.
    #[test]
    #[ignore = "writes docs/lab/label.png"]
    fn draw_components() {
        let (side, scale, gap) = (128, 2, 8);
        let shape = MaskShape::image(side, side);
        let image = random_image(shape.pixel_count());
        let fractions = [0.5, CRITICAL_FRACTION, 0.7];
        let width = fractions.len() * (side * scale + gap) - gap;
        let mut picture = Image::filled(width as u32, (side * scale) as u32, [255, 255, 255]);
        let (mut mask, mut labels) = (vec![0; image.len()], vec![0; image.len()]);
        for (panel, fraction) in fractions.into_iter().enumerate() {
            threshold_on_cpu(&image, 1.0 - fraction, &mut mask);
            let count = label_on_cpu(shape, Connectivity::Faces, &mask, &mut labels);
            let mut sizes = vec![0; count as usize + 1];
            labels.iter().for_each(|label| sizes[*label as usize] += 1);
            let largest = (1..sizes.len()).max_by_key(|label| sizes[*label]).unwrap();
            for y in 0..side * scale {
                for x in 0..side * scale {
                    let label = labels[y / scale * side + x / scale] as usize;
                    let colour = match label {
                        0 => [8, 9, 16],
                        _ if label == largest => [255, 255, 255],
                        _ => body_colour(random_bits(label as u64) as usize % 1000),
                    };
                    let at = 3 * (y * width + panel * (side * scale + gap) + x);
                    picture.rgb[at..at + 3].copy_from_slice(&colour);
                }
            }
        }
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/label.png");
        write_png(&path, &picture, &[]).unwrap();
    }
}
