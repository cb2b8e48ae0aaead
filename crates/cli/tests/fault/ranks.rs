//! Faults of runs on several ranks: a killed rank, a full disk, a panic, signals to a rank or to
//! the launcher, and the wall-time limit.
//!
//! Most tests stop rank 0 in the middle of the run, with the fault `STOP` or `TERM` of the shim,
//! and cause the fault then. So they do not depend on the speed of the computer.

use std::fs;
use std::process::{Command, Output};
use std::time::Duration;

use orrery_device::testing::{is_soak, suite_cases};

use super::requests::{BackgroundRun, long_scenario, row_count, wait_until};
use super::scenario::{Fault, FaultScenario, NO_PLOTS, Trial, first_difference, run_to_end};
use crate::common::mpi::Installation::{self, Mpich, OpenMpi, OpenMpi5};
use crate::common::text;
use crate::ranks::{DIRECT, FLUID, HEAT, RankCase, TREE, WAVE, opencl_device};

/// Number of steps of a scenario.
const STEPS: u64 = 120;

/// Bit of SIGUSR1 in the masks of /proc.
const SIGUSR1_BIT: u64 = 1 << 9;

/// A case of [`STEPS`] steps with a checkpoint every 20.
fn sets_of(case: &RankCase) -> Vec<String> {
    let outputs = [
        "output.snapshot_every=50 steps",
        "output.image_every=30 steps",
        "output.record_every=1 step",
        "checkpoint.every=20 steps",
        "image.size=64",
        NO_PLOTS,
    ];
    let sets = case.sets.iter().filter(|set| !set.starts_with("output.")).chain(&outputs);
    sets.map(|set| (*set).to_owned()).chain([format!("time.end={}", case.long_end)]).collect()
}

fn scenario_of(case: &RankCase) -> FaultScenario {
    FaultScenario::on_device(
        "cpu",
        case.preset,
        &sets_of(case).iter().map(String::as_str).collect::<Vec<_>>(),
    )
}

/// Returns the command of a trial on several ranks, if this MPI is installed.
fn launch(
    trial: &Trial<'_>,
    (mpi, ranks): (Installation, usize),
    more: &[&str],
    variables: &[(&'static str, String)],
) -> Option<Command> {
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut command = mpi.command(ranks, trial.arguments(more), &variables)?;
    command.current_dir(trial.disk());
    Some(command)
}

/// Returns the process of a rank, which works in the folder of the trial.
fn process_of(trial: &Trial<'_>, mpi: Installation, rank: usize) -> Option<u32> {
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

fn has_no_rank(trial: &Trial<'_>, (mpi, ranks): (Installation, usize)) -> bool {
    (0..ranks).all(|rank| process_of(trial, mpi, rank).is_none())
}

/// Returns a fault of `times` storage calls, from the middle of the run on.
fn fault_in_the_middle(scenario: &FaultScenario, action: &'static str, times: usize) -> Fault {
    Fault { action, at: scenario.call_count(None) / 2, times, kind: None }
}

/// Returns a line of /proc/ID/status, empty if the process has ended.
fn status_line(process: u32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

fn is_stopped(process: u32) -> bool {
    status_line(process, "State").starts_with('T')
}

/// Returns whether a signal waits until a stopped process continues.
fn is_pending(process: u32, bit: u64) -> bool {
    u64::from_str_radix(&status_line(process, "ShdPnd"), 16).is_ok_and(|mask| mask & bit != 0)
}

fn send_signal(name: &str, process: u32) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {process}")]).status();
    assert!(sent.expect("a shell").success(), "{name} was not sent");
}

/// A run whose rank 0 is stopped in the middle. Its ranks are killed at the end of the test.
struct HeldRun<'a> {
    trial: &'a Trial<'a>,
    group: (Installation, usize),
    run: Option<BackgroundRun>,
    /// Process of rank 0. `None` if the run ended before.
    leader: Option<u32>,
}

impl<'a> HeldRun<'a> {
    /// Starts a run and waits until rank 0 is stopped, or the run has ended.
    fn start(trial: &'a Trial<'a>, group: (Installation, usize), more: &[&str]) -> Option<Self> {
        let variables = trial.shim_variables(fault_in_the_middle(trial.scenario(), "STOP", 1));
        let run = BackgroundRun::start(&mut launch(trial, group, more, &variables)?);
        let mut held = Self { trial, group, run: Some(run), leader: None };
        wait_until("the stop of rank 0", || {
            held.leader = held.process_of(0);
            held.leader.is_some_and(is_stopped) || held.run.as_mut().is_none_or(BackgroundRun::has_ended)
        });
        Some(held)
    }

    fn process_of(&self, rank: usize) -> Option<u32> {
        process_of(self.trial, self.group.0, rank)
    }

    fn send_signal_to_launcher(&self, name: &str) {
        self.run.as_ref().expect("it runs").send_signal(name);
    }

    /// Continues rank 0, unless it has ended, and waits for the end of all ranks.
    fn wait_for_end(mut self) -> Output {
        if let Some(leader) = self.leader {
            let _ = Command::new("sh").args(["-c", &format!("kill -CONT {leader} 2>&-")]).status();
        }
        let ended = self.run.take().expect("it runs").wait_for_end();
        wait_until("the end of all ranks", || has_no_rank(self.trial, self.group));
        ended
    }
}

impl Drop for HeldRun<'_> {
    fn drop(&mut self) {
        for process in (0..self.group.1).filter_map(|rank| self.process_of(rank)) {
            let _ = Command::new("sh").args(["-c", &format!("kill -KILL {process} 2>&-")]).status();
        }
    }
}

/// Resumes a trial on several ranks and compares its files with those of the undisturbed run. If
/// the MPI is not installed, the run is resumed on one rank.
#[track_caller]
fn resume(trial: &Trial<'_>, group: (Installation, usize)) -> u64 {
    match launch(trial, group, &["--resume"], &[]) {
        Some(mut command) => trial.compare_resumed(&run_to_end(&mut command)).unwrap(),
        None => trial.resume_and_compare().unwrap(),
    }
}

/// Checks the faults of a physics, with MPICH and a version of Open MPI: in `cargo xtask soak` all
/// of them. In `cargo xtask test`, a rank is killed in each physics, and heat has the other faults,
/// which do not depend on what is computed.
fn check_faults(case: &RankCase, open_mpi: Installation, has_other_faults: bool) {
    let scenario = scenario_of(case);
    check_killed_ranks(&scenario, open_mpi);
    if has_other_faults || is_soak() {
        check_signals(&scenario);
        check_wall_time(&scenario, open_mpi);
        check_full_disk(&scenario, open_mpi);
        check_panics(&scenario, open_mpi);
    }
}

/// A killed rank ends all. The run resumes on another number of ranks.
fn check_killed_ranks(scenario: &FaultScenario, open_mpi: Installation) {
    let cases = [((open_mpi, 3), 1, (Mpich, 2)), ((Mpich, 2), 0, (open_mpi, 3))];
    for &(group, killed, resumed) in suite_cases(&cases, 1) {
        let trial = scenario.trial(&format!("killed-{group:?}"));
        let Some(run) = HeldRun::start(&trial, group, &["--quiet"]) else { continue };
        send_signal("KILL", run.process_of(killed).expect("the rank runs"));
        assert!(!run.wait_for_end().status.success(), "{group:?}");
        let step = resume(&trial, resumed);
        assert!(step > 0 && step < STEPS, "{group:?}: {step}");
    }
}

/// SIGTERM to the launcher stops the run after a step with a checkpoint. Not with Open MPI 5, which
/// may kill ranks before their checkpoint.
fn check_signals(scenario: &FaultScenario) {
    for (group, status) in [((OpenMpi, 2), 1), ((Mpich, 3), 3)] {
        if group.0.kills_soon() {
            continue;
        }
        let trial = scenario.trial(&format!("signal-{group:?}"));
        // Open MPI sends SIGCONT and later SIGTERM. A stopped process would continue too early.
        let variables = trial.shim_variables(fault_in_the_middle(scenario, "TERM", 1));
        let Some(mut command) = launch(&trial, group, &["--quiet"], &variables) else { continue };
        // Open MPI sends SIGKILL after the same time again.
        let run = BackgroundRun::start(command.env("OMPI_MCA_odls_base_sigkill_timeout", "2"));
        wait_until("rank 0 to wait", || trial.disk().join("waiting").exists());
        run.send_signal("TERM");
        let ended = run.wait_for_end();
        wait_until("the end of all ranks", || has_no_rank(&trial, group));
        assert_eq!(ended.status.code(), Some(status), "{group:?}: {}", text(&ended.stderr));
        let log = fs::read_to_string(trial.out().join("run.log")).unwrap();
        assert_eq!(log.matches("by a signal; checkpoint: ").count(), 1, "{group:?}: {log}");
        let step = trial.resume_and_compare().unwrap();
        assert!(log.contains(&format!("stopped after step {step}, ")), "{group:?}, {step}: {log}");
    }
}

/// A run stops at the wall-time limit: before rank 0 is stopped, if the computer is slow, or else
/// after the limit, when rank 0 continues.
fn check_wall_time(scenario: &FaultScenario, open_mpi: Installation) {
    let limit = Duration::from_secs(2);
    let trial = scenario.trial("wall-time");
    let more = ["--quiet", "--wall-time", "2s"];
    let Some(run) = HeldRun::start(&trial, (open_mpi, 2), &more) else { return };
    std::thread::sleep(limit);
    let ended = run.wait_for_end();
    let stderr = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3), "{stderr}");
    assert_eq!(stderr.matches("at the wall-time limit; checkpoint: ").count(), 1, "{stderr}");
    let step = resume(&trial, (Mpich, 3));
    assert!(stderr.contains(&format!("stopped after step {step}, ")), "{step}: {stderr}");
}

/// Rank 0 writes all files. Its error ends all ranks.
fn check_full_disk(scenario: &FaultScenario, open_mpi: Installation) {
    let trial = scenario.trial("full");
    let variables = trial.shim_variables(fault_in_the_middle(scenario, "ENOSPC", 0));
    let Some(mut command) = launch(&trial, (open_mpi, 2), &["--quiet"], &variables) else { return };
    let run = run_to_end(&mut command);
    let stderr = text(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{stderr}");
    assert!(stderr.contains("No space left on device"), "{stderr}");
    let step = trial.resume_and_compare().unwrap();
    assert!(step > 0 && step < STEPS, "{step}");
}

/// A rank panics in the middle of the run, after a command that all ranks execute together.
fn check_panics(scenario: &FaultScenario, open_mpi: Installation) {
    for (group, rank) in [((open_mpi, 3), 1), ((Mpich, 2), 0)] {
        let trial = scenario.trial(&format!("panic-{group:?}"));
        let variables = [("ORRERY_TEST_RANK_FAILURE", format!("panic:{rank}:{STEPS}"))];
        let Some(mut command) = launch(&trial, group, &["--quiet"], &variables) else { continue };
        let run = run_to_end(&mut command);
        let stderr = text(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{group:?}: {stderr}");
        let message = format!("error: rank {rank} of {}: panicked at ", group.1);
        assert_eq!(stderr.matches(&message).count(), 1, "{group:?}: {stderr}");
        assert_eq!(stderr.matches("planned panic").count(), 1, "{group:?}: {stderr}");
        let log = fs::read_to_string(trial.out().join("run.log")).unwrap();
        let logged = if rank == 0 { "error: panicked at " } else { message.as_str() };
        assert_eq!(log.matches(logged).count(), 1, "{group:?}: {log}");
        let step = trial.resume_and_compare().unwrap();
        assert!(step < STEPS, "{group:?}: {step}");
    }
}

#[test]
fn direct_sums_resume_after_faults_of_ranks() {
    check_faults(&DIRECT, OpenMpi, false);
}

#[test]
fn trees_resume_after_faults_of_ranks() {
    check_faults(&TREE, OpenMpi5, false);
}

#[test]
fn heat_resumes_after_faults_of_ranks() {
    check_faults(&HEAT, OpenMpi, true);
}

#[test]
fn waves_resume_after_faults_of_ranks() {
    check_faults(&WAVE, OpenMpi, false);
}

#[test]
fn fluids_resume_after_faults_of_ranks() {
    check_faults(&FLUID, OpenMpi5, false);
}

/// SIGTERM to one rank stops all after the same step with a checkpoint, and SIGXCPU to the launcher
/// of Open MPI 5, which passes it on.
#[test]
fn a_signal_to_any_rank_stops_all_with_a_checkpoint() {
    let scenario = long_scenario("plummer", &["bodies.n=100", "time.step=0.001", "time.end=1"]);
    let signals = [(Mpich, Some(2)), (OpenMpi5, None), (OpenMpi, Some(0))];
    for &(mpi, rank) in suite_cases(&signals, 2) {
        let trial = scenario.trial(&format!("signal-{mpi:?}"));
        let Some(mut command) = launch(&trial, (mpi, 3), &["--quiet", "--device", "cpu"], &[]) else {
            continue;
        };
        let run = BackgroundRun::start(&mut command);
        wait_until("the first rows", || row_count(&trial) > 20);
        match rank {
            Some(rank) => send_signal("TERM", process_of(&trial, mpi, rank).expect("the rank runs")),
            None => run.send_signal("XCPU"),
        }
        let ended = run.wait_for_end();
        let stderr = text(&ended.stderr);
        assert_eq!(stderr.matches("by a signal; checkpoint: ").count(), 1, "{mpi:?}: {stderr}");
        assert_eq!(ended.status.code(), Some(3), "{mpi:?}: {stderr}");
        wait_until("the end of all ranks", || has_no_rank(&trial, (mpi, 3)));
        let rows = row_count(&trial) as u64;
        assert_eq!(trial.resume_and_compare().unwrap() + 1, rows, "{mpi:?}: rows after the checkpoint");
    }
}

/// MPICH and Open MPI 5 pass SIGUSR1 on to all ranks, and rank 0 alone writes a checkpoint. Open
/// MPI 4.1 does not. A follower ignores it.
#[test]
fn a_checkpoint_on_request_does_not_end_a_run_on_several_ranks() {
    let scenario = scenario_of(&HEAT);
    let trial = scenario.trial("requested");
    let Some(run) = HeldRun::start(&trial, (Mpich, 3), &[]) else { return };
    send_signal("USR1", run.process_of(1).expect("rank 1 runs"));
    run.send_signal_to_launcher("USR1");
    wait_until("the signal", || is_pending(run.process_of(0).expect("rank 0 runs"), SIGUSR1_BIT));
    let ended = run.wait_for_end();
    let stderr = text(&ended.stderr);
    assert!(ended.status.success(), "{stderr}");
    assert_eq!(stderr.matches("checkpoint after step ").count(), 1, "{stderr}");
    assert_eq!(first_difference(&trial.content(), &scenario.expected), None);
}

/// The ranks of one process end together, too: after an error of rank 0, a panic of rank 1 and a
/// signal. The run then resumes on one device. One run has all faults, because kernels take time to
/// compile.
#[test]
fn ranks_of_one_process_resume_after_faults() {
    let Some(device) = opencl_device() else { return };
    let label = device.label();
    let list = format!("{label},{label}");
    let more = ["--quiet", "--resume", "--device", &list];
    for &case in suite_cases(&[&HEAT, &FLUID, &DIRECT, &TREE, &WAVE], 1) {
        let (sets, name) = (sets_of(case), case.preset);
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let scenario = FaultScenario::on_device(&label, name, &sets);
        let trial = scenario.trial("faults");

        let run = trial.run(&more, fault_in_the_middle(&scenario, "ENOSPC", 0));
        let stderr = text(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{name}: {stderr}");
        assert_eq!(stderr.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{name}: {stderr}");
        assert!(stderr.contains("No space left on device"), "{name}: {stderr}");

        let mut command = trial.command(&more, Fault::default());
        let run = run_to_end(command.env("ORRERY_TEST_RANK_FAILURE", "panic:1:30"));
        let stderr = text(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{name}: {stderr}");
        assert_eq!(stderr.matches("error: rank 1: panicked at ").count(), 1, "{name}: {stderr}");

        // The end of the run has more storage calls than this.
        let fault = Fault { action: "TERM", at: 20, times: 1, kind: None };
        let run = BackgroundRun::start(&mut trial.command(&more, fault));
        wait_until("rank 0 to wait", || trial.disk().join("waiting").exists());
        run.send_signal("TERM");
        let ended = run.wait_for_end();
        let stderr = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(3), "{name}: {stderr}");
        assert_eq!(stderr.matches("by a signal; checkpoint: ").count(), 1, "{name}: {stderr}");

        let step = trial.resume_and_compare().unwrap();
        assert!(step > 0 && step < STEPS, "{name}: {step}");
    }
}
