//! Tuning of the tree: times the strategies that a device can use for a Plummer sphere.
//!
//! Options of the walk kernel keep all bits. Larger leaves change the forces by about their errors,
//! which become smaller or stay the same. A run therefore prints a tuned strategy and records it,
//! as for the direct sum.

use orrery_device::{Device, DeviceError, DeviceKind};
use orrery_gravity::settings::MAX_THETA;
use orrery_gravity::solver::tree::device::TreeDeviceStrategy;
use orrery_model::Precision;
use serde::{Deserialize, Serialize};

use super::Tuning;
use super::candidates::{FastestCandidate, find_fastest};
use crate::MeasureError;
use crate::sample::Shape;
use crate::workload::DeviceWorkload;

/// Opening angle for which the tree is tuned by default. It is also the default of a case.
pub const DEFAULT_TREE_THETA: f64 = 0.6;

/// Approximate time for one number of bodies and precision. The first of a precision takes longest,
/// because it compiles the kernels.
const SECONDS_PER_SIZE: f64 = 10.0;
/// Largest share of the default's time that a strategy may take to replace it. Smaller gains may be
/// noise, and the default keeps the results as they are.
const MAX_TIME_SHARE: f64 = 0.98;

/// Returns the numbers of bodies that are tuned by default. Each applies to numbers within a factor
/// of four, so on a GPU they cover 16,384 to 16,777,216 bodies.
pub fn default_tree_sizes(device: &Device) -> &'static [usize] {
    match device.properties().kind {
        DeviceKind::Gpu => &[65_536, 262_144, 1 << 20, 1 << 22],
        DeviceKind::Cpu | DeviceKind::Other => &[16_384],
    }
}

/// Fastest strategy of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeEntry {
    /// Number of bodies of the measurement.
    pub n: usize,
    /// Precision of the arithmetic.
    pub precision: Precision,
    /// Opening angle of the measurement. The entry is used for all opening angles.
    pub theta: f64,
    /// The strategy.
    pub strategy: TreeDeviceStrategy,
    /// Time of one force evaluation, including the tree build.
    pub seconds: f64,
}

impl TreeEntry {
    /// Returns whether both entries are for the same number of bodies and precision.
    pub(super) fn is_same_problem(&self, other: &Self) -> bool {
        (self.n, self.precision) == (other.n, other.precision)
    }

    /// Returns whether the tuner can choose this strategy on the device.
    pub(super) fn is_available(&self, device: &Device) -> bool {
        let Self { n, precision, theta, strategy, seconds } = *self;
        n > 0
            && theta > 0.0
            && theta <= MAX_THETA
            && seconds > 0.0
            && seconds.is_finite()
            && TreeDeviceStrategy::candidates(device, precision).contains(&strategy)
    }
}

/// Result of tuning one number of bodies and precision.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeOutcome {
    /// Entry for the tuning file.
    pub entry: TreeEntry,
    /// Number of strategies timed before the time limit.
    pub tried: usize,
    /// Number of available strategies.
    pub available: usize,
    /// Time of the strategy that is used without tuning.
    pub default_seconds: f64,
}

/// Tunes the tree for each number of bodies and precision, with geometric acceptance and the
/// opening angle `theta`. Calls `report` with each outcome.
pub fn tune_tree(
    device: &Device,
    sizes: &[usize],
    precisions: &[Precision],
    theta: f64,
    report: &mut dyn FnMut(&TreeOutcome),
) -> Result<Tuning, MeasureError> {
    let mut tuning = Tuning::new(device);
    for &n in sizes {
        let workload = DeviceWorkload::for_tree(device, Shape::Plummer, n, theta)?;
        for &precision in precisions {
            let candidates = TreeDeviceStrategy::candidates(device, precision);
            let fastest = find_fastest(&candidates, SECONDS_PER_SIZE, |strategy, repeats| {
                time_strategy(&workload, strategy, repeats)
            })?;
            let (strategy, seconds) = worthwhile_strategy(&fastest, candidates[0]);
            let entry = TreeEntry { n, precision, theta, strategy, seconds };
            report(&TreeOutcome {
                entry,
                tried: fastest.tried,
                available: candidates.len(),
                default_seconds: fastest.default_seconds,
            });
            tuning.insert_tree_entry(entry);
        }
    }
    Ok(tuning)
}

/// Returns the median time of `repeats` force evaluations, after an untimed one.
fn time_strategy(
    workload: &DeviceWorkload,
    strategy: TreeDeviceStrategy,
    repeats: usize,
) -> Result<f64, DeviceError> {
    let mut solver = workload.new_solver(strategy)?;
    let seconds = workload.time_once(&mut solver)?;
    if repeats <= 1 {
        return Ok(seconds);
    }
    Ok(workload.time_repeats(&mut solver, repeats, seconds)?.median())
}

/// Returns the fastest strategy and its time, or the default if the gain is too small.
fn worthwhile_strategy(
    fastest: &FastestCandidate<TreeDeviceStrategy>,
    default: TreeDeviceStrategy,
) -> (TreeDeviceStrategy, f64) {
    if fastest.seconds <= MAX_TIME_SHARE * fastest.default_seconds {
        (fastest.strategy, fastest.seconds)
    } else {
        (default, fastest.default_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tree::production_strategy;
    use crate::sample::ReferenceForces;

    #[test]
    fn the_fastest_tree_is_found_and_used() {
        let Some(device) = crate::test_device() else { return };
        let mut outcomes = Vec::new();
        let precision = Precision::Single;
        let tuning = tune_tree(&device, &[1000], &[precision], 0.6, &mut |outcome| {
            outcomes.push(outcome.clone());
        })
        .unwrap();
        let [TreeOutcome { entry, tried, available, default_seconds }] = &outcomes[..] else {
            panic!("{outcomes:?}");
        };
        let candidates = TreeDeviceStrategy::candidates(&device, precision);
        assert!(*tried <= *available && *available == candidates.len());
        assert!(entry.is_available(&device) && *default_seconds >= entry.seconds, "{entry:?}");
        assert_eq!(tuning.tree_entries(), [*entry]);
        assert_eq!(production_strategy(&device, Some(&tuning), 4000, precision), entry.strategy);
        let other = production_strategy(&device, Some(&tuning), 4001, precision);
        assert_eq!(other, TreeDeviceStrategy::default_for(&device, precision));
    }

    /// Larger leaves may change the results of a run, but not for the worse. In a cube the cells at
    /// the lowest level are equally large, and leaves of two sizes may give the same tree but for
    /// the groups, whose errors differ by a fraction of a percent.
    #[test]
    fn candidates_with_larger_leaves_have_no_larger_errors() {
        let Some(device) = crate::test_device() else { return };
        for shape in [Shape::Plummer, Shape::Cube] {
            let workload = DeviceWorkload::for_tree(&device, shape, 2000, 0.6).unwrap();
            let reference = ReferenceForces::compute(&workload.problem());
            let mut candidates = TreeDeviceStrategy::candidates(&device, Precision::Single);
            candidates.retain(|candidate| candidate.walk_options.is_none());
            let errors: Vec<_> = candidates
                .iter()
                .map(|&candidate| {
                    let mut solver = workload.new_solver(candidate).unwrap();
                    workload.queue_forces(&mut solver).unwrap();
                    reference.errors(&workload.accelerations().unwrap())
                })
                .collect();
            let default = &errors[0];
            for error in &errors {
                let is_as_good = error.rms <= 1.01 * default.rms && error.median <= 1.01 * default.median;
                assert!(is_as_good, "{shape:?}: {errors:?}");
            }
        }
    }

    #[test]
    fn small_gains_keep_the_default() {
        let Some(device) = crate::test_device() else { return };
        let candidates = TreeDeviceStrategy::candidates(&device, Precision::Mixed);
        for (seconds, expected) in [(0.99, (candidates[0], 1.0)), (0.9, (candidates[1], 0.9))] {
            let fastest =
                FastestCandidate { strategy: candidates[1], seconds, tried: 2, default_seconds: 1.0 };
            assert_eq!(worthwhile_strategy(&fastest, candidates[0]), expected);
        }
    }
}
