//! Tests of the occupancy calculator, which needs no device if `--arch` is given.

use crate::common::{TestDir, text};
use crate::devices::{check_80_columns, read_json};

/// Runs `orrery occupancy` on a machine without devices.
fn run_without_devices(dir: &TestDir, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = dir.command(&[&["occupancy"], arguments].concat());
    command.env("OCL_ICD_VENDORS", dir.path("none")).env("CUDA_VISIBLE_DEVICES", "");
    let output = command.output().unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn occupancy_by_hand_is_printed_and_written_as_json_and_svg() {
    let dir = TestDir::new();
    let needs = ["--block", "128", "--registers", "37", "--shared", "1e3", "--arch", "7.0"];
    let files = ["--json", "o.json", "--plot", "o.svg"];
    let (status, stdout, stderr) = run_without_devices(&dir, &[&needs[..], &files].concat());
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{stdout}");
    check_80_columns(&stdout);
    assert!(stdout.starts_with("compute capability 7.0\n"), "{stdout}");
    assert!(stdout.contains("\n  occupancy      75%\n  limited by     registers\n"), "{stdout}");
    let json = read_json(&dir, "o.json");
    assert_eq!(json["occupancy"]["blocks_per_sm"], 12);
    assert_eq!(json["needs"]["shared_bytes"], 1000);
    assert!(dir.text("o.svg").contains(">128 threads: 75%<"));
    // No file is replaced without --force.
    let (status, _, stderr) = run_without_devices(&dir, &[&needs[..], &files].concat());
    assert_eq!((status, stderr.lines().count()), (Some(2), 1), "{stderr}");
    let (status, stdout, _) = run_without_devices(&dir, &[&needs[..], &["--json", "-"]].concat());
    assert!(status == Some(0) && stdout.starts_with('{'), "{stdout}");
}

#[test]
fn mistakes_give_one_line_and_write_nothing() {
    let dir = TestDir::new();
    let by_hand = |arguments: &[&'static str]| [&["--registers", "32", "--arch", "9.0"], arguments].concat();
    let cases = [
        (
            by_hand(&["--block", "0"]),
            "error: compute capability 9.0: a block of 0 threads is outside 1 to 1024 threads",
        ),
        (by_hand(&["--block", "2000"]), "error: compute capability 9.0: a block of 2000 threads is outside"),
        (by_hand(&["--block", "-1"]), "error: invalid value '-1' for '--block <N>': expected a whole number"),
        (
            by_hand(&["--shared", "1e6"]),
            "error: compute capability 9.0: 1000000 bytes of shared memory per block are",
        ),
        (by_hand(&["--plot", "o.png"]), "error: o.png: expected a name ending in .svg"),
        (
            by_hand(&["--device", "cuda"]),
            "error: the argument '--arch <X.Y>' cannot be used with '--device <DEVICE>'",
        ),
        (
            vec!["--registers", "300", "--arch", "9.0"],
            "error: compute capability 9.0: 300 registers per thread are",
        ),
        (
            vec!["--block", "1024", "--registers", "128", "--arch", "9.0"],
            "error: compute capability 9.0: a block of 1024 threads with 128 registers per thread is allocated 131072",
        ),
        (
            vec!["--registers", "32", "--arch", "9"],
            "error: invalid value '9' for '--arch <X.Y>': expected a compute",
        ),
        (
            vec!["--registers", "32", "--arch", "4.0"],
            "error: --arch: compute capability 4.0 is not in the table",
        ),
        (vec!["--block", "32"], "error: the following required arguments were not provided: --registers <N>"),
        (vec!["reduce", "--registers", "32"], "error: the argument '[KERNEL]' cannot be used with"),
        (vec!["redcue"], "error: 'redcue' is not a ladder, expected one of direct, "),
        (
            vec!["reduce", "--device", "cpu"],
            "error: --device cpu: expected a CUDA device; others do not report",
        ),
        (vec!["--registers", "32"], "error: cuda: no CUDA device: "),
    ];
    for (arguments, expected) in cases {
        let (status, stdout, stderr) = run_without_devices(&dir, &arguments);
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with(expected), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(dir.content().is_empty(), "{arguments:?}");
    }
    let (_, _, stderr) = run_without_devices(&dir, &["--registers", "32"]);
    assert!(stderr.trim_end().ends_with("; --arch 9.0 needs no device"), "{stderr}");
}
