//! Initial states of a field on a grid.
//!
//! Sines and exponentials come from `libm`, so the bits are the same on every machine.

use std::f64::consts::PI;

use thiserror::Error;

use super::{Boundaries, Grid};
use crate::short_number;

/// Initial state of a field.
///
/// ```
/// use orrery_model::grid::{Boundaries, Boundary, Grid, InitialField};
///
/// let grid = Grid { nx: 5, ny: 5, hx: 0.25, hy: 0.25 };
/// let edges = Boundaries::uniform(Boundary::fixed(0.0));
/// let mode = InitialField::SineMode { m: 1, n: 1, amplitude: 2.0 };
/// let field = mode.sample(&grid, &edges)?;
/// assert_eq!(field[grid.index(2, 2)], 2.0);
/// assert_eq!(field[grid.index(4, 2)], 0.0);
/// # Ok::<(), orrery_model::grid::InitialFieldError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InitialField {
    /// The same value everywhere.
    Uniform {
        /// The value.
        value: f64,
    },
    /// amplitude × sin(m π x/Lx) sin(n π y/Ly), where Lx and Ly are the extents of the plate.
    /// Between periodic edges m or n must be even.
    SineMode {
        /// Half waves along x.
        m: u32,
        /// Half waves along y.
        n: u32,
        /// Largest value.
        amplitude: f64,
    },
    /// A hot region in a plate of uniform temperature.
    HotSpot {
        /// Form of the region.
        shape: SpotShape,
        /// Coordinates of its centre. Between periodic edges, distances are those to the nearest
        /// image.
        centre: [f64; 2],
        /// Radius of a disc, or the standard deviation of a Gaussian.
        radius: f64,
        /// Temperature at the centre.
        value: f64,
        /// Temperature far away.
        background: f64,
    },
    /// Squares of two temperatures. The south-west square has the first one.
    Checkerboard {
        /// Squares along x.
        columns: u32,
        /// Squares along y.
        rows: u32,
        /// The two temperatures.
        values: [f64; 2],
    },
}

/// Form of a hot spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpotShape {
    /// exp(−d²/2 radius²) at distance d from the centre.
    Gaussian,
    /// 1 within the radius and 0 outside.
    Disc,
}

/// Reason why an initial state cannot be computed.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum InitialFieldError {
    /// A parameter is not a usable number.
    #[error("{name} is {}, expected {expected}", short_number(*value))]
    Parameter {
        /// Name of the parameter, for example "radius".
        name: &'static str,
        /// Value found.
        value: f64,
        /// Values that are accepted.
        expected: &'static str,
    },
    /// A sine mode does not fit between periodic edges.
    #[error("{name} = {value} half waves do not fit between periodic edges, expected an even number")]
    OddMode {
        /// m or n.
        name: &'static str,
        /// Value found.
        value: u32,
    },
}

impl InitialField {
    /// Returns the values of all nodes.
    pub fn sample(&self, grid: &Grid, boundaries: &Boundaries) -> Result<Vec<f64>, InitialFieldError> {
        self.validate(boundaries)?;
        let mut values = vec![0.0; grid.len()];
        for (j, row) in values.chunks_exact_mut(grid.nx).enumerate() {
            self.sample_row(grid, boundaries, j, row);
        }
        Ok(values)
    }

    /// Writes the values of row `j` to `row`, which has `grid.nx` elements. The parameters must be
    /// valid.
    pub fn sample_row(&self, grid: &Grid, boundaries: &Boundaries, j: usize, row: &mut [f64]) {
        let periodic = [boundaries.is_periodic_in_x(), boundaries.is_periodic_in_y()];
        let spaces = |nodes: usize, is_periodic: bool| if is_periodic { nodes } else { nodes - 1 };
        let spaces = [spaces(grid.nx, periodic[0]), spaces(grid.ny, periodic[1])];
        let extents = grid.extents(boundaries);
        let value = |node: [usize; 2]| match *self {
            Self::Uniform { value } => value,
            Self::SineMode { m, n, amplitude } => {
                amplitude * sine(m, node[0], spaces[0]) * sine(n, node[1], spaces[1])
            }
            Self::HotSpot { shape, centre, radius, value, background } => {
                let position = [node[0] as f64 * grid.hx, node[1] as f64 * grid.hy];
                let d2: f64 = (0..2)
                    .map(|k| distance(position[k] - centre[k], extents[k], periodic[k]))
                    .map(|d| d * d)
                    .sum();
                let weight = match shape {
                    SpotShape::Gaussian => libm::exp(-0.5 * d2 / (radius * radius)),
                    SpotShape::Disc => f64::from(u8::from(d2 <= radius * radius)),
                };
                background + (value - background) * weight
            }
            Self::Checkerboard { columns, rows, values } => {
                let square = [square_of(node[0], spaces[0], columns), square_of(node[1], spaces[1], rows)];
                values[(square[0] + square[1]) % 2]
            }
        };
        row.iter_mut().enumerate().for_each(|(i, u)| *u = value([i, j]));
    }

    /// Checks the parameters.
    pub fn validate(&self, boundaries: &Boundaries) -> Result<(), InitialFieldError> {
        match *self {
            Self::Uniform { value } => check_finite("value", value),
            Self::SineMode { m, n, amplitude } => {
                for (name, value, is_periodic) in
                    [("m", m, boundaries.is_periodic_in_x()), ("n", n, boundaries.is_periodic_in_y())]
                {
                    check(name, f64::from(value), value > 0, "a number of at least 1")?;
                    if is_periodic && value % 2 == 1 {
                        return Err(InitialFieldError::OddMode { name, value });
                    }
                }
                check_finite("amplitude", amplitude)
            }
            Self::HotSpot { centre, radius, value, background, .. } => {
                check_finite("centre x", centre[0])?;
                check_finite("centre y", centre[1])?;
                check("radius", radius, (1e-100..=1e100).contains(&radius), "a number from 1e-100 to 1e100")?;
                check_finite("value", value)?;
                check_finite("background", background)
            }
            Self::Checkerboard { columns, rows, values } => {
                check("columns", f64::from(columns), columns > 0, "a number of at least 1")?;
                check("rows", f64::from(rows), rows > 0, "a number of at least 1")?;
                check_finite("first value", values[0])?;
                check_finite("second value", values[1])
            }
        }
    }
}

fn check(
    name: &'static str,
    value: f64,
    is_accepted: bool,
    expected: &'static str,
) -> Result<(), InitialFieldError> {
    if is_accepted { Ok(()) } else { Err(InitialFieldError::Parameter { name, value, expected }) }
}

fn check_finite(name: &'static str, value: f64) -> Result<(), InitialFieldError> {
    check(name, value, value.is_finite(), "a finite number")
}

/// Returns sin(half_waves π k/spaces), which is exactly 0 at its nodes and symmetric about its
/// maxima.
fn sine(half_waves: u32, k: usize, spaces: usize) -> f64 {
    // Position within a full wave of 2 × spaces, then within its first half, then its first
    // quarter.
    let k = (half_waves as usize * k) % (2 * spaces);
    let (k, sign) = if k < spaces { (k, 1.0) } else { (k - spaces, -1.0) };
    sign * libm::sin(PI * k.min(spaces - k) as f64 / spaces as f64)
}

/// Returns the distance along one axis, to the nearest image between periodic edges.
fn distance(d: f64, extent: f64, is_periodic: bool) -> f64 {
    if is_periodic { d - extent * libm::round(d / extent) } else { d }
}

/// Returns the square of node `k`, where `spaces` spaces are divided into `squares` squares.
fn square_of(k: usize, spaces: usize, squares: u32) -> usize {
    (k * squares as usize / spaces).min(squares as usize - 1)
}

#[cfg(test)]
mod tests {
    use super::super::Boundary;
    use super::*;

    const GRID: Grid = Grid { nx: 9, ny: 5, hx: 0.125, hy: 0.5 };

    fn insulated() -> Boundaries {
        Boundaries::uniform(Boundary::INSULATED)
    }

    fn periodic() -> Boundaries {
        Boundaries::uniform(Boundary::Periodic)
    }

    #[test]
    fn sine_mode_is_the_product_of_sines_and_exactly_zero_on_edges() {
        let field =
            InitialField::SineMode { m: 3, n: 1, amplitude: 2.0 }.sample(&GRID, &insulated()).unwrap();
        for index in 0..GRID.len() {
            let [x, y] = GRID.coordinates(index);
            let expected = 2.0 * (3.0 * PI * x).sin() * (0.5 * PI * y).sin();
            // The argument 3 π x, at most 9.4, is rounded.
            assert!((field[index] - expected).abs() < 32.0 * f64::EPSILON, "{x} {y}");
            let [i, j] = GRID.node(index);
            if i == 0 || i == 8 || j == 0 || j == 4 {
                assert_eq!(field[index], 0.0);
            }
        }
        // A periodic plate is one space wider.
        let field = InitialField::SineMode { m: 2, n: 2, amplitude: 1.0 }.sample(&GRID, &periodic()).unwrap();
        let expected = (2.0 * PI * 2.0 / 9.0).sin() * (2.0 * PI * 4.0 / 5.0).sin();
        assert!((field[GRID.index(2, 4)] - expected).abs() < 16.0 * f64::EPSILON);
    }

    #[test]
    fn hot_spot_has_its_value_at_the_centre_and_the_background_far_away() {
        let spot =
            |shape, centre| InitialField::HotSpot { shape, centre, radius: 0.2, value: 5.0, background: 1.0 };
        let disc = spot(SpotShape::Disc, [0.5, 1.0]).sample(&GRID, &insulated()).unwrap();
        let hot: Vec<usize> = (0..GRID.len()).filter(|&k| disc[k] == 5.0).collect();
        assert_eq!(hot, [GRID.index(3, 2), GRID.index(4, 2), GRID.index(5, 2)]);
        assert_eq!(disc.iter().filter(|&&u| u == 1.0).count(), GRID.len() - 3);
        let gaussian = spot(SpotShape::Gaussian, [0.5, 1.0]).sample(&GRID, &insulated()).unwrap();
        assert_eq!(gaussian[GRID.index(4, 2)], 5.0);
        let expected = 1.0 + 4.0 * (-0.5f64 * (0.125f64 / 0.2).powi(2)).exp();
        assert!((gaussian[GRID.index(3, 2)] - expected).abs() < 1e-14);
        assert!((gaussian[0] - 1.0).abs() < 1e-4);
        // Between periodic edges a spot at the west edge also heats the east side.
        let wrapped = spot(SpotShape::Gaussian, [0.0, 0.0]).sample(&GRID, &periodic()).unwrap();
        assert_eq!(wrapped[GRID.index(1, 0)], wrapped[GRID.index(8, 0)]);
    }

    #[test]
    fn checkerboard_has_its_squares() {
        let board = InitialField::Checkerboard { columns: 4, rows: 2, values: [0.0, 1.0] };
        let field = board.sample(&GRID, &insulated()).unwrap();
        let row = |j: usize| field[j * 9..][..9].to_vec();
        assert_eq!(row(0), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        assert_eq!(row(3), [1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
        assert_eq!(InitialField::Uniform { value: 3.0 }.sample(&GRID, &insulated()).unwrap(), [3.0; 45]);
    }

    #[test]
    fn bad_parameters_are_refused_with_their_name() {
        let message = |initial: InitialField| initial.sample(&GRID, &periodic()).unwrap_err().to_string();
        assert_eq!(
            message(InitialField::Uniform { value: f64::NAN }),
            "value is NaN, expected a finite number"
        );
        assert_eq!(
            message(InitialField::SineMode { m: 2, n: 0, amplitude: 1.0 }),
            "n is 0, expected a number of at least 1"
        );
        assert_eq!(
            message(InitialField::SineMode { m: 3, n: 2, amplitude: 1.0 }),
            "m = 3 half waves do not fit between periodic edges, expected an even number"
        );
        let spot = |radius| InitialField::HotSpot {
            shape: SpotShape::Disc,
            centre: [0.0; 2],
            radius,
            value: 1.0,
            background: 0.0,
        };
        assert_eq!(message(spot(-1.0)), "radius is -1, expected a number from 1e-100 to 1e100");
        assert_eq!(message(spot(1e200)), "radius is 1e200, expected a number from 1e-100 to 1e100");
        assert_eq!(
            message(InitialField::Checkerboard { columns: 0, rows: 1, values: [0.0; 2] }),
            "columns is 0, expected a number of at least 1"
        );
    }
}
