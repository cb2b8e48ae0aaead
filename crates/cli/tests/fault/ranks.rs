//! Faults of runs on several ranks: a killed rank, a full disk, signals to a rank or to the
//! launcher, and the wall-time limit.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use super::requests::{BackgroundRun, long_scenario, row_count, wait_until};
use super::scenario::{Fault, FaultScenario, Trial, run_to_end};
use crate::common::mpi::Mpi;
use crate::common::text;

/// Gravity, which sends several commands per step, and heat, which exchanges borders.
fn scenarios() -> [FaultScenario; 2] {
    [
        long_scenario("plummer", &["bodies.n=100", "time.step=0.001", "time.end=1"]),
        long_scenario("sine-decay", &["grid.nx=100", "grid.ny=100", "time.step=1.2e-5", "time.end=0.012"]),
    ]
}

/// Returns the command of a trial on several ranks, if this MPI is installed.
fn launch(trial: &Trial<'_>, mpi: Mpi, ranks: usize, more: &[&str]) -> Option<Command> {
    let device = ["--device", "cpu"];
    let mut command = mpi.command(ranks, trial.arguments(&[&device, more].concat()), &[])?;
    command.current_dir(trial.disk());
    Some(command)
}

/// Returns the process of a rank, which works in the folder of the trial.
fn process_of(trial: &Trial<'_>, mpi: Mpi, rank: usize) -> Option<u32> {
    let variable = format!("{}={rank}", mpi.rank_variable());
    let is_rank = |id: u32| {
        let read = |name: &str| fs::read(format!("/proc/{id}/{name}")).unwrap_or_default();
        let folder = fs::read_link(format!("/proc/{id}/cwd")).unwrap_or_default();
        let is_orrery = fs::read_link(format!("/proc/{id}/exe"))
            .is_ok_and(|path| path.file_name().is_some_and(|name| name == "orrery"));
        let has_variable = read("environ").split(|byte| *byte == 0).any(|text| text == variable.as_bytes());
        is_orrery && has_variable && folder == fs::canonicalize(trial.disk()).unwrap_or_default()
    };
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.find(|id| is_rank(*id))
}

fn send_signal(name: &str, process: u32) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {process}")]).status();
    assert!(sent.expect("a shell").success(), "{name} was not sent");
}

/// Starts a run on three ranks and waits for its first rows.
fn start<'a>(trial: &'a Trial<'a>, mpi: Mpi, more: &[&str]) -> Option<BackgroundRun> {
    let run = BackgroundRun::start(&mut launch(trial, mpi, 3, more)?);
    wait_until("the first rows", || row_count(trial) > 20);
    Some(run)
}

/// Checks that no rank is left, and resumes the run.
fn resume_alone(trial: &Trial<'_>, mpi: Mpi) -> u64 {
    let is_gone = |rank| process_of(trial, mpi, rank).is_none();
    wait_until("the end of all ranks", || (0..3).all(is_gone));
    trial.resume_and_compare().unwrap()
}

#[test]
fn a_killed_rank_ends_all_and_the_run_resumes() {
    for (scenario, mpi) in scenarios().iter().zip([Mpi::OpenMpi, Mpi::Mpich]) {
        let trial = scenario.trial("killed");
        let Some(run) = start(&trial, mpi, &["--quiet"]) else { continue };
        let start = Instant::now();
        send_signal("KILL", process_of(&trial, mpi, 1).expect("rank 1 runs"));
        let ended = run.wait_for_end();
        assert!(!ended.status.success());
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        resume_alone(&trial, mpi);
    }
}

/// A signal to a follower, to rank 0 or to the launcher stops the run after a step with a
/// checkpoint. Launches share a scenario, because its reference takes time.
#[test]
fn a_signal_to_any_rank_stops_all_with_a_checkpoint() {
    let receivers = [["rank 2", "launcher"], ["rank 0", "launcher"]];
    for ((scenario, mpi), receivers) in scenarios().iter().zip([Mpi::Mpich, Mpi::OpenMpi]).zip(receivers) {
        for receiver in receivers {
            let trial = scenario.trial(receiver);
            let Some(run) = start(&trial, mpi, &["--quiet"]) else { continue };
            match receiver {
                "rank 2" => send_signal("TERM", process_of(&trial, mpi, 2).expect("rank 2 runs")),
                "rank 0" => send_signal("TERM", process_of(&trial, mpi, 0).expect("rank 0 runs")),
                _ => run.send_signal("TERM"),
            }
            let ended = run.wait_for_end();
            let stderr = text(&ended.stderr);
            assert!(!ended.status.success(), "{receiver}: {stderr}");
            if receiver != "launcher" {
                assert_eq!(stderr.matches("by a signal; checkpoint: ").count(), 1, "{receiver}: {stderr}");
                assert_eq!(ended.status.code(), Some(3), "{receiver}: {stderr}");
            }
            let rows = row_count(&trial) as u64;
            let step = resume_alone(&trial, mpi);
            assert_eq!(step + 1, rows, "{mpi:?}, {receiver}: rows after the checkpoint");
        }
    }
}

#[test]
fn a_checkpoint_on_request_does_not_end_a_run_on_several_ranks() {
    let [scenario, _] = scenarios();
    let trial = scenario.trial("requested");
    let Some(run) = start(&trial, Mpi::Mpich, &[]) else { return };
    // MPICH passes the signal on to all ranks, and rank 0 alone writes. Open MPI 4.1 does not.
    run.send_signal("USR1");
    let ended = run.wait_for_end();
    let stderr = text(&ended.stderr);
    assert!(ended.status.success(), "{stderr}");
    assert_eq!(stderr.matches("checkpoint after step ").count(), 1, "{stderr}");
    assert_eq!(super::scenario::first_difference(&trial.content(), &scenario.expected), None);
}

#[test]
fn several_ranks_stop_before_the_wall_time_limit() {
    let sets = ["grid.nx=200", "time.step=6e-6", "time.end=1000", "image.size=64"];
    let scenario = FaultScenario::without_reference("sine-decay", &sets);
    let trial = scenario.trial("limit");
    let Some(mut command) = launch(&trial, Mpi::Mpich, 2, &["--quiet", "--wall-time", "2s"]) else { return };
    let run = run_to_end(&mut command);
    let stderr = text(&run.stderr);
    assert_eq!(run.status.code(), Some(3), "{stderr}");
    assert_eq!(stderr.matches("at the wall-time limit; checkpoint: ").count(), 1, "{stderr}");
}

/// Rank 0 writes all files. Its error ends all ranks, and the run resumes on one.
#[test]
fn a_full_disk_ends_all_ranks() {
    let case = &super::scenario::SMALL_CASES[1];
    let scenario = FaultScenario::small(case, &[]);
    let trial = scenario.trial("full");
    let at = scenario.call_count(None) / 2;
    let shim = trial.command(&[], Fault { action: "ENOSPC", at, times: 0, kind: None });
    let variables: Vec<(String, String)> = shim
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value?.to_str()?.to_owned())))
        .collect();
    let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let arguments = trial.arguments(&["--quiet", "--device", "cpu"]);
    let Some(mut command) = Mpi::OpenMpi.command(2, arguments, &variables) else { return };
    let run = run_to_end(&mut command);
    let stderr = text(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{stderr}");
    assert!(stderr.contains("No space left on device"), "{stderr}");
    trial.resume_and_compare().unwrap();
}
