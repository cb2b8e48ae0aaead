//! Waiting for messages without taking a core from ranks that compute.
//!
//! MPI libraries wait in a busy loop. With more ranks than cores that delays the ranks for which
//! the others wait. Here a wait is a series of tests: without a pause at first, then with a yield
//! to other threads, then with short sleeps.

use std::time::{Duration, Instant};

/// Time of tests without a pause. Messages between ranks that are ready take a few microseconds.
const SPIN: Duration = Duration::from_micros(20);
/// Time after which the tests sleep.
const YIELD: Duration = Duration::from_millis(1);
/// Time of a sleep.
const SLEEP: Duration = Duration::from_micros(50);

/// Calls `attempt` until it returns a value or an error. Adds the time after the first attempt to
/// `waited`. Returns `None` if `limit` has passed.
pub(super) fn repeat_until<R, E>(
    limit: Option<Duration>,
    waited: &mut Duration,
    mut attempt: impl FnMut() -> Result<Option<R>, E>,
) -> Result<Option<R>, E> {
    if let Some(value) = attempt()? {
        return Ok(Some(value));
    }
    let start = Instant::now();
    let result = loop {
        let elapsed = start.elapsed();
        if limit.is_some_and(|limit| elapsed >= limit) {
            break Ok(None);
        }
        if elapsed < SPIN {
            std::hint::spin_loop();
        } else if elapsed < YIELD {
            std::thread::yield_now();
        } else {
            std::thread::sleep(SLEEP);
        }
        match attempt() {
            Ok(None) => {}
            other => break other,
        }
    };
    *waited += start.elapsed();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_end_with_a_value_an_error_or_at_the_limit() {
        let mut waited = Duration::ZERO;
        let immediate: Result<_, ()> = repeat_until(None, &mut waited, || Ok(Some(1)));
        assert_eq!((immediate, waited), (Ok(Some(1)), Duration::ZERO));
        let mut attempts = 0;
        let third: Result<_, ()> = repeat_until(None, &mut waited, || {
            attempts += 1;
            Ok((attempts == 3).then_some(attempts))
        });
        assert_eq!(third, Ok(Some(3)));
        assert_eq!(repeat_until(None, &mut waited, || Err::<Option<()>, _>("failed")), Err("failed"));
        let limit = Duration::from_millis(3);
        let before = waited;
        assert_eq!(repeat_until(Some(limit), &mut waited, || Ok::<Option<()>, ()>(None)), Ok(None));
        assert!(waited - before >= limit);
    }
}
