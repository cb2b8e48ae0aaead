//! Rows of the table of a run, and the schema that describes their columns.

use orrery_draw::plot::Plot;
use orrery_gravity::settings::StepChoice;
use orrery_model::Units;
use orrery_model::analysis::max_or_nan;
use serde::{Deserialize, Serialize};

use crate::error::EngineError;

/// Column of the table: one quantity that a system measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// Name of the column, for example `kinetic`.
    pub name: &'static str,
    /// Name in a sentence, for example "the kinetic energy".
    pub title: &'static str,
    /// Unit, for example "Msun au^2/yr^2". Empty for a number without unit.
    pub unit: String,
}

/// Row of the table: the quantities of a [`Schema`] at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Steps completed.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
    /// Values, in the order of [`Schema::quantities`].
    pub values: Vec<f64>,
}

/// Error of a run that its table shows: the change of a quantity that the physics conserves or
/// bounds. `[limits]` applies to it.
#[derive(Clone, Copy, Debug)]
pub struct Drift {
    /// Name in a sentence, for example "energy error".
    pub title: &'static str,
    /// Short name for the progress line, for example "dE/E".
    pub symbol: &'static str,
    /// Key in `[limits]`, for example `energy_error`.
    pub key: &'static str,
    /// Advice for a user whose run exceeds the limit.
    pub advice: &'static str,
    /// Number that `between` gets, for example the area of a plate. Gravity does not use it.
    pub scale: f64,
    /// Returns the error at the second row, relative to the first. The number is `scale`.
    pub between: fn(f64, &Row, &Row) -> f64,
}

impl Drift {
    /// Returns the error with advice for a run with these steps. Only bodies have adaptive ones.
    pub fn with_steps(self, step: StepChoice) -> Self {
        match step {
            StepChoice::Fixed(_) => self,
            StepChoice::Adaptive { .. } => {
                Self { advice: "with adaptive steps, a smaller eta or a larger softening may help", ..self }
            }
        }
    }

    /// Returns the error at the row `last`, relative to the row `first`.
    pub fn error(&self, first: &Row, last: &Row) -> f64 {
        (self.between)(self.scale, first, last)
    }
}

/// Largest difference between the final state and a known solution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolutionError {
    /// Name of the solution, for example "analytic".
    pub solution: &'static str,
    /// Largest absolute difference.
    pub max: f64,
}

/// Value at the start and the end of a run that its summary shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SummaryValue {
    /// Name, for example "total energy".
    pub title: &'static str,
    /// Column of the table that has the same unit.
    pub column: &'static str,
    /// The value.
    pub value: f64,
    /// True if the relative change is shown.
    pub has_change: bool,
}

/// Plot at the end of a run.
#[derive(Clone, Debug)]
pub struct NamedPlot {
    /// Name of its files without extension, for example "energy".
    pub name: &'static str,
    /// The plot.
    pub plot: Plot,
}

/// Columns of the table of a system, and the measures that are derived from them.
#[derive(Clone, Debug)]
pub struct Schema {
    /// Name of the file with the table, for example `conserved.csv`.
    pub file: &'static str,
    /// Unit of the time, for example "yr". Empty for a case without units.
    pub time_unit: &'static str,
    /// Columns after step and time.
    pub quantities: Vec<Quantity>,
    /// The error that is reported and limited. `None` if no exact value is known.
    pub drift: Option<Drift>,
    /// Possible causes of a quantity that is not finite.
    pub overflow_causes: &'static str,
    /// Returns the values that the summary of a run shows.
    pub summary: fn(&Row) -> Vec<SummaryValue>,
    /// Returns the plots of all rows. The text is the name of the case.
    pub plots: fn(&Self, &str, &Units, &[Row]) -> Vec<NamedPlot>,
    /// Heat capacity of the whole plate, for its mean temperature. `None` for other physics.
    pub heat_capacity: Option<f64>,
}

impl Schema {
    /// Returns the header line of the table, with units: `step,time [yr],kinetic [J]`.
    pub fn csv_header(&self) -> String {
        let quantities = self.quantities.iter().map(|quantity| column_header(quantity.name, &quantity.unit));
        let stamp = ["step".to_owned(), column_header("time", self.time_unit)];
        stamp.into_iter().chain(quantities).collect::<Vec<_>>().join(",")
    }

    /// Parses a line that [`Row::csv_line`] wrote.
    pub fn parse_row(&self, line: &str) -> Option<Row> {
        let (step, numbers) = line.split_once(',')?;
        let mut numbers = numbers.split(',').map(|x| x.parse().ok());
        let time = numbers.next()??;
        let (step, values) = (step.parse().ok()?, numbers.collect::<Option<Vec<f64>>>()?);
        (values.len() == self.quantities.len()).then_some(Row { step, time, values })
    }

    /// Returns an error that names the first quantity of `row` that is not finite.
    pub fn check_finite(&self, row: &Row) -> Result<(), EngineError> {
        let mut quantities = self.quantities.iter().zip(&row.values);
        match quantities.find(|(_, value)| !value.is_finite()) {
            Some((quantity, &value)) => Err(EngineError::QuantityNotFinite {
                step: row.step,
                time: row.time,
                quantity: quantity.title,
                value,
                causes: self.overflow_causes,
            }),
            None => Ok(()),
        }
    }

    /// Returns the unit of the quantity `name`. It may be empty.
    pub fn unit(&self, name: &str) -> &str {
        self.quantities.iter().find(|quantity| quantity.name == name).map_or("", |found| &found.unit)
    }

    /// Returns the value of the quantity `name` in `row`.
    pub fn value(&self, row: &Row, name: &str) -> Option<f64> {
        let index = self.quantities.iter().position(|quantity| quantity.name == name)?;
        row.values.get(index).copied()
    }
}

/// Returns the largest absolute time of the rows.
pub fn largest_time(rows: &[Row]) -> f64 {
    rows.iter().map(|row| row.time.abs()).fold(0.0, max_or_nan)
}

/// Returns the header of a column of a CSV file: its name and in brackets its unit, which may be
/// empty. A comma in the unit, which a user may have given, becomes a blank.
pub fn column_header(name: &str, unit: &str) -> String {
    match unit {
        "" => name.to_owned(),
        unit => format!("{name} [{}]", unit.replace([',', '"'], " ")),
    }
}

impl Row {
    /// Formats the row with all digits, so that it reads back to the same bits.
    pub fn csv_line(&self) -> String {
        let numbers = std::iter::once(&self.time).chain(&self.values).map(|x| format!("{x:e}"));
        format!("{},{}", self.step, numbers.collect::<Vec<_>>().join(","))
    }
}
