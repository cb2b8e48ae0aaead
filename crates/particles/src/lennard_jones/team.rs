//! Rank 0 of ranks that share a fluid.
//!
//! Each rank moves the particles of one slab of the box ([`super::slab`]). Rank 0, the leader, sends
//! each operation to the followers ([`super::follow()`]) before it executes its part.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orrery_cluster::{ClusterError, Team};
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::SimulationBox;

use super::command::{Command, Operation};
use super::settings::FluidSettings;
use super::slab::SlabFluid;
use super::{DeviceFluidError, FluidMeasures};

/// Ranks that share fluids. This is rank 0. The other ranks call [`follow`](super::follow()), which
/// returns when all clones and all fluids of the team are dropped.
///
/// ```
/// use orrery_cluster::{Team, threads};
/// use orrery_particles::lennard_jones::sample::{MELT_DT, melt, melt_settings};
/// use orrery_particles::lennard_jones::{DeviceFluidError, Fluid, FluidTeam, follow};
///
/// let mut alone = Fluid::new(melt(500), &melt_settings(), None)?;
/// alone.advance(MELT_DT, 0, 10)?;
///
/// let ranks = threads::run(3, |transport| {
///     let team = Team::new(transport);
///     if !team.is_leader() {
///         return follow(&team).map(|()| None);
///     }
///     let mut fluid = Fluid::new_on_team(&FluidTeam::lead(&team), melt(500), &melt_settings(), None)?;
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
        let _ = self.team.lead(&Command::End);
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
    fn lead(&self, operation: Operation) -> Result<(), ClusterError> {
        self.team.session.team.lead(&Command::TakePart { fluid: self.number, operation })
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // If this fails, the group has ended.
        let _ = self.lead(Operation::Drop);
    }
}

/// A fluid on all ranks of a team, as rank 0 has it.
#[derive(Debug)]
pub(super) struct TeamFluid {
    parts: Parts,
    slab: SlabFluid,
}

impl TeamFluid {
    /// Divides the particles among the ranks and computes their forces.
    pub(super) fn new(
        team: &FluidTeam,
        particles: FluidParticles,
        settings: &FluidSettings,
    ) -> Result<Self, ClusterError> {
        let (parts, total) = (team.new_parts(), particles.len());
        parts.lead(Operation::Create { settings: settings.clone(), bounds: particles.bounds, total })?;
        let slab = SlabFluid::new(team.session.team.transport(), particles, settings, total)?;
        Ok(Self { parts, slab })
    }

    /// Returns the team.
    pub(super) fn team(&self) -> &FluidTeam {
        &self.parts.team
    }

    /// Returns the number of particles.
    pub(super) fn len(&self) -> usize {
        self.slab.total()
    }

    /// Returns the box.
    pub(super) fn bounds(&self) -> &SimulationBox {
        self.slab.fluid().bounds()
    }

    /// Takes `steps` steps of length `dt`. `first` is the number of steps before.
    pub(super) fn advance(&mut self, dt: f64, first: u64, steps: u64) -> Result<(), DeviceFluidError> {
        self.parts.lead(Operation::Advance { dt, first, steps })?;
        self.slab.advance(dt, first, steps)
    }

    /// Measures energies, momentum and virial.
    pub(super) fn measure(&self) -> Result<FluidMeasures, ClusterError> {
        self.parts.lead(Operation::Measure)?;
        self.slab.measure()
    }

    /// Returns the particles in the user's order.
    pub(super) fn particles(&self) -> Result<FluidParticles, ClusterError> {
        self.parts.lead(Operation::SendParticles)?;
        self.slab.particles()
    }

    /// Returns a copy on the same ranks.
    pub(super) fn try_clone(&self) -> Result<Self, ClusterError> {
        let parts = self.team().new_parts();
        self.parts.lead(Operation::CopyTo { copy: parts.number })?;
        Ok(Self { parts, slab: self.slab.clone() })
    }
}
