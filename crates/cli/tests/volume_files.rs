//! `info`, `convert`, `compare` and `analyze` with fields in three dimensions.

use orrery_formats::{
    FieldFrame, FieldLabels, FieldValues, Limits, read_field, read_volume_npy, write_volume_npy,
    write_volume_vti,
};
use serde_json::{Value, json};

use crate::common::{TestDir, error_of, json_of, text};

/// Nodes along x, y and z.
const NODES: [usize; 3] = [4, 3, 2];

/// u = k - 4 at node k.
fn values() -> [f64; 24] {
    std::array::from_fn(|k| k as f64 - 4.0)
}

fn labels(time: f64) -> FieldLabels<3> {
    FieldLabels {
        name: Some("pressure".to_owned()),
        unit: Some("Pa".to_owned()),
        time: Some(time),
        frame: Some(FieldFrame { origin: [1.0, 0.0, -2.0], spacing: [0.5, 0.25, 2.0] }),
        ..FieldLabels::default()
    }
}

fn write_vti(dir: &TestDir, name: &str, time: f64, values: &[f64]) {
    write_volume_vti(&dir.path(name), NODES, &labels(time), FieldValues::Double(values)).unwrap();
}

/// Writes volume.npy and volume.vti with f64 at time 0.125, and plane.npy of 4 x 3 nodes.
fn test_dir() -> TestDir {
    let dir = TestDir::new();
    write_volume_npy(&dir.path("volume.npy"), NODES, FieldValues::Double(&values())).unwrap();
    write_vti(&dir, "volume.vti", 0.125, &values());
    write_volume_npy(&dir.path("plane.npy"), [4, 3, 1], FieldValues::Double(&values()[..12])).unwrap();
    dir
}

#[test]
fn info_shows_three_axes_and_the_memory() {
    let dir = test_dir();
    assert_eq!(
        dir.stdout_of(&["info", "volume.npy", "volume.vti"]),
        "volume.npy
  format     NPY, f64
  nodes      4 x 3 x 2
  memory     192.0 B
  minimum    -4.000000
  maximum    19.000000
  mean       7.500000
volume.vti
  format     VTK image data, f64
  nodes      4 x 3 x 2
  memory     192.0 B
  name       pressure
  unit       Pa
  time       0.125
  spacing    0.5 x 0.25 x 2
  x          1.000000 to 2.500000
  y          0.000000 to 0.500000
  z          -2.000000 to 0.000000
  minimum    -4.000000
  maximum    19.000000
  mean       7.500000
"
    );
    let file = &json_of(&dir, &["info", "volume.vti"])["files"][0];
    assert_eq!((&file["nodes"], &file["spacing"]), (&json!([4, 3, 2]), &json!([0.5, 0.25, 2.0])));
    assert_eq!((&file["extent"]["z"], &file["memory"]), (&json!([-2.0, 0.0]), &json!(192)));
    let file = &json_of(&dir, &["info", "plane.npy"])["files"][0];
    assert_eq!((&file["nodes"], &file["extent"]), (&json!([4, 3]), &Value::Null));
}

#[test]
fn convert_keeps_all_bits_of_a_volume() {
    let dir = test_dir();
    assert_eq!(dir.stdout_of(&["convert", "volume.vti", "a.npy"]), "wrote 4 x 3 x 2 nodes to a.npy\n");
    assert_eq!(dir.bytes("a.npy"), dir.bytes("volume.npy"));
    dir.stdout_of(&["convert", "volume.vti", "a.vti"]);
    assert_eq!(dir.bytes("a.vti"), dir.bytes("volume.vti"));
    assert_eq!(
        dir.stdout_of(&["convert", "a.npy", "b.vti"]),
        "wrote 4 x 3 x 2 nodes to b.vti with a spacing of 1, since the input has none\n"
    );
    dir.stdout_of(&["convert", "b.vti", "b.npy"]);
    assert_eq!(dir.bytes("b.npy"), dir.bytes("volume.npy"));
    // f32 stays f32.
    write_volume_npy(&dir.path("single.npy"), NODES, FieldValues::Single(&[0.1; 24])).unwrap();
    dir.stdout_of(&["convert", "single.npy", "single.vti"]);
    dir.stdout_of(&["convert", "single.vti", "same.npy"]);
    assert_eq!(dir.bytes("single.npy"), dir.bytes("same.npy"));
}

#[test]
fn windows_and_strides_select_nodes_with_their_coordinates() {
    let dir = test_dir();
    let stdout = dir.stdout_of(&[
        "convert",
        "volume.vti",
        "part.vti",
        "--window",
        "x=1..",
        "--window",
        "y=0..3",
        "--stride",
        "2",
    ]);
    assert_eq!(stdout, "wrote 2 x 2 nodes to part.vti\n");
    let part = read_field(&dir.path("part.vti"), &Limits::default()).unwrap();
    // Nodes 1 and 3 along x, 0 and 2 along y, 0 along z.
    assert_eq!(part.data.values, [-3.0, -1.0, 5.0, 7.0]);
    let frame = part.labels.frame.unwrap();
    assert_eq!((frame.origin, frame.spacing), ([1.5, 0.0, -2.0], [1.0, 0.5, 4.0]));
    assert_eq!(part.labels.time, Some(0.125));
    // A plane normal to y is an array with two axes.
    dir.stdout_of(&["convert", "volume.npy", "plane-y.npy", "--window", "y=1"]);
    let plane = read_volume_npy(&dir.path("plane-y.npy"), &Limits::default()).unwrap();
    assert_eq!(plane.nodes, [4, 2, 1]);
    assert_eq!(plane.values, [0.0, 1.0, 2.0, 3.0, 12.0, 13.0, 14.0, 15.0]);
    // Image data keep the position of the plane.
    dir.stdout_of(&["convert", "volume.vti", "plane-y.vti", "--window", "y=1"]);
    assert!(dir.bytes("plane-y.vti").windows(31).any(|bytes| bytes == br#"WholeExtent="0 3 0 0 0 1" Origi"#));
    let stdout = dir.stdout_of(&["info", "plane-y.vti"]);
    assert!(stdout.contains("  spacing    0.5 x 2\n"), "{stdout}");
    // Windows of planes work as well.
    dir.stdout_of(&["convert", "plane.npy", "corner.npy", "--window", "x=2..4", "--window", "y=..1"]);
    let corner = read_volume_npy(&dir.path("corner.npy"), &Limits::default()).unwrap();
    assert_eq!((corner.nodes, corner.values), ([2, 1, 1], vec![-2.0, -1.0]));
}

#[test]
fn a_slice_of_a_volume_is_drawn() {
    let dir = TestDir::new();
    let values: Vec<f64> = (0..125).map(f64::from).collect();
    write_volume_npy(&dir.path("cube.npy"), [5; 3], FieldValues::Double(&values)).unwrap();
    for (window, file) in [("x=2", "x.png"), ("y=2", "y.png"), ("z=4", "z.png")] {
        let stdout = dir.stdout_of(&["convert", "cube.npy", file, "--window", window]);
        assert!(stdout.starts_with("wrote a picture of "), "{stdout}");
    }
    assert_eq!(
        error_of(&dir, &["convert", "cube.npy", "new.png"]),
        "new.png: cube.npy has 5 x 5 x 5 nodes, expected a plane for a picture; --window z=0 selects one"
    );
}

#[test]
fn convert_refuses_windows_that_do_not_fit() {
    let dir = test_dir();
    dir.write("pair.xyz", crate::common::PAIR);
    let before = dir.content();
    for (arguments, message) in [
        (
            &["volume.npy", "new.npy", "--window", "z=1..3"][..],
            "volume.npy: window along z: got nodes 1..3, expected a range within 0..2",
        ),
        (
            &["volume.npy", "new.npy", "--window", "x=3..3"],
            "volume.npy: window along x: got nodes 3..3, expected a range within 0..4",
        ),
        (
            &["plane.npy", "new.npy", "--window", "z=1"],
            "plane.npy: window along z: got nodes 1..2, expected a range within 0..1",
        ),
        (
            &["volume.npy", "new.npy", "--window", "x=1", "--window", "x=2"],
            "--window: two ranges along x, expected at most one",
        ),
        (&["pair.xyz", "new.npz", "--stride", "2"], "--stride: pair.xyz has bodies, expected a field"),
        (&["pair.xyz", "new.npz", "--window", "x=1"], "--window: pair.xyz has bodies, expected a field"),
        (
            &["volume.npy", "new.npy", "--shot", "1"],
            "--shot: volume.npy is a field, expected SEG-Y seismograms",
        ),
        (&["volume.npy", "new.npy", "--as", "model"], "--as: volume.npy is a field, expected a SEG-Y file"),
        (
            &["volume.npy", "new.sgy"],
            "new.sgy: volume.npy is a field, expected a file to write with the extension .npy, .vti or .png",
        ),
    ] {
        assert_eq!(error_of(&dir, &[&["convert"], arguments].concat()), message);
    }
    for (flag, value) in [("--stride", "0"), ("--stride", "-1"), ("--window", "w=1"), ("--window", "x=a..b")]
    {
        let output = dir.orrery(&["convert", "volume.npy", "new.npy", flag, value]);
        assert_eq!(output.status.code(), Some(2), "{flag} {value}");
        assert!(text(&output.stderr).contains(flag), "{}", text(&output.stderr));
    }
    assert!(dir.content() == before);
}

#[test]
fn compare_finds_the_node_of_the_largest_difference() {
    let dir = test_dir();
    assert_eq!(
        dir.stdout_of(&["compare", "volume.npy", "volume.vti"]),
        "volume.npy and volume.vti: equal to the bit, 24 nodes\n"
    );
    let mut changed = values();
    // Node (1, 2, 1).
    changed[21] -= 2.0;
    write_vti(&dir, "other.vti", 0.125, &changed);
    let output = dir.orrery(&["compare", "volume.vti", "other.vti"]);
    assert_eq!(output.status.code(), Some(1));
    let stdout = text(&output.stdout);
    assert!(stdout.contains("node (1, 2, 1) at x = 1.5, y = 0.5, z = 0: 1.7e1 and 1.5e1\n"), "{stdout}");
    let column = &json_of(&dir, &["compare", "volume.vti", "other.vti"])["files"][0]["columns"][0];
    assert_eq!(
        (&column["node"], &column["position"], &column["absolute"]),
        (&json!([1, 2, 1]), &json!([1.5, 0.5, 0.0]), &json!(2.0))
    );
    assert_eq!(
        error_of(&dir, &["compare", "volume.npy", "plane.npy"]),
        "plane.npy: 4 x 3 nodes, but volume.npy has 4 x 3 x 2; expected fields with the same nodes"
    );
    let mut shifted = labels(0.125);
    shifted.frame = Some(FieldFrame { origin: [0.0; 3], spacing: [0.5, 0.25, 1.0] });
    write_volume_vti(&dir.path("shifted.vti"), NODES, &shifted, FieldValues::Double(&values())).unwrap();
    let output = dir.orrery(&["compare", "volume.vti", "shifted.vti"]);
    let stdout = text(&output.stdout);
    assert!(stdout.contains("\n  spacing 0.5 x 0.25 x 2 and 0.5 x 0.25 x 1\n"), "{stdout}");
    assert!(stdout.contains("\n  first node at (1, 0, -2) and (0, 0, 0)\n"), "{stdout}");
}

#[test]
fn analyze_gives_range_rms_and_the_place_of_the_largest_value() {
    let dir = test_dir();
    let mut negative = values();
    negative[6] = -40.0;
    write_vti(&dir, "late.vti", 0.5, &negative);
    let stdout = dir.stdout_of(&["analyze", "late.vti", "volume.vti", "-o", "out"]);
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[0], "2 fields, unit Pa");
    assert!(lines[3].contains("volume.vti, x = 2.5, y = 0.5, z = 0"), "{stdout}");
    assert!(lines[4].contains("-4.000000e1  late.vti, x = 2, y = 0.25, z = -2"), "{stdout}");
    let rows: Vec<String> = dir.text("out/fields.csv").lines().map(str::to_owned).collect();
    // Mean 7.5, variance (24² - 1) / 12.
    let deviation = (575.0f64 / 12.0).sqrt();
    let rms = 7.5f64.hypot(deviation);
    assert_eq!(rows[1], format!("volume.vti,1.25e-1,-4e0,1.9e1,7.5e0,{deviation:e},,{rms:e},1.9e1,3,2,1"));
    assert!(rows[2].ends_with(",-4e1,2,1,0"), "{}", rows[2]);
    let json = json_of(&dir, &["analyze", "volume.npy"]);
    let row = &json["fields"][0];
    assert_eq!(
        (&row["node"], &row["position"], &row["heat"]),
        (&json!([3, 2, 1]), &Value::Null, &Value::Null)
    );
    assert_eq!((&row["largest"], &row["nodes"]), (&json!(19.0), &json!([4, 3, 2])));
    let stdout = dir.stdout_of(&["analyze", "volume.npy"]);
    assert!(stdout.contains("volume.npy, node (3, 2, 1)\n"), "{stdout}");
    negative[6] = f64::NAN;
    write_vti(&dir, "nan.vti", 0.0, &negative);
    assert_eq!(
        error_of(&dir, &["analyze", "nan.vti"]),
        "nan.vti: node (2, 1, 0): got NaN, expected a finite value"
    );
}

#[test]
fn damaged_volumes_are_refused() {
    let dir = test_dir();
    dir.write("cut.npy", &dir.bytes("volume.npy")[..300]);
    dir.write("cut.vti", &dir.bytes("volume.vti")[..700]);
    let header = |shape: &str| {
        let text = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
        let padded = format!("{text:<117}\n");
        [&b"\x93NUMPY\x01\x00"[..], &118u16.to_le_bytes(), padded.as_bytes(), &[0; 128]].concat()
    };
    dir.write("four.npy", header("(2, 2, 2, 2)"));
    dir.write("huge.npy", header("(100000, 100000, 100000)"));
    for command in ["info", "analyze"] {
        for file in ["cut.npy", "cut.vti", "four.npy", "huge.npy"] {
            let message = error_of(&dir, &[command, file]);
            assert!(message.starts_with(&format!("{file}: ")), "{message}");
        }
    }
    assert_eq!(
        error_of(&dir, &["info", "four.npy"]),
        "four.npy: array four: got shape [2, 2, 2, 2], expected shape [nz, ny, nx] or [ny, nx]"
    );
    assert_eq!(
        error_of(&dir, &["info", "volume.npy", "--max-memory", "191"]),
        "volume.npy: 24 values need 192.0 B of memory, the limit is 191.0 B"
    );
}
