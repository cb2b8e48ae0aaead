//! Plates of two materials: temperature of the interface, order of convergence, heat, fluxes,
//! sources and the longest stable step.

use orrery_fields::heat::{Conductivity, HeatCapacity, HeatField, HeatProblem};
use orrery_model::Precision;
use orrery_model::analysis::max_or_nan;
use orrery_model::grid::{Boundaries, Boundary, Grid};

use crate::heat_cpu::scattered;

/// Conductivity in W/(m K) and heat capacity in J/(m³ K) of copper and of stainless steel, divided
/// by those of copper.
const COPPER: [f64; 2] = [1.0, 1.0];
const STEEL: [f64; 2] = [14.8 / 401.0, 3.95 / 3.45];

/// Returns a rod along x of `n` nodes from −1 to 1 with copper on the left. The materials meet at
/// x = 0, midway between two nodes. `n` is even.
fn rod(n: usize) -> (Grid, HeatProblem) {
    let h = 2.0 / n as f64;
    let grid = Grid { nx: n, ny: 3, hx: h, hy: h };
    let of_node = |property: usize| {
        let value = |node: usize| if node % n < n / 2 { COPPER[property] } else { STEEL[property] };
        (0..grid.len()).map(value).collect::<Vec<f64>>()
    };
    let conductivity = Conductivity::Field(of_node(0));
    let insulated = Boundaries::uniform(Boundary::INSULATED);
    let problem = HeatProblem::new(grid, insulated, conductivity, None, Precision::Double).unwrap();
    (grid, problem.with_heat_capacity(HeatCapacity::Field(of_node(1))).unwrap())
}

/// Two half spaces at 1 and 0 that touch at t = 0. The interface has at once the temperature
/// e₁/(e₁ + e₂) with the effusivities e = √(k c), and each side is an error function (Carslaw and
/// Jaeger, 2.16).
fn exact(x: f64, t: f64) -> f64 {
    let effusivity = |[k, c]: [f64; 2]| (k * c).sqrt();
    let interface = effusivity(COPPER) / (effusivity(COPPER) + effusivity(STEEL));
    let [k, c] = if x < 0.0 { COPPER } else { STEEL };
    let profile = libm::erfc(x.abs() / (2.0 * (k / c * t).sqrt()));
    if x < 0.0 { 1.0 - (1.0 - interface) * profile } else { interface * profile }
}

/// Returns the largest difference to the solution at t = 0.02, from the exact state at t = 0.004.
/// The ends of the rod are too far away for an influence.
fn error_of_rod(n: usize) -> f64 {
    let (grid, problem) = rod(n);
    let x = |node: usize| -1.0 + (grid.node(node)[0] as f64 + 0.5) * grid.hx;
    let at = |t: f64| (0..grid.len()).map(|node| exact(x(node), t)).collect::<Vec<f64>>();
    let mut field = HeatField::new(&problem, &at(0.004), None).unwrap();
    // The number of steps grows with 1/h², so that the error in time does too.
    let steps = (0.016 / (0.9 * problem.max_stable_step())).ceil() as u64;
    field.advance(0.016 / steps as f64, steps).unwrap();
    let difference = |(a, b): (f64, f64)| (a - b).abs();
    field.now().values().unwrap().into_iter().zip(at(0.02)).map(difference).fold(0.0, max_or_nan)
}

/// With diffusivities k/c in place of k and c, the interface is at 0.848 instead of 0.829,
/// and the error does not fall with h.
#[test]
fn a_rod_of_copper_and_steel_has_the_interface_of_its_effusivities() {
    let errors = [100, 200, 400].map(error_of_rod);
    for pair in errors.windows(2) {
        let order = (pair[0] / pair[1]).log2();
        assert!((order - 2.0).abs() < 0.15, "order {order} from errors {errors:?}");
    }
    assert!(errors[2] < 6e-4, "{errors:?}");
}

#[test]
fn a_uniform_heat_capacity_slows_the_plate_down() {
    let grid = Grid { nx: 9, ny: 7, hx: 0.1, hy: 0.2 };
    let source = || Some(scattered(63, 1));
    let edges = || Boundaries { west: Boundary::flux(0.7), ..Boundaries::uniform(Boundary::fixed(2.0)) };
    let problem = |k: f64, source| {
        HeatProblem::new(grid, edges(), Conductivity::Uniform(k), source, Precision::Double).unwrap()
    };
    let four = problem(3.0, source()).with_heat_capacity(HeatCapacity::Uniform(4.0)).unwrap();
    let one = problem(3.0, source());
    assert_eq!(four.max_stable_step(), 4.0 * one.max_stable_step());
    let run = |problem: &HeatProblem, dt: f64| {
        let mut field = HeatField::new(problem, &scattered(63, 2), None).unwrap();
        field.advance(dt, 40).unwrap();
        (field.now().values().unwrap(), field.now().edge_fluxes().unwrap(), field.now().measures().unwrap())
    };
    // The factor is a power of two, so the bits are those of a step of a quarter.
    let dt = four.max_stable_step();
    let (slow, quick) = (run(&four, dt), run(&one, 0.25 * dt));
    assert_eq!((slow.0, slow.1), (quick.0, quick.1));
    assert_eq!(slow.2.heat_content, 4.0 * quick.2.heat_content);
    // A field of equal values is uniform, and the conductivity stays uniform too.
    let equal = problem(3.0, None).with_heat_capacity(HeatCapacity::Field(vec![1.0; 63])).unwrap();
    assert_eq!(equal, problem(3.0, None));
}

/// The heat Σ c u changes by exactly the fluxes and sources, and a field with c = 2 has the balance
/// of one with c = 1 in twice the time.
#[test]
fn heat_and_source_are_those_of_the_heat_capacity() {
    let grid = Grid { nx: 10, ny: 8, hx: 0.1, hy: 0.1 };
    let capacity: Vec<f64> = scattered(80, 3).iter().map(|c| 0.5 + 3.0 * c).collect();
    let edges = Boundaries { west: Boundary::flux(1.5), ..Boundaries::uniform(Boundary::INSULATED) };
    let uniform = Conductivity::Uniform(2.0);
    let problem = HeatProblem::new(grid, edges, uniform, Some(vec![5.0; 80]), Precision::Double).unwrap();
    let problem = problem.with_heat_capacity(HeatCapacity::Field(capacity)).unwrap();
    // Uniform conductivity has become a field.
    assert_eq!(problem.conductivity(), &Conductivity::Field(vec![2.0; 80]));
    let mut field = HeatField::new(&problem, &[0.0; 80], None).unwrap();
    let dt = problem.max_stable_step();
    field.advance(dt, 200).unwrap();
    // 1.5 through the west edge of length 0.7, and 5 from each unit of the area 0.9 x 0.7.
    let expected = (1.5 * 0.7 + 5.0 * 0.63) * 200.0 * dt;
    let heat = field.now().measures().unwrap().heat_content;
    // Each of 80 nodes rounds a few times per step.
    assert!((heat - expected).abs() < 200.0 * 80.0 * f64::EPSILON * expected, "{heat} {expected}");
    let values = field.now().values().unwrap();
    let total = problem.total_heat_capacity();
    let mean = heat / total;
    assert!(values.iter().any(|u| *u > mean) && values.iter().any(|u| *u < mean), "{mean}");
}

#[test]
fn the_stable_step_is_that_of_the_node_with_the_largest_rate() {
    let grid = Grid { nx: 5, ny: 6, hx: 0.5, hy: 0.25 };
    let edges = Boundaries::uniform(Boundary::INSULATED);
    let uniform = Conductivity::Uniform(2.0);
    let problem = HeatProblem::new(grid, edges, uniform, None, Precision::Double).unwrap();
    let mut capacity = vec![8.0; 30];
    capacity[13] = 0.5;
    let problem = problem.with_heat_capacity(HeatCapacity::Field(capacity)).unwrap();
    // 0.5 / (2 k (1/hx² + 1/hy²))
    assert_eq!(problem.max_stable_step(), 0.5 / 80.0);
}

#[test]
fn bad_heat_capacities_are_refused_in_one_line() {
    let grid = Grid { nx: 4, ny: 3, hx: 0.5, hy: 0.5 };
    let message = |capacity| {
        let edges = Boundaries::uniform(Boundary::INSULATED);
        let problem = HeatProblem::new(grid, edges, Conductivity::Uniform(1.0), None, Precision::Double);
        problem.unwrap().with_heat_capacity(capacity).unwrap_err().to_string()
    };
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let text = message(HeatCapacity::Uniform(value));
        assert_eq!(text, format!("the heat capacity is {value:?}, expected a number from 1e-15 to 1e15"));
        let mut field = vec![1.0; 12];
        field[7] = value;
        let text = message(HeatCapacity::Field(field));
        assert_eq!(
            text,
            format!("the heat capacity is {value:?} at node (3, 1), expected a number from 1e-15 to 1e15")
        );
    }
    let text = message(HeatCapacity::Field(vec![1.0; 11]));
    assert_eq!(text, "the heat capacity has 11 values, expected 12 for 4 x 3 nodes");
}
