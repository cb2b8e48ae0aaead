//! Ladder of transposes: a square matrix of f32, for tiles of two sizes.

use orrery_device::{Buffer, Device, DeviceError, Element};
use orrery_measure::MeasureError;
use orrery_measure::timing::Times;
use rayon::prelude::*;

use super::repeats::{time_rung_on_cpu, time_rung_on_device};
use super::{
    BYTES, DefaultSizes, Ladder, LadderEntry, LadderRequest, Parameter, Roofs, RungResult, Scale, ShownValue,
    Sweep, SweepSeries, TimedRuns, Work,
};
use crate::primitives::bench::TRANSPOSE_F32;
use crate::primitives::transpose::rungs::{RungTranspose, TILES, TransposeRung, TransposeVariant, rungs};
use crate::primitives::transpose::{
    MatrixShape, Transpose, TransposeInPlace, TransposeStrategy, transpose_on_cpu, transpose_reference,
};

pub static LADDER: LadderEntry = LadderEntry {
    name: "transpose",
    description: "Transpose of a square matrix, for two tile sizes",
    title: "transpose of f32",
    size_unit: "numbers",
    host_bytes: |n| (n as u64).saturating_mul(8),
    sizes: DefaultSizes { gpu: 1 << 28, opencl_cpu: 1 << 20, host: 1 << 24 },
    counted: BYTES,
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

fn timed(shape: MatrixShape, times: Times) -> TimedRuns {
    let n = shape.element_count();
    TimedRuns { n, items: BYTES_PER_NUMBER * n as f64, times }
}

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let shape = square_of(request.n);
    let numbers: Vec<f32> = (0..shape.element_count()).into_par_iter().map(|i| i as f32).collect();
    let mut result = vec![0.0; numbers.len()];
    ladder.roof = ladder.host_roofs.copy_roof();
    let host_roof = ladder.host_roofs.bandwidth;
    let mut add_on_cpu = |name, shape: MatrixShape, transpose: fn(MatrixShape, &[f32], &mut [f32])| {
        (request.progress)(name);
        let n = shape.element_count();
        let times = time_rung_on_cpu(|| transpose(shape, &numbers[..n], &mut result[..n]));
        ladder.add_rung(RungResult {
            work: WORK,
            roof: host_roof,
            ..RungResult::new(name, &timed(shape, times))
        });
    };
    add_on_cpu("CPU, one thread", square_of(request.n.min(MAX_SERIAL_NUMBERS)), transpose_reference);
    add_on_cpu("CPU, all cores", shape, transpose_on_cpu);

    let Some(device) = request.device else { return Ok(()) };
    ladder.roofs = Roofs::of_device(device)?;
    ladder.roof = ladder.roofs.copy_roof();
    ladder.remarks.push(format!("{0} x {0} numbers, bytes read and written are counted", shape.rows));
    let values = TILES.map(|tile| tile.to_string()).to_vec();
    ladder.parameter = Some(Parameter { name: "tile", values, shown: ShownValue::Fastest });
    let matrices =
        TransposeMatrices { shape, from: device.upload(&numbers)?, to: device.zeros(numbers.len())? };
    let tuned = request.tuning.and_then(|tuning| tuning.tuned_candidate(TRANSPOSE_F32, numbers.len()));
    let tuned = tuned.map(|candidate| TransposeStrategy::CANDIDATES[candidate]);
    if let Some(strategy) = tuned {
        ladder.remarks.push(format!("tuned: {}", strategy.name()));
    }
    for rung in rungs() {
        (request.progress)(rung.name);
        let Some(result) = matrices.time_rung(device, rung, tuned)? else { continue };
        let (note, roof) = (rung.note.to_owned(), ladder.roofs.bandwidth);
        ladder.add_rung(RungResult { note, work: WORK, roof, ..result });
    }
    drop(matrices);
    (request.progress)("sides of the matrix");
    ladder.sweeps.push(sweep_sides(device, shape.rows)?);
    (request.progress)("element sizes");
    ladder.sweeps.push(sweep_element_sizes(device, numbers.len() * size_of::<f32>())?);
    Ok(())
}

/// Input and output on a device.
struct TransposeMatrices {
    shape: MatrixShape,
    from: Buffer<f32>,
    to: Buffer<f32>,
}

impl TransposeMatrices {
    /// Times a rung for all tiles. Returns `None` if the device supports none of them. The
    /// production kernel has the strategy `tuned`, if there is one.
    fn time_rung(
        &self,
        device: &Device,
        rung: TransposeRung,
        tuned: Option<TransposeStrategy>,
    ) -> Result<Option<RungResult>, DeviceError> {
        let compile = |tile| match (rung.variant, tuned) {
            (TransposeVariant::Production, Some(strategy)) => {
                Ok(RungTranspose::production(Transpose::with_strategy(device, self.shape, strategy)?))
            }
            _ => RungTranspose::new(device, rung.variant, tile, self.shape),
        };
        let has_tile = rung.variant.has_tile_parameter();
        let (mut transposes, mut runs) = (Vec::new(), Vec::new());
        for tile in if has_tile { &TILES[..] } else { &TILES[..1] } {
            let is_supported = !has_tile || tile * tile <= device.properties().max_block_size;
            let transpose = is_supported.then(|| compile(*tile)).transpose()?;
            runs.push(transpose.as_ref().map(|transpose| self.time(device, transpose)).transpose()?);
            transposes.push(transpose);
        }
        let result = match has_tile {
            true => RungResult::with_sweep(rung.name, &runs, ShownValue::Fastest),
            false => runs[0].as_ref().map(|runs| RungResult::new(rung.name, runs)),
        };
        let Some(result) = result else { return Ok(None) };
        let shown = transposes.swap_remove(result.value.unwrap_or(0)).expect("a measured tile");
        let resources = shown.kernel().resources();
        Ok(Some(RungResult {
            registers: resources.registers,
            shared_bytes: Some(resources.shared_bytes),
            occupancy: shown.kernel().occupancy(shown.block_size()),
            ..result
        }))
    }

    fn zeros(device: &Device, side: usize) -> Result<Self, DeviceError> {
        let shape = MatrixShape::square(side);
        let n = shape.element_count();
        Ok(Self { shape, from: device.zeros(n)?, to: device.zeros(n)? })
    }

    fn time(&self, device: &Device, transpose: &RungTranspose) -> Result<TimedRuns, DeviceError> {
        let launch = || transpose.launch(device.queue(), &self.from, &self.to);
        Ok(timed(self.shape, time_rung_on_device(device, launch)?))
    }
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
            let is_supported =
                !variant.has_tile_parameter() || tile * tile <= device.properties().max_block_size;
            let measure = || -> Result<f64, DeviceError> {
                let transpose = RungTranspose::new(device, variant, tile, matrices.shape)?;
                Ok(matrices.time(device, &transpose)?.rate() / 1e9)
            };
            series.points.push(is_supported.then(measure).transpose()?);
        }
    }
    Ok(Sweep {
        title: "transpose by side of the matrix, tiles of 32".to_owned(),
        parameter: "rows and columns",
        unit: "GB/s",
        x_scale: Scale::Log,
        y_scale: Scale::Linear,
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
        x_scale: Scale::Log,
        y_scale: Scale::Linear,
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
