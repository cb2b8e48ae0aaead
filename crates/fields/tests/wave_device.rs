//! Compares wave fields on devices with fields on the host.

use orrery_device::testing::test_devices;
use orrery_fields::wave::device::WaveDeviceStrategy;
use orrery_fields::wave::{
    SpaceOrder, Velocity, WaveDeviceSetup, WaveError, WaveField, WaveProblem, WaveSource,
};
use orrery_model::Precision;
use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, WaveGrid, Wavelet};

/// Returns a problem with all kinds of sides, a velocity per node, a source and two receivers.
fn problem(grid: WaveGrid, precision: Precision) -> WaveProblem {
    let velocity = (0..grid.len()).map(|node| 2.0 + (node as f64 * 0.7).sin()).collect();
    let layer = |thickness| SideCondition::Absorbing(AbsorbingLayer::new(thickness));
    let sides = Sides {
        x_min: SideCondition::Rigid,
        x_max: layer(6),
        y_min: SideCondition::Free,
        y_max: layer(5),
        z_min: layer(4),
        z_max: SideCondition::Free,
    };
    let at = |fraction: f64| {
        std::array::from_fn(|axis| if axis < grid.dimensions() { fraction * grid.extent(axis) } else { 0.0 })
    };
    let source = WaveSource { position: at(0.4), wavelet: Wavelet::ricker(0.5) };
    WaveProblem::new(
        grid,
        sides,
        SpaceOrder::Eighth,
        Velocity::Field(velocity),
        vec![source],
        vec![at(0.5), at(0.21)],
        precision,
    )
    .expect("a valid problem")
}

/// Returns problems in two and three dimensions that a device can compute.
fn problems(has_f64: bool) -> Vec<WaveProblem> {
    let volume = WaveGrid::volume([31, 24, 26], [1.0, 1.1, 0.9]);
    let mut problems = vec![
        problem(volume, Precision::Single),
        problem(WaveGrid::plane([67, 43], [1.0, 0.8]), Precision::Single),
    ];
    if has_f64 {
        problems.push(problem(volume, Precision::Double));
    }
    problems
}

fn assert_same(found: &WaveField, expected: &WaveField) -> Result<(), WaveError> {
    assert_eq!(found.step(), expected.step());
    // Columns of NaN would not be equal.
    assert!(found.columns()? == expected.columns()?, "{}", found.strategy_name());
    assert_eq!(found.seismograms()?, expected.seismograms()?);
    Ok(())
}

#[test]
fn fields_on_devices_have_the_bits_of_the_host() -> Result<(), WaveError> {
    for device in test_devices() {
        for problem in problems(device.properties().has_f64) {
            let dt = 0.8 * problem.max_stable_step();
            let setup = WaveDeviceSetup::new(&device, &problem);
            let mut host = WaveField::new(&problem, dt, None)?;
            let mut field = WaveField::new(&problem, dt, Some(&setup))?;
            assert_eq!((host.device().is_some(), field.device().is_some()), (false, true));
            assert_eq!(field.strategy_name(), setup.strategy.name());
            host.advance(dt, 40)?;
            field.advance(dt, 40)?;
            field.wait()?;
            assert_same(&field, &host)?;
            assert!(field.seismograms()?.iter().all(|trace| trace.iter().any(|u| *u != 0.0)));

            let expected = host.ahead(0.3 * dt)?.column()?;
            assert_eq!(field.ahead(0.3 * dt)?.column()?, expected);
            assert_eq!(field.last_ahead().measures()?.largest, host.last_ahead().measures()?.largest);
            assert_same(&field, &host)?;

            host.advance(dt, 5)?;
            field.advance(dt, 5)?;
            assert_same(&field, &host)?;
            host.advance(0.6 * dt, 1)?;
            field.advance(0.6 * dt, 1)?;
            assert_same(&field, &host)?;
            assert_eq!(field.advance(dt, 1), Err(WaveError::Ended));
        }
    }
    Ok(())
}

#[test]
fn restored_and_moved_fields_have_the_bits_of_the_host() -> Result<(), WaveError> {
    for device in test_devices() {
        for problem in problems(device.properties().has_f64) {
            let dt = 0.8 * problem.max_stable_step();
            let setup = WaveDeviceSetup::new(&device, &problem);
            let mut host = WaveField::new(&problem, dt, None)?;
            let mut field = WaveField::new(&problem, dt, Some(&setup))?;
            host.advance(dt, 42)?;
            field.advance(dt, 20)?;
            // From the device to the host by columns, to the device, and to it again.
            let mut restored = WaveField::restore(&problem, dt, field.step(), field.columns()?)?;
            restored.advance(dt, 7)?;
            let mut moved = restored.moved_to(&device, None)?;
            moved.advance(dt, 5)?;
            let other = WaveDeviceStrategy { planes_per_chunk: 9, ..setup.strategy };
            let mut moved = moved.moved_to(&device, Some(other))?;
            assert_eq!(moved.strategy_name(), other.name());
            moved.advance(dt, 10)?;
            assert_same(&moved, &host)?;
        }
    }
    Ok(())
}

#[test]
fn values_that_are_not_finite_are_named_on_devices() -> Result<(), WaveError> {
    for device in test_devices() {
        let problem = &problems(false)[0];
        let dt = 0.8 * problem.max_stable_step();
        let field = WaveField::new(problem, dt, None)?;
        let mut columns = field.columns()?;
        let orrery_fields::FieldColumn::Single(values) = &mut columns[0].values else { panic!() };
        values[problem.grid().index([3, 2, 1])] = f32::NAN;
        let damaged = WaveField::restore(problem, dt, 0, columns)?;
        // NaN in the error is not equal to itself.
        let expected = damaged.now().check_finite().expect_err("NaN").to_string();
        let found = damaged.moved_to(&device, None)?.now().check_finite().expect_err("NaN");
        assert_eq!(found.to_string(), expected);
        assert_eq!(field.moved_to(&device, None)?.now().check_finite(), Ok(()));
    }
    Ok(())
}
