//! The known solution of a sine mode between cold edges.
//!
//! With u = A sin(mπx/Lx) sin(nπy/Ly) at the start, edges fixed at 0 and a uniform diffusivity k
//! (conductivity by heat capacity), the solution is u exp(−k π² (m²/Lx² + n²/Ly²) t). The scheme
//! multiplies u in each step of length dt by
//!
//!   1 − 4 dt k (sin²(mπ hx/2Lx)/hx² + sin²(nπ hy/2Ly)/hy²)
//!
//! so the state differs from this discrete solution by round-off alone.

use std::f64::consts::PI;

use orrery_fields::heat::{Conductivity, HeatCapacity, HeatProblem};
use orrery_gravity::settings::StepChoice;
use orrery_model::analysis::max_or_nan;
use orrery_model::grid::{Boundary, Edge, Grid, InitialField};
use rayon::prelude::*;

use crate::case::{Case, HeatCase, InitialState};
use crate::system::{SolutionError, Stamp};

/// A sine mode, its decay rate and its factor per step.
#[derive(Clone, Debug)]
pub struct SineSolution {
    /// The mode at the start.
    mode: [u32; 2],
    amplitude: f64,
    start: f64,
    dt: f64,
    /// Rate of exp(−rate t).
    rate: f64,
    /// Decrease per step of length dt, divided by dt.
    discrete_rate: f64,
}

impl SineSolution {
    /// Returns the solution of a case that has one.
    pub fn of(case: &Case, heat: &HeatCase, problem: &HeatProblem) -> Option<Self> {
        let InitialState::Formula(InitialField::SineMode { m, n, amplitude }) = heat.initial else {
            return None;
        };
        let (Conductivity::Uniform(k), HeatCapacity::Uniform(c), StepChoice::Fixed(dt)) =
            (problem.conductivity(), problem.heat_capacity(), case.time.step)
        else {
            return None;
        };
        let k = k / c;
        let is_cold = |edge: Edge| match problem.boundaries().on(edge) {
            Boundary::Fixed(values) => (0..edge.nodes(problem.grid())).all(|node| values.at(node) == 0.0),
            Boundary::Flux(_) | Boundary::Periodic => false,
        };
        if problem.source().is_some() || !Edge::ALL.into_iter().all(is_cold) {
            return None;
        }
        let grid = problem.grid();
        let [width, height] = grid.extents(problem.boundaries());
        let wave = [f64::from(m) * PI / width, f64::from(n) * PI / height];
        let discrete = |wave: f64, h: f64| (2.0 * (0.5 * wave * h).sin() / h).powi(2);
        Some(Self {
            mode: [m, n],
            amplitude,
            start: case.time.known_start(),
            dt,
            rate: k * (wave[0] * wave[0] + wave[1] * wave[1]),
            discrete_rate: k * (discrete(wave[0], grid.hx) + discrete(wave[1], grid.hy)),
        })
    }

    /// Returns the largest differences of `values`, the state at `now`, to the analytic and to the
    /// discrete solution.
    pub fn errors<R: Copy + Into<f64> + Sync>(
        &self,
        grid: &Grid,
        values: &[R],
        now: Stamp,
    ) -> Vec<SolutionError> {
        let elapsed = now.time - self.start;
        let analytic = self.amplitude * (-self.rate * elapsed).exp();
        let discrete = self.amplitude * self.discrete_factor(now.step, elapsed);
        let sines = |half_waves: u32, nodes: usize| -> Vec<f64> {
            let phase = |node: usize| f64::from(half_waves) * PI * node as f64 / (nodes - 1) as f64;
            (0..nodes).map(|node| phase(node).sin()).collect()
        };
        let (x, y) = (sines(self.mode[0], grid.nx), sines(self.mode[1], grid.ny));
        let largest = |amplitude: f64| {
            let of_row = |(j, row): (usize, &[R])| {
                let difference = |(&u, sine): (&R, &f64)| (u.into() - amplitude * y[j] * sine).abs();
                row.iter().zip(&x).map(difference).fold(0.0, max_or_nan)
            };
            values.par_chunks(grid.nx).enumerate().map(of_row).reduce(|| 0.0, max_or_nan)
        };
        vec![
            SolutionError { solution: "analytic", max: largest(analytic) },
            SolutionError { solution: "exact discrete", max: largest(discrete) },
        ]
    }

    /// Returns the factor after `steps` steps, the last of which may be shorter.
    fn discrete_factor(&self, steps: u64, elapsed: f64) -> f64 {
        let full = steps.saturating_sub(1);
        let last = elapsed - full as f64 * self.dt;
        let factor = 1.0 - self.dt * self.discrete_rate;
        let last_factor = if steps == 0 { 1.0 } else { 1.0 - last * self.discrete_rate };
        // `powf` has the sign wrong for a negative factor of an odd number of steps.
        let sign = if factor < 0.0 && full % 2 == 1 { -1.0 } else { 1.0 };
        sign * factor.abs().powf(full as f64) * last_factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a maximum that drops NaN, a field of NaN would have the error 0.
    #[test]
    fn errors_of_a_field_with_nan_are_nan() {
        let grid = Grid { nx: 5, ny: 4, hx: 0.25, hy: 1.0 / 3.0 };
        let solution = SineSolution {
            mode: [1, 1],
            amplitude: 2.0,
            start: 0.0,
            dt: 0.01,
            rate: 1.0,
            discrete_rate: 1.0,
        };
        let now = Stamp { step: 1, time: 0.01 };
        let errors = |values: &[f64]| solution.errors(&grid, values, now).into_iter().map(|error| error.max);
        assert!(errors(&[0.0; 20]).all(|max| max > 0.0));
        assert!(errors(&[f64::NAN; 20]).all(f64::is_nan));
        for node in [0, 7, 19] {
            let mut values = [0.0; 20];
            values[node] = f64::NAN;
            assert!(errors(&values).all(f64::is_nan), "NaN in node {node}");
        }
    }
}
