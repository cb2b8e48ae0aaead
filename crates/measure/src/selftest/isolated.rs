//! The self-test in child processes.
//!
//! A kernel that faults on a GPU destroys the context of its process, and each later call fails. So
//! each module of checks runs in a process, the worker, and the parent opens no device. A worker
//! ends at its first failed check, and a new worker runs the checks after it. A fault therefore
//! fails one check only.
//!
//! A worker writes one JSON object per line to standard output. The parent ignores other lines,
//! such as messages of drivers.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use orrery_device::check::Check;
use orrery_device::{Device, DeviceChoice, DeviceError};
use serde::{Deserialize, Serialize};

use super::{SelftestSummary, module_name};

/// Time limit of one check. The slowest compile their kernels for up to a minute.
const CHECK_LIMIT: Duration = Duration::from_secs(900);

/// Environment variable of a worker: its [`WorkerCommand`] as a JSON list, for checks that start a
/// process themselves.
const COMMAND_VARIABLE: &str = "ORRERY_SELFTEST_COMMAND";

/// Flag of a worker.
pub const WORKER_FLAG: &str = "--worker";
/// Flag before the name of each check of a worker.
pub const CHECK_FLAG: &str = "--check";

/// Command that starts a worker. The parent adds `--worker`, `--device` and `--check` with their
/// values. The process must call [`run_worker`] with them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerCommand {
    /// The program.
    pub program: String,
    /// Arguments before those of the parent, for example `selftest`.
    pub arguments: Vec<String>,
}

impl WorkerCommand {
    /// Returns the command of the worker that this process is, if it is one.
    pub(super) fn of_this_worker() -> Option<Self> {
        serde_json::from_str(&std::env::var(COMMAND_VARIABLE).ok()?).ok()
    }

    /// Returns the command of a worker for some checks. Without checks, it lists devices.
    pub(super) fn worker(&self, device: Option<&str>, checks: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg(WORKER_FLAG);
        command.args(device.iter().flat_map(|label| ["--device", label]));
        command.args(checks.iter().flat_map(|name| [CHECK_FLAG, name]));
        command.env(COMMAND_VARIABLE, serde_json::to_string(self).expect("plain data always serialises"));
        command.envs(orrery_device::child_environment());
        orrery_cluster::detach_from_launcher(&mut command);
        command
    }
}

/// One line of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Report {
    /// A device.
    Device(DeviceTitle),
    /// Why there is no device of some kind.
    Note(String),
    /// The check with this name starts.
    Started(String),
    /// The check that started passed.
    Passed,
    /// The check that started failed with this message.
    Failed(String),
    /// The worker did everything.
    Finished,
}

/// Names of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTitle {
    /// Label, as `--device` takes it: `cuda:0`.
    pub label: String,
    /// Label, name and properties in one line.
    pub title: String,
}

/// Devices that a worker found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundDevices {
    /// The devices.
    pub devices: Vec<DeviceTitle>,
    /// Why there are no devices of some kind.
    pub notes: Vec<String>,
}

/// Worker that did not report what it had to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerFailure {
    /// How the process ended and its last message.
    pub message: String,
    /// Exit status, if it is no signal.
    pub status: Option<i32>,
}

/// Runs a worker in this process: lists the devices if `names` is empty, else runs those of
/// `checks` with these names on the chosen device until one of them fails. Returns the number of
/// failed checks.
pub fn run_worker(
    checks: &[Check],
    choice: Option<DeviceChoice>,
    names: &[String],
) -> Result<usize, DeviceError> {
    let opened = choice.map(Device::open).transpose()?;
    if names.is_empty() {
        let list = match opened {
            None => Device::list(),
            Some(device) => {
                orrery_device::DeviceList { devices: device.into_iter().collect(), notes: Vec::new() }
            }
        };
        for device in &list.devices {
            report(&Report::Device(DeviceTitle { label: device.label(), title: device.title() }));
        }
        list.notes.into_iter().for_each(|note| report(&Report::Note(note)));
        report(&Report::Finished);
        return Ok(0);
    }
    let device = opened.flatten().or_else(|| Device::open(DeviceChoice::Auto).ok().flatten());
    for name in names {
        report(&Report::Started(name.clone()));
        let found = checks.iter().find(|check| check.name == *name);
        let result = match (&device, found) {
            (Some(device), Some(check)) => (check.run)(device),
            (None, _) => Err("there is no such device".to_owned()),
            (_, None) => Err("there is no such check".to_owned()),
        };
        if let Err(message) = result {
            report(&Report::Failed(message));
            return Ok(1);
        }
        report(&Report::Passed);
    }
    report(&Report::Finished);
    Ok(0)
}

/// Writes a line for the parent. If the parent has ended, nobody reads it.
fn report(line: &Report) {
    let mut stdout = std::io::stdout().lock();
    let text = serde_json::to_string(line).expect("plain data always serialises");
    let _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
}

/// Lists the devices of this machine, or the chosen one, in a worker.
pub fn list_devices(
    command: &WorkerCommand,
    choice: Option<DeviceChoice>,
) -> Result<FoundDevices, WorkerFailure> {
    let label = choice.map(|choice| choice.to_string());
    let mut worker = Worker::start(command.worker(label.as_deref(), &[]))?;
    let mut found = FoundDevices::default();
    loop {
        match worker.next_report() {
            Ok(Report::Device(device)) => found.devices.push(device),
            Ok(Report::Note(note)) => found.notes.push(note),
            Ok(Report::Finished) => return Ok(found),
            Ok(_) => {}
            Err(failure) => return Err(failure),
        }
    }
}

/// Runs those of `checks` whose name contains `filter` on a device, each module in a worker, which
/// must know the same checks. Calls `progress` with each name before its check.
pub fn run_isolated(
    command: &WorkerCommand,
    checks: &[Check],
    label: &str,
    filter: &str,
    progress: &mut dyn FnMut(&str),
) -> SelftestSummary {
    let is_chosen = |check: &&Check| check.name.contains(filter);
    let names: Vec<&str> = checks.iter().filter(is_chosen).map(|check| check.name.as_str()).collect();
    run_names(command, label, &names, CHECK_LIMIT, progress)
}

/// Runs checks of all modules. The checks of a module follow each other.
fn run_names(
    command: &WorkerCommand,
    label: &str,
    names: &[&str],
    limit: Duration,
    progress: &mut dyn FnMut(&str),
) -> SelftestSummary {
    let mut summary = SelftestSummary::default();
    for module in names.chunk_by(|a, b| module_name(a) == module_name(b)) {
        let mut remaining = module;
        while let Some(first) = remaining.first() {
            let results = run_until_failure(command, label, remaining, limit, progress);
            // A worker that ended before its first check fails that one, so the loop ends.
            let done = results.len().max(1);
            for (index, name) in remaining[..done].iter().enumerate() {
                let result =
                    results.get(index).cloned().unwrap_or_else(|| Err(format!("{first} did not start")));
                summary.count(name, result);
            }
            remaining = &remaining[done..];
        }
    }
    summary
}

/// Runs checks in one worker until one fails. Returns the results of those that ran, at least one.
fn run_until_failure(
    command: &WorkerCommand,
    label: &str,
    names: &[&str],
    limit: Duration,
    progress: &mut dyn FnMut(&str),
) -> Vec<Result<(), String>> {
    let mut results = Vec::new();
    let mut worker = match Worker::start(command.worker(Some(label), names)) {
        Ok(worker) => worker,
        Err(failure) => return vec![Err(failure.message)],
    };
    worker.limit = limit;
    loop {
        match worker.next_report() {
            Ok(Report::Started(name)) => progress(&name),
            Ok(Report::Passed) => results.push(Ok(())),
            Ok(Report::Failed(message)) => {
                results.push(Err(message));
                return results;
            }
            Ok(Report::Finished) => return results,
            Ok(_) => {}
            Err(failure) => {
                results.push(Err(failure.message));
                return results;
            }
        }
        if results.len() == names.len() {
            return results;
        }
    }
}

/// A running worker. It is killed when the value is dropped, if it has not ended.
struct Worker {
    child: Child,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    limit: Duration,
}

impl Worker {
    fn start(mut command: Command) -> Result<Self, WorkerFailure> {
        let program = command.get_program().to_owned();
        let failed = |error| WorkerFailure { message: start_message(&program, &error), status: None };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let stdout = child.stdout.take().expect("standard output is a pipe");
        let mut stderr = child.stderr.take().expect("standard error is a pipe");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
            }
        });
        let errors = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Ok(Self { child, lines, errors: Some(errors), limit: CHECK_LIMIT })
    }

    /// Waits for the next report. Returns an error if the worker ended or is silent for too long.
    fn next_report(&mut self) -> Result<Report, WorkerFailure> {
        loop {
            match self.lines.recv_timeout(self.limit) {
                Ok(line) => {
                    if let Ok(report) = serde_json::from_str(&line) {
                        return Ok(report);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let message = format!("stopped after {} s without a result", self.limit.as_secs());
                    return Err(WorkerFailure { message, status: None });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.ending()),
            }
        }
    }

    /// Describes how the process ended.
    fn ending(&mut self) -> WorkerFailure {
        let Ok(status) = self.child.wait() else {
            return WorkerFailure { message: "the process of this check is lost".to_owned(), status: None };
        };
        let errors = self.errors.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        let last = last.trim().trim_start_matches("error: ");
        let message = match (status.code(), last) {
            (Some(_), "") | (None, "") => format!("its process ended with {}", ending_of(status)),
            (Some(_), last) => last.to_owned(),
            (None, last) => format!("its process ended with {}: {last}", ending_of(status)),
        };
        WorkerFailure { message, status: status.code() }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A worker that has reported everything ends by itself, and a lost context may delay that.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn start_message(program: &OsString, error: &std::io::Error) -> String {
    format!("cannot start {}: {error}", program.to_string_lossy())
}

/// Returns the exit status or the signal in words.
fn ending_of(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a command whose workers are the shell script `script`. `$name` is the name of the
    /// check in a loop over all checks.
    fn script(body: &str) -> WorkerCommand {
        let text = format!(
            "shift 3; while [ $# -gt 0 ]; do name=$2; shift 2; echo \"{{\\\"started\\\":\\\"$name\\\"}}\"; {body}; \
             echo '\"passed\"'; done; echo '\"finished\"'"
        );
        WorkerCommand { program: "sh".to_owned(), arguments: vec!["-c".to_owned(), text, "sh".to_owned()] }
    }

    fn run(command: &WorkerCommand, limit: Duration) -> (SelftestSummary, Vec<String>) {
        let mut started = Vec::new();
        let names = ["one: a", "one: b", "one: c", "two: d"];
        let summary = run_names(command, "cuda:0", &names, limit, &mut |name| started.push(name.to_owned()));
        (summary, started)
    }

    #[test]
    fn a_fault_fails_its_check_only() {
        let cases = [
            ("kill -SEGV $$", "its process ended with signal 11"),
            ("echo 'error: lost the context' >&2; exit 1", "lost the context"),
            ("exit 3", "its process ended with status 3"),
            ("echo '{\"failed\":\"got 1, expected 2\"}'; exit 1", "got 1, expected 2"),
            (
                "echo noise of a driver; echo aborted >&2; kill -ABRT $$",
                "its process ended with signal 6: aborted",
            ),
        ];
        for (fault, message) in cases {
            let (summary, started) =
                run(&script(&format!("[ \"$name\" != 'one: b' ] || {{ {fault}; }}")), CHECK_LIMIT);
            assert_eq!(summary.failures, [("one: b".to_owned(), message.to_owned())]);
            assert_eq!(summary.passed_and_total(), (3, 4));
            assert_eq!(started, ["one: a", "one: b", "one: c", "two: d"]);
        }
        assert_eq!(run(&script(":"), CHECK_LIMIT).0.passed_and_total(), (4, 4));
    }

    #[test]
    fn a_check_that_hangs_is_stopped() {
        let (summary, _) = run(&script("[ \"$name\" != 'two: d' ] || sleep 60"), Duration::from_secs(2));
        assert_eq!(
            summary.failures,
            [("two: d".to_owned(), "stopped after 2 s without a result".to_owned())]
        );
    }

    #[test]
    fn a_worker_that_does_not_start_fails_every_check() {
        let command = WorkerCommand { program: "/nonexistent".to_owned(), arguments: Vec::new() };
        let (summary, _) = run(&command, CHECK_LIMIT);
        assert_eq!(summary.passed_and_total(), (0, 4));
        assert!(summary.failures[0].1.starts_with("cannot start /nonexistent: "), "{summary:?}");
        assert!(list_devices(&command, None).is_err());
    }

    #[test]
    fn a_worker_lists_devices_or_ends_with_a_status() {
        let list = "echo '{\"device\":{\"label\":\"cuda:0\",\"title\":\"cuda:0 (X)\"}}'; echo '{\"note\":\"no OpenCL\"}'; \
                    echo '\"finished\"'";
        let command = |text: &str| WorkerCommand {
            program: "sh".to_owned(),
            arguments: vec!["-c".to_owned(), text.to_owned(), "sh".to_owned()],
        };
        let found = list_devices(&command(list), None).unwrap();
        assert_eq!((found.devices[0].label.as_str(), found.notes[0].as_str()), ("cuda:0", "no OpenCL"));
        let failure = list_devices(&command("echo 'error: no such device' >&2; exit 2"), None).unwrap_err();
        assert_eq!(failure, WorkerFailure { message: "no such device".to_owned(), status: Some(2) });
    }
}
