//! Seismograms: the values at the receivers after each step, and their plots.
//!
//! The samples are part of the state, so the files are written again as a whole with each snapshot.
//! The plots are drawn at the end of a run. The state has raw samples, and files and plots have
//! corrected ones unless the case leaves the error in time.

use std::borrow::Cow;
use std::path::Path;

use orrery_draw::plot::SeismogramPlot;
use orrery_fields::wave::{TimeDispersion, corrected_traces};
use orrery_formats::{Seismogram, write_seismogram_npy, write_seismograms_segy};
use orrery_model::wave::WaveGrid;
use orrery_model::{Precision, Units};

use super::start::time_dispersion;
use crate::case::{Case, WaveCase};
use crate::error::EngineError;

/// Array of shape (receivers, samples).
const NPY: &str = "seismograms.npy";
/// SEG-Y file, which runs in SI units have.
const SEGY: &str = "seismograms.sgy";
/// Traces as lines.
const WIGGLES: &str = "seismograms.svg";
/// Amplitudes as grey values.
const GREY: &str = "seismograms.png";
/// Names of the files in the folder of a run.
pub(crate) const FILES: [&str; 4] = [NPY, SEGY, WIGGLES, GREY];

/// Size of the grey-scale plot in pixels.
const PIXELS: [u32; 2] = [960, 720];

/// Properties of the seismograms of a run that do not change.
#[derive(Clone, Debug)]
pub(super) struct Survey {
    name: String,
    units: Units,
    shot: u64,
    dt: f64,
    source: [f64; 3],
    receivers: Vec<[f64; 3]>,
    precision: Precision,
    time_dispersion: TimeDispersion,
}

impl Survey {
    /// Collects the properties of a case with the step `dt`.
    pub fn new(case: &Case, wave: &WaveCase, dt: f64) -> Self {
        let to_survey = |position| survey_position(&wave.grid, position);
        let receivers = wave.receivers.iter().flat_map(|line| line.positions()).map(to_survey);
        Self {
            name: case.name.clone(),
            units: case.units,
            shot: wave.shot.unwrap_or(1),
            dt,
            source: wave.shot_sources().next().map_or([0.0; 3], |(_, source)| to_survey(source.position)),
            receivers: receivers.collect(),
            precision: wave.precision,
            time_dispersion: time_dispersion(wave),
        }
    }

    /// Returns true if the run has receivers, and therefore files.
    pub fn has_receivers(&self) -> bool {
        !self.receivers.is_empty()
    }

    /// Returns the traces of files from those of the scheme, one per receiver.
    pub fn corrected<'a>(&self, traces: &'a [Vec<f64>]) -> Cow<'a, [Vec<f64>]> {
        match self.time_dispersion {
            TimeDispersion::Corrected => Cow::Owned(corrected_traces(traces)),
            TimeDispersion::Raw => Cow::Borrowed(traces),
        }
    }

    /// Returns the seismogram with these traces of the scheme.
    fn seismogram(&self, traces: &[Vec<f64>]) -> Seismogram {
        Seismogram {
            shot: i32::try_from(self.shot).unwrap_or(i32::MAX),
            dt: self.dt,
            start: 0.0,
            source: self.source,
            receivers: self.receivers.clone(),
            precision: self.precision,
            samples: self.corrected(traces).concat(),
        }
    }

    /// Writes the samples.
    pub fn write(&self, folder: &Path, traces: &[Vec<f64>]) -> Result<(), EngineError> {
        let seismogram = self.seismogram(traces);
        write_seismogram_npy(&folder.join(NPY), &seismogram).map_err(EngineError::Output)?;
        if self.units != Units::Si {
            return Ok(());
        }
        let name = format!("CASE {}", self.name.to_uppercase());
        let samples = traces.first().map_or(0, Vec::len) as f64;
        let treatment = match self.time_dispersion {
            TimeDispersion::Corrected => format!(
                "TIME DISPERSION CORRECTED, LAST {:.0} SAMPLES LESS ACCURATE",
                (2.5 * samples.cbrt()).ceil()
            ),
            TimeDispersion::Raw => "TIME DISPERSION NOT CORRECTED".to_owned(),
        };
        let lines = [name, treatment].map(|line| line.chars().take(76).collect());
        write_seismograms_segy(&folder.join(SEGY), &[seismogram], &lines).map_err(EngineError::Output)
    }

    /// Draws the plots.
    pub fn draw(&self, folder: &Path, traces: &[Vec<f64>]) -> Result<(), EngineError> {
        let seismogram = self.seismogram(traces);
        let mut plot = SeismogramPlot::new(&seismogram);
        plot.title = format!("{}, shot {}", self.name, self.shot);
        if self.units != Units::Si {
            (plot.length_unit, plot.time_unit) = (String::new(), String::new());
        }
        plot.write_svg(&folder.join(WIGGLES))?;
        plot.write_grey_png(&folder.join(GREY), PIXELS[0], PIXELS[1])?;
        Ok(())
    }
}

/// Returns a position of the grid as x, y and depth. In two dimensions, y of the grid is the depth.
fn survey_position(grid: &WaveGrid, position: [f64; 3]) -> [f64; 3] {
    match grid.depth_axis() {
        1 => [position[0], 0.0, position[1]],
        _ => position,
    }
}
