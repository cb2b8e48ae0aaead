//! What should not change: `conserved.csv`, and the energy error as a plot.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use orrery_io::IoError;
use orrery_io::plot::{Axis, Plot, Series};
use orrery_model::Units;
use orrery_model::analysis::{angular_momentum, momentum};

use super::Observer;
use crate::case::Case;
use crate::error::EngineError;
use crate::simulation::Moment;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    pub fn of(moment: &Moment) -> Self {
        let particles = moment.bodies.particles();
        Self {
            step: moment.step,
            time: moment.time,
            kinetic: moment.bodies.kinetic_energy(),
            potential: moment.bodies.potential_energy(),
            momentum: momentum(particles),
            angular_momentum: angular_momentum(particles),
        }
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

    /// Kinetic and potential energy together.
    pub fn total(&self) -> f64 {
        self.kinetic + self.potential
    }
}

pub struct Conserved {
    folder: PathBuf,
    path: PathBuf,
    file: BufWriter<File>,
    title: String,
    units: Units,
    records: Vec<Record>,
}

impl Conserved {
    pub fn create(case: &Case, folder: &Path) -> Result<Self, EngineError> {
        let path = folder.join("conserved.csv");
        let failed = |e| EngineError::Output(IoError::system(&path, e));
        let mut file = BufWriter::new(File::create(&path).map_err(failed)?);
        writeln!(file, "{}", Record::CSV_HEADER).map_err(failed)?;
        Ok(Self {
            folder: folder.to_owned(),
            path,
            file,
            title: case.name.clone(),
            units: case.units,
            records: Vec::new(),
        })
    }

    /// The rows so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// (E − E₀) / |E₀| at the last row.
    pub fn energy_error(&self) -> f64 {
        match (self.records.first(), self.records.last()) {
            (Some(first), Some(last)) => (last.total() - first.total()) / first.total().abs(),
            _ => 0.0,
        }
    }
}

impl Observer for Conserved {
    fn observe(&mut self, moment: &Moment) -> Result<(), EngineError> {
        let record = Record::of(moment);
        writeln!(self.file, "{}", record.csv_row())
            .and_then(|()| self.file.flush())
            .map_err(|e| EngineError::Output(IoError::system(&self.path, e)))?;
        self.records.push(record);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), EngineError> {
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
        plot.write_svg(&self.folder.join("energy.svg"))?;
        plot.write_png(&self.folder.join("energy.png"), 960, 640)?;
        Ok(())
    }
}
