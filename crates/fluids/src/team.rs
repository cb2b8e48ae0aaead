//! Rank 0 of ranks that share a fluid.
//!
//! Each rank moves the particles of one slab of the box ([`super::slab`]). Rank 0, the leader,
//! sends each operation to the followers ([`super::follow()`]) before it executes its part.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orrery_cluster::{ClusterError, Team};
use orrery_device::Device;
use orrery_model::fluid::FluidParticles;

use super::FluidMeasures;
use super::command::{FluidCommand, FluidOperation};
use super::device::{DeviceFluid, DeviceFluidError, FluidStrategy};
use super::rank::{RankFluid, SharedFluid};
use super::settings::FluidSettings;

/// Ranks that share fluids. This is rank 0. The other ranks call [`follow`](super::follow()), which
/// returns when all clones and all fluids of the team are dropped.
///
/// ```
/// use orrery_cluster::{Team, threads};
/// use orrery_fluids::sample::{MELT_DT, melt, melt_settings};
/// use orrery_fluids::{DeviceFluidError, Fluid, FluidTeam, follow};
///
/// let mut alone = Fluid::new(melt(500), &melt_settings(), None)?;
/// alone.advance(MELT_DT, 0, 10)?;
///
/// let ranks = threads::run(3, |transport| {
///     let team = Team::new(transport);
///     if !team.is_leader() {
///         return follow(&team, None).map(|()| None);
///     }
///     let team = FluidTeam::lead(&team);
///     let mut fluid = Fluid::new_on_team(&team, melt(500), &melt_settings(), None)?;
///     fluid.advance(MELT_DT, 0, 10)?;
///     fluid.particles().map(Some)
/// })?;
/// assert_eq!(ranks[0], Some(alone.particles()?));
/// # Ok::<(), DeviceFluidError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FluidTeam {
    session: Arc<Session>,
}

/// Connection of rank 0 to its followers. The followers end with it.
#[derive(Debug)]
struct Session {
    team: Team,
    /// Number of the next fluid.
    next: AtomicU64,
}

impl Drop for Session {
    fn drop(&mut self) {
        // If this fails, the group has ended.
        let _ = self.team.lead(&FluidCommand::End);
    }
}

impl FluidTeam {
    /// Starts to lead the ranks of `team`. The followers must be in [`follow`](super::follow()), or
    /// call it next.
    pub fn lead(team: &Team) -> Self {
        Self { session: Arc::new(Session { team: team.clone(), next: AtomicU64::new(0) }) }
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> usize {
        self.session.team.size()
    }

    /// Returns the parts of a new fluid on the followers.
    fn new_parts(&self) -> Parts {
        Parts { team: self.clone(), number: self.session.next.fetch_add(1, Ordering::Relaxed) }
    }
}

/// Parts of a fluid on the followers, which are dropped with this value.
#[derive(Debug)]
struct Parts {
    team: FluidTeam,
    number: u64,
}

impl Parts {
    /// Lets the followers take part in an operation.
    fn lead(&self, operation: FluidOperation) -> Result<(), ClusterError> {
        self.team.session.team.lead(&FluidCommand::TakePart { fluid: self.number, operation })
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // If this fails, the group has ended.
        let _ = self.lead(FluidOperation::Drop);
    }
}

/// A fluid on all ranks of a team, as rank 0 has it.
#[derive(Debug)]
pub(super) struct TeamFluid {
    parts: Parts,
    fluid: RankFluid,
}

impl TeamFluid {
    /// Divides the particles among the ranks and computes their forces, on devices if there is one
    /// here. The skin on devices is the one of the strategy.
    pub(super) fn new(
        team: &FluidTeam,
        particles: &FluidParticles,
        settings: &FluidSettings,
        device: Option<(&Device, &FluidStrategy)>,
    ) -> Result<Self, DeviceFluidError> {
        let (parts, transport) = (team.new_parts(), team.session.team.transport());
        let shared = SharedFluid {
            settings: settings.clone(),
            bounds: particles.bounds,
            total: particles.len(),
            strategy: device.map(|(_, strategy)| *strategy),
        };
        if let Some((device, _)) = device {
            // The followers wait for particles once they have the command.
            DeviceFluid::check_support(device, particles.len(), settings)?;
        }
        parts.lead(FluidOperation::Create(Box::new(shared.clone())))?;
        let fluid = RankFluid::new(transport, &shared, Some(particles), device.map(|(device, _)| device))?;
        Ok(Self { parts, fluid })
    }

    /// Returns the team.
    pub(super) fn team(&self) -> &FluidTeam {
        &self.parts.team
    }

    /// Returns the part of this rank.
    pub(super) fn fluid(&self) -> &RankFluid {
        &self.fluid
    }

    /// Takes `steps` steps of length `dt`. `first` is the number of steps before.
    pub(super) fn advance(&mut self, dt: f64, first: u64, steps: u64) -> Result<(), DeviceFluidError> {
        self.parts.lead(FluidOperation::Advance { dt, first, steps })?;
        self.fluid.advance(dt, first, steps)
    }

    /// Measures energies, momentum and virial.
    pub(super) fn measure(&self) -> Result<FluidMeasures, DeviceFluidError> {
        self.parts.lead(FluidOperation::Measure)?;
        self.fluid.measure()
    }

    /// Returns the particles in the user's order.
    pub(super) fn particles(&self) -> Result<FluidParticles, DeviceFluidError> {
        self.parts.lead(FluidOperation::SendParticles)?;
        self.fluid.particles()
    }

    /// Returns a copy on the same ranks.
    pub(super) fn try_clone(&self) -> Result<Self, DeviceFluidError> {
        let parts = self.team().new_parts();
        self.parts.lead(FluidOperation::CopyTo { copy: parts.number })?;
        Ok(Self { parts, fluid: self.fluid.try_clone()? })
    }
}
