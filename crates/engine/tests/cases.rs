//! Valid cases: the presets, settings that replace their keys, and the resolved text. Also errors
//! in settings.

use std::fs;
use std::path::{Path, PathBuf};

use orrery_engine::case::{
    BodiesSource, Case, CaseError, CaseSource, Every, ImageSize, Model, find_preset, model_names, presets,
};
use orrery_gravity::settings::{Acceptance, IntegratorChoice, SolverChoice, StepChoice};
use orrery_model::Units;

pub fn source(text: &str) -> CaseSource {
    CaseSource::Text { label: "case.toml".into(), text: text.into(), folder: PathBuf::new() }
}

pub fn load(source: &CaseSource, sets: &[&str]) -> Result<Case, CaseError> {
    let sets: Vec<_> = sets.iter().map(|&set| set.to_owned()).collect();
    Case::load_within(source, &sets, Some(16 << 30))
}

fn plummer(sets: &[&str]) -> Result<Case, CaseError> {
    load(&CaseSource::from_argument("plummer").unwrap(), sets)
}

/// Checks that the resolved text reads back to the same case and resolves to itself.
pub fn assert_round_trip(case: &Case) {
    let resolved = case.to_toml();
    let source =
        CaseSource::Text { label: "resolved".into(), text: resolved.clone(), folder: case.folder.clone() };
    let again = load(&source, &[]).unwrap_or_else(|e| panic!("{e}\n{resolved}"));
    assert_eq!(&again, case, "{resolved}");
    assert_eq!(again.to_toml(), resolved);
}

#[test]
fn presets_load_and_start_with_an_explanation() {
    let names: Vec<_> = presets().iter().map(|preset| preset.name).collect();
    for name in [
        "galaxy-collision",
        "plummer",
        "cold-collapse",
        "solar-system",
        "figure-eight",
        "pythagorean",
        "hot-plate",
        "sine-decay",
        "chip",
        "two-layer-shot",
        "salt-dome",
        "wave-3d",
        "ripple-tank",
    ] {
        assert!(names.contains(&name), "{name}");
    }
    for preset in presets() {
        let case = load(&CaseSource::Preset(preset), &[]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(case.name, preset.name);
        assert!(!preset.description.is_empty(), "{}", preset.name);
        assert_eq!(case.description, preset.description);
        assert!(preset.text.starts_with("# "), "{} does not start with a comment", preset.name);
        for line in preset.text.lines() {
            assert!(line.chars().count() <= 80, "{}: {line}", preset.name);
        }
        assert_round_trip(&case);
    }
}

#[test]
fn presets_generate_the_number_of_bodies_of_the_case() {
    for preset in presets() {
        let case = load(&CaseSource::Preset(preset), &[]).unwrap();
        let Some(gravity) = case.gravity() else { continue };
        let BodiesSource::Model(model) = &gravity.bodies else { panic!("{} reads a file", preset.name) };
        let bodies = model
            .generate_until(gravity.settings.g, &Default::default())
            .unwrap_or_else(|e| panic!("{}: {e}", preset.name));
        assert_eq!(Some(bodies.len() as u64), gravity.body_count(), "{}", preset.name);
    }
}

#[test]
fn resolved_text_of_every_model_reads_back() {
    for model in model_names() {
        let case =
            source(&format!("units = \"solar\"\nbodies.model = \"{model}\"\ntime = {{ step = 1, end = 2 }}"));
        assert_round_trip(&load(&case, &[]).unwrap_or_else(|e| panic!("{e}")));
    }
}

#[test]
fn unusual_values_read_back_from_the_resolved_text() {
    let case = plummer(&[
        "name=a.b_c-9",
        r#"description="quotes \" and \\ backslashes, ψ""#,
        "units=galactic",
        "bodies.mass=1e12 Msun",
        "bodies.scale_radius=0.1",
        "bodies.seed=9223372036854775807",
        "gravity.acceptance=relative",
        "gravity.accuracy=0.001",
        "gravity.softening=33 pc",
        "gravity.precision=single",
        "time.step=adaptive",
        "time.eta=0.1",
        "time.end=1.1 Gyr",
        "output.snapshot_every=7 steps",
        "output.image_every=0",
        "output.record_every=0 steps",
        "output.format=npz",
        "image.width=auto",
        "image.plane=yz",
        "image.show=all",
    ])
    .unwrap();
    assert_eq!(case.units, Units::Galactic);
    assert_eq!(
        case.gravity().unwrap().settings.acceptance,
        Acceptance::Relative { alpha: 0.001, theta: 0.6 }
    );
    assert!((case.gravity().unwrap().settings.eps - 0.033).abs() < 1e-15);
    assert!((case.gravity().unwrap().settings.g - 43007.1).abs() < 4.0);
    assert_eq!(case.time.step, StepChoice::Adaptive { eta: 0.1 });
    assert_eq!(case.output.snapshot_every, Every::Steps(7));
    assert_eq!(case.output.image_every, Every::Never);
    assert_eq!(case.output.record_every, Every::Never);
    assert_eq!(case.gravity().unwrap().view.width, None);
    assert_round_trip(&case);
}

/// The resolved case has quantities as the user wrote them, and reads back to the same bits.
#[test]
fn resolved_cases_keep_the_units_of_the_user() {
    let collision = CaseSource::from_argument("galaxy-collision").unwrap();
    let case = load(&collision, &["time.end= 1.5Gyr ", "bodies.pericentre=7.5", "checkpoint.every=100 Myr"])
        .unwrap();
    let resolved = case.to_toml();
    for line in [
        "end = \"1.5 Gyr\"",
        "step = \"1 Myr\"",
        "image_every = \"8 Myr\"",
        "every = \"100 Myr\"",
        "softening = \"0.3 kpc\"",
        "argument = \"-30 deg\"",
        "width = \"110 kpc\"",
        "pericentre = 7.5",
    ] {
        assert!(resolved.lines().any(|found| found == line), "{line}\n{resolved}");
    }
    // The second galaxy has the halo of the first, and its text.
    assert_eq!(resolved.matches("halo_mass = \"2.4e11 Msun\"\n").count(), 2, "{resolved}");
    assert_round_trip(&case);

    // The units are no part of the meaning. Versions before wrote numbers.
    let numbers = load(&source(&case.to_plain_toml()), &[]).unwrap();
    assert_eq!(numbers, case);
    assert_eq!(numbers.to_toml(), case.to_plain_toml());
    assert!(!numbers.to_toml().contains("Myr"));

    // A text that is not that of the value any more is not written.
    let mut longer = case;
    longer.time.end = 2.0;
    assert!(longer.to_toml().contains("\nend = 2.0\n"));
}

#[test]
fn missing_keys_have_defaults() {
    let case = load(&source("bodies.model = \"plummer\"\n[time]\nstep = 0.5\nend = 2"), &[]).unwrap();
    assert_eq!(case.name, "case");
    assert_eq!(case.units, Units::NBody);
    assert_eq!(case.gravity().unwrap().settings.g, 1.0);
    assert_eq!(case.gravity().unwrap().settings.eps, 0.0);
    assert_eq!(case.gravity().unwrap().settings.solver, SolverChoice::Auto);
    assert_eq!(case.gravity().unwrap().settings.acceptance, Acceptance::Geometric { theta: 0.6 });
    assert_eq!(case.gravity().unwrap().integrator, IntegratorChoice::Leapfrog);
    assert_eq!(case.output.snapshot_every, Every::Never);
    assert_eq!(case.output.record_every, Every::Steps(10));
    assert_round_trip(&case);
}

#[test]
fn an_encounter_with_an_odd_number_of_bodies_has_all_of_them() {
    let collision = CaseSource::from_argument("galaxy-collision").unwrap();
    for n in [4000, 4001] {
        let case = load(&collision, &[&format!("bodies.n={n}")]).unwrap();
        assert_eq!(case.gravity().unwrap().body_count(), Some(n));
        assert_round_trip(&case);
    }
}

#[test]
fn settings_replace_keys_of_the_file() {
    assert_eq!(
        plummer(&["gravity.solver=tree"]).unwrap().gravity().unwrap().settings.solver,
        SolverChoice::Tree
    );
    assert_eq!(
        plummer(&["gravity.solver=\"tree\""]).unwrap().gravity().unwrap().settings.solver,
        SolverChoice::Tree
    );
    assert_eq!(plummer(&["bodies.n=5", "bodies.n = 7"]).unwrap().gravity().unwrap().body_count(), Some(7));
    let solar = load(&CaseSource::from_argument("solar-system").unwrap(), &["time.end=10 kyr"]).unwrap();
    assert!((solar.time.end - 1e4).abs() < 1e-6);
    // A section that is not in the file, and an inline table in place of a section of the file.
    let case = source("bodies.model = \"plummer\"\ntime = { step = 0.5, end = 2 }");
    assert_eq!(load(&case, &["image.size=99"]).unwrap().image.size, ImageSize::Longer(99));
    assert_eq!(load(&case, &["time={ step = 1, end = 3 }"]).unwrap().time.end, 3.0);
    // `eta` belongs to the adaptive step that the setting replaces.
    let pythagorean = load(&CaseSource::from_argument("pythagorean").unwrap(), &["time.step=1e-3"]).unwrap();
    assert_eq!(pythagorean.time.step, StepChoice::Fixed(1e-3));
}

#[test]
fn errors_in_settings_name_the_setting() {
    for (set, message) in [
        ("foo", "expected KEY=VALUE such as gravity.theta=0.5"),
        ("=3", "expected KEY=VALUE such as gravity.theta=0.5"),
        ("gravity..theta=3", "expected KEY=VALUE such as gravity.theta=0.5"),
        ("gravity.theta=1.7", "gravity.theta = 1.7 is outside 0 < theta <= 1.2"),
        ("gravity.theta=", "gravity.theta = \"\" is a string, expected a number"),
        ("gravity.tehta=1", "unknown key 'tehta' in [gravity]; did you mean 'theta'?"),
        ("gravty.theta=1", "unknown section [gravty]; did you mean 'gravity'?"),
        ("gravity=3", "gravity = 3 is an integer, expected a section [gravity]"),
        ("gravity.theta.x=1", "'gravity.theta' is a float, expected a section"),
        (
            "gravity.solver=tre",
            "gravity.solver = \"tre\" is unknown, expected auto, direct or tree; did you mean 'tree'?",
        ),
        ("bodies.n=many", "bodies.n = \"many\" is a string, expected an integer"),
        ("bodies.n=1000000000", "1000000000 bodies need 419.1 GiB of memory, 16.0 GiB are available"),
        (
            "checkpoint.every=10 parsecs",
            "checkpoint.every = \"10 parsecs\" is not an interval, expected \"10 min\" (wall clock), \
             \"100 steps\", or a simulated time such as 0.5 or \"10 Myr\"",
        ),
        (
            "time.end=1e6",
            "output.image_every = 0.2 gives 5000000 images until end = 1000000, expected at most 1e6",
        ),
        ("time.end=0.001", "time.step = 0.005 is longer than the run, expected step <= end = 0.001"),
        (
            "time.integrator=rk4",
            "time.integrator = \"rk4\" is unknown, expected leapfrog, yoshida4, yoshida6, blanes-moan4 or hermite4",
        ),
    ] {
        assert_eq!(plummer(&[set]).unwrap_err().to_string(), format!("--set {set}: {message}"));
    }
    let error = plummer(&["time.integrator=hermite4", "gravity.solver=tree"]).unwrap_err().to_string();
    assert!(
        error.starts_with("--set gravity.solver=tree: time.integrator = \"hermite4\" needs direct"),
        "{error}"
    );
    let error = plummer(&["description=a\nb"]).unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn the_first_error_in_the_file_is_reported() {
    let error =
        load(&source("[time]\nend = -1\nstep = nan\n[bodies]\nmodel = 3\n"), &["time.end=1"]).unwrap_err();
    assert_eq!(error.to_string(), "case.toml:3:8: time.step = nan is not a finite number");
}

#[test]
fn columns_count_characters_and_lines_may_end_in_crlf() {
    let case = "# ψ\r\ntime = { step = 1, end = 2 }\r\nbodies = { \"ψψ\" = 1, model = \"plummer\" }";
    let message = load(&source(case), &[]).unwrap_err().to_string();
    assert!(message.starts_with("case.toml:3:12: unknown key 'ψψ' in [bodies]"), "{message}");
    let message = load(&source("time = { \"ψ\" = 1, step = -1 }"), &["time.ψ=2"]).unwrap_err().to_string();
    assert!(message.starts_with("case.toml:1:26: time.step = -1"), "{message}");
}

#[test]
fn error_messages_are_one_short_line_for_any_input() {
    let (long, deep) = ("x".repeat(100_000), "[".repeat(100_000));
    for hostile in ["\u{1b}[31m", &long, &deep, "a\0b", "\n\n\n=", "\"\"\"\n", "\u{feff}x"] {
        for case in [hostile.to_owned(), format!("name = {hostile:?}"), format!("{hostile:?} = 1")] {
            let message = load(&source(&case), &[]).unwrap_err().to_string();
            assert!(message.len() < 600 && !message.contains(char::is_control), "{message}");
        }
    }
}

#[test]
fn the_second_galaxy_has_the_keys_of_the_first_except_the_seed() {
    let case = source(
        "units = \"galactic\"\n[bodies]\nmodel = \"encounter\"\nn = 1000\n[bodies.first]\nseed = 5\n\
         disc_mass = \"3e10 Msun\"\n[bodies.second]\nn_halo = 700\n[time]\nstep = 0.1\nend = 1\n[gravity]\nsoftening = 0.3\n",
    );
    let case = load(&case, &[]).unwrap();
    let BodiesSource::Model(Model::Encounter(pair)) = &case.gravity().unwrap().bodies else {
        panic!("{case:?}")
    };
    assert!((pair.first.disc_mass - 3.0).abs() < 1e-12);
    assert_eq!(pair.second.disc_mass, pair.first.disc_mass);
    assert_ne!(pair.second.seed, pair.first.seed);
    assert_eq!((pair.first.n_disc, pair.first.n_bulge, pair.first.n_halo), (200, 50, 250));
    assert_eq!(pair.second.n_halo, 700);
    assert_eq!(case.gravity().unwrap().body_count(), Some(500 + 950));
    assert_eq!((pair.first.eps, pair.second.eps), (0.3, 0.3));
    assert_round_trip(&case);
}

#[test]
fn a_relative_file_starts_from_the_folder_of_the_case() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("start.xyz"), "").unwrap();
    let path = folder.path().join("my case.toml");
    fs::write(&path, "bodies.file = \"start.xyz\"\ntime = { step = 1, end = 2 }\n").unwrap();
    let case = load(&CaseSource::from_argument(path.to_str().unwrap()).unwrap(), &[]).unwrap();
    assert_eq!(case.name, "my-case");
    assert_eq!(case.input_files(), [folder.path().join("start.xyz")]);
    assert_eq!(case.gravity().unwrap().body_count(), None);
    assert_round_trip(&case);
}

#[test]
fn unknown_and_unreadable_case_files_are_rejected() {
    let message = |argument: &str| match CaseSource::from_argument(argument) {
        Err(error) => error.to_string(),
        Ok(source) => load(&source, &[]).unwrap_err().to_string(),
    };
    assert_eq!(message("plumer"), "plumer: no such case file or preset; did you mean 'plummer'?");
    assert_eq!(
        message("no/such/galaxy-colision.toml"),
        "no/such/galaxy-colision.toml: no such case file or preset; did you mean 'galaxy-collision'?"
    );
    assert_eq!(message(""), "'': no such case file or preset");
    assert!(find_preset("plumer").is_none());
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &Path| message(path.to_str().unwrap());
    let expected = ": is a directory, expected a case file (TOML text)";
    assert!(at(folder.path()).ends_with(expected), "{}", at(folder.path()));
    let large = folder.path().join("snapshot.hdf5");
    fs::write(&large, vec![b'#'; 9 << 20]).unwrap();
    assert!(at(&large).ends_with(": larger than 8 MiB, expected a case file (TOML text)"), "{}", at(&large));
}
