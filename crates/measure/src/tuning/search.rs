//! Search for the fastest of several strategies within a time limit.

use std::time::Instant;

/// Number of strategies that are timed again with more repeats.
const FINALISTS: usize = 3;
/// Number of timed runs of a finalist of [`find_fastest`].
const FINALIST_REPEATS: usize = 5;

/// Strategy that the tuner chose.
#[derive(Clone, Debug)]
pub(super) struct FoundStrategy<S> {
    /// The strategy.
    pub strategy: S,
    /// Its time.
    pub seconds: f64,
    /// Number of strategies timed before the time limit.
    pub tried: usize,
    /// Number of available strategies.
    pub available: usize,
    /// Time of the strategy that is used without tuning.
    pub default_seconds: f64,
}

/// Strategies with their times in seconds, fastest first, and the choice among them.
type TimedStrategies<S> = (Vec<(S, f64)>, FoundStrategy<S>);

/// Times each candidate once, in order, until `limit_seconds` have passed, then the fastest ones
/// again. `time` returns the median of a number of runs with a strategy, which is `repeats` of the
/// time of one for the fastest ones. Leaves out candidates that the device cannot run. The first
/// one is the default and must run. Returns the timed strategies, fastest first, and the fastest.
pub(super) fn time_candidates<S: Clone + PartialEq, E>(
    candidates: &[S],
    limit_seconds: f64,
    repeats: impl Fn(f64) -> usize,
    mut time: impl FnMut(&S, usize) -> Result<f64, E>,
) -> Result<TimedStrategies<S>, E> {
    let start = Instant::now();
    let default = &candidates[0];
    let mut timed = vec![(default.clone(), time(default, 1)?)];
    for strategy in &candidates[1..] {
        if start.elapsed().as_secs_f64() > limit_seconds {
            break;
        }
        timed.extend(time(strategy, 1).ok().map(|seconds| (strategy.clone(), seconds)));
    }
    let mut default_seconds = timed[0].1;
    timed.sort_by(|a, b| a.1.total_cmp(&b.1));
    let finalists = timed.len().min(FINALISTS);
    for (strategy, seconds) in &mut timed[..finalists] {
        *seconds = time(strategy, repeats(*seconds))?;
        if strategy == default {
            default_seconds = *seconds;
        }
    }
    timed[..finalists].sort_by(|a, b| a.1.total_cmp(&b.1));
    let (strategy, seconds) = timed[0].clone();
    let (tried, available) = (timed.len(), candidates.len());
    Ok((timed, FoundStrategy { strategy, seconds, tried, available, default_seconds }))
}

/// Finds the fastest candidate, as [`time_candidates`] with a fixed number of repeats.
pub(super) fn find_fastest<S: Clone + PartialEq, E>(
    candidates: &[S],
    limit_seconds: f64,
    time: impl FnMut(&S, usize) -> Result<f64, E>,
) -> Result<FoundStrategy<S>, E> {
    time_candidates(candidates, limit_seconds, |_| FINALIST_REPEATS, time).map(|(_, found)| found)
}

#[cfg(test)]
mod tests {
    use orrery_device::DeviceError;

    use super::*;

    #[test]
    fn finalists_are_timed_again_and_failures_are_left_out() {
        // Times of one run and of several runs. The fourth one cannot run.
        let times = [[1.0, 5.0], [2.0, 3.0], [9.0, 0.1], [f64::NAN; 2], [4.0, 2.0]];
        let mut calls = Vec::new();
        let fastest = find_fastest(&[0, 1, 2, 3, 4], f64::INFINITY, |&strategy, repeats| {
            calls.push((strategy, repeats));
            let seconds = times[strategy][usize::from(repeats > 1)];
            if seconds.is_nan() { Err(DeviceError::BadChoice("x".to_owned())) } else { Ok(seconds) }
        })
        .unwrap();
        assert_eq!((fastest.strategy, fastest.seconds), (4, 2.0));
        assert_eq!((fastest.tried, fastest.available, fastest.default_seconds), (4, 5, 5.0));
        let one_run = [0, 1, 2, 3, 4].map(|strategy| (strategy, 1));
        let again = [0, 1, 4].map(|strategy| (strategy, FINALIST_REPEATS));
        assert_eq!(calls, [&one_run[..], &again].concat());
    }

    #[test]
    fn the_default_is_timed_without_time_and_must_run() {
        let fastest =
            find_fastest(&[7, 8], -1.0, |strategy, _| Ok::<_, DeviceError>(f64::from(*strategy))).unwrap();
        assert_eq!((fastest.strategy, fastest.tried), (7, 1));
        let error = || DeviceError::BadChoice("x".to_owned());
        let failed =
            find_fastest(&[7, 8], 1.0, |strategy, _| if *strategy == 7 { Err(error()) } else { Ok(1.0) });
        assert_eq!(failed.err(), Some(error()));
    }
}
