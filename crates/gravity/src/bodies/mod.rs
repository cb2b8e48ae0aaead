//! Bodies that move: their state, their accelerations, and the operations of an integrator on them.
//!
//! Between calls the accelerations belong to the positions of the last [`Bodies::update_forces`].
//! They are part of the state: an integrator starts its step with them, and the tree's relative
//! acceptance reads them.
//!
//! Bodies live on the host or on a device. On a device every change is queued, and the host does
//! not wait for it. Values are copied to the host only where they are read, at most once between
//! two changes. Reading waits for the checks that [`Bodies::check_step`] queued, so a value that is
//! read never comes from a step with a non-finite result.
//!
//! Several ranks can share the force evaluations ([`BodiesTeam`]). All of them have all bodies.

mod bins;
mod command;
mod create;
mod device;
mod device_setup;
mod error;
mod follow;
mod force_timer;
mod host;
mod measure;
pub mod selftest;
mod static_forces;
mod team;
mod team_selftest;

use std::sync::Arc;
use std::time::Duration;

use orrery_device::Device;
use orrery_model::analysis::{BinnedBodies, Projection};
use orrery_model::{Particles, Vec3s};
use serde::{Deserialize, Serialize};

pub use bins::PendingBins;
pub use device_setup::{DeviceSetup, needed_bytes};
pub use error::{BodiesError, CheckStamp, NotFinite};
pub use follow::follow;
pub use static_forces::forces_on_device;
pub use team::BodiesTeam;

pub use crate::share::{ForceExchangeTime, time_force_exchange};

use crate::settings::GravitySettings;
use crate::share::TargetShare;
use crate::solver::device::DeviceStrategy;
use command::BodiesOperation;
use device::DeviceBodies;
use host::HostBodies;
use team::Replicas;

/// Bodies that attract one another, on the host or on a device.
///
/// An integrator moves them with [`kick`](Self::kick), [`drift`](Self::drift) and
/// [`update_forces`](Self::update_forces). For example, two bodies on a circular orbit:
///
/// ```
/// use orrery_model::{Particle, Particles, Precision, Species};
/// use orrery_gravity::bodies::Bodies;
/// use orrery_gravity::integrator::leapfrog_step;
/// use orrery_gravity::settings::{Acceptance, GravitySettings, SolverChoice};
///
/// // Masses of 1/2 at distance 1: with G = 1 each has speed 1/2, and the energy is -1/8.
/// let mut particles = Particles::default();
/// for (id, side) in [(0, -0.5), (1, 0.5)] {
///     particles.push(Particle {
///         position: [side, 0.0, 0.0],
///         velocity: [0.0, side, 0.0],
///         mass: 0.5,
///         id,
///         species: Species::default(),
///     });
/// }
/// let settings = GravitySettings {
///     g: 1.0,
///     eps: 0.0,
///     solver: SolverChoice::Direct,
///     acceptance: Acceptance::default(),
///     precision: Precision::Double,
/// };
///
/// // `None` keeps the bodies on the CPU.
/// let mut bodies = Bodies::new(particles, &settings, None)?;
/// assert!((bodies.acceleration()?.x[0] - 0.5).abs() < 1e-15);
/// for _ in 0..100 {
///     leapfrog_step(&mut bodies, 0.01)?;
/// }
/// bodies.check_finite()?;
/// let energy = bodies.kinetic_energy()? + bodies.potential_energy()?;
/// assert!((energy + 0.125).abs() < 1e-6);
/// # Ok::<(), orrery_gravity::bodies::BodiesError>(())
/// ```
#[derive(Debug)]
pub struct Bodies {
    settings: GravitySettings,
    state: BodiesState,
    /// Ranks that share force evaluations.
    share: Arc<TargetShare>,
    /// Copies on the followers, if this is rank 0 of a team.
    replicas: Option<Replicas>,
}

#[derive(Debug)]
enum BodiesState {
    Host(Box<HostBodies>),
    Device(Box<DeviceBodies>),
}

/// A vector of each body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BodyField {
    /// The position.
    Position,
    /// The velocity.
    Velocity,
    /// The acceleration of the last force evaluation.
    Acceleration,
    /// The time derivative of the acceleration.
    Jerk,
}

impl BodyField {
    /// All fields in declaration order: `ALL[k] as usize == k`.
    const ALL: [Self; 4] = [Self::Position, Self::Velocity, Self::Acceleration, Self::Jerk];
}

/// A field that [`Bodies::set_from_start`] adds, with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Term {
    /// The field at the last [`Bodies::mark_start`].
    Start(BodyField),
    /// The current field.
    Now(BodyField),
}

/// Sums over the motion of all bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BodiesMotion {
    /// ½ Σ m v².
    pub kinetic_energy: f64,
    /// Σ m v.
    pub momentum: [f64; 3],
    /// Σ m x × v.
    pub angular_momentum: [f64; 3],
}

impl Bodies {
    /// Lets the followers repeat an operation, if this is rank 0 of a team.
    fn repeat(&self, operation: impl FnOnce() -> BodiesOperation) -> Result<(), BodiesError> {
        match &self.replicas {
            Some(replicas) => Ok(replicas.repeat(operation())?),
            None => Ok(()),
        }
    }

    /// Returns the number of bodies.
    pub fn len(&self) -> usize {
        match &self.state {
            BodiesState::Host(host) => host.particles.len(),
            BodiesState::Device(device) => device.len(),
        }
    }

    /// Returns true if there are no bodies.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the device of the bodies, `None` if they are on the host.
    pub fn device(&self) -> Option<&Device> {
        match &self.state {
            BodiesState::Host(_) => None,
            BodiesState::Device(device) => Some(device.device()),
        }
    }

    /// Returns the current bodies. Fails if a checked step left a non-finite value.
    pub fn particles(&self) -> Result<&Particles, BodiesError> {
        match &self.state {
            BodiesState::Host(host) => Ok(&host.particles),
            BodiesState::Device(device) => device.particles(),
        }
    }

    /// Returns the current positions. From a device only these are copied. Fails if a checked step
    /// left a non-finite value.
    pub fn positions(&self) -> Result<&Vec3s, BodiesError> {
        match &self.state {
            BodiesState::Host(host) => Ok(&host.particles.position),
            BodiesState::Device(device) => device.positions(),
        }
    }

    /// Builds the kernels of [`bins_on_device`](Self::bins_on_device), so that the first picture of
    /// a run does not wait for the compiler.
    pub fn prepare_bins(&self) -> Result<(), BodiesError> {
        match &self.state {
            BodiesState::Host(_) => Ok(()),
            BodiesState::Device(device) => Ok(bins::BinKernels::new(device.device()).map(drop)?),
        }
    }

    /// Bins the bodies for a picture, on their device. Returns `None` if they are on the host.
    ///
    /// `bodies` has the layer and mass of each body, with layers below `layers`. The call waits for
    /// queued steps, but neither for the bins nor for their copy to the host. Fails if a checked
    /// step left a non-finite value.
    pub fn bins_on_device(
        &self,
        bodies: &Arc<BinnedBodies>,
        layers: usize,
        projection: &Projection,
    ) -> Result<Option<PendingBins>, BodiesError> {
        debug_assert_eq!(bodies.layer.len(), self.len());
        match &self.state {
            BodiesState::Host(_) => Ok(None),
            BodiesState::Device(device) => device.queue_bins(bodies, layers, projection).map(Some),
        }
    }

    /// Returns the current bodies even if some values are not finite.
    ///
    /// After a failed [`Bodies::check_step`] these are the bodies at the end of the failed step.
    pub fn particles_unchecked(&self) -> Result<Particles, BodiesError> {
        match &self.state {
            BodiesState::Host(host) => Ok(host.particles.clone()),
            BodiesState::Device(device) => Ok(device.particles_unchecked()?),
        }
    }

    /// Returns the accelerations of the last force evaluation.
    pub fn acceleration(&self) -> Result<&Vec3s, BodiesError> {
        match &self.state {
            BodiesState::Host(host) => Ok(&host.acceleration),
            BodiesState::Device(device) => device.acceleration(),
        }
    }

    /// Returns the time derivatives of the accelerations, if they belong to the current state.
    pub fn known_jerk(&self) -> Result<Option<&Vec3s>, BodiesError> {
        match &self.state {
            BodiesState::Host(host) => Ok(host.jerk.as_ref()),
            BodiesState::Device(device) => device.known_jerk(),
        }
    }

    /// Returns a short name of the force solver for reports, such as "tree".
    pub fn solver_name(&self) -> &'static str {
        match &self.state {
            BodiesState::Host(host) => host.strategy.name(),
            BodiesState::Device(device) => device.strategy().name(),
        }
    }

    /// Returns the strategy of the device, `None` on the host.
    pub fn device_strategy(&self) -> Option<&DeviceStrategy> {
        match &self.state {
            BodiesState::Host(_) => None,
            BodiesState::Device(device) => Some(device.strategy()),
        }
    }

    /// Returns the time of all force evaluations that moved the bodies. On a device it is
    /// extrapolated from a sample of them, and the call waits for the device.
    pub fn force_time(&self) -> Duration {
        match &self.state {
            BodiesState::Host(host) => host.force_time,
            BodiesState::Device(device) => device.force_time(),
        }
    }

    /// Returns the settings of the forces.
    pub fn settings(&self) -> &GravitySettings {
        &self.settings
    }

    /// Returns the Plummer softening length.
    pub fn softening(&self) -> f64 {
        self.settings.eps
    }

    /// Returns the gravitational constant.
    pub fn gravitational_constant(&self) -> f64 {
        self.settings.g
    }

    /// Changes velocities: v ← v + dt a.
    pub fn kick(&mut self, dt: f64) -> Result<(), BodiesError> {
        self.repeat(|| BodiesOperation::Kick { dt: dt.into() })?;
        match &mut self.state {
            BodiesState::Host(host) => host.kick(dt),
            BodiesState::Device(device) => device.kick(dt)?,
        }
        Ok(())
    }

    /// Changes positions: x ← x + dt v.
    pub fn drift(&mut self, dt: f64) -> Result<(), BodiesError> {
        self.repeat(|| BodiesOperation::Drift { dt: dt.into() })?;
        match &mut self.state {
            BodiesState::Host(host) => host.drift(dt),
            BodiesState::Device(device) => device.drift(dt)?,
        }
        Ok(())
    }

    /// Kicks, then drifts, in one pass over the bodies.
    pub fn kick_and_drift(&mut self, kick_dt: f64, drift_dt: f64) -> Result<(), BodiesError> {
        self.repeat(|| BodiesOperation::KickAndDrift { kick_dt: kick_dt.into(), drift_dt: drift_dt.into() })?;
        match &mut self.state {
            BodiesState::Host(host) => host.kick_and_drift(kick_dt, drift_dt),
            BodiesState::Device(device) => device.kick_and_drift(kick_dt, drift_dt)?,
        }
        Ok(())
    }

    /// Computes the accelerations at the current positions.
    pub fn update_forces(&mut self) -> Result<(), BodiesError> {
        self.repeat(|| BodiesOperation::UpdateForces)?;
        match &mut self.state {
            BodiesState::Host(host) => Ok(host.update_forces(&self.settings, false, &self.share)?),
            BodiesState::Device(device) => device.update_forces(&self.settings, false),
        }
    }

    /// Lets a later [`update_forces`](Self::update_forces) compute potentials as well, so that
    /// [`potential_energy`](Self::potential_energy) needs no force evaluation until the positions
    /// change. The accelerations have the same bits.
    ///
    /// `evaluation` counts the calls of `update_forces` from now on: 1 is the next one. For
    /// example, `IntegratorChoice::step_with_potential` requests potentials of the last one of a
    /// step.
    ///
    /// Some solvers ignore the request, and `potential_energy` then computes the potentials: the
    /// direct sum of a device, and a direct sum in f32, whose potential energy must be computed in
    /// f64.
    pub fn request_potential(&mut self, evaluation: u32) -> Result<(), BodiesError> {
        self.repeat(|| BodiesOperation::RequestPotential { evaluation })?;
        match &mut self.state {
            BodiesState::Host(host) => host.request_potential(evaluation),
            BodiesState::Device(device) => device.request_potential(evaluation),
        }
        Ok(())
    }

    /// Computes accelerations and their time derivatives at the current positions and velocities,
    /// as a direct sum in f64.
    pub fn update_forces_and_jerks(&mut self) -> Result<(), BodiesError> {
        self.repeat(|| BodiesOperation::UpdateForcesAndJerks)?;
        match &mut self.state {
            BodiesState::Host(host) => Ok(host.update_forces_and_jerks(&self.settings, &self.share)?),
            BodiesState::Device(device) => device.update_forces_and_jerks(&self.settings),
        }
    }

    /// Stores the current fields as the values of [`Term::Start`]. Computes the jerks if they are
    /// not known.
    pub fn mark_start(&mut self) -> Result<(), BodiesError> {
        let knows_jerk = match &self.state {
            BodiesState::Host(host) => host.jerk.is_some(),
            BodiesState::Device(device) => device.knows_jerk(),
        };
        if !knows_jerk {
            self.update_forces_and_jerks()?;
        }
        self.repeat(|| BodiesOperation::MarkStart)?;
        match &mut self.state {
            BodiesState::Host(host) => host.mark_start(),
            BodiesState::Device(device) => device.mark_start()?,
        }
        Ok(())
    }

    /// Sets `field` to its value at the start plus Σ weight × term, for a predictor or corrector.
    ///
    /// Takes at most four terms. None of them may be the current value of `field`. For example, the
    /// predicted velocity of Hermite's method has the terms (dt, start acceleration) and
    /// (dt²/2, start jerk).
    pub fn set_from_start(&mut self, field: BodyField, terms: &[(f64, Term)]) -> Result<(), BodiesError> {
        debug_assert!(terms.len() <= 4 && terms.iter().all(|(_, term)| *term != Term::Now(field)));
        self.repeat(|| {
            let terms = terms.iter().map(|&(weight, term)| (weight.into(), term)).collect();
            BodiesOperation::SetFromStart { field, terms }
        })?;
        match &mut self.state {
            BodiesState::Host(host) => host.set_from_start(field, terms),
            BodiesState::Device(device) => device.set_from_start(field, terms)?,
        }
        Ok(())
    }

    /// Replaces positions and velocities. Both must have one entry per body.
    pub fn set_phase_space(&mut self, position: Vec3s, velocity: Vec3s) -> Result<(), BodiesError> {
        debug_assert!(position.len() == self.len() && velocity.len() == self.len());
        if let Some(replicas) = &self.replicas {
            replicas.repeat(BodiesOperation::SetPhaseSpace)?;
            replicas.send_phase_space(&position, &velocity)?;
        }
        match &mut self.state {
            BodiesState::Host(host) => host.set_phase_space(position, velocity),
            BodiesState::Device(device) => device.set_phase_space(&position, &velocity)?,
        }
        Ok(())
    }

    /// Returns the kinetic energy, momentum and angular momentum of all bodies.
    pub fn motion(&self) -> Result<BodiesMotion, BodiesError> {
        match &self.state {
            BodiesState::Host(host) => Ok(host.motion()),
            BodiesState::Device(device) => device.motion(),
        }
    }

    /// Returns ½ Σ m v².
    pub fn kinetic_energy(&self) -> Result<f64, BodiesError> {
        Ok(self.motion()?.kinetic_energy)
    }

    /// Returns ½ Σ m φ.
    ///
    /// A direct sum is done in f64, and on a device with more than 8192 bodies in mixed precision,
    /// whose terms have the rounding errors of f32. The tree uses the arithmetic of the forces,
    /// because its error is larger than that of f32.
    ///
    /// The tree's relative acceptance reads the current accelerations. After a
    /// [`request_potential`](Self::request_potential) it has read those of the previous step, as
    /// for the forces. The two results differ by less than the error of the tree. With the
    /// geometric acceptance and the direct sum, they have the same bits.
    pub fn potential_energy(&self) -> Result<f64, BodiesError> {
        let is_known = match &self.state {
            BodiesState::Host(host) => host.knows_potential_energy(),
            BodiesState::Device(device) => device.knows_potential_energy(),
        };
        if !is_known {
            self.repeat(|| BodiesOperation::PotentialEnergy)?;
        }
        match &self.state {
            BodiesState::Host(host) => Ok(host.potential_energy(&self.settings, &self.share)?),
            BodiesState::Device(device) => device.potential_energy(&self.settings),
        }
    }

    /// Returns the largest |a|².
    pub fn largest_acceleration2(&self) -> Result<f64, BodiesError> {
        match &self.state {
            BodiesState::Host(host) => Ok(host.largest_acceleration2()),
            BodiesState::Device(device) => device.largest_acceleration2(),
        }
    }

    /// Returns the smallest value of r³ / G (m + m') and r² / v² over all pairs. These are the
    /// squares of the times in which a pair collides or passes.
    pub fn shortest_pair_time2(&self) -> Result<f64, BodiesError> {
        self.repeat(|| BodiesOperation::ShortestPairTime)?;
        match &self.state {
            BodiesState::Host(host) => Ok(host.shortest_pair_time2(self.settings.g, &self.share)?),
            BodiesState::Device(device) => device.shortest_pair_time2(self.settings.g),
        }
    }

    /// Fails if a component of the state is not finite. The error names the first such body.
    ///
    /// Positions are searched first, then accelerations, then velocities: a non-finite position
    /// makes all accelerations non-finite, and a non-finite acceleration only the velocity of its
    /// body.
    pub fn check_finite(&self) -> Result<(), BodiesError> {
        match &self.state {
            BodiesState::Host(host) => {
                host.check_finite().map_err(|source| BodiesError::NotFinite { at: None, source })
            }
            BodiesState::Device(device) => device.check_finite(),
        }
    }

    /// Checks the state like [`Bodies::check_finite`], at the end of the step `at`.
    ///
    /// On a device the call does not wait for the result. An error is returned some calls later, or
    /// when a value is read. Bodies with a non-finite value do not move in the meantime.
    pub fn check_step(&mut self, at: CheckStamp) -> Result<(), BodiesError> {
        match &mut self.state {
            BodiesState::Host(host) => {
                host.check_finite().map_err(|source| BodiesError::NotFinite { at: Some(at), source })
            }
            BodiesState::Device(device) => {
                // A failed check stops the motion. The bodies of all ranks must stop.
                if let Some(replicas) = &self.replicas {
                    replicas.repeat(at.into())?;
                }
                device.check_step(at)
            }
        }
    }
}
