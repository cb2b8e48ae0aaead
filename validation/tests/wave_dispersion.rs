//! Errors of traces after long paths, with and without the error in time, against exact solutions
//! and against their estimates. The steps are automatic ones, 0.9 times the longest stable step.

use std::f64::consts::PI;

use orrery_fields::wave::{
    SpaceOrder, TimeDispersion, Velocity, WaveAccuracy, WaveField, WaveSource, corrected_traces,
};
use orrery_model::Precision;
use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, WaveGrid};
use orrery_validation::waves::{Ricker, Waves};

/// Velocity and spacing.
const C: f64 = 2.0;
const H: f64 = 0.5;

/// A Ricker wavelet with `points` per wavelength of its peak frequency.
fn ricker(points: f64) -> Ricker {
    Ricker { frequency: C / (points * H) }
}

/// Errors of a trace after a path.
#[derive(Clone, Copy, Debug)]
struct Errors {
    raw: f64,
    corrected: f64,
    /// Estimates of the program.
    estimates: [f64; 2],
}

/// Computes the trace of the receiver of `waves` with both treatments and compares it with `exact`,
/// which returns the value at a time.
fn errors(waves: &Waves, end: f64, exact: impl Fn(f64) -> f64) -> Errors {
    let dt = 0.9 * waves.problem().max_stable_step();
    let steps = (end / dt).ceil() as u64;
    let expected: Vec<f64> = (0..=steps).map(|n| exact(n as f64 * dt)).collect();
    let norm: f64 = expected.iter().map(|u| u * u).sum();
    let [raw, corrected] = [TimeDispersion::Raw, TimeDispersion::Corrected].map(|treatment| {
        let problem = waves.problem().with_time_dispersion(treatment);
        let estimate = WaveAccuracy::estimate(&problem, dt, end, C, 0.05).expect("waves arrive");
        let mut field = WaveField::new(&problem, dt, None).expect("a stable step");
        field.advance(dt, steps).expect("steps");
        let mut traces = field.seismograms().expect("a receiver");
        if treatment == TimeDispersion::Corrected {
            traces = corrected_traces(&traces);
        }
        let difference: f64 = traces[0].iter().zip(&expected).map(|(a, b)| (a - b).powi(2)).sum();
        ((difference / norm).sqrt(), estimate.error)
    });
    Errors { raw: raw.0, corrected: corrected.0, estimates: [raw.1, corrected.1] }
}

/// Returns the error of a trace at a distance of `nodes` along an axis in the plane, between rigid
/// sides. The exact solution is the sum of the images of the source.
fn plane_errors(order: SpaceOrder, points: f64, nodes: usize, precision: Precision) -> Errors {
    /// Nodes beside the path and behind its ends.
    const MARGIN: usize = 60;
    let grid = WaveGrid::plane([nodes + 2 * MARGIN + 1, 2 * MARGIN + 1], [H; 2]);
    let (wavelet, at) = (ricker(points), MARGIN as f64 * H);
    let waves = Waves {
        order,
        velocity: Velocity::Uniform(C),
        sources: vec![WaveSource { position: [at, at, 0.0], wavelet: wavelet.wavelet() }],
        receivers: vec![[at + nodes as f64 * H, at, 0.0]],
        precision,
        ..Waves::new(grid, Sides::uniform(SideCondition::Rigid))
    };
    let width = grid.extent(1);
    let r = nodes as f64 * H;
    let end = r / C + 3.0 * wavelet.delay();
    // The image of k reflections at the long sides is at a distance of k widths, because source and
    // receiver are in the middle. Those of the short sides arrive after the end.
    assert!(r + 2.0 * at > C * end);
    let images: Vec<f64> = (-1000..=1000)
        .map(|k| f64::hypot(r, f64::from(k) * width))
        .filter(|distance| *distance < C * end)
        .collect();
    // With an age of (r/c) cosh a, the wave of a source in the plane is the integral of f over a,
    // divided by 2 π. The integrand is zero for ages beyond the end.
    let wave = |distance: f64, t: f64| {
        let most = (t * C / distance).max(1.0).acosh();
        let count = 400;
        let step = (most / f64::from(count)).max(1e-12);
        let value = |k: i32| wavelet.derivative(0, t - distance / C * (f64::from(k) * step).cosh());
        (0.5 * (value(0) + value(count)) + (1..count).map(value).sum::<f64>()) * step / (2.0 * PI)
    };
    errors(&waves, end, |t| images.iter().filter(|d| **d < C * t).map(|d| wave(*d, t)).sum())
}

/// Returns the error of a trace in a duct with rigid sides in space, which has waves in all
/// directions. The exact solution is the sum of all images of the source.
fn duct_errors(order: SpaceOrder, points: f64, nodes: usize, precision: Precision) -> Errors {
    const WIDTH: usize = 12;
    const BEHIND: usize = 40;
    let grid = WaveGrid::volume([nodes + 2 * BEHIND + 1, WIDTH + 1, WIDTH + 1], [H; 3]);
    let (wavelet, middle, at) = (ricker(points), 0.5 * WIDTH as f64 * H, BEHIND as f64 * H);
    let absorbing = SideCondition::Absorbing(AbsorbingLayer::new(20));
    let sides = Sides { x_min: absorbing, x_max: absorbing, ..Sides::uniform(SideCondition::Rigid) };
    let r = nodes as f64 * H;
    let waves = Waves {
        order,
        velocity: Velocity::Uniform(C),
        sources: vec![WaveSource { position: [at, middle, middle], wavelet: wavelet.wavelet() }],
        receivers: vec![[at + r, middle, middle]],
        precision,
        ..Waves::new(grid, sides)
    };
    let end = r / C + 3.0 * wavelet.delay();
    let width = WIDTH as f64 * H;
    let most = (C * end / width) as i32 + 1;
    let offsets = || (-most..=most).map(|k| f64::from(k) * width);
    let images: Vec<f64> = offsets()
        .flat_map(|y| offsets().map(move |z| (r * r + y * y + z * z).sqrt()))
        .filter(|distance| *distance < C * end)
        .collect();
    errors(&waves, end, |t| images.iter().map(|d| wavelet.derivative(0, t - d / C) / (4.0 * PI * d)).sum())
}

/// The largest frequency of a Ricker wavelet is 2.5 times that of its peak, so 5 points per
/// wavelength of it are 12.5 of the peak.
const POINTS: f64 = 12.5;
const WAVELENGTHS: f64 = 50.0;

#[test]
fn order_8_in_the_plane_is_right_within_5_percent_after_50_wavelengths() {
    let nodes = (POINTS * WAVELENGTHS) as usize;
    for precision in [Precision::Double, Precision::Single] {
        let found = plane_errors(SpaceOrder::Eighth, POINTS, nodes, precision);
        println!("{precision:?}: {found:?}");
        assert!(found.corrected < 0.05, "{found:?}");
        assert!(found.raw > 1.0, "{found:?}");
    }
}

#[test]
fn order_8_in_space_is_right_within_5_percent_after_50_wavelengths() {
    let found = duct_errors(SpaceOrder::Eighth, POINTS, (POINTS * WAVELENGTHS) as usize, Precision::Single);
    println!("{found:?}");
    assert!(found.corrected < 0.05, "{found:?}");
    assert!(found.raw > 0.4, "{found:?}");
}

/// All orders: corrected traces become better with each order, and estimates of direct waves along
/// an axis are those of the runs.
#[test]
fn orders_have_their_estimated_errors() {
    for (points, wavelengths) in [(10.0, 10.0), (12.5, 20.0)] {
        let nodes = (points * wavelengths) as usize;
        let mut before = f64::INFINITY;
        for order in SpaceOrder::ALL {
            let found = plane_errors(order, points, nodes, Precision::Double);
            println!("{points} points, {wavelengths} wavelengths, {order:?}: {found:?}");
            assert!(found.corrected < before, "{order:?}: {found:?}");
            before = found.corrected;
            for (error, estimate) in [found.raw, found.corrected].into_iter().zip(found.estimates) {
                // Images have other directions with smaller errors in space.
                assert!(error < 1.2 * estimate + 0.005, "{order:?}: {found:?}");
                assert!(error > 0.3 * estimate, "{order:?}: {found:?}");
            }
        }
    }
}
