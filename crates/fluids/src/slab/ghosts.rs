//! Messages of ghosts: all of a ghost when lists are built, and its position in every step.

use std::ops::Range;

use orrery_cluster::{ClusterError, Tag, Transport};

/// Numbers of ghosts.
const GHOSTS: Tag = Tag::new(61);

/// Positions in messages: the upper halves of the fractions, which forces in f32 need, or all bits,
/// which energies and forces in f64 need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GhostBits {
    Upper,
    All,
}

impl GhostBits {
    /// Returns the numbers of 32 bits per ghost.
    pub(crate) fn words(self) -> usize {
        match self {
            Self::Upper => 3,
            Self::All => 6,
        }
    }
}

/// Numbers of ghosts that this rank exchanges with each rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GhostCounts {
    /// Particles here that are ghosts of each rank.
    pub sent: Vec<usize>,
    /// Ghosts here from each rank.
    pub received: Vec<usize>,
}

impl GhostCounts {
    /// Returns the counts for the numbers of particles here that are ghosts of each rank. All ranks
    /// must call it.
    pub(crate) fn of_sent(transport: &Transport, sent: Vec<usize>) -> Result<Self, ClusterError> {
        let (rank, size) = (transport.rank(), transport.size());
        let mut counts = vec![0u64; size * size];
        for (to, count) in sent.iter().enumerate() {
            counts[rank * size + to] = *count as u64;
        }
        transport.all_gather_in_place(&mut counts, &vec![size; size])?;
        let received = (0..size).map(|from| counts[from * size + rank] as usize).collect();
        Ok(Self { sent, received })
    }

    /// Returns the ranks that get `words` numbers per ghost from here, and where these are in the
    /// message with all of them.
    pub(crate) fn sent_ranges(&self, words: usize) -> Vec<(usize, Range<usize>)> {
        ranges_of(&self.sent, words)
    }

    /// Returns the ranks that send `words` numbers per ghost, and where these are in the message
    /// with all of them.
    pub(crate) fn received_ranges(&self, words: usize) -> Vec<(usize, Range<usize>)> {
        ranges_of(&self.received, words)
    }

    /// Exchanges `words` numbers per ghost between hosts. The numbers of all ranks follow one
    /// another in `outgoing` and `incoming`.
    pub(crate) fn exchange(
        &self,
        transport: &Transport,
        words: usize,
        (outgoing, incoming): (&[u32], &mut [u32]),
    ) -> Result<(), ClusterError> {
        transport.exchange(|exchange| {
            let mut rest = incoming;
            for (from, range) in self.received_ranges(words) {
                let (ghosts, later) = rest.split_at_mut(range.len());
                rest = later;
                exchange.receive(from, GHOSTS, ghosts)?;
            }
            for (to, range) in self.sent_ranges(words) {
                exchange.send(to, GHOSTS, &outgoing[range])?;
            }
            Ok(())
        })
    }
}

/// Returns the ranks with ghosts, and where their numbers are in a message in rank order.
fn ranges_of(counts: &[usize], words: usize) -> Vec<(usize, Range<usize>)> {
    let mut end = 0;
    let mut ranges = Vec::new();
    for (rank, &count) in counts.iter().enumerate() {
        let start = end;
        end += count * words;
        if count > 0 {
            ranges.push((rank, start..end));
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_without_ghosts_have_no_range() {
        let counts = GhostCounts { sent: vec![0, 2, 0, 1], received: vec![3, 0, 0, 0] };
        assert_eq!(counts.sent_ranges(3), [(1, 0..6), (3, 6..9)]);
        assert_eq!(counts.received_ranges(6), [(0, 0..18)]);
    }
}
