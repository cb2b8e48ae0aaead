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

/// Layout of consecutive slices of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceLayout {
    /// Nodes of the slab along x, y and z. The last number is 1 in two dimensions.
    pub(super) nodes: [usize; 3],
    /// Values from a row to the next one.
    pub(super) pitch: usize,
    /// Values from a plane to the next one.
    pub(super) plane: usize,
    /// Ghost planes before and after the planes: 4, or 0 in two dimensions.
    pub(super) ghost_planes: usize,
}

impl DeviceLayout {
    /// Returns the layout of `slices` slices of a grid, for values of type `R`.
    pub(super) fn new<R>(grid: &WaveGrid, slices: usize) -> Self {
        let [nx, ny, _] = grid.nodes;
        let (nodes, ghost_planes) = match grid.dimensions() {
            3 => ([nx, ny, slices], MAX_RADIUS),
            _ => ([nx, slices, 1], 0),
        };
        let pitch = (nx + 2 * MAX_RADIUS).next_multiple_of(ROW_ALIGNMENT / size_of::<R>());
        Self { nodes, pitch, plane: pitch * (nodes[1] + 2 * MAX_RADIUS), ghost_planes }
    }

    /// Returns true in three dimensions.
    pub(super) fn is_volume(&self) -> bool {
        self.ghost_planes > 0
    }

    /// Returns the axis across the slices: the slowest-varying one.
    pub(super) fn slow_axis(&self) -> usize {
        if self.is_volume() { 2 } else { 1 }
    }

    /// Returns the number of slices without ghost slices.
    pub(super) fn slices(&self) -> usize {
        self.nodes[self.slow_axis()]
    }

    /// Returns the number of rows of a slice.
    pub(super) fn slice_rows(&self) -> usize {
        if self.is_volume() { self.nodes[1] } else { 1 }
    }

    /// Returns the number of values from a slice to the next one.
    pub(super) fn slice_stride(&self) -> usize {
        self.strides()[self.slow_axis()]
    }

    /// Returns the numbers of rows per plane and of planes that some slices have.
    pub(super) fn rows_and_planes(&self, slices: &Range<usize>) -> [usize; 2] {
        if self.is_volume() { [self.nodes[1], slices.len()] } else { [slices.len(), 1] }
    }

    /// Returns the values of some slices, which may be ghost slices. Rows are without the ghost
    /// nodes along x of the next row, which may belong to another slice.
    pub(super) fn slice_range(&self, slices: Range<isize>) -> Range<usize> {
        let start = |slice: isize| (slice + MAX_RADIUS as isize) as usize * self.slice_stride();
        match self.is_volume() {
            true => start(slices.start)..start(slices.end),
            false => start(slices.start)..start(slices.end - 1) + self.nodes[0],
        }
    }

    /// Returns the values of the slices that the lower and the upper neighbour need.
    pub(super) fn border_ranges(&self) -> [Range<usize>; 2] {
        let (ghosts, slices) = (MAX_RADIUS as isize, self.slices() as isize);
        [self.slice_range(0..ghosts), self.slice_range(slices - ghosts..slices)]
    }

    /// Returns the values of the ghost slices below and above.
    pub(super) fn ghost_ranges(&self) -> [Range<usize>; 2] {
        let (ghosts, slices) = (MAX_RADIUS as isize, self.slices() as isize);
        [self.slice_range(-ghosts..0), self.slice_range(slices..slices + ghosts)]
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        (self.nodes[2] + 2 * self.ghost_planes) * self.plane
    }

    /// Returns the position of a node of the slab.
    pub(super) fn position(&self, [i, j, k]: [usize; 3]) -> usize {
        (k + self.ghost_planes) * self.plane + (j + MAX_RADIUS) * self.pitch + i
    }

    /// Returns the distance between neighbours along x, y and z.
    pub(super) fn strides(&self) -> [usize; 3] {
        [1, self.pitch, self.plane]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks all nodes and ghost nodes of a layout, and checks that none is marked twice.
    fn check<R>(nodes: [usize; 3], slices: usize) {
        let layout = DeviceLayout::new::<R>(&WaveGrid::volume(nodes, [1.0; 3]), slices);
        let (nodes, ghosts) = (layout.nodes, MAX_RADIUS as isize);
        let mut used = vec![0; layout.len()];
        assert_eq!(layout.slice_range(-ghosts..0).start, 0);
        assert!(layout.slice_range(0..slices as isize + ghosts).end <= layout.len());
        for k in 0..nodes[2] {
            for j in 0..nodes[1] {
                let row = layout.position([0, j, k]);
                assert_eq!(row * size_of::<R>() % ROW_ALIGNMENT, 0);
                used[row - MAX_RADIUS..row + nodes[0] + MAX_RADIUS].iter_mut().for_each(|count| *count += 1);
            }
            for i in 0..nodes[0] {
                for r in 1..=MAX_RADIUS {
                    used[layout.position([i, 0, k]) - r * layout.pitch] += 1;
                    used[layout.position([i, nodes[1] - 1, k]) + r * layout.pitch] += 1;
                }
            }
        }
        assert!(used.iter().all(|count| *count <= 1), "{layout:?}");
    }

    #[test]
    fn ghost_nodes_are_inside_and_belong_to_one_node() {
        for (nodes, slices) in [([9, 10, 12], 12), ([24, 9, 30], 5), ([25, 9, 1], 9), ([56, 11, 1], 6)] {
            check::<f32>(nodes, slices);
            check::<f64>(nodes, slices);
        }
    }
}
