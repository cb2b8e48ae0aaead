//! Columns of a state and sums between the leader and its followers.

use orrery_cluster::{ClusterError, Pod, Tag, Team};
use serde::Serialize;

/// Parts of columns to and from the leader.
const PART: Tag = Tag::new(103);
/// Sums that each rank passes to the next one.
const SUM: Tag = Tag::new(104);

/// Returns the parts of all ranks one after the other on the leader, and nothing on the others.
/// `lengths` has the length of each part.
pub(crate) fn gather_parts<T: Pod>(
    team: &Team,
    part: Vec<T>,
    lengths: &[usize],
) -> Result<Vec<T>, ClusterError> {
    let transport = team.transport();
    assert_eq!(part.len(), lengths[transport.rank()], "the part of this rank");
    if team.size() == 1 {
        return Ok(part);
    }
    if !team.is_leader() {
        transport.exchange(|exchange| exchange.send(0, PART, &part))?;
        return Ok(Vec::new());
    }
    let mut values = part;
    values.resize(lengths.iter().sum(), T::zeroed());
    let mut rest = &mut values[lengths[0]..];
    transport.exchange(|exchange| {
        for (rank, &length) in lengths.iter().enumerate().skip(1) {
            let (target, later) = std::mem::take(&mut rest).split_at_mut(length);
            exchange.receive(rank, PART, target)?;
            rest = later;
        }
        Ok::<_, ClusterError>(())
    })?;
    Ok(values)
}

/// Returns this rank's part of the leader's values. Those of followers are ignored. `lengths` has
/// the length of each part.
pub(crate) fn scatter_parts<T: Pod>(
    team: &Team,
    mut values: Vec<T>,
    lengths: &[usize],
) -> Result<Vec<T>, ClusterError> {
    let transport = team.transport();
    if !team.is_leader() {
        values.resize(lengths[transport.rank()], T::zeroed());
        transport.exchange(|exchange| exchange.receive(0, PART, &mut values))?;
        return Ok(values);
    }
    assert_eq!(values.len(), lengths.iter().sum::<usize>(), "the parts of all ranks");
    if team.size() > 1 {
        let mut rest = &values[lengths[0]..];
        transport.exchange(|exchange| {
            for (rank, &length) in lengths.iter().enumerate().skip(1) {
                let (part, later) = rest.split_at(length);
                exchange.send(rank, PART, part)?;
                rest = later;
            }
            Ok::<_, ClusterError>(())
        })?;
        values.truncate(lengths[0]);
        values.shrink_to_fit();
    }
    Ok(values)
}

/// Passes numbers from rank to rank, in their order. `start` are those before the first rank. Each
/// rank replaces them by the result of `add`. Returns those of the last rank on the leader, and
/// nothing on the others.
///
/// This is the sum of one rank, whose terms are added from the first slice to the last one, so it
/// has the same bits. A tree of partial sums would have others.
pub(crate) fn pass_along<const N: usize>(
    team: &Team,
    start: [f64; N],
    add: impl FnOnce([f64; N]) -> [f64; N],
) -> Result<Option<[f64; N]>, ClusterError> {
    let transport = team.transport();
    let (rank, last) = (transport.rank(), transport.size() - 1);
    let mut numbers = start;
    if rank > 0 {
        transport.exchange(|exchange| exchange.receive(rank - 1, SUM, &mut numbers))?;
    }
    let mut numbers = add(numbers);
    if last == 0 {
        return Ok(Some(numbers));
    }
    let next = if rank < last { rank + 1 } else { 0 };
    transport.exchange(|exchange| exchange.send(next, SUM, &numbers))?;
    if rank > 0 {
        return Ok(None);
    }
    transport.exchange(|exchange| exchange.receive(last, SUM, &mut numbers))?;
    Ok(Some(numbers))
}

/// Sends the last command of a leader when it is dropped.
#[derive(Debug)]
pub(crate) struct LastCommand<C: Serialize> {
    team: Team,
    command: C,
}

impl<C: Serialize> LastCommand<C> {
    pub(crate) fn new(team: &Team, command: C) -> Self {
        Self { team: team.clone(), command }
    }
}

impl<C: Serialize> Drop for LastCommand<C> {
    fn drop(&mut self) {
        // A group that has failed needs no command.
        let _ = self.team.lead(&self.command);
    }
}
