//! Estimates of the error of a run, and the spectra of wavelets on which they are based.

use orrery_fields::wave::{SpaceOrder, TimeDispersion, Velocity, WaveAccuracy, WaveProblem, WaveSource};
use orrery_model::Precision;
use orrery_model::wave::{SideCondition, Sides, WaveGrid, Wavelet};

fn problem(order: SpaceOrder, h: f64, wavelet: Wavelet, receivers: &[f64]) -> WaveProblem {
    let source = WaveSource { position: [0.0, 10.0, 0.0], wavelet };
    WaveProblem::new(
        WaveGrid::plane([(500.0 / h) as usize + 1, 41], [h, h]),
        Sides::uniform(SideCondition::Rigid),
        order,
        Velocity::Uniform(1.0),
        vec![source],
        receivers.iter().map(|&x| [x, 10.0, 0.0]).collect(),
        Precision::Double,
    )
    .unwrap()
}

/// Returns the estimate for a Ricker wavelet with `points` per wavelength of its peak frequency
/// after `wavelengths`.
fn ricker(order: u32, points: f64, wavelengths: f64, time_dispersion: TimeDispersion) -> WaveAccuracy {
    let order = SpaceOrder::from_number(order).unwrap();
    let wavelet = Wavelet::ricker(1.0 / points);
    let problem = problem(order, 1.0, wavelet, &[2.0, points * wavelengths]);
    let problem = problem.with_time_dispersion(time_dispersion);
    let dt = 0.9 * problem.max_stable_step();
    WaveAccuracy::estimate(&problem, dt, 1e4, 1.0, 0.05).unwrap()
}

#[test]
fn orders_have_the_errors_of_runs() {
    // The errors of runs of 10 points over 10 wavelengths with automatic steps: 87%, 34%, 43%
    // and 41%.
    let errors = [2, 4, 6, 8].map(|order| ricker(order, 10.0, 10.0, TimeDispersion::Raw).error);
    println!("{errors:?}");
    for (error, measured) in errors.into_iter().zip([0.87, 0.34, 0.43, 0.41]) {
        assert!((error / measured - 1.0).abs() < 0.35, "{error}, measured {measured}");
    }
    // Without the error in time, higher orders are better.
    let corrected = [2, 4, 6, 8].map(|order| ricker(order, 10.0, 10.0, TimeDispersion::Corrected).error);
    assert!(corrected.is_sorted_by(|low, high| low > high) && corrected[3] < 0.02, "{corrected:?}");
    let raw = ricker(8, 10.0, 10.0, TimeDispersion::Raw);
    assert_eq!((raw.without_time_dispersion, raw.with_order_8), (corrected[3], raw.error));
}

#[test]
fn the_spacing_of_the_remedy_has_the_error_of_the_limit() {
    let estimate = ricker(4, 10.0, 20.0, TimeDispersion::Corrected);
    assert!(estimate.error > 0.05 && estimate.spacing < 1.0, "{estimate:?}");
    let again = ricker(4, 10.0 / estimate.spacing, 20.0, TimeDispersion::Corrected);
    assert!((0.04..=0.05).contains(&again.error), "{again:?}");
    assert_eq!((again.spacing, again.path), (1.0, 200.0 / estimate.spacing));
    let points = 0.4 * 10.0 / estimate.spacing;
    assert!((again.points_per_wavelength / points - 1.0).abs() < 1e-12);
}

#[test]
fn paths_end_with_the_run_and_at_corners() {
    let wavelet = || Wavelet::ricker(0.1);
    let at = |receivers: &[f64], end: f64| {
        let problem = problem(SpaceOrder::Eighth, 1.0, wavelet(), receivers);
        let problem = problem.with_time_dispersion(TimeDispersion::Corrected);
        WaveAccuracy::estimate(&problem, 0.5, end, 1.0, 0.05)
    };
    assert_eq!(at(&[100.0], 1e4).unwrap().path, 100.0);
    // The run ends before the waves arrive, or start.
    assert!(at(&[100.0], 40.0).unwrap().error < at(&[100.0], 1e4).unwrap().error);
    assert_eq!(at(&[100.0], 10.0), None);
    // Images are not corrected.
    let images = at(&[], 1e4).unwrap();
    assert_eq!(images.path, f64::hypot(500.0, 30.0));
    assert!(images.error > at(&[500.0], 1e4).unwrap().error);
}

#[test]
fn sampled_wavelets_have_the_error_of_their_formula() {
    let ricker = Wavelet::ricker(0.08);
    let values = (0..400).map(|k| ricker.at(0.1 * f64::from(k))).collect();
    let sampled = Wavelet::Sampled { interval: 0.1, values };
    let [exact, sampled] = [ricker, sampled].map(|wavelet| {
        let problem = problem(SpaceOrder::Fourth, 1.0, wavelet, &[200.0]);
        WaveAccuracy::estimate(&problem, 0.5, 1e4, 1.0, 0.05).unwrap()
    });
    assert!((sampled.error / exact.error - 1.0).abs() < 0.05, "{sampled:?} {exact:?}");
    let ratio = sampled.largest_frequency / exact.largest_frequency;
    assert!((ratio - 1.0).abs() < 0.15, "{ratio}");
}

/// Returns the largest frequency of a wavelet, `None` if it is zero.
fn largest_frequency(wavelet: Wavelet) -> Option<f64> {
    let problem = problem(SpaceOrder::Eighth, 1.0, wavelet, &[100.0]);
    Some(WaveAccuracy::estimate(&problem, 0.5, 1e4, 1.0, 0.05)?.largest_frequency)
}

#[test]
fn long_oscillations_have_their_frequency() {
    let values: Vec<f64> = (0..20_000).map(|k| (0.5 * f64::from(k)).sin()).collect();
    let largest = largest_frequency(Wavelet::Sampled { interval: 0.1, values }).unwrap();
    let frequency = 0.5 / (2.0 * std::f64::consts::PI * 0.1);
    assert!((largest / frequency - 1.0).abs() < 0.05);
    assert_eq!(largest_frequency(Wavelet::Sampled { interval: 1.0, values: vec![0.0; 3] }), None);
    assert_eq!(largest_frequency(Wavelet::Ricker { frequency: 1.0, delay: 0.0, amplitude: 0.0 }), None);
    // A spike has all frequencies.
    assert!(largest_frequency(Wavelet::Sampled { interval: 1.0, values: vec![0.0, 1.0] }).unwrap() > 0.45);
}

/// The power of a Ricker wavelet is f⁴ exp(−2 f²/f_p²).
#[test]
fn the_largest_frequency_of_a_ricker_wavelet_has_the_share_of_samples() {
    let largest = largest_frequency(Wavelet::ricker(0.1)).unwrap() / 0.1;
    let power = |from: usize| {
        let line = |k: usize| (k as f64 / 1000.0).powi(4) * (-2.0 * (k as f64 / 1000.0).powi(2)).exp();
        (from..4000).map(line).sum::<f64>()
    };
    let share = power((1000.0 * largest) as usize) / power(0);
    assert!((0.7e-4..2.8e-4).contains(&share), "{share:e}");
}
