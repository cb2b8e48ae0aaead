//! Tests of results: softening and units of forces and analyses, JSON, replaced files, counts, and
//! failed writes to standard output.

use std::fs::File;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{self, PAIR, TestDir, text};

/// Runs a pair of bodies with softening 0.5. Its snapshots are in `out/snapshots`.
fn softened_run() -> TestDir {
    let dir = TestDir::new();
    dir.write("pair.xyz", PAIR);
    dir.write("pair.toml", common::from_file("pair.xyz"));
    dir.run("pair.toml", "out", &["gravity.softening=0.5", "output.snapshot_every=0.25"]);
    dir
}

/// Parses the JSON that a command prints with `--json -`. Nothing else may be printed.
#[track_caller]
fn json_of(dir: &TestDir, arguments: &[&str]) -> Value {
    let stdout = dir.stdout_of(&[arguments, &["--json", "-"]].concat());
    serde_json::from_str(&stdout).unwrap_or_else(|e| panic!("{e}: {stdout}"))
}

#[test]
fn forces_and_accuracy_use_the_softening_of_the_run() {
    let dir = softened_run();
    let file = "out/snapshots/snapshot_000.hdf5";
    for (flags, expected) in [
        (&[][..], "softening: 0.5 (the run that wrote the file)\n"),
        (&["--softening", "0.25"], "softening: 0.25 (--softening)\n"),
        (&["--softening", "0"], "softening: 0 (--softening)\n"),
    ] {
        for command in [&["forces", file, "--force"][..], &["accuracy", file]] {
            let stdout = dir.stdout_of(&[command, flags].concat());
            assert!(stdout.contains(expected), "{command:?} {flags:?}: {stdout}");
        }
    }
    // A converted file keeps the record. A file from elsewhere has none.
    dir.stdout_of(&["convert", file, "copy.npz"]);
    assert!(dir.stdout_of(&["accuracy", "copy.npz"]).contains("softening: 0.5 (the run"));
    assert!(dir.stdout_of(&["accuracy", "pair.xyz"]).contains("softening: 0 (default, the file records"));
    // The value is used: without the flag, the forces are those with the same value as a flag.
    dir.stdout_of(&["forces", file, "-o", "recorded.npz"]);
    dir.stdout_of(&["forces", file, "-o", "given.npz", "--softening", "0.5"]);
    dir.stdout_of(&["forces", file, "-o", "none.npz", "--softening", "0"]);
    assert!(dir.bytes("recorded.npz") == dir.bytes("given.npz"));
    assert!(dir.bytes("recorded.npz") != dir.bytes("none.npz"));
}

/// The activities of the run loop follow one another, so the sum of their times is at most that of
/// the run. How close it is depends on how busy the machine is.
#[test]
fn times_of_a_run_add_up() {
    let dir = TestDir::new();
    for (case, sets) in [
        ("plummer", &["bodies.n=3000", "time.step=0.01", "time.end=0.4", "output.image_every=0.02"][..]),
        ("hot-plate", &["grid.nx=300", "grid.ny=400", "time.end=0.6 s", "output.image_every=0.05 s"]),
    ] {
        let mut arguments = vec!["run", case, "--quiet", "--device", "cpu", "--timing", "-", "--out", case];
        arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
        let stdout = dir.stdout_of(&arguments);
        let timing: Value = serde_json::from_str(&stdout).unwrap_or_else(|e| panic!("{e}: {stdout}"));
        let seconds = timing["seconds"].as_f64().unwrap();
        let run_loop = timing["run_loop"].as_object().unwrap();
        let sum: f64 = run_loop.values().map(|time| time.as_f64().unwrap()).sum();
        assert!(sum <= seconds * (1.0 + 1e-9), "{case}: {sum} of {seconds} s in {timing:#}");
        let stepping = if case == "plummer" { "forces" } else { "steps" };
        for activity in [stepping, "images", "plots", "snapshots", "table"] {
            assert!(run_loop[activity].as_f64().unwrap() > 0.0, "{case}: {activity} in {timing:#}");
        }
        assert!(timing["startup"].as_f64().unwrap() > 0.0, "{timing:#}");
        assert!(timing["workers"]["prepare"].as_f64().unwrap() > 0.0, "{timing:#}");
        let rate = timing["steps"].as_f64().unwrap() / seconds;
        assert!((timing["steps_per_second"].as_f64().unwrap() / rate - 1.0).abs() < 1e-9);
    }
}

/// Standard output has one JSON object, and a file is not written twice.
#[test]
fn summary_and_times_have_different_targets() {
    let dir = TestDir::new();
    dir.run("figure-eight", "out", &["time.end=0.1", "image.size=64"]);
    let before = dir.content();
    let standard_output = "error: --json - --timing -: standard output has one JSON object, expected a file for one of \
                           them\n";
    let file = "error: --json x.json --timing x.json: expected two different files\n";
    for command in [&["run", "figure-eight", "--out", "new"][..], &["resume", "out", "--end", "0.2"]] {
        for (target, message) in [("-", standard_output), ("x.json", file)] {
            let flags = ["--json", target, "--timing", target];
            assert_eq!(error_of(&dir, &[command, &flags].concat()), message);
        }
    }
    assert_eq!(dir.content(), before);
    let flags = ["--json", "-", "--timing", "times.json", "--quiet"];
    let summary = dir.stdout_of(&[&["resume", "out", "--end", "0.2"][..], &flags].concat());
    let summary: Value = serde_json::from_str(&summary).unwrap_or_else(|e| panic!("{e}: {summary}"));
    let times: Value = serde_json::from_str(&dir.text("times.json")).unwrap();
    assert_eq!((summary["name"].as_str(), &summary["seconds"]), (Some("figure-eight"), &times["seconds"]));
}

/// Returns the one-line error of a command that must fail with status 2.
#[track_caller]
fn error_of(dir: &TestDir, arguments: &[&str]) -> String {
    let output = dir.orrery(arguments);
    let stderr = text(&output.stderr);
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{arguments:?}: {stderr}");
    stderr
}

#[test]
fn analyze_refuses_different_units_or_softening_in_one_folder() {
    let dir = softened_run();
    std::fs::create_dir(dir.path("mixed")).unwrap();
    dir.write("mixed/a.xyz", PAIR);
    dir.write("mixed/b.xyz", PAIR.replace("nbody", "solar"));
    assert_eq!(
        error_of(&dir, &["analyze", "mixed"]),
        "error: mixed/b.xyz: the units are solar, but mixed/a.xyz has nbody; expected files with the same units\n"
    );
    assert!(!dir.path("mixed/analysis").exists());
    dir.stdout_of(&["convert", "out/snapshots/snapshot_001.hdf5", "mixed/b.xyz", "--force"]);
    assert_eq!(
        error_of(&dir, &["analyze", "mixed"]),
        "error: mixed/b.xyz: the softening is 0.5, but mixed/a.xyz has 0; expected files with the same softening, \
         or --softening\n"
    );
    dir.stdout_of(&["analyze", "mixed", "--softening", "0.1"]);
}

#[test]
fn existing_files_are_replaced_only_with_force() {
    let dir = softened_run();
    for name in ["mine.npz", "mine.json", "mine.svg", "mine.toml"] {
        dir.write(name, "mine");
    }
    dir.stdout_of(&["analyze", "out"]);
    let before = dir.content();
    for (arguments, path) in [
        (&["convert", "pair.xyz", "mine.npz"][..], "mine.npz"),
        (&["forces", "pair.xyz", "-o", "mine.npz"], "mine.npz"),
        (&["ic", "plummer", "-n", "10", "-o", "mine.npz"], "mine.npz"),
        (&["init", "plummer", "-o", "mine.toml"], "mine.toml"),
        (&["bench", "direct", "-n", "64", "--repeats", "1", "--json", "mine.json"], "mine.json"),
        (&["devices", "--json", "mine.json"], "mine.json"),
        (&["ladder", "reduce", "-n", "64", "--json", "mine.json"], "mine.json"),
        (&["ladder", "direct", "-n", "64", "--plot", "mine.svg"], "mine.svg"),
        (&["accuracy", "pair.xyz", "--json", "mine.json"], "mine.json"),
        (&["analyze", "out"], "out/analysis/conserved.csv"),
        (&["analyze", "pair.xyz", "--json", "mine.json"], "mine.json"),
        (&["compare", "pair.xyz", "pair.xyz", "--json", "mine.json"], "mine.json"),
        (&["run", "pair.toml", "--out", "new", "--json", "mine.json"], "mine.json"),
        (&["resume", "out", "--json", "mine.json"], "mine.json"),
    ] {
        let expected = format!("error: {path}: exists already, expected a new file; --force replaces it\n");
        assert_eq!(error_of(&dir, arguments), expected, "{arguments:?}");
        assert!(dir.content() == before, "{arguments:?} changed a file");
    }
    for arguments in [
        &["convert", "pair.xyz", "mine.npz"][..],
        &["forces", "pair.xyz", "-o", "mine.npz"],
        &["bench", "direct", "-n", "64", "--repeats", "1", "--device", "cpu", "--json", "mine.json"],
        &["accuracy", "pair.xyz", "--json", "mine.json"],
        &["analyze", "out"],
    ] {
        dir.stdout_of(&[arguments, &["--force"]].concat());
    }
    assert!(dir.text("mine.json").contains("errors"));
}

/// A full disk behind standard output is an error, also for help texts.
#[test]
#[cfg(target_os = "linux")]
fn a_failed_write_to_standard_output_has_status_1() {
    let dir = softened_run();
    dir.write("other.xyz", PAIR.replace("2 0 0", "2.5 0 0"));
    for arguments in [
        &["presets"][..],
        &["--help"],
        &["--version"],
        &[],
        &["run", "--help"],
        &["man"],
        &["completions", "bash"],
        &["init", "plummer"],
        &["ic", "plummer", "-n", "10", "-o", "ic.npz"],
        &["info", "pair.xyz"],
        &["convert", "pair.xyz", "copy.npz"],
        &["forces", "pair.xyz"],
        &["accuracy", "pair.xyz"],
        &["accuracy", "pair.xyz", "--json", "-"],
        &["analyze", "pair.xyz"],
        &["compare", "pair.xyz", "pair.xyz"],
        &["compare", "pair.xyz", "other.xyz"],
        &["bench", "direct", "-n", "64", "--repeats", "1", "--device", "cpu"],
        &["devices"],
        &["selftest", "--list"],
        &["ladder", "reduce", "-n", "64", "--device", "cpu"],
        &["run", "pair.toml", "--dry-run"],
        &["run", "pair.toml", "--out", "again"],
        &["resume", "out"],
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_orrery"));
        command.current_dir(dir.path("")).args(arguments).stderr(Stdio::piped());
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).output().unwrap();
        let stderr = text(&output.stderr);
        let expected = "error: standard output: cannot be written: No space left on device (os error 28)\n";
        assert!(stderr.ends_with(expected), "{arguments:?}: {stderr}");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
}

#[test]
fn counts_accept_exponents_and_underscores() {
    let dir = TestDir::new();
    for (n, count) in [("1e3", 1000), ("1_000", 1000), ("1.5e3", 1500)] {
        let stdout = dir.stdout_of(&["ic", "plummer", "-n", n, "-o", "a.npz", "--force"]);
        assert_eq!(stdout, format!("wrote {count} bodies to a.npz\n"));
        let set = format!("bodies.n={n}");
        let resolved = dir.stdout_of(&["run", "plummer", "--dry-run", "--set", &set]);
        assert!(resolved.contains(&format!("\nn = {count}\n")), "{resolved}");
    }
    let stdout = dir.stdout_of(&["accuracy", "a.npz", "--sample", "1e1"]);
    assert!(stdout.contains(", 10 bodies against"), "{stdout}");
    let error = error_of(&dir, &["ic", "plummer", "-n", "1.5", "-o", "b.npz"]);
    assert!(
        error.starts_with("error: invalid value '1.5' for '-n <N>': is not a whole number, expected"),
        "{error}"
    );
    let error = error_of(&dir, &["run", "plummer", "--set", "bodies.n=1.5"]);
    let expected = "error: --set bodies.n=1.5: bodies.n = 1.5 is not a whole number, expected one such as";
    assert!(error.starts_with(expected), "{error}");
    for (written, resolved) in
        [("1e3 steps", "1000 steps"), ("1_000 steps", "1000 steps"), ("1 steps", "1 step")]
    {
        let set = format!("output.record_every={written}");
        let stdout = dir.stdout_of(&["run", "plummer", "--dry-run", "--set", &set]);
        assert!(stdout.contains(&format!("\nrecord_every = \"{resolved}\"\n")), "{stdout}");
    }
    for (set, expected) in [
        ("bodies.n=1e30", "bodies.n = 1e30 is too large, expected at most 2^53 with an exponent"),
        ("output.record_every=1.5 steps", "is not a count of steps, expected one such as \"100 steps\""),
        ("time.end=1e300", "steps to end = 1e300, expected at most 2^53 steps"),
    ] {
        let error = error_of(&dir, &["run", "plummer", "--set", set]);
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(error_of(&dir, &["run", ""]).trim_end(), "error: '': no such case file or preset");
    let error = error_of(&dir, &["run", "plummer", "--set", "bodies.n=1", "--max-memory", "100"]);
    assert!(error.contains(": 1 body needs 450.0 B of memory, 100.0 B are available"), "{error}");
}

/// Tables and plots of a run name their units and the run. The unit of time on axes is that of the
/// printed table.
#[test]
fn analysis_names_units_and_run() {
    let dir = TestDir::new();
    let sets = ["units=galactic", "bodies.n=400", "bodies.mass=1e10 Msun", "bodies.scale_radius=1 kpc"];
    let times = ["gravity.softening=0.05 kpc", "time.step=1 Myr", "time.end=40 Myr", "image.size=64"];
    let output = ["output.image_every=0", "output.snapshot_every=10 Myr", "output.record_every=10 Myr"];
    dir.run("plummer", "out", &[&sets[..], &times, &output].concat());
    let stdout = dir.stdout_of(&["analyze", "out"]);
    for heading in [
        "conserved quantities: time in Myr, energies in 1e10 Msun km^2/s^2, |p| in 1e10 Msun km/s, \
         |L| in 1e10 Msun kpc km/s\n",
        "Lagrangian radii about the density centre: time in Myr, radii in kpc\n",
        "density profile of the last snapshot: r in kpc, mass in 1e10 Msun, density in 1e10 Msun/kpc^3\n",
    ] {
        assert!(stdout.contains(heading), "{heading}{stdout}");
    }
    assert!(stdout.lines().any(|line| line.trim_start().starts_with("40.000000 ")), "{stdout}");

    let header = |name: &str| dir.text(name).lines().next().unwrap().to_owned();
    for table in ["out/conserved.csv", "out/analysis/conserved.csv"] {
        assert!(header(table).starts_with("step,time [kpc/(km/s)],kinetic [1e10 Msun km^2/s^2],"));
    }
    assert!(header("out/analysis/lagrangian.csv").starts_with("time [kpc/(km/s)],r1 [kpc],r10 [kpc],"));
    assert_eq!(
        header("out/analysis/profile.csv"),
        "r_inner [kpc],r_outer [kpc],bodies,mass [1e10 Msun],density [1e10 Msun/kpc^3],r_mean [kpc]"
    );
    let species = header("out/analysis/species.csv");
    assert!(species.contains(",mass [1e10 Msun],kinetic [1e10 Msun km^2/s^2],dispersion [km/s],r1 [kpc]"));

    // In an SVG, a raised part of a label is a span.
    let texts = |name: &str| -> String {
        let svg = dir.text(name);
        let spans = svg.split('<').filter_map(|part| part.strip_prefix("tspan")?.split_once('>'));
        spans.map(|(_, text)| format!("{text}|")).collect()
    };
    assert!(texts("out/energy.svg").contains("time (Myr)|"), "{}", texts("out/energy.svg"));
    for (name, title, labels) in [
        ("conserved", "plummer: relative energy error|", ["time (Myr)|", "|E - E|"]),
        ("lagrangian", "plummer: Lagrangian radii|", ["time (Myr)|", "radius (kpc)|"]),
        ("profile", "plummer: density profile|", ["radius (kpc)|", "density (10|10| Msun/kpc|3|)|"]),
    ] {
        let texts = texts(&format!("out/analysis/{name}.svg"));
        assert!(texts.contains(title) && labels.iter().all(|label| texts.contains(label)), "{texts}");
    }
    // The innermost shell starts at 0 and is drawn at the mean radius of its bodies.
    let row = dir.text("out/analysis/profile.csv").lines().nth(1).unwrap().to_owned();
    let row: Vec<f64> = row.split(',').map(|cell| cell.parse().unwrap()).collect();
    assert!(row[0] == 0.0 && 0.4 * row[1] < row[5] && row[5] < row[1], "{row:?}");
}

#[test]
fn analyze_measures_species_and_the_virial_ratio() {
    let dir = TestDir::new();
    dir.stdout_of(&["ic", "galaxy", "-n", "1000", "-o", "galaxy.hdf5"]);
    let stdout = dir.stdout_of(&["analyze", "galaxy.hdf5", "-o", "out"]);
    assert!(stdout.contains("2K/|W|"), "{stdout}");
    let names: Vec<String> = dir
        .text("out/species.csv")
        .lines()
        .skip(1)
        .map(|row| row.split(',').nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(names, ["halo", "disc", "bulge"]);
    let json = json_of(&dir, &["analyze", "galaxy.hdf5"]);
    let snapshot = &json["snapshots"][0];
    assert_eq!(snapshot["species"][1]["bodies"], 400);
    let sum = |key: &str| -> f64 {
        snapshot["species"].as_array().unwrap().iter().map(|species| species[key].as_f64().unwrap()).sum()
    };
    let kinetic = snapshot["kinetic"].as_f64().unwrap();
    assert!((sum("kinetic") / kinetic - 1.0).abs() < 1e-12, "{snapshot:#}");
    let virial = snapshot["virial_ratio"].as_f64().unwrap();
    assert!((virial - 1.0).abs() < 0.2, "{virial}");
    // Two bodies that move together have no kinetic energy relative to their centre of mass.
    dir.write("moving.xyz", PAIR.replace("0 0 0 3 10", "1 0 0 3 10").replace("0 0 0 5 20", "1 0 0 5 20"));
    let json = json_of(&dir, &["analyze", "moving.xyz"]);
    assert!(json["snapshots"][0]["kinetic"].as_f64().unwrap() > 1.0, "{json:#}");
    assert!(json["snapshots"][0]["virial_ratio"].as_f64().unwrap().abs() < 1e-12, "{json:#}");
}

#[test]
fn json_on_standard_output_has_no_other_text() {
    let dir = softened_run();
    let accuracy = json_of(&dir, &["accuracy", "out/snapshots/snapshot_000.hdf5"]);
    assert_eq!((&accuracy["softening"], &accuracy["bodies"]), (&0.5.into(), &2.into()));
    assert!(accuracy["errors"]["99_percent"].is_f64(), "{accuracy:#}");
    let info = json_of(&dir, &["info", "pair.xyz", "out/checkpoints/checkpoint_000000002.orrery"]);
    assert_eq!((&info["files"][0]["bodies"], &info["files"][0]["extent"]["x"][1]), (&2.into(), &2.0.into()));
    assert_eq!((&info["files"][1]["format"], &info["files"][1]["step"]), (&"checkpoint".into(), &2.into()));
    assert!(json_of(&dir, &["devices"]).is_object());
    let bench = json_of(&dir, &["bench", "direct", "-n", "64", "--repeats", "1", "--device", "cpu"]);
    assert!(bench["results"].is_array(), "{bench:#}");
    let run = json_of(&dir, &["run", "pair.toml", "--out", "new", "--device", "cpu"]);
    assert_eq!((&run["bodies"], &run["step"], &run["stopped"]), (&2.into(), &2.into(), &Value::Null));
    assert_eq!(run["end"]["time"], 0.5);
    assert_eq!(run["folder"], "new");
    for part in ["steps", "output", "checkpoints", "waiting"] {
        assert!(run["times"][part].as_f64().is_some_and(|seconds| seconds >= 0.0), "{part}: {run:#}");
    }
    assert!(run["times"]["steps"].as_f64() > Some(0.0), "{run:#}");
    let resumed =
        json_of(&dir, &["resume", "new", "--quiet", "--end", "0.75", "--set", "limits.energy_error=none"]);
    assert_eq!((&resumed["first_step"], &resumed["step"]), (&1.into(), &3.into()));
    let analysis = json_of(&dir, &["analyze", "new"]);
    assert_eq!((analysis["snapshots"].as_array().unwrap().len(), &analysis["softening"]), (2, &0.0.into()));
    let error = error_of(&dir, &["run", "pair.toml", "--dry-run", "--json", "-"]);
    assert!(error.contains("'--dry-run' cannot be used with '--json <FILE>'"), "{error}");
    dir.stdout_of(&["run", "pair.toml", "--quiet", "--out", "third", "--json", "run.json"]);
    let file: Value = serde_json::from_str(&dir.text("run.json")).unwrap();
    assert_eq!(file["end"], run["end"]);
}

/// Returns "1 steps" or another count of one with a noun in the plural, if there is one in `text`.
fn wrong_plural(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_plural = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        word.len() > 3 && word.ends_with('s') && word.chars().all(char::is_alphabetic)
    };
    let pair = words.windows(2).find(|pair| pair[0].trim_start_matches('(') == "1" && is_plural(pair[1]))?;
    Some(pair.join(" "))
}

#[test]
fn one_body_is_in_the_singular() {
    assert_eq!(wrong_plural("to 1 bodies, 1 s, 1 step").as_deref(), Some("1 bodies,"));
    let dir = TestDir::new();
    dir.write("one.xyz", "1\nProperties=pos:R:3:vel:R:3:mass:R:1:id:I:1 units=nbody\n0 0 0 0 0 0 3 10\n");
    dir.write("gas.xyz", dir.text("one.xyz").replace("id:I:1", "species:S:1").replace("3 10", "3 Gas"));
    dir.write("moved.xyz", dir.text("one.xyz").replace("0 0 0 0 0 0 3 10", "1 0 0 0 0 0 3 11"));
    dir.write("case.toml", common::from_file("one.xyz") + "[output]\nsnapshot_every = \"1 step\"\n");
    for arguments in [
        &["info", "one.xyz", "gas.xyz"][..],
        &["convert", "one.xyz", "one.npz"],
        &["forces", "one.xyz"],
        &["accuracy", "one.xyz"],
        &["analyze", "one.xyz"],
        &["compare", "one.xyz", "one.npz"],
        &["compare", "one.xyz", "moved.xyz"],
        &["compare", "one.xyz", "gas.xyz"],
        &["run", "case.toml", "--dry-run", "--threads", "1", "--set", "time.end=0.25"],
        &[
            "run",
            "case.toml",
            "--out",
            "out",
            "--threads",
            "1",
            "--device",
            "cpu",
            "-v",
            "--set",
            "time.end=0.25",
        ],
        &["info", "out/checkpoints/checkpoint_000000001.orrery", "out/snapshots/snapshot_001.hdf5"],
        &["resume", "out", "--threads", "1", "--end", "0.5"],
        &["ic", "plummer", "-n", "1", "-o", "ic.npz"],
        &["bench", "direct", "-n", "1", "--repeats", "1", "--device", "cpu"],
        &["bench", "tree", "-n", "1", "--repeats", "1", "--device", "cpu"],
        &["run", "case.toml", "--dry-run", "--max-memory", "100"],
        &["info", "one.xyz", "--max-memory", "1"],
        &["run", "plummer", "--threads", "999"],
    ] {
        let output = dir.orrery(arguments);
        let printed = [text(&output.stdout), text(&output.stderr)].concat();
        assert_eq!(wrong_plural(&printed), None, "{arguments:?}: {printed}");
    }
}

/// Runs `compare` and returns its status and its output.
fn compare(dir: &TestDir, a: &str, b: &str) -> (Option<i32>, String) {
    let output = dir.orrery(&["compare", a, b]);
    assert_eq!(text(&output.stderr), "");
    (output.status.code(), text(&output.stdout))
}

#[test]
fn compare_finds_the_differences_of_two_snapshots() {
    let dir = TestDir::new();
    dir.write("pair.xyz", PAIR);
    let lines: Vec<&str> = PAIR.lines().collect();
    dir.write("swapped.xyz", [lines[0], lines[1], lines[3], lines[2], ""].join("\n"));
    dir.stdout_of(&["convert", "pair.xyz", "pair.npz"]);
    for other in ["pair.xyz", "pair.npz", "swapped.xyz"] {
        let expected = format!("pair.xyz and {other}: equal to the bit, 2 bodies\n");
        assert_eq!(compare(&dir, "pair.xyz", other), (Some(0), expected));
    }
    dir.write("moved.xyz", PAIR.replace("2 0 0 0 0 0 5", "2.5 0 0 0 0 0 5"));
    let (status, stdout) = compare(&dir, "pair.xyz", "moved.xyz");
    assert_eq!(status, Some(1));
    let lines: Vec<Vec<&str>> = stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 3, "{stdout}");
    assert_eq!(lines[2], ["x", "1", "2.000e-1", "5.000e-1", "body", "20:", "2e0", "and", "2.5e0"]);
    dir.write("nan.xyz", PAIR.replace("2 0 0 0 0 0 5", "nan 0 0 0 0 0 5"));
    let (status, stdout) = compare(&dir, "pair.xyz", "nan.xyz");
    assert!(status == Some(1) && stdout.contains(" NaN "), "{stdout}");
    dir.write("renamed.xyz", PAIR.replace("5 20", "5 21"));
    let (status, stdout) = compare(&dir, "pair.xyz", "renamed.xyz");
    assert_eq!(status, Some(1));
    assert!(
        stdout.contains("only pair.xyz has 1 body, id 20\n  only renamed.xyz has 1 body, id 21\n"),
        "{stdout}"
    );
    dir.write("solar.xyz", PAIR.replace("nbody", "solar"));
    assert_eq!(
        error_of(&dir, &["compare", "pair.xyz", "solar.xyz"]),
        "error: solar.xyz: the units are solar, but pair.xyz has nbody; expected files with the same units\n"
    );
    dir.write("twice.xyz", PAIR.replace("5 20", "5 10"));
    assert_eq!(
        error_of(&dir, &["compare", "pair.xyz", "twice.xyz"]),
        "error: twice.xyz: bodies number 0 and 1 share the id 10, expected unique ids\n"
    );
    assert!(error_of(&dir, &["compare", "pair.xyz", "nowhere.xyz"]).contains("nowhere.xyz: no such file"));
    assert!(error_of(&dir, &["compare", "pair.xyz", "."]).contains("expected two files or two runs"));
}

#[test]
fn compare_finds_the_differences_of_two_runs() {
    let dir = softened_run();
    let sets = ["gravity.softening=0.5", "output.snapshot_every=0.25", "output.format=npz"];
    dir.run("pair.toml", "same", &sets);
    let (status, stdout) = compare(&dir, "out", "same");
    assert_eq!(status, Some(0), "{stdout}");
    assert!(stdout.contains("out/conserved.csv and same/conserved.csv: equal to the bit, "), "{stdout}");
    assert!(stdout.ends_with("the runs are equal to the bit\n"), "{stdout}");
    dir.run("pair.toml", "other", &["gravity.softening=0.25", "output.snapshot_every=0.25"]);
    let (status, stdout) = compare(&dir, "out", "other");
    assert_eq!(status, Some(1));
    assert!(stdout.contains("  potential "), "{stdout}");
    assert!(stdout.ends_with("the runs differ in 3 of 4 files\n"), "{stdout}");
    std::fs::remove_file(dir.path("other/conserved.csv")).unwrap();
    assert!(compare(&dir, "out", "other").1.contains("  other has no such file\n"));
    let output = dir.orrery(&["compare", "out", "same", "--json", "-"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["equal"], json["files"].as_array().unwrap().len()), (&true.into(), 4));
}
