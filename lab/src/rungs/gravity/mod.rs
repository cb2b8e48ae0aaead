//! Rungs of the gravity ladders: kernels of the lectures, and the strategies of the solvers that
//! the ladders compare with them. [`direct`] and [`tree`] list the rungs.

pub mod direct;
mod test_system;
pub mod tree;

use orrery_device::{Device, DeviceError, KernelBuilder};
use orrery_gravity::solver::GravityCpuStrategy;
use orrery_gravity::solver::device::{DeviceStrategy, ForceRequest};
use orrery_model::Precision;

use direct::course::{CourseStrategy, CourseSum, VectorStrategy, VectorSum};
use orrery_measure::workload::TimedSolver;
use tree::insertion::{BLOCKS_PER_SM, Insertion, InsertionOptions};

/// Number of CPU threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadCount {
    /// One thread.
    One,
    /// One thread per core.
    All,
}

/// Device and strategy of a rung.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GravityRungKind {
    /// CPU.
    Cpu(GravityCpuStrategy, ThreadCount),
    /// One CPU thread, with the loops of [`direct::plain`].
    PlainCpu,
    /// Device, with this strategy of a solver.
    Device(DeviceStrategy),
    /// Device, with kernels of a lecture.
    Lecture(LectureStrategy),
    /// Device, with a whole step of the last program of the course: forces and motion.
    CourseStep,
    /// Device, with a whole step of the six kernels that insert bodies into a tree.
    InsertionStep(InsertionOptions),
    /// Device, with the strategy that a run uses: the tuned one if there is a tuning file, else the
    /// default for the device and the number of bodies.
    Default,
}

/// One step of a ladder of gravity.
#[derive(Clone, Debug, PartialEq)]
pub struct GravityRung {
    /// The change from the previous rung, for example "reciprocal square root".
    pub name: &'static str,
    /// Device and strategy.
    pub kind: GravityRungKind,
    /// Arithmetic.
    pub precision: Precision,
    /// Figures that the course reports for this rung. Empty if it reports none.
    pub course: &'static [f64],
    /// Remark for the reader, empty if there is none.
    pub note: &'static str,
}

/// Kernels of a lecture with their parameters. They need softening, and compute no potentials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LectureStrategy {
    /// All pairs, with a kernel of the first course.
    Course(CourseStrategy),
    /// All pairs, with a kernel of the second course.
    Vectors(VectorStrategy),
    /// Barnes-Hut tree by insertion. Uses the opening angle of any acceptance.
    Insertion(InsertionOptions),
}

impl LectureStrategy {
    /// Builds the kernels for `n` bodies, from 1 to 2^30. The bodies and their masses must be the
    /// same in every evaluation.
    pub fn new_solver(&self, device: &Device, n: usize) -> Result<Box<dyn TimedSolver>, DeviceError> {
        let builder = &mut KernelBuilder::new(device);
        Ok(match self {
            Self::Course(strategy) if strategy.precision == Precision::Double => {
                Box::new(CourseSum::<f64>::new(builder, n, strategy)?)
            }
            Self::Course(strategy) => Box::new(CourseSum::<f32>::new(builder, n, strategy)?),
            Self::Vectors(strategy) => Box::new(VectorSum::new(builder, n, strategy)?),
            Self::Insertion(options) => Box::new(Insertion::new(builder, n, *options, BLOCKS_PER_SM)?),
        })
    }
}

/// Largest number of bodies: indices are `int` in the kernels.
const MAX_BODIES: usize = 1 << 30;

/// Checks that kernels can have `n` bodies.
fn check_body_count(device: &Device, n: usize) -> Result<(), DeviceError> {
    if n <= MAX_BODIES {
        return Ok(());
    }
    Err(DeviceError::Length { device: device.title(), expected: MAX_BODIES, got: n })
}

/// Checks that `request` is for `n` bodies and for no potentials, which kernels of lectures do not
/// compute. `module` is the name of the kernels in the message.
fn check_request(request: &ForceRequest, n: usize, module: &str) -> Result<(), DeviceError> {
    let ForceRequest { position, mass, acceleration, potential, .. } = *request;
    if potential.is_some() {
        let device = mass.device().title();
        return Err(DeviceError::Kernel { device, module: module.to_owned(), name: "potentials".to_owned() });
    }
    let columns = [position, acceleration].into_iter().flat_map(|c| [c.x, c.y, c.z]);
    match columns.chain([mass]).find(|buffer| buffer.len() != n) {
        None => Ok(()),
        Some(buffer) => {
            Err(DeviceError::Length { device: buffer.device().title(), expected: n, got: buffer.len() })
        }
    }
}
