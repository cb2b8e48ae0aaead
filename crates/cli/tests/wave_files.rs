//! `info`, `convert`, `compare` and `analyze` with the folders of runs of waves.

use crate::common::{TestDir, json_of, text};

/// A shot in a homogeneous medium, 61 x 41 nodes.
const CASE: &str = r#"
units = "si"
[grid]
nx = 61
ny = 41
hx = "10 m"
[wave]
velocity = "1500 m/s"
unit = "Pa"
layer_nodes = 10
[[wave.source]]
x = "150 m"
y = "200 m"
frequency = 15.0
[[wave.receivers]]
x = "200 m"
y = "200 m"
count = 4
dx = "75 m"
[time]
step = "3.125 ms"
end = "0.4 s"
[output]
snapshot_every = "0.1 s"
record_every = "0.1 s"
format = "npy"
[image]
size = 64
"#;

#[test]
fn seismograms_of_a_run_have_the_travel_times_of_the_medium() {
    let dir = TestDir::new();
    dir.write("shot.toml", CASE);
    dir.run("shot.toml", "a", &[]);
    let json = json_of(&dir, &["analyze", "a"]);
    let traces = json["traces"].as_array().unwrap();
    assert_eq!(traces.len(), 4);
    let info = &json_of(&dir, &["info", "a/seismograms.sgy"])["files"][0];
    let interval = info["interval"].as_f64().unwrap();
    assert_eq!((info["traces"].as_u64(), info["offsets"][1].as_f64()), (Some(4), Some(275.0)));
    let arrival = |k: usize| traces[k]["first_break"].as_f64().unwrap();
    for k in 1..4 {
        let delay = arrival(k) - arrival(k - 1);
        // 75 m at 1500 m/s. The threshold is linear between samples, so it is within one sample.
        assert!((delay - 0.05).abs() < interval, "{delay}, samples every {interval}");
    }
    assert_eq!(dir.list("a/analysis"), ["fields.csv", "fields.svg", "traces.csv", "traces.svg"]);
    let header = |name: &str| dir.text(&format!("a/analysis/{name}")).lines().next().unwrap().to_owned();
    assert!(header("traces.csv").contains(",x [m],y [m],depth [m],offset [m],first_break [s],"));
    assert!(header("fields.csv").starts_with("file,time [s],minimum"), "{}", header("fields.csv"));
    let plot = dir.text("a/analysis/traces.svg");
    for text in ["<title>shot: arrival times</title>", ">offset (m)<", ">time (s)<"] {
        assert!(plot.contains(text), "{text} in {plot}");
    }
    let plot = dir.text("a/analysis/fields.svg");
    assert!(plot.contains("<title>shot: value of "), "{plot}");
}

/// An NPY file has no spacing. That of the run is used, also for a part of the grid.
#[test]
fn fields_of_a_run_have_the_coordinates_of_its_case() {
    let dir = TestDir::new();
    dir.write("shot.toml", CASE);
    dir.run("shot.toml", "a", &["wave.snapshot.stride=2"]);
    let json = json_of(&dir, &["analyze", "a"]);
    let rows = json["fields"].as_array().unwrap();
    assert_eq!(rows.len(), 5);
    for row in rows {
        assert_eq!((&row["nodes"][0], &row["nodes"][1]), (&31.into(), &21.into()), "{row}");
        assert_eq!(
            (&row["spacing"][0], &row["unit"], row["heat"].is_null()),
            (&20.0.into(), &"Pa".into(), true)
        );
        let place = |key: &str, axis: usize| row[key][axis].as_f64().unwrap();
        assert_eq!(place("position", 0), 20.0 * place("node", 0));
    }
    let read = |name: &str| {
        let (data, labels) =
            orrery_formats::read_volume_vti(&dir.path(name), &orrery_formats::Limits::default()).unwrap();
        (data.nodes, labels.frame.unwrap().spacing[..2].to_vec(), labels.unit)
    };
    let stdout = dir.stdout_of(&["convert", "a/snapshots/snapshot_004.npy", "b.vti"]);
    assert!(!stdout.contains("spacing of 1"), "{stdout}");
    assert_eq!(read("b.vti"), ([31, 21, 1], vec![20.0, 20.0], Some("Pa".to_owned())));
    // A file outside of the folder of the run has no spacing.
    dir.write("c.npy", dir.bytes("a/snapshots/snapshot_004.npy"));
    let stdout = dir.stdout_of(&["convert", "c.npy", "c.vti"]);
    assert!(stdout.contains("with a spacing of 1, since the input has none"), "{stdout}");
    assert_eq!(read("c.vti").1, [1.0, 1.0]);
    let stdout = text(&dir.orrery(&["analyze", "a", "--force"]).stdout);
    assert!(stdout.starts_with("5 fields, unit Pa\n") && stdout.contains(", x = "), "{stdout}");
    assert!(!stdout.contains("heat"), "{stdout}");
}

#[test]
fn runs_of_waves_are_compared_with_their_seismograms() {
    let dir = TestDir::new();
    dir.write("shot.toml", CASE);
    dir.run("shot.toml", "a", &[]);
    dir.run("shot.toml", "same", &["output.format=vti"]);
    dir.run("shot.toml", "b", &["wave.velocity=\"1510 m/s\"", "time.step=\"1 ms\""]);
    let stdout = dir.stdout_of(&["compare", "a", "same"]);
    assert!(stdout.ends_with("the runs are equal to the bit\n"), "{stdout}");
    for name in ["seismograms.npy", "seismograms.sgy", "snapshots/snapshot_004", "conserved.csv"] {
        assert!(stdout.contains(&format!("a/{name}")), "{stdout}");
    }
    let sgy = ["a/seismograms.sgy", "b/seismograms.sgy"];
    let output = dir.orrery(&["compare", sgy[0], sgy[1]]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("shot 1: interval "), "{}", text(&output.stdout));
    // Arrays with other numbers of samples are different, and the other files are compared.
    let output = dir.orrery(&["compare", "a", "b"]);
    assert_eq!(output.status.code(), Some(1));
    let stdout = text(&output.stdout);
    assert!(
        stdout.contains("\n  b/seismograms.npy: ") && stdout.contains("expected fields with the same nodes")
    );
    assert!(stdout.ends_with(" of 8 files\n"), "{stdout}");
}
