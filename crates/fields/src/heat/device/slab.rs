//! Rows of the grid on a device, and launches of the kernel `heat.cu` on them.
//!
//! A slab owns a range of rows. It stores them twice, for the step before and the step after, with
//! ghost rows beyond ends with a neighbour: copies of rows that other slabs own. A pass of n steps
//! needs n ghost rows. A slab with the whole grid has none, because the kernel wraps its rows.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, kernel_source};
use orrery_model::grid::{Boundary, Edge};

use super::{HeatDeviceStrategy, HeatSchedule, StoredField};
use crate::Scalar;
use crate::heat::{Plate, PlateFields, StepCoefficients};

// SAFETY: the kernel reads and writes rows of its buffers, which have `stored_rows * pitch`
// elements, and replaces rows and columns outside them. It writes rows `begin` to `end`, which
// `DeviceHeatSlab::launch` checks. `pitch` is a multiple of the columns per lane and of 32 bytes,
// so vectors are aligned. The loops over rows end.
const HEAT: KernelFile = unsafe { KernelFile::new("heat.cu", kernel_source!("plate.cu", "heat.cu")) };

/// Bytes between the starts of two rows are a multiple of this: a sector of a GPU's cache, and the
/// columns of a lane.
const ROW_ALIGNMENT: usize = 32;

/// Returns the elements between the starts of two rows of a field with `nx` columns.
pub(super) fn row_pitch<R>(nx: usize) -> usize {
    nx.next_multiple_of(ROW_ALIGNMENT / size_of::<R>())
}

/// The kernels of a strategy. A kernel for fewer steps is compiled when it is first needed.
#[derive(Debug)]
pub(super) struct HeatKernels {
    device: Device,
    strategy: HeatDeviceStrategy,
    /// Fields of the problem, which determine the kernel's code.
    fields: PlateFields,
    /// Kernels by steps per pass.
    kernels: HashMap<u32, Kernel>,
}

impl HeatKernels {
    /// Compiles the kernel for the strategy's number of steps per pass.
    pub(super) fn new<R: Scalar>(
        device: &Device,
        strategy: HeatDeviceStrategy,
        fields: PlateFields,
    ) -> Result<Self, DeviceError> {
        let mut kernels = Self { device: device.clone(), strategy, fields, kernels: HashMap::new() };
        kernels.kernel::<R>(strategy.steps_per_pass)?;
        Ok(kernels)
    }

    /// Returns the fields of the problem that the kernels are compiled for.
    pub(super) fn fields(&self) -> PlateFields {
        self.fields
    }

    /// Returns the kernel for `steps` steps per pass.
    pub(super) fn kernel<R: Scalar>(&mut self, steps: u32) -> Result<Kernel, DeviceError> {
        if let Some(kernel) = self.kernels.get(&steps) {
            return Ok(kernel.clone());
        }
        let HeatDeviceStrategy { vectors_per_lane, rows_in_flight, warps_per_block, .. } = self.strategy;
        let definitions = [
            ("REAL", R::KERNEL_NAME.to_owned()),
            ("IS_DOUBLE", u32::from(size_of::<R>() == 8).to_string()),
            ("VECTOR", format!("{}{}", R::KERNEL_NAME, vector_width::<R>())),
            ("VECTOR_WIDTH", vector_width::<R>().to_string()),
            ("VECTORS", vectors_per_lane.to_string()),
            ("STEPS", steps.to_string()),
            ("ROWS_IN_FLIGHT", rows_in_flight.to_string()),
            ("WARPS_PER_BLOCK", warps_per_block.to_string()),
            ("VARIABLE", u32::from(self.fields.conductivity).to_string()),
            ("HAS_CAPACITY", u32::from(self.fields.heat_capacity).to_string()),
            ("HAS_SOURCE", u32::from(self.fields.source).to_string()),
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
pub(super) struct DeviceHeatSlab<R: Scalar> {
    /// Rows that the slab computes.
    pub(super) owned: Range<i64>,
    /// Rows that the buffers contain. Rows below 0 and from ny on are those beyond a periodic edge.
    pub(super) stored: Range<i64>,
    pitch: usize,
    /// State, and the buffer for the next pass. Neighbours on the same device read their borders.
    pub(super) state: Arc<Buffer<R>>,
    pub(super) next: Arc<Buffer<R>>,
    /// Fields that do not change. Not used by the kernel, and as short as possible, if the problem
    /// has none.
    resistivity: Buffer<R>,
    pub(super) capacity_ratio: Buffer<R>,
    source: Buffer<R>,
    ghost_offsets: Buffer<R>,
}

impl<R: Scalar> DeviceHeatSlab<R> {
    /// Uploads rows `owned`, whose values are `initial`, with `ghost_rows` rows before and after
    /// them. Ghost rows of the state are zero.
    pub(super) fn new(
        device: &Device,
        plate: &Plate<R>,
        initial: &[R],
        owned: Range<i64>,
        ghost_rows: [usize; 2],
    ) -> Result<Self, DeviceError> {
        let (nx, ny) = (plate.grid.nx, plate.grid.ny as i64);
        let stored = owned.start - ghost_rows[0] as i64..owned.end + ghost_rows[1] as i64;
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
        let mut padded = vec![R::default(); (stored.end - stored.start) as usize * pitch];
        for (row, nodes) in padded.chunks_exact_mut(pitch).skip(ghost_rows[0]).zip(initial.chunks_exact(nx)) {
            row[..nx].copy_from_slice(nodes);
        }
        let state = Arc::new(device.upload(&padded)?);
        let next = Arc::new(device.zeros(state.len())?);
        Ok(Self {
            resistivity: upload_optional(&plate.resistivity)?,
            capacity_ratio: upload_optional(&plate.capacity_ratio)?,
            source: upload_optional(&plate.source)?,
            ghost_offsets: device.upload(&padded_ghost_offsets(plate, pitch))?,
            owned,
            stored,
            pitch,
            state,
            next,
        })
    }

    /// Returns the elements of a buffer that contain the rows `rows`, which must be stored.
    pub(super) fn row_range(&self, rows: Range<i64>) -> Range<usize> {
        let element = |row: i64| (row - self.stored.start) as usize * self.pitch;
        element(rows.start)..element(rows.end)
    }

    /// Returns the elements of the `count` rows that each neighbour needs.
    pub(super) fn border_ranges(&self, count: i64) -> [Range<usize>; 2] {
        let Range { start, end } = self.owned;
        [start..start + count, end - count..end].map(|rows| self.row_range(rows))
    }

    /// Returns the elements of the ghost rows below and above.
    pub(super) fn ghost_ranges(&self) -> [Range<usize>; 2] {
        [self.stored.start..self.owned.start, self.owned.end..self.stored.end]
            .map(|rows| self.row_range(rows))
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
        let schedule = HeatSchedule::new(
            strategy,
            steps,
            [plate.grid.nx as u64, (rows.end - rows.start) as u64],
            vector_width::<R>(),
            kernel.resident_blocks(block_size),
        );
        let args = [
            (&*self.state).into(),
            (&*self.next).into(),
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
            (schedule.strips as i32).into(),
            (schedule.east_strip as i32).into(),
            (schedule.edge_blocks as i32).into(),
            (schedule.edge_chunk_rows as i32).into(),
            (schedule.chunk_rows as i32).into(),
            (&self.capacity_ratio).into(),
        ];
        queue.launch(&kernel, schedule.blocks as u32, block_size, &args)
    }
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
