//! Control of a run from outside, and the events that it reports.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use orrery_formats::Limits;

use crate::case::Case;
use crate::compute_device::{ComputeDevice, DeviceRequest};
use crate::error::EngineError;
use crate::fluid::MinimiseStatus;
use crate::system::{Drift, System};
use crate::team::Ranks;

/// Part of the wall time that is reserved for other work of the machine.
pub(crate) const RESERVE: Duration = Duration::from_secs(1);

/// Limits and requests for a run. Signal handlers set the flags. The run checks them between steps,
/// or between batches of steps that take about 50 ms.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// Set to finish the step, write a checkpoint and stop.
    pub stop: Arc<AtomicBool>,
    /// Set to finish the step, write a checkpoint and continue.
    pub checkpoint: Arc<AtomicBool>,
    /// Latest time at which the run has written its checkpoint and ended.
    pub deadline: Option<Instant>,
    /// Limits for reading input files.
    pub limits: Limits,
    /// Device to use. With several ranks, that of rank 0.
    pub device: DeviceRequest,
    /// Ranks that compute the run. This process or thread is rank 0.
    pub ranks: Ranks,
    /// On a file system without locks, write to the folder of a run even if another run claims to
    /// do so.
    pub ignores_claims: bool,
    /// Largest number of steps between two checks of the requests. `None` selects it from the
    /// measured time of a step. Results do not depend on it.
    pub steps_per_batch: Option<u64>,
}

impl Control {
    /// Returns why the run must stop now, if it must. One more batch of steps and its checkpoint
    /// may take up to `needed`.
    pub(crate) fn stop_reason(&self, needed: Duration) -> Option<StopReason> {
        if self.ranks.is_stop_requested() {
            self.stop.store(true, Ordering::Relaxed);
        }
        if self.stop.load(Ordering::Relaxed) {
            return Some(StopReason::Requested);
        }
        let left = self.deadline?.saturating_duration_since(Instant::now());
        (left <= needed).then_some(StopReason::WallTime)
    }

    /// Returns true if a checkpoint was requested and not written yet.
    pub(crate) fn is_checkpoint_requested(&self) -> bool {
        self.checkpoint.load(Ordering::Relaxed)
    }

    /// Returns true if a checkpoint was requested, and clears the request.
    pub(crate) fn take_checkpoint_request(&self) -> bool {
        self.checkpoint.swap(false, Ordering::Relaxed)
    }

    /// Returns true if a stop is due, so that waiting for storage must end.
    pub(crate) fn must_stop_waiting(&self) -> bool {
        self.stop_reason(RESERVE).is_some()
    }
}

/// Why a run stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// A stop was requested, for example by a signal.
    Requested,
    /// The wall time is used up.
    WallTime,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// Steps completed.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
    /// Simulated time at which the run started.
    pub start: f64,
    /// Simulated time at which the run ends.
    pub end: f64,
    /// Step and time at which this process started: those of the start or of the checkpoint.
    pub from: (u64, f64),
    /// Wall time since this process started its first step.
    pub elapsed: Duration,
    /// Error of the run at the last row of `conserved.csv`, with its short name, for example
    /// "dE/E". `None` if the system has no such error.
    pub drift: Option<(&'static str, f64)>,
}

/// Event that a run reports.
#[derive(Debug)]
pub enum RunEvent<'a> {
    /// The device that computes from now on.
    Device(&'a ComputeDevice),
    /// Several ranks compute from now on.
    Ranks {
        /// Connection of the ranks, for example "threads".
        transport: &'a str,
        /// Device of each rank.
        devices: &'a [String],
    },
    /// The run starts with the state of a file.
    StartTime {
        /// Case of the run, with the time at which it starts.
        case: &'a Case,
        /// Time of the file, in the units of the case.
        file_time: f64,
    },
    /// A strategy from tuning measurements is used in place of the default one.
    /// The text describes it.
    TunedStrategy(&'a str),
    /// The run is set up, and its folder contains its first files. Other files, such as a log, may
    /// be added to the folder from now on.
    Ready {
        /// Case of the run.
        case: &'a Case,
        /// Folder of the run.
        folder: &'a Path,
        /// The system, with its device and method.
        system: &'a System,
    },
    /// The energy of a fluid is being minimised, before the run has a folder.
    Minimising(MinimiseStatus),
    /// The energy of a fluid is at a minimum.
    Minimised(MinimiseStatus),
    /// A step is complete, or a batch of steps.
    Step(Status),
    /// A checkpoint was written.
    CheckpointWritten {
        /// Path of the checkpoint.
        path: &'a Path,
        /// Steps completed.
        step: u64,
        /// Time that the checkpoint took, without pauses.
        elapsed: Duration,
        /// True if the checkpoint was requested, for example by a signal.
        is_requested: bool,
    },
    /// A checkpoint is damaged and is skipped.
    DamagedCheckpoint(&'a EngineError),
    /// The run resumes from a checkpoint.
    Resumed {
        /// Case of the run.
        case: &'a Case,
        /// Path of the checkpoint.
        path: &'a Path,
        /// Steps completed.
        step: u64,
        /// Simulated time.
        time: f64,
        /// True if the run is already complete.
        is_finished: bool,
    },
    /// The run continues to another end than before.
    EndChanged {
        /// Case of the run, with the new end.
        case: &'a Case,
        /// The end until now.
        before: f64,
    },
    /// The initial state has parts that are not modelled, for example gas, or that the precision
    /// does not resolve. The text is one line.
    InputWarning(&'a str),
    /// Estimated error of the discretisation, below its limit. The text is one line.
    Accuracy(&'a str),
    /// `case.toml` in the folder of the run was edited. The run does not follow the edit.
    CaseFileEdited {
        /// Folder of the run.
        folder: &'a Path,
        /// First key that differs, with the value of the run, such as `time.end = 1.0`.
        found: &'a str,
        /// The same key with the value in the file.
        given: &'a str,
    },
    /// The input file has changed since the run in the folder started from it.
    InputChanged {
        /// Path of the file.
        path: &'a Path,
        /// True if the run is resumed with the state of its checkpoint. False if it is replaced by
        /// a run that starts from the changed file.
        is_resumed: bool,
    },
    /// The checkpoint was written by another program version or on another device. The last bits of
    /// the results may differ from those of an uninterrupted run.
    WriterChanged {
        /// Program and device that wrote the checkpoint.
        before: &'a str,
        /// Program and device of this process.
        now: &'a str,
    },
    /// The case asks for an MP4, and ffmpeg is not in `PATH`. The run writes the GIF only.
    NoFfmpeg,
    /// The file system has no locks. A file of the run prevents a second run in the same folder,
    /// and stays if the run is killed.
    NoFileLocks,
    /// A file of the run differs from its record in the manifest.
    FileDiffers {
        /// Path of the file.
        path: &'a Path,
        /// The difference in words.
        problem: &'a str,
    },
    /// More files differ than were reported.
    MoreFilesDiffer {
        /// Folder of the run.
        folder: &'a Path,
        /// Number of further files.
        count: usize,
    },
    /// Of some files only the length was compared, because reading them would take long.
    FilesNotRead {
        /// Folder of the run.
        folder: &'a Path,
        /// Number of these files.
        count: usize,
        /// Bytes of these files.
        bytes: u64,
    },
    /// An earlier version of the program wrote the run without a manifest.
    NoManifest {
        /// Folder of the run.
        folder: &'a Path,
    },
    /// Files that a run without a manifest wrote earlier are missing.
    MissingFiles {
        /// Path of the first one.
        path: &'a Path,
        /// Number of missing files.
        count: usize,
    },
    /// An output failed that is not needed to resume the run, such as a plot.
    OutputFailed(&'a EngineError),
    /// An output file that was changed since the checkpoint is restarted.
    OutputRestarted {
        /// Path of the file.
        path: &'a Path,
        /// New name of the changed file, such as `conserved.csv.changed`. `None` if it was removed.
        kept: Option<&'a Path>,
    },
    /// The storage failed. The run waits and tries again.
    WaitingForStorage {
        /// The error.
        error: &'a EngineError,
        /// Time until the next attempt.
        pause: Duration,
    },
    /// The storage works again.
    StorageRecovered,
    /// The precision no longer resolves the state, for example because a body moved far away.
    Unresolved {
        /// Steps completed.
        step: u64,
        /// The warning, one line.
        text: &'a str,
    },
    /// The run would take very many steps of the length of its first one. The step or `eta` is
    /// probably too small.
    ManySteps {
        /// Number of steps until the end.
        steps: f64,
        /// Length of the first step.
        dt: f64,
    },
    /// Very many outputs are due within one step, whose length the run has chosen. They show states
    /// that hardly differ.
    ManyOutputs {
        /// Number of outputs within the step.
        outputs: f64,
        /// Shortest interval of an output, in the units of the case.
        interval: f64,
        /// Length of the step.
        dt: f64,
    },
    /// The error of the run exceeded its limit, for example the energy error.
    AboveLimit {
        /// Steps completed.
        step: u64,
        /// The error, with its key in `[limits]` and advice.
        drift: Drift,
        /// Value of the error.
        error: f64,
        /// Limit of its absolute value.
        limit: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_stops_when_the_next_batch_may_end_after_the_deadline() {
        const HOUR: Duration = Duration::from_secs(3600);
        let control = Control { deadline: Some(Instant::now() + 2 * HOUR), ..Control::default() };
        assert_eq!(control.stop_reason(HOUR), None);
        assert_eq!(control.stop_reason(3 * HOUR), Some(StopReason::WallTime));
        assert!(!control.must_stop_waiting());
        assert!(Control { deadline: Some(Instant::now()), ..Control::default() }.must_stop_waiting());
        control.stop.store(true, Ordering::Relaxed);
        assert_eq!(control.stop_reason(Duration::ZERO), Some(StopReason::Requested));
        assert_eq!(Control::default().stop_reason(3 * HOUR), None);
    }
}
