//! All pairs on a device.
//!
//! A force evaluation queues a few launches and does not wait for them: the frame (`frame.cu`), the
//! sum, and the addition of partial sums. For few bodies all three are one launch. Every sum has a
//! fixed order, so the same bodies give the same bits on the same device.

mod course;
mod jerks;
mod pairs_once;
mod shared;
mod strategy;
mod target_range;
mod tiled;

pub(super) use course::selftest::check_steps;
pub use course::{CourseProgram, CourseSteps};
pub use jerks::JerkRequest;
pub use strategy::{DirectDeviceStrategy, DirectKernel};
pub use target_range::DeviceTargetSum;

use std::ops::Range;

use orrery_device::{
    Arg, Buffer, BuildTime, Device, DeviceError, Kernel, KernelBuilder, KernelFile, Math, kernel_source,
};
use orrery_model::Precision;

use course::{CourseKernels, VectorKernels};
use jerks::JerkKernel;
use pairs_once::PairsOnce;
use tiled::Tiled;

/// One vector per body in three buffers on a device, for example all positions.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    /// First components, one per body.
    pub x: &'a Buffer<f64>,
    /// Second components, one per body.
    pub y: &'a Buffer<f64>,
    /// Third components, one per body.
    pub z: &'a Buffer<f64>,
}

impl<'a> Columns<'a> {
    pub(crate) fn args(self) -> [Arg<'a>; 3] {
        self.buffers().map(Arg::from)
    }

    pub(crate) fn buffers(self) -> [&'a Buffer<f64>; 3] {
        [self.x, self.y, self.z]
    }
}

/// Inputs and outputs of one evaluation. All buffers have one element per body.
#[derive(Clone, Copy)]
struct PairSumRequest<'a> {
    position: Columns<'a>,
    mass: &'a Buffer<f64>,
    g: f64,
    eps: f64,
    total_mass: f64,
    acceleration: Columns<'a>,
}

/// Properties of the masses, which are the same in every evaluation.
#[derive(Clone, Copy)]
struct MassSummary {
    total: f64,
    /// Whether all masses are the same and positive.
    are_equal: bool,
}

impl MassSummary {
    fn new(masses: &[f64]) -> Self {
        let first = masses.first().copied().unwrap_or_default();
        Self { total: masses.iter().sum(), are_equal: first > 0.0 && masses.iter().all(|m| *m == first) }
    }
}

/// Number of elements of the frame that kernels compute in (`FRAME_SLOTS` in `frame_slots.cu`).
const FRAME_SLOTS: usize = 8;
/// Slot of the scaled squared softening (`FRAME_EPS2` in `frame_slots.cu`).
const FRAME_EPS2: usize = 5;

// SAFETY: `find_frame` reads the first n elements of the columns and writes FRAME_SLOTS values. The
// launch passes the length of the columns as n.
const FRAME: KernelFile =
    unsafe { KernelFile::new("frame.cu", kernel_source!("frame_slots.cu", "frame.cu")) };

/// Frame of an evaluation, for kernels that do not compute it themselves. See `frame.cu`.
struct Frame {
    device: Device,
    kernel: Kernel,
    values: Buffer<f64>,
}

impl Frame {
    /// Threads of the kernel (`FRAME_SAMPLE` in `frame.cu`).
    const BLOCK_SIZE: u32 = 32;

    fn new(builder: &mut KernelBuilder) -> Result<Self, DeviceError> {
        let module = builder.build(&FRAME, &[], Math::Precise)?;
        let (kernel, values) = (module.kernel("find_frame")?, builder.device().zeros(FRAME_SLOTS)?);
        Ok(Self { device: builder.device().clone(), kernel, values })
    }

    /// Queues the computation of the frame and returns the buffer that it fills.
    fn queue_update(&self, request: &PairSumRequest) -> Result<&Buffer<f64>, DeviceError> {
        let PairSumRequest { position, mass, g, eps, total_mass, .. } = *request;
        let [x, y, z] = position.args();
        let n = mass.len() as i32;
        let args = [x, y, z, n.into(), g.into(), eps.into(), total_mass.into(), (&self.values).into()];
        self.device.queue().launch(&self.kernel, 1, Self::BLOCK_SIZE, &args)?;
        Ok(&self.values)
    }
}

/// The kernels that compute the sum, with their buffers.
enum PairSum {
    Tiled(Box<Tiled>),
    PairsOnce(Box<PairsOnce>),
    Course(Box<CourseKernels<f32>>),
    CourseDouble(Box<CourseKernels<f64>>),
    Vectors(Box<VectorKernels>),
}

/// Solver of all pairs of `n` bodies on a device, with the buffers it needs between evaluations.
/// The masses must be the same in every evaluation.
pub struct DeviceDirect {
    builder: KernelBuilder,
    n: usize,
    strategy: DirectDeviceStrategy,
    masses: Option<MassSummary>,
    sum: Option<PairSum>,
    with_potential: Option<Tiled>,
    /// Sums of parts that ranks share, without and with potentials.
    parts: [Option<Tiled>; 2],
    jerks: Option<JerkKernel>,
}

/// Largest number of bodies: indices are `int` in the kernels.
const MAX_BODIES: usize = 1 << 30;

impl DeviceDirect {
    /// Creates a solver for `n` bodies. Uses the default strategy if `strategy` does not fit the
    /// device. Kernels are built when they are first needed.
    pub fn new(device: &Device, n: usize, strategy: &DirectDeviceStrategy) -> Result<Self, DeviceError> {
        if n > MAX_BODIES {
            return Err(DeviceError::Length { device: device.title(), expected: MAX_BODIES, got: n });
        }
        let builder = KernelBuilder::new(device);
        let strategy = if strategy.fits(device) {
            *strategy
        } else {
            DirectDeviceStrategy::default_for(device, n, strategy.precision)
        };
        Ok(Self {
            builder,
            n,
            strategy,
            masses: None,
            sum: None,
            with_potential: None,
            parts: [None, None],
            jerks: None,
        })
    }

    /// Returns the strategy in use.
    pub fn strategy(&self) -> &DirectDeviceStrategy {
        &self.strategy
    }

    /// Returns the bytes of scratch memory on the device, in addition to the bodies.
    pub fn scratch_bytes(device: &Device, n: usize, strategy: &DirectDeviceStrategy) -> u64 {
        match strategy.kernel {
            DirectKernel::Tiled => tiled::scratch_bytes(device, n, strategy),
            DirectKernel::PairsOnce => pairs_once::scratch_bytes(device, n, strategy),
            _ => course::scratch_bytes(n, strategy.precision),
        }
    }

    /// Queues the computation of `acceleration`, and of `potential` if it is given, from position
    /// and mass. Does not wait for it.
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
        expect_lengths(self.n, &[position, acceleration], potential.into_iter().chain([mass]))?;
        let masses = self.mass_summary(mass)?;
        let request = PairSumRequest { position, mass, g, eps, total_mass: masses.total, acceleration };
        if let Some(potential) = potential {
            let strategy = self.potential_strategy();
            let tiled = match self.with_potential.take() {
                Some(tiled) => tiled,
                None => Tiled::new(&mut self.builder, self.n, &strategy, true)?,
            };
            return self.with_potential.insert(tiled).queue_sum(&request, Some(potential));
        }
        match self.pair_sum(masses)? {
            PairSum::Tiled(tiled) => tiled.queue_sum(&request, None),
            PairSum::PairsOnce(pairs_once) => pairs_once.queue_sum(&request),
            PairSum::Course(course) => course.queue_sum(&request),
            PairSum::CourseDouble(course) => course.queue_sum(&request),
            PairSum::Vectors(vectors) => vectors.queue_sum(&request),
        }
    }

    /// Returns the properties of the masses. They are read from the device at the first call.
    fn mass_summary(&mut self, mass: &Buffer<f64>) -> Result<MassSummary, DeviceError> {
        match self.masses {
            Some(masses) => Ok(masses),
            None => Ok(*self.masses.insert(MassSummary::new(&mass.to_vec()?))),
        }
    }

    /// Returns the strategy of sums with potentials.
    fn potential_strategy(&self) -> DirectDeviceStrategy {
        DirectDeviceStrategy::default_for(self.builder.device(), 0, self.strategy.precision)
    }

    /// Returns the kernels of the strategy. They are built at the first call.
    fn pair_sum(&mut self, masses: MassSummary) -> Result<&mut PairSum, DeviceError> {
        let sum = match self.sum.take() {
            Some(sum) => sum,
            None => self.build_pair_sum(masses)?,
        };
        Ok(self.sum.insert(sum))
    }

    fn build_pair_sum(&mut self, masses: MassSummary) -> Result<PairSum, DeviceError> {
        let (builder, n, strategy) = (&mut self.builder, self.n, &self.strategy);
        Ok(match strategy.kernel {
            DirectKernel::Tiled => PairSum::Tiled(Box::new(Tiled::new(builder, n, strategy, false)?)),
            DirectKernel::PairsOnce => {
                PairSum::PairsOnce(Box::new(PairsOnce::new(builder, n, strategy, masses.are_equal)?))
            }
            kernel if kernel.is_of_second_course() => {
                PairSum::Vectors(Box::new(VectorKernels::new(builder, n, strategy)?))
            }
            _ if strategy.precision == Precision::Double => {
                PairSum::CourseDouble(Box::new(CourseKernels::new(builder, n, strategy)?))
            }
            _ => PairSum::Course(Box::new(CourseKernels::new(builder, n, strategy)?)),
        })
    }

    /// Queues the computation of acceleration and jerk from position, velocity and mass, all in
    /// f64. Does not wait for it.
    pub fn forces_and_jerks(&mut self, request: &JerkRequest) -> Result<(), DeviceError> {
        if self.n == 0 {
            return Ok(());
        }
        self.queue_jerks(request, 0..self.n)
    }

    /// Queues the accelerations and jerks of `targets`.
    fn queue_jerks(&mut self, request: &JerkRequest, targets: Range<usize>) -> Result<(), DeviceError> {
        let JerkRequest { position, velocity, mass, acceleration, jerk, .. } = *request;
        expect_lengths(self.n, &[position, velocity, acceleration, jerk], [mass])?;
        let jerks = match self.jerks.take() {
            Some(jerks) => jerks,
            None => JerkKernel::new(&mut self.builder)?,
        };
        self.jerks.insert(jerks).queue_sum(request, targets)
    }

    /// Returns the kernel that takes most of the time and its block size. `None` before the first
    /// evaluation, which builds it.
    pub fn main_kernel(&self) -> Option<(&Kernel, u32)> {
        Some(match self.sum.as_ref()? {
            PairSum::Tiled(tiled) => (&tiled.kernel, self.strategy.block),
            PairSum::PairsOnce(pairs_once) => (&pairs_once.kernel, self.strategy.block),
            PairSum::Course(course) => (&course.kernel, course.block_size),
            PairSum::CourseDouble(course) => (&course.kernel, course.block_size),
            PairSum::Vectors(vectors) => (&vectors.kernel, self.strategy.block),
        })
    }

    /// Returns the build time of each module built so far.
    pub fn build_times(&self) -> &[BuildTime] {
        self.builder.times()
    }
}

/// Checks that all buffers have `n` elements.
fn expect_lengths<'a>(
    n: usize,
    columns: &[Columns<'a>],
    others: impl IntoIterator<Item = &'a Buffer<f64>>,
) -> Result<(), DeviceError> {
    let columns = columns.iter().flat_map(|columns| [columns.x, columns.y, columns.z]);
    match columns.chain(others).find(|buffer| buffer.len() != n) {
        None => Ok(()),
        Some(buffer) => {
            Err(DeviceError::Length { device: buffer.device().title(), expected: n, got: buffer.len() })
        }
    }
}
