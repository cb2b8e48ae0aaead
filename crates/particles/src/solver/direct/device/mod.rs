//! All pairs on a device.
//!
//! An evaluation is a handful of launches that nobody waits for: the frame (`frame.cu`), the sum, and its parts added in
//! order; for few bodies all three are one launch. Every sum has a fixed order, so equal bodies give equal bits on the same device.

/// Returns the text of these files in this order, each under its own name in compiler messages.
macro_rules! kernel_source {
    ($($file:literal),+) => {
        concat!($("#line 1 \"", $file, "\"\n", include_str!($file)),+)
    };
}
pub(crate) use kernel_source;

mod course;
mod jerks;
mod pairs_once;
mod strategy;
mod tiled;

pub use strategy::{DirectDeviceStrategy, DirectKernel};

use std::time::Duration;

use orrery_device::{Arg, Buffer, Device, DeviceError, Kernel, Math, Origin};

use crate::builder::Builder;

use course::CourseKernels;
use jerks::Jerks;
use pairs_once::PairsOnce;
use tiled::Tiled;

/// A vector a body, on a device.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    /// First components.
    pub x: &'a Buffer<f64>,
    /// Second components.
    pub y: &'a Buffer<f64>,
    /// Third components.
    pub z: &'a Buffer<f64>,
}

impl<'a> Columns<'a> {
    pub(crate) fn args(self) -> [Arg<'a>; 3] {
        [self.x.into(), self.y.into(), self.z.into()]
    }
}

/// What every form needs for one evaluation.
#[derive(Clone, Copy)]
struct PairSumRequest<'a> {
    position: Columns<'a>,
    mass: &'a Buffer<f64>,
    g: f64,
    eps: f64,
    total_mass: f64,
    acceleration: Columns<'a>,
}

/// What never changes about the masses.
#[derive(Clone, Copy)]
struct Masses {
    total: f64,
    /// All the same, and not zero.
    are_equal: bool,
}

impl Masses {
    fn of(mass: &[f64]) -> Self {
        let first = mass.first().copied().unwrap_or_default();
        Self { total: mass.iter().sum(), are_equal: first > 0.0 && mass.iter().all(|m| *m == first) }
    }
}

/// The frame of an evaluation, for kernels that do not find it themselves; see `frame.cu`.
struct Frame {
    device: Device,
    kernel: Kernel,
    values: Buffer<f64>,
}

impl Frame {
    /// The sample's size in `frame.cu`.
    const SAMPLE: u32 = 32;

    fn new(builder: &mut Builder) -> Result<Self, DeviceError> {
        let module =
            builder.build("frame.cu", kernel_source!("frame_slots.cu", "frame.cu"), &[], Math::Precise)?;
        let (kernel, values) = (module.kernel("find_frame")?, builder.device.zeros(8)?);
        Ok(Self { device: builder.device.clone(), kernel, values })
    }

    fn find(&self, evaluation: &PairSumRequest) -> Result<&Buffer<f64>, DeviceError> {
        let PairSumRequest { position, mass, g, eps, total_mass, .. } = *evaluation;
        let [x, y, z] = position.args();
        let n = mass.len() as i32;
        let args = [x, y, z, n.into(), g.into(), eps.into(), total_mass.into(), (&self.values).into()];
        self.device.queue().launch(&self.kernel, 1, Self::SAMPLE, &args)?;
        Ok(&self.values)
    }
}

/// The sum, in one of its forms.
enum Sum {
    Tiled(Tiled),
    PairsOnce(PairsOnce),
    CourseKernels(CourseKernels),
}

/// All pairs of `n` bodies on a device, with all they need between evaluations. The masses must be the same in
/// every evaluation.
pub struct DeviceDirect {
    builder: Builder,
    n: usize,
    strategy: DirectDeviceStrategy,
    masses: Option<Masses>,
    sum: Option<Sum>,
    with_potential: Option<Tiled>,
    jerks: Option<Jerks>,
}

/// The most bodies: indices are `int` in the kernels.
const MOST_BODIES: usize = 1 << 30;

impl DeviceDirect {
    /// For `n` bodies; by the default where `strategy` does not fit the device. Kernels are built when they are first needed.
    pub fn new(device: &Device, n: usize, strategy: &DirectDeviceStrategy) -> Result<Self, DeviceError> {
        if n > MOST_BODIES {
            return Err(DeviceError::Length { device: device.title(), expected: MOST_BODIES, got: n });
        }
        let builder = Builder::new(device);
        let strategy = if strategy.fits(device) {
            *strategy
        } else {
            DirectDeviceStrategy::default_for(device, n, strategy.precision)
        };
        Ok(Self { builder, n, strategy, masses: None, sum: None, with_potential: None, jerks: None })
    }

    /// How it computes.
    pub fn strategy(&self) -> &DirectDeviceStrategy {
        &self.strategy
    }

    /// Bytes of scratch on the device, beyond the bodies.
    pub fn scratch_bytes(device: &Device, n: usize, strategy: &DirectDeviceStrategy) -> u64 {
        match strategy.form {
            DirectKernel::Tiled => tiled::bytes(device, n, strategy),
            DirectKernel::PairsOnce => pairs_once::bytes(device, n, strategy),
            _ => course::bytes(n),
        }
    }

    /// Fills acceleration, and potential where it is asked for, from position and mass. Queued, not waited for.
    pub fn forces(
        &mut self,
        position: Columns,
        mass: &Buffer<f64>,
        g: f64,
        eps: f64,
        acceleration: Columns,
        potential: Option<&Buffer<f64>>,
    ) -> Result<(), DeviceError> {
        if self.n == 0 {
            return Ok(());
        }
        self.check_lengths(&[position, acceleration], potential.into_iter().chain([mass]))?;
        let masses = match self.masses {
            Some(masses) => masses,
            None => *self.masses.insert(Masses::of(&mass.to_vec()?)),
        };
        if potential.is_none() && self.sum.is_none() {
            self.sum = Some(self.build_sum(masses)?);
        }
        let evaluation = PairSumRequest { position, mass, g, eps, total_mass: masses.total, acceleration };
        if let Some(potential) = potential {
            let tiled = match self.with_potential.take() {
                Some(tiled) => tiled,
                None => {
                    let default =
                        DirectDeviceStrategy::default_for(&self.builder.device, 0, self.strategy.precision);
                    Tiled::new(&mut self.builder, self.n, &default, true)?
                }
            };
            return self.with_potential.insert(tiled).queue(&evaluation, Some(potential));
        }
        match &mut self.sum {
            Some(Sum::Tiled(tiled)) => tiled.queue(&evaluation, None),
            Some(Sum::PairsOnce(pairs_once)) => pairs_once.queue(&evaluation),
            Some(Sum::CourseKernels(seed)) => seed.queue(&evaluation),
            None => Ok(()),
        }
    }

    fn build_sum(&mut self, masses: Masses) -> Result<Sum, DeviceError> {
        let (builder, n, strategy) = (&mut self.builder, self.n, &self.strategy);
        Ok(match strategy.form {
            DirectKernel::Tiled => Sum::Tiled(Tiled::new(builder, n, strategy, false)?),
            DirectKernel::PairsOnce => {
                Sum::PairsOnce(PairsOnce::new(builder, n, strategy, masses.are_equal)?)
            }
            _ => Sum::CourseKernels(CourseKernels::new(builder, n, strategy)?),
        })
    }

    /// Fills acceleration and jerk from position, velocity and mass, all in f64. Queued, not waited for.
    pub fn forces_and_jerks(
        &mut self,
        position: Columns,
        velocity: Columns,
        mass: &Buffer<f64>,
        g: f64,
        eps: f64,
        acceleration: Columns,
        jerk: Columns,
    ) -> Result<(), DeviceError> {
        if self.n == 0 {
            return Ok(());
        }
        self.check_lengths(&[position, velocity, acceleration, jerk], [mass])?;
        let jerks = match self.jerks.take() {
            Some(jerks) => jerks,
            None => Jerks::new(&mut self.builder)?,
        };
        self.jerks.insert(jerks).queue(position, velocity, mass, g, eps, acceleration, jerk)
    }

    fn check_lengths<'a>(
        &self,
        columns: &[Columns<'a>],
        others: impl IntoIterator<Item = &'a Buffer<f64>>,
    ) -> Result<(), DeviceError> {
        let columns = columns.iter().flat_map(|columns| [columns.x, columns.y, columns.z]);
        match columns.chain(others).find(|buffer| buffer.len() != self.n) {
            None => Ok(()),
            Some(buffer) => Err(DeviceError::Length {
                device: self.builder.device.title(),
                expected: self.n,
                got: buffer.len(),
            }),
        }
    }

    /// The kernel that takes the time, and its group, once it is built.
    pub fn main_kernel(&self) -> Option<(&Kernel, u32)> {
        Some(match self.sum.as_ref()? {
            Sum::Tiled(tiled) => (&tiled.kernel, self.strategy.block),
            Sum::PairsOnce(pairs_once) => (&pairs_once.kernel, self.strategy.block),
            Sum::CourseKernels(seed) => (&seed.kernel, seed.group),
        })
    }

    /// What was built, where it came from and how long that took.
    pub fn build_times(&self) -> &[(String, Origin, Duration)] {
        &self.builder.times
    }
}

/// Groups of this kernel that the device holds at once; a guess where the driver does not tell.
pub(crate) fn resident_groups(device: &Device, kernel: &Kernel, group: u32) -> u64 {
    let blocks_per_sm = kernel.blocks_per_sm(group).unwrap_or(4).max(1);
    u64::from(device.properties().sm_count.max(1)) * u64::from(blocks_per_sm)
}
