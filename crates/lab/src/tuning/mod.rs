//! The tuner: times the strategies a device could use for each problem size and keeps the fastest in a file.
//!
//! Another strategy sums in another order, so a run says which one it took and writes it down.

mod file;

use std::time::Instant;

use orrery_device::Device;
use orrery_particles::settings::Precision;
use orrery_particles::solver::direct::device::DirectDeviceStrategy;

use crate::LabError;
use crate::stage::DeviceWorkload;
use crate::timing::affordable;

pub use file::{Entry, Ignored, Tuning};

/// Sizes that are tuned by default. A run takes the nearest within a factor of four.
pub const SIZES: [usize; 6] = [1024, 4096, 16_384, 65_536, 262_144, 1_048_576];

/// Time that one size and precision may take, about: 18 of them make a minute.
const SECONDS_A_CLASS: f64 = 3.5;
/// A size whose single evaluation would take longer than this is left out.
const ONE_SECONDS: f64 = 4.0;
/// Strategies that are timed again with more repeats, and with how many.
const FINALISTS: usize = 3;
const REPEATS: usize = 11;
/// Time that the repeats of one finalist may take.
const FINAL_SECONDS: f64 = 0.5;

/// What became of one size and precision.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The fastest of `tried`, of `all` strategies; the untuned default took `default_seconds`.
    Best {
        /// What is kept.
        entry: Entry,
        /// Strategies timed.
        tried: usize,
        /// Strategies there are.
        all: usize,
        /// Time of the strategy that is taken without tuning.
        default_seconds: f64,
    },
    /// One evaluation would take about so long.
    TooLong {
        /// Number of bodies.
        n: usize,
        /// The arithmetic.
        precision: Precision,
        /// What it would take.
        seconds: f64,
    },
}

/// Tunes each size, smallest first, in each precision. `heard` is told of each outcome as it comes.
pub fn tune(
    device: &Device,
    sizes: &[usize],
    precisions: &[Precision],
    heard: &mut dyn FnMut(&Outcome),
) -> Result<Tuning, LabError> {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    let mut tuning = Tuning::new(device);
    for &precision in precisions {
        let mut before: Option<Class> = None;
        for &n in &sizes {
            let short = before.as_ref().is_some_and(|class| class.expected(n) <= ONE_SECONDS);
            if !short && let Some(seconds) = too_long(device, n, precision)? {
                heard(&Outcome::TooLong { n, precision, seconds });
                break;
            }
            let class = Class::measure(device, n, precision, before.as_ref())?;
            heard(&class.outcome(n, precision));
            tuning.put(class.entry(n, precision));
            before = Some(class);
        }
    }
    Ok(tuning)
}

/// About how long one evaluation would take, if that is beyond what the tuner waits for.
fn too_long(device: &Device, n: usize, precision: Precision) -> Result<Option<f64>, LabError> {
    let (size, seconds) = affordable(n, ONE_SECONDS, |n| {
        let stage = DeviceWorkload::new(device, n)?;
        stage.once(&mut stage.solver(DirectDeviceStrategy::default_for(device, n, precision))?)
    })?;
    Ok((size < n).then(|| seconds * (n as f64 / size as f64).powi(2)))
}

/// The strategies of one size and precision, with their times, fastest first; and the default's time.
struct Class {
    n: usize,
    timed: Vec<(DirectDeviceStrategy, f64)>,
    all: usize,
    default_seconds: f64,
}

impl Class {
    fn measure(
        device: &Device,
        n: usize,
        precision: Precision,
        before: Option<&Self>,
    ) -> Result<Self, LabError> {
        let stage = DeviceWorkload::new(device, n)?;
        let default = DirectDeviceStrategy::default_for(device, n, precision);
        let mut candidates = DirectDeviceStrategy::candidates(device, n, precision);
        candidates.retain(|candidate| *candidate != default);
        // What was fast with fewer bodies is tried first, should the time not suffice for all.
        if let Some(before) = before {
            candidates.sort_by_key(|candidate| before.rank(candidate));
        }
        candidates.insert(0, default);
        let (all, start) = (candidates.len(), Instant::now());
        let mut timed = Vec::new();
        for strategy in candidates {
            if !timed.is_empty() && start.elapsed().as_secs_f64() > SECONDS_A_CLASS {
                break;
            }
            match stage.solver(strategy).and_then(|mut solver| stage.once(&mut solver)) {
                Ok(seconds) => timed.push((strategy, seconds)),
                // A strategy that this device cannot run is none for it; the default must run.
                Err(fault) if timed.is_empty() => return Err(fault.into()),
                Err(_) => {}
            }
        }
        // The default was timed first, so there is one.
        let mut default_seconds = timed[0].1;
        timed.sort_by(|a, b| a.1.total_cmp(&b.1));
        for (strategy, seconds) in timed.iter_mut().take(FINALISTS) {
            let repeats = (FINAL_SECONDS / *seconds).clamp(1.0, REPEATS as f64) as usize;
            let mut solver = stage.solver(*strategy)?;
            stage.once(&mut solver)?;
            *seconds = stage.times(&mut solver, repeats, *seconds)?.median();
            if *strategy == default {
                default_seconds = *seconds;
            }
        }
        let finalists = timed.len().min(FINALISTS);
        timed[..finalists].sort_by(|a, b| a.1.total_cmp(&b.1));
        Ok(Self { n, timed, all, default_seconds })
    }

    fn expected(&self, n: usize) -> f64 {
        self.timed[0].1 * (n as f64 / self.n as f64).powi(2)
    }

    /// Place of a strategy among those timed, splits aside: they go with the number of bodies.
    fn rank(&self, strategy: &DirectDeviceStrategy) -> usize {
        let alike = |other: &DirectDeviceStrategy| {
            DirectDeviceStrategy { splits: strategy.splits, ..*other } == *strategy
        };
        self.timed.iter().position(|(other, _)| alike(other)).unwrap_or(self.timed.len())
    }

    fn entry(&self, n: usize, precision: Precision) -> Entry {
        let (strategy, seconds) = self.timed[0];
        Entry { n, precision, strategy, seconds }
    }

    fn outcome(&self, n: usize, precision: Precision) -> Outcome {
        Outcome::Best {
            entry: self.entry(n, precision),
            tried: self.timed.len(),
            all: self.all,
            default_seconds: self.default_seconds,
        }
    }
}
