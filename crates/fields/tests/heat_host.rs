//! Tests of the state on the host: its measures, its memory and its base temperature.

use orrery_fields::FieldColumn;
use orrery_fields::heat::cpu::HeatCpuStrategy;
use orrery_fields::heat::device::StoredField;
use orrery_fields::heat::{
    Conductivity, FieldMeasures, HeatCapacity, HeatError, HeatField, HeatProblem, HostHeat, Plate,
};
use orrery_model::Precision;
use orrery_model::grid::{Boundaries, Boundary, EdgeValues, Grid, PixelWeights};

use crate::heat_cpu::{ALL_FIELDS, EDGE_PAIRS, UNIFORM, VARIABLE, boundaries_of, problem_of, scattered};

const GRID: Grid = Grid { nx: 37, ny: 22, hx: 0.1, hy: 0.13 };

fn field_of(precision: Precision, kind_x: usize, kind_y: usize) -> (HeatProblem, HeatField) {
    let boundaries = boundaries_of(&GRID, kind_x, kind_y);
    let problem = match precision {
        Precision::Single => problem_of::<f32>(GRID, boundaries, ALL_FIELDS).0,
        _ => problem_of::<f64>(GRID, boundaries, ALL_FIELDS).0,
    };
    let field = HeatField::new(&problem, &scattered(GRID.len(), 3), None).unwrap();
    (problem, field)
}

#[test]
fn heat_content_changes_by_the_fluxes_through_the_edges_and_the_source() {
    for kinds in 0..EDGE_PAIRS * EDGE_PAIRS {
        let (problem, mut field) = field_of(Precision::Double, kinds % EDGE_PAIRS, kinds / EDGE_PAIRS);
        let boundaries = problem.boundaries().clone();
        let (rows, columns) = (boundaries.free_rows(&GRID), boundaries.free_columns(&GRID));
        let half = |is_edge: bool| if is_edge { 0.5 } else { 1.0 };
        let is_x_end = |i: usize| !boundaries.is_periodic_in_x() && (i == 0 || i == GRID.nx - 1);
        let is_y_end = |j: usize| !boundaries.is_periodic_in_y() && (j == 0 || j == GRID.ny - 1);
        let mut source_rate = 0.0;
        for j in rows {
            for i in columns.clone() {
                let weight = half(is_x_end(i)) * half(is_y_end(j)) * GRID.hx * GRID.hy;
                source_rate += problem.source().unwrap()[GRID.index(i, j)] * weight;
            }
        }
        let dt = problem.max_stable_step();
        field.advance(dt, 5).unwrap();
        let before = field.now().measures().unwrap().heat_content;
        let rate = field.now().edge_fluxes().unwrap().iter().sum::<f64>() + source_rate;
        field.advance(dt, 1).unwrap();
        let after = field.now().measures().unwrap().heat_content;
        // Rounding of n values of order 1, each with a few operations.
        let tolerance = 8.0 * f64::EPSILON * GRID.len() as f64 * GRID.hx * GRID.hy;
        assert!((after - before - dt * rate).abs() < tolerance, "{kinds}: {} {}", after - before, dt * rate);
        assert!((after - before).abs() > 1e3 * tolerance, "{kinds}: nothing changed");
    }
}

#[test]
fn fluxes_of_a_linear_field_are_its_gradient() {
    // u = 3 x between fixed edges: the flux is k times 3 times the height, out of the west edge.
    let boundaries = Boundaries {
        west: Boundary::fixed(0.0),
        east: Boundary::fixed(10.8),
        ..Boundaries::uniform(Boundary::INSULATED)
    };
    let problem =
        HeatProblem::new(GRID, boundaries, Conductivity::Uniform(0.5), None, Precision::Double).unwrap();
    let initial: Vec<f64> = (0..GRID.len()).map(|index| 3.0 * GRID.coordinates(index)[0]).collect();
    let field = HeatField::new(&problem, &initial, None).unwrap();
    let [west, east, south, north] = field.now().edge_fluxes().unwrap();
    let expected = 0.5 * 3.0 * 21.0 * GRID.hy;
    assert!((west + expected).abs() < 1e-12 && (east - expected).abs() < 1e-12, "{west} {east}");
    assert_eq!((south, north), (0.0, 0.0));
}

/// Returns a field that continues from the state of another one.
fn restored(problem: &HeatProblem, field: &HeatField) -> HeatField {
    let column = field.now().stored_column().unwrap();
    HeatField::restore(problem, column, None).unwrap().with_base(field.base())
}

#[test]
fn restored_field_continues_with_the_same_bits() {
    for precision in [Precision::Single, Precision::Double] {
        let (problem, mut field) = field_of(precision, 2, 1);
        let dt = 0.8 * problem.max_stable_step();
        field.advance(dt, 7).unwrap();
        let mut restored = restored(&problem, &field);
        field.advance(dt, 30).unwrap();
        restored.advance(dt, 11).unwrap();
        restored.advance(dt, 19).unwrap();
        assert_eq!(field.now().column().unwrap(), restored.now().column().unwrap());
        assert_eq!(field.precision(), precision);
    }
}

#[test]
fn a_look_ahead_is_a_step_that_leaves_the_state_alone() {
    let (problem, mut field) = field_of(Precision::Single, 4, 3);
    let dt = problem.max_stable_step();
    field.advance(dt, 3).unwrap();
    let before = field.now().column().unwrap();
    let ahead = field.ahead(0.3 * dt).unwrap().column().unwrap();
    assert_eq!(field.now().column().unwrap(), before);
    assert_ne!(ahead, before);
    let mut other = restored(&problem, &field);
    other.advance(0.3 * dt, 1).unwrap();
    assert_eq!(other.now().column().unwrap(), ahead);
    // The next step starts from the state.
    field.advance(dt, 2).unwrap();
    let (_, mut direct) = field_of(Precision::Single, 4, 3);
    direct.advance(dt, 5).unwrap();
    assert_eq!(field.now().column().unwrap(), direct.now().column().unwrap());
}

#[test]
fn bad_steps_and_states_are_refused() {
    let (problem, mut field) = field_of(Precision::Single, 0, 0);
    let dt = 1.01 * problem.max_stable_step();
    assert_eq!(field.advance(dt, 1), Err(HeatError::UnstableStep { dt, max: problem.max_stable_step() }));
    assert!(field.ahead(dt).is_err());
    let message = |column| HeatField::restore(&problem, column, None).unwrap_err().to_string();
    assert_eq!(
        message(FieldColumn::Double(vec![0.0; GRID.len()])),
        "the stored state has double precision, expected single"
    );
    assert_eq!(
        message(FieldColumn::Single(vec![0.0; 3])),
        "the stored state has 3 values, expected 814 for 37 x 22 nodes"
    );
}

#[test]
fn first_value_that_is_not_finite_is_named() {
    let (problem, field) = field_of(Precision::Single, 1, 1);
    assert_eq!(field.now().check_finite(), Ok(()));
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let FieldColumn::Single(mut values) = field.now().column().unwrap() else { panic!() };
        values[GRID.index(36, 20)] = value;
        values[GRID.index(5, 12)] = value;
        let field = HeatField::restore(&problem, FieldColumn::Single(values), None).unwrap();
        let message = field.now().check_finite().unwrap_err().to_string();
        assert_eq!(
            message,
            format!(
                "the temperature is {value:?} at node (5, 12), x = 0.5, y = 1.56, expected a finite number in single precision"
            )
        );
    }
}

#[test]
fn measures_propagate_nan_and_do_not_depend_on_threads() {
    let (problem, values) = problem_of::<f32>(GRID, boundaries_of(&GRID, 4, 1), UNIFORM);
    let measures = |values: &[f32], threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let plate = Plate::new(&problem);
        let strategy = HeatCpuStrategy::resolve(&plate);
        pool.install(|| HostHeat::new(plate, values, strategy).measures(StoredField::State))
    };
    let one = measures(&values, 1);
    assert_eq!(one, measures(&values, 2));
    assert_eq!(one, measures(&values, 7));
    let extreme =
        |combine: fn(f64, f64) -> f64| values.iter().map(|&u| f64::from(u)).reduce(combine).unwrap();
    assert_eq!((one.min, one.max), (extreme(f64::min), extreme(f64::max)));
    for index in [0, 20, GRID.len() - 1] {
        let mut values = values.clone();
        values[index] = f32::NAN;
        let FieldMeasures { min, max, heat_content } = measures(&values, 2);
        assert!(min.is_nan() && max.is_nan() && heat_content.is_nan(), "{index}");
    }
}

#[test]
fn memory_is_that_of_the_fields_and_five_percent() {
    let grid = Grid { nx: 16384, ny: 16384, hx: 1.0, hy: 1.0 };
    for (precision, bytes) in [(Precision::Single, 4), (Precision::Double, 8)] {
        for (fields, count) in [(UNIFORM, 2), (VARIABLE, 4), (ALL_FIELDS, 5)] {
            for is_on_device in [false, true] {
                let needed = HeatField::needed_bytes(&grid, precision, fields, is_on_device);
                let fields = (count * bytes * grid.len()) as u64;
                assert!((fields..=fields + fields / 20).contains(&needed), "{needed}");
            }
        }
    }
}

/// Returns an insulated plate at 300 with a hot spot of 1 in the middle.
fn warm_plate(precision: Precision, source: Option<Vec<f64>>) -> (HeatProblem, HeatField) {
    let edges = Boundaries::uniform(Boundary::INSULATED);
    let problem = HeatProblem::new(GRID, edges, Conductivity::Uniform(1.0), source, precision).unwrap();
    let mut initial = vec![300.0; GRID.len()];
    initial[GRID.index(18, 11)] = 301.0;
    let field = HeatField::new(&problem, &initial, None).unwrap();
    (problem, field)
}

/// With temperatures stored in f32 the range stays at some units of the last digit, 3e-5, for ever.
#[test]
fn small_differences_survive_on_a_large_temperature_in_single_precision() {
    let (problem, mut field) = warm_plate(Precision::Single, None);
    assert!((field.base() - 300.0).abs() < 0.01, "{}", field.base());
    // At the stability limit the checkerboard mode of a spot does not decay.
    field.advance(0.8 * problem.max_stable_step(), 12_000).unwrap();
    let (min, max) = field.now().range().unwrap();
    assert!(max - min < 1e-9 && (min - 300.0).abs() < 0.01, "{min} {max}");
    // The heat is that of the start: 1 more than 300 in one cell.
    let expected = 300.0 * 36.0 * 21.0 * GRID.hx * GRID.hy + GRID.hx * GRID.hy;
    let heat = field.now().measures().unwrap().heat_content;
    assert!((heat - expected).abs() < 1e-7 * expected, "{heat} {expected}");
}

/// A source of 1e-3 adds 3e-6 per step, a tenth of the distance between numbers of f32 near 300.
#[test]
fn a_weak_source_heats_a_warm_plate_in_single_precision() {
    let (problem, mut field) = warm_plate(Precision::Single, Some(vec![1e-3; GRID.len()]));
    let (dt, steps) = (problem.max_stable_step(), 1000);
    let before = field.now().measures().unwrap().heat_content;
    field.advance(dt, steps).unwrap();
    let gained = field.now().measures().unwrap().heat_content - before;
    let expected = 1e-3 * dt * steps as f64 * 36.0 * 21.0 * GRID.hx * GRID.hy;
    assert!((gained - expected).abs() < 1e-3 * expected, "{gained} {expected}");
}

#[test]
fn outputs_in_single_precision_are_absolute_temperatures() {
    let (problem, field) = warm_plate(Precision::Single, None);
    let base = field.base();
    let (FieldColumn::Single(stored), FieldColumn::Single(shown)) =
        (field.now().stored_column().unwrap(), field.now().column().unwrap())
    else {
        panic!("a field in single precision has a column of f32")
    };
    let spot = GRID.index(18, 11);
    assert_eq!((shown[0], shown[spot]), (300.0, 301.0));
    assert_eq!(field.now().values().unwrap()[spot], base + f64::from(stored[spot]));
    assert!(f64::from(stored[0]).abs() < 0.01);
    let weights = PixelWeights::new(&GRID, problem.boundaries(), (1, 1));
    let means = field.now().pixel_means(&weights).unwrap();
    let (_, exact) = warm_plate(Precision::Double, None);
    let expected = exact.now().pixel_means(&weights).unwrap();
    for (found, expected) in
        [(means.means[0], expected.means[0]), (means.min, expected.min), (means.max, expected.max)]
    {
        assert!((found - expected).abs() < 1e-7, "{found} {expected}");
    }
    assert_eq!(exact.base(), 0.0);
}

/// Values are searched in chunks of 16,384.
#[test]
fn the_first_of_several_values_is_found() {
    let grid = Grid { nx: 1000, ny: 100, hx: 0.1, hy: 0.1 };
    let edges = Boundaries::uniform(Boundary::fixed(0.0));
    let problem = HeatProblem::new(grid, edges, Conductivity::Uniform(1.0), None, Precision::Single).unwrap();
    let mut initial = vec![1.0; grid.len()];
    assert_eq!(problem.check_initial(&initial), Ok(()));
    for index in [99_999, 70_000, 16_384, 16_383, 0] {
        initial[index] = f64::NAN;
        let [i, j] = grid.node(index);
        let message = problem.check_initial(&initial).unwrap_err().to_string();
        assert!(message.contains(&format!("at node ({i}, {j})")), "{message}");
    }
}

/// Grid of the tests of the base temperature.
const SMALL: Grid = Grid { nx: 4, ny: 3, hx: 1.0, hy: 1.0 };

fn small_problem(boundaries: Boundaries, precision: Precision) -> HeatProblem {
    HeatProblem::new(SMALL, boundaries, Conductivity::Uniform(1.0), None, precision).unwrap()
}

fn base_temperature(problem: &HeatProblem, initial: &[f64]) -> f64 {
    HeatField::new(problem, initial, None).unwrap().base()
}

fn base_of(boundaries: Boundaries, initial: &[f64]) -> f64 {
    base_temperature(&small_problem(boundaries, Precision::Single), initial)
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
    let problem = small_problem(insulated(), Precision::Single);
    let problem = problem.with_heat_capacity(HeatCapacity::Field(capacity)).unwrap();
    let halves: Vec<f64> = (0..12).map(|node| if node % 4 < 2 { 7.0 } else { 300.0 }).collect();
    assert_eq!(base_temperature(&problem, &halves), 7.0);
}

#[test]
fn the_base_is_zero_where_it_would_not_help() {
    let insulated = || Boundaries::uniform(Boundary::INSULATED);
    let initial = [300.0; 12];
    assert_eq!(base_temperature(&small_problem(insulated(), Precision::Double), &initial), 0.0);
    let mut balanced = [1.0; 12];
    (0..12).filter(|node| node % 4 >= 2).for_each(|node| balanced[node] = -1.0 - 1e-7);
    assert_eq!(base_of(insulated(), &balanced), 0.0);
    assert_eq!(base_of(insulated(), &[3e38; 12]), 0.0);
}
