//! Energy and largest amplitude of waves, which are the columns of `conserved.csv`.

use orrery_io::plot::{Axis, Plot, Series};
use orrery_model::Units;
use serde_json::{Value, json};

use super::PLOT;
use crate::system::{NamedPlot, Quantity, Row, Schema, SummaryValue};

/// Names of the columns, in their order.
const NAMES: [&str; 2] = ["energy", "amplitude"];

/// Returns the values of a row by name.
pub(super) fn row_json(row: &Row) -> Value {
    let values = NAMES.iter().zip(&row.values).map(|(name, value)| ((*name).to_owned(), json!(value)));
    let stamp = [("step".to_owned(), json!(row.step)), ("time".to_owned(), json!(row.time))];
    Value::Object(stamp.into_iter().chain(values).collect())
}

/// Returns the columns of the table. `unit` is the label of the field.
pub(super) fn schema(unit: &str) -> Schema {
    let titles = [("the energy in the grid", ""), ("the largest amplitude", unit)];
    let quantities = NAMES.into_iter().zip(titles).map(|(name, (title, unit))| Quantity {
        name,
        title,
        unit: unit.to_owned(),
    });
    Schema {
        quantities: quantities.collect(),
        drift: None,
        overflow_causes: "sources or velocities beyond the range of the precision",
        summary: summary_values,
        plots: energy_plot,
    }
}

fn summary_values(row: &Row) -> Vec<SummaryValue> {
    let value = |title, value| SummaryValue { title, value, has_change: false };
    vec![value("energy", row.values[0]), value("largest amplitude", row.values[1])]
}

/// Returns the plot of the energy over time.
fn energy_plot(_: &Schema, name: &str, units: &Units, rows: &[Row]) -> Vec<NamedPlot> {
    let time = if *units == Units::Si { "time (s)" } else { "time" };
    let points = rows.iter().map(|row| (row.time, row.values[0])).collect();
    let plot = Plot {
        title: format!("{name}: energy in the grid"),
        x: Axis::linear(time),
        y: Axis::linear("energy"),
        series: vec![Series::line("energy", points)],
        ..Plot::default()
    };
    vec![NamedPlot { name: PLOT, plot }]
}
