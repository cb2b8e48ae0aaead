//! Tuning of the primitives: times the strategies that were considered for each of them, and checks
//! their results.
//!
//! All strategies give the same bits, except for sums and scans of floats, whose order of additions
//! differs. Benchmarks and ladders use the results. Solvers use the defaults, so that their results
//! do not depend on the tuner.

use orrery_device::Device;
use serde::{Deserialize, Serialize};

use super::entry::{TunedList, TunedProblem};
use super::search::FoundStrategy;
use super::{TuneReport, Tuning, tune_each};
use crate::MeasureError;
use crate::bench::BenchPlace;
use crate::bench::primitives::{PrimitiveCase, PrimitiveError};

/// Name of the strategy in an entry if no candidate was faster than the default.
const DEFAULT: &str = "default";

/// A primitive. Its strategy is the name of one of [`PrimitiveCase::candidate_names`], or
/// `default`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrimitiveProblem {
    /// Name and input of the primitive, for example `sort u64 + u32`.
    pub primitive: String,
    /// Number of elements.
    pub n: usize,
}

impl TunedProblem for PrimitiveProblem {
    type Strategy = String;
    type Kind = String;

    fn key(&self) -> (Self::Kind, usize) {
        (self.primitive.clone(), self.n)
    }

    /// Entries for a primitive that is not among `cases` are kept but not used: a program that was
    /// built with other primitives uses the same file.
    fn has_strategy(&self, strategy: &Self::Strategy, _: &Device, cases: &[&PrimitiveCase]) -> bool {
        let primitive = cases.iter().find(|primitive| primitive.key() == self.primitive);
        primitive
            .is_none_or(|primitive| strategy == DEFAULT || candidate_index(primitive, strategy).is_some())
    }

    fn description(&self) -> String {
        format!("{}, {} elements,", self.primitive, self.n)
    }

    fn cells(&self) -> Vec<String> {
        vec![self.primitive.clone(), self.n.to_string()]
    }

    fn describe(strategy: &Self::Strategy) -> String {
        strategy.clone()
    }

    fn list_mut(tuning: &mut Tuning) -> &mut TunedList<Self> {
        &mut tuning.primitives
    }
}

/// Returns the index of a strategy among the candidates of the primitive. `None` for the default.
fn candidate_index(primitive: &PrimitiveCase, strategy: &str) -> Option<usize> {
    primitive.candidate_names().iter().position(|name| name == strategy)
}

impl Tuning {
    /// Returns the index of the fastest candidate for a primitive, measured with the number of
    /// elements that is nearest to `n` by ratio, within a factor of four. `None` if the default was
    /// faster.
    pub fn tuned_candidate(&self, primitive: &PrimitiveCase, n: usize) -> Option<usize> {
        candidate_index(primitive, &self.primitives.nearest(&primitive.key(), n)?.strategy)
    }
}

/// Tunes `primitives` for each number of elements, or for their default ones if there are none.
/// Calls `report` with each outcome.
pub fn tune_primitives(
    device: &Device,
    primitives: &[&'static PrimitiveCase],
    sizes: &[usize],
    report: TuneReport<PrimitiveProblem>,
) -> Result<Tuning, MeasureError> {
    let bench = BenchPlace::new(Some(device), None)?;
    let problems = primitives.iter().flat_map(|primitive| {
        let sizes = if sizes.is_empty() { primitive.default_sizes(Some(device)) } else { sizes };
        let problem = |n| PrimitiveProblem { primitive: primitive.key(), n: primitive.measured_size(n) };
        sizes.iter().map(move |&n| problem(n)).collect::<Vec<_>>()
    });
    tune_each(device, problems, report, |problem| {
        let primitive = primitives.iter().find(|primitive| primitive.key() == problem.primitive);
        find_fastest_candidate(&bench, primitive.expect("one of the primitives"), problem.n)
    })
}

/// Measures all candidates, and the default for comparison. Leaves out candidates that the device
/// cannot run, for example because of too little shared memory.
fn find_fastest_candidate(
    bench: &BenchPlace,
    primitive: &'static PrimitiveCase,
    n: usize,
) -> Result<FoundStrategy<String>, MeasureError> {
    let default_seconds = bench.measure_strategy(primitive, n, None).map_err(to_lab_error)?.times.median();
    let names = primitive.candidate_names();
    let (mut timed, mut last_error) = (Vec::new(), None);
    for (candidate, name) in names.iter().enumerate() {
        match bench.measure_strategy(primitive, n, Some(candidate)) {
            Ok(measurement) => timed.push((name, measurement.times.median())),
            Err(PrimitiveError::Device(error)) => last_error = Some(error),
            Err(error) => return Err(to_lab_error(error)),
        }
    }
    let Some((name, seconds)) = timed.iter().min_by(|a, b| a.1.total_cmp(&b.1)) else {
        return Err(last_error.expect("every primitive has candidates").into());
    };
    let (strategy, seconds) = match *seconds < default_seconds {
        true => ((*name).clone(), *seconds),
        false => (DEFAULT.to_owned(), default_seconds),
    };
    Ok(FoundStrategy { strategy, seconds, tried: timed.len(), available: names.len(), default_seconds })
}

fn to_lab_error(error: PrimitiveError) -> MeasureError {
    match error {
        PrimitiveError::Device(error) => error.into(),
        PrimitiveError::WrongResult { name, ref input, .. } => {
            MeasureError::WrongResult { rung: format!("{name} {input}"), message: error.to_string() }
        }
    }
}

#[cfg(test)]
mod tests {
    use orrery_device::DeviceError;

    use super::*;
    use crate::bench::primitives::{CheckedTimes, PRODUCTION_CASES, PrimitiveWork, SCAN_F32};
    use crate::timing::Times;
    use crate::tuning::{TuneOutcome, TunedEntry};

    /// Returns the time of the default or of a candidate. `None`: the device cannot run it.
    fn given_time(
        default: f64,
        candidates: [Option<f64>; 3],
        candidate: Option<usize>,
    ) -> Result<CheckedTimes, DeviceError> {
        let seconds = candidate.map_or(Some(default), |candidate| candidates[candidate]);
        let seconds = seconds.ok_or_else(|| DeviceError::BadChoice("x".to_owned()))?;
        Ok(CheckedTimes { times: Times::from_seconds(vec![seconds]), difference: None })
    }

    fn given_names() -> Vec<String> {
        ["first", "second", "third"].map(str::to_owned).to_vec()
    }

    const WORK: PrimitiveWork = PrimitiveWork::BytesPerElement(1.0);
    static IMPROVED: &PrimitiveCase =
        &PrimitiveCase::new("improved", "given", WORK, given_names, |_, _, candidate| {
            given_time(4.0, [Some(4.0), Some(2.0), None], candidate)
        });
    static BEST_BY_DEFAULT: &PrimitiveCase =
        &PrimitiveCase::new("best", "given", WORK, given_names, |_, _, candidate| {
            given_time(3.0, [Some(3.0), Some(5.0), Some(4.0)], candidate)
        });

    fn entry(primitive: &str, n: usize, strategy: &str, seconds: f64) -> TunedEntry<PrimitiveProblem> {
        let problem = PrimitiveProblem { primitive: primitive.to_owned(), n };
        TunedEntry { problem, strategy: strategy.to_owned(), seconds }
    }

    #[test]
    fn the_fastest_candidate_is_found_and_used() {
        let Some(device) = crate::test_device() else { return };
        let mut outcomes = Vec::new();
        let mut report = |outcome: &TuneOutcome<PrimitiveProblem>| outcomes.push(outcome.clone());
        let cases = [IMPROVED, BEST_BY_DEFAULT];
        let tuning = tune_primitives(&device, &cases, &[5000], &mut report).unwrap();
        let outcome = |primitive: &str, strategy: &str, seconds, tried, default_seconds| TuneOutcome::Best {
            entry: entry(primitive, 5000, strategy, seconds),
            tried,
            available: 3,
            default_seconds,
        };
        assert_eq!(
            outcomes,
            [outcome("improved given", "second", 2.0, 2, 4.0), outcome("best given", DEFAULT, 3.0, 3, 3.0)]
        );
        let entries = tuning.primitives.entries();
        assert!(entries.len() == 2 && entries.iter().all(|entry| entry.is_available(&device, &cases)));
        assert_eq!(tuning.tuned_candidate(IMPROVED, 4000), Some(1));
        assert_eq!(tuning.tuned_candidate(IMPROVED, 100), None);
        assert_eq!(tuning.tuned_candidate(BEST_BY_DEFAULT, 5000), None);
        let bench = BenchPlace::new(Some(&device), Some(1)).unwrap().with_tuning(Some(tuning.clone()));
        let strategy = |primitive| bench.measure_primitive(primitive, 5000).unwrap().strategy;
        assert_eq!(strategy(IMPROVED).as_deref(), Some("second"));
        assert_eq!(strategy(BEST_BY_DEFAULT), None);
    }

    #[test]
    fn entries_of_unknown_strategies_are_refused() {
        let Some(device) = crate::test_device() else { return };
        let is_available = |n, strategy: &str, seconds| {
            entry(&SCAN_F32.key(), n, strategy, seconds).is_available(&device, &PRODUCTION_CASES)
        };
        assert!(is_available(1, "256 x 8, shared", 1e-3) && is_available(1, DEFAULT, 1e-3));
        assert!(!is_available(1, "256 x 7, shared", 1e-3));
        assert!(!is_available(0, "256 x 8, shared", 1e-3));
        assert!(!is_available(1, "256 x 8, shared", f64::NAN));
    }

    /// A program that knows more primitives may have written the entry.
    #[test]
    fn entries_of_unknown_primitives_are_accepted() {
        let Some(device) = crate::test_device() else { return };
        let unknown = |n| entry(&IMPROVED.key(), n, "fourth", 1e-3);
        assert!(unknown(1).is_available(&device, &PRODUCTION_CASES));
        assert!(!unknown(1).is_available(&device, &[IMPROVED]));
        assert!(!unknown(0).is_available(&device, &PRODUCTION_CASES));
    }
}
