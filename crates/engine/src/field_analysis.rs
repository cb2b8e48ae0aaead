//! Analysis of files of fields: range, mean, standard deviation and heat content against time.
//!
//! A file in the folder `snapshots` of a run belongs to the plate of `case.toml` there, which has
//! the spacing, the unit and the periodic edges that the file does not record.

use std::path::{Path, PathBuf};

use orrery_io::{
    Fault, FieldFile, FieldFormat, FieldFrame, FieldLabels, Format, IoError, Limits, read_field,
};
use orrery_model::analysis::{FieldStatistics, field_integral};
use orrery_model::grid::{Edge, Grid};

use crate::case::{Case, EdgeCondition};
use crate::error::EngineError;
use crate::gravity::analysis::snapshots_in;

/// Files to analyse together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotFiles {
    /// Snapshots of bodies.
    Bodies(Vec<PathBuf>),
    /// Fields.
    Fields(Vec<PathBuf>),
}

/// Measurements of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldRow {
    /// Path of the file.
    pub path: PathBuf,
    /// Nodes along x and y.
    pub nodes: [usize; 2],
    /// Properties that the file or its run records.
    pub labels: FieldLabels,
    /// Range, mean and standard deviation.
    pub statistics: FieldStatistics,
    /// Integral over the plate. Nodes on an edge count half, unless it is known to be periodic.
    /// `None` if the spacing is unknown.
    pub heat: Option<f64>,
}

/// Lists the files of `paths`, which are files, or folders of runs or of snapshots. All of them
/// must have bodies, or all must be fields.
pub fn list_snapshots(paths: &[PathBuf]) -> Result<SnapshotFiles, EngineError> {
    let (mut bodies, mut fields) = (Vec::new(), Vec::new());
    for path in paths {
        if path.is_dir() {
            let found = snapshots_in(path)?;
            let is_field = |file: &PathBuf| FieldFormat::from_path(file).is_some();
            let (new_fields, new_bodies) = found.into_iter().partition::<Vec<_>, _>(is_field);
            bodies.extend(new_bodies);
            fields.extend(new_fields);
        } else if FieldFormat::detect(path).is_some() {
            fields.push(path.clone());
        } else {
            bodies.push(path.clone());
        }
    }
    match (bodies.first(), fields.first()) {
        (Some(bodies), Some(field)) => Err(EngineError::DifferentSnapshots(format!(
            "{} is a field, but {} has bodies; expected files of one kind",
            field.display(),
            bodies.display()
        ))),
        (None, Some(_)) => Ok(SnapshotFiles::Fields(fields)),
        _ => Ok(SnapshotFiles::Bodies(bodies)),
    }
}

/// Whether a file in the folder of a run is a snapshot. Images are not.
pub(crate) fn is_snapshot(path: &Path) -> bool {
    let is_field = matches!(FieldFormat::from_path(path), Some(FieldFormat::Npy | FieldFormat::Vti));
    is_field || Format::from_path(path).is_some()
}

/// Measures the fields in `files`. The rows are in order of time if all files have one.
///
/// Refuses values that are NaN or infinite, and fields with different units.
pub fn analyze_fields(files: &[PathBuf], limits: &Limits) -> Result<Vec<FieldRow>, EngineError> {
    let mut rows: Vec<FieldRow> = Vec::new();
    let mut run: Option<(PathBuf, Option<RunPlate>)> = None;
    for path in files {
        let field = read_field(path, limits).map_err(EngineError::Input)?;
        check_finite(path, &field)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        if run.as_ref().is_none_or(|(known, _)| known != folder) {
            run = Some((folder.to_owned(), RunPlate::find(folder)));
        }
        let plate = run.as_ref().and_then(|(_, plate)| plate.as_ref());
        let row = measure(path, field, plate);
        let other = rows.iter().find(|other| differ(&other.labels.unit, &row.labels.unit));
        if let Some(other) = other {
            return Err(EngineError::DifferentSnapshots(format!(
                "{}: the unit is {}, but {} has {}; expected files with the same unit",
                path.display(),
                row.labels.unit.unwrap_or_default(),
                other.path.display(),
                other.labels.unit.clone().unwrap_or_default()
            )));
        }
        rows.push(row);
    }
    if rows.iter().all(|row| row.labels.time.is_some()) {
        rows.sort_by(|a, b| a.labels.time.unwrap_or(0.0).total_cmp(&b.labels.time.unwrap_or(0.0)));
    }
    Ok(rows)
}

/// Returns true if both units are known and differ.
fn differ(a: &Option<String>, b: &Option<String>) -> bool {
    a.is_some() && b.is_some() && a != b
}

/// The plate of a run.
struct RunPlate {
    grid: Grid,
    unit: String,
    /// Whether the edges in x and in y are periodic.
    is_periodic: [bool; 2],
}

impl RunPlate {
    /// Returns the plate of the run that has this folder of snapshots, if it is one.
    fn find(snapshots: &Path) -> Option<Self> {
        if snapshots.file_name()? != "snapshots" {
            return None;
        }
        let text = std::fs::read_to_string(snapshots.with_file_name("case.toml")).ok()?;
        let case = Case::load_from_checkpoint(&text, "case.toml", &[]).ok()?;
        let heat = case.heat()?;
        let is_periodic = |edge| matches!(heat.edge(edge), EdgeCondition::Periodic);
        Some(Self {
            grid: heat.grid,
            unit: heat.unit.clone(),
            is_periodic: [is_periodic(Edge::West), is_periodic(Edge::South)],
        })
    }
}

fn measure(path: &Path, field: FieldFile, plate: Option<&RunPlate>) -> FieldRow {
    let FieldFile { data, mut labels, .. } = field;
    let plate = plate.filter(|plate| [plate.grid.nx, plate.grid.ny] == [data.nx, data.ny]);
    if let Some(RunPlate { grid, unit, .. }) = plate {
        let frame = FieldFrame { origin: [0.0; 2], spacing: [grid.hx, grid.hy] };
        labels.frame = labels.frame.or(Some(frame));
        labels.unit = labels.unit.or_else(|| Some(unit.clone()).filter(|unit| !unit.is_empty()));
    }
    let is_periodic = plate.map_or([false; 2], |plate| plate.is_periodic);
    FieldRow {
        path: path.to_owned(),
        nodes: [data.nx, data.ny],
        statistics: FieldStatistics::measure(&data.values),
        heat: labels.frame.map(|frame| field_integral(&data.values, data.nx, frame.spacing, is_periodic)),
        labels,
    }
}

fn check_finite(path: &Path, field: &FieldFile) -> Result<(), EngineError> {
    let Some(index) = field.data.values.iter().position(|value| !value.is_finite()) else {
        return Ok(());
    };
    let ([i, j], _) = field.node(index);
    let fault =
        Fault::malformed(format!("node ({i}, {j})"), field.data.values[index].to_string(), "a finite value");
    Err(EngineError::Input(IoError { path: path.to_owned(), fault }))
}

#[cfg(test)]
mod tests {
    use orrery_io::{FieldValues, write_field_npy, write_field_vti};
    use orrery_model::grid::Grid;

    use super::*;

    const GRID: Grid = Grid { nx: 3, ny: 3, hx: 0.5, hy: 0.25 };

    #[test]
    fn fields_are_measured_in_order_of_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, time, value) in [("a.vti", 2.0, 3.0), ("b.vti", 1.0, 5.0)] {
            write_field_vti(&path(name), &GRID, "temperature", time, FieldValues::Double(&[value; 9]))
                .unwrap();
        }
        let rows = analyze_fields(&[path("a.vti"), path("b.vti")], &Limits::unbounded()).unwrap();
        // The plate has the area 1 x 0.5.
        let found: Vec<_> = rows.iter().map(|row| (row.labels.time, row.statistics.mean, row.heat)).collect();
        assert_eq!(found, [(Some(1.0), 5.0, Some(2.5)), (Some(2.0), 3.0, Some(1.5))]);
        // Without a time, the order is that of the files.
        write_field_npy(&path("c.npy"), &GRID, FieldValues::Single(&[1.0; 9])).unwrap();
        let rows = analyze_fields(&[path("c.npy"), path("b.vti")], &Limits::unbounded()).unwrap();
        assert_eq!((rows[0].labels.time, rows[0].heat, rows[1].labels.time), (None, None, Some(1.0)));
    }

    #[test]
    fn bodies_and_fields_are_not_mixed() {
        let paths = ["a.npy", "b.hdf5"].map(PathBuf::from);
        let error = list_snapshots(&paths).unwrap_err().to_string();
        assert_eq!(error, "a.npy is a field, but b.hdf5 has bodies; expected files of one kind");
        assert_eq!(list_snapshots(&paths[..1]).unwrap(), SnapshotFiles::Fields(paths[..1].to_vec()));
        assert_eq!(list_snapshots(&paths[1..]).unwrap(), SnapshotFiles::Bodies(paths[1..].to_vec()));
    }

    #[test]
    fn nan_is_refused_with_its_node() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        let mut values = [0.0; 9];
        values[5] = f64::NAN;
        write_field_npy(&path, &GRID, FieldValues::Double(&values)).unwrap();
        let error = analyze_fields(&[path], &Limits::unbounded()).unwrap_err().to_string();
        assert!(error.ends_with("a.npy: node (2, 1): got NaN, expected a finite value"), "{error}");
    }
}
