//! Division of the box among the ranks.
//!
//! Rank r has the slab of all fractions f with `borders[r]` ≤ f < `borders[r + 1]` along one axis,
//! in 32 bits. It needs the particles in its window: the slab and everything within the radius of
//! the lists on both sides. In a periodic box a window may continue at the other end. Slabs may be
//! thinner than the radius, and empty.

use orrery_cluster::{ClusterError, Transport};
use orrery_model::simulation_box::BoxSides;

use crate::lennard_jones::cells::{CellGrid, FRACTIONS};
use crate::lennard_jones::host::HostFluid;

/// Parts of a slab that borders are rounded to. The work of a slab differs from the mean by up to
/// one part.
const BINS_PER_RANK: usize = 512;

/// Part of the box that contains all particles, in fractions of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Region {
    low: [u32; 3],
    span: [u64; 3],
}

impl Region {
    /// Returns the whole periodic box, or the part of an open box with particles of any rank.
    fn new(transport: &Transport, fluid: &HostFluid) -> Result<Self, ClusterError> {
        if fluid.bounds().sides == BoxSides::Periodic {
            return Ok(Self { low: [0; 3], span: [FRACTIONS; 3] });
        }
        let (low, high) = fluid.extent();
        // The smallest complement belongs to the largest number.
        let local = [low, high.map(|high| !high)];
        let all = transport.all_reduce(&local, |a, b| [0, 1, 2].map(|axis| a[axis].min(b[axis])))?;
        let (low, high) = (all[0], all[1].map(|complement| !complement));
        // Without particles the lowest number is above the highest one.
        let span = |axis: usize| u64::from(high[axis].saturating_sub(low[axis])) + 1;
        Ok(Self { low, span: [0, 1, 2].map(span) })
    }
}

/// Consecutive fractions along an axis. They may continue at the other end of the box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    low: u32,
    span: u64,
}

impl Window {
    pub(super) fn contains(&self, fraction: u32) -> bool {
        u64::from(fraction.wrapping_sub(self.low)) < self.span
    }
}

/// Slabs of all ranks. They are equal on all ranks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slabs {
    /// Axis that the slabs divide.
    pub(super) axis: usize,
    /// Borders of the slabs, one more than there are ranks.
    borders: Vec<u64>,
    /// Radius of the lists along the axis.
    reach: u64,
    region: Region,
    is_periodic: bool,
}

impl Slabs {
    /// Divides the longest axis such that all ranks have about the same work. All ranks must call
    /// it.
    pub(super) fn balanced(transport: &Transport, fluid: &HostFluid) -> Result<Self, ClusterError> {
        let region = Region::new(transport, fluid)?;
        let bounds = fluid.bounds();
        let length = |axis: usize| bounds.lengths[axis] * region.span[axis] as f64;
        let longer = |a: usize, b: usize| if length(b) > length(a) { b } else { a };
        let axis = (0..bounds.dimensions).fold(0, longer);
        let (low, span) = (u64::from(region.low[axis]), region.span[axis]);

        let bins = BINS_PER_RANK * transport.size();
        let mut work = vec![0u64; bins];
        for k in 0..fluid.len() {
            let offset = u64::from(fluid.upper_halves(k)[axis] as u32) - low;
            work[(offset * bins as u64 / span) as usize] += fluid.work(k);
        }
        let work = transport.all_reduce(&work, |a, b| a + b)?;
        let border = |bin: usize| low + (bin as u64 * span).div_ceil(bins as u64);
        // Rounding errors of f32 in the lists must not reach beyond the window.
        let reach = fluid.list_radius() * (1.0 + 1e-5) / bounds.lengths[axis] * FRACTIONS as f64;
        Ok(Self {
            axis,
            borders: balanced_bins(&work, transport.size()).into_iter().map(border).collect(),
            reach: (reach.ceil() as u64 + 1).min(FRACTIONS),
            region,
            is_periodic: bounds.sides == BoxSides::Periodic,
        })
    }

    /// Returns the rank whose slab contains a fraction along the axis.
    pub(super) fn owner(&self, fraction: u32) -> usize {
        self.borders.partition_point(|&border| border <= u64::from(fraction)) - 1
    }

    /// Returns the window of a rank, `None` if its slab is empty.
    pub(super) fn window(&self, rank: usize) -> Option<Window> {
        let (start, end) = (self.borders[rank], self.borders[rank + 1]);
        let (low, span) = (u64::from(self.region.low[self.axis]), self.region.span[self.axis]);
        if start == end {
            return None;
        }
        if !self.is_periodic {
            let first = start.saturating_sub(self.reach).max(low);
            let span = (end + self.reach).min(low + span) - first;
            return Some(Window { low: first as u32, span });
        }
        match end - start + 2 * self.reach {
            longer if longer >= FRACTIONS => Some(Window { low: low as u32, span }),
            shorter => Some(Window { low: start.wrapping_sub(self.reach) as u32, span: shorter }),
        }
    }

    /// Returns whether a window contains a part of the slab of a rank.
    pub(super) fn reaches(&self, window: &Window, rank: usize) -> bool {
        let (start, end) = (self.borders[rank], self.borders[rank + 1]);
        let slab = Window { low: start as u32, span: end - start };
        start < end && (window.contains(start as u32) || slab.contains(window.low))
    }

    /// Returns the cells of the window of a rank.
    pub(super) fn grid(&self, rank: usize, fluid: &HostFluid) -> CellGrid {
        let Region { mut low, mut span } = self.region;
        if let Some(window) = self.window(rank) {
            (low[self.axis], span[self.axis]) = (window.low, window.span);
        }
        CellGrid::within(fluid.bounds(), fluid.list_radius(), low, span, fluid.len())
    }
}

/// Divides bins with this work into consecutive parts of about the same work. Returns the first bin
/// of each part, followed by the number of bins.
fn balanced_bins(work: &[u64], parts: usize) -> Vec<usize> {
    let total: u64 = work.iter().sum();
    let mut borders = vec![0];
    let (mut bin, mut before) = (0, 0);
    for part in 1..parts {
        let wanted = (u128::from(total) * part as u128 / parts as u128) as u64;
        while bin < work.len() && before + work[bin] <= wanted {
            before += work[bin];
            bin += 1;
        }
        // The border is within this bin and moves to its nearer end.
        let is_nearer_to_end = bin < work.len() && wanted - before > before + work[bin] - wanted;
        borders.push(bin + usize::from(is_nearer_to_end));
    }
    borders.push(work.len());
    borders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slabs(borders: Vec<u64>, reach: u64, is_periodic: bool) -> Slabs {
        let (low, end) = (borders[0], borders[borders.len() - 1]);
        let region = Region { low: [low as u32; 3], span: [end - low; 3] };
        Slabs { axis: 0, borders, reach, region, is_periodic }
    }

    #[test]
    fn parts_have_about_the_same_work() {
        assert_eq!(balanced_bins(&[1; 12], 4), [0, 3, 6, 9, 12]);
        assert_eq!(balanced_bins(&[0, 10, 0, 0, 1, 9], 2), [0, 4, 6]);
        // The border moves to the nearer end of the large bin.
        assert_eq!(balanced_bins(&[4, 10, 6], 2), [0, 2, 3]);
        assert_eq!(balanced_bins(&[6, 10, 4], 2), [0, 1, 3]);
        // All work in one bin, and none.
        assert_eq!(balanced_bins(&[0, 7, 0], 4), [0, 1, 2, 2, 3]);
        assert_eq!(balanced_bins(&[0; 3], 3), [0, 3, 3, 3]);
    }

    #[test]
    fn every_fraction_has_an_owner() {
        let slabs = slabs(vec![0, 10, 10, 1 << 20, FRACTIONS], 5, true);
        let owners = [0, 9, 10, (1 << 20) - 1, 1 << 20, u32::MAX].map(|fraction| slabs.owner(fraction));
        assert_eq!(owners, [0, 0, 2, 2, 3, 3]);
    }

    #[test]
    fn windows_of_a_periodic_box_continue_at_its_other_end() {
        let slabs = slabs(vec![0, 1000, 1000, 2000, FRACTIONS], 100, true);
        let first = slabs.window(0).unwrap();
        assert_eq!(first, Window { low: 0u32.wrapping_sub(100), span: 1200 });
        for (fraction, expected) in
            [(0, true), (1099, true), (1100, false), (u32::MAX - 99, true), (u32::MAX - 100, false)]
        {
            assert_eq!(first.contains(fraction), expected, "{fraction}");
        }
        assert_eq!(slabs.window(1), None);
        assert_eq!([0, 1, 2, 3].map(|rank| slabs.reaches(&first, rank)), [true, false, true, true]);
        let second = slabs.window(2).unwrap();
        assert_eq!([0, 1, 2, 3].map(|rank| slabs.reaches(&second, rank)), [true, false, true, true]);
        // The last slab and its surroundings have more than the whole box minus the others.
        let last = slabs.window(3).unwrap();
        assert_eq!(last, Window { low: 1900, span: FRACTIONS - 1800 });
        assert!(last.contains(1900) && last.contains(99) && !last.contains(100) && !last.contains(1899));
    }

    #[test]
    fn a_window_is_at_most_the_whole_box() {
        let periodic = slabs(vec![0, 1 << 31, FRACTIONS], 1 << 30, true);
        assert_eq!(periodic.window(1), Some(Window { low: 0, span: FRACTIONS }));
        let open = slabs(vec![1 << 30, 1 << 31, 3 << 30], 1 << 31, false);
        assert_eq!(open.window(0), Some(Window { low: 1 << 30, span: 1 << 31 }));
    }

    /// Windows of an open box do not reach around it.
    #[test]
    fn windows_of_an_open_box_end_with_its_particles() {
        let slabs = slabs(vec![5000, 6000, 7000, 8000], 300, false);
        let windows = [0, 1, 2].map(|rank| slabs.window(rank).unwrap());
        assert_eq!(windows[0], Window { low: 5000, span: 1300 });
        assert_eq!(windows[1], Window { low: 5700, span: 1600 });
        assert_eq!(windows[2], Window { low: 6700, span: 1300 });
        assert_eq!([0, 1, 2].map(|rank| slabs.reaches(&windows[0], rank)), [true, true, false]);
    }
}
