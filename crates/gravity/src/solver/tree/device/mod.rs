//! Barnes-Hut tree on a device.
//!
//! An evaluation starts from positions in any order. It queues the frame, keys, sort, cells,
//! groups, moments and walk, and does not wait for any of them. Every sum has a fixed order, so
//! equal bodies give equal bits on the same device.

mod strategy;
mod walk;

pub use crate::tree::device::Order;
pub use strategy::{TreeAlgorithm, TreeDeviceStrategy, WalkOptions};

use std::ops::Range;

use orrery_cluster::LinkError;
use orrery_device::{Buffer, BuildTime, Device, DeviceError, Kernel, KernelBuilder};

use crate::settings::Acceptance;
use crate::share::{DeviceGather, PartSpan, SharedEvaluation};
use crate::solver::direct::device::Columns;
use walk::TreeWalk;

/// Inputs and outputs of one force evaluation. All columns have one entry per body.
#[derive(Clone, Copy)]
pub struct ForceRequest<'a> {
    /// Positions.
    pub position: Columns<'a>,
    /// Masses.
    pub mass: &'a Buffer<f64>,
    /// Gravitational constant.
    pub g: f64,
    /// Plummer softening.
    pub eps: f64,
    /// Criterion for using a cell instead of its bodies.
    pub acceptance: Acceptance,
    /// Accelerations of the previous step, for the relative acceptance. Without them it uses its
    /// opening angle. May be the same columns as `acceleration`.
    pub previous: Option<Columns<'a>>,
    /// Accelerations (output).
    pub acceleration: Columns<'a>,
    /// Potentials per unit mass (output), if requested.
    pub potential: Option<&'a Buffer<f64>>,
}

impl ForceRequest<'_> {
    /// Returns the request without the previous accelerations if the acceptance does not read them.
    pub(crate) fn with_previous_if_read(self) -> Self {
        let is_read = matches!(self.acceptance, Acceptance::Relative { .. });
        Self { previous: self.previous.filter(|_| is_read), ..self }
    }
}

/// Numbers of cells, groups and terms of one evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceTreeReport {
    /// Cells of the tree, leaves included.
    pub cells: u64,
    /// Groups that walked together.
    pub groups: u64,
    /// Body-body terms of all targets.
    pub body_terms: u64,
    /// Cell-body terms of all targets.
    pub cell_terms: u64,
    /// Most terms of one target, of both kinds together.
    pub most_terms: u64,
}

/// Times of the stages of one evaluation, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TreeStageTimes {
    /// Frame, keys, sort, cells and groups.
    pub build: f64,
    /// Multipole moments.
    pub moments: f64,
    /// Walk and sums.
    pub walk: f64,
}

/// Tree of `n` bodies on a device, with its kernels and buffers. The masses must be the same in
/// every evaluation, because their sum is computed only once.
pub struct DeviceTree {
    builder: KernelBuilder,
    n: usize,
    strategy: TreeDeviceStrategy,
    total_mass: Option<f64>,
    /// None if `n` is 0.
    walk: Option<TreeWalk>,
}

/// Largest number of bodies. `children` packs a cell number and three bits into 32 bits, and there
/// may be twice as many cells as bodies.
const MAX_BODIES: usize = 1 << 28;

impl DeviceTree {
    /// Builds the kernels and buffers for `n` bodies. Uses the default strategy if `strategy` does
    /// not fit.
    pub fn new(device: &Device, n: usize, strategy: &TreeDeviceStrategy) -> Result<Self, DeviceError> {
        let default = TreeDeviceStrategy::default_for(device, strategy.precision);
        let strategy = if strategy.fits() { strategy } else { &default };
        if n > MAX_BODIES {
            return Err(DeviceError::Length { device: device.title(), expected: MAX_BODIES, got: n });
        }
        let mut builder = KernelBuilder::new(device);
        let walk = match n {
            0 => None,
            _ => Some(TreeWalk::new(&mut builder, n, strategy)?),
        };
        Ok(Self { builder, n, strategy: *strategy, total_mass: None, walk })
    }

    /// Returns the strategy in use.
    pub fn strategy(&self) -> &TreeDeviceStrategy {
        &self.strategy
    }

    /// Returns the device memory that a tree needs in addition to the bodies, in bytes.
    pub fn scratch_bytes(_device: &Device, n: usize, strategy: &TreeDeviceStrategy) -> u64 {
        walk::plan_tree(n, strategy).device_bytes(n)
    }

    /// Queues the computation of the accelerations and, if requested, the potentials.
    pub fn forces(&mut self, request: &ForceRequest) -> Result<(), DeviceError> {
        let total_mass = self.prepare(request)?;
        let Some(walk) = &mut self.walk else { return Ok(()) };
        walk.build(request, total_mass)?;
        walk.find_moments(request)?;
        walk.walk(&mut self.builder, request)
    }

    /// Does [`forces`](Self::forces) together with other ranks. Every rank builds the tree and
    /// walks it for some of the groups. Waits for all ranks.
    pub(crate) fn shared_forces(
        &mut self,
        request: &ForceRequest,
        evaluation: SharedEvaluation<'_>,
        gather: &mut DeviceGather,
    ) -> Result<(), LinkError> {
        let total_mass = self.prepare(request);
        // Without bodies there is nothing to exchange.
        let Some(walk) = &mut self.walk else { return Ok(total_mass.map(drop)?) };
        let group_size = self.strategy.group_size as usize;
        let parts = evaluation.divide(self.n, |body| body.next_multiple_of(group_size));
        let part = total_mass
            .and_then(|total_mass| queue_part(walk, &mut self.builder, request, total_mass, parts.own()));
        let columns: Vec<_> = request.acceleration.buffers().into_iter().chain(request.potential).collect();
        gather.exchange_columns(evaluation, &parts, &columns, Some(walk.order()), part)
    }

    /// Computes forces, waits for them, and returns the time of each stage. For benchmarks.
    pub fn time_stages(&mut self, request: &ForceRequest) -> Result<TreeStageTimes, DeviceError> {
        let total_mass = self.prepare(request)?;
        let Some(walk) = &mut self.walk else { return Ok(TreeStageTimes::default()) };
        let queue = request.mass.device().queue();
        let start = queue.record()?;
        walk.build(request, total_mass)?;
        let built = queue.record()?;
        walk.find_moments(request)?;
        let summed = queue.record()?;
        walk.walk(&mut self.builder, request)?;
        let end = queue.record()?;
        end.wait()?;
        Ok(TreeStageTimes {
            build: built.seconds_since(&start)?,
            moments: summed.seconds_since(&built)?,
            walk: end.seconds_since(&summed)?,
        })
    }

    /// Checks the lengths of the columns and returns the sum of the masses.
    fn prepare(&mut self, request: &ForceRequest) -> Result<f64, DeviceError> {
        let ForceRequest { position, acceleration, previous, mass, potential, .. } = *request;
        let columns = [Some(position), Some(acceleration), previous].into_iter().flatten();
        let all =
            columns.flat_map(|columns| [columns.x, columns.y, columns.z]).chain([mass]).chain(potential);
        if let Some(buffer) = all.into_iter().find(|buffer| buffer.len() != self.n) {
            let device = self.builder.device().title();
            return Err(DeviceError::Length { device, expected: self.n, got: buffer.len() });
        }
        Ok(match self.total_mass {
            Some(total) => total,
            None => *self.total_mass.insert(mass.to_vec()?.iter().sum()),
        })
    }

    /// Returns the report of the last evaluation. Waits for it.
    pub fn report(&self) -> Result<DeviceTreeReport, DeviceError> {
        match &self.walk {
            None => Ok(DeviceTreeReport::default()),
            Some(walk) => walk.report(),
        }
    }

    /// Returns the kernel that takes most of the time and its block size, once it is built.
    pub fn main_kernel(&self) -> Option<(&Kernel, u32)> {
        Some((self.walk.as_ref()?.main_kernel()?, walk::BLOCK_SIZE))
    }

    /// Returns the build time of each module built so far.
    pub fn build_times(&self) -> &[BuildTime] {
        self.builder.times()
    }
}

/// Queues the forces on the sorted bodies `range`. Returns the events around the walk.
fn queue_part(
    walk: &mut TreeWalk,
    builder: &mut KernelBuilder,
    request: &ForceRequest,
    total_mass: f64,
    range: Range<usize>,
) -> Result<PartSpan, DeviceError> {
    let queue = request.mass.device().queue();
    walk.build_cells(request, total_mass)?;
    walk.find_groups(range)?;
    walk.find_moments(request)?;
    let start = queue.record()?;
    walk.walk(builder, request)?;
    Ok((start, queue.record()?))
}
