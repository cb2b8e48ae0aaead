//! Tables and plots of seismograms.

use std::fmt::Write as _;
use std::path::Path;

use orrery_draw::plot::{Axis, Plot, Series, Style, label_with_unit};
use orrery_engine::seismogram_analysis::TraceRow;
use orrery_engine::system::column_header;
use orrery_formats::write_file_atomically;
use orrery_model::analysis::FIRST_BREAK_FRACTION;
use orrery_model::{format_count, short_number};
use serde_json::{Value, json};

use super::fields::csv_text;
use super::{plot_title, table_number};
use crate::failure::Failure;
use crate::print::print_line;

/// Files that `analyze` writes to a folder for seismograms.
pub const FILES: [&str; 2] = ["traces.csv", "traces.svg"];

/// Largest number of rows that are printed.
const MAX_ROWS: usize = 50;

/// Prints a table with one row per trace.
pub fn print_table(rows: &[TraceRow]) {
    print_line!(
        "{}, times in s{}, first break at {}% of the largest amplitude of a trace",
        format_count(rows.len() as u64, "trace", "traces"),
        if length_unit(rows).is_empty() { "" } else { ", offsets in m" },
        100.0 * FIRST_BREAK_FRACTION
    );
    print_line!("");
    print_line!(
        "{:>6} {:>8} {:>12} {:>12} {:>12} {:>14} {:>14}",
        "shot",
        "receiver",
        "offset",
        "first break",
        "peak time",
        "peak",
        "rms"
    );
    let or_dash = |time: Option<f64>| time.map_or("-".to_owned(), table_number);
    for TraceRow { shot, receiver, offset, measures, .. } in rows.iter().take(MAX_ROWS) {
        print_line!(
            "{shot:>6} {receiver:>8} {:>12} {:>12} {:>12} {:>14.6e} {:>14.6e}",
            table_number(*offset),
            or_dash(measures.first_break),
            or_dash(measures.peak_time),
            measures.peak,
            measures.rms
        );
    }
    if let Some(hidden) = rows.len().checked_sub(MAX_ROWS).filter(|&hidden| hidden > 0) {
        let traces = format_count(hidden as u64, "trace", "traces");
        print_line!("{traces} more; -o DIR and --json FILE write all of them");
    }
}

/// Returns the unit of lengths. Those of a run are in m. Other files may have any.
fn length_unit(rows: &[TraceRow]) -> &'static str {
    if rows.iter().all(|row| row.run.is_some()) { "m" } else { "" }
}

/// Writes the table and the plot to a folder.
pub fn write_files(rows: &[TraceRow], folder: &Path) -> Result<(), Failure> {
    let lengths = ["x", "y", "depth", "offset"].map(|name| column_header(name, length_unit(rows))).join(",");
    let mut table = format!("file,shot,receiver,{lengths},first_break [s],peak_time [s],peak,rms\n");
    let cell = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:e}"));
    for row in rows {
        let [x, y, depth] = row.position;
        let m = &row.measures;
        let numbers = [
            Some(x),
            Some(y),
            Some(depth),
            Some(row.offset),
            m.first_break,
            m.peak_time,
            Some(m.peak),
            Some(m.rms),
        ];
        let numbers = numbers.map(cell).join(",");
        let _ = writeln!(table, "{},{},{},{numbers}", csv_text(&row.path), row.shot, row.receiver);
    }
    write_file_atomically(&folder.join("traces.csv"), table.as_bytes()).map_err(Failure::Output)?;
    plot(rows).write_svg(&folder.join("traces.svg"))?;
    print_line!("");
    print_line!("wrote traces.csv and traces.svg to {}", folder.display());
    Ok(())
}

/// Returns the name of the run of all traces, if it is the same.
fn common_run(rows: &[TraceRow]) -> Option<&str> {
    let first = rows.first()?.run.as_ref()?;
    rows.iter().all(|row| row.run.as_ref() == Some(first)).then_some(&first.name)
}

/// Returns the plot of both times over the offset.
fn plot(rows: &[TraceRow]) -> Plot {
    let series = |name: &str, time: fn(&TraceRow) -> Option<f64>| Series {
        name: name.to_owned(),
        points: rows.iter().filter_map(|row| Some((row.offset, time(row)?))).collect(),
        style: Style::Points,
    };
    let fraction = short_number(100.0 * FIRST_BREAK_FRACTION);
    Plot {
        title: plot_title(common_run(rows), "arrival times"),
        subtitle: format!("first break at {fraction}% of the largest amplitude of a trace"),
        x: Axis::linear(label_with_unit("offset", length_unit(rows))),
        y: Axis::linear("time (s)"),
        series: vec![
            series("first break", |row| row.measures.first_break),
            series("peak", |row| row.measures.peak_time),
        ],
    }
}

/// Returns all results as a JSON array.
pub fn to_json(rows: &[TraceRow]) -> Value {
    let trace = |row: &TraceRow| {
        let m = &row.measures;
        json!({
            "file": row.path.display().to_string(),
            "shot": row.shot,
            "receiver": row.receiver,
            "position": row.position,
            "offset": row.offset,
            "first_break": m.first_break,
            "peak_time": m.peak_time,
            "peak": m.peak,
            "rms": m.rms,
        })
    };
    rows.iter().map(trace).collect()
}
