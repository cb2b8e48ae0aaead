//! Conversions of volumes and SEG-Y files, compared with numpy and segyio.

use std::ffi::OsStr;
use std::process::Command;

use crate::common::{TestDir, json_of, text};

fn run_python(python: &OsStr, command: &str, dir: &TestDir) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/seismic.py");
    let output = Command::new(python).args([script, command]).arg(dir.path("")).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn conversions_agree_with_numpy_and_segyio() {
    let Some(python) = std::env::var_os("ORRERY_PYTHON") else {
        println!(
            "skipped: ORRERY_PYTHON is not set (`cargo xtask test` installs the readers and runs this test)"
        );
        return;
    };
    let dir = TestDir::new();
    run_python(&python, "write", &dir);
    for arguments in [
        &["volume.npy", "part.npy", "--window", "z=1..6", "--window", "x=2..", "--stride", "2"][..],
        &["fortran.npy", "single.vti"],
        &["single.vti", "single.npy"],
        &["volume.npy", "plane.npy", "--window", "y=3"],
        &["line.sgy", "shot.npy", "--shot", "2"],
        &["line.sgy", "shot.csv", "--shot", "2"],
        &["model.sgy", "model.npy"],
    ] {
        dir.stdout_of(&[&["convert"], arguments].concat());
    }
    run_python(&python, "check", &dir);
    let file = &json_of(&dir, &["info", "line.sgy"])["files"][0];
    assert_eq!((file["shots"].as_u64(), file["traces"].as_u64()), (Some(2), Some(8)));
    assert_eq!((file["interval"].as_f64(), file["offsets"][0].as_f64()), (Some(0.002), Some(-200.0)));
}
