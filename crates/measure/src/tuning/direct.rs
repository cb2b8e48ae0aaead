//! Tuning of the direct sum.

use orrery_device::Device;
use orrery_gravity::solver::direct::device::DirectDeviceStrategy;
use orrery_model::Precision;
use serde::{Deserialize, Serialize};

use super::entry::{TunedList, TunedProblem};
use super::search::{FoundStrategy, time_candidates};
use super::{TuneOutcome, TuneReport, Tuning, insert_and_report};
use crate::MeasureError;
use crate::bench::primitives::PrimitiveCase;
use crate::timing::largest_affordable_size;
use crate::workload::DeviceWorkload;

/// Problem sizes that are tuned by default. A run uses the nearest one within a factor of four.
pub const DEFAULT_SIZES: [usize; 6] = [1024, 4096, 16_384, 65_536, 262_144, 1_048_576];

/// Approximate time for one size and precision. The 18 default combinations take about a minute.
const SECONDS_PER_SIZE: f64 = 3.5;
/// Sizes are left out if a single evaluation takes longer than this.
const MAX_RUN_SECONDS: f64 = 4.0;
/// Largest number of repeats for a finalist.
const MAX_REPEATS: usize = 11;
/// Approximate time for the repeats of one finalist.
const SECONDS_PER_FINALIST: f64 = 0.5;

/// A direct sum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectProblem {
    /// Number of bodies.
    pub n: usize,
    /// Precision of the arithmetic.
    pub precision: Precision,
}

impl TunedProblem for DirectProblem {
    type Strategy = DirectDeviceStrategy;
    type Kind = u8;

    fn key(&self) -> (Self::Kind, usize) {
        (self.precision as u8, self.n)
    }

    fn has_strategy(&self, strategy: &DirectDeviceStrategy, device: &Device, _: &[&PrimitiveCase]) -> bool {
        let Self { n, precision } = *self;
        strategy.precision == precision
            && (*strategy == DirectDeviceStrategy::default_for(device, n, precision)
                || DirectDeviceStrategy::candidates(device, n, precision).contains(strategy))
    }

    fn description(&self) -> String {
        format!("{} bodies", self.n)
    }

    fn cells(&self) -> Vec<String> {
        vec![self.n.to_string(), self.precision.as_str().to_owned()]
    }

    fn describe(strategy: &DirectDeviceStrategy) -> String {
        strategy.describe()
    }

    fn list_mut(tuning: &mut Tuning) -> &mut TunedList<Self> {
        &mut tuning.entries
    }
}

/// Tunes each size, in ascending order, in each precision. Calls `report` with each outcome.
pub fn tune_direct(
    device: &Device,
    sizes: &[usize],
    precisions: &[Precision],
    report: TuneReport<DirectProblem>,
) -> Result<Tuning, MeasureError> {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    let mut tuning = Tuning::new(device);
    for &precision in precisions {
        let mut previous: Option<SizeTimings> = None;
        for &n in &sizes {
            let problem = DirectProblem { n, precision };
            let is_short =
                previous.as_ref().is_some_and(|timings| timings.expected_seconds(n) <= MAX_RUN_SECONDS);
            if !is_short && let Some(seconds) = excessive_seconds(device, problem)? {
                report(&TuneOutcome::TooLong { problem, seconds });
                break;
            }
            let (timings, found) = SizeTimings::measure(device, problem, previous.as_ref())?;
            insert_and_report(&mut tuning, problem, found, report);
            previous = Some(timings);
        }
    }
    Ok(tuning)
}

/// Returns the estimated time of one evaluation if it exceeds [`MAX_RUN_SECONDS`].
fn excessive_seconds(device: &Device, problem: DirectProblem) -> Result<Option<f64>, MeasureError> {
    let DirectProblem { n, precision } = problem;
    let (size, seconds) = largest_affordable_size(n, MAX_RUN_SECONDS, |n| {
        let workload = DeviceWorkload::for_direct(device, n)?;
        let strategy = DirectDeviceStrategy::default_for(device, n, precision);
        workload.time_once(&mut workload.new_solver(strategy)?)
    })?;
    Ok((size < n).then(|| seconds * (n as f64 / size as f64).powi(2)))
}

/// Times of the strategies for one size and precision.
struct SizeTimings {
    n: usize,
    /// Strategies and their times in seconds, fastest first. Contains at least the default.
    timed: Vec<(DirectDeviceStrategy, f64)>,
}

impl SizeTimings {
    fn measure(
        device: &Device,
        problem: DirectProblem,
        previous: Option<&Self>,
    ) -> Result<(Self, FoundStrategy<DirectDeviceStrategy>), MeasureError> {
        let DirectProblem { n, precision } = problem;
        let workload = DeviceWorkload::for_direct(device, n)?;
        let default = DirectDeviceStrategy::default_for(device, n, precision);
        let mut candidates = DirectDeviceStrategy::candidates(device, n, precision);
        candidates.retain(|candidate| *candidate != default);
        // The time may not suffice for all candidates. Those that were fast for the previous size
        // are tried first.
        if let Some(previous) = previous {
            candidates.sort_by_key(|candidate| previous.rank_of(candidate));
        }
        candidates.insert(0, default);
        let repeats = |seconds: f64| (SECONDS_PER_FINALIST / seconds).clamp(1.0, MAX_REPEATS as f64) as usize;
        let (timed, found) = time_candidates(&candidates, SECONDS_PER_SIZE, repeats, |strategy, repeats| {
            workload.time_strategy(*strategy, repeats)
        })?;
        Ok((Self { n, timed }, found))
    }

    /// Estimates the time of the fastest strategy for `n` bodies.
    fn expected_seconds(&self, n: usize) -> f64 {
        self.timed[0].1 * (n as f64 / self.n as f64).powi(2)
    }

    /// Returns the rank of a strategy among the timed ones. The number of splits is not compared,
    /// because it depends on the number of bodies.
    fn rank_of(&self, strategy: &DirectDeviceStrategy) -> usize {
        let is_same = |other: &DirectDeviceStrategy| {
            DirectDeviceStrategy { splits: strategy.splits, ..*other } == *strategy
        };
        self.timed.iter().position(|(other, _)| is_same(other)).unwrap_or(self.timed.len())
    }
}
