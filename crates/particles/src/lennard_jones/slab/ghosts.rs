//! Positions of ghosts, which their ranks send in every step.

use std::ops::Range;

use orrery_cluster::{ClusterError, Tag, Transport};

/// Positions of ghosts.
const POSITIONS: Tag = Tag::new(61);

/// Positions in messages: the upper halves of the fractions, which forces in f32 need, or all bits,
/// which energies and forces in f64 need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lennard_jones) enum GhostBits {
    Upper,
    All,
}

impl GhostBits {
    /// Returns the numbers of 32 bits per ghost.
    pub(in crate::lennard_jones) fn words(self) -> usize {
        match self {
            Self::Upper => 3,
            Self::All => 6,
        }
    }
}

/// Numbers of ghosts that this rank exchanges with each rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::lennard_jones) struct GhostCounts {
    /// Particles here that are ghosts of each rank.
    pub sent: Vec<usize>,
    /// Ghosts here from each rank.
    pub received: Vec<usize>,
}

impl GhostCounts {
    /// Returns the ranks that get positions from here, and where these are in the message with all
    /// of them.
    pub(in crate::lennard_jones) fn sent_ranges(&self, bits: GhostBits) -> Vec<(usize, Range<usize>)> {
        ranges_of(&self.sent, bits)
    }

    /// Returns the ranks that send positions, and where these are in the message with all of them.
    pub(in crate::lennard_jones) fn received_ranges(&self, bits: GhostBits) -> Vec<(usize, Range<usize>)> {
        ranges_of(&self.received, bits)
    }

    /// Exchanges positions with those ranks for which `is_included`. The numbers of all ranks
    /// follow one another in `outgoing` and `incoming`.
    pub(in crate::lennard_jones) fn exchange(
        &self,
        transport: &Transport,
        bits: GhostBits,
        (outgoing, incoming): (&[u32], &mut [u32]),
        is_included: impl Fn(usize) -> bool,
    ) -> Result<(), ClusterError> {
        transport.exchange(|exchange| {
            let mut rest = incoming;
            for (from, range) in self.received_ranges(bits) {
                let (ghosts, later) = rest.split_at_mut(range.len());
                rest = later;
                if is_included(from) {
                    exchange.receive(from, POSITIONS, ghosts)?;
                }
            }
            for (to, range) in self.sent_ranges(bits) {
                if is_included(to) {
                    exchange.send(to, POSITIONS, &outgoing[range])?;
                }
            }
            Ok(())
        })
    }
}

/// Returns the ranks with ghosts, and the numbers of their positions in a message in rank order.
fn ranges_of(counts: &[usize], bits: GhostBits) -> Vec<(usize, Range<usize>)> {
    let mut end = 0;
    let mut ranges = Vec::new();
    for (rank, &count) in counts.iter().enumerate() {
        let start = end;
        end += count * bits.words();
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
        assert_eq!(counts.sent_ranges(GhostBits::Upper), [(1, 0..6), (3, 6..9)]);
        assert_eq!(counts.received_ranges(GhostBits::All), [(0, 0..18)]);
    }
}
