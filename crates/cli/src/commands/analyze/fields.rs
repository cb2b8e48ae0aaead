//! Tables and plots of fields.

use std::fmt::Write as _;
use std::path::Path;

use orrery_draw::plot::{Axis, Plot, Series, label_with_unit};
use orrery_engine::field_analysis::FieldRow;
use orrery_engine::system::column_header;
use orrery_formats::write_file_atomically;
use orrery_model::analysis::max_or_nan;
use orrery_model::{ShownUnit, Units, format_count, short_number};
use serde_json::{Value, json};

use super::super::fields::AXES;
use super::{plot_title, table_number};
use crate::failure::Failure;
use crate::print::print_line;

/// Files that `analyze` writes to a folder for fields.
pub const FILES: [&str; 2] = ["fields.csv", "fields.svg"];

/// Prints a table with one row per file. Planes that may be plates have a heat content, and other
/// fields have their largest value with its place.
pub fn print_table(rows: &[FieldRow]) {
    let unit = rows.iter().find_map(|row| row.labels.unit.as_ref());
    let unit = unit.map_or(String::new(), |unit| format!(", unit {unit}"));
    let time = match shown_time(rows).name {
        name if name.is_empty() || rows.iter().all(|row| row.labels.time.is_none()) => String::new(),
        name => format!(", time in {name}"),
    };
    print_line!("{}{unit}{time}", format_count(rows.len() as u64, "field", "fields"));
    print_line!("");
    let has_heat = rows.iter().all(|row| row.may_have_heat);
    match has_heat {
        true => print_heat_rows(rows),
        false => print_largest_rows(rows),
    }
    let lacks_time = rows.iter().any(|row| row.labels.time.is_none() && row.is_snapshot);
    let lacks_heat = has_heat && rows.iter().any(|row| row.heat.is_none());
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

/// Returns the units of the runs of all files, if they are the same.
fn common_units(rows: &[FieldRow]) -> Option<Units> {
    let first = rows.first()?.run.as_ref()?.units;
    rows.iter().all(|row| row.run.as_ref().is_some_and(|run| run.units == first)).then_some(first)
}

/// Returns the name of the run of all files, if it is the same.
fn common_run(rows: &[FieldRow]) -> Option<&str> {
    let first = rows.first()?.run.as_ref()?;
    rows.iter().all(|row| row.run.as_ref() == Some(first)).then_some(&first.name)
}

/// Returns the unit in which times are shown. It has no name if the units of the files are unknown.
fn shown_time(rows: &[FieldRow]) -> ShownUnit {
    let times = rows.iter().filter_map(|row| row.labels.time).map(f64::abs);
    common_units(rows).unwrap_or(Units::Dimensionless).shown_time(times.fold(0.0, max_or_nan))
}

fn print_heat_rows(rows: &[FieldRow]) {
    let unit = shown_time(rows);
    print_line!(
        "{:>12} {:>13} {:>13} {:>13} {:>13} {:>13}  file",
        "time",
        "minimum",
        "maximum",
        "mean",
        "deviation",
        "heat"
    );
    for row in rows {
        let s = &row.statistics;
        print_line!(
            "{:>12} {:>13.6e} {:>13.6e} {:>13.6e} {:>13.6e} {:>13}  {}",
            time_cell(row, unit),
            s.min,
            s.max,
            s.mean,
            s.deviation,
            row.heat.map_or("-".to_owned(), |heat| format!("{heat:.6e}")),
            row.path.display()
        );
    }
}

fn print_largest_rows(rows: &[FieldRow]) {
    let unit = shown_time(rows);
    print_line!(
        "{:>12} {:>13} {:>13} {:>13} {:>13} {:>13}  file and place of the largest |value|",
        "time",
        "minimum",
        "maximum",
        "mean",
        "rms",
        "largest"
    );
    for row in rows {
        let s = &row.statistics;
        print_line!(
            "{:>12} {:>13.6e} {:>13.6e} {:>13.6e} {:>13.6e} {:>13.6e}  {}, {}",
            time_cell(row, unit),
            s.min,
            s.max,
            s.mean,
            s.rms(),
            s.largest(),
            row.path.display(),
            largest_text(row)
        );
    }
}

fn time_cell(row: &FieldRow, unit: ShownUnit) -> String {
    row.labels.time.map_or("-".to_owned(), |time| table_number(time / unit.size))
}

/// Returns the coordinates of the largest value, or its node if they are unknown.
fn largest_text(row: &FieldRow) -> String {
    match &row.largest_position {
        Some(position) => {
            let coordinate = |(axis, x): (&str, &f64)| format!("{axis} = {}", short_number(*x));
            AXES.into_iter().zip(position).map(coordinate).collect::<Vec<_>>().join(", ")
        }
        None => {
            let node: Vec<String> = row.largest_node.iter().map(usize::to_string).collect();
            format!("node ({})", node.join(", "))
        }
    }
}

/// Writes the table and the plot to a folder.
pub fn write_files(rows: &[FieldRow], folder: &Path) -> Result<(), Failure> {
    let mut table = csv_header(rows);
    let cell = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:e}"));
    for row in rows {
        let s = &row.statistics;
        let numbers = [
            row.labels.time,
            Some(s.min),
            Some(s.max),
            Some(s.mean),
            Some(s.deviation),
            row.heat,
            Some(s.rms()),
            Some(s.largest()),
        ];
        let node = [0, 1, 2].map(|axis| row.largest_node.get(axis).copied().unwrap_or(0).to_string());
        let _ = writeln!(table, "{},{},{}", csv_text(&row.path), numbers.map(cell).join(","), node.join(","));
    }
    write_file_atomically(&folder.join("fields.csv"), table.as_bytes()).map_err(Failure::Output)?;
    plot(rows).write_svg(&folder.join("fields.svg"))?;
    print_line!("");
    print_line!("wrote fields.csv and fields.svg to {}", folder.display());
    Ok(())
}

/// Returns the header line of the table, with the units that are known.
fn csv_header(rows: &[FieldRow]) -> String {
    let names = common_units(rows).unwrap_or(Units::Dimensionless).names();
    let unit = rows.iter().find_map(|row| row.labels.unit.as_deref()).unwrap_or_default();
    // The unit of a foreign file could end its cell.
    let unit = unit.replace([',', '"', '\n', '\r'], " ");
    let unit = unit.as_str();
    let heat = match (rows.iter().any(|row| row.has_heat_capacity), unit, names.length) {
        (true, _, "") => String::new(),
        (true, ..) => "J/m".to_owned(),
        (false, unit, "") => unit.to_owned(),
        (false, "", length) => format!("{length}^2"),
        (false, unit, length) => format!("{unit} {length}^2"),
    };
    let value = |name: &str| column_header(name, unit);
    let columns = ["minimum", "maximum", "mean", "deviation"].map(value).join(",");
    let (time, heat) = (column_header("time", names.time), column_header("heat", &heat));
    format!("file,{time},{columns},{heat},{},{},i,j,k\n", value("rms"), value("largest"))
}

/// Returns a path as a cell of a CSV file.
///
/// A spreadsheet executes a cell that begins with `=`, `+`, `-` or `@` as a formula, also in
/// quotes. Such a path is relative, so `./` before it names the same file.
pub fn csv_text(path: &Path) -> String {
    let text = path.display().to_string();
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("./{text}") } else { text };
    let needs_quotes = is_formula || text.contains([',', '"', '\n', '\r']);
    if needs_quotes { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// Returns the plot of minimum, mean and maximum over time, or over the number of the file if a
/// time is unknown.
fn plot(rows: &[FieldRow]) -> Plot {
    let has_time = rows.iter().all(|row| row.labels.time.is_some());
    let unit = shown_time(rows);
    let line = |name: &str, value: fn(&FieldRow) -> f64| {
        let x = |k: usize, row: &FieldRow| match row.labels.time.filter(|_| has_time) {
            Some(time) => time / unit.size,
            None => (k + 1) as f64,
        };
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
        title: plot_title(
            common_run(rows),
            &format!("{name} of {}", format_count(rows.len() as u64, "field", "fields")),
        ),
        x: Axis::linear(if has_time { label_with_unit("time", unit.name) } else { "file".to_owned() }),
        y: Axis::linear(label_with_unit(&name, &labels.unit.unwrap_or_default())),
        series,
        ..Plot::default()
    }
}

/// Returns all results as a JSON array.
pub fn to_json(rows: &[FieldRow]) -> Value {
    let field = |row: &FieldRow| {
        let s = &row.statistics;
        json!({
            "file": row.path.display().to_string(),
            "nodes": row.nodes,
            "name": row.labels.name,
            "unit": row.labels.unit,
            "time": row.labels.time,
            "spacing": row.labels.frame.map(|frame| frame.spacing[..row.nodes.len()].to_vec()),
            "minimum": s.min,
            "maximum": s.max,
            "mean": s.mean,
            "deviation": s.deviation,
            "heat": row.heat,
            "rms": s.rms(),
            "largest": s.largest(),
            "node": row.largest_node,
            "position": row.largest_position,
        })
    };
    rows.iter().map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No cell begins like a formula, and each names its file.
    #[test]
    fn cells_of_paths_are_not_formulas() {
        for (path, cell) in [
            ("out/a.vti", "out/a.vti"),
            ("a b.npy", "a b.npy"),
            ("=1+2.npy", "\"./=1+2.npy\""),
            ("+a.npy", "\"./+a.npy\""),
            ("-a.npy", "\"./-a.npy\""),
            ("@SUM(A1).npy", "\"./@SUM(A1).npy\""),
            ("a,\"b\".npy", "\"a,\"\"b\"\".npy\""),
        ] {
            assert_eq!(csv_text(Path::new(path)), cell);
        }
    }
}
