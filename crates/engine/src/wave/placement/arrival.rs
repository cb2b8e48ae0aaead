//! Warnings about waves that do not arrive at receivers: those that arrive after the end, and those
//! that are so small that they become 0.

use std::f64::consts::PI;

use orrery_fields::wave::WaveProblem;
use orrery_model::analysis::max_or_nan;
use orrery_model::wave::Wavelet;
use orrery_model::{Precision, Units, four_digits};
use orrery_simd::Real;

use super::largest_sample;

/// Largest expected value relative to the smallest one that is not replaced by 0, below which the
/// onset and the ends of a wave are lost.
const FAINT: f64 = 1e4;

/// Returns a warning if a run until `end` ends before a wave can arrive at some receivers. Times
/// are lower bounds: those of straight paths with the largest velocity.
pub(super) fn late_warning(problem: &WaveProblem, end: f64, units: Units) -> Option<String> {
    let [_, fastest] = problem.velocity_range();
    let sources: Vec<([f64; 3], f64)> = problem
        .sources()
        .iter()
        .filter_map(|source| Some((source.position, onset(&source.wavelet)?)))
        // A wavelet that starts after the end has its own warning.
        .filter(|(_, onset)| *onset < end)
        .collect();
    if sources.is_empty() {
        return None;
    }
    let arrival = |receiver: &[f64; 3]| {
        let from = |(position, onset): &([f64; 3], f64)| {
            onset + distance(problem.grid().dimensions(), position, receiver) / fastest
        };
        sources.iter().map(from).fold(f64::INFINITY, f64::min)
    };
    let late: Vec<f64> = problem.receivers().iter().map(arrival).filter(|time| *time > end).collect();
    let earliest = late.iter().copied().reduce(f64::min)?;
    let latest = late.iter().copied().fold(earliest, max_or_nan);
    let time = |t: f64| units.format_time(t);
    Some(format!(
        "the run ends at {}, before a wave arrives at {} of {} receivers, whose traces are 0: it arrives there from {} on; \
         expected a time.end above {}",
        time(end),
        late.len(),
        problem.receivers().len(),
        time(earliest),
        time(latest)
    ))
}

/// Returns a warning if the field is so small that a notable part of it is replaced by 0.
pub(super) fn faint_warning(problem: &WaveProblem, units: Units) -> Option<String> {
    let (smallest, power) = match problem.precision() {
        Precision::Single => (f64::from(f32::TINY), -111),
        Precision::Mixed | Precision::Double => (f64::TINY, -1007),
    };
    let grid = problem.grid();
    let dimensions = grid.dimensions();
    let amplitudes = problem.sources().iter().map(|source| (source.position, amplitude(&source.wavelet)));
    let (position, amplitude) = amplitudes.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let reach = problem.receivers().iter().map(|receiver| distance(dimensions, &position, receiver));
    let farthest = reach.fold(grid.max_spacing(), max_or_nan);
    // The amplitude at this distance from a source in a uniform medium.
    let expected = if dimensions == 3 { amplitude / (4.0 * PI * farthest) } else { amplitude / (2.0 * PI) };
    (expected > 0.0 && expected < FAINT * smallest).then(|| {
        let least = amplitude * FAINT * smallest / expected;
        let double = match problem.precision() {
            Precision::Single => ", or wave.precision = \"double\"",
            Precision::Mixed | Precision::Double => "",
        };
        format!(
            "the largest amplitude of a source is {}, so waves are about {} at a distance of {}, and values below \
             2^{power} become 0; expected an amplitude of at least {}{double}",
            four_digits(amplitude),
            four_digits(expected),
            units.format_length(farthest),
            four_digits(least)
        )
    })
}

/// Returns the time from which a wavelet is not 0. `None` if it always is.
fn onset(wavelet: &Wavelet) -> Option<f64> {
    match wavelet {
        Wavelet::Ricker { amplitude: 0.0, .. } | Wavelet::Sine { amplitude: 0.0, .. } => None,
        // At this time a Ricker wavelet is at 1e-3 of its maximum.
        Wavelet::Ricker { frequency, delay, .. } => Some((delay - 1.0 / frequency).max(0.0)),
        Wavelet::Sine { delay, .. } => Some(*delay),
        Wavelet::Sampled { interval, values } => {
            let first = values.iter().position(|value| *value != 0.0)?;
            Some(interval * first.saturating_sub(1) as f64)
        }
    }
}

/// Returns the largest magnitude of a wavelet.
fn amplitude(wavelet: &Wavelet) -> f64 {
    match wavelet {
        Wavelet::Ricker { amplitude, .. } | Wavelet::Sine { amplitude, .. } => amplitude.abs(),
        Wavelet::Sampled { values, .. } => largest_sample(values).map_or(0.0, |(_, largest)| largest),
    }
}

fn distance(dimensions: usize, a: &[f64; 3], b: &[f64; 3]) -> f64 {
    (0..dimensions).map(|axis| (a[axis] - b[axis]).powi(2)).sum::<f64>().sqrt()
}
