//! Tuning of the tree: times the strategies that a device can use for a Plummer sphere.
//!
//! Options of the walk kernel keep all bits. Larger leaves change the forces by about their errors,
//! which become smaller or stay the same. A run therefore prints a tuned strategy and records it,
//! as for the direct sum.

use orrery_device::{Device, DeviceKind};
use orrery_gravity::settings::MAX_THETA;
use orrery_gravity::solver::tree::device::TreeDeviceStrategy;
use orrery_model::Precision;
use serde::{Deserialize, Serialize};

use super::entry::{TunedList, TunedProblem};
use super::search::{FoundStrategy, find_fastest};
use super::{TuneReport, Tuning, tune_each};
use crate::MeasureError;
use crate::bench::primitives::PrimitiveCase;
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

/// A tree.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TreeProblem {
    /// Number of bodies.
    pub n: usize,
    /// Precision of the arithmetic.
    pub precision: Precision,
    /// Opening angle of the measurement. The entry is used for all opening angles.
    pub theta: f64,
}

impl TunedProblem for TreeProblem {
    type Strategy = TreeDeviceStrategy;
    type Kind = u8;

    fn key(&self) -> (Self::Kind, usize) {
        (self.precision as u8, self.n)
    }

    fn has_strategy(&self, strategy: &Self::Strategy, device: &Device, _: &[&PrimitiveCase]) -> bool {
        self.theta > 0.0
            && self.theta <= MAX_THETA
            && TreeDeviceStrategy::candidates(device, self.precision).contains(strategy)
    }

    fn description(&self) -> String {
        format!("the tree of {} bodies", self.n)
    }

    fn cells(&self) -> Vec<String> {
        vec![self.n.to_string(), self.precision.as_str().to_owned()]
    }

    fn describe(strategy: &Self::Strategy) -> String {
        strategy.describe()
    }

    fn list_mut(tuning: &mut Tuning) -> &mut TunedList<Self> {
        &mut tuning.tree
    }
}

/// Tunes the tree for each number of bodies and precision, with geometric acceptance and the
/// opening angle `theta`. Calls `report` with each outcome.
pub fn tune_tree(
    device: &Device,
    sizes: &[usize],
    precisions: &[Precision],
    theta: f64,
    report: TuneReport<TreeProblem>,
) -> Result<Tuning, MeasureError> {
    let problem = |n| precisions.iter().map(move |&precision| TreeProblem { n, precision, theta });
    let mut workload: Option<DeviceWorkload> = None;
    tune_each(
        device,
        sizes.iter().flat_map(|&n| problem(n)),
        report,
        |&TreeProblem { n, precision, .. }| {
            // All precisions have the same bodies.
            let bodies = match workload.take().filter(|bodies| bodies.body_count() == n) {
                Some(bodies) => bodies,
                None => DeviceWorkload::for_tree(device, Shape::Plummer, n, theta)?,
            };
            let bodies = workload.insert(bodies);
            let candidates = TreeDeviceStrategy::candidates(device, precision);
            let found = find_fastest(&candidates, SECONDS_PER_SIZE, |strategy, repeats| {
                bodies.time_strategy(*strategy, repeats)
            })?;
            Ok(keep_default_for_small_gain(found, candidates[0]))
        },
    )
}

/// Replaces the fastest strategy by the default if the gain is too small.
fn keep_default_for_small_gain(
    found: FoundStrategy<TreeDeviceStrategy>,
    default: TreeDeviceStrategy,
) -> FoundStrategy<TreeDeviceStrategy> {
    if found.seconds <= MAX_TIME_SHARE * found.default_seconds {
        return found;
    }
    FoundStrategy { strategy: default, seconds: found.default_seconds, ..found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tree::production_strategy;
    use crate::sample::ReferenceForces;
    use crate::tuning::TuneOutcome;

    #[test]
    fn the_fastest_tree_is_found_and_used() {
        let Some(device) = crate::test_device() else { return };
        let mut outcomes = Vec::new();
        let precision = Precision::Single;
        let tuning = tune_tree(&device, &[1000], &[precision], 0.6, &mut |outcome| {
            outcomes.push(outcome.clone());
        })
        .unwrap();
        let [TuneOutcome::Best { entry, tried, available, default_seconds }] = &outcomes[..] else {
            panic!("{outcomes:?}");
        };
        let candidates = TreeDeviceStrategy::candidates(&device, precision);
        assert!(*tried <= *available && *available == candidates.len());
        assert!(entry.is_available(&device, &[]) && *default_seconds >= entry.seconds, "{entry:?}");
        assert_eq!(tuning.tree.entries(), [*entry]);
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
            let found = FoundStrategy {
                strategy: candidates[1],
                seconds,
                tried: 2,
                available: 2,
                default_seconds: 1.0,
            };
            let kept = keep_default_for_small_gain(found, candidates[0]);
            assert_eq!((kept.strategy, kept.seconds), expected);
        }
    }
}
