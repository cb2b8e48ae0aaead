//! Tests of `bench scaling`, on threads with an OpenCL device such as PoCL, and under MPI.

use orrery_device::testing::suite_cases;

use crate::common::mpi::Installation;
use crate::common::{TestDir, error_of, text};
use crate::devices::{check_80_columns, has_no_device, read_json, stdout_of};

/// Checks the results of two ranks in a JSON file.
#[track_caller]
fn check_json(dir: &TestDir, physics: &str) {
    let json = read_json(dir, "s.json");
    assert_eq!(json["ranks"]["count"], 2);
    assert_eq!(json["ranks"]["ping_pong"][0]["bytes"], 8);
    let study = &json["results"][0];
    assert_eq!((&study["case"], &study["physics"]), (&"scaling".into(), &physics.into()));
    let steps = study["steps"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["ranks"] == 2 && step["per_rank"] == study["n"]));
    for step in steps {
        assert!(step["measured_secs"].as_f64().unwrap() > 0.0, "{step}");
        let shares: f64 = step["shares"].as_array().unwrap().iter().filter_map(|share| share.as_f64()).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{step}");
    }
    assert_eq!(study["prediction"]["link"]["bytes_per_s"], 25e9);
    assert_eq!(study["prediction"]["ranks"][10]["ranks"], 10_000);
}

#[track_caller]
fn check_text(stdout: &str) {
    check_80_columns(stdout);
    for part in ["strong scaling: ", "weak scaling: ", "serial fraction", "prediction: ", "model: largest"] {
        assert!(stdout.contains(part), "{part} is missing:\n{stdout}");
    }
}

const FLAGS: [&str; 9] =
    ["bench", "scaling", "--repeats", "1", "--json", "s.json", "--link-gb-per-s", "25", "--force"];

#[test]
fn bench_scaling_measures_threads_and_processes() {
    let dir = TestDir::new();
    let wave = ["--physics", "wave", "-n", "32"];
    if !has_no_device() {
        let devices = ["--device", "opencl:0,opencl:0", "--plot", "s.svg"];
        let stdout = stdout_of(&dir, &[&FLAGS[..], &wave, &devices].concat());
        // Both ranks compute on one device, so there is no speedup to which a law could be fitted.
        check_text(&stdout.replace("Amdahl's law is not fitted", "serial fraction"));
        check_json(&dir, "wave");
        for name in ["s-wave.svg", "s-efficiency.svg"] {
            assert!(std::fs::read_to_string(dir.path(name)).unwrap().starts_with("<svg"), "{name}");
        }
    }
    let heat = ["--physics", "heat", "-n", "64", "--device", "cpu"];
    let arguments = [&FLAGS[..], &heat].concat();
    let Some(mut command) = Installation::OpenMpi.command(2, &arguments, &[]) else { return };
    let output = command.current_dir(dir.path("")).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    check_text(&text(&output.stdout).replace("Amdahl's law is not fitted", "serial fraction"));
    check_json(&dir, "heat");
}

/// Processes of one computer share memory for borders and forces, and the benchmark measures this
/// path: that of borders in `cargo xtask test`.
#[test]
fn bench_scaling_measures_shared_memory_of_processes() {
    if has_no_device() || !cfg!(target_os = "linux") {
        return;
    }
    let cases = [(Installation::Mpich, "wave", "32"), (Installation::OpenMpi, "gravity", "4096")];
    for &(mpi, physics, n) in suite_cases(&cases, 1) {
        let dir = TestDir::new();
        let arguments = [&FLAGS[..], &["--physics", physics, "-n", n, "--device", "opencl:0"]].concat();
        let Some(mut command) = mpi.command(2, &arguments, &[]) else { continue };
        let output = command.current_dir(dir.path("")).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let stdout = text(&output.stdout);
        assert!(stdout.contains(" path: shared page-locked memory\n"), "{stdout}");
        let links = &read_json(&dir, "s.json")["results"][0]["links"];
        assert_eq!(links[0]["paths"], serde_json::json!(["shared"]), "{links}");
    }
}

#[test]
fn bench_scaling_refuses_flags_that_it_cannot_use() {
    let dir = TestDir::new();
    for (arguments, message) in [
        (
            &["scaling", "-n", "64"][..],
            "-n is the size of one physics, expected one number and one --physics",
        ),
        (&["scaling", "--physics", "wave", "-n", "31"], "-n 31 is outside n >= 32"),
        (&["scaling", "--simd", "avx2"], "--simd has no effect on bench scaling"),
        (&["scaling", "--link-gb-per-s", "0"], "--link-gb-per-s 0 is outside value > 0"),
        (&["wave", "--physics", "wave"], "--physics is for bench scaling, expected orrery bench scaling"),
        (
            &["heat", "--device", "cuda:0,cuda:0"],
            "several devices are for bench scaling, expected one device",
        ),
        (&["scaling", "--plot", "s.png"], "s.png: expected a name ending in .svg"),
    ] {
        let found = error_of(&dir, &[&["bench"][..], arguments].concat());
        assert!(found.contains(message), "{arguments:?}: {found}");
    }
}
