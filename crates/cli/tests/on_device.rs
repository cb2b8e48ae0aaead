//! Tests of `--device`: runs on a device write the same outputs, and a missing device gives a clear
//! error.

use orrery_device::testing::test_devices_with_f64;
use orrery_device::{Backend, Device, DeviceChoice};

use crate::common::{TestDir, from_file, run_arguments, text};

const SMALL: [&str; 5] =
    ["bodies.n=200", "time.end=0.25", "time.step=0.0078125", "output.image_every=0", "image.size=64"];

/// Returns the first device with f64, if any.
fn test_device() -> Option<Device> {
    test_devices_with_f64().into_iter().next()
}

/// Runs a command that must write no files. Returns its exit status and standard error.
fn run_refused(dir: &TestDir, arguments: &[&str]) -> (Option<i32>, String) {
    let before = dir.content();
    let output = dir.orrery(arguments);
    assert!(dir.content() == before, "{arguments:?} wrote something");
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_run_prints_its_device_and_conserves_energy() {
    let Some(device) = test_device() else { return };
    let (label, name) = (device.label(), &device.properties().name);
    let dir = TestDir::new();
    let mut arguments = run_arguments("plummer", "out", &SMALL);
    arguments.retain(|word| *word != "--quiet");
    arguments.extend(["--device", &label]);
    // Progress is printed on standard error if the compilation of the kernels takes long.
    let output = dir.orrery(&arguments);
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(stdout.contains(&format!("device: {label}, {name}\n")), "{stdout}");
    assert!(stdout.contains("200 bodies, 32 steps (direct forces) to t = 0.25"), "{stdout}");
    let backend = device.properties().backend.as_str();
    let provenance = dir.text("out/provenance.txt");
    assert!(provenance.contains(&format!("device: {backend} ({name})\nsolver: direct\n")), "{provenance}");

    // A run on the CPU gives the same results within the rounding errors of f32 products.
    let mut arguments = run_arguments("plummer", "cpu", &SMALL);
    arguments.extend(["--device", "cpu"]);
    dir.stdout_of(&arguments);
    let rows = |out: &str| -> Vec<Vec<f64>> {
        let table = dir.text(&format!("{out}/conserved.csv"));
        table.lines().skip(1).map(|row| row.split(',').map(|x| x.parse().unwrap()).collect()).collect()
    };
    let (found, expected) = (rows("out"), rows("cpu"));
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?} {expected:?}");
    }

    let stdout = text(&dir.orrery(&["resume", "out", "--device", &label]).stdout);
    assert!(stdout.contains(&format!("device: {label}, {name}\n")), "{stdout}");
    assert!(stdout.contains("nothing to do"), "{stdout}");
    let stdout = dir.stdout_of(&["run", "plummer", "--dry-run", "--device", &label]);
    assert!(stdout.contains(&format!("# device: {label}, {name}\n")), "{stdout}");
    assert!(stdout.contains(&format!(" on {label}, ")), "{stdout}");
}

#[test]
fn a_non_finite_value_is_reported_with_its_step() {
    let Some(device) = test_device() else { return };
    let dir = TestDir::new();
    dir.write(
        "pair.xyz",
        "2\nProperties=pos:R:3:vel:R:3:mass:R:1:id:I:1 units=nbody\n0 0 0 0 0 0 1 10\n2 0 0 1e99 0 0 0 20\n",
    );
    let case = from_file("pair.xyz").replace("step = 0.25\nend = 0.5\n", "step = 1e250\nend = 1e251\n");
    dir.write("pair.toml", format!("{case}[image]\nsize = 64\n"));
    let mut arguments = run_arguments("pair.toml", "out", &[]);
    let label = device.label();
    arguments.extend(["--device", &label]);
    let output = dir.orrery(&arguments);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.starts_with("error: step 1, time 1e250: body 20 has position x = -inf, expected a finite"),
        "{stderr}"
    );
    assert!(stderr.ends_with("; the bodies at that moment are in out/post-mortem.hdf5\n"), "{stderr}");
    let found = dir.snapshot("out/post-mortem.hdf5");
    assert_eq!((found.step, found.time), (1, 1e250));
    assert!(found.particles.position.x[1].is_infinite());
    assert_eq!(dir.list("out/checkpoints"), ["checkpoint_000000000.orrery"]);
    assert_eq!(dir.text("out/conserved.csv").lines().count(), 2);
}

#[test]
fn forces_accuracy_and_analyze_run_on_the_device() {
    let Some(device) = test_device() else { return };
    let label = device.label();
    let dir = TestDir::new();
    dir.stdout_of(&["ic", "plummer", "-n", "700", "-o", "sphere.npz"]);
    let flags = ["--precision", "double", "--device", &label];
    let stdout = dir.stdout_of(&[&["accuracy", "sphere.npz"][..], &flags].concat());
    assert!(stdout.starts_with(&format!("device: {label}, ")), "{stdout}");
    assert!(stdout.contains("direct solver, double precision"), "{stdout}");
    let rms: f64 = stdout.split_whitespace().last().unwrap().parse().unwrap();
    assert!(rms < 1e-12, "{stdout}");
    let stdout = dir.stdout_of(&[&["forces", "sphere.npz"][..], &flags].concat());
    assert!(
        stdout.ends_with("wrote accelerations and potentials of 700 bodies (direct) to forces.npz\n"),
        "{stdout}"
    );
    let rows = |device: &str| {
        let stdout = dir.stdout_of(&["analyze", "sphere.npz", "--softening", "0.1", "--device", device]);
        stdout.lines().skip(1).take(5).map(str::to_owned).collect::<Vec<_>>()
    };
    let (found, expected) = (rows(&label), rows("cpu"));
    assert_eq!(found[..4], expected[..4]);
    let number = |row: &str, k: usize| row.split_whitespace().nth(k).unwrap().parse::<f64>().unwrap();
    (0..4).for_each(|k| assert!((number(&found[4], k) - number(&expected[4], k)).abs() < 1e-6));
}

#[test]
fn a_missing_device_is_a_user_error() {
    let dir = TestDir::new();
    dir.stdout_of(&["ic", "plummer", "-n", "20", "-o", "sphere.npz"]);
    let expected = "expected auto, cpu, cuda, cuda:0, opencl or opencl:0";
    for name in ["gpu", "cuda:x", "CPU", "cuda:-1", ""] {
        for command in [&["run", "plummer"][..], &["forces", "sphere.npz"], &["analyze", "sphere.npz"]] {
            let (status, stderr) = run_refused(&dir, &[command, &["--device", name]].concat());
            assert_eq!(status, Some(2), "{stderr}");
            assert!(stderr.contains(expected) && stderr.lines().count() == 1, "{stderr}");
        }
    }
    for name in ["cuda:99", "opencl:99"] {
        let choice: DeviceChoice = name.parse().unwrap();
        let expected = format!("error: {}\n", Device::open(choice).unwrap_err());
        for command in [
            &["run", "plummer"][..],
            &["run", "plummer", "--dry-run"],
            &["forces", "sphere.npz"],
            &["accuracy", "sphere.npz"],
            &["analyze", "sphere.npz"],
        ] {
            let stderr = run_refused(&dir, &[command, &["--device", name]].concat());
            assert_eq!(stderr, (Some(2), expected.clone()));
        }
    }
    let no_cuda = Device::list().devices.iter().all(|device| device.properties().backend != Backend::Cuda);
    if no_cuda {
        let (status, stderr) = run_refused(&dir, &["run", "plummer", "--device", "cuda"]);
        assert_eq!(status, Some(2));
        assert!(stderr.starts_with("error: cuda: no CUDA device"), "{stderr}");
    }
}

/// The tree on a device: the summary names the solver, a resumed run writes the same bytes, and the
/// force errors are those of this theta.
#[test]
fn the_tree_runs_on_the_device() {
    let Some(device) = test_device() else { return };
    let label = device.label();
    let dir = TestDir::new();
    let sets = [&SMALL[..], &["gravity.solver=tree", "gravity.theta=0.5"]].concat();
    let arguments = |out: &'static str, more: &[&'static str]| {
        let mut arguments = run_arguments("plummer", out, &sets);
        arguments.retain(|word| *word != "--quiet");
        arguments.extend(["--device", &label]);
        arguments.extend(more);
        dir.orrery(&arguments)
    };
    let whole = arguments("whole", &[]);
    let stdout = text(&whole.stdout);
    assert!(whole.status.success(), "{}", text(&whole.stderr));
    assert!(stdout.contains("200 bodies, 32 steps (tree forces) to t = 0.25"), "{stdout}");
    let provenance = dir.text("whole/provenance.txt");
    assert!(provenance.contains("solver: tree\n"), "{provenance}");
    assert!(provenance.contains(r#"strategy: {"form":"groups","precision":"mixed""#), "{provenance}");
    // A run keeps one second of the wall time in reserve, so this one ends after its first
    // checkpoint.
    let parts = arguments("parts", &["--wall-time", "1s"]);
    assert_eq!(parts.status.code(), Some(1), "{}", text(&parts.stderr));
    let resumed = dir.orrery(&["resume", "parts", "--device", &label]);
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    assert_eq!(dir.bytes("parts/conserved.csv"), dir.bytes("whole/conserved.csv"));
    assert!(dir.snapshots("parts") == dir.snapshots("whole"));

    dir.stdout_of(&["ic", "plummer", "-n", "2000", "-o", "sphere.npz"]);
    let flags =
        ["sphere.npz", "--solver", "tree", "--theta", "0.5", "--softening", "0.01", "--device", &label];
    let stdout = dir.stdout_of(&[&["accuracy"][..], &flags].concat());
    assert!(stdout.contains("tree solver, mixed precision"), "{stdout}");
    let rms: f64 = stdout.split_whitespace().last().unwrap().parse().unwrap();
    assert!(rms < 2e-3, "{stdout}");
    let stdout = dir.stdout_of(&[&["forces"][..], &flags].concat());
    assert!(
        stdout.ends_with("wrote accelerations and potentials of 2000 bodies (tree) to forces.npz\n"),
        "{stdout}"
    );
}
