//! A wave problem and its checks.

use orrery_model::Precision;
use orrery_model::analysis::max_or_nan;
use orrery_model::wave::{AXIS_NAMES, Sides, VelocityModel, WaveGrid, Wavelet};
use rayon::prelude::*;

use super::{SpaceOrder, TimeDispersion, WaveError};

pub(super) use orrery_model::wave::VELOCITIES;

/// Velocity of the medium.
#[derive(Clone, Debug, PartialEq)]
pub enum Velocity {
    /// The same everywhere.
    Uniform(f64),
    /// One value per node.
    Field(Vec<f64>),
}

impl Velocity {
    /// Returns the velocities of a model on a grid.
    pub fn from_model(model: &VelocityModel, grid: &WaveGrid) -> Result<Self, WaveError> {
        Ok(match model {
            VelocityModel::Constant { velocity } => {
                model.validate(grid)?;
                Self::Uniform(*velocity)
            }
            _ => Self::Field(model.sample(grid)?),
        })
    }
}

/// A point source: the term f(t) δ(x − position) of the equation.
#[derive(Clone, Debug, PartialEq)]
pub struct WaveSource {
    /// Position within the grid. z is ignored in two dimensions.
    pub position: [f64; 3],
    /// Time function f.
    pub wavelet: Wavelet,
}

/// Rounding of the coefficients to f32 changes the limit by less than this fraction.
const STEP_MARGIN: f64 = 1e-6;

/// Smallest accepted (c dt/h0)². Its inverse stays in the range of f32.
const MIN_SQUARED_COURANT: f64 = 1e-30;

/// The equation, the medium, sources and receivers, and the precision. All values are checked.
#[derive(Clone, Debug, PartialEq)]
pub struct WaveProblem {
    grid: WaveGrid,
    sides: Sides,
    order: SpaceOrder,
    velocity: Velocity,
    velocity_range: [f64; 2],
    sources: Vec<WaveSource>,
    receivers: Vec<[f64; 3]>,
    precision: Precision,
    time_dispersion: TimeDispersion,
}

impl WaveProblem {
    /// Checks the parts of a problem and the agreement of their shapes.
    ///
    /// A velocity field has one value per node. `receivers` are positions within the grid. Their z
    /// is ignored in two dimensions.
    pub fn new(
        grid: WaveGrid,
        sides: Sides,
        order: SpaceOrder,
        velocity: Velocity,
        sources: Vec<WaveSource>,
        receivers: Vec<[f64; 3]>,
        precision: Precision,
    ) -> Result<Self, WaveError> {
        grid.validate()?;
        sides.validate(&grid)?;
        if precision == Precision::Mixed {
            return Err(WaveError::Precision(precision));
        }
        let velocity_range = check_velocity(&grid, &velocity)?;
        for (index, source) in sources.iter().enumerate() {
            check_position(&grid, "source", index, source.position)?;
            source.wavelet.validate().map_err(|error| WaveError::Wavelet { index, error })?;
        }
        for (index, position) in receivers.iter().enumerate() {
            check_position(&grid, "receiver", index, *position)?;
        }
        Ok(Self {
            grid,
            sides,
            order,
            velocity,
            velocity_range,
            sources,
            receivers,
            precision,
            time_dispersion: TimeDispersion::Raw,
        })
    }

    /// Returns the grid.
    pub fn grid(&self) -> &WaveGrid {
        &self.grid
    }

    /// Returns the conditions on the sides.
    pub fn sides(&self) -> &Sides {
        &self.sides
    }

    /// Returns the order in space.
    pub fn order(&self) -> SpaceOrder {
        self.order
    }

    /// Returns the velocity.
    pub fn velocity(&self) -> &Velocity {
        &self.velocity
    }

    /// Returns the smallest and the largest velocity.
    pub fn velocity_range(&self) -> [f64; 2] {
        self.velocity_range
    }

    /// Returns the sources.
    pub fn sources(&self) -> &[WaveSource] {
        &self.sources
    }

    /// Returns the positions of the receivers.
    pub fn receivers(&self) -> &[[f64; 3]] {
        &self.receivers
    }

    /// Returns the precision of state and arithmetic: single or double.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns the problem with this treatment of the error in time. That of a new problem is
    /// [`TimeDispersion::Raw`].
    pub fn with_time_dispersion(self, time_dispersion: TimeDispersion) -> Self {
        Self { time_dispersion, ..self }
    }

    /// Returns the treatment of the error in time.
    pub fn time_dispersion(&self) -> TimeDispersion {
        self.time_dispersion
    }

    /// Fails if there are no receivers.
    pub fn require_receivers(&self) -> Result<(), WaveError> {
        if self.receivers.is_empty() { Err(WaveError::NoReceivers) } else { Ok(()) }
    }

    /// Returns the longest stable step. It is one millionth below the limit of the exact weights,
    /// because the weights are rounded.
    pub fn max_stable_step(&self) -> f64 {
        let inverse_squares: f64 = self.grid.used_spacings().iter().map(|h| 1.0 / (h * h)).sum();
        let limit = self.order.courant_limit() / inverse_squares.sqrt();
        (1.0 - STEP_MARGIN) * limit / self.velocity_range[1]
    }

    /// Fails if `dt` is not positive, longer than the stability limit, or too short for f32.
    pub fn check_step(&self, dt: f64) -> Result<(), WaveError> {
        let max = self.max_stable_step();
        if !(dt > 0.0 && dt <= max) {
            return Err(WaveError::UnstableStep { dt, max });
        }
        let min = MIN_SQUARED_COURANT.sqrt() * self.grid.min_spacing() / self.velocity_range[0];
        if dt < min { Err(WaveError::ShortStep { dt, min }) } else { Ok(()) }
    }

    /// Returns the number of nodes per wavelength of a wave with this frequency, where the velocity
    /// is smallest and the spacing largest.
    pub fn points_per_wavelength(&self, frequency: f64) -> f64 {
        self.velocity_range[0] / (frequency * self.grid.max_spacing())
    }
}

/// Fails if a field does not have `expected` values.
pub(super) fn check_len(field: &str, found: usize, expected: usize) -> Result<(), WaveError> {
    if found == expected { Ok(()) } else { Err(WaveError::Length { field: field.into(), found, expected }) }
}

/// Checks the velocities and returns their range.
fn check_velocity(grid: &WaveGrid, velocity: &Velocity) -> Result<[f64; 2], WaveError> {
    match velocity {
        Velocity::Uniform(value) if VELOCITIES.contains(value) => Ok([*value; 2]),
        Velocity::Uniform(value) => Err(WaveError::Velocity { value: *value }),
        Velocity::Field(values) => {
            check_len("velocity", values.len(), grid.len())?;
            if let Some(index) = values.par_iter().position_first(|value| !VELOCITIES.contains(value)) {
                return Err(WaveError::NodeVelocity { value: values[index], node: grid.node(index) });
            }
            let min = values.par_iter().copied().reduce(|| f64::INFINITY, f64::min);
            Ok([min, values.par_iter().copied().reduce(|| 0.0, max_or_nan)])
        }
    }
}

fn check_position(
    grid: &WaveGrid,
    kind: &'static str,
    index: usize,
    position: [f64; 3],
) -> Result<(), WaveError> {
    let Some(axis) = grid.first_axis_outside(position) else { return Ok(()) };
    let (value, extent) = (position[axis], grid.extent(axis));
    Err(WaveError::Outside { kind, index, axis: AXIS_NAMES[axis], value, extent })
}
