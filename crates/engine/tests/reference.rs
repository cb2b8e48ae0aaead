//! The reference of the case's keys and the JSON Schema, both generated from the declarations.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use orrery_engine::case::{Case, CaseSource, json_schema, model_names, presets, reference_page};
use orrery_formats::{FieldValues, write_field_npy, write_volume_npy};
use orrery_model::grid::Grid;
use serde_json::Value;

fn project_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_reference_page_is_current() {
    let page = fs::read_to_string(project_root().join("docs/reference/case.md")).unwrap_or_default();
    assert!(page == reference_page(), "docs/reference/case.md is not current, run: cargo xtask reference");
}

/// Returns the paths of all keys in a schema, such as `gravity.theta`.
fn schema_keys(schema: &Value, path: &str, keys: &mut BTreeSet<String>) {
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        // A name without a type belongs to variants. `false` is a key of another physics.
        let is_described = schema.as_object().is_some_and(|schema| !schema.is_empty());
        let is_section = schema["type"] == "object" || schema["items"]["type"] == "object";
        if is_described && !is_section {
            keys.insert(path.clone());
        }
        schema_keys(schema, &path, keys);
        schema_keys(&schema["items"], &path, keys);
    }
    for condition in schema["allOf"].as_array().into_iter().flatten() {
        schema_keys(&condition["then"], path, keys);
    }
}

/// Returns the paths of all keys in a case file that the program wrote.
fn resolved_keys(text: &str) -> BTreeSet<String> {
    let (mut keys, mut section) = (BTreeSet::new(), String::new());
    for line in text.lines() {
        match line.split_once(" = ") {
            Some((key, _)) => {
                keys.insert(format!("{section}{key}"));
            }
            None if line.is_empty() => {}
            None => section = format!("{}.", line.trim_matches(['[', ']'])),
        }
    }
    keys
}

/// Returns cases of heat that together have all keys.
fn plates(folder: &Path) -> Vec<String> {
    for name in ["start.png", "edge.npy"] {
        fs::write(folder.join(name), "").unwrap();
    }
    let grid = Grid { nx: 9, ny: 9, hx: 1.0, hy: 1.0 };
    write_field_npy(&folder.join("k.npy"), &grid, FieldValues::Double(&[1.0; 81])).unwrap();
    let edges = |west: &str| {
        let names = ["west", "east", "south", "north"];
        names.map(|name| format!("heat.{name} = {{ condition = \"fixed\", {west} }}\n")).concat()
    };
    let plate =
        |rest: &str| format!("grid = {{ nx = 9, ny = 9, hx = 1 }}\ntime = {{ step = 0.1, end = 1 }}\n{rest}");
    let region = |shape: &str| {
        format!(
            "heat.region = [{{ x = 1, y = 1, conductivity = 2, heat_capacity = 3, source = 1, {shape} }}]\ninitial.image = \"start.png\""
        )
    };
    let mut cases = vec![
        plate(&(edges("value = 1") + &region("shape = \"disc\", radius = 1"))),
        plate(&(edges("profile = [1, 2]") + &region("shape = \"rectangle\", width = 1, height = 1"))),
        plate(&(edges("file = \"edge.npy\"") + "heat.stop_range = 1\ninitial.file = \"k.npy\"")),
        plate(
            "heat.conductivity_file = \"k.npy\"\nheat.heat_capacity_file = \"k.npy\"\n\
             heat.source_file = \"k.npy\"\ninitial.state = \"uniform\"",
        ),
    ];
    for state in ["sine-mode", "hot-spot", "checkerboard"] {
        cases.push(plate(&format!("heat.conductivity = 1\ninitial.state = \"{state}\"")));
    }
    cases
}

/// Returns cases of waves that together have all keys.
fn waves(folder: &Path) -> Vec<String> {
    write_volume_npy(&folder.join("c.npy"), [60, 50, 1], FieldValues::Single(&[1.0; 3000])).unwrap();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    let header = format!("{header:<117}\n");
    let wavelet = [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes(), &[0; 8]].concat();
    fs::write(folder.join("wavelet.npy"), wavelet).unwrap();
    let medium = |rest: &str| {
        format!("grid = {{ nx = 60, ny = 50, hx = 1 }}\ntime = {{ step = 0.1, end = 1 }}\n{rest}")
    };
    let point = "x = 30, y = 25";
    let region = "x = 1, y = 1, velocity = \"wall\"";
    vec![
        medium(&format!(
            "wave.velocity = 1\nwave.source = [{{ {point}, frequency = 0.01 }}]\nwave.receivers = [{{ {point} }}]\n\
             wave.region = [{{ shape = \"box\", width = 3, height = 3, {region} }}]"
        )),
        medium(&format!(
            "wave.layer = [{{ top = 0, velocity = 1 }}]\nwave.source = [{{ {point}, frequency = 0.01 }}]\n\
             wave.region = [{{ shape = \"ball\", radius = 3, {region} }}]"
        )),
        medium(&format!(
            "wave.velocity_file = \"c.npy\"\n\
             wave.source = [{{ {point}, file = \"wavelet.npy\", interval = 0.5 }}]"
        )),
    ]
}

/// The resolved cases of all models, of a file, of plates and of waves together have the keys of
/// the schema, except those that other keys replace.
#[test]
fn resolved_cases_have_all_keys_of_the_schema() {
    let mut declared = BTreeSet::new();
    schema_keys(&json_schema(), "", &mut declared);
    let mut written = BTreeSet::new();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("start.hdf5"), "").unwrap();
    let bodies = model_names().map(|model| format!("model = \"{model}\""));
    for bodies in bodies.chain(["file = \"start.hdf5\"".to_owned()]) {
        for sets in ["time.step=adaptive", "gravity.acceptance=relative", "image.azimuth=1 deg"] {
            let text = format!("units = \"solar\"\ntime = {{ step = 1, end = 2 }}\nbodies.{bodies}");
            let source = CaseSource::Text { label: "case".into(), text, folder: folder.path().to_owned() };
            let sets = [sets.to_owned(), "gravity.softening=1".to_owned()];
            let case = Case::load_within(&source, &sets, None).unwrap_or_else(|e| panic!("{e}"));
            written.extend(resolved_keys(&case.to_toml()));
        }
    }
    for text in plates(folder.path()).into_iter().chain(waves(folder.path())).chain(fluids(folder.path())) {
        let source = CaseSource::Text { label: "case".into(), text, folder: folder.path().to_owned() };
        let case = Case::load_within(&source, &[], None).unwrap_or_else(|e| panic!("{e}"));
        written.extend(resolved_keys(&case.to_toml()));
    }
    let missing: Vec<_> = declared.difference(&written).map(String::as_str).collect();
    assert_eq!(missing, ["bodies.first.n", "bodies.second.n", "grid.depth", "grid.height", "grid.width"]);
    assert!(written.is_subset(&declared), "{:?}", written.difference(&declared));
}

/// Returns cases of fluids that together have all keys.
fn fluids(folder: &Path) -> Vec<String> {
    fs::write(folder.join("start.data"), "").unwrap();
    let densities = ["density = 0.8", "mass_density = 0.8"];
    let starts = [
        "start = \"fcc\"\ncells = 4",
        "start = \"square\"\ncells = 4",
        "start = \"droplet\"\nn = 100\nlength = 20",
        "start = \"random\"\nn = 100",
    ];
    let generated = starts.iter().flat_map(|start| densities.map(|density| format!("{start}\n{density}")));
    let forces = "truncation = \"switched\"\n[[lennard_jones.species]]\n[[lennard_jones.species]]\n\
                  [[lennard_jones.pair]]\nfirst = \"A\"\nsecond = \"B\"\nsigma = 0.9\nepsilon = 1.5";
    generated
        .chain(["file = \"start.data\"".to_owned()])
        .map(|start| {
            format!(
                "[particles]\n{start}\ntemperature = 1\n[lennard_jones]\n{forces}\n[thermostat]\n\
                 method = \"langevin\"\n[time]\nstep = 0.1\nend = 1\n"
            )
        })
        .collect()
}

/// Validates files with the Python package jsonschema. Returns the lines that the script prints, or
/// `None` if there is no Python.
fn validate(files: &[PathBuf]) -> Option<Vec<String>> {
    let Some(python) = std::env::var_os("ORRERY_PYTHON") else {
        println!(
            "skipped: ORRERY_PYTHON is not set (`cargo xtask test` installs jsonschema and runs this test)"
        );
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let schema = folder.path().join("schema.json");
    fs::write(&schema, json_schema().to_string()).unwrap();
    let script = project_root().join("crates/engine/tests/schema.py");
    let output = Command::new(python).arg(script).arg(schema).args(files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), files.len());
    Some(lines)
}

#[test]
fn presets_examples_and_resolved_cases_are_valid_in_the_schema() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    let mut add = |name: String, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        files.push(path);
    };
    for preset in presets() {
        add(format!("{}.toml", preset.name), preset.text);
        let case = Case::load_within(&CaseSource::Preset(preset), &[], None).unwrap();
        add(format!("{}-resolved.toml", preset.name), &case.to_toml());
    }
    // Forms of values that the presets do not have.
    add(
        "forms.toml".to_owned(),
        "units = \"galactic\"\nbodies = { model = \"kepler\", primary_mass = \"1e10Msun\", node = \"-.5e1 deg\" }\n\
         time = { step = \"adaptive\", eta = 0.1, end = \"1.\" }\n\
         output = { snapshot_every = \"1 step\", image_every = \" 20 Myr \" }\n\
         checkpoint.every = \"1 h 30 min\"\nlimits.energy_error = \"none\"\n\
         image = { width = \"auto\", size = \"1920x1080\", center = [\"1 kpc\", 2, \"-3pc\"], azimuth = \"1 rad\" }\n",
    );
    add(
        "file.toml".to_owned(),
        "bodies.file = \"start.hdf5\"\ntime = { step = 1, end = 2 }\ncheckpoint.every = \"2 days\"\n",
    );
    for entry in fs::read_dir(project_root().join("examples")).unwrap() {
        let case = entry.unwrap().path().join("case.toml");
        files.extend(case.exists().then_some(case));
    }
    assert!(files.len() >= 19, "{files:?}");
    for line in validate(&files).into_iter().flatten() {
        assert!(line.ends_with("\tvalid"), "{line}");
    }
}

/// Bad cases that a schema can find are invalid. It cannot find what depends on other keys.
#[test]
fn bad_cases_are_invalid_in_the_schema() {
    let folder = project_root().join("crates/engine/tests/bad-cases");
    let names = [
        "acceptance-unknown",
        "accuracy-range",
        "accuracy-with-geometric",
        "bodies-both",
        "bodies-figure-eight-n",
        "bodies-file-with-n",
        "bodies-key-of-another-model",
        "bodies-mass-unit",
        "bodies-mass-zero",
        "bodies-model-misspelt",
        "bodies-n-string",
        "bodies-n-zero",
        "bodies-neither",
        "checkpoint-every-word",
        "checkpoint-keep-many",
        "encounter-misspelt",
        "end-missing",
        "eta-with-fixed-step",
        "gravity-format-vti",
        "gravity-grid",
        "gravity-heat-error",
        "gravity-step-auto",
        "heat-and-bodies",
        "heat-and-gravity",
        "heat-conductivity-huge",
        "heat-conductivity-zero",
        "heat-edge-condition-unknown",
        "heat-edge-misspelt-key",
        "heat-edge-profile-one",
        "heat-edge-profile-strings",
        "heat-eta",
        "heat-format-hdf5",
        "heat-grid-missing",
        "heat-image-center",
        "heat-initial-empty",
        "heat-initial-key-of-another",
        "heat-initial-missing",
        "heat-initial-two",
        "heat-initial-unknown",
        "heat-integrator",
        "heat-misspelt-edge",
        "heat-nx-large",
        "heat-nx-missing",
        "heat-nx-small",
        "heat-precision-mixed",
        "heat-region-disc-width",
        "heat-region-is-table",
        "heat-region-radius-zero",
        "heat-region-shape-unknown",
        "heat-region-without-shape",
        "heat-spacing-huge",
        "heat-step-adaptive",
        "heat-stop-range-zero",
        "heat-units-galactic",
        "heat-without-section-heat",
        "image-animation-unknown",
        "image-center-boolean",
        "image-center-number",
        "image-center-two",
        "image-center-unit",
        "image-center-unknown",
        "image-colormap-diverging",
        "image-colormap-unknown",
        "image-size-boolean",
        "image-size-one-side",
        "image-size-word",
        "kepler-eccentricity",
        "limits-energy-error-word",
        "missing-bodies",
        "missing-time",
        "section-is-scalar",
        "snapshot-every-unit",
        "softening-wrong-unit",
        "theta-large",
        "unknown-key-in-gravity",
        "unknown-section",
        "units-unknown",
    ];
    let files: Vec<_> = names.iter().map(|name| folder.join(name).with_extension("toml")).collect();
    for line in validate(&files).into_iter().flatten() {
        assert!(line.contains("\terror: "), "{line}");
    }
}
