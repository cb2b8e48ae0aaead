//! Runs on every available device. They give the same bytes every time, whether or not they are
//! stopped and resumed. A run that cannot use a device gets a clear error message.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{assert_same, case, case_of, folder_content, output_to, plate, tank, temp_folder};
use orrery_device::testing::test_devices_with_f64;
use orrery_device::{Device, DeviceChoice};
use orrery_engine::case::Case;
use orrery_engine::checkpoint::describe;
use orrery_engine::compute_device::{self, ComputeDevice, DeviceRequest, Tuned};
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{Resume, Summary, resume, run};
use orrery_engine::{EngineError, gravity};
use orrery_fields::wave::device::{WaveDeviceStrategy, WaveShape};
use orrery_formats::Limits;
use orrery_gravity::settings::IntegratorChoice;
use orrery_gravity::solver::tree::device::TreeDeviceStrategy;
use orrery_model::Precision;

/// Returns the choice of each device that has f64.
fn test_choices() -> Vec<DeviceChoice> {
    test_devices_with_f64().iter().map(|device| device.label().parse().unwrap()).collect()
}

fn control_for(choice: DeviceChoice) -> Control {
    Control { device: DeviceRequest { choice, ..DeviceRequest::default() }, ..Control::default() }
}

fn run_whole(case: &Case, folder: &Path, choice: DeviceChoice) -> Summary {
    run(case, &output_to(folder.to_owned()), &control_for(choice), |_| {}).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs until `step` is complete, then stops as after a signal.
fn run_until(case: &Case, folder: &Path, choice: DeviceChoice, step: u64) {
    let control = control_for(choice);
    let outcome = run(case, &output_to(folder.to_owned()), &control, |event| {
        if let RunEvent::Step(status) = event
            && status.step == step
        {
            control.stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(outcome.unwrap_or_else(|e| panic!("{e}")).stopped.is_some());
}

/// Resumes a run. Returns the change of program or device that it reports, if any.
fn resume_on(folder: &Path, choice: DeviceChoice) -> Result<Option<String>, EngineError> {
    let mut moved = None;
    let request = Resume { folder, sets: &[], restart_outputs: false };
    let summary = resume(&request, &control_for(choice), |event| {
        if let RunEvent::WriterChanged { before, now } = event {
            moved = Some(format!("{before} -> {now}"));
        }
    })?;
    assert!(summary.stopped.is_none());
    Ok(moved)
}

fn check_direct(sets: &[&str], choice: DeviceChoice) {
    check_solver(sets, choice, "direct");
}

fn check_solver(sets: &[&str], choice: DeviceChoice, solver: &str) {
    check_case(&case(sets), choice, solver, &sets.join(" "));
}

fn check_case(case: &Case, choice: DeviceChoice, solver: &str, label: &str) {
    let dir = temp_folder();
    let [once, again, parts] = ["once", "again", "parts"].map(|name| dir.path().join(name));
    let summary = run_whole(case, &once, choice);
    assert_eq!(summary.method, solver);
    run_whole(case, &again, choice);
    run_until(case, &parts, choice, 5);
    assert_eq!(resume_on(&parts, choice).unwrap_or_else(|e| panic!("{e}")), None);
    assert_same(&once, &again, label);
    assert_same(&once, &parts, label);
}

/// The temperatures do not depend on the device. A run can move there and back, and ends with the
/// snapshots and the pictures of a run on the CPU. The sums of the table have another order there.
#[test]
fn fields_repeat_and_move_between_cpu_and_device_without_a_changed_bit() {
    for (choice, precision) in
        test_choices().into_iter().flat_map(|choice| ["single", "double"].map(|p| (choice, p)))
    {
        let case = plate(&[&format!("heat.precision={precision}")]);
        check_case(&case, choice, "explicit", precision);
        let dir = temp_folder();
        let whole = dir.path().join("whole");
        run_whole(&case, &whole, DeviceChoice::Cpu);
        for (first, second) in [(DeviceChoice::Cpu, choice), (choice, DeviceChoice::Cpu), (choice, choice)] {
            let folder = dir.path().join(format!("{first:?}-{second:?}"));
            run_until(&case, &folder, first, 5);
            assert_eq!(resume_on(&folder, second).unwrap().is_some(), first != second);
            let [expected, found] = [&whole, &folder].map(|folder| folder_content(folder));
            for (name, bytes) in &expected {
                let is_same = name.starts_with("snapshots") || name.ends_with("animation.gif");
                assert!(!is_same || found[name] == *bytes, "{precision}: {} differs", name.display());
            }
        }
    }
}

/// Twelve steps of waves in a volume.
const VOLUME: &str = r#"
name = "volume"
[grid]
nx = 24
ny = 20
nz = 18
hx = 1.0
[wave]
velocity = 1.0
velocity_gradient = 0.05
layer_nodes = 3
[[wave.source]]
x = 8.5
y = 9.25
z = 7.75
frequency = 0.5
delay = 0.5
[time]
step = 0.125
end = 1.5
[output]
image_every = "4 steps"
plots = false
[image]
size = 80
"#;

/// Returns the chunks of a PNG file with the size and the pixels. Other chunks name the device.
fn pixel_chunks(png: &[u8]) -> Vec<&[u8]> {
    let mut rest = &png[8..];
    let mut chunks = Vec::new();
    while let [a, b, c, d, ..] = *rest {
        let (chunk, after) = rest.split_at(12 + u32::from_be_bytes([a, b, c, d]) as usize);
        if [b"IHDR", b"IDAT"].iter().any(|kind| chunk[4..8] == **kind) {
            chunks.push(chunk);
        }
        rest = after;
    }
    assert!(chunks.len() >= 2);
    chunks
}

/// Images with the colours of each image and with given ones, at steps and between them, finer and
/// coarser than the grid, and of planes of a volume have the same bytes on the CPU and on a device.
#[test]
fn images_of_fields_do_not_depend_on_the_device() {
    let cases = [
        plate(&["image.size=120"]),
        plate(&["image.low=0", "image.high=3", "heat.precision=double", "output.image_every=0.31"]),
        plate(&["grid.nx=700", "grid.ny=500", "output.image_every=\"2 steps\""]),
        tank(&["image.size=120", "output.image_every=0.31"]),
        tank(&["grid.nx=500", "grid.ny=300", "wave.precision=double", "output.image_every=\"2 steps\""]),
        case_of(VOLUME, &["image.plane=xy"]),
        case_of(VOLUME, &["image.plane=xz", "output.image_every=0.31"]),
        case_of(VOLUME, &["image.plane=yz", "wave.precision=double", "image.low=-0.1"]),
    ];
    for (number, case) in cases.iter().enumerate() {
        let dir = temp_folder();
        let on_cpu = dir.path().join("cpu");
        run_whole(case, &on_cpu, DeviceChoice::Cpu);
        let expected = folder_content(&on_cpu.join("images"));
        assert!(expected.len() >= 4, "case {number}: {} images", expected.len());
        for choice in test_choices() {
            let on_device = dir.path().join(choice.to_string());
            run_whole(case, &on_device, choice);
            let found = folder_content(&on_device.join("images"));
            assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
            for (name, png) in &expected {
                let name_text = name.display();
                assert!(
                    pixel_chunks(&found[name]) == pixel_chunks(png),
                    "case {number}: {name_text} differs"
                );
            }
        }
    }
}

#[test]
fn runs_repeat_for_each_integrator_and_precision() {
    for choice in test_choices() {
        for integrator in ["leapfrog", "yoshida4", "yoshida6", "blanes-moan4", "hermite4"] {
            for precision in ["single", "mixed", "double"] {
                let integrator = format!("time.integrator={integrator}");
                check_direct(&[&integrator, &format!("gravity.precision={precision}")], choice);
            }
        }
    }
}

#[test]
fn runs_with_adaptive_steps_or_few_bodies_repeat() {
    for choice in test_choices() {
        check_direct(&["time.step=\"adaptive\"", "time.eta=0.1"], choice);
        check_direct(
            &["time.step=\"adaptive\"", "time.eta=0.02", "gravity.softening=0", "time.end=0.02"],
            choice,
        );
        // With this few bodies, the positions of every step are stored for the trails.
        check_direct(&["bodies.n=3"], choice);
        check_direct(&["bodies.n=1"], choice);
    }
}

/// A run can move from the CPU to a device and back. Each change is reported.
#[test]
fn a_run_can_move_between_cpu_and_device() {
    for choice in test_choices() {
        let dir = temp_folder();
        let folder = dir.path().join("run");
        let device = Device::open(choice).unwrap().unwrap();
        let name = format!("{} ({})", device.properties().backend.as_str(), device.properties().name);
        run_until(&case(&["time.integrator=hermite4"]), &folder, DeviceChoice::Cpu, 3);
        let message = resume_on(&folder, choice).unwrap().unwrap();
        assert!(message.contains(" on cpu (") && message.ends_with(&format!(" on {name}")), "{message}");
        let provenance = std::fs::read_to_string(folder.join("provenance.txt")).unwrap();
        assert!(provenance.contains("device: cpu ("), "{provenance}");
        assert!(provenance.contains("resumed at step 3: orrery "), "{provenance}");

        // `auto` resumes on the same device.
        for (folder, choice) in [("there", choice), ("here", DeviceChoice::Cpu)] {
            let folder = dir.path().join(folder);
            run_until(&case(&[]), &folder, choice, 3);
            assert_eq!(resume_on(&folder, DeviceChoice::Auto).unwrap(), None);
        }

        let folder = dir.path().join("back");
        run_until(&case(&[]), &folder, choice, 3);
        let message = resume_on(&folder, DeviceChoice::Cpu).unwrap().unwrap();
        assert!(message.contains(&format!(" on {name} -> ")), "{message}");
        let provenance = std::fs::read_to_string(folder.join("provenance.txt")).unwrap();
        assert!(provenance.contains(&format!("device: {name}\n")), "{provenance}");
        assert!(provenance.contains("strategy: {"), "{provenance}");
    }
}

/// Sources without measured strategies.
const NOTHING_TUNED: Tuned = Tuned {
    direct: |_, _, _| None,
    tree: |_, _, _| None,
    heat: |_, _, _, _| None,
    wave: |_, _, _| None,
    fluid: |_, _| None,
};

/// A tuned strategy computes waves from the start and after a move from the CPU. It does not change
/// the results.
#[test]
fn waves_use_the_tuned_strategy() {
    static MOVES: AtomicUsize = AtomicUsize::new(0);
    fn tuned_wave(device: &Device, shape: WaveShape, is_variable: bool) -> Option<WaveDeviceStrategy> {
        assert!(shape.dimensions == 2 && shape.radius == 4 && is_variable, "{shape:?}");
        MOVES.fetch_add(1, Ordering::Relaxed);
        Some(WaveDeviceStrategy { planes_per_chunk: 7, ..WaveDeviceStrategy::default_for(device, shape) })
    }
    let tuned = Tuned { wave: tuned_wave, ..NOTHING_TUNED };
    for choice in test_choices() {
        let device = DeviceRequest { choice, tuned: Some(tuned) };
        let control = Control { device, ..Control::default() };
        let dir = temp_folder();
        let [default, started, moved] = ["default", "started", "moved"].map(|name| dir.path().join(name));
        run_whole(&tank(&[]), &default, choice);
        let moves_before = MOVES.load(Ordering::Relaxed);
        run(&tank(&[]), &output_to(started.clone()), &control, |_| {}).unwrap();
        let provenance = std::fs::read_to_string(started.join("provenance.txt")).unwrap();
        assert!(provenance.contains("chunks of 7"), "{provenance}");
        run_until(&tank(&[]), &moved, DeviceChoice::Cpu, 3);
        resume(&Resume { folder: &moved, sets: &[], restart_outputs: false }, &control, |_| {}).unwrap();
        assert_eq!(MOVES.load(Ordering::Relaxed), moves_before + 2);
        let seismograms = |folder: &Path| std::fs::read(folder.join("seismograms.npy")).unwrap();
        assert_eq!(seismograms(&started), seismograms(&default));
        assert_eq!(seismograms(&moved), seismograms(&default));
    }
}

/// A tuned tree has larger leaves and other bits. It is reported and recorded, and a resumed run
/// keeps the strategy with which it started.
#[test]
fn trees_use_the_tuned_strategy_and_keep_the_recorded_one() {
    fn tuned_tree(device: &Device, n: usize, precision: Precision) -> Option<TreeDeviceStrategy> {
        assert_eq!((n, precision), (300, Precision::Single));
        let default = TreeDeviceStrategy::default_for(device, precision);
        Some(TreeDeviceStrategy { leaf_size: 48, ..default })
    }
    let case = case(&["gravity.solver=tree", "gravity.precision=single", "bodies.n=300"]);
    for choice in test_choices() {
        let control_with =
            |tuned: Option<Tuned>| Control { device: DeviceRequest { choice, tuned }, ..Control::default() };
        let tuned = Some(Tuned { tree: tuned_tree, ..NOTHING_TUNED });
        let dir = temp_folder();
        let folder_of = |name: &str, is_tuned: bool| dir.path().join(format!("{name}-{is_tuned}"));
        for is_tuned in [false, true] {
            let mut reported = Vec::new();
            let start_control = control_with(tuned.filter(|_| is_tuned));
            let whole = folder_of("whole", is_tuned);
            run(&case, &output_to(whole.clone()), &start_control, |event| {
                if let RunEvent::TunedStrategy(text) = event {
                    reported.push(text.to_owned());
                }
            })
            .unwrap();
            let expected: &[&str] = if is_tuned { &["groups of 32, leaves of 48, quadrupole"] } else { &[] };
            assert_eq!(reported, expected);
            let provenance = std::fs::read_to_string(whole.join("provenance.txt")).unwrap();
            let leaf_size = if is_tuned { "\"leaf_size\":48," } else { "\"leaf_size\":16," };
            assert!(provenance.contains(leaf_size), "{provenance}");
            // The other part of the run has the other tuning.
            let parts = folder_of("parts", is_tuned);
            let outcome = run(&case, &output_to(parts.clone()), &start_control, |event| {
                if matches!(event, RunEvent::Step(status) if status.step == 5) {
                    start_control.stop.store(true, Ordering::Relaxed);
                }
            });
            assert!(outcome.unwrap().stopped.is_some());
            let resume_control = control_with(tuned.filter(|_| !is_tuned));
            let request = Resume { folder: &parts, sets: &[], restart_outputs: false };
            resume(&request, &resume_control, |_| {}).unwrap();
            assert_same(&whole, &parts, leaf_size);
        }
        let table = |is_tuned| std::fs::read(folder_of("whole", is_tuned).join("conserved.csv")).unwrap();
        assert_ne!(table(false), table(true));
    }
}

/// The tree on a device with both acceptance criteria, and a run that moves from the CPU to a
/// device. The moved run keeps its solver, even if `auto` would select another one there.
#[test]
fn tree_runs_repeat_and_keep_their_solver() {
    for choice in test_choices() {
        for precision in ["single", "mixed", "double"] {
            for acceptance in ["geometric", "relative"] {
                let sets = [
                    "gravity.solver=tree",
                    &format!("gravity.precision={precision}"),
                    &format!("gravity.acceptance={acceptance}"),
                ];
                check_solver(&sets, choice, "tree");
            }
        }
        let dir = temp_folder();
        let folder = dir.path().join("run");
        run_until(&case(&["gravity.solver=tree"]), &folder, DeviceChoice::Cpu, 3);
        assert!(resume_on(&folder, choice).unwrap().is_some());
        let checkpoints = std::fs::read_dir(folder.join("checkpoints")).unwrap();
        let last = checkpoints.map(|entry| entry.unwrap().path()).max().unwrap();
        let found = describe(&last, &Limits::unbounded()).unwrap();
        assert_eq!(found.method, "tree");
        let provenance = std::fs::read_to_string(folder.join("provenance.txt")).unwrap();
        assert!(provenance.contains("solver: tree\n"), "{provenance}");
    }
}

/// The solver that `auto` selects depends on the integrator: Hermite needs the direct sum for any
/// number of bodies.
#[test]
fn hermite_never_uses_the_tree() {
    for choice in test_choices() {
        let selected = compute_device::select_device(choice).unwrap();
        for (set, solver) in [("leapfrog", "tree"), ("hermite4", "direct")] {
            let case = case(&["gravity.solver=auto", &format!("time.integrator={set}")]);
            let (device, settings) = (
                selected.device.as_ref().unwrap(),
                gravity::settings(case.gravity().unwrap(), case.time.step),
            );
            let setup = gravity::device_setup(device, 1_000_000, &settings, None, None);
            assert_eq!(setup.strategy.name(), solver, "{set}");
        }
    }
}

#[test]
fn too_many_bodies_for_the_device_are_rejected_before_the_run() {
    let n = 4_000_000_000_000;
    let leapfrog = IntegratorChoice::Leapfrog;
    for (choice, solver) in
        test_choices().into_iter().flat_map(|choice| ["auto", "direct"].map(|s| (choice, s)))
    {
        let case = case(&[&format!("gravity.solver={solver}")]);
        let settings = &case.gravity().unwrap().settings;
        let selected = compute_device::select_device(choice).unwrap();
        let device = selected.device.clone().unwrap();
        let error = gravity::ensure_memory(selected.clone(), choice, n, settings, leapfrog).unwrap_err();
        let message = error.to_string();
        assert!(
            message.starts_with(&format!("{}: 4000000000000 bodies need ", device.title()))
                && message.ends_with(" are free"),
            "{message}"
        );
        assert!(error.is_user_error());
        // With `auto` the run uses the CPU, and the reason is reported.
        let ComputeDevice { device: None, reason: Some(reason) } =
            gravity::ensure_memory(selected.clone(), DeviceChoice::Auto, n, settings, leapfrog).unwrap()
        else {
            panic!("no such memory")
        };
        assert!(reason.starts_with("4000000000000 bodies need "), "{reason}");
        assert_eq!(
            gravity::ensure_memory(selected, choice, 1000, settings, leapfrog).unwrap().device,
            Some(device)
        );
    }
}
