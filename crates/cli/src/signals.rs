//! Signals as requests: SIGINT, SIGTERM and what else ends a process in good order (a terminal that goes away, a
//! limit of CPU time) end the run after its step, with a checkpoint; SIGUSR1 asks for a checkpoint only. A second
//! SIGINT ends the process at once.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use orrery_engine::control::Control;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::say::warn;

/// The status of a process that SIGINT ended, as shells have it.
const ENDED_BY_SIGINT: i32 = 130;

/// Has signals set the flags of `control`.
pub fn listen(control: &Control) -> io::Result<()> {
    // In this order: the first signal finds the flag down and raises it, the second finds it up.
    flag::register_conditional_shutdown(SIGINT, ENDED_BY_SIGINT, control.stop.clone())?;
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, control.stop.clone())?;
    }
    listen_on_unix(control)
}

/// On a terminal, says that a signal was heard: a step may take a while.
pub fn acknowledge(control: &Control) {
    if !io::stderr().is_terminal() {
        return;
    }
    let stop = control.stop.clone();
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
        warn(format_args!("\nstopping after this step, with a checkpoint; Ctrl-C again ends at once"));
    });
}

#[cfg(unix)]
fn listen_on_unix(control: &Control) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGUSR1, SIGXCPU, SIGXFSZ};
    flag::register(SIGUSR1, control.checkpoint.clone())?;
    flag::register(SIGXCPU, control.stop.clone())?;
    // Heard and forgotten: a file beyond its limit of size is then an error of that file, not the end of the process.
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    // Under nohup the run outlives its terminal.
    if !is_ignored(SIGHUP) {
        flag::register(SIGHUP, control.stop.clone())?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn listen_on_unix(_control: &Control) -> io::Result<()> {
    Ok(())
}

/// Whether whoever started this process had it ignore the signal; where that is unknown (Linux tells), it is left so.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_none_or(|mask| mask >> (signal - 1) & 1 == 1)
}
