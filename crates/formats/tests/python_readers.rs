//! Written files open in h5py, yt, pynbody, numpy, segyio and vtk, which readers.py checks. Files
//! that segyio writes are read.

use std::path::Path;
use std::process::Command;

use orrery_formats::{
    FieldFrame, FieldLabels, FieldValues, Limits, Seismogram, Snapshot, read_model_segy,
    read_seismograms_segy, write_field_npy, write_field_vti, write_seismogram_npy, write_seismograms_segy,
    write_snapshot, write_volume_npy, write_volume_vti,
};
use orrery_model::grid::Grid;
use orrery_model::rng::Draws;
use orrery_model::{Particle, Particles, Precision, Species, Units};
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
    write_volume(folder, &mut expected);
    expected
}

/// Writes a volume in f32.
fn write_volume(folder: &Path, expected: &mut Map<String, Value>) {
    let (nodes, spacing, name, time) = ([4, 3, 2], [0.5, 0.1, 1e3], "pressure", 0.25);
    let values: Vec<f32> = (0..24).map(|k| Draws::new(5, 0, k).normal() as f32).collect();
    let labels = FieldLabels {
        name: Some(name.to_owned()),
        time: Some(time),
        frame: Some(FieldFrame { origin: [0.0; 3], spacing }),
        ..FieldLabels::default()
    };
    let written = FieldValues::Single(&values);
    write_volume_npy(&folder.join("volume.npy"), nodes, written).unwrap();
    write_volume_vti(&folder.join("volume.vti"), nodes, &labels, written).unwrap();
    let planes: Vec<Vec<&[f32]>> = values.chunks(12).map(|plane| plane.chunks(4).collect()).collect();
    let volume = json!({ "values": planes, "type": "<f4", "spacing": spacing, "name": name, "time": time });
    expected.insert("volume".to_owned(), volume);
}

/// Writes a shot that fits rev 1 and one that needs rev 2, and returns the values that the readers
/// must find.
fn write_shots(folder: &Path) -> Map<String, Value> {
    let mut expected = Map::new();
    for (name, revision, dt, start, count) in [
        ("shot-rev1", 1, 0.002, -0.0125, 101),
        ("shot-rev2", 2, 612.372e-6, 0.0, 101),
        ("shot-long", 2, 0.001, 0.5, 40_000),
        ("shot-longest", 2, 0.001, 0.5, 70_000),
    ] {
        let receivers = vec![[900.0, -20.0, 0.0], [1000.5, 20.0, 0.0], [1100.25, -20.0, 150.0]];
        let samples: Vec<f64> =
            (0..3 * count).map(|k| f64::from(Draws::new(6, 0, k).normal() as f32)).collect();
        let shot = Seismogram {
            shot: 17,
            dt,
            start,
            source: [1000.5, -20.0, 7.25],
            receivers,
            precision: Precision::Single,
            samples,
        };
        let path = folder.join(name);
        let lines = ["CASE two-layer-shot".to_owned()];
        write_seismograms_segy(&path.with_extension("sgy"), std::slice::from_ref(&shot), &lines).unwrap();
        write_seismogram_npy(&path.with_extension("npy"), &shot).unwrap();
        let traces: Vec<&[f64]> = (0..3).map(|k| shot.trace(k)).collect();
        let case = json!({
            "revision": revision, "dt": dt, "start": start, "shot": shot.shot, "source": shot.source,
            "receivers": shot.receivers, "samples": traces,
        });
        expected.insert(name.to_owned(), case);
    }
    expected
}

/// Checks the models that readers.py wrote with segyio.
fn check_files_of_segyio(folder: &Path) {
    let limits = Limits::unbounded();
    for name in ["ibm", "ieee", "little"] {
        for inlines in [1, 3] {
            let path = folder.join(format!("segyio-{name}-{inlines}.sgy"));
            let value = |trace: usize, sample: usize| 1500.0 + 10.0 * trace as f64 + 0.25 * sample as f64;
            let shots = read_seismograms_segy(&path, &limits).unwrap();
            let expected: Vec<f64> = (0..20 * inlines).map(|k| value(k / 5, k % 5)).collect();
            assert_eq!((shots.len(), shots[0].shot, &shots[0].samples), (1, 3, &expected), "{name}");
            assert_eq!(shots[0].dt, 0.0125, "{name}");
            let model = read_model_segy(&path, &limits).unwrap();
            let traces = 4 * inlines;
            let expected: Vec<f64> = (0..5 * traces).map(|k| value(k % traces, k / traces)).collect();
            assert_eq!(model.data.values, expected, "{name}");
            let (nodes, spacing) = match inlines {
                1 => ([4, 5, 1], [Some(25.0), Some(12.5), None]),
                _ => ([4, 3, 5], [Some(25.0), Some(50.0), Some(12.5)]),
            };
            assert_eq!((model.data.nodes, model.spacing), (nodes, spacing), "{name}");
        }
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
    let fields = serde_json::to_vec(&write_fields(folder.path())).unwrap();
    std::fs::write(folder.path().join("fields.json"), fields).unwrap();
    let shots = serde_json::to_vec(&write_shots(folder.path())).unwrap();
    std::fs::write(folder.path().join("shots.json"), shots).unwrap();

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    assert_eq!(stdout.matches("agrees").count(), 25, "{stdout}");
    check_files_of_segyio(folder.path());
}
