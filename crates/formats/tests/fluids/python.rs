//! Trajectories open in gsd, ase and MDAnalysis, which fluid_readers.py checks. Files of gsd and
//! ase are read.

use std::path::Path;
use std::process::Command;

use orrery_model::Vec3s;
use orrery_model::simulation_box::{BoxSides, SimulationBox};
use serde_json::{Map, Value, json};

use super::{Trajectory, boxes, read_unlimited, species};

/// Returns the values that the readers must find.
fn expected_values(trajectory: &Trajectory, numbers: &[usize]) -> Value {
    let rows = |vectors: &Vec3s| vectors.iter().collect::<Vec<_>>();
    let frame = |index: usize| {
        let frame = trajectory.frame(index);
        let p = frame.particles;
        let is_periodic =
            |axis: usize| u8::from(p.bounds.sides == BoxSides::Periodic && axis < p.bounds.dimensions);
        let images: Vec<[i32; 3]> = (0..p.len()).map(|k| [0, 1, 2].map(|axis| p.image[axis][k])).collect();
        let periodic = [0, 1, 2].map(is_periodic);
        json!({
            "step": frame.step, "time": frame.time, "position": rows(&p.coordinates()),
            "velocity": rows(&p.velocity), "image": images, "species": p.species, "id": p.id,
            "origin": p.bounds.origin, "lengths": p.bounds.lengths, "dimensions": p.bounds.dimensions,
            "periodic": periodic,
        })
    };
    let species: Vec<Value> = trajectory
        .species
        .iter()
        .zip(numbers)
        .map(|(s, number)| json!({ "name": s.name, "mass": s.mass, "sigma": s.sigma, "number": number }))
        .collect();
    let mut units = json!({ "system": trajectory.units });
    for (quantity, unit) in &trajectory.unit_names {
        units[*quantity] = Value::from(unit.as_str());
    }
    let frames: Vec<Value> = (0..trajectory.frames.len()).map(frame).collect();
    json!({ "frames": frames, "species": species, "units": units, "provenance": trajectory.provenance })
}

/// Checks the last frames of the files that fluid_readers.py wrote.
fn check_files_of_other_programs(folder: &Path) {
    for precision in ["single", "double"] {
        let read = read_unlimited(&folder.join(format!("gsd-{precision}.gsd"))).unwrap();
        let bounds = SimulationBox::periodic([4.0, 5.0, 6.0], 3);
        assert_eq!(read.bounds, SimulationBox { origin: [-2.0, -2.5, -3.0], ..bounds });
        let rows: Vec<[f64; 3]> = read.coordinates.iter().collect();
        assert_eq!(rows, [[-2.0, 0.5, 0.0], [1.5, -1.0, 2.75], [0.0; 3]]);
        let rows: Vec<[f64; 3]> = read.velocity.as_ref().unwrap().iter().collect();
        assert_eq!(rows, [[1.0, 2.0, 3.0], [0.0, -1.0, 0.0], [2.0, 0.0, 0.0]]);
        assert_eq!(read.image.unwrap(), [vec![0, 2, 0], vec![0, 0, 2], vec![-1, 0, 0]]);
        assert_eq!(
            (&read.species_names[..], &read.species[..]),
            (&["Ar".into(), "Kr".into()][..], &[0, 1, 0][..])
        );
        assert_eq!((read.mass, read.id), (Some(vec![40.0, 84.0]), vec![0, 1, 2]));
        assert_eq!((read.step, read.time), (Some(20), None));
    }
    let expected = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]];
    let read = read_unlimited(&folder.join("ase.xyz")).unwrap();
    assert_eq!(read.bounds, SimulationBox::periodic([4.0, 5.0, 6.0], 3));
    assert_eq!(read.coordinates.iter().collect::<Vec<_>>(), expected);
    assert_eq!(read.velocity.unwrap().get(2), [0.875, 1.0, 1.125]);
    assert_eq!(
        (&read.species_names[..], &read.species[..]),
        (&["Ar".into(), "Kr".into()][..], &[0, 1, 0][..])
    );
    let open = read_unlimited(&folder.join("ase-open.xyz")).unwrap();
    assert_eq!((open.bounds.sides, open.coordinates.get(1)), (BoxSides::Open, [1.0, 2.0, 3.0]));
    let data = read_unlimited(&folder.join("ase.data")).unwrap();
    assert_eq!(data.bounds, read.bounds);
    assert_eq!(data.coordinates.iter().collect::<Vec<_>>(), expected);
    assert_eq!((data.species, data.id), (vec![0, 1, 0], vec![1, 2, 3]));
    assert!(data.mass.is_some_and(|mass| (mass[0] - 39.948).abs() < 1e-3 && (mass[1] - 83.798).abs() < 1e-3));
}

#[test]
fn python_programs_read_trajectories() {
    let Some(python) = std::env::var_os("ORRERY_PYTHON") else {
        println!(
            "skipped: ORRERY_PYTHON is not set (`cargo xtask test` installs the readers and runs this test)"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut expected = Map::new();
    for (name, bounds) in boxes() {
        let mut trajectory = Trajectory::new(bounds, 40, 30);
        let mut numbers = [1, 2];
        if name == "periodic" {
            trajectory.species = vec![species("Kr", 84.0, 3.6), species("Ar", 39.9, 3.4)];
            numbers = [36, 18];
        }
        for extension in super::EXTENSIONS {
            trajectory.append(&folder.path().join(name).with_extension(extension), 0..30);
        }
        expected.insert(name.to_owned(), expected_values(&trajectory, &numbers));
    }
    std::fs::write(folder.path().join("fluids.json"), serde_json::to_vec(&expected).unwrap()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fluid_readers.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    assert_eq!(stdout.matches("agrees").count(), 16, "{stdout}");
    check_files_of_other_programs(folder.path());
}
