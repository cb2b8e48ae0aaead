//! Memory layout of a field, in host memory and on a device.
//!
//! Rows are padded, so that ghost nodes beyond all sides are stored and inner loops need no tests.
//! A plane has four ghost rows before and after its rows. In three dimensions four ghost planes
//! come before and after the planes of the field.
//!
//! In host memory a row starts with [`GAP`] values, followed by its nodes, rounded up to a multiple
//! of [`GAP`]. The ghost nodes after the end of a row are in the first half of the gap before the
//! next row, and those before the start of that row in the second half. On a device rows start at
//! multiples of 128 bytes and have a gap of at least 8 values after their nodes: ghost nodes of
//! this row, then those before the next row.
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
pub struct WaveLayout {
    /// Nodes along x, y and z. The last number is 1 in two dimensions.
    pub nodes: [usize; 3],
    /// Values from a row to the next one.
    pub pitch: usize,
    /// Values from a plane to the next one.
    pub plane: usize,
    /// Ghost planes before and after the planes: 4, or 0 in two dimensions.
    pub ghost_planes: usize,
    /// Values before the nodes of a row: [`GAP`] in host memory, 0 on a device.
    row_start: usize,
}

/// Bytes between the starts of two rows on a device are a multiple of this: a line of a GPU's
/// cache.
const DEVICE_ALIGNMENT: usize = 128;

impl WaveLayout {
    /// Returns the layout of `slices` slices of a grid in host memory.
    pub fn on_host(grid: &WaveGrid, slices: usize) -> Self {
        Self::new(grid, slices, grid.nodes[0].next_multiple_of(GAP) + GAP, GAP)
    }

    /// Returns the layout of `slices` slices of a grid on a device, for values of type `R`.
    pub fn on_device<R>(grid: &WaveGrid, slices: usize) -> Self {
        let alignment = DEVICE_ALIGNMENT / size_of::<R>();
        Self::new(grid, slices, (grid.nodes[0] + 2 * MAX_RADIUS).next_multiple_of(alignment), 0)
    }

    fn new(grid: &WaveGrid, slices: usize, pitch: usize, row_start: usize) -> Self {
        let [nx, ny, _] = grid.nodes;
        let (nodes, ghost_planes) = match grid.dimensions() {
            3 => ([nx, ny, slices], MAX_RADIUS),
            _ => ([nx, slices, 1], 0),
        };
        Self { nodes, pitch, plane: pitch * (nodes[1] + 2 * MAX_RADIUS), ghost_planes, row_start }
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

    /// Returns the number of rows of a slice.
    pub fn slice_rows(&self) -> usize {
        if self.is_volume() { self.nodes[1] } else { 1 }
    }

    /// Returns the number of values from a slice to the next one.
    pub fn slice_stride(&self) -> usize {
        self.strides()[self.slow_axis()]
    }

    /// Returns the rows of each plane and the planes that some slices contain.
    pub fn rows_and_planes(&self, slices: &Range<usize>) -> (Range<usize>, Range<usize>) {
        if self.is_volume() { (0..self.nodes[1], slices.clone()) } else { (slices.clone(), 0..1) }
    }

    /// Returns the position of the first value of a slice, with ghost nodes beyond the other sides.
    pub fn slice_start(&self, slice: isize) -> usize {
        let start = (slice + MAX_RADIUS as isize) as usize * self.slice_stride();
        if self.is_volume() { start } else { start + self.row_start / 2 }
    }

    /// Returns the positions of the values of some slices.
    pub fn slice_range(&self, slices: &Range<usize>) -> Range<usize> {
        self.slice_start(slices.start as isize)..self.slice_start(slices.end as isize)
    }

    /// Returns the positions of the values of some slices for a message. Rows of a device are
    /// without the ghost nodes along x of the next row, which may belong to another slice.
    fn message_range(&self, slices: Range<isize>) -> Range<usize> {
        match self.is_volume() {
            true => self.slice_start(slices.start)..self.slice_start(slices.end),
            false => self.slice_start(slices.start)..self.slice_start(slices.end - 1) + self.nodes[0],
        }
    }

    /// Returns the values of the slices on a device that the lower and the upper neighbour need.
    pub fn border_ranges(&self) -> [Range<usize>; 2] {
        let (ghosts, slices) = (MAX_RADIUS as isize, self.slices() as isize);
        [self.message_range(0..ghosts), self.message_range(slices - ghosts..slices)]
    }

    /// Returns the values of the ghost slices on a device, below and above.
    pub fn ghost_ranges(&self) -> [Range<usize>; 2] {
        let (ghosts, slices) = (MAX_RADIUS as isize, self.slices() as isize);
        [self.message_range(-ghosts..0), self.message_range(slices..slices + ghosts)]
    }

    /// Returns the number of values. In host memory the last register of the last row ends within
    /// them.
    pub fn field_len(&self) -> usize {
        (self.nodes[2] + 2 * self.ghost_planes) * self.plane + self.row_start
    }

    /// Returns the position of node (0, j, k).
    pub fn row(&self, j: usize, k: usize) -> usize {
        (k + self.ghost_planes) * self.plane + self.row_in_plane(j)
    }

    /// Returns the position of node (0, j) relative to the start of its plane.
    pub fn row_in_plane(&self, j: usize) -> usize {
        (j + MAX_RADIUS) * self.pitch + self.row_start
    }

    /// Returns the position of a node.
    pub fn position(&self, [i, j, k]: [usize; 3]) -> usize {
        self.row(j, k) + i
    }

    /// Returns the part of a plane with the rows `rows` and their ghost nodes along x. In three
    /// dimensions it includes the ghost rows of a side along y that the rows contain.
    pub fn band(&self, rows: &Range<usize>) -> Range<usize> {
        let middle_of_gap = |j: usize| (j + MAX_RADIUS) * self.pitch + self.row_start / 2;
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
        Self { storage: AlignedVec::zeros(layout.field_len() + skew), skew }
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
