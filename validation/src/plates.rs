//! Whole runs of plates, from the text of a case to the numbers in their files.

use std::fs;
use std::path::{Path, PathBuf};

use orrery_device::DeviceChoice;
use orrery_device::testing::test_devices_with_f64;
use orrery_engine::case::{Case, CaseSource};
use orrery_engine::compute_device::DeviceRequest;
use orrery_engine::control::Control;
use orrery_engine::run::{Output, Replace, Summary, run};
use orrery_engine::system::Row;
use orrery_formats::{Limits, read_field_npy};
use orrery_model::analysis::max_or_nan;
use orrery_model::grid::Grid;

/// A finished run and the numbers that it wrote.
pub struct PlateRun {
    /// Summary of the run.
    pub summary: Summary,
    /// Nodes of the plate.
    pub grid: Grid,
    /// Rows of `conserved.csv`.
    pub rows: Vec<Row>,
    /// Temperatures of the first snapshot, one per node.
    pub first: Vec<f64>,
    /// Temperatures of the last snapshot, one per node.
    pub last: Vec<f64>,
}

impl PlateRun {
    /// Returns a quantity of all rows by its name in the header of `conserved.csv`.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn column(&self, name: &str) -> Vec<f64> {
        let value = |row| self.summary.schema.value(row, name);
        self.rows.iter().map(|row| value(row).unwrap_or_else(|| panic!("no column {name}"))).collect()
    }

    /// Returns the largest difference to a known solution, such as "analytic".
    ///
    /// # Panics
    /// If the run did not report it.
    pub fn difference_to(&self, solution: &str) -> f64 {
        let errors = &self.summary.solution_errors;
        errors.iter().find(|error| error.solution == solution).expect("a reported solution").max
    }

    /// Returns the final value of the error that `[limits]` bounds.
    ///
    /// # Panics
    /// If the error is not known for this plate.
    pub fn limited_error(&self) -> f64 {
        let (first, last) = &self.summary.first_and_last;
        self.summary.schema.drift.as_ref().expect("a known error").error(first, last)
    }
}

/// Returns the CPU and all devices with f64.
pub fn targets() -> Vec<DeviceChoice> {
    let label = |device: orrery_device::Device| device.label().parse().expect("a label names its device");
    [DeviceChoice::Cpu].into_iter().chain(test_devices_with_f64().into_iter().map(label)).collect()
}

/// Runs the case `text` with the settings `sets` in a temporary folder.
///
/// # Panics
/// If the case is refused or the run fails.
pub fn run_plate(text: &str, sets: &[&str], choice: DeviceChoice) -> PlateRun {
    run_source(
        &CaseSource::Text { label: "plate".into(), text: text.into(), folder: PathBuf::new() },
        sets,
        choice,
    )
}

/// Does the same as [`run_plate`] with a preset.
///
/// # Panics
/// If there is no such preset, or the run fails.
pub fn run_preset(name: &str, sets: &[&str], choice: DeviceChoice) -> PlateRun {
    run_source(&CaseSource::from_argument(name).unwrap_or_else(|error| panic!("{error}")), sets, choice)
}

fn run_source(source: &CaseSource, sets: &[&str], choice: DeviceChoice) -> PlateRun {
    // No test looks at pictures.
    let pictures = ["image.size=64", "output.plots=false"];
    let sets: Vec<String> = pictures.iter().chain(sets).map(|&set| set.to_owned()).collect();
    let case = Case::load(source, &sets).unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = Output { folder: folder.path().join("run"), replace: Replace::Nothing };
    let control = Control { device: DeviceRequest { choice, tuned: None }, ..Control::default() };
    let summary = run(&case, &output, &control, |_| {}).unwrap_or_else(|error| panic!("{error}"));
    let table = fs::read_to_string(output.folder.join("conserved.csv")).expect("a table");
    let rows: Option<Vec<Row>> = table
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        .map(|line| summary.schema.parse_row(line))
        .collect();
    let snapshots = sorted_files(&output.folder.join("snapshots"));
    let values = |path: Option<&PathBuf>| {
        let path = path.expect("a snapshot");
        read_field_npy(path, &Limits::default()).unwrap_or_else(|error| panic!("{error}")).values
    };
    PlateRun {
        grid: case.heat().expect("a case of heat").grid,
        rows: rows.expect("rows of numbers"),
        first: values(snapshots.first()),
        last: values(snapshots.last()),
        summary,
    }
}

fn sorted_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// Returns the largest difference between two fields. It is NaN if any difference is NaN.
pub fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, max_or_nan)
}

/// Returns f(x, y) at all nodes.
pub fn sampled(grid: &Grid, f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    (0..grid.len()).map(|index| grid.coordinates(index)).map(|[x, y]| f(x, y)).collect()
}
