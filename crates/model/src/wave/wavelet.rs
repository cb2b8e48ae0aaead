//! Wavelets: the time functions of sources.

use std::f64::consts::PI;

use thiserror::Error;

/// The time function of a source.
#[derive(Clone, Debug, PartialEq)]
pub enum Wavelet {
    /// A (1 − 2 q) exp(−q) with q = (π f (t − delay))², the second derivative of a Gaussian.
    Ricker {
        /// Frequency f at which the spectrum is largest.
        frequency: f64,
        /// Time of the maximum.
        delay: f64,
        /// Maximum A.
        amplitude: f64,
    },
    /// A g sin(2 π f (t − delay)) from `delay` on, a continuous wave. During its first two periods
    /// g = sin²(π f (t − delay) / 4) grows to 1, so that the spectrum is narrow.
    Sine {
        /// Frequency f.
        frequency: f64,
        /// Time of the start.
        delay: f64,
        /// Amplitude A.
        amplitude: f64,
    },
    /// Samples at the times 0, `interval`, 2 `interval`, ... The wavelet is linear between two
    /// samples, and zero before the first and after the last one.
    Sampled {
        /// Time between two samples.
        interval: f64,
        /// The samples.
        values: Vec<f64>,
    },
}

/// Reason why a wavelet cannot be used.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum WaveletError {
    /// A parameter is not a usable number.
    #[error("{name} is {value:?}, expected {expected}")]
    Parameter {
        /// Name of the parameter, for example "frequency".
        name: &'static str,
        /// Value found.
        value: f64,
        /// Values that are accepted.
        expected: &'static str,
    },
    /// There are no samples.
    #[error("it has 0 samples, expected at least 1")]
    NoSamples,
    /// A sample is NaN or infinite in f32.
    #[error("sample {index} is {value:?}, expected a finite number")]
    Sample {
        /// Number of the sample.
        index: usize,
        /// Value found.
        value: f64,
    },
}

impl Wavelet {
    /// Returns a Ricker wavelet of amplitude 1, whose maximum is 1.5 periods after the start. Its
    /// value at the start is below 1e-8.
    pub fn ricker(frequency: f64) -> Self {
        Self::Ricker { frequency, delay: 1.5 / frequency, amplitude: 1.0 }
    }

    /// Returns the value at time `t`.
    pub fn at(&self, t: f64) -> f64 {
        match self {
            Self::Ricker { frequency, delay, amplitude } => {
                let phase = PI * frequency * (t - delay);
                let q = phase * phase;
                amplitude * (1.0 - 2.0 * q) * libm::exp(-q)
            }
            Self::Sine { frequency, delay, amplitude } => {
                let periods = frequency * (t - delay);
                if periods <= 0.0 {
                    return 0.0;
                }
                let growth = if periods < 2.0 { libm::sin(0.25 * PI * periods) } else { 1.0 };
                amplitude * growth * growth * libm::sin(2.0 * PI * periods)
            }
            Self::Sampled { interval, values } => {
                let position = t / interval;
                let last = values.len() - 1;
                if !(0.0..=last as f64).contains(&position) {
                    return 0.0;
                }
                let before = (position as usize).min(last);
                let after = (before + 1).min(last);
                let fraction = position - before as f64;
                values[before] + fraction * (values[after] - values[before])
            }
        }
    }

    /// Returns the largest frequency with a notable amplitude, `None` for samples. The spectrum of
    /// a Ricker wavelet is at 3% of its maximum there. That of a sine has its side bands, from the
    /// growth at the start.
    pub fn largest_frequency(&self) -> Option<f64> {
        match self {
            Self::Ricker { frequency, .. } => Some(2.5 * frequency),
            Self::Sine { frequency, .. } => Some(1.5 * frequency),
            Self::Sampled { .. } => None,
        }
    }

    /// Returns the time after which the value is below 1e-18 of the largest one. `None` for a sine,
    /// which does not end.
    pub fn last_time(&self) -> Option<f64> {
        match self {
            // q = 47.8.
            Self::Ricker { frequency, delay, .. } => Some(delay + 2.2 / frequency),
            Self::Sine { .. } => None,
            Self::Sampled { interval, values } => Some(interval * values.len().saturating_sub(1) as f64),
        }
    }

    /// Returns the time of the main part: the maximum of a Ricker wavelet, or the start of others.
    pub fn main_time(&self) -> f64 {
        match self {
            Self::Ricker { delay, .. } | Self::Sine { delay, .. } => *delay,
            Self::Sampled { .. } => 0.0,
        }
    }

    /// Checks the parameters. All values must be finite in f32.
    pub fn validate(&self) -> Result<(), WaveletError> {
        let parameter = |name, value: f64, is_accepted: bool, expected| match is_accepted {
            true => Ok(()),
            false => Err(WaveletError::Parameter { name, value, expected }),
        };
        let is_finite = |value: f64| (value as f32).is_finite();
        let is_positive = |value: f64| value > 0.0 && value.is_finite();
        match self {
            Self::Ricker { frequency, delay, amplitude } | Self::Sine { frequency, delay, amplitude } => {
                parameter("frequency", *frequency, is_positive(*frequency), "a positive number")?;
                parameter("delay", *delay, delay.is_finite(), "a finite number")?;
                parameter("amplitude", *amplitude, is_finite(*amplitude), "a finite number")
            }
            Self::Sampled { interval, values } => {
                parameter("interval", *interval, is_positive(*interval), "a positive number")?;
                if values.is_empty() {
                    return Err(WaveletError::NoSamples);
                }
                match values.iter().position(|&value| !is_finite(value)) {
                    Some(index) => Err(WaveletError::Sample { index, value: values[index] }),
                    None => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sine_grows_during_two_periods() {
        let wavelet = Wavelet::Sine { frequency: 2.0, delay: 1.0, amplitude: 3.0 };
        assert_eq!(wavelet.at(0.9), 0.0);
        // A quarter of a period after the start: sin²(π/16) sin(π/2).
        assert!((wavelet.at(1.125) - 3.0 * (PI / 16.0).sin().powi(2)).abs() < 1e-12);
        assert!((wavelet.at(2.125) - 3.0).abs() < 1e-12);
        assert!((wavelet.at(7.375) + 3.0).abs() < 1e-12);
        assert!(Wavelet::Sine { frequency: -1.0, delay: 0.0, amplitude: 1.0 }.validate().is_err());
    }

    #[test]
    fn ricker_has_its_maximum_zeros_and_mean() {
        let wavelet = Wavelet::Ricker { frequency: 4.0, delay: 0.5, amplitude: 3.0 };
        assert_eq!(wavelet.at(0.5), 3.0);
        // Zeros at q = 1/2.
        let zero = 0.5f64.sqrt() / (PI * 4.0);
        assert!(wavelet.at(0.5 + zero).abs() < 1e-15 && wavelet.at(0.5 - zero).abs() < 1e-15);
        // The trapezoidal sum of an analytic function that decays is exact up to rounding.
        let dt = 1e-3;
        let sum: f64 = (0..1000).map(|k| wavelet.at(k as f64 * dt) * dt).sum();
        assert!(sum.abs() < 1e-14, "{sum}");
        assert!(Wavelet::ricker(20.0).at(0.0).abs() < 1e-8);
        assert_eq!(wavelet.largest_frequency(), Some(10.0));
        assert!(wavelet.at(wavelet.last_time().unwrap()).abs() < 3e-18);
    }

    #[test]
    fn samples_are_joined_by_lines() {
        let wavelet = Wavelet::Sampled { interval: 0.5, values: vec![1.0, 3.0, -1.0] };
        let values: Vec<f64> = [-0.01, 0.0, 0.25, 0.5, 0.75, 1.0, 1.01].map(|t| wavelet.at(t)).to_vec();
        assert_eq!(values, [0.0, 1.0, 2.0, 3.0, 1.0, -1.0, 0.0]);
        let one = Wavelet::Sampled { interval: 0.5, values: vec![7.0] };
        assert_eq!((one.at(0.0), one.at(0.1)), (7.0, 0.0));
    }

    #[test]
    fn bad_wavelets_are_refused_with_the_value() {
        let message = |wavelet: Wavelet| wavelet.validate().unwrap_err().to_string();
        let ricker = |frequency, delay, amplitude| Wavelet::Ricker { frequency, delay, amplitude };
        assert_eq!(message(ricker(0.0, 0.0, 1.0)), "frequency is 0.0, expected a positive number");
        assert_eq!(message(ricker(1.0, f64::NAN, 1.0)), "delay is NaN, expected a finite number");
        assert_eq!(message(ricker(1.0, 0.0, 1e39)), "amplitude is 1e39, expected a finite number");
        let sampled = |interval, values: &[f64]| Wavelet::Sampled { interval, values: values.to_vec() };
        assert_eq!(message(sampled(-1.0, &[1.0])), "interval is -1.0, expected a positive number");
        assert_eq!(message(sampled(1.0, &[])), "it has 0 samples, expected at least 1");
        assert_eq!(message(sampled(1.0, &[0.0, f64::NAN])), "sample 1 is NaN, expected a finite number");
        assert_eq!(Wavelet::ricker(3.0).validate(), Ok(()));
    }
}
