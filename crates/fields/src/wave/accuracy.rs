//! Estimate of the error of traces before a run.
//!
//! A wave with the frequency f and k = 2 π f/c travels with the frequency ω_h of the scheme,
//!
//!   ω_h = c √λ(k h)/h,   λ(α) = −w_0 − 2 Σ w_r cos(r α)
//!
//! along an axis with spacing h, or (2/dt) arcsin(ω_h dt/2) if the error in time stays. After the
//! time T its phase is wrong by Δ = (ω_h − 2 π f) T. The L2 error of a trace relative to the exact
//! one is the root of Σ P(f) (2 sin(Δ/2))²/Σ P(f), with the spectrum P of the wavelet, which is
//! divided by f in two dimensions.
//!
//! c is the smallest velocity, h the largest spacing, and T the time of the longest direct path, at
//! most the time from the main part of the wavelet to the end of the run. Other directions and
//! media have smaller errors. Reflected waves have longer paths.

use std::f64::consts::PI;

use orrery_model::analysis::max_or_nan;
use orrery_model::wave::Wavelet;

use super::spectrum::{Line, spectrum};
use super::{SpaceOrder, TimeDispersion, WaveProblem, WaveSource};

/// Estimated error of the waves of a source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaveAccuracy {
    /// Error of a trace at the end of the path: its L2 norm relative to that of the trace.
    pub error: f64,
    /// Largest frequency with a notable amplitude.
    pub largest_frequency: f64,
    /// Nodes per wavelength at this frequency, with the smallest velocity and the largest spacing.
    pub points_per_wavelength: f64,
    /// Length of the path.
    pub path: f64,
    /// Largest spacing with an error of at most the limit of [`WaveAccuracy::estimate`], with a
    /// step that is shorter by the same factor. At most the spacing of the grid.
    pub spacing: f64,
    /// Error with order 8, and with corrected traces.
    pub with_order_8: f64,
    /// Error without the error in time.
    pub without_time_dispersion: f64,
}

/// Values that the error of a wavelet depends on.
#[derive(Clone, Copy, Debug)]
struct Propagation {
    order: SpaceOrder,
    time_dispersion: TimeDispersion,
    h: f64,
    dt: f64,
    c: f64,
    /// Time that the waves travel.
    time: f64,
}

impl WaveAccuracy {
    /// Estimates the errors of a run with steps of length `dt` until `end`. `slowest` is the
    /// smallest velocity of waves, which is larger than that of the problem if it has walls.
    /// Returns the largest error of all sources, `None` if no source emits waves before the end.
    ///
    /// Without receivers the path ends at the farthest corner of the grid, and has the error in
    /// time: fields are not corrected.
    pub fn estimate(problem: &WaveProblem, dt: f64, end: f64, slowest: f64, limit: f64) -> Option<Self> {
        let mut found: Option<Self> = None;
        let mut previous: Option<(&Wavelet, f64)> = None;
        for source in problem.sources() {
            let path = longest_path(problem, source);
            // Sources of a line often have the same wavelet.
            if previous.is_some_and(|(wavelet, longest)| *wavelet == source.wavelet && path <= longest) {
                continue;
            }
            previous = Some((&source.wavelet, path));
            let estimate = Self::of_source(problem, source, path, [dt, end, slowest, limit]);
            let is_larger = |new: &Self| found.is_none_or(|old| new.error > old.error || new.error.is_nan());
            found = estimate.filter(is_larger).or(found);
        }
        found
    }

    fn of_source(
        problem: &WaveProblem,
        source: &WaveSource,
        path: f64,
        [dt, end, slowest, limit]: [f64; 4],
    ) -> Option<Self> {
        let (mut lines, largest_frequency) = spectrum(&source.wavelet)?;
        if problem.grid().dimensions() == 2 {
            lines.iter_mut().for_each(|line| line.power /= line.frequency);
        }
        let time = (path / slowest).min(end - source.wavelet.main_time());
        if time <= 0.0 {
            return None;
        }
        let h = problem.grid().max_spacing();
        let is_recorded = !problem.receivers().is_empty();
        let time_dispersion = if is_recorded { problem.time_dispersion() } else { TimeDispersion::Raw };
        let travel = Propagation { order: problem.order(), time_dispersion, h, dt, c: slowest, time };
        let error = travel.error(&lines);
        let mut finer = travel;
        // An error that is not finite ends the search.
        while finer.error(&lines) > limit && finer.h > 1e-3 * h {
            finer = Propagation { h: 0.98 * finer.h, dt: 0.98 * finer.dt, ..finer };
        }
        let corrected = Propagation { time_dispersion: TimeDispersion::Corrected, ..travel };
        Some(Self {
            error,
            largest_frequency,
            points_per_wavelength: slowest / (largest_frequency * h),
            path,
            spacing: finer.h,
            with_order_8: Propagation { order: SpaceOrder::Eighth, ..travel }.error(&lines),
            without_time_dispersion: if is_recorded { corrected.error(&lines) } else { error },
        })
    }
}

impl Propagation {
    /// Returns the error of a trace with this spectrum.
    fn error(&self, lines: &[Line]) -> f64 {
        let (mut wrong, mut all) = (0.0, 0.0);
        for line in lines {
            wrong += line.power * self.squared_error(line.frequency);
            all += line.power;
        }
        (wrong / all).sqrt()
    }

    /// Returns the squared error of a wave, at most 2: that of a wave with any other phase.
    fn squared_error(&self, frequency: f64) -> f64 {
        let Self { order, time_dispersion, h, dt, c, time } = *self;
        let omega = 2.0 * PI * frequency;
        let alpha = omega * h / c;
        if alpha >= PI {
            return 2.0;
        }
        let weights = order.second_derivative();
        let pairs = (1..weights.len()).map(|r| weights[r] * (r as f64 * alpha).cos());
        let in_space = c / h * (-weights[0] - 2.0 * pairs.sum::<f64>()).max(0.0).sqrt();
        let found = match time_dispersion {
            TimeDispersion::Corrected => in_space,
            TimeDispersion::Raw => 2.0 / dt * (0.5 * dt * in_space).min(1.0).asin(),
        };
        let phase = (found - omega) * time;
        if phase.abs() < 0.5 * PI { (2.0 * (0.5 * phase).sin()).powi(2) } else { 2.0 }
    }
}

/// Returns the distance from a source to the farthest receiver, or to the farthest corner of the
/// grid if there are no receivers.
fn longest_path(problem: &WaveProblem, source: &WaveSource) -> f64 {
    let grid = problem.grid();
    let distance = |point: &[f64; 3]| {
        let squares = (0..grid.dimensions()).map(|axis| (point[axis] - source.position[axis]).powi(2));
        squares.sum::<f64>().sqrt()
    };
    let far: [f64; 3] = std::array::from_fn(|axis| {
        let (extent, at) = (grid.extent(axis), source.position[axis]);
        if at < 0.5 * extent { extent } else { 0.0 }
    });
    match problem.receivers() {
        [] => distance(&far),
        receivers => receivers.iter().map(distance).fold(0.0, max_or_nan),
    }
}
