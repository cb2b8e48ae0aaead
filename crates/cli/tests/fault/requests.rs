//! Tests of two runs in one folder, signals and the wall-time limit.

use std::fs;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use orrery_device::testing::suite_cases;

use super::scenario::{
    Fault, FaultScenario, NO_PLOTS, Trial, first_difference, resumed_step, run_to_end, start_run, wait_for,
};
use crate::common::text;

/// A run in the background. It is killed at the end of the test.
pub struct BackgroundRun(Option<Child>);

impl BackgroundRun {
    pub fn start(command: &mut Command) -> Self {
        Self(Some(start_run(command)))
    }

    fn id(&self) -> u32 {
        self.0.as_ref().expect("it runs").id()
    }

    pub fn send_signal(&self, name: &str) {
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.id())]).status();
        assert!(sent.expect("a shell").success(), "{name} was not sent");
    }

    pub fn has_ended(&mut self) -> bool {
        self.0.as_mut().is_none_or(|child| child.try_wait().expect("a child").is_some())
    }

    pub fn wait_for_end(mut self) -> Output {
        wait_for(self.0.take().expect("it runs"))
    }

    fn kill(mut self) {
        let mut child = self.0.take().expect("it runs");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }
}

impl Drop for BackgroundRun {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until the condition is true. Panics after a minute.
#[track_caller]
pub fn wait_until(condition: &str, mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < Duration::from_secs(60), "timeout while waiting for {condition}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn row_count(trial: &Trial<'_>) -> usize {
    fs::read_to_string(trial.out().join("conserved.csv"))
        .map_or(0, |table| table.lines().count().saturating_sub(1))
}

/// Returns cases of 2000 steps: long enough to be interrupted, short enough to finish.
fn long_scenarios() -> impl Iterator<Item = FaultScenario> {
    let cases: [(&str, &[&str]); 2] = [
        ("plummer", &["bodies.n=100", "time.step=0.001", "time.end=2"]),
        ("sine-decay", &["grid.nx=200", "grid.ny=200", "time.step=6e-6", "time.end=0.012"]),
    ];
    cases.into_iter().map(|(case, sets)| long_scenario(case, sets))
}

pub fn long_scenario(case: &str, sets: &[&str]) -> FaultScenario {
    let outputs = [
        "output.snapshot_every=0",
        "output.image_every=0",
        "output.record_every=1 step",
        "checkpoint.every=500 steps",
        "image.size=64",
        NO_PLOTS,
    ];
    FaultScenario::new(case, &[sets, &outputs].concat())
}

#[test]
fn a_second_run_in_the_folder_is_refused() {
    let scenario = long_scenarios().next().expect("a case");
    let trial = scenario.trial("shared");
    let first = BackgroundRun::start(&mut trial.command(&["--quiet"], Fault::default()));
    wait_until("the first rows", || row_count(&trial) > 2);
    // A stopped process keeps its lock, and the run cannot end before the three commands.
    first.send_signal("STOP");
    let resume = vec!["resume".to_owned(), trial.out().display().to_string()];
    for arguments in [trial.arguments(&["--force"]), trial.arguments(&["--resume"]), resume] {
        let second = run_to_end(Command::new(env!("CARGO_BIN_EXE_orrery")).args(&arguments));
        let stderr = text(&second.stderr);
        assert_eq!(second.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert_eq!(
            stderr,
            format!(
                "error: {}: another run (process {}) is writing to it, expected a directory that no other run uses\n",
                trial.out().display(),
                first.id()
            )
        );
    }
    // The lock is released when its process ends, even by SIGKILL.
    first.kill();
    trial.resume_and_compare().unwrap();
}

#[test]
fn without_file_locks_a_second_run_is_refused() {
    let scenario = long_scenarios().next().expect("a case");
    for &error in suite_cases(&["ENOLCK", "ENOSYS", "EOPNOTSUPP"], 1) {
        let trial = scenario.trial(error);
        let without_locks = |arguments: &[String]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
            command.args(arguments).envs(trial.shim_variables(Fault::default())).env("FAULT_LOCK", error);
            command
        };
        let first = BackgroundRun::start(&mut without_locks(&trial.arguments(&["--quiet"])));
        wait_until("the first rows", || row_count(&trial) > 2);
        first.send_signal("STOP");
        let out = trial.out().display().to_string();
        let resume = ["resume".to_owned(), out.clone()];
        for arguments in [trial.arguments(&["--force"]), trial.arguments(&["--resume"]), resume.to_vec()] {
            let second = run_to_end(&mut without_locks(&arguments));
            let stderr = text(&second.stderr);
            assert_eq!(second.status.code(), Some(2), "{arguments:?}: {stderr}");
            let reason = "is writing to it or was killed, and the file system has no locks to find out";
            let expected = format!("error: {out}: process {} {reason}; ", first.id());
            assert!(stderr.starts_with(&expected) && stderr.lines().count() == 1, "{stderr}");
        }
        // A run on this computer finds that the process has ended.
        first.kill();
        let claim = trial.out().join(".running");
        assert!(claim.exists());
        let resumed = run_to_end(&mut without_locks(&trial.arguments(&["--resume"])));
        assert!(text(&resumed.stderr).contains("the file .running prevents a second run"), "{resumed:?}");
        trial.compare_resumed(&resumed).unwrap();
        assert!(!claim.exists());
        // That of another computer may still run. With --no-lock, its claim is replaced.
        fs::write(&claim, "process 1 on elsewhere\n").unwrap();
        let refused = run_to_end(&mut without_locks(&resume));
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let allowed = run_to_end(&mut without_locks(&trial.arguments(&["--resume", "--no-lock"])));
        trial.compare_resumed(&allowed).unwrap();
        assert!(!claim.exists());
    }
}

#[test]
fn a_signal_ends_the_run_with_a_checkpoint() {
    for (number, scenario) in long_scenarios().enumerate() {
        // One signal for each case in `cargo xtask test`.
        let signals = if number == 0 { ["INT", "TERM"] } else { ["TERM", "INT"] };
        for &signal in suite_cases(&signals, 1) {
            let trial = scenario.trial(signal);
            let run = BackgroundRun::start(&mut trial.command(&["--quiet"], Fault::default()));
            wait_until("the first rows", || row_count(&trial) > 20);
            run.send_signal(signal);
            let ended = run.wait_for_end();
            let stderr = text(&ended.stderr);
            assert_eq!(ended.status.code(), Some(3), "{signal}: {stderr}");
            let step: u64 = stderr
                .split_whitespace()
                .nth(3)
                .and_then(|word| word.trim_end_matches(',').parse().ok())
                .unwrap();
            assert!(
                stderr.starts_with("stopped after step ") && stderr.contains("by a signal; checkpoint: "),
                "{stderr}"
            );
            assert!(
                stderr.ends_with(&format!("resume with: orrery resume {}\n", trial.out().display())),
                "{stderr}"
            );
            assert_eq!(row_count(&trial) as u64, step + 1, "{signal}: rows are missing");
            assert_eq!(trial.resume_and_compare(), Ok(step), "{signal}");
        }
    }
}

#[test]
fn a_checkpoint_on_request_does_not_end_the_run() {
    for scenario in long_scenarios() {
        let trial = scenario.trial("requested");
        let run = BackgroundRun::start(&mut trial.command(&[], Fault::default()));
        wait_until("the first rows", || row_count(&trial) > 20);
        run.send_signal("USR1");
        let ended = run.wait_for_end();
        let stderr = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(0), "{stderr}");
        assert!(
            stderr.contains("checkpoint after step ") && stderr.contains("checkpoints/checkpoint_"),
            "{stderr}"
        );
        assert_eq!(first_difference(&trial.content(), &scenario.expected), None);
    }
}

/// A shell script ignores SIGINT for its commands in the background, so that Ctrl-C ends only the
/// command in the foreground. Other signals stop the run.
#[test]
fn an_ignored_interrupt_stays_ignored() {
    let scenario = long_scenarios().next().expect("a case");
    let trial = scenario.trial("ignored");
    let mut command = Command::new("sh");
    let arguments = trial.arguments(&["--quiet"]);
    command.args(["-c", "trap '' INT; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_orrery")]).args(arguments);
    let mut run = BackgroundRun::start(&mut command);
    wait_until("the first rows", || row_count(&trial) > 20);
    run.send_signal("INT");
    run.send_signal("INT");
    let rows = row_count(&trial);
    wait_until("more rows", || row_count(&trial) > rows + 20 || run.has_ended());
    run.send_signal("TERM");
    let ended = run.wait_for_end();
    assert_eq!(ended.status.code(), Some(3), "{}", text(&ended.stderr));
    assert!(trial.resume_and_compare().unwrap() > rows as u64);
}

/// The second SIGINT does not wait for the end of the step.
#[test]
fn a_second_interrupt_ends_at_once() {
    let sets =
        ["bodies.n=30000", "gravity.solver=direct", "time.step=0.01", "time.end=0.02", "image.size=64"];
    let more = ["output.snapshot_every=0", "output.image_every=0", "checkpoint.every=1 step"];
    let scenario = FaultScenario::without_reference("plummer", &[&sets[..], &more].concat());
    let trial = scenario.trial("long");
    let run = BackgroundRun::start(&mut trial.command(&["--quiet"], Fault::default()));
    wait_until("the first step", || {
        row_count(&trial) > 0 && trial.out().join("images/image_0000.png").exists()
    });
    run.send_signal("INT");
    std::thread::sleep(Duration::from_millis(50));
    run.send_signal("INT");
    let ended = run.wait_for_end();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    let resumed = trial.run(&["--resume", "--wall-time", "1s"], Fault::default());
    let stderr = text(&resumed.stderr);
    assert!(stderr.contains("resuming after step 0") && resumed_step(&stderr) == 0, "{stderr}");
}

/// Without output, a field takes many steps per batch. The run ends after the batch in which the
/// signal comes. To its end it would take hours.
#[test]
fn a_signal_ends_a_batch_of_steps() {
    let sets = ["time.step=6e-6", "time.end=1000", "image.size=64", "grid.nx=200", "grid.ny=200"];
    let none = ["output.record_every=0", "output.snapshot_every=0", "output.image_every=0"];
    let scenario = FaultScenario::without_reference("sine-decay", &[&sets[..], &none].concat());
    let trial = scenario.trial("batches");
    let run = BackgroundRun::start(&mut trial.command(&["--quiet"], Fault::default()));
    wait_until("the first image", || trial.out().join("images/image_0000.png").exists());
    std::thread::sleep(Duration::from_millis(300));
    run.send_signal("INT");
    let ended = run.wait_for_end();
    let stderr = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3), "{stderr}");
    let resumed = trial.run(&["--resume", "--wall-time", "3s"], Fault::default());
    let resumed = text(&resumed.stderr);
    let step = resumed_step(&resumed);
    assert!(step > 0 && stderr.starts_with(&format!("stopped after step {step}, ")), "{stderr}{resumed}");
}

/// A step has 100 images, which take much longer than a second. The run does not wait for them.
#[test]
fn a_signal_ends_a_step_with_many_images() {
    let sets = ["bodies.n=500", "time.step=0.5", "time.end=1", "image.size=1600"];
    let often = ["output.image_every=0.005", "output.snapshot_every=0", "checkpoint.every=0"];
    let scenario = FaultScenario::without_reference("plummer", &[&sets[..], &often].concat());
    let trial = scenario.trial("images");
    let run = BackgroundRun::start(&mut trial.command(&["--quiet"], Fault::default()));
    wait_until("some images", || trial.out().join("images/image_0003.png").exists());
    run.send_signal("TERM");
    let ended = run.wait_for_end();
    let stderr = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3), "{stderr}");
    assert!(stderr.starts_with("stopped after step 0, "), "{stderr}");
    let images = fs::read_dir(trial.out().join("images")).expect("a folder").count();
    assert!((4..60).contains(&images), "{images} images");
    // The resumed run draws the next images, and has kept those of before.
    let resumed = trial.run(&["--resume", "--wall-time", "2s"], Fault::default());
    assert!(text(&resumed.stderr).contains("resuming after step 0"), "{}", text(&resumed.stderr));
    assert!(fs::read_dir(trial.out().join("images")).expect("a folder").count() >= images);
}

/// Without the limit, these runs take hours. That they stop before it depends on the speed of the
/// computer: `control::tests` of the engine has the condition.
#[test]
fn a_run_stops_at_its_wall_time_limit() {
    let bodies = ("plummer", ["bodies.n=500", "time.step=0.001", "time.end=100", "image.size=64"]);
    let plate = ("sine-decay", ["grid.nx=200", "time.step=6e-6", "time.end=1000", "image.size=64"]);
    for (case, sets) in [bodies, plate] {
        let scenario = FaultScenario::without_reference(case, &sets);
        let trial = scenario.trial("limit");
        let run = trial.run(&["--quiet", "--wall-time", "2s"], Fault::default());
        let stderr = text(&run.stderr);
        assert_eq!(run.status.code(), Some(3), "{stderr}");
        assert!(stderr.contains("at the wall-time limit; checkpoint: "), "{stderr}");
    }
}
