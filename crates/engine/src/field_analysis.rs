//! Analysis of files of fields: range, mean, largest value and heat content against time.
//!
//! A file in the folder `snapshots` of a run belongs to the case of `case.toml` there, which has
//! the spacing, the unit and the periodic edges that the file does not record. Fields of another
//! physics than heat have no heat content.

use std::path::{Path, PathBuf};

use orrery_fields::heat::HeatCapacity;
use orrery_formats::{
    Fault, FieldFile, FieldFormat, FieldFrame, FieldLabels, Format, IoError, Limits, read_field,
    read_small_text,
};
use orrery_model::Units;
use orrery_model::analysis::{FieldStatistics, field_integral};
use orrery_model::grid::{Edge, Grid};

use crate::case::{Case, EdgeCondition, HeatCase, WaveCase};
use crate::error::EngineError;
use crate::folder::{MAX_TEXT_BYTES, contains_run};
use crate::gravity::analysis::snapshots_in;
use crate::heat;

/// Files to analyse together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotFiles {
    /// Snapshots of bodies.
    Bodies(Vec<PathBuf>),
    /// Fields.
    Fields(Vec<PathBuf>),
    /// SEG-Y files, with seismograms or models.
    Segy(Vec<PathBuf>),
}

/// Name and units of the run that wrote a file.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLabels {
    /// Name of the run.
    pub name: String,
    /// Units of its times and lengths.
    pub units: Units,
}

impl RunLabels {
    /// Returns the labels of the run in `folder`. `None` if there is no run, or if its case cannot
    /// be read.
    pub fn find(folder: &Path) -> Option<Self> {
        let case = contains_run(folder).then(|| read_case(folder))??;
        Some(Self { name: case.name, units: case.units })
    }
}

/// Reads `case.toml` in the folder of a run.
fn read_case(folder: &Path) -> Option<Case> {
    let text = read_small_text(&folder.join("case.toml"), MAX_TEXT_BYTES).ok()?;
    Case::load_from_checkpoint(&text, "case.toml", &[]).ok()
}

/// Measurements of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldRow {
    /// Path of the file.
    pub path: PathBuf,
    /// The run of the file, if it is known.
    pub run: Option<RunLabels>,
    /// Nodes along x and y, and along z for a volume.
    pub nodes: Vec<usize>,
    /// Properties that the file or its run records.
    pub labels: FieldLabels<3>,
    /// Range, mean and standard deviation.
    pub statistics: FieldStatistics,
    /// Node with the value of the largest size, the first one of several: its indices along each
    /// axis of `nodes`, and its coordinates if they are known.
    pub largest_node: Vec<usize>,
    /// Coordinates of `largest_node`, if they are known.
    pub largest_position: Option<Vec<f64>>,
    /// Integral of temperature × heat capacity over the plate. Nodes on an edge count half, unless
    /// it is known to be periodic. `None` for a volume, for a model, in a run of another physics
    /// than heat, and if the spacing or the heat capacity is unknown.
    pub heat: Option<f64>,
    /// Whether `heat` has the unit of an energy, and not that of a temperature times an area.
    pub has_heat_capacity: bool,
    /// Whether the field would have a heat content if its spacing were known.
    pub may_have_heat: bool,
    /// Whether the file may have a time. Models have none.
    pub is_snapshot: bool,
}

/// Lists the files of `paths`, which are files, or folders of runs or of snapshots. All of them
/// must have bodies, or all must be fields, or all SEG-Y.
pub fn list_snapshots(paths: &[PathBuf]) -> Result<SnapshotFiles, EngineError> {
    let (mut bodies, mut fields, mut segy) = (Vec::new(), Vec::new(), Vec::new());
    let mut add = |path: PathBuf, format: Option<FieldFormat>| match format {
        None => bodies.push(path),
        Some(FieldFormat::Segy) => segy.push(path),
        Some(_) => fields.push(path),
    };
    for path in paths {
        if path.is_dir() {
            for file in snapshots_in(path)? {
                let format = FieldFormat::from_path(&file);
                add(file, format);
            }
        } else {
            add(path.clone(), FieldFormat::detect(path));
        }
    }
    let kinds = [(&fields, "is a field"), (&bodies, "has bodies"), (&segy, "is SEG-Y")];
    let mut found = kinds.iter().filter_map(|(files, kind)| Some((files.first()?, kind)));
    if let (Some((first, is_first)), Some((second, is_second))) = (found.next(), found.next()) {
        return Err(EngineError::DifferentSnapshots(format!(
            "{} {is_first}, but {} {is_second}; expected files of one kind",
            first.display(),
            second.display()
        )));
    }
    Ok(match (fields.is_empty(), segy.is_empty()) {
        (false, _) => SnapshotFiles::Fields(fields),
        (_, false) => SnapshotFiles::Segy(segy),
        _ => SnapshotFiles::Bodies(bodies),
    })
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
    let mut run: Option<(PathBuf, RunOfFolder)> = None;
    for path in files {
        let field = read_field(path, limits).map_err(EngineError::Input)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        if run.as_ref().is_none_or(|(known, _)| known != folder) {
            run = Some((folder.to_owned(), RunOfFolder::find(folder, limits)));
        }
        let row = match &run {
            Some((_, run)) => measure(path, field, run)?,
            None => measure(path, field, &RunOfFolder { labels: None, fields: RunFields::Unknown })?,
        };
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

/// Measures a model.
///
/// Refuses values that are NaN or infinite.
pub fn analyze_model(path: &Path, model: FieldFile) -> Result<FieldRow, EngineError> {
    measure(path, model, &RunOfFolder { labels: None, fields: RunFields::Other })
}

/// Adds the spacing and the unit that the run of a file has in its case. The file must be a
/// snapshot in the folder of the run, with the nodes of its case.
pub fn add_labels_of_run(path: &Path, field: &mut FieldFile, limits: &Limits) {
    let run = RunOfFolder::find(path.parent().unwrap_or(Path::new("")), limits);
    if let Some(grid) = run.fields.grid(field.data.nodes) {
        grid.add_to(&mut field.labels);
    }
}

/// Returns true if both units are known and differ.
fn differ(a: &Option<String>, b: &Option<String>) -> bool {
    a.is_some() && b.is_some() && a != b
}

/// The run of a folder of snapshots.
struct RunOfFolder {
    labels: Option<RunLabels>,
    fields: RunFields,
}

impl RunOfFolder {
    /// Returns the run that has this folder of snapshots.
    fn find(snapshots: &Path, limits: &Limits) -> Self {
        let is_folder_of_run = snapshots.file_name().is_some_and(|name| name == "snapshots");
        let case = snapshots.parent().filter(|_| is_folder_of_run).and_then(read_case);
        let labels = case.as_ref().map(|case| RunLabels { name: case.name.clone(), units: case.units });
        Self { labels, fields: RunFields::of_case(case.as_ref(), limits) }
    }
}

/// The fields of a run.
enum RunFields {
    /// No run, or a case that cannot be read.
    Unknown,
    /// A run of heat. The array has whether the edges in x and in y are periodic. The heat capacity
    /// is `None` if its file cannot be read.
    Heat(RunGrid, [bool; 2], Option<HeatCapacity>),
    /// A run of waves.
    Wave(RunGrid),
    /// Another physics, or a model.
    Other,
}

/// Nodes of the snapshots of a run.
struct RunGrid {
    nodes: [usize; 3],
    frame: FieldFrame<3>,
    unit: String,
}

impl RunFields {
    fn of_case(case: Option<&Case>, limits: &Limits) -> Self {
        match case.map(|case| (case.heat(), case.wave())) {
            None => Self::Unknown,
            Some((Some(heat), _)) => {
                let capacity = case.and_then(|case| heat::read_heat_capacity(case, heat, limits).ok());
                let is_periodic = |edge| matches!(heat.edge(edge), EdgeCondition::Periodic);
                let is_periodic = [is_periodic(Edge::West), is_periodic(Edge::South)];
                Self::Heat(RunGrid::of_heat(heat), is_periodic, capacity)
            }
            Some((_, Some(wave))) => RunGrid::of_wave(wave).map_or(Self::Other, Self::Wave),
            Some(_) => Self::Other,
        }
    }

    /// Returns the grid of the snapshots, if it has these nodes.
    fn grid(&self, nodes: [usize; 3]) -> Option<&RunGrid> {
        match self {
            Self::Heat(grid, ..) | Self::Wave(grid) => Some(grid).filter(|grid| grid.nodes == nodes),
            Self::Unknown | Self::Other => None,
        }
    }
}

impl RunGrid {
    /// Adds the frame and the unit to labels that have none.
    fn add_to(&self, labels: &mut FieldLabels<3>) {
        labels.frame = labels.frame.or(Some(self.frame));
        labels.unit = labels.unit.take().or_else(|| Some(self.unit.clone()).filter(|unit| !unit.is_empty()));
    }

    fn of_heat(heat: &HeatCase) -> Self {
        let Grid { nx, ny, hx, hy } = heat.grid;
        let frame = FieldFrame { origin: [0.0; 3], spacing: [hx, hy, 1.0] };
        Self { nodes: [nx, ny, 1], frame, unit: heat.unit.clone() }
    }

    /// Returns the part of the grid that snapshots have, `None` if it is empty.
    fn of_wave(wave: &WaveCase) -> Option<Self> {
        let windows = wave.snapshot.nodes(&wave.grid).ok()?;
        let spacing = wave.grid.spacing;
        let frame = FieldFrame {
            origin: [0, 1, 2].map(|axis| windows[axis].start as f64 * spacing[axis]),
            spacing: [0, 1, 2].map(|axis| windows[axis].stride as f64 * spacing[axis]),
        };
        Some(Self { nodes: windows.map(|window| window.len()), frame, unit: wave.unit.clone() })
    }
}

fn measure(path: &Path, mut field: FieldFile, run: &RunOfFolder) -> Result<FieldRow, EngineError> {
    let RunOfFolder { labels: run_labels, fields: run } = run;
    check_finite(path, &field)?;
    let axes = field.axis_count();
    let grid = run.grid(field.data.nodes);
    let labels = &mut field.labels;
    if let Some(grid) = grid {
        grid.add_to(labels);
    }
    let may_have_heat = axes == 2 && matches!(run, RunFields::Unknown | RunFields::Heat(..));
    let uniform = Some(HeatCapacity::Uniform(1.0));
    let (is_periodic, capacity) = match run {
        RunFields::Heat(_, is_periodic, capacity) if grid.is_some() => (*is_periodic, capacity),
        _ => ([false; 2], &uniform),
    };
    let frame = labels.frame.filter(|_| may_have_heat);
    let heat = frame.zip(capacity.as_ref()).map(|(FieldFrame { spacing: [hx, hy, _], .. }, capacity)| {
        let (values, nx) = (&field.data.values, field.data.nodes[0]);
        match capacity {
            HeatCapacity::Uniform(c) => c * field_integral(values, nx, [hx, hy], is_periodic),
            HeatCapacity::Field(c) => {
                let heat: Vec<f64> = c.iter().zip(values).map(|(c, u)| c * u).collect();
                field_integral(&heat, nx, [hx, hy], is_periodic)
            }
        }
    });
    let statistics = FieldStatistics::measure(&field.data.values);
    let largest = statistics.largest().abs();
    let index = field.data.values.iter().position(|value| value.abs() == largest).unwrap_or(0);
    let (node, position) = field.node(index);
    Ok(FieldRow {
        path: path.to_owned(),
        run: run_labels.clone(),
        nodes: field.data.nodes[..axes].to_vec(),
        statistics,
        largest_node: node[..axes].to_vec(),
        largest_position: position.map(|position| position[..axes].to_vec()),
        heat,
        has_heat_capacity: *capacity != uniform,
        may_have_heat,
        is_snapshot: field.format != FieldFormat::Segy,
        labels: field.labels,
    })
}

fn check_finite(path: &Path, field: &FieldFile) -> Result<(), EngineError> {
    let Some(index) = field.data.values.iter().position(|value| !value.is_finite()) else {
        return Ok(());
    };
    let fault =
        Fault::malformed(field.node_text(index), field.data.values[index].to_string(), "a finite value");
    Err(EngineError::Input(IoError { path: path.to_owned(), fault }))
}

#[cfg(test)]
mod tests {
    use orrery_formats::{FieldValues, write_field_npy, write_field_vti, write_volume_npy};
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

    /// Three columns of 0.5 x 0.5 with half weight on the edges: those of the region have 4.
    #[test]
    fn the_heat_of_a_run_has_its_heat_capacity() {
        let folder = tempfile::tempdir().unwrap();
        let snapshots = folder.path().join("snapshots");
        std::fs::create_dir(&snapshots).unwrap();
        let case = "grid = { nx = 3, ny = 3, hx = 0.5, hy = 0.25 }\ninitial.state = \"uniform\"\n\
                    time = { step = 0.001, end = 1 }\nheat.heat_capacity = 2\nheat.region = [{ shape = \
                    \"rectangle\", x = 0, y = 0, width = 0.1, height = 1, heat_capacity = 4 }]\n";
        std::fs::write(folder.path().join("case.toml"), case).unwrap();
        let path = snapshots.join("snapshot.npy");
        write_field_npy(&path, &GRID, FieldValues::Single(&[3.0; 9])).unwrap();
        let row = analyze_fields(&[path], &Limits::unbounded()).unwrap().remove(0);
        assert_eq!((row.heat, row.has_heat_capacity), (Some(3.0 * 0.5 * 0.5 * (2.0 + 2.0 + 1.0)), true));
    }

    #[test]
    fn bodies_and_fields_are_not_mixed() {
        let paths = ["a.npy", "b.hdf5"].map(PathBuf::from);
        let error = list_snapshots(&paths).unwrap_err().to_string();
        assert_eq!(error, "a.npy is a field, but b.hdf5 has bodies; expected files of one kind");
        assert_eq!(list_snapshots(&paths[..1]).unwrap(), SnapshotFiles::Fields(paths[..1].to_vec()));
        assert_eq!(list_snapshots(&paths[1..]).unwrap(), SnapshotFiles::Bodies(paths[1..].to_vec()));
        let paths = ["b.hdf5", "line.sgy"].map(PathBuf::from);
        let error = list_snapshots(&paths).unwrap_err().to_string();
        assert_eq!(error, "b.hdf5 has bodies, but line.sgy is SEG-Y; expected files of one kind");
        assert_eq!(list_snapshots(&paths[1..]).unwrap(), SnapshotFiles::Segy(paths[1..].to_vec()));
    }

    /// The largest size is that of a negative value.
    #[test]
    fn largest_value_of_a_volume_has_its_node() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volume.npy");
        let values: Vec<f64> = (0..24).map(|k| if k == 17 { -30.0 } else { f64::from(k) }).collect();
        write_volume_npy(&path, [4, 3, 2], FieldValues::Double(&values)).unwrap();
        let row = analyze_fields(&[path], &Limits::unbounded()).unwrap().remove(0);
        assert_eq!((row.nodes, row.statistics.largest()), (vec![4, 3, 2], -30.0));
        assert_eq!((row.largest_node, row.largest_position, row.heat), (vec![1, 1, 1], None, None));
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
