//! The plane of a grid that images show, with its velocities.

use orrery_fields::wave::{GridPlane, Velocity, WaveProblem};
use orrery_model::grid::Grid;
use orrery_model::wave::WaveGrid;

use crate::case::{Plane, WaveCase};

/// A plane of the grid. In two dimensions it is the whole grid.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    nodes: [usize; 3],
    /// Grid of the plane.
    pub grid: Grid,
    /// Axes of the grid that point right and up, or down for the depth.
    pub axes: [usize; 2],
    /// Node of the plane on the third axis.
    node: usize,
    /// Velocity of each node of the plane. `None` if it is uniform.
    pub velocity: Option<Vec<f64>>,
    /// Velocity of walls, 0 if there are none.
    pub wall_velocity: f64,
}

impl Slice {
    /// Returns the plane that the case selects.
    pub fn new(wave: &WaveCase, problem: &WaveProblem) -> Self {
        let WaveGrid { nodes, spacing } = wave.grid;
        let axes = match wave.slice.plane {
            _ if wave.grid.dimensions() == 2 => [0, 1],
            Plane::Xy => [0, 1],
            Plane::Xz => [0, 2],
            Plane::Yz => [1, 2],
        };
        let normal = 3 - axes[0] - axes[1];
        let of_source = || wave.shot_sources().next().map_or(0.0, |(_, source)| source.position[normal]);
        let position = wave.slice.position.unwrap_or_else(of_source);
        let node = (position / spacing[normal]).round().clamp(0.0, (nodes[normal] - 1) as f64) as usize;
        let [right, up] = axes;
        let grid = Grid { nx: nodes[right], ny: nodes[up], hx: spacing[right], hy: spacing[up] };
        let mut slice = Self { nodes, grid, axes, node, velocity: None, wall_velocity: 0.0 };
        if let Velocity::Field(values) = problem.velocity() {
            slice.velocity = Some(slice.plane().values_of(nodes, values));
            if wave.has_walls() {
                slice.wall_velocity = values.iter().copied().fold(f64::INFINITY, f64::min);
            }
        }
        slice
    }

    /// Returns the plane of the grid.
    pub fn plane(&self) -> GridPlane {
        GridPlane { normal: 3 - self.axes[0] - self.axes[1], node: self.node }
    }

    /// Returns the coordinates of a position in the plane.
    pub fn project(&self, position: [f64; 3]) -> [f64; 2] {
        self.axes.map(|axis| position[axis])
    }

    /// Returns true if the second axis of the plane is the depth.
    pub fn is_depth_down(&self) -> bool {
        self.nodes[2] == 1 || self.axes[1] == 2
    }
}
