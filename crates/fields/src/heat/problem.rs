//! A heat problem and its checks.

use std::ops::RangeInclusive;

use orrery_model::Precision;
use orrery_model::analysis::max_or_nan;
use orrery_model::grid::{Boundaries, Boundary, Edge, Grid};
use rayon::prelude::*;

use super::{HeatCapacity, HeatError, PlateFields};
use crate::search::first_rejected;

/// Conductivity of the plate.
#[derive(Clone, Debug, PartialEq)]
pub enum Conductivity {
    /// The same everywhere.
    Uniform(f64),
    /// One value per node.
    Field(Vec<f64>),
}

/// Accepted conductivities. Their inverse and their product with a temperature stay in the range of
/// f32.
pub const CONDUCTIVITIES: RangeInclusive<f64> = 1e-20..=1e20;

/// The equation, the plate and the precision. All values are checked.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatProblem {
    grid: Grid,
    boundaries: Boundaries,
    conductivity: Conductivity,
    heat_capacity: HeatCapacity,
    source: Option<Vec<f64>>,
    precision: Precision,
    max_stable_step: f64,
}

impl HeatProblem {
    /// Checks the parts of a problem and the agreement of their shapes. The heat capacity is 1.
    ///
    /// A conductivity field and `source` have one value per node. The source is a heat per time and
    /// area. With heat capacity 1 this is a temperature per time.
    pub fn new(
        grid: Grid,
        boundaries: Boundaries,
        conductivity: Conductivity,
        source: Option<Vec<f64>>,
        precision: Precision,
    ) -> Result<Self, HeatError> {
        grid.validate()?;
        boundaries.validate(&grid)?;
        if precision == Precision::Mixed {
            return Err(HeatError::Precision(precision));
        }
        let heat_capacity = HeatCapacity::Uniform(1.0);
        let mut problem =
            Self { grid, boundaries, conductivity, heat_capacity, source, precision, max_stable_step: 0.0 };
        problem.check_conductivity()?;
        problem.check_boundary_values()?;
        if let Some(source) = &problem.source {
            problem.check_field("source", source)?;
        }
        problem.max_stable_step = 1.0 / problem.largest_rate();
        Ok(problem)
    }

    /// Sets the heat capacity and checks it. A field with equal values becomes a uniform one. With
    /// a field the conductivity becomes a field too, because solvers have no other form.
    pub fn with_heat_capacity(mut self, heat_capacity: HeatCapacity) -> Result<Self, HeatError> {
        if heat_capacity == self.heat_capacity {
            return Ok(self);
        }
        if let HeatCapacity::Field(values) = &heat_capacity {
            self.check_len("heat capacity", values.len())?;
        }
        heat_capacity.check(&self.grid)?;
        self.heat_capacity = heat_capacity.simplified();
        if let (HeatCapacity::Field(_), Conductivity::Uniform(k)) = (&self.heat_capacity, &self.conductivity)
        {
            self.conductivity = Conductivity::Field(vec![*k; self.grid.len()]);
        }
        self.max_stable_step = 1.0 / self.largest_rate();
        Ok(self)
    }

    /// Returns the grid.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the conditions on the edges.
    pub fn boundaries(&self) -> &Boundaries {
        &self.boundaries
    }

    /// Returns the conductivity.
    pub fn conductivity(&self) -> &Conductivity {
        &self.conductivity
    }

    /// Returns the heat capacity per area.
    pub fn heat_capacity(&self) -> &HeatCapacity {
        &self.heat_capacity
    }

    /// Returns the heat capacity of the plate: Σ c w_x w_y hx hy, where w is 1/2 on edges that are
    /// not periodic.
    pub fn total_heat_capacity(&self) -> f64 {
        match &self.heat_capacity {
            HeatCapacity::Uniform(c) => {
                let [width, height] = self.grid.extents(&self.boundaries);
                width * height * c
            }
            HeatCapacity::Field(c) => self.weighted_sum(|node| c[node]) * (self.grid.hx * self.grid.hy),
        }
    }

    /// Returns Σ f w_x w_y over all nodes. The sum has a fixed order.
    pub(super) fn weighted_sum(&self, value: impl Fn(usize) -> f64 + Sync) -> f64 {
        let Grid { nx, ny, .. } = self.grid;
        let weight = |k: usize, n: usize, is_periodic: bool| {
            if !is_periodic && (k == 0 || k == n - 1) { 0.5 } else { 1.0 }
        };
        let row_sum = |j: usize| {
            let of_node = |i: usize| weight(i, nx, self.boundaries.is_periodic_in_x()) * value(j * nx + i);
            weight(j, ny, self.boundaries.is_periodic_in_y()) * (0..nx).map(of_node).sum::<f64>()
        };
        let rows: Vec<f64> = (0..ny).into_par_iter().map(row_sum).collect();
        rows.iter().sum()
    }

    /// Returns which properties differ between nodes.
    pub fn fields(&self) -> PlateFields {
        PlateFields {
            conductivity: matches!(self.conductivity, Conductivity::Field(_)),
            heat_capacity: matches!(self.heat_capacity, HeatCapacity::Field(_)),
            source: self.source.is_some(),
        }
    }

    /// Returns the source, one value per node.
    pub fn source(&self) -> Option<&[f64]> {
        self.source.as_deref()
    }

    /// Returns the precision of state and arithmetic: single or double.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns the longest step for which the scheme is stable and, without flux and source, no new
    /// extremum appears.
    pub fn max_stable_step(&self) -> f64 {
        self.max_stable_step
    }

    /// Fails if `dt` is not positive or longer than the stability limit.
    pub fn check_step(&self, dt: f64) -> Result<(), HeatError> {
        check_step(dt, self.max_stable_step)
    }

    /// Checks an initial state: one finite value per node.
    pub fn check_initial(&self, initial: &[f64]) -> Result<(), HeatError> {
        self.check_field("initial state", initial)
    }

    /// Fails if `field` has the wrong length, or a value that is not finite in the precision.
    pub(super) fn check_field(&self, name: &'static str, field: &[f64]) -> Result<(), HeatError> {
        self.check_len(name, field.len())?;
        match first_rejected(field, |value| self.is_finite(value)) {
            Some(index) => Err(HeatError::not_finite(name, &self.grid, index, field[index], self.precision)),
            None => Ok(()),
        }
    }

    /// Fails if a field does not have one value per node.
    pub(super) fn check_len(&self, field: &'static str, found: usize) -> Result<(), HeatError> {
        let Grid { nx, ny, .. } = self.grid;
        if found == self.grid.len() {
            return Ok(());
        }
        Err(HeatError::Length { field, found, expected: self.grid.len(), nx, ny })
    }

    /// Returns true if `value` is finite after rounding to the precision.
    fn is_finite(&self, value: f64) -> bool {
        match self.precision {
            Precision::Single => (value as f32).is_finite(),
            _ => value.is_finite(),
        }
    }

    fn check_conductivity(&self) -> Result<(), HeatError> {
        match &self.conductivity {
            Conductivity::Uniform(value) if CONDUCTIVITIES.contains(value) => Ok(()),
            Conductivity::Uniform(value) => Err(HeatError::Conductivity { value: *value }),
            Conductivity::Field(values) => {
                self.check_len("conductivity", values.len())?;
                match first_rejected(values, |value| CONDUCTIVITIES.contains(&value)) {
                    Some(index) => {
                        let [i, j] = self.grid.node(index);
                        Err(HeatError::NodeConductivity { value: values[index], i, j })
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// Checks that fixed values and the temperature differences of fluxes are finite in the
    /// precision.
    fn check_boundary_values(&self) -> Result<(), HeatError> {
        for edge in Edge::ALL {
            let (name, values) = match self.boundaries.on(edge) {
                Boundary::Fixed(values) => ("boundary value", values),
                Boundary::Flux(values) => ("boundary flux", values),
                Boundary::Periodic => continue,
            };
            for k in 0..edge.nodes(&self.grid) {
                let value = values.at(k);
                let needed = match name {
                    "boundary flux" => self.ghost_offset(edge, k),
                    _ => value,
                };
                if !self.is_finite(needed) {
                    let index = edge.index(&self.grid, k);
                    return Err(HeatError::not_finite(name, &self.grid, index, value, self.precision));
                }
            }
        }
        Ok(())
    }

    /// Returns the conductivity of the face between two nodes: the harmonic mean.
    pub(super) fn face_conductivity(&self, a: usize, b: usize) -> f64 {
        match &self.conductivity {
            Conductivity::Uniform(k) => *k,
            Conductivity::Field(k) => 2.0 / (1.0 / k[a] + 1.0 / k[b]),
        }
    }

    /// Returns g = 2 h q/k of node `k` of an edge: the difference between the missing neighbour and
    /// the neighbour on the other side. It is zero if the edge has no flux.
    pub(super) fn ghost_offset(&self, edge: Edge, k: usize) -> f64 {
        let Boundary::Flux(values) = self.boundaries.on(edge) else { return 0.0 };
        let index = edge.index(&self.grid, k);
        let (inner, h) = match edge {
            Edge::West => (index + 1, self.grid.hx),
            Edge::East => (index - 1, self.grid.hx),
            Edge::South => (index + self.grid.nx, self.grid.hy),
            Edge::North => (index - self.grid.nx, self.grid.hy),
        };
        2.0 * h * values.at(k) / self.face_conductivity(index, inner)
    }

    /// Returns the largest ((k_E + k_W)/hx² + (k_N + k_S)/hy²)/c of any free node.
    fn largest_rate(&self) -> f64 {
        let Grid { nx, hx, hy, .. } = self.grid;
        let (x_weight, y_weight) = (1.0 / (hx * hx), 1.0 / (hy * hy));
        if let (Conductivity::Uniform(k), HeatCapacity::Uniform(c)) =
            (&self.conductivity, &self.heat_capacity)
        {
            return 2.0 * k * (x_weight + y_weight) / c;
        }
        let columns = self.boundaries.free_columns(&self.grid);
        let largest_of_row = |j: usize| {
            let [south, north] = self.neighbour_rows(j);
            let rate = |i: usize| {
                let node = j * nx + i;
                let [west, east] = self.neighbour_columns(i);
                let face = |neighbour| self.face_conductivity(node, neighbour);
                let flux = (face(j * nx + west) + face(j * nx + east)) * x_weight
                    + (face(south * nx + i) + face(north * nx + i)) * y_weight;
                flux / self.heat_capacity.at(node)
            };
            columns.clone().map(rate).fold(0.0, max_or_nan)
        };
        self.boundaries.free_rows(&self.grid).into_par_iter().map(largest_of_row).reduce(|| 0.0, max_or_nan)
    }

    /// Returns the columns of the west and east neighbours of column `i`. Beyond an edge with a
    /// flux it is the mirror image.
    fn neighbour_columns(&self, i: usize) -> [usize; 2] {
        neighbours(i, self.grid.nx, self.boundaries.is_periodic_in_x())
    }

    /// Returns the rows of the south and north neighbours of row `j`, like
    /// [`Self::neighbour_columns`].
    fn neighbour_rows(&self, j: usize) -> [usize; 2] {
        neighbours(j, self.grid.ny, self.boundaries.is_periodic_in_y())
    }
}

/// Fails if `dt` is not positive or longer than `max`, the largest stable step.
pub(super) fn check_step(dt: f64, max: f64) -> Result<(), HeatError> {
    if dt > 0.0 && dt <= max { Ok(()) } else { Err(HeatError::UnstableStep { dt, max }) }
}

/// Returns the neighbours of position `k` among `n`. Beyond an edge they are the node on the other
/// end if the direction is periodic, and the mirror image otherwise.
pub(super) fn neighbours(k: usize, n: usize, is_periodic: bool) -> [usize; 2] {
    let (before_first, after_last) = if is_periodic { (n - 1, 0) } else { (1, n - 2) };
    [if k == 0 { before_first } else { k - 1 }, if k == n - 1 { after_last } else { k + 1 }]
}
