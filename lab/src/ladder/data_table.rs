//! Tables of results that are not rates, for example counted outcomes: rows with names.

use serde::Serialize;

use orrery_measure::format::{format_number, format_thousands, wrap_text};
use orrery_measure::text_table::{TextTable, WIDTH};

/// Table of results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataTable {
    /// Title.
    pub title: String,
    /// Heading of the names of the rows.
    pub row_heading: &'static str,
    /// Headings of the other columns.
    pub columns: Vec<String>,
    /// Rows.
    pub rows: Vec<DataRow>,
}

/// Row of a [`DataTable`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataRow {
    /// Name.
    pub name: String,
    /// One cell per column.
    pub cells: Vec<DataCell>,
}

/// Cell of a [`DataTable`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum DataCell {
    /// A count, shown with all its digits.
    Count(u64),
    /// A number, shown with three digits.
    Number(f64),
    /// A text of a few characters.
    Text(String),
}

impl From<Option<f64>> for DataCell {
    /// Returns a number, or NaN, which is shown as a dash and null in JSON.
    fn from(number: Option<f64>) -> Self {
        Self::Number(number.unwrap_or(f64::NAN))
    }
}

impl DataCell {
    fn text(&self) -> String {
        match self {
            Self::Count(count) => format_thousands(*count as usize),
            Self::Number(number) => format_number(*number),
            Self::Text(text) => text.clone(),
        }
    }
}

impl DataTable {
    /// Formats the table below its title.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut table =
            TextTable::new(self.row_heading, self.rows.iter().map(|row| row.name.clone()).collect());
        for (index, column) in self.columns.iter().enumerate() {
            table.add_column(column, self.rows.iter().map(|row| row.cells[index].text()).collect());
        }
        wrap_text(&self.title, WIDTH).into_iter().chain(table.lines()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> DataTable {
        let row = |name: &str, count, share, text: &str| DataRow {
            name: name.to_owned(),
            cells: vec![DataCell::Count(count), DataCell::Number(share), DataCell::Text(text.to_owned())],
        };
        DataTable {
            title: "outcomes of trials".to_owned(),
            row_heading: "fence",
            columns: ["seen", "share", "allowed"].map(str::to_owned).to_vec(),
            rows: vec![row("none", 16_777_216, 1.0, "all"), row("device", 3, 0.25, "not 1")],
        }
    }

    #[test]
    fn counts_have_all_digits() {
        assert_eq!(
            example().lines(),
            [
                "outcomes of trials",
                "  fence         seen  share  allowed",
                "  none    16,777,216      1      all",
                "  device           3  0.250    not 1",
            ]
        );
    }

    #[test]
    fn a_missing_number_is_a_dash() {
        assert_eq!(DataCell::from(Some(2.0)), DataCell::Number(2.0));
        assert_eq!(DataCell::from(None).text(), "-");
        assert!(serde_json::to_value(DataCell::from(None)).unwrap().is_null());
    }

    #[test]
    fn cells_are_plain_values_in_json() {
        let json = serde_json::to_value(example()).unwrap();
        assert_eq!(json["rows"][1]["cells"], serde_json::json!([3, 0.25, "not 1"]));
    }
}
