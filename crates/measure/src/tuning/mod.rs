//! Tuner: times the strategies that a device can use for each problem, and stores the fastest in a
//! file.
//!
//! Different strategies of the direct sum add the forces in different orders, so results differ in
//! the last bits. A run therefore prints the strategy it uses and records it in the provenance of
//! its output.

mod direct;
mod entry;
mod file;
mod fluid;
mod heat;
mod primitives;
mod search;
mod tree;
mod wave;

use orrery_device::Device;

use crate::MeasureError;
use search::FoundStrategy;

pub use direct::{DEFAULT_SIZES, DirectProblem, tune_direct};
pub use entry::{TunedEntry, TunedList, TunedProblem};
pub use file::{IgnoredFile, Tuning};
pub use fluid::{FluidProblem, default_fluid_sizes, tune_fluid};
pub use heat::{HeatPlateProblem, default_sides, tune_heat};
pub use primitives::{PrimitiveProblem, tune_primitives};
pub use tree::{DEFAULT_TREE_THETA, TreeProblem, default_tree_sizes, tune_tree};
pub use wave::{WaveGridProblem, default_wave_sides, tune_wave};

/// Result of tuning one problem.
#[derive(Clone, Debug, PartialEq)]
pub enum TuneOutcome<P: TunedProblem> {
    /// The fastest strategy was found.
    Best {
        /// Entry for the tuning file.
        entry: TunedEntry<P>,
        /// Number of strategies timed before the time limit.
        tried: usize,
        /// Number of available strategies.
        available: usize,
        /// Time of the strategy that is used without tuning.
        default_seconds: f64,
    },
    /// The problem was left out, with all larger ones, because one evaluation takes too long.
    TooLong {
        /// The problem.
        problem: P,
        /// Estimated time of one evaluation.
        seconds: f64,
    },
}

/// Function that is called with each outcome.
pub type TuneReport<'a, P> = &'a mut dyn FnMut(&TuneOutcome<P>);

/// Finds the fastest strategy of each problem with `search`. Calls `report` with each outcome.
fn tune_each<P: TunedProblem>(
    device: &Device,
    problems: impl IntoIterator<Item = P>,
    report: TuneReport<P>,
    mut search: impl FnMut(&P) -> Result<FoundStrategy<P::Strategy>, MeasureError>,
) -> Result<Tuning, MeasureError> {
    let mut tuning = Tuning::new(device);
    for problem in problems {
        let found = search(&problem)?;
        insert_and_report(&mut tuning, problem, found, report);
    }
    Ok(tuning)
}

fn insert_and_report<P: TunedProblem>(
    tuning: &mut Tuning,
    problem: P,
    found: FoundStrategy<P::Strategy>,
    report: TuneReport<P>,
) {
    let FoundStrategy { strategy, seconds, tried, available, default_seconds } = found;
    let entry = TunedEntry { problem, strategy, seconds };
    report(&TuneOutcome::Best { entry: entry.clone(), tried, available, default_seconds });
    tuning.insert(entry);
}
