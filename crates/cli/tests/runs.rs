//! `orrery run`: what it leaves behind, and what must not change a bit of it.

mod common;

use common::{PAIR, Room, from_file, text};
use orrery_engine::case::{Case, CaseSource};

const SMALL: [&str; 5] =
    ["bodies.n=200", "time.end=0.25", "time.step=0.0078125", "output.image_every=0.0625", "image.size=64"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().chain(more).copied().collect()
}

fn table(text: &str) -> Vec<Vec<f64>> {
    text.lines().skip(1).map(|row| row.split(',').map(|cell| cell.parse().unwrap()).collect()).collect()
}

#[test]
fn a_preset_leaves_all_that_is_promised() {
    let room = Room::new();
    room.run("plummer", "out", &with(&["output.snapshot_every=0.125", "output.record_every=4 steps"]));
    let expected = [
        ".lock",
        "animation.gif",
        "case.toml",
        "checkpoints",
        "conserved.csv",
        "energy.png",
        "energy.svg",
        "images",
        "provenance.txt",
        "snapshots",
    ];
    assert_eq!(room.list("out"), expected);
    assert_eq!(room.list("out/checkpoints"), ["checkpoint_000000032.orrery"]);

    let conserved = room.text("out/conserved.csv");
    assert_eq!(conserved.lines().next(), Some("step,time,kinetic,potential,total,px,py,pz,lx,ly,lz"));
    let rows = table(&conserved);
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), [0., 4., 8., 12., 16., 20., 24., 28., 32.]);
    for row in &rows {
        assert_eq!(row.len(), 11);
        assert_eq!(row[1], row[0] / 128.0);
        assert_eq!(row[4], row[2] + row[3]);
        assert!(row[2] > 0.0 && row[3] < 0.0);
        // Leapfrog at this step keeps a Plummer sphere's energy to some 1e-5.
        assert!((row[4] / rows[0][4] - 1.0).abs() < 1e-3, "{row:?}");
        assert!(row[5..8].iter().all(|p| p.abs() < 1e-12), "{row:?}");
    }

    let snapshots = room.snapshots("out");
    assert_eq!(
        snapshots.iter().map(|s| (s.time, s.step)).collect::<Vec<_>>(),
        [(0.0, 0), (0.125, 16), (0.25, 32)]
    );
    for snapshot in &snapshots {
        assert_eq!(snapshot.particles.len(), 200);
        assert_eq!(snapshot.units.name(), "nbody");
        let names: Vec<_> = snapshot.provenance.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["program", "commit", "case", "seed", "device", "solver", "precision", "inputs"]);
        assert_eq!(snapshot.provenance[2].1, room.text("out/case.toml"));
    }
    assert_ne!(snapshots[0].particles, snapshots[2].particles);

    let images = room.list("out/images");
    assert_eq!(images, [0, 1, 2, 3, 4].map(|k| format!("image_000{k}.png")));
    for name in images.iter().map(|name| format!("out/images/{name}")).chain(["out/energy.png".to_owned()]) {
        assert!(room.bytes(&name).starts_with(b"\x89PNG\r\n\x1a\n"), "{name}");
    }
    let gif = room.bytes("out/animation.gif");
    assert!(gif.starts_with(b"GIF89a\x40\x00\x40\x00"), "not a GIF of 64 x 64");
    assert_eq!(gif.last(), Some(&0x3b), "no trailer");
    let svg = room.text("out/energy.svg");
    assert!(svg.starts_with("<svg") || svg.starts_with("<?xml"), "{}", &svg[..40]);

    let provenance = room.text("out/provenance.txt");
    for line in
        ["program: orrery ", "commit: ", "seed: 1", "device: cpu (", "solver: direct", "precision: mixed"]
    {
        assert!(provenance.lines().any(|found| found.starts_with(line)), "{line} in {provenance}");
    }
}

/// The case file beside the output is the resolved case: it reads back, and running it gives the same bits.
#[test]
fn the_case_left_behind_makes_the_run_again() {
    let room = Room::new();
    room.run("plummer", "first", &with(&[]));
    let mut dry = vec!["run", "plummer", "--dry-run", "--out", "elsewhere"];
    SMALL.iter().for_each(|set| dry.extend(["--set", set]));
    let said = room.says(&dry);
    assert!(!room.path("elsewhere").exists(), "a dry run wrote");
    let (case, notes) = said.split_once("\n\n#").expect("notes after the case");
    assert_eq!(format!("{case}\n"), room.text("first/case.toml"));
    assert!(notes.starts_with(" 200 bodies: about 87.9 KiB of memory\n"), "{notes}");
    assert!(notes.ends_with("# output would go to elsewhere\n"), "{notes}");

    let source = CaseSource::File(room.path("first/case.toml"));
    let read = Case::load(&source, &[]).unwrap();
    assert_eq!(read.to_toml(), room.text("first/case.toml"));

    room.run("first/case.toml", "second", &[]);
    assert_eq!(room.text("second/conserved.csv"), room.text("first/conserved.csv"));
    assert_eq!(room.snapshots("second").last(), room.snapshots("first").last());
}

#[test]
fn a_run_from_a_file_says_where_it_lies() {
    let room = Room::new();
    std::fs::create_dir(room.path("cases")).unwrap();
    room.write("cases/pair.xyz", PAIR);
    room.write("cases/pair.toml", from_file("pair.xyz"));
    room.run("cases/pair.toml", "first", &[]);
    // The copy lies in another folder, and still finds the bodies.
    room.run("first/case.toml", "second", &[]);
    assert_eq!(room.text("second/conserved.csv"), room.text("first/conserved.csv"));
    assert!(room.text("first/provenance.txt").contains("pair.xyz"));
    let said = room.says(&["run", "cases/pair.toml", "--dry-run"]);
    assert!(said.contains("# 2 bodies: about 900.0 B of memory"), "{said}");
    assert_eq!(room.snapshot("first/snapshots/snapshot_000.hdf5").particles.id, [10, 20]);
}

#[test]
fn init_writes_a_case_that_runs() {
    let room = Room::new();
    assert_eq!(
        room.says(&["init", "cold-collapse", "-o", "mine.toml"]),
        "wrote mine.toml; run it with: orrery run mine.toml\n"
    );
    room.run("mine.toml", "out", &with(&[]));
    assert_eq!(room.snapshots("out").last().unwrap().time, 0.25);
    room.says(&["init", "plummer"]);
    assert!(room.text("plummer.toml").starts_with("# A star cluster"));
    room.says(&["init", "pythagorean", "-o", "mine.toml", "--force"]);
    assert!(room.text("mine.toml").contains("3-4-5"));
}

/// Every preset, cut short: no one of them may be broken.
#[test]
fn every_preset_runs() {
    let room = Room::new();
    let listed = room.says(&["presets"]);
    let names: Vec<_> = listed.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names.len(), 6);
    for name in names {
        let mut sets = vec!["image.size=64", "output.image_every=0", "output.snapshot_every=0"];
        sets.extend(match name {
            "galaxy-collision" => ["bodies.n=2000", "time.end=5 Myr"].as_slice(),
            "solar-system" => &["time.end=1 yr"],
            "figure-eight" | "pythagorean" => &["time.end=0.5"],
            _ => &["bodies.n=500", "time.end=0.05"],
        });
        room.run(name, name, &sets);
        assert_eq!(room.list(&format!("{name}/snapshots")).len(), 2, "{name}");
    }
}

/// Sums have a fixed order: the number of threads is not in the result.
#[test]
fn threads_change_no_bit() {
    let room = Room::new();
    for (solver, precision) in
        [("direct", "single"), ("direct", "mixed"), ("direct", "double"), ("tree", "mixed")]
    {
        let outcome = |threads: &str| {
            let (out, set) = (format!("{solver}-{precision}-{threads}"), format!("gravity.solver={solver}"));
            let sets = ["bodies.n=3000", "time.end=0.02", "output.image_every=0", "image.size=64", &set];
            let mut arguments = common::run_arguments("plummer", &out, &sets);
            arguments.extend(["--threads", threads, "--precision", precision]);
            room.says(&arguments);
            let last = room.snapshots(&out).pop().unwrap().particles;
            let images = room.bytes(&format!("{out}/animation.gif"));
            (last, room.text(&format!("{out}/conserved.csv")), images)
        };
        let one = outcome("1");
        assert!(one == outcome("2"), "{solver}, {precision}: 2 threads differ from 1");
        assert!(one == outcome("7"), "{solver}, {precision}: 7 threads differ from 1");
    }
}

/// Looking does not disturb: whatever is recorded, drawn or written, the bodies end at the same bits.
#[test]
fn output_changes_no_bit() {
    let room = Room::new();
    for (integrator, step) in [("leapfrog", "0.005"), ("hermite4", "0.005"), ("yoshida4", "adaptive")] {
        let method = [format!("time.integrator={integrator}"), format!("time.step={step}")];
        let last = |out: &str, more: &[&str]| {
            let out = format!("{integrator}-{out}");
            let mut sets = vec!["bodies.n=100", "time.end=0.05", "image.size=64", &method[0], &method[1]];
            sets.extend(more);
            room.run("plummer", &out, &sets);
            room.snapshots(&out).pop().unwrap().particles
        };
        let never = ["output.snapshot_every=0", "output.image_every=0", "output.record_every=0"];
        let often =
            ["output.snapshot_every=0.013", "output.image_every=0.0031", "output.record_every=1 step"];
        assert!(last("never", &never) == last("often", &often), "{integrator}: output disturbs the bodies");
    }
}

/// 0.013 is no multiple of the step 0.005: it is reached by a shorter step from 0.010, exactly as by a run that
/// ends there.
#[test]
fn an_output_time_between_steps_is_hit_exactly() {
    let room = Room::new();
    let base = ["bodies.n=100", "time.step=0.005", "output.image_every=0", "image.size=64"];
    let run = |out: &str, more: &[&str]| {
        room.run("plummer", out, &[&base[..], more].concat());
        room.snapshots(out)
    };
    let snapshots = run("asked", &["time.end=0.05", "output.snapshot_every=0.013"]);
    let times: Vec<f64> = snapshots.iter().map(|s| s.time).collect();
    assert_eq!(times, [0.0, 0.013, 2.0 * 0.013, 3.0 * 0.013, 0.05]);
    assert_eq!(snapshots.iter().map(|s| s.step).collect::<Vec<_>>(), [0, 2, 5, 7, 10]);

    let cut = run("cut", &["time.end=0.013", "output.snapshot_every=0"]).pop().unwrap();
    assert_eq!(cut.time, 0.013);
    assert!(cut.particles == snapshots[1].particles, "the state at 0.013 is not that of a run to 0.013");

    // Neighbours in time are other states: x moves by about v dt.
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

/// Multiples that are no sums of steps in binary come out as close as numbers get.
#[test]
fn a_long_series_of_outputs_stays_on_its_times() {
    let room = Room::new();
    room.run("figure-eight", "out", &["time.end=3", "output.snapshot_every=0.1", "output.image_every=0"]);
    let snapshots = room.snapshots("out");
    assert_eq!(snapshots.len(), 31);
    for (k, snapshot) in snapshots.iter().enumerate() {
        assert!((snapshot.time - 0.1 * k as f64).abs() <= 1e-11, "{k}: {}", snapshot.time);
        assert_eq!(snapshot.step, 10 * k as u64);
    }
}

#[test]
fn snapshots_come_in_the_format_asked_for() {
    let room = Room::new();
    let reference = {
        room.run("plummer", "hdf5", &with(&[]));
        room.snapshot("hdf5/snapshots/snapshot_001.hdf5")
    };
    for format in ["xyz", "npz"] {
        room.run("plummer", format, &with(&[&format!("output.format={format}")]));
        let names = room.list(&format!("{format}/snapshots"));
        assert_eq!(names, [0, 1].map(|k| format!("snapshot_00{k}.{format}")));
        let found = room.snapshot(&format!("{format}/snapshots/snapshot_001.{format}"));
        assert!(found.particles == reference.particles, "{format}");
        assert_eq!((found.time, found.step), (reference.time, reference.step));
    }
}

#[test]
fn precision_is_taken_from_the_flag() {
    let room = Room::new();
    let last = |precision: &str| {
        // From 512 bodies on: fewer are summed in f64 in mixed precision too.
        let sets = with(&["bodies.n=600"]);
        let mut arguments = common::run_arguments("plummer", precision, &sets);
        arguments.extend(["--precision", precision, "--device", "cpu"]);
        room.says(&arguments);
        assert!(
            room.text(&format!("{precision}/provenance.txt")).contains(&format!("precision: {precision}\n"))
        );
        room.snapshots(precision).pop().unwrap().particles
    };
    let [single, mixed, double] = ["single", "mixed", "double"].map(last);
    assert!(single != double && mixed != double);
}

#[test]
fn a_pipe_gets_plain_words_and_quiet_gets_none() {
    let room = Room::new();
    let mut arguments = vec!["run", "plummer"];
    SMALL.iter().for_each(|set| arguments.extend(["--set", set]));
    let said = room.says(&arguments);
    assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{said:?}");
    assert!(said.starts_with("plummer: a star cluster"), "{said}");
    assert!(said.contains("200 bodies, 32 steps (direct forces) to t = 0.25"), "{said}");
    assert!(said.contains("out/plummer/animation.gif"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
    arguments.extend(["--force", "-q"]);
    assert_eq!(room.says(&arguments), "");
}

/// `--force` clears an earlier run away, and nothing else.
#[test]
fn force_replaces_a_run_and_spares_the_rest() {
    let room = Room::new();
    room.run("plummer", "out", &with(&["output.snapshot_every=0.0625"]));
    assert_eq!(room.list("out/snapshots").len(), 5);
    room.write("out/notes.txt", "mine");
    room.write("out/images/holiday.png", "mine");
    let sets = with(&["output.image_every=0"]);
    let mut arguments = common::run_arguments("plummer", "out", &sets);
    arguments.push("--force");
    room.says(&arguments);
    assert_eq!(room.list("out/snapshots"), ["snapshot_000.hdf5", "snapshot_001.hdf5"]);
    assert_eq!(room.list("out/images"), ["holiday.png", "image_0000.png", "image_0001.png"]);
    assert_eq!(
        (room.text("out/notes.txt"), room.text("out/images/holiday.png")),
        ("mine".into(), "mine".into())
    );
}

/// A terminal of 80 columns: no line that is drawn may be longer, or it would not be redrawn in place.
#[test]
#[cfg(target_os = "linux")]
fn the_progress_line_fits_a_terminal() {
    if std::process::Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: no script(1) to open a terminal with");
        return;
    }
    let room = Room::new();
    let orrery = env!("CARGO_BIN_EXE_orrery");
    let run = "run plummer --set bodies.n=300 --set time.end=0.5 --set image.size=64";
    for columns in [80, 44] {
        let line = format!("stty cols {columns} rows 24; '{orrery}' {run} --out out{columns}");
        let mut command = assert_cmd::Command::new("script");
        let output = command.current_dir(room.path("")).args(["-qec", &line, "/dev/null"]).output().unwrap();
        let said = text(&output.stdout);
        let drawn: Vec<String> =
            said.split(['\r', '\n']).map(without_escapes).filter(|line| line.contains('%')).collect();
        assert!(drawn.iter().any(|line| line.contains("left") && line.contains("dE/E")), "{said:?}");
        for line in drawn {
            assert!(line.trim_end().chars().count() <= columns, "{columns} columns: {line:?}");
        }
    }
}

/// The text without the terminal's control sequences, `ESC [ ... letter`.
#[cfg(target_os = "linux")]
fn without_escapes(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest));
    }
    plain
}
