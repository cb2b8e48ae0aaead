//! Signals as requests: SIGINT and SIGTERM end the run after its step, with a checkpoint; SIGUSR1 asks for a
//! checkpoint only. A second SIGINT ends the process at once.

use std::io;

use orrery_engine::control::Control;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// The status of a process that SIGINT ended, as shells have it.
const ENDED_BY_SIGINT: i32 = 130;

/// Has signals set the flags of `control`.
pub fn listen(control: &Control) -> io::Result<()> {
    // In this order: the first signal finds the flag down and raises it, the second finds it up.
    flag::register_conditional_shutdown(SIGINT, ENDED_BY_SIGINT, control.stop.clone())?;
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, control.stop.clone())?;
    }
    #[cfg(unix)]
    flag::register(signal_hook::consts::SIGUSR1, control.checkpoint.clone())?;
    Ok(())
}
