//! The problem in the precision of its arithmetic, as solvers read it.

use orrery_model::grid::{Boundaries, Boundary, Edge, Grid};
use rayon::prelude::*;

use super::{Conductivity, HeatCapacity, HeatProblem};
use crate::Scalar;

/// A heat problem without its state, rounded to the precision `R`.
#[derive(Clone, Debug)]
pub struct Plate<R> {
    /// The grid.
    pub grid: Grid,
    /// Conditions on the edges. Solvers read their kind only: the state contains fixed values, and
    /// fluxes are in `ghost_offsets`.
    pub boundaries: Boundaries,
    /// Conductivity if it is uniform.
    pub uniform_conductivity: f64,
    /// ρ = 1/k, one value per node, if the conductivity is not uniform.
    pub resistivity: Option<Vec<R>>,
    /// Heat capacity if it is uniform, otherwise the smallest one of all nodes.
    pub heat_capacity: f64,
    /// w = c_min/c, one value per node, if the heat capacity is not uniform. Then there is a
    /// `resistivity` too.
    pub capacity_ratio: Option<Vec<R>>,
    /// Source, one value per node.
    pub source: Option<Vec<R>>,
    /// g = 2 h q/k, indexed by [`Edge`]. One value per node of an edge with a flux, and empty for
    /// the other edges.
    pub ghost_offsets: [Vec<R>; 4],
}

/// Coefficients of a step of length dt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepCoefficients<R> {
    /// r_x = dt k/(c hx²), or c_x = dt/(c hx²) if the conductivity is not uniform.
    pub x: R,
    /// r_y = dt k/(c hy²), or c_y = dt/(c hy²) if the conductivity is not uniform.
    pub y: R,
    /// dt/c, the factor of the source.
    pub dt: R,
}

/// Fields that a problem has in addition to its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlateFields {
    /// A conductivity per node.
    pub conductivity: bool,
    /// A heat capacity per node. Then there is a conductivity per node too.
    pub heat_capacity: bool,
    /// A source per node.
    pub source: bool,
}

impl PlateFields {
    /// Returns the number of fields.
    pub fn count(self) -> u64 {
        u64::from(self.conductivity) + u64::from(self.heat_capacity) + u64::from(self.source)
    }
}

impl<R: Scalar> Plate<R> {
    /// Rounds `problem`, whose precision must be that of `R`.
    pub fn new(problem: &HeatProblem) -> Self {
        assert_eq!(problem.precision(), R::PRECISION);
        let (uniform_conductivity, resistivity) = match problem.conductivity() {
            Conductivity::Uniform(k) => (*k, None),
            Conductivity::Field(k) => (1.0, Some(k.par_iter().map(|k| R::from_f64(1.0 / k)).collect())),
        };
        let (heat_capacity, capacity_ratio) = match problem.heat_capacity() {
            HeatCapacity::Uniform(c) => (*c, None),
            HeatCapacity::Field(c) => {
                let least = c.iter().copied().fold(f64::INFINITY, f64::min);
                (least, Some(c.par_iter().map(|c| R::from_f64(least / c)).collect()))
            }
        };
        let ghost_offsets = Edge::ALL.map(|edge| match problem.boundaries().on(edge) {
            Boundary::Flux(_) => {
                (0..edge.nodes(problem.grid())).map(|k| R::from_f64(problem.ghost_offset(edge, k))).collect()
            }
            _ => Vec::new(),
        });
        Self {
            grid: *problem.grid(),
            boundaries: problem.boundaries().clone(),
            uniform_conductivity,
            resistivity,
            heat_capacity,
            capacity_ratio,
            source: problem.source().map(|source| source.par_iter().map(|&s| R::from_f64(s)).collect()),
            ghost_offsets,
        }
    }

    /// Returns the coefficients of a step of length `dt`, computed in f64 and rounded.
    pub fn step_coefficients(&self, dt: f64) -> StepCoefficients<R> {
        let Grid { hx, hy, .. } = self.grid;
        let (k, c) = (self.uniform_conductivity, self.heat_capacity);
        StepCoefficients {
            x: R::from_f64(dt * k / (c * (hx * hx))),
            y: R::from_f64(dt * k / (c * (hy * hy))),
            dt: R::from_f64(dt / c),
        }
    }

    /// Returns which fields the problem has.
    pub fn fields(&self) -> PlateFields {
        PlateFields {
            conductivity: self.resistivity.is_some(),
            heat_capacity: self.capacity_ratio.is_some(),
            source: self.source.is_some(),
        }
    }
}
