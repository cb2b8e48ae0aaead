//! The table of conserved quantities, `conserved.csv`, and a plot of the energy error.

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

/// Row of the table: energies and momenta at one time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Steps completed.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
    /// Kinetic energy, ½ Σ m v².
    pub kinetic: f64,
    /// Potential energy, ½ Σ m φ.
    pub potential: f64,
    /// Momentum, Σ m v.
    pub momentum: [f64; 3],
    /// Angular momentum, Σ m x × v.
    pub angular_momentum: [f64; 3],
}

impl Record {
    /// Measures the bodies at `moment`. Returns an error if a quantity is not finite.
    pub fn measure(moment: &Moment) -> Result<Self, EngineError> {
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
        let record = measured.map_err(|error| moment.to_engine_error(error))?;
        record.check_finite()?;
        Ok(record)
    }

    /// Returns an error that names the first quantity that is not finite.
    fn check_finite(&self) -> Result<(), EngineError> {
        let [px, py, pz] = self.momentum;
        let [lx, ly, lz] = self.angular_momentum;
        let quantities = [
            ("the kinetic energy", self.kinetic),
            ("the potential energy", self.potential),
            ("the total energy", self.total_energy()),
            ("the momentum along x", px),
            ("the momentum along y", py),
            ("the momentum along z", pz),
            ("the angular momentum about x", lx),
            ("the angular momentum about y", ly),
            ("the angular momentum about z", lz),
        ];
        match quantities.into_iter().find(|(_, value)| !value.is_finite()) {
            Some((quantity, value)) => {
                Err(EngineError::RecordNotFinite { step: self.step, time: self.time, quantity, value })
            }
            None => Ok(()),
        }
    }

    /// Header line of the table.
    pub const CSV_HEADER: &'static str = "step,time,kinetic,potential,total,px,py,pz,lx,ly,lz";

    /// Formats the row with all digits, so that it reads back to the same bits.
    pub fn csv_row(&self) -> String {
        let [px, py, pz] = self.momentum;
        let [lx, ly, lz] = self.angular_momentum;
        let numbers = [self.time, self.kinetic, self.potential, self.total_energy(), px, py, pz, lx, ly, lz];
        let numbers: Vec<String> = numbers.iter().map(|x| format!("{x:e}")).collect();
        format!("{},{}", self.step, numbers.join(","))
    }

    /// Parses a row that [`Record::csv_row`] wrote.
    pub fn from_csv_row(row: &str) -> Option<Self> {
        let (step, numbers) = row.split_once(',')?;
        let numbers: Vec<f64> = numbers.split(',').map(|x| x.parse().ok()).collect::<Option<_>>()?;
        let [time, kinetic, potential, _, px, py, pz, lx, ly, lz] = numbers[..] else { return None };
        let (momentum, angular_momentum) = ([px, py, pz], [lx, ly, lz]);
        Some(Self { step: step.parse().ok()?, time, kinetic, potential, momentum, angular_momentum })
    }

    /// Returns the sum of kinetic and potential energy.
    pub fn total_energy(&self) -> f64 {
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

/// State of the table in a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    pub(super) file: Mark,
    /// First row. Energy errors are relative to it, even if the file is lost.
    first: Option<Record>,
}

impl Conserved {
    pub fn create(case: &Case, folder: &Path) -> Result<Self, EngineError> {
        Self::create_with(case, folder, Vec::new())
    }

    fn create_with(case: &Case, folder: &Path, records: Vec<Record>) -> Result<Self, EngineError> {
        let rows = records.iter().map(Record::csv_row);
        let lines: String =
            std::iter::once(Record::CSV_HEADER.to_owned()).chain(rows).map(|line| line + "\n").collect();
        let file =
            AppendFile::create(&folder.join(TABLE), b"", lines.as_bytes()).map_err(EngineError::Output)?;
        Ok(Self::from_parts(case, folder, file, records))
    }

    fn from_parts(case: &Case, folder: &Path, file: AppendFile, records: Vec<Record>) -> Self {
        Self { folder: folder.to_owned(), file, title: case.name.clone(), units: case.units, records }
    }

    /// Continues the table from the state in a checkpoint.
    pub fn resume(case: &Case, folder: &Path, state: &State) -> Result<Self, EngineError> {
        let path = folder.join(TABLE);
        let mut file = AppendFile::reopen(&path, b"", &state.file).map_err(EngineError::Output)?;
        let content = file.read_content().map_err(EngineError::Output)?;
        // These are the bytes that were written: `reopen` has checked their hash.
        let rows = String::from_utf8_lossy(&content);
        let records = rows.lines().skip(1).filter_map(Record::from_csv_row).collect();
        Ok(Self::from_parts(case, folder, file, records))
    }

    /// Restarts the table with its first row, to which energy errors are relative.
    pub fn restart(case: &Case, folder: &Path, state: &State) -> Result<Self, EngineError> {
        Self::create_with(case, folder, state.first.into_iter().collect())
    }

    /// Writes the table to the disk and returns its state.
    pub fn sync(&mut self) -> Result<State, EngineError> {
        let file = self.file.sync().map_err(EngineError::Output)?;
        Ok(State { file, first: self.records.first().copied() })
    }

    /// Returns the rows so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns (E − E₀) / |E₀| at the last row.
    pub fn energy_error(&self) -> f64 {
        match (self.records.first(), self.records.last()) {
            // The energy of a single body at rest is 0 and stays 0.
            (Some(first), Some(last)) if last.total_energy() != first.total_energy() => {
                (last.total_energy() - first.total_energy()) / first.total_energy().abs()
            }
            _ => 0.0,
        }
    }
}

impl Observer for Conserved {
    fn observe(&mut self, moment: &Moment) -> Result<(), EngineError> {
        let record = Record::measure(moment)?;
        self.file.append(format!("{}\n", record.csv_row()).as_bytes()).map_err(EngineError::Output)?;
        self.records.push(record);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        self.sync()?;
        let Some(first) = self.records.first().map(Record::total_energy) else { return Ok(()) };
        let points = |value: fn(&Record, f64) -> f64| {
            self.records.iter().skip(1).map(|record| (record.time, value(record, first))).collect::<Vec<_>>()
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
            series: vec![Series::line(
                "energy",
                points(|record, first| ((record.total_energy() - first) / first).abs()),
            )],
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
    fn rows_read_back_to_the_same_bits() {
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

    #[test]
    fn every_quantity_that_is_not_finite_is_an_error() {
        let record = Record {
            step: 3,
            time: 0.5,
            kinetic: 1.0,
            potential: -1.0,
            momentum: [0.0; 3],
            angular_momentum: [0.0; 3],
        };
        record.check_finite().unwrap();
        let message = |record: Record| record.check_finite().unwrap_err().to_string();
        assert_eq!(
            message(Record { potential: f64::NAN, ..record }),
            "step 3, time 0.5: the potential energy is NaN, expected a finite value; \
             the bodies are too close, too fast or too heavy for f64"
        );
        assert!(message(Record { kinetic: f64::INFINITY, ..record }).contains("the kinetic energy is inf"));
        let overflow = Record { kinetic: f64::MAX, potential: f64::MAX, ..record };
        assert!(message(overflow).contains("the total energy is inf"));
        for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
            let mut vector = [0.0; 3];
            vector[axis] = f64::NAN;
            assert!(
                message(Record { momentum: vector, ..record }).contains(&format!("momentum along {name} is"))
            );
            let found = message(Record { angular_momentum: vector, ..record });
            assert!(found.contains(&format!("the angular momentum about {name} is NaN")), "{found}");
        }
    }
}
