//! Waves of point sources against exact solutions, and reciprocity. All runs are on the CPU and on
//! every available device.

use std::f64::consts::PI;

use orrery_device::testing::suite_cases;
use orrery_fields::wave::{Velocity, WaveSource};
use orrery_model::Precision;
use orrery_model::analysis::max_or_nan;
use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, VelocityLayer, VelocityModel, WaveGrid};
use orrery_validation::plates::largest_difference;
use orrery_validation::waves::{Ricker, Waves, largest_value, rounding_noise};

fn absorbing(thickness: usize) -> Sides {
    Sides::uniform(SideCondition::Absorbing(AbsorbingLayer::new(thickness)))
}

/// Velocity, spacing and step of the runs with a uniform medium. The Courant number is 0.4.
const C: f64 = 3.0;
const H: f64 = 0.5;
const DT: f64 = 0.4 * H / C;

/// 16 points per wavelength.
const RICKER: Ricker = Ricker { frequency: C / (16.0 * H) };

/// Largest error of a waveform at 40 spaces that is not that of time, relative to its maximum. The
/// error of order 8 in space is (r/c) h⁸/(6300 c⁸) times the ninth derivative of f, 4e-4 at most.
/// The layers reflect less than 1e-4.
const SPACE_ERROR: f64 = 5e-4;

/// Largest error of the interpolation of a source or receiver along one axis, with 16 points per
/// wavelength.
const INTERPOLATION_ERROR: f64 = 5e-4;

/// Returns time and value of the maximum of a trace, from a parabola through its largest sample and
/// the two next to it.
fn maximum(trace: &[f64], dt: f64) -> (f64, f64) {
    let at = (0..trace.len()).max_by(|&a, &b| trace[a].total_cmp(&trace[b])).expect("samples");
    let [before, top, after] = [trace[at - 1], trace[at], trace[at + 1]];
    let curvature = before - 2.0 * top + after;
    let offset = 0.5 * (before - after) / curvature;
    ((at as f64 + offset) * dt, top - 0.125 * (before - after).powi(2) / curvature)
}

/// u = f(t − r/c)/(4π r). With s = (r/c) dt²/24 and a = π × frequency, the maximum arrives earlier
/// by 10 a² s, which is −s times the fourth derivative of f by the second one, and is lower by 120
/// s² a⁶.
#[test]
fn point_source_in_space_arrives_on_time_and_decays_with_the_distance() {
    let source = [9.0, 15.0, 15.5];
    // The receivers of the second direction are between nodes.
    let directions = [([1.0, 0.0, 0.0], 0.0), ([0.6, 0.48, 0.64], 3.0)];
    let paths: Vec<_> = directions.iter().flat_map(|d| [8.0, 12.0, 16.0, 20.0].map(|r| (*d, r))).collect();
    let (steps, a) = (240, RICKER.rate());
    // The rounding errors of single precision are in the exchange of source and receiver below.
    for &precision in suite_cases(&[Precision::Double, Precision::Single], 1) {
        let waves = Waves {
            velocity: Velocity::Uniform(C),
            sources: vec![WaveSource { position: source, wavelet: RICKER.wavelet() }],
            receivers: paths
                .iter()
                .map(|((d, _), r)| std::array::from_fn(|a| source[a] + r * d[a]))
                .collect(),
            precision,
            ..Waves::new(WaveGrid::volume([74, 80, 86], [H; 3]), absorbing(10))
        };
        for (((_, axes), r), trace) in paths.iter().zip(waves.seismograms(DT, steps)) {
            let (age, scale) = (r / C, 1.0 / (4.0 * PI * r));
            let sampled = |f: &dyn Fn(f64) -> f64| (0..=steps).map(|n| scale * f(n as f64 * DT)).collect();
            let exact: Vec<f64> = sampled(&|t| RICKER.derivative(0, t - age));
            let delivered: Vec<f64> = sampled(&|t| RICKER.delivered(0, t, age, DT));
            let [error, rest] = [exact, delivered].map(|e| largest_difference(&trace, &e) / scale);
            let (arrival, peak) = maximum(&trace, DT);
            let (lead, s) = (RICKER.delay() + age - arrival, age * DT * DT / 24.0);
            let (expected_lead, expected_peak) = (10.0 * a * a * s, 1.0 - 120.0 * s * s * a.powi(6));
            println!(
                "{precision:?}, r = {r}: earlier by {:.2e} of r/c, expected {:.2e}; 4πr u = {:.5}, expected \
                 {expected_peak:.5}; waveform {error:.1e}, {rest:.1e} with the lead",
                lead / age,
                expected_lead / age,
                peak / scale,
            );
            let tolerance = SPACE_ERROR + axes * INTERPOLATION_ERROR;
            assert!(rest < tolerance, "r = {r}: {rest}");
            assert!((peak / scale - expected_peak).abs() < tolerance, "r = {r}: {}", peak / scale);
            // An error e of the waveform moves the maximum by e'/f'', about e/a. The parabola and
            // the error in space change the lead by 2%.
            let tolerance = tolerance / a + 0.03 * expected_lead;
            assert!((lead - expected_lead).abs() < tolerance, "r = {r}: {lead}, expected {expected_lead}");
        }
    }
}

/// G = H(t − r/c)/(2π √(t² − r²/c²)). With an age of (r/c) cosh θ, u = ∫ f(t − age) dθ/2π from 0 to
/// infinity.
#[test]
fn point_source_in_the_plane_has_the_waveform_of_the_green_function() {
    let source = [30.15, 32.9, 0.0];
    let offsets = [[12.0, -9.0], [0.0, 20.0], [-14.0, 14.0]];
    let steps = 320;
    let waves = Waves {
        velocity: Velocity::Uniform(C),
        sources: vec![WaveSource { position: source, wavelet: RICKER.wavelet() }],
        receivers: offsets.iter().map(|[x, y]| [source[0] + x, source[1] + y, 0.0]).collect(),
        ..Waves::new(WaveGrid::plane([141, 131], [H; 2]), absorbing(20))
    };
    for ([x, y], trace) in offsets.into_iter().zip(waves.seismograms(DT, steps)) {
        let r = f64::hypot(x, y);
        // The integrand is even in θ and vanishes at the upper limit, where the age is 10 r/c. The
        // trapezoidal sum of such a function converges faster than any power.
        let integral = |f: &dyn Fn(f64) -> f64| {
            let step = 5e-3;
            let value = |k: i32| f(r / C * (f64::from(k) * step).cosh());
            (0.5 * value(0) + (1..600).map(value).sum::<f64>()) * step / (2.0 * PI)
        };
        let exact = |n: u64| integral(&|age| RICKER.derivative(0, n as f64 * DT - age));
        let delivered = |n: u64| integral(&|age| RICKER.delivered(0, n as f64 * DT, age, DT));
        let exact: Vec<f64> = (0..=steps).map(exact).collect();
        let delivered: Vec<f64> = (0..=steps).map(delivered).collect();
        let peak = largest_value(&exact);
        let [error, rest] = [&exact, &delivered].map(|e| largest_difference(&trace, e) / peak);
        println!("r = {r:.2}: waveform {error:.1e} of its maximum {peak:.2e}, {rest:.1e} with the lead");
        // Source and receiver are between nodes along both axes.
        assert!(rest < SPACE_ERROR + 4.0 * INTERPOLATION_ERROR, "r = {r}: {rest}");
        // Steps of this length have an error of s times the third derivative, 24 a³ s at most.
        let expected = 24.0 * RICKER.rate().powi(3) * r / C * DT * DT / 24.0;
        assert!(error < expected, "r = {r}: {error}, expected at most {expected}");
    }
}

/// Returns three layers of velocity.
fn layers(grid: &WaveGrid) -> Velocity {
    let layer = |(top, velocity)| VelocityLayer { top, velocity };
    let layers = [(0.0, 1.0), (14.0, 2.0), (37.0, 1.5)].map(layer).to_vec();
    Velocity::from_model(&VelocityModel::Layered { layers }, grid).expect("a valid model")
}

/// The equation u_tt/c² − ∇²u = f and its discrete form are symmetric, for any velocity, free
/// surfaces and rigid sides, and for points between nodes. Absorbing layers multiply symmetric
/// operators of the axes by factors of their axis, so the operator is symmetric after a division by
/// all factors, which are 1 at the points. Both runs have the rounding errors of their steps.
#[test]
fn source_and_receiver_can_be_exchanged() {
    let surface = |other: Sides| Sides { y_min: SideCondition::Free, z_min: SideCondition::Free, ..other };
    let closed = surface(Sides::uniform(SideCondition::Rigid));
    let plane = (WaveGrid::plane([110, 70], [1.0; 2]), [[20.3, 2.6, 0.0], [88.0, 50.2, 0.0]]);
    let volume = (WaveGrid::volume([40, 30, 45], [1.0; 3]), [[8.3, 12.7, 1.6], [31.0, 20.2, 40.4]]);
    let (ricker, steps) = (Ricker { frequency: 0.1 }, 500);
    for ((grid, points), sides) in [(plane, closed), (plane, surface(absorbing(10))), (volume, closed)] {
        for precision in [Precision::Double, Precision::Single] {
            let traces = [(0, 1), (1, 0)].map(|(from, to)| {
                let waves = Waves {
                    velocity: layers(&grid),
                    sources: vec![WaveSource { position: points[from], wavelet: ricker.wavelet() }],
                    receivers: vec![points[to], points[from]],
                    precision,
                    ..Waves::new(grid, sides)
                };
                waves.seismograms(0.7 * waves.problem().max_stable_step(), steps)
            });
            let difference = largest_difference(&traces[0][0], &traces[1][0]);
            let peak = largest_value(&traces[0][0]);
            // u is largest at the sources.
            let largest = traces.iter().map(|traces| largest_value(&traces[1])).fold(0.0, max_or_nan);
            let bound = rounding_noise(precision, steps, largest);
            println!(
                "{:?} nodes, {precision:?}: {difference:.1e} of {peak:.1e}, bound {bound:.1e}",
                grid.nodes
            );
            assert!(difference < bound, "{:?}, {precision:?}: {difference}, bound {bound}", grid.nodes);
            assert!(peak > 50.0 * bound, "{peak}");
        }
    }
}
