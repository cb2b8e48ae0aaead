//! Physics of the scheme, computed with the reference implementation, and messages of bad problems.

use std::f64::consts::PI;

use orrery_fields::Scalar;
use orrery_fields::heat::{Conductivity, HeatProblem, Plate, reference};
use orrery_model::Precision;
use orrery_model::grid::{Boundaries, Boundary, EdgeValues, Grid};

/// Returns a grid of `n` x `n` nodes on the unit square.
fn unit_square(n: usize) -> Grid {
    let h = 1.0 / (n - 1) as f64;
    Grid { nx: n, ny: n, hx: h, hy: h }
}

fn fixed_zero() -> Boundaries {
    Boundaries::uniform(Boundary::fixed(0.0))
}

fn insulated() -> Boundaries {
    Boundaries::uniform(Boundary::INSULATED)
}

fn problem<R: Scalar>(grid: Grid, boundaries: Boundaries, conductivity: Conductivity) -> HeatProblem {
    HeatProblem::new(grid, boundaries, conductivity, None, R::PRECISION).unwrap()
}

/// Returns the state after `steps` steps, with the values of fixed edges set at the start.
fn advanced<R: Scalar>(problem: &HeatProblem, initial: &[f64], dt: f64, steps: u64) -> Vec<f64> {
    let mut initial = initial.to_vec();
    problem.boundaries().set_fixed_nodes(problem.grid(), &mut initial);
    let mut state: Vec<R> = initial.iter().map(|&u| R::from_f64(u)).collect();
    reference::advance(&Plate::new(problem), dt, steps, &mut state);
    state.into_iter().map(R::to_f64).collect()
}

/// Returns f(x, y) at all nodes.
fn sampled(grid: &Grid, f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    (0..grid.len()).map(|index| grid.coordinates(index)).map(|[x, y]| f(x, y)).collect()
}

/// Returns numbers between 0 and 1 without order, the same in every run.
fn scattered(n: usize) -> Vec<f64> {
    (0..n as u64)
        .map(|k| (k.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1u64 << 53) as f64)
        .collect()
}

/// Returns the largest difference. NaN counts as infinite.
fn max_difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let larger = |max: f64, d: f64| if d <= max { max } else { d };
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .map(|d| if d.is_nan() { f64::INFINITY } else { d })
        .fold(0.0, larger)
}

/// Returns Σ u w, with weight ½ on edges that are not periodic.
fn content(problem: &HeatProblem, state: &[f64]) -> f64 {
    let grid = problem.grid();
    let weight = |k: usize, n: usize, is_periodic: bool| {
        if !is_periodic && (k == 0 || k == n - 1) { 0.5 } else { 1.0 }
    };
    let weighted = |(index, u): (usize, &f64)| {
        let [i, j] = grid.node(index);
        u * weight(i, grid.nx, problem.boundaries().is_periodic_in_x())
            * weight(j, grid.ny, problem.boundaries().is_periodic_in_y())
    };
    state.iter().enumerate().map(weighted).sum()
}

#[test]
fn sine_mode_decays_by_the_exact_factor_of_the_scheme() {
    fn check<R: Scalar>(epsilon: f64) {
        let grid = unit_square(33);
        let problem = problem::<R>(grid, fixed_zero(), Conductivity::Uniform(1.0));
        let initial = sampled(&grid, |x, y| (PI * x).sin() * (PI * y).sin());
        let (r, steps) = (0.25, 200);
        let state = advanced::<R>(&problem, &initial, r * grid.hx * grid.hx, steps);
        let factor = 1.0 - 8.0 * r * (0.5 * PI * grid.hx).sin().powi(2);
        let expected: Vec<f64> = initial.iter().map(|u| u * factor.powi(steps as i32)).collect();
        // A step rounds five times relative to values of at most 1, and errors do not grow.
        assert!(max_difference(&state, &expected) < 5.0 * steps as f64 * epsilon);
        assert!(max_difference(&state, &initial) > 0.5);
    }
    check::<f32>(f64::from(f32::EPSILON));
    check::<f64>(f64::EPSILON);
}

#[test]
fn error_against_the_analytic_solution_falls_with_the_square_of_h() {
    let error = |n: usize| {
        let grid = unit_square(n);
        let problem = problem::<f64>(grid, fixed_zero(), Conductivity::Uniform(1.0));
        let initial = sampled(&grid, |x, y| (PI * x).sin() * (PI * y).sin());
        // r = 1/8. The end time is 1/32 for every n.
        let steps = ((n - 1) * (n - 1) / 4) as u64;
        let state = advanced::<f64>(&problem, &initial, grid.hx * grid.hx / 8.0, steps);
        let decay = (-2.0 * PI * PI / 32.0).exp();
        let expected: Vec<f64> = initial.iter().map(|u| u * decay).collect();
        max_difference(&state, &expected)
    };
    let errors = [9, 17, 33].map(error);
    for pair in errors.windows(2) {
        let order = (pair[0] / pair[1]).log2();
        assert!((order - 2.0).abs() < 0.1, "order {order} from errors {errors:?}");
    }
}

#[test]
fn constant_field_stays_exactly_constant() {
    for conductivity in
        [Conductivity::Uniform(0.3), Conductivity::Field(scattered(63).iter().map(|k| k + 0.1).collect())]
    {
        let grid = Grid { nx: 9, ny: 7, hx: 0.1, hy: 0.3 };
        for boundaries in
            [insulated(), Boundaries::uniform(Boundary::Periodic), Boundaries::uniform(Boundary::fixed(0.1))]
        {
            let problem = problem::<f64>(grid, boundaries, conductivity.clone());
            let state = advanced::<f64>(&problem, &[0.1; 63], problem.max_stable_step(), 50);
            assert_eq!(state, [0.1; 63]);
        }
    }
}

#[test]
fn insulated_and_periodic_plates_conserve_heat() {
    let grid = Grid { nx: 13, ny: 10, hx: 0.1, hy: 0.17 };
    let field = Conductivity::Field(scattered(grid.len()).iter().map(|k| k + 0.05).collect());
    let mut mixed = insulated();
    (mixed.west, mixed.east) = (Boundary::Periodic, Boundary::Periodic);
    for boundaries in [insulated(), Boundaries::uniform(Boundary::Periodic), mixed] {
        for conductivity in [Conductivity::Uniform(0.7), field.clone()] {
            let problem = problem::<f64>(grid, boundaries.clone(), conductivity);
            let initial: Vec<f64> = scattered(2 * grid.len())[grid.len()..].to_vec();
            let steps = 300;
            let state = advanced::<f64>(&problem, &initial, problem.max_stable_step(), steps);
            let change = (content(&problem, &state) - content(&problem, &initial)).abs();
            // Each of the n nodes, with values of at most 1, rounds at most eight times per step.
            assert!(change < 4.0 * f64::EPSILON * (steps as f64) * grid.len() as f64, "{change}");
            assert!(max_difference(&state, &initial) > 0.1);
        }
    }
}

#[test]
fn no_new_extremum_appears_at_the_stability_limit() {
    let grid = Grid { nx: 21, ny: 16, hx: 0.1, hy: 0.15 };
    let field = Conductivity::Field(scattered(grid.len()).iter().map(|k| k * k * 10.0 + 0.01).collect());
    for conductivity in [Conductivity::Uniform(2.0), field] {
        for boundaries in
            [insulated(), Boundaries::uniform(Boundary::Periodic), Boundaries::uniform(Boundary::fixed(0.5))]
        {
            let problem = problem::<f64>(grid, boundaries, conductivity.clone());
            // A checkerboard is the mode that grows fastest beyond the limit.
            let initial: Vec<f64> = (0..grid.len()).map(|k| ((k % 21 + k / 21) % 2) as f64).collect();
            for steps in [1, 2, 60] {
                let state = advanced::<f64>(&problem, &initial, problem.max_stable_step(), steps);
                let tolerance = 8.0 * f64::EPSILON * steps as f64;
                assert!(state.iter().all(|u| (-tolerance..=1.0 + tolerance).contains(u)));
            }
            let unstable = advanced::<f64>(&problem, &initial, 1.2 * problem.max_stable_step(), 400);
            if matches!(conductivity, Conductivity::Uniform(_)) {
                assert!(unstable.iter().any(|u| !(-0.5..=1.5).contains(u)));
            }
        }
    }
}

#[test]
fn periodic_mode_decays_by_its_factor_and_moves_with_the_state() {
    let grid = Grid { nx: 12, ny: 8, hx: 1.0 / 12.0, hy: 1.0 / 8.0 };
    let problem = problem::<f64>(grid, Boundaries::uniform(Boundary::Periodic), Conductivity::Uniform(0.5));
    let initial = sampled(&grid, |x, y| (2.0 * PI * (x - 0.1)).cos() * (4.0 * PI * (y - 0.3)).cos());
    let (dt, steps) = (problem.max_stable_step(), 20);
    let mode = |h: f64, waves: f64| 0.5 * dt / (h * h) * 4.0 * (PI * waves * h).sin().powi(2);
    let factor = 1.0 - mode(grid.hx, 1.0) - mode(grid.hy, 2.0);
    let state = advanced::<f64>(&problem, &initial, dt, steps);
    let expected: Vec<f64> = initial.iter().map(|u| u * factor.powi(steps as i32)).collect();
    assert!(max_difference(&state, &expected) < 5.0 * steps as f64 * f64::EPSILON);
}

#[test]
fn flux_heats_the_plate_at_its_rate_and_sets_the_gradient() {
    let grid = Grid { nx: 11, ny: 4, hx: 0.1, hy: 0.25 };
    let boundaries = Boundaries {
        west: Boundary::flux(2.0),
        east: Boundary::fixed(1.0),
        south: Boundary::INSULATED,
        north: Boundary::INSULATED,
    };
    // Steady state: -k du/dx = 2.
    let problem = problem::<f64>(grid, boundaries, Conductivity::Uniform(0.5));
    let state = advanced::<f64>(&problem, &[0.0; 44], problem.max_stable_step(), 4000);
    let expected = sampled(&grid, |x, _| 1.0 + (1.0 - x) * 4.0);
    assert!(max_difference(&state, &expected) < 1e-11, "{}", max_difference(&state, &expected));

    // All edges: content grows by dt Σ q w. Along x the profile of the south edge counts with
    // weight ½ at its ends.
    let profile = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0];
    let boundaries = Boundaries {
        south: Boundary::Flux(EdgeValues::Profile(profile)),
        east: Boundary::flux(-1.0),
        ..problem.boundaries().clone()
    };
    let problem = self::problem::<f64>(
        grid,
        boundaries,
        Conductivity::Field(scattered(44).iter().map(|k| k + 0.5).collect()),
    );
    let (dt, steps) = (problem.max_stable_step(), 100);
    let state = advanced::<f64>(&problem, &[0.0; 44], dt, steps);
    let rate = (2.0 - 1.0) * 3.0 * grid.hy + 35.0 * grid.hx;
    let found = content(&problem, &state) * grid.hx * grid.hy / (dt * steps as f64);
    assert!((found - rate).abs() < 1e-12 * rate, "{found}, expected {rate}");
}

#[test]
fn layered_plate_reaches_the_exact_steady_state() {
    let grid = Grid { nx: 13, ny: 3, hx: 1.0 / 12.0, hy: 0.2 };
    let k = |i: usize| if i <= 4 { 4.0 } else { 0.25 };
    let conductivity = (0..grid.len()).map(|index| k(index % 13)).collect();
    let boundaries = Boundaries { west: Boundary::fixed(3.0), east: Boundary::fixed(-1.0), ..insulated() };
    let problem = problem::<f64>(grid, boundaries, Conductivity::Field(conductivity));
    let state = advanced::<f64>(&problem, &[0.0; 39], problem.max_stable_step(), 40_000);
    // Thermal resistances of cell halves are in series. The layers meet between nodes 4 and 5.
    let resistance = |i: usize| (0..i).map(|i| 0.5 * grid.hx * (1.0 / k(i) + 1.0 / k(i + 1))).sum::<f64>();
    let flux = 4.0 / resistance(12);
    let expected: Vec<f64> = (0..grid.len()).map(|index| 3.0 - flux * resistance(index % 13)).collect();
    assert!(max_difference(&state, &expected) < 1e-10, "{}", max_difference(&state, &expected));
}

#[test]
fn source_adds_its_rate() {
    let grid = unit_square(5);
    let source = scattered(25);
    let problem = HeatProblem::new(
        grid,
        insulated(),
        Conductivity::Uniform(1.0),
        Some(source.clone()),
        Precision::Double,
    )
    .unwrap();
    let dt = 0.5 * problem.max_stable_step();
    let state = advanced::<f64>(&problem, &[0.0; 25], dt, 1);
    assert_eq!(state, source.iter().map(|s| dt * s).collect::<Vec<_>>());
    let state = advanced::<f64>(&problem, &[0.0; 25], dt, 400);
    let rate = content(&problem, &state) / (400.0 * dt);
    assert!((rate - content(&problem, &source)).abs() < 1e-12 * rate);
}

#[test]
fn stability_limit_is_that_of_the_scheme() {
    let grid = Grid { nx: 5, ny: 6, hx: 0.5, hy: 0.25 };
    let limit = |conductivity| problem::<f64>(grid, insulated(), conductivity).max_stable_step();
    // 1 / (2 k (1/hx² + 1/hy²)) = 1 / (2 × 2 × 20)
    assert_eq!(limit(Conductivity::Uniform(2.0)), 1.0 / 80.0);
    assert_eq!(limit(Conductivity::Field(vec![2.0; 30])), 1.0 / 80.0);
    // A single good conductor: its faces have 2/(1/8 + 1/2) = 3.2.
    let mut one = vec![2.0; 30];
    one[grid.index(2, 3)] = 8.0;
    assert!((limit(Conductivity::Field(one)) - 1.0 / 128.0).abs() < 1e-15);

    let problem = problem::<f64>(grid, insulated(), Conductivity::Uniform(2.0));
    assert_eq!(problem.check_step(problem.max_stable_step()), Ok(()));
    let message = problem.check_step(0.3).unwrap_err().to_string();
    assert_eq!(
        message,
        "the step is 0.3, expected a positive step of at most 0.0125, the largest stable one"
    );
    for dt in [0.0, -1e-3, f64::NAN, f64::INFINITY] {
        assert!(problem.check_step(dt).is_err(), "{dt}");
    }
}

#[test]
fn bad_problems_are_refused_in_one_line() {
    let grid = Grid { nx: 4, ny: 3, hx: 0.5, hy: 0.5 };
    let message = |conductivity, source, precision| {
        HeatProblem::new(grid, insulated(), conductivity, source, precision).unwrap_err().to_string()
    };
    let uniform = || Conductivity::Uniform(1.0);
    let with = |index: usize, value: f64| {
        let mut field = vec![1.0; 12];
        field[index] = value;
        field
    };
    assert_eq!(
        message(uniform(), None, Precision::Mixed),
        "heat has no mixed precision, expected single or double"
    );
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let text = message(Conductivity::Uniform(value), None, Precision::Double);
        assert_eq!(text, format!("the conductivity is {value:?}, expected a number from 1e-20 to 1e20"));
        let text = message(Conductivity::Field(with(7, value)), None, Precision::Single);
        assert_eq!(
            text,
            format!("the conductivity is {value:?} at node (3, 1), expected a number from 1e-20 to 1e20")
        );
    }
    assert_eq!(
        message(Conductivity::Field(vec![1.0; 11]), None, Precision::Double),
        "the conductivity has 11 values, expected 12 for 4 x 3 nodes"
    );
    assert_eq!(
        message(uniform(), Some(with(9, f64::NAN)), Precision::Double),
        "the source is NaN at node (1, 2), x = 0.5, y = 1.0, expected a finite number in double precision"
    );
    // 1e39 is finite in f64 and infinite in f32.
    assert_eq!(
        message(uniform(), Some(with(0, 1e39)), Precision::Single),
        "the source is 1e39 at node (0, 0), x = 0.0, y = 0.0, expected a finite number in single precision"
    );
    assert!(HeatProblem::new(grid, insulated(), uniform(), Some(with(0, 1e39)), Precision::Double).is_ok());
    let problem = HeatProblem::new(grid, insulated(), uniform(), None, Precision::Double).unwrap();
    assert!(problem.check_initial(&[0.0; 12]).is_ok());
    assert_eq!(
        problem.check_initial(&[0.0; 13]).unwrap_err().to_string(),
        "the initial state has 13 values, expected 12 for 4 x 3 nodes"
    );
}
