//! Snapshots of the whole state: `snapshots/snapshot_000.hdf5` and so on.

use std::path::{Path, PathBuf};

use orrery_io::make_folder;
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
        make_folder(&folder).map_err(EngineError::Output)?;
        let extension = match case.output.format {
            SnapshotFormat::Hdf5 => "hdf5",
            SnapshotFormat::Xyz => "xyz",
            SnapshotFormat::Npz => "npz",
            SnapshotFormat::Npy => "npy",
            SnapshotFormat::Vti => "vti",
        };
        Ok(Self {
            run_folder,
            folder,
            extension,
            units: case.units,
            provenance: provenance.to_vec(),
            captured: written,
        })
    }

    fn snapshot_path(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{}{number:03}.{}", SNAPSHOTS.prefix, self.extension))
    }

    /// Lists the snapshots that were written and no longer exist.
    pub fn missing_files(&self) -> Vec<PathBuf> {
        (0..self.captured).map(|number| self.snapshot_path(number)).filter(|path| !path.exists()).collect()
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

/// Writes a snapshot, and then the other results of the system.
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
