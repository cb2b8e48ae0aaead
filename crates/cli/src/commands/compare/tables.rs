//! Differences between two tables.

use std::path::Path;

use orrery_io::IoError;
use orrery_model::format_count;

use super::{Comparison, compare_column};
use crate::failure::Failure;

/// Numbers of a table, whose first line has the names of its columns.
struct Table {
    names: Vec<String>,
    rows: Vec<Vec<f64>>,
}

/// Compares two tables with the same columns, row by row.
pub fn compare_tables(a_path: &Path, b_path: &Path) -> Result<Comparison, Failure> {
    let (a, b) = (read_table(a_path)?, read_table(b_path)?);
    if a.names != b.names {
        return Err(Failure::Usage(format!(
            "{}: the columns are {}, expected {} as in {}",
            b_path.display(),
            b.names.join(","),
            a.names.join(","),
            a_path.display()
        )));
    }
    let rows = a.rows.len().min(b.rows.len());
    let counts = (a.rows.len() != b.rows.len()).then_some((a.rows.len(), b.rows.len()));
    let columns = a.names.iter().enumerate().filter_map(|(column, name)| {
        let pairs = a.rows.iter().zip(&b.rows).map(|(a, b)| (a[column], b[column]));
        compare_column(name, pairs, |row| format!("row {}", row + 1))
    });
    Ok(Comparison {
        title: format!("{} and {}", a_path.display(), b_path.display()),
        compared: format_count(rows as u64, "row", "rows"),
        notes: counts.map(|(a, b)| format!("{a} and {b} rows")).into_iter().collect(),
        columns: columns.collect(),
    })
}

fn read_table(path: &Path) -> Result<Table, Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| Failure::Input(IoError::from_system(path, e)))?;
    let header = text.lines().next().unwrap_or_default();
    let names: Vec<String> = header.split(',').map(str::to_owned).collect();
    let row = |(i, line): (usize, &str)| {
        let numbers = line.split(',').map(|number| number.parse().ok()).collect::<Option<Vec<f64>>>();
        numbers.filter(|numbers| numbers.len() == names.len()).ok_or_else(|| {
            let (path, line) = (path.display(), i + 1);
            Failure::Usage(format!("{path}:{line}: not a row of this table, expected {header}"))
        })
    };
    let rows = text.lines().enumerate().skip(1).map(row).collect::<Result<_, _>>()?;
    Ok(Table { names, rows })
}
