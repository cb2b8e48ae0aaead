//! Bodies on a device: columns of f64 in its memory, and the kernels that move them (`bodies.cu`).
//!
//! All work goes into the device's one queue, in order. Copies of the bodies can therefore share
//! the solver's scratch memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orrery_device::{Arg, Buffer, Device, DeviceError, Event, Kernel, KernelFile, Math, NanWatch};
use orrery_model::analysis::{BinnedBodies, Projection};
use orrery_model::{Particles, Vec3s};

use super::bins::{DeviceBinner, PendingBins};
use super::device_setup::{DeviceSetup, Solvers};
use super::force_timer::ForceTimer;
use super::measure::{MAX_BLOCK_RESULTS, ReadCache};
use super::{BodiesError, BodyField, CheckStamp, Term};
use crate::settings::GravitySettings;
use crate::share::{Evaluation, TargetShare};
use crate::solver::device::{DeviceStrategy, ForceRequest};
use crate::solver::direct::device::{Columns, JerkRequest};

/// Threads per block.
pub(super) const BLOCK_SIZE: u32 = 128;

/// One vector per body, stored as one column per component.
pub(super) type BodyVectors = [Buffer<f64>; 3];

// SAFETY: each kernel accesses the first `body_count` elements of its columns and one row of block
// results per quantity. The launches here and in `measure` pass columns of that length and rows
// with one element per block.
const BODIES: KernelFile = unsafe { KernelFile::new("bodies.cu", include_str!("bodies.cu")) };

pub(super) struct BodiesKernels {
    kick: Kernel,
    drift: Kernel,
    kick_and_drift: Kernel,
    set_from_start: Kernel,
    pub check_finite: Kernel,
    pub sum_motion: Kernel,
    pub sum_mass_potential: Kernel,
    pub largest_acceleration2: Kernel,
    pub shortest_pair_time2: Kernel,
}

/// Returns the number of checks per copy of the flag, for `n` bodies.
///
/// A copy to the host costs as much as a kernel launch, which matters where a step takes a
/// millisecond or less. Direct forces of 65,536 bodies take longer than that, so from there on
/// every check is copied. For example, 300 bodies copy the flag after every 16 checks.
fn checks_per_copy(n: usize) -> u32 {
    ((1u64 << 32) / (n as u64).saturating_mul(n as u64).max(1)).clamp(1, 16) as u32
}

impl BodiesKernels {
    fn new(device: &Device) -> Result<Self, DeviceError> {
        let definitions = [("BLOCK_SIZE", BLOCK_SIZE.to_string())];
        let module = device.build(&BODIES, &definitions, Math::Precise)?;
        Ok(Self {
            kick: module.kernel("kick")?,
            drift: module.kernel("drift")?,
            kick_and_drift: module.kernel("kick_and_drift")?,
            set_from_start: module.kernel("set_from_start")?,
            check_finite: module.kernel("check_finite")?,
            sum_motion: module.kernel("sum_motion")?,
            sum_mass_potential: module.kernel("sum_mass_potential")?,
            largest_acceleration2: module.kernel("largest_acceleration2")?,
            shortest_pair_time2: module.kernel("shortest_pair_time2")?,
        })
    }
}

pub struct DeviceBodies {
    pub(super) setup: DeviceSetup,
    /// Ranks that share force evaluations.
    pub(super) share: Arc<TargetShare>,
    pub(super) kernels: Arc<BodiesKernels>,
    solvers: Arc<Mutex<Solvers>>,
    /// Masses, ids and species, which do not change. Positions and velocities are empty.
    pub(super) constants: Arc<Particles>,
    pub(super) mass: Arc<Buffer<f64>>,
    pub(super) position: BodyVectors,
    pub(super) velocity: BodyVectors,
    pub(super) acceleration: BodyVectors,
    pub(super) jerk: Option<BodyVectors>,
    /// Fields at the start of the step ([`Term::Start`]), indexed by [`BodyField`].
    start: Option<[BodyVectors; 4]>,
    /// Number of the first check that found a non-finite value, 0 if none did. While it is not 0,
    /// the kernels do not move the bodies.
    pub(super) failed_check: Buffer<u32>,
    pub(super) watch: Mutex<NanWatch<CheckStamp>>,
    force_timer: Mutex<ForceTimer>,
    /// Memory for the results of sums. Copies of the bodies share it, because they use one queue
    /// and read the results before the next sum.
    pub(super) block_results: Arc<Buffer<f64>>,
    /// Values read since the last change.
    pub(super) cache: ReadCache,
    /// Force evaluations up to the one that also computes potentials. `None` if none is requested.
    evaluations_to_potential: Option<u32>,
    /// Memory for potentials of a force evaluation, allocated at the first request.
    pub(super) potential: Option<Buffer<f64>>,
    /// True if `potential` belongs to the current positions.
    pub(super) knows_potential: bool,
    /// Bins of pictures, shared by copies of the bodies.
    binner: Arc<Mutex<Option<DeviceBinner>>>,
}

impl std::fmt::Debug for DeviceBodies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceBodies").field("setup", &self.setup).field("len", &self.len()).finish()
    }
}

/// Locks a mutex. A panic of another thread that held it is ignored: it leaves no inconsistent
/// state here.
pub(super) fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn columns(vectors: &BodyVectors) -> Columns<'_> {
    let [x, y, z] = vectors;
    Columns { x, y, z }
}

pub(super) fn upload(device: &Device, Vec3s { x, y, z }: &Vec3s) -> Result<BodyVectors, DeviceError> {
    Ok([device.upload(x)?, device.upload(y)?, device.upload(z)?])
}

pub(super) fn zeros(device: &Device, n: usize) -> Result<BodyVectors, DeviceError> {
    Ok([device.zeros(n)?, device.zeros(n)?, device.zeros(n)?])
}

pub(super) fn download(vectors: &BodyVectors) -> Result<Vec3s, DeviceError> {
    let [x, y, z] = vectors;
    Ok(Vec3s { x: x.to_vec()?, y: y.to_vec()?, z: z.to_vec()? })
}

fn copy_vectors(from: &BodyVectors, to: &BodyVectors) -> Result<(), DeviceError> {
    from.iter().zip(to).try_for_each(|(from, to)| from.device().queue().copy(from, to))
}

/// Copies vectors to new memory on the same device.
fn clone_vectors(vectors: &BodyVectors) -> Result<BodyVectors, DeviceError> {
    let copy = zeros(vectors[0].device(), vectors[0].len())?;
    copy_vectors(vectors, &copy)?;
    Ok(copy)
}

impl DeviceBodies {
    pub fn new(
        particles: Particles,
        acceleration: &Vec3s,
        jerk: Option<&Vec3s>,
        setup: &DeviceSetup,
        share: &Arc<TargetShare>,
    ) -> Result<Self, DeviceError> {
        let device = &setup.device;
        let solvers = Solvers::new(setup, particles.len(), share)?;
        let Particles { position, velocity, mass, id, species } = particles;
        Ok(Self {
            setup: setup.clone(),
            share: Arc::clone(share),
            kernels: Arc::new(BodiesKernels::new(device)?),
            solvers: Arc::new(Mutex::new(solvers)),
            mass: Arc::new(device.upload(&mass)?),
            constants: Arc::new(Particles { mass, id, species, ..Particles::default() }),
            position: upload(device, &position)?,
            velocity: upload(device, &velocity)?,
            acceleration: upload(device, acceleration)?,
            jerk: jerk.map(|jerk| upload(device, jerk)).transpose()?,
            start: None,
            failed_check: device.zeros(1)?,
            watch: Mutex::default(),
            force_timer: Mutex::default(),
            block_results: Arc::new(device.zeros(MAX_BLOCK_RESULTS)?),
            cache: ReadCache::default(),
            evaluations_to_potential: None,
            potential: None,
            knows_potential: false,
            binner: Arc::default(),
        })
    }

    /// Copies the bodies. Fails if a check found a non-finite value.
    pub fn try_clone(&self) -> Result<Self, BodiesError> {
        self.resolve_checks()?;
        Ok(Self {
            setup: self.setup.clone(),
            share: self.share.clone(),
            kernels: self.kernels.clone(),
            solvers: self.solvers.clone(),
            constants: self.constants.clone(),
            mass: self.mass.clone(),
            position: clone_vectors(&self.position)?,
            velocity: clone_vectors(&self.velocity)?,
            acceleration: clone_vectors(&self.acceleration)?,
            jerk: self.jerk.as_ref().map(clone_vectors).transpose()?,
            start: None,
            failed_check: self.device().zeros(1)?,
            watch: Mutex::default(),
            force_timer: Mutex::default(),
            block_results: self.block_results.clone(),
            cache: ReadCache::default(),
            evaluations_to_potential: None,
            potential: None,
            knows_potential: false,
            binner: self.binner.clone(),
        })
    }

    pub fn len(&self) -> usize {
        self.constants.mass.len()
    }

    pub fn device(&self) -> &Device {
        &self.setup.device
    }

    pub fn strategy(&self) -> &DeviceStrategy {
        &self.setup.strategy
    }

    pub(super) fn solvers(&self) -> MutexGuard<'_, Solvers> {
        lock_mutex(&self.solvers)
    }

    /// Queues a kernel with one thread per body. Its first argument is the number of bodies, then
    /// `args`.
    pub(super) fn launch(&self, kernel: &Kernel, args: &[Arg]) -> Result<(), DeviceError> {
        let blocks = (self.len() as u32).div_ceil(BLOCK_SIZE);
        self.launch_blocks(kernel, blocks, args)
    }

    pub(super) fn launch_blocks(
        &self,
        kernel: &Kernel,
        blocks: u32,
        args: &[Arg],
    ) -> Result<(), DeviceError> {
        let mut all = Vec::with_capacity(1 + args.len());
        all.push(Arg::U32(self.len() as u32));
        all.extend_from_slice(args);
        self.device().queue().launch(kernel, blocks, BLOCK_SIZE, &all)
    }

    pub fn kick(&mut self, dt: f64) -> Result<(), DeviceError> {
        self.invalidate_cache();
        self.jerk = None;
        let ([vx, vy, vz], [ax, ay, az]) = (&self.velocity, &self.acceleration);
        let args = [
            dt.into(),
            (&self.failed_check).into(),
            vx.into(),
            vy.into(),
            vz.into(),
            ax.into(),
            ay.into(),
            az.into(),
        ];
        self.launch(&self.kernels.kick, &args)
    }

    pub fn drift(&mut self, dt: f64) -> Result<(), DeviceError> {
        self.invalidate_cache();
        self.knows_potential = false;
        self.jerk = None;
        let ([x, y, z], [vx, vy, vz]) = (&self.position, &self.velocity);
        let args = [
            dt.into(),
            (&self.failed_check).into(),
            x.into(),
            y.into(),
            z.into(),
            vx.into(),
            vy.into(),
            vz.into(),
        ];
        self.launch(&self.kernels.drift, &args)
    }

    pub fn kick_and_drift(&mut self, kick_dt: f64, drift_dt: f64) -> Result<(), DeviceError> {
        self.invalidate_cache();
        self.knows_potential = false;
        self.jerk = None;
        let mut args: Vec<Arg> = vec![kick_dt.into(), drift_dt.into(), (&self.failed_check).into()];
        args.extend(
            [&self.position, &self.velocity, &self.acceleration].into_iter().flatten().map(Arg::from),
        );
        self.launch(&self.kernels.kick_and_drift, &args)
    }

    /// Computes the accelerations. The tree's relative acceptance reads those of the previous step,
    /// unless `is_first` is set.
    pub fn update_forces(&mut self, settings: &GravitySettings, is_first: bool) -> Result<(), BodiesError> {
        self.invalidate_cache();
        self.jerk = None;
        let with_potential = self.is_potential_due();
        let start = self
            .start_update(with_potential, is_first)
            .map_err(|error| self.share.of(Evaluation::Forces).fail(BodiesError::from(error)))?;
        let previous = (!is_first).then(|| columns(&self.acceleration));
        let request = self.force_request(settings, previous, columns(&self.acceleration));
        let potential = self.potential.as_ref().filter(|_| with_potential);
        self.solvers().forces(&ForceRequest { potential, ..request }, &self.share)?;
        self.knows_potential = with_potential;
        Ok(self.end_timed(start)?)
    }

    /// Allocates memory for potentials if it is needed, and starts the time measurement. Returns
    /// its first event if this evaluation is measured.
    fn start_update(&mut self, with_potential: bool, is_first: bool) -> Result<Option<Event>, DeviceError> {
        if with_potential && self.potential.is_none() {
            self.potential = Some(self.device().zeros(self.len())?);
        }
        // The first evaluation also loads the kernels.
        if is_first { Ok(None) } else { lock_mutex(&self.force_timer).start(self.device().queue()) }
    }

    /// Ends the time measurement of an evaluation, if it is measured.
    fn end_timed(&self, start: Option<Event>) -> Result<(), DeviceError> {
        start.map_or(Ok(()), |start| lock_mutex(&self.force_timer).end(self.device().queue(), start))
    }

    /// See [`Bodies::request_potential`](super::Bodies::request_potential).
    pub fn request_potential(&mut self, evaluation: u32) {
        self.evaluations_to_potential = Some(evaluation);
    }

    /// Counts a force evaluation. Returns true if it must compute potentials too.
    ///
    /// Only the tree does: its walk gives accelerations of the same bits with and without
    /// potentials. The direct sum computes potentials with another kernel.
    fn is_potential_due(&mut self) -> bool {
        let remaining = self.evaluations_to_potential.take().map(|count| count.saturating_sub(1));
        self.evaluations_to_potential = remaining.filter(|&count| count > 0);
        remaining == Some(0) && matches!(self.setup.strategy, DeviceStrategy::Tree(_))
    }

    /// Queues the bins of a picture and their copy to the host. See
    /// [`Bodies::bins_on_device`](super::Bodies::bins_on_device).
    pub fn queue_bins(
        &self,
        bodies: &Arc<BinnedBodies>,
        layers: usize,
        projection: &Projection,
    ) -> Result<PendingBins, BodiesError> {
        self.resolve_checks()?;
        let mut binner = lock_mutex(&self.binner);
        if !binner.as_ref().is_some_and(|known| known.is_for(bodies, layers, projection)) {
            *binner = Some(DeviceBinner::new(self.device(), bodies, layers, projection)?);
        }
        match &*binner {
            Some(binner) => Ok(binner.queue_bins(&self.position, projection)?),
            None => unreachable!("created above"),
        }
    }

    /// Returns the time of all force evaluations, extrapolated from a sample.
    pub fn force_time(&self) -> Duration {
        lock_mutex(&self.force_timer).total()
    }

    pub(super) fn force_request<'a>(
        &'a self,
        settings: &GravitySettings,
        previous: Option<Columns<'a>>,
        acceleration: Columns<'a>,
    ) -> ForceRequest<'a> {
        let GravitySettings { g, eps, acceptance, .. } = *settings;
        let (position, mass) = (columns(&self.position), &*self.mass);
        ForceRequest { position, mass, g, eps, acceptance, previous, acceleration, potential: None }
    }

    pub fn update_forces_and_jerks(&mut self, settings: &GravitySettings) -> Result<(), BodiesError> {
        self.invalidate_cache();
        let (jerk, start) = self
            .start_jerks()
            .map_err(|error| self.share.of(Evaluation::Jerks).fail(BodiesError::from(error)))?;
        let GravitySettings { g, eps, .. } = *settings;
        let request = JerkRequest {
            position: columns(&self.position),
            velocity: columns(&self.velocity),
            mass: &self.mass,
            g,
            eps,
            acceleration: columns(&self.acceleration),
            jerk: columns(&jerk),
        };
        self.solvers().forces_and_jerks(&request, &self.share)?;
        self.jerk = Some(jerk);
        Ok(self.end_timed(start)?)
    }

    /// Returns memory for the jerks, and the first event of the time measurement if this evaluation
    /// is measured.
    fn start_jerks(&mut self) -> Result<(BodyVectors, Option<Event>), DeviceError> {
        let jerk = match self.jerk.take() {
            Some(jerk) => jerk,
            None => zeros(self.device(), self.len())?,
        };
        Ok((jerk, lock_mutex(&self.force_timer).start(self.device().queue())?))
    }

    pub fn knows_jerk(&self) -> bool {
        self.jerk.is_some()
    }

    /// Returns the column of a term. Jerks must have been computed, and a start marked, before they
    /// are read.
    fn column(&self, term: Term) -> &BodyVectors {
        match term {
            Term::Start(field) => {
                &self.start.as_ref().expect("a start is marked before it is read")[field as usize]
            }
            Term::Now(BodyField::Position) => &self.position,
            Term::Now(BodyField::Velocity) => &self.velocity,
            Term::Now(BodyField::Acceleration) => &self.acceleration,
            Term::Now(BodyField::Jerk) => {
                self.jerk.as_ref().expect("jerks are computed before they are read")
            }
        }
    }

    pub fn mark_start(&mut self) -> Result<(), DeviceError> {
        if self.start.is_none() {
            let [a, b, c, d] = BodyField::ALL.map(|_| zeros(self.device(), self.len()));
            self.start = Some([a?, b?, c?, d?]);
        }
        BodyField::ALL.into_iter().try_for_each(|field| {
            copy_vectors(self.column(Term::Now(field)), self.column(Term::Start(field)))
        })
    }

    pub fn set_from_start(&mut self, field: BodyField, terms: &[(f64, Term)]) -> Result<(), DeviceError> {
        self.invalidate_cache();
        self.knows_potential &= field != BodyField::Position;
        for component in 0..3 {
            let start = &self.column(Term::Start(field))[component];
            let mut args: Vec<Arg> = vec![
                (terms.len() as i32).into(),
                (&self.failed_check).into(),
                (&self.column(Term::Now(field))[component]).into(),
                start.into(),
            ];
            for k in 0..4 {
                // The kernel ignores terms beyond `terms.len()`.
                let (weight, column) = match terms.get(k) {
                    Some((weight, term)) => (*weight, &self.column(*term)[component]),
                    None => (0.0, start),
                };
                args.extend([Arg::from(weight), Arg::from(column)]);
            }
            self.launch(&self.kernels.set_from_start, &args)?;
        }
        Ok(())
    }

    pub fn set_phase_space(&mut self, position: &Vec3s, velocity: &Vec3s) -> Result<(), DeviceError> {
        self.invalidate_cache();
        self.knows_potential = false;
        let queue = self.setup.device.queue();
        for (to, from) in [(&self.position, position), (&self.velocity, velocity)] {
            let [x, y, z] = to;
            [(x, &from.x), (y, &from.y), (z, &from.z)]
                .into_iter()
                .try_for_each(|(to, from)| queue.write(to, from))?;
        }
        // Results of earlier checks do not apply to the new state.
        queue.write(&self.failed_check, &[0])?;
        *lock_mutex(&self.watch) = NanWatch::default();
        Ok(())
    }

    fn invalidate_cache(&mut self) {
        self.cache = ReadCache::default();
    }

    pub fn check_step(&mut self, at: CheckStamp) -> Result<(), BodiesError> {
        self.queue_check(Some(at))?;
        let failure = lock_mutex(&self.watch).poll()?;
        self.fail_if_found(failure)
    }

    pub(super) fn queue_check(&self, at: Option<CheckStamp>) -> Result<(), DeviceError> {
        let mut watch = lock_mutex(&self.watch);
        let mut args: Vec<Arg> = vec![watch.register(at).into(), (&self.failed_check).into()];
        args.extend(
            [&self.position, &self.velocity, &self.acceleration].into_iter().flatten().map(Arg::from),
        );
        self.launch(&self.kernels.check_finite, &args)?;
        watch.copy_flag_if_due(self.device().queue(), &self.failed_check, checks_per_copy(self.len()))
    }
}
