//! Rectangular grids of nodes, and the conditions on their edges.
//!
//! Node (i, j) has the coordinates x = i hx and y = j hy, and the index j nx + i: x varies fastest.
//! A field on a grid is a slice with one value per node in this order. Between two edges that are
//! not periodic the plate is (nx − 1) hx wide. Between periodic edges it is nx hx wide, and node nx
//! is node 0.

mod initial;
mod pixels;
mod region;

use thiserror::Error;

use crate::format_count;

pub use initial::{InitialField, InitialFieldError, SpotShape};
pub use pixels::{AxisWeights, MAX_PARTIAL, PixelDivision, PixelMeans, PixelNodes, PixelWeights};
pub use region::RegionShape;

/// A rectangular grid. Public fields are checked by [`Grid::validate`].
///
/// ```
/// use orrery_model::grid::Grid;
///
/// let grid = Grid { nx: 5, ny: 3, hx: 0.25, hy: 0.5 };
/// grid.validate()?;
/// assert_eq!(grid.len(), 15);
/// assert_eq!(grid.index(4, 1), 9);
/// assert_eq!(grid.coordinates(9), [1.0, 0.5]);
/// # Ok::<(), orrery_model::grid::GridError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// Nodes along x.
    pub nx: usize,
    /// Nodes along y.
    pub ny: usize,
    /// Spacing along x.
    pub hx: f64,
    /// Spacing along y.
    pub hy: f64,
}

/// Fewest nodes along a direction: two edges and a node between them.
pub const MIN_NODES: usize = 3;

/// Most nodes along a direction. Kernels count rows and columns in 32 bits with a sign.
pub const MAX_NODES: usize = 1 << 30;

/// Accepted spacings. Within this range, squares and inverse squares of a spacing are normal f64
/// numbers.
pub const SPACINGS: std::ops::RangeInclusive<f64> = 1e-100..=1e100;

impl Grid {
    /// Number of nodes.
    #[expect(clippy::len_without_is_empty, reason = "a grid has at least 9 nodes")]
    pub fn len(&self) -> usize {
        self.nx * self.ny
    }

    /// Returns the index of node (i, j).
    pub fn index(&self, i: usize, j: usize) -> usize {
        j * self.nx + i
    }

    /// Returns the column and the row, i and j, of the node `index`.
    pub fn node(&self, index: usize) -> [usize; 2] {
        [index % self.nx, index / self.nx]
    }

    /// Returns x and y of the node `index`.
    pub fn coordinates(&self, index: usize) -> [f64; 2] {
        let [i, j] = self.node(index);
        [i as f64 * self.hx, j as f64 * self.hy]
    }

    /// Returns the width and the height of the plate with these boundaries.
    pub fn extents(&self, boundaries: &Boundaries) -> [f64; 2] {
        let spaces = |nodes: usize, is_periodic: bool| if is_periodic { nodes } else { nodes - 1 };
        [
            spaces(self.nx, boundaries.is_periodic_in_x()) as f64 * self.hx,
            spaces(self.ny, boundaries.is_periodic_in_y()) as f64 * self.hy,
        ]
    }

    /// Checks numbers of nodes and spacings.
    pub fn validate(&self) -> Result<(), GridError> {
        for (name, nodes) in [("nx", self.nx), ("ny", self.ny)] {
            if !(MIN_NODES..=MAX_NODES).contains(&nodes) {
                return Err(GridError::Nodes { name, nodes });
            }
        }
        for (name, spacing) in [("hx", self.hx), ("hy", self.hy)] {
            if !SPACINGS.contains(&spacing) {
                return Err(GridError::Spacing { name, spacing });
            }
        }
        Ok(())
    }
}

/// An edge of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Edge {
    /// Nodes with i = 0.
    West,
    /// Nodes with i = nx − 1.
    East,
    /// Nodes with j = 0.
    South,
    /// Nodes with j = ny − 1.
    North,
}

impl Edge {
    /// All edges in declaration order: `ALL[k] as usize == k`.
    pub const ALL: [Self; 4] = [Self::West, Self::East, Self::South, Self::North];

    /// Returns the name in case files and messages, for example "west".
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::West => "west",
            Self::East => "east",
            Self::South => "south",
            Self::North => "north",
        }
    }

    /// Returns the edge on the other side.
    pub const fn opposite(self) -> Self {
        match self {
            Self::West => Self::East,
            Self::East => Self::West,
            Self::South => Self::North,
            Self::North => Self::South,
        }
    }

    /// Returns the number of nodes along the edge.
    pub fn nodes(self, grid: &Grid) -> usize {
        match self {
            Self::West | Self::East => grid.ny,
            Self::South | Self::North => grid.nx,
        }
    }

    /// Returns the index of node `k` of the edge. West and east count from the south, south and
    /// north count from the west.
    pub fn index(self, grid: &Grid, k: usize) -> usize {
        match self {
            Self::West => grid.index(0, k),
            Self::East => grid.index(grid.nx - 1, k),
            Self::South => grid.index(k, 0),
            Self::North => grid.index(k, grid.ny - 1),
        }
    }
}

/// Values along an edge.
#[derive(Clone, Debug, PartialEq)]
pub enum EdgeValues {
    /// The same value for all nodes.
    Constant(f64),
    /// One value per node of the edge, in the order of [`Edge::index`].
    Profile(Vec<f64>),
}

impl EdgeValues {
    /// Returns the value at node `k` of the edge.
    pub fn at(&self, k: usize) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Profile(values) => values[k],
        }
    }
}

/// Condition on an edge.
#[derive(Clone, Debug, PartialEq)]
pub enum Boundary {
    /// Dirichlet: the nodes of the edge have these values at all times.
    Fixed(EdgeValues),
    /// Neumann: k ∂u/∂n, the flux into the plate per length of the edge. Zero is an insulated edge.
    Flux(EdgeValues),
    /// The opposite edge is the neighbour. Both edges of the pair must be periodic.
    Periodic,
}

impl Boundary {
    /// An edge without flux.
    pub const INSULATED: Self = Self::Flux(EdgeValues::Constant(0.0));

    /// Returns a Dirichlet condition with one value for the whole edge.
    pub fn fixed(value: f64) -> Self {
        Self::Fixed(EdgeValues::Constant(value))
    }

    /// Returns a Neumann condition with one flux for the whole edge.
    pub fn flux(value: f64) -> Self {
        Self::Flux(EdgeValues::Constant(value))
    }

    /// Returns true for a Dirichlet condition.
    pub fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed(_))
    }

    /// Returns the values of a Dirichlet or Neumann condition.
    pub fn values(&self) -> Option<&EdgeValues> {
        match self {
            Self::Fixed(values) | Self::Flux(values) => Some(values),
            Self::Periodic => None,
        }
    }
}

/// Conditions on the four edges.
///
/// A corner of a fixed edge is fixed, whatever the other edge is. Where two fixed edges meet, the
/// corner has the value of the west or east edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Boundaries {
    /// Condition at i = 0.
    pub west: Boundary,
    /// Condition at i = nx − 1.
    pub east: Boundary,
    /// Condition at j = 0.
    pub south: Boundary,
    /// Condition at j = ny − 1.
    pub north: Boundary,
}

impl Boundaries {
    /// Returns the same condition on all edges.
    pub fn uniform(boundary: Boundary) -> Self {
        Self { west: boundary.clone(), east: boundary.clone(), south: boundary.clone(), north: boundary }
    }

    /// Returns the condition on an edge.
    pub fn on(&self, edge: Edge) -> &Boundary {
        match edge {
            Edge::West => &self.west,
            Edge::East => &self.east,
            Edge::South => &self.south,
            Edge::North => &self.north,
        }
    }

    /// Returns true if west and east are periodic.
    pub fn is_periodic_in_x(&self) -> bool {
        self.west == Boundary::Periodic
    }

    /// Returns true if south and north are periodic.
    pub fn is_periodic_in_y(&self) -> bool {
        self.south == Boundary::Periodic
    }

    /// Returns the fixed value of node (i, j), `None` if the node is free.
    pub fn fixed_value(&self, grid: &Grid, i: usize, j: usize) -> Option<f64> {
        let value = |boundary: &Boundary, is_on_edge: bool, k: usize| match boundary {
            Boundary::Fixed(values) if is_on_edge => Some(values.at(k)),
            _ => None,
        };
        value(&self.west, i == 0, j)
            .or_else(|| value(&self.east, i == grid.nx - 1, j))
            .or_else(|| value(&self.south, j == 0, i))
            .or_else(|| value(&self.north, j == grid.ny - 1, i))
    }

    /// Returns the rows, as `first..end`, that the south and north edges leave free.
    pub fn free_rows(&self, grid: &Grid) -> std::ops::Range<usize> {
        usize::from(self.south.is_fixed())..grid.ny - usize::from(self.north.is_fixed())
    }

    /// Returns the columns, as `first..end`, that the west and east edges leave free.
    pub fn free_columns(&self, grid: &Grid) -> std::ops::Range<usize> {
        usize::from(self.west.is_fixed())..grid.nx - usize::from(self.east.is_fixed())
    }

    /// Returns the index and the value of all fixed nodes. Where two fixed edges meet, the value
    /// that comes last is the one of the corner.
    pub fn fixed_nodes(&self, grid: &Grid) -> impl Iterator<Item = (usize, f64)> {
        let grid = *grid;
        [Edge::South, Edge::North, Edge::West, Edge::East].into_iter().flat_map(move |edge| {
            let values = match self.on(edge) {
                Boundary::Fixed(values) => Some(values),
                _ => None,
            };
            let nodes = move |values| {
                (0..edge.nodes(&grid)).map(move |k| (edge.index(&grid, k), EdgeValues::at(values, k)))
            };
            values.into_iter().flat_map(nodes)
        })
    }

    /// Overwrites the fixed nodes of `field`, which has one value per node.
    pub fn set_fixed_nodes(&self, grid: &Grid, field: &mut [f64]) {
        for (index, value) in self.fixed_nodes(grid) {
            field[index] = value;
        }
    }

    /// Checks that profiles have one finite value per node of their edge, and that periodic edges
    /// come in opposite pairs.
    pub fn validate(&self, grid: &Grid) -> Result<(), GridError> {
        for edge in Edge::ALL {
            let boundary = self.on(edge);
            if (*boundary == Boundary::Periodic) != (*self.on(edge.opposite()) == Boundary::Periodic) {
                let (periodic, other) = match boundary {
                    Boundary::Periodic => (edge, edge.opposite()),
                    _ => (edge.opposite(), edge),
                };
                return Err(GridError::UnpairedPeriodic { periodic, other });
            }
            let Some(values) = boundary.values() else { continue };
            let nodes = edge.nodes(grid);
            if let EdgeValues::Profile(profile) = values
                && profile.len() != nodes
            {
                return Err(GridError::ProfileLength { edge, found: profile.len(), expected: nodes });
            }
            if let Some(k) = (0..nodes).find(|k| !values.at(*k).is_finite()) {
                return Err(GridError::BoundaryNotFinite { edge, node: k, value: values.at(k) });
            }
        }
        Ok(())
    }
}

/// Reason why a grid or its boundaries cannot be used.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum GridError {
    /// Too few or too many nodes.
    #[error("the grid has {name} = {nodes} nodes, expected {MIN_NODES} to {MAX_NODES}")]
    Nodes {
        /// nx or ny.
        name: &'static str,
        /// Nodes found.
        nodes: usize,
    },
    /// A spacing is not a positive number of usable size.
    #[error("the grid has {name} = {spacing:e}, expected a spacing from {:e} to {:e}", SPACINGS.start(), SPACINGS.end())]
    Spacing {
        /// hx or hy.
        name: &'static str,
        /// Spacing found.
        spacing: f64,
    },
    /// A profile does not fit its edge.
    #[error(
        "the profile of the {} edge has {}, expected {expected}, one per node of the edge",
        edge.as_str(), format_count(*found as u64, "value", "values")
    )]
    ProfileLength {
        /// The edge.
        edge: Edge,
        /// Values found.
        found: usize,
        /// Nodes of the edge.
        expected: usize,
    },
    /// A value on an edge is NaN or infinite.
    #[error("the {} edge has the value {value} at node {node}, expected a finite number", edge.as_str())]
    BoundaryNotFinite {
        /// The edge.
        edge: Edge,
        /// Node along the edge.
        node: usize,
        /// Value found.
        value: f64,
    },
    /// Only one edge of a pair is periodic.
    #[error(
        "the {} edge is periodic and the {} edge is not, expected both or neither",
        periodic.as_str(), other.as_str()
    )]
    UnpairedPeriodic {
        /// The periodic edge.
        periodic: Edge,
        /// The opposite edge.
        other: Edge,
    },
}

#[cfg(test)]
mod tests;
