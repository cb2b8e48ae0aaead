//! Runs of wave fields on the CPU and on every available device, and exact solutions.
//!
//! # Exact solutions of the scheme
//!
//! The scheme replaces the frequency ω by ω' = (2/dt) sin(ω dt/2), and the squared wave number
//! (α/h)² of an axis by λ(α)/h². The second is a truncated series of α² = 4 arcsin²(sin α/2):
//!
//!   λ(α) = 2 Σ_(m=1…p) (2 sin α/2)^(2m) / (m² C(2m, m))   for order 2p.
//!
//! A mode Π cos(α_a i_a) between rigid sides is an eigenvector, because its images continue it, so
//! u^(n+1) = 2 cos(θ) u^n − u^(n−1) with 4 sin²(θ/2) = v Λ and Λ = Σ (h0/h_a)² λ(α_a).
//!
//! A source with the time function f gives û = f(ω) G(ω'), where G is the Green function of the
//! equation, up to the error in space. ω' is ω − ω³ dt²/24 and terms of higher order, so a
//! contribution of age T, which is r/c for a pulse, is Σ (−s)^k/k! f^(3k)(t − T) with s = T dt²/24:
//! waves arrive earlier, and keep their amplitude.

use std::f64::consts::PI;

use orrery_device::Device;
use orrery_device::testing::test_devices_with_f64;
use orrery_fields::FieldColumn;
use orrery_fields::wave::{
    SpaceOrder, Velocity, WaveDeviceSetup, WaveError, WaveField, WaveMeasures, WaveProblem, WaveSource,
};
use orrery_model::Precision;
use orrery_model::wave::{Sides, WaveGrid, Wavelet};

/// Parts of a problem. [`Waves::new`] has values for those that a test does not need.
#[derive(Clone, Debug)]
pub struct Waves {
    /// The grid.
    pub grid: WaveGrid,
    /// Conditions on the sides.
    pub sides: Sides,
    /// Order in space.
    pub order: SpaceOrder,
    /// Velocity.
    pub velocity: Velocity,
    /// Sources.
    pub sources: Vec<WaveSource>,
    /// Positions of receivers.
    pub receivers: Vec<[f64; 3]>,
    /// Precision.
    pub precision: Precision,
}

impl Waves {
    /// Returns a problem of order 8 in double precision with velocity 1, without sources and
    /// receivers.
    pub fn new(grid: WaveGrid, sides: Sides) -> Self {
        Self {
            grid,
            sides,
            order: SpaceOrder::Eighth,
            velocity: Velocity::Uniform(1.0),
            sources: Vec::new(),
            receivers: Vec::new(),
            precision: Precision::Double,
        }
    }

    /// Checks the parts.
    ///
    /// # Panics
    /// If the problem is refused.
    pub fn problem(&self) -> WaveProblem {
        let Self { grid, sides, order, velocity, sources, receivers, precision } = self.clone();
        WaveProblem::new(grid, sides, order, velocity, sources, receivers, precision)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Computes `steps` steps of a field at rest, see [`run_everywhere`].
    pub fn run(&self, dt: f64, steps: u64) -> WaveField {
        run_everywhere(&self.problem(), dt, None, &[steps], |_| ())
    }

    /// Returns the seismograms of [`Waves::run`], one per receiver.
    ///
    /// # Panics
    /// If the run fails.
    pub fn seismograms(&self, dt: f64, steps: u64) -> Vec<Vec<f64>> {
        self.run(dt, steps).seismograms().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Computes `steps` steps of a field that is `mode` at time 0 and `before` times `mode` one
    /// step earlier. Returns the seismograms, whose first samples are 0.
    ///
    /// # Panics
    /// If the run fails.
    pub fn mode_seismograms(&self, dt: f64, steps: u64, mode: &[f64], before: f64) -> Vec<Vec<f64>> {
        let previous = mode.iter().map(|u| before * u).collect();
        let field = run_everywhere(&self.problem(), dt, Some([mode.to_vec(), previous]), &[steps], |_| ());
        field.seismograms().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns Λ of the mode with phase `phases[a]` per node of axis a.
    pub fn eigenvalue(&self, phases: [f64; 3]) -> f64 {
        let smallest = self.grid.min_spacing();
        let axis =
            |axis: usize| (smallest / self.grid.spacing[axis]).powi(2) * symbol(self.order, phases[axis]);
        (0..self.grid.dimensions()).map(axis).sum()
    }

    /// Returns the mode with phase `phases[a]` per node of axis a, at all nodes.
    pub fn mode(&self, phases: [f64; 3]) -> Vec<f64> {
        let value = |index: usize| {
            let node = self.grid.node(index);
            (0..self.grid.dimensions()).map(|axis| (phases[axis] * node[axis] as f64).cos()).product()
        };
        (0..self.grid.len()).map(value).collect()
    }
}

/// Returns λ(α), the eigenvalue of the second derivative times −h².
pub fn symbol(order: SpaceOrder, phase: f64) -> f64 {
    let squared = (2.0 * (0.5 * phase).sin()).powi(2);
    let (mut sum, mut power, mut binomial) = (0.0, 1.0, 1.0);
    for m in 1..=order.radius() {
        let m = m as f64;
        power *= squared;
        binomial *= (2.0 * m) * (2.0 * m - 1.0) / (m * m);
        sum += 2.0 * power / (m * m * binomial);
    }
    sum
}

/// Rounding error of one operation.
pub fn rounding_unit(precision: Precision) -> f64 {
    match precision {
        Precision::Single => f64::from(f32::EPSILON) / 2.0,
        _ => f64::EPSILON / 2.0,
    }
}

/// Returns a bound of the error that rounding causes in `steps` steps of a field of at most
/// `largest`.
///
/// A step rounds the sum of the stencil at most 25 times, where |W| + 2 Σ |w_r| <= 4/v, so v times
/// that error is at most 4 × 13 units for the 13 terms and 4 for their pairs. The rest of the step
/// adds 4. An error of one step grows at most linearly, because sin(n θ)/sin θ <= n.
pub fn rounding_bound(precision: Precision, steps: u64, largest: f64) -> f64 {
    30.0 * rounding_unit(precision) * (steps as f64).powi(2) * largest
}

/// Returns a bound of the error that rounding causes where the errors of nodes and steps are
/// independent.
///
/// A step has an error of about 1.2 units at each node: two roundings of u, and the largest partial
/// sums of the stencil. Independent errors are spread over all modes, of which few grow. They add
/// up to √steps times that of one step. The bound is 7 standard deviations of this estimate.
pub fn rounding_noise(precision: Precision, steps: u64, largest: f64) -> f64 {
    8.0 * rounding_unit(precision) * (steps as f64).sqrt() * largest
}

/// Computes a field on the CPU and on every device with f64, up to each of the steps `stops`.
///
/// `start` has u at the times 0 and −dt. Without it, the field is at rest. At each stop, `visit`
/// gets the measures of each target. The complete state must have the same bits on all targets.
/// Returns the field on the CPU.
///
/// # Panics
/// If a run fails or a state differs.
pub fn run_everywhere(
    problem: &WaveProblem,
    dt: f64,
    start: Option<[Vec<f64>; 2]>,
    stops: &[u64],
    mut visit: impl FnMut(WaveMeasures),
) -> WaveField {
    let mut run = |device: Option<&Device>| {
        let mut field = started(problem, dt, start.clone())?;
        if let Some(device) = device {
            field = field.moved_to(device, Some(WaveDeviceSetup::new(device, problem).strategy))?;
        }
        for stop in stops {
            field.advance(dt, stop - field.step())?;
            visit(field.now().measures()?);
        }
        field.now().check_finite()?;
        Ok::<_, WaveError>(field)
    };
    let host = run(None).unwrap_or_else(|error| panic!("{error}"));
    for device in test_devices_with_f64() {
        let field = run(Some(&device)).unwrap_or_else(|error| panic!("{}: {error}", device.title()));
        let is_same = field.columns().unwrap_or_else(|error| panic!("{error}"))
            == host.columns().unwrap_or_else(|error| panic!("{error}"));
        assert!(is_same, "{}: the state differs from that of the CPU", device.title());
    }
    host
}

/// Returns a field on the host.
fn started(problem: &WaveProblem, dt: f64, start: Option<[Vec<f64>; 2]>) -> Result<WaveField, WaveError> {
    let field = WaveField::new(problem, dt, None)?;
    let Some(start) = start else { return Ok(field) };
    let mut columns = field.columns()?;
    for (name, values) in ["u", "u_previous"].into_iter().zip(start) {
        let column = columns.iter_mut().find(|column| column.name == name).expect("a column of the state");
        column.values = match problem.precision() {
            Precision::Single => FieldColumn::Single(values.into_iter().map(|u| u as f32).collect()),
            _ => FieldColumn::Double(values),
        };
    }
    WaveField::restore(problem, dt, 0, columns)
}

/// A Ricker wavelet of amplitude 1 and its derivatives.
#[derive(Clone, Copy, Debug)]
pub struct Ricker {
    /// Frequency at which the spectrum is largest.
    pub frequency: f64,
}

impl Ricker {
    /// Returns the wavelet for a source, with its maximum at [`Ricker::delay`].
    pub fn wavelet(&self) -> Wavelet {
        Wavelet::ricker(self.frequency)
    }

    /// Returns the time of the maximum.
    pub fn delay(&self) -> f64 {
        1.5 / self.frequency
    }

    /// Returns π times the frequency.
    pub fn rate(&self) -> f64 {
        PI * self.frequency
    }

    /// Returns the derivative of this order at time `t`. Order −1 is the integral.
    ///
    /// f = −g''/2 with g = exp(−x²) and x = a (t − delay), and the derivatives of g are Hermite
    /// polynomials: g^(n) = (−1)^n H_n g.
    pub fn derivative(&self, order: i32, t: f64) -> f64 {
        let x = self.rate() * (t - self.delay());
        let (mut before, mut hermite) = (1.0, 2.0 * x);
        for n in 1..order + 2 {
            (before, hermite) = (hermite, 2.0 * x * hermite - 2.0 * f64::from(n) * before);
        }
        let sign = if order % 2 == 0 { -0.5 } else { 0.5 };
        sign * self.rate().powi(order) * hermite * (-x * x).exp()
    }

    /// Returns a contribution of this age at time `t`, as the scheme with steps of `dt` delivers
    /// it. Order 0 is the wavelet, and −1 its integral.
    pub fn delivered(&self, order: i32, t: f64, age: f64, dt: f64) -> f64 {
        let s = age * dt * dt / 24.0;
        let (mut sum, mut factor) = (0.0, 1.0);
        for k in 0..6 {
            sum += factor * self.derivative(order + 3 * k, t - age);
            factor *= -s / f64::from(k + 1);
        }
        sum
    }
}

/// Returns the largest absolute value, or NaN if a value is NaN.
pub fn largest_value(values: &[f64]) -> f64 {
    values.iter().map(|u| u.abs()).fold(0.0, orrery_model::analysis::max_or_nan)
}
