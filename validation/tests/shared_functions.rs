//! Functions that the physics tests share: distributions, distances, means of correlated series,
//! exact waves.

use std::f64::consts::PI;

use orrery_fields::wave::SpaceOrder;
use orrery_validation::fluids::{Mean, maximum_between};
use orrery_validation::waves::{Ricker, symbol};
use orrery_validation::{kolmogorov_bound, kolmogorov_gap, largest_distance};

/// D of evenly spaced values is half their spacing for the uniform distribution, and large for
/// a skewed one.
#[test]
fn kolmogorov_gap_of_evenly_spaced_values_is_half_their_spacing() {
    let sample: Vec<f64> = (0..10).map(|k| (f64::from(k) + 0.5) / 10.0).collect();
    assert!((kolmogorov_gap(sample.clone(), |x| x) - 0.05).abs() < 1e-12);
    assert!(kolmogorov_gap(sample, |x| x * x) > 0.25);
    // Published tables give 1.9495 / √n at 0.1%.
    assert!((kolmogorov_bound(100) - 0.194_95).abs() < 1e-4);
}

#[test]
fn a_nan_propagates_through_distances_and_gaps() {
    let bodies = orrery_model::ic::FigureEight.generate(1.0).unwrap();
    assert_eq!(largest_distance(&bodies, &bodies), 0.0);
    for i in 0..3 {
        for c in 0..3 {
            let (mut with_nan, mut position) = (bodies.clone(), bodies.position.get(i));
            position[c] = f64::NAN;
            with_nan.position.set(i, position);
            assert!(largest_distance(&with_nan, &bodies).is_nan());
            assert!(largest_distance(&bodies, &with_nan).is_nan());
        }
    }
    assert!(kolmogorov_gap(vec![0.25, f64::NAN, 0.75], |x| x).is_nan());
}

/// An autoregressive series x' = c x + noise of variance 1 has the variance 1/(1 − c²), and the
/// error of its mean is 1/((1 − c) √n).
#[test]
fn errors_of_correlated_series_are_those_of_the_process() {
    let (c, n) = (0.9, 32_000);
    let noise = |k: u64| orrery_model::rng::Draws::new(5, 0, k).normal();
    let series: Vec<f64> = (0..n)
        .scan(0.0, |x, k| {
            *x = c * *x + noise(k);
            Some(*x)
        })
        .collect();
    let mean = Mean::of_series(&series);
    let expected = 1.0 / ((1.0 - c) * (n as f64).sqrt());
    // Four times the 18% of 16 blocks.
    assert!((mean.error / expected - 1.0).abs() < 0.75, "{mean:?} {expected}");
    assert!(mean.value.abs() < 4.0 * expected, "{mean:?}");
    let variance = Mean::variance_of_series(&series);
    assert!((variance.value - 1.0 / (1.0 - c * c)).abs() < 5.0 * variance.error, "{variance:?}");
    // Independent values would have a far smaller error.
    assert!(mean.error > 2.0 * (variance.value / n as f64).sqrt());
}

#[test]
fn a_maximum_between_bins_is_found() {
    let row = |k: i32| {
        let r = 0.1 * f64::from(k) + 0.05;
        vec![r, 2.0 - (r - 3.72).powi(2)]
    };
    let rows: Vec<_> = (0..100).map(row).collect();
    assert!((maximum_between(&rows, [3.0, 5.0], 0.35) - 3.72).abs() < 1e-9);
    assert_eq!(Mean::of_independent(&[1.0, 3.0]).plus(1.0).times(-2.0).value, -6.0);
}

#[test]
fn symbol_has_the_published_weights() {
    let weights: [f64; 5] = [-205.0 / 72.0, 8.0 / 5.0, -1.0 / 5.0, 8.0 / 315.0, -1.0 / 560.0];
    for phase in [0.1, 1.0, 2.0, PI] {
        let pairs: f64 = (1..5).map(|r| 2.0 * weights[r] * (r as f64 * phase).cos()).sum();
        assert!((symbol(SpaceOrder::Eighth, phase) + weights[0] + pairs).abs() < 1e-14, "{phase}");
        assert!((symbol(SpaceOrder::Second, phase) - 2.0 + 2.0 * phase.cos()).abs() < 1e-14);
    }
}

#[test]
fn derivatives_of_the_wavelet_are_consistent() {
    let ricker = Ricker { frequency: 0.7 };
    let (eta, wavelet) = (1e-4, ricker.wavelet());
    for k in 0..40 {
        let t = 0.1 * f64::from(k);
        assert!((ricker.derivative(0, t) - wavelet.at(t)).abs() < 1e-14);
        for order in -1..6 {
            let difference =
                (ricker.derivative(order, t + eta) - ricker.derivative(order, t - eta)) / (2.0 * eta);
            // The error of the difference is η²/6 times the third derivative, at most a³ × 840.
            let scale = ricker.rate().powi(order + 1) * 1e5;
            assert!((difference - ricker.derivative(order + 1, t)).abs() < 1e-7 * scale, "{order} {t}");
        }
    }
}
