//! Heat content, temperatures and fluxes of a plate, which are the columns of `conserved.csv`.

use orrery_draw::plot::{Axis, Plot, Series, label_with_unit};
use orrery_fields::heat::FieldMeasures;
use orrery_model::Units;
use orrery_model::analysis::max_or_nan;
use serde_json::{Value, json};

use super::PLOT;
use super::system::{KnownError, PlateFacts};
use crate::system::{CONSERVED, Drift, NamedPlot, Quantity, Row, Schema, SummaryValue, largest_time};

/// Names of the columns, in their order.
const NAMES: [&str; 9] =
    ["heat", "minimum", "maximum", "range", "flux_west", "flux_east", "flux_south", "flux_north", "sources"];

/// Measures of a plate at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeatMeasures {
    /// Heat content: the integral of temperature × heat capacity over the plate.
    pub heat: f64,
    /// Smallest temperature.
    pub min: f64,
    /// Largest temperature.
    pub max: f64,
    /// Heat per time into the plate through the west, east, south and north edge.
    pub fluxes: [f64; 4],
    /// Heat per time from the sources.
    pub sources: f64,
}

impl HeatMeasures {
    /// Combines the measures of a field with fluxes and sources.
    pub fn new(measures: &FieldMeasures, fluxes: [f64; 4], sources: f64) -> Self {
        let &FieldMeasures { min, max, heat_content: heat } = measures;
        Self { heat, min, max, fluxes, sources }
    }

    /// Returns the values of a row of the table.
    pub fn to_values(self) -> Vec<f64> {
        let Self { heat, min, max, fluxes: [west, east, south, north], sources } = self;
        vec![heat, min, max, max - min, west, east, south, north, sources]
    }

    /// Returns the measures of a row.
    ///
    /// # Panics
    /// If the row belongs to another physics.
    pub fn from_row(row: &Row) -> Self {
        let [heat, min, max, _, west, east, south, north, sources] = row.values[..] else {
            panic!("a row of heat has {} values, not {}", NAMES.len(), row.values.len())
        };
        Self { heat, min, max, fluxes: [west, east, south, north], sources }
    }
}

/// Returns the values of a row by name.
pub(super) fn row_json(row: &Row) -> Value {
    let values = NAMES.iter().zip(&row.values).map(|(name, value)| ((*name).to_owned(), json!(value)));
    let stamp = [("step".to_owned(), json!(row.step)), ("time".to_owned(), json!(row.time))];
    Value::Object(stamp.into_iter().chain(values).collect())
}

/// Returns the columns of the table, in the units of a case.
pub(super) fn schema(units: &Units, facts: &PlateFacts) -> Schema {
    let temperature = facts.unit.as_str();
    let product = |unit: &str| [temperature, unit].join(" ").trim().to_owned();
    // With a heat capacity, heat is an energy per thickness of the plate.
    let (heat, flux) = match (is_si(units), facts.has_heat_capacity) {
        (true, false) => (product("m^2"), product("m^2/s")),
        (true, true) => ("J/m".to_owned(), "W/m".to_owned()),
        (false, false) => (product(""), product("")),
        (false, true) => (String::new(), String::new()),
    };
    let titles = [
        ("the heat content", heat),
        ("the smallest temperature", temperature.to_owned()),
        ("the largest temperature", temperature.to_owned()),
        ("the range of temperatures", temperature.to_owned()),
        ("the heat flux through the west edge", flux.clone()),
        ("the heat flux through the east edge", flux.clone()),
        ("the heat flux through the south edge", flux.clone()),
        ("the heat flux through the north edge", flux.clone()),
        ("the heat of the sources", flux),
    ];
    let quantities =
        NAMES.into_iter().zip(titles).map(|(name, (title, unit))| Quantity { name, title, unit });
    Schema {
        file: CONSERVED,
        time_unit: units.names().time,
        quantities: quantities.collect(),
        drift: drift(facts.known, facts.rounding.is_some()),
        overflow_causes: "fluxes or sources heat the plate beyond the range of its precision",
        summary: summary_values,
        plots: temperature_plot,
        heat_capacity: Some(facts.total_heat_capacity),
    }
}

/// Returns true if lengths are in metres and times in seconds.
pub(super) fn is_si(units: &Units) -> bool {
    units.name() == "si"
}

/// Returns the error that the table shows, if one is known.
fn drift(known: KnownError, is_single: bool) -> Option<Drift> {
    let key = "heat_error";
    let advice = match is_single {
        true => "double precision may help",
        false => "fewer steps, or temperatures closer to 0 may help",
    };
    match known {
        KnownError::HeatBalance(total_heat_capacity) => Some(Drift {
            title: "heat error",
            symbol: "dQ/Q",
            key,
            advice,
            scale: total_heat_capacity,
            between: balance_error,
        }),
        KnownError::MaximumPrinciple => Some(Drift {
            title: "excess of the initial range",
            symbol: "excess",
            key,
            advice,
            scale: 1.0,
            between: range_excess,
        }),
        KnownError::None => None,
    }
}

/// Returns (Q − Q₀ − rate (t − t₀)) / (heat capacity of the plate × largest temperature), where Q
/// is the heat content. The rate of fluxes and sources is constant.
fn balance_error(total_heat_capacity: f64, first: &Row, last: &Row) -> f64 {
    let [a, b] = [first, last].map(HeatMeasures::from_row);
    let gained = (a.fluxes.iter().sum::<f64>() + a.sources) * (last.time - first.time);
    let difference = b.heat - a.heat - gained;
    let largest = [a.min, a.max, b.min, b.max].into_iter().map(f64::abs).fold(0.0, max_or_nan);
    if difference == 0.0 { 0.0 } else { difference / (total_heat_capacity * largest) }
}

/// Returns how far temperatures have left the range of the first row, relative to its largest
/// temperature.
fn range_excess(_: f64, first: &Row, last: &Row) -> f64 {
    let [a, b] = [first, last].map(HeatMeasures::from_row);
    let excess = (b.max - a.max).max(a.min - b.min).max(0.0);
    if excess == 0.0 { 0.0 } else { excess / a.max.abs().max(a.min.abs()) }
}

fn summary_values(row: &Row) -> Vec<SummaryValue> {
    let HeatMeasures { heat, min, max, fluxes, sources } = HeatMeasures::from_row(row);
    let value = |title, column, value| SummaryValue { title, column, value, has_change: false };
    vec![
        SummaryValue { has_change: true, ..value("heat content", "heat", heat) },
        value("minimum", "minimum", min),
        value("maximum", "maximum", max),
        value("range", "range", max - min),
        value("flux into plate", "flux_west", fluxes.iter().sum()),
        value("heat of sources", "sources", sources),
    ]
}

/// Returns the plot of the smallest, the mean and the largest temperature over time. Fixed edges
/// keep the smallest and the largest, so only the mean shows how the plate becomes warm. The mean
/// is weighted with the heat capacity.
fn temperature_plot(schema: &Schema, name: &str, units: &Units, rows: &[Row]) -> Vec<NamedPlot> {
    let unit = units.shown_time(largest_time(rows));
    let line = |label: &str, value: &dyn Fn(&HeatMeasures) -> f64| {
        let points = rows.iter().map(|row| (row.time / unit.size, value(&HeatMeasures::from_row(row))));
        Series::line(label, points.collect())
    };
    let mean = schema.heat_capacity.map(|capacity| line("mean", &|measures| measures.heat / capacity));
    let limits = [line("maximum", &|measures| measures.max), line("minimum", &|measures| measures.min)];
    let plot = Plot {
        title: format!("{name}: temperature"),
        x: Axis::linear(label_with_unit("time", unit.name)),
        y: Axis::linear(label_with_unit("temperature", schema.unit("minimum"))),
        series: limits.into_iter().chain(mean).collect(),
        ..Plot::default()
    };
    vec![NamedPlot { name: PLOT, plot }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(time: f64, measures: HeatMeasures) -> Row {
        Row { step: 0, time, values: measures.to_values() }
    }

    const START: HeatMeasures =
        HeatMeasures { heat: 6.0, min: 1.0, max: 2.0, fluxes: [1.0, -3.0, 0.5, 0.0], sources: 0.5 };

    /// The plate of area 4 loses heat 1 per time.
    #[test]
    fn the_heat_error_is_relative_to_a_plate_at_the_largest_temperature() {
        let first = row(1.0, START);
        assert_eq!(balance_error(4.0, &first, &row(3.0, HeatMeasures { heat: 4.0, ..START })), 0.0);
        assert_eq!(balance_error(4.0, &first, &row(3.0, HeatMeasures { heat: 5.0, ..START })), 0.125);
        let cold = HeatMeasures { heat: 0.0, min: 0.0, max: 0.0, fluxes: [0.0; 4], sources: 0.0 };
        assert_eq!(balance_error(4.0, &row(0.0, cold), &row(1.0, cold)), 0.0);
    }

    /// The plate of heat capacity 4 is heated between fixed edges.
    #[test]
    fn the_plot_shows_the_mean_temperature() {
        let schema = Schema {
            file: CONSERVED,
            time_unit: "",
            quantities: Vec::new(),
            drift: None,
            overflow_causes: "",
            summary: summary_values,
            plots: temperature_plot,
            heat_capacity: Some(4.0),
        };
        let rows = [row(0.0, START), row(1.0, HeatMeasures { heat: 7.0, ..START })];
        let plots = (schema.plots)(&schema, "plate", &Units::Dimensionless, &rows);
        let series = &plots[0].plot.series;
        let names: Vec<_> = series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["maximum", "minimum", "mean"]);
        assert_eq!(series[2].points, [(0.0, 1.5), (1.0, 1.75)]);
    }

    #[test]
    fn only_temperatures_outside_of_the_first_range_are_an_error() {
        let first = row(0.0, START);
        let excess = |min, max| range_excess(1.0, &first, &row(1.0, HeatMeasures { min, max, ..START }));
        assert_eq!((excess(1.0, 2.0), excess(1.25, 1.5)), (0.0, 0.0));
        assert_eq!((excess(1.0, 2.5), excess(0.5, 2.0)), (0.25, 0.25));
    }
}
