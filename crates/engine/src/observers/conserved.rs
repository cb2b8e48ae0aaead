//! What should not change: `conserved.csv`, and the energy error as a plot.

use std::path::{Path, PathBuf};

use orrery_io::plot::{Axis, Plot, Series};
use orrery_io::{AppendFile, Mark};
use orrery_model::Units;
use orrery_particles::bodies::Motion;
use serde::{Deserialize, Serialize};

use super::Observer;
use crate::case::Case;
use crate::error::EngineError;
use crate::folder::{ENERGY_PNG, ENERGY_SVG, TABLE};
use crate::simulation::Moment;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Steps completed.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
    /// ½ Σ m v².
    pub kinetic: f64,
    /// ½ Σ m φ.
    pub potential: f64,
    /// Σ m v.
    pub momentum: [f64; 3],
    /// Σ m x × v.
    pub angular_momentum: [f64; 3],
}

impl Record {
    /// Measures a moment.
    pub fn of(moment: &Moment) -> Result<Self, EngineError> {
        let measured = moment.bodies.motion().and_then(|motion| {
            let Motion { kinetic_energy, momentum, angular_momentum } = motion;
            Ok(Self {
                step: moment.step,
                time: moment.time,
                kinetic: kinetic_energy,
                potential: moment.bodies.potential_energy()?,
                momentum,
                angular_momentum,
            })
        });
        measured.map_err(|error| moment.failed(error))
    }

    /// The names of the table's columns.
    pub const CSV_HEADER: &'static str = "step,time,kinetic,potential,total,px,py,pz,lx,ly,lz";

    /// The row of the table, every digit kept.
    pub fn csv_row(&self) -> String {
        let [px, py, pz] = self.momentum;
        let [lx, ly, lz] = self.angular_momentum;
        let numbers = [self.time, self.kinetic, self.potential, self.total(), px, py, pz, lx, ly, lz];
        let numbers: Vec<String> = numbers.iter().map(|x| format!("{x:e}")).collect();
        format!("{},{}", self.step, numbers.join(","))
    }

    /// The inverse of [`Record::csv_row`].
    pub fn from_csv_row(row: &str) -> Option<Self> {
        let (step, numbers) = row.split_once(',')?;
        let numbers: Vec<f64> = numbers.split(',').map(|x| x.parse().ok()).collect::<Option<_>>()?;
        let [time, kinetic, potential, _, px, py, pz, lx, ly, lz] = numbers[..] else { return None };
        let (momentum, angular_momentum) = ([px, py, pz], [lx, ly, lz]);
        Some(Self { step: step.parse().ok()?, time, kinetic, potential, momentum, angular_momentum })
    }

    /// Kinetic and potential energy together.
    pub fn total(&self) -> f64 {
        self.kinetic + self.potential
    }
}

pub struct Conserved {
    folder: PathBuf,
    file: AppendFile,
    title: String,
    units: Units,
    records: Vec<Record>,
}

/// What a checkpoint keeps of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    file: Mark,
    /// What all later rows are measured against, should the file be lost.
    first: Option<Record>,
}

impl Conserved {
    pub fn create(case: &Case, folder: &Path) -> Result<Self, EngineError> {
        Self::begin(case, folder, Vec::new())
    }

    fn begin(case: &Case, folder: &Path, records: Vec<Record>) -> Result<Self, EngineError> {
        let rows = records.iter().map(Record::csv_row);
        let lines: String =
            std::iter::once(Record::CSV_HEADER.to_owned()).chain(rows).map(|line| line + "\n").collect();
        let file =
            AppendFile::create(&folder.join(TABLE), b"", lines.as_bytes()).map_err(EngineError::Output)?;
        Ok(Self::with(case, folder, file, records))
    }

    fn with(case: &Case, folder: &Path, file: AppendFile, records: Vec<Record>) -> Self {
        Self { folder: folder.to_owned(), file, title: case.name.clone(), units: case.units, records }
    }

    /// Goes on where a checkpoint saw the table.
    pub fn resume(case: &Case, folder: &Path, state: &State) -> Result<Self, EngineError> {
        let path = folder.join(TABLE);
        let mut file = AppendFile::reopen(&path, b"", &state.file).map_err(EngineError::Output)?;
        let content = file.read_content().map_err(EngineError::Output)?;
        // The bytes are those that were written: their hash says so.
        let rows = String::from_utf8_lossy(&content);
        let records = rows.lines().skip(1).filter_map(Record::from_csv_row).collect();
        Ok(Self::with(case, folder, file, records))
    }

    /// Begins the table anew, with the row that the others are measured against.
    pub fn begin_anew(case: &Case, folder: &Path, state: &State) -> Result<Self, EngineError> {
        Self::begin(case, folder, state.first.into_iter().collect())
    }

    /// Brings the table to the disk.
    pub fn sync(&mut self) -> Result<State, EngineError> {
        let file = self.file.sync().map_err(EngineError::Output)?;
        Ok(State { file, first: self.records.first().copied() })
    }

    /// The rows so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// (E − E₀) / |E₀| at the last row.
    pub fn energy_error(&self) -> f64 {
        match (self.records.first(), self.records.last()) {
            // A lone body at rest has no energy to lose.
            (Some(first), Some(last)) if last.total() != first.total() => {
                (last.total() - first.total()) / first.total().abs()
            }
            _ => 0.0,
        }
    }
}

impl Observer for Conserved {
    fn observe(&mut self, moment: &Moment) -> Result<(), EngineError> {
        let record = Record::of(moment)?;
        self.file.append(format!("{}\n", record.csv_row()).as_bytes()).map_err(EngineError::Output)?;
        self.records.push(record);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        self.sync()?;
        let Some(first) = self.records.first().map(Record::total) else { return Ok(()) };
        let points = |value: fn(&Record, f64) -> f64| {
            self.records.iter().skip(1).map(|r| (r.time, value(r, first))).collect::<Vec<_>>()
        };
        let time = match self.units {
            Units::NBody => "time (N-body units)".to_owned(),
            Units::Galactic => "time (kpc / km/s = 0.978 Gyr)".to_owned(),
            Units::Solar => "time (years)".to_owned(),
            Units::Custom(_) => "time".to_owned(),
        };
        let plot = Plot {
            title: format!("{}: relative energy error", self.title),
            x: Axis::linear(time),
            y: Axis::log("|E - E_{0}| / |E_{0}|"),
            series: vec![Series::line("energy", points(|r, first| ((r.total() - first) / first).abs()))],
            ..Plot::default()
        };
        plot.write_svg(&self.folder.join(ENERGY_SVG))?;
        plot.write_png(&self.folder.join(ENERGY_PNG), 960, 640)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_back_to_the_bit() {
        let record = Record {
            step: 7,
            time: 0.1 + 0.2,
            kinetic: 1.0 / 3.0,
            potential: -5e-324,
            momentum: [-0.0, 1e300, f64::EPSILON],
            angular_momentum: [2.5e-17, -1.0, 0.0],
        };
        assert_eq!(Record::from_csv_row(&record.csv_row()), Some(record));
        assert_eq!(Record::from_csv_row(Record::CSV_HEADER), None);
        assert_eq!(Record::from_csv_row("1,2,3"), None);
    }
}
