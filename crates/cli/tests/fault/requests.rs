//! Two runs in one folder, signals, and the wall time.

use std::fs;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use crate::common::text;
use crate::scenario::{Fault, FaultScenario, Trial, difference, ended, started, step_taken_up, wait_for};

/// A run in the background. It ends with the test.
struct Running(Option<Child>);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(Some(started(command)))
    }

    fn id(&self) -> u32 {
        self.0.as_ref().expect("it runs").id()
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.id())]).status();
        assert!(sent.expect("a shell").success(), "{name} was not sent");
    }

    fn end(mut self) -> Output {
        wait_for(self.0.take().expect("it runs"))
    }

    fn kill(mut self) {
        let mut child = self.0.take().expect("it runs");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until `what` is so; a minute is more than any machine needs.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn rows(trial: &Trial<'_>) -> usize {
    fs::read_to_string(trial.out().join("conserved.csv"))
        .map_or(0, |table| table.lines().count().saturating_sub(1))
}

/// Some 2000 steps: long enough to be met on its way, short enough to be let finish.
fn busy() -> FaultScenario {
    let sets = [
        "bodies.n=100",
        "time.step=0.001",
        "time.end=2",
        "output.snapshot_every=0",
        "output.image_every=0",
        "output.record_every=1 step",
        "checkpoint.every=500 steps",
        "image.size=64",
    ];
    FaultScenario::new("plummer", &sets)
}

#[test]
fn a_second_run_in_the_folder_is_refused() {
    let scenario = busy();
    let trial = scenario.trial("shared");
    let first = Running::start(&mut trial.command(&["--quiet"], Fault::default()));
    wait_until("its first rows", || rows(&trial) > 2);
    let resume = vec!["resume".to_owned(), trial.out().display().to_string()];
    for arguments in [trial.arguments(&["--force"]), trial.arguments(&["--resume"]), resume] {
        let second = ended(Command::new(env!("CARGO_BIN_EXE_orrery")).args(&arguments));
        let said = text(&second.stderr);
        assert_eq!(second.status.code(), Some(2), "{arguments:?}: {said}");
        assert_eq!(
            said,
            format!(
                "error: {}: another run (process {}) is writing into it, expected a directory of its own\n",
                trial.out().display(),
                first.id()
            )
        );
    }
    // The lock goes with its owner, however that goes.
    first.kill();
    trial.complete().unwrap();
}

#[test]
fn a_signal_ends_the_run_with_a_checkpoint() {
    let scenario = busy();
    for signal in ["INT", "TERM"] {
        let trial = scenario.trial(signal);
        let run = Running::start(&mut trial.command(&["--quiet"], Fault::default()));
        wait_until("its first rows", || rows(&trial) > 20);
        run.signal(signal);
        let ended = run.end();
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(3), "{signal}: {said}");
        let step: u64 =
            said.split_whitespace().nth(3).and_then(|word| word.trim_end_matches(',').parse().ok()).unwrap();
        assert!(
            said.starts_with("stopped after step ") && said.contains("as a signal asked; saved in "),
            "{said}"
        );
        assert!(said.ends_with(&format!("go on with: orrery resume {}\n", trial.out().display())), "{said}");
        assert_eq!(rows(&trial) as u64, step + 1, "{signal}: nothing is lost");
        assert_eq!(trial.complete(), Ok(step), "{signal}");
    }
}

#[test]
fn a_checkpoint_on_request_does_not_end_the_run() {
    let scenario = busy();
    let trial = scenario.trial("asked");
    let run = Running::start(&mut trial.command(&[], Fault::default()));
    wait_until("its first rows", || rows(&trial) > 20);
    run.signal("USR1");
    let ended = run.end();
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{said}");
    assert!(said.contains("checkpoint after step ") && said.contains("checkpoints/checkpoint_"), "{said}");
    assert_eq!(difference(&trial.content(), &scenario.expected), None);
}

/// The second SIGINT does not wait for the step's end.
#[test]
fn a_second_interrupt_ends_at_once() {
    let sets =
        ["bodies.n=60000", "gravity.solver=direct", "time.step=0.01", "time.end=0.02", "image.size=64"];
    let more = ["output.snapshot_every=0", "output.image_every=0", "checkpoint.every=1 step"];
    let scenario = FaultScenario::unwatched("plummer", &[&sets[..], &more].concat());
    let trial = scenario.trial("long");
    let run = Running::start(&mut trial.command(&["--quiet"], Fault::default()));
    wait_until("the first step", || rows(&trial) > 0 && trial.out().join("images/image_0000.png").exists());
    run.signal("INT");
    std::thread::sleep(Duration::from_millis(50));
    run.signal("INT");
    let ended = run.end();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    let go_on = trial.run(&["--resume", "--wall-time", "1s"], Fault::default());
    let said = text(&go_on.stderr);
    assert!(said.contains("going on after step 0") && step_taken_up(&said) == 0, "{said}");
}

#[test]
fn the_wall_time_is_kept() {
    let scenario = FaultScenario::unwatched(
        "plummer",
        &["bodies.n=500", "time.step=0.001", "time.end=100", "image.size=64"],
    );
    for limit in [2, 4] {
        let trial = scenario.trial(&format!("limit-{limit}"));
        let began = Instant::now();
        let run = trial.run(&["--quiet", "--wall-time", &format!("{limit}s")], Fault::default());
        let took = began.elapsed();
        let said = text(&run.stderr);
        assert_eq!(run.status.code(), Some(3), "{said}");
        assert!(said.contains("since the wall time is up; saved in "), "{said}");
        println!("a limit of {limit} s: ended after {:.3} s", took.as_secs_f64());
        assert!(took < Duration::from_secs(limit), "ended after {took:?}, expected before {limit} s");
    }
}
