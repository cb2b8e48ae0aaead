//! Runs of fluids: their files, flags and messages, as `runs.rs` tests them for bodies.

use orrery_formats::{Limits, read_fluid};
use serde_json::Value;

use crate::common::{TestDir, run_arguments, text};

/// Settings of a small `argon`: 20 steps, the thermostat is switched off after 10.
const SMALL: [&str; 12] = [
    "particles.cells=4",
    "lennard_jones.cutoff=1.9",
    "structure.every=2 steps",
    "structure.radius=11 angstrom",
    "structure.from=0.02",
    "thermostat.time=10 fs",
    "thermostat.until=50 fs",
    "time.end=100 fs",
    "output.snapshot_every=50 fs",
    "output.image_every=50 fs",
    "output.record_every=5 steps",
    "image.size=96",
];

fn small_argon<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().chain(more).copied().collect()
}

#[test]
fn a_preset_of_a_fluid_writes_all_output_files() {
    let dir = TestDir::new();
    dir.run("argon", "out", &small_argon(&[]));
    let expected = [
        ".lock",
        "animation.gif",
        "case.toml",
        "checkpoints",
        "diffusion.csv",
        "images",
        "manifest.txt",
        "msd.csv",
        "msd.png",
        "msd.svg",
        "provenance.txt",
        "rdf.csv",
        "rdf.png",
        "rdf.svg",
        "run.log",
        "thermo-energy.png",
        "thermo-energy.svg",
        "thermo-pressure.png",
        "thermo-pressure.svg",
        "thermo-temperature.png",
        "thermo-temperature.svg",
        "thermo.csv",
        "trajectory.gsd",
    ];
    assert_eq!(dir.list("out"), expected);
    assert_eq!(dir.list("out/images"), [0, 1, 2].map(|k| format!("image_000{k}.png")));
    let table = dir.text("out/thermo.csv");
    let header =
        "step,time [ps],temperature [K],potential [kJ/mol],kinetic [kJ/mol],total [kJ/mol],pressure [MPa]";
    assert_eq!((table.lines().next(), table.lines().count()), (Some(header), 6));
    let rdf = dir.text("out/rdf.csv");
    assert_eq!((rdf.lines().next(), rdf.lines().count()), (Some("r [Å],g"), 201));
    // Eight lags between nine measurements, at 20 fs, 30 fs and so on.
    let msd = dir.text("out/msd.csv");
    assert_eq!((msd.lines().next(), msd.lines().count()), (Some("time [ps],msd [Å^2],origins"), 9));
    assert!(dir.text("out/diffusion.csv").starts_with("diffusion [cm^2/s],from [ps],to [ps]\n"));
    let last = read_fluid(&dir.path("out/trajectory.gsd"), &Limits::default()).unwrap();
    assert_eq!((last.id.len(), last.step, &last.species_names[..]), (256, Some(20), &["Ar".to_owned()][..]));
}

/// The case with all defaults, and a trajectory as the start of another run.
#[test]
fn written_cases_and_trajectories_start_new_runs() {
    let dir = TestDir::new();
    dir.run("argon", "first", &small_argon(&["output.format=xyz"]));
    dir.run("first/case.toml", "second", &[]);
    for name in ["thermo.csv", "trajectory.xyz", "rdf.csv", "animation.gif"] {
        assert!(dir.bytes(&format!("second/{name}")) == dir.bytes(&format!("first/{name}")), "{name}");
    }
    assert!(dir.stdout_of(&["compare", "first", "second"]).ends_with("the runs are equal to the bit\n"));
    let info = dir.stdout_of(&["info", "first/trajectory.xyz"]);
    assert!(info.contains("particles  256 (256 Ar)\n") && info.contains("periodic, 3 dimensions"), "{info}");
    let case = dir.text("first/case.toml");
    let particles = case.split("[particles]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let other = "file = \"first/trajectory.xyz\"\n";
    dir.write("third.toml", case.replace(particles, other).replace("= \"argon\"", "= \"third\""));
    dir.run("third.toml", "third", &["thermostat.method=none"]);
    let row = |out: &str, k: usize| dir.text(&format!("{out}/thermo.csv")).lines().nth(k).unwrap().to_owned();
    let potential = |row: String| row.split(',').nth(3).unwrap().parse::<f64>().unwrap();
    let (end, start) = (potential(row("first", 5)), potential(row("third", 1)));
    assert!((end / start - 1.0).abs() < 1e-12, "{end} {start}");
}

#[test]
fn the_json_of_a_fluid_has_its_quantities() {
    let dir = TestDir::new();
    let sets = [
        "particles.cells=4",
        "lennard_jones.truncation=switched",
        "time.end=0.05",
        "output.image_every=0",
        "image.size=64",
    ];
    let mut arguments = run_arguments("lj-melt", "out", &sets);
    arguments.extend(["--json", "-", "--precision", "double"]);
    let json: Value = serde_json::from_str(&dir.stdout_of(&arguments)).unwrap();
    assert_eq!((&json["particles"], &json["solver"]), (&256.into(), &"all-pairs".into()));
    assert!((json["start"]["temperature"].as_f64().unwrap() - 1.44).abs() < 1e-9);
    assert!(json["end"]["pressure"].is_number() && json["end"]["total"].is_number());
    let output = dir.orrery(&["run", "lj-melt", "--precision", "single"]);
    let expected = "error: --precision single: lennard_jones.precision = \"single\" is unknown, expected mixed or double\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(2), expected));
}

/// An open box has no pressure.
#[test]
fn a_cluster_in_an_open_box_evaporates() {
    let dir = TestDir::new();
    let case = "[particles]\nstart = \"fcc\"\ncells = 3\ndensity = 0.9\nsides = \"open\"\ntemperature = 3\n\
                [lennard_jones]\ntruncation = \"none\"\n[time]\nstep = 0.004\nend = 0.8\n[image]\nsize = 64\n";
    dir.write("cluster.toml", case);
    dir.run("cluster.toml", "out", &[]);
    let table = dir.text("out/thermo.csv");
    assert_eq!(table.lines().next(), Some("step,time,temperature,potential,kinetic,total"));
    let last = read_fluid(&dir.path("out/trajectory.gsd"), &Limits::default()).unwrap();
    assert_eq!(last.bounds.sides, orrery_model::simulation_box::BoxSides::Open);
}

/// The minimisation is on standard output and in the log. A run that is stopped in it writes
/// nothing, and the same command starts it again.
#[test]
fn a_minimisation_is_reported_and_can_be_stopped() {
    let dir = TestDir::new();
    let case = "[particles]\nstart = \"random\"\nn = 200\ndensity = 1.05\ntemperature = 1\n[lennard_jones]\n\
                [time]\nstep = 0.004\nend = 0.02\n[image]\nsize = 64\n";
    dir.write("glass.toml", case.replace("density", "minimise_force = 0.1\ndensity"));
    let sets = ["output.image_every=0", "output.snapshot_every=0", "lennard_jones.cutoff=2.2"];
    let arguments = run_arguments("glass.toml", "out", &sets);
    let stopped = dir.orrery(&[&arguments[..], &["--wall-time", "1 s"]].concat());
    let message = text(&stopped.stderr);
    assert_eq!(stopped.status.code(), Some(1), "{message}");
    assert!(
        message.starts_with("error: out: stopped at the wall-time limit in the minimisation after "),
        "{message}"
    );
    assert!(!dir.path("out").exists());
    let loud: Vec<&str> = arguments.iter().copied().filter(|argument| *argument != "--quiet").collect();
    let output = dir.orrery(&loud);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for found in [text(&output.stdout), dir.text("out/run.log")] {
        let line =
            found.lines().find(|line| line.contains("minimised in ")).unwrap_or_else(|| panic!("{found}"));
        assert!(line.contains(" steps, ") && line.contains("energy per particle -"), "{line}");
    }
}
