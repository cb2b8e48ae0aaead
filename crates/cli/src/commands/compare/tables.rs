//! Differences between two tables.

use std::path::Path;

use orrery_formats::{Limits, format_bytes, read_text};
use orrery_model::format_count;

use super::tolerance::compare_column;
use super::{Comparison, Rules};
use crate::failure::Failure;

/// Numbers of a table, whose first line has the names of its columns.
struct Table {
    names: Vec<String>,
    rows: Vec<Vec<f64>>,
}

/// Compares two tables with the same columns, row by row.
pub fn compare_tables(a_path: &Path, b_path: &Path, rules: &Rules) -> Result<Comparison, Failure> {
    let (a, b) = (read_table(a_path, &rules.limits)?, read_table(b_path, &rules.limits)?);
    if a.names.len() != b.names.len() || !a.names.iter().zip(&b.names).all(|(a, b)| is_same_column(a, b)) {
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
        compare_column(split_unit(name).0, rules.tolerance, pairs, |row| format!("row {}", row + 1))
    });
    Ok(Comparison {
        title: format!("{} and {}", a_path.display(), b_path.display()),
        compared: format_count(rows as u64, "row", "rows"),
        notes: counts.map(|(a, b)| format!("{a} and {b} rows")).into_iter().collect(),
        columns: columns.collect(),
        first: None,
    })
}

/// Splits `kinetic [J]` into the name and the unit. Older tables have no units.
fn split_unit(column: &str) -> (&str, Option<&str>) {
    match column.split_once(" [") {
        Some((name, unit)) => (name, Some(unit)),
        None => (column, None),
    }
}

/// Returns true for columns with the same name whose units do not differ.
fn is_same_column(a: &str, b: &str) -> bool {
    let ((a, a_unit), (b, b_unit)) = (split_unit(a), split_unit(b));
    a == b && (a_unit.is_none() || b_unit.is_none() || a_unit == b_unit)
}

/// Memory of a table in units of the length of its file: its text and its numbers.
const MEMORY_PER_BYTE: u64 = 4;

fn read_table(path: &Path, limits: &Limits) -> Result<Table, Failure> {
    let length = path.metadata().map_or(0, |found| found.len());
    let needed = length.saturating_mul(MEMORY_PER_BYTE);
    if needed > limits.memory {
        let [length, needed, limit] = [length, needed, limits.memory].map(format_bytes);
        return Err(Failure::Usage(format!(
            "{}: a table of {length} needs {needed} of memory, the memory limit is {limit}",
            path.display()
        )));
    }
    let text = read_text(path, limits).map_err(Failure::Input)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_does_not_fit_into_memory_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conserved.csv");
        std::fs::write(&path, "step,time\n1,2\n").unwrap();
        let limits = |memory| Limits { memory };
        assert_eq!(read_table(&path, &limits(56)).unwrap().rows, [[1.0, 2.0]]);
        let error = read_table(&path, &limits(55)).map(drop).unwrap_err();
        let end = ": a table of 14.0 B needs 56.0 B of memory, the memory limit is 55.0 B";
        assert!(error.is_mistake() && error.to_string().ends_with(end), "{error}");
    }

    #[test]
    fn columns_are_the_same_unless_their_units_differ() {
        assert!(is_same_column("step", "step"));
        assert!(is_same_column("time", "time [yr]") && is_same_column("time [yr]", "time [yr]"));
        assert!(!is_same_column("time [yr]", "time [s]") && !is_same_column("time", "total"));
        assert_eq!(split_unit("heat [K m^2]").0, "heat");
    }
}
