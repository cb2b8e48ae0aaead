//! Tests of the state on the host, its measures and its slabs.

use orrery_cluster::{ClusterError, Team, threads};
use orrery_model::Precision;
use orrery_model::grid::{Boundaries, Boundary, Grid, PixelWeights};
use proptest::prelude::*;

use super::cpu::CpuStrategy;
use super::cpu_tests::{ALL_FIELDS, EDGE_PAIRS, UNIFORM, VARIABLE, boundaries_of, problem_of, scattered};
use super::device::StoredField;
use super::team::divided_rows;
use super::*;
use crate::Scalar;
use crate::team::Neighbours;

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
        let strategy = CpuStrategy::resolve(&plate);
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

/// Requires the same bits after `steps` steps in `count` slabs as in one plate.
fn compare_slabs<R: Scalar>(
    grid: Grid,
    kinds: (usize, usize),
    steps_per_pass: usize,
    count: usize,
    steps: u64,
) {
    let (problem, initial) = problem_of::<R>(grid, boundaries_of(&grid, kinds.0, kinds.1), ALL_FIELDS);
    let plate = Plate::new(&problem);
    let dt = problem.max_stable_step();
    let slabs = divided_rows(grid.ny, count).unwrap();
    let fewest = slabs.iter().map(|slab| slab.len()).min().unwrap();
    let steps_per_pass = if count > 1 { steps_per_pass.min(fewest / 2) } else { steps_per_pass };
    let strategy = CpuStrategy { steps_per_pass, ..CpuStrategy::resolve(&plate) };
    let mut expected = initial.clone();
    reference::advance(&plate, dt, steps, &mut expected);
    let parts = threads::run(count, |transport| {
        let owned = slabs[transport.rank()].clone();
        let rows = &initial[owned.start * grid.nx..owned.end * grid.nx];
        let neighbours = Neighbours::new(&Team::new(transport), plate.boundaries.is_periodic_in_y());
        let mut heat = HostHeat::of_rows(plate.clone(), rows, strategy, owned, &neighbours);
        heat.exchange_ghosts(&neighbours)?;
        heat.advance_with(&neighbours, dt, steps)?;
        Ok::<_, ClusterError>(heat.values(StoredField::State).to_vec())
    });
    let bits = |values: &[R]| values.iter().map(|u| u.to_f64().to_bits()).collect::<Vec<_>>();
    let found = parts.unwrap().concat();
    assert!(bits(&found) == bits(&expected), "{grid:?} {kinds:?} {strategy:?} {count} slabs");
}

#[test]
fn slabs_give_the_bits_of_one_plate() {
    for kind in 0..EDGE_PAIRS {
        for count in [1, 2, 3, 7] {
            compare_slabs::<f32>(GRID, (kind, kind), 4, count, 10);
            compare_slabs::<f64>(GRID, (1, kind), 1, count, 3);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_division_into_slabs_gives_the_bits_of_one_plate(
        (nx, ny) in (3_usize..70, 3_usize..40),
        kinds in (0..EDGE_PAIRS, 0..EDGE_PAIRS),
        steps_per_pass in 1..=CpuStrategy::MAX_STEPS_PER_PASS,
        count in 1_usize..12,
        steps in 1_u64..40,
    ) {
        let grid = Grid { nx, ny, hx: 0.1, hy: 0.13 };
        compare_slabs::<f32>(grid, kinds, steps_per_pass, count.min(ny / 2), steps);
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
