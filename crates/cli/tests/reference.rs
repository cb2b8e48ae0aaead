//! docs/reference describes what the program writes and reads: files, columns, JSON, environment.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use orrery_formats::{
    FieldValues, Limits, Seismogram, read_checkpoint, write_field_vti, write_seismograms_segy,
};
use orrery_model::Precision;
use orrery_model::grid::Grid;
use serde_json::Value;

use crate::common::TestDir;

/// 32 steps of 200 bodies.
const SMALL: [&str; 4] = ["bodies.n=200", "time.step=0.0078125", "time.end=0.25", "image.size=64"];

/// 4 steps of a plate.
const SMALL_PLATE: [&str; 5] =
    ["grid.nx=17", "grid.ny=17", "time.step=1e-4", "time.end=4e-4", "image.size=64"];

const GRID: Grid = Grid { nx: 3, ny: 3, hx: 1.0, hy: 1.0 };

fn project_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    let path = project_root().join("docs/reference").join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Returns the texts in backquotes.
fn quoted_names(page: &str) -> BTreeSet<&str> {
    page.lines()
        .filter(|line| !line.starts_with("```"))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

/// Collects the keys of all objects in a JSON value, except below `skipped`, whose keys are data.
fn json_keys(value: &Value, skipped: &[&str], keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                keys.insert(key.clone());
                if !skipped.contains(&key.as_str()) {
                    json_keys(value, skipped, keys);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| json_keys(value, skipped, keys)),
        _ => {}
    }
}

#[test]
fn files_and_columns_are_in_the_reference() {
    let page = page("files.md");
    let names = quoted_names(&page);
    let dir = TestDir::new();
    dir.run("plummer", "out", &[&SMALL[..], &["time.integrator=hermite4"]].concat());
    dir.run("sine-decay", "plate", &SMALL_PLATE);
    for out in ["out", "plate"] {
        for name in dir.list(out) {
            let is_listed = |listed: &&str| *listed == name || listed.starts_with(&format!("{name}/"));
            assert!(names.iter().any(is_listed), "{name} is not in docs/reference/files.md");
        }
        let table = dir.text(&format!("{out}/conserved.csv"));
        let columns = table.lines().next().unwrap();
        assert!(page.contains(&format!("\n{columns}\n")), "{columns}");

        let checkpoints = dir.list(&format!("{out}/checkpoints"));
        let path = dir.path(out).join("checkpoints").join(&checkpoints[0]);
        let checkpoint = read_checkpoint(&path, &Limits::default()).unwrap();
        let header: Value = serde_json::from_str(&checkpoint.header).unwrap();
        let fields = header.as_object().unwrap().keys().cloned();
        let columns = checkpoint.blocks.iter().map(|(name, _)| {
            let name = name.strip_prefix("b.").unwrap_or(name);
            name.split('.').next().unwrap_or(name).to_owned()
        });
        for name in fields.chain(columns) {
            assert!(
                names.contains(name.as_str()),
                "'{name}' of checkpoints is not in docs/reference/files.md"
            );
        }
    }

    dir.stdout_of(&["convert", "out/snapshots/snapshot_000.hdf5", "start.npz"]);
    dir.stdout_of(&["forces", "start.npz", "-o", "forces.npz"]);
    for file in ["start.npz", "forces.npz"] {
        let archive = zip::ZipArchive::new(fs::File::open(dir.path(file)).unwrap()).unwrap();
        for name in archive.file_names() {
            let name = name.unwrap().trim_end_matches(".npy").to_owned();
            assert!(names.contains(name.as_str()), "'{name}' of {file} is not in docs/reference/files.md");
        }
    }

    // The names in the section about HDF5 are in a file, except for those of other programs.
    let start = page.find("### GADGET HDF5").unwrap();
    let table = &page[start..page[start..].find("The reader needs").unwrap() + start];
    let content = dir.bytes("out/snapshots/snapshot_000.hdf5");
    for name in quoted_names(table).into_iter().flat_map(|path| path.split('/')) {
        let is_absent = ["PartType0", "PartType5", "Order"].contains(&name);
        let is_in_file = content.windows(name.len().max(1)).any(|bytes| bytes == name.as_bytes());
        assert!(name.is_empty() || is_absent || is_in_file, "'{name}' is not in an HDF5 snapshot");
    }
}

/// Returns a seismogram with the samples 0 and `value`.
fn shot(value: f64) -> Seismogram {
    Seismogram {
        shot: 1,
        dt: 0.001,
        start: 0.0,
        source: [0.0; 3],
        receivers: vec![[1.0, 0.0, 0.0]],
        precision: Precision::Single,
        samples: vec![0.0, value],
    }
}

#[test]
fn keys_of_json_are_in_the_reference() {
    let page = page("files.md");
    let names = quoted_names(&page[page.find("\n## JSON").unwrap()..]);
    let dir = TestDir::new();
    let mut arguments = vec!["run", "plummer", "--out", "out", "--json", "-"];
    SMALL.iter().for_each(|set| arguments.extend(["--set", set]));
    let mut plate = vec!["run", "sine-decay", "--out", "plate", "--json", "-"];
    SMALL_PLATE.iter().for_each(|set| plate.extend(["--set", set]));
    let snapshot = "out/snapshots/snapshot_000.hdf5";
    let checkpoint = "out/checkpoints/checkpoint_000000032.orrery";
    for command in [
        &arguments[..],
        &plate,
        &["info", snapshot, checkpoint, "--json", "-"],
        &["analyze", snapshot, "--json", "-"],
        &["accuracy", snapshot, "--json", "-"],
    ] {
        let json: Value = serde_json::from_str(&dir.stdout_of(command)).unwrap();
        let mut keys = BTreeSet::new();
        json_keys(&json, &["provenance"], &mut keys);
        keys.retain(|key| key != "stars");
        for key in &keys {
            assert!(
                names.contains(key.as_str()),
                "'{key}' of {} is not in docs/reference/files.md",
                command[0]
            );
        }
    }
    for (name, value) in [("a.vti", 1.0), ("b.vti", 2.0)] {
        let values = FieldValues::Double(&[value; 9]);
        write_field_vti(&dir.path(name), &GRID, "u", 0.0, values).unwrap();
    }
    for (name, value) in [("a.sgy", 1.0), ("b.sgy", 2.0)] {
        write_seismograms_segy(&dir.path(name), &[shot(value)], &[]).unwrap();
    }
    for command in [
        &["info", "a.sgy", "--json", "-"][..],
        &["analyze", "a.sgy", "--json", "-"],
        &["compare", "a.sgy", "b.sgy", "--json", "-"],
        &["compare", snapshot, "out/snapshots/snapshot_001.hdf5", "--json", "-"],
        &["compare", "a.vti", "b.vti", "--json", "-"],
        &["info", "a.vti", "--json", "-"],
        &["analyze", "a.vti", "--json", "-"],
    ] {
        let output = dir.orrery(command);
        let mut keys = BTreeSet::new();
        json_keys(&serde_json::from_slice(&output.stdout).unwrap(), &[], &mut keys);
        assert!(keys.contains("largest_at") || command[0] != "compare", "{keys:?}");
        for key in &keys {
            let command = command[0];
            assert!(names.contains(key.as_str()), "'{key}' of {command} is not in docs/reference/files.md");
        }
    }
}

/// Returns the names in capitals in the lines around each access to the environment.
fn environment_names(source: &str) -> BTreeSet<String> {
    let lines: Vec<&str> = source.lines().collect();
    let accesses = (0..lines.len()).filter(|&k| lines[k].contains("env::var"));
    let near = accesses.flat_map(|k| &lines[k.saturating_sub(3)..lines.len().min(k + 4)]);
    let texts = near.flat_map(|line| line.split('"').skip(1).step_by(2));
    let is_name = |text: &&str| text.len() > 3 && text.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    texts.filter(is_name).map(str::to_owned).collect()
}

#[test]
fn environment_variables_are_in_the_reference() {
    let page = page("exit-status.md");
    let names = quoted_names(&page);
    let mut folders = vec![project_root().join("crates")];
    let mut found = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let is_source = path.extension().is_some_and(|e| e == "rs") && !path.ends_with("reference.rs");
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
            } else if is_source {
                found.extend(environment_names(&fs::read_to_string(&path).unwrap()));
            }
        }
    }
    for expected in ["ORRERY_CACHE_DIR", "HOME", "TERM", "CUDA_HOME"] {
        assert!(found.contains(expected), "{found:?}");
    }
    for name in &found {
        let is_listed = names.iter().any(|listed| listed.split('=').next() == Some(name));
        assert!(is_listed, "{name} is not in docs/reference/exit-status.md");
    }
}
