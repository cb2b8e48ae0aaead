//! Barnes-Hut on a device.
//!
//! An evaluation starts from positions in any order: box, keys, sort, cells, groups, moments, walk, all queued and none
//! waited for. Equal bodies give equal bits on the same device: every sum has one order.

mod insertion;
mod strategy;
mod walk;

pub use crate::tree::device::Order;
pub use insertion::selftest as insertion_selftest;
pub use strategy::{TreeAlgorithm, TreeDeviceStrategy};

use std::time::Duration;

use orrery_device::{Buffer, Device, DeviceError, Kernel, Origin};

use crate::builder::Builder;
use crate::settings::Acceptance;
use crate::solver::direct::device::Columns;
use insertion::Insertion;
use walk::Walk;

/// One evaluation: what is read, and where the results go.
#[derive(Clone, Copy)]
pub struct ForceRequest<'a> {
    /// Positions.
    pub position: Columns<'a>,
    /// Masses.
    pub mass: &'a Buffer<f64>,
    /// The gravitational constant.
    pub g: f64,
    /// Plummer softening.
    pub eps: f64,
    /// When a cell acts as a whole.
    pub acceptance: Acceptance,
    /// Accelerations of the step before, which the relative acceptance needs; without them it falls back on its
    /// opening angle. May be the columns that the results go to.
    pub previous: Option<Columns<'a>>,
    /// Accelerations.
    pub acceleration: Columns<'a>,
    /// Potentials per unit mass, where they are wanted.
    pub potential: Option<&'a Buffer<f64>>,
}

/// What an evaluation came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Cells of the tree, leaves included.
    pub cells: u64,
    /// Groups that walked; 0 where bodies walk alone.
    pub groups: u64,
    /// Body-body terms, all targets together.
    pub body_terms: u64,
    /// Cell-body terms, all targets together.
    pub cell_terms: u64,
    /// Most terms of one target, both kinds together.
    pub most_terms: u64,
}

/// Where the time of an evaluation goes, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stages {
    /// Box, keys, sort, cells, groups.
    pub build: f64,
    /// Multipoles.
    pub moments: f64,
    /// Walk and sums.
    pub walk: f64,
}

#[expect(clippy::large_enum_variant, reason = "there is one, and it is not moved")]
enum Kernels {
    Groups(Walk),
    Insertion(Insertion),
}

/// The tree of `n` bodies on a device, with all that it needs between evaluations. The masses must be the same in
/// every evaluation.
pub struct DeviceTree {
    builder: Builder,
    n: usize,
    strategy: TreeDeviceStrategy,
    total_mass: Option<f64>,
    /// None for no bodies.
    kernels: Option<Kernels>,
}

/// The most bodies: a cell's number and how many children it has share 32 bits, and there may be twice as many cells.
const MOST_BODIES: usize = 1 << 28;

impl DeviceTree {
    /// For `n` bodies; by the default where `strategy` does not fit.
    pub fn new(device: &Device, n: usize, strategy: &TreeDeviceStrategy) -> Result<Self, DeviceError> {
        let default = TreeDeviceStrategy::default_for(device, strategy.precision);
        let strategy = if strategy.fits() { strategy } else { &default };
        if n > MOST_BODIES {
            return Err(DeviceError::Length { device: device.title(), expected: MOST_BODIES, got: n });
        }
        let mut builder = Builder::new(device);
        let kernels = match strategy.form {
            _ if n == 0 => None,
            TreeAlgorithm::Groups => Some(Kernels::Groups(Walk::new(&mut builder, n, strategy)?)),
            TreeAlgorithm::Insertion { .. } => Some(Kernels::Insertion(Insertion::new(device, n, strategy)?)),
        };
        Ok(Self { builder, n, strategy: *strategy, total_mass: None, kernels })
    }

    /// How it computes.
    pub fn strategy(&self) -> &TreeDeviceStrategy {
        &self.strategy
    }

    /// Bytes of scratch on the device, beyond the bodies.
    pub fn scratch_bytes(_device: &Device, n: usize, strategy: &TreeDeviceStrategy) -> u64 {
        match strategy.form {
            TreeAlgorithm::Groups => walk::plan(n, strategy).bytes(n),
            TreeAlgorithm::Insertion { .. } => insertion::bytes(n),
        }
    }

    /// Fills acceleration, and potential where it is asked for. Queued, not waited for.
    pub fn forces(&mut self, evaluation: &ForceRequest) -> Result<(), DeviceError> {
        let total_mass = self.prepare(evaluation)?;
        match &mut self.kernels {
            None => Ok(()),
            Some(Kernels::Insertion(insertion)) => insertion.queue(evaluation),
            Some(Kernels::Groups(walk)) => {
                walk.build(evaluation, total_mass)?;
                walk.find_moments(evaluation)?;
                walk.walk(&mut self.builder, evaluation)
            }
        }
    }

    /// The same, waited for, with the time that each stage takes: for benchmarks.
    pub fn stages(&mut self, evaluation: &ForceRequest) -> Result<Stages, DeviceError> {
        let total_mass = self.prepare(evaluation)?;
        match &mut self.kernels {
            None => Ok(Stages::default()),
            Some(Kernels::Insertion(insertion)) => insertion.stages(evaluation),
            Some(Kernels::Groups(walk)) => {
                let queue = evaluation.mass.device().queue();
                let start = queue.record()?;
                walk.build(evaluation, total_mass)?;
                let built = queue.record()?;
                walk.find_moments(evaluation)?;
                let summed = queue.record()?;
                walk.walk(&mut self.builder, evaluation)?;
                let end = queue.record()?;
                end.wait()?;
                Ok(Stages {
                    build: built.seconds_since(&start)?,
                    moments: summed.seconds_since(&built)?,
                    walk: end.seconds_since(&summed)?,
                })
            }
        }
    }

    /// Checks the lengths, and gives the sum of the masses.
    fn prepare(&mut self, evaluation: &ForceRequest) -> Result<f64, DeviceError> {
        let ForceRequest { position, acceleration, previous, mass, potential, .. } = *evaluation;
        let columns = [Some(position), Some(acceleration), previous].into_iter().flatten();
        let all =
            columns.flat_map(|columns| [columns.x, columns.y, columns.z]).chain([mass]).chain(potential);
        if let Some(wrong) = all.into_iter().find(|buffer| buffer.len() != self.n) {
            let device = self.builder.device.title();
            return Err(DeviceError::Length { device, expected: self.n, got: wrong.len() });
        }
        Ok(match self.total_mass {
            Some(total) => total,
            None => *self.total_mass.insert(mass.to_vec()?.iter().sum()),
        })
    }

    /// What the last evaluation came to; waits for it.
    pub fn report(&self) -> Result<Report, DeviceError> {
        match &self.kernels {
            None => Ok(Report::default()),
            Some(Kernels::Insertion(insertion)) => insertion.report(),
            Some(Kernels::Groups(walk)) => {
                let ([body_terms, cell_terms, most_terms], (cells, groups)) = walk.counted()?;
                Ok(Report { cells, groups, body_terms, cell_terms, most_terms })
            }
        }
    }

    /// The kernel that takes the time, and its group, once it is built.
    pub fn main_kernel(&self) -> Option<(&Kernel, u32)> {
        match self.kernels.as_ref()? {
            Kernels::Groups(walk) => Some((walk.main_kernel()?, walk::BLOCK_SIZE)),
            Kernels::Insertion(insertion) => insertion.main_kernel(),
        }
    }

    /// What was built, where it came from and how long that took.
    pub fn build_times(&self) -> &[(String, Origin, Duration)] {
        match &self.kernels {
            Some(Kernels::Insertion(insertion)) => insertion.build_times(),
            _ => &self.builder.times,
        }
    }
}
