//! Reading from a device: columns where they are requested, otherwise a few sums.

use std::sync::OnceLock;
use std::time::Instant;

use orrery_device::{Arg, Buffer, DeviceError, FailedCheck, Kernel};
use orrery_model::analysis::sum::compensated_sum;
use orrery_model::{Particles, Vec3s};

use super::device::{BLOCK_SIZE, DeviceBodies, columns, download, lock_mutex};
use super::host::first_non_finite;
use super::{BodiesError, BodiesMotion, CheckStamp};
use crate::settings::GravitySettings;
use crate::share::Evaluation;

/// Largest number of blocks of a sum: enough to fill a device, few enough to add on the host.
const MAX_SUM_BLOCKS: u32 = 512;
/// Largest number of results of a kernel that reduces: one per row and block.
pub(super) const MAX_BLOCK_RESULTS: usize = MOTION_ROWS * MAX_SUM_BLOCKS as usize;

/// Rows that the kernel `sum_motion` writes: m v², and three components each of m v and m x × v.
const MOTION_ROWS: usize = 7;

/// Values read since the last change of the bodies.
#[derive(Default)]
pub struct ReadCache {
    particles: OnceLock<Particles>,
    positions: OnceLock<Vec3s>,
    acceleration: OnceLock<Vec3s>,
    jerk: OnceLock<Vec3s>,
    motion: OnceLock<BodiesMotion>,
    potential_energy: OnceLock<f64>,
}

/// Returns the value in `cell`, or computes and stores it.
fn get_or_compute<T>(
    cell: &OnceLock<T>,
    compute: impl FnOnce() -> Result<T, BodiesError>,
) -> Result<&T, BodiesError> {
    if let Some(known) = cell.get() {
        return Ok(known);
    }
    let computed = compute()?;
    Ok(cell.get_or_init(|| computed))
}

impl DeviceBodies {
    pub fn particles(&self) -> Result<&Particles, BodiesError> {
        get_or_compute(&self.cache.particles, || {
            self.resolve_checks()?;
            Ok(self.particles_unchecked()?)
        })
    }

    pub fn positions(&self) -> Result<&Vec3s, BodiesError> {
        if let Some(particles) = self.cache.particles.get() {
            return Ok(&particles.position);
        }
        get_or_compute(&self.cache.positions, || {
            self.resolve_checks()?;
            Ok(download(&self.position)?)
        })
    }

    pub fn particles_unchecked(&self) -> Result<Particles, DeviceError> {
        let constants = Particles::clone(&self.constants);
        Ok(Particles {
            position: download(&self.position)?,
            velocity: download(&self.velocity)?,
            ..constants
        })
    }

    pub fn acceleration(&self) -> Result<&Vec3s, BodiesError> {
        get_or_compute(&self.cache.acceleration, || {
            self.resolve_checks()?;
            Ok(download(&self.acceleration)?)
        })
    }

    pub fn known_jerk(&self) -> Result<Option<&Vec3s>, BodiesError> {
        let Some(jerk) = &self.jerk else { return Ok(None) };
        get_or_compute(&self.cache.jerk, || {
            self.resolve_checks()?;
            Ok(download(jerk)?)
        })
        .map(Some)
    }

    /// Waits for the results of all queued checks. Fails if one of them found a non-finite value.
    pub fn resolve_checks(&self) -> Result<(), BodiesError> {
        let failure = lock_mutex(&self.watch).drain(self.device().queue(), &self.failed_check)?;
        self.fail_if_found(failure)
    }

    /// Turns a failed check into an error that names the body and the component. The bodies are
    /// still as the failed step left them.
    pub fn fail_if_found(&self, failure: Option<FailedCheck<CheckStamp>>) -> Result<(), BodiesError> {
        let Some(FailedCheck(at)) = failure else { return Ok(()) };
        let (particles, acceleration) = (self.particles_unchecked()?, download(&self.acceleration)?);
        let source = first_non_finite(&particles, &acceleration)
            .expect("bodies do not move after a failed check, so the non-finite value is still there");
        Err(BodiesError::NotFinite { at, source })
    }

    pub fn check_finite(&self) -> Result<(), BodiesError> {
        self.resolve_checks()?;
        self.queue_check(None)?;
        self.resolve_checks()
    }

    fn sum_blocks(&self) -> u32 {
        (self.len() as u32).div_ceil(BLOCK_SIZE).min(MAX_SUM_BLOCKS)
    }

    /// Runs a kernel that reduces `rows` quantities and returns its results, one entry per row and
    /// block.
    ///
    /// The arguments of the kernel are the number of bodies, `before`, the buffer of results, and
    /// `after`.
    fn reduce_on_device(
        &self,
        kernel: &Kernel,
        rows: usize,
        before: &[Arg],
        after: &[Arg],
    ) -> Result<Vec<f64>, BodiesError> {
        self.resolve_checks()?;
        let blocks = self.sum_blocks();
        // Allocating and freeing a buffer would wait for the device.
        let block_results = &*self.block_results;
        let mut args = before.to_vec();
        args.push(block_results.into());
        args.extend_from_slice(after);
        self.launch_blocks(kernel, blocks, &args)?;
        let mut results = vec![0.0; rows * blocks as usize];
        self.device().queue().read(block_results.range(0..results.len())?, &mut results)?;
        Ok(results)
    }

    pub fn motion(&self) -> Result<BodiesMotion, BodiesError> {
        let measure = || {
            let [x, y, z] = &self.position;
            let [vx, vy, vz] = &self.velocity;
            let mass: &Buffer<f64> = &self.mass;
            let args = [mass, x, y, z, vx, vy, vz].map(Arg::from);
            let block_results = self.reduce_on_device(&self.kernels.sum_motion, MOTION_ROWS, &[], &args)?;
            let mut rows = block_results.chunks_exact(self.sum_blocks() as usize);
            let mut next_sum = || compensated_sum(rows.next().unwrap_or_default().iter().copied());
            Ok(BodiesMotion {
                kinetic_energy: 0.5 * next_sum(),
                momentum: [next_sum(), next_sum(), next_sum()],
                angular_momentum: [next_sum(), next_sum(), next_sum()],
            })
        };
        get_or_compute(&self.cache.motion, measure).copied()
    }

    pub fn potential_energy(&self, settings: &GravitySettings) -> Result<f64, BodiesError> {
        let measure = || match self.potential.as_ref().filter(|_| self.knows_potential) {
            Some(potential) => self.energy_of_potential(potential),
            None => self.evaluate_potential_energy(settings),
        };
        get_or_compute(&self.cache.potential_energy, measure).copied()
    }

    /// Returns whether [`potential_energy`](Self::potential_energy) needs no force evaluation.
    pub fn knows_potential_energy(&self) -> bool {
        self.knows_potential || self.cache.potential_energy.get().is_some()
    }

    /// Computes the potential energy once, so that its kernels are built and loaded before the run.
    /// A value that is not finite is found by the checks of the run.
    pub fn prepare_energies(&self, settings: &GravitySettings) -> Result<(), BodiesError> {
        match self.potential_energy(settings) {
            Ok(_) | Err(BodiesError::NotFinite { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Computes potentials and returns their energy.
    fn evaluate_potential_energy(&self, settings: &GravitySettings) -> Result<f64, BodiesError> {
        self.resolve_checks().map_err(|error| self.share.of(Evaluation::Energies).fail(error))?;
        let acceleration = columns(&self.acceleration);
        let request = self.force_request(settings, Some(acceleration), acceleration);
        let mut solvers = self.solvers();
        self.energy_of_potential(solvers.potentials(&request, &self.share)?)
    }

    /// Returns ½ Σ m φ.
    fn energy_of_potential(&self, potential: &Buffer<f64>) -> Result<f64, BodiesError> {
        let mass: &Buffer<f64> = &self.mass;
        let args = [mass.into(), potential.into()];
        let block_results = self.reduce_on_device(&self.kernels.sum_mass_potential, 1, &[], &args)?;
        Ok(0.5 * compensated_sum(block_results))
    }

    pub fn largest_acceleration2(&self) -> Result<f64, BodiesError> {
        let [ax, ay, az] = &self.acceleration;
        let args = [ax.into(), ay.into(), az.into()];
        let block_results = self.reduce_on_device(&self.kernels.largest_acceleration2, 1, &[], &args)?;
        Ok(block_results.into_iter().fold(0.0, f64::max))
    }

    pub fn shortest_pair_time2(&self, g: f64) -> Result<f64, BodiesError> {
        let evaluation = self.share.of(Evaluation::PairTimes);
        let own = evaluation.divide(self.len(), |body| body).own();
        let started = Instant::now();
        let [x, y, z] = &self.position;
        let [vx, vy, vz] = &self.velocity;
        let mass: &Buffer<f64> = &self.mass;
        let [begin, end] = [own.start, own.end].map(|body| Arg::from(body as u32));
        let before = [begin, end, g.into(), f64::INFINITY.into()];
        let after = [mass, x, y, z, vx, vy, vz].map(Arg::from);
        let block_results = self.reduce_on_device(&self.kernels.shortest_pair_time2, 1, &before, &after);
        let block_results = block_results.map_err(|error| evaluation.fail(error))?;
        evaluation.agree(Ok::<_, BodiesError>(started.elapsed().as_secs_f64()))?;
        Ok(evaluation.min(block_results.into_iter().fold(f64::INFINITY, f64::min))?)
    }
}
