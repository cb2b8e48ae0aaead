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

/// WaveLayout of consecutive slices of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaveLayout {
    /// Nodes along x, y and z. The last number is 1 in two dimensions.
    pub nodes: [usize; 3],
    /// Values from a row to the next one.
    pub pitch: usize,
    /// Values from a plane to the next one.
    pub plane: usize,
    /// Ghost planes before and after the planes: 4, or 0 in two dimensions.
    pub ghost_planes: usize,
}

impl WaveLayout {
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

/// A field in the layout of a [`WaveLayout`].
#[derive(Debug)]
pub struct PaddedField<R> {
    storage: AlignedVec<R>,
    /// Unused values before the field.
    skew: usize,
}

impl<R: Copy + Default> PaddedField<R> {
    /// Returns zeros. Fields that are used together have different numbers.
    pub fn zeros(layout: &WaveLayout, number: usize) -> Self {
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
