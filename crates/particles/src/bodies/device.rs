//! Bodies on a device: columns of f64 that stay there, and the kernels that move them (`bodies.cu`).
//!
//! All work goes into the device's own queue, in order; so copies of the bodies may share the solver's scratch.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orrery_device::{Arg, Buffer, Device, DeviceError, Kernel, Math, Source};
use orrery_model::{Particles, Vec3s};

use super::device_setup::{DeviceSetup, Solvers};
use super::measure::Seen;
use super::watch::{Watch, checks_per_copy};
use super::{BodiesError, Field, Stamp, Term};
use crate::settings::GravitySettings;
use crate::solver::device::{DeviceStrategy, ForceRequest};
use crate::solver::direct::device::Columns;

/// The threads of a group.
pub(super) const BLOCK_SIZE: u32 = 128;

/// A vector a body: a column a component.
pub(super) type Vectors = [Buffer<f64>; 3];

pub(super) struct Kernels {
    kick: Kernel,
    drift: Kernel,
    kick_and_drift: Kernel,
    set_from_start: Kernel,
    pub check: Kernel,
    pub motion: Kernel,
    pub weighted: Kernel,
    pub largest_acceleration2: Kernel,
    pub shortest_pair_time2: Kernel,
}

impl Kernels {
    fn new(device: &Device) -> Result<Self, DeviceError> {
        let module = device.build(&Source {
            name: "bodies.cu",
            text: include_str!("bodies.cu"),
            definitions: &[("BLOCK_SIZE", BLOCK_SIZE.to_string())],
            math: Math::Precise,
        })?;
        Ok(Self {
            kick: module.kernel("kick")?,
            drift: module.kernel("drift")?,
            kick_and_drift: module.kernel("kick_and_drift")?,
            set_from_start: module.kernel("set_from_start")?,
            check: module.kernel("check")?,
            motion: module.kernel("motion")?,
            weighted: module.kernel("weighted")?,
            largest_acceleration2: module.kernel("largest_acceleration2")?,
            shortest_pair_time2: module.kernel("shortest_pair_time2")?,
        })
    }
}

pub struct DeviceBodies {
    pub(super) setup: DeviceSetup,
    pub(super) kernels: Arc<Kernels>,
    solvers: Arc<Mutex<Solvers>>,
    /// What stays as it is: masses, ids and species, with no position nor velocity.
    pub(super) constant: Arc<Particles>,
    pub(super) mass: Arc<Buffer<f64>>,
    pub(super) position: Vectors,
    pub(super) velocity: Vectors,
    pub(super) acceleration: Vectors,
    pub(super) jerk: Option<Vectors>,
    /// What [`Term::Start`] means, by [`Field`].
    start: Option<[Vectors; 4]>,
    /// 0 until a step leaves a number that is not finite.
    pub(super) halt: Buffer<u32>,
    pub(super) watch: Mutex<Watch>,
    /// What was read since the last change.
    pub(super) seen: Seen,
}

impl std::fmt::Debug for DeviceBodies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceBodies").field("place", &self.setup).field("len", &self.len()).finish()
    }
}

/// The lock's content; a thread that died with it left nothing half done that matters.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn columns(vectors: &Vectors) -> Columns<'_> {
    let [x, y, z] = vectors;
    Columns { x, y, z }
}

fn upload(device: &Device, Vec3s { x, y, z }: &Vec3s) -> Result<Vectors, DeviceError> {
    Ok([device.upload(x)?, device.upload(y)?, device.upload(z)?])
}

pub(super) fn zeros(device: &Device, n: usize) -> Result<Vectors, DeviceError> {
    Ok([device.zeros(n)?, device.zeros(n)?, device.zeros(n)?])
}

fn copy(from: &Vectors, to: &Vectors) -> Result<(), DeviceError> {
    from.iter().zip(to).try_for_each(|(from, to)| from.device().queue().copy(from, to))
}

/// A copy, made on the device.
fn duplicate(vectors: &Vectors) -> Result<Vectors, DeviceError> {
    let made = zeros(vectors[0].device(), vectors[0].len())?;
    copy(vectors, &made)?;
    Ok(made)
}

impl DeviceBodies {
    pub fn new(
        particles: Particles,
        acceleration: &Vec3s,
        jerk: Option<&Vec3s>,
        setup: &DeviceSetup,
    ) -> Result<Self, DeviceError> {
        let device = &setup.device;
        let solvers = Solvers::new(setup, particles.len())?;
        let Particles { position, velocity, mass, id, species } = particles;
        Ok(Self {
            setup: setup.clone(),
            kernels: Arc::new(Kernels::new(device)?),
            solvers: Arc::new(Mutex::new(solvers)),
            mass: Arc::new(device.upload(&mass)?),
            constant: Arc::new(Particles { mass, id, species, ..Particles::default() }),
            position: upload(device, &position)?,
            velocity: upload(device, &velocity)?,
            acceleration: upload(device, acceleration)?,
            jerk: jerk.map(|jerk| upload(device, jerk)).transpose()?,
            start: None,
            halt: device.zeros(1)?,
            watch: Mutex::default(),
            seen: Seen::default(),
        })
    }

    /// The same bodies once more, if no step left a wrong number so far.
    pub fn try_clone(&self) -> Result<Self, BodiesError> {
        self.settle()?;
        Ok(Self {
            setup: self.setup.clone(),
            kernels: self.kernels.clone(),
            solvers: self.solvers.clone(),
            constant: self.constant.clone(),
            mass: self.mass.clone(),
            position: duplicate(&self.position)?,
            velocity: duplicate(&self.velocity)?,
            acceleration: duplicate(&self.acceleration)?,
            jerk: self.jerk.as_ref().map(duplicate).transpose()?,
            start: None,
            halt: self.device().zeros(1)?,
            watch: Mutex::default(),
            seen: Seen::default(),
        })
    }

    pub fn len(&self) -> usize {
        self.constant.mass.len()
    }

    pub fn device(&self) -> &Device {
        &self.setup.device
    }

    pub fn strategy(&self) -> &DeviceStrategy {
        &self.setup.strategy
    }

    pub(super) fn solvers(&self) -> MutexGuard<'_, Solvers> {
        locked(&self.solvers)
    }

    /// Queues a kernel with a thread a body; the number of bodies comes before `args`.
    pub(super) fn launch(&self, kernel: &Kernel, args: &[Arg]) -> Result<(), DeviceError> {
        let groups = (self.len() as u32).div_ceil(BLOCK_SIZE);
        self.launch_groups(kernel, groups, args)
    }

    pub(super) fn launch_groups(
        &self,
        kernel: &Kernel,
        groups: u32,
        args: &[Arg],
    ) -> Result<(), DeviceError> {
        let mut all = Vec::with_capacity(1 + args.len());
        all.push(Arg::U32(self.len() as u32));
        all.extend_from_slice(args);
        self.device().queue().launch(kernel, groups, BLOCK_SIZE, &all)
    }

    pub fn kick(&mut self, dt: f64) -> Result<(), DeviceError> {
        self.forget();
        self.jerk = None;
        let ([vx, vy, vz], [ax, ay, az]) = (&self.velocity, &self.acceleration);
        let args = [
            dt.into(),
            (&self.halt).into(),
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
        self.forget();
        self.jerk = None;
        let ([x, y, z], [vx, vy, vz]) = (&self.position, &self.velocity);
        let args =
            [dt.into(), (&self.halt).into(), x.into(), y.into(), z.into(), vx.into(), vy.into(), vz.into()];
        self.launch(&self.kernels.drift, &args)
    }

    pub fn kick_and_drift(&mut self, kick_dt: f64, drift_dt: f64) -> Result<(), DeviceError> {
        self.forget();
        self.jerk = None;
        let mut args: Vec<Arg> = vec![kick_dt.into(), drift_dt.into(), (&self.halt).into()];
        args.extend(
            [&self.position, &self.velocity, &self.acceleration].into_iter().flatten().map(Arg::from),
        );
        self.launch(&self.kernels.kick_and_drift, &args)
    }

    /// The accelerations of the step before feed the tree's acceptance; `is_first` says that there are none.
    pub fn update_forces(&mut self, settings: &GravitySettings, is_first: bool) -> Result<(), DeviceError> {
        self.forget();
        self.jerk = None;
        let previous = (!is_first).then(|| columns(&self.acceleration));
        let evaluation = self.evaluation(settings, previous, columns(&self.acceleration));
        self.solvers().forces.forces(&evaluation)
    }

    pub(super) fn evaluation<'a>(
        &'a self,
        settings: &GravitySettings,
        previous: Option<Columns<'a>>,
        acceleration: Columns<'a>,
    ) -> ForceRequest<'a> {
        let GravitySettings { g, eps, acceptance, .. } = *settings;
        let (position, mass) = (columns(&self.position), &*self.mass);
        ForceRequest { position, mass, g, eps, acceptance, previous, acceleration, potential: None }
    }

    pub fn update_forces_and_jerks(&mut self, settings: &GravitySettings) -> Result<(), DeviceError> {
        self.forget();
        let jerk = match self.jerk.take() {
            Some(jerk) => jerk,
            None => zeros(self.device(), self.len())?,
        };
        let (position, velocity) = (columns(&self.position), columns(&self.velocity));
        let (acceleration, mass) = (columns(&self.acceleration), &self.mass);
        let GravitySettings { g, eps, .. } = *settings;
        self.solvers().pairs(self.device(), self.len())?.forces_and_jerks(
            position,
            velocity,
            mass,
            g,
            eps,
            acceleration,
            columns(&jerk),
        )?;
        self.jerk = Some(jerk);
        Ok(())
    }

    pub fn knows_jerk(&self) -> bool {
        self.jerk.is_some()
    }

    /// Where jerks or a start are read, they must be known.
    fn column(&self, term: Term) -> &Vectors {
        match term {
            Term::Start(field) => {
                &self.start.as_ref().expect("a start is marked before it is read")[field as usize]
            }
            Term::Now(Field::Position) => &self.position,
            Term::Now(Field::Velocity) => &self.velocity,
            Term::Now(Field::Acceleration) => &self.acceleration,
            Term::Now(Field::Jerk) => self.jerk.as_ref().expect("jerks are computed before they are read"),
        }
    }

    pub fn mark_start(&mut self) -> Result<(), DeviceError> {
        if self.start.is_none() {
            let [a, b, c, d] = Field::ALL.map(|_| zeros(self.device(), self.len()));
            self.start = Some([a?, b?, c?, d?]);
        }
        Field::ALL
            .into_iter()
            .try_for_each(|field| copy(self.column(Term::Now(field)), self.column(Term::Start(field))))
    }

    pub fn set_from_start(&mut self, field: Field, terms: &[(f64, Term)]) -> Result<(), DeviceError> {
        self.forget();
        for component in 0..3 {
            let start = &self.column(Term::Start(field))[component];
            let mut args: Vec<Arg> = vec![
                (terms.len() as i32).into(),
                (&self.halt).into(),
                (&self.column(Term::Now(field))[component]).into(),
                start.into(),
            ];
            for k in 0..4 {
                // The kernel does not look at terms beyond the last.
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
        self.forget();
        let queue = self.setup.device.queue();
        for (to, from) in [(&self.position, position), (&self.velocity, velocity)] {
            let [x, y, z] = to;
            [(x, &from.x), (y, &from.y), (z, &from.z)]
                .into_iter()
                .try_for_each(|(to, from)| queue.write(to, from))?;
        }
        // New numbers, a new judgement.
        queue.write(&self.halt, &[0])?;
        *locked(&self.watch) = Watch::default();
        Ok(())
    }

    /// What was read before a change is no longer so.
    fn forget(&mut self) {
        self.seen = Seen::default();
    }

    pub fn check_step(&mut self, at: Stamp) -> Result<(), BodiesError> {
        self.send_check(Some(at))?;
        let wrong = locked(&self.watch).hear()?;
        self.pass(wrong)
    }

    pub(super) fn send_check(&self, at: Option<Stamp>) -> Result<(), DeviceError> {
        let mut watch = locked(&self.watch);
        let mut args: Vec<Arg> = vec![watch.number(at).into(), (&self.halt).into()];
        args.extend(
            [&self.position, &self.velocity, &self.acceleration].into_iter().flatten().map(Arg::from),
        );
        self.launch(&self.kernels.check, &args)?;
        watch.send(self.device(), &self.halt, checks_per_copy(self.len()))
    }
}
