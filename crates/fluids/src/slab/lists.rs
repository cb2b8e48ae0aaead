//! Lists that all ranks send to one another: particles that change their rank, and new ghosts.

use orrery_cluster::{ClusterError, Pod, Tag, Transport};

/// Lists of particles or ghosts.
const LISTS: Tag = Tag::new(60);

/// Sends `outgoing[r]` to each rank r and returns the lists that this rank gets, in rank order. All
/// ranks must call it.
pub(super) fn exchange_lists<T: Pod>(
    transport: &Transport,
    outgoing: &[Vec<T>],
) -> Result<Vec<Vec<T>>, ClusterError> {
    let (rank, size) = (transport.rank(), transport.size());
    let mut lengths = vec![0u64; size * size];
    for (to, list) in outgoing.iter().enumerate() {
        lengths[rank * size + to] = list.len() as u64;
    }
    transport.all_gather_in_place(&mut lengths, &vec![size; size])?;
    let empty_list = |from: usize| vec![T::zeroed(); lengths[from * size + rank] as usize];
    let mut incoming: Vec<Vec<T>> = (0..size).map(empty_list).collect();
    transport.exchange(|exchange| {
        for (from, list) in incoming.iter_mut().enumerate().filter(|(_, list)| !list.is_empty()) {
            exchange.receive(from, LISTS, list)?;
        }
        for (to, list) in outgoing.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
            exchange.send(to, LISTS, list)?;
        }
        Ok::<_, ClusterError>(())
    })?;
    Ok(incoming)
}

#[cfg(test)]
mod tests {
    use orrery_cluster::threads;

    use super::*;

    /// Rank r sends r + to numbers to each rank, also to itself, and none to rank 1.
    #[test]
    fn lists_of_different_lengths_arrive() {
        let list = |from: usize, to: usize| match to {
            1 => Vec::new(),
            _ => (0..from + to).map(|k| [100 * from as u64, k as u64]).collect(),
        };
        let found = threads::run(3, |transport| {
            let outgoing: Vec<Vec<[u64; 2]>> = (0..3).map(|to| list(transport.rank(), to)).collect();
            exchange_lists(transport, &outgoing)
        });
        for (to, lists) in found.unwrap().into_iter().enumerate() {
            let expected: Vec<_> = (0..3).map(|from| list(from, to)).collect();
            assert_eq!(lists, expected);
        }
    }
}
