//! The rank of a process: alone, or started by an MPI launcher.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::error::ClusterError;
use crate::mpi::{Launcher, Mpi, launcher};
use crate::threads::panic_text;
use crate::transport::Transport;

/// Time by which other processes than the first delay an error of the start. Usually all processes
/// have the same error. Launchers end the others when the first has ended.
const DELAY_OF_OTHERS: Duration = Duration::from_secs(1);

/// Message of the panic that ends this rank.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Environment variable that turns MPI off with the value `off`. Each process is alone then.
pub const MPI_SWITCH: &str = "ORRERY_MPI";

/// Prefixes of the environment variables by which launchers and their libraries tell a process that
/// it is a rank.
const LAUNCHER_PREFIXES: [&str; 8] =
    ["OMPI_", "PMIX_", "PMI_", "PRTE_", "HYDRA_", "HYDI_", "MPI_LOCAL", "SLURM_STEP"];

/// Makes `command` start a process that is no rank, also if a launcher started this process. Turns
/// MPI off and removes the variables of the launcher.
pub fn detach_from_launcher(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if LAUNCHER_PREFIXES.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.env(MPI_SWITCH, "off")
}

/// Settings of MPI.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MpiOptions {
    /// Bytes above which messages are divided, at most 2^30, which is the default. All ranks must
    /// have the same value.
    pub chunk_bytes: Option<usize>,
}

/// Runs `body` with the transport of this process: MPI if a launcher such as mpirun or srun started
/// several processes, and a group of one otherwise. Without a launcher, MPI is not loaded.
///
/// With several ranks, an error or a panic of one of them ends all with the exit status that
/// `status` gives for the error, and 101 for a panic. Its message is printed once, and this
/// function does not return. With one rank, the error is returned and a panic is not caught. Call
/// this function at most once per process, from the main thread.
pub fn run<T, E: Display + From<ClusterError>>(
    options: MpiOptions,
    status: impl FnOnce(&E) -> u8,
    body: impl FnOnce(&Transport) -> Result<T, E>,
) -> Result<T, E> {
    let launcher = Launcher::of_process()?;
    let transport = connect(launcher.as_ref(), options).inspect_err(|_| {
        if launcher.as_ref().is_some_and(|launcher| launcher.rank != Some(0)) {
            std::thread::sleep(DELAY_OF_OTHERS);
        }
    })?;
    if transport.size() == 1 {
        let result = body(&transport);
        transport.finalize()?;
        return result;
    }
    record_panics();
    match catch_unwind(AssertUnwindSafe(|| body(&transport))) {
        Ok(Ok(value)) => {
            transport.finalize()?;
            Ok(value)
        }
        Ok(Err(error)) => {
            let exit_status = status(&error);
            Err(transport.abort_with_status(&error.to_string(), exit_status).into())
        }
        Err(payload) => {
            let message = panic_message().unwrap_or_else(|| panic_text(payload.as_ref()));
            // The status of a Rust program that panicked.
            Err(transport.abort_with_status(&message, 101).into())
        }
    }
}

/// Returns the number of processes on this computer according to the launcher's environment. Does
/// not load MPI.
pub fn local_processes() -> Option<usize> {
    let variable = |name: &str| std::env::var(name).ok();
    Launcher::of_process().ok().flatten().and_then(|_| launcher::local_processes(variable))
}

fn connect(launcher: Option<&Launcher>, options: MpiOptions) -> Result<Transport, ClusterError> {
    let Some(launcher) = launcher else { return Ok(Transport::alone()) };
    match Mpi::connect(launcher, options.chunk_bytes)? {
        Some(mpi) => Transport::from_mpi(mpi),
        None => Ok(Transport::alone()),
    }
}

/// Keeps the message of a panic of the current thread instead of printing it, because only one of
/// the ranks that panic prints it. Messages of other threads are printed as before.
fn record_panics() {
    let thread = std::thread::current().id();
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |information| {
        if std::thread::current().id() == thread {
            let message = information.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
            *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
        } else {
            previous(information);
        }
    }));
}

/// Returns the message of the last panic of the thread that called [`run`].
pub(crate) fn panic_message() -> Option<String> {
    PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
