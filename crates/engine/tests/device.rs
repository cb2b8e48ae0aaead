//! Runs on every device there is: the same bytes every time, stopped and resumed or not, and plain words where a run
//! cannot go to a device.

mod common;

use std::path::Path;
use std::sync::atomic::Ordering;

use common::{assert_same, case, room, to};
use orrery_device::{Backend, Device, DeviceChoice};
use orrery_engine::case::Case;
use orrery_engine::checkpoint::describe;
use orrery_engine::compute_device::{self, ComputeDevice, DeviceRequest};
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{Resume, Summary, resume, run};
use orrery_engine::{EngineError, Simulation};
use orrery_io::Limits;
use orrery_particles::settings::IntegratorChoice;

/// All devices; none is a failure, unless tests are told so.
fn devices() -> Vec<DeviceChoice> {
    let found = Device::list();
    let excused = std::env::var_os("ORRERY_NO_DEVICE_TESTS").is_some();
    assert!(!found.devices.is_empty() || excused, "{}", found.notes.join("; "));
    let choice = |device: &Device| match device.properties().backend {
        Backend::Cuda => DeviceChoice::Cuda(Some(device.properties().index)),
        Backend::OpenCl => DeviceChoice::OpenCl(Some(device.properties().index)),
    };
    found.devices.iter().filter(|device| device.properties().has_f64).map(choice).collect()
}

fn on(choice: DeviceChoice) -> Control {
    Control { device: DeviceRequest { choice, ..DeviceRequest::default() }, ..Control::default() }
}

fn whole(case: &Case, folder: &Path, choice: DeviceChoice) -> Summary {
    run(case, &to(folder.to_owned()), &on(choice), |_| {}).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs until `step` is done, then stops as a signal would have it.
fn stopped(case: &Case, folder: &Path, choice: DeviceChoice, step: u64) {
    let control = on(choice);
    let outcome = run(case, &to(folder.to_owned()), &control, |event| {
        if let RunEvent::Step(status) = event
            && status.step == step
        {
            control.stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(outcome.unwrap_or_else(|e| panic!("{e}")).stopped.is_some());
}

/// What was said of a move while going on.
fn resumed(folder: &Path, choice: DeviceChoice) -> Result<Option<String>, EngineError> {
    let mut moved = None;
    let how = Resume { folder, sets: &[], restart_outputs: false };
    let summary = resume(&how, &on(choice), |event| {
        if let RunEvent::WriterChanged { before, now } = event {
            moved = Some(format!("{before} -> {now}"));
        }
    })?;
    assert!(summary.stopped.is_none());
    Ok(moved)
}

fn check(sets: &[&str], choice: DeviceChoice) {
    check_solver(sets, choice, "direct");
}

fn check_solver(sets: &[&str], choice: DeviceChoice, solver: &str) {
    let room = room();
    let [once, again, parts] = ["once", "again", "parts"].map(|name| room.path().join(name));
    let case = case(sets);
    let summary = whole(&case, &once, choice);
    assert_eq!(summary.solver, solver);
    whole(&case, &again, choice);
    stopped(&case, &parts, choice, 5);
    assert_eq!(resumed(&parts, choice).unwrap_or_else(|e| panic!("{e}")), None);
    assert_same(&once, &again, &sets.join(" "));
    assert_same(&once, &parts, &sets.join(" "));
}

#[test]
fn each_integrator_and_precision() {
    for choice in devices() {
        for integrator in ["leapfrog", "yoshida4", "yoshida6", "blanes-moan4", "hermite4"] {
            for precision in ["single", "mixed", "double"] {
                let integrator = format!("time.integrator={integrator}");
                check(&[&integrator, &format!("gravity.precision={precision}")], choice);
            }
        }
    }
}

#[test]
fn adaptive_steps_and_few_bodies() {
    for choice in devices() {
        check(&["time.step=\"adaptive\"", "time.eta=0.1"], choice);
        check(&["time.step=\"adaptive\"", "time.eta=0.02", "gravity.softening=0", "time.end=0.02"], choice);
        // So few that every step's places are kept for the picture.
        check(&["bodies.n=3"], choice);
        check(&["bodies.n=1"], choice);
    }
}

/// From the processor to a device and back: allowed, and said each time.
#[test]
fn a_run_may_move() {
    for choice in devices() {
        let room = room();
        let folder = room.path().join("run");
        let device = Device::open(choice).unwrap().unwrap();
        let name = format!("{} ({})", device.properties().backend.as_str(), device.properties().name);
        stopped(&case(&["time.integrator=hermite4"]), &folder, DeviceChoice::Cpu, 3);
        let said = resumed(&folder, choice).unwrap().unwrap();
        assert!(said.contains(" on cpu (") && said.ends_with(&format!(" on {name}")), "{said}");
        let provenance = std::fs::read_to_string(folder.join("provenance.txt")).unwrap();
        assert!(provenance.contains("device: cpu ("), "{provenance}");
        assert!(provenance.contains("resumed at step 3: orrery "), "{provenance}");

        // Whoever does not say where goes on where it was.
        for (folder, choice) in [("there", choice), ("here", DeviceChoice::Cpu)] {
            let folder = room.path().join(folder);
            stopped(&case(&[]), &folder, choice, 3);
            assert_eq!(resumed(&folder, DeviceChoice::Auto).unwrap(), None);
        }

        let folder = room.path().join("back");
        stopped(&case(&[]), &folder, choice, 3);
        let said = resumed(&folder, DeviceChoice::Cpu).unwrap().unwrap();
        assert!(said.contains(&format!(" on {name} -> ")), "{said}");
        let provenance = std::fs::read_to_string(folder.join("provenance.txt")).unwrap();
        assert!(provenance.contains(&format!("device: {name}\n")), "{provenance}");
        assert!(provenance.contains("strategy: {"), "{provenance}");
    }
}

/// The tree on a device, with both acceptances, and from the processor to a device: the solver goes along, whatever `auto`
/// would come to there.
#[test]
fn the_tree_too() {
    for choice in devices() {
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
        let room = room();
        let folder = room.path().join("run");
        stopped(&case(&["gravity.solver=tree"]), &folder, DeviceChoice::Cpu, 3);
        assert!(resumed(&folder, choice).unwrap().is_some());
        let checkpoints = std::fs::read_dir(folder.join("checkpoints")).unwrap();
        let last = checkpoints.map(|entry| entry.unwrap().path()).max().unwrap();
        let found = describe(&last, &Limits::unbounded()).unwrap();
        assert_eq!(found.solver, "tree");
        let provenance = std::fs::read_to_string(folder.join("provenance.txt")).unwrap();
        assert!(provenance.contains("solver: tree\n"), "{provenance}");
    }
}

/// What auto comes to on a device follows from what is needed: Hermite's scheme has all pairs however many they are.
#[test]
fn hermite_never_takes_the_tree() {
    for choice in devices() {
        let selected = compute_device::select_device(choice).unwrap();
        for (set, solver) in [("leapfrog", "tree"), ("hermite4", "direct")] {
            let case = case(&["gravity.solver=auto", &format!("time.integrator={set}")]);
            let gravity = Simulation::gravity_settings(&case);
            let setup = DeviceRequest::default().setup(&selected, 1_000_000, &gravity, None).unwrap();
            assert_eq!(setup.strategy.name(), solver, "{set}");
        }
    }
}

#[test]
fn memory_is_foreseen() {
    let n = 4_000_000_000_000;
    let leapfrog = IntegratorChoice::Leapfrog;
    for (choice, solver) in devices().into_iter().flat_map(|choice| ["auto", "direct"].map(|s| (choice, s))) {
        let gravity = &case(&[&format!("gravity.solver={solver}")]).gravity;
        let selected = compute_device::select_device(choice).unwrap();
        let device = selected.device.clone().unwrap();
        let error =
            compute_device::ensure_memory(selected.clone(), choice, n, gravity, leapfrog).unwrap_err();
        let said = error.to_string();
        assert!(
            said.starts_with(&format!("{}: 4000000000000 bodies need ", device.title()))
                && said.ends_with(" are free"),
            "{said}"
        );
        assert!(error.is_user_error());
        // Whoever left the choice open gets the processor, and the reason.
        let ComputeDevice { device: None, reason: Some(reason) } =
            compute_device::ensure_memory(selected.clone(), DeviceChoice::Auto, n, gravity, leapfrog)
                .unwrap()
        else {
            panic!("no such memory")
        };
        assert!(reason.starts_with("4000000000000 bodies need "), "{reason}");
        assert_eq!(
            compute_device::ensure_memory(selected, choice, 1000, gravity, leapfrog).unwrap().device,
            Some(device)
        );
    }
}
