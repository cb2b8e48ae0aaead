//! Memory layout of a field on a device.
//!
//! Rows start at multiples of 128 bytes and have a gap of at least 8 values after their nodes:
//! ghost nodes of this row, then those before the next row. A plane has four ghost rows before and
//! after its rows. In three dimensions, four ghost planes come before and after the planes of a
//! slab. Kernels therefore load neighbours without a test.

use orrery_model::wave::WaveGrid;

use crate::wave::MAX_RADIUS;

/// Bytes between the starts of two rows are a multiple of this: a line of a GPU's cache.
const ROW_ALIGNMENT: usize = 128;

/// Layout of consecutive planes of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceLayout {
    /// Nodes along x and y, and planes that the slab owns.
    pub(super) nodes: [usize; 3],
    /// Values from a row to the next one.
    pub(super) pitch: usize,
    /// Values from a plane to the next one.
    pub(super) plane: usize,
    /// Ghost planes before and after the planes: 4, or 0 in two dimensions.
    pub(super) ghost_planes: usize,
}

impl DeviceLayout {
    /// Returns the layout of `planes` planes of a grid, for values of type `R`.
    pub(super) fn new<R>(grid: &WaveGrid, planes: usize) -> Self {
        let [nx, ny, _] = grid.nodes;
        let pitch = (nx + 2 * MAX_RADIUS).next_multiple_of(ROW_ALIGNMENT / size_of::<R>());
        let ghost_planes = if grid.dimensions() == 3 { MAX_RADIUS } else { 0 };
        Self { nodes: [nx, ny, planes], pitch, plane: pitch * (ny + 2 * MAX_RADIUS), ghost_planes }
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        (self.nodes[2] + 2 * self.ghost_planes) * self.plane
    }

    /// Returns the position of a node. k counts from the first plane of the slab.
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
    fn check<R>(nodes: [usize; 3], planes: usize) {
        let layout = DeviceLayout::new::<R>(&WaveGrid::volume(nodes, [1.0; 3]), planes);
        let mut used = vec![0; layout.len()];
        for k in 0..planes {
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
        for (nodes, planes) in [([9, 10, 12], 12), ([24, 9, 30], 5), ([25, 9, 1], 1), ([56, 11, 1], 1)] {
            check::<f32>(nodes, planes);
            check::<f64>(nodes, planes);
        }
    }
}
