//! Snapshots for the tests of files.

use std::path::Path;

use orrery_formats::{IoError, Limits, Snapshot};
use orrery_model::units::UnitScale;
use orrery_model::{Particle, Particles, Species, Units};

/// Extensions of the formats that can be written.
pub const EXTENSIONS: [&str; 3] = ["hdf5", "xyz", "npz"];

/// Five bodies of three species in mixed order, with extreme values, texts with special characters,
/// and large ids.
pub fn mixed_snapshot() -> Snapshot {
    let mut particles = Particles::default();
    let kinds = [Species::Disc, Species::Halo, Species::Bulge, Species::Halo, Species::Disc];
    for (i, species) in kinds.into_iter().enumerate() {
        let k = i as f64;
        particles.push(Particle {
            position: [0.1 + k, -k / 3.0, 1e-300 * k],
            velocity: [1e200 / 7.0, -0.0, -k],
            mass: 1.0 / (3.0 + k),
            id: u64::MAX - 10 * i as u64,
            species,
        });
    }
    let case = "name = \"a \\ b\"\n[bodies]\n\tn = 5 # µ\n";
    let provenance = [("version", "0.1.0"), ("case", case), ("a name", ""), ("commit", "0 = 1")];
    Snapshot {
        particles,
        time: 0.1 + 0.2,
        step: u64::MAX / 3,
        units: Units::Custom(UnitScale { length: 1.0 / 3.0, mass: 1e40 / 7.0, time: 3.1e7 / 9.0 }),
        provenance: provenance.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
    }
}

/// Returns the bytes of a file with `snapshot` and the given extension.
pub fn file_bytes(snapshot: &Snapshot, extension: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s").with_extension(extension);
    orrery_formats::write_snapshot(&path, snapshot).unwrap();
    std::fs::read(path).unwrap()
}

/// Reads a snapshot without a memory limit.
pub fn read_unlimited(path: &Path) -> Result<Snapshot, IoError> {
    orrery_formats::read_snapshot(path, &Limits::unbounded())
}
