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
use crate::bench::primitives::{Primitive, PrimitiveError, PrimitiveMeasurement, PrimitivesBench};

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
    /// Name of the strategy: one of [`Primitive::candidate_names`], or `default`.
    pub strategy: String,
    /// Time of one run.
    pub seconds: f64,
}

impl PrimitiveEntry {
    /// Returns whether both entries are for the same primitive and number of elements.
    pub(super) fn is_same_problem(&self, other: &Self) -> bool {
        (&self.primitive, self.n) == (&other.primitive, other.n)
    }

    /// Returns whether the tuner can choose this strategy.
    pub(super) fn is_available(&self) -> bool {
        let primitive = Primitive::ALL.into_iter().find(|primitive| primitive.key() == self.primitive);
        let is_known = |primitive| self.strategy == DEFAULT || self.index_in(primitive).is_some();
        self.n > 0 && self.seconds > 0.0 && self.seconds.is_finite() && primitive.is_some_and(is_known)
    }

    /// Returns the index of the strategy among the candidates of the primitive. `None` for the
    /// default.
    fn index_in(&self, primitive: Primitive) -> Option<usize> {
        primitive.candidate_names().iter().position(|name| *name == self.strategy)
    }
}

impl Tuning {
    /// Returns the index of the fastest candidate for a primitive, measured with the number of
    /// elements that is nearest to `n` by ratio, within a factor of four. `None` if the default was
    /// faster.
    pub fn tuned_candidate(&self, primitive: Primitive, n: usize) -> Option<usize> {
        self.nearest_primitive_entry(&primitive.key(), n)?.index_in(primitive)
    }
}

impl Tuning {
    /// Returns a tuning with one result: a candidate of a primitive, given by its index, for `n`
    /// elements.
    pub fn of_candidate(device: &Device, primitive: Primitive, candidate: usize, n: usize) -> Self {
        let strategy = primitive.candidate_names().swap_remove(candidate);
        let mut tuning = Self::new(device);
        tuning.insert_primitive_entry(PrimitiveEntry {
            primitive: primitive.key(),
            n,
            strategy,
            seconds: 1e-3,
        });
        tuning
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
    primitives: &[Primitive],
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
    primitive: Primitive,
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
    use super::*;

    /// Three candidates of one primitive, so that few kernels are compiled.
    #[test]
    fn the_fastest_candidate_is_found_and_used() {
        let Some(device) = crate::test_device() else { return };
        let mut outcomes = Vec::new();
        let primitive = Primitive::HistogramRandom;
        let tuning =
            tune_primitives(&device, &[primitive], &[5000], &mut |outcome| outcomes.push(outcome.clone()))
                .unwrap();
        let [PrimitiveOutcome { entry, tried, available, default_seconds }] = &outcomes[..] else {
            panic!("{outcomes:?}");
        };
        assert_eq!((*tried, *available, entry.n), (3, 3, 5000));
        assert!(*default_seconds > 0.0 && entry.is_available(), "{entry:?}");
        // The default is the first candidate, so either of them may be the fastest.
        let expected = (entry.strategy != DEFAULT).then(|| entry.strategy.clone());
        assert!(*default_seconds >= entry.seconds);
        let index = tuning.tuned_candidate(primitive, 4000);
        assert_eq!(index.map(|index| primitive.candidate_names()[index].clone()), expected);
        assert_eq!(tuning.tuned_candidate(primitive, 100), None);
        assert_eq!(tuning.tuned_candidate(Primitive::HistogramEqual, 5000), None);
        let bench = PrimitivesBench::new(Some(&device), Some(1)).unwrap().with_tuning(Some(&tuning));
        let strategy = |primitive| bench.measure_primitive(primitive, 5000).unwrap().strategy;
        assert_eq!(strategy(primitive), expected);
        assert_eq!(strategy(Primitive::HistogramEqual), None);
    }

    #[test]
    fn entries_of_unknown_primitives_and_strategies_are_refused() {
        let entry = PrimitiveEntry {
            primitive: "histogram random".to_owned(),
            n: 1,
            strategy: "16 tables".to_owned(),
            seconds: 1e-3,
        };
        assert!(entry.is_available());
        assert!(PrimitiveEntry { strategy: DEFAULT.to_owned(), ..entry.clone() }.is_available());
        for wrong in [
            PrimitiveEntry { primitive: "histogram".to_owned(), ..entry.clone() },
            PrimitiveEntry { strategy: "17 tables".to_owned(), ..entry.clone() },
            PrimitiveEntry { n: 0, ..entry.clone() },
            PrimitiveEntry { seconds: f64::NAN, ..entry.clone() },
        ] {
            assert!(!wrong.is_available(), "{wrong:?}");
        }
    }

    #[test]
    fn names_of_primitives_and_of_their_candidates_differ() {
        let keys: std::collections::HashSet<String> = Primitive::ALL.map(Primitive::key).into();
        assert_eq!(keys.len(), Primitive::ALL.len());
        for primitive in Primitive::ALL {
            let names = primitive.candidate_names();
            let distinct: std::collections::HashSet<&String> = names.iter().collect();
            assert!(distinct.len() == names.len() && names.len() > 1, "{names:?}");
        }
    }
}
