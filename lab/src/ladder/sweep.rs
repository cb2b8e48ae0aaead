//! Measurements over a parameter that is not part of the rungs, for example the bandwidth of a copy
//! over its offset: a table with one row per value, and a line plot.

use orrery_draw::plot::{Axis, Plot, Series};
use serde::Serialize;

use orrery_measure::format::format_number;
use orrery_measure::text_table::{TextTable, format_or_dash};

/// Scale of an axis of the plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SweepScale {
    /// Equal distances are equal differences.
    Linear,
    /// Equal distances are equal ratios.
    Log,
}

impl SweepScale {
    fn axis(self, label: &str) -> Axis {
        match self {
            Self::Linear => Axis::linear(label),
            Self::Log => Axis::log(label),
        }
    }
}

/// Measured values of several series over a parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// Title, for example `copy with an offset`.
    pub title: String,
    /// Parameter with its unit, for example `offset, floats`.
    pub parameter: &'static str,
    /// Unit of the measured values, for example `GB/s`.
    pub unit: &'static str,
    /// Scale of the parameter.
    pub x_scale: SweepScale,
    /// Scale of the measured values.
    pub y_scale: SweepScale,
    /// Values of the parameter, ascending.
    pub values: Vec<f64>,
    /// Measured values.
    pub series: Vec<SweepSeries>,
}

/// One line of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepSeries {
    /// Name of at most 14 characters, the heading of a column.
    pub name: String,
    /// One measured value for each value of the parameter. `None` where the device does not support
    /// it.
    pub points: Vec<Option<f64>>,
}

impl Sweep {
    /// Formats the table: one row per value of the parameter, one column per series.
    pub(super) fn lines(&self) -> Vec<String> {
        let names = self.values.iter().map(|value| format_value(*value)).collect();
        let mut table = TextTable::new(self.parameter, names);
        for series in &self.series {
            let cells = series.points.iter().map(|point| format_or_dash(*point, format_number));
            table.add_column(&series.name, cells.collect());
        }
        table.lines_with_caption(&format!("{}, {}", self.title, self.unit))
    }

    /// Draws one line per series.
    pub(super) fn plot(&self, device: &str) -> Plot {
        let line = |series: &SweepSeries| {
            let points = series.points.iter().map(|point| point.unwrap_or(f64::NAN));
            Series::line(series.name.clone(), self.values.iter().copied().zip(points).collect())
        };
        Plot {
            title: self.title.clone(),
            subtitle: device.to_owned(),
            x: self.x_scale.axis(self.parameter),
            y: self.y_scale.axis(self.unit),
            series: self.series.iter().map(line).collect(),
        }
    }
}

/// Formats a value of the parameter. Whole numbers up to 2^53 have all their digits.
fn format_value(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 9.0e15 { format!("{value}") } else { format_number(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Sweep {
        let series = |name: &str, points| SweepSeries { name: name.to_owned(), points };
        Sweep {
            title: "copy with an offset".to_owned(),
            parameter: "offset, floats",
            unit: "GB/s",
            x_scale: SweepScale::Linear,
            y_scale: SweepScale::Log,
            values: vec![0.0, 1.0, 32.0],
            series: vec![
                series("global memory", vec![Some(4200.0), Some(3812.0), Some(4190.0)]),
                series("texture", vec![Some(4100.0), None, Some(4000.0)]),
            ],
        }
    }

    #[test]
    fn the_table_has_one_row_per_value() {
        assert_eq!(
            example().lines(),
            [
                "copy with an offset, GB/s",
                "  offset, floats  global memory  texture",
                "  0                        4200     4100",
                "  1                        3812        -",
                "  32                       4190     4000",
            ]
        );
    }

    #[test]
    fn the_plot_names_axes_and_series_and_has_a_gap_for_a_missing_point() {
        let svg = example().plot("cpu").to_svg();
        for text in ["copy with an offset", "offset, floats", "GB/s", "global memory", "texture"] {
            assert!(svg.contains(&format!(">{text}<")), "{text}");
        }
        assert!(!svg.contains("NaN"));
    }
}
