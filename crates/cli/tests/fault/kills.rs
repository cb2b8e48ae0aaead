//! Tests of SIGKILL. Half of the kills happen at a random time of the run, half inside a storage
//! call.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use orrery_device::testing::{SplitMix64, is_soak};
use rayon::prelude::*;

use super::scenario::{
    Fault, FaultScenario, NO_PLOTS, Trial, first_difference, resumed_step, run_to_end, start_run, wait_for,
};
use crate::common::text;

/// Steps between two checkpoints.
const INTERVAL: u64 = 3;
/// Kinds of calls inside which runs are killed. Half of these kills are inside a write.
const KINDS: [&str; 12] = [
    "write", "write", "write", "write", "write", "write", "sync", "rename", "open", "unlink", "mkdir",
    "truncate",
];

fn scenarios() -> Vec<FaultScenario> {
    let common = ["output.record_every=1 step", "checkpoint.every=3 steps", "image.size=64", NO_PLOTS];
    let plummer = |more: &[&str]| {
        let every =
            ["time.step=0.01", "time.end=0.12", "output.snapshot_every=0.035", "output.image_every=4 steps"];
        FaultScenario::new("plummer", &[&common[..], &every, more].concat())
    };
    let plate = ["grid.nx=12", "grid.ny=16", "time.step=0.25 s", "time.end=3 s", "heat.precision=single"];
    let of_plate = ["output.snapshot_every=0.6 s", "output.image_every=0.7 s"];
    let planets = ["time.end=48 days", "output.snapshot_every=20 days", "output.image_every=10 days"];
    vec![
        plummer(&["bodies.n=100"]),
        plummer(&["bodies.n=300", "gravity.solver=tree"]),
        plummer(&["bodies.n=30", "time.integrator=hermite4"]),
        plummer(&["bodies.n=30", "time.step=adaptive", "time.end=0.04", "output.format=xyz"]),
        FaultScenario::new("solar-system", &[&common[..], &planets].concat()),
        FaultScenario::new("hot-plate", &[&common[..], &plate, &of_plate].concat()),
    ]
}

/// Result of a killed and resumed run.
#[derive(Debug, Default)]
struct Outcome {
    kills: usize,
    inside_a_write: usize,
    is_resumed: bool,
    lost_too_much: bool,
    differs: bool,
    /// Descriptions of all deviations.
    errors: Vec<String>,
}

/// Kills a run, then resumes it. Each resumed run is killed with probability 0.3 and resumed again.
fn kill_and_resume(scenario: &FaultScenario, duration: Duration, seed: u64) -> Outcome {
    let mut random = SplitMix64::new(seed);
    let mut outcome = Outcome::default();
    let name = format!("trial-{seed}");
    let trial = scenario.trial(&name);
    while outcome.kills == 0 {
        // A timed kill may come after the end of the run. Then the run is repeated.
        let _ = std::fs::remove_dir_all(trial.out());
        kill_once(&trial, &[], duration, &mut random, &mut outcome);
    }
    loop {
        let last_step = last_row(&trial);
        let resumed = if random.below(100) < 30 {
            kill_once(&trial, &["--resume"], duration, &mut random, &mut outcome)
        } else {
            let run = trial.run(&["--resume"], Fault::default());
            EndedRun { status: run.status, stderr: text(&run.stderr) }
        };
        let from = resumed_step(&resumed.stderr);
        // A run that was killed before it printed its first line has no known step.
        let has_started = resumed.status.signal().is_none() || resumed.stderr.contains("resuming after step");
        if has_started && from + INTERVAL < last_step {
            outcome.lost_too_much = true;
            outcome
                .errors
                .push(format!("resumed after step {from}, but the row of step {last_step} was written"));
        }
        if resumed.stderr.contains("damaged") {
            outcome.errors.push(resumed.stderr.clone());
        }
        if resumed.status.signal().is_some() {
            continue;
        }
        outcome.is_resumed = resumed.status.success();
        if !outcome.is_resumed {
            outcome.errors.push(format!("{}: {}", resumed.status, resumed.stderr));
        }
        if let Some(difference) = first_difference(&trial.content(), &scenario.expected) {
            outcome.differs = true;
            outcome.errors.push(difference);
        }
        return outcome;
    }
}

struct EndedRun {
    status: ExitStatus,
    stderr: String,
}

/// Starts a run and kills it, unless it ends before.
fn kill_once(
    trial: &Trial<'_>,
    more: &[&str],
    duration: Duration,
    random: &mut SplitMix64,
    outcome: &mut Outcome,
) -> EndedRun {
    let kind = KINDS[random.below(KINDS.len())];
    let is_timed = random.below(100) < 50;
    let run = if is_timed {
        let mut plain = Command::new(env!("CARGO_BIN_EXE_orrery"));
        let pause = duration.mul_f64(random.below(1000) as f64 / 1000.0);
        kill_after(plain.args(trial.arguments(more)), pause)
    } else {
        let at = 1 + random.below(trial.scenario().call_count(Some(kind)));
        trial.run(more, Fault { action: "KILL", at, times: 1, kind: Some(kind) })
    };
    if run.status.signal().is_some() {
        outcome.kills += 1;
        outcome.inside_a_write += usize::from(!is_timed && kind == "write");
    }
    EndedRun { status: run.status, stderr: text(&run.stderr) }
}

fn kill_after(command: &mut Command, pause: Duration) -> Output {
    let mut child = start_run(command);
    std::thread::sleep(pause);
    // Fails if the run has already ended.
    let _ = child.kill();
    wait_for(child)
}

/// Returns the step of the last complete row in `conserved.csv`.
fn last_row(trial: &Trial<'_>) -> u64 {
    let table = std::fs::read_to_string(trial.out().join("conserved.csv")).unwrap_or_default();
    let whole = table.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().last().and_then(|row| row.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// Kills `count` runs and prints the results.
fn kill_runs(count: u64, first_seed: u64) {
    let scenarios: Vec<(FaultScenario, Duration)> = scenarios()
        .into_iter()
        .map(|scenario| {
            let start = Instant::now();
            let trial = scenario.trial("timed");
            let plain = run_to_end(Command::new(env!("CARGO_BIN_EXE_orrery")).args(trial.arguments(&[])));
            assert!(plain.status.success());
            let duration = start.elapsed();
            drop(trial);
            (scenario, duration)
        })
        .collect();
    let done = AtomicU64::new(0);
    let outcomes: Vec<(u64, Outcome)> = (first_seed..first_seed + count)
        .into_par_iter()
        .map(|seed| {
            let (scenario, duration) = &scenarios[seed as usize % scenarios.len()];
            let outcome = kill_and_resume(scenario, *duration, seed);
            let done = 1 + done.fetch_add(1, Ordering::Relaxed);
            if done.is_multiple_of(200) {
                eprintln!("{done} of {count}");
            }
            (seed, outcome)
        })
        .collect();
    let count_if = |is: fn(&Outcome) -> bool| outcomes.iter().filter(|(_, outcome)| is(outcome)).count();
    println!(
        "{} of {count} killed runs resumed, {} losses above an interval, {} folders differing; \
         {} kills in all, {} inside a write",
        count_if(|o| o.is_resumed),
        count_if(|o| o.lost_too_much),
        count_if(|o| o.differs),
        outcomes.iter().map(|(_, o)| o.kills).sum::<usize>(),
        outcomes.iter().map(|(_, o)| o.inside_a_write).sum::<usize>(),
    );
    let errors: Vec<String> = outcomes
        .iter()
        .filter(|(_, outcome)| !outcome.errors.is_empty())
        .map(|(seed, outcome)| format!("seed {seed}: {}", outcome.errors.join("; ")))
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is not an integer")))
}

/// Two runs of each case in `cargo xtask test`.
#[test]
fn killed_runs_resume_without_loss() {
    kill_runs(if is_soak() { 50 } else { 12 }, from_environment("ORRERY_KILL_SEED", 1));
}

#[test]
#[ignore = "takes minutes; ORRERY_KILLS sets the number, ORRERY_KILL_SEED the first seed"]
fn a_thousand_killed_runs_resume_without_loss() {
    kill_runs(from_environment("ORRERY_KILLS", 1000), from_environment("ORRERY_KILL_SEED", 1000));
}
