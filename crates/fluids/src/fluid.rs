//! A fluid on the CPU, on a device or on several ranks. All give the same bits.

use orrery_device::Device;
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::SimulationBox;

use super::FluidMeasures;
use super::device::{DeviceFluid, DeviceFluidError, FluidStrategy};
use super::ensemble::Ensemble;
use super::host::HostFluid;
use super::settings::FluidSettings;
use super::team::{FluidTeam, TeamFluid};

/// Particles with their forces, on the CPU, on a device or on several ranks.
///
/// Results depend on the particles, the settings and the sequence of steps, and not on where they
/// are computed.
#[derive(Debug)]
pub struct Fluid {
    settings: FluidSettings,
    backend: Backend,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a run has one fluid, so its size does not matter")]
enum Backend {
    Host(HostFluid),
    Device(DeviceFluid),
    Team(TeamFluid),
}

impl Fluid {
    /// Creates a fluid on a device with a strategy, or on the CPU. The settings must be valid for
    /// the box.
    pub fn new(
        particles: FluidParticles,
        settings: &FluidSettings,
        device: Option<(&Device, &FluidStrategy)>,
    ) -> Result<Self, DeviceFluidError> {
        let backend = match device {
            Some((device, strategy)) => {
                Backend::Device(DeviceFluid::with_strategy(device, &particles, settings, strategy)?)
            }
            None => Backend::Host(HostFluid::new(particles, settings)),
        };
        Ok(Self { settings: settings.clone(), backend })
    }

    /// Creates a fluid that the ranks of a team share, each on its device if there is one here, or
    /// on its CPU. The settings must be valid for the box.
    pub fn new_on_team(
        team: &FluidTeam,
        particles: FluidParticles,
        settings: &FluidSettings,
        device: Option<(&Device, &FluidStrategy)>,
    ) -> Result<Self, DeviceFluidError> {
        if team.size() == 1 {
            return Self::new(particles, settings, device);
        }
        let backend = Backend::Team(TeamFluid::new(team, &particles, settings, device)?);
        Ok(Self { settings: settings.clone(), backend })
    }

    /// Returns the number of particles.
    pub fn len(&self) -> usize {
        match &self.backend {
            Backend::Host(fluid) => fluid.len(),
            Backend::Device(fluid) => fluid.len(),
            Backend::Team(fluid) => fluid.fluid().total(),
        }
    }

    /// Returns true if there are no particles.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the settings.
    pub fn settings(&self) -> &FluidSettings {
        &self.settings
    }

    /// Returns the box. An open box may grow.
    pub fn bounds(&self) -> &SimulationBox {
        match &self.backend {
            Backend::Host(fluid) => fluid.bounds(),
            Backend::Device(fluid) => fluid.bounds(),
            Backend::Team(fluid) => fluid.fluid().bounds(),
        }
    }

    /// Returns the device, of this rank if there are several, `None` for the CPU.
    pub fn device(&self) -> Option<&Device> {
        self.placement().map(|(device, _)| device)
    }

    /// Returns the device and the strategy on it, `None` for the CPU.
    fn placement(&self) -> Option<(&Device, &FluidStrategy)> {
        match &self.backend {
            Backend::Host(_) => None,
            Backend::Device(fluid) => Some((fluid.device(), fluid.strategy())),
            Backend::Team(fluid) => fluid.fluid().device(),
        }
    }

    /// Takes `steps` steps of length `dt`. `first` is the number of steps before, which selects the
    /// random numbers of a thermostat.
    pub fn advance(&mut self, dt: f64, first: u64, steps: u64) -> Result<(), DeviceFluidError> {
        match &mut self.backend {
            Backend::Host(fluid) => Ok(fluid.advance(dt, first, steps)?),
            Backend::Device(fluid) => fluid.advance(dt, first, steps),
            Backend::Team(fluid) => fluid.advance(dt, first, steps),
        }
    }

    /// Returns the particles in the user's order.
    pub fn particles(&self) -> Result<FluidParticles, DeviceFluidError> {
        match &self.backend {
            Backend::Host(fluid) => Ok(fluid.particles()),
            Backend::Device(fluid) => Ok(fluid.particles()?),
            Backend::Team(fluid) => fluid.particles(),
        }
    }

    /// Measures energies, momentum and virial.
    pub fn measure(&self) -> Result<FluidMeasures, DeviceFluidError> {
        match &self.backend {
            Backend::Host(fluid) => Ok(fluid.measure()),
            Backend::Device(fluid) => Ok(fluid.measure()?),
            Backend::Team(fluid) => fluid.measure(),
        }
    }

    /// Returns true if pairs are found with neighbour lists.
    pub fn uses_lists(&self) -> bool {
        self.settings.uses_lists(self.len(), self.bounds())
    }

    /// Returns the strategy of the device, `None` on the CPU.
    pub fn strategy(&self) -> Option<&FluidStrategy> {
        self.placement().map(|(_, strategy)| strategy)
    }

    /// Returns the team that shares this fluid, if there is one.
    fn team(&self) -> Option<&FluidTeam> {
        match &self.backend {
            Backend::Host(_) | Backend::Device(_) => None,
            Backend::Team(fluid) => Some(fluid.team()),
        }
    }

    /// Creates a fluid on the same ranks.
    fn new_beside(
        &self,
        particles: FluidParticles,
        settings: &FluidSettings,
        device: Option<(&Device, &FluidStrategy)>,
    ) -> Result<Self, DeviceFluidError> {
        match self.team() {
            Some(team) => Self::new_on_team(team, particles, settings, device),
            None => Self::new(particles, settings, device),
        }
    }

    /// Continues with these particles in another ensemble.
    pub fn restart(&mut self, particles: FluidParticles, ensemble: Ensemble) -> Result<(), DeviceFluidError> {
        let settings = FluidSettings { ensemble, ..self.settings.clone() };
        *self = self.new_beside(particles, &settings, self.placement())?;
        Ok(())
    }

    /// Returns a copy on the same device or the same ranks.
    pub fn try_clone(&self) -> Result<Self, DeviceFluidError> {
        if let Backend::Team(fluid) = &self.backend {
            let backend = Backend::Team(fluid.try_clone()?);
            return Ok(Self { settings: self.settings.clone(), backend });
        }
        Self::new(self.particles()?, &self.settings, self.placement())
    }

    /// Returns the same fluid on the ranks of a team, each on its device if there is one here, or
    /// on its CPU.
    pub fn moved_to(
        self,
        team: &FluidTeam,
        device: Option<(&Device, &FluidStrategy)>,
    ) -> Result<Self, DeviceFluidError> {
        if team.size() == 1 && device.is_none() && matches!(self.backend, Backend::Host(_)) {
            return Ok(self);
        }
        Self::new_on_team(team, self.particles()?, &self.settings, device)
    }
}
