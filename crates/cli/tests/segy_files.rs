//! `info`, `convert`, `compare` and `analyze` with SEG-Y files, and runs with seismograms.

use std::fs;

use orrery_formats::{
    FieldValues, Limits, Seismogram, read_field, read_volume_npy, write_seismogram_npy,
    write_seismograms_segy, write_volume_npy,
};
use orrery_model::Precision;
use serde_json::json;

use crate::common::{PAIR, TestDir, error_of, json_of, text};

/// Returns a shot with three receivers and five samples. All values are exact in f32.
fn shot(number: i32) -> Seismogram {
    Seismogram {
        shot: number,
        dt: 0.0005,
        start: -0.0125,
        source: [1000.5, -20.0, 7.25],
        receivers: vec![[900.5, -20.0, 0.0], [1000.5, -20.0, 0.0], [1100.5, -20.0, 150.0]],
        precision: Precision::Single,
        samples: [[0.0, 0.0, 1.0, -10.0, 5.0], [0.0, 2.0, 20.0, 0.0, 0.0], [0.0; 5]].concat(),
    }
}

fn write_shots(dir: &TestDir, name: &str, shots: &[Seismogram]) {
    write_seismograms_segy(&dir.path(name), shots, &[]).unwrap();
}

/// Writes a model as shots with one receiver each, `traces` columns at distances of 25 m with 4
/// depths at distances of 12.5 m: 1000 + 10 column + depth.
fn write_model(dir: &TestDir, name: &str, traces: usize) {
    let column = |k: usize| Seismogram {
        shot: k as i32 + 1,
        dt: 0.0125,
        start: 0.0,
        source: [25.0 * k as f64 + 25.0, 0.0, 0.0],
        receivers: vec![[25.0 * k as f64 + 25.0, 0.0, 0.0]],
        precision: Precision::Single,
        samples: (0..4).map(|depth| (1000 + 10 * k + depth) as f64).collect(),
    };
    write_shots(dir, name, &(0..traces).map(column).collect::<Vec<_>>());
}

/// Stores big-endian bytes at a position of the header of a trace, which counts from 1.
fn set_in_trace(bytes: &mut [u8], samples: usize, trace: usize, position: usize, value: &[u8]) {
    let start = 3600 + trace * (240 + 4 * samples);
    bytes[start + position - 1..][..value.len()].copy_from_slice(value);
}

/// Writes shot.sgy with one shot, line.sgy with the shots 1 and 7, model.sgy with a section, and
/// pair.xyz.
fn test_dir() -> TestDir {
    let dir = TestDir::new();
    write_shots(&dir, "shot.sgy", &[shot(1)]);
    let second = Seismogram { source: [1100.5, -20.0, 7.25], ..shot(7) };
    write_shots(&dir, "line.sgy", &[shot(1), second]);
    write_model(&dir, "model.sgy", 6);
    dir.write("pair.xyz", PAIR);
    dir
}

#[test]
fn info_describes_shots_and_traces() {
    let dir = test_dir();
    assert_eq!(
        dir.stdout_of(&["info", "line.sgy"]),
        "line.sgy
  format     SEG-Y seismograms, f32
  shots      2, numbers 1 to 7
  traces     6, 3 per shot
  samples    5 per trace
  interval   0.0005 s
  first time -0.0125 s
  last time  -0.0105 s
  sources    x 1000.5 to 1100.5, y -20, depth 7.25
  receivers  x 900.5 to 1100.5, y -20, depth 0 to 150
  offsets    -200 to 100
  minimum    -10.000000
  maximum    20.000000
"
    );
    let file = &json_of(&dir, &["info", "line.sgy"])["files"][0];
    assert_eq!((&file["shots"], &file["traces"], &file["samples"]), (&json!(2), &json!(6), &json!(5)));
    assert_eq!((&file["interval"], &file["offsets"]), (&json!(0.0005), &json!([-200.0, 100.0])));
    assert_eq!((&file["receivers"]["depth"], &file["shot_numbers"]), (&json!([0.0, 150.0]), &json!([1, 7])));
    assert!(dir.stdout_of(&["info", "shot.sgy"]).contains("  shots      1, number 1\n"));
    // NaN does not hide the range.
    let mut broken = shot(1);
    broken.samples[3] = f64::NAN;
    write_shots(&dir, "nan.sgy", &[broken]);
    let stdout = dir.stdout_of(&["info", "nan.sgy"]);
    assert!(
        stdout.ends_with("  maximum    20.000000\n  problem    1 value is NaN or infinite\n"),
        "{stdout}"
    );
}

/// All samples of a model are positive.
#[test]
fn info_recognises_models() {
    let dir = test_dir();
    assert_eq!(
        dir.stdout_of(&["info", "model.sgy"]),
        "model.sgy
  format     SEG-Y model, f32
  nodes      6 x 4
  spacing    25 x 12.5
  x          0.000000 to 125.000000
  y          0.000000 to 37.500000
  minimum    1000.000000
  maximum    1053.000000
  mean       1026.500000
"
    );
}

#[test]
fn segy_is_recognised_without_its_extension() {
    let dir = test_dir();
    for name in ["line.sgy", "model.sgy"] {
        dir.write("copy.dat", dir.bytes(name));
        let equal = dir.stdout_of(&["compare", name, "copy.dat"]);
        assert!(equal.starts_with(&format!("{name} and copy.dat: equal to the bit, ")), "{equal}");
    }
    dir.write("COPY.SEGY", dir.bytes("line.sgy"));
    assert!(dir.stdout_of(&["info", "COPY.SEGY"]).contains("SEG-Y seismograms"));
    assert_eq!(
        error_of(&dir, &["forces", "line.sgy"]),
        "line.sgy: byte 0: got a field (SEG-Y), expected a GADGET (HDF5 or binary), extended XYZ or NPZ file"
    );
}

#[test]
fn a_shot_is_converted_to_arrays_tables_and_plots() {
    let dir = test_dir();
    assert_eq!(dir.stdout_of(&["convert", "shot.sgy", "a.npy"]), "wrote 3 traces of 5 samples to a.npy\n");
    write_seismogram_npy(&dir.path("expected.npy"), &shot(1)).unwrap();
    assert_eq!(dir.bytes("a.npy"), dir.bytes("expected.npy"));
    dir.stdout_of(&["convert", "line.sgy", "a.csv", "--shot", "7"]);
    let table = dir.text("a.csv");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "time,x=900.5 y=-20 depth=0,x=1000.5 y=-20 depth=0,x=1100.5 y=-20 depth=150");
    assert_eq!(lines.len(), 6);
    assert!(lines[3].ends_with(",1,20,0"), "{}", lines[3]);
    dir.stdout_of(&["convert", "shot.sgy", "a.svg"]);
    let svg = dir.text("a.svg");
    assert!(svg.starts_with("<svg ") && svg.contains("shot.sgy, shot 1"), "{svg}");
    dir.stdout_of(&["convert", "shot.sgy", "a.png"]);
    let image = read_field(&dir.path("a.png"), &Limits::default()).unwrap();
    assert_eq!(image.data.nodes, [960, 720, 1]);
}

#[test]
fn a_model_is_converted_to_fields() {
    let dir = test_dir();
    assert_eq!(dir.stdout_of(&["convert", "model.sgy", "a.npy"]), "wrote 6 x 4 nodes to a.npy\n");
    let data = read_volume_npy(&dir.path("a.npy"), &Limits::default()).unwrap();
    let expected: Vec<f64> = (0..24).map(|k| (1000 + 10 * (k % 6) + k / 6) as f64).collect();
    assert_eq!((data.nodes, data.precision, data.values), ([6, 4, 1], Precision::Single, expected));
    dir.stdout_of(&["convert", "model.sgy", "part.vti", "--window", "x=2..", "--stride", "2"]);
    let part = read_field(&dir.path("part.vti"), &Limits::default()).unwrap();
    assert_eq!(part.data.values, [1020.0, 1040.0, 1022.0, 1042.0]);
    let frame = part.labels.frame.unwrap();
    assert_eq!((&frame.origin[..2], &frame.spacing[..2]), (&[50.0, 0.0][..], &[50.0, 25.0][..]));
    dir.stdout_of(&["convert", "model.sgy", "a.png"]);
    // Both kinds of data can be requested.
    let message = error_of(&dir, &["convert", "model.sgy", "b.csv", "--as", "seismograms"]);
    assert!(message.starts_with("model.sgy: 6 shots with the numbers 1 to 6, expected one"), "{message}");
    // Its first time is not 0.
    assert_eq!(
        error_of(&dir, &["convert", "shot.sgy", "b.npy", "--as", "model"]),
        "shot.sgy: trace 1, first sample: got -12.5 ms, expected 0: the first node of a model is at depth 0"
    );
    write_shots(&dir, "from-zero.sgy", &[Seismogram { start: 0.0, ..shot(1) }]);
    dir.stdout_of(&["convert", "from-zero.sgy", "b.npy", "--as", "model"]);
    assert_eq!(read_volume_npy(&dir.path("b.npy"), &Limits::default()).unwrap().nodes, [3, 5, 1]);
    // Three axes, if inlines and crosslines vary.
    let mut bytes = dir.bytes("model.sgy");
    for k in 0..6usize {
        let (inline, crossline, x, y) = (1 + k / 3, 1 + k % 3, 30 * (k % 3) + 30, 40 * (k / 3));
        for (position, value) in [(189, inline), (193, crossline), (181, x), (185, y)] {
            set_in_trace(&mut bytes, 4, k, position, &(value as i32).to_be_bytes());
        }
    }
    dir.write("volume.sgy", bytes);
    let stdout = dir.stdout_of(&["info", "volume.sgy"]);
    assert!(
        stdout.contains("  nodes      3 x 2 x 4\n") && stdout.contains("  spacing    30 x 40 x 12.5\n"),
        "{stdout}"
    );
    dir.stdout_of(&["convert", "volume.sgy", "slice.npy", "--window", "z=3"]);
    let slice = read_volume_npy(&dir.path("slice.npy"), &Limits::default()).unwrap();
    assert_eq!(slice.values, [1003.0, 1013.0, 1023.0, 1033.0, 1043.0, 1053.0]);
    // An NPY file and a SEG-Y model can be compared.
    dir.stdout_of(&["convert", "volume.sgy", "volume.npy"]);
    assert_eq!(
        dir.stdout_of(&["compare", "volume.sgy", "volume.npy"]),
        "volume.sgy and volume.npy: equal to the bit, 24 nodes\n"
    );
}

#[test]
fn conversions_without_a_meaning_are_refused() {
    let dir = test_dir();
    let before = dir.content();
    for (arguments, message) in [
        (
            &["line.sgy", "new.npy"][..],
            "line.sgy: 2 shots with the numbers 1 to 7, expected one; --shot NUMBER selects it",
        ),
        (
            &["line.sgy", "new.npy", "--shot", "3"],
            "--shot 3: line.sgy has the numbers 1 to 7, expected one of them",
        ),
        (
            &["shot.sgy", "new.vti"],
            "new.vti: shot.sgy has seismograms, expected a file to write with the extension .npy, .csv, .svg or .png",
        ),
        (
            &["shot.sgy", "new.sgy"],
            "new.sgy: shot.sgy has seismograms, expected a file to write with the extension .npy, .csv, .svg or .png",
        ),
        (
            &["model.sgy", "new.csv"],
            "new.csv: model.sgy is a model, expected a file to write with the extension .npy, .vti or .png",
        ),
        (&["shot.sgy", "new.npy", "--stride", "2"], "--stride: shot.sgy has seismograms, expected a field"),
        (
            &["model.sgy", "new.npy", "--shot", "1"],
            "--shot: model.sgy is a model, expected SEG-Y seismograms",
        ),
        (
            &["shot.sgy", "new.npy", "--cosmological", "physical"],
            "--cosmological: shot.sgy is SEG-Y, expected a snapshot of bodies",
        ),
        (&["pair.xyz", "new.npz", "--as", "model"], "--as: pair.xyz has bodies, expected a SEG-Y file"),
        (
            &["pair.xyz", "new.sgy"],
            "new.sgy: pair.xyz has bodies, expected a file to write with the extension .hdf5, .xyz or .npz",
        ),
        (&["gone.sgy", "new.npy"], "gone.sgy: no such file or directory"),
    ] {
        assert_eq!(error_of(&dir, &[&["convert"], arguments].concat()), message);
    }
    assert!(dir.content() == before);
}

#[test]
fn compare_reports_headers_and_samples() {
    let dir = test_dir();
    let mut changed = shot(1);
    changed.samples[8] = 0.5;
    write_shots(&dir, "changed.sgy", &[changed.clone()]);
    assert_eq!(
        dir.stdout_of(&["compare", "shot.sgy", "shot.sgy"]),
        "shot.sgy and shot.sgy: equal to the bit, 3 traces of 1 shot\n"
    );
    let output = dir.orrery(&["compare", "shot.sgy", "changed.sgy"]);
    assert_eq!(output.status.code(), Some(1));
    // The range is -10 to 20. rms: 0.5 / sqrt(15).
    assert_eq!(
        text(&output.stdout),
        "shot.sgy and changed.sgy: different, 3 traces of 1 shot compared
  column     differing      relative      absolute  largest at
  samples            1      1.667e-2      5.000e-1  shot 1, receiver 2, t = -0.011: 0e0 and 5e-1
  rms difference 1.291e-1, range of the values 3.000e1
"
    );
    changed.samples = shot(1).samples;
    changed.source = [0.0, 0.0, 1.0];
    changed.receivers[1] = [1.0, 2.0, 3.0];
    changed.dt = 0.001;
    write_shots(&dir, "headers.sgy", &[changed]);
    let output = dir.orrery(&["compare", "shot.sgy", "headers.sgy"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stdout),
        "shot.sgy and headers.sgy: different, 3 traces of 1 shot compared
  shot 1: interval 0.0005 and 0.001
  shot 1: source (1000.5, -20, 7.25) and (0, 0, 1)
  shot 1: receiver 2 (1000.5, -20, 0) and (1, 2, 3)
"
    );
    let output = dir.orrery(&["compare", "shot.sgy", "line.sgy"]);
    assert!(text(&output.stdout).contains("\n  only line.sgy has shot 7\n"), "{}", text(&output.stdout));
    let shorter = Seismogram { samples: vec![1.0, 0.0, -1.0], ..shot(1) };
    write_shots(&dir, "shorter.sgy", &[shorter]);
    let stdout = text(&dir.orrery(&["compare", "shot.sgy", "shorter.sgy"]).stdout);
    assert!(
        stdout.contains("different, 0 traces of 0 shots compared\n  shot 1: samples 5 and 1\n"),
        "{stdout}"
    );
    let json = json_of(&dir, &["compare", "shot.sgy", "line.sgy"]);
    assert_eq!((&json["equal"], &json["files"][0]["columns"]), (&json!(false), &json!([])));
    assert_eq!(
        error_of(&dir, &["compare", "shot.sgy", "model.sgy"]),
        "shot.sgy has seismograms but model.sgy is a field, expected two files of the same kind"
    );
}

#[test]
fn analyze_gives_arrival_times_and_amplitudes() {
    let dir = test_dir();
    let stdout = dir.stdout_of(&["analyze", "shot.sgy", "-o", "out"]);
    assert!(
        stdout.starts_with("3 traces, times in s, first break at 5% of the largest amplitude of a trace\n"),
        "{stdout}"
    );
    assert_eq!(dir.list("out"), ["traces.csv", "traces.svg"]);
    let table = dir.text("out/traces.csv");
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(
        rows[0].join(","),
        "file,shot,receiver,x,y,depth,offset,first_break [s],peak_time [s],peak,rms"
    );
    let number = |row: usize, column: usize| rows[row][column].parse::<f64>().unwrap();
    // The first trace reaches 0.5 in the middle of the second interval, the second one reaches 1 in
    // the middle of the first interval.
    for (row, offset, first_break, peak_time, peak) in
        [(1, -100.0, -0.01175, -0.011, -10.0), (2, 0.0, -0.01225, -0.0115, 20.0)]
    {
        assert_eq!((number(row, 6), number(row, 9)), (offset, peak));
        // Sums of two numbers with rounding errors of 1e-18.
        assert!((number(row, 7) - first_break).abs() < 1e-16, "{table}");
        assert!((number(row, 8) - peak_time).abs() < 1e-16, "{table}");
    }
    assert_eq!((rows[3][7], rows[3][8], rows[3][9]), ("", "", "0e0"));
    let json = json_of(&dir, &["analyze", "line.sgy", "shot.sgy"]);
    let traces = json["traces"].as_array().unwrap();
    assert_eq!(traces.len(), 9);
    assert_eq!((&traces[3]["shot"], &traces[3]["offset"]), (&json!(7), &json!(-200.0)));
    assert_eq!((&traces[2]["first_break"], &traces[0]["peak"]), (&json!(null), &json!(-10.0)));
    // A model is measured as a field.
    let json = json_of(&dir, &["analyze", "model.sgy"]);
    assert_eq!((&json["fields"][0]["maximum"], &json["traces"]), (&json!(1053.0), &json!(null)));
    let mut broken = shot(1);
    broken.samples[6] = f64::INFINITY;
    write_shots(&dir, "bad.sgy", &[broken]);
    for (arguments, message) in [
        (&["bad.sgy"][..], "bad.sgy: shot 1, receiver 2, sample 2: got inf, expected a finite value"),
        (
            &["shot.sgy", "model.sgy"],
            "model.sgy is a model, but shot.sgy has seismograms; expected files of one kind",
        ),
        (&["pair.xyz", "shot.sgy"], "pair.xyz has bodies, but shot.sgy is SEG-Y; expected files of one kind"),
        (&["shot.sgy", "--softening", "1"], "--softening: shot.sgy is SEG-Y, expected a snapshot of bodies"),
        (
            &["shot.sgy", "-o", "out"],
            "out/traces.csv: exists already, expected a new file; --force replaces it",
        ),
    ] {
        assert_eq!(error_of(&dir, &[&["analyze"], arguments].concat()), message);
    }
}

#[test]
fn long_tables_are_cut_on_the_terminal_only() {
    let dir = TestDir::new();
    let receivers: Vec<[f64; 3]> = (0..60).map(|k| [f64::from(k), 0.0, 0.0]).collect();
    write_shots(&dir, "long.sgy", &[Seismogram { samples: vec![-1.0; 120], receivers, ..shot(1) }]);
    let stdout = dir.stdout_of(&["analyze", "long.sgy", "-o", "out"]);
    assert!(stdout.contains("\n10 traces more; -o DIR and --json FILE write all of them\n"), "{stdout}");
    assert_eq!(dir.text("out/traces.csv").lines().count(), 61);
}

#[test]
fn damaged_segy_files_are_refused() {
    let dir = test_dir();
    let whole = dir.bytes("shot.sgy");
    dir.write("cut.sgy", &whole[..whole.len() - 1]);
    dir.write("short.sgy", &whole[..3000]);
    dir.write("text.sgy", "not SEG-Y");
    let change = |name: &str, trace: usize, position: usize, value: &[u8]| {
        let mut bytes = whole.clone();
        set_in_trace(&mut bytes, 5, trace, position, value);
        dir.write(name, bytes);
    };
    change("samples.sgy", 1, 115, &9u16.to_be_bytes());
    change("interval.sgy", 2, 117, &250u16.to_be_bytes());
    change("source.sgy", 1, 73, &77i32.to_be_bytes());
    let mut bytes = whole.clone();
    bytes[3224..3226].copy_from_slice(&9i16.to_be_bytes());
    dir.write("format.sgy", bytes);
    for (file, message) in [
        (
            "cut.sgy",
            "file: got 779 bytes after the headers, expected traces of 260 bytes, 5 samples of 4 each",
        ),
        ("short.sgy", "file: got 3000 bytes, expected at least 3600, the headers of SEG-Y"),
        ("text.sgy", "file: got 9 bytes, expected at least 3600, the headers of SEG-Y"),
        ("samples.sgy", "trace 2, number of samples: got 9, expected 5, that of the binary header"),
        ("interval.sgy", "trace 3, sample interval: got 250 us, expected 500 us, that of the binary header"),
        (
            "source.sgy",
            "trace 2, source: got [7.7, -20.0, 7.25], expected [1000.5, -20.0, 7.25], that of shot 1",
        ),
        (
            "format.sgy",
            "binary header, format code: got 9, expected 1 (IBM float), 2 (i32), 3 (i16) or 5 (IEEE f32)",
        ),
    ] {
        let expected = format!("{file}: {message}");
        assert_eq!(error_of(&dir, &["info", file]), expected);
        assert_eq!(error_of(&dir, &["convert", file, "new.npy"]), expected);
        assert_eq!(error_of(&dir, &["compare", "shot.sgy", file]), expected);
        assert_eq!(error_of(&dir, &["analyze", file]), expected);
    }
    let message = error_of(&dir, &["info", "shot.sgy", "--max-memory", "200"]);
    assert!(message.starts_with("shot.sgy: 15 values need "), "{message}");
}

/// The folder of a run of waves, without the simulation.
fn write_run(dir: &TestDir, name: &str, shot: &Seismogram) {
    fs::create_dir_all(dir.path(name).join("snapshots")).unwrap();
    let path = |file: &str| dir.path(name).join(file);
    fs::write(path("conserved.csv"), "step,time,energy\n0,0e0,1e0\n").unwrap();
    let field = FieldValues::Double(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    write_volume_npy(&path("snapshots/snapshot_000.npy"), [2; 3], field).unwrap();
    write_volume_npy(&path("post-mortem.npy"), [1; 3], FieldValues::Double(&[f64::NAN])).unwrap();
    write_seismogram_npy(&path("seismograms.npy"), shot).unwrap();
    write_seismograms_segy(&path("seismograms.sgy"), std::slice::from_ref(shot), &[]).unwrap();
}

#[test]
fn seismograms_of_runs_are_compared_and_analysed() {
    let dir = TestDir::new();
    let mut changed = shot(1);
    changed.samples[3] = 4.0;
    for (name, shot) in [("a", &shot(1)), ("same", &shot(1)), ("b", &changed)] {
        write_run(&dir, name, shot);
    }
    let stdout = dir.stdout_of(&["compare", "a", "same"]);
    assert_eq!(
        stdout,
        "a/seismograms.npy and same/seismograms.npy: equal to the bit, 15 nodes
a/seismograms.sgy and same/seismograms.sgy: equal to the bit, 3 traces of 1 shot
a/snapshots/snapshot_000.npy and same/snapshots/snapshot_000.npy: equal to the bit, 8 nodes
a/conserved.csv and same/conserved.csv: equal to the bit, 1 row
the runs are equal to the bit
"
    );
    let output = dir.orrery(&["compare", "a", "b"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).ends_with("the runs differ in 2 of 4 files\n"), "{}", text(&output.stdout));
    fs::remove_file(dir.path("b/seismograms.sgy")).unwrap();
    let output = dir.orrery(&["compare", "a", "b"]);
    assert!(text(&output.stdout).contains("a/seismograms.sgy: different"), "{}", text(&output.stdout));
    // A run without snapshots.
    for name in ["a", "same"] {
        fs::remove_dir_all(dir.path(name).join("snapshots")).unwrap();
    }
    let stdout = dir.stdout_of(&["compare", "a", "same"]);
    assert_eq!(stdout.lines().filter(|line| line.contains("seismograms.")).count(), 2, "{stdout}");
    write_run(&dir, "a", &shot(1));
    let json = json_of(&dir, &["analyze", "a"]);
    assert_eq!((json["fields"].as_array().unwrap().len(), json["traces"].as_array().unwrap().len()), (1, 3));
    assert_eq!(dir.list("a/analysis"), ["fields.csv", "fields.svg", "traces.csv", "traces.svg"]);
}
