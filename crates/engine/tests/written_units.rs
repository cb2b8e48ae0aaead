//! Runs of cases with units: `case.toml` has the units of the user, also after a resume, and
//! folders of versions that wrote numbers are resumed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::common::{assert_same, case, output_to, plate, rewrite_header, temp_folder};
use orrery_engine::case::{Case, CaseSource};
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{Resume, resume, run, run_or_resume};

/// Returns a case of each physics with units, its step and its end as `case.toml` has them, and
/// another step.
fn cases_with_units() -> [(Case, [&'static str; 3]); 2] {
    let bodies = case(&[
        "units=solar",
        "time.step=0.125 yr",
        "time.end=1.5yr",
        "output.snapshot_every=0.4 yr",
        "gravity.softening=1e7 km",
    ]);
    let field = plate(&[
        "units=si",
        "time.step=125ms",
        "time.end=1500 ms",
        "output.snapshot_every=400 ms",
        "grid.hx=100 cm",
    ]);
    [(bodies, ["0.125 yr", "1.5 yr", "1 day"]), (field, ["125 ms", "1500 ms", "0.1 s"])]
}

fn run_two_steps(case: &Case, folder: &Path) {
    let control = Control::default();
    run(case, &output_to(folder.to_owned()), &control, |event| {
        if matches!(&event, RunEvent::Step(status) if status.step == 2) {
            control.stop.store(true, Ordering::Relaxed);
        }
    })
    .unwrap_or_else(|e| panic!("{e}"));
}

fn refuse_edits(event: RunEvent<'_>) {
    assert!(!matches!(event, RunEvent::CaseFileEdited { .. }));
}

#[test]
fn a_resumed_run_keeps_the_units_of_its_case() {
    for (case, [step, end, other]) in cases_with_units() {
        let dir = temp_folder();
        let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
        run(&case, &output_to(whole.clone()), &Control::default(), |_| {}).unwrap_or_else(|e| panic!("{e}"));
        run_two_steps(&case, &parts);
        let run = Resume { folder: &parts, sets: &[], restart_outputs: false };
        resume(&run, &Control::default(), refuse_edits).unwrap_or_else(|e| panic!("{e}"));
        assert_same(&whole, &parts, "resumed with units");
        let text = fs::read_to_string(parts.join("case.toml")).unwrap();
        let has = |line: &str| text.lines().any(|found| found == line);
        assert!(has(&format!("step = \"{step}\"")) && has(&format!("end = \"{end}\"")), "{text}");

        // A difference is reported as it was written.
        fs::write(
            parts.join("case.toml"),
            text.replacen(&format!("step = \"{step}\""), &format!("step = \"{other}\""), 1),
        )
        .unwrap();
        let message = resume(&run, &Control::default(), |_| {}).unwrap_err().to_string();
        let expected = format!("it has time.step = \"{other}\", but the run has time.step = \"{step}\"");
        assert!(message.contains(&expected), "{message}");
    }
}

/// Loads a case in a text. Errors have the label `case`.
fn load(text: &str, sets: &[&str]) -> Result<Case, String> {
    let source = CaseSource::Text { label: "case".into(), text: text.to_owned(), folder: PathBuf::new() };
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Case::load_within(&source, &sets, None).map_err(|error| error.to_string())
}

/// Loads a case with units and with the same values as numbers, whose resolved cases must agree.
/// The resolved case of the first one keeps its units and reads back to the same case.
fn check_units(with_units: &str, lines: &[&str], sets: &[&str]) {
    let case = load(with_units, &[]).unwrap_or_else(|e| panic!("{e}"));
    let numbers = load(with_units, sets).unwrap_or_else(|e| panic!("{e}"));
    let (expected, found) = (numbers.to_plain_toml(), case.to_plain_toml());
    let differences: Vec<_> = expected.lines().zip(found.lines()).filter(|(a, b)| a != b).collect();
    assert!(differences.is_empty(), "{differences:?}");
    let text = case.to_toml();
    for line in lines {
        assert!(text.lines().any(|found| found == *line), "{line}:\n{text}");
    }
    assert_eq!(load(&text, &[]), Ok(case));
}

const WAVES: &str = r#"
units = "si"
[grid]
nx = 60
ny = 50
hx = "10 m"
[wave]
velocity = "1.5 km/s"
velocity_gradient = "0.5 1/s"
[[wave.source]]
x = "50 m"
frequency = "15 Hz"
[time]
end = "100 ms"
"#;

const PLATE: &str = r#"
units = "si"
[grid]
nx = 9
ny = 9
hx = "1 cm"
[heat]
conductivity = "400 W/(m K)"
heat_capacity = "4e6 J/(m^3 K)"
source = "2 kW/m^3"
stop_range = "0.5 K"
[heat.west]
condition = "fixed"
profile = ["300 K", 310, "320 K"]
[heat.north]
condition = "flux"
value = "5 kW/m²"
[[heat.region]]
shape = "disc"
x = "2 cm"
y = "2 cm"
radius = "1 cm"
conductivity = "16 W/m/K"
[initial]
state = "hot-spot"
value = "400 K"
background = "300 K"
[image]
low = "300 K"
[time]
end = "1 s"
"#;

const DIFFUSIVITIES: &str = r#"
units = "si"
[grid]
nx = 9
ny = 9
hx = "1 cm"
[heat]
conductivity = "1e-4 m^2/s"
source = "30 K/min"
[heat.north]
condition = "flux"
value = "0.25 K m/s"
[initial]
state = "uniform"
[time]
end = "1 s"
"#;

const ARGON: &str = r#"
units = "real"
[particles]
start = "fcc"
cells = 4
density = "16 1/nm^3"
[[lennard_jones.species]]
name = "Ar"
mass = "40 u"
sigma = "0.34 nm"
epsilon = "120 K"
[[lennard_jones.species]]
name = "Kr"
mass = "84 u"
sigma = "3.6 Å"
epsilon = "164 K"
[time]
step = "4 fs"
end = "1 ps"
"#;

#[test]
fn every_dimension_of_waves_heat_and_fluids_takes_units() {
    check_units(
        WAVES,
        &["velocity_gradient = \"0.5 1/s\"", "frequency = \"15 Hz\""],
        &["wave.velocity_gradient=0.5", "wave.source[1].frequency=15", "wave.velocity=1500", "time.end=0.1"],
    );
    check_units(
        PLATE,
        &["conductivity = \"400 W/(m K)\"", "profile = [\"300 K\", 310.0, \"320 K\"]", "value = \"5 kW/m²\""],
        &[
            "heat.conductivity=400",
            "heat.heat_capacity=4e6",
            "heat.source=2e3",
            "heat.west.profile=[300, 310, 320]",
            "heat.north.value=5e3",
            "heat.region[1].conductivity=16",
            "initial.value=400",
            "initial.background=300",
            "image.low=300",
        ],
    );
    check_units(
        DIFFUSIVITIES,
        &["conductivity = \"1e-4 m^2/s\"", "source = \"30 K/min\"", "value = \"0.25 K m/s\""],
        &["heat.conductivity=1e-4", "heat.source=0.5", "heat.north.value=0.25"],
    );
    check_units(ARGON, &["density = \"16 1/nm^3\""], &["lennard_jones.species.Ar.mass=40"]);
}

#[test]
fn settings_reach_entries_of_lists() {
    let argon = |set: &str| load(ARGON, &[set]).map(|case| case.fluid().unwrap().species.clone());
    let species = argon("lennard_jones.species.Kr.mass=80").unwrap();
    assert_eq!((species[0].mass, species[1].mass), (40.0, 80.0));
    assert_eq!(argon("lennard_jones.species[1].mass=39 u").unwrap()[0].mass, 39.0);
    assert_eq!(
        argon("lennard_jones.species.Xe.mass=1").unwrap_err(),
        "--set lennard_jones.species.Xe.mass=1: 'lennard_jones.species' has no entry with the name Xe, expected Ar or \
         Kr, or an index: lennard_jones.species[1] to lennard_jones.species[2]"
    );
    let case = load(PLATE, &["heat.west.profile[2]=305 K", "wave.source[1].x=1"]);
    assert!(case.is_err_and(|message| message.contains("the case has no list 'wave.source'")));
    let case = load(PLATE, &["heat.west.profile[2]=305 K"]).unwrap();
    assert!(case.to_toml().contains("profile = [\"300 K\", \"305 K\", \"320 K\"]"));
    // The message about a value from a setting names the setting.
    let error = load(WAVES, &["wave.source[1].x=700"]).unwrap_err();
    assert_eq!(
        error,
        "--set wave.source[1].x=700: wave.source[1].x = 700 is outside of the grid, expected 0 <= x <= 590"
    );
}

/// Versions before this one wrote all quantities as numbers, to `case.toml` and to checkpoints.
#[test]
fn a_run_that_was_recorded_in_numbers_is_resumed() {
    for (case, _) in cases_with_units() {
        let dir = temp_folder();
        let whole = dir.path().join("whole");
        run(&case, &output_to(whole.clone()), &Control::default(), |_| {}).unwrap_or_else(|e| panic!("{e}"));
        for with_case in [false, true] {
            let folder = dir.path().join(format!("old-{with_case}"));
            run_two_steps(&case, &folder);
            let path = folder.join("case.toml");
            let numbers = case.to_plain_toml();
            assert_ne!(fs::read_to_string(&path).unwrap(), numbers);
            fs::write(&path, &numbers).unwrap();
            rewrite_header(&folder.join("checkpoints/checkpoint_000000002.orrery"), |header| {
                header["case"] = numbers.clone().into();
            });
            let outcome = if with_case {
                run_or_resume(&case, &folder, &Control::default(), refuse_edits)
            } else {
                let run = Resume { folder: &folder, sets: &[], restart_outputs: false };
                resume(&run, &Control::default(), refuse_edits)
            };
            assert_eq!(outcome.unwrap_or_else(|e| panic!("{e}")).step, 12);
            for name in ["conserved.csv", "animation.gif"] {
                assert!(
                    fs::read(whole.join(name)).unwrap() == fs::read(folder.join(name)).unwrap(),
                    "{name}"
                );
            }
        }
    }
}

/// A range of temperatures is a difference, which has the same number in °C.
#[test]
fn a_range_in_kelvin_does_not_contradict_degrees() {
    let plate = |unit: &str, value: &str| {
        format!(
            "units = \"si\"\n[grid]\nnx = 9\nny = 9\nhx = \"1 cm\"\n[heat]\nunit = \"{unit}\"\nconductivity = 1.0\n\
             stop_range = \"1 K\"\n[initial]\nstate = \"uniform\"\nvalue = {value}\n[time]\nend = \"1 s\"\n"
        )
    };
    let case = load(&plate("°C", "20"), &[]).unwrap_or_else(|e| panic!("{e}"));
    assert!(case.to_toml().contains("stop_range = \"1 K\""), "{}", case.to_toml());
    let error = load(&plate("°C", "\"300 K\""), &[]).unwrap_err().to_string();
    assert!(error.contains("heat.unit = \"°C\", but temperatures of the case are given in K"), "{error}");
}
