//! Figures that another source reports, in a table beside those measured here.

use serde::Serialize;

use orrery_measure::format::format_number;
use orrery_measure::text_table::{TextTable, format_or_dash};

/// Table of figures, for example the absolute performance that a course reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureTable {
    /// Title.
    pub title: String,
    /// Column headings.
    pub columns: Vec<String>,
    /// Rows.
    pub rows: Vec<FigureRow>,
    /// Explanations printed below the table, one line each.
    pub legend: &'static [&'static str],
}

/// Row of a [`FigureTable`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureRow {
    /// Name of the row.
    pub name: String,
    /// One value per column. `None` where there is no figure.
    pub values: Vec<Option<f64>>,
}

impl FigureTable {
    /// Formats the table. Figures have all their digits if these are few.
    pub(super) fn lines(&self) -> Vec<String> {
        let names = self.rows.iter().map(|row| row.name.clone()).collect();
        let mut table = TextTable::new("rung", names);
        for (index, column) in self.columns.iter().enumerate() {
            let cells = self.rows.iter().map(|row| format_or_dash(row.values[index], format_figure));
            table.add_column(column, cells.collect());
        }
        let mut lines = table.lines_with_caption(&self.title);
        lines.extend(self.legend.iter().map(|line| format!("  {line}")));
        lines
    }
}

/// Formats a figure as its source writes it, for example `1677.6`, if that takes at most six
/// characters, else with three digits.
fn format_figure(value: f64) -> String {
    let text = value.to_string();
    if text.len() <= 6 { text } else { format_number(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_the_digits_of_their_source() {
        let row = |name: &str, values| FigureRow { name: name.to_owned(), values };
        let table = FigureTable {
            title: "absolute figures".to_owned(),
            columns: ["ms", "GFLOP/s"].map(str::to_owned).to_vec(),
            rows: vec![
                row("unrolled", vec![Some(612.0), Some(326.7)]),
                row("f64", vec![None, Some(1.0 / 3.0)]),
            ],
            legend: &["f64: no time"],
        };
        assert_eq!(
            table.lines(),
            [
                "absolute figures",
                "  rung       ms  GFLOP/s",
                "  unrolled  612    326.7",
                "  f64         -    0.333",
                "  f64: no time",
            ]
        );
    }
}
