//! Runs of heat conduction: their files, flags and messages, as `runs.rs` tests them for bodies.

use orrery_formats::{FieldValues, write_field_npy};
use orrery_model::grid::Grid;
use serde_json::Value;

use crate::common::{TestDir, run_arguments, text};

/// Settings of a small `hot-plate`: six steps, with an image after every second one.
const SMALL: [&str; 6] = [
    "grid.nx=24",
    "grid.ny=16",
    "time.step=50 ms",
    "time.end=0.3 s",
    "output.image_every=0.1 s",
    "image.size=64",
];

/// Returns the settings of the small plate, and more.
fn small_plate<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().chain(more).copied().collect()
}

/// Returns `run hot-plate --out OUT --set ...`, without `--quiet`.
fn loud_arguments<'a>(out: &'a str, sets: &[&'a str]) -> Vec<&'a str> {
    let quiet = run_arguments("hot-plate", out, sets);
    quiet.into_iter().filter(|argument| *argument != "--quiet").collect()
}

#[test]
fn a_preset_of_a_field_writes_all_output_files() {
    let dir = TestDir::new();
    dir.run(
        "hot-plate",
        "out",
        &small_plate(&["output.snapshot_every=0.15 s", "output.record_every=1 step"]),
    );
    let expected = [
        ".lock",
        "animation.gif",
        "case.toml",
        "checkpoints",
        "conserved.csv",
        "images",
        "manifest.txt",
        "provenance.txt",
        "run.log",
        "snapshots",
        "temperature.png",
        "temperature.svg",
    ];
    assert_eq!(dir.list("out"), expected);
    assert_eq!(dir.list("out/checkpoints"), ["checkpoint_000000006.orrery"]);
    assert_eq!(dir.list("out/snapshots"), [0, 1, 2].map(|k| format!("snapshot_00{k}.npy")));
    assert_eq!(dir.list("out/images"), [0, 1, 2, 3].map(|k| format!("image_000{k}.png")));
    let table = dir.text("out/conserved.csv");
    let header = "step,time [s],heat [J/m],minimum [°C],maximum [°C],range [°C],flux_west [W/m],flux_east [W/m],\
                  flux_south [W/m],flux_north [W/m],sources [W/m]";
    assert_eq!((table.lines().next(), table.lines().count()), (Some(header), 8));
    let limits = orrery_formats::Limits::default();
    let last = orrery_formats::read_field_npy(&dir.path("out/snapshots/snapshot_002.npy"), &limits).unwrap();
    assert_eq!((last.nx, last.ny), (24, 16));
    // The north edge is held at 20 °C, and nothing is colder.
    assert!(last.values[15 * 24..].iter().all(|value| *value == 20.0));
    assert!(last.values.iter().all(|value| (20.0..=500.0).contains(value)));
    let provenance = dir.text("out/provenance.txt");
    for line in ["seed: none", "device: cpu (", "solver: explicit", "precision: double", "inputs: blake3:"] {
        assert!(provenance.lines().any(|found| found.starts_with(line)), "{line} in {provenance}");
    }
}

#[test]
fn the_written_case_of_a_field_repeats_the_run() {
    let dir = TestDir::new();
    dir.run("hot-plate", "first", &small_plate(&[]));
    let mut dry = vec!["run", "hot-plate", "--dry-run", "--device", "cpu", "--out", "elsewhere"];
    SMALL.iter().for_each(|set| dry.extend(["--set", set]));
    let stdout = dir.stdout_of(&dry);
    assert!(!dir.path("elsewhere").exists(), "a dry run wrote files");
    let (case, notes) = stdout.split_once("\n\n#").expect("notes after the case");
    assert_eq!(format!("{case}\n"), dir.text("first/case.toml"));
    assert!(notes.starts_with(" 384 nodes: about ") && notes.contains("\n# 6 steps\n"), "{notes}");
    assert!(notes.ends_with("# output would go to elsewhere\n"), "{notes}");
    // A run that is shorter than the longest stable step.
    let stdout = dir.stdout_of(&["run", "sine-decay", "--dry-run", "--set", "time.end=1e-9"]);
    assert!(stdout.contains("\nstep = 1e-9\n") && stdout.contains("\n# 1 step\n"), "{stdout}");
    dir.run("first/case.toml", "second", &[]);
    for name in ["conserved.csv", "animation.gif", "snapshots/snapshot_001.npy"] {
        assert!(dir.bytes(&format!("second/{name}")) == dir.bytes(&format!("first/{name}")), "{name}");
    }
}

#[test]
fn the_precision_flag_applies_to_a_field() {
    let dir = TestDir::new();
    let header = |precision: &str| {
        let sets = small_plate(&[]);
        let mut arguments = run_arguments("hot-plate", precision, &sets);
        arguments.extend(["--precision", precision]);
        dir.stdout_of(&arguments);
        let text = dir.text(&format!("{precision}/provenance.txt"));
        assert!(text.contains(&format!("precision: {precision}\n")), "{text}");
        let bytes = dir.bytes(&format!("{precision}/snapshots/snapshot_001.npy"));
        String::from_utf8_lossy(&bytes[..60]).into_owned()
    };
    assert!(header("single").contains("'<f4'") && header("double").contains("'<f8'"));
    let output = dir.orrery(&["run", "hot-plate", "--precision", "mixed"]);
    assert_eq!(output.status.code(), Some(2));
    let expected =
        "error: --precision mixed: heat.precision = \"mixed\" is unknown, expected double or single\n";
    assert_eq!(text(&output.stderr), expected);
}

#[test]
fn the_json_of_a_field_has_its_quantities() {
    let dir = TestDir::new();
    let sets = ["grid.nx=17", "grid.ny=17", "time.end=0.01", "output.image_every=0", "image.size=64"];
    let mut arguments = run_arguments("sine-decay", "out", &sets);
    arguments.extend(["--json", "-"]);
    let json: Value = serde_json::from_str(&dir.stdout_of(&arguments)).unwrap();
    assert_eq!(json["nodes"], serde_json::json!([17, 17]));
    assert_eq!((&json["solver"], &json["precision"]), (&"explicit".into(), &"double".into()));
    assert_eq!((&json["settled"], &json["stopped"]), (&false.into(), &Value::Null));
    assert_eq!((json["start"]["maximum"].as_f64(), json["end"]["time"].as_f64()), (Some(1.0), Some(0.01)));
    // Each of the steps rounds a few times.
    let error = json["largest_errors"]["exact discrete"].as_f64().unwrap();
    assert!(error < 1e-13, "{error:e}");
    // Second order in h = 1/16: about π² h²/12 of the exponent 2π² t = 0.2.
    let error = json["largest_errors"]["analytic"].as_f64().unwrap();
    assert!(error > 1e-5 && error < 2e-3, "{error:e}");
}

/// Replaces runs of two physics by one another. Only the files of a run are removed.
#[test]
fn force_replaces_a_run_of_another_physics() {
    let dir = TestDir::new();
    let bodies = ["bodies.n=30", "time.step=0.01", "time.end=0.05", "image.size=64"];
    let forced = |case: &str, sets: &[&str]| {
        let mut arguments = run_arguments(case, "out", sets);
        arguments.push("--force");
        dir.stdout_of(&arguments);
        dir.write("out/snapshots/snapshot_best.npy", "mine");
        dir.write("out/notes.npy", "mine");
        // Left by a run that failed.
        dir.write("out/post-mortem.npy", "");
        dir.write("out/snapshots/.snapshot_007.vti.12.part", "");
    };
    let listed = |plot: &str, extension: &str| {
        let names = dir.list("out");
        for name in [format!("{plot}.svg"), format!("{plot}.png"), "notes.npy".to_owned()] {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
        assert_eq!(names.iter().filter(|name| name.ends_with(".svg") || name.ends_with(".png")).count(), 2);
        let names = dir.list("out/snapshots");
        let expected = [0, 1].map(|k| format!("snapshot_00{k}.{extension}"));
        assert_eq!(names.iter().filter(|name| !name.starts_with('.')).count(), 3, "{names:?}");
        assert!(expected.iter().all(|name| names.contains(name)), "{names:?}");
    };
    forced("hot-plate", &small_plate(&["output.snapshot_every=1 step"]));
    forced("hot-plate", &small_plate(&["output.format=vti"]));
    listed("temperature", "vti");
    forced("plummer", &bodies);
    listed("energy", "hdf5");
    forced("hot-plate", &small_plate(&[]));
    listed("temperature", "npy");
    let sets = small_plate(&[]);
    dir.stdout_of(&[&run_arguments("hot-plate", "out", &sets)[..], &["--force"]].concat());
    assert!(!dir.path("out/post-mortem.npy").exists());
    assert!(!dir.path("out/snapshots/.snapshot_007.vti.12.part").exists());
}

#[test]
fn the_summary_of_a_field_fits_80_columns_and_is_in_the_log() {
    let dir = TestDir::new();
    for preset in ["hot-plate", "sine-decay", "chip"] {
        let sets = ["grid.nx=24", "image.size=64", "output.image_every=0", "output.record_every=1 step"];
        let end = match preset {
            "hot-plate" => "time.end=0.5 s",
            "chip" => "time.end=50 ms",
            _ => "time.end=1e-3",
        };
        let mut arguments =
            vec!["run", preset, "--force", "--out", "out", "--verbose", "--set", "grid.ny=20", "--set", end];
        sets.iter().for_each(|set| arguments.extend(["--set", set]));
        if preset == "chip" {
            // The slit is thinner than a cell of this grid.
            arguments.extend(["--set", "heat.region[9].width=1 mm"]);
        }
        let stdout = dir.stdout_of(&arguments);
        let log = dir.text("out/run.log");
        for line in stdout.lines().filter(|line| !line.is_empty()) {
            assert!(log.lines().any(|found| found.ends_with(&format!("Z {line}"))), "{line} in {log}");
        }
        let setup = format!(
            "heat: 24 x 20 nodes, conductivity {}, double precision, ",
            match preset {
                "sine-decay" => "uniform",
                _ => "and heat capacity per node",
            }
        );
        assert!(stdout.lines().any(|line| line.starts_with(&setup)), "{setup} in {stdout}");
        let (_, summary) = stdout.split_once("\n480 nodes, ").expect("a summary");
        for (number, line) in summary.lines().enumerate() {
            let (columns, most) = (line.chars().count(), if number == 0 { 100 } else { 80 });
            assert!(columns <= most, "{columns} columns: {line}");
        }
        assert!(summary.contains(" (explicit five-point scheme) to t = "), "{stdout}");
        assert!(summary.contains("\nheat content ") && summary.contains("\nmaximum "), "{stdout}");
        assert!(summary.contains("out/temperature.svg "), "{stdout}");
        assert_eq!(summary.contains("largest difference to the analytic solution: "), preset == "sine-decay");
    }
}

/// A settled run is finished, and a later end does not continue it.
#[test]
fn a_settled_run_is_reported() {
    let dir = TestDir::new();
    let case = "grid = { nx = 17, ny = 17, hx = 1 }\nheat = { conductivity = 1, stop_range = 0.1, stop_every = 10 }\n\
                initial.state = \"hot-spot\"\ntime.end = 1000\nimage.size = 64\n";
    dir.write("plate.toml", case);
    let stdout = dir.stdout_of(&["run", "plate.toml", "--out", "out"]);
    assert!(stdout.contains("\nsettled: the run ends before t = 1000\n"), "{stdout}");
    let before = dir.text("out/conserved.csv");
    for (flags, end) in
        [(&[][..], None), (&["--end", "2000"], Some("the end changes from t = 1000 to t = 2000"))]
    {
        let output = dir.orrery(&[&["resume", "out"], flags].concat());
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && stderr.contains(": already finished after step "), "{stderr}");
        assert!(end.is_none_or(|end| stderr.contains(end)), "{stderr}");
        let expected = ", nothing to do; it has settled, and a later end does not continue it\n";
        assert!(stdout.ends_with(expected), "{stdout}");
    }
    assert_eq!(dir.text("out/conserved.csv"), before);
    let output = dir.orrery(&["resume", "out", "--set", "heat.stop_range=none"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("the run has heat.stop_range = 0.1 and cannot change to "));
    let json = dir.stdout_of(&["run", "plate.toml", "--quiet", "--out", "json", "--json", "-"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["settled"], true);
}

/// Changed input files: a resumed run needs those of the plate, and reports the initial state.
#[test]
fn changed_input_files_of_a_field_are_reported() {
    let dir = TestDir::new();
    let grid = Grid { nx: 8, ny: 6, hx: 1.0, hy: 1.0 };
    let write = |name: &str, value: f64| {
        write_field_npy(&dir.path(name), &grid, FieldValues::Double(&[value; 48])).unwrap();
    };
    write("k.npy", 0.5);
    write("u.npy", 3.0);
    let case = "grid = { nx = 8, ny = 6, hx = 1 }\nheat.conductivity_file = \"k.npy\"\ninitial.file = \"u.npy\"\n\
                time = { step = 0.1, end = 1 }\nimage.size = 64\n";
    dir.write("plate.toml", case);
    dir.run("plate.toml", "out", &[]);
    let run = |flag: &str| {
        let output = dir.orrery(&["run", "plate.toml", "--quiet", "--out", "out", flag]);
        (output.status.code(), text(&output.stderr))
    };
    assert_eq!(run("--resume"), (Some(0), String::new()));
    write("u.npy", 4.0);
    let (status, stderr) = run("--resume");
    let expected = "u.npy has changed since the run started from it; the run continues from its checkpoint";
    assert!(status == Some(0) && stderr.contains(expected) && stderr.lines().count() == 1, "{stderr}");
    write("k.npy", 0.25);
    let (status, stderr) = run("--resume");
    let expected = "k.npy: the file has changed, expected the file that the run started with";
    assert!(status == Some(2) && stderr.contains(expected) && stderr.lines().count() == 1, "{stderr}");
    let (status, stderr) = run("--force");
    for name in ["k.npy", "u.npy"] {
        let expected = format!("{name} has changed since the run that is replaced started from it");
        assert!(status == Some(0) && stderr.contains(&expected), "{stderr}");
    }
    assert_eq!(run("--force"), (Some(0), String::new()));
}

#[test]
fn a_field_that_overflows_ends_with_a_post_mortem() {
    let dir = TestDir::new();
    let case = "grid = { nx = 8, ny = 6, hx = 1 }\nheat = { conductivity = 1, source = 1e308 }\n\
                initial.state = \"uniform\"\ntime = { step = 0.2, end = 100 }\nimage.size = 64\n";
    dir.write("plate.toml", case);
    let output = dir.orrery(&run_arguments("plate.toml", "out", &["output.record_every=1 step"]));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("error: step ") && stderr.lines().count() == 1, "{stderr}");
    assert!(stderr.ends_with("; the nodes at that moment are in out/post-mortem.npy\n"), "{stderr}");
    assert!(dir.path("out/post-mortem.npy").exists());
    let table = dir.text("out/conserved.csv");
    assert!(!table.contains("NaN") && !table.contains("inf"), "{table}");
}

#[test]
fn a_heat_error_above_its_limit_warns_or_stops() {
    let dir = TestDir::new();
    // In f32, the heat of an insulated plate is known up to about 1e-7.
    let case = "grid = { nx = 40, ny = 30, hx = 1 }\nheat = { conductivity = 1, precision = \"single\" }\n\
                initial.state = \"hot-spot\"\ntime.end = 20\nimage.size = 64\noutput.record_every = \"1 step\"\n\
                limits.heat_error = 1e-12\n";
    dir.write("plate.toml", case);
    let warned = dir.orrery(&run_arguments("plate.toml", "warned", &[]));
    let stderr = text(&warned.stderr);
    assert!(warned.status.success() && stderr.lines().count() == 1, "{stderr}");
    assert!(
        stderr.starts_with("warning: warned: step ") && stderr.contains(": the heat error is "),
        "{stderr}"
    );
    assert!(stderr.ends_with("above 1e-12 ([limits] heat_error); double precision may help\n"), "{stderr}");
    let stopped = dir.orrery(&run_arguments("plate.toml", "stopped", &["limits.on_heat_error=stop"]));
    let stderr = text(&stopped.stderr);
    assert_eq!(stopped.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains(": the heat error is ") && stderr.contains("stopped/post-mortem.npy"),
        "{stderr}"
    );
    dir.run("plate.toml", "double", &["heat.precision=double"]);
}

#[test]
fn quiet_prints_nothing_and_a_pipe_gets_plain_text() {
    let dir = TestDir::new();
    let sets = small_plate(&[]);
    let stdout = dir.stdout_of(&loud_arguments("out", &sets));
    assert!(!stdout.contains(|c: char| c.is_control() && c != '\n'), "{stdout:?}");
    assert!(stdout.starts_with("hot-plate: a copper plate"), "{stdout}");
    assert!(stdout.contains("384 nodes, 6 steps (explicit five-point scheme) to t = 300 ms in "), "{stdout}");
    assert_eq!(dir.stdout_of(&[&run_arguments("hot-plate", "out", &sets)[..], &["--force"]].concat()), "");
}
