//! `info` and `convert` for files of fields.

use std::path::Path;

use orrery_io::picture::write_png;
use orrery_io::{FieldFile, FieldFormat, FieldFrame, Limits, read_field, render_field_file, write_field};
use orrery_model::analysis::FieldStatistics;
use orrery_model::{Precision, format_count, short_number};
use serde_json::{Value, json};

use super::table_number;
use crate::args::ConvertArgs;
use crate::failure::Failure;
use crate::print::print_line;

/// Prints the contents of a file of a field and returns them as JSON.
pub fn print_info(path: &Path, limits: &Limits) -> Result<Value, Failure> {
    let field = read_field(path, limits).map_err(Failure::Input)?;
    let FieldFile { format, file_bytes, data, labels } = &field;
    let found = FieldStatistics::measure(&data.values);
    let precision = if data.precision == Precision::Single { "f32" } else { "f64" };
    let extent = axes_extent(&field);
    let problems = problems(&found, labels.time);
    print_line!("{}", path.display());
    match format {
        FieldFormat::Png => print_line!("  format     {}, grey values from 0 to 1", format.name()),
        _ => print_line!("  format     {}, {precision}", format.name()),
    }
    print_line!("  nodes      {}", nodes_text(&field));
    for (title, text) in [("name", &labels.name), ("unit", &labels.unit)] {
        if let Some(text) = text {
            print_line!("  {title:<10} {text}");
        }
    }
    if let Some(time) = labels.time {
        print_line!("  time       {}", short_number(time));
    }
    if let (Some(FieldFrame { spacing: [hx, hy], .. }), Some(extent)) = (labels.frame, extent) {
        print_line!("  spacing    {} x {}", short_number(hx), short_number(hy));
        for (axis, [first, last]) in ["x", "y"].into_iter().zip(extent) {
            print_line!("  {axis}          {} to {}", table_number(first), table_number(last));
        }
    }
    for (title, value) in [("minimum", found.min), ("maximum", found.max), ("mean", found.mean)] {
        print_line!("  {title:<10} {}", table_number(value));
    }
    for problem in &problems {
        print_line!("  problem    {problem}");
    }
    if !labels.other_arrays.is_empty() {
        print_line!("  not read   {}", labels.other_arrays.join(", "));
    }
    Ok(json!({
        "file": path.display().to_string(),
        "format": format.name(),
        "bytes": file_bytes,
        "nodes": [data.nx, data.ny],
        "precision": precision,
        "name": labels.name,
        "unit": labels.unit,
        "time": labels.time,
        "spacing": labels.frame.map(|frame| frame.spacing),
        "extent": extent.map(|[x, y]| json!({ "x": x, "y": y })),
        "minimum": found.min,
        "maximum": found.max,
        "mean": found.mean,
        "non_finite": found.non_finite,
        "problems": problems,
        "other_arrays": labels.other_arrays,
    }))
}

/// Returns the coordinates of the first and the last node along each axis, if they are known.
fn axes_extent(field: &FieldFile) -> Option<[[f64; 2]; 2]> {
    let (first, last) = (field.node(0).1?, field.node(field.data.values.len() - 1).1?);
    Some([0, 1].map(|axis| [first[axis], last[axis]]))
}

/// Returns the reasons why `analyze` refuses this file.
fn problems(found: &FieldStatistics, time: Option<f64>) -> Vec<String> {
    let mut problems = Vec::new();
    if found.non_finite > 0 {
        let count = format_count(found.non_finite as u64, "value is", "values are");
        problems.push(format!("{count} NaN or infinite"));
    }
    if let Some(time) = time.filter(|time| !time.is_finite()) {
        problems.push(format!("the time is {time}"));
    }
    problems
}

fn nodes_text(field: &FieldFile) -> String {
    format!("{} x {}", field.data.nx, field.data.ny)
}

/// Reads a field and writes it in another format, or as a picture.
pub fn convert(arguments: &ConvertArgs) -> Result<(), Failure> {
    let ConvertArgs { input, output, cosmological, memory, .. } = arguments;
    if cosmological.is_some() {
        let input = input.display();
        return Err(Failure::Usage(format!(
            "--cosmological: {input} is a field, expected a snapshot of bodies"
        )));
    }
    let Some(format) = FieldFormat::from_path(output) else {
        return Err(Failure::Usage(format!(
            "{}: {} is a field, expected a file to write with the extension .npy, .vti or .png",
            output.display(),
            input.display()
        )));
    };
    let field = read_field(input, &memory.limits()).map_err(Failure::Input)?;
    if format == FieldFormat::Png {
        let title = input.file_name().unwrap_or_default().to_string_lossy();
        let image = render_field_file(&field, &title)
            .map_err(|error| Failure::Usage(format!("{}: {error}", input.display())))?;
        write_png(output, &image, &[("Title", &title)])?;
        let (width, height) = (image.width, image.height);
        print_line!("wrote a picture of {width} x {height} pixels to {}", output.display());
        return Ok(());
    }
    write_field(output, &field).map_err(Failure::Output)?;
    let assumed = match (format, field.labels.frame) {
        (FieldFormat::Vti, None) => " with a spacing of 1, since the input has none",
        _ => "",
    };
    print_line!("wrote {} nodes to {}{assumed}", nodes_text(&field), output.display());
    Ok(())
}
