//! What a run hears from outside while it runs, and what it tells.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use orrery_io::Limits;

use crate::case::Case;
use crate::compute_device::{ComputeDevice, DeviceRequest};
use crate::error::EngineError;
use orrery_particles::solver::device::DeviceStrategy;

/// Kept back of the wall time, for what else the machine does.
pub(crate) const RESERVE: Duration = Duration::from_secs(1);

/// What a run is told: its bounds, and requests. Signal handlers set the flags; the run looks at them between
/// steps.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// Finish the step, write a checkpoint and end.
    pub stop: Arc<AtomicBool>,
    /// Finish the step, write a checkpoint and go on.
    pub checkpoint: Arc<AtomicBool>,
    /// When the run must have ended, its checkpoint written.
    pub deadline: Option<Instant>,
    /// What reading its bodies may take.
    pub limits: Limits,
    /// Where to compute.
    pub device: DeviceRequest,
}

impl Control {
    /// Whether to stop now, when a further step and its checkpoint may take up to `needed`.
    pub(crate) fn stops(&self, needed: Duration) -> Option<Reason> {
        if self.stop.load(Ordering::Relaxed) {
            return Some(Reason::Asked);
        }
        let left = self.deadline?.saturating_duration_since(Instant::now());
        (left <= needed).then_some(Reason::WallTime)
    }

    /// Whether a checkpoint was asked for since the last call.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.checkpoint.swap(false, Ordering::Relaxed)
    }

    /// Whether waiting on has become pointless.
    pub(crate) fn is_impatient(&self) -> bool {
        self.stops(RESERVE).is_some()
    }
}

/// Why a run ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A signal.
    Asked,
    /// The wall time is up.
    WallTime,
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// Steps completed.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
    /// When it ends.
    pub end: f64,
    /// Step and time at which this process took over: 0, or the checkpoint's.
    pub from: (u64, f64),
    /// Since then.
    pub elapsed: Duration,
    /// (E − E₀) / |E₀| at the last row of the table.
    pub energy_error: f64,
}

/// What a run tells on its way.
#[derive(Debug)]
pub enum RunEvent<'a> {
    /// Where forces are computed from now on.
    Device(&'a ComputeDevice),
    /// What was measured on this device is used.
    Tuned(&'a DeviceStrategy),
    /// A step is done.
    Step(Status),
    /// A checkpoint that was asked for is written.
    Checkpoint {
        /// Its file.
        path: &'a Path,
        /// Steps completed.
        step: u64,
    },
    /// A damaged checkpoint was passed over.
    Damaged(&'a EngineError),
    /// The run goes on from here.
    Resumed {
        /// What is simulated.
        case: &'a Case,
        /// The checkpoint.
        path: &'a Path,
        /// Steps completed.
        step: u64,
        /// Simulated time.
        time: f64,
    },
    /// The program or machine is another than the one that wrote the checkpoint: bits may differ.
    Moved {
        /// What wrote the checkpoint.
        before: &'a str,
        /// What goes on.
        now: &'a str,
    },
    /// The file system has no locks: nothing keeps a second run out.
    Unlocked,
    /// Files that the run wrote before are gone.
    Missing {
        /// The first of them.
        path: &'a Path,
        /// How many.
        count: usize,
    },
    /// A file that is not needed to go on could not be written.
    Unwritten(&'a EngineError),
    /// A changed file is begun anew, as was asked; the old one is kept beside it.
    BegunAnew(&'a Path),
    /// The storage failed; the run waits and tries again.
    Waiting {
        /// What failed.
        error: &'a EngineError,
        /// How long until the next attempt.
        pause: Duration,
    },
    /// The storage works again.
    StorageIsBack,
    /// The energy error passed its limit.
    EnergyError {
        /// Steps completed.
        step: u64,
        /// The error.
        error: f64,
        /// Its limit.
        limit: f64,
    },
}
