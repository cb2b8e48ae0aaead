//! Warnings where single precision loses what a run computes.
//!
//! Each step rounds the new temperature of a node by up to ε = 2⁻²⁴ of its difference from the base
//! temperature. A smaller change is lost. Where all nodes are rounded in the same direction, the
//! errors add up to n ε in n steps. In the slowest mode of the plate, which decays by λ dt per
//! step, they cannot exceed ε/(λ dt). The error relative to the largest difference is therefore at
//! most
//!
//!   ε min(n, 1/(λ dt))
//!
//! λ dt falls with the square of the number of nodes along an edge. On a square of 1000² nodes with
//! fixed edges and `step = "auto"` it is 4.4e-6, and the bound is 1.3%. The error of a rod between
//! 0 and 100 in its steady state was 55% of the bound for 200, 400 and 800 nodes.

use std::f64::consts::PI;

use orrery_fields::heat::{Conductivity, HeatCapacity, HeatProblem};
use orrery_gravity::settings::StepChoice;
use orrery_model::grid::{Boundary, Edge};
use orrery_model::{Precision, short_number};

use super::system::keeps_range;
use crate::case::Case;

/// Largest rounding error of a step, relative to the difference from the base temperature.
const EPSILON: f64 = 0.5 * f32::EPSILON as f64;

/// Relative error above which a run gets a warning.
const LARGEST_ERROR: f64 = 0.01;

/// Quantities that determine the errors of rounding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RoundingScale {
    dt: f64,
    /// Number of steps of the run.
    steps: f64,
    /// Estimate of the rate λ of the slowest mode. It is 0 if the mean temperature changes.
    slowest_rate: f64,
}

impl RoundingScale {
    /// Returns the scale of a case with its problem, `None` in double precision.
    pub fn of(case: &Case, problem: &HeatProblem) -> Option<Self> {
        let StepChoice::Fixed(dt) = case.time.step else { return None };
        if problem.precision() != Precision::Single {
            return None;
        }
        let steps = ((case.time.end - case.time.known_start()) / dt).ceil();
        Some(Self { dt, steps, slowest_rate: slowest_rate(problem) })
    }

    /// Returns the number of steps in which errors add up.
    fn steps_of_memory(&self) -> f64 {
        self.steps.min(1.0 / (self.slowest_rate * self.dt))
    }

    /// Returns a warning if rounding may change the result by more than 1%.
    pub fn start_warning(&self) -> Option<String> {
        let error = (EPSILON * self.steps_of_memory()).min(1.0);
        (error > LARGEST_ERROR).then(|| {
            format!(
                "heat.precision = \"single\" may change temperature differences by up to {}%: each step rounds them by \
                 {}, and the errors of {} steps add up; expected heat.precision = \"double\", a coarser grid or \
                 fewer steps",
                short_number(percent(error)),
                short_number(two_digits(EPSILON)),
                short_number(two_digits(self.steps_of_memory())),
            )
        })
    }

    /// Returns a warning if the mean temperature should change by `mean_rate` per time, but a step
    /// changes it by less than rounding does, so that more than 1% is lost. `range` has the
    /// smallest and the largest temperature.
    pub fn stall_warning(&self, base: f64, range: (f64, f64), mean_rate: f64) -> Option<String> {
        let largest = (range.0 - base).abs().max((range.1 - base).abs());
        let (change, rounding) = (mean_rate.abs() * self.dt, EPSILON * largest);
        let lost = change * self.steps_of_memory();
        (change < rounding && lost > LARGEST_ERROR * largest).then(|| {
            format!(
                "heat.precision = \"single\" no longer resolves a step: it should change the mean temperature by {}, \
                 and temperatures are rounded by up to {}; expected heat.precision = \"double\", a coarser grid or \
                 a longer step",
                short_number(two_digits(change)),
                short_number(two_digits(rounding)),
            )
        })
    }
}

/// Returns a part in percent, with two digits.
fn percent(part: f64) -> f64 {
    two_digits(100.0 * part)
}

/// Rounds a positive number to two digits.
fn two_digits(x: f64) -> f64 {
    format!("{x:.1e}").parse().unwrap_or(x)
}

/// Estimates the rate of the slowest mode: that of a plate with the harmonic mean of the
/// conductivity and the mean of the heat capacity.
fn slowest_rate(problem: &HeatProblem) -> f64 {
    let (grid, boundaries) = (problem.grid(), problem.boundaries());
    let [width, height] = grid.extents(boundaries);
    let conductivity = match problem.conductivity() {
        Conductivity::Uniform(k) => *k,
        Conductivity::Field(k) => k.len() as f64 / k.iter().map(|k| 1.0 / k).sum::<f64>(),
    };
    let capacity = match problem.heat_capacity() {
        HeatCapacity::Uniform(c) => *c,
        HeatCapacity::Field(c) => c.iter().sum::<f64>() / c.len() as f64,
    };
    let is_fixed = |edge| boundaries.on(edge).is_fixed();
    // Half waves between the edges of the slowest mode, and of the slowest one that is not
    // constant.
    let half_waves = |[first, last]: [Edge; 2]| match (boundaries.on(first), is_fixed(first), is_fixed(last))
    {
        (Boundary::Periodic, ..) => [0.0, 2.0],
        (_, true, true) => [1.0, 1.0],
        (_, false, false) => [0.0, 1.0],
        _ => [0.5, 0.5],
    };
    let rates =
        [([Edge::West, Edge::East], width), ([Edge::South, Edge::North], height)].map(|(edges, length)| {
            half_waves(edges).map(|waves| conductivity / capacity * (waves * PI / length).powi(2))
        });
    let slowest = rates[0][0] + rates[1][0];
    if slowest == 0.0 && keeps_range(problem) { rates[0][1].min(rates[1][1]) } else { slowest }
}

#[cfg(test)]
mod tests {
    use orrery_model::grid::{Boundaries, Grid};

    use super::*;

    fn problem(edges: Boundaries, source: Option<f64>) -> HeatProblem {
        let grid = Grid { nx: 11, ny: 21, hx: 0.1, hy: 0.1 };
        let source = source.map(|source| vec![source; grid.len()]);
        let problem = HeatProblem::new(grid, edges, Conductivity::Uniform(8.0), source, Precision::Single);
        problem.unwrap().with_heat_capacity(HeatCapacity::Uniform(4.0)).unwrap()
    }

    /// The plate is 1 x 2, and its diffusivity 2.
    #[test]
    fn slowest_rates_are_those_of_the_edges() {
        let insulated = || Boundaries::uniform(Boundary::INSULATED);
        let unit = 2.0 * PI * PI;
        let cases = [
            (Boundaries::uniform(Boundary::fixed(0.0)), None, 1.0 + 0.25),
            (Boundaries { west: Boundary::fixed(1.0), ..insulated() }, Some(1.0), 0.25),
            (insulated(), None, 0.25),
            (insulated(), Some(1.0), 0.0),
            (Boundaries { north: Boundary::flux(1.0), ..insulated() }, None, 0.0),
        ];
        for (edges, source, expected) in cases {
            let rate = slowest_rate(&problem(edges, source));
            assert!((rate - expected * unit).abs() < 1e-12 * unit, "{rate} {expected}");
        }
        // One wave needs 11 spaces of a periodic plate, and half a wave 20 spaces along y.
        let periodic = || Boundary::Periodic;
        let rate =
            slowest_rate(&problem(Boundaries { west: periodic(), east: periodic(), ..insulated() }, None));
        assert!((rate - 0.25 * unit).abs() < 1e-12 * unit, "{rate}");
    }

    #[test]
    fn a_run_of_many_steps_gets_a_warning_with_numbers() {
        let scale = |dt, steps, slowest_rate| RoundingScale { dt, steps, slowest_rate };
        assert_eq!(scale(1e-3, 1e5, 1e-6).start_warning(), None);
        assert_eq!(scale(1e-3, 1e9, 0.01).start_warning(), None);
        assert_eq!(
            scale(1e-3, 1e9, 1e-3).start_warning().unwrap(),
            "heat.precision = \"single\" may change temperature differences by up to 6%: each step rounds them by \
             6e-8, and the errors of 1000000 steps add up; expected heat.precision = \"double\", a coarser grid or \
             fewer steps"
        );
    }

    #[test]
    fn a_plate_that_rounding_holds_gets_a_warning() {
        let scale = RoundingScale { dt: 1e-3, steps: 1e9, slowest_rate: 0.0 };
        // 1e-6 per step is less than 6e-8 of 80.
        let warning = scale.stall_warning(300.0, (310.0, 380.0), -1e-3).unwrap();
        assert!(warning.contains("by 1e-6, and temperatures are rounded by up to 4.8e-6;"), "{warning}");
        assert_eq!(scale.stall_warning(300.0, (299.0, 301.0), -1e-3), None);
        // A steady state.
        assert_eq!(scale.stall_warning(300.0, (310.0, 380.0), 1e-13), None);
    }
}
