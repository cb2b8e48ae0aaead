//! A small case of each physics, and comparison of the files of runs. Plots take as long as all the
//! rest of such a run, so they are drawn only in the tests of `integrity.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use orrery_engine::case::{Case, CaseSource};
use orrery_engine::run::{Output, Replace};
use orrery_formats::{Limits, MANIFEST_FILE, parse_checkpoint, read_checkpoint, write_checkpoint};
use serde_json::Value;
use tempfile::TempDir;

/// Twelve steps of 40 bodies. Snapshots are due between steps.
const CASE: &str = r#"
name = "sphere"
[bodies]
model = "plummer"
n = 40
seed = 3
[gravity]
softening = 0.05
[time]
step = 0.125
end = 1.5
[output]
snapshot_every = 0.4
image_every = "5 steps"
record_every = "1 step"
plots = false
[image]
size = 64
"#;

/// Twelve steps of a plate, with the schedule of [`CASE`]. The step is three quarters of the
/// longest stable one.
const PLATE: &str = r#"
name = "plate"
[grid]
nx = 24
ny = 16
hx = 1.0
[heat]
conductivity = 1.0
[heat.west]
condition = "fixed"
profile = [0, 2, 1]
[heat.north]
condition = "flux"
value = -0.1
[[heat.region]]
shape = "disc"
x = 12
y = 8
radius = 4
conductivity = 0.2
source = 0.3
[initial]
state = "hot-spot"
[time]
step = 0.125
end = 1.5
[output]
snapshot_every = 0.4
image_every = "5 steps"
record_every = "1 step"
plots = false
[image]
size = 64
"#;

/// Twelve steps of waves, with the schedule of [`CASE`], layers on two sides, a slow region and two
/// receivers.
const TANK: &str = r#"
name = "tank"
[grid]
nx = 24
ny = 20
hx = 1.0
[wave]
velocity = 1.0
layer_nodes = 4
x_min = "rigid"
y_min = "free"
[[wave.region]]
shape = "ball"
x = 14
y = 10
radius = 3
velocity = 0.5
[[wave.source]]
x = 8.5
y = 9.25
frequency = 0.5
delay = 0.5
[[wave.receivers]]
x = 5
y = 6.5
count = 2
dx = 3.25
[time]
step = 0.125
end = 1.5
[output]
snapshot_every = 0.4
image_every = "5 steps"
record_every = "1 step"
plots = false
[image]
size = 64
"#;

/// Twelve steps of a fluid, with the schedule of [`CASE`], a thermostat that is switched off, and
/// measures of its structure. Particles are heavy, so a step is 0.004 units of their time.
const FLUID: &str = r#"
name = "fluid"
[particles]
start = "fcc"
cells = 3
density = 0.8
temperature = 0.9
[lennard_jones]
cutoff = 2.0
search = "lists"
[[lennard_jones.species]]
mass = 1000
fraction = 0.75
[[lennard_jones.species]]
mass = 500
sigma = 0.9
fraction = 0.25
[thermostat]
method = "langevin"
time = 20
until = 0.9
[structure]
every = "2 steps"
from = 0.3
bins = 20
[time]
step = 0.125
end = 1.5
[output]
format = "xyz"
snapshot_every = 0.4
image_every = "5 steps"
record_every = "1 step"
plots = false
[image]
size = 64
"#;

/// Creates a small case with settings `KEY=VALUE`.
pub type MakeCase = fn(&[&str]) -> Case;

/// A small case of each physics, all with twelve steps and the same schedule of outputs.
pub const CASES: [MakeCase; 4] = [case, plate, tank, fluid];

/// Returns a case of 40 bodies.
pub fn case(sets: &[&str]) -> Case {
    case_of(CASE, sets)
}

/// Returns a case of a plate that conducts heat.
pub fn plate(sets: &[&str]) -> Case {
    case_of(PLATE, sets)
}

/// Returns a case of waves.
pub fn tank(sets: &[&str]) -> Case {
    case_of(TANK, sets)
}

/// Returns a case of a Lennard-Jones fluid.
pub fn fluid(sets: &[&str]) -> Case {
    case_of(FLUID, sets)
}

/// Returns the table of the run in `folder`.
pub fn table_of(folder: &Path) -> PathBuf {
    let thermo = folder.join("thermo.csv");
    if thermo.exists() { thermo } else { folder.join("conserved.csv") }
}

/// Returns the case of a text with settings `KEY=VALUE`.
pub fn case_of(text: &str, sets: &[&str]) -> Case {
    let source = CaseSource::Text { label: "case".into(), text: text.into(), folder: PathBuf::new() };
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Case::load(&source, &sets).unwrap_or_else(|e| panic!("{e}"))
}

/// Creates a temporary folder, in memory if possible: these tests compare bits and do not test
/// disks.
pub fn temp_folder() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a temporary folder")
}

/// Reads every file of a run except its lock.
pub fn folder_content(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for path in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with(".lock") {
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

pub fn assert_same(a: &Path, b: &Path, label: &str) {
    let (a, b) = (folder_content(a), folder_content(b));
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>(), "{label}");
    for (name, bytes) in &a {
        assert!(*bytes == b[name], "{label}: {} differs", name.display());
    }
}

pub fn output_to(folder: PathBuf) -> Output {
    Output { folder, replace: Replace::Nothing }
}

/// Returns the bytes of a checkpoint without the states of the manifest in its header, and the
/// names in a manifest without lengths and hashes. Other files are unchanged. A run that was
/// extended has other hashes: snapshots and images from before have another end in their
/// provenance.
pub fn without_hashes(path: &Path, bytes: &[u8]) -> Vec<u8> {
    if path.ends_with(MANIFEST_FILE) {
        let text = String::from_utf8_lossy(bytes);
        // The case of an extended run has a line for each end.
        let names = text.lines().map(|line| line.splitn(3, ' ').last().unwrap_or_default());
        return format!("{:?}", names.collect::<BTreeSet<_>>()).into_bytes();
    }
    if path.extension().is_none_or(|extension| extension != "orrery") {
        return bytes.to_vec();
    }
    let checkpoint = parse_checkpoint(bytes).unwrap();
    let mut header: Value = serde_json::from_str(&checkpoint.header).unwrap();
    remove_manifest(&mut header);
    format!("{header} {:?}", checkpoint.blocks).into_bytes()
}

/// Removes the states of the manifest from the header of a checkpoint.
pub fn remove_manifest(header: &mut Value) {
    let mut remove = |pointer: &str| {
        if let Some(Value::Object(observers)) = header.pointer_mut(pointer) {
            observers.remove("manifest");
        }
    };
    remove("/observers");
    remove("/before_end/observers");
}

/// Rewrites the checkpoint with `change` applied to its header, so that all hashes are valid.
pub fn rewrite_header(path: &Path, change: impl Fn(&mut Value)) {
    let checkpoint = read_checkpoint(path, &Limits::default()).unwrap();
    let mut header: Value = serde_json::from_str(&checkpoint.header).unwrap();
    change(&mut header);
    let columns: Vec<_> =
        checkpoint.blocks.iter().map(|(name, block)| (name.as_str(), block.as_column())).collect();
    write_checkpoint(path, &header.to_string(), &columns).unwrap();
}
