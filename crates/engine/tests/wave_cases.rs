//! Cases of waves: forms that are accepted and read back, and errors.

use std::fs;
use std::path::Path;

use orrery_engine::case::{Case, CaseError, CaseSource, VelocitySource, WaveletSource};
use orrery_fields::wave::{SpaceOrder, TimeDispersion};
use orrery_formats::{FieldValues, write_field_npy};
use orrery_gravity::settings::StepChoice;
use orrery_model::Precision;
use orrery_model::grid::Grid;
use orrery_model::wave::{SideCondition, VelocityModel};

use crate::common::temp_folder;

const SOURCE: &str = "wave.source = [{ x = 5, y = 5, frequency = 0.05 }]\n";

fn load(text: &str, folder: &Path) -> Result<Case, CaseError> {
    let source = CaseSource::Text { label: "case".into(), text: text.into(), folder: folder.to_owned() };
    Case::load_within(&source, &[], Some(1 << 30))
}

/// Returns a case of 60 x 50 nodes with one source.
fn medium(rest: &str) -> String {
    let source = if rest.contains("wave.source") { "" } else { SOURCE };
    format!("grid = {{ nx = 60, ny = 50, hx = 1 }}\ntime = {{ end = 10 }}\n{source}{rest}")
}

fn load_medium(rest: &str) -> Case {
    load(&medium(rest), Path::new("")).unwrap_or_else(|e| panic!("{e}"))
}

fn message(rest: &str) -> String {
    load(&medium(rest), Path::new("")).unwrap_err().message
}

fn assert_round_trip(case: &Case) {
    let resolved = case.to_toml();
    let again = load(&resolved, &case.folder).unwrap_or_else(|e| panic!("{e}\n{resolved}"));
    assert_eq!(&again, case, "{resolved}");
    assert_eq!(again.to_toml(), resolved);
}

#[test]
fn missing_keys_have_defaults() {
    let case = load_medium("wave.velocity = 1.0");
    let wave = case.wave().unwrap();
    assert_eq!((wave.order, wave.precision, wave.shot), (SpaceOrder::Eighth, Precision::Single, Some(1)));
    assert_eq!(wave.grid.spacing, [1.0; 3]);
    assert_eq!(wave.grid.dimensions(), 2);
    let SideCondition::Absorbing(layer) = wave.sides.y_max else { panic!("{:?}", wave.sides) };
    assert_eq!(layer.thickness, 20);
    let WaveletSource::Ricker { delay, amplitude, .. } = wave.sources[0].wavelet else { panic!() };
    assert_eq!((delay, amplitude), (30.0, 1.0));
    // 0.9 of the limit 0.55463 h/c of order 8 in two dimensions, rounded down to three digits.
    assert_eq!(case.time.step, StepChoice::Fixed(0.499));
    assert_round_trip(&case);
}

#[test]
fn time_dispersion_is_corrected_unless_the_case_is_of_an_earlier_version() {
    let of = |case: &Case| case.wave().unwrap().time_dispersion;
    let case = load_medium("wave.velocity = 1.0");
    assert_eq!(of(&case), Some(TimeDispersion::Corrected));
    let raw = load_medium("wave.velocity = 1.0\nwave.time_dispersion = \"raw\"");
    assert_eq!(of(&raw), Some(TimeDispersion::Raw));
    for case in [&case, &raw] {
        assert_eq!(of(&Case::load_from_checkpoint(&case.to_toml(), "checkpoint", &[]).unwrap()), of(case));
        assert_round_trip(case);
    }
    let line = "time_dispersion = \"corrected\"\n";
    let earlier = case.to_toml().replace(line, "");
    assert_ne!(earlier, case.to_toml());
    let earlier = Case::load_from_checkpoint(&earlier, "checkpoint", &[]).unwrap();
    assert_eq!(of(&earlier), None);
    assert_eq!(earlier.to_toml(), case.to_toml().replace(line, ""));
}

/// The end is that of a whole step, at most one step later.
#[test]
fn the_last_step_is_complete() {
    let end = |step: f64, end: f64| {
        let text = medium("wave.velocity = 1.0").replace("end = 10", &format!("step = {step}, end = {end}"));
        load(&text, Path::new("")).unwrap().time.end
    };
    assert_eq!(end(0.25, 10.0), 10.0);
    assert_eq!(end(0.25, 10.1), 10.25);
    assert_eq!(end(0.1, 0.7), 7.0 * 0.1);
}

#[test]
fn all_forms_read_back() {
    let folder = temp_folder();
    fs::write(folder.path().join("c.npy"), "").unwrap();
    for rest in [
        "wave.velocity = 2.0\nwave.velocity_gradient = 0.1\nwave.order = 4\nwave.precision = \"double\"\nwave.unit = \"Pa\"",
        "wave.layer = [{ top = 0, velocity = 1 }, { top = 20, velocity = 2 }]\nwave.y_min = \"free\"",
        "wave.velocity = 1.0\nwave.region = [{ shape = \"ball\", x = 9, y = 9, radius = 3, velocity = 2 }, \
         { shape = \"box\", x = 1, y = 2, width = 3, height = 4, velocity = \"wall\" }]",
        "wave.velocity = 1.0\nwave.receivers = [{ x = 3, y = 1, count = 5, dx = 2 }, { x = 7, y = 8 }]",
        "wave.velocity = 1.0\nwave.source = [{ x = 9, y = 9, frequency = 0.1, wavelet = \"sine\", delay = 2 }]",
        "wave.velocity = 1.0\nwave.shot = 1\nimage.colormap = \"grey\"\nimage.low = -2.0",
        "wave.velocity = 1.0\nwave.snapshot = { stride = 2, x_from = 3, y_to = 20.5 }\nimage.plane = \"yz\"\n\
         image.position = 4\nimage.show_velocity = false",
    ] {
        assert_round_trip(&load_medium(rest));
    }
    let volume = "[grid]\nnx = 20\nny = 21\nnz = 22\nwidth = 19\nhy = 2\ndepth = 42\n[wave]\nvelocity = 1\n\
                  layer_nodes = 4\n[[wave.source]]\nx = 5\ny = 5\nz = 5\nfrequency = 0.05\n[time]\nend = 10\n";
    let case = load(volume, Path::new("")).unwrap();
    assert_eq!(case.wave().unwrap().grid.spacing, [1.0, 2.0, 2.0]);
    assert_round_trip(&case);
    // The shape of the file is checked when the step is computed.
    let error = load(&medium("wave.velocity_file = \"c.npy\""), folder.path()).unwrap_err().to_string();
    assert!(error.contains("c.npy"), "{error}");
}

/// A sample that is infinite in f32 is an error about the file of the wavelet, not of the velocity.
#[test]
fn a_bad_wavelet_is_named_with_its_file() {
    let folder = temp_folder();
    let velocity = FieldValues::Double(&[1.0; 3000]);
    let grid = Grid { nx: 60, ny: 50, hx: 1.0, hy: 1.0 };
    write_field_npy(&folder.path().join("c.npy"), &grid, velocity).unwrap();
    let header = format!("{:117}\n", "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }");
    let samples = [0.0f64, 1e300].map(f64::to_le_bytes).concat();
    let wavelet = [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes(), &samples].concat();
    fs::write(folder.path().join("w.npy"), wavelet).unwrap();
    let text = medium(
        "[wave]\nvelocity_file = \"c.npy\"\n[[wave.source]]\nx = 9\ny = 9\nfrequency = 0.05\n[[wave.source]]\n\
         x = 9\ny = 9\ninterval = 0.5\nfile = \"w.npy\"",
    );
    let error = load(&text, folder.path()).unwrap_err().to_string();
    let line = text.lines().position(|line| line.contains("w.npy")).unwrap() + 1;
    assert!(error.starts_with(&format!("case:{line}:8: ")), "{error}");
    let path = folder.path().join("w.npy").display().to_string();
    assert!(error.contains(&format!(" {path}: the wavelet of source 2 cannot be used: ")), "{error}");
}

#[test]
fn models_of_the_velocity_are_selected_by_their_keys() {
    let velocity = |rest: &str| load_medium(rest).wave().unwrap().velocity.clone();
    assert_eq!(
        velocity("wave.velocity = 3.0"),
        VelocitySource::Model(VelocityModel::Constant { velocity: 3.0 })
    );
    assert_eq!(
        velocity("wave.velocity = 3.0\nwave.velocity_gradient = 0.5"),
        VelocitySource::Model(VelocityModel::Gradient { at_surface: 3.0, per_depth: 0.5 })
    );
}

#[test]
fn bad_cases_are_refused_with_a_reason() {
    for (rest, expected) in [
        (
            "wave.order = 8",
            "[wave] has no velocity, expected one of velocity, velocity_file and [[wave.layer]]",
        ),
        ("wave.velocity = -1", "wave.velocity = -1 is outside velocity > 0"),
        ("wave.velocity = 1\nwave.order = 5", "wave.order = 5 is odd, expected 2, 4, 6 or 8"),
        ("wave.velocity = 1\nwave.order = 10", "wave.order = 10 is outside 2 <= order <= 8"),
        (
            "wave.velocity = 1\nwave.shot = 3",
            "wave.shot = 3 has no source, expected the shot of a [[wave.source]]",
        ),
        (
            "wave.velocity = 1\nwave.x_max = \"open\"",
            "wave.x_max = \"open\" is unknown, expected absorbing, free or rigid",
        ),
        (
            "wave.velocity = 1\nwave.snapshot.x_from = 70",
            "wave.snapshot.x_from = 70 leaves no node, expected a range within 0 to 59",
        ),
        (
            "wave.velocity = 1\nwave.snapshot.stride = 0",
            "wave.snapshot.stride = 0 is outside 1 <= stride <= 10000",
        ),
        (
            "wave.velocity_gradient = 1",
            "wave.velocity_gradient = 1 applies only to a case with wave.velocity",
        ),
        (
            "wave.velocity = 1\nwave.layer = [{ top = 0, velocity = 1 }]",
            "wave.layer = [{ top = 0, velocity = 1 }] conflicts with wave.velocity, expected only one of them",
        ),
        ("wave.velocity = 1\nheat = {}", "[heat] and [wave] are both present, expected one physics per case"),
        (
            "wave.velocity = 1\ninitial.state = \"uniform\"",
            "[initial] is for heat, and the section [wave] selects wave",
        ),
        (
            "wave.layer = [{ top = 5, velocity = 1 }]",
            "[wave]: layer 1 of the velocity starts at depth 5.0, expected 0",
        ),
        (
            "wave.velocity = 1\nwave.receivers = [{ x = 70, y = 1 }]",
            "wave.receivers[1].x = 70 of the first receiver is outside of the grid, expected 0 <= x <= 59",
        ),
    ] {
        assert_eq!(message(rest), expected, "{rest}");
    }
    let unstable = medium("wave.velocity = 1").replace("end = 10", "step = 0.6, end = 10");
    let error = load(&unstable, Path::new("")).unwrap_err().message;
    assert!(
        error.starts_with("time.step = 0.6 is unstable on this grid, expected at most 0.5546"),
        "{error}"
    );
    let large = medium("wave.velocity = 1").replace("nx = 60, ny = 50", "nx = 100000, ny = 100000");
    let error = load(&large, Path::new("")).unwrap_err().message;
    assert!(error.contains("nodes need"), "{error}");
}

/// A case with several shots selects one of them, or none.
#[test]
fn shots_are_selected_by_their_number() {
    let sources = "wave.velocity = 1\nwave.source = [{ x = 5, y = 5, frequency = 0.05, shot = 4 }, \
                   { x = 9, y = 5, frequency = 0.05, shot = 2 }, { x = 9, y = 6, frequency = 0.05, shot = 4 }]";
    let case = load_medium(sources);
    let wave = case.wave().unwrap();
    assert_eq!((wave.shot, wave.shots()), (None, vec![2, 4]));
    assert_round_trip(&case);
    let case = load_medium(&format!("{sources}\nwave.shot = 4"));
    let wave = case.wave().unwrap();
    assert_eq!((wave.shot, wave.shot_sources().count()), (Some(4), 2));
    assert_eq!(case.title(), format!("{}, shot 4", case.name));
    assert_round_trip(&case);
    let single = load_medium("wave.velocity = 1\nwave.source = [{ x = 5, y = 5, frequency = 0.05 }]");
    assert_eq!(single.title(), single.name);
}
