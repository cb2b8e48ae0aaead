//! Waves at interfaces and sides: reflection and transmission, energy between reflecting sides, and
//! absorption. All runs are on the CPU and on every available device.

use std::f64::consts::PI;

use orrery_fields::wave::{Velocity, WaveSource};
use orrery_model::Precision;
use orrery_model::analysis::max_or_nan;
use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, WaveGrid, Wavelet};
use orrery_validation::measured_order;
use orrery_validation::waves::{Ricker, Waves, largest_value, rounding_noise, run_everywhere};

const RIGID: SideCondition = SideCondition::Rigid;

fn layer(thickness: usize) -> SideCondition {
    SideCondition::Absorbing(AbsorbingLayer::new(thickness))
}

/// Returns sources on all nodes of a row along y, between rigid sides. They act as a plane source
/// of strength 1 per length. A source on a rigid side counts twice, with its image.
fn plane_source(grid: &WaveGrid, x: f64, ricker: &Ricker) -> Vec<WaveSource> {
    let last = grid.nodes[1] - 1;
    let source = |j: usize| {
        let amplitude = grid.spacing[1] * if j == 0 || j == last { 0.5 } else { 1.0 };
        let (frequency, delay) = (ricker.frequency, ricker.delay());
        let wavelet = Wavelet::Ricker { frequency, delay, amplitude };
        WaveSource { position: [x, j as f64 * grid.spacing[1], 0.0], wavelet }
    };
    (0..=last).map(source).collect()
}

/// Returns the factor of `shape` in `trace`, by least squares.
fn fitted_factor(trace: &[f64], shape: &[f64]) -> f64 {
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    product(trace, shape) / product(shape, shape)
}

/// Position of the plane source.
const SOURCE: f64 = 3.0;

/// Returns the factors of waves from a plane source at receivers with these positions and ages.
/// `fastest` is the largest velocity. The wavelength is 1 where the velocity is 1.
///
/// A plane source gives u = (c/2) F(t − |x|/c), where F is the integral of f. The scheme divides by
/// ω' instead of ω, so it delivers F − dt²/24 F''.
fn plane_wave_factors<const N: usize>(
    grid: WaveGrid,
    velocity: Velocity,
    fastest: f64,
    x_max: SideCondition,
    arrivals: [(f64, f64); N],
) -> [f64; N] {
    let (h, ricker) = (grid.spacing[0], Ricker { frequency: 1.0 });
    let waves = Waves {
        velocity,
        sources: plane_source(&grid, SOURCE, &ricker),
        receivers: arrivals.map(|(x, _)| [x, 4.0 * h, 0.0]).to_vec(),
        ..Waves::new(grid, Sides { x_min: layer(20), x_max, ..Sides::uniform(RIGID) })
    };
    let (dt, duration) = (0.4 * h / fastest, 2.0 * ricker.delay());
    let oldest = arrivals.iter().map(|(_, age)| *age).fold(0.0, max_or_nan);
    let traces = waves.seismograms(dt, ((oldest + duration) / dt) as u64);
    let mut receivers = traces.iter();
    arrivals.map(|(_, age)| {
        let window = (age / dt) as usize..((age + duration) / dt) as usize;
        let shape = |n: usize| {
            let t = n as f64 * dt;
            0.5 * (ricker.delivered(-1, t, age, dt) - dt * dt / 24.0 * ricker.delivered(1, t, age, dt))
        };
        let trace = &receivers.next().expect("a trace per receiver")[window.clone()];
        fitted_factor(trace, &window.map(shape).collect::<Vec<_>>())
    })
}

/// Returns the factors of the incident, the reflected and the transmitted wave at an interface
/// between the velocities 1 and `c`. The wavelength in the first medium has `points` spaces.
fn interface_factors(points: usize, c: f64) -> [f64; 3] {
    let h = 1.0 / points as f64;
    let grid = WaveGrid::plane([20 * points + 1, 9], [h; 2]);
    // In the middle between the last node of the first medium and the first one of the second.
    let interface = 13.0 - 0.5 * h;
    let velocity = |index: usize| if grid.node(index)[0] < 13 * points { 1.0 } else { c };
    let velocity = Velocity::Field((0..grid.len()).map(velocity).collect());
    let (before, after) = (8.0, 16.0);
    let incident = before - SOURCE;
    // The incident and the reflected wave do not overlap.
    let reflected = 2.0 * interface - before - SOURCE;
    let transmitted = interface - SOURCE + (after - interface) / c;
    let arrivals = [(before, incident), (before, reflected), (after, transmitted)];
    plane_wave_factors(grid, velocity, c.max(1.0), layer(20), arrivals)
}

/// A free surface reflects with factor −1 and a rigid side with factor 1. The images of the nodes
/// are exact, so the error is that of the incident wave.
#[test]
fn sides_reflect_with_their_sign() {
    let grid = WaveGrid::plane([20 * 13 + 1, 9], [0.05; 2]);
    for (side, sign) in [(SideCondition::Free, -1.0), (RIGID, 1.0)] {
        let arrivals = [(8.0, 5.0), (8.0, 15.0)];
        let [incident, reflected] = plane_wave_factors(grid, Velocity::Uniform(1.0), 1.0, side, arrivals);
        println!("{side:?}: incident {incident:.7}, reflected {reflected:.7}");
        // The layer at x_min reflects 1e-6. Other errors are of order (ω dt)⁴/1920, which is 1e-6.
        assert!((incident - 1.0).abs() < 1e-5, "{incident}");
        assert!((reflected - sign).abs() < 1e-5, "{reflected}");
    }
}

/// Returns the error of R at an interface between two nodes, for wave numbers k1 and k2 per node.
///
/// The scheme of order 2 has R = (1 − q)/(1 + q) with q = tan(k2/2)/tan(k1/2), which is k2/k1 times
/// 1 + (k2² − k1²)/12. The other orders have almost the same error, because the interface has no
/// place between the nodes. Least squares weight ω² with the energy of F, which is proportional to
/// ω² exp(−ω²/2a²): its mean is 3 a².
fn expected_error(points: usize, c: f64) -> f64 {
    let squared = 3.0 * (PI / points as f64).powi(2);
    let change = (squared / (c * c) - squared) / (12.0 * c);
    -2.0 * change / (1.0 + 1.0 / c).powi(2)
}

/// u and its normal derivative are continuous, so R = (c2 − c1)/(c2 + c1) and T = 1 + R. For
/// velocities that fall, R is negative. The energy flux is proportional to u²/c.
#[test]
fn interfaces_reflect_and_transmit_with_the_known_coefficients() {
    for c in [0.5, 1.5, 2.0] {
        let (reflected, transmitted) = ((c - 1.0) / (c + 1.0), 2.0 * c / (c + 1.0));
        let errors = [20, 40].map(|points| {
            let [incident, r, t] = interface_factors(points, c);
            let (error, expected) = (r - reflected, expected_error(points, c));
            let flux = r * r + t * t / c;
            println!(
                "c2/c1 = {c}, {points} points: incident {incident:.6}, R = {r:.5}, expected {reflected:.5} with an error \
                 of {expected:.1e}, T = {t:.5}, expected {transmitted:.5}, flux {flux:.6}",
            );
            assert!((incident - 1.0).abs() < 1e-4, "{incident}");
            assert!((error - expected).abs() < 0.1 * expected.abs(), "{error}, expected {expected}");
            assert!((flux - 1.0).abs() < 0.1 * expected.abs(), "{flux}");
            // Energy is conserved, so T δT/c = −R δR.
            let expected = -reflected * c / transmitted * expected;
            assert!((t - transmitted - expected).abs() < 0.2 * expected.abs(), "{t}, {expected}");
            error.abs()
        });
        let order = measured_order(errors[0], errors[1]);
        println!("order {order:.3}");
        // The next term is of order (k h)², 0.07 to 0.3 with 20 points.
        assert!((order - 2.0).abs() < 0.1, "{order}");
    }
}

/// The energy of the scheme is constant after the wavelet has ended. It is quadratic, so its
/// relative error is at most twice that of u.
#[test]
fn energy_is_constant_between_rigid_and_free_sides() {
    let free = SideCondition::Free;
    let mixed = Sides { x_min: free, y_max: free, ..Sides::uniform(RIGID) };
    let ricker = Ricker { frequency: 1.0 / 12.0 };
    for (grid, sides) in [
        (WaveGrid::plane([70, 60], [1.0, 0.9]), Sides::uniform(RIGID)),
        (WaveGrid::plane([70, 60], [1.0, 0.9]), Sides::uniform(free)),
        (WaveGrid::volume([30, 28, 32], [1.0, 1.1, 0.9]), mixed),
    ] {
        for precision in [Precision::Double, Precision::Single] {
            let velocity = |index: usize| 1.0 + 0.5 * (index as f64 * 0.37).sin();
            let waves = Waves {
                velocity: Velocity::Field((0..grid.len()).map(velocity).collect()),
                sources: vec![WaveSource { position: [20.3, 12.8, 15.1], wavelet: ricker.wavelet() }],
                precision,
                ..Waves::new(grid, sides)
            };
            let problem = waves.problem();
            let dt = 0.8 * problem.max_stable_step();
            // exp(−(3π)²) is 3e-39.
            let first = ((ricker.delay() + 3.0 / ricker.frequency) / dt) as u64;
            let stops: Vec<u64> = (0..=10).map(|k| first + 200 * k).collect();
            let mut energies = Vec::new();
            run_everywhere(&problem, dt, None, &stops, |measures| energies.push(measures.energy));
            let changes: Vec<f64> = energies.iter().map(|energy| energy / energies[0] - 1.0).collect();
            let (change, bound) = (largest_value(&changes), 2.0 * rounding_noise(precision, 2000, 1.0));
            println!(
                "{:?} nodes, {precision:?}: energy {:.2e} changes by {change:.1e}, bound {bound:.1e}",
                grid.nodes, energies[0]
            );
            assert!(energies[0] > 0.01 && change < bound, "{:?}, {precision:?}: {change}", grid.nodes);
        }
    }
}

/// Distance of source and receivers from the inner edge of a layer, in nodes.
const DISTANCE: f64 = 25.0;

/// Returns the traces at receivers with these offsets along x from the source, and at the mirror
/// images of the receivers behind the inner edge, if the layer is moved away by `extra` nodes.
fn layer_traces(layer: AbsorbingLayer, extra: usize, offsets: &[f64]) -> Vec<Vec<f64>> {
    let nodes = [320, 120 + extra];
    let sides = Sides {
        y_max: SideCondition::Absorbing(layer),
        ..Sides::uniform(SideCondition::Absorbing(AbsorbingLayer::new(20)))
    };
    let edge = (120 - layer.thickness) as f64;
    let source = [50.0, edge - DISTANCE, 0.0];
    let mut receivers: Vec<[f64; 3]> = offsets.iter().map(|x| [50.0 + x, source[1], 0.0]).collect();
    if extra > 0 {
        receivers.extend(offsets.iter().map(|x| [50.0 + x, edge + DISTANCE, 0.0]));
    }
    let waves = Waves {
        sources: vec![WaveSource { position: source, wavelet: Wavelet::ricker(0.1) }],
        receivers,
        ..Waves::new(WaveGrid::plane(nodes, [1.0; 2]), sides)
    };
    // Waves travel 240 nodes: the path of 75 degrees has 193.
    waves.seismograms(0.4, 600)
}

/// Angles of incidence in degrees, and the largest reflection of layers with 10 and 20 nodes. The
/// values are measured ones with a margin of about 1.5. A layer reflects at most reflection^cos
/// angle in the continuous equation.
const REFLECTIONS: [(f64, [f64; 2]); 6] = [
    (0.0, [5e-6, 1e-6]),
    (30.0, [5e-6, 2e-6]),
    (45.0, [2e-5, 6e-6]),
    (60.0, [3e-4, 5e-5]),
    (70.0, [4e-3, 6e-4]),
    (75.0, [1.5e-2, 3e-3]),
];

/// The reflection is the difference to a grid whose layer is 200 nodes further away, relative to
/// the wave at the image of the receiver, which has the same path without a layer.
#[test]
fn layers_absorb_at_normal_and_oblique_incidence() {
    let offsets = REFLECTIONS.map(|(angle, _)| (2.0 * DISTANCE * angle.to_radians().tan()).round());
    for (which, thickness) in [10, 20].into_iter().enumerate() {
        let layer = AbsorbingLayer::new(thickness);
        let [open, closed] = [200, 0].map(|extra| layer_traces(layer, extra, &offsets));
        for (k, (angle, stated)) in REFLECTIONS.iter().enumerate() {
            let reflected: Vec<f64> = closed[k].iter().zip(&open[k]).map(|(a, b)| a - b).collect();
            let found = largest_value(&reflected) / largest_value(&open[REFLECTIONS.len() + k]);
            let continuous = layer.reflection.powf(angle.to_radians().cos());
            println!(
                "{thickness} nodes, {angle} degrees: reflection {found:.1e}, continuous {continuous:.1e}"
            );
            assert!(found < stated[which] && found < continuous, "{thickness} nodes, {angle}: {found}");
            // A comparison of a grid with itself would find no reflection.
            assert!(found > 0.1 * stated[which], "{thickness} nodes, {angle}: {found}");
        }
    }
}
