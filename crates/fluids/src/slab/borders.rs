//! Division of the box among the ranks.
//!
//! Rank r has the slab of all fractions f with `borders[r]` ≤ f < `borders[r + 1]` along one axis,
//! in 32 bits. It needs the particles in its window: the slab and everything within the radius of
//! the lists on both sides. In a periodic box a window may continue at the other end. Slabs may be
//! thinner than the radius, and empty.

use orrery_cluster::Transport;
use orrery_model::simulation_box::{BoxSides, SimulationBox};

use super::part::SlabPart;
use crate::DeviceFluidError;
use crate::cells::{CellGrid, FRACTIONS};

/// Parts of a slab that borders are rounded to. The work of a slab differs from the mean by up to
/// one part.
const BINS_PER_RANK: usize = 512;

/// Equal parts of a range of fractions along an axis, in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AxisBins {
    /// The axis.
    pub axis: usize,
    /// First fraction.
    pub low: u32,
    /// Number of fractions.
    pub span: u64,
    /// Number of bins.
    pub count: usize,
}

impl AxisBins {
    /// Returns the bin of a fraction in the range.
    pub(crate) fn bin(&self, fraction: u32) -> usize {
        (u64::from(fraction - self.low) * self.count as u64 / self.span) as usize
    }

    /// Returns the first fraction of a bin. Bin `count` starts behind the last fraction.
    fn start(&self, bin: usize) -> u64 {
        u64::from(self.low) + (bin as u64 * self.span).div_ceil(self.count as u64)
    }
}

/// Part of the box that contains all particles, in fractions of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Region {
    low: [u32; 3],
    span: [u64; 3],
}

impl Region {
    /// Returns the whole periodic box, or the part of an open box with particles of any rank.
    fn new(transport: &Transport, part: &mut impl SlabPart) -> Result<Self, DeviceFluidError> {
        if part.bounds().sides == BoxSides::Periodic {
            return Ok(Self { low: [0; 3], span: [FRACTIONS; 3] });
        }
        let (low, high) = part.extent()?;
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
pub(crate) struct SlabWindow {
    /// First fraction, in 32 bits.
    pub low: u32,
    /// Number of fractions, up to 2³².
    pub span: u64,
}

impl SlabWindow {
    /// All fractions.
    pub(super) const WHOLE: Self = Self { low: 0, span: FRACTIONS };

    /// Returns whether the window contains a fraction.
    pub(crate) fn contains(&self, fraction: u32) -> bool {
        u64::from(fraction.wrapping_sub(self.low)) < self.span
    }
}

/// Slabs of all ranks. They are equal on all ranks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slabs {
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
    pub(super) fn balanced(
        transport: &Transport,
        part: &mut impl SlabPart,
    ) -> Result<Self, DeviceFluidError> {
        let region = Region::new(transport, part)?;
        let (bounds, radius) = (*part.bounds(), part.settings().list_radius());
        let length = |axis: usize| bounds.lengths[axis] * region.span[axis] as f64;
        let longer = |a: usize, b: usize| if length(b) > length(a) { b } else { a };
        let axis = (0..bounds.dimensions).fold(0, longer);
        let count = BINS_PER_RANK * transport.size();
        let bins = AxisBins { axis, low: region.low[axis], span: region.span[axis], count };
        let work = transport.all_reduce(&part.work_in(&bins)?, |a, b| a + b)?;
        let borders = balanced_bins(&work, transport.size()).into_iter().map(|bin| bins.start(bin));
        // Rounding errors of f32 in the lists must not reach beyond the window.
        let reach = radius * (1.0 + 1e-5) / bounds.lengths[axis] * FRACTIONS as f64;
        Ok(Self {
            axis,
            borders: borders.collect(),
            reach: (reach.ceil() as u64 + 1).min(FRACTIONS),
            region,
            is_periodic: bounds.sides == BoxSides::Periodic,
        })
    }

    /// Returns the slab of a rank, `None` if it is empty.
    pub(super) fn slab(&self, rank: usize) -> Option<SlabWindow> {
        let (start, end) = (self.borders[rank], self.borders[rank + 1]);
        (start < end).then(|| SlabWindow { low: start as u32, span: end - start })
    }

    /// Returns the rank whose slab contains a fraction along the axis.
    pub(super) fn owner(&self, fraction: u32) -> usize {
        self.borders.partition_point(|&border| border <= u64::from(fraction)) - 1
    }

    /// Returns the window of a rank, `None` if its slab is empty.
    pub(super) fn window(&self, rank: usize) -> Option<SlabWindow> {
        let slab = self.slab(rank)?;
        let region = SlabWindow { low: self.region.low[self.axis], span: self.region.span[self.axis] };
        if !self.is_periodic {
            let (start, end) = (u64::from(region.low), u64::from(region.low) + region.span);
            let first = u64::from(slab.low).saturating_sub(self.reach).max(start);
            let last = (u64::from(slab.low) + slab.span + self.reach).min(end);
            return Some(SlabWindow { low: first as u32, span: last - first });
        }
        let span = slab.span + 2 * self.reach;
        let low = u64::from(slab.low).wrapping_sub(self.reach) as u32;
        Some(if span < FRACTIONS { SlabWindow { low, span } } else { region })
    }

    /// Returns the window of each other rank, `None` if it contains nothing of the slab of `rank`.
    pub(super) fn windows_over(&self, rank: usize) -> Vec<Option<SlabWindow>> {
        let window_over = |other: usize| match (self.slab(rank), self.window(other)) {
            (Some(slab), Some(window)) if other != rank => {
                (window.contains(slab.low) || slab.contains(window.low)).then_some(window)
            }
            _ => None,
        };
        (0..self.borders.len() - 1).map(window_over).collect()
    }

    /// Returns the cells of the window of a rank that has `n` particles.
    pub(super) fn grid(&self, rank: usize, bounds: &SimulationBox, radius: f64, n: usize) -> CellGrid {
        let Region { mut low, mut span } = self.region;
        if let Some(window) = self.window(rank) {
            (low[self.axis], span[self.axis]) = (window.low, window.span);
        }
        CellGrid::within(bounds, radius, low, span, n)
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
        assert_eq!(balanced_bins(&[0, 7, 0], 4), [0, 1, 1, 2, 3]);
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
        assert_eq!(first, SlabWindow { low: 0u32.wrapping_sub(100), span: 1200 });
        for (fraction, expected) in
            [(0, true), (1099, true), (1100, false), (u32::MAX - 99, true), (u32::MAX - 100, false)]
        {
            assert_eq!(first.contains(fraction), expected, "{fraction}");
        }
        assert_eq!(slabs.window(1), None);
        // The first and the last slab are neighbours too.
        let neighbours = |rank: usize| slabs.windows_over(rank).iter().map(Option::is_some).collect();
        let found: [Vec<bool>; 4] = [0, 1, 2, 3].map(neighbours);
        assert_eq!(found[0], [false, false, true, true]);
        assert_eq!(found[1], [false; 4]);
        assert_eq!(found[2], [true, false, false, true]);
        assert_eq!(found[3], [true, false, true, false]);
        // The last slab and a part of its neighbours.
        let last = slabs.window(3).unwrap();
        assert_eq!(last, SlabWindow { low: 1900, span: FRACTIONS - 1800 });
        assert!(last.contains(1900) && last.contains(99) && !last.contains(100) && !last.contains(1899));
    }

    #[test]
    fn a_window_is_at_most_the_whole_box() {
        let periodic = slabs(vec![0, 1 << 31, FRACTIONS], 1 << 30, true);
        assert_eq!(periodic.window(1), Some(SlabWindow { low: 0, span: FRACTIONS }));
        let open = slabs(vec![1 << 30, 1 << 31, 3 << 30], 1 << 31, false);
        assert_eq!(open.window(0), Some(SlabWindow { low: 1 << 30, span: 1 << 31 }));
    }

    /// Windows of an open box do not reach around it.
    #[test]
    fn windows_of_an_open_box_end_with_its_particles() {
        let slabs = slabs(vec![5000, 6000, 7000, 8000], 300, false);
        let windows = [0, 1, 2].map(|rank| slabs.window(rank).unwrap());
        assert_eq!(windows[0], SlabWindow { low: 5000, span: 1300 });
        assert_eq!(windows[1], SlabWindow { low: 5700, span: 1600 });
        assert_eq!(windows[2], SlabWindow { low: 6700, span: 1300 });
        assert_eq!(slabs.windows_over(2), [None, Some(windows[1]), None]);
        assert_eq!(slabs.windows_over(1), [Some(windows[0]), None, Some(windows[2])]);
    }
}
