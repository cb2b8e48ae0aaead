//! What comes from a device to the host: columns where they are asked for, otherwise a few sums.

use std::sync::OnceLock;

use orrery_device::{Arg, Buffer, DeviceError, Kernel};
use orrery_model::analysis::sum::compensated_sum;
use orrery_model::{Particles, Vec3s};

use super::device::{BLOCK_SIZE, DeviceBodies, Vectors, columns, locked};
use super::device_setup::{Energies, Solvers};
use super::host::first_not_finite;
use super::watch::Wrong;
use super::{BodiesError, Motion};
use crate::settings::GravitySettings;
use crate::solver::device::ForceRequest;

/// Groups that a sum is shared out to at most: enough to fill a device, few enough to add on the host.
const MOST_GROUPS: u32 = 512;

/// What was read since the last change.
#[derive(Default)]
pub struct Seen {
    particles: OnceLock<Particles>,
    acceleration: OnceLock<Vec3s>,
    jerk: OnceLock<Vec3s>,
    motion: OnceLock<Motion>,
}

fn download(vectors: &Vectors) -> Result<Vec3s, DeviceError> {
    let [x, y, z] = vectors;
    Ok(Vec3s { x: x.to_vec()?, y: y.to_vec()?, z: z.to_vec()? })
}

/// What `cell` holds, or what `make` gives.
fn once<T>(cell: &OnceLock<T>, make: impl FnOnce() -> Result<T, BodiesError>) -> Result<&T, BodiesError> {
    if let Some(known) = cell.get() {
        return Ok(known);
    }
    let made = make()?;
    Ok(cell.get_or_init(|| made))
}

impl DeviceBodies {
    pub fn particles(&self) -> Result<&Particles, BodiesError> {
        once(&self.seen.particles, || {
            self.settle()?;
            Ok(self.particles_unchecked()?)
        })
    }

    pub fn particles_unchecked(&self) -> Result<Particles, DeviceError> {
        let constant = Particles::clone(&self.constant);
        Ok(Particles { position: download(&self.position)?, velocity: download(&self.velocity)?, ..constant })
    }

    pub fn acceleration(&self) -> Result<&Vec3s, BodiesError> {
        once(&self.seen.acceleration, || {
            self.settle()?;
            Ok(download(&self.acceleration)?)
        })
    }

    pub fn known_jerk(&self) -> Result<Option<&Vec3s>, BodiesError> {
        let Some(jerk) = &self.jerk else { return Ok(None) };
        once(&self.seen.jerk, || {
            self.settle()?;
            Ok(download(jerk)?)
        })
        .map(Some)
    }

    /// Hears all verdicts that are on their way.
    pub fn settle(&self) -> Result<(), BodiesError> {
        let wrong = locked(&self.watch).hear_all(self.device(), &self.halt)?;
        self.pass(wrong)
    }

    /// An error with the body and its number, if a step was wrong. The bodies are still as that step left them.
    pub fn pass(&self, wrong: Option<Wrong>) -> Result<(), BodiesError> {
        let Some(Wrong(at)) = wrong else { return Ok(()) };
        let (particles, acceleration) = (self.particles_unchecked()?, download(&self.acceleration)?);
        let source = first_not_finite(&particles, &acceleration)
            .expect("bodies with a wrong number stay as they are, so it is still there");
        Err(BodiesError::NotFinite { at, source })
    }

    pub fn check_finite(&self) -> Result<(), BodiesError> {
        self.settle()?;
        self.send_check(None)?;
        self.settle()
    }

    fn groups(&self) -> u32 {
        (self.len() as u32).div_ceil(BLOCK_SIZE).min(MOST_GROUPS)
    }

    /// What a kernel leaves for `rows` quantities, a number a group each. Its first argument is where it leaves them.
    fn reduce(
        &self,
        kernel: &Kernel,
        rows: usize,
        before: &[Arg],
        after: &[Arg],
    ) -> Result<Vec<f64>, BodiesError> {
        self.settle()?;
        let groups = self.groups();
        let parts: Buffer<f64> = self.device().zeros(rows * groups as usize)?;
        let mut args = before.to_vec();
        args.push((&parts).into());
        args.extend_from_slice(after);
        self.launch_groups(kernel, groups, &args)?;
        Ok(parts.to_vec()?)
    }

    pub fn motion(&self) -> Result<Motion, BodiesError> {
        let measure = || {
            let [x, y, z] = &self.position;
            let [vx, vy, vz] = &self.velocity;
            let mass: &Buffer<f64> = &self.mass;
            let args = [mass, x, y, z, vx, vy, vz].map(Arg::from);
            let parts = self.reduce(&self.kernels.motion, 7, &[], &args)?;
            let mut rows = parts.chunks_exact(self.groups() as usize);
            let mut sum = || compensated_sum(rows.next().unwrap_or_default().iter().copied());
            Ok(Motion {
                kinetic_energy: 0.5 * sum(),
                momentum: [sum(), sum(), sum()],
                angular_momentum: [sum(), sum(), sum()],
            })
        };
        once(&self.seen.motion, measure).copied()
    }

    pub fn potential_energy(&self, settings: &GravitySettings) -> Result<f64, BodiesError> {
        self.settle()?;
        let mut solvers = self.solvers();
        let Solvers { forces, energies, .. } = &mut *solvers;
        let Energies { solver, acceleration, potential } = match energies {
            Some(known) => known,
            none => none.insert(Energies::new(&self.setup, self.len())?),
        };
        let (previous, potential) = (columns(&self.acceleration), &*potential);
        let evaluation = self.evaluation(settings, Some(previous), columns(acceleration));
        solver
            .as_mut()
            .unwrap_or(forces)
            .forces(&ForceRequest { potential: Some(potential), ..evaluation })?;
        let mass: &Buffer<f64> = &self.mass;
        let parts = self.reduce(&self.kernels.weighted, 1, &[], &[mass.into(), potential.into()])?;
        Ok(0.5 * compensated_sum(parts))
    }

    pub fn largest_acceleration2(&self) -> Result<f64, BodiesError> {
        let [ax, ay, az] = &self.acceleration;
        let args = [ax.into(), ay.into(), az.into()];
        let parts = self.reduce(&self.kernels.largest_acceleration2, 1, &[], &args)?;
        Ok(parts.into_iter().fold(0.0, f64::max))
    }

    pub fn shortest_pair_time2(&self, g: f64) -> Result<f64, BodiesError> {
        let [x, y, z] = &self.position;
        let [vx, vy, vz] = &self.velocity;
        let mass: &Buffer<f64> = &self.mass;
        let before = [g.into(), f64::INFINITY.into()];
        let after = [mass, x, y, z, vx, vy, vz].map(Arg::from);
        let parts = self.reduce(&self.kernels.shortest_pair_time2, 1, &before, &after)?;
        Ok(parts.into_iter().fold(f64::INFINITY, f64::min))
    }
}
