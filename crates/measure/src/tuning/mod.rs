//! Tuner: times the strategies that a device can use for each problem size, and stores the fastest
//! in a file.
//!
//! Different strategies add the forces in different orders, so results differ in the last bits. A
//! run therefore prints the strategy it uses and records it in the provenance of its output.

mod candidates;
mod file;
mod fluid;
mod heat;
mod primitives;
mod tree;
mod wave;

use std::time::Instant;

use orrery_device::Device;
use orrery_gravity::solver::direct::device::DirectDeviceStrategy;
use orrery_model::Precision;

use crate::MeasureError;
use crate::timing::largest_affordable_size;
use crate::workload::DeviceWorkload;

pub use file::{Entry, IgnoredFile, Tuning};
pub use fluid::{FluidEntry, FluidOutcome, default_fluid_sizes, tune_fluid};
pub use heat::{HeatEntry, HeatOutcome, default_sides, tune_heat};
pub use primitives::{PrimitiveEntry, PrimitiveOutcome, tune_primitives};
pub use tree::{DEFAULT_TREE_THETA, TreeEntry, TreeOutcome, default_tree_sizes, tune_tree};
pub use wave::{WaveEntry, WaveOutcome, default_wave_sides, tune_wave};

/// Problem sizes that are tuned by default. A run uses the nearest one within a factor of four.
pub const DEFAULT_SIZES: [usize; 6] = [1024, 4096, 16_384, 65_536, 262_144, 1_048_576];

/// Approximate time for one size and precision. The 18 default combinations take about a minute.
const SECONDS_PER_SIZE: f64 = 3.5;
/// Sizes are left out if a single evaluation takes longer than this.
const MAX_RUN_SECONDS: f64 = 4.0;
/// Number of strategies that are timed again with more repeats.
const FINALISTS: usize = 3;
/// Largest number of repeats for a finalist.
const MAX_REPEATS: usize = 11;
/// Approximate time for the repeats of one finalist.
const SECONDS_PER_FINALIST: f64 = 0.5;

/// Result of tuning one size and precision.
#[derive(Clone, Debug, PartialEq)]
pub enum TuneOutcome {
    /// The fastest strategy was found.
    Best {
        /// Entry for the tuning file.
        entry: Entry,
        /// Number of strategies timed before the time limit.
        tried: usize,
        /// Number of available strategies.
        available: usize,
        /// Time of the strategy that is used without tuning.
        default_seconds: f64,
    },
    /// The size was left out because one evaluation takes too long.
    TooLong {
        /// Number of bodies.
        n: usize,
        /// Precision of the arithmetic.
        precision: Precision,
        /// Estimated time of one evaluation.
        seconds: f64,
    },
}

/// Tunes each size, in ascending order, in each precision. Calls `report` with each outcome.
pub fn tune_device(
    device: &Device,
    sizes: &[usize],
    precisions: &[Precision],
    report: &mut dyn FnMut(&TuneOutcome),
) -> Result<Tuning, MeasureError> {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    let mut tuning = Tuning::new(device);
    for &precision in precisions {
        let mut previous: Option<SizeTimings> = None;
        for &n in &sizes {
            let is_short =
                previous.as_ref().is_some_and(|timings| timings.expected_seconds(n) <= MAX_RUN_SECONDS);
            if !is_short && let Some(seconds) = excessive_seconds(device, n, precision)? {
                report(&TuneOutcome::TooLong { n, precision, seconds });
                break;
            }
            let timings = SizeTimings::measure(device, n, precision, previous.as_ref())?;
            report(&timings.outcome(precision));
            tuning.insert_entry(timings.fastest_entry(precision));
            previous = Some(timings);
        }
    }
    Ok(tuning)
}

/// Returns the estimated time of one evaluation if it exceeds [`MAX_RUN_SECONDS`].
fn excessive_seconds(device: &Device, n: usize, precision: Precision) -> Result<Option<f64>, MeasureError> {
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
    available: usize,
    default_seconds: f64,
}

impl SizeTimings {
    fn measure(
        device: &Device,
        n: usize,
        precision: Precision,
        previous: Option<&Self>,
    ) -> Result<Self, MeasureError> {
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
        let available = candidates.len();
        let mut timed = time_candidates(&workload, candidates)?;
        // The default is timed first.
        let mut default_seconds = timed[0].1;
        timed.sort_by(|a, b| a.1.total_cmp(&b.1));
        for (strategy, seconds) in timed.iter_mut().take(FINALISTS) {
            let repeats = (SECONDS_PER_FINALIST / *seconds).clamp(1.0, MAX_REPEATS as f64) as usize;
            let mut solver = workload.new_solver(*strategy)?;
            workload.time_once(&mut solver)?;
            *seconds = workload.time_repeats(&mut solver, repeats, *seconds)?.median();
            if *strategy == default {
                default_seconds = *seconds;
            }
        }
        let finalists = timed.len().min(FINALISTS);
        timed[..finalists].sort_by(|a, b| a.1.total_cmp(&b.1));
        Ok(Self { n, timed, available, default_seconds })
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

    fn fastest_entry(&self, precision: Precision) -> Entry {
        let (strategy, seconds) = self.timed[0];
        Entry { n: self.n, precision, strategy, seconds }
    }

    fn outcome(&self, precision: Precision) -> TuneOutcome {
        TuneOutcome::Best {
            entry: self.fastest_entry(precision),
            tried: self.timed.len(),
            available: self.available,
            default_seconds: self.default_seconds,
        }
    }
}

/// Times one evaluation of each candidate, in order, until [`SECONDS_PER_SIZE`] have passed. Leaves
/// out candidates that the device cannot run. The first candidate must run.
fn time_candidates(
    workload: &DeviceWorkload,
    candidates: Vec<DirectDeviceStrategy>,
) -> Result<Vec<(DirectDeviceStrategy, f64)>, MeasureError> {
    let start = Instant::now();
    let mut timed = Vec::new();
    for strategy in candidates {
        if !timed.is_empty() && start.elapsed().as_secs_f64() > SECONDS_PER_SIZE {
            break;
        }
        match workload.new_solver(strategy).and_then(|mut solver| workload.time_once(&mut solver)) {
            Ok(seconds) => timed.push((strategy, seconds)),
            Err(error) if timed.is_empty() => return Err(error.into()),
            Err(_) => {}
        }
    }
    Ok(timed)
}
