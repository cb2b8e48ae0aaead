//! Rank 0 of ranks that share force evaluations.
//!
//! Every rank has all bodies. Rank 0, the leader, sends each change to the followers before it
//! executes it ([`super::follow`]), so that the bodies of all ranks have the same bits. Moving
//! bodies is work of order n, which every rank does. Force evaluations, potential energies and
//! adaptive steps of close pairs are shared. Other values are read from the bodies of rank 0 alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orrery_cluster::{ClusterError, Team};
use orrery_model::{Particles, Vec3s};
use orrery_simd::InstructionSet;

use super::command::{BodiesCommand, BodiesOperation, SentVectors, broadcast_state, broadcast_vectors};
use super::host::HostBodies;
use super::{Bodies, BodiesError, BodiesState, DeviceSetup};
use crate::settings::GravitySettings;
use crate::share::TargetShare;

/// Ranks that compute the forces of bodies together. This is rank 0. The other ranks call
/// [`follow`](super::follow), which returns when all clones and all bodies of the team are dropped.
///
/// ```
/// use orrery_cluster::{Team, threads};
/// use orrery_model::Precision;
/// use orrery_model::ic::Plummer;
/// use orrery_gravity::bodies::{Bodies, BodiesError, BodiesTeam, follow};
/// use orrery_gravity::integrator::leapfrog_step;
/// use orrery_gravity::settings::{Acceptance, GravitySettings, SolverChoice};
///
/// let settings = GravitySettings {
///     g: 1.0,
///     eps: 0.01,
///     solver: SolverChoice::Tree,
///     acceptance: Acceptance::default(),
///     precision: Precision::Mixed,
/// };
/// let plummer = || Plummer { n: 999, ..Plummer::default() }.generate(1.0).expect("a valid model");
/// let mut alone = Bodies::new(plummer(), &settings, None)?;
/// leapfrog_step(&mut alone, 0.01)?;
///
/// let ranks = threads::run(3, |transport| {
///     let team = Team::new(transport);
///     if !team.is_leader() {
///         return follow(&team, None).map(|()| None);
///     }
///     let mut bodies = Bodies::new_on_team(&BodiesTeam::lead(&team), plummer(), &settings, None)?;
///     leapfrog_step(&mut bodies, 0.01)?;
///     Ok(Some(bodies.particles()?.clone()))
/// })?;
/// assert_eq!(ranks[0].as_ref(), Some(alone.particles()?));
/// # Ok::<(), BodiesError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BodiesTeam {
    session: Arc<Session>,
}

/// Connection of rank 0 to its followers. The followers end with it.
#[derive(Debug)]
struct Session {
    team: Team,
    share: Arc<TargetShare>,
    /// Number of the next bodies.
    next: AtomicU64,
}

impl Session {
    fn new_replicas(self: &Arc<Self>) -> Replicas {
        Replicas { session: Arc::clone(self), number: self.next.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // If this fails, the group has ended.
        let _ = self.team.lead(&BodiesCommand::End);
    }
}

impl BodiesTeam {
    /// Starts to lead the ranks of `team`. The followers must be in [`follow`](super::follow), or
    /// call it next.
    pub fn lead(team: &Team) -> Self {
        let share = Arc::new(TargetShare::new(team.transport()));
        Self { session: Arc::new(Session { team: team.clone(), share, next: AtomicU64::new(0) }) }
    }
}

/// Copies of bodies on the followers, which are dropped with this value.
#[derive(Debug)]
pub(super) struct Replicas {
    session: Arc<Session>,
    number: u64,
}

impl Replicas {
    /// Lets the followers repeat an operation.
    pub fn repeat(&self, operation: BodiesOperation) -> Result<(), ClusterError> {
        self.session.team.lead(&BodiesCommand::Repeat { bodies: self.number, operation })
    }

    /// Sends positions and velocities to the followers.
    pub fn send_phase_space(&self, position: &Vec3s, velocity: &Vec3s) -> Result<(), ClusterError> {
        let transport = self.session.team.transport();
        broadcast_vectors(transport, position)?;
        broadcast_vectors(transport, velocity).map(drop)
    }

    /// Lets the followers copy the bodies.
    pub fn copy(&self) -> Result<Self, ClusterError> {
        let copy = self.session.new_replicas();
        self.repeat(BodiesOperation::CopyTo { copy: copy.number })?;
        Ok(copy)
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        // If this fails, the group has ended.
        let _ = self.repeat(BodiesOperation::Drop);
    }
}

impl Bodies {
    /// Does [`Bodies::new`] on all ranks of a team. The followers compute on their devices if there
    /// is a `setup`, with the same strategy.
    pub fn new_on_team(
        team: &BodiesTeam,
        particles: Particles,
        settings: &GravitySettings,
        setup: Option<&DeviceSetup>,
    ) -> Result<Self, BodiesError> {
        let has = SentVectors { acceleration: false, jerk: false };
        let mut bodies = Self::on_team(team, HostBodies::new(particles, settings), settings, has)?;
        bodies.start(setup)?;
        Ok(bodies)
    }

    /// Copies bodies on the host, for example restored ones, to all ranks of a team.
    ///
    /// # Panics
    /// If the bodies are on a device.
    pub fn shared_with(self, team: &BodiesTeam) -> Result<Self, BodiesError> {
        let BodiesState::Host(host) = self.state else { panic!("expected bodies on the host") };
        let has = SentVectors { acceleration: true, jerk: host.jerk.is_some() };
        Self::on_team(team, *host, &self.settings, has)
    }

    fn on_team(
        team: &BodiesTeam,
        host: HostBodies,
        settings: &GravitySettings,
        has: SentVectors,
    ) -> Result<Self, BodiesError> {
        let (session, transport) = (&team.session, team.session.team.transport());
        let replicas = session.new_replicas();
        let instruction_set = InstructionSet::best().name().to_owned();
        replicas.repeat(BodiesOperation::Restore { settings: *settings, instruction_set, has })?;
        if transport.size() > 1 {
            let HostBodies { particles, acceleration, jerk, .. } = &host;
            broadcast_state(transport, has, particles, acceleration, jerk.as_ref())?;
        }
        Ok(Self {
            settings: *settings,
            state: BodiesState::Host(Box::new(host)),
            share: Arc::clone(&session.share),
            replicas: Some(replicas),
        })
    }
}
