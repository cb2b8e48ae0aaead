//! The heat equation on a device, through CUDA or OpenCL.
//!
//! [`DeviceHeat`] is the state of a plate in the memory of one device: two fields, and those that
//! the problem has. It computes the same bits as [`super::reference`], for every
//! [`HeatDeviceStrategy`] and any number of slabs.
//!
//! A slab is a range of rows with ghost rows on both sides. Several slabs on one device are not
//! faster than one. They test the update that several devices share: boundary rows first, then
//! their copies to the neighbours, and the interior at the same time.

mod measures;
pub mod rungs;
pub mod selftest;
mod slab;
mod strategy;

use std::ops::Range;

use orrery_device::{Buffer, Device, DeviceError, Kernel, Queue};
use orrery_model::grid::{PixelMeans, PixelWeights};

pub use measures::FieldMeasures;
pub use strategy::{HeatDeviceStrategy, MAX_STEPS_PER_PASS, MAX_VARIABLE_STEPS_PER_PASS};

use self::measures::Measures;
use self::slab::{HeatKernels, KernelVariant, Slab, row_pitch};
use super::Plate;
use crate::Scalar;
use crate::pixels::{DeviceMeans, StridedNodes, pixel_means_of};

/// Field of a [`DeviceHeat`] that is measured or downloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    measures: Measures<R>,
    pixel_means: DeviceMeans<R>,
    /// Slabs in the order of their rows. Together they own all rows.
    slabs: Vec<Slab<R>>,
}

impl<R: Scalar> DeviceHeat<R> {
    /// Uploads a plate and its state, which has one value per node.
    pub fn new(
        device: &Device,
        plate: Plate<R>,
        initial: &[R],
        strategy: HeatDeviceStrategy,
    ) -> Result<Self, DeviceError> {
        Self::with_slabs(device, plate, initial, strategy, 1)
    }

    /// Uploads a plate in `slab_count` slabs of almost equal size, at most one per row.
    ///
    /// # Panics
    /// If `initial` does not have one value per node, if there are more slabs than rows, or if the
    /// strategy has too many steps per pass or, on a device without warps, several warps per block.
    pub fn with_slabs(
        device: &Device,
        plate: Plate<R>,
        initial: &[R],
        strategy: HeatDeviceStrategy,
        slab_count: usize,
    ) -> Result<Self, DeviceError> {
        let (ny, is_variable) = (plate.grid.ny, plate.resistivity.is_some());
        let max_steps = if is_variable { MAX_VARIABLE_STEPS_PER_PASS } else { MAX_STEPS_PER_PASS };
        assert!((1..=max_steps).contains(&strategy.steps_per_pass), "{strategy:?}");
        assert!(device.properties().has_warp_shuffle || strategy.warps_per_block == 1, "{strategy:?}");
        assert!((1..=ny).contains(&slab_count) && initial.len() == plate.grid.len());
        let ghost_rows = i64::from(strategy.steps_per_pass);
        let first_row = |slab: usize| (slab * ny / slab_count) as i64;
        let slabs = (0..slab_count)
            .map(|slab| Slab::new(device, &plate, initial, first_row(slab)..first_row(slab + 1), ghost_rows))
            .collect::<Result<_, _>>()?;
        let variant = KernelVariant { is_variable, has_source: plate.source.is_some() };
        Ok(Self {
            kernels: HeatKernels::new::<R>(device, strategy, variant)?,
            measures: Measures::new(device, &plate)?,
            pixel_means: DeviceMeans::new(device)?,
            device: device.clone(),
            plate,
            strategy,
            slabs,
        })
    }

    /// Returns the bytes of device memory that a plate needs, without those of
    /// [`pixel_mean_bytes`](crate::pixel_mean_bytes).
    pub fn needed_bytes(nx: usize, ny: usize, is_variable: bool, has_source: bool) -> u64 {
        let fields = 2 + u64::from(is_variable) + u64::from(has_source);
        let field_bytes = (row_pitch::<R>(nx) * size_of::<R>()) as u64 * ny as u64;
        fields * field_bytes + Measures::<R>::needed_bytes(nx, ny)
    }

    /// Returns the strategy.
    pub fn strategy(&self) -> &HeatDeviceStrategy {
        &self.strategy
    }

    /// Changes the strategy. The next steps have the same bits as with the old one.
    ///
    /// # Panics
    /// If there are several slabs, because their ghost rows belong to a strategy.
    pub fn set_strategy(&mut self, strategy: HeatDeviceStrategy) -> Result<(), DeviceError> {
        assert_eq!(self.slabs.len(), 1);
        self.kernels = HeatKernels::new::<R>(&self.device, strategy, self.kernels.variant())?;
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

    /// Returns the device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Queues `steps` steps of length `dt`. Does not wait.
    pub fn advance(&mut self, dt: f64, steps: u64) -> Result<(), DeviceError> {
        let mut remaining = steps;
        let mut steps_per_pass = self.strategy.steps_per_pass;
        while remaining > 0 {
            // Fewer steps than a pass has are done in passes of half as many steps, and so on.
            while u64::from(steps_per_pass) > remaining {
                steps_per_pass = steps_per_pass.div_ceil(2);
            }
            self.queue_pass(dt, steps_per_pass)?;
            for slab in &mut self.slabs {
                std::mem::swap(&mut slab.state, &mut slab.next);
            }
            remaining -= u64::from(steps_per_pass);
        }
        Ok(())
    }

    /// Queues one step of length `dt` into the second field. The state does not change. The result
    /// is [`StoredField::Ahead`] until the next call of [`Self::advance`].
    pub fn step_ahead(&mut self, dt: f64) -> Result<(), DeviceError> {
        self.queue_pass(dt, 1)
    }

    /// Queues a pass from the state into the second field.
    fn queue_pass(&mut self, dt: f64, steps: u32) -> Result<(), DeviceError> {
        let (queue, coefficients) = (self.device.queue(), self.plate.step_coefficients(dt));
        let (plate, kernels, slabs) = (&self.plate, &mut self.kernels, &self.slabs);
        if let [slab] = &slabs[..] {
            return slab.launch(queue, kernels, plate, coefficients, steps, slab.owned.clone());
        }
        let boundary_rows = i64::from(self.strategy.steps_per_pass);
        for slab in slabs {
            let [south, _, north] = split_rows(&slab.owned, boundary_rows);
            slab.launch(queue, kernels, plate, coefficients, steps, south)?;
            slab.launch(queue, kernels, plate, coefficients, steps, north)?;
        }
        self.copy_ghost_rows(queue)?;
        for slab in &self.slabs {
            let [_, interior, _] = split_rows(&slab.owned, boundary_rows);
            slab.launch(queue, &mut self.kernels, &self.plate, coefficients, steps, interior)?;
        }
        Ok(())
    }

    /// Queues copies of the ghost rows of `next` from the slabs that own them.
    fn copy_ghost_rows(&self, queue: &Queue) -> Result<(), DeviceError> {
        let ny = self.plate.grid.ny as i64;
        for slab in &self.slabs {
            let ghosts = (slab.stored.start..slab.owned.start).chain(slab.owned.end..slab.stored.end);
            for ghost in ghosts {
                let row = ghost.rem_euclid(ny);
                let Some(owner) = self.slabs.iter().find(|owner| owner.owned.contains(&row)) else {
                    continue;
                };
                queue
                    .copy(owner.rows(&owner.next, row..row + 1)?, slab.rows(&slab.next, ghost..ghost + 1)?)?;
            }
        }
        Ok(())
    }

    /// Waits for the queued steps and returns minimum, maximum and heat content.
    pub fn measures(&self, field: StoredField) -> Result<FieldMeasures, DeviceError> {
        self.queue_measures(field)?;
        self.measures.read(self.device.queue(), &self.plate)
    }

    /// Queues the kernel that [`Self::measures`] waits for.
    pub fn queue_measures(&self, field: StoredField) -> Result<(), DeviceError> {
        self.slabs.iter().try_for_each(|slab| {
            self.measures.launch(self.device.queue(), &self.plate, slab, slab.field(field))
        })
    }

    /// Waits for the queued steps and returns the means of a field over the pixels of a picture of
    /// the plate. Without memory for them on the device, they are computed on the host.
    pub fn pixel_means(&self, field: StoredField, weights: &PixelWeights) -> Result<PixelMeans, DeviceError> {
        let pitch = row_pitch::<R>(self.plate.grid.nx);
        let joined;
        let (buffer, first) = match &self.slabs[..] {
            [slab] => (slab.field(field), (slab.owned.start - slab.stored.start) as usize * pitch),
            _ => {
                joined = self.joined_rows(field, pitch)?;
                (&joined, 0)
            }
        };
        let nodes = StridedNodes { buffer, first, strides: [1, pitch] };
        match self.pixel_means.compute(self.device.queue(), nodes, weights)? {
            Some(means) => Ok(means),
            None => Ok(pixel_means_of(&self.values(field)?, weights)),
        }
    }

    /// Queues copies of the rows of all slabs to one buffer.
    fn joined_rows(&self, field: StoredField, pitch: usize) -> Result<Buffer<R>, DeviceError> {
        let joined = self.device.zeros(self.plate.grid.ny * pitch)?;
        for slab in &self.slabs {
            let to = slab.owned.start as usize * pitch..slab.owned.end as usize * pitch;
            self.device.queue().copy(slab.rows(slab.field(field), slab.owned.clone())?, joined.range(to)?)?;
        }
        Ok(joined)
    }

    /// Waits for the queued steps and returns the values of all nodes.
    pub fn values(&self, field: StoredField) -> Result<Vec<R>, DeviceError> {
        let (nx, pitch) = (self.plate.grid.nx, row_pitch::<R>(self.plate.grid.nx));
        let mut values = Vec::with_capacity(self.plate.grid.len());
        for slab in &self.slabs {
            let rows = slab.rows(slab.field(field), slab.owned.clone())?;
            let mut padded = vec![R::default(); rows.len()];
            self.device.queue().read(rows, &mut padded)?;
            if pitch == nx && self.slabs.len() == 1 {
                return Ok(padded);
            }
            for row in padded.chunks_exact(pitch) {
                values.extend_from_slice(&row[..nx]);
            }
        }
        Ok(values)
    }

    /// Waits for the queued steps and returns the two outer columns and rows on each side.
    pub fn edge_values(&self, field: StoredField) -> Result<EdgeStrips<R>, DeviceError> {
        let (queue, nx, ny) = (self.device.queue(), self.plate.grid.nx, self.plate.grid.ny);
        for slab in &self.slabs {
            self.measures.launch_gather(queue, &self.plate, slab, slab.field(field))?;
        }
        let mut rows = Vec::with_capacity(4 * nx);
        for row in [0, 1, ny as i64 - 2, ny as i64 - 1] {
            let Some(slab) = self.slabs.iter().find(|slab| slab.owned.contains(&row)) else { continue };
            let mut padded = vec![R::default(); row_pitch::<R>(nx)];
            queue.read(slab.rows(slab.field(field), row..row + 1)?, &mut padded)?;
            rows.extend_from_slice(&padded[..nx]);
        }
        Ok(EdgeStrips { nx, ny, columns: self.measures.read_columns(queue)?, rows })
    }
}

/// Splits rows into the first `boundary_rows`, the interior and the last `boundary_rows`.
fn split_rows(rows: &Range<i64>, boundary_rows: i64) -> [Range<i64>; 3] {
    let south_end = (rows.start + boundary_rows).min(rows.end);
    let north_start = (rows.end - boundary_rows).max(south_end);
    [rows.start..south_end, south_end..north_start, north_start..rows.end]
}

/// The two outer columns and rows on each side of a field.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeStrips<R> {
    nx: usize,
    ny: usize,
    /// Columns 0, 1, nx - 2 and nx - 1.
    columns: Vec<R>,
    /// Rows 0, 1, ny - 2 and ny - 1.
    rows: Vec<R>,
}

impl<R: Scalar> EdgeStrips<R> {
    /// Returns the value of node (i, j), which must be in one of the outer two columns or rows.
    pub fn at(&self, i: usize, j: usize) -> R {
        let strip = |k: usize, n: usize| match k {
            0 | 1 => Some(k),
            _ if k + 2 >= n => Some(k + 4 - n),
            _ => None,
        };
        match (strip(i, self.nx), strip(j, self.ny)) {
            (Some(column), _) => self.columns[column * self.ny + j],
            (None, Some(row)) => self.rows[row * self.nx + i],
            (None, None) => panic!("node ({i}, {j}) is not near an edge"),
        }
    }
}
