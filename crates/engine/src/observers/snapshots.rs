//! Snapshots of all bodies: `snapshots/snapshot_000.hdf5` and so on.

use std::path::{Path, PathBuf};

use orrery_io::{Snapshot, make_folder};
use orrery_model::Units;

use super::Observer;
use crate::case::{Case, SnapshotFormat};
use crate::error::EngineError;
use crate::folder::SNAPSHOTS;
use crate::simulation::Moment;

pub struct Snapshots {
    folder: PathBuf,
    extension: &'static str,
    units: Units,
    provenance: Vec<(String, String)>,
    written: usize,
}

impl Snapshots {
    /// Creates the observer. The first file gets the number `written`.
    pub fn create(
        case: &Case,
        folder: &Path,
        provenance: &[(String, String)],
        written: usize,
    ) -> Result<Self, EngineError> {
        let folder = folder.join(SNAPSHOTS.folder);
        make_folder(&folder).map_err(EngineError::Output)?;
        let extension = match case.output.format {
            SnapshotFormat::Hdf5 => "hdf5",
            SnapshotFormat::Xyz => "xyz",
            SnapshotFormat::Npz => "npz",
        };
        Ok(Self { folder, extension, units: case.units, provenance: provenance.to_vec(), written })
    }

    fn snapshot_path(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{}{number:03}.{}", SNAPSHOTS.prefix, self.extension))
    }

    /// Lists the snapshots that were written and no longer exist.
    pub fn missing_files(&self) -> Vec<PathBuf> {
        (0..self.written).map(|number| self.snapshot_path(number)).filter(|path| !path.exists()).collect()
    }

    /// Returns the number of snapshots written since the start of the run.
    pub fn written_count(&self) -> usize {
        self.written
    }
}

impl Observer for Snapshots {
    fn observe(&mut self, moment: &Moment) -> Result<(), EngineError> {
        let path = self.snapshot_path(self.written);
        let snapshot = Snapshot {
            particles: moment.particles()?.clone(),
            time: moment.time,
            step: moment.step,
            units: self.units,
            provenance: self.provenance.clone(),
        };
        orrery_io::write_snapshot(&path, &snapshot).map_err(EngineError::Output)?;
        self.written += 1;
        Ok(())
    }
}
