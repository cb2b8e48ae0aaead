//! Differences between two fields.

use std::path::Path;

use orrery_formats::FieldFile;
use orrery_model::analysis::FieldDifference;
use orrery_model::{format_count, short_number};

use super::super::fields::AXES;
use super::{ColumnDifference, Comparison, FieldDetails, NodePlace, Rules, Tolerance};
use crate::failure::Failure;

/// Compares two fields with the same nodes.
pub fn compare_fields(
    (a_path, a): (&Path, &FieldFile),
    (b_path, b): (&Path, &FieldFile),
    rules: &Rules,
) -> Result<Comparison, Failure> {
    let differing = |found: String, other: String, expected: &str| {
        Err(Failure::Usage(format!(
            "{}: {found}, but {} has {other}; expected fields with the same {expected}",
            b_path.display(),
            a_path.display()
        )))
    };
    if a.data.nodes != b.data.nodes {
        return differing(format!("{} nodes", b.nodes_text()), a.nodes_text(), "nodes");
    }
    if let (Some(found), Some(other)) = (&b.labels.unit, &a.labels.unit)
        && found != other
    {
        return differing(format!("the unit is {found}"), other.clone(), "unit");
    }
    let difference = FieldDifference::measure(&a.data.values, &b.data.values);
    let outside = |difference: &FieldDifference| {
        outside_count(&a.data.values, &b.data.values, difference.range, rules.tolerance)
    };
    let columns = difference.map(|difference| describe(a, b, &difference, outside(&difference)));
    Ok(Comparison {
        title: format!("{} and {}", a_path.display(), b_path.display()),
        compared: format_count(a.data.values.len() as u64, "node", "nodes"),
        notes: label_notes(a, b, rules.tolerance),
        columns: columns.into_iter().collect(),
        first: None,
    })
}

/// Returns the number of values whose difference exceeds the tolerance, relative to `range`.
pub fn outside_count(a: &[f64], b: &[f64], range: f64, tolerance: Tolerance) -> usize {
    let is_outside = |(a, b): &(&f64, &f64)| {
        let is_accepted = tolerance != Tolerance::default() && tolerance.accepts((*a - *b).abs(), range);
        a.to_bits() != b.to_bits() && !is_accepted
    };
    a.iter().zip(b).filter(is_outside).count()
}

/// Describes the difference of the values as a column.
fn describe(a: &FieldFile, b: &FieldFile, difference: &FieldDifference, outside: usize) -> ColumnDifference {
    let FieldDifference { count, largest, index, rms, .. } = *difference;
    let axes = a.axis_count();
    let (node, position) = a.node(index);
    let position = position.or_else(|| b.node(index).1).map(|position| position[..axes].to_vec());
    let coordinate = |(axis, x): (&str, &f64)| format!("{axis} = {}", short_number(*x));
    let coordinates =
        position.iter().map(|position| AXES.into_iter().zip(position).map(coordinate).collect::<Vec<_>>());
    let at = coordinates.map(|coordinates| format!(" at {}", coordinates.join(", "))).collect::<String>();
    let label = format!("{}{at}", a.node_text(index));
    let name = a.labels.name.as_ref().or(b.labels.name.as_ref());
    ColumnDifference {
        name: name.cloned().unwrap_or_else(|| "value".to_owned()),
        count,
        outside,
        relative: difference.relative(),
        absolute: largest,
        worst: (label, a.data.values[index], b.data.values[index]),
        field: Some(FieldDetails {
            rms,
            range: difference.range,
            node: Some(NodePlace { indices: node[..axes].to_vec(), position }),
        }),
    }
}

/// Returns the differences of time and spacing, where both files record them.
fn label_notes(a: &FieldFile, b: &FieldFile, tolerance: Tolerance) -> Vec<String> {
    let mut notes = Vec::new();
    if let (Some(a), Some(b)) = (a.labels.time, b.labels.time)
        && !tolerance.accepts_values(a, b)
    {
        notes.push(format!("time {a} and {b}"));
    }
    if let (Some(frame), Some(other)) = (a.labels.frame, b.labels.frame) {
        let axes = a.axis_count();
        let join = |numbers: &[f64], separator: &str| {
            numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(separator)
        };
        let (h, other_h) = (&frame.spacing[..axes], &other.spacing[..axes]);
        let is_same = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| tolerance.accepts_values(*a, *b));
        if !is_same(h, other_h) {
            notes.push(format!("spacing {} and {}", join(h, " x "), join(other_h, " x ")));
        }
        let (origin, other_origin) = (&frame.origin[..axes], &other.origin[..axes]);
        if !is_same(origin, other_origin) {
            notes.push(format!("first node at ({}) and ({})", join(origin, ", "), join(other_origin, ", ")));
        }
    }
    notes
}
