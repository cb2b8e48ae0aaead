//! `compare`: differences between two snapshots, two fields or two runs.
//!
//! Bodies are matched by their ids, so their order and the file format do not matter. Snapshots of
//! two runs are matched by their names without extension, and the rows of `conserved.csv` by their
//! position. The relative difference of two values a and b is |a - b| / max(|a|, |b|). For fields
//! it is relative to the range of their values.

mod fields;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use orrery_engine::EngineError;
use orrery_engine::gravity::analysis::snapshots_in;
use orrery_io::{Comoving, FieldFormat, IoError, Limits, Snapshot, read_snapshot_as};
use orrery_model::analysis::max_or_nan;
use orrery_model::format_count;
use serde_json::{Value, json};

use super::Ending;
use crate::args::CompareArgs;
use crate::failure::Failure;
use crate::print::print_line;

/// Table of the conserved quantities in the folder of a run.
const TABLE: &str = "conserved.csv";

/// Compares two snapshots, two fields or two runs.
pub fn compare(arguments: &CompareArgs) -> Result<Ending, Failure> {
    let (a, b) = (arguments.first.as_path(), arguments.second.as_path());
    let limits = arguments.memory.limits();
    let json = arguments.json.prepare()?;
    let parts = match (a.is_dir(), b.is_dir()) {
        (false, false) => vec![compare_files(a, b, &limits)?],
        (true, true) => compare_runs(a, b, &limits)?,
        (is_run, _) => {
            let kind = |is_dir: bool| if is_dir { "the directory of a run" } else { "a file" };
            return Err(Failure::Usage(format!(
                "{} is {} but {} is {}, expected two files or two runs",
                a.display(),
                kind(is_run),
                b.display(),
                kind(!is_run)
            )));
        }
    };
    parts.iter().for_each(Comparison::print);
    let is_equal = parts.iter().all(Comparison::is_equal);
    if parts.len() > 1 {
        let different = parts.iter().filter(|part| !part.is_equal()).count();
        match is_equal {
            true => print_line!("the runs are equal to the bit"),
            false => print_line!("the runs differ in {different} of {} files", parts.len()),
        }
    }
    json.write(|| {
        let parts: Vec<Value> = parts.iter().map(Comparison::to_json).collect();
        json!({ "equal": is_equal, "files": parts })
    })?;
    Ok(if is_equal { Ending::Done } else { Ending::Different })
}

/// Result of the comparison of two files.
struct Comparison {
    /// Both files.
    title: String,
    /// Rows that were compared, such as "1000 bodies".
    compared: String,
    /// Differences that are not in a column, such as bodies that only one file has.
    notes: Vec<String>,
    /// Columns with differences.
    columns: Vec<ColumnDifference>,
}

/// Differences in one column.
struct ColumnDifference {
    name: String,
    /// Number of rows whose bits differ.
    count: usize,
    /// Largest relative difference, NaN if a value is NaN.
    relative: f64,
    /// Largest absolute difference, NaN if a value is NaN.
    absolute: f64,
    /// Label of the row with the largest relative difference, and both of its values.
    worst: (String, f64, f64),
    /// More about the difference of two fields.
    field: Option<FieldDetails>,
}

/// Details of the difference of two fields.
struct FieldDetails {
    /// Root mean square of the differences of all nodes.
    rms: f64,
    /// Range of the values of both fields.
    range: f64,
    /// Column and row of the largest difference, and its coordinates if a file has them.
    node: [usize; 2],
    position: Option<[f64; 2]>,
}

impl Comparison {
    fn is_equal(&self) -> bool {
        self.notes.is_empty() && self.columns.is_empty()
    }

    fn print(&self) {
        if self.is_equal() {
            return print_line!("{}: equal to the bit, {}", self.title, self.compared);
        }
        print_line!("{}: different, {} compared", self.title, self.compared);
        self.notes.iter().for_each(|note| print_line!("  {note}"));
        if self.columns.is_empty() {
            return;
        }
        let width = self.columns.iter().map(|column| column.name.chars().count()).fold(10, usize::max);
        print_line!(
            "  {:<width$} {:>9} {:>13} {:>13}  largest at",
            "column",
            "differing",
            "relative",
            "absolute"
        );
        for column in &self.columns {
            let ColumnDifference { name, count, relative, absolute, worst: (label, a, b), field } = column;
            print_line!(
                "  {name:<width$} {count:>9} {relative:>13.3e} {absolute:>13.3e}  {label}: {a:e} and {b:e}"
            );
            if let Some(FieldDetails { rms, range, .. }) = field {
                print_line!("  rms difference {rms:.3e}, range of the values {range:.3e}");
            }
        }
    }

    fn to_json(&self) -> Value {
        let column = |column: &ColumnDifference| {
            let (label, a, b) = &column.worst;
            let mut object = json!({
                "column": column.name, "differing": column.count, "relative": column.relative,
                "absolute": column.absolute, "largest_at": label, "values": [a, b],
            });
            if let Some(FieldDetails { rms, range, node, position }) = &column.field {
                object["rms"] = json!(rms);
                object["range"] = json!(range);
                object["node"] = json!(node);
                object["position"] = json!(position);
            }
            object
        };
        json!({
            "title": self.title,
            "equal": self.is_equal(),
            "compared": self.compared,
            "notes": self.notes,
            "columns": self.columns.iter().map(column).collect::<Vec<_>>(),
        })
    }
}

/// Compares a column of `pairs` of values. Returns `None` if all bits are equal. `label` names a
/// row.
fn compare_column(
    name: &str,
    pairs: impl Iterator<Item = (f64, f64)>,
    label: impl Fn(usize) -> String,
) -> Option<ColumnDifference> {
    let mut count = 0;
    let (mut relative, mut absolute) = (0.0_f64, 0.0_f64);
    let mut worst = None;
    for (row, (a, b)) in pairs.enumerate().filter(|(_, (a, b))| a.to_bits() != b.to_bits()) {
        count += 1;
        let difference = (a - b).abs();
        // 0 and -0 have different bits and no difference.
        let ratio = if difference == 0.0 { 0.0 } else { difference / a.abs().max(b.abs()) };
        absolute = max_or_nan(absolute, difference);
        let largest = max_or_nan(relative, ratio);
        if worst.is_none() || (ratio.is_nan() && !relative.is_nan()) || ratio > relative {
            worst = Some((row, a, b));
        }
        relative = largest;
    }
    worst.map(|(row, a, b)| {
        let (name, worst) = (name.to_owned(), (label(row), a, b));
        ColumnDifference { name, count, relative, absolute, worst, field: None }
    })
}

/// Compares two snapshots, or two fields.
fn compare_files(a: &Path, b: &Path, limits: &Limits) -> Result<Comparison, Failure> {
    let kind = |path| if FieldFormat::detect(path).is_some() { "a field" } else { "a snapshot of bodies" };
    match (FieldFormat::detect(a).is_some(), FieldFormat::detect(b).is_some()) {
        (true, true) => fields::compare_fields(a, b, limits),
        (false, false) => compare_snapshots(a, b, limits),
        _ => Err(Failure::Usage(format!(
            "{} is {} but {} is {}, expected two files of the same kind",
            a.display(),
            kind(a),
            b.display(),
            kind(b)
        ))),
    }
}

fn compare_snapshots(a_path: &Path, b_path: &Path, limits: &Limits) -> Result<Comparison, Failure> {
    // The numbers of the files are compared, so cosmological files need no conversion.
    let read = |path| read_snapshot_as(path, limits, Comoving::Unchanged).map_err(Failure::Input);
    let (a, b) = (read(a_path)?, read(b_path)?);
    if !a.units.is_same_as(&b.units) {
        return Err(Failure::Usage(format!(
            "{}: the units are {}, but {} has {}; expected files with the same units",
            b_path.display(),
            b.units.describe(),
            a_path.display(),
            a.units.describe()
        )));
    }
    let (a_index, b_index) = (index_by_id(&a, a_path)?, index_by_id(&b, b_path)?);
    let missing = |from: &BTreeMap<u64, usize>, other: &BTreeMap<u64, usize>, path: &Path| {
        let ids: Vec<u64> = from.keys().filter(|id| !other.contains_key(id)).copied().collect();
        let first = *ids.first()?;
        Some(match ids.len() {
            1 => format!("only {} has 1 body, id {first}", path.display()),
            n => format!("only {} has {n} bodies, the first with id {first}", path.display()),
        })
    };
    let mut notes: Vec<String> = [missing(&a_index, &b_index, a_path), missing(&b_index, &a_index, b_path)]
        .into_iter()
        .flatten()
        .collect();
    if a.time.to_bits() != b.time.to_bits() {
        notes.push(format!("time {} and {}", a.time, b.time));
    }
    if a.step != b.step {
        notes.push(format!("step {} and {}", a.step, b.step));
    }
    let matched: Vec<(u64, usize, usize)> =
        a_index.iter().filter_map(|(id, &i)| Some((*id, i, *b_index.get(id)?))).collect();
    let (p, q) = (&a.particles, &b.particles);
    let species = matched.iter().filter(|(_, i, j)| p.species[*i] != q.species[*j]).count();
    if species > 0 {
        let bodies = format_count(species as u64, "body has", "bodies have");
        notes.push(format!("{bodies} another species"));
    }
    let columns = [
        ("mass", &p.mass, &q.mass),
        ("x", &p.position.x, &q.position.x),
        ("y", &p.position.y, &q.position.y),
        ("z", &p.position.z, &q.position.z),
        ("vx", &p.velocity.x, &q.velocity.x),
        ("vy", &p.velocity.y, &q.velocity.y),
        ("vz", &p.velocity.z, &q.velocity.z),
    ];
    let columns = columns.into_iter().filter_map(|(name, a, b)| {
        let pairs = matched.iter().map(|&(_, i, j)| (a[i], b[j]));
        compare_column(name, pairs, |row| format!("body {}", matched[row].0))
    });
    Ok(Comparison {
        title: format!("{} and {}", a_path.display(), b_path.display()),
        compared: format_count(matched.len() as u64, "body", "bodies"),
        notes,
        columns: columns.collect(),
    })
}

/// Maps the ids to the indices of the bodies. Refuses ids that occur twice.
fn index_by_id(snapshot: &Snapshot, path: &Path) -> Result<BTreeMap<u64, usize>, Failure> {
    let mut index = BTreeMap::new();
    for (i, &id) in snapshot.particles.id.iter().enumerate() {
        if let Some(earlier) = index.insert(id, i) {
            return Err(Failure::Usage(format!(
                "{}: bodies number {earlier} and {i} share the id {id}, expected unique ids",
                path.display()
            )));
        }
    }
    Ok(index)
}

fn compare_runs(a: &Path, b: &Path, limits: &Limits) -> Result<Vec<Comparison>, Failure> {
    let (a_files, b_files) = (snapshots_by_name(a)?, snapshots_by_name(b)?);
    let mut parts = Vec::new();
    for (name, path) in &a_files {
        match b_files.get(name) {
            Some(other) => parts.push(compare_files(path, other, limits)?),
            None => parts.push(only_in_one(path, b)),
        }
    }
    let only_b = b_files.iter().filter(|(name, _)| !a_files.contains_key(*name));
    parts.extend(only_b.map(|(_, path)| only_in_one(path, a)));
    let (a_table, b_table) = (a.join(TABLE), b.join(TABLE));
    match (a_table.exists(), b_table.exists()) {
        (true, true) => parts.push(compare_tables(&a_table, &b_table)?),
        (true, false) => parts.push(only_in_one(&a_table, b)),
        (false, true) => parts.push(only_in_one(&b_table, a)),
        (false, false) => {}
    }
    Ok(parts)
}

/// Returns the snapshots of a run by their names without extension. A run may have none, but then
/// it must have a table of conserved quantities.
fn snapshots_by_name(folder: &Path) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let files = match snapshots_in(folder) {
        Err(EngineError::NoSnapshots(_)) if folder.join(TABLE).exists() => Vec::new(),
        files => files?,
    };
    let name = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(files.into_iter().map(|path| (name(&path), path)).collect())
}

fn only_in_one(path: &Path, other: &Path) -> Comparison {
    Comparison {
        title: path.display().to_string(),
        compared: "nothing".to_owned(),
        notes: vec![format!("{} has no such file", other.display())],
        columns: Vec::new(),
    }
}

/// Numbers of a table, whose first line has the names of its columns.
struct Table {
    names: Vec<String>,
    rows: Vec<Vec<f64>>,
}

fn compare_tables(a_path: &Path, b_path: &Path) -> Result<Comparison, Failure> {
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
