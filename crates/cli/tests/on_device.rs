//! `--device`: the same program with the same outputs on a device, and plain words where there is none.

mod common;

use common::{Room, from_file, run_arguments, text};
use orrery_device::{Backend, Device, DeviceChoice};

const SMALL: [&str; 5] =
    ["bodies.n=200", "time.end=0.25", "time.step=0.0078125", "output.image_every=0", "image.size=64"];

/// A device to run on, as `--device` takes it; none is a failure, unless tests are told so.
fn device() -> Option<Device> {
    let found = Device::list();
    let excused = std::env::var_os("ORRERY_NO_DEVICE_TESTS").is_some();
    assert!(!found.devices.is_empty() || excused, "{}", found.notes.join("; "));
    found.devices.into_iter().find(|device| device.properties().has_f64)
}

/// The status and what was said on standard error, by a command that must write nothing.
fn refused(room: &Room, arguments: &[&str]) -> (Option<i32>, String) {
    let before = room.content();
    let output = room.orrery(arguments);
    assert!(room.content() == before, "{arguments:?} wrote something");
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_run_says_its_device_and_keeps_energy() {
    let Some(device) = device() else { return };
    let (label, name) = (device.label(), &device.properties().name);
    let room = Room::new();
    let mut arguments = run_arguments("plummer", "out", &SMALL);
    arguments.retain(|word| *word != "--quiet");
    arguments.extend(["--device", &label]);
    let said = room.says(&arguments);
    assert!(said.contains(&format!("device: {label}, {name}\n")), "{said}");
    assert!(said.contains("200 bodies, 32 steps (direct forces) to t = 0.25"), "{said}");
    let word = device.properties().backend.as_str();
    let provenance = room.text("out/provenance.txt");
    assert!(provenance.contains(&format!("device: {word} ({name})\nsolver: direct\n")), "{provenance}");

    // The processor's run is the same to what f32 products leave.
    let mut arguments = run_arguments("plummer", "cpu", &SMALL);
    arguments.extend(["--device", "cpu"]);
    room.says(&arguments);
    let rows = |out: &str| -> Vec<Vec<f64>> {
        let table = room.text(&format!("{out}/conserved.csv"));
        table.lines().skip(1).map(|row| row.split(',').map(|x| x.parse().unwrap()).collect()).collect()
    };
    let (found, right) = (rows("out"), rows("cpu"));
    assert_eq!(found.len(), right.len());
    for (found, right) in found.iter().zip(&right) {
        assert!(found.iter().zip(right).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?} {right:?}");
    }

    let said = text(&room.orrery(&["resume", "out", "--device", &label]).stdout);
    assert!(said.contains(&format!("device: {label}, {name}\n")), "{said}");
    assert!(said.contains("nothing is left to do"), "{said}");
    let said = room.says(&["run", "plummer", "--dry-run", "--device", &label]);
    assert!(said.contains(&format!("# device: {label}, {name}\n")), "{said}");
    assert!(said.contains(&format!(" on {label}, ")), "{said}");
}

#[test]
fn numbers_that_go_wrong_are_named_with_their_step() {
    let Some(device) = device() else { return };
    let room = Room::new();
    room.write(
        "pair.xyz",
        "2\nProperties=pos:R:3:vel:R:3:mass:R:1:id:I:1 units=nbody\n0 0 0 0 0 0 1 10\n2 0 0 1e99 0 0 0 20\n",
    );
    let case = from_file("pair.xyz").replace("step = 0.25\nend = 0.5\n", "step = 1e250\nend = 1e251\n");
    room.write("pair.toml", format!("{case}[image]\nsize = 64\n"));
    let mut arguments = run_arguments("pair.toml", "out", &[]);
    let label = device.label();
    arguments.extend(["--device", &label]);
    let output = room.orrery(&arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.starts_with("error: step 1, time 1e250: body 20 has position x = -inf, expected a finite"),
        "{said}"
    );
    assert!(said.ends_with("; the bodies at that moment are in out/post-mortem.hdf5\n"), "{said}");
    let found = room.snapshot("out/post-mortem.hdf5");
    assert_eq!((found.step, found.time), (1, 1e250));
    assert!(found.particles.position.x[1].is_infinite());
    assert_eq!(room.list("out/checkpoints"), ["checkpoint_000000000.orrery"]);
    assert_eq!(room.text("out/conserved.csv").lines().count(), 2);
}

#[test]
fn forces_accuracy_and_analyze() {
    let Some(device) = device() else { return };
    let label = device.label();
    let room = Room::new();
    room.says(&["ic", "plummer", "-n", "700", "-o", "sphere.npz"]);
    let flags = ["--precision", "double", "--device", &label];
    let said = room.says(&[&["accuracy", "sphere.npz"][..], &flags].concat());
    assert!(said.starts_with(&format!("device: {label}, ")), "{said}");
    assert!(said.contains("direct solver, double precision"), "{said}");
    let rms: f64 = said.split_whitespace().last().unwrap().parse().unwrap();
    assert!(rms < 1e-12, "{said}");
    let said = room.says(&[&["forces", "sphere.npz"][..], &flags].concat());
    assert!(said.ends_with("wrote 700 accelerations and potentials (direct) to forces.npz\n"), "{said}");
    let rows = |device: &str| {
        let said = room.says(&["analyze", "sphere.npz", "--softening", "0.1", "--device", device]);
        said.lines().skip(1).take(5).map(str::to_owned).collect::<Vec<_>>()
    };
    let (found, right) = (rows(&label), rows("cpu"));
    assert_eq!(found[..4], right[..4]);
    let number = |row: &str, k: usize| row.split_whitespace().nth(k).unwrap().parse::<f64>().unwrap();
    (0..4).for_each(|k| assert!((number(&found[4], k) - number(&right[4], k)).abs() < 1e-6));
}

#[test]
fn what_is_not_there_is_a_mistake() {
    let room = Room::new();
    room.says(&["ic", "plummer", "-n", "20", "-o", "sphere.npz"]);
    let expected = "expected auto, cpu, cuda, cuda:0, opencl or opencl:0";
    for word in ["gpu", "cuda:x", "CPU", "cuda:-1", ""] {
        for command in [&["run", "plummer"][..], &["forces", "sphere.npz"], &["analyze", "sphere.npz"]] {
            let (status, said) = refused(&room, &[command, &["--device", word]].concat());
            assert_eq!(status, Some(2), "{said}");
            assert!(said.contains(expected) && said.lines().count() == 1, "{said}");
        }
    }
    for word in ["cuda:99", "opencl:99"] {
        let choice: DeviceChoice = word.parse().unwrap();
        let expected = format!("error: {}\n", Device::open(choice).unwrap_err());
        for command in [
            &["run", "plummer"][..],
            &["run", "plummer", "--dry-run"],
            &["forces", "sphere.npz"],
            &["accuracy", "sphere.npz"],
            &["analyze", "sphere.npz"],
        ] {
            let said = refused(&room, &[command, &["--device", word]].concat());
            assert_eq!(said, (Some(2), expected.clone()));
        }
    }
    let no_cuda = Device::list().devices.iter().all(|device| device.properties().backend != Backend::Cuda);
    if no_cuda {
        let (status, said) = refused(&room, &["run", "plummer", "--device", "cuda"]);
        assert_eq!(status, Some(2));
        assert!(said.starts_with("error: cuda: no CUDA device"), "{said}");
    }
}

/// The tree on a device: the solver is named, a run that was stopped and goes on leaves the same bytes, and forces err by what
/// theta allows.
#[test]
fn the_tree_runs_there() {
    let Some(device) = device() else { return };
    let label = device.label();
    let room = Room::new();
    let sets = [&SMALL[..], &["gravity.solver=tree", "gravity.theta=0.5"]].concat();
    let arguments = |out: &'static str, more: &[&'static str]| {
        let mut arguments = run_arguments("plummer", out, &sets);
        arguments.retain(|word| *word != "--quiet");
        arguments.extend(["--device", &label]);
        arguments.extend(more);
        room.orrery(&arguments)
    };
    let whole = arguments("whole", &[]);
    let said = text(&whole.stdout);
    assert!(whole.status.success(), "{}", text(&whole.stderr));
    assert!(said.contains("200 bodies, 32 steps (tree forces) to t = 0.25"), "{said}");
    let provenance = room.text("whole/provenance.txt");
    assert!(provenance.contains("solver: tree\n"), "{provenance}");
    assert!(provenance.contains(r#"strategy: {"form":"groups","precision":"mixed""#), "{provenance}");
    // A second is kept back of the wall time, so that this one ends with its first checkpoint.
    let parts = arguments("parts", &["--wall-time", "1s"]);
    assert_eq!(parts.status.code(), Some(1), "{}", text(&parts.stderr));
    let resumed = room.orrery(&["resume", "parts", "--device", &label]);
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    assert_eq!(room.bytes("parts/conserved.csv"), room.bytes("whole/conserved.csv"));
    assert!(room.snapshots("parts") == room.snapshots("whole"));

    room.says(&["ic", "plummer", "-n", "2000", "-o", "sphere.npz"]);
    let flags =
        ["sphere.npz", "--solver", "tree", "--theta", "0.5", "--softening", "0.01", "--device", &label];
    let said = room.says(&[&["accuracy"][..], &flags].concat());
    assert!(said.contains("tree solver, mixed precision"), "{said}");
    let rms: f64 = said.split_whitespace().last().unwrap().parse().unwrap();
    assert!(rms < 2e-3, "{said}");
    let said = room.says(&[&["forces"][..], &flags].concat());
    assert!(said.ends_with("wrote 2000 accelerations and potentials (tree) to forces.npz\n"), "{said}");
}
