//! Snapshots of the whole state: `snapshots/snapshot_000.hdf5` and so on. Those of a fluid are the
//! frames of one file, `trajectory.gsd` or `trajectory.xyz`.

use std::path::{Path, PathBuf};

use orrery_formats::{make_folder, remove_fluid_frames};
use orrery_model::Units;

use super::Recorder;
use crate::case::{Case, SnapshotFormat};
use crate::error::EngineError;
use crate::folder::SNAPSHOTS;
use crate::pipeline::Job;
use crate::simulation::Moment;
use crate::system::{SnapshotLabels, WriteFn};

pub struct Snapshots {
    run_folder: PathBuf,
    /// Folder of the snapshots.
    folder: PathBuf,
    extension: &'static str,
    /// True if all snapshots are frames of one file.
    is_trajectory: bool,
    units: Units,
    provenance: Vec<(String, String)>,
    /// Snapshots captured since the start of the run.
    captured: usize,
}

impl Snapshots {
    /// Creates the observer. The first file gets the number `written`.
    pub fn create(
        case: &Case,
        folder: &Path,
        provenance: &[(String, String)],
        written: usize,
    ) -> Result<Self, EngineError> {
        let run_folder = folder.to_owned();
        let folder = folder.join(SNAPSHOTS.folder);
        let is_trajectory = case.fluid().is_some();
        if !is_trajectory {
            make_folder(&folder).map_err(EngineError::Output)?;
        }
        let extension = match case.output.format {
            SnapshotFormat::Hdf5 => "hdf5",
            SnapshotFormat::Xyz => "xyz",
            SnapshotFormat::Npz => "npz",
            SnapshotFormat::Npy => "npy",
            SnapshotFormat::Vti => "vti",
            SnapshotFormat::Gsd => "gsd",
        };
        Ok(Self {
            run_folder,
            folder,
            extension,
            is_trajectory,
            units: case.units,
            provenance: provenance.to_vec(),
            captured: written,
        })
    }

    fn snapshot_path(&self, number: usize) -> PathBuf {
        if self.is_trajectory {
            return self.run_folder.join(format!("trajectory.{}", self.extension));
        }
        self.folder.join(format!("{}{number:03}.{}", SNAPSHOTS.prefix, self.extension))
    }

    /// Removes frames of a trajectory that were written after `last`, the time of the last
    /// snapshot.
    pub fn remove_later_frames(&self, last: Option<f64>) -> Result<(), EngineError> {
        if !self.is_trajectory {
            return Ok(());
        }
        let from = last.map_or(f64::NEG_INFINITY, f64::next_up);
        remove_fluid_frames(&self.snapshot_path(0), from).map_err(EngineError::Output)
    }

    /// Lists the snapshots that were written and no longer exist.
    pub fn missing_files(&self) -> Vec<PathBuf> {
        let files = if self.is_trajectory { self.captured.min(1) } else { self.captured };
        (0..files).map(|number| self.snapshot_path(number)).filter(|path| !path.exists()).collect()
    }

    /// Returns the number of snapshots captured since the start of the run.
    pub fn captured_count(&self) -> usize {
        self.captured
    }
}

impl Recorder for Snapshots {
    fn needed_bytes(&self, moment: &Moment) -> u64 {
        moment.system.snapshot_bytes()
    }

    fn capture(&mut self, moment: &Moment) -> Result<Box<dyn Job>, EngineError> {
        let (units, provenance) = (self.units, self.provenance.as_slice());
        let labels = SnapshotLabels { step: moment.step, time: moment.time, units, provenance };
        let snapshot = moment.system.capture_snapshot(&labels)?;
        let results = moment.system.capture_results(moment.stamp())?;
        let (path, folder) = (self.snapshot_path(self.captured), self.run_folder.clone());
        self.captured += 1;
        Ok(Box::new(SnapshotJob { snapshot: Some(snapshot), path, results, folder }))
    }
}

/// Writes a snapshot, or a frame of the trajectory, and then the other results of the system.
struct SnapshotJob {
    /// `None` once it is written.
    snapshot: Option<WriteFn>,
    path: PathBuf,
    results: Option<WriteFn>,
    folder: PathBuf,
}

impl Job for SnapshotJob {
    fn commit(&mut self) -> Result<(), EngineError> {
        if let Some(write) = &self.snapshot {
            write(&self.path)?;
            self.snapshot = None;
        }
        self.results.as_ref().map_or(Ok(()), |write| write(&self.folder))
    }
}
