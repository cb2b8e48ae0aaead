//! Analysis of seismograms: arrival time and amplitude of each trace.

use std::path::{Path, PathBuf};

use orrery_formats::{Fault, IoError, Seismogram};
use orrery_model::analysis::TraceMeasures;

use crate::error::EngineError;
use crate::field_analysis::RunLabels;

/// Measurements of one trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceRow {
    /// Path of the file.
    pub path: PathBuf,
    /// The run of the file, if it is known.
    pub run: Option<RunLabels>,
    /// Number of the shot.
    pub shot: i32,
    /// Number of the receiver in its shot, from 1.
    pub receiver: usize,
    /// Position of the receiver: x, y and depth.
    pub position: [f64; 3],
    /// Horizontal distance from the source, negative if the receiver has the smaller x.
    pub offset: f64,
    /// Times and amplitudes.
    pub measures: TraceMeasures,
}

/// Measures all traces of the seismograms of a file.
///
/// Refuses samples that are NaN or infinite.
pub fn analyze_seismograms(path: &Path, shots: &[Seismogram]) -> Result<Vec<TraceRow>, EngineError> {
    let mut rows = Vec::new();
    let run = path.parent().and_then(RunLabels::find);
    for shot in shots {
        for (k, &position) in shot.receivers.iter().enumerate() {
            let samples = shot.trace(k);
            if let Some(sample) = samples.iter().position(|sample| !sample.is_finite()) {
                let location = format!("shot {}, receiver {}, sample {}", shot.shot, k + 1, sample + 1);
                let fault = Fault::malformed(location, samples[sample].to_string(), "a finite value");
                return Err(EngineError::Input(IoError { path: path.to_owned(), fault }));
            }
            rows.push(TraceRow {
                path: path.to_owned(),
                run: run.clone(),
                shot: shot.shot,
                receiver: k + 1,
                position,
                offset: shot.offset(k),
                measures: TraceMeasures::measure(samples, shot.start, shot.dt),
            });
        }
    }
    Ok(rows)
}
