//! The bodies on their way: state, accelerations, and what an integrator may do to them.
//!
//! Between calls the accelerations belong to the positions of the last [`Bodies::update_forces`]. They are
//! part of the state: an integrator opens its step with them, and the tree's relative acceptance reads them.
//!
//! Bodies live on the host or on a device. On a device every change is queued and nothing waits for it; numbers come
//! to the host only where someone asks, and what is asked for twice between two changes comes once. Nothing that
//! is read comes from a step whose numbers went wrong: what [`Bodies::check_step`] has queued is looked at before.

mod device;
mod device_setup;
mod error;
mod host;
mod measure;
mod once;
mod watch;

use orrery_device::Device;
use orrery_model::{Particles, Vec3s};

pub use device_setup::{DeviceSetup, needed_bytes};
pub use error::{BodiesError, NotFinite, Stamp};
pub use once::forces_on_device;

use crate::settings::GravitySettings;
use crate::solver::device::DeviceStrategy;
use device::DeviceBodies;
use host::HostBodies;

/// Bodies under their own gravity.
#[derive(Debug)]
pub struct Bodies {
    settings: GravitySettings,
    state: State,
}

#[derive(Debug)]
enum State {
    Host(Box<HostBodies>),
    Device(Box<DeviceBodies>),
}

/// A vector that every body has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Where it is.
    Position,
    /// Where it goes.
    Velocity,
    /// Of the last force evaluation.
    Acceleration,
    /// The time derivative of the acceleration.
    Jerk,
}

impl Field {
    /// All, in order: `ALL[k] as usize == k`.
    const ALL: [Self; 4] = [Self::Position, Self::Velocity, Self::Acceleration, Self::Jerk];
}

/// A column of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// The field as [`Bodies::mark_start`] found it.
    Start(Field),
    /// The field as it is now.
    Now(Field),
}

/// Sums over the motion of all bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Motion {
    /// ½ Σ m v².
    pub kinetic_energy: f64,
    /// Σ m v.
    pub momentum: [f64; 3],
    /// Σ m x × v.
    pub angular_momentum: [f64; 3],
}

impl Bodies {
    /// Takes the bodies to `place`, `None` being the processor, and computes their accelerations.
    pub fn new(
        particles: Particles,
        settings: &GravitySettings,
        setup: Option<&DeviceSetup>,
    ) -> Result<Self, BodiesError> {
        let mut host = HostBodies::new(particles, settings);
        let state = match setup {
            Some(setup) if !host.particles.is_empty() => {
                let mut device = DeviceBodies::new(host.particles, &host.acceleration, None, setup)?;
                device.update_forces(settings, true)?;
                State::Device(Box::new(device))
            }
            _ => {
                host.update_forces(settings, true);
                State::Host(Box::new(host))
            }
        };
        Ok(Self { settings: *settings, state })
    }

    /// Takes bodies up where they were: `acceleration` and `jerk` are what [`Bodies::acceleration`] and
    /// [`Bodies::known_jerk`] gave then.
    pub fn restore(
        particles: Particles,
        acceleration: Vec3s,
        jerk: Option<Vec3s>,
        settings: &GravitySettings,
    ) -> Self {
        let host = HostBodies::restore(particles, acceleration, jerk, settings);
        Self { settings: *settings, state: State::Host(Box::new(host)) }
    }

    /// Brings bodies that are on the host to a device, as they are.
    pub fn moved_to(self, setup: &DeviceSetup) -> Result<Self, BodiesError> {
        let state = match self.state {
            State::Host(host) if !host.particles.is_empty() => {
                let HostBodies { particles, acceleration, jerk, .. } = *host;
                let device = DeviceBodies::new(particles, &acceleration, jerk.as_ref(), setup)?;
                State::Device(Box::new(device))
            }
            state => state,
        };
        Ok(Self { state, ..self })
    }

    /// The same bodies once more, on the same device.
    pub fn try_clone(&self) -> Result<Self, BodiesError> {
        let state = match &self.state {
            State::Host(host) => State::Host(host.clone()),
            State::Device(device) => State::Device(Box::new(device.try_clone()?)),
        };
        Ok(Self { settings: self.settings, state })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.state {
            State::Host(host) => host.particles.len(),
            State::Device(device) => device.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device they live on; `None` is the host.
    pub fn device(&self) -> Option<&Device> {
        match &self.state {
            State::Host(_) => None,
            State::Device(device) => Some(device.device()),
        }
    }

    /// The bodies as they are now.
    pub fn particles(&self) -> Result<&Particles, BodiesError> {
        match &self.state {
            State::Host(host) => Ok(&host.particles),
            State::Device(device) => device.particles(),
        }
    }

    /// The bodies after numbers went wrong: those of the step at which they did.
    pub fn particles_unchecked(&self) -> Result<Particles, BodiesError> {
        match &self.state {
            State::Host(host) => Ok(host.particles.clone()),
            State::Device(device) => Ok(device.particles_unchecked()?),
        }
    }

    /// The accelerations of the last force evaluation.
    pub fn acceleration(&self) -> Result<&Vec3s, BodiesError> {
        match &self.state {
            State::Host(host) => Ok(&host.acceleration),
            State::Device(device) => device.acceleration(),
        }
    }

    /// The time derivatives of the accelerations, if they are known.
    pub fn known_jerk(&self) -> Result<Option<&Vec3s>, BodiesError> {
        match &self.state {
            State::Host(host) => Ok(host.jerk.as_ref()),
            State::Device(device) => device.known_jerk(),
        }
    }

    /// A short name of how forces are computed, for reports.
    pub fn solver_name(&self) -> &'static str {
        match &self.state {
            State::Host(host) => host.strategy.name(),
            State::Device(device) => device.strategy().name(),
        }
    }

    /// How a device computes forces; `None` on the host.
    pub fn device_strategy(&self) -> Option<&DeviceStrategy> {
        match &self.state {
            State::Host(_) => None,
            State::Device(device) => Some(device.strategy()),
        }
    }

    /// What they obey.
    pub fn settings(&self) -> &GravitySettings {
        &self.settings
    }

    /// Plummer softening.
    pub fn softening(&self) -> f64 {
        self.settings.eps
    }

    /// The gravitational constant.
    pub fn gravitational_constant(&self) -> f64 {
        self.settings.g
    }

    /// v ← v + dt a.
    pub fn kick(&mut self, dt: f64) -> Result<(), BodiesError> {
        match &mut self.state {
            State::Host(host) => host.kick(dt),
            State::Device(device) => device.kick(dt)?,
        }
        Ok(())
    }

    /// x ← x + dt v.
    pub fn drift(&mut self, dt: f64) -> Result<(), BodiesError> {
        match &mut self.state {
            State::Host(host) => host.drift(dt),
            State::Device(device) => device.drift(dt)?,
        }
        Ok(())
    }

    /// A kick, then a drift: on a device in one pass over the bodies.
    pub fn kick_and_drift(&mut self, kick_dt: f64, drift_dt: f64) -> Result<(), BodiesError> {
        match &mut self.state {
            State::Host(host) => {
                host.kick(kick_dt);
                host.drift(drift_dt);
            }
            State::Device(device) => device.kick_and_drift(kick_dt, drift_dt)?,
        }
        Ok(())
    }

    /// Computes the accelerations for the present positions.
    pub fn update_forces(&mut self) -> Result<(), BodiesError> {
        match &mut self.state {
            State::Host(host) => host.update_forces(&self.settings, false),
            State::Device(device) => device.update_forces(&self.settings, false)?,
        }
        Ok(())
    }

    /// Computes accelerations and their time derivatives for the present positions and velocities, all pairs
    /// in f64.
    pub fn update_forces_and_jerks(&mut self) -> Result<(), BodiesError> {
        match &mut self.state {
            State::Host(host) => host.update_forces_and_jerks(&self.settings),
            State::Device(device) => device.update_forces_and_jerks(&self.settings)?,
        }
        Ok(())
    }

    /// Marks the present fields, jerks included, as those that [`Term::Start`] means. Computes jerks that are not known.
    pub fn mark_start(&mut self) -> Result<(), BodiesError> {
        let knows_jerk = match &self.state {
            State::Host(host) => host.jerk.is_some(),
            State::Device(device) => device.knows_jerk(),
        };
        if !knows_jerk {
            self.update_forces_and_jerks()?;
        }
        match &mut self.state {
            State::Host(host) => host.mark_start(),
            State::Device(device) => device.mark_start()?,
        }
        Ok(())
    }

    /// `field` ← its start + Σ weight × column, as a predictor or corrector does. At most four terms, none of them the
    /// field itself as it is now.
    pub fn set_from_start(&mut self, field: Field, terms: &[(f64, Term)]) -> Result<(), BodiesError> {
        debug_assert!(terms.len() <= 4 && terms.iter().all(|(_, term)| *term != Term::Now(field)));
        match &mut self.state {
            State::Host(host) => host.set_from_start(field, terms),
            State::Device(device) => device.set_from_start(field, terms)?,
        }
        Ok(())
    }

    /// Sets position and velocity columns at once.
    pub fn set_phase_space(&mut self, position: Vec3s, velocity: Vec3s) -> Result<(), BodiesError> {
        debug_assert!(position.len() == self.len() && velocity.len() == self.len());
        match &mut self.state {
            State::Host(host) => {
                host.particles.position = position;
                host.particles.velocity = velocity;
            }
            State::Device(device) => device.set_phase_space(&position, &velocity)?,
        }
        Ok(())
    }

    /// Kinetic energy and momenta.
    pub fn motion(&self) -> Result<Motion, BodiesError> {
        match &self.state {
            State::Host(host) => Ok(host.motion()),
            State::Device(device) => device.motion(),
        }
    }

    /// ½ Σ m v².
    pub fn kinetic_energy(&self) -> Result<f64, BodiesError> {
        Ok(self.motion()?.kinetic_energy)
    }

    /// ½ Σ m φ. All pairs are summed in f64; the tree, which errs by more than f32 does, in its own arithmetic.
    pub fn potential_energy(&self) -> Result<f64, BodiesError> {
        match &self.state {
            State::Host(host) => Ok(host.potential_energy(&self.settings)),
            State::Device(device) => device.potential_energy(&self.settings),
        }
    }

    /// The largest |a|².
    pub fn largest_acceleration2(&self) -> Result<f64, BodiesError> {
        match &self.state {
            State::Host(host) => Ok(host.largest_acceleration2()),
            State::Device(device) => device.largest_acceleration2(),
        }
    }

    /// The least over all pairs of r³ / G (m + m') and r² / v², the squares of the times in which a pair falls together or
    /// passes by.
    pub fn shortest_pair_time2(&self) -> Result<f64, BodiesError> {
        match &self.state {
            State::Host(host) => Ok(host.shortest_pair_time2(self.settings.g)),
            State::Device(device) => device.shortest_pair_time2(self.settings.g),
        }
    }

    /// Reports a number that is not finite: of the positions if there is one, else of the accelerations, else of the
    /// velocities, and of the first body that has one there. In that order since a position spoils all
    /// accelerations, and an acceleration only its own body's velocity.
    pub fn check_finite(&self) -> Result<(), BodiesError> {
        match &self.state {
            State::Host(host) => {
                host.check_finite().map_err(|source| BodiesError::NotFinite { at: None, source })
            }
            State::Device(device) => device.check_finite(),
        }
    }

    /// The same for the end of a step, which `at` names. A device does not wait for it: its verdict on a step is heard some
    /// calls later, or when anything is read, and until then bodies with a wrong number stay as they are.
    pub fn check_step(&mut self, at: Stamp) -> Result<(), BodiesError> {
        match &mut self.state {
            State::Host(host) => {
                host.check_finite().map_err(|source| BodiesError::NotFinite { at: Some(at), source })
            }
            State::Device(device) => device.check_step(at),
        }
    }
}
