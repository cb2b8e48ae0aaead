//! Temperature, energies and pressure of a fluid, which are the columns of `thermo.csv`.
//!
//! With N particles, N_f degrees of freedom and d dimensions, k_B T = 2 K / N_f and
//! p = (2 K + W) / (d V), where W = Σ r · f is the virial of all pairs. Energies are per particle.

use orrery_draw::plot::{Axis, Plot, Series, label_with_unit};
use orrery_fluids::potential::Truncation;
use orrery_model::simulation_box::{BoxSides, SimulationBox};
use orrery_model::{Dimension, Units};
use serde_json::{Value, json};

use super::system::FluidFacts;
use super::{PLOTS, TABLE};
use crate::system::{Drift, NamedPlot, Quantity, Row, Schema, SummaryValue, largest_time};

/// Units of the table, which differ from those of the case in real units.
#[derive(Clone, Debug)]
pub(super) struct TableUnits {
    time: &'static str,
    temperature: &'static str,
    energy: &'static str,
    pressure: &'static str,
    /// Energy and pressure of one unit of the case.
    energy_factor: f64,
    pressure_factor: f64,
    /// An open box has no pressure.
    has_pressure: bool,
}

impl TableUnits {
    pub fn new(units: &Units, bounds: &SimulationBox) -> Self {
        let time = units.names().time;
        let has_pressure = bounds.sides == BoxSides::Periodic;
        let Some(scale) = units.scale() else {
            let (energy_factor, pressure_factor) = (1.0, 1.0);
            return Self {
                time,
                temperature: "",
                energy: "",
                pressure: "",
                energy_factor,
                pressure_factor,
                has_pressure,
            };
        };
        let joules = scale.mass * (scale.length / scale.time).powi(2);
        let per_mole = units.parse("1 kJ/mol", Dimension::Energy).unwrap_or(1.0);
        let (pressure, pressure_factor) = match bounds.dimensions {
            2 => ("N/m", joules / scale.length.powi(2)),
            _ => ("MPa", 1e-6 * joules / scale.length.powi(3)),
        };
        Self {
            time,
            temperature: "K",
            energy: "kJ/mol",
            pressure,
            energy_factor: 1.0 / per_mole,
            pressure_factor,
            has_pressure,
        }
    }

    /// Returns the values of a row from temperature, potential and kinetic energy per particle, and
    /// pressure in the units of the case.
    pub fn row(&self, [temperature, potential, kinetic, pressure]: [f64; 4]) -> Vec<f64> {
        let energy = |x: f64| self.energy_factor * x;
        let mut values = vec![temperature, energy(potential), energy(kinetic), energy(potential + kinetic)];
        if self.has_pressure {
            values.push(self.pressure_factor * pressure);
        }
        values
    }
}

/// Returns the columns of the table. `epsilon` is the largest depth of the potential.
pub(super) fn schema(facts: &FluidFacts, units: &TableUnits, epsilon: f64, truncation: Truncation) -> Schema {
    let quantity = |name, title, unit: &str| Quantity { name, title, unit: unit.to_owned() };
    let mut quantities = vec![
        quantity("temperature", "the temperature", units.temperature),
        quantity("potential", "the potential energy per particle", units.energy),
        quantity("kinetic", "the kinetic energy per particle", units.energy),
        quantity("total", "the total energy per particle", units.energy),
    ];
    if units.has_pressure {
        quantities.push(quantity("pressure", "the pressure", units.pressure));
    }
    let drift = Drift {
        title: "energy error",
        symbol: "dE/eps",
        key: "energy_error",
        advice: match truncation {
            Truncation::Truncated => "a shorter step may help, or a shifted or switched potential",
            Truncation::Shifted => "a shorter step may help, or a switched potential",
            Truncation::Switched { .. } | Truncation::None => "a shorter step may help",
        },
        scale: units.energy_factor * epsilon,
        between: energy_change,
    };
    Schema {
        file: TABLE,
        time_unit: units.time,
        quantities,
        drift: facts.is_energy_constant().then_some(drift),
        overflow_causes: "the step may be too long",
        summary: summary_values,
        plots: thermo_plots,
        heat_capacity: None,
    }
}

/// Returns the change of the total energy per particle in units of ε, which is `scale`.
fn energy_change(scale: f64, first: &Row, last: &Row) -> f64 {
    (last.values[3] - first.values[3]) / scale
}

fn summary_values(row: &Row) -> Vec<SummaryValue> {
    let titles = [
        ("temperature", "temperature"),
        ("potential energy", "potential"),
        ("kinetic energy", "kinetic"),
        ("total energy", "total"),
        ("pressure", "pressure"),
    ];
    let value = |((title, column), &value): ((&'static str, &'static str), &f64)| SummaryValue {
        title,
        column,
        value,
        has_change: column == "total",
    };
    titles.into_iter().zip(&row.values).map(value).collect()
}

/// Returns the plots of temperature, energies and pressure over time.
fn thermo_plots(schema: &Schema, name: &str, units: &Units, rows: &[Row]) -> Vec<NamedPlot> {
    let unit = units.shown_time(largest_time(rows));
    let line = |label: &str, column: usize| {
        let points = rows.iter().map(|row| (row.time / unit.size, row.values[column]));
        Series::line(label, points.collect())
    };
    let plot = |title: &str, column: &str, series: Vec<Series>| Plot {
        title: format!("{name}: {title}"),
        x: Axis::linear(label_with_unit("time", unit.name)),
        y: Axis::linear(label_with_unit(title, schema.unit(column))),
        series,
        ..Plot::default()
    };
    let energies = vec![line("kinetic", 2), line("total", 3), line("potential", 1)];
    let mut plots = vec![
        plot("temperature", "temperature", vec![line("", 0)]),
        plot("energy per particle", "total", energies),
    ];
    if schema.quantities.len() > 4 {
        plots.push(plot("pressure", "pressure", vec![line("", 4)]));
    }
    PLOTS.into_iter().zip(plots).map(|(name, plot)| NamedPlot { name, plot }).collect()
}

/// Returns the values of a row by name.
pub(super) fn row_json(schema: &Schema, row: &Row) -> Value {
    let values = schema.quantities.iter().zip(&row.values);
    let values = values.map(|(quantity, value)| (quantity.name.to_owned(), json!(value)));
    let stamp = [("step".to_owned(), json!(row.step)), ("time".to_owned(), json!(row.time))];
    Value::Object(stamp.into_iter().chain(values).collect())
}

/// Returns the unit of lengths in files.
pub(crate) fn length_unit(units: &Units) -> &'static str {
    units.names().length
}

/// Returns the unit of the diffusion coefficient in files, and its value for one unit of the case.
pub(crate) fn diffusion_unit(units: &Units) -> (&'static str, f64) {
    match units.scale() {
        Some(scale) => ("cm^2/s", 1e4 * scale.length * scale.length / scale.time),
        None => ("", 1.0),
    }
}
