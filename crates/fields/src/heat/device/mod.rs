//! The heat equation on a device, through CUDA or OpenCL.
//!
//! [`DeviceHeat`] is the state of a plate in the memory of one device: two fields, and those that
//! the problem has. They have all rows, or those of one rank of a team. It computes the same bits
//! as [`super::reference`], for every [`HeatDeviceStrategy`] and any number of slabs.
//!
//! A slab is a range of rows with ghost rows on both sides.

mod measures;
mod schedule;
pub mod selftest;
mod slab;
mod strategy;

use std::ops::Range;
use std::sync::Arc;

use orrery_device::{Buffer, Device, DeviceError, Kernel, Queue};
use orrery_model::grid::{PixelMeans, PixelWeights};
use serde::{Deserialize, Serialize};

pub use schedule::HeatSchedule;
pub use strategy::{HeatDeviceStrategy, MAX_STEPS_PER_PASS, MAX_VARIABLE_STEPS_PER_PASS};

use self::measures::HeatMeasureKernels;
use self::slab::{DeviceHeatSlab, HeatKernels, row_pitch};
use super::edge_flux::EdgeStrips;
use super::{FieldMeasures, Plate, PlateFields, StepCoefficients};
use crate::Scalar;
use crate::pixels::{DeviceMeans, StridedNodes, pixel_means_of};
use crate::team::DeviceSlab;

/// Field of a [`DeviceHeat`] that is measured or downloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredField {
    /// The state.
    State,
    /// The result of [`DeviceHeat::step_ahead`].
    Ahead,
}

/// State of a plate on a device.
#[derive(Debug)]
pub struct DeviceHeat<R: Scalar> {
    device: Device,
    plate: Plate<R>,
    strategy: HeatDeviceStrategy,
    kernels: HeatKernels,
    measures: HeatMeasureKernels<R>,
    pixel_means: DeviceMeans<R>,
    slab: DeviceHeatSlab<R>,
}

impl<R: Scalar> DeviceHeat<R> {
    /// Uploads a plate and its state, which has one value per node.
    ///
    /// # Panics
    /// If `initial` does not have one value per node, or if the strategy has too many steps per
    /// pass or, on a device without warps, several warps per block.
    pub fn new(
        device: &Device,
        plate: Plate<R>,
        initial: &[R],
        strategy: HeatDeviceStrategy,
    ) -> Result<Self, DeviceError> {
        let owned = 0..plate.grid.ny;
        Self::of_rows(device, plate, initial, strategy, owned, [0, 0])
    }

    /// Uploads the rows `owned` of a plate, whose state is `initial`. There are `ghost_rows` rows
    /// before and after them.
    pub(super) fn of_rows(
        device: &Device,
        plate: Plate<R>,
        initial: &[R],
        strategy: HeatDeviceStrategy,
        owned: Range<usize>,
        ghost_rows: [usize; 2],
    ) -> Result<Self, DeviceError> {
        let fields = plate.fields();
        let max_steps = if fields.conductivity { MAX_VARIABLE_STEPS_PER_PASS } else { MAX_STEPS_PER_PASS };
        assert!((1..=max_steps).contains(&strategy.steps_per_pass), "{strategy:?}");
        assert!(device.properties().has_warp_shuffle || strategy.warps_per_block == 1, "{strategy:?}");
        assert_eq!(initial.len(), owned.len() * plate.grid.nx);
        let rows = owned.start as i64..owned.end as i64;
        Ok(Self {
            slab: DeviceHeatSlab::new(device, &plate, initial, rows, ghost_rows)?,
            kernels: HeatKernels::new::<R>(device, strategy, fields)?,
            measures: HeatMeasureKernels::new(device, &plate, owned.len())?,
            pixel_means: DeviceMeans::new(device)?,
            device: device.clone(),
            plate,
            strategy,
        })
    }

    /// Returns the bytes of device memory that a plate needs, without those of
    /// [`pixel_mean_bytes`](crate::pixels::pixel_mean_bytes).
    pub fn needed_bytes(nx: usize, ny: usize, fields: PlateFields) -> u64 {
        let fields = 2 + fields.count();
        let field_bytes = (row_pitch::<R>(nx) * size_of::<R>()) as u64 * ny as u64;
        fields * field_bytes + HeatMeasureKernels::<R>::needed_bytes(nx, ny)
    }

    /// Returns the strategy.
    pub fn strategy(&self) -> &HeatDeviceStrategy {
        &self.strategy
    }

    /// Changes the strategy. The next steps have the same bits as with the old one. The plate must
    /// not be divided among ranks, because their ghost rows belong to a strategy.
    pub fn set_strategy(&mut self, strategy: HeatDeviceStrategy) -> Result<(), DeviceError> {
        self.kernels = HeatKernels::new::<R>(&self.device, strategy, self.kernels.fields())?;
        self.strategy = strategy;
        Ok(())
    }

    /// Returns the kernel of a full pass, with its resources.
    pub fn kernel(&mut self) -> Result<Kernel, DeviceError> {
        self.kernels.kernel::<R>(self.strategy.steps_per_pass)
    }

    /// Returns the plate.
    pub fn plate(&self) -> &Plate<R> {
        &self.plate
    }

    /// Returns the plate without its state.
    pub(super) fn into_plate(self) -> Plate<R> {
        self.plate
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the queue of the steps.
    pub fn queue(&self) -> &Queue {
        self.device.queue()
    }

    /// Queues `steps` steps of length `dt`. Does not wait.
    pub fn advance(&mut self, dt: f64, steps: u64) -> Result<(), DeviceError> {
        self.passes(dt, steps).try_for_each(|pass| self.run_pass(pass))
    }

    /// Returns the passes of `steps` steps of length `dt`.
    pub(super) fn passes(&self, dt: f64, steps: u64) -> impl Iterator<Item = HeatPass<R>> + use<R> {
        let coefficients = self.plate.step_coefficients(dt);
        let (mut remaining, mut steps_per_pass) = (steps, self.strategy.steps_per_pass);
        std::iter::from_fn(move || {
            if remaining == 0 {
                return None;
            }
            // Fewer steps than a pass has are done in passes of half as many steps, and so on.
            while u64::from(steps_per_pass) > remaining {
                steps_per_pass = steps_per_pass.div_ceil(2);
            }
            remaining -= u64::from(steps_per_pass);
            Some(HeatPass { coefficients, steps: steps_per_pass })
        })
    }

    /// Queues one step of length `dt` into the second field. The state does not change. The result
    /// is [`StoredField::Ahead`] until the next call of [`Self::advance`].
    pub fn step_ahead(&mut self, dt: f64) -> Result<(), DeviceError> {
        let coefficients = self.plate.step_coefficients(dt);
        self.launch_interior(HeatPass { coefficients, steps: 1 }, 0..self.slices()[0])
    }

    /// Queues a pass of some rows of the slab from the state into the second field.
    fn launch(&mut self, queue: &Queue, pass: HeatPass<R>, rows: Range<usize>) -> Result<(), DeviceError> {
        let first = self.slab.owned.start;
        let rows = first + rows.start as i64..first + rows.end as i64;
        self.slab.launch(queue, &mut self.kernels, &self.plate, pass.coefficients, pass.steps, rows)
    }

    /// Waits for the queued steps and returns minimum, maximum and heat content.
    pub fn measures(&self, field: StoredField) -> Result<FieldMeasures, DeviceError> {
        let rows = self.row_measures(field)?;
        let first = self.slab.owned.start as usize;
        Ok(FieldMeasures::NONE.with_rows(&self.plate, first, &rows).scaled(&self.plate))
    }

    /// Waits for the queued steps and returns the measures of the rows.
    pub(super) fn row_measures(&self, field: StoredField) -> Result<Vec<FieldMeasures>, DeviceError> {
        self.queue_measures(field)?;
        self.measures.read(self.queue())
    }

    /// Queues the kernel that [`Self::measures`] waits for.
    pub fn queue_measures(&self, field: StoredField) -> Result<(), DeviceError> {
        self.measures.launch(self.queue(), &self.plate, &self.slab, self.slab.field(field))
    }

    /// Waits for the queued steps and returns the means of the rows over pixels. `weights` are
    /// those of their nodes. Without memory for the means on the device, they are computed on the
    /// host.
    pub fn pixel_means(&self, field: StoredField, weights: &PixelWeights) -> Result<PixelMeans, DeviceError> {
        let first = self.slab.row_range(self.slab.owned.clone()).start;
        let pitch = row_pitch::<R>(self.plate.grid.nx);
        let nodes = StridedNodes { buffer: self.slab.field(field), first, strides: [1, pitch] };
        match self.pixel_means.compute(self.queue(), nodes, weights)? {
            Some(means) => Ok(means),
            None => Ok(pixel_means_of(&self.values(field)?, weights)),
        }
    }

    /// Waits for the queued steps and returns the values of all nodes of the rows.
    pub fn values(&self, field: StoredField) -> Result<Vec<R>, DeviceError> {
        let Range { start, end } = self.slab.owned;
        self.rows(field, 0..(end - start) as usize)
    }

    /// Waits for the queued steps and returns some rows, counted from the first one of the slab.
    pub(super) fn rows(&self, field: StoredField, rows: Range<usize>) -> Result<Vec<R>, DeviceError> {
        let (nx, pitch) = (self.plate.grid.nx, row_pitch::<R>(self.plate.grid.nx));
        let row = |row: usize| self.slab.owned.start + row as i64;
        let range = self.slab.row_range(row(rows.start)..row(rows.end));
        let mut padded = vec![R::default(); range.len()];
        self.queue().read(self.slab.field(field).range(range)?, &mut padded)?;
        if pitch > nx {
            for row in 0..rows.len() {
                padded.copy_within(row * pitch..row * pitch + nx, row * nx);
            }
            padded.truncate(rows.len() * nx);
        }
        Ok(padded)
    }

    /// Waits for the queued steps and returns the two outer columns on each side: columns 0, 1, nx
    /// - 2 and nx - 1, each with one value per row of the slab.
    pub(super) fn outer_columns(&self, field: StoredField) -> Result<Vec<R>, DeviceError> {
        self.measures.launch_gather(self.queue(), &self.plate, &self.slab, self.slab.field(field))?;
        self.measures.read_columns(self.queue())
    }

    /// Waits for the queued steps and returns the two outer columns and rows on each side of a
    /// plate that is not divided.
    pub fn edge_values(&self, field: StoredField) -> Result<EdgeStrips<R>, DeviceError> {
        let (nx, ny) = (self.plate.grid.nx, self.plate.grid.ny);
        let rows = EdgeStrips::<R>::rows(ny).map(|row| self.rows(field, row..row + 1));
        let rows = rows.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
        Ok(EdgeStrips::new([nx, ny], self.outer_columns(field)?, rows))
    }
}

/// A pass over a plate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeatPass<R> {
    coefficients: StepCoefficients<R>,
    steps: u32,
}

impl<R: Scalar> DeviceSlab for DeviceHeat<R> {
    type Number = R;
    type Pass = HeatPass<R>;

    fn device(&self) -> &Device {
        &self.device
    }

    fn state(&self) -> &Arc<Buffer<R>> {
        &self.slab.state
    }

    fn next(&self) -> &Arc<Buffer<R>> {
        &self.slab.next
    }

    fn slices(&self) -> [usize; 2] {
        let Range { start, end } = self.slab.owned;
        [(end - start) as usize, self.strategy.steps_per_pass as usize]
    }

    fn border_ranges(&self) -> [Range<usize>; 2] {
        self.slab.border_ranges(i64::from(self.strategy.steps_per_pass))
    }

    fn ghost_ranges(&self) -> [Range<usize>; 2] {
        self.slab.ghost_ranges()
    }

    fn launch_interior(&mut self, pass: HeatPass<R>, rows: Range<usize>) -> Result<(), DeviceError> {
        let device = self.device.clone();
        self.launch(device.queue(), pass, rows)
    }

    fn launch_border(
        &mut self,
        queue: &Queue,
        pass: HeatPass<R>,
        rows: Range<usize>,
    ) -> Result<(), DeviceError> {
        self.launch(queue, pass, rows)
    }

    fn finish_pass(&mut self) {
        std::mem::swap(&mut self.slab.state, &mut self.slab.next);
    }
}
