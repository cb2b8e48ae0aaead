//! Tables and plots of fields.

use std::fmt::Write as _;
use std::path::Path;

use orrery_engine::field_analysis::FieldRow;
use orrery_io::plot::{Axis, Plot, Series};
use orrery_io::write_file_atomically;
use orrery_model::format_count;
use serde_json::{Value, json};

use super::table_number;
use crate::failure::Failure;
use crate::print::print_line;

/// Files that `analyze` writes to a folder for fields.
pub const FILES: [&str; 2] = ["fields.csv", "fields.svg"];

/// Prints a table with one row per file.
pub fn print_table(rows: &[FieldRow]) {
    let unit = rows.iter().find_map(|row| row.labels.unit.as_ref());
    let unit = unit.map_or(String::new(), |unit| format!(", unit {unit}"));
    print_line!("{}{unit}", format_count(rows.len() as u64, "field", "fields"));
    print_line!("");
    print_line!(
        "{:>12} {:>13} {:>13} {:>13} {:>13} {:>13}  file",
        "time",
        "minimum",
        "maximum",
        "mean",
        "deviation",
        "heat"
    );
    let or_dash = |value: Option<f64>, format: fn(f64) -> String| value.map_or("-".to_owned(), format);
    for row in rows {
        let s = &row.statistics;
        print_line!(
            "{:>12} {:>13.6e} {:>13.6e} {:>13.6e} {:>13.6e} {:>13}  {}",
            or_dash(row.labels.time, table_number),
            s.min,
            s.max,
            s.mean,
            s.deviation,
            or_dash(row.heat, |heat| format!("{heat:.6e}")),
            row.path.display()
        );
    }
    let lacks_time = rows.iter().any(|row| row.labels.time.is_none());
    let lacks_heat = rows.iter().any(|row| row.heat.is_none());
    if lacks_time || lacks_heat {
        print_line!("");
    }
    if lacks_time {
        print_line!("times are in .vti files, which a run writes with output.format = \"vti\"");
    }
    if lacks_heat {
        print_line!("the heat content needs the spacing of the nodes, which .vti files and runs have");
    }
}

/// Writes the table and the plot to a folder.
pub fn write_files(rows: &[FieldRow], folder: &Path) -> Result<(), Failure> {
    let mut table = String::from("file,time,minimum,maximum,mean,deviation,heat\n");
    let cell = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:e}"));
    for row in rows {
        let s = &row.statistics;
        let numbers = [row.labels.time, Some(s.min), Some(s.max), Some(s.mean), Some(s.deviation), row.heat];
        let _ = writeln!(table, "{},{}", csv_text(&row.path), numbers.map(cell).join(","));
    }
    write_file_atomically(&folder.join("fields.csv"), table.as_bytes()).map_err(Failure::Output)?;
    plot(rows).write_svg(&folder.join("fields.svg"))?;
    print_line!("");
    print_line!("wrote fields.csv and fields.svg to {}", folder.display());
    Ok(())
}

/// Returns a path as a cell of a CSV file.
fn csv_text(path: &Path) -> String {
    let text = path.display().to_string();
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// Returns the plot of minimum, mean and maximum over time, or over the number of the file if a
/// time is unknown.
fn plot(rows: &[FieldRow]) -> Plot {
    let has_time = rows.iter().all(|row| row.labels.time.is_some());
    let line = |name: &str, value: fn(&FieldRow) -> f64| {
        let x = |k: usize, row: &FieldRow| row.labels.time.filter(|_| has_time).unwrap_or((k + 1) as f64);
        let points = rows.iter().enumerate().map(|(k, row)| (x(k, row), value(row)));
        Series::line(name, points.collect())
    };
    let labels = rows.first().map(|row| row.labels.clone()).unwrap_or_default();
    let name = labels.name.unwrap_or_else(|| "value".to_owned());
    let series = vec![
        line("maximum", |row| row.statistics.max),
        line("mean", |row| row.statistics.mean),
        line("minimum", |row| row.statistics.min),
    ];
    Plot {
        title: format!("{name} of {}", format_count(rows.len() as u64, "field", "fields")),
        x: Axis::linear(if has_time { "time" } else { "file" }),
        y: Axis::linear(labels.unit.map_or(name.clone(), |unit| format!("{name} ({unit})"))),
        series,
        ..Plot::default()
    }
}

/// Returns all results as JSON.
pub fn to_json(rows: &[FieldRow]) -> Value {
    let field = |row: &FieldRow| {
        let s = &row.statistics;
        json!({
            "file": row.path.display().to_string(),
            "nodes": row.nodes,
            "name": row.labels.name,
            "unit": row.labels.unit,
            "time": row.labels.time,
            "spacing": row.labels.frame.map(|frame| frame.spacing),
            "minimum": s.min,
            "maximum": s.max,
            "mean": s.mean,
            "deviation": s.deviation,
            "heat": row.heat,
        })
    };
    json!({ "fields": rows.iter().map(field).collect::<Vec<_>>() })
}
