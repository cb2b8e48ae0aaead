//! Tests of `orrery run`: its output files, and settings that must not change any bit of them.

use orrery_engine::case::{Case, CaseSource};

use crate::common::{self, PAIR, TestDir, from_file, text};

const SMALL: [&str; 5] =
    ["bodies.n=200", "time.end=0.25", "time.step=0.0078125", "output.image_every=0.0625", "image.size=64"];

/// Returns the settings of a small case, and more.
fn small_case<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().chain(more).copied().collect()
}

fn csv_rows(text: &str) -> Vec<Vec<f64>> {
    text.lines().skip(1).map(|row| row.split(',').map(|cell| cell.parse().unwrap()).collect()).collect()
}

#[test]
fn a_preset_writes_all_output_files() {
    let dir = TestDir::new();
    dir.run("plummer", "out", &small_case(&["output.snapshot_every=0.125", "output.record_every=4 steps"]));
    let expected = [
        ".lock",
        "animation.gif",
        "case.toml",
        "checkpoints",
        "conserved.csv",
        "energy.png",
        "energy.svg",
        "images",
        "manifest.txt",
        "provenance.txt",
        "run.log",
        "snapshots",
    ];
    assert_eq!(dir.list("out"), expected);
    assert_eq!(dir.list("out/checkpoints"), ["checkpoint_000000032.orrery"]);

    let conserved = dir.text("out/conserved.csv");
    assert_eq!(conserved.lines().next(), Some("step,time,kinetic,potential,total,px,py,pz,lx,ly,lz"));
    let rows = csv_rows(&conserved);
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), [0., 4., 8., 12., 16., 20., 24., 28., 32.]);
    for row in &rows {
        assert_eq!(row.len(), 11);
        assert_eq!(row[1], row[0] / 128.0);
        assert_eq!(row[4], row[2] + row[3]);
        assert!(row[2] > 0.0 && row[3] < 0.0);
        // The energy error of leapfrog for a Plummer sphere at this step is about 1e-5.
        assert!((row[4] / rows[0][4] - 1.0).abs() < 1e-3, "{row:?}");
        assert!(row[5..8].iter().all(|p| p.abs() < 1e-12), "{row:?}");
    }

    let snapshots = dir.snapshots("out");
    assert_eq!(
        snapshots.iter().map(|s| (s.time, s.step)).collect::<Vec<_>>(),
        [(0.0, 0), (0.125, 16), (0.25, 32)]
    );
    for snapshot in &snapshots {
        assert_eq!(snapshot.particles.len(), 200);
        assert_eq!(snapshot.units.name(), "nbody");
        let names: Vec<_> = snapshot.provenance.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["program", "commit", "case", "seed", "device", "solver", "precision", "inputs"]);
        assert_eq!(snapshot.provenance[2].1, dir.text("out/case.toml"));
    }
    assert_ne!(snapshots[0].particles, snapshots[2].particles);

    let images = dir.list("out/images");
    assert_eq!(images, [0, 1, 2, 3, 4].map(|k| format!("image_000{k}.png")));
    for name in images.iter().map(|name| format!("out/images/{name}")).chain(["out/energy.png".to_owned()]) {
        assert!(dir.bytes(&name).starts_with(b"\x89PNG\r\n\x1a\n"), "{name}");
    }
    let gif = dir.bytes("out/animation.gif");
    assert!(gif.starts_with(b"GIF89a\x40\x00\x40\x00"), "not a GIF of 64 x 64 pixels");
    assert_eq!(gif.last(), Some(&0x3b), "the GIF has no trailer");
    let svg = dir.text("out/energy.svg");
    assert!(svg.starts_with("<svg") || svg.starts_with("<?xml"), "{}", &svg[..40]);

    let provenance = dir.text("out/provenance.txt");
    for line in
        ["program: orrery ", "commit: ", "seed: 1", "device: cpu (", "solver: direct", "precision: mixed"]
    {
        assert!(provenance.lines().any(|found| found.starts_with(line)), "{line} in {provenance}");
    }
}

/// The case file in the output directory is the resolved case. It can be read again, and running it
/// gives the same bits.
#[test]
fn the_written_case_repeats_the_run() {
    let dir = TestDir::new();
    dir.run("plummer", "first", &small_case(&[]));
    let mut dry = vec!["run", "plummer", "--dry-run", "--out", "elsewhere"];
    SMALL.iter().for_each(|set| dry.extend(["--set", set]));
    let stdout = dir.stdout_of(&dry);
    assert!(!dir.path("elsewhere").exists(), "a dry run wrote files");
    let (case, notes) = stdout.split_once("\n\n#").expect("notes after the case");
    assert_eq!(format!("{case}\n"), dir.text("first/case.toml"));
    assert!(notes.starts_with(" 200 bodies: about 87.9 KiB of memory\n"), "{notes}");
    assert!(notes.ends_with("# output would go to elsewhere\n"), "{notes}");

    let source = CaseSource::File(dir.path("first/case.toml"));
    let read = Case::load(&source, &[]).unwrap();
    assert_eq!(read.to_toml(), dir.text("first/case.toml"));

    dir.run("first/case.toml", "second", &[]);
    assert_eq!(dir.text("second/conserved.csv"), dir.text("first/conserved.csv"));
    assert_eq!(dir.snapshots("second").last(), dir.snapshots("first").last());
}

#[test]
fn a_written_case_contains_the_path_of_its_bodies() {
    let dir = TestDir::new();
    std::fs::create_dir(dir.path("cases")).unwrap();
    dir.write("cases/pair.xyz", PAIR);
    dir.write("cases/pair.toml", from_file("pair.xyz"));
    dir.run("cases/pair.toml", "first", &[]);
    // The written case is in another folder and still finds the bodies.
    dir.run("first/case.toml", "second", &[]);
    assert_eq!(dir.text("second/conserved.csv"), dir.text("first/conserved.csv"));
    assert!(dir.text("first/provenance.txt").contains("pair.xyz"));
    let stdout = dir.stdout_of(&["run", "cases/pair.toml", "--dry-run"]);
    assert!(stdout.contains("# 2 bodies: about 900.0 B of memory"), "{stdout}");
    assert_eq!(dir.snapshot("first/snapshots/snapshot_000.hdf5").particles.id, [10, 20]);
}

#[test]
fn init_writes_a_case_that_runs() {
    let dir = TestDir::new();
    assert_eq!(
        dir.stdout_of(&["init", "cold-collapse", "-o", "mine.toml"]),
        "wrote mine.toml; run it with: orrery run mine.toml\n"
    );
    dir.run("mine.toml", "out", &small_case(&[]));
    assert_eq!(dir.snapshots("out").last().unwrap().time, 0.25);
    dir.stdout_of(&["init", "plummer"]);
    assert!(dir.text("plummer.toml").starts_with("# A star cluster"));
    dir.stdout_of(&["init", "pythagorean", "-o", "mine.toml", "--force"]);
    assert!(dir.text("mine.toml").contains("3-4-5"));
}

/// Runs all presets, with fewer bodies and steps. The grids are whole: the step of a large field is
/// computed on several threads, before the run starts its threads.
#[test]
fn every_preset_runs() {
    let dir = TestDir::new();
    let listed = dir.stdout_of(&["presets"]);
    let names: Vec<_> = listed.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names.len(), 18);
    for name in names {
        let mut sets = vec!["image.size=64", "output.image_every=0", "output.snapshot_every=0"];
        sets.extend(match name {
            "galaxy-collision" => ["bodies.n=2000", "time.end=5 Myr"].as_slice(),
            "solar-system" => &["time.end=1 yr"],
            "figure-eight" | "pythagorean" => &["time.end=0.5"],
            "hot-plate" => &["time.end=5 ms"],
            "sine-decay" => &["time.end=1e-4"],
            "chip" => &["time.end=20 us"],
            // The wavelets have their maximum at 75 and 100 ms.
            // A receiver near each source, where waves arrive before the end.
            "two-layer-shot" => &["time.end=110 ms", "wave.receivers=[{ x = 650, y = 10 }]"],
            "salt-dome" => &["time.end=110 ms", "wave.receivers=[{ x = 1450, y = 10 }]"],
            "wave-3d" => &["time.end=110 ms", "wave.receivers=[{ x = 450, y = 600, z = 300 }]"],
            "ripple-tank" => &["time.end=10 ms"],
            "lj-melt" => &["time.end=0.05"],
            "lj-2d" | "droplet" => &["time.end=0.05", "thermostat.time=0.01"],
            "kob-andersen" => {
                &["time.end=0.05", "structure.from=0", "structure.every=5 steps", "thermostat.time=0.01"]
            }
            "argon" => &[
                "time.end=50 fs",
                "structure.from=0",
                "structure.every=20 fs",
                "thermostat.until=end",
                "thermostat.time=10 fs",
            ],
            _ => &["bodies.n=500", "time.end=0.05"],
        });
        dir.run(name, name, &sets);
        match dir.path(&format!("{name}/thermo.csv")).exists() {
            true => assert!(dir.path(&format!("{name}/trajectory.gsd")).exists(), "{name}"),
            false => assert_eq!(dir.list(&format!("{name}/snapshots")).len(), 2, "{name}"),
        }
    }
}

/// Sums have a fixed order, so the result does not depend on the number of threads.
#[test]
fn the_number_of_threads_changes_no_bit() {
    let dir = TestDir::new();
    for (solver, precision) in
        [("direct", "single"), ("direct", "mixed"), ("direct", "double"), ("tree", "mixed")]
    {
        let outcome = |threads: &str| {
            let (out, set) = (format!("{solver}-{precision}-{threads}"), format!("gravity.solver={solver}"));
            let sets = ["bodies.n=3000", "time.end=0.02", "output.image_every=0", "image.size=64", &set];
            let mut arguments = common::run_arguments("plummer", &out, &sets);
            arguments.extend(["--threads", threads, "--precision", precision]);
            dir.stdout_of(&arguments);
            let last = dir.snapshots(&out).pop().unwrap().particles;
            let images = dir.bytes(&format!("{out}/animation.gif"));
            (last, dir.text(&format!("{out}/conserved.csv")), images)
        };
        let one = outcome("1");
        assert!(one == outcome("2"), "{solver}, {precision}: 2 threads differ from 1");
        assert!(one == outcome("7"), "{solver}, {precision}: 7 threads differ from 1");
    }
}

/// Records, images and snapshots do not change the bits of the bodies at the end.
#[test]
fn output_changes_no_bit_of_the_bodies() {
    let dir = TestDir::new();
    for (integrator, step) in [("leapfrog", "0.005"), ("hermite4", "0.005"), ("yoshida4", "adaptive")] {
        let method = [format!("time.integrator={integrator}"), format!("time.step={step}")];
        let last = |out: &str, more: &[&str]| {
            let out = format!("{integrator}-{out}");
            let mut sets = vec!["bodies.n=100", "time.end=0.05", "image.size=64", &method[0], &method[1]];
            sets.extend(more);
            dir.run("plummer", &out, &sets);
            dir.snapshots(&out).pop().unwrap().particles
        };
        let never = ["output.snapshot_every=0", "output.image_every=0", "output.record_every=0"];
        let often =
            ["output.snapshot_every=0.013", "output.image_every=0.0031", "output.record_every=1 step"];
        assert!(last("never", &never) == last("often", &often), "{integrator}: output changes the bodies");
    }
}

/// The output time 0.013 is not a multiple of the step 0.005. It is reached by a shorter step from
/// 0.010, exactly as in a run that ends there.
#[test]
fn an_output_time_between_steps_is_reached_exactly() {
    let dir = TestDir::new();
    let base = ["bodies.n=100", "time.step=0.005", "output.image_every=0", "image.size=64"];
    let run = |out: &str, more: &[&str]| {
        dir.run("plummer", out, &[&base[..], more].concat());
        dir.snapshots(out)
    };
    let snapshots = run("output", &["time.end=0.05", "output.snapshot_every=0.013"]);
    let times: Vec<f64> = snapshots.iter().map(|s| s.time).collect();
    assert_eq!(times, [0.0, 0.013, 2.0 * 0.013, 3.0 * 0.013, 0.05]);
    assert_eq!(snapshots.iter().map(|s| s.step).collect::<Vec<_>>(), [0, 2, 5, 7, 10]);

    let short = run("short", &["time.end=0.013", "output.snapshot_every=0"]).pop().unwrap();
    assert_eq!(short.time, 0.013);
    assert!(short.particles == snapshots[1].particles, "the state at 0.013 is not that of a run to 0.013");

    // The state differs from those of the neighbouring steps: x moves by about v dt.
    let steps = run("steps", &["time.end=0.05", "output.snapshot_every=1 step"]);
    let [before, after] = [2, 3].map(|k| &steps[k].particles.position.x);
    for (i, x) in snapshots[1].particles.position.x.iter().enumerate() {
        let share = (x - before[i]) / (after[i] - before[i]);
        assert!(
            (share - 0.6).abs() < 0.05,
            "body {i} is {share} of the way from 0.010 to 0.015, expected 0.6"
        );
    }
}

/// Output times such as 0.1 k are not exact in binary. They deviate by rounding errors only.
#[test]
fn a_long_series_of_output_times_does_not_drift() {
    let dir = TestDir::new();
    dir.run("figure-eight", "out", &["time.end=3", "output.snapshot_every=0.1", "output.image_every=0"]);
    let snapshots = dir.snapshots("out");
    assert_eq!(snapshots.len(), 31);
    for (k, snapshot) in snapshots.iter().enumerate() {
        assert!((snapshot.time - 0.1 * k as f64).abs() <= 1e-11, "{k}: {}", snapshot.time);
        assert_eq!(snapshot.step, 10 * k as u64);
    }
}

#[test]
fn snapshots_are_written_in_the_requested_format() {
    let dir = TestDir::new();
    let reference = {
        dir.run("plummer", "hdf5", &small_case(&[]));
        dir.snapshot("hdf5/snapshots/snapshot_001.hdf5")
    };
    for format in ["xyz", "npz"] {
        dir.run("plummer", format, &small_case(&[&format!("output.format={format}")]));
        let names = dir.list(&format!("{format}/snapshots"));
        assert_eq!(names, [0, 1].map(|k| format!("snapshot_00{k}.{format}")));
        let found = dir.snapshot(&format!("{format}/snapshots/snapshot_001.{format}"));
        assert!(found.particles == reference.particles, "{format}");
        assert_eq!((found.time, found.step), (reference.time, reference.step));
    }
}

#[test]
fn the_precision_flag_selects_the_precision() {
    let dir = TestDir::new();
    let last = |precision: &str| {
        // At least 512 bodies, because fewer are summed in f64 in mixed precision too.
        let sets = small_case(&["bodies.n=600"]);
        let mut arguments = common::run_arguments("plummer", precision, &sets);
        arguments.extend(["--precision", precision, "--device", "cpu"]);
        dir.stdout_of(&arguments);
        assert!(
            dir.text(&format!("{precision}/provenance.txt")).contains(&format!("precision: {precision}\n"))
        );
        dir.snapshots(precision).pop().unwrap().particles
    };
    let [single, mixed, double] = ["single", "mixed", "double"].map(last);
    assert!(single != double && mixed != double);
}

#[test]
fn a_pipe_gets_plain_text_and_quiet_prints_nothing() {
    let dir = TestDir::new();
    let mut arguments = vec!["run", "plummer"];
    SMALL.iter().for_each(|set| arguments.extend(["--set", set]));
    let stdout = dir.stdout_of(&arguments);
    assert!(!stdout.contains(|c: char| c.is_control() && c != '\n'), "{stdout:?}");
    assert!(stdout.starts_with("plummer: a star cluster"), "{stdout}");
    assert!(stdout.contains("200 bodies, 32 steps (direct forces) to t = 0.25"), "{stdout}");
    assert!(stdout.contains("out/plummer/animation.gif"), "{stdout}");
    assert!(stdout.lines().all(|line| line.chars().count() <= 100), "{stdout}");
    arguments.extend(["--force", "-q"]);
    assert_eq!(dir.stdout_of(&arguments), "");
}

/// `--force` removes the files of an earlier run and no others.
#[test]
fn force_replaces_a_run_and_keeps_other_files() {
    let dir = TestDir::new();
    dir.run("plummer", "out", &small_case(&["output.snapshot_every=0.0625"]));
    assert_eq!(dir.list("out/snapshots").len(), 5);
    dir.write("out/notes.txt", "mine");
    dir.write("out/images/holiday.png", "mine");
    let sets = small_case(&["output.image_every=0"]);
    let mut arguments = common::run_arguments("plummer", "out", &sets);
    arguments.push("--force");
    dir.stdout_of(&arguments);
    assert_eq!(dir.list("out/snapshots"), ["snapshot_000.hdf5", "snapshot_001.hdf5"]);
    assert_eq!(dir.list("out/images"), ["holiday.png", "image_0000.png", "image_0001.png"]);
    assert_eq!(
        (dir.text("out/notes.txt"), dir.text("out/images/holiday.png")),
        ("mine".into(), "mine".into())
    );
}

/// A progress line longer than the terminal could not be redrawn in place.
#[test]
#[cfg(target_os = "linux")]
fn the_progress_line_fits_a_terminal() {
    if std::process::Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: script(1), which opens a terminal, is not installed");
        return;
    }
    let dir = TestDir::new();
    let orrery = env!("CARGO_BIN_EXE_orrery");
    let bodies = ("run plummer --set bodies.n=300 --set time.end=0.5 --set image.size=64", "dE/E");
    let plate =
        ("run hot-plate --set grid.nx=64 --set grid.ny=64 --set time.end=5s --set image.size=64", "excess");
    for ((run, symbol), columns) in [(bodies, 80), (bodies, 44), (plate, 80)] {
        let line = format!("stty cols {columns} rows 24; '{orrery}' {run} --out out{columns} --force");
        let mut command = assert_cmd::Command::new("script");
        let output = command.current_dir(dir.path("")).args(["-qec", &line, "/dev/null"]).output().unwrap();
        let stdout = text(&output.stdout);
        let drawn: Vec<String> =
            stdout.split(['\r', '\n']).map(without_escapes).filter(|line| line.contains('%')).collect();
        assert!(drawn.iter().any(|line| line.contains("left") && line.contains(symbol)), "{stdout:?}");
        for line in drawn {
            assert!(line.trim_end().chars().count() <= columns, "{columns} columns: {line:?}");
        }
    }
}

/// Removes the control sequences of the terminal, such as `ESC [ 2 K`.
#[cfg(target_os = "linux")]
fn without_escapes(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest));
    }
    plain
}

/// A file of bodies that changed since the start is reported, by a resumed run and by a new one.
#[test]
fn a_changed_file_of_bodies_is_reported() {
    let dir = TestDir::new();
    dir.write("pair.xyz", PAIR);
    dir.write("pair.toml", from_file("pair.xyz"));
    dir.run("pair.toml", "out", &[]);
    let stderr_of = |flag: &str| {
        let output = dir.orrery(&["run", "pair.toml", "--quiet", "--out", "out", flag]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    assert_eq!(stderr_of("--resume"), "");
    dir.write("pair.xyz", PAIR.replace("5 20", "6 20"));
    let stderr = stderr_of("--resume");
    assert!(
        stderr.contains("pair.xyz has changed since the run started from it; the run continues"),
        "{stderr}"
    );
    let stderr = stderr_of("--force");
    assert!(stderr.contains("pair.xyz has changed since the run that is replaced started"), "{stderr}");
    assert_eq!(stderr_of("--force"), "");
}

/// `resume --end` extends a finished run, with a unit or without.
#[test]
fn a_finished_run_is_extended() {
    let dir = TestDir::new();
    let case = "units = \"solar\"\nbodies.model = \"solar-system\"\n[time]\nstep = \"1 day\"\nend = \"3.5 days\"\n\
                [output]\nrecord_every = \"1 step\"\n[image]\nsize = 64\n";
    dir.write("case.toml", case);
    dir.run("case.toml", "whole", &["time.end=9.25 days"]);
    dir.run("case.toml", "parts", &[]);
    let output = dir.orrery(&["resume", "parts", "--end", "5 days"]);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("case: the end changes from t = 3.5 "), "{stderr}");
    assert_eq!(dir.stdout_of(&["resume", "parts", "--quiet", "--set", "time.end=9.25days"]), "");
    for name in ["conserved.csv", "animation.gif", "energy.svg", "case.toml", "provenance.txt"] {
        assert_eq!(dir.bytes(&format!("parts/{name}")), dir.bytes(&format!("whole/{name}")), "{name}");
    }
    assert_eq!(dir.list("parts/checkpoints"), dir.list("whole/checkpoints"));
    let output = dir.orrery(&["resume", "parts"]);
    let stdout = text(&output.stdout);
    assert!(stdout.contains("nothing to do; orrery resume parts --end TIME extends it"), "{stdout}");
    // An error in the value names the flag that the user gave.
    for (flag, value, expected) in [
        ("--end", "5 parsecs", "error: --end 5 parsecs: time.end = \"5 parsecs\": unknown unit 'parsecs'"),
        ("--end", "-1", "error: --end -1: time.end = -1 is outside end > 0"),
        ("--set", "time.end=-1", "error: --set time.end=-1: time.end = -1 is outside end > 0"),
    ] {
        let output = dir.orrery(&["resume", "parts", &format!("{flag}={value}")]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).starts_with(expected), "{}", text(&output.stderr));
    }
}
