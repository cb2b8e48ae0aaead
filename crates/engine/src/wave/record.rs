//! Energy and largest amplitude of waves, which are the columns of `conserved.csv`.

use orrery_draw::plot::{Axis, Plot, Series, label_with_unit};
use orrery_model::Units;
use serde_json::{Value, json};

use super::PLOT;
use crate::system::{CONSERVED, NamedPlot, Quantity, Row, Schema, SummaryValue, largest_time};

/// Names of the columns, in their order.
const NAMES: [&str; 2] = ["energy", "amplitude"];

/// Returns the values of a row by name.
pub(super) fn row_json(row: &Row) -> Value {
    let values = NAMES.iter().zip(&row.values).map(|(name, value)| ((*name).to_owned(), json!(value)));
    let stamp = [("step".to_owned(), json!(row.step)), ("time".to_owned(), json!(row.time))];
    Value::Object(stamp.into_iter().chain(values).collect())
}

/// Returns the columns of the table, in the units of a case. `unit` is the label of the field, on a
/// grid in `dimensions` dimensions.
pub(super) fn schema(units: &Units, unit: &str, dimensions: usize) -> Schema {
    // E = ½ ∫ (u_t²/c² + |∇u|²) dV
    let energy = match (unit, units.names().length) {
        ("", _) => String::new(),
        (unit, "m") if dimensions == 3 => format!("{unit}^2 m"),
        (unit, _) => format!("{unit}^2"),
    };
    let titles = [("the energy in the grid", energy), ("the largest amplitude", unit.to_owned())];
    let quantities =
        NAMES.into_iter().zip(titles).map(|(name, (title, unit))| Quantity { name, title, unit });
    Schema {
        file: CONSERVED,
        time_unit: units.names().time,
        quantities: quantities.collect(),
        drift: None,
        overflow_causes: "sources or velocities beyond the range of the precision",
        summary: summary_values,
        plots: energy_plot,
        heat_capacity: None,
    }
}

fn summary_values(row: &Row) -> Vec<SummaryValue> {
    let value = |title, column, value| SummaryValue { title, column, value, has_change: false };
    vec![value("energy", "energy", row.values[0]), value("largest amplitude", "amplitude", row.values[1])]
}

/// Returns the plot of the energy over time.
fn energy_plot(schema: &Schema, name: &str, units: &Units, rows: &[Row]) -> Vec<NamedPlot> {
    let unit = units.shown_time(largest_time(rows));
    let points = rows.iter().map(|row| (row.time / unit.size, row.values[0])).collect();
    let plot = Plot {
        title: format!("{name}: energy in the grid"),
        x: Axis::linear(label_with_unit("time", unit.name)),
        y: Axis::linear(label_with_unit("energy", schema.unit("energy"))),
        series: vec![Series::line("energy", points)],
        ..Plot::default()
    };
    vec![NamedPlot { name: PLOT, plot }]
}
