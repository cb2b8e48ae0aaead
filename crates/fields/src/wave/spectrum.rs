//! Power spectra of wavelets.

use std::f64::consts::PI;

use orrery_model::analysis::max_or_nan;
use orrery_model::wave::Wavelet;

/// A frequency of a spectrum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    pub frequency: f64,
    /// Power per frequency, in any unit.
    pub power: f64,
}

/// Lines of the spectrum of a Ricker wavelet, which ends at three times its frequency, where the
/// power is 1e-5 of the largest one.
const RICKER_LINES: usize = 120;
/// Samples of a segment of a sampled wavelet, and its most segments.
const SEGMENT: usize = 512;
const MOST_SEGMENTS: usize = 64;
/// Share of the power above the largest frequency of a sampled wavelet. A Ricker wavelet has the
/// same share above 2.5 times its frequency.
const SHARE_ABOVE: f64 = 1.4e-4;

/// Returns the spectrum of a wavelet and its largest frequency. `None` if all values are zero.
pub(super) fn spectrum(wavelet: &Wavelet) -> Option<(Vec<Line>, f64)> {
    match wavelet {
        Wavelet::Ricker { frequency, amplitude, .. } => {
            let line = |k: usize| {
                let x = 3.0 * (k as f64 + 0.5) / RICKER_LINES as f64;
                Line { frequency: frequency * x, power: x.powi(4) * (-2.0 * x * x).exp() }
            };
            let lines = (0..RICKER_LINES).map(line).collect();
            (*amplitude != 0.0).then_some((lines, wavelet.largest_frequency()?))
        }
        Wavelet::Sine { frequency, amplitude, .. } => {
            let lines = vec![Line { frequency: *frequency, power: 1.0 }];
            (*amplitude != 0.0).then_some((lines, wavelet.largest_frequency()?))
        }
        Wavelet::Sampled { interval, values } => sampled_spectrum(*interval, values),
    }
}

/// Returns the mean spectrum of segments of the samples, up to half of their rate. Segments of a
/// longer wavelet have a Hann window and overlap by half.
fn sampled_spectrum(interval: f64, values: &[f64]) -> Option<(Vec<Line>, f64)> {
    let bins = SEGMENT / 2;
    let half = SEGMENT / 2;
    let count = (values.len().saturating_sub(1) / half).max(1);
    let stride = count.div_ceil(MOST_SEGMENTS);
    let is_long = values.len() > SEGMENT;
    let largest = values.iter().map(|value| value.abs()).fold(0.0, max_or_nan);
    let mut powers = vec![0.0; bins];
    for segment in (0..count).step_by(stride) {
        let part = &values[segment * half..values.len().min(segment * half + SEGMENT)];
        let window = |i: usize| match is_long {
            true => 0.5 - 0.5 * (2.0 * PI * i as f64 / SEGMENT as f64).cos(),
            false => 1.0,
        };
        let scaled: Vec<f64> = part.iter().enumerate().map(|(i, v)| v / largest * window(i)).collect();
        for (bin, power) in powers.iter_mut().enumerate() {
            *power += bin_power(&scaled, (bin as f64 + 0.5) / SEGMENT as f64);
        }
    }
    // Lines between two samples reduce high frequencies by sinc².
    let line = |(bin, power): (usize, f64)| {
        let x = (bin as f64 + 0.5) / SEGMENT as f64;
        let sinc = (PI * x).sin() / (PI * x);
        Line { frequency: x / interval, power: power * sinc.powi(4) }
    };
    let lines: Vec<Line> = powers.into_iter().enumerate().map(line).collect();
    let total: f64 = lines.iter().map(|line| line.power).sum();
    if !(total > 0.0 && total.is_finite()) {
        return None;
    }
    let mut above = 0.0;
    let highest = lines.iter().rev().find(|line| {
        above += line.power;
        above > SHARE_ABOVE * total
    });
    let frequency = highest?.frequency;
    Some((lines, frequency))
}

/// Returns the power at a frequency in periods per sample.
fn bin_power(samples: &[f64], frequency: f64) -> f64 {
    let (sin, cos) = (2.0 * PI * frequency).sin_cos();
    let (mut re, mut im, mut sum_re, mut sum_im) = (1.0, 0.0, 0.0, 0.0);
    for sample in samples {
        sum_re += sample * re;
        sum_im += sample * im;
        (re, im) = (re * cos - im * sin, re * sin + im * cos);
    }
    sum_re * sum_re + sum_im * sum_im
}
