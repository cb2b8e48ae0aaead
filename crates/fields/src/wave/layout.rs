//! Memory layout of a field in host memory.
//!
//! Rows are padded, so that ghost nodes beyond all sides are stored and inner loops need no tests.
//! A row starts with [`GAP`] values, followed by its nodes, rounded up to a multiple of [`GAP`].
//! The ghost nodes after the end of a row are in the first half of the gap before the next row, and
//! those before the start of that row in the second half. A plane has four ghost rows before and
//! after its rows. In three dimensions four ghost planes come before and after the planes of the
//! field.

use std::ops::{Deref, DerefMut, Range};

use orrery_model::wave::WaveGrid;
use orrery_simd::{AlignedVec, MAX_LANES};

use super::MAX_RADIUS;

/// Values before each row: one register of any type, and a whole cache line.
pub const GAP: usize = MAX_LANES;

/// Layout of consecutive planes of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Nodes along x, y and z.
    pub nodes: [usize; 3],
    /// Values from a row to the next one.
    pub pitch: usize,
    /// Values from a plane to the next one.
    pub plane: usize,
    /// Ghost planes before and after the planes: 4, or 0 in two dimensions.
    pub ghost_planes: usize,
}

impl Layout {
    /// Returns the layout of `planes` planes of a grid.
    pub fn new(grid: &WaveGrid, planes: usize) -> Self {
        let [nx, ny, _] = grid.nodes;
        let pitch = nx.next_multiple_of(GAP) + GAP;
        let ghost_planes = if grid.dimensions() == 3 { MAX_RADIUS } else { 0 };
        Self { nodes: [nx, ny, planes], pitch, plane: pitch * (ny + 2 * MAX_RADIUS), ghost_planes }
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

    /// Returns the part of a plane with the rows `rows` and their ghost nodes along x. It includes
    /// the ghost rows of a side along y that the rows contain.
    pub fn band(&self, rows: &Range<usize>) -> Range<usize> {
        let middle_of_gap = |j: usize| (j + MAX_RADIUS) * self.pitch + GAP / 2;
        let start = if rows.start == 0 { 0 } else { middle_of_gap(rows.start) };
        let end = if rows.end == self.nodes[1] { self.plane } else { middle_of_gap(rows.end) };
        start..end
    }

    /// Returns the part of a field with these planes and their ghost rows.
    pub fn planes_mut<'a, R>(&self, planes: Range<usize>, field: &'a mut [R]) -> &'a mut [R] {
        &mut field[(planes.start + self.ghost_planes) * self.plane..][..planes.len() * self.plane]
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
        for (nodes, planes) in [([9, 10, 12], 12), ([16, 9, 30], 5), ([33, 9, 1], 1)] {
            let grid = WaveGrid::volume(nodes, [1.0; 3]);
            let layout = Layout::new(&grid, planes);
            let mut used = vec![0; layout.len()];
            for k in 0..planes {
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
}
