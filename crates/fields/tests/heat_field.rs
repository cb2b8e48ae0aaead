//! Compares [`HeatField`] on every device with the same field on the host.

use orrery_device::testing::test_devices;
use orrery_fields::heat::device::HeatDeviceStrategy;
use orrery_fields::heat::{Conductivity, HeatDeviceSetup, HeatField, HeatProblem, HeatView};
use orrery_model::Precision;
use orrery_model::grid::{Boundaries, Boundary, Grid};

/// Requires equal bits, and equal measures up to the order of a sum.
fn compare(found: HeatView, expected: HeatView) {
    assert_eq!(found.column().unwrap(), expected.column().unwrap());
    assert_eq!(found.edge_fluxes().unwrap(), expected.edge_fluxes().unwrap());
    let (found, expected) = (found.measures().unwrap(), expected.measures().unwrap());
    assert_eq!((found.min, found.max), (expected.min, expected.max));
    // All values are positive, so the error of a sum of n terms is below n ε times the sum.
    let tolerance = 4000.0 * f64::EPSILON * expected.heat_content;
    assert!((found.heat_content - expected.heat_content).abs() < tolerance, "{found:?} {expected:?}");
}

#[test]
fn field_on_a_device_equals_the_field_on_the_host() {
    let grid = Grid { nx: 61, ny: 43, hx: 0.1, hy: 0.1 };
    let boundaries = Boundaries {
        west: Boundary::fixed(1.0),
        east: Boundary::flux(0.5),
        south: Boundary::Periodic,
        north: Boundary::Periodic,
    };
    let uniform = Conductivity::Uniform(0.8);
    let problem = HeatProblem::new(grid, boundaries, uniform, None, Precision::Single).unwrap();
    let initial: Vec<f64> = (0..grid.len()).map(|k| 1.0 + (k * k % 101) as f64).collect();
    let dt = problem.max_stable_step();
    for device in test_devices() {
        let setup = HeatDeviceSetup::new(&device, &problem);
        let mut on_device = HeatField::new(&problem, &initial, Some(&setup)).unwrap();
        let mut on_host = HeatField::new(&problem, &initial, None).unwrap();
        assert!(on_device.device().is_some() && on_host.device().is_none());
        on_device.advance(dt, 21).unwrap();
        on_host.advance(dt, 21).unwrap();
        compare(on_device.now(), on_host.now());
        compare(on_device.ahead(0.4 * dt).unwrap(), on_host.ahead(0.4 * dt).unwrap());
        // A state of the host continues on the device.
        let column = on_host.now().stored_column().unwrap();
        let restored = HeatField::restore(&problem, column, Some(&setup)).unwrap();
        let mut moved = restored.with_base(on_host.base());
        moved.advance(dt, 3).unwrap();
        on_host.advance(dt, 3).unwrap();
        compare(moved.now(), on_host.now());
        assert_eq!(moved.now().check_finite(), Ok(()));
    }
}

#[test]
fn moved_field_uses_the_given_strategy_and_keeps_its_values() {
    for device in test_devices() {
        let grid = Grid { nx: 20, ny: 9, hx: 0.1, hy: 0.1 };
        let problem = HeatProblem::new(
            grid,
            Boundaries::uniform(Boundary::fixed(0.0)),
            Conductivity::Uniform(1.0),
            None,
            Precision::Single,
        )
        .unwrap();
        let field = || HeatField::new(&problem, &vec![1.0; grid.len()], None).unwrap();
        let default = HeatDeviceStrategy::default_for(&device, grid.len(), Precision::Single, false);
        let one_step = HeatDeviceStrategy::one_step_for(&device, Precision::Single, false);
        assert_ne!(default, one_step);
        for (given, expected) in [(None, default), (Some(one_step), one_step)] {
            let moved = field().moved_to(&device, given).unwrap();
            assert!(!moved.is_variable());
            assert_eq!(moved.strategy_name(), expected.name());
            assert_eq!(moved.now().column().unwrap(), field().now().column().unwrap());
        }
    }
}
