//! The part of a fluid on one rank, on its CPU or on its device.

use orrery_cluster::Transport;
use orrery_device::Device;
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::SimulationBox;
use serde::{Deserialize, Serialize};

use super::device::{DeviceFluidError, FluidDevicePart, FluidStrategy};
use super::settings::FluidSettings;
use super::slab::{HostPart, SlabFluid, SlabPart, share_particles};
use super::{FluidMeasures, UnsupportedFluid};

/// Properties of a fluid that all ranks know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SharedFluid {
    pub settings: FluidSettings,
    pub bounds: SimulationBox,
    /// Number of particles of all ranks.
    pub total: usize,
    /// Strategy on devices, `None` on CPUs.
    pub strategy: Option<FluidStrategy>,
}

/// The part of a fluid on this rank. All ranks call its methods in the same order.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a run has few fluids, so their size does not matter")]
pub(super) enum RankFluid {
    Host(SlabFluid<HostPart>),
    Device(SlabFluid<FluidDevicePart>),
}

impl RankFluid {
    /// Divides the particles of rank 0 among all ranks. Other ranks pass none. A fluid with a
    /// strategy needs a device on every rank.
    pub(super) fn new(
        transport: &Transport,
        shared: &SharedFluid,
        particles: Option<&FluidParticles>,
        device: Option<&Device>,
    ) -> Result<Self, DeviceFluidError> {
        let SharedFluid { settings, bounds, total, strategy } = shared;
        let records = share_particles(transport, particles)?;
        let Some(strategy) = strategy else {
            let part = HostPart::new(&records, *bounds, settings, settings.uses_lists(*total, bounds));
            return Ok(Self::Host(SlabFluid::new(transport, part, *total)?));
        };
        let id = transport.broadcast(0, particles.map_or_else(Vec::new, |particles| particles.id.clone()))?;
        let device = device.ok_or(UnsupportedFluid::NoDevice { rank: transport.rank() })?;
        let part = FluidDevicePart::new(device, &records, *bounds, settings, strategy, id)?;
        Ok(Self::Device(SlabFluid::new(transport, part, *total)?))
    }

    /// Returns the box.
    pub(super) fn bounds(&self) -> &SimulationBox {
        match self {
            Self::Host(fluid) => fluid.part().bounds(),
            Self::Device(fluid) => fluid.part().bounds(),
        }
    }

    /// Returns the number of particles of all ranks.
    pub(super) fn total(&self) -> usize {
        match self {
            Self::Host(fluid) => fluid.total(),
            Self::Device(fluid) => fluid.total(),
        }
    }

    /// Returns the device of this rank and the strategy on it, `None` on the CPU.
    pub(super) fn device(&self) -> Option<(&Device, &FluidStrategy)> {
        match self {
            Self::Host(_) => None,
            Self::Device(fluid) => Some((fluid.part().device(), fluid.part().strategy())),
        }
    }

    /// Takes `steps` steps of length `dt`. `first` is the number of steps before.
    pub(super) fn advance(&mut self, dt: f64, first: u64, steps: u64) -> Result<(), DeviceFluidError> {
        match self {
            Self::Host(fluid) => fluid.advance(dt, first, steps),
            Self::Device(fluid) => fluid.advance(dt, first, steps),
        }
    }

    /// Measures energies, momentum and virial of all particles.
    pub(super) fn measure(&self) -> Result<FluidMeasures, DeviceFluidError> {
        match self {
            Self::Host(fluid) => fluid.measure(),
            Self::Device(fluid) => fluid.measure(),
        }
    }

    /// Returns the particles of all ranks in the user's order on rank 0, and no particles on the
    /// other ranks.
    pub(super) fn particles(&self) -> Result<FluidParticles, DeviceFluidError> {
        match self {
            Self::Host(fluid) => fluid.particles(),
            Self::Device(fluid) => fluid.particles(),
        }
    }

    /// Returns a copy.
    pub(super) fn try_clone(&self) -> Result<Self, DeviceFluidError> {
        match self {
            Self::Host(fluid) => fluid.try_clone().map(Self::Host),
            Self::Device(fluid) => fluid.try_clone().map(Self::Device),
        }
    }
}
