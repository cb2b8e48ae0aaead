//! The table of the measured quantities, such as `conserved.csv`, and the plots of its rows.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use orrery_io::{AppendFile, Mark};
use orrery_model::Units;
use serde::{Deserialize, Serialize};

use super::{Recorder, is_earlier, lock_file};
use crate::case::Case;
use crate::error::EngineError;
use crate::gravity::Record;
use crate::pipeline::Job;
use crate::simulation::Moment;
use crate::system::{NamedPlot, Row, Schema, System};

pub struct Table {
    folder: PathBuf,
    file: Arc<Mutex<AppendFile>>,
    /// Title of the plots.
    name: String,
    units: Units,
    schema: Schema,
    rows: Vec<Row>,
    has_plots: bool,
}

/// State of the table in a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    pub(super) file: Mark,
    /// First row. Errors are relative to it, even if the file is lost.
    first: Option<FirstRow>,
}

/// First row in a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum FirstRow {
    Row(Row),
    /// In checkpoints of gravity from before rows had a schema.
    Record(Record),
}

impl FirstRow {
    fn to_row(&self) -> Row {
        match self {
            Self::Row(row) => row.clone(),
            Self::Record(record) => record.to_row(),
        }
    }
}

impl Table {
    /// Creates the table of a new run of `system`.
    pub fn create(case: &Case, system: &System, folder: &Path) -> Result<Self, EngineError> {
        Self::create_with(case, system, folder, Vec::new())
    }

    fn create_with(case: &Case, system: &System, folder: &Path, rows: Vec<Row>) -> Result<Self, EngineError> {
        let schema = system.schema(&case.units);
        let lines = std::iter::once(schema.csv_header()).chain(rows.iter().map(Row::csv_line));
        let lines: String = lines.map(|line| line + "\n").collect();
        let file = AppendFile::create(&folder.join(schema.file), b"", lines.as_bytes())
            .map_err(EngineError::Output)?;
        Ok(Self::from_parts(case, folder, file, schema, rows))
    }

    fn from_parts(case: &Case, folder: &Path, file: AppendFile, schema: Schema, rows: Vec<Row>) -> Self {
        let (folder, file) = (folder.to_owned(), Arc::new(Mutex::new(file)));
        Self {
            folder,
            file,
            name: case.title(),
            units: case.units,
            schema,
            rows,
            has_plots: case.output.plots,
        }
    }

    /// Continues the table from the state in a checkpoint.
    pub fn resume(case: &Case, system: &System, folder: &Path, state: &State) -> Result<Self, EngineError> {
        let schema = system.schema(&case.units);
        let path = folder.join(schema.file);
        let mut file = AppendFile::reopen(&path, b"", &state.file).map_err(EngineError::Output)?;
        let content = file.read_content().map_err(EngineError::Output)?;
        // These are the bytes that were written: `reopen` has checked their hash.
        let lines = String::from_utf8_lossy(&content);
        let rows = lines.lines().skip(1).filter_map(|line| schema.parse_row(line)).collect();
        Ok(Self::from_parts(case, folder, file, schema, rows))
    }

    /// Restarts the table with its first row, to which errors are relative.
    pub fn restart(case: &Case, system: &System, folder: &Path, state: &State) -> Result<Self, EngineError> {
        Self::create_with(case, system, folder, state.first.iter().map(FirstRow::to_row).collect())
    }

    /// Writes the table to the disk and returns its state. All rows must be written.
    pub fn sync(&mut self) -> Result<State, EngineError> {
        let file = lock_file(&self.file).sync().map_err(EngineError::Output)?;
        Ok(State { file, first: self.rows.first().cloned().map(FirstRow::Row) })
    }

    /// Returns the columns of the table.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the rows so far.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the error of the run at the last row, such as the relative energy error. `None` if
    /// the system has no such error.
    pub fn drift(&self) -> Option<f64> {
        let drift = self.schema.drift?;
        Some(match (self.rows.first(), self.rows.last()) {
            (Some(first), Some(last)) => drift.error(first, last),
            _ => 0.0,
        })
    }

    /// Writes the table to the disk and draws the plots of its rows, if the case wants them.
    pub fn finish(&mut self) -> Result<(), EngineError> {
        self.sync()?;
        if !self.has_plots {
            return Ok(());
        }
        for NamedPlot { name, plot } in (self.schema.plots)(&self.schema, &self.name, &self.units, &self.rows)
        {
            plot.write_svg(&self.folder.join(format!("{name}.svg")))?;
            plot.write_png(&self.folder.join(format!("{name}.png")), 960, 640)?;
        }
        Ok(())
    }
}

impl State {
    /// Returns true if the first row can be one of a table with these columns, at `time` or before.
    pub(super) fn matches(&self, schema: &Schema, time: f64) -> bool {
        self.first.as_ref().is_none_or(|first| {
            let row = first.to_row();
            row.values.len() == schema.quantities.len() && is_earlier(row.time, time)
        })
    }
}

impl Recorder for Table {
    fn needed_bytes(&self, _moment: &Moment) -> u64 {
        32 * (2 + self.schema.quantities.len() as u64)
    }

    fn capture(&mut self, moment: &Moment) -> Result<Box<dyn Job>, EngineError> {
        let row = moment.measure(&self.schema)?;
        let line = format!("{}\n", row.csv_line());
        self.rows.push(row);
        Ok(Box::new(RowJob { file: self.file.clone(), line }))
    }
}

/// Appends a row to the table.
struct RowJob {
    file: Arc<Mutex<AppendFile>>,
    line: String,
}

impl Job for RowJob {
    fn commit(&mut self) -> Result<(), EngineError> {
        lock_file(&self.file).append(self.line.as_bytes()).map_err(EngineError::Output)
    }

    fn is_short(&self) -> bool {
        true
    }
}
