//! Share of the CPU in a sum, found by measurement.
//!
//! T(s) = max(s T_c, (1 − s) T_d) is shortest where both parts take the same time. It leaves out
//! costs that a share adds, however small it is: the CPU also queues the work of the device and
//! waits for it, and copies take memory bandwidth from it. The fastest share can therefore be
//! smaller than the balanced one, down to none. [`find_share`] measures some of them as well.
//!
//! Cost: up to six measured sums.

use super::HybridPartTimes;

/// Number of balanced shares that are measured. Each is corrected by the times of the one before.
const BALANCED_SHARES: usize = 3;
/// Smaller shares that are measured, relative to the fastest balanced one.
const SMALLER_SHARES: [f64; 3] = [0.0, 0.25, 0.5];

/// Measured times of a sum, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredSum {
    /// Time of the whole sum.
    pub seconds: f64,
    /// Times of both parts.
    pub parts: HybridPartTimes,
}

/// Returns the share of the CPU for which both parts would take the same time, from their times
/// with `share`. Both rates are assumed not to depend on it. `share` is between 0 and 1, exclusive.
///
/// ```
/// use orrery_lab::experiments::hybrid::{HybridPartTimes, balanced_share};
///
/// // The CPU needs 8 ms for a tenth, so 80 ms for all. The device needs 18 ms for nine tenths.
/// let share = balanced_share(0.1, HybridPartTimes { cpu: 8e-3, device: 18e-3 });
/// assert!((share - 0.2).abs() < 1e-12);
/// ```
pub fn balanced_share(share: f64, times: HybridPartTimes) -> f64 {
    let (cpu, device) = (times.cpu / share, times.device / (1.0 - share));
    device / (cpu + device)
}

/// Returns the number of targets of the CPU for a share of `n` bodies.
pub fn cpu_target_count(n: usize, share: f64) -> usize {
    ((share * n as f64).round() as usize).min(n)
}

/// Finds the share of the CPU with the shortest time for `n` bodies, at least one.
///
/// Measures `first_share`, for example the share that follows from the times of both alone, then
/// balanced shares, each from the times of both parts of the sum before. Then measures a half and a
/// quarter of the fastest one, and no share. The result is therefore not slower than the device
/// alone, except for noise.
pub fn find_share<E>(
    n: usize,
    first_share: f64,
    mut measure: impl FnMut(f64) -> Result<MeasuredSum, E>,
) -> Result<f64, E> {
    // A balanced share follows from the times of both parts, so both need a target.
    let (least, most) = (1.0 / n as f64, 1.0 - 1.0 / n as f64);
    let mut measured = Vec::new();
    let mut share = first_share;
    while measured.len() < BALANCED_SHARES && (least..=most).contains(&share) {
        let sum = measure(share)?;
        measured.push((share, sum.seconds));
        share = balanced_share(share, sum.parts);
    }
    if measured.is_empty() {
        measured.push((first_share, measure(first_share)?.seconds));
    }
    for share in smaller_shares(n, fastest_of(&measured)) {
        measured.push((share, measure(share)?.seconds));
    }
    Ok(fastest_of(&measured))
}

/// Returns the share with the shortest time. `measured` has pairs of a share and its time, at least
/// one.
fn fastest_of(measured: &[(f64, f64)]) -> f64 {
    measured.iter().min_by(|a, b| a.1.total_cmp(&b.1)).expect("a measured share").0
}

/// Returns shares below the balanced one that differ by whole targets.
fn smaller_shares(n: usize, balanced: f64) -> Vec<f64> {
    let mut shares = SMALLER_SHARES.map(|part| part * balanced).to_vec();
    shares.dedup_by_key(|share| cpu_target_count(n, *share));
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the times of both parts if the CPU alone takes 70 ms and the device alone 2 ms.
    fn parts_of(share: f64) -> HybridPartTimes {
        HybridPartTimes { cpu: 70e-3 * share, device: 2e-3 * (1.0 - share) }
    }

    /// Finds the share for these times and a cost of sharing. Returns it with all measured shares.
    fn found_with(n: usize, first_share: f64, cost: impl Fn(f64) -> f64) -> (f64, Vec<f64>) {
        let mut measured = Vec::new();
        let found = find_share(n, first_share, |share| {
            measured.push(share);
            let parts = parts_of(share);
            Ok::<_, ()>(MeasuredSum { seconds: parts.cpu.max(parts.device) + cost(share), parts })
        });
        (found.unwrap(), measured)
    }

    #[test]
    fn the_balanced_share_makes_both_parts_equally_long() {
        for share in [0.001, 0.1, 0.5, 0.9] {
            let balanced = balanced_share(share, parts_of(share));
            assert!((balanced - 2.0 / 72.0).abs() < 1e-12, "{balanced}");
            let times = parts_of(balanced);
            assert!((times.cpu / times.device - 1.0).abs() < 1e-12, "{times:?}");
        }
    }

    #[test]
    fn shares_are_rounded_to_whole_targets() {
        let counts = [0.0, 0.1, 0.96, 1.0, 1.5].map(|share| cpu_target_count(5, share));
        assert_eq!(counts, [0, 1, 5, 5, 5]);
    }

    #[test]
    fn the_balanced_share_is_found_if_sharing_costs_nothing() {
        let (found, measured) = found_with(10_000, 0.3, |_| 0.0);
        assert!((found - 2.0 / 72.0).abs() < 1e-12, "{found}");
        assert_eq!(measured.len(), 6, "{measured:?}");
    }

    /// Balanced, the sum gains 0.056 ms over the device alone, and half of it with half of the
    /// share.
    #[test]
    fn a_smaller_share_or_none_is_found_if_sharing_costs_more_than_it_gains() {
        let balanced = 2.0 / 72.0;
        let (found, _) = found_with(10_000, 0.3, |share| if share > 0.0 { 0.06e-3 } else { 0.0 });
        assert_eq!(found, 0.0);
        let (found, _) = found_with(10_000, 0.3, |share| if share > 0.6 * balanced { 0.06e-3 } else { 0.0 });
        assert!((found - 0.5 * balanced).abs() < 1e-12, "{found}");
        let (found, _) = found_with(10_000, 0.3, |share| if share > 0.3 * balanced { 0.06e-3 } else { 0.0 });
        assert!((found - 0.25 * balanced).abs() < 1e-12, "{found}");
    }

    #[test]
    fn few_bodies_have_few_shares() {
        // A single body is computed by one of both.
        assert_eq!(found_with(1, 0.6, |_| 0.0), (0.0, vec![0.6, 0.0]));
        // The balanced share of 10 bodies is less than one of them.
        let (found, measured) = found_with(10, 0.3, |_| 0.0);
        assert_eq!((found, measured), (0.0, vec![0.3, 0.0, 0.075, 0.15]));
        // A share below one target.
        assert_eq!(found_with(10, 0.01, |_| 0.0).1, [0.01, 0.0]);
    }

    #[test]
    fn an_error_of_a_measurement_is_returned() {
        assert_eq!(find_share(100, 0.3, |_| Err("lost device")), Err("lost device"));
    }
}
