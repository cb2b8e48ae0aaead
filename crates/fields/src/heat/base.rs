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

#[cfg(test)]
mod tests {
    use orrery_model::grid::{Boundaries, EdgeValues, Grid};

    use super::*;
    use crate::heat::{Conductivity, HeatCapacity};

    const GRID: Grid = Grid { nx: 4, ny: 3, hx: 1.0, hy: 1.0 };

    fn problem(boundaries: Boundaries, precision: Precision) -> HeatProblem {
        HeatProblem::new(GRID, boundaries, Conductivity::Uniform(1.0), None, precision).unwrap()
    }

    fn base_of(boundaries: Boundaries, initial: &[f64]) -> f64 {
        base_temperature(&problem(boundaries, Precision::Single), initial)
    }

    fn fixed_west(values: [f64; 3]) -> Boundaries {
        let west = Boundary::Fixed(EdgeValues::Profile(values.to_vec()));
        Boundaries { west, ..Boundaries::uniform(Boundary::INSULATED) }
    }

    #[test]
    fn fixed_edges_determine_the_base() {
        let initial = [300.0; 12];
        assert_eq!(base_of(fixed_west([280.0; 3]), &initial), 280.0);
        assert_eq!(base_of(fixed_west([20.0, 60.0, 40.0]), &initial), 40.0);
        assert_eq!(base_of(fixed_west([-20.0, -60.0, -40.0]), &initial), -40.0);
        // A change of 0 has no rounding error, so 0 remains 0.
        assert_eq!(base_of(fixed_west([-20.0, 0.0, 40.0]), &initial), 0.0);
        assert_eq!(base_of(Boundaries::uniform(Boundary::fixed(0.0)), &initial), 0.0);
    }

    #[test]
    fn without_fixed_edges_the_base_is_the_final_temperature() {
        let insulated = || Boundaries::uniform(Boundary::INSULATED);
        assert_eq!(base_of(insulated(), &[0.1; 12]), f64::from(0.1f32));
        // A corner has a quarter of a cell, and the plate 3 x 2 cells.
        let mut spot = [300.0; 12];
        spot[0] = 324.0;
        assert_eq!(base_of(insulated(), &spot), 301.0);
        // All the heat capacity is on the left, as far as f32 is concerned.
        let capacity = (0..12).map(|node| if node % 4 < 2 { 1.0 } else { 1e-12 }).collect();
        let problem = problem(insulated(), Precision::Single);
        let problem = problem.with_heat_capacity(HeatCapacity::Field(capacity)).unwrap();
        let halves: Vec<f64> = (0..12).map(|node| if node % 4 < 2 { 7.0 } else { 300.0 }).collect();
        assert_eq!(base_temperature(&problem, &halves), 7.0);
    }

    #[test]
    fn the_base_is_zero_where_it_would_not_help() {
        let insulated = || Boundaries::uniform(Boundary::INSULATED);
        let initial = [300.0; 12];
        assert_eq!(base_temperature(&problem(insulated(), Precision::Double), &initial), 0.0);
        let mut balanced = [1.0; 12];
        (0..12).filter(|node| node % 4 >= 2).for_each(|node| balanced[node] = -1.0 - 1e-7);
        assert_eq!(base_of(insulated(), &balanced), 0.0);
        assert_eq!(base_of(insulated(), &[3e38; 12]), 0.0);
    }
}
