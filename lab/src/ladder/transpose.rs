//! Ladder of transposes: a square matrix of f32, for tiles of two sizes.

use orrery_device::{Buffer, Device, DeviceError, Element};
use orrery_measure::MeasureError;
use orrery_measure::timing::Times;
use rayon::prelude::*;

use super::repeats::time_rung_on_device;
use super::rung::kernel_use;
use super::{
    BYTES, CheckedRung, DefaultSizes, Ladder, LadderEntry, LadderRequest, LadderRung, Parameter,
    PrepareResult, PreparedRung, RungClock, RungLabel, RungLimit, RungSet, ShownValue, Sweep, SweepScale,
    SweepSeries, Work,
};
use crate::primitives::bench::TRANSPOSE_F32;
use crate::primitives::transpose::rungs::{RungTranspose, TILES, TransposeRung, TransposeVariant, rungs};
use crate::primitives::transpose::{
    MatrixShape, Transpose, TransposeInPlace, TransposeStrategy, selftest, transpose_on_cpu,
    transpose_reference,
};

pub static LADDER: LadderEntry = LadderEntry {
    name: "transpose",
    description: "Transpose of a square matrix, for two tile sizes",
    title: "transpose of f32",
    size_unit: "numbers",
    host_bytes: |n| (n as u64).saturating_mul(8),
    sizes: DefaultSizes { gpu: 1 << 28, opencl_cpu: 1 << 20, host: 1 << 24 },
    counted: BYTES,
    rungs: &[RungSet::of::<TransposeRung>()],
    measure,
};

/// Bytes that are read and written per number.
const BYTES_PER_NUMBER: f64 = 8.0;
/// Each counted byte is read or written once.
const WORK: Work = Work { flops: None, bytes: Some(1.0) };
/// Largest number of elements for the reference, which transposes about 2e8 per second.
const MAX_SERIAL_NUMBERS: usize = 1 << 24;

/// Returns the largest square with at most `n` elements.
fn square_of(n: usize) -> MatrixShape {
    MatrixShape::square(n.isqrt())
}

/// Input and output on a device, and the strategy of the tuner for the production kernel.
pub struct TransposeMatrices {
    shape: MatrixShape,
    from: Buffer<f32>,
    to: Buffer<f32>,
    tuned: Option<TransposeStrategy>,
}

impl TransposeMatrices {
    fn zeros(device: &Device, side: usize) -> Result<Self, DeviceError> {
        let shape = MatrixShape::square(side);
        let n = shape.element_count();
        Ok(Self { shape, from: device.zeros(n)?, to: device.zeros(n)?, tuned: None })
    }

    /// Builds a variant. Returns `None` if the device does not support the tile.
    fn build(&self, variant: TransposeVariant, tile: u32) -> Result<Option<RungTranspose>, DeviceError> {
        let device = self.from.device();
        match (variant, self.tuned) {
            (TransposeVariant::Production, Some(strategy)) => {
                let transpose = Transpose::with_strategy(device, self.shape, strategy)?;
                Ok(Some(RungTranspose::production(transpose)))
            }
            _ if variant.has_tile_parameter() && tile * tile > device.properties().max_block_size => Ok(None),
            _ => RungTranspose::new(device, variant, tile, self.shape).map(Some),
        }
    }
}

impl LadderRung for TransposeRung {
    type Input = TransposeMatrices;

    const VALUES: usize = TILES.len();

    fn all(_: &Device) -> Vec<Self> {
        rungs().to_vec()
    }

    fn new_input(device: &Device, n: usize) -> Result<TransposeMatrices, MeasureError> {
        let (shape, tuned) = (square_of(n), None);
        let (from, to) = (device.upload(&example_numbers(shape))?, device.zeros(shape.element_count())?);
        Ok(TransposeMatrices { shape, from, to, tuned })
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel::new(self.name, self.note)
    }

    fn has_parameter(&self) -> bool {
        self.variant.has_tile_parameter()
    }

    fn prepare<'a>(&'a self, matrices: &'a TransposeMatrices, _: usize, value: usize) -> PrepareResult<'a> {
        let Some(transpose) = matrices.build(self.variant, TILES[value])? else { return Ok(None) };
        let (device, n) = (matrices.from.device(), matrices.from.len());
        let kernel = kernel_use(transpose.kernel(), transpose.block_size());
        let launch = move || transpose.launch(device.queue(), &matrices.from, &matrices.to);
        let prepared = PreparedRung::new(RungClock::of(device), n, BYTES_PER_NUMBER * n as f64, launch);
        Ok(Some(prepared.with_work(WORK, RungLimit::Bandwidth).with_kernel(kernel)))
    }
}

impl CheckedRung for TransposeRung {
    fn check(&self, device: &Device) -> Result<(), String> {
        selftest::check_variant(device, self.variant)
    }
}

fn example_numbers(shape: MatrixShape) -> Vec<f32> {
    (0..shape.element_count()).into_par_iter().map(|i| i as f32).collect()
}

fn measure_on_host(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    type TransposeOnHost = fn(MatrixShape, &[f32], &mut [f32]);
    let shape = square_of(request.n);
    let (numbers, mut result) = (example_numbers(shape), vec![0.0; shape.element_count()]);
    let serial = square_of(request.n.min(MAX_SERIAL_NUMBERS));
    let transposes: [(&str, MatrixShape, TransposeOnHost); 2] =
        [("CPU, one thread", serial, transpose_reference), ("CPU, all cores", shape, transpose_on_cpu)];
    for (name, shape, transpose) in transposes {
        let n = shape.element_count();
        let run = || transpose(shape, &numbers[..n], &mut result[..n]);
        let prepared = PreparedRung::on_host(n, BYTES_PER_NUMBER * n as f64, run);
        ladder.measure_prepared(request, name, "", prepared.with_work(WORK, RungLimit::Bandwidth))?;
    }
    Ok(())
}

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    ladder.roof = ladder.host_roofs.copy_roof();
    measure_on_host(request, ladder)?;
    let Some(device) = request.device else { return Ok(()) };
    let shape = square_of(request.n);
    let n = shape.element_count();
    ladder.use_copy_roof_of(device)?;
    ladder.remarks.push(format!("{0} x {0} numbers, bytes read and written are counted", shape.rows));
    let values = TILES.map(|tile| tile.to_string()).to_vec();
    ladder.parameter = Some(Parameter { name: "tile", values, shown: ShownValue::Fastest });
    let tuned = request.tuning.and_then(|tuning| tuning.tuned_candidate(TRANSPOSE_F32, n));
    let tuned = tuned.map(|candidate| TransposeStrategy::CANDIDATES[candidate]);
    if let Some(strategy) = tuned {
        ladder.remarks.push(format!("tuned: {}", strategy.name()));
    }
    let matrices = TransposeMatrices { tuned, ..TransposeRung::new_input(device, request.n)? };
    ladder.measure_rungs(request, &rungs(), &matrices)?;
    drop(matrices);
    (request.progress)("sides of the matrix");
    ladder.sweeps.push(sweep_sides(device, shape.rows)?);
    (request.progress)("element sizes");
    ladder.sweeps.push(sweep_element_sizes(device, n * size_of::<f32>())?);
    Ok(())
}

/// Rungs that are measured over the side of the matrix, with names of columns.
const SWEPT_RUNGS: [(&str, TransposeVariant); 5] = [
    ("copy", TransposeVariant::Copy),
    ("naive", TransposeVariant::Naive),
    ("padded tile", TransposeVariant::PaddedTile),
    ("diagonal", TransposeVariant::Diagonal),
    ("16 bytes", TransposeVariant::Production),
];

/// Measures rungs with tiles of 32 x 32 for powers of two times `side`, and for sides that are 32
/// smaller. On GPUs without a hash of addresses the former have all rows of a column in one
/// partition of the memory.
fn sweep_sides(device: &Device, side: usize) -> Result<Sweep, DeviceError> {
    let tile = TILES[1];
    let sides = [8, 4, 2, 1].into_iter().flat_map(|part| [(side / part).saturating_sub(32), side / part]);
    let mut sides: Vec<usize> = sides.filter(|side| *side > 0).collect();
    sides.sort_unstable();
    sides.dedup();
    let mut series =
        SWEPT_RUNGS.map(|(name, _)| SweepSeries { name: name.to_owned(), points: Vec::new() }).to_vec();
    for &side in &sides {
        let matrices = TransposeMatrices::zeros(device, side)?;
        for ((_, variant), series) in SWEPT_RUNGS.into_iter().zip(&mut series) {
            let time = |transpose: RungTranspose| -> Result<f64, DeviceError> {
                let launch = || transpose.launch(device.queue(), &matrices.from, &matrices.to);
                let seconds = time_rung_on_device(device, launch)?.median();
                Ok(BYTES_PER_NUMBER * matrices.from.len() as f64 / seconds / 1e9)
            };
            series.points.push(matrices.build(variant, tile)?.map(time).transpose()?);
        }
    }
    Ok(Sweep {
        title: "transpose by side of the matrix, tiles of 32".to_owned(),
        parameter: "rows and columns",
        unit: "GB/s",
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Linear,
        values: sides.into_iter().map(|side| side as f64).collect(),
        series,
    })
}

/// Measures the production kernels for matrices of about `bytes` bytes with elements of 1 to 16
/// bytes.
fn sweep_element_sizes(device: &Device, bytes: usize) -> Result<Sweep, DeviceError> {
    let rates = [
        element_rates::<u8>(device, bytes)?,
        element_rates::<u16>(device, bytes)?,
        element_rates::<f32>(device, bytes)?,
        element_rates::<u64>(device, bytes)?,
        element_rates::<[f32; 4]>(device, bytes)?,
    ];
    let series = |name: &str, index: usize| SweepSeries {
        name: name.to_owned(),
        points: rates.iter().map(|rates| Some(rates[index])).collect(),
    };
    Ok(Sweep {
        title: "production kernel by bytes per element".to_owned(),
        parameter: "bytes per element",
        unit: "GB/s",
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Linear,
        values: vec![1.0, 2.0, 4.0, 8.0, 16.0],
        series: vec![series("two matrices", 0), series("in place", 1)],
    })
}

/// Returns the GB/s of a transpose into a second matrix and of one in place.
fn element_rates<T: Element>(device: &Device, bytes: usize) -> Result<[f64; 2], DeviceError> {
    // A multiple of four, so that all sizes use vectors.
    let side = ((bytes / size_of::<T>()).isqrt() / 4 * 4).max(1);
    let shape = MatrixShape::square(side);
    let (from, to) = (device.zeros::<T>(shape.element_count())?, device.zeros(shape.element_count())?);
    let transpose = Transpose::new(device, shape)?;
    let in_place = TransposeInPlace::new(device, side)?;
    let rate = |times: Times| 2.0 * (size_of::<T>() * shape.element_count()) as f64 / times.median() / 1e9;
    Ok([
        rate(time_rung_on_device(device, || transpose.launch(device.queue(), &from, &to))?),
        rate(time_rung_on_device(device, || in_place.launch(device.queue(), &from))?),
    ])
}
