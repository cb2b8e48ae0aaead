//! Memory layout of a field on a device.
//!
//! Rows start at multiples of 128 bytes and have a gap of at least 8 values after their nodes:
//! ghost nodes of this row, then those before the next row. A plane has four ghost rows before and
//! after its rows. In three dimensions, four ghost planes come before and after the planes of a
//! slab. Kernels therefore load neighbours without a test.
//!
//! A slice is a plane in three dimensions, and a row in two. Slices from -4 to -1 and the four
//! after the last one are ghost slices.

use std::ops::Range;

use orrery_model::wave::WaveGrid;

use crate::wave::MAX_RADIUS;

/// Bytes between the starts of two rows are a multiple of this: a line of a GPU's cache.
const ROW_ALIGNMENT: usize = 128;

/// WaveLayout of consecutive slices of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLayout {
    /// Nodes of the slab along x, y and z. The last number is 1 in two dimensions.
    pub nodes: [usize; 3],
    /// Values from a row to the next one.
    pub pitch: usize,
    /// Values from a plane to the next one.
    pub plane: usize,
    /// Ghost planes before and after the planes: 4, or 0 in two dimensions.
    pub ghost_planes: usize,
}

impl DeviceLayout {
    /// Returns the layout of `slices` slices of a grid, for values of type `R`.
    pub fn new<R>(grid: &WaveGrid, slices: usize) -> Self {
        let [nx, ny, _] = grid.nodes;
        let (nodes, ghost_planes) = match grid.dimensions() {
            3 => ([nx, ny, slices], MAX_RADIUS),
            _ => ([nx, slices, 1], 0),
        };
        let pitch = (nx + 2 * MAX_RADIUS).next_multiple_of(ROW_ALIGNMENT / size_of::<R>());
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

    /// Returns the number of rows of a slice.
    pub fn slice_rows(&self) -> usize {
        if self.is_volume() { self.nodes[1] } else { 1 }
    }

    /// Returns the number of values from a slice to the next one.
    pub fn slice_stride(&self) -> usize {
        self.strides()[self.slow_axis()]
    }

    /// Returns the numbers of rows per plane and of planes that some slices have.
    pub fn rows_and_planes(&self, slices: &Range<usize>) -> [usize; 2] {
        if self.is_volume() { [self.nodes[1], slices.len()] } else { [slices.len(), 1] }
    }

    /// Returns the values of some slices, which may be ghost slices. Rows are without the ghost
    /// nodes along x of the next row, which may belong to another slice.
    pub fn slice_range(&self, slices: Range<isize>) -> Range<usize> {
        let start = |slice: isize| (slice + MAX_RADIUS as isize) as usize * self.slice_stride();
        match self.is_volume() {
            true => start(slices.start)..start(slices.end),
            false => start(slices.start)..start(slices.end - 1) + self.nodes[0],
        }
    }

    /// Returns the values of the slices that the lower and the upper neighbour need.
    pub fn border_ranges(&self) -> [Range<usize>; 2] {
        let (ghosts, slices) = (MAX_RADIUS as isize, self.slices() as isize);
        [self.slice_range(0..ghosts), self.slice_range(slices - ghosts..slices)]
    }

    /// Returns the values of the ghost slices below and above.
    pub fn ghost_ranges(&self) -> [Range<usize>; 2] {
        let (ghosts, slices) = (MAX_RADIUS as isize, self.slices() as isize);
        [self.slice_range(-ghosts..0), self.slice_range(slices..slices + ghosts)]
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        (self.nodes[2] + 2 * self.ghost_planes) * self.plane
    }

    /// Returns the position of a node of the slab.
    pub fn position(&self, [i, j, k]: [usize; 3]) -> usize {
        (k + self.ghost_planes) * self.plane + (j + MAX_RADIUS) * self.pitch + i
    }

    /// Returns the distance between neighbours along x, y and z.
    pub fn strides(&self) -> [usize; 3] {
        [1, self.pitch, self.plane]
    }
}
