//! The problem in the precision of its arithmetic, as solvers read it.

use orrery_model::grid::{Boundaries, Boundary, Edge, Grid};
use rayon::prelude::*;

use super::{Conductivity, HeatProblem};
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
    /// Source, one value per node.
    pub source: Option<Vec<R>>,
    /// g = 2 h q/k, indexed by [`Edge`]. One value per node of an edge with a flux, and empty for
    /// the other edges.
    pub ghost_offsets: [Vec<R>; 4],
}

/// Coefficients of a step of length dt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepCoefficients<R> {
    /// r_x = dt k/hx², or c_x = dt/hx² if the conductivity is not uniform.
    pub x: R,
    /// r_y = dt k/hy², or c_y = dt/hy² if the conductivity is not uniform.
    pub y: R,
    /// dt, the factor of the source.
    pub dt: R,
}

impl<R: Scalar> Plate<R> {
    /// Rounds `problem`, whose precision must be that of `R`.
    pub fn new(problem: &HeatProblem) -> Self {
        assert_eq!(problem.precision(), R::PRECISION);
        let (uniform_conductivity, resistivity) = match problem.conductivity() {
            Conductivity::Uniform(k) => (*k, None),
            Conductivity::Field(k) => (1.0, Some(k.par_iter().map(|k| R::from_f64(1.0 / k)).collect())),
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
            source: problem.source().map(|source| source.par_iter().map(|&s| R::from_f64(s)).collect()),
            ghost_offsets,
        }
    }

    /// Returns the coefficients of a step of length `dt`, computed in f64 and rounded.
    pub fn step_coefficients(&self, dt: f64) -> StepCoefficients<R> {
        let Grid { hx, hy, .. } = self.grid;
        let k = self.uniform_conductivity;
        StepCoefficients {
            x: R::from_f64(dt * k / (hx * hx)),
            y: R::from_f64(dt * k / (hy * hy)),
            dt: R::from_f64(dt),
        }
    }
}
