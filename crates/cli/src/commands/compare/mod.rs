//! `compare`: differences between two snapshots, two trajectories, two fields, two seismograms or
//! two runs.
//!
//! Bodies are matched by their ids, so their order and the file format do not matter. Snapshots of
//! two runs are matched by their names without extension, the rows of tables by their position, and
//! arrays and SEG-Y files in the folder of a run by their names. The relative difference of two
//! values a and b is |a - b| / max(|a|, |b|). For fields and seismograms it is relative to the
//! range of their values.

mod fields;
mod fluids;
mod seismograms;
mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use orrery_engine::EngineError;
use orrery_engine::gravity::analysis::snapshots_in;
use orrery_io::{
    Comoving, FieldFile, FieldFormat, IoError, Limits, SegyFile, Seismogram, Snapshot, read_field, read_segy,
    read_snapshot_as,
};
use orrery_model::analysis::max_or_nan;
use orrery_model::format_count;
use serde_json::{Value, json};

use super::Ending;
use crate::args::CompareArgs;
use crate::failure::Failure;
use crate::print::print_line;

/// Tables in the folder of a run. Each run has one of the first two.
const TABLES: [&str; 5] = ["conserved.csv", "thermo.csv", "rdf.csv", "msd.csv", "diffusion.csv"];

/// Returns true if the folder has the table of a run.
fn has_table(folder: &Path) -> bool {
    TABLES[..2].iter().any(|table| folder.join(table).exists())
}

/// Compares two snapshots, two fields, two seismograms or two runs.
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
    /// More about the difference of two fields or of seismograms.
    field: Option<FieldDetails>,
}

/// Details of the difference of two fields or of seismograms.
struct FieldDetails {
    /// Root mean square of the differences of all nodes or samples.
    rms: f64,
    /// Range of the values of both files.
    range: f64,
    /// Node of the largest difference. Seismograms have none.
    node: Option<NodePlace>,
}

/// A node of a field: its indices along the axes, and its coordinates if a file has them.
struct NodePlace {
    indices: Vec<usize>,
    position: Option<Vec<f64>>,
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

/// Content of a file to compare.
enum Content {
    Bodies,
    Field(FieldFile),
    Seismograms(Vec<Seismogram>),
}

impl Content {
    fn read(path: &Path, limits: &Limits) -> Result<Self, Failure> {
        Ok(match FieldFormat::detect(path) {
            None => Self::Bodies,
            Some(FieldFormat::Segy) => match read_segy(path, limits, None).map_err(Failure::Input)? {
                SegyFile::Seismograms(shots) => Self::Seismograms(shots),
                SegyFile::Model(field) => Self::Field(field),
            },
            Some(_) => Self::Field(read_field(path, limits).map_err(Failure::Input)?),
        })
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Bodies => "is a snapshot of bodies",
            Self::Field(_) => "is a field",
            Self::Seismograms(_) => "has seismograms",
        }
    }
}

/// Compares two files of the same kind.
fn compare_files(a_path: &Path, b_path: &Path, limits: &Limits) -> Result<Comparison, Failure> {
    if fluids::is_trajectory(a_path) && fluids::is_trajectory(b_path) {
        return fluids::compare_trajectories(a_path, b_path, limits);
    }
    match (Content::read(a_path, limits)?, Content::read(b_path, limits)?) {
        (Content::Bodies, Content::Bodies) => compare_snapshots(a_path, b_path, limits),
        (Content::Field(a), Content::Field(b)) => fields::compare_fields((a_path, &a), (b_path, &b)),
        (Content::Seismograms(a), Content::Seismograms(b)) => {
            Ok(seismograms::compare_seismograms((a_path, &a), (b_path, &b)))
        }
        (a, b) => Err(Failure::Usage(format!(
            "{} {} but {} {}, expected two files of the same kind",
            a_path.display(),
            a.kind(),
            b_path.display(),
            b.kind()
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
    let (a_files, b_files) = (files_by_name(a)?, files_by_name(b)?);
    let mut parts = Vec::new();
    for (name, path) in &a_files {
        match b_files.get(name) {
            Some(other) => parts.push(match compare_files(path, other, limits) {
                // Seismograms of other lengths do not end the comparison of the other files.
                Err(Failure::Usage(reason)) if path.parent() == Some(a) => not_compared(path, reason),
                part => part?,
            }),
            None => parts.push(only_in_one(path, b)),
        }
    }
    let only_b = b_files.iter().filter(|(name, _)| !a_files.contains_key(*name));
    parts.extend(only_b.map(|(_, path)| only_in_one(path, a)));
    let trajectories = fluids::TRAJECTORIES.into_iter();
    for name in TABLES.into_iter().chain(trajectories) {
        let (a_file, b_file) = (a.join(name), b.join(name));
        match (a_file.exists(), b_file.exists()) {
            (true, true) if TABLES.contains(&name) => parts.push(tables::compare_tables(&a_file, &b_file)?),
            (true, true) => parts.push(fluids::compare_trajectories(&a_file, &b_file, limits)?),
            (true, false) => parts.push(only_in_one(&a_file, b)),
            (false, true) => parts.push(only_in_one(&b_file, a)),
            (false, false) => {}
        }
    }
    Ok(parts)
}

/// Returns the snapshots and the results of a run by their names. Snapshots have their names
/// without extension, because two runs may have them in different formats.
fn files_by_name(folder: &Path) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let results = results_in(folder)?;
    let snapshots = match snapshots_in(folder) {
        Err(EngineError::NoSnapshots(_)) if has_table(folder) => Vec::new(),
        files => files?,
    };
    let text = |name: Option<&std::ffi::OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
    // A folder without the subfolder of snapshots lists its arrays as snapshots.
    let is_new = |path: &PathBuf| !results.contains(path);
    let snapshots = snapshots.into_iter().filter(is_new).map(|path| (text(path.file_stem()), path));
    let mut files: BTreeMap<String, PathBuf> = snapshots.collect();
    files.extend(results.into_iter().map(|path| (text(path.file_name()), path)));
    Ok(files)
}

/// Lists arrays and SEG-Y files in the folder of a run, such as seismograms. The field at the
/// moment of a failure is not a result. A folder that is not of a run has no results.
fn results_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !has_table(folder) && !folder.join("snapshots").is_dir() {
        return Ok(Vec::new());
    }
    let failed = |error| Failure::Input(IoError::from_system(folder, error));
    let mut results = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let format = FieldFormat::from_path(&path).filter(|format| *format != FieldFormat::Png);
        let is_post_mortem = path.file_stem().is_some_and(|stem| stem == "post-mortem");
        if format.is_some() && !is_post_mortem && path.is_file() {
            results.push(path);
        }
    }
    Ok(results)
}

fn only_in_one(path: &Path, other: &Path) -> Comparison {
    not_compared(path, format!("{} has no such file", other.display()))
}

/// Returns the result for a file that differs without a comparison of its values.
fn not_compared(path: &Path, reason: String) -> Comparison {
    Comparison {
        title: path.display().to_string(),
        compared: "nothing".to_owned(),
        notes: vec![reason],
        columns: Vec::new(),
    }
}
