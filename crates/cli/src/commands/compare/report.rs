//! Result of a comparison, as text and as JSON.

use serde_json::{Value, json};

use crate::print::print_line;

/// Result of the comparison of two files.
pub struct Comparison {
    /// Both files.
    pub title: String,
    /// Rows that were compared, such as "1000 bodies".
    pub compared: String,
    /// Differences that are not in a column, such as bodies that only one file has.
    pub notes: Vec<String>,
    /// Columns with differences.
    pub columns: Vec<ColumnDifference>,
    /// First difference of two trajectories.
    pub first: Option<FirstDifference>,
}

/// The place where two trajectories differ first.
pub struct FirstDifference {
    /// Number of the frame, from 1.
    pub frame: usize,
    /// Step of the frame in the first file, if it has it.
    pub step: Option<u64>,
    /// Identifier of the particle. `None` if the difference is not that of a particle.
    pub particle: Option<u64>,
    /// Description of the difference.
    pub what: String,
}

impl FirstDifference {
    fn text(&self) -> String {
        let step = self.step.map(|step| format!(", step {step}")).unwrap_or_default();
        let particle = self.particle.map(|id| format!(", particle {id}")).unwrap_or_default();
        format!("first difference: frame {}{step}{particle}: {}", self.frame, self.what)
    }
}

/// Differences in one column.
pub struct ColumnDifference {
    pub name: String,
    /// Number of rows whose bits differ.
    pub count: usize,
    /// Number of rows that differ by more than the tolerance.
    pub outside: usize,
    /// Largest relative difference, NaN if a value is NaN.
    pub relative: f64,
    /// Largest absolute difference, NaN if a value is NaN.
    pub absolute: f64,
    /// Label of the row with the largest relative difference, and both of its values.
    pub worst: (String, f64, f64),
    /// More about the difference of two fields or of seismograms.
    pub field: Option<FieldDetails>,
}

/// Details of the difference of two fields or of seismograms.
pub struct FieldDetails {
    /// Root mean square of the differences of all nodes or samples.
    pub rms: f64,
    /// Range of the values of both files.
    pub range: f64,
    /// Node of the largest difference. Seismograms have none.
    pub node: Option<NodePlace>,
}

/// A node of a field: its indices along the axes, and its coordinates if a file has them.
pub struct NodePlace {
    pub indices: Vec<usize>,
    pub position: Option<Vec<f64>>,
}

impl Comparison {
    /// Returns true if nothing differs by more than the tolerance.
    pub fn is_equal(&self) -> bool {
        self.notes.is_empty() && self.columns.iter().all(|column| column.outside == 0)
    }

    /// Returns true if all bits are equal.
    pub fn is_identical(&self) -> bool {
        self.notes.is_empty() && self.columns.is_empty()
    }

    pub fn print(&self) {
        let Self { title, compared, notes, columns, first } = self;
        match (self.is_identical(), self.is_equal()) {
            (true, _) => return print_line!("{title}: equal to the bit, {compared}"),
            (_, true) => print_line!("{title}: equal within the tolerance, {compared}"),
            _ => print_line!("{title}: different, {compared} compared"),
        }
        notes.iter().for_each(|note| print_line!("  {note}"));
        if let Some(first) = first {
            print_line!("  {}", first.text());
        }
        if columns.is_empty() {
            return;
        }
        let width = columns.iter().map(|column| column.name.chars().count()).fold(10, usize::max);
        print_line!(
            "  {:<width$} {:>9} {:>13} {:>13}  largest at",
            "column",
            "differing",
            "relative",
            "absolute"
        );
        for column in columns {
            let ColumnDifference { name, count, relative, absolute, worst: (label, a, b), field, .. } =
                column;
            print_line!(
                "  {name:<width$} {count:>9} {relative:>13.3e} {absolute:>13.3e}  {label}: {a:e} and {b:e}"
            );
            if let Some(FieldDetails { rms, range, .. }) = field {
                print_line!("  rms difference {rms:.3e}, range of the values {range:.3e}");
            }
        }
    }

    pub fn to_json(&self) -> Value {
        let column = |column: &ColumnDifference| {
            let (label, a, b) = &column.worst;
            let mut object = json!({
                "column": column.name, "differing": column.count, "outside_tolerance": column.outside,
                "relative": column.relative, "absolute": column.absolute, "largest_at": label,
                "values": [a, b],
            });
            if let Some(FieldDetails { rms, range, node }) = &column.field {
                object["rms"] = json!(rms);
                object["range"] = json!(range);
                if let Some(NodePlace { indices, position }) = node {
                    object["node"] = json!(indices);
                    object["position"] = json!(position);
                }
            }
            object
        };
        let mut object = json!({
            "title": self.title,
            "equal": self.is_equal(),
            "compared": self.compared,
            "notes": self.notes,
            "columns": self.columns.iter().map(column).collect::<Vec<_>>(),
        });
        if let Some(FirstDifference { frame, step, particle, what }) = &self.first {
            object["first_difference"] =
                json!({ "frame": frame, "step": step, "particle": particle, "what": what });
        }
        object
    }
}
