//! All pairs on a device.
//!
//! A force evaluation queues a few launches and does not wait for them: the frame (`frame.cu`), the
//! sum, and the addition of partial sums. For few bodies all three are one launch. Every sum has a
//! fixed order, so the same bodies give the same bits on the same device.

mod frame;
mod jerks;
mod pairs_once;
mod shared;
mod strategy;
mod target_range;
mod tiled;

pub use frame::{EvaluationFrame, FRAME_SLOTS_SOURCE, FRAME_SOURCE, frame_slot};
pub use jerks::JerkRequest;
pub use strategy::{DirectDeviceStrategy, DirectKernel};
pub use target_range::DeviceTargetSum;

use std::ops::Range;

use orrery_device::{Arg, Buffer, BuildTime, Device, DeviceError, Kernel, KernelBuilder, kernel_source};

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
    /// Returns the buffers as arguments of a kernel.
    pub fn args(self) -> [Arg<'a>; 3] {
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

/// Text of `pair.cu`, for other kernels that sum pairs: reciprocal square roots and the position of
/// padding.
pub const PAIR_SOURCE: &str = kernel_source!("pair.cu");

/// The kernels that compute the sum, with their buffers.
enum PairSum {
    Tiled(Box<Tiled>),
    PairsOnce(Box<PairsOnce>),
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
