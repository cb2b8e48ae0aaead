//! Written files open in h5py, yt, pynbody, numpy and vtk, which readers.py checks.

use std::path::Path;
use std::process::Command;

use orrery_io::{FieldValues, Snapshot, write_field_npy, write_field_vti, write_snapshot};
use orrery_model::grid::Grid;
use orrery_model::rng::Draws;
use orrery_model::{Particle, Particles, Species, Units};
use serde_json::{Map, Value, json};

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

/// Writes a field in f32 and in f64, and returns the values that the readers must find.
fn write_fields(folder: &Path) -> Map<String, Value> {
    let grid = Grid { nx: 5, ny: 3, hx: 0.1, hy: 1e-7 };
    let (name, time) = ("temperature [K] & more", 0.1 + 0.2);
    let doubles: Vec<f64> = (0..grid.len()).map(|k| Draws::new(4, 0, k as u64).normal()).collect();
    let singles: Vec<f32> = doubles.iter().map(|&u| u as f32).collect();
    let mut expected = Map::new();
    for (file, kind, values) in [
        ("field-single", "<f4", FieldValues::Single(&singles)),
        ("field-double", "<f8", FieldValues::Double(&doubles)),
    ] {
        write_field_npy(&folder.join(file).with_extension("npy"), &grid, values).unwrap();
        write_field_vti(&folder.join(file).with_extension("vti"), &grid, name, time, values).unwrap();
        let rows: Vec<&[f64]> = doubles.chunks(grid.nx).collect();
        let field = json!({
            "values": rows, "type": kind, "spacing": [grid.hx, grid.hy], "name": name, "time": time,
        });
        expected.insert(file.to_owned(), field);
    }
    expected
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
    let fields = serde_json::to_vec(&write_fields(folder.path())).unwrap();
    std::fs::write(folder.path().join("fields.json"), fields).unwrap();

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    assert_eq!(stdout.matches("agrees").count(), 19, "{stdout}");
}
