//! SIGKILL at random instants: half at a random time of the run, half inside a storage call.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rayon::prelude::*;

use crate::common::text;
use crate::scenario::{
    Fault, FaultScenario, Random, Trial, difference, ended, started, step_taken_up, wait_for,
};

/// Steps between two checkpoints.
const INTERVAL: u64 = 3;
/// The kinds of calls, each as often as kills are to fall into it.
const KINDS: [&str; 12] = [
    "write", "write", "write", "write", "write", "write", "sync", "rename", "open", "unlink", "mkdir",
    "truncate",
];

fn scenarios() -> Vec<FaultScenario> {
    let common = ["output.record_every=1 step", "checkpoint.every=3 steps", "image.size=64"];
    let plummer = |more: &[&str]| {
        let every =
            ["time.step=0.01", "time.end=0.12", "output.snapshot_every=0.035", "output.image_every=4 steps"];
        FaultScenario::new("plummer", &[&common[..], &every, more].concat())
    };
    let planets = ["time.end=48 days", "output.snapshot_every=20 days", "output.image_every=10 days"];
    vec![
        plummer(&["bodies.n=100"]),
        plummer(&["bodies.n=300", "gravity.solver=tree"]),
        plummer(&["bodies.n=30", "time.integrator=hermite4"]),
        plummer(&["bodies.n=30", "time.step=adaptive", "time.end=0.04", "output.format=xyz"]),
        FaultScenario::new("solar-system", &[&common[..], &planets].concat()),
    ]
}

/// What became of a killed run.
#[derive(Debug, Default)]
struct Outcome {
    kills: usize,
    inside_a_write: usize,
    is_resumed: bool,
    lost_too_much: bool,
    differs: bool,
    /// What was not as it should be.
    wrong: Vec<String>,
}

/// Kills a run once, what goes on with it with probability 0.3, and so on; then lets it finish.
fn kill_and_resume(scenario: &FaultScenario, duration: Duration, seed: u64) -> Outcome {
    let mut random = Random(seed);
    let mut outcome = Outcome::default();
    let name = format!("trial-{seed}");
    let trial = scenario.trial(&name);
    while outcome.kills == 0 {
        // A timed kill may come too late; then the run is of no use.
        let _ = std::fs::remove_dir_all(trial.out());
        kill_once(&trial, &[], duration, &mut random, &mut outcome);
    }
    loop {
        let known = last_row(&trial);
        let said = if random.percent(30) {
            kill_once(&trial, &["--resume"], duration, &mut random, &mut outcome)
        } else {
            let run = trial.run(&["--resume"], Fault::default());
            Ended { status: run.status, stderr: text(&run.stderr) }
        };
        let from = step_taken_up(&said.stderr);
        // One that was killed before it said anything went on from nowhere.
        let has_begun = said.status.signal().is_none() || said.stderr.contains("going on after step");
        if has_begun && from + INTERVAL < known {
            outcome.lost_too_much = true;
            outcome.wrong.push(format!("went on after step {from}, row {known} was written"));
        }
        if said.stderr.contains("damaged") {
            outcome.wrong.push(said.stderr.clone());
        }
        if said.status.signal().is_some() {
            continue;
        }
        outcome.is_resumed = said.status.success();
        if !outcome.is_resumed {
            outcome.wrong.push(format!("{}: {}", said.status, said.stderr));
        }
        if let Some(difference) = difference(&trial.content(), &scenario.expected) {
            outcome.differs = true;
            outcome.wrong.push(difference);
        }
        return outcome;
    }
}

struct Ended {
    status: ExitStatus,
    stderr: String,
}

/// Starts a run and kills it, if it is not over before.
fn kill_once(
    trial: &Trial<'_>,
    more: &[&str],
    duration: Duration,
    random: &mut Random,
    outcome: &mut Outcome,
) -> Ended {
    let kind = KINDS[random.below(KINDS.len())];
    let is_timed = random.percent(50);
    let run = if is_timed {
        let mut plain = Command::new(env!("CARGO_BIN_EXE_orrery"));
        let pause = duration.mul_f64(random.below(1000) as f64 / 1000.0);
        kill_after(plain.args(trial.arguments(more)), pause)
    } else {
        let at = 1 + random.below(trial.scenario().count(Some(kind)));
        trial.run(more, Fault { what: "KILL", at, times: 1, kind: Some(kind) })
    };
    if run.status.signal().is_some() {
        outcome.kills += 1;
        outcome.inside_a_write += usize::from(!is_timed && kind == "write");
    }
    Ended { status: run.status, stderr: text(&run.stderr) }
}

fn kill_after(command: &mut Command, pause: Duration) -> Output {
    let mut child = started(command);
    std::thread::sleep(pause);
    // One that has ended already is not there to be killed.
    let _ = child.kill();
    wait_for(child)
}

/// The last step in `conserved.csv` whose row is whole.
fn last_row(trial: &Trial<'_>) -> u64 {
    let table = std::fs::read_to_string(trial.out().join("conserved.csv")).unwrap_or_default();
    let whole = table.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().last().and_then(|row| row.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// Kills `count` runs and says what became of them.
fn kill(count: u64, first_seed: u64) {
    let scenarios: Vec<(FaultScenario, Duration)> = scenarios()
        .into_iter()
        .map(|scenario| {
            let began = Instant::now();
            let trial = scenario.trial("timed");
            let plain = ended(Command::new(env!("CARGO_BIN_EXE_orrery")).args(trial.arguments(&[])));
            assert!(plain.status.success());
            let duration = began.elapsed();
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
    let number = |what: fn(&Outcome) -> bool| outcomes.iter().filter(|(_, outcome)| what(outcome)).count();
    println!(
        "{} of {count} killed runs resumed, {} losses above an interval, {} folders differing; \
         {} kills in all, {} inside a write",
        number(|o| o.is_resumed),
        number(|o| o.lost_too_much),
        number(|o| o.differs),
        outcomes.iter().map(|(_, o)| o.kills).sum::<usize>(),
        outcomes.iter().map(|(_, o)| o.inside_a_write).sum::<usize>(),
    );
    let wrong: Vec<String> = outcomes
        .iter()
        .filter(|(_, outcome)| !outcome.wrong.is_empty())
        .map(|(seed, outcome)| format!("seed {seed}: {}", outcome.wrong.join("; ")))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

#[test]
fn fifty_killed_runs_lose_nothing() {
    kill(50, from_environment("ORRERY_KILL_SEED", 1));
}

#[test]
#[ignore = "minutes; ORRERY_KILLS says how many, ORRERY_KILL_SEED which"]
fn a_thousand_killed_runs_lose_nothing() {
    kill(from_environment("ORRERY_KILLS", 1000), from_environment("ORRERY_KILL_SEED", 1000));
}
