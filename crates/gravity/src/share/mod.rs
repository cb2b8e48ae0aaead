//! Force evaluations that the ranks of a group share.
//!
//! Every rank has all bodies and computes the forces on some of them, its part of the targets. An
//! all-gather then gives every rank the results of all parts: 24 or 32 bytes per body. The sum of a
//! target is the same computation on every rank, so the bits depend neither on the number of ranks
//! nor on the borders of the parts.
//!
//! Targets are numbered in the order of the solver: along the curve for the tree, in the user's
//! order for the direct sum. Parts are contiguous in that order.

mod balance;
mod device;
mod exchange_time;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use orrery_cluster::{ClusterError, Pod, Transport};

pub(crate) use device::{DeviceGather, PartSpan};
pub use exchange_time::{ForceExchangeTime, time_force_exchange};

use balance::Balance;

/// Kind of evaluation. Each kind has its own borders, because the work per target differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evaluation {
    /// Forces that move the bodies.
    Forces,
    /// Potentials for an energy.
    Energies,
    /// Forces and jerks.
    Jerks,
    /// Times in which pairs collide or pass.
    PairTimes,
}

impl Evaluation {
    const COUNT: usize = Self::PairTimes as usize + 1;
}

/// The ranks that share evaluations, and the division of the targets among them. The default is
/// one rank with all targets.
#[derive(Debug, Default)]
pub(crate) struct TargetShare {
    group: Group,
    /// One per kind of evaluation. Equal on all ranks.
    balances: Mutex<[Balance; Evaluation::COUNT]>,
}

#[derive(Debug, Default)]
enum Group {
    #[default]
    OneRank,
    Ranks(Transport),
    /// One of several parts, without the others.
    Part {
        rank: usize,
        size: usize,
    },
}

/// Message about a rank that failed, on the others.
const PART_FAILED: &str = "could not compute its part of the forces";

/// Seconds of a rank that failed.
const FAILED: f64 = -1.0;

impl TargetShare {
    /// Divides evaluations among the ranks of `transport`.
    pub fn new(transport: &Transport) -> Self {
        let group = if transport.size() > 1 { Group::Ranks(transport.clone()) } else { Group::OneRank };
        Self { group, balances: Mutex::default() }
    }

    /// Computes one of `size` equal parts, and exchanges nothing.
    pub fn of_part(rank: usize, size: usize) -> Self {
        Self { group: Group::Part { rank, size }, balances: Mutex::default() }
    }

    /// Returns the connection to the other ranks. `None` if there is nothing to exchange.
    fn transport(&self) -> Option<&Transport> {
        match &self.group {
            Group::Ranks(transport) => Some(transport),
            Group::OneRank | Group::Part { .. } => None,
        }
    }

    /// Returns whether there are several parts.
    pub fn is_divided(&self) -> bool {
        self.size() > 1
    }

    /// Returns the number of parts.
    pub fn size(&self) -> usize {
        match &self.group {
            Group::OneRank => 1,
            Group::Ranks(transport) => transport.size(),
            Group::Part { size, .. } => *size,
        }
    }

    /// Returns the number of the part of this rank.
    pub fn rank(&self) -> usize {
        match &self.group {
            Group::OneRank => 0,
            Group::Ranks(transport) => transport.rank(),
            Group::Part { rank, .. } => *rank,
        }
    }

    /// Returns the division of an evaluation of this kind.
    pub fn of(&self, kind: Evaluation) -> SharedEvaluation<'_> {
        SharedEvaluation { share: self, kind }
    }
}

/// One evaluation that the ranks share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedEvaluation<'a> {
    share: &'a TargetShare,
    kind: Evaluation,
}

impl SharedEvaluation<'_> {
    /// Returns whether there are several parts.
    pub fn is_divided(&self) -> bool {
        self.share.is_divided()
    }

    /// Returns the number of parts.
    pub fn size(&self) -> usize {
        self.share.size()
    }

    /// Divides `n` targets. `snap` moves a border to the next place where the solver can cut, for
    /// example to the start of a group. It does not decrease, and it keeps 0 and `n`.
    pub fn divide(&self, n: usize, snap: impl Fn(usize) -> usize) -> TargetParts {
        if !self.is_divided() {
            return TargetParts { borders: vec![0, n], rank: 0 };
        }
        self.with_balance(|balance| {
            let fractions = balance.fractions(self.size());
            let border_at = |fraction: &f64| snap((fraction * n as f64).round() as usize).min(n);
            TargetParts { borders: fractions.iter().map(border_at).collect(), rank: self.share.rank() }
        })
    }

    /// Waits until all ranks have computed their parts, and balances the next evaluation. `part` is
    /// the time in seconds that this rank needed for its part, or the reason why it failed.
    ///
    /// If a rank fails, all of them return an error. If rank 0 failed, it returns its error, the
    /// followers return [`ClusterError::Aborted`], and rank 0 may continue with another evaluation.
    /// If a follower failed, it returns its error and must end the group. The other ranks wait for
    /// that.
    pub fn agree<E: From<ClusterError>>(&self, part: Result<f64, E>) -> Result<(), E> {
        let Some(transport) = self.share.transport() else { return part.map(drop) };
        let gathered = gather_seconds(transport, part.as_ref().map_or(FAILED, |seconds| seconds.max(0.0)));
        let aborted = |rank| ClusterError::Aborted { rank, message: PART_FAILED.to_owned() };
        if transport.rank() > 0 && gathered.as_ref().is_ok_and(|seconds| seconds[0] == FAILED) {
            return Err(aborted(0).into());
        }
        part?;
        let seconds = gathered?;
        let Some(failed) = seconds.iter().position(|&seconds| seconds == FAILED) else {
            self.with_balance(|balance| balance.update(&seconds));
            return Ok(());
        };
        // The rank that failed never comes here. It ends the group, and this call with it.
        transport.barrier()?;
        Err(aborted(failed).into())
    }

    /// Reports a failure of this rank to the others, which wait in [`agree`](Self::agree). Returns
    /// the error.
    pub fn fail<E: From<ClusterError>>(&self, error: E) -> E {
        match self.agree(Err(error)) {
            Err(error) => error,
            Ok(()) => unreachable!("a failed part is an error"),
        }
    }

    /// Fills `values` with the parts of all ranks. On entry only the part of this rank is read.
    /// `values` has `values_per_target` entries per target.
    pub fn gather<T: Pod>(
        &self,
        values: &mut [T],
        parts: &TargetParts,
        values_per_target: usize,
    ) -> Result<(), ClusterError> {
        match self.share.transport() {
            None => Ok(()),
            Some(transport) => transport.all_gather_in_place(values, &parts.lengths(values_per_target)),
        }
    }

    /// Does [`agree`](Self::agree) and [`gather`](Self::gather) for one value per target.
    pub fn complete<T: Pod>(
        &self,
        seconds: f64,
        values: &mut [T],
        parts: &TargetParts,
    ) -> Result<(), ClusterError> {
        self.agree(Ok::<_, ClusterError>(seconds))?;
        self.gather(values, parts, 1)
    }

    /// Returns the smallest value of all ranks. NaN is ignored.
    pub fn min(&self, value: f64) -> Result<f64, ClusterError> {
        match self.share.transport() {
            None => Ok(value),
            Some(transport) => Ok(transport.all_reduce(&[value], f64::min)?[0]),
        }
    }

    fn with_balance<T>(&self, use_balance: impl FnOnce(&mut Balance) -> T) -> T {
        let mut balances = self.share.balances.lock().unwrap_or_else(PoisonError::into_inner);
        use_balance(&mut balances[self.kind as usize])
    }
}

/// Returns the seconds of all ranks.
fn gather_seconds(transport: &Transport, own: f64) -> Result<Vec<f64>, ClusterError> {
    let mut seconds = vec![0.0; transport.size()];
    seconds[transport.rank()] = own;
    transport.all_gather_in_place(&mut seconds, &vec![1; transport.size()])?;
    Ok(seconds)
}

/// Parts of the targets, one per rank.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TargetParts {
    /// Part r is `borders[r]..borders[r + 1]`.
    borders: Vec<usize>,
    rank: usize,
}

impl TargetParts {
    /// Returns the targets of this rank.
    pub fn own(&self) -> Range<usize> {
        self.borders[self.rank]..self.borders[self.rank + 1]
    }

    /// Returns the number of all targets.
    pub fn target_count(&self) -> usize {
        self.borders[self.borders.len() - 1]
    }

    /// Returns the range of a rank in an array with `values_per_target` values per target.
    fn values_of(&self, rank: usize, values_per_target: usize) -> Range<usize> {
        values_per_target * self.borders[rank]..values_per_target * self.borders[rank + 1]
    }

    fn lengths(&self, values_per_target: usize) -> Vec<usize> {
        self.borders.windows(2).map(|border| values_per_target * (border[1] - border[0])).collect()
    }
}

#[cfg(test)]
mod tests;
