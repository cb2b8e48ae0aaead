//! Tuning of the primitives: times the strategies that were considered for each of them, and checks
//! their results.
//!
//! All strategies give the same bits, except for sums and scans of floats, whose order of additions
//! differs. Benchmarks and ladders use the results. Solvers use the defaults, so that their results
//! do not depend on the tuner.

use orrery_device::Device;
use serde::{Deserialize, Serialize};

use super::Tuning;
use crate::MeasureError;
use crate::bench::primitives::{PrimitiveCase, PrimitiveError, PrimitiveMeasurement, PrimitivesBench};

/// Name of the strategy in an entry if no candidate was faster than the default.
const DEFAULT: &str = "default";

/// Fastest strategy of a primitive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrimitiveEntry {
    /// Name and input of the primitive, for example `sort u64 + u32`.
    pub primitive: String,
    /// Number of elements of the measurement.
    pub n: usize,
    /// Name of the strategy: one of [`PrimitiveCase::candidate_names`], or `default`.
    pub strategy: String,
    /// Time of one run.
    pub seconds: f64,
}

impl PrimitiveEntry {
    /// Returns whether both entries are for the same primitive and number of elements.
    pub(super) fn is_same_problem(&self, other: &Self) -> bool {
        (&self.primitive, self.n) == (&other.primitive, other.n)
    }

    /// Returns whether the tuner can choose this strategy. An entry for a primitive that is not
    /// among `cases` is kept but not used: a program that was built with other primitives uses the
    /// same file.
    pub(super) fn is_available(&self, cases: &[&dyn PrimitiveCase]) -> bool {
        let primitive = cases.iter().find(|primitive| primitive.key() == self.primitive);
        let is_known =
            |primitive: &&dyn PrimitiveCase| self.strategy == DEFAULT || self.index_in(*primitive).is_some();
        self.n > 0 && self.seconds > 0.0 && self.seconds.is_finite() && primitive.is_none_or(is_known)
    }

    /// Returns the index of the strategy among the candidates of the primitive. `None` for the
    /// default.
    fn index_in(&self, primitive: &dyn PrimitiveCase) -> Option<usize> {
        primitive.candidate_names().iter().position(|name| *name == self.strategy)
    }
}

impl Tuning {
    /// Returns the index of the fastest candidate for a primitive, measured with the number of
    /// elements that is nearest to `n` by ratio, within a factor of four. `None` if the default was
    /// faster.
    pub fn tuned_candidate(&self, primitive: &dyn PrimitiveCase, n: usize) -> Option<usize> {
        self.nearest_primitive_entry(&primitive.key(), n)?.index_in(primitive)
    }
}

/// Result of tuning one primitive for one number of elements.
#[derive(Clone, Debug, PartialEq)]
pub struct PrimitiveOutcome {
    /// Entry for the tuning file.
    pub entry: PrimitiveEntry,
    /// Number of strategies that the device can run.
    pub tried: usize,
    /// Number of strategies that were considered.
    pub available: usize,
    /// Time of the strategy that is used without tuning.
    pub default_seconds: f64,
}

/// Tunes `primitives` for each number of elements, or for their default ones if there are none.
/// Calls `report` with each outcome.
pub fn tune_primitives(
    device: &Device,
    primitives: &[&'static dyn PrimitiveCase],
    sizes: &[usize],
    report: &mut dyn FnMut(&PrimitiveOutcome),
) -> Result<Tuning, MeasureError> {
    let bench = PrimitivesBench::new(Some(device), None)?;
    let mut tuning = Tuning::new(device);
    for &primitive in primitives {
        let sizes = if sizes.is_empty() { primitive.default_sizes(Some(device)) } else { sizes.to_vec() };
        for n in sizes {
            let outcome = tune_primitive(&bench, primitive, n)?;
            report(&outcome);
            tuning.insert_primitive_entry(outcome.entry);
        }
    }
    Ok(tuning)
}

/// Measures all candidates, and the default for comparison. Leaves out candidates that the device
/// cannot run, for example because of too little shared memory.
fn tune_primitive(
    bench: &PrimitivesBench,
    primitive: &'static dyn PrimitiveCase,
    n: usize,
) -> Result<PrimitiveOutcome, MeasureError> {
    let default_seconds = bench.measure_strategy(primitive, n, None).map_err(to_lab_error)?.times.median();
    let available = primitive.candidate_names().len();
    let (mut measured, mut last_error) = (Vec::new(), None);
    for candidate in 0..available {
        match bench.measure_strategy(primitive, n, Some(candidate)) {
            Ok(measurement) => measured.push(measurement),
            Err(PrimitiveError::Device(error)) => last_error = Some(error),
            Err(error) => return Err(to_lab_error(error)),
        }
    }
    let median = |measurement: &PrimitiveMeasurement| measurement.times.median();
    let Some(fastest) = measured.iter().min_by(|a, b| median(a).total_cmp(&median(b))) else {
        return Err(last_error.expect("every primitive has candidates").into());
    };
    let (strategy, seconds) = match &fastest.strategy {
        Some(name) if median(fastest) < default_seconds => (name.clone(), median(fastest)),
        _ => (DEFAULT.to_owned(), default_seconds),
    };
    let entry = PrimitiveEntry { primitive: primitive.key(), n: fastest.n, strategy, seconds };
    Ok(PrimitiveOutcome { entry, tried: measured.len(), available, default_seconds })
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

    /// Primitive whose default and candidates take given times. `None`: the device cannot run it.
    #[derive(Debug)]
    struct GivenTimes {
        name: &'static str,
        default: f64,
        candidates: [Option<f64>; 3],
    }

    impl PrimitiveCase for GivenTimes {
        fn name_and_input(&self) -> (&'static str, &'static str) {
            (self.name, "given")
        }

        fn work(&self) -> PrimitiveWork {
            PrimitiveWork::BytesPerElement(1.0)
        }

        fn candidate_names(&self) -> Vec<String> {
            ["first", "second", "third"].map(str::to_owned).to_vec()
        }

        fn measure(
            &self,
            _: &PrimitivesBench,
            _: usize,
            candidate: Option<usize>,
        ) -> Result<CheckedTimes, DeviceError> {
            let seconds = candidate.map_or(Some(self.default), |candidate| self.candidates[candidate]);
            let seconds = seconds.ok_or_else(|| DeviceError::BadChoice("x".to_owned()))?;
            Ok(CheckedTimes { times: Times::from_seconds(vec![seconds]), difference: None })
        }
    }

    static IMPROVED: &dyn PrimitiveCase =
        &GivenTimes { name: "improved", default: 4.0, candidates: [Some(4.0), Some(2.0), None] };
    static BEST_BY_DEFAULT: &dyn PrimitiveCase =
        &GivenTimes { name: "best", default: 3.0, candidates: [Some(3.0), Some(5.0), Some(4.0)] };

    #[test]
    fn the_fastest_candidate_is_found_and_used() {
        let Some(device) = crate::test_device() else { return };
        let mut outcomes = Vec::new();
        let mut report = |outcome: &PrimitiveOutcome| outcomes.push(outcome.clone());
        let cases = [IMPROVED, BEST_BY_DEFAULT];
        let tuning = tune_primitives(&device, &cases, &[5000], &mut report).unwrap();
        let outcome = |primitive: &str, strategy: &str, seconds, tried, default_seconds| PrimitiveOutcome {
            entry: PrimitiveEntry {
                primitive: primitive.to_owned(),
                n: 5000,
                strategy: strategy.to_owned(),
                seconds,
            },
            tried,
            available: 3,
            default_seconds,
        };
        assert_eq!(
            outcomes,
            [outcome("improved given", "second", 2.0, 2, 4.0), outcome("best given", DEFAULT, 3.0, 3, 3.0)]
        );
        assert!(outcomes.iter().all(|outcome| outcome.entry.is_available(&cases)));
        assert_eq!(tuning.tuned_candidate(IMPROVED, 4000), Some(1));
        assert_eq!(tuning.tuned_candidate(IMPROVED, 100), None);
        assert_eq!(tuning.tuned_candidate(BEST_BY_DEFAULT, 5000), None);
        let bench = PrimitivesBench::new(Some(&device), Some(1)).unwrap().with_tuning(Some(&tuning));
        let strategy = |primitive| bench.measure_primitive(primitive, 5000).unwrap().strategy;
        assert_eq!(strategy(IMPROVED).as_deref(), Some("second"));
        assert_eq!(strategy(BEST_BY_DEFAULT), None);
    }

    #[test]
    fn entries_of_unknown_strategies_are_refused() {
        let entry = PrimitiveEntry {
            primitive: SCAN_F32.key(),
            n: 1,
            strategy: "256 x 8, shared".to_owned(),
            seconds: 1e-3,
        };
        let is_available = |entry: &PrimitiveEntry| entry.is_available(&PRODUCTION_CASES);
        assert!(is_available(&entry));
        assert!(is_available(&PrimitiveEntry { strategy: DEFAULT.to_owned(), ..entry.clone() }));
        for wrong in [
            PrimitiveEntry { strategy: "256 x 7, shared".to_owned(), ..entry.clone() },
            PrimitiveEntry { n: 0, ..entry.clone() },
            PrimitiveEntry { seconds: f64::NAN, ..entry.clone() },
        ] {
            assert!(!is_available(&wrong), "{wrong:?}");
        }
    }

    /// A program that knows more primitives may have written the entry.
    #[test]
    fn entries_of_unknown_primitives_are_accepted() {
        let entry =
            PrimitiveEntry { primitive: IMPROVED.key(), n: 1, strategy: "fourth".to_owned(), seconds: 1e-3 };
        assert!(entry.is_available(&PRODUCTION_CASES));
        assert!(!entry.is_available(&[IMPROVED]));
        assert!(!PrimitiveEntry { n: 0, ..entry }.is_available(&PRODUCTION_CASES));
    }
}
