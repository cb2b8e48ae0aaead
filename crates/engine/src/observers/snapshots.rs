//! Snapshots of all bodies: `snapshots/snapshot_000.hdf5` and so on.

use std::path::{Path, PathBuf};

use orrery_io::{Snapshot, make_folder};
use orrery_model::Units;

use super::Observer;
use crate::case::{Case, SnapshotFormat};
use crate::error::EngineError;
use crate::simulation::Moment;

pub struct Snapshots {
    folder: PathBuf,
    extension: &'static str,
    units: Units,
    provenance: Vec<(String, String)>,
    written: usize,
}

impl Snapshots {
    /// The first file written gets the number `written`.
    pub fn create(
        case: &Case,
        folder: &Path,
        provenance: &[(String, String)],
        written: usize,
    ) -> Result<Self, EngineError> {
        let folder = folder.join("snapshots");
        make_folder(&folder).map_err(EngineError::Output)?;
        let extension = match case.output.format {
            SnapshotFormat::Hdf5 => "hdf5",
            SnapshotFormat::Xyz => "xyz",
            SnapshotFormat::Npz => "npz",
        };
        Ok(Self { folder, extension, units: case.units, provenance: provenance.to_vec(), written })
    }

    /// How many there are.
    pub fn written(&self) -> usize {
        self.written
    }
}

impl Observer for Snapshots {
    fn observe(&mut self, moment: &Moment) -> Result<(), EngineError> {
        let path = self.folder.join(format!("snapshot_{:03}.{}", self.written, self.extension));
        let snapshot = Snapshot {
            particles: moment.bodies.particles().clone(),
            time: moment.time,
            step: moment.step,
            units: self.units,
            provenance: self.provenance.clone(),
        };
        orrery_io::write(&path, &snapshot).map_err(EngineError::Output)?;
        self.written += 1;
        Ok(())
    }
}
