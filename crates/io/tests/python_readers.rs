//! Written files open in h5py, yt, pynbody and numpy, which readers.py checks.

use std::path::Path;
use std::process::Command;

use orrery_io::{Snapshot, write_snapshot};
use orrery_model::rng::Draws;
use orrery_model::{Particle, Particles, Species, Units};
use serde_json::{Map, json};

/// A hundred bodies of four species in mixed order. The ids fit the signed integers of the readers.
fn sample_snapshot(units: Units) -> Snapshot {
    let kinds = [Species::Halo, Species::Disc, Species::Halo, Species::Stars, Species::Gas];
    let mut particles = Particles::default();
    for i in 0..100 {
        let mut draws = Draws::new(3, 0, i);
        particles.push(Particle {
            position: [draws.normal(), draws.normal(), draws.normal()],
            velocity: [draws.normal(), draws.normal(), draws.normal()],
            mass: draws.uniform(),
            id: 1000 - i,
            species: kinds[i as usize % kinds.len()],
        });
    }
    let case = "name = \"x\"\n".repeat(500);
    let provenance = [("version", "0.1.0"), ("case", &case), ("inputs hash", "µ")];
    Snapshot {
        particles,
        time: 0.1 + 0.2,
        step: 42,
        units,
        provenance: provenance.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
    }
}

#[test]
fn python_programs_read_written_files() {
    let Some(python) = std::env::var_os("ORRERY_PYTHON") else {
        println!(
            "skipped: ORRERY_PYTHON is not set (`cargo xtask test` installs the readers and runs this test)"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut expected = Map::new();
    for units in [Units::NBody, Units::Galactic, Units::Solar] {
        let snapshot = sample_snapshot(units);
        for extension in ["hdf5", "npz", "xyz"] {
            write_snapshot(&folder.path().join(units.name()).with_extension(extension), &snapshot).unwrap();
        }
        let p = &snapshot.particles;
        let case = json!({
            "position": p.position.iter().collect::<Vec<_>>(),
            "velocity": p.velocity.iter().collect::<Vec<_>>(),
            "mass": p.mass,
            "id": p.id,
            "species": p.species.iter().map(|&s| s as u8).collect::<Vec<_>>(),
            "time": snapshot.time,
            "step": snapshot.step,
            "units": units.name(),
            "length_cm": units.scale().map_or(1.0, |scale| scale.length * 1e2),
            "mass_g": units.scale().map_or(1.0, |scale| scale.mass * 1e3),
            "time_s": units.scale().map_or(1.0, |scale| scale.time),
            "provenance": snapshot.provenance,
        });
        expected.insert(units.name().to_owned(), case);
    }
    let expected = serde_json::to_vec(&expected).unwrap();
    std::fs::write(folder.path().join("expected.json"), expected).unwrap();

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    assert_eq!(stdout.matches("agrees").count(), 15, "{stdout}");
}
