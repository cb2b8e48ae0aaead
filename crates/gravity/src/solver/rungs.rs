//! Rungs of the gravity ladders. [`super::direct::rungs`] and [`super::tree::rungs`] list them.

use orrery_model::Precision;

use super::CpuStrategy;
use super::device::DeviceStrategy;
use super::tree::device::InsertionOptions;

/// Number of CPU threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One thread.
    One,
    /// One thread per core.
    All,
}

/// Device and strategy of a rung.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RungKind {
    /// CPU.
    Cpu(CpuStrategy, Threads),
    /// One CPU thread, with the loops of [`super::direct::plain`].
    PlainCpu,
    /// Device, with this strategy.
    Device(DeviceStrategy),
    /// Device, with a whole step of the last program of the course: forces and motion.
    CourseStep,
    /// Device, with a whole step of the six kernels that insert bodies into a tree.
    InsertionStep(InsertionOptions),
    /// Device, with the strategy that a run uses: the tuned one if there is a tuning file, else the
    /// default for the device and the number of bodies.
    Default,
}

/// One step of a ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct Rung {
    /// The change from the previous rung, for example "reciprocal square root".
    pub name: &'static str,
    /// Device and strategy.
    pub kind: RungKind,
    /// Arithmetic.
    pub precision: Precision,
    /// Figures that the course reports for this rung. Empty if it reports none.
    pub course: &'static [f64],
    /// Remark for the reader, empty if there is none.
    pub note: &'static str,
}
