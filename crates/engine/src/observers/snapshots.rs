//! Snapshots of the whole state: `snapshots/snapshot_000.hdf5` and so on.

use std::path::{Path, PathBuf};

use orrery_io::make_folder;
use orrery_model::Units;

use super::Observer;
use crate::case::{Case, SnapshotFormat};
use crate::error::EngineError;
use crate::folder::SNAPSHOTS;
use crate::simulation::Moment;
use crate::system::SnapshotLabels;

pub struct Snapshots {
    run_folder: PathBuf,
    /// Folder of the snapshots.
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
            written,
        })
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
        let (units, provenance) = (self.units, self.provenance.as_slice());
        let labels = SnapshotLabels { step: moment.step, time: moment.time, units, provenance };
        moment.system.write_snapshot(&self.snapshot_path(self.written), &labels)?;
        moment.system.write_results(&self.run_folder, moment.stamp())?;
        self.written += 1;
        Ok(())
    }
}
