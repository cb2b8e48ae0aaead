//! The table of the measured quantities, such as `conserved.csv`, and the plots of its rows.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use orrery_formats::{AppendFile, IoError, Mark};
use orrery_gravity::settings::StepChoice;
use orrery_model::Units;
use serde::{Deserialize, Serialize};

use super::{Recorder, is_earlier, lock_file};
use crate::case::{Case, Every};
use crate::error::EngineError;
use crate::gravity::Record;
use crate::host_memory::check_host_memory;
use crate::pipeline::Job;
use crate::simulation::Moment;
use crate::system::{NamedPlot, Row, Schema, Size, System};

/// Upper bound of the bytes of a row in memory: the vector of all rows may double its capacity, and
/// each row has up to 16 values and the allocator's part.
const ROW_BYTES: u64 = 3 * size_of::<Row>() as u64 + 16 * 8 + 16;

/// Fails if the rows of a run need more memory than is `available`. All rows are in memory for the
/// plots. The number of adaptive steps is not known, nor that of a run that ends when it has
/// settled.
pub(crate) fn check_memory(case: &Case, available: u64) -> Result<(), EngineError> {
    let length = case.time.end - case.time.known_start();
    let rows = match (case.output.record_every, case.time.step) {
        (Every::Time(interval), _) => length / interval,
        (Every::Steps(steps), StepChoice::Fixed(dt)) => length / dt / steps as f64,
        (Every::Never, _) | (_, StepChoice::Adaptive { .. }) => return Ok(()),
    };
    if case.heat().is_some_and(|heat| heat.stop.is_some()) {
        return Ok(());
    }
    // Saturates.
    let rows = rows as u64;
    let size = Size { count: rows, one: "row", many: "rows" };
    check_host_memory(rows.saturating_mul(ROW_BYTES), available, Path::new("output.record_every"), size)
}

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
        self.rows.try_reserve(1).map_err(|_| {
            let path = self.folder.join(self.schema.file);
            EngineError::Output(IoError::from_system(&path, ErrorKind::OutOfMemory.into()))
        })?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::CaseSource;

    #[test]
    fn rows_that_do_not_fit_into_memory_are_refused() {
        let check = |sets: &[&str]| {
            let text = "bodies.model = \"kepler\"\ntime = { step = 1e-7, end = 10 }";
            let source = CaseSource::Text { label: "case".into(), text: text.into(), folder: ".".into() };
            let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
            check_memory(&Case::load(&source, &sets).unwrap(), 1 << 30)
        };
        let error = check(&["output.record_every=10 steps"]).unwrap_err();
        let start = "output.record_every: 10000000 rows need ";
        assert!(error.is_user_error() && error.to_string().starts_with(start), "{error}");
        assert!(check(&["output.record_every=1e-6"]).is_err());
        assert!(check(&["output.record_every=1e3 steps"]).is_ok());
        assert!(check(&["output.record_every=0"]).is_ok());
        assert!(check(&["output.record_every=10 steps", "time.step=\"adaptive\""]).is_ok());
    }
}
