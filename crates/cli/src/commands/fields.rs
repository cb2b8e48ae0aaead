//! `info` and `convert` for files of fields.

use std::path::Path;

use orrery_draw::picture::{render_field_file, write_png};
use orrery_engine::field_analysis::add_labels_of_run;
use orrery_formats::{FieldFile, FieldFormat, Limits, Window, format_bytes, read_field, write_field};
use orrery_model::analysis::FieldStatistics;
use orrery_model::{Precision, format_count, short_number};
use serde_json::{Value, json};

use super::files::refuse_flags;
use super::table_number;
use crate::args::ConvertArgs;
use crate::failure::Failure;
use crate::print::print_line;

/// Names of the axes.
pub const AXES: [&str; 3] = ["x", "y", "z"];

/// Prints the contents of a file of a field and returns them as JSON.
pub fn print_info(path: &Path, limits: &Limits) -> Result<Value, Failure> {
    let field = read_field(path, limits).map_err(Failure::Input)?;
    Ok(print_field(path, &field))
}

/// Prints the contents of a field and returns them as JSON.
pub fn print_field(path: &Path, field: &FieldFile) -> Value {
    let FieldFile { format, data, labels, .. } = field;
    let axes = field.axis_count();
    let found = FieldStatistics::measure(&data.values);
    let (precision, _) = precision_and_bytes(field);
    print_line!("{}", path.display());
    match format {
        FieldFormat::Png => print_line!("  format     {}, grey values from 0 to 1", format.name()),
        FieldFormat::Segy => print_line!("  format     {} model, {precision}", format.name()),
        _ => print_line!("  format     {}, {precision}", format.name()),
    }
    print_line!("  nodes      {}", field.nodes_text());
    if axes == 3 {
        print_line!("  memory     {}", format_bytes(memory_bytes(field)));
    }
    for (title, text) in [("name", &labels.name), ("unit", &labels.unit)] {
        if let Some(text) = text {
            print_line!("  {title:<10} {text}");
        }
    }
    if let Some(time) = labels.time {
        print_line!("  time       {}", short_number(time));
    }
    if let (Some(frame), Some(extent)) = (labels.frame, axes_extent(field)) {
        let spacing: Vec<String> = frame.spacing[..axes].iter().map(|&h| short_number(h)).collect();
        print_line!("  spacing    {}", spacing.join(" x "));
        for (axis, [first, last]) in AXES.into_iter().zip(extent) {
            print_line!("  {axis}          {} to {}", table_number(first), table_number(last));
        }
    }
    for (title, value) in [("minimum", found.min), ("maximum", found.max), ("mean", found.mean)] {
        print_line!("  {title:<10} {}", table_number(value));
    }
    for problem in problems(found.non_finite, labels.time) {
        print_line!("  problem    {problem}");
    }
    if !labels.other_arrays.is_empty() {
        print_line!("  not read   {}", labels.other_arrays.join(", "));
    }
    field_json(path, field, &found)
}

fn field_json(path: &Path, field: &FieldFile, found: &FieldStatistics) -> Value {
    let FieldFile { format, file_bytes, data, labels, .. } = field;
    let axes = field.axis_count();
    let extent = axes_extent(field).map(|extent| {
        let named = AXES.into_iter().zip(extent).map(|(axis, range)| (axis.to_owned(), json!(range)));
        named.collect::<serde_json::Map<String, Value>>()
    });
    json!({
        "file": path.display().to_string(),
        "format": if *format == FieldFormat::Segy { "SEG-Y model" } else { format.name() },
        "bytes": file_bytes,
        "nodes": data.nodes[..axes],
        "memory": memory_bytes(field),
        "precision": precision_and_bytes(field).0,
        "name": labels.name,
        "unit": labels.unit,
        "time": labels.time,
        "spacing": labels.frame.map(|frame| frame.spacing[..axes].to_vec()),
        "extent": extent,
        "minimum": found.min,
        "maximum": found.max,
        "mean": found.mean,
        "non_finite": found.non_finite,
        "problems": problems(found.non_finite, labels.time),
        "other_arrays": labels.other_arrays,
    })
}

/// Returns the name of the precision and the bytes of a value.
fn precision_and_bytes(field: &FieldFile) -> (&'static str, u64) {
    if field.data.precision == Precision::Single { ("f32", 4) } else { ("f64", 8) }
}

/// Returns the memory of the values in their precision.
fn memory_bytes(field: &FieldFile) -> u64 {
    precision_and_bytes(field).1 * field.data.values.len() as u64
}

/// Returns the coordinates of the first and the last node along each axis, if they are known.
fn axes_extent(field: &FieldFile) -> Option<Vec<[f64; 2]>> {
    let (first, last) = (field.node(0).1?, field.node(field.data.values.len() - 1).1?);
    Some((0..field.axis_count()).map(|axis| [first[axis], last[axis]]).collect())
}

/// Returns the reasons why `analyze` refuses a file with this number of values that are not finite.
pub fn problems(non_finite: usize, time: Option<f64>) -> Vec<String> {
    let mut problems = Vec::new();
    if non_finite > 0 {
        let count = format_count(non_finite as u64, "value is", "values are");
        problems.push(format!("{count} NaN or infinite"));
    }
    if let Some(time) = time.filter(|time| !time.is_finite()) {
        problems.push(format!("the time is {time}"));
    }
    problems
}

/// Reads a field and writes it in another format, or as a picture.
pub fn convert(arguments: &ConvertArgs) -> Result<(), Failure> {
    refuse_flags(arguments, "is a field", &["--window", "--stride"])?;
    let format = output_format(arguments, "a field")?;
    let limits = arguments.memory.limits();
    let mut field = read_field(&arguments.input, &limits).map_err(Failure::Input)?;
    // An NPY file has no spacing. The case of its run has it.
    add_labels_of_run(&arguments.input, &mut field, &limits);
    write_converted(arguments, field, format)
}

/// Returns the format of the file to write. `kind` is that of the input, for example `a model`.
pub fn output_format(arguments: &ConvertArgs, kind: &str) -> Result<FieldFormat, Failure> {
    match FieldFormat::from_path(&arguments.output) {
        Some(format @ (FieldFormat::Npy | FieldFormat::Vti | FieldFormat::Png)) => Ok(format),
        Some(FieldFormat::Segy) | None => Err(Failure::Usage(format!(
            "{}: {} is {kind}, expected a file to write with the extension .npy, .vti or .png",
            arguments.output.display(),
            arguments.input.display()
        ))),
    }
}

/// Writes a field, or the part of it that the flags select, as a file or as a picture.
pub fn write_converted(
    arguments: &ConvertArgs,
    field: FieldFile,
    format: FieldFormat,
) -> Result<(), Failure> {
    let output = &arguments.output;
    let mut field = select_nodes(arguments, field)?;
    // A plane of a volume is an array with two axes. Image data keep its position.
    if format != FieldFormat::Vti {
        field = field.as_plane();
    }
    if format == FieldFormat::Png {
        return draw(arguments, &field);
    }
    write_field(output, &field).map_err(Failure::Output)?;
    let assumed = match (format, field.labels.frame) {
        (FieldFormat::Vti, None) => match field.format {
            FieldFormat::Segy => " with a spacing of 1, since the traces have no distances",
            _ => " with a spacing of 1, since the input has none",
        },
        _ => "",
    };
    print_line!("wrote {} nodes to {}{assumed}", field.nodes_text(), output.display());
    Ok(())
}

/// Draws a plane.
fn draw(arguments: &ConvertArgs, field: &FieldFile) -> Result<(), Failure> {
    let ConvertArgs { input, output, .. } = arguments;
    if field.axis_count() == 3 {
        return Err(Failure::Usage(format!(
            "{}: {} has {} nodes, expected a plane for a picture; --window z=0 selects one",
            output.display(),
            input.display(),
            field.nodes_text()
        )));
    }
    let title = input.file_name().unwrap_or_default().to_string_lossy();
    let image = render_field_file(field, &title)
        .map_err(|error| Failure::Usage(format!("{}: {error}", input.display())))?;
    write_png(output, &image, &[("Title", &title)])?;
    let (width, height) = (image.width, image.height);
    print_line!("wrote a picture of {width} x {height} pixels to {}", output.display());
    Ok(())
}

/// Returns the part of a field that `--window` and `--stride` select.
fn select_nodes(arguments: &ConvertArgs, field: FieldFile) -> Result<FieldFile, Failure> {
    let ConvertArgs { input, window, stride, .. } = arguments;
    if window.is_empty() && stride.is_none() {
        return Ok(field);
    }
    let nodes = field.data.nodes;
    let mut windows = nodes.map(Window::whole);
    for (k, flag) in window.iter().enumerate() {
        let axis = flag.axis;
        if window[..k].iter().any(|earlier| earlier.axis == axis) {
            let name = AXES[axis];
            return Err(Failure::Usage(format!("--window: two ranges along {name}, expected at most one")));
        }
        windows[axis] = flag.within(nodes[axis]);
    }
    let stride = stride.map_or(1, |stride| stride as usize);
    windows.iter_mut().for_each(|window| window.stride = stride);
    field.windowed(&windows).map_err(|fault| Failure::Usage(format!("{}: {fault}", input.display())))
}
