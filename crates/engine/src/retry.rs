//! Waiting for storage that failed, where the case asks for it.

use std::time::{Duration, Instant};

use crate::case::OnError;
use crate::control::{Control, RunEvent};
use crate::error::EngineError;

/// How long to wait before trying a failed write again: at first, and at most.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];
/// While waiting, requests are looked for this often.
const GLANCE: Duration = Duration::from_millis(100);

/// Does what may fail for want of storage; with [`OnError::Wait`], again and again until it succeeds, which
/// `tell` hears of.
pub fn insist<S, T>(
    subject: &mut S,
    on_error: OnError,
    control: &Control,
    tell: impl Fn(&mut S, RunEvent<'_>),
    mut attempt: impl FnMut(&mut S) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let [mut pause, longest] = PAUSES;
    let mut waited = false;
    loop {
        match attempt(subject) {
            Err(error) if error.is_of_storage() && on_error == OnError::Wait && !control.is_impatient() => {
                tell(subject, RunEvent::Waiting { error: &error, pause });
                let until = Instant::now() + pause;
                while Instant::now() < until && !control.is_impatient() {
                    std::thread::sleep(GLANCE.min(until.saturating_duration_since(Instant::now())));
                }
                pause = (2 * pause).min(longest);
                waited = true;
            }
            outcome => {
                if waited && outcome.is_ok() {
                    tell(subject, RunEvent::StorageIsBack);
                }
                return outcome;
            }
        }
    }
}
