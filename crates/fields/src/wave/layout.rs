//! Memory layout of a field in host memory.
//!
//! Rows are padded, so that ghost nodes beyond all sides are stored and inner loops need no tests.
//! A row starts with [`GAP`] values, followed by its nodes, rounded up to a multiple of [`GAP`].
//! The ghost nodes after the end of a row are in the first half of the gap before the next row, and
//! those before the start of that row in the second half. A plane has four ghost rows before and
//! after its rows. In three dimensions four ghost planes come before and after the planes of the
//! field.
//!
//! A slice is a plane in three dimensions, and a row in two. Slices from −4 to −1 and the four
//! after the last one are ghost slices.

use std::ops::{Deref, DerefMut, Range};

use orrery_model::wave::WaveGrid;
use orrery_simd::{AlignedVec, MAX_LANES};

use super::MAX_RADIUS;

/// Values before each row: one register of any type, and a whole cache line.
pub const GAP: usize = MAX_LANES;

/// Layout of consecutive slices of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Nodes along x, y and z. The last number is 1 in two dimensions.
    pub nodes: [usize; 3],
    /// Values from a row to the next one.
    pub pitch: usize,
    /// Values from a plane to the next one.
    pub plane: usize,
    /// Ghost planes before and after the planes: 4, or 0 in two dimensions.
    pub ghost_planes: usize,
}

impl Layout {
    /// Returns the layout of `slices` slices of a grid.
    pub fn new(grid: &WaveGrid, slices: usize) -> Self {
        let [nx, ny, _] = grid.nodes;
        let (nodes, ghost_planes) = match grid.dimensions() {
            3 => ([nx, ny, slices], MAX_RADIUS),
            _ => ([nx, slices, 1], 0),
        };
        let pitch = nx.next_multiple_of(GAP) + GAP;
        Self { nodes, pitch, plane: pitch * (nodes[1] + 2 * MAX_RADIUS), ghost_planes }
    }

    /// Returns true in three dimensions.
    pub fn is_volume(&self) -> bool {
        self.ghost_planes > 0
    }

    /// Returns the axis across the slices: the slowest-varying one.
    pub fn slow_axis(&self) -> usize {
        if self.is_volume() { 2 } else { 1 }
    }

    /// Returns the number of slices without ghost slices.
    pub fn slices(&self) -> usize {
        self.nodes[self.slow_axis()]
    }

    /// Returns the rows of each plane and the planes that some slices contain.
    pub fn rows_and_planes(&self, slices: &Range<usize>) -> (Range<usize>, Range<usize>) {
        if self.is_volume() { (0..self.nodes[1], slices.clone()) } else { (slices.clone(), 0..1) }
    }

    /// Returns the position of the first value of a slice, with ghost nodes beyond the other sides.
    pub fn slice_start(&self, slice: isize) -> usize {
        let slice = (slice + MAX_RADIUS as isize) as usize;
        if self.is_volume() { slice * self.plane } else { slice * self.pitch + GAP / 2 }
    }

    /// Returns the positions of the values of some slices.
    pub fn slice_range(&self, slices: &Range<usize>) -> Range<usize> {
        self.slice_start(slices.start as isize)..self.slice_start(slices.end as isize)
    }

    /// Returns the number of values. The last register of the last row ends within them.
    pub fn len(&self) -> usize {
        (self.nodes[2] + 2 * self.ghost_planes) * self.plane + GAP
    }

    /// Returns the position of node (0, j, k).
    pub fn row(&self, j: usize, k: usize) -> usize {
        (k + self.ghost_planes) * self.plane + self.row_in_plane(j)
    }

    /// Returns the position of node (0, j) relative to the start of its plane.
    pub fn row_in_plane(&self, j: usize) -> usize {
        (j + MAX_RADIUS) * self.pitch + GAP
    }

    /// Returns the position of a node.
    pub fn position(&self, [i, j, k]: [usize; 3]) -> usize {
        self.row(j, k) + i
    }

    /// Returns the part of a plane with the rows `rows` and their ghost nodes along x. In three
    /// dimensions it includes the ghost rows of a side along y that the rows contain.
    pub fn band(&self, rows: &Range<usize>) -> Range<usize> {
        let middle_of_gap = |j: usize| (j + MAX_RADIUS) * self.pitch + GAP / 2;
        let has_side = |j: usize, side: usize| self.is_volume() && j == side;
        let start = if has_side(rows.start, 0) { 0 } else { middle_of_gap(rows.start) };
        let end = if has_side(rows.end, self.nodes[1]) { self.plane } else { middle_of_gap(rows.end) };
        start..end
    }

    /// Returns the distance between neighbours along x, y and z.
    pub fn strides(&self) -> [usize; 3] {
        [1, self.pitch, self.plane]
    }
}

/// Distance modulo 4096 bytes between the starts of two fields. A load seems to depend on an
/// earlier store if their addresses are equal modulo 4096, and waits for it.
const SKEW_BYTES: usize = 1344;

/// A field in the layout of a [`Layout`].
#[derive(Debug)]
pub struct PaddedField<R> {
    storage: AlignedVec<R>,
    /// Unused values before the field.
    skew: usize,
}

impl<R: Copy + Default> PaddedField<R> {
    /// Returns zeros. Fields that are used together have different numbers.
    pub fn zeros(layout: &Layout, number: usize) -> Self {
        let skew = number * SKEW_BYTES / size_of::<R>();
        Self { storage: AlignedVec::zeros(layout.len() + skew), skew }
    }

    /// Returns a field without values.
    pub fn empty() -> Self {
        Self { storage: AlignedVec::zeros(0), skew: 0 }
    }
}

impl<R> Deref for PaddedField<R> {
    type Target = [R];

    fn deref(&self) -> &[R] {
        &self.storage[self.skew..]
    }
}

impl<R> DerefMut for PaddedField<R> {
    fn deref_mut(&mut self) -> &mut [R] {
        &mut self.storage[self.skew..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ghost_nodes_are_inside_and_belong_to_one_node() {
        for (nodes, slices) in [([9, 10, 12], 12), ([16, 9, 30], 5), ([33, 9, 1], 9), ([33, 19, 1], 7)] {
            let grid = WaveGrid::volume(nodes, [1.0; 3]);
            let layout = Layout::new(&grid, slices);
            let nodes = layout.nodes;
            let mut used = vec![0; layout.len()];
            for k in 0..nodes[2] {
                for j in 0..nodes[1] {
                    for i in 0..nodes[0] {
                        used[layout.position([i, j, k])] += 1;
                    }
                    // Ghosts along x.
                    let row = layout.row(j, k);
                    for r in 1..=MAX_RADIUS {
                        used[row - r] += 1;
                        used[row + nodes[0] - 1 + r] += 1;
                    }
                    // A register at the end of a row.
                    assert!(row + nodes[0].next_multiple_of(GAP) + MAX_RADIUS <= layout.len());
                }
                for i in 0..nodes[0] {
                    for r in 1..=MAX_RADIUS {
                        used[layout.position([i, 0, k]) - r * layout.pitch] += 1;
                        used[layout.position([i, nodes[1] - 1, k]) + r * layout.pitch] += 1;
                    }
                }
            }
            assert!(used.iter().all(|count| *count <= 1));
            assert_eq!(layout.row(0, 0) % GAP, 0);
        }
    }

    #[test]
    fn slices_have_the_ghost_nodes_beyond_other_sides() {
        for (grid, slices) in
            [(WaveGrid::volume([9, 10, 30], [1.0; 3]), 5), (WaveGrid::plane([17, 30], [1.0; 2]), 6)]
        {
            let layout = Layout::new(&grid, slices);
            assert_eq!(layout.slices(), slices);
            let (ghosts, n) = (MAX_RADIUS as isize, slices as isize);
            assert!(layout.slice_start(n + ghosts) <= layout.len());
            for slice in 0..slices {
                let range = layout.slice_range(&(slice..slice + 1));
                let (rows, planes) = layout.rows_and_planes(&(slice..slice + 1));
                assert_eq!((rows.len(), planes.len()), (layout.nodes[1].min(rows.len()), 1));
                let first = layout.row(rows.start, planes.start);
                let last = layout.row(rows.end - 1, planes.start) + layout.nodes[0] - 1;
                assert!(range.contains(&(first - MAX_RADIUS)) && range.contains(&(last + MAX_RADIUS)));
            }
            // The first ghost slice is inside.
            assert!(layout.slice_start(-ghosts) < layout.slice_start(0));
        }
    }
}
