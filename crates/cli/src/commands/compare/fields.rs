//! Differences between two fields.

use std::path::Path;

use orrery_io::{FieldFile, FieldFrame, Limits, read_field};
use orrery_model::analysis::FieldDifference;
use orrery_model::{format_count, short_number};

use super::{ColumnDifference, Comparison, FieldDetails};
use crate::failure::Failure;

/// Compares two files of fields with the same nodes.
pub fn compare_fields(a_path: &Path, b_path: &Path, limits: &Limits) -> Result<Comparison, Failure> {
    let read = |path| read_field(path, limits).map_err(Failure::Input);
    let (a, b) = (read(a_path)?, read(b_path)?);
    let differing = |found: String, other: String, expected: &str| {
        Err(Failure::Usage(format!(
            "{}: {found}, but {} has {other}; expected fields with the same {expected}",
            b_path.display(),
            a_path.display()
        )))
    };
    let nodes = |field: &FieldFile| format!("{} x {}", field.data.nx, field.data.ny);
    if nodes(&a) != nodes(&b) {
        return differing(format!("{} nodes", nodes(&b)), nodes(&a), "nodes");
    }
    if let (Some(found), Some(other)) = (&b.labels.unit, &a.labels.unit)
        && found != other
    {
        return differing(format!("the unit is {found}"), other.clone(), "unit");
    }
    let difference = FieldDifference::measure(&a.data.values, &b.data.values);
    let columns = difference.map(|difference| describe(&a, &b, &difference));
    Ok(Comparison {
        title: format!("{} and {}", a_path.display(), b_path.display()),
        compared: format_count(a.data.values.len() as u64, "node", "nodes"),
        notes: label_notes(&a, &b),
        columns: columns.into_iter().collect(),
    })
}

/// Describes the difference of the values as a column.
fn describe(a: &FieldFile, b: &FieldFile, difference: &FieldDifference) -> ColumnDifference {
    let FieldDifference { count, largest, index, rms, .. } = *difference;
    let (node, position) = a.node(index);
    let position = position.or_else(|| b.node(index).1);
    let [i, j] = node;
    let label = match position {
        Some([x, y]) => format!("node ({i}, {j}) at x = {}, y = {}", short_number(x), short_number(y)),
        None => format!("node ({i}, {j})"),
    };
    let name = a.labels.name.as_ref().or(b.labels.name.as_ref());
    ColumnDifference {
        name: name.cloned().unwrap_or_else(|| "value".to_owned()),
        count,
        relative: difference.relative(),
        absolute: largest,
        worst: (label, a.data.values[index], b.data.values[index]),
        field: Some(FieldDetails { rms, range: difference.range, node, position }),
    }
}

/// Returns the differences of time and spacing, where both files record them.
fn label_notes(a: &FieldFile, b: &FieldFile) -> Vec<String> {
    let mut notes = Vec::new();
    if let (Some(a), Some(b)) = (a.labels.time, b.labels.time)
        && a.to_bits() != b.to_bits()
    {
        notes.push(format!("time {a} and {b}"));
    }
    if let (Some(a), Some(b)) = (a.labels.frame, b.labels.frame) {
        let spacing = |FieldFrame { spacing: [hx, hy], .. }| format!("{hx} x {hy}");
        let origin = |FieldFrame { origin: [x, y], .. }| format!("({x}, {y})");
        if a.spacing != b.spacing {
            notes.push(format!("spacing {} and {}", spacing(a), spacing(b)));
        }
        if a.origin != b.origin {
            notes.push(format!("first node at {} and {}", origin(a), origin(b)));
        }
    }
    notes
}
