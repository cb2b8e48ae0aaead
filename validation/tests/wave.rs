//! Stability, dispersion and order of the wave scheme, from modes of a box with rigid sides. All
//! runs are on the CPU and on every available device.

use std::f64::consts::PI;

use orrery_device::testing::test_devices_with_f64;
use orrery_fields::wave::cpu::WaveCpuStrategy;
use orrery_fields::wave::device::{DeviceWave, WaveDeviceStrategy, WaveShape};
use orrery_fields::wave::{HostWave, Medium, SpaceOrder, Velocity, WaveState};
use orrery_model::Precision;
use orrery_model::wave::{SideCondition, Sides, WaveGrid};
use orrery_validation::measured_order;
use orrery_validation::plates::largest_difference;
use orrery_validation::waves::{Waves, rounding_bound, symbol};

const RIGID: SideCondition = SideCondition::Rigid;

/// Returns a box with rigid sides and a receiver in its corner, where all modes are 1.
fn rigid_box(grid: WaveGrid) -> Waves {
    Waves { receivers: vec![[0.0; 3]], ..Waves::new(grid, Sides::uniform(RIGID)) }
}

/// Returns u in the corner after `steps` steps of any length, also beyond the limit, which a
/// `WaveField` refuses.
fn value_in_corner(waves: &Waves, dt: f64, steps: u64, [now, previous]: [Vec<f64>; 2]) -> f64 {
    let medium = Medium::<f64>::new(&waves.problem(), dt);
    let state = WaveState::start(&medium, now, previous);
    let mut host = HostWave::new(medium.clone(), &state, WaveCpuStrategy::resolve());
    host.advance(steps);
    let expected = host.state().now;
    for device in test_devices_with_f64() {
        let strategy = WaveDeviceStrategy::default_for(&device, WaveShape::of_medium(&medium));
        let wave = DeviceWave::new(&device, medium.clone(), &state, strategy).and_then(|mut wave| {
            wave.advance(steps)?;
            wave.state()
        });
        let found = wave.unwrap_or_else(|error| panic!("{}: {error}", device.title())).now;
        assert!(found == expected, "{}: u differs from that of the CPU", device.title());
    }
    expected[0]
}

/// The mode that changes its sign from node to node has the largest eigenvalue Λ. If its sign also
/// changes from step to step, its amplitude is cos((n + ½) φ)/cos(φ/2) with cos φ = v Λ/2 − 1. It
/// stays below 1/cos(φ/2) if v Λ < 4. Otherwise cos is replaced by cosh.
#[test]
fn stability_limits_are_the_published_ones() {
    let (c, h, steps) = (2.0, 10.0, 2000);
    for (grid, published) in
        [(WaveGrid::volume([12, 13, 14], [h; 3]), 0.45286), (WaveGrid::plane([24, 17], [h; 2]), 0.55463)]
    {
        let waves = Waves { velocity: Velocity::Uniform(c), ..rigid_box(grid) };
        let limit = waves.problem().max_stable_step() * c / h;
        println!("{:?} nodes: limit {limit:.7}, published {published}", grid.nodes);
        // The published value has five digits.
        assert!((limit - published).abs() < 5e-6, "{limit}");

        let phases = [PI; 3];
        let mode = waves.mode(phases);
        let previous: Vec<f64> = mode.iter().map(|u| -u).collect();
        let tolerance = rounding_bound(Precision::Double, steps, 1.0);
        for courant in [published - 1e-5, published + 1e-5] {
            let dt = courant * h / c;
            let found = value_in_corner(&waves, dt, steps, [mode.clone(), previous.clone()]);
            let half = 0.5 * courant * courant * waves.eigenvalue(phases) - 1.0;
            let n = steps as f64 + 0.5;
            println!("c dt/h = {courant:.5}: amplitude {found:.3e} after {steps} steps");
            if courant < published {
                let phi = half.acos();
                let expected = (n * phi).cos() / (0.5 * phi).cos();
                assert!((found - expected).abs() < tolerance, "{found} {expected}");
                assert_eq!(waves.problem().check_step(dt), Ok(()));
            } else {
                let rate = half.acosh();
                let expected = (n * rate).cosh() / (0.5 * rate).cosh();
                assert!((found / expected - 1.0).abs() < tolerance, "{found} {expected}");
                assert!(found > 1e6 && waves.problem().check_step(dt).is_err());
            }
        }
    }
}

/// Returns θ from a trace with s_(n+1) + s_(n−1) = 2 cos(θ) s_n, as a fit to all samples. The first
/// one is not that of the mode.
fn fitted_angle(trace: &[f64]) -> f64 {
    let (mut products, mut squares) = (0.0, 0.0);
    for s in trace[1..].windows(3) {
        products += s[1] * (s[0] + s[2]);
        squares += s[1] * s[1];
    }
    (0.5 * products / squares).acos()
}

/// Returns the trace of a mode that was the same one step before the start.
fn expected_trace(angle: f64, steps: u64) -> Vec<f64> {
    (0..=steps).map(|n| ((n as f64 + 0.5) * angle).cos() / (0.5 * angle).cos()).collect()
}

#[test]
fn phase_velocities_are_the_published_ones() {
    let (dt, steps) = (0.4, 1000);
    let published = [(4.0, 1.013676), (5.0, 1.010126), (8.0, 1.004138), (10.0, 1.002647)];
    for order in SpaceOrder::ALL {
        // 40 spaces are a multiple of half of all wavelengths.
        let waves = Waves { order, ..rigid_box(WaveGrid::plane([41, 9], [1.0; 2])) };
        for (points, velocity) in published {
            let phase = 2.0 * PI / points;
            let mode = waves.mode([phase, 0.0, 0.0]);
            let trace = waves.mode_seismograms(dt, steps, &mode, 1.0).swap_remove(0);
            let angle = 2.0 * (0.5 * dt * symbol(order, phase).sqrt()).asin();
            let (found, expected) = (fitted_angle(&trace) / (dt * phase), angle / (dt * phase));
            let error = (found - expected).abs();
            println!("order {}, {points} points: {found:.7}, error {error:.1e}", order.number());
            // The fit averages the rounding errors of all steps, each of some units of 2^-53.
            assert!(error < 1e-13, "{order:?}, {points} points: {found} {expected}");
            let difference = largest_difference(&trace[1..], &expected_trace(angle, steps)[1..]);
            assert!(difference < rounding_bound(Precision::Double, steps, 1.0), "{difference}");
            if order == SpaceOrder::Eighth {
                // The published values have seven digits.
                assert!((found - velocity).abs() < 5.1e-7, "{points} points: {found} {velocity}");
            }
        }
    }
}

/// A mode with another wavelength and spacing along each axis.
#[test]
fn modes_of_a_volume_follow_the_dispersion_relation() {
    let grid = WaveGrid::volume([13, 11, 9], [1.0, 1.3, 0.8]);
    let steps = 100;
    for (order, precision) in SpaceOrder::ALL
        .map(|order| (order, Precision::Double))
        .into_iter()
        .chain([(SpaceOrder::Eighth, Precision::Single)])
    {
        let waves = Waves { order, precision, ..rigid_box(grid) };
        let phases = [3.0 * PI / 12.0, 2.0 * PI / 10.0, PI / 8.0];
        let dt = 0.8 * waves.problem().max_stable_step();
        let courant = dt / grid.min_spacing();
        let angle = 2.0 * (0.5 * courant * waves.eigenvalue(phases).sqrt()).asin();
        let trace = waves.mode_seismograms(dt, steps, &waves.mode(phases), 1.0).swap_remove(0);
        let difference = largest_difference(&trace[1..], &expected_trace(angle, steps)[1..]);
        let bound = rounding_bound(precision, steps, 1.0);
        println!("order {}, {precision:?}: {difference:.1e}, bound {bound:.1e}", order.number());
        assert!(difference < bound, "{order:?}, {precision:?}: {difference}, bound {bound}");
    }
}

/// Returns the largest difference to cos(2πx) cos(2πy) cos(ωt) until t = 1 in the corner of the
/// unit square, with `points` spaces per side. The start is exact.
fn analytic_error(order: SpaceOrder, points: usize, steps: u64) -> f64 {
    let h = 1.0 / points as f64;
    let waves = Waves { order, ..rigid_box(WaveGrid::plane([points + 1; 2], [h; 2])) };
    let (omega, dt) = (8f64.sqrt() * PI, 1.0 / steps as f64);
    let mode = waves.mode([2.0 * PI * h; 3]);
    let trace = waves.mode_seismograms(dt, steps, &mode, (omega * dt).cos()).swap_remove(0);
    let exact: Vec<f64> = (0..=steps).map(|n| (omega * n as f64 * dt).cos()).collect();
    largest_difference(&trace[1..], &exact[1..])
}

/// Returns errors with two digits.
fn in_digits(errors: &[f64]) -> String {
    let texts: Vec<String> = errors.iter().map(|error| format!("{error:.1e}")).collect();
    format!("errors {}", texts.join(", "))
}

/// The step is proportional to h^(order/2), so that all errors are of this order. The error in time
/// is about a quarter of that in space.
#[test]
fn error_in_space_has_the_order_of_the_stencil() {
    for (order, steps) in SpaceOrder::ALL.into_iter().zip([24, 80, 256, 1000]) {
        let (first, levels) = if order == SpaceOrder::Eighth { (9, 2) } else { (8, 3) };
        let level = |k: u32| analytic_error(order, first << k, steps << (k * order.number() / 2));
        let errors: Vec<f64> = (0..levels).map(level).collect();
        let orders: Vec<f64> = errors.windows(2).map(|pair| measured_order(pair[0], pair[1])).collect();
        println!("order {}: {}, orders {orders:.3?}", order.number(), in_digits(&errors));
        for (k, found) in orders.iter().enumerate() {
            // The next term of the error is 0.1 to 0.3 (k h)² of it, where (k h)² is 0.6 at 8
            // points.
            let tolerance = 0.3 / 4f64.powi(k as i32);
            assert!((found - f64::from(order.number())).abs() < tolerance, "{order:?}: {orders:?}");
        }
    }
}

/// With 32 points per wavelength, the error in space is 1e-8 of that in time.
#[test]
fn error_in_time_is_of_second_order() {
    let errors = [80, 160, 320].map(|steps| analytic_error(SpaceOrder::Eighth, 32, steps));
    for pair in errors.windows(2) {
        let order = measured_order(pair[0], pair[1]);
        println!("{}, order {order:.3}", in_digits(&errors));
        // The next term is (ω dt)²/9 of the error, which is 0.1%, and the largest of discrete times
        // misses the maximum by (ω dt)²/8.
        assert!((order - 2.0).abs() < 0.02, "order {order} from errors {errors:?}");
    }
}
