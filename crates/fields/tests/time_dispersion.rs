//! Corrections of single oscillators against exact solutions.

use std::f64::consts::PI;
use std::sync::{Mutex, Once, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use orrery_fields::wave::time_dispersion::bessel::{LANES, bessel_rows, order_count};
use orrery_fields::wave::time_dispersion::prediction::extend;
use orrery_fields::wave::{SourceSignal, TimeDispersion, corrected_traces};
use orrery_model::analysis::max_or_nan;
use orrery_model::wave::Wavelet;

/// Returns u of u_tt = −w² u + f from rest with steps of length 1, as the scheme computes a mode.
fn scheme(w: f64, count: usize, amplitude: impl Fn(u64) -> f64) -> Vec<f64> {
    let mut u = vec![0.0; count];
    for n in 0..count - 1 {
        let before = if n == 0 { 0.0 } else { u[n - 1] };
        u[n + 1] = 2.0 * u[n] - before - w * w * u[n] + amplitude(n as u64);
    }
    u
}

/// Returns the exact u = ∫ f(s) sin(w (t − s))/w ds. The trapezoidal rule with 20 points per step
/// is exact up to rounding for smooth wavelets that start at zero.
fn exact(w: f64, count: usize, wavelet: &Wavelet) -> Vec<f64> {
    const POINTS: usize = 20;
    let (mut cosines, mut sines) = (0.0, 0.0);
    let mut u = Vec::new();
    for k in 0..count * POINTS {
        let s = k as f64 / POINTS as f64;
        let f = wavelet.at(s) / POINTS as f64;
        // The last point of the rule has half a weight, and sin(w (t - s)) is zero there.
        cosines += f * (w * s).cos();
        sines += f * (w * s).sin();
        if k % POINTS == 0 {
            u.push(((w * s).sin() * cosines - (w * s).cos() * sines) / w);
        }
    }
    u
}

/// Returns the L2 norm of the difference relative to that of the second argument.
fn relative_error(found: &[f64], expected: &[f64]) -> f64 {
    let difference: f64 = found.iter().zip(expected).map(|(a, b)| (a - b).powi(2)).sum();
    let norm: f64 = expected.iter().map(|b| b * b).sum();
    (difference / norm).sqrt()
}

/// Samples of a run, and those at its end that depend on predictions.
const COUNT: usize = 700;
const END: usize = 30;

/// Returns the errors of raw traces and of corrected ones, without the end.
fn errors(w: f64, wavelet: &Wavelet) -> [f64; 2] {
    let expected = &exact(w, COUNT, wavelet)[..COUNT - END];
    let raw = scheme(w, COUNT, |n| wavelet.at(n as f64));
    let signal = SourceSignal::new(wavelet, 1.0, TimeDispersion::Corrected);
    let corrected = &corrected_traces(&[scheme(w, COUNT, |n| signal.at(n))])[0];
    [relative_error(&raw[..COUNT - END], expected), relative_error(&corrected[..COUNT - END], expected)]
}

#[test]
fn free_oscillations_get_the_frequency_of_the_equation() {
    // Several receivers, more than are added together.
    let theta = |receiver: usize| 0.1 + 0.15 * receiver as f64;
    let raw: Vec<Vec<f64>> =
        (0..6).map(|r| (0..500).map(|n| (theta(r) * n as f64).cos()).collect()).collect();
    for (receiver, trace) in corrected_traces(&raw).iter().enumerate() {
        assert_eq!(trace.len(), 500);
        let frequency = 2.0 * (0.5 * theta(receiver)).sin();
        for m in 0..440 {
            let expected = (frequency * m as f64).cos();
            // The rest is the prediction after the end, 60 samples away: Ai(9.5) = 5e-10.
            assert!((trace[m] - expected).abs() < 1e-8, "{receiver} {m}: {} {expected}", trace[m]);
        }
    }
    assert!(corrected_traces(&[]).is_empty());
    assert_eq!(corrected_traces(&vec![Vec::new(); 2]), vec![Vec::<f64>::new(); 2]);
    assert_eq!(corrected_traces(&[vec![0.0, 0.0]]), [vec![0.0, 0.0]]);
}

/// A mode with 12 steps per period has an error of 20% after 600 steps, and the transforms remove
/// it. The rest of 1e-6 is the taper and what is above the highest frequency of the scheme.
#[test]
fn driven_oscillators_have_the_exact_solution() {
    let ricker = |frequency: f64| Wavelet::Ricker { frequency, delay: 1.5 / frequency, amplitude: 3.0 };
    for (w, frequency) in [(0.1, 0.02), (0.3, 0.05), (0.5, 0.06), (0.7, 0.06)] {
        let [raw, corrected] = errors(w, &ricker(frequency));
        println!("{w} {frequency}: {raw:.1e} {corrected:.1e}");
        assert!(corrected < 2e-5, "{w} {frequency}: {corrected}");
        assert!(raw > 100.0 * corrected, "{w} {frequency}: {raw} {corrected}");
    }
    // A sampled wavelet of 40 points per step and a late one. The exact solution has rounded
    // corners of the samples.
    let values = (0..8000).map(|k| ricker(0.05).at(f64::from(k) * 0.025 - 100.0)).collect();
    let [raw, corrected] = errors(0.3, &Wavelet::Sampled { interval: 0.025, values });
    assert!(corrected < 1e-4 && raw > 0.01, "{raw} {corrected}");
}

/// A sine continues for the whole run. Its amplitudes come from sums until it is steady.
#[test]
fn sines_have_the_exact_solution() {
    for (frequency, delay) in [(0.04, 0.0), (0.03, 20.0), (0.08, 3.3)] {
        let sine = Wavelet::Sine { frequency, delay, amplitude: 2.0 };
        let [raw, corrected] = errors(0.4, &sine);
        println!("{frequency} {delay}: {raw:.1e} {corrected:.1e}");
        assert!(corrected < 2e-4, "{frequency} {delay}: {corrected}");
        assert!(raw > 20.0 * corrected, "{frequency} {delay}: {raw}");
        // The sums and the steady sine agree where one ends.
        let signal = SourceSignal::new(&sine, 1.0, TimeDispersion::Corrected);
        let theta = 2.0 * (PI * frequency).asin();
        let start = (delay + 2.0 / frequency) as usize + 30;
        for n in start..start + 40 {
            let steady = 2.0 * (theta * n as f64 - 2.0 * PI * frequency * delay).sin();
            assert!((signal.at(n as u64) - steady).abs() < 1e-4, "{n}: {} {steady}", signal.at(n as u64));
        }
    }
    // A frequency beyond the steps stays as it is.
    let sine = Wavelet::Sine { frequency: 0.4, delay: 0.0, amplitude: 1.0 };
    let signal = SourceSignal::new(&sine, 1.0, TimeDispersion::Corrected);
    assert_eq!(signal.at(77), sine.at(77.0));
}

/// Blocks of amplitudes fit together, and do not depend on the order of the calls.
#[test]
fn amplitudes_are_those_of_one_sum() {
    let wavelet = Wavelet::Ricker { frequency: 0.02, delay: 1000.0, amplitude: 1.0 };
    let signal = SourceSignal::new(&wavelet, 1.0, TimeDispersion::Corrected);
    let late: Vec<f64> = (900..1200).rev().map(|n| signal.at(n)).collect();
    let again = SourceSignal::new(&wavelet, 1.0, TimeDispersion::Corrected);
    let values: Vec<f64> = (900..1200).map(|n| again.at(n)).collect();
    assert!(late.iter().rev().eq(&values));
    // The blocks meet at 1024, on the wavelet. Its third differences are smooth there.
    let third = |n: usize| values[n + 3] - 3.0 * values[n + 2] + 3.0 * values[n + 1] - values[n];
    let largest = (100..118).chain(126..145).map(third).map(f64::abs).fold(0.0, max_or_nan);
    assert!((118..126).all(|n| third(n).abs() < 2.0 * largest), "{largest}");
    assert_eq!(signal.at(2000), 0.0);
    let raw = SourceSignal::new(&wavelet, 1.0, TimeDispersion::Raw);
    assert_eq!(raw.at(1010), wavelet.at(1010.0));
}

/// A trace that is cut within its waves: its last samples are predicted within a few percent.
#[test]
fn truncated_traces_keep_their_length() {
    let wavelet = Wavelet::Ricker { frequency: 0.03, delay: 60.0, amplitude: 1.0 };
    let signal = SourceSignal::new(&wavelet, 1.0, TimeDispersion::Corrected);
    let trace = scheme(0.2, 2 * COUNT, |n| signal.at(n));
    let long = &corrected_traces(std::slice::from_ref(&trace))[0];
    let short = &corrected_traces(&[trace[..COUNT].to_vec()])[0];
    let largest = long.iter().map(|u| u.abs()).fold(0.0, max_or_nan);
    let difference = |n: usize| (short[n] - long[n]).abs() / largest;
    // 2.5 N^(1/3) = 22.
    assert!((0..COUNT - 22).all(|n| difference(n) < 1e-3));
    assert!((0..COUNT).all(|n| difference(n) < 0.05));
    assert!((0..COUNT - 60).all(|n| difference(n) < 1e-9));
}

/// The workers of Rayon step runs, and wait for the output threads that call this function. So it
/// must not wait for a worker.
#[test]
fn traces_are_corrected_while_all_workers_wait() {
    let traces: Vec<Vec<f64>> = (0..5).map(|k| (0..3000).map(|n| f64::from(n * k % 17)).collect()).collect();
    let (sender, receiver) = mpsc::channel();
    let receiver = Mutex::new(receiver);
    let corrected = OnceLock::new();
    let start = Once::new();
    rayon::broadcast(|_| {
        let (traces, sender) = (traces.clone(), sender.clone());
        start.call_once(|| drop(thread::spawn(move || sender.send(corrected_traces(&traces)))));
        corrected.get_or_init(|| receiver.lock().unwrap().recv_timeout(Duration::from_secs(60)));
    });
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let expected = pool.install(|| corrected_traces(&traces));
    assert_eq!(corrected.get(), Some(&Ok(expected)));
}

/// Returns J_k(x) by the trapezoidal rule for its integral, which converges exponentially.
fn integral(k: usize, x: f64) -> f64 {
    let points = 4 * (k + x as usize + 50);
    let value = |i: usize| {
        let angle = 2.0 * PI * i as f64 / points as f64;
        (k as f64 * angle - x * angle.sin()).cos()
    };
    (0..points).map(value).sum::<f64>() / points as f64
}

#[test]
fn recurrence_gives_the_integral_of_bessel() {
    for first in [0, 8, 64, 2000] {
        let rows = bessel_rows(first);
        assert_eq!(rows.len(), order_count(first + LANES - 1));
        for n in (0..rows.len()).step_by(1 + rows.len() / 50) {
            for lane in 0..LANES {
                let expected = integral(2 * n, 2.0 * (first + lane) as f64);
                // Rounding grows with the number of terms of the sum.
                assert!((rows[n][lane] - expected).abs() < 1e-12, "{first} {n} {lane}");
            }
        }
    }
    // J_0(2) and J_2(4) of Abramowitz and Stegun, table 9.1.
    let rows = bessel_rows(0);
    assert!((rows[0][1] - 0.223_890_779_141_236).abs() < 1e-14);
    assert!((rows[1][2] - 0.364_128_145_9).abs() < 1e-10);
}

#[test]
fn oscillations_continue_and_zeros_stay_zero() {
    let wave = |n: usize| (0.3 * n as f64).sin() + 0.5 * (0.11 * n as f64 + 1.0).cos();
    let mut trace: Vec<f64> = (0..600).map(wave).collect();
    extend(&mut trace, 60);
    assert_eq!(trace.len(), 660);
    // Burg's method has a bias for oscillations of a finite window.
    let error = (600..660).map(|n| (trace[n] - wave(n)).abs()).fold(0.0, max_or_nan);
    assert!(error < 0.02, "{error}");
    for start in [Vec::new(), vec![0.0], vec![0.0; 100]] {
        let mut trace = start.clone();
        extend(&mut trace, 5);
        assert_eq!(trace, vec![0.0; start.len() + 5]);
    }
    let mut trace = vec![f64::NAN; 9];
    extend(&mut trace, 2);
    assert_eq!(trace.len(), 11);
}
