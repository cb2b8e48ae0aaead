//! The temperature to which a field in single precision stores differences.
//!
//! A temperature of 300 has a distance of 3e-5 to the next number in f32. A step of the explicit
//! scheme often changes it by less, so the change would be lost. The equation is linear, and
//! differences from a base temperature have smaller rounding errors the closer the plate is to the
//! base. The base is the temperature that the plate approaches, as far as that is known:
//!
//! - With fixed edges, the middle between the smallest and the largest of their values, or 0 if 0
//!   is between them.
//! - Otherwise the mean of the initial state, weighted with the heat capacity.
//!
//! It depends on the problem and the initial state only, so it is the same for any number of ranks.

use orrery_model::Precision;
use orrery_model::analysis::max_or_nan;
use orrery_model::grid::{Boundary, Edge};
use rayon::prelude::*;

use super::HeatProblem;

/// Largest temperature for which differences cannot overflow in f32.
const LARGEST: f64 = 1e38;

/// A mean below this part of the largest temperature is 0, for example that of a sine mode.
const NEGLIGIBLE: f64 = 1e-6;

/// Returns the base temperature of a problem. It is a number of f32, and 0 in double precision.
pub(super) fn base_temperature(problem: &HeatProblem, initial: &[f64]) -> f64 {
    if problem.precision() != Precision::Single {
        return 0.0;
    }
    let fixed = fixed_range(problem);
    let largest = initial.par_iter().map(|u| u.abs()).reduce(|| 0.0, max_or_nan);
    let largest = fixed.map_or(largest, |[low, high]| largest.max(low.abs()).max(high.abs()));
    if largest > LARGEST {
        return 0.0;
    }
    let base = match fixed {
        Some([low, high]) if low > 0.0 || high < 0.0 => 0.5 * (low + high),
        Some(_) => 0.0,
        None => mean_temperature(problem, initial),
    };
    if base.abs() <= NEGLIGIBLE * largest { 0.0 } else { f64::from(base as f32) }
}

/// Returns the smallest and the largest value of the fixed edges, `None` without such edges.
fn fixed_range(problem: &HeatProblem) -> Option<[f64; 2]> {
    let mut range = None;
    for edge in Edge::ALL {
        let Boundary::Fixed(values) = problem.boundaries().on(edge) else { continue };
        for value in (0..edge.nodes(problem.grid())).map(|k| values.at(k)) {
            let [low, high] = range.unwrap_or([value; 2]);
            range = Some([value.min(low), value.max(high)]);
        }
    }
    range
}

/// Returns the temperature of the plate after all heat has spread evenly.
fn mean_temperature(problem: &HeatProblem, initial: &[f64]) -> f64 {
    let capacity = problem.heat_capacity();
    let heat = problem.weighted_sum(|node| capacity.at(node) * initial[node]);
    heat / problem.weighted_sum(|node| capacity.at(node))
}
