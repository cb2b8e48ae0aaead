//! Creation of bodies: new, restored, moved to a device, and copied.

use std::sync::Arc;

use orrery_model::{Particles, Vec3s};

use super::command::{BodiesOperation, DeviceCommand};
use super::device::DeviceBodies;
use super::host::HostBodies;
use super::team::Replicas;
use super::{Bodies, BodiesError, BodiesState, DeviceSetup};
use crate::settings::GravitySettings;
use crate::share::{Evaluation, TargetShare};

impl Bodies {
    /// Moves the bodies to the device of `setup`, or keeps them on the host if it is `None`, and
    /// computes their accelerations.
    pub fn new(
        particles: Particles,
        settings: &GravitySettings,
        setup: Option<&DeviceSetup>,
    ) -> Result<Self, BodiesError> {
        let mut bodies = Self::from_host(HostBodies::new(particles, settings), settings);
        bodies.start(setup)?;
        Ok(bodies)
    }

    /// As [`Bodies::new`], but computes the forces on one of `parts` equal parts of the bodies and
    /// leaves those on the others undefined: the work of one rank without messages, for
    /// measurements.
    ///
    /// # Panics
    /// If `part` is not below `parts`.
    pub fn new_part(
        particles: Particles,
        settings: &GravitySettings,
        setup: Option<&DeviceSetup>,
        (part, parts): (usize, usize),
    ) -> Result<Self, BodiesError> {
        assert!(part < parts, "part {part} of {parts}");
        let bodies = Self::from_host(HostBodies::new(particles, settings), settings);
        let mut bodies = Self { share: Arc::new(TargetShare::of_part(part, parts)), ..bodies };
        bodies.start(setup)?;
        Ok(bodies)
    }

    fn from_host(host: HostBodies, settings: &GravitySettings) -> Self {
        let (state, share) = (BodiesState::Host(Box::new(host)), Arc::default());
        Self { settings: *settings, state, share, replicas: None }
    }

    /// Computes the first accelerations of bodies on the host, after moving them to the device of
    /// `setup`.
    pub(super) fn start(&mut self, setup: Option<&DeviceSetup>) -> Result<(), BodiesError> {
        let setup = setup.filter(|_| !self.is_empty());
        self.repeat(|| BodiesOperation::Start { device: setup.map(DeviceCommand::new) })?;
        if let Some(setup) = setup {
            self.upload_to(setup)?;
        }
        match &mut self.state {
            BodiesState::Host(host) => Ok(host.update_forces(&self.settings, true, &self.share)?),
            BodiesState::Device(device) => {
                device.update_forces(&self.settings, true)?;
                device.prepare_energies(&self.settings)
            }
        }
    }

    /// Restores bodies on the host from a saved state, without a force evaluation.
    ///
    /// `acceleration` and `jerk` are the saved results of [`Bodies::acceleration`] and
    /// [`Bodies::known_jerk`].
    pub fn restore(
        particles: Particles,
        acceleration: Vec3s,
        jerk: Option<Vec3s>,
        settings: &GravitySettings,
    ) -> Self {
        Self::from_host(HostBodies::restore(particles, acceleration, jerk, settings), settings)
    }

    /// Moves bodies from the host to a device, without a force evaluation. The followers of a team
    /// move them to their devices.
    pub fn moved_to(mut self, setup: &DeviceSetup) -> Result<Self, BodiesError> {
        self.move_to(setup)?;
        Ok(self)
    }

    pub(super) fn move_to(&mut self, setup: &DeviceSetup) -> Result<(), BodiesError> {
        if self.is_empty() || self.device().is_some() {
            return Ok(());
        }
        self.repeat(|| BodiesOperation::MoveTo { device: DeviceCommand::new(setup) })?;
        self.upload_to(setup)?;
        match &self.state {
            BodiesState::Host(_) => Ok(()),
            BodiesState::Device(device) => device.prepare_energies(&self.settings),
        }
    }

    /// Replaces bodies on the host by bodies on a device. All ranks of a team must do this.
    fn upload_to(&mut self, setup: &DeviceSetup) -> Result<(), BodiesError> {
        let BodiesState::Host(host) = &mut self.state else { return Ok(()) };
        let particles = std::mem::take(&mut host.particles);
        let device = DeviceBodies::new(particles, &host.acceleration, host.jerk.as_ref(), setup, &self.share);
        // The followers must not wait for the first evaluation of a rank that fails here.
        let evaluation = self.share.of(Evaluation::Forces);
        let device = device.map_err(|error| evaluation.fail(BodiesError::from(error)))?;
        evaluation.agree(Ok::<_, BodiesError>(0.0))?;
        self.state = BodiesState::Device(Box::new(device));
        Ok(())
    }

    /// Copies the bodies, on the same device.
    pub fn try_clone(&self) -> Result<Self, BodiesError> {
        let state = match &self.state {
            BodiesState::Host(host) => BodiesState::Host(host.clone()),
            BodiesState::Device(device) => BodiesState::Device(Box::new(device.try_clone()?)),
        };
        let replicas = self.replicas.as_ref().map(Replicas::copy).transpose()?;
        Ok(Self { settings: self.settings, state, share: Arc::clone(&self.share), replicas })
    }
}
