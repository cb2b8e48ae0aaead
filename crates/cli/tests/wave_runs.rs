//! Runs of waves: shots, seismograms, parts of the grid in snapshots, slices.

use orrery_formats::{Limits, read_model_segy, read_seismograms_segy, read_volume_npy, read_volume_vti};
use serde_json::Value;

use crate::common::{TestDir, error_of, text};

/// Two shots with two receivers each. Both have 20 steps.
const SHOTS: &str = r#"
name = "line"
units = "si"
[grid]
nx = 41
ny = 30
hx = "5 m"
[wave]
velocity = "1500 m/s"
layer_nodes = 6
y_min = "free"
[[wave.source]]
shot = 7
x = "90 m"
y = "10 m"
wavelet = "sine"
frequency = 30.0
[[wave.source]]
shot = 9
x = "110 m"
y = "10 m"
wavelet = "sine"
frequency = 30.0
[[wave.receivers]]
x = "85 m"
y = "20 m"
count = 2
dx = "30 m"
[time]
step = "1 ms"
end = "20 ms"
[image]
size = 64
"#;

#[test]
fn several_shots_are_computed_one_after_another() {
    let dir = TestDir::new();
    dir.write("line.toml", SHOTS);
    let run = ["run", "line.toml", "--device", "cpu", "--json", "summary.json"];
    let stdout = dir.stdout_of(&run);
    assert_eq!(stdout.matches("1230 nodes, 20 steps").count(), 2, "{stdout}");
    let summary: Value = serde_json::from_str(&dir.text("summary.json")).unwrap();
    let folders: Vec<_> = summary["shots"].as_array().unwrap().iter().map(|shot| &shot["folder"]).collect();
    assert_eq!(folders, ["out/line/shot-7", "out/line/shot-9"]);
    for shot in [7, 9] {
        let plot = dir.text(&format!("out/line/shot-{shot}/wave-energy.svg"));
        assert!(plot.contains(&format!("<title>line, shot {shot}: energy in the grid</title>")), "{plot}");
    }
    assert_eq!(stdout.matches("relative change\n").count(), 2, "{stdout}");
    let sample = |shot: usize| {
        let path = dir.path(&format!("out/line/shot-{shot}/seismograms.sgy"));
        let read = read_seismograms_segy(&path, &Limits::default()).unwrap();
        let [seismogram] = &read[..] else { panic!("{} shots in {}", read.len(), path.display()) };
        assert_eq!((seismogram.shot, seismogram.sample_count()), (shot as i32, 21));
        assert_eq!(seismogram.receivers, [[85.0, 0.0, 20.0], [115.0, 0.0, 20.0]]);
        seismogram.clone()
    };
    assert_eq!((sample(7).source, sample(9).source), ([90.0, 0.0, 10.0], [110.0, 0.0, 10.0]));
    // The second shot is the first one, mirrored at the middle of the grid.
    assert_eq!(sample(7).trace(0), sample(9).trace(1));

    // One of them alone has the same bytes.
    dir.stdout_of(&["run", "line.toml", "--device", "cpu", "--set", "wave.shot=9", "--out", "alone"]);
    assert_eq!(dir.bytes("alone/seismograms.npy"), dir.bytes("out/line/shot-9/seismograms.npy"));

    // A second run is refused before anything is computed, and --resume finds both shots finished.
    let again = dir.orrery(&run[..4]);
    assert_eq!(again.status.code(), Some(2));
    let resumed = dir.orrery(&["run", "line.toml", "--device", "cpu", "--resume"]);
    let messages = String::from_utf8(resumed.stderr).unwrap();
    assert_eq!(messages.matches("already finished after step 20").count(), 2, "{messages}");

    let plan = dir.stdout_of(&["run", "line.toml", "--device", "cpu", "--dry-run", "--out", "plan"]);
    assert!(
        plan.contains("shot = 7") && plan.ends_with("# 2 shots, one after another; this is the first one\n")
    );
}

/// Each shot keeps its tables, seismograms and images.
#[test]
fn plots_and_animations_are_left_out_on_request() {
    let dir = TestDir::new();
    dir.write("line.toml", SHOTS);
    let quick = ["--set", "output.plots=false", "--set", "image.animation=none"];
    let stdout = dir.stdout_of(&[&["run", "line.toml", "--device", "cpu"], &quick[..]].concat());
    assert!(!stdout.contains("animation") && !stdout.contains(".svg"), "{stdout}");
    assert!(stdout.contains("out/line/shot-7/images"), "{stdout}");
    for shot in [7, 9] {
        let files = dir.list(&format!("out/line/shot-{shot}"));
        let is_plot = |name: &String| [".svg", ".png", ".gif"].iter().any(|end| name.ends_with(end));
        assert!(!files.iter().any(is_plot), "{files:?}");
        assert!(files.contains(&"seismograms.npy".to_owned()), "{files:?}");
        assert_eq!(dir.list(&format!("out/line/shot-{shot}/images")).len(), 2);
    }
}

#[test]
#[cfg(unix)]
fn a_linked_folder_of_a_shot_is_refused() {
    let dir = TestDir::new();
    dir.write("line.toml", SHOTS);
    dir.run("line.toml", "mine", &["wave.shot=9"]);
    std::fs::create_dir(dir.path("survey")).unwrap();
    std::os::unix::fs::symlink(dir.path("mine"), dir.path("survey/shot-9")).unwrap();
    let before = dir.content();
    let run = ["run", "line.toml", "--device", "cpu", "--out", "survey"];
    let expected = "survey/shot-9: cannot be used as output directory: it is a symbolic link, expected a directory or nothing";
    for flag in ["--force", "--resume"] {
        assert_eq!(error_of(&dir, &[&run[..], &[flag]].concat()), expected);
        assert!(dir.content() == before, "{flag}: a file has changed");
    }
}

#[test]
fn a_replaced_survey_keeps_no_shot_of_the_old_one() {
    let dir = TestDir::new();
    dir.write("line.toml", SHOTS);
    dir.write("other.toml", SHOTS.replace("shot = 9", "shot = 11"));
    let run = |case| ["run", case, "--device", "cpu", "--quiet", "--out", "survey"];
    dir.stdout_of(&run("line.toml"));
    dir.write("survey/shot-9/notes.txt", "mine");
    let before = dir.content();
    assert_eq!(
        error_of(&dir, &run("other.toml")),
        "survey/shot-7: the directory contains a run; orrery resume survey/shot-7 continues it, --force replaces it"
    );
    assert!(dir.content() == before, "a file has changed");
    // A shot that the new case does not have is refused too.
    dir.write("third.toml", SHOTS.replace("shot = 7", "shot = 1").replace("shot = 9", "shot = 2"));
    assert!(error_of(&dir, &run("third.toml")).starts_with("survey/shot-7: the directory contains a run"));

    dir.stdout_of(&[&run("other.toml")[..], &["--force"]].concat());
    assert_eq!(dir.list("survey"), [".lock", "shot-11", "shot-7", "shot-9", "survey.toml"]);
    assert_eq!(dir.list("survey/shot-9"), [".lock", "notes.txt"]);
    std::fs::remove_file(dir.path("survey/shot-9/notes.txt")).unwrap();
    dir.stdout_of(&[&run("third.toml")[..], &["--force"]].concat());
    assert_eq!(dir.list("survey"), [".lock", "shot-1", "shot-2", "shot-9", "survey.toml"]);
    // A single run in the folder is replaced as well.
    dir.run("line.toml", "one", &["wave.shot=9"]);
    let run = ["run", "line.toml", "--device", "cpu", "--quiet", "--out", "one"];
    assert!(error_of(&dir, &run).starts_with("one: the directory contains a run"));
    dir.stdout_of(&[&run[..], &["--force"]].concat());
    assert_eq!(dir.list("one"), [".lock", "shot-7", "shot-9", "survey.toml"]);
}

/// `--force` costs no shot of the earlier survey if the new one cannot start.
#[test]
fn a_refused_survey_removes_no_shot() {
    let dir = TestDir::new();
    dir.write("line.toml", SHOTS);
    let run = ["run", "line.toml", "--device", "cpu", "--quiet", "--out", "survey"];
    dir.stdout_of(&run);
    let before = dir.content();
    let force = [&run[..], &["--force"]].concat();

    let lock_of = |folder: &str| {
        let lock = std::fs::File::open(dir.path(folder).join(".lock")).unwrap();
        lock.try_lock().unwrap();
        lock
    };
    for (folder, command) in [
        ("survey/shot-9", &force),
        ("survey", &force),
        ("survey", &["resume", "survey"].to_vec()),
        ("survey", &[&run[..], &["--resume", "--set", "time.end=30 ms"]].concat()),
    ] {
        let lock = lock_of(folder);
        let error = error_of(&dir, command);
        assert!(error.starts_with(&format!("{folder}: another run")), "{error}");
        assert!(dir.content() == before, "{command:?}: a file has changed");
        drop(lock);
    }

    let error = error_of(&dir, &[&force[..], &["--max-memory", "10KiB"]].concat());
    assert!(error.contains("of memory"), "{error}");
    assert!(dir.content() == before, "a file has changed");
    dir.stdout_of(&force);
}

#[test]
fn lost_shots_and_a_changed_case_of_a_survey_are_found() {
    let dir = TestDir::new();
    dir.write("line.toml", SHOTS);
    dir.run("line.toml", "survey", &["image.animation=none", "output.plots=false"]);
    let check = || {
        let output = dir.orrery(&["check", "survey"]);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (status, stdout, stderr) = check();
    assert_eq!(
        (status, stderr.as_str(), stdout.matches("): intact\n").count()),
        (Some(0), "", 2),
        "{stdout}"
    );

    let case = dir.text("survey/survey.toml");
    let edited = case.replacen("velocity = \"1500 m/s\"", "velocity = \"1600 m/s\"", 1);
    assert!(edited != case, "{case}");
    dir.write("survey/survey.toml", &edited);
    let (status, stdout, _) = check();
    assert_eq!((status, stdout.lines().count()), (Some(1), 3), "{stdout}");
    let expected = "survey/survey.toml: changed: it has wave.velocity = \"1600 m/s\", but the run of shot 7 has \
                    wave.velocity = \"1500 m/s\"";
    assert!(stdout.lines().any(|line| line == expected), "{stdout}");
    // All shots are compared before the first one is resumed.
    std::fs::remove_dir_all(dir.path("survey/shot-7")).unwrap();
    let before = dir.content();
    let error = error_of(&dir, &["resume", "survey", "--quiet"]);
    assert!(error.starts_with("survey/shot-9: the run has wave.velocity"), "{error}");
    assert!(dir.content() == before, "a file has changed");
    dir.write("survey/survey.toml", "");
    let (status, stdout, _) = check();
    assert!(status == Some(1) && stdout.starts_with("survey/survey.toml:"), "{stdout}");
    assert!(stdout.contains("survey/shot-9: step 20"), "{stdout}");

    dir.write("survey/survey.toml", &case);
    let lost = "survey/shot-7: no run in it: it was not started, or it was removed\n";
    let (status, stdout, _) = check();
    assert!(status == Some(1) && stdout.starts_with(lost), "{stdout}");
    assert!(stdout.contains("survey/shot-9: step 20"), "{stdout}");
    // An error in one shot does not hide the others.
    dir.stdout_of(&["run", "line.toml", "--quiet", "--set", "wave.shot=7", "--out", "survey/shot-7"]);
    std::fs::remove_dir_all(dir.path("survey/shot-7/checkpoints")).unwrap();
    let (status, stdout, _) = check();
    assert!(status == Some(1) && stdout.starts_with("survey/shot-7: no checkpoint in it"), "{stdout}");
    assert!(stdout.contains("survey/shot-9: step 20"), "{stdout}");
    for shot in [7, 9] {
        std::fs::remove_file(dir.path(&format!("survey/shot-{shot}/provenance.txt"))).unwrap();
    }
    let (status, stdout, _) = check();
    assert_eq!((status, stdout.matches(": no run in it").count()), (Some(1), 2), "{stdout}");
}

#[test]
fn a_survey_is_resumed_with_its_shots() {
    let dir = TestDir::new();
    dir.write("line.toml", SHOTS);
    let run = |out| ["run", "line.toml", "--device", "cpu", "--quiet", "--out", out];
    dir.stdout_of(&run("whole"));
    dir.stdout_of(&run("survey"));
    // A shot that was not started.
    std::fs::remove_dir_all(dir.path("survey/shot-9")).unwrap();
    let resumed = dir.orrery(&["resume", "survey", "--device", "cpu", "--json", "-"]);
    let summary: Value = serde_json::from_slice(&resumed.stdout).unwrap();
    let steps =
        |key: &str| summary["shots"].as_array().unwrap().iter().map(|shot| shot[key].clone()).collect();
    assert_eq!((steps("first_step"), steps("step")), (vec![20.into(), 0.into()], vec![20.into(); 2]));
    for file in ["seismograms.npy", "seismograms.sgy", "conserved.csv", "case.toml"] {
        let name = format!("shot-9/{file}");
        assert!(dir.bytes(&format!("survey/{name}")) == dir.bytes(&format!("whole/{name}")), "{name}");
    }

    // A new end holds for all shots, also for those that are resumed later without it.
    std::fs::remove_dir_all(dir.path("survey/shot-9")).unwrap();
    dir.orrery(&["resume", "survey", "--device", "cpu", "--quiet", "--end", "30 ms"]);
    std::fs::remove_dir_all(dir.path("survey/shot-7")).unwrap();
    dir.orrery(&["resume", "survey", "--device", "cpu", "--quiet"]);
    dir.stdout_of(&[&run("longer")[..], &["--set", "time.end=30 ms"]].concat());
    for shot in [7, 9] {
        let name = format!("shot-{shot}/seismograms.npy");
        assert!(dir.bytes(&format!("survey/{name}")) == dir.bytes(&format!("longer/{name}")), "{name}");
    }

    // Settings that change results are refused, and so is the case of another survey.
    let error = error_of(&dir, &["resume", "survey", "--set", "wave.velocity=1600"]);
    assert!(error.contains("wave.velocity") && error.starts_with("survey: "), "{error}");
    let other = [&run("survey")[..], &["--resume", "--set", "wave.velocity=1600"]].concat();
    let before = dir.content();
    assert!(error_of(&dir, &other).contains("wave.velocity"), "{}", error_of(&dir, &other));
    assert!(dir.content() == before, "a file has changed");
    dir.write("survey/survey.toml", SHOTS.replace("shot = 9", "shot = 7"));
    let expected =
        "survey/survey.toml: case: got a case of one run, expected a case of waves with several shots";
    assert_eq!(error_of(&dir, &["resume", "survey"]), expected);
    std::fs::remove_file(dir.path("survey/survey.toml")).unwrap();
    assert_eq!(
        error_of(&dir, &["resume", "survey"]),
        "survey: a survey without its survey.toml; orrery run CASE --resume continues its shots"
    );
}

#[test]
fn each_shot_has_its_log() {
    let dir = TestDir::new();
    dir.write("line.toml", SHOTS);
    dir.stdout_of(&["run", "line.toml", "--device", "cpu", "--out", "survey"]);
    let [first, second] = [7, 9].map(|shot| dir.text(&format!("survey/shot-{shot}/run.log")));
    for (log, own, other) in [(&first, "shot-7", "shot-9"), (&second, "shot-9", "shot-7")] {
        assert!(log.lines().next().unwrap().contains("orrery run line.toml"), "{log}");
        assert!(log.contains(own) && !log.contains(other), "{log}");
        assert_eq!(log.matches("1230 nodes, 20 steps").count(), 1, "{log}");
    }
    assert_eq!(first.lines().count(), second.lines().count(), "{first}{second}");
}

#[test]
fn a_survey_is_analysed_and_compared_as_one() {
    let dir = TestDir::new();
    dir.write("line.toml", SHOTS);
    let run = |out| ["run", "line.toml", "--device", "cpu", "--quiet", "--out", out];
    dir.stdout_of(&run("a"));
    dir.stdout_of(&run("b"));
    dir.stdout_of(&["analyze", "a"]);
    let traces = dir.text("a/analysis/traces.csv");
    let shots: Vec<&str> = traces.lines().skip(1).map(|line| line.split(',').nth(1).unwrap()).collect();
    assert_eq!(shots, ["7", "7", "9", "9"]);
    let fields = dir.text("a/analysis/fields.csv");
    assert!(fields.contains("a/shot-7/snapshots/") && fields.contains("a/shot-9/snapshots/"), "{fields}");

    assert!(dir.stdout_of(&["compare", "a", "b"]).ends_with("the runs are equal to the bit\n"));
    let mut bytes = dir.bytes("b/shot-9/seismograms.npy");
    *bytes.last_mut().unwrap() ^= 1;
    dir.write("b/shot-9/seismograms.npy", bytes);
    let different = dir.orrery(&["compare", "a", "b"]);
    assert_eq!(different.status.code(), Some(1));
    std::fs::remove_dir_all(dir.path("b/shot-9")).unwrap();
    let different = dir.orrery(&["compare", "a", "b"]);
    assert_eq!(different.status.code(), Some(1));
    let stdout = String::from_utf8(different.stdout).unwrap();
    assert!(stdout.contains("b has no such shot"), "{stdout}");
    assert_eq!(
        error_of(&dir, &["compare", "a", "b/shot-7"]),
        "a is a survey but b/shot-7 is one run, expected two surveys or two runs"
    );
}

#[test]
fn snapshots_contain_the_nodes_of_the_case() {
    let dir = TestDir::new();
    dir.write("line.toml", SHOTS);
    let part =
        ["wave.snapshot.stride=3", "wave.snapshot.x_from=50 m", "wave.snapshot.y_to=60 m", "wave.shot=7"];
    dir.run("line.toml", "whole", &["wave.shot=7"]);
    dir.run("line.toml", "part", &part);
    dir.run("line.toml", "vti", &[&part[..], &["output.format=vti"]].concat());
    let read = |name: &str| read_volume_npy(&dir.path(name), &Limits::default()).unwrap();
    let (whole, part) = (read("whole/snapshots/snapshot_001.npy"), read("part/snapshots/snapshot_001.npy"));
    // Nodes 10, 13, ... 40 along x and 0, 3, ... 12 along y.
    assert_eq!((whole.nodes, part.nodes), ([41, 30, 1], [11, 5, 1]));
    assert_eq!(part.values[13], whole.values[3 * 41 + 16]);
    assert!(part.values.iter().any(|&value| value != 0.0));
    let (data, labels) =
        read_volume_vti(&dir.path("vti/snapshots/snapshot_001.vti"), &Limits::default()).unwrap();
    assert_eq!(data.values, part.values);
    let frame = labels.frame.unwrap();
    assert_eq!((frame.origin, frame.spacing), ([50.0, 0.0, 0.0], [15.0, 15.0, 5.0]));
}

#[test]
fn velocities_are_read_from_segy() {
    let dir = TestDir::new();
    dir.write("line.toml", SHOTS);
    // A seismogram file with a trace per column of nodes, as a model. The positions of its columns
    // are the midpoints between source and receivers.
    let seismogram = orrery_formats::Seismogram {
        shot: 1,
        dt: 0.005,
        start: 0.0,
        source: [0.0; 3],
        receivers: (0..41).map(|i| [10.0 * f64::from(i), 0.0, 0.0]).collect(),
        precision: orrery_model::Precision::Single,
        samples: (0..41 * 30).map(|k| if k % 30 < 15 { 1500.0 } else { 2000.0 }).collect(),
    };
    orrery_formats::write_seismograms_segy(&dir.path("model.sgy"), &[seismogram], &[]).unwrap();
    assert_eq!(read_model_segy(&dir.path("model.sgy"), &Limits::default()).unwrap().data.nodes, [41, 30, 1]);
    let text = SHOTS.replace("velocity = \"1500 m/s\"", "velocity_file = \"model.sgy\"");
    dir.write("model.toml", &text);
    let layers =
        "velocity = \"1500 m/s\"\nlayer = [{ top = 0, velocity = 1500 }, { top = 75, velocity = 2000 }]";
    dir.write("layers.toml", SHOTS.replace("velocity = \"1500 m/s\"", &layers[layers.find('\n').unwrap()..]));
    dir.run("model.toml", "model", &["wave.shot=7"]);
    dir.run("layers.toml", "layers", &["wave.shot=7"]);
    assert_eq!(dir.bytes("model/seismograms.npy"), dir.bytes("layers/seismograms.npy"));
    // A grid with other spacings. Before, the file was stretched.
    for (key, axis, found) in [("hx", "x", "5 m between traces"), ("hy", "y", "5 m from the sample interval")]
    {
        let set = format!("grid.{key}=10 m");
        // hy is hx unless it is given.
        let sets =
            [["--set", &set], ["--set", if key == "hx" { "grid.hy=5 m" } else { "grid.hx=5 m" }]].concat();
        let output =
            dir.orrery(&[&["run", "model.toml", "--set", "wave.shot=7", "--out", "x"][..], &sets].concat());
        let message = String::from_utf8(output.stderr).unwrap();
        let expected =
            format!("model.sgy: spacing along {axis}: got {found}, expected grid.h{axis} = 10; set the grid");
        assert!(message.contains(&expected), "{message}");
        assert!(!dir.path("x").exists());
    }
    // A file with another shape.
    let output =
        dir.orrery(&["run", "model.toml", "--set", "grid.nx=42", "--set", "wave.shot=7", "--out", "x"]);
    let message = String::from_utf8(output.stderr).unwrap();
    let expected = "model.sgy: the file has 41 x 30 values, expected 42 x 30 as the grid has nodes";
    assert!(message.contains(expected), "{message}");
    assert!(!dir.path("x").exists());
}
