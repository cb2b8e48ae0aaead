//! Minimum, maximum and heat content of a field on a device: compiles and launches `measures.cu`.

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue};

use super::slab::{DeviceHeatSlab, row_pitch};
use crate::Scalar;
use crate::heat::{FieldMeasures, Plate};
use crate::pixels::{larger, smaller};

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

/// The kernels, and buffers for their results.
#[derive(Debug)]
pub(super) struct HeatMeasureKernels<R: Scalar> {
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

impl<R: Scalar> HeatMeasureKernels<R> {
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
        slab: &DeviceHeatSlab<R>,
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

    /// Waits for the measures of the rows. Their heat contents are sums of u w_x, divided by
    /// c_min/c of each node.
    pub(super) fn read(&self, queue: &Queue) -> Result<Vec<FieldMeasures>, DeviceError> {
        let mut extrema = vec![R::default(); self.extrema.len()];
        let mut sums = vec![0.0; self.sums.len()];
        queue.read(&self.extrema, &mut extrema)?;
        queue.read(&self.sums, &mut sums)?;
        let of_row = |(extrema, sums): (&[R], &[f64])| {
            let mut row = FieldMeasures { heat_content: sums.iter().sum(), ..FieldMeasures::NONE };
            for segment in extrema.chunks_exact(2) {
                row.min = smaller(row.min, segment[0].to_f64());
                row.max = larger(row.max, segment[1].to_f64());
            }
            row
        };
        let rows = extrema.chunks_exact(2 * self.segments).zip(sums.chunks_exact(self.segments));
        Ok(rows.map(of_row).collect())
    }

    /// Queues the gathering of the outer columns of a slab.
    pub(super) fn launch_gather(
        &self,
        queue: &Queue,
        plate: &Plate<R>,
        slab: &DeviceHeatSlab<R>,
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
