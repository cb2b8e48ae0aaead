//! Waiting for storage that failed, if the case says so with `output.on_error = "wait"`.

use std::time::{Duration, Instant};

use crate::case::OnError;
use crate::control::{Control, RunEvent};
use crate::error::EngineError;

/// Pause before the first retry. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between two retries.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// During a pause, stop requests are checked this often.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Calls `attempt`, which may fail because of the storage. With [`OnError::Wait`], repeats it until
/// it succeeds, and calls `report` before each pause and after the recovery. Both closures get
/// `context`.
pub fn retry_on_storage_error<C, T>(
    context: &mut C,
    on_error: OnError,
    control: &Control,
    report: impl Fn(&mut C, RunEvent<'_>),
    mut attempt: impl FnMut(&mut C) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let mut pause = FIRST_PAUSE;
    let mut waited = false;
    loop {
        match attempt(context) {
            // Do not retry while a stop is requested: the retry loop would never end.
            Err(error)
                if error.is_storage_error() && on_error == OnError::Wait && !control.must_stop_waiting() =>
            {
                report(context, RunEvent::WaitingForStorage { error: &error, pause });
                let until = Instant::now() + pause;
                while Instant::now() < until && !control.must_stop_waiting() {
                    std::thread::sleep(POLL_INTERVAL.min(until.saturating_duration_since(Instant::now())));
                }
                pause = (2 * pause).min(MAX_PAUSE);
                waited = true;
            }
            outcome => {
                if waited && outcome.is_ok() {
                    report(context, RunEvent::StorageRecovered);
                }
                return outcome;
            }
        }
    }
}
