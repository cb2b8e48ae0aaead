//! Waiting for messages without taking a core from ranks that compute.
//!
//! MPI libraries wait in a busy loop. With more ranks than cores that delays the ranks for which
//! the others wait. Here a wait is a series of tests: without a pause at first, then with short
//! sleeps. Linux adds 50 us to a sleep, so a message that arrives later than the busy time is found
//! about 30 us after its arrival. Yields (`sched_yield`) would be shorter, but on a busy machine
//! they give away a whole time slice. MPICH 5 with 4 ranks on 2 busy cores took 500 to 900 us for
//! an exchange of 8 bytes with yields, and 50 to 120 us with sleeps.

use std::time::{Duration, Instant};

/// Time of tests without a pause if ranks share cores. Messages between ranks that are ready take a
/// few microseconds.
const BUSY_ON_SHARED_CORE: Duration = Duration::from_micros(20);
/// Time of tests without a pause if every rank has a core.
const BUSY_ON_OWN_CORE: Duration = Duration::from_micros(200);
/// Slowest rate of a long message between ranks that have cores, bytes/s. Without a pause, shared
/// memory is faster, and networks have this rate.
const SLOWEST_RATE: f64 = 1e9;
/// Time of a sleep. The system makes it longer.
const SLEEP: Duration = Duration::from_micros(1);

/// Returns the time after which tests sleep.
pub(super) fn busy_time(has_core: bool) -> Duration {
    if has_core { BUSY_ON_OWN_CORE } else { BUSY_ON_SHARED_CORE }
}

/// Returns the time after which tests sleep while messages with this number of bytes move. MPI
/// moves long messages in fragments and only during tests, so sleeps between them reduce the rate.
pub(super) fn busy_time_of_bytes(has_core: bool, bytes: usize) -> Duration {
    let moving = if has_core { Duration::from_secs_f64(bytes as f64 / SLOWEST_RATE) } else { Duration::ZERO };
    busy_time(has_core) + moving
}

/// Calls `attempt` until it returns a value or an error, and sleeps between calls after the time
/// `busy`. Adds the time after the first attempt to `waited`. Returns `None` if `limit` has passed.
pub(super) fn repeat_until<R, E>(
    busy: Duration,
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
        if elapsed < busy {
            std::hint::spin_loop();
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
        let immediate: Result<_, ()> = repeat_until(BUSY_ON_SHARED_CORE, None, &mut waited, || Ok(Some(1)));
        assert_eq!((immediate, waited), (Ok(Some(1)), Duration::ZERO));
        let mut attempts = 0;
        let third: Result<_, ()> = repeat_until(BUSY_ON_SHARED_CORE, None, &mut waited, || {
            attempts += 1;
            Ok((attempts == 3).then_some(attempts))
        });
        assert_eq!(third, Ok(Some(3)));
        assert_eq!(
            repeat_until(BUSY_ON_SHARED_CORE, None, &mut waited, || Err::<Option<()>, _>("failed")),
            Err("failed")
        );
        let limit = Duration::from_millis(3);
        let before = waited;
        assert_eq!(
            repeat_until(BUSY_ON_OWN_CORE, Some(limit), &mut waited, || Ok::<Option<()>, ()>(None)),
            Ok(None)
        );
        assert!(waited - before >= limit);
    }
}
