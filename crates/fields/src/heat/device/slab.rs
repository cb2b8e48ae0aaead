//! Rows of the grid on a device, and launches of the kernel `heat.cu` on them.
//!
//! A slab owns a range of rows. It stores them twice, for the step before and the step after, with
//! ghost rows on both sides: copies of rows that other slabs own. A pass of n steps needs n ghost
//! rows. At an edge of the grid that is not periodic there are none. A slab with the whole grid has
//! none either, because the kernel wraps its rows.

use std::collections::HashMap;
use std::ops::Range;

use orrery_device::{Buffer, BufferRange, Device, DeviceError, Kernel, KernelFile, Math, Queue};
use orrery_model::grid::{Boundary, Edge};

use super::{HeatDeviceStrategy, StoredField};
use crate::Scalar;
use crate::heat::{Plate, StepCoefficients};

// SAFETY: the kernel reads and writes rows of its buffers, which have `stored_rows * pitch`
// elements, and replaces rows and columns outside them. It writes rows `begin` to `end`, which
// `Slab::launch` checks. `pitch` is a multiple of the columns per lane and of 32 bytes, so vectors
// are aligned. The loops over rows end.
const HEAT: KernelFile = unsafe { KernelFile::new("heat.cu", include_str!("heat.cu")) };

/// Bytes between the starts of two rows are a multiple of this: a sector of a GPU's cache, and the
/// columns of a lane.
const ROW_ALIGNMENT: usize = 32;

/// Returns the elements between the starts of two rows of a field with `nx` columns.
pub(super) fn row_pitch<R>(nx: usize) -> usize {
    nx.next_multiple_of(ROW_ALIGNMENT / size_of::<R>())
}

/// Properties of the problem that determine the kernel's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelVariant {
    pub(super) is_variable: bool,
    pub(super) has_source: bool,
}

/// The kernels of a strategy. A kernel for fewer steps is compiled when it is first needed.
#[derive(Debug)]
pub(super) struct HeatKernels {
    device: Device,
    strategy: HeatDeviceStrategy,
    variant: KernelVariant,
    /// Kernels by steps per pass.
    kernels: HashMap<u32, Kernel>,
}

impl HeatKernels {
    /// Compiles the kernel for the strategy's number of steps per pass.
    pub(super) fn new<R: Scalar>(
        device: &Device,
        strategy: HeatDeviceStrategy,
        variant: KernelVariant,
    ) -> Result<Self, DeviceError> {
        let mut kernels = Self { device: device.clone(), strategy, variant, kernels: HashMap::new() };
        kernels.kernel::<R>(strategy.steps_per_pass)?;
        Ok(kernels)
    }

    /// Returns the properties of the problem that the kernels are compiled for.
    pub(super) fn variant(&self) -> KernelVariant {
        self.variant
    }

    /// Returns the kernel for `steps` steps per pass.
    pub(super) fn kernel<R: Scalar>(&mut self, steps: u32) -> Result<Kernel, DeviceError> {
        if let Some(kernel) = self.kernels.get(&steps) {
            return Ok(kernel.clone());
        }
        let HeatDeviceStrategy {
            vectors_per_lane, rows_in_flight, warps_per_block, min_blocks_per_sm, ..
        } = self.strategy;
        let is_full_pass = steps == self.strategy.steps_per_pass;
        let definitions = [
            ("REAL", R::KERNEL_NAME.to_owned()),
            ("IS_DOUBLE", u32::from(size_of::<R>() == 8).to_string()),
            ("VECTOR", format!("{}{}", R::KERNEL_NAME, vector_width::<R>())),
            ("VECTOR_WIDTH", vector_width::<R>().to_string()),
            ("VECTORS", vectors_per_lane.to_string()),
            ("STEPS", steps.to_string()),
            ("ROWS_IN_FLIGHT", rows_in_flight.to_string()),
            ("WARPS_PER_BLOCK", warps_per_block.to_string()),
            ("MIN_BLOCKS_PER_SM", if is_full_pass { min_blocks_per_sm } else { 1 }.to_string()),
            ("VARIABLE", u32::from(self.variant.is_variable).to_string()),
            ("HAS_SOURCE", u32::from(self.variant.has_source).to_string()),
        ];
        let kernel = self.device.build(&HEAT, &definitions, Math::Precise)?.kernel("advance")?;
        self.kernels.insert(steps, kernel.clone());
        Ok(kernel)
    }
}

/// Numbers in a vector of 16 bytes.
fn vector_width<R>() -> u32 {
    (16 / size_of::<R>()) as u32
}

/// A range of rows on a device.
#[derive(Debug)]
pub(super) struct Slab<R: Scalar> {
    /// Rows that the slab computes.
    pub(super) owned: Range<i64>,
    /// Rows that the buffers contain. Rows below 0 and from ny on are those beyond a periodic edge.
    pub(super) stored: Range<i64>,
    pitch: usize,
    /// State, and the buffer for the next pass.
    pub(super) state: Buffer<R>,
    pub(super) next: Buffer<R>,
    /// Fields that do not change. Not used by the kernel, and as short as possible, if the problem
    /// has none.
    resistivity: Buffer<R>,
    source: Buffer<R>,
    ghost_offsets: Buffer<R>,
}

impl<R: Scalar> Slab<R> {
    /// Uploads rows `owned` of `initial`, which has one value per node, with `ghost_rows` rows on
    /// both sides.
    pub(super) fn new(
        device: &Device,
        plate: &Plate<R>,
        initial: &[R],
        owned: Range<i64>,
        ghost_rows: i64,
    ) -> Result<Self, DeviceError> {
        let (nx, ny) = (plate.grid.nx, plate.grid.ny as i64);
        let with_ghosts = owned.start - ghost_rows..owned.end + ghost_rows;
        let stored = match plate.boundaries.is_periodic_in_y() {
            _ if owned == (0..ny) => owned.clone(),
            true => with_ghosts,
            false => with_ghosts.start.max(0)..with_ghosts.end.min(ny),
        };
        let pitch = row_pitch::<R>(nx);
        let upload_rows = |field: &[R]| {
            let mut rows = vec![R::default(); (stored.end - stored.start) as usize * pitch];
            for (row, target) in stored.clone().zip(rows.chunks_exact_mut(pitch)) {
                let start = row.rem_euclid(ny) as usize * nx;
                target[..nx].copy_from_slice(&field[start..start + nx]);
            }
            device.upload(&rows)
        };
        let upload_optional = |field: &Option<Vec<R>>| match field {
            Some(field) => upload_rows(field),
            None => device.zeros(1),
        };
        let state = upload_rows(initial)?;
        let next = device.zeros(state.len())?;
        Ok(Self {
            resistivity: upload_optional(&plate.resistivity)?,
            source: upload_optional(&plate.source)?,
            ghost_offsets: device.upload(&padded_ghost_offsets(plate, pitch))?,
            owned,
            stored,
            pitch,
            state,
            next,
        })
    }

    /// Returns the elements of a buffer that contain the row range `rows`, which must be stored.
    pub(super) fn rows<'a>(
        &self,
        buffer: &'a Buffer<R>,
        rows: Range<i64>,
    ) -> Result<BufferRange<'a, R>, DeviceError> {
        let element = |row: i64| (row - self.stored.start) as usize * self.pitch;
        buffer.range(element(rows.start)..element(rows.end))
    }

    /// Returns the buffer of a field.
    pub(super) fn field(&self, field: StoredField) -> &Buffer<R> {
        match field {
            StoredField::State => &self.state,
            StoredField::Ahead => &self.next,
        }
    }

    /// Queues `steps` steps of rows `rows`, which must be owned, from the state into `next`.
    pub(super) fn launch(
        &self,
        queue: &Queue,
        kernels: &mut HeatKernels,
        plate: &Plate<R>,
        coefficients: StepCoefficients<R>,
        steps: u32,
        rows: Range<i64>,
    ) -> Result<(), DeviceError> {
        assert!(self.owned.start <= rows.start && rows.end <= self.owned.end, "rows of another slab");
        if rows.is_empty() {
            return Ok(());
        }
        let kernel = kernels.kernel::<R>(steps)?;
        let strategy = &kernels.strategy;
        let block_size = strategy.block_size();
        let strips = plate.grid.nx.div_ceil(strategy.stored_columns(steps, vector_width::<R>()) as usize);
        let blocks_x = (strips as u64).div_ceil(u64::from(strategy.warps_per_block));
        let resident_blocks = u64::from(kernel.resident_blocks(block_size)) * u64::from(strategy.waves);
        let row_count = (rows.end - rows.start) as u64;
        let rows_per_chunk = chunk_rows(row_count, resident_blocks / blocks_x, steps);
        let chunks = row_count.div_ceil(rows_per_chunk);
        let args = [
            (&self.state).into(),
            (&self.next).into(),
            (&self.resistivity).into(),
            (&self.source).into(),
            (&self.ghost_offsets).into(),
            coefficients.x.to_argument(),
            coefficients.y.to_argument(),
            coefficients.dt.to_argument(),
            (plate.grid.nx as i32).into(),
            (plate.grid.ny as i32).into(),
            (self.pitch as i32).into(),
            (self.stored.start as i32).into(),
            ((self.stored.end - self.stored.start) as i32).into(),
            edge_kinds(plate).into(),
            (rows.start as i32).into(),
            (rows.end as i32).into(),
            (rows_per_chunk as i32).into(),
        ];
        queue.launch(&kernel, [blocks_x as u32, chunks as u32], block_size, &args)
    }
}

/// Fewest rows per chunk, relative to the steps of a pass. A chunk computes two more rows per step
/// than it stores.
const MIN_ROWS_PER_STEP: u64 = 4;
/// Largest number of blocks along y.
const MAX_CHUNKS: u64 = 65_535;

/// Returns the number of rows of a chunk, for about `chunks` chunks of all rows.
fn chunk_rows(rows: u64, chunks: u64, steps: u32) -> u64 {
    rows.div_ceil(chunks.clamp(1, MAX_CHUNKS))
        .max(MIN_ROWS_PER_STEP * u64::from(steps))
        .max(rows.div_ceil(MAX_CHUNKS))
}

/// Returns the kinds of the edges, two bits each, as EDGE_KIND in heat.cu reads them.
fn edge_kinds<R>(plate: &Plate<R>) -> i32 {
    let kind = |edge: Edge| match plate.boundaries.on(edge) {
        Boundary::Fixed(_) => 0,
        Boundary::Flux(_) => 1,
        Boundary::Periodic => 2,
    };
    Edge::ALL.into_iter().map(|edge| kind(edge) << (2 * edge as i32)).sum()
}

/// Returns the ghost offsets of all edges: ny values for the west edge, ny for the east edge, then
/// `pitch` values for the south edge and `pitch` for the north edge.
fn padded_ghost_offsets<R: Scalar>(plate: &Plate<R>, pitch: usize) -> Vec<R> {
    let mut padded = Vec::new();
    for (edge, length) in Edge::ALL.into_iter().zip([plate.grid.ny, plate.grid.ny, pitch, pitch]) {
        let offsets = &plate.ghost_offsets[edge as usize];
        padded.extend_from_slice(offsets);
        padded.resize(padded.len() + length - offsets.len(), R::default());
    }
    padded
}
