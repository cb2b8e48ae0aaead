//! Tests of the checks of a problem, and of the state with its operations.

use orrery_fields::wave::cpu::WaveCpuStrategy;
use orrery_fields::wave::{
    GridPlane, HostWave, Medium, SpaceOrder, StoredWave, Velocity, WaveDeviceSetup, WaveField, WaveProblem,
    WaveSource, WaveState,
};
use orrery_fields::{FieldColumn, NamedColumn};
use orrery_model::Precision;
use orrery_model::wave::{SideCondition, Sides, VelocityLayer, VelocityModel, WaveGrid, Wavelet};

use crate::wave_cpu::{scattered, sides_of};

const NODES: [usize; 3] = [31, 30, 29];

fn grid() -> WaveGrid {
    WaveGrid::volume(NODES, [1.0, 1.1, 0.9])
}

fn field_problem(precision: Precision) -> WaveProblem {
    let velocity = Velocity::Field(scattered(grid().len(), 1).iter().map(|c| 2.0 + c).collect());
    let source = WaveSource { position: [10.3, 12.0, 9.9], wavelet: Wavelet::ricker(0.5) };
    let receivers = vec![[20.0, 15.5, 11.0], [3.0, 3.0, 3.0]];
    WaveProblem::new(
        grid(),
        sides_of(14_321),
        SpaceOrder::Eighth,
        velocity,
        vec![source],
        receivers,
        precision,
    )
    .unwrap()
}

#[test]
fn restored_field_continues_with_the_same_bits() {
    for precision in [Precision::Single, Precision::Double] {
        let problem = field_problem(precision);
        let dt = 0.8 * problem.max_stable_step();
        let mut field = WaveField::new(&problem, dt, None).unwrap();
        field.advance(dt, 40).unwrap();
        let columns = field.columns().unwrap();
        let mut restored = WaveField::restore(&problem, dt, field.step(), columns).unwrap();
        field.advance(dt, 30).unwrap();
        restored.advance(dt, 11).unwrap();
        restored.advance(dt, 19).unwrap();
        assert_eq!(field.columns().unwrap(), restored.columns().unwrap());
        assert_eq!(field.seismograms().unwrap(), restored.seismograms().unwrap());
        assert_eq!((field.precision(), field.step()), (precision, 70));
        let seismograms = field.seismograms().unwrap();
        assert_eq!((seismograms.len(), seismograms[0].len()), (2, 71));
        assert!(seismograms.iter().flatten().any(|u| u.abs() > 1e-5));
    }
}

#[test]
fn a_look_ahead_leaves_the_state_alone() {
    let problem = field_problem(Precision::Double);
    let dt = 0.5 * problem.max_stable_step();
    let mut field = WaveField::new(&problem, dt, None).unwrap();
    field.advance(dt, 60).unwrap();
    let before = field.columns().unwrap();
    let values = field.now().values().unwrap();
    let half = field.ahead(0.5 * dt).unwrap().values().unwrap();
    let full = field.ahead(dt).unwrap().values().unwrap();
    assert_eq!(field.last_ahead().values().unwrap(), full);
    assert_eq!(field.columns().unwrap(), before);
    field.advance(dt, 1).unwrap();
    let next = field.now().values().unwrap();
    let FieldColumn::Double(previous) = &before[1].values else { panic!() };
    for k in 0..next.len() {
        // At the end of the step the parabola has the new value, up to rounding.
        let size = next[k].abs() + values[k].abs() + previous[k].abs();
        assert!((full[k] - next[k]).abs() <= 8.0 * f64::EPSILON * size);
        let middle = 0.375 * next[k] + 0.75 * values[k] - 0.125 * previous[k];
        assert!((half[k] - middle).abs() <= 8.0 * f64::EPSILON * size);
    }
    assert_ne!(half, values);
}

/// Compares planes of all directions with those of all values.
fn check_planes(values: &[f64], plane: impl Fn(GridPlane) -> FieldColumn) {
    let strides = [1, NODES[0], NODES[0] * NODES[1]];
    for normal in 0..3 {
        for node in [0, 7, 13, 14, NODES[normal] - 1] {
            let plane_of_grid = GridPlane { normal, node };
            let [right, up] = plane_of_grid.axes();
            let at =
                |i: usize, j: usize| values[node * strides[normal] + j * strides[up] + i * strides[right]];
            let expected: Vec<f64> = (0..NODES[up])
                .flat_map(|j| (0..NODES[right]).map(move |i| (i, j)))
                .map(|(i, j)| at(i, j))
                .collect();
            let got = match plane(plane_of_grid) {
                FieldColumn::Single(values) => values.into_iter().map(f64::from).collect(),
                FieldColumn::Double(values) => values,
            };
            assert_eq!(got, expected, "{plane_of_grid:?}");
        }
    }
}

/// On the host and on all devices, now and a short time later.
#[test]
fn planes_are_those_of_all_values() {
    for precision in [Precision::Single, Precision::Double] {
        let problem = field_problem(precision);
        let dt = 0.5 * problem.max_stable_step();
        let devices = orrery_device::testing::test_devices_with_f64();
        let setups = devices.iter().map(|device| Some(WaveDeviceSetup::new(device, &problem)));
        for setup in std::iter::once(None).chain(setups) {
            let mut field = WaveField::new(&problem, dt, setup.as_ref()).unwrap();
            field.advance(dt, 40).unwrap();
            let values = field.now().values().unwrap();
            assert!(values.iter().any(|u| u.abs() > 1e-5));
            check_planes(&values, |plane| field.now().plane(plane).unwrap());
            let ahead = field.ahead(0.3 * dt).unwrap();
            let later = ahead.values().unwrap();
            assert_ne!(later, values);
            check_planes(&later, |plane| ahead.plane(plane).unwrap());
        }
    }
}

#[test]
fn a_shortened_step_ends_the_computation() {
    let problem = field_problem(Precision::Single);
    let dt = 0.5 * problem.max_stable_step();
    let mut field = WaveField::new(&problem, dt, None).unwrap();
    field.advance(dt, 20).unwrap();
    let ahead = field.ahead(0.25 * dt).unwrap().column().unwrap();
    let message = field.advance(0.25 * dt, 2).unwrap_err().to_string();
    let expected = format!(
        "the field cannot advance by 2 steps of {:?}, expected steps of {dt:?}, or one shorter step at the end",
        0.25 * dt
    );
    assert_eq!(message, expected);
    assert!(field.advance(1.01 * dt, 1).is_err() && field.ahead(1.01 * dt).is_err());
    assert!(field.ahead(0.0).is_err() && field.ahead(f64::NAN).is_err());
    field.advance(0.25 * dt, 1).unwrap();
    assert_eq!(field.now().column().unwrap(), ahead);
    assert_eq!(field.step(), 20);
    let message = field.advance(dt, 1).unwrap_err().to_string();
    assert_eq!(message, "the field ended with a shortened step, expected no further step");
}

/// A checkpoint of waves without receivers has no samples.
#[test]
fn samples_may_be_missing_without_receivers() {
    let given = field_problem(Precision::Double);
    let sources = given.sources().to_vec();
    let (sides, velocity) = (*given.sides(), given.velocity().clone());
    let problem =
        WaveProblem::new(grid(), sides, SpaceOrder::Eighth, velocity, sources, Vec::new(), Precision::Double)
            .unwrap();
    let dt = 0.8 * problem.max_stable_step();
    let mut field = WaveField::new(&problem, dt, None).unwrap();
    field.advance(dt, 3).unwrap();
    let mut columns = field.columns().unwrap();
    columns.retain(|column| column.name != "samples");
    let restored = WaveField::restore(&problem, dt, 3, columns).unwrap();
    assert_eq!(restored.columns().unwrap(), field.columns().unwrap());
}

#[test]
fn bad_columns_are_refused() {
    let problem = field_problem(Precision::Single);
    let dt = 0.5 * problem.max_stable_step();
    let columns = WaveField::new(&problem, dt, None).unwrap().columns().unwrap();
    let message = |change: &dyn Fn(&mut Vec<NamedColumn>), step| {
        let mut columns = columns.clone();
        change(&mut columns);
        WaveField::restore(&problem, dt, step, columns).unwrap_err().to_string()
    };
    assert_eq!(message(&|columns| drop(columns.remove(1)), 0), "the stored state has no column u_previous");
    assert_eq!(
        message(&|columns| columns[0].values = FieldColumn::Single(vec![0.0; 3]), 0),
        "the column u has 3 values, expected 26970"
    );
    assert_eq!(
        message(&|columns| columns[0].values = FieldColumn::Double(vec![0.0; 26_970]), 0),
        "the column u has double precision, expected single"
    );
    assert_eq!(message(&|_| (), 7), "the column samples has 2 values, expected 16");
    let last = columns.last().unwrap().name.clone();
    assert!(last.starts_with("zeta_"), "{last}");
    assert_eq!(message(&|columns| drop(columns.pop()), 0), format!("the stored state has no column {last}"));
}

#[test]
fn first_value_that_is_not_finite_is_named() {
    let problem = field_problem(Precision::Single);
    let dt = 0.5 * problem.max_stable_step();
    let field = WaveField::new(&problem, dt, None).unwrap();
    assert_eq!(field.now().check_finite(), Ok(()));
    for value in [f32::NAN, f32::INFINITY] {
        let mut columns = field.columns().unwrap();
        let FieldColumn::Single(values) = &mut columns[0].values else { panic!() };
        values[grid().index([10, 20, 5])] = value;
        values[grid().index([9, 20, 6])] = value;
        let field = WaveField::restore(&problem, dt, 0, columns).unwrap();
        assert_eq!(
            field.now().check_finite().unwrap_err().to_string(),
            format!(
                "u is {value:?} at node (10, 20, 5), x = 10.0, y = 22.0, z = 4.5, expected a finite number"
            )
        );
        assert!(!field.now().measures().unwrap().largest.is_finite());
    }
}

#[test]
fn stability_limit_is_that_of_the_scheme() {
    let limit = |grid: WaveGrid, order, c: f64| {
        let sides = Sides::uniform(SideCondition::Free);
        let velocity = Velocity::Uniform(c);
        let problem =
            WaveProblem::new(grid, sides, order, velocity, vec![], vec![], Precision::Double).unwrap();
        let (max, dt) = (problem.max_stable_step(), 1.001 * problem.max_stable_step());
        assert_eq!(problem.check_step(max), Ok(()));
        assert_eq!(
            problem.check_step(dt).unwrap_err().to_string(),
            format!(
                "the step is {dt:?}, expected a positive step of at most {max:?}, the largest stable one"
            )
        );
        for dt in [0.0, -1e-3, f64::NAN, f64::INFINITY] {
            assert!(problem.check_step(dt).is_err(), "{dt}");
        }
        max
    };
    let volume = WaveGrid::volume([9; 3], [10.0; 3]);
    assert!((limit(volume, SpaceOrder::Eighth, 2.0) * 2.0 / 10.0 - 0.45286).abs() < 5e-6);
    let plane = WaveGrid::plane([9; 2], [10.0; 2]);
    assert!((limit(plane, SpaceOrder::Eighth, 2.0) * 2.0 / 10.0 - 0.55463).abs() < 5e-6);
    // Unequal spacings: dt = 0.86603/√(1/3² + 1/4²) = 0.86603 × 2.4.
    let plane = WaveGrid::plane([9; 2], [3.0, 4.0]);
    assert!((limit(plane, SpaceOrder::Fourth, 1.0) - 0.866025 * 2.4).abs() < 1e-5);
}

#[test]
fn scheme_is_stable_at_the_limit_and_not_above() {
    for order in SpaceOrder::ALL {
        let grid = WaveGrid::volume([14, 15, 16], [1.0, 1.2, 0.9]);
        let sides = Sides::uniform(SideCondition::Free);
        let problem = |c| {
            let velocity = Velocity::Uniform(c);
            WaveProblem::new(grid, sides, order, velocity, vec![], vec![], Precision::Single).unwrap()
        };
        let dt = problem(1.0).max_stable_step();
        let largest = |c: f64| {
            // The medium is that of a step beyond the limit of this velocity.
            let medium = Medium::<f32>::new(&problem(c), dt);
            let now: Vec<f32> = scattered(grid.len(), 3).iter().map(|&u| u as f32).collect();
            let mut state = WaveState::start(&medium, now.clone(), now);
            state.previous.iter_mut().zip(&mut state.now).enumerate().for_each(|(k, (a, b))| {
                let on_surface = (0..3).any(|axis| [0, grid.nodes[axis] - 1].contains(&grid.node(k)[axis]));
                if on_surface {
                    (*a, *b) = (0.0, 0.0);
                }
            });
            let mut host = HostWave::new(medium, &state, WaveCpuStrategy::resolve());
            host.advance(2000);
            host.measures(StoredWave::State).largest
        };
        assert!(largest(1.0) < 1e3, "{order:?}: {}", largest(1.0));
        let above = largest(1.05);
        assert!(above.is_nan() || above >= 1e10, "{order:?}: {above}");
    }
}

#[test]
fn frequencies_are_resolved_with_four_points() {
    let velocity = Velocity::from_model(
        &VelocityModel::Layered {
            layers: vec![
                VelocityLayer { top: 0.0, velocity: 1500.0 },
                VelocityLayer { top: 50.0, velocity: 3000.0 },
            ],
        },
        &WaveGrid::plane([20, 21], [10.0, 5.0]),
    )
    .unwrap();
    let problem = WaveProblem::new(
        WaveGrid::plane([20, 21], [10.0, 5.0]),
        Sides::uniform(SideCondition::Rigid),
        SpaceOrder::Eighth,
        velocity,
        vec![],
        vec![],
        Precision::Single,
    )
    .unwrap();
    assert_eq!(problem.velocity_range(), [1500.0, 3000.0]);
    assert_eq!(problem.points_per_wavelength(50.0), 3.0);
    let message = problem.require_receivers().unwrap_err().to_string();
    assert_eq!(message, "the problem has 0 receivers, expected at least 1 for seismograms");
    let message = problem.check_step(1e-20).unwrap_err().to_string();
    assert!(message.starts_with("the step is 1e-20, expected at least 3.3333"), "{message}");
}

#[test]
fn bad_problems_are_refused_in_one_line() {
    let plane = WaveGrid::plane([12, 10], [0.5, 0.25]);
    let source = |position, frequency| WaveSource { position, wavelet: Wavelet::ricker(frequency) };
    let message = |velocity, sources: Vec<WaveSource>, receivers: Vec<[f64; 3]>, precision| {
        let sides = Sides::uniform(SideCondition::Free);
        WaveProblem::new(plane, sides, SpaceOrder::Second, velocity, sources, receivers, precision)
            .unwrap_err()
            .to_string()
    };
    let uniform = || Velocity::Uniform(1.0);
    assert_eq!(
        message(uniform(), vec![], vec![], Precision::Mixed),
        "waves have no mixed precision, expected single or double"
    );
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let text = message(Velocity::Uniform(value), vec![], vec![], Precision::Double);
        assert_eq!(text, format!("the velocity is {value:?}, expected a number from 1e-15 to 1e15"));
        let mut field = vec![1.0; 120];
        field[plane.index([7, 3, 0])] = value;
        let text = message(Velocity::Field(field), vec![], vec![], Precision::Double);
        let expected = "expected a number from 1e-15 to 1e15";
        assert_eq!(text, format!("the velocity is {value:?} at node (7, 3, 0), {expected}"));
    }
    assert_eq!(
        message(Velocity::Field(vec![1.0; 119]), vec![], vec![], Precision::Single),
        "the velocity has 119 values, expected 120"
    );
    assert_eq!(
        message(uniform(), vec![source([1.0, 2.5, 0.0], 1.0)], vec![], Precision::Single),
        "source 1 is at y = 2.5, expected a position from 0 to 2.25"
    );
    assert_eq!(
        message(uniform(), vec![], vec![[0.0; 3], [-0.1, 0.0, 0.0]], Precision::Single),
        "receiver 2 is at x = -0.1, expected a position from 0 to 5.5"
    );
    assert_eq!(
        message(uniform(), vec![], vec![[f64::NAN, 0.0, 0.0]], Precision::Single),
        "receiver 1 is at x = NaN, expected a position from 0 to 5.5"
    );
    assert_eq!(
        message(uniform(), vec![source([1.0; 3], -2.0)], vec![], Precision::Single),
        "the wavelet of source 1 cannot be used: frequency is -2.0, expected a positive number"
    );
    let thin = WaveGrid::plane([12, 4], [1.0; 2]);
    let error = WaveProblem::new(
        thin,
        Sides::uniform(SideCondition::Free),
        SpaceOrder::Second,
        uniform(),
        vec![],
        vec![],
        Precision::Single,
    );
    assert_eq!(error.unwrap_err().to_string(), "the grid has ny = 4 nodes, expected 9 to 1073741824");
}

#[test]
fn memory_is_that_of_the_fields_and_five_percent() {
    let sides = sides_of(15_624);
    for (grid, bytes) in
        [(WaveGrid::volume([1024; 3], [1.0; 3]), 4), (WaveGrid::plane([16_384; 2], [1.0; 2]), 4)]
    {
        let needed = WaveField::needed_bytes(&grid, &sides, Precision::Single, false, false);
        let surface: usize = (0..grid.dimensions()).map(|axis| grid.len() / grid.nodes[axis]).sum();
        let values = 2 * grid.len() + 2 * 2 * 10 * surface;
        let expected = (bytes * values) as u64;
        assert!((expected..=expected + expected / 20).contains(&needed), "{needed} {expected}");
    }
}
