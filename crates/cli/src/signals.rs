//! Signal handlers of `run`, `resume` and `bench run`.
//!
//! SIGINT, SIGTERM, SIGHUP and SIGXCPU request a stop: the run finishes its step, writes a
//! checkpoint and exits. SIGUSR1 requests a checkpoint only. A second SIGINT ends the process at
//! once. SIGINT and SIGHUP stay ignored if the parent process ignores them, as shells do for
//! commands in the background and nohup for the end of a session. `bench run` removes its files
//! after the stop and then ends by the signal, as commands without handlers do.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use orrery_engine::control::Control;
use signal_hook::consts::{SIGABRT, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::failure::Failure;
use crate::print::eprint_line;

/// Exit status of a process that SIGINT ended, as shells define it: 128 + 2.
const SIGINT_EXIT_STATUS: i32 = 130;

/// Exit status of a process that aborts, for example because memory is refused in the middle of a
/// run: the machine failed.
const ABORT_EXIT_STATUS: i32 = 1;

/// True until the handlers of a command are installed.
static HAS_DEFAULT_EFFECT: AtomicBool = AtomicBool::new(true);

/// Handles the signals that request a stop as if they had no handler, until a command installs its
/// handlers. Must be called before a device is opened.
///
/// The handler of LLVM, which drivers such as PoCL contain, ends the process unless it replaces
/// another handler. If it was first, every later handler would call it.
pub fn reserve() -> io::Result<()> {
    let mut signals = stop_signals().into_iter();
    signals.try_for_each(|signal| flag::register_conditional_default(signal, &HAS_DEFAULT_EFFECT).map(drop))
}

/// Ends the process with status 1 if it aborts. Rust prints a line and aborts if memory is refused.
/// Must be called after [`reserve`] and before a device is opened.
pub fn exit_on_abort() -> io::Result<()> {
    let always = Arc::new(AtomicBool::new(true));
    flag::register_conditional_shutdown(SIGABRT, ABORT_EXIT_STATUS, always).map(drop)
}

/// Installs handlers that set the flags of `control`.
pub fn install_handlers(control: &Control) -> io::Result<()> {
    // The order matters. The shutdown handler runs first and exits only if the flag is already set,
    // so the first SIGINT sets the flag and the second one exits.
    let signals = stop_signals();
    if signals.contains(&SIGINT) {
        flag::register_conditional_shutdown(SIGINT, SIGINT_EXIT_STATUS, control.stop.clone())?;
    }
    for signal in signals {
        flag::register(signal, control.stop.clone())?;
    }
    HAS_DEFAULT_EFFECT.store(false, Ordering::SeqCst);
    install_unix_handlers(control)
}

/// Installs the handlers of a rank that follows: a signal that requests a stop sets `stop`. Rank 0
/// then stops all ranks. SIGUSR1 is ignored, because launchers send it to rank 0 as well.
pub fn install_follower_handlers(stop: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in stop_signals() {
        flag::register(signal, stop.clone())?;
    }
    install_unix_handlers(&Control::default())
}

/// Returns the error of handlers that cannot be installed.
pub fn install_failure(error: io::Error) -> Failure {
    Failure::Machine(format!("cannot install signal handlers: {error}"))
}

/// The signal that requested a stop, for a command that removes its files before it ends.
pub struct StopSignal(Arc<AtomicUsize>);

impl StopSignal {
    /// Installs the handlers of [`install_handlers`] and records which signal arrives.
    pub fn install_handlers(control: &Control) -> io::Result<Self> {
        let received = Arc::new(AtomicUsize::new(0));
        for signal in stop_signals() {
            flag::register_usize(signal, received.clone(), signal as usize)?;
        }
        install_handlers(control)?;
        Ok(Self(received))
    }

    /// Ends the process by the signal, if one has arrived, as if it had no handler.
    pub fn end_process(&self) {
        match self.0.load(Ordering::Relaxed) {
            0 => {}
            // An error means that the signal is unknown. The command then fails by itself.
            signal => drop(low_level::emulate_default_handler(signal as i32)),
        }
    }
}

/// On a terminal, prints a message when a stop is requested, because the current step may take
/// long.
pub fn announce_stop(control: &Control) {
    if !io::stderr().is_terminal() {
        return;
    }
    let stop = control.stop.clone();
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
        // The terminal shows ^C in the line of the progress.
        eprint_line!("");
        eprint_line!("stopping after this step, with a checkpoint; Ctrl-C again exits at once");
    });
}

/// Returns the signals that request a stop.
#[cfg(unix)]
fn stop_signals() -> Vec<i32> {
    use signal_hook::consts::{SIGHUP, SIGXCPU};
    // A shell without job control starts commands in the background with an ignored SIGINT, so that
    // Ctrl-C ends the command in the foreground only. Where it is unknown, Ctrl-C should work.
    let interrupt = Some(SIGINT).filter(|&signal| is_ignored(signal) != Some(true));
    // Under nohup, SIGHUP is ignored and the run continues after its terminal is closed. Where it
    // is unknown, the setting is not changed.
    let hangup = Some(SIGHUP).filter(|&signal| is_ignored(signal) == Some(false));
    [SIGTERM, SIGXCPU].into_iter().chain(interrupt).chain(hangup).collect()
}

#[cfg(not(unix))]
fn stop_signals() -> Vec<i32> {
    vec![SIGINT, SIGTERM]
}

#[cfg(unix)]
fn install_unix_handlers(control: &Control) -> io::Result<()> {
    use signal_hook::consts::{SIGUSR1, SIGXFSZ};
    flag::register(SIGUSR1, control.checkpoint.clone())?;
    // Caught and ignored: a write beyond the file size limit then fails with an error and does not
    // end the process.
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    Ok(())
}

#[cfg(not(unix))]
fn install_unix_handlers(_control: &Control) -> io::Result<()> {
    Ok(())
}

/// Whether the parent process set this signal to be ignored. `None` where this is unknown, because
/// only Linux has /proc/self/status.
#[cfg(unix)]
fn is_ignored(signal: i32) -> Option<bool> {
    ignores(&std::fs::read_to_string("/proc/self/status").ok()?, signal)
}

/// Whether a process with this status ignores the signal.
#[cfg(unix)]
fn ignores(status: &str, signal: i32) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask >> (signal - 1) & 1 == 1)
}

#[cfg(all(test, unix))]
mod tests {
    use signal_hook::consts::SIGHUP;

    use super::*;

    #[test]
    fn ignored_signals_are_found_in_the_status_of_the_process() {
        let status =
            |mask| format!("SigBlk:\t0000000000000000\nSigIgn:\t{mask}\nSigCgt:\t0000000000000003\n");
        for (mask, interrupt, hangup) in [
            ("0000000000000000", Some(false), Some(false)),
            ("0000000000000002", Some(true), Some(false)),
            ("0000000000001001", Some(false), Some(true)),
            ("none", None, None),
        ] {
            let status = status(mask);
            assert_eq!([ignores(&status, SIGINT), ignores(&status, SIGHUP)], [interrupt, hangup], "{mask}");
        }
        assert_eq!(ignores("Name:\torrery\n", SIGINT), None);
    }
}
