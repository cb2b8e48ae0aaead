//! Ranks of a run: processes that an MPI launcher started, or threads of this process with one
//! device each.
//!
//! Rank 0 executes the command, writes all files and prints. The others follow it and print
//! nothing. An error of a follower ends all ranks with its message. Commands that are no runs are
//! executed by rank 0 alone.

use std::any::Any;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use orrery_cluster::{ClusterError, Team, Transport, threads};
use orrery_device::{Device, DeviceChoice};
use orrery_engine::provenance;
use orrery_engine::team::{self, FollowerSettings, Ranks};
use orrery_formats::hash_file;

use crate::args::{Arguments, Command, CommonRunArgs, RunDevices};
use crate::commands::{self, Ending, tune};
use crate::failure::Failure;
use crate::print::eprint_line;
use crate::{log, signals};

/// Time in which followers reply after an error of rank 0. Followers that do not reply wait for a
/// message that rank 0 did not send because of its error.
const PATIENCE: Duration = Duration::from_secs(1);

/// Name of the threads of followers.
const FOLLOWER_THREAD: &str = "follower";

/// Set if rank 0 is another process.
static IS_FOLLOWER: AtomicBool = AtomicBool::new(false);

/// Message of the panic of a thread whose panics are recorded.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Rank 0 of a command.
pub struct LeadingRank {
    /// All ranks.
    pub ranks: Ranks,
    /// Devices of the ranks of this process. The first is that of rank 0.
    devices: Vec<DeviceChoice>,
    /// Number of CPU threads. `None` means all cores.
    pub threads: Option<u32>,
}

impl LeadingRank {
    /// Returns the rank of a command that only rank 0 executes.
    fn alone() -> Self {
        Self { ranks: Ranks::default(), devices: vec![DeviceChoice::Auto], threads: None }
    }

    /// Returns the device of rank 0.
    pub fn device(&self) -> DeviceChoice {
        self.devices[0]
    }

    /// Returns an error if a device of this process does not exist.
    pub fn check_devices(&self) -> Result<(), Failure> {
        self.devices.iter().try_for_each(|choice| Ok(Device::open(*choice).map(drop)?))
    }
}

/// Checks that all ranks execute the same command of the same program, and that those that can read
/// the case file find the same one. All of them return the same error.
pub fn expect_same_command(transport: &Transport, case_file: Option<&Path>) -> Result<(), Failure> {
    if transport.size() == 1 {
        return Ok(());
    }
    let program = format!("{} {}", provenance::VERSION, provenance::COMMIT);
    let own = [program, case_hash(case_file), log::command_line()].join("\n");
    let all = transport.all_gather(own.as_bytes())?;
    let texts: Vec<_> = all.iter().map(|text| String::from_utf8_lossy(text)).collect();
    let ranks: Vec<RankCommand<'_>> = texts.iter().map(|text| RankCommand::of_text(text)).collect();
    let Some((other, rank)) = ranks.iter().enumerate().find(|(_, rank)| !rank.agrees_with(&ranks[0])) else {
        return Ok(());
    };
    let first = &ranks[0];
    let found = if first.command != rank.command {
        format!(
            "rank 0 executes '{}', rank {other} executes '{}'; expected one command. Set ORRERY_MPI=off for \
             independent runs",
            first.command, rank.command
        )
    } else if first.program != rank.program {
        format!(
            "rank 0 is orrery {}, rank {other} is orrery {}; expected one version",
            first.program, rank.program
        )
    } else {
        let [expected, found] = [first, rank].map(|rank| rank.case_hash.get(..16).unwrap_or_default());
        format!(
            "{}: rank {other} of {} finds another case file than rank 0: blake3:{found}, expected \
             blake3:{expected}; all nodes need the same file, for example on a shared file system",
            case_file.unwrap_or(Path::new("case")).display(),
            ranks.len()
        )
    };
    Err(Failure::Usage(found))
}

/// Command of a rank, as the ranks compare it.
struct RankCommand<'a> {
    program: &'a str,
    /// Hash of the case file, or nothing if this rank cannot read it. Only rank 0 needs it.
    case_hash: &'a str,
    command: &'a str,
}

impl<'a> RankCommand<'a> {
    fn of_text(text: &'a str) -> Self {
        let (program, rest) = text.split_once('\n').unwrap_or_default();
        let (case_hash, command) = rest.split_once('\n').unwrap_or_default();
        Self { program, case_hash, command }
    }

    fn agrees_with(&self, first: &Self) -> bool {
        let has_same_case =
            self.case_hash == first.case_hash || self.case_hash.is_empty() || first.case_hash.is_empty();
        (self.program, self.command) == (first.program, first.command) && has_same_case
    }
}

/// Returns the hash of the case file, or nothing if it cannot be read. A large file is no case.
fn case_hash(path: Option<&Path>) -> String {
    let is_small = |path: &&Path| path.metadata().is_ok_and(|found| found.is_file() && found.len() < 1 << 21);
    path.filter(is_small).and_then(|path| hash_file(path).ok()).unwrap_or_default()
}

/// Returns whether this process or thread follows rank 0, which prints.
pub fn is_follower() -> bool {
    IS_FOLLOWER.load(Ordering::Relaxed) || std::thread::current().name() == Some(FOLLOWER_THREAD)
}

/// Executes the command on rank 0 and returns the exit status. An error means that the other ranks
/// must be ended by an abort.
pub fn lead(arguments: &Arguments, transport: &Transport) -> Result<u8, Failure> {
    signals::reserve().map_err(signals::install_failure)?;
    // The self-test names the signal that ends one of its processes.
    if !matches!(arguments.command, Command::Selftest(_)) {
        signals::exit_on_abort().map_err(signals::install_failure)?;
    }
    if let Some(bench) = arguments.command.shared_bench() {
        let result = commands::lead_scaling(bench, transport);
        // Other ranks wait for an abort after an error.
        return if transport.size() > 1 {
            result.map(|()| 0)
        } else {
            Ok(report(result.map(|()| Ending::Done)))
        };
    }
    let Some(common) = arguments.command.shared_run() else {
        return Ok(report(commands::execute(arguments, &LeadingRank::alone())));
    };
    if transport.size() > 1 {
        return lead_processes(arguments, common, transport);
    }
    match common.device.of_threads() {
        Ok(devices) if devices.len() > 1 => Ok(lead_threads(arguments, common, &devices)),
        Ok(devices) => {
            let leader = LeadingRank { ranks: Ranks::default(), devices, threads: common.threads };
            Ok(report(commands::execute(arguments, &leader)))
        }
        Err(error) => Ok(report(Err(error.into()))),
    }
}

/// Prints the error of a command that failed, and returns the exit status.
fn report(result: Result<Ending, Failure>) -> u8 {
    match result {
        Ok(ending) => ending.status(),
        Err(failure) => {
            eprint_line!("error: {failure}");
            failure.exit_status()
        }
    }
}

fn lead_processes(
    arguments: &Arguments,
    common: &CommonRunArgs,
    transport: &Transport,
) -> Result<u8, Failure> {
    let threads = threads_of_process(common.threads, transport)?;
    let ranks_on_device = ranks_on_device(&common.device, transport.local_size());
    let ranks = Ranks::lead(&Team::new(transport)).with_ranks_on_device(ranks_on_device);
    let devices = vec![common.device.of_process(transport.local_rank())];
    let leader = LeadingRank { ranks: ranks.clone(), devices, threads };
    record_panics(is_thread_of_process);
    // The abort prints a panic.
    let result = catch_panic(|| commands::execute(arguments, &leader))
        .inspect_err(|failure| log::write(&format!("error: {failure}")))?;
    let limit = result.is_err().then_some(PATIENCE);
    match result {
        Err(failure) if !ranks.dismiss(limit) => {
            // The abort prints it.
            log::write(&format!("error: {failure}"));
            Err(failure)
        }
        Err(failure) => Ok(report(Err(failure))),
        Ok(ending) => {
            ranks.dismiss(limit);
            Ok(ending.status())
        }
    }
}

/// Follows rank 0 in a process that a launcher started, until rank 0 has executed the command.
pub fn follow(arguments: &Arguments, transport: &Transport) -> Result<(), Failure> {
    if let Some(bench) = arguments.command.shared_bench() {
        return commands::follow_scaling(bench, transport);
    }
    let Some(common) = arguments.command.shared_run() else { return Ok(()) };
    IS_FOLLOWER.store(true, Ordering::Relaxed);
    let threads = threads_of_process(common.threads, transport)?;
    record_panics(is_thread_of_process);
    let stop = Arc::new(AtomicBool::new(false));
    signals::install_follower_handlers(&stop).map_err(signals::install_failure)?;
    // Rank 0 reports a number of threads that is too large.
    let _ = commands::use_threads(threads);
    let settings = follower_settings(common, common.device.of_process(transport.local_rank()));
    let team = Team::with_stop(transport, stop);
    let result = catch_panic(|| team::follow(&team, &settings)).and_then(|result| Ok(result?));
    result.inspect_err(|failure| {
        if let Some(path) = team.failure_log() {
            let (rank, size) = (transport.rank(), transport.size());
            log::append(&path, &format!("error: rank {rank} of {size}: {failure}"));
        }
    })
}

/// Returns the number of ranks on the computer of rank 0 that compute on its device.
fn ranks_on_device(devices: &RunDevices, local_size: usize) -> u64 {
    let device_of = |rank| Device::index_for_rank(devices.of_process(rank), rank);
    let first = device_of(0);
    (0..local_size).filter(|&rank| device_of(rank) == first).count() as u64
}

fn follower_settings(common: &CommonRunArgs, choice: DeviceChoice) -> FollowerSettings {
    let device = tune::device_request(choice, common.no_tuned);
    FollowerSettings { device, limits: common.memory.limits() }
}

/// Executes the command with one thread per device. Returns the exit status.
fn lead_threads(arguments: &Arguments, common: &CommonRunArgs, devices: &[DeviceChoice]) -> u8 {
    let ranks_on_device = devices.iter().filter(|device| **device == devices[0]).count() as u64;
    let outcome = Mutex::new(None);
    record_panics(|| std::thread::current().name() == Some(FOLLOWER_THREAD));
    // The error of a follower is an error of rank 0, too, with the name of the rank.
    let _ = threads::run(devices.len(), |transport| {
        if transport.rank() > 0 {
            return follow_in_thread(common, devices, transport);
        }
        let ranks = Ranks::lead(&Team::new(transport)).with_ranks_on_device(ranks_on_device);
        let leader = LeadingRank { ranks: ranks.clone(), devices: devices.to_vec(), threads: common.threads };
        let result = commands::execute(arguments, &leader);
        match &result {
            Ok(_) => drop(ranks.dismiss(None)),
            // The followers end when they send or receive the next message.
            Err(failure) => drop(transport.abort(&failure.to_string())),
        }
        *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        Ok(())
    });
    let outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    report(outcome.expect("a panic of rank 0 is resumed"))
}

/// Follows rank 0 in a thread of its process. Each follower has its own pool: a follower that waits
/// in a thread of the common pool would block the loops of the others.
fn follow_in_thread(
    common: &CommonRunArgs,
    devices: &[DeviceChoice],
    transport: &Transport,
) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = common.threads.map_or(cores, |threads| threads as usize);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads((threads / devices.len()).max(1))
        .thread_name(|_| FOLLOWER_THREAD.to_owned())
        .build()
        .map_err(|e| Failure::Machine(format!("cannot start the threads of a rank: {e}")))?;
    let settings = follower_settings(common, devices[transport.rank()]);
    let team = Team::new(transport);
    Ok(catch_panic(|| pool.install(|| team::follow(&team, &settings)))??)
}

/// Returns the number of threads of `--threads`, `requested`, or else the cores of this rank
/// divided by the ranks that may use the same cores. `None` leaves the choice to RAYON_NUM_THREADS.
/// All ranks must call it.
pub fn threads_of_process(
    requested: Option<u32>,
    transport: &Transport,
) -> Result<Option<u32>, ClusterError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let all = transport.all_gather(&name_of_cores())?;
    let sharing = all.iter().filter(|other| **other == all[transport.rank()]).count();
    let share = u32::try_from(cores / sharing).unwrap_or(u32::MAX).max(1);
    let is_chosen = std::env::var_os("RAYON_NUM_THREADS").is_some();
    Ok(requested.or((!is_chosen).then_some(share)))
}

/// Returns bytes that are equal for processes that may use the same cores: the kernel's number of
/// the start of the computer, and the cores to which the launcher bound this process.
fn name_of_cores() -> Vec<u8> {
    let mut name = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let cores = status.lines().find(|line| line.starts_with("Cpus_allowed:"));
    name.extend_from_slice(cores.unwrap_or_default().as_bytes());
    name
}

/// Returns whether a panic of the current thread ends this process: that of the main thread, or of
/// a thread that computes for it.
fn is_thread_of_process() -> bool {
    rayon::current_thread_index().is_some() || std::thread::current().name() == Some("main")
}

/// Keeps the messages of panics in some threads instead of printing them, because they are printed
/// as the error of their rank. Other messages are printed as before.
fn record_panics(is_recorded: fn() -> bool) {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |information| {
        if !is_recorded() {
            return previous(information);
        }
        let message = information.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        PANIC.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(message);
    }));
}

/// Calls `body` and returns its panic as an error.
fn catch_panic<T>(body: impl FnOnce() -> T) -> Result<T, Failure> {
    let panicked = |payload: Box<dyn Any + Send>| {
        let recorded = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(payload);
        Failure::Machine(recorded.unwrap_or_else(|| "panicked".to_owned()))
    };
    catch_unwind(AssertUnwindSafe(body)).map_err(panicked)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OpenCL ranks get the devices of the list in turn.
    #[test]
    fn ranks_on_the_device_of_rank_0_are_counted() {
        let list = RunDevices::List(vec![DeviceChoice::OpenCl(Some(1)), DeviceChoice::OpenCl(Some(0))]);
        assert_eq!(ranks_on_device(&list, 1), 1);
        assert_eq!(ranks_on_device(&list, 5), 3);
        let one = RunDevices::One(DeviceChoice::OpenCl(Some(0)));
        assert_eq!(ranks_on_device(&one, 3), 3);
    }

    #[test]
    fn threads_of_one_computer_may_use_the_same_cores() {
        assert_eq!(name_of_cores(), name_of_cores());
        if cfg!(target_os = "linux") {
            let name = String::from_utf8(name_of_cores()).unwrap();
            assert!(name.contains("Cpus_allowed:\t"), "{name}");
        }
    }
}
