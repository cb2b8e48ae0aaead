//! Energies and momenta of the bodies, which are the columns of `conserved.csv`.

use orrery_draw::plot::{Axis, Plot, Series, label_with_unit};
use orrery_gravity::bodies::{Bodies, BodiesError, BodiesMotion};
use orrery_model::{UnitNames, Units};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::PLOT;
use crate::system::{CONSERVED, Drift, NamedPlot, Quantity, Row, Schema, SummaryValue, largest_time};

/// Energies and momenta at one time.
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
    /// Measures the bodies, which are at `time` after `step` steps.
    pub fn measure(bodies: &Bodies, step: u64, time: f64) -> Result<Self, BodiesError> {
        let BodiesMotion { kinetic_energy: kinetic, momentum, angular_momentum } = bodies.motion()?;
        let potential = bodies.potential_energy()?;
        Ok(Self { step, time, kinetic, potential, momentum, angular_momentum })
    }

    /// Returns the sum of kinetic and potential energy.
    pub fn total_energy(&self) -> f64 {
        self.kinetic + self.potential
    }

    /// Returns the row of the table.
    pub fn to_row(&self) -> Row {
        let &Self { step, time, kinetic, potential, momentum: [px, py, pz], .. } = self;
        let [lx, ly, lz] = self.angular_momentum;
        let values = vec![kinetic, potential, self.total_energy(), px, py, pz, lx, ly, lz];
        Row { step, time, values }
    }

    /// Returns the record of a row that [`Record::to_row`] returned.
    ///
    /// # Panics
    /// If the row belongs to another physics.
    pub fn from_row(row: &Row) -> Self {
        let [kinetic, potential, _, px, py, pz, lx, ly, lz] = row.values[..] else {
            panic!("a row of gravity has 9 values, not {}", row.values.len())
        };
        let (momentum, angular_momentum) = ([px, py, pz], [lx, ly, lz]);
        Self { step: row.step, time: row.time, kinetic, potential, momentum, angular_momentum }
    }

    /// Returns the values by name.
    pub fn to_json(&self) -> Value {
        json!({
            "step": self.step, "time": self.time, "kinetic": self.kinetic, "potential": self.potential,
            "total": self.total_energy(), "momentum": self.momentum,
            "angular_momentum": self.angular_momentum,
        })
    }
}

/// Returns the columns of the table, in the units of a case.
pub fn schema(units: &Units) -> Schema {
    let UnitNames { time, energy, momentum, angular_momentum, .. } = units.names();
    let quantities = [
        ("kinetic", "the kinetic energy", energy),
        ("potential", "the potential energy", energy),
        ("total", "the total energy", energy),
        ("px", "the momentum along x", momentum),
        ("py", "the momentum along y", momentum),
        ("pz", "the momentum along z", momentum),
        ("lx", "the angular momentum about x", angular_momentum),
        ("ly", "the angular momentum about y", angular_momentum),
        ("lz", "the angular momentum about z", angular_momentum),
    ];
    let quantities =
        quantities.into_iter().map(|(name, title, unit)| Quantity { name, title, unit: unit.to_owned() });
    Schema {
        file: CONSERVED,
        time_unit: time,
        quantities: quantities.collect(),
        drift: Some(Drift {
            title: "energy error",
            symbol: "dE/E",
            key: "energy_error",
            advice: "a shorter step or a larger softening may help",
            scale: 1.0,
            between: energy_error,
        }),
        overflow_causes: "the bodies are too close, too fast or too heavy for f64",
        summary: summary_values,
        plots: energy_plot,
        heat_capacity: None,
    }
}

/// Returns (E − E₀) / |E₀|.
fn energy_error(_: f64, first: &Row, last: &Row) -> f64 {
    let [first, last] = [first, last].map(|row| Record::from_row(row).total_energy());
    // The energy of a single body at rest is 0 and stays 0.
    if last == first { 0.0 } else { (last - first) / first.abs() }
}

fn summary_values(row: &Row) -> Vec<SummaryValue> {
    let record = Record::from_row(row);
    let magnitude = |v: [f64; 3]| v.iter().map(|c| c * c).sum::<f64>().sqrt();
    let value = |title, column, value| SummaryValue { title, column, value, has_change: true };
    vec![
        value("kinetic energy", "kinetic", record.kinetic),
        value("potential energy", "potential", record.potential),
        value("total energy", "total", record.total_energy()),
        value("angular momentum", "lx", magnitude(record.angular_momentum)),
        // Its change has no scale where the momentum is about 0.
        SummaryValue { has_change: false, ..value("momentum", "px", magnitude(record.momentum)) },
    ]
}

/// Returns the plot of the relative energy error over time.
fn energy_plot(_: &Schema, name: &str, units: &Units, rows: &[Row]) -> Vec<NamedPlot> {
    let Some(first) = rows.first().map(|row| Record::from_row(row).total_energy()) else {
        return Vec::new();
    };
    let unit = units.shown_time(largest_time(rows));
    let errors = rows
        .iter()
        .skip(1)
        .map(Record::from_row)
        .map(|record| (record.time / unit.size, ((record.total_energy() - first) / first).abs()));
    let plot = Plot {
        title: format!("{name}: relative energy error"),
        x: Axis::linear(label_with_unit("time", units.axis_unit(unit.name))),
        y: Axis::log("|E - E_{0}| / |E_{0}|"),
        series: vec![Series::line("energy", errors.collect())],
        ..Plot::default()
    };
    vec![NamedPlot { name: PLOT, plot }]
}

#[cfg(test)]
mod tests {
    use orrery_gravity::settings::StepChoice;

    use super::*;

    #[test]
    fn advice_suits_the_steps_of_the_run() {
        let drift = schema(&Units::NBody).drift.unwrap();
        assert_eq!(drift.with_steps(StepChoice::Fixed(0.1)).advice, drift.advice);
        let adaptive = drift.with_steps(StepChoice::Adaptive { eta: 0.02 }).advice;
        assert!(adaptive.contains("a smaller eta") && !adaptive.contains("shorter step"), "{adaptive}");
    }

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
        let schema = schema(&Units::NBody);
        assert_eq!(schema.csv_header(), "step,time,kinetic,potential,total,px,py,pz,lx,ly,lz");
        let header = super::schema(&Units::Solar).csv_header();
        assert!(header.starts_with("step,time [yr],kinetic [Msun au^2/yr^2],potential ["), "{header}");
        assert!(header.ends_with("],lz [Msun au^2/yr]"), "{header}");
        let row = schema.parse_row(&record.to_row().csv_line()).unwrap();
        assert_eq!((&row, Record::from_row(&row)), (&record.to_row(), record));
        assert_eq!(schema.value(&row, "potential"), Some(-5e-324));
        assert_eq!(schema.value(&row, "pressure"), None);
        assert_eq!(schema.parse_row(&schema.csv_header()), None);
        assert_eq!(schema.parse_row("1,2,3"), None);
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
        let check = |record: Record| schema(&Units::NBody).check_finite(&record.to_row());
        check(record).unwrap();
        let message = |record: Record| check(record).unwrap_err().to_string();
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

    #[test]
    fn the_energy_error_of_a_body_at_rest_is_zero() {
        let at_rest = Row { step: 0, time: 0.0, values: vec![0.0; 9] };
        assert_eq!(energy_error(1.0, &at_rest, &at_rest), 0.0);
        let moved = Row { values: [vec![0.5, -1.5, -1.0], vec![0.0; 6]].concat(), ..at_rest.clone() };
        let later = Row { values: [vec![0.5, -1.0, -0.5], vec![0.0; 6]].concat(), ..at_rest };
        assert_eq!(energy_error(1.0, &moved, &later), 0.5);
    }
}
