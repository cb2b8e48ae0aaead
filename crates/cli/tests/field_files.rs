//! `info`, `convert`, `compare` and `analyze` with files of fields.

use orrery_formats::{FieldValues, Limits, read_field, write_field_npy, write_field_vti};
use orrery_model::grid::Grid;
use serde_json::Value;

use crate::common::{PAIR, TestDir, error_of, json_of, text};

const GRID: Grid = Grid { nx: 4, ny: 3, hx: 0.5, hy: 0.25 };

/// u = k at node k.
fn values() -> [f64; 12] {
    std::array::from_fn(|k| k as f64)
}

/// Writes plate.npy and plate.vti with f64 at time 0.125, and pair.xyz with two bodies.
fn test_dir() -> TestDir {
    let dir = TestDir::new();
    write_field_npy(&dir.path("plate.npy"), &GRID, FieldValues::Double(&values())).unwrap();
    write_vti(&dir, "plate.vti", 0.125, &values());
    dir.write("pair.xyz", PAIR);
    dir
}

fn write_vti(dir: &TestDir, name: &str, time: f64, values: &[f64]) {
    write_field_vti(&dir.path(name), &GRID, "temperature", time, FieldValues::Double(values)).unwrap();
}

#[test]
fn info_shows_shape_range_and_labels() {
    let dir = test_dir();
    assert_eq!(
        dir.stdout_of(&["info", "plate.npy", "plate.vti"]),
        "plate.npy
  format     NPY, f64
  nodes      4 x 3
  minimum    0.000000
  maximum    11.000000
  mean       5.500000
plate.vti
  format     VTK image data, f64
  nodes      4 x 3
  name       temperature
  time       0.125
  spacing    0.5 x 0.25
  x          0.000000 to 1.500000
  y          0.000000 to 0.500000
  minimum    0.000000
  maximum    11.000000
  mean       5.500000
"
    );
    let json = json_of(&dir, &["info", "plate.vti", "plate.npy"]);
    let [vti, npy] = [&json["files"][0], &json["files"][1]];
    assert_eq!(
        (&vti["nodes"][0], &vti["time"], &vti["extent"]["x"][1]),
        (&4.into(), &0.125.into(), &1.5.into())
    );
    assert_eq!((&npy["mean"], &npy["time"], &npy["spacing"]), (&5.5.into(), &Value::Null, &Value::Null));
}

#[test]
fn info_shows_problems_units_and_arrays_that_are_not_read() {
    let dir = test_dir();
    let mut values = values();
    (values[1], values[2]) = (f64::NAN, f64::INFINITY);
    write_vti(&dir, "bad.vti", f64::NAN, &values);
    let stdout = dir.stdout_of(&["info", "bad.vti"]);
    assert!(stdout.contains("  maximum    11.000000\n"), "{stdout}");
    assert!(
        stdout.contains("  problem    2 values are NaN or infinite\n  problem    the time is NaN\n"),
        "{stdout}"
    );
    assert_eq!(json_of(&dir, &["info", "bad.vti"])["files"][0]["non_finite"], 2);
    let of_vtk = concat!(env!("CARGO_MANIFEST_DIR"), "/../formats/tests/vti/base64-zlib-64.vti");
    let stdout = dir.stdout_of(&["info", of_vtk]);
    assert!(stdout.contains("  name       T\n  unit       K & more\n  time       0.3\n"), "{stdout}");
    assert!(stdout.contains("  not read   flux\n"), "{stdout}");
}

/// A field is recognised by its content if the extension is unknown.
#[test]
fn fields_are_recognised_without_their_extension() {
    let dir = test_dir();
    for name in ["plate.npy", "plate.vti"] {
        dir.write("plate.dat", dir.bytes(name));
        let stdout = dir.stdout_of(&["info", "plate.dat"]);
        assert!(stdout.contains("  nodes      4 x 3\n"), "{stdout}");
        assert_eq!(
            dir.stdout_of(&["compare", name, "plate.dat"]),
            format!("{name} and plate.dat: equal to the bit, 12 nodes\n")
        );
    }
}

#[test]
fn convert_keeps_all_bits() {
    let dir = test_dir();
    for (from, to, note) in [
        ("plate.vti", "a.npy", ""),
        ("a.npy", "b.vti", " with a spacing of 1, since the input has none"),
        ("plate.vti", "c.vti", ""),
    ] {
        assert_eq!(dir.stdout_of(&["convert", from, to]), format!("wrote 4 x 3 nodes to {to}{note}\n"));
    }
    assert_eq!(dir.bytes("a.npy"), dir.bytes("plate.npy"));
    assert_eq!(dir.bytes("c.vti"), dir.bytes("plate.vti"));
    let [written, original] =
        ["b.vti", "plate.npy"].map(|name| read_field(&dir.path(name), &Limits::default()).unwrap());
    assert_eq!(written.data, original.data);
    assert_eq!((written.labels.name.as_deref(), written.labels.time), (Some("value"), None));
    // f32 stays f32.
    write_field_npy(&dir.path("single.npy"), &GRID, FieldValues::Single(&[0.1; 12])).unwrap();
    dir.stdout_of(&["convert", "single.npy", "single.vti"]);
    dir.stdout_of(&["convert", "single.vti", "same.npy"]);
    assert_eq!(dir.bytes("single.npy"), dir.bytes("same.npy"));
    // Origin, unit and time of a file of VTK are kept.
    let of_vtk = concat!(env!("CARGO_MANIFEST_DIR"), "/../formats/tests/vti/raw-zlib-big-64.vti");
    dir.stdout_of(&["convert", of_vtk, "vtk.vti"]);
    let [written, original] = [dir.path("vtk.vti"), of_vtk.into()]
        .map(|path| read_field(&path, &Limits::default()).unwrap().labels);
    assert_eq!((&written.name, &written.unit, written.time), (&original.name, &original.unit, original.time));
    assert_eq!(written.frame, original.frame);
}

#[test]
fn a_field_is_drawn_and_an_image_is_read_as_grey_values() {
    let dir = test_dir();
    assert_eq!(
        dir.stdout_of(&["convert", "plate.vti", "plate.png"]).split_once(" pixels").unwrap().1,
        " to plate.png\n"
    );
    let image = read_field(&dir.path("plate.png"), &Limits::default()).unwrap();
    let [width, height, _] = image.data.nodes;
    assert_eq!(width.max(height), 1024);
    // The background is white, and the colour of the smallest value is almost black.
    let darkest = image.data.values.iter().copied().fold(1.0, f64::min);
    assert!(image.data.values.contains(&1.0) && darkest < 0.05);
    dir.stdout_of(&["convert", "plate.png", "grey.npy"]);
    assert_eq!(
        dir.stdout_of(&["compare", "plate.png", "grey.npy"]).split_once(',').unwrap().0,
        "plate.png and grey.npy: equal to the bit"
    );
    let stdout = dir.stdout_of(&["info", "plate.png"]);
    assert!(stdout.contains("  format     PNG image, grey values from 0 to 1\n"), "{stdout}");
    // A picture needs three nodes along each axis.
    write_field_npy(&dir.path("line.npy"), &Grid { ny: 1, ..GRID }, FieldValues::Double(&[0.0; 4])).unwrap();
    assert_eq!(
        error_of(&dir, &["convert", "line.npy", "line.png"]),
        "line.npy: the grid has ny = 1 nodes, expected 3 to 1073741824"
    );
}

#[test]
fn convert_refuses_to_replace_files_and_to_mix_bodies_and_fields() {
    let dir = test_dir();
    dir.write("mine.vti", "mine");
    let before = dir.content();
    for (arguments, message) in [
        (
            &["plate.npy", "mine.vti"][..],
            "mine.vti: exists already, expected a new file; --force replaces it",
        ),
        (
            &["plate.npy", "new.xyz"],
            "new.xyz: plate.npy is a field, expected a file to write with the extension .npy, .vti or .png",
        ),
        (
            &["plate.npy", "new"],
            "new: plate.npy is a field, expected a file to write with the extension .npy, .vti or .png",
        ),
        (
            &["pair.xyz", "new.npy"],
            "new.npy: pair.xyz has bodies, expected a file to write with the extension .hdf5, .xyz or .npz",
        ),
        (
            &["pair.xyz", "new.png"],
            "new.png: pair.xyz has bodies, expected a file to write with the extension .hdf5, .xyz or .npz",
        ),
        (&["none.xyz", "new.npy"], "none.xyz: no such file or directory"),
        (&["none.npy", "new.vti"], "none.npy: no such file or directory"),
        (&["plate.npy", "new/a.vti"], "new/a.vti: the folder new does not exist, expected an existing one"),
        (
            &["--cosmological", "physical", "plate.npy", "new.vti"],
            "--cosmological: plate.npy is a field, expected a snapshot of bodies",
        ),
    ] {
        assert_eq!(error_of(&dir, &[&["convert"], arguments].concat()), message);
    }
    assert!(dir.content() == before);
    dir.stdout_of(&["convert", "plate.npy", "mine.vti", "--force"]);
    assert!(dir.bytes("mine.vti").starts_with(b"<?xml"));
}

/// Only commands for bodies say that they need them.
#[test]
fn files_that_are_not_fields_are_refused() {
    let dir = test_dir();
    dir.write("empty.npy", "");
    dir.write("cut.vti", &dir.bytes("plate.vti")[..500]);
    write_field_npy(&dir.path("none.npy"), &Grid { ny: 0, ..GRID }, FieldValues::Double(&[])).unwrap();
    for (arguments, message) in [
        (&["info", "empty.npy"][..], "empty.npy: array empty: got no npy magic, expected a numpy array"),
        (&["info", "cut.vti"], "cut.vti: file: got an end without </VTKFile>, expected a complete file"),
        (&["info", "none.npy"], "none.npy: field: got 4 x 0 nodes, expected at least one node"),
        (
            &["info", "plate.npy", "--max-memory", "95"],
            "plate.npy: 12 values need 96.0 B of memory, the limit is 95.0 B",
        ),
        (
            &["forces", "plate.npy"],
            "plate.npy: byte 0: got a field (NPY), expected a GADGET (HDF5 or binary), extended XYZ or NPZ file",
        ),
    ] {
        assert_eq!(error_of(&dir, arguments), message);
    }
}

#[test]
fn compare_reports_the_largest_difference_with_its_node() {
    let dir = test_dir();
    let equal = dir.orrery(&["compare", "plate.npy", "plate.vti"]);
    assert_eq!(text(&equal.stdout), "plate.npy and plate.vti: equal to the bit, 12 nodes\n");
    assert_eq!(equal.status.code(), Some(0));
    let mut changed = values();
    changed[6] += 0.5;
    changed[0] -= 0.25;
    write_vti(&dir, "other.vti", 0.25, &changed);
    let output = dir.orrery(&["compare", "plate.vti", "other.vti"]);
    assert_eq!(output.status.code(), Some(1));
    // The range is that of both fields, -0.25 to 11. rms: sqrt((0.25 + 0.0625) / 12).
    assert_eq!(
        text(&output.stdout),
        "plate.vti and other.vti: different, 12 nodes compared
  time 0.125 and 0.25
  column      differing      relative      absolute  largest at
  temperature         2      4.444e-2      5.000e-1  node (2, 1) at x = 1, y = 0.25: 6e0 and 6.5e0
  rms difference 1.614e-1, range of the values 1.125e1
"
    );
    let json = json_of(&dir, &["compare", "plate.npy", "other.vti"]);
    let column = &json["files"][0]["columns"][0];
    assert_eq!(
        (&json["equal"], &column["differing"], &column["absolute"]),
        (&false.into(), &2.into(), &0.5.into())
    );
    assert_eq!(
        (&column["node"][1], &column["position"][0], &column["values"][1]),
        (&1.into(), &1.0.into(), &6.5.into())
    );
    assert_eq!(column["rms"].as_f64().unwrap(), (0.3125f64 / 12.0).sqrt());
    assert_eq!(json["files"][0]["notes"].as_array().unwrap().len(), 0);
    // Equal values at another spacing are different fields.
    let wide = Grid { hx: 1.0, ..GRID };
    write_field_vti(&dir.path("wide.vti"), &wide, "u", 0.125, FieldValues::Double(&values())).unwrap();
    let output = dir.orrery(&["compare", "plate.vti", "wide.vti"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stdout).contains("\n  spacing 0.5 x 0.25 and 1 x 0.25\n"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn compare_refuses_other_shapes_and_kinds() {
    let dir = test_dir();
    write_field_npy(&dir.path("turned.npy"), &Grid { nx: 3, ny: 4, ..GRID }, FieldValues::Double(&values()))
        .unwrap();
    assert_eq!(
        error_of(&dir, &["compare", "plate.npy", "turned.npy"]),
        "turned.npy: 3 x 4 nodes, but plate.npy has 4 x 3; expected fields with the same nodes"
    );
    assert_eq!(
        error_of(&dir, &["compare", "plate.npy", "pair.xyz"]),
        "plate.npy is a field but pair.xyz is a snapshot of bodies, expected two files of the same kind"
    );
}

#[test]
fn analyze_measures_fields_in_order_of_time() {
    let dir = test_dir();
    write_vti(&dir, "a.vti", 0.5, &[2.0; 12]);
    // The plate has the area 0.75. The mean of u = k over it is 5.5.
    let expected = "2 fields

        time       minimum       maximum          mean     deviation          heat  file
    0.125000      0.000000e0      1.100000e1    5.500000e0    3.452053e0    4.125000e0  plate.vti
    0.500000      2.000000e0    2.000000e0    2.000000e0    0.000000e0    1.500000e0  a.vti
";
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let stdout = dir.stdout_of(&["analyze", "a.vti", "plate.vti"]);
    assert_eq!(squeeze(&stdout), squeeze(expected));
    dir.stdout_of(&["analyze", "a.vti", "plate.vti", "-o", "out"]);
    assert_eq!(dir.list("out"), ["fields.csv", "fields.svg"]);
    let deviation = (143.0f64 / 12.0).sqrt();
    let rms = 5.5f64.hypot(deviation);
    assert_eq!(
        dir.text("out/fields.csv"),
        format!(
            "file,time,minimum,maximum,mean,deviation,heat,rms,largest,i,j,k\n\
             plate.vti,1.25e-1,0e0,1.1e1,5.5e0,{deviation:e},4.125e0,{rms:e},1.1e1,3,2,0\n\
             a.vti,5e-1,2e0,2e0,2e0,0e0,1.5e0,2e0,2e0,0,0,0\n"
        )
    );
    assert_eq!(
        error_of(&dir, &["analyze", "plate.vti", "-o", "out"]),
        "out/fields.csv: exists already, expected a new file; --force replaces it"
    );
    let json = json_of(&dir, &["analyze", "plate.npy", "plate.vti"]);
    let [npy, vti] = [&json["fields"][0], &json["fields"][1]];
    assert_eq!((&npy["time"], &npy["heat"], &npy["maximum"]), (&Value::Null, &Value::Null, &11.0.into()));
    assert_eq!(
        (&vti["time"], &vti["heat"], &vti["name"]),
        (&0.125.into(), &4.125.into(), &"temperature".into())
    );
    let stdout = dir.stdout_of(&["analyze", "plate.npy"]);
    let notes = "\n\ntimes are in .vti files, which a run writes with output.format = \"vti\"\n\
                 the heat content needs the spacing of the nodes, which .vti files and runs have\n";
    assert!(stdout.ends_with(notes), "{stdout}");
}

#[test]
fn analyze_refuses_what_it_cannot_measure() {
    let dir = test_dir();
    let mut values = values();
    values[6] = f64::NAN;
    write_vti(&dir, "nan.vti", 0.0, &values);
    for (arguments, message) in [
        (&["nan.vti"][..], "nan.vti: node (2, 1): got NaN, expected a finite value"),
        (
            &["plate.npy", "pair.xyz"],
            "plate.npy is a field, but pair.xyz has bodies; expected files of one kind",
        ),
        (
            &["plate.npy", "--softening", "1"],
            "--softening: plate.npy is a field, expected a snapshot of bodies",
        ),
        (&["plate.npy", "gone.vti"], "gone.vti: no such file or directory"),
    ] {
        assert_eq!(error_of(&dir, &[&["analyze"], arguments].concat()), message);
    }
}

/// A case of 16 x 8 nodes, periodic in x.
const CASE: &str = r#"
[grid]
nx = 16
ny = 8
hx = 0.25
[heat]
conductivity = 1.0
unit = "K"
west.condition = "periodic"
east.condition = "periodic"
south.condition = "fixed"
south.value = 1.0
[initial]
state = "hot-spot"
x = 1.0
y = 1.0
radius = 0.5
value = 3.0
[time]
end = 1.0
[output]
snapshot_every = 0.5
record_every = 0.5
format = "npy"
[image]
size = 64
"#;

/// The spacing and the periodic edges are those of the run, so the heat content is that of its
/// table.
#[test]
fn runs_of_heat_are_analysed_and_compared() {
    let dir = TestDir::new();
    dir.write("plate.toml", CASE);
    dir.run("plate.toml", "a", &[]);
    dir.run("plate.toml", "b", &["heat.south.value=1.5"]);
    let json = json_of(&dir, &["analyze", "a"]);
    let rows = json["fields"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    let table = dir.text("a/conserved.csv");
    let mut lines = table.lines();
    let heat = lines.next().unwrap().split(',').position(|name| name.starts_with("heat")).unwrap();
    for (row, line) in rows.iter().zip(lines) {
        let expected: f64 = line.split(',').nth(heat).unwrap().parse().unwrap();
        // The table has sums of 128 values in f32 or f64 in another order.
        assert!(
            (row["heat"].as_f64().unwrap() / expected - 1.0).abs() < 128.0 * f64::EPSILON,
            "{row}: {expected}"
        );
        assert_eq!(row["unit"], "K");
    }
    assert_eq!(dir.list("a/analysis"), ["fields.csv", "fields.svg"]);
    let output = dir.orrery(&["compare", "a", "b"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).ends_with("the runs differ in 4 of 4 files\n"), "{}", text(&output.stdout));
    let output = dir.orrery(&["compare", "a", "a"]);
    assert!(text(&output.stdout).ends_with("the runs are equal to the bit\n"), "{}", text(&output.stdout));
}
