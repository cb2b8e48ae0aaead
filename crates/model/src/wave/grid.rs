//! Grids of waves in two and three dimensions.

use thiserror::Error;

use super::AXIS_NAMES;
use super::sides::{Side, THICKNESSES};
use crate::analysis::max_or_nan;

/// A rectangular grid in two or three dimensions. Public fields are checked by
/// [`WaveGrid::validate`].
///
/// ```
/// use orrery_model::wave::WaveGrid;
///
/// let grid = WaveGrid::volume([20, 30, 40], [10.0, 10.0, 5.0]);
/// grid.validate()?;
/// assert_eq!(grid.len(), 24_000);
/// assert_eq!(grid.node(grid.index([3, 4, 5])), [3, 4, 5]);
/// assert_eq!(grid.coordinates([3, 4, 5]), [30.0, 40.0, 25.0]);
///
/// let grid = WaveGrid::plane([20, 30], [10.0, 5.0]);
/// assert_eq!((grid.dimensions(), grid.depth_axis()), (2, 1));
/// # Ok::<(), orrery_model::wave::WaveGridError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaveGrid {
    /// Nodes along x, y and z. The last number is 1 in two dimensions.
    pub nodes: [usize; 3],
    /// Spacing along x, y and z. The last number has no meaning in two dimensions.
    pub spacing: [f64; 3],
}

/// Fewest nodes along an axis. The widest stencil reaches four nodes to either side, and its image
/// beyond a side must be inside the grid.
pub const MIN_NODES: usize = 9;

/// Most nodes along an axis. Kernels count rows and columns in 32 bits with a sign.
pub const MAX_NODES: usize = 1 << 30;

/// Most nodes of a grid.
pub const MAX_GRID_NODES: usize = 1 << 40;

/// Range of spacings. Within it, products and inverse products of three spacings are normal f32
/// numbers.
const SPACINGS: std::ops::RangeInclusive<f64> = 1e-10..=1e10;

impl WaveGrid {
    /// Returns a grid in two dimensions.
    pub fn plane([nx, ny]: [usize; 2], [hx, hy]: [f64; 2]) -> Self {
        Self { nodes: [nx, ny, 1], spacing: [hx, hy, hy] }
    }

    /// Returns a grid in three dimensions.
    pub fn volume(nodes: [usize; 3], spacing: [f64; 3]) -> Self {
        Self { nodes, spacing }
    }

    /// Returns 2 or 3.
    pub fn dimensions(&self) -> usize {
        if self.nodes[2] == 1 { 2 } else { 3 }
    }

    /// Returns the axis along which depth increases: the last one.
    pub fn depth_axis(&self) -> usize {
        self.dimensions() - 1
    }

    /// Number of nodes.
    #[expect(clippy::len_without_is_empty, reason = "a grid has at least 81 nodes")]
    pub fn len(&self) -> usize {
        self.nodes.iter().product()
    }

    /// Returns the index of node (i, j, k).
    pub fn index(&self, [i, j, k]: [usize; 3]) -> usize {
        (k * self.nodes[1] + j) * self.nodes[0] + i
    }

    /// Returns i, j and k of the node `index`.
    pub fn node(&self, index: usize) -> [usize; 3] {
        let [nx, ny, _] = self.nodes;
        [index % nx, index / nx % ny, index / nx / ny]
    }

    /// Returns x, y and z of a node. z is 0 in two dimensions.
    pub fn coordinates(&self, node: [usize; 3]) -> [f64; 3] {
        std::array::from_fn(|axis| node[axis] as f64 * self.spacing[axis])
    }

    /// Returns the distance between the first and the last node of an axis.
    pub fn extent(&self, axis: usize) -> f64 {
        self.nodes[axis].saturating_sub(1) as f64 * self.spacing[axis]
    }

    /// Returns the first axis on which a position is outside of the grid.
    pub fn first_axis_outside(&self, position: [f64; 3]) -> Option<usize> {
        // The negation includes NaN.
        (0..self.dimensions()).find(|&axis| !(0.0..=self.extent(axis)).contains(&position[axis]))
    }

    /// Returns the smallest spacing.
    pub fn min_spacing(&self) -> f64 {
        self.used_spacings().iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Returns the largest spacing.
    pub fn max_spacing(&self) -> f64 {
        self.used_spacings().iter().copied().fold(0.0, max_or_nan)
    }

    /// Returns the area of a cell in two dimensions, and its volume in three.
    pub fn cell_volume(&self) -> f64 {
        self.used_spacings().iter().product()
    }

    /// Returns the spacings of the axes that the grid has.
    pub fn used_spacings(&self) -> &[f64] {
        &self.spacing[..self.dimensions()]
    }

    /// Checks numbers of nodes and spacings.
    pub fn validate(&self) -> Result<(), WaveGridError> {
        for axis in 0..3 {
            let nodes = self.nodes[axis];
            let is_plane = axis == 2 && nodes == 1;
            if !is_plane && !(MIN_NODES..=MAX_NODES).contains(&nodes) {
                return Err(WaveGridError::Nodes { axis, nodes });
            }
        }
        let total = self.nodes.iter().try_fold(1_usize, |product, &nodes| product.checked_mul(nodes));
        if total.is_none_or(|total| total > MAX_GRID_NODES) {
            let [nx, ny, nz] = self.nodes;
            return Err(WaveGridError::Total { nx, ny, nz });
        }
        for (axis, &spacing) in self.used_spacings().iter().enumerate() {
            if !SPACINGS.contains(&spacing) {
                return Err(WaveGridError::Spacing { axis, spacing });
            }
        }
        Ok(())
    }
}

/// Reason why a grid or its sides cannot be used.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum WaveGridError {
    /// Too few or too many nodes along an axis.
    #[error(
        "the grid has n{} = {nodes} nodes, expected {MIN_NODES} to {MAX_NODES}{}",
        AXIS_NAMES[*axis], if *axis == 2 { ", or 1 for two dimensions" } else { "" }
    )]
    Nodes {
        /// 0 to 2 for x, y and z.
        axis: usize,
        /// Nodes found.
        nodes: usize,
    },
    /// Too many nodes.
    #[error("the grid has {nx} x {ny} x {nz} nodes, expected at most 2^40 in total")]
    Total {
        /// Nodes along x.
        nx: usize,
        /// Nodes along y.
        ny: usize,
        /// Nodes along z.
        nz: usize,
    },
    /// A spacing is not a positive number of usable size.
    #[error(
        "the grid has h{} = {spacing:e}, expected a spacing from {:e} to {:e}",
        AXIS_NAMES[*axis], SPACINGS.start(), SPACINGS.end()
    )]
    Spacing {
        /// 0 to 2 for x, y and z.
        axis: usize,
        /// Spacing found.
        spacing: f64,
    },
    /// The number of nodes of an absorbing layer is out of range.
    #[error(
        "the layer at {} is {thickness} nodes thick, expected {} to {}",
        side.as_str(), THICKNESSES.start(), THICKNESSES.end()
    )]
    Thickness {
        /// The side.
        side: Side,
        /// Nodes found.
        thickness: usize,
    },
    /// The layers of an axis leave too few nodes between them.
    #[error(
        "the layers at {} need {needed} nodes with those between them, expected at most n{} = {nodes}",
        AXIS_NAMES[*axis], AXIS_NAMES[*axis]
    )]
    LayersTooThick {
        /// 0 to 2 for x, y and z.
        axis: usize,
        /// Nodes that the layers need.
        needed: usize,
        /// Nodes of the axis.
        nodes: usize,
    },
    /// A parameter of an absorbing layer is not a usable number.
    #[error("the layer at {} has {name} = {value:?}, expected {expected}", side.as_str())]
    LayerParameter {
        /// The side.
        side: Side,
        /// Name of the parameter, for example "reflection".
        name: &'static str,
        /// Value found.
        value: f64,
        /// Values that are accepted.
        expected: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_and_node_are_inverse() {
        for grid in [WaveGrid::volume([9, 10, 11], [0.5, 2.0, 3.0]), WaveGrid::plane([12, 9], [0.5, 2.0])] {
            assert_eq!(grid.validate(), Ok(()));
            for index in 0..grid.len() {
                assert_eq!(grid.index(grid.node(index)), index);
            }
            assert_eq!(grid.node(grid.len() - 1), grid.nodes.map(|n| n - 1));
        }
    }

    #[test]
    fn spacings_of_two_dimensions_ignore_z() {
        let grid = WaveGrid { nodes: [9, 9, 1], spacing: [2.0, 3.0, f64::NAN] };
        assert_eq!(grid.validate(), Ok(()));
        assert_eq!((grid.min_spacing(), grid.max_spacing(), grid.cell_volume()), (2.0, 3.0, 6.0));
        assert_eq!((grid.extent(1), grid.depth_axis()), (24.0, 1));
        let grid = WaveGrid::volume([9, 9, 12], [2.0, 3.0, 0.5]);
        assert_eq!((grid.min_spacing(), grid.cell_volume(), grid.depth_axis()), (0.5, 3.0, 2));
    }

    #[test]
    fn bad_grids_are_refused_with_the_value() {
        let message = |nodes, spacing| WaveGrid { nodes, spacing }.validate().unwrap_err().to_string();
        assert_eq!(message([8, 9, 1], [1.0; 3]), "the grid has nx = 8 nodes, expected 9 to 1073741824");
        assert_eq!(
            message([9, 9, 2], [1.0; 3]),
            "the grid has nz = 2 nodes, expected 9 to 1073741824, or 1 for two dimensions"
        );
        let large = 1 << 30;
        assert_eq!(
            message([large, large, large], [1.0; 3]),
            "the grid has 1073741824 x 1073741824 x 1073741824 nodes, expected at most 2^40 in total"
        );
        assert_eq!(
            message([9, 9, 9], [1.0, 1.0, -2.0]),
            "the grid has hz = -2e0, expected a spacing from 1e-10 to 1e10"
        );
        for spacing in [0.0, f64::NAN, f64::INFINITY, 1e-11] {
            assert!(message([9, 9, 1], [spacing, 1.0, 1.0]).starts_with("the grid has hx = "));
        }
    }
}
