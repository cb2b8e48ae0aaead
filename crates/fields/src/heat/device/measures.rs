//! Minimum, maximum and heat content of a field on a device: compiles and launches `measures.cu`.

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue};

use super::slab::{Slab, row_pitch};
use crate::Scalar;
use crate::heat::Plate;

// SAFETY: `measure_rows` reads nx columns of rows that the buffer stores, and writes the results of
// the segments of these rows. `gather_columns` reads columns 0, 1, nx - 2 and nx - 1 of such rows,
// and nx is at least 3. The launches below allocate the targets.
const MEASURES: KernelFile = unsafe { KernelFile::new("measures.cu", include_str!("measures.cu")) };

/// Threads per block.
const BLOCK_SIZE: u32 = 256;
/// Columns that a block reads. Fixed, because it determines the order of a sum.
const SEGMENT_COLUMNS: usize = 1 << 14;
/// Largest number of blocks along y.
const MAX_BLOCKS_Y: i64 = 65_535;

/// Measures of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldMeasures {
    /// Smallest value. NaN if a value is NaN.
    pub min: f64,
    /// Largest value. NaN if a value is NaN.
    pub max: f64,
    /// Heat content: the sum of c u w_x w_y hx hy, where w is 1/2 on edges that are not periodic.
    pub heat_content: f64,
}

impl FieldMeasures {
    /// Measures of no nodes.
    pub(in crate::heat) const NONE: Self =
        Self { min: f64::INFINITY, max: f64::NEG_INFINITY, heat_content: 0.0 };

    /// Multiplies a sum of u w_x w_y, divided by c_min/c of each node, by the area of a cell and
    /// c_min.
    pub(in crate::heat) fn scaled<R>(self, plate: &Plate<R>) -> Self {
        let factor = plate.grid.hx * plate.grid.hy * plate.heat_capacity;
        Self { heat_content: self.heat_content * factor, ..self }
    }
}

/// The kernels, and buffers for their results.
#[derive(Debug)]
pub(super) struct Measures<R: Scalar> {
    measure_rows: Kernel,
    gather_columns: Kernel,
    /// Segments per row.
    segments: usize,
    /// Results of all segments of the rows of the slab.
    extrema: Buffer<R>,
    sums: Buffer<f64>,
    /// Columns 0, 1, nx - 2 and nx - 1, each with one value per row of the slab.
    columns: Buffer<R>,
}

/// Results of all rows of a slab.
#[derive(Debug)]
pub(in crate::heat) struct RowMeasures<R> {
    /// Segments per row.
    segments: usize,
    /// Smallest and largest value of each segment.
    extrema: Vec<R>,
    /// Sum of u w_x of each segment, divided by c_min/c of each node.
    sums: Vec<f64>,
}

impl<R: Scalar> Measures<R> {
    /// Compiles the kernels, for a slab of `rows` rows.
    pub(super) fn new(device: &Device, plate: &Plate<R>, rows: usize) -> Result<Self, DeviceError> {
        let definitions = [
            ("REAL", R::KERNEL_NAME.to_owned()),
            ("BLOCK_SIZE", BLOCK_SIZE.to_string()),
            ("SEGMENT_COLUMNS", SEGMENT_COLUMNS.to_string()),
            ("HAS_CAPACITY", u32::from(plate.capacity_ratio.is_some()).to_string()),
        ];
        let module = device.build(&MEASURES, &definitions, Math::Precise)?;
        let segments = plate.grid.nx.div_ceil(SEGMENT_COLUMNS);
        Ok(Self {
            measure_rows: module.kernel("measure_rows")?,
            gather_columns: module.kernel("gather_columns")?,
            segments,
            extrema: device.zeros(2 * segments * rows)?,
            sums: device.zeros(segments * rows)?,
            columns: device.zeros(4 * rows)?,
        })
    }

    /// Returns the bytes of the result buffers for `nx` x `ny` nodes.
    pub(super) fn needed_bytes(nx: usize, ny: usize) -> u64 {
        let bytes_per_segment = 2 * size_of::<R>() + 8;
        (ny as u64) * (nx.div_ceil(SEGMENT_COLUMNS) * bytes_per_segment + 4 * size_of::<R>()) as u64
    }

    /// Queues the measures of the owned rows of a slab. `field` is one of its two buffers.
    pub(super) fn launch(
        &self,
        queue: &Queue,
        plate: &Plate<R>,
        slab: &Slab<R>,
        field: &Buffer<R>,
    ) -> Result<(), DeviceError> {
        let rows = slab.owned.end - slab.owned.start;
        let args = [
            field.into(),
            (plate.grid.nx as i32).into(),
            (row_pitch::<R>(plate.grid.nx) as i32).into(),
            ((slab.owned.start - slab.stored.start) as i32).into(),
            (rows as i32).into(),
            i32::from(!plate.boundaries.is_periodic_in_x()).into(),
            (&self.extrema).into(),
            (&self.sums).into(),
            (&slab.capacity_ratio).into(),
        ];
        let grid = [self.segments as u32, rows.min(MAX_BLOCKS_Y) as u32];
        queue.launch(&self.measure_rows, grid, BLOCK_SIZE, &args)
    }

    /// Waits for the measures of the rows.
    pub(super) fn read(&self, queue: &Queue) -> Result<RowMeasures<R>, DeviceError> {
        let mut extrema = vec![R::default(); self.extrema.len()];
        let mut sums = vec![0.0; self.sums.len()];
        queue.read(&self.extrema, &mut extrema)?;
        queue.read(&self.sums, &mut sums)?;
        Ok(RowMeasures { segments: self.segments, extrema, sums })
    }

    /// Queues the gathering of the outer columns of a slab.
    pub(super) fn launch_gather(
        &self,
        queue: &Queue,
        plate: &Plate<R>,
        slab: &Slab<R>,
        field: &Buffer<R>,
    ) -> Result<(), DeviceError> {
        let rows = slab.owned.end - slab.owned.start;
        let args = [
            field.into(),
            (plate.grid.nx as i32).into(),
            (row_pitch::<R>(plate.grid.nx) as i32).into(),
            ((slab.owned.start - slab.stored.start) as i32).into(),
            (rows as i32).into(),
            (&self.columns).into(),
        ];
        queue.launch(&self.gather_columns, (rows as u32).div_ceil(BLOCK_SIZE), BLOCK_SIZE, &args)
    }

    /// Waits for the gathered columns 0, 1, nx - 2 and nx - 1, each with one value per row.
    pub(super) fn read_columns(&self, queue: &Queue) -> Result<Vec<R>, DeviceError> {
        let mut columns = vec![R::default(); self.columns.len()];
        queue.read(&self.columns, &mut columns)?;
        Ok(columns)
    }
}

impl<R: Scalar> RowMeasures<R> {
    /// Adds the measures of the rows, the first of which is row `first` of the plate, to those of
    /// earlier rows. The heat content is without its factor.
    pub(in crate::heat) fn added_to(
        &self,
        earlier: FieldMeasures,
        plate: &Plate<R>,
        first: usize,
    ) -> FieldMeasures {
        let row_sum = |(row, segments): (usize, &[f64])| {
            let is_half = !plate.boundaries.is_periodic_in_y() && (row == 0 || row == plate.grid.ny - 1);
            segments.iter().sum::<f64>() * if is_half { 0.5 } else { 1.0 }
        };
        let row_sums = (first..).zip(self.sums.chunks_exact(self.segments)).map(row_sum);
        let pick = |column: usize, start: f64, is_better: fn(f64, f64) -> bool| {
            let values = self.extrema.iter().skip(column).step_by(2).map(|value| value.to_f64());
            values.fold(
                start,
                |best, value| if is_better(value, best) || value.is_nan() { value } else { best },
            )
        };
        FieldMeasures {
            min: pick(0, earlier.min, |value, best| value < best),
            max: pick(1, earlier.max, |value, best| value > best),
            heat_content: row_sums.fold(earlier.heat_content, |sum, row| sum + row),
        }
    }
}
