//! Division of slices among ranks.

use std::ops::Range;

/// Slices at one end of the grid.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct EndSlices {
    /// Cost of the slab at this end beyond that of its slices, for example that of an absorbing
    /// layer. The cost of a slice is 1.
    pub(crate) extra_cost: usize,
    /// Fewest slices of the slab at this end. The slices with extra cost are among them.
    pub(crate) min_slices: usize,
}

impl EndSlices {
    /// Returns the number of slices that have about this cost.
    fn slices_of_cost(&self, cost: usize) -> usize {
        cost.saturating_sub(self.extra_cost).max(self.min_slices)
    }
}

/// Divides `slices` slices into one slab per rank of almost equal cost, with at least `min_slices`
/// each. Returns the number of slices that so many ranks need, if there are fewer.
pub(crate) fn divided_slices(
    slices: usize,
    ranks: usize,
    min_slices: usize,
    ends: [EndSlices; 2],
) -> Result<Vec<Range<usize>>, usize> {
    if ranks == 1 {
        return Ok(std::iter::once(0..slices).collect());
    }
    let ends = ends.map(|end| EndSlices { min_slices: end.min_slices.max(min_slices), ..end });
    let between = (ranks - 2) * min_slices;
    let needed = ends[0].min_slices + ends[1].min_slices + between;
    if slices < needed {
        return Err(needed);
    }
    let cost = slices + ends[0].extra_cost + ends[1].extra_cost;
    // If the slab at one end has more than its share, the others share the rest.
    let shares = [0, 1].map(|end: usize| {
        let other = ends[1 - end];
        let cost_of_other = other.slices_of_cost(cost / ranks) + other.extra_cost;
        if cost_of_other > cost / ranks + 1 { (cost - cost_of_other) / (ranks - 1) } else { cost / ranks }
    });
    let first = ends[0].slices_of_cost(shares[0]).min(slices - ends[1].min_slices - between);
    let last = ends[1].slices_of_cost(shares[1]).min(slices - first - between);
    let (first_end, last_start) = match ranks {
        2 => (first, first),
        _ => (first, slices - last),
    };
    let middle = |rank: usize| first_end + rank * (last_start - first_end) / (ranks - 2).max(1);
    let slabs = (0..ranks - 2).map(|rank| middle(rank)..middle(rank + 1));
    Ok(std::iter::once(0..first_end).chain(slabs).chain(std::iter::once(last_start..slices)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_ENDS: [EndSlices; 2] = [EndSlices { extra_cost: 0, min_slices: 0 }; 2];

    fn lengths(slices: usize, ranks: usize, min_slices: usize, ends: [EndSlices; 2]) -> Vec<usize> {
        let slabs = divided_slices(slices, ranks, min_slices, ends).unwrap();
        assert_eq!((slabs.len(), slabs[0].start, slabs[ranks - 1].end), (ranks, 0, slices));
        assert!(slabs.windows(2).all(|pair| pair[0].end == pair[1].start));
        slabs.iter().map(|slab| slab.len()).collect()
    }

    #[test]
    fn slabs_have_almost_equal_cost() {
        assert_eq!(lengths(1024, 4, 9, NO_ENDS), [256; 4]);
        assert_eq!(lengths(50, 1, 9, NO_ENDS), [50]);
        let uneven = lengths(100, 7, 9, NO_ENDS);
        assert!(uneven.iter().all(|&length| length == 14 || length == 15), "{uneven:?}");
        // 20 layers with three times the cost at each end: 160 + 2 x 40 in shares of 60.
        let ends = [EndSlices { extra_cost: 40, min_slices: 14 }; 2];
        assert_eq!(lengths(160, 4, 9, ends), [20, 60, 60, 20]);
        assert_eq!(lengths(161, 2, 9, [ends[0], EndSlices::default()]), [60, 101]);
    }

    #[test]
    fn slabs_have_the_fewest_slices_at_least() {
        let low = [EndSlices { extra_cost: 0, min_slices: 38 }, EndSlices::default()];
        let high = [low[1], low[0]];
        assert_eq!(lengths(60, 3, 9, low), [38, 11, 11]);
        assert_eq!(lengths(60, 3, 9, high), [11, 11, 38]);
        assert_eq!(lengths(56, 3, 9, low), [38, 9, 9]);
        assert_eq!(lengths(50, 2, 9, high), [12, 38]);
        assert_eq!(divided_slices(55, 3, 9, low), Err(56));
        assert_eq!(lengths(6, 6, 1, NO_ENDS), [1; 6]);
        assert_eq!(divided_slices(5, 6, 1, NO_ENDS), Err(6));
    }

    #[test]
    fn every_division_is_complete() {
        for slices in 9..90 {
            for ranks in 1..8 {
                for (extra_cost, fewest) in [(0, 0), (10, 5), (30, 18)] {
                    let end = EndSlices { extra_cost, min_slices: fewest };
                    for ends in [[end, end], [end, EndSlices::default()], [EndSlices::default(), end]] {
                        match divided_slices(slices, ranks, 4, ends) {
                            Ok(_) => {
                                let lengths = lengths(slices, ranks, 4, ends);
                                assert!(ranks == 1 || lengths.iter().all(|&length| length >= 4));
                                assert!(ranks == 1 || lengths[0] >= ends[0].min_slices);
                                assert!(ranks == 1 || lengths[ranks - 1] >= ends[1].min_slices);
                            }
                            Err(needed) => assert!(slices < needed),
                        }
                    }
                }
            }
        }
    }
}
