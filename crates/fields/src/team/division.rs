//! Division of slices among ranks.

use std::ops::Range;

/// Slices at one end of the grid.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EndSlices {
    /// Cost of the slab at this end beyond that of its slices, for example that of an absorbing
    /// layer. The cost of a slice is 1.
    pub extra_cost: usize,
    /// Fewest slices of the slab at this end. The slices with extra cost are among them.
    pub min_slices: usize,
}

impl EndSlices {
    /// Returns the number of slices that have about this cost.
    fn slices_of_cost(&self, cost: usize) -> usize {
        cost.saturating_sub(self.extra_cost).max(self.min_slices)
    }
}

/// Divides `slices` slices into one slab per rank of almost equal cost, with at least `min_slices`
/// each. Returns the number of slices that so many ranks need, if there are fewer.
pub fn divided_slices(
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
