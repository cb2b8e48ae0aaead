//! Seismograms: the values at receivers against time, for one shot.
//!
//! | format | read | written |
//! |---|---|---|
//! | `.npy`: numpy array of shape (receivers, samples) | | [`write_seismogram_npy`] |
//! | `.csv`: a column of times and a column per receiver | | [`write_seismogram_csv`] |
//! | `.sgy`: SEG-Y, one or several shots | [`read_seismograms_segy`] | [`write_seismograms_segy`] |
//!
//! [`read_seismograms_segy`]: crate::read_seismograms_segy
//! [`write_seismograms_segy`]: crate::write_seismograms_segy

use std::io::Write;
use std::path::Path;

use orrery_model::Precision;

use crate::error::{Fault, IoError};
use crate::field::{FieldValues, write_array};
use crate::storage::replace_file;

/// Values at receivers against time, for one shot.
///
/// A position is x, y and depth. Depth is positive below the surface.
///
/// ```
/// use orrery_formats::Seismogram;
/// use orrery_model::Precision;
///
/// let shot = Seismogram {
///     shot: 1,
///     dt: 0.001,
///     start: 0.0,
///     source: [50.0, 0.0, 5.0],
///     receivers: vec![[0.0, 0.0, 0.0], [100.0, 0.0, 0.0]],
///     precision: Precision::Single,
///     samples: vec![0.0, 0.5, 1.0, 0.0, -0.5, -1.0],
/// };
/// assert_eq!(shot.sample_count(), 3);
/// assert_eq!(shot.trace(1), [0.0, -0.5, -1.0]);
/// assert_eq!(shot.offset(0), -50.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Seismogram {
    /// Number of the shot.
    pub shot: i32,
    /// Time between samples.
    pub dt: f64,
    /// Time of the first sample. The source starts at 0.
    pub start: f64,
    /// Position of the source.
    pub source: [f64; 3],
    /// Position of each receiver.
    pub receivers: Vec<[f64; 3]>,
    /// Precision in which the samples are written, and in which a file had them.
    pub precision: Precision,
    /// Samples of the first receiver, then of the second, and so on. All have the same number.
    pub samples: Vec<f64>,
}

impl Seismogram {
    /// Returns samples receiver by receiver from `rows`, which has one row per time with the values
    /// at all receivers.
    pub fn samples_from_rows(rows: FieldValues, receivers: usize) -> Vec<f64> {
        let value = |k: usize| match rows {
            FieldValues::Single(values) => f64::from(values[k]),
            FieldValues::Double(values) => values[k],
        };
        let times = rows.len() / receivers.max(1);
        (0..receivers * times).map(|k| value(k % times * receivers + k / times)).collect()
    }

    /// Returns the number of samples per receiver.
    pub fn sample_count(&self) -> usize {
        self.samples.len() / self.receivers.len().max(1)
    }

    /// Returns the samples of a receiver.
    pub fn trace(&self, receiver: usize) -> &[f64] {
        let count = self.sample_count();
        &self.samples[receiver * count..][..count]
    }

    /// Returns the time of a sample.
    pub fn time(&self, sample: usize) -> f64 {
        self.start + sample as f64 * self.dt
    }

    /// Returns the horizontal distance from the source to a receiver, with a minus sign if the
    /// receiver has the smaller x.
    pub fn offset(&self, receiver: usize) -> f64 {
        let [dx, dy] = [0, 1].map(|axis| self.receivers[receiver][axis] - self.source[axis]);
        dx.hypot(dy).copysign(if dx < 0.0 { -1.0 } else { 1.0 })
    }

    /// Checks lengths, times and positions. Samples may have any value.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let fault = |name: &str, got: String, expected: &str| {
            Err(Fault::malformed(format!("{name} of shot {}", self.shot), got, expected))
        };
        let (receivers, samples) = (self.receivers.len(), self.samples.len());
        if receivers == 0 {
            return fault("receivers", "none".to_owned(), "at least one");
        }
        if samples == 0 || !samples.is_multiple_of(receivers) {
            let got = format!("{samples} values for {receivers} receivers");
            return fault("samples", got, "the same number for each, at least one");
        }
        if !(self.dt.is_finite() && self.dt > 0.0) {
            return fault("time between samples", self.dt.to_string(), "a positive number");
        }
        if !self.start.is_finite() {
            return fault("first time", self.start.to_string(), "a finite number");
        }
        let positions = std::iter::once(&self.source).chain(&self.receivers);
        match positions.copied().find(|position| position.iter().any(|c| !c.is_finite())) {
            Some(position) => fault("positions", format!("{position:?}"), "finite numbers"),
            None => Ok(()),
        }
    }
}

/// Writes an array of shape (receivers, samples). The write is atomic.
pub fn write_seismogram_npy(path: &Path, shot: &Seismogram) -> Result<(), IoError> {
    shot.check().map_err(|fault| fault.in_file(path))?;
    let shape = [shot.receivers.len(), shot.sample_count()];
    if shot.precision == Precision::Single {
        let singles: Vec<f32> = shot.samples.iter().map(|&value| value as f32).collect();
        return write_array(path, "seismogram", &shape, FieldValues::Single(&singles));
    }
    write_array(path, "seismogram", &shape, FieldValues::Double(&shot.samples))
}

/// Writes a table with one row per time. The write is atomic.
///
/// The first column is the time. Each receiver has a column with its position as name, for example
/// `x=100 y=0 depth=5`. Numbers have all digits.
pub fn write_seismogram_csv(path: &Path, shot: &Seismogram) -> Result<(), IoError> {
    replace_file(path, |file| {
        shot.check()?;
        file.write_all(b"time")?;
        for [x, y, depth] in &shot.receivers {
            write!(file, ",x={x} y={y} depth={depth}")?;
        }
        let count = shot.sample_count();
        for k in 0..count {
            write!(file, "\n{}", shot.time(k))?;
            for trace in shot.samples.chunks_exact(count) {
                match shot.precision {
                    Precision::Single => write!(file, ",{}", trace[k] as f32)?,
                    _ => write!(file, ",{}", trace[k])?,
                }
            }
        }
        Ok(file.write_all(b"\n")?)
    })
}
