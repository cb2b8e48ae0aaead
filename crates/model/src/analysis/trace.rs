//! Arrival time and amplitude of the trace of a seismogram.

use super::sum::compensated_sum;

/// Part of the largest amplitude of a trace at which its first break is. It is above the numerical
/// dispersion before a wave, and on the first flank of common wavelets.
pub const FIRST_BREAK_FRACTION: f64 = 0.05;

/// Measurements of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceMeasures {
    /// First time at which the size of the signal reaches [`FIRST_BREAK_FRACTION`] of its largest
    /// size, linear between samples. `None` if all samples are 0.
    pub first_break: Option<f64>,
    /// Time of the sample with the largest size, the first one of several. `None` if all samples
    /// are 0.
    pub peak_time: Option<f64>,
    /// Sample with the largest size, with its sign.
    pub peak: f64,
    /// Root mean square of the samples.
    pub rms: f64,
}

impl TraceMeasures {
    /// Measures samples at the times `start`, `start + dt` and so on. All are finite.
    ///
    /// ```
    /// use orrery_model::analysis::TraceMeasures;
    ///
    /// // The signal rises to 10 between the times 1.5 and 2. Its first break is at 5.
    /// let found = TraceMeasures::measure(&[0.0, 0.0, 10.0, -100.0, 0.0], 1.0, 0.5);
    /// assert_eq!(found.first_break, Some(1.75));
    /// assert_eq!((found.peak_time, found.peak), (Some(2.5), -100.0));
    /// ```
    pub fn measure(samples: &[f64], start: f64, dt: f64) -> Self {
        let time = |place: f64| start + place * dt;
        let mut peak_index = 0;
        for (k, sample) in samples.iter().enumerate() {
            if sample.abs() > samples[peak_index].abs() {
                peak_index = k;
            }
        }
        let peak = samples.get(peak_index).copied().unwrap_or(0.0);
        if peak == 0.0 {
            return Self { first_break: None, peak_time: None, peak: 0.0, rms: 0.0 };
        }
        // Division by the peak avoids overflow and underflow of the squares.
        let squares = compensated_sum(samples.iter().map(|sample| (sample / peak) * (sample / peak)));
        let level = FIRST_BREAK_FRACTION * peak.abs();
        let first_break = samples.iter().position(|sample| sample.abs() >= level).map(|k| match k {
            0 => start,
            _ => {
                let (before, after) = (samples[k - 1].abs(), samples[k].abs());
                time(k as f64 - (after - level) / (after - before))
            }
        });
        Self {
            first_break,
            peak_time: Some(time(peak_index as f64)),
            peak,
            rms: peak.abs() * (squares / samples.len() as f64).sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_without_a_signal_has_no_times() {
        for samples in [&[][..], &[0.0], &[0.0, -0.0, 0.0]] {
            let found = TraceMeasures::measure(samples, 0.0, 0.1);
            let expected = TraceMeasures { first_break: None, peak_time: None, peak: 0.0, rms: 0.0 };
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn signal_at_the_first_sample_breaks_there() {
        let found = TraceMeasures::measure(&[-4.0, 2.0, 4.0, 0.0], -0.5, 0.25);
        assert_eq!((found.first_break, found.peak_time, found.peak), (Some(-0.5), Some(-0.5), -4.0));
        assert_eq!(found.rms, 3.0);
    }

    /// A pulse that arrives later by three samples has a first break that is later by three
    /// samples, whatever its amplitude and its sign are.
    #[test]
    fn first_break_moves_with_the_pulse() {
        let pulse = |k: i32, arrival: i32| (-0.1 * f64::from((k - arrival).pow(2))).exp();
        let trace = |arrival: i32, size: f64| {
            let samples: Vec<f64> = (0..64).map(|k| size * pulse(k, arrival)).collect();
            TraceMeasures::measure(&samples, 0.0, 1.0)
        };
        let (early, late) = (trace(20, 1.0), trace(23, -1e-200));
        let shift = late.first_break.unwrap() - early.first_break.unwrap();
        // The sizes of the two traces differ by rounding errors, and the slope is about 0.03.
        assert!((shift - 3.0).abs() < 1e-12, "{shift}");
        assert_eq!((early.peak_time, late.peak_time), (Some(20.0), Some(23.0)));
        // exp(-0.1 d²) = 0.05 at d = 5.47. Linear interpolation is within the interval of samples.
        assert!((14.0..15.0).contains(&early.first_break.unwrap()), "{:?}", early.first_break);
        assert!(late.rms > 0.0);
    }
}
