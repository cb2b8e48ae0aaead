//! Entries of the tuning file.

use std::fmt::Debug;

use orrery_device::Device;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Tuning;
use crate::bench::primitives::PrimitiveCase;

/// Largest ratio between the size of a run and of the entry it uses.
const MAX_SIZE_RATIO: f64 = 4.0;

/// Problem for which the tuner finds the fastest strategy, for example a tree of 65,536 bodies in
/// single precision. Its fields are fields of the entry in the tuning file.
pub trait TunedProblem: Clone + Debug + PartialEq + Serialize + DeserializeOwned {
    /// Strategy of the solver.
    type Strategy: Clone + Debug + PartialEq + Serialize + DeserializeOwned;
    /// Properties that a run must share with the problem of the measurement, for example the
    /// precision. Entries are sorted by them.
    type Kind: Ord;

    /// Returns these properties, and the number of bodies, particles or elements, or of nodes along
    /// a side.
    fn key(&self) -> (Self::Kind, usize);
    /// Returns the size by which problems are compared, for example the number of nodes.
    fn size(&self) -> f64 {
        self.key().1 as f64
    }
    /// Returns whether the problem exists, and the tuner can choose this strategy for it.
    fn has_strategy(&self, strategy: &Self::Strategy, device: &Device, cases: &[&PrimitiveCase]) -> bool;
    /// Describes the problem, for example as `the tree of 4096 bodies`.
    fn description(&self) -> String;
    /// Returns the cells that describe the problem in a table.
    fn cells(&self) -> Vec<String>;
    /// Describes a strategy.
    fn describe(strategy: &Self::Strategy) -> String;
    /// Returns the entries for this type of problem.
    fn list_mut(tuning: &mut Tuning) -> &mut TunedList<Self>;
}

/// Fastest strategy for a problem.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "", deny_unknown_fields)]
pub struct TunedEntry<P: TunedProblem> {
    /// The problem of the measurement.
    #[serde(flatten)]
    pub problem: P,
    /// The strategy.
    pub strategy: P::Strategy,
    /// Time of one force evaluation, time step or run.
    pub seconds: f64,
}

impl<P: TunedProblem> TunedEntry<P> {
    /// Returns whether the tuner could have written this entry.
    pub(super) fn is_available(&self, device: &Device, cases: &[&PrimitiveCase]) -> bool {
        self.problem.key().1 > 0
            && self.seconds > 0.0
            && self.seconds.is_finite()
            && self.problem.has_strategy(&self.strategy, device, cases)
    }
}

/// Entries for one kind of problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "", transparent)]
pub struct TunedList<P: TunedProblem>(Vec<TunedEntry<P>>);

impl<P: TunedProblem> Default for TunedList<P> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<P: TunedProblem> TunedList<P> {
    /// Returns all entries.
    pub fn entries(&self) -> &[TunedEntry<P>] {
        &self.0
    }

    /// Adds an entry. It replaces an entry of the same kind and extent.
    pub(super) fn insert(&mut self, entry: TunedEntry<P>) {
        let key = entry.problem.key();
        self.0.retain(|other| other.problem.key() != key);
        self.0.push(entry);
    }

    /// Adds the entries of `newer` and sorts all.
    pub(super) fn merge(&mut self, newer: &Self) {
        newer.0.iter().for_each(|entry| self.insert(entry.clone()));
        self.0.sort_by_cached_key(|entry| entry.problem.key());
    }

    /// Returns the entry of this kind whose size is nearest to `size` by ratio, within a factor of
    /// four. For example, a run of 4,000 bodies uses an entry for 1,024 bodies if there is no
    /// nearer one.
    pub(super) fn nearest(&self, kind: &P::Kind, size: usize) -> Option<&TunedEntry<P>> {
        let log_ratio = |entry: &TunedEntry<P>| (size.max(1) as f64 / entry.problem.size()).ln().abs();
        let matching = self.0.iter().filter(|entry| entry.problem.key().0 == *kind);
        let nearest = matching.min_by(|a, b| log_ratio(a).total_cmp(&log_ratio(b)))?;
        // The margin covers the rounding error of ln.
        (log_ratio(nearest) <= MAX_SIZE_RATIO.ln() + 1e-9).then_some(nearest)
    }

    /// Checks that the tuner can choose the strategy of every entry.
    pub(super) fn check(&self, device: &Device, cases: &[&PrimitiveCase]) -> Result<(), String> {
        match self.0.iter().find(|entry| !entry.is_available(device, cases)) {
            Some(entry) => {
                Err(format!("stale (its strategy for {} is not available)", entry.problem.description()))
            }
            None => Ok(()),
        }
    }
}
