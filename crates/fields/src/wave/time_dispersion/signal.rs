//! Amplitudes of a source at the steps of a run.

use std::f64::consts::PI;
use std::sync::{Arc, OnceLock};

use orrery_model::wave::Wavelet;

use super::TimeDispersion;
use super::bessel::{LANES, bessel_rows, order_count};

/// Steps of the first block. Each further block has as many as all before it.
const FIRST_BLOCK: usize = 1024;
/// Blocks for 2^49 steps.
const BLOCKS: usize = 40;
/// Values of m whose terms are added together. The blocks of sums are added in their order.
const CHUNK: usize = 64 * LANES;
/// Largest w dt of a sine that is corrected. A step of the longest stable length with 5 points per
/// wavelength has 0.7.
const LARGEST_PHASE: f64 = 1.2;

/// The amplitudes of a source at the times 0, dt, 2 dt, …
#[derive(Clone, Debug)]
pub struct SourceSignal {
    wavelet: Wavelet,
    dt: f64,
    correction: Option<Correction>,
}

/// Corrected amplitudes, in blocks that are computed when they are needed. Those of a step do not
/// depend on the length of the run.
#[derive(Clone, Debug)]
struct Correction {
    blocks: Arc<[OnceLock<Vec<f64>>]>,
    /// Number of steps until the wavelet and its images are zero. None for a sine.
    end: Option<usize>,
    /// The continuous part of a sine.
    steady: Option<SteadySine>,
}

/// From step `start` on, the amplitude is A sin(n θ − phase).
#[derive(Clone, Copy, Debug)]
struct SteadySine {
    start: usize,
    amplitude: f64,
    theta: f64,
    phase: f64,
}

impl SourceSignal {
    /// Returns the amplitudes for steps of length `dt`.
    pub fn new(wavelet: &Wavelet, dt: f64, time_dispersion: TimeDispersion) -> Self {
        let correction = match time_dispersion {
            TimeDispersion::Corrected => Correction::new(wavelet, dt),
            TimeDispersion::Raw => None,
        };
        Self { wavelet: wavelet.clone(), dt, correction }
    }

    /// Returns true for the amplitudes of `wavelet`.
    pub(in crate::wave) fn is_of(&self, wavelet: &Wavelet) -> bool {
        self.wavelet == *wavelet
    }

    /// Returns the amplitude at the time `step` dt.
    pub fn at(&self, step: u64) -> f64 {
        match &self.correction {
            Some(correction) => correction.at(&self.wavelet, self.dt, step),
            None => self.wavelet.at(step as f64 * self.dt),
        }
    }
}

impl Correction {
    /// Returns `None` for a sine that the step does not resolve.
    fn new(wavelet: &Wavelet, dt: f64) -> Option<Self> {
        let after = |time: f64| order_count((time / dt).max(0.0).ceil() as usize + LANES);
        let steady = match *wavelet {
            Wavelet::Sine { frequency, delay, amplitude } => {
                let phase_per_step = 2.0 * PI * frequency * dt;
                if phase_per_step > LARGEST_PHASE {
                    return None;
                }
                Some(SteadySine {
                    start: after(delay + 2.0 / frequency),
                    amplitude,
                    theta: 2.0 * libm::asin(0.5 * phase_per_step),
                    phase: 2.0 * PI * frequency * delay,
                })
            }
            _ => None,
        };
        let blocks = (0..BLOCKS).map(|_| OnceLock::new()).collect();
        Some(Self { blocks, end: wavelet.last_time().map(after), steady })
    }

    fn at(&self, wavelet: &Wavelet, dt: f64, step: u64) -> f64 {
        let n = usize::try_from(step).unwrap_or(usize::MAX);
        match self.steady {
            Some(SteadySine { start, amplitude, theta, phase }) if n >= start => {
                return amplitude * libm::sin(n as f64 * theta - phase);
            }
            _ => {}
        }
        if self.end.is_some_and(|end| n >= end) {
            return 0.0;
        }
        let block = (n / FIRST_BLOCK).checked_ilog2().map_or(0, |log| log as usize + 1);
        let first = if block == 0 { 0 } else { FIRST_BLOCK << (block - 1) };
        let values =
            self.blocks[block].get_or_init(|| corrected_block(wavelet, dt, first, FIRST_BLOCK << block));
        values[n - first]
    }
}

/// Returns g_n for n = first … end − 1. Does not use Rayon: while a worker waits for its parts it
/// may execute another rank, which would wait for the same block.
fn corrected_block(wavelet: &Wavelet, dt: f64, first: usize, end: usize) -> Vec<f64> {
    let last_of_wavelet = wavelet.last_time().map_or(f64::INFINITY, |time| (time / dt).ceil());
    let last = (taper_end(end - 1) as usize).min(last_of_wavelet.max(0.0) as usize);
    // Smaller m have no terms of this block.
    let reach = order_count(first) - first;
    let from = first.saturating_sub(reach) / CHUNK;
    let chunk = |chunk: usize| {
        let mut sums = vec![0.0; end - first];
        for m in (chunk * CHUNK..(chunk + 1) * CHUNK).step_by(LANES).take_while(|m| *m <= last) {
            add_terms(wavelet, dt, m, first, &mut sums);
        }
        sums
    };
    let mut values = vec![0.0; end - first];
    for sums in (from..last / CHUNK + 1).map(chunk) {
        values.iter_mut().zip(sums).for_each(|(value, sum)| *value += sum);
    }
    if first == 0 {
        values[0] = 0.5 * wavelet.at(0.0);
    }
    values
}

/// Adds the terms of m = `from` … `from` + 7 to the sums of n = `first`, `first` + 1, …
fn add_terms(wavelet: &Wavelet, dt: f64, from: usize, first: usize, sums: &mut [f64]) {
    let amplitudes: [f64; LANES] = std::array::from_fn(|lane| match from + lane {
        0 => 0.0,
        m => 2.0 * wavelet.at(m as f64 * dt) / m as f64,
    });
    if amplitudes == [0.0; LANES] {
        return;
    }
    let rows = bessel_rows(from);
    for (n, (row, sum)) in rows.iter().skip(first).zip(sums).enumerate() {
        let n = first + n;
        for lane in 0..LANES {
            *sum += n as f64 * row[lane] * amplitudes[lane] * taper(from + lane, n);
        }
    }
}

/// Returns the last m with a weight.
fn taper_end(n: usize) -> f64 {
    1.5 * n as f64 + 128.0
}

/// Returns the weight of the term of m, which limits the sum of a wavelet without an end.
///
/// A wave with ω' dt = 2 sin φ contributes to n near m cos φ. The weights remove those with cos φ
/// below 0.7, or fewer than 5 steps per period, which no grid resolves.
fn taper(m: usize, n: usize) -> f64 {
    let start = 1.25 * n as f64 + 64.0;
    let x = (m as f64 - start) / (taper_end(n) - start);
    if x <= 0.0 {
        return 1.0;
    }
    if x >= 1.0 {
        return 0.0;
    }
    1.0 - x * x * x * x * (35.0 - x * (84.0 - x * (70.0 - x * 20.0)))
}
