//! Whole runs of Lennard-Jones fluids, from the text of a case to the numbers in their files, and
//! means of correlated values.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use orrery_device::DeviceChoice;
use orrery_engine::case::{Case, CaseSource, Every};
use orrery_engine::compute_device::DeviceRequest;
use orrery_engine::control::Control;
use orrery_engine::run::{Output, Replace, Run, Summary};
use orrery_engine::system::{Row, System};
use orrery_engine::{Moment, Trigger};
use orrery_model::fluid::FluidParticles;
use tempfile::TempDir;

/// A finished run and its files.
pub struct FluidRun {
    /// Summary of the run.
    pub summary: Summary,
    /// Rows of `thermo.csv`.
    pub rows: Vec<Row>,
    /// Particles at the start.
    pub first: FluidParticles,
    /// Particles at the end.
    pub last: FluidParticles,
    folder: TempDir,
}

impl FluidRun {
    /// Returns the number of particles.
    pub fn particles(&self) -> f64 {
        self.first.len() as f64
    }

    /// Returns a quantity of the rows from `time` on, by its name in the header of `thermo.csv`.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn column_from(&self, time: f64, name: &str) -> Vec<f64> {
        let value = |row: &Row| self.summary.schema.value(row, name);
        let rows = self.rows.iter().filter(|row| row.time >= time);
        rows.map(|row| value(row).unwrap_or_else(|| panic!("no column {name}"))).collect()
    }

    /// Returns a quantity of all rows, see [`FluidRun::column_from`].
    ///
    /// # Panics
    /// If there is no such column.
    pub fn column(&self, name: &str) -> Vec<f64> {
        self.column_from(0.0, name)
    }

    /// Returns the content of a file of the run.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.path().join("run").join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Returns the rows of numbers below the header of a CSV file, such as `rdf.csv`.
    ///
    /// # Panics
    /// If there is no such file, or it contains something else.
    pub fn table(&self, name: &str) -> Vec<Vec<f64>> {
        let text = String::from_utf8(self.file(name)).expect("a text");
        let number = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{name}: {cell} is not a number"));
        text.lines().skip(1).map(|line| line.split(',').map(number).collect()).collect()
    }
}

/// Runs the case `text` with the settings `sets` in a temporary folder.
///
/// # Panics
/// If the case is refused or the run fails.
pub fn run_fluid(text: &str, sets: &[&str], choice: DeviceChoice) -> FluidRun {
    run_source(
        &CaseSource::Text { label: "fluid".into(), text: text.into(), folder: PathBuf::new() },
        sets,
        choice,
    )
}

/// Does the same as [`run_fluid`] with a preset, without its images.
///
/// # Panics
/// If there is no such preset, or the run fails.
pub fn run_preset(name: &str, sets: &[&str], choice: DeviceChoice) -> FluidRun {
    let source = CaseSource::from_argument(name).unwrap_or_else(|error| panic!("{error}"));
    run_source(&source, &[&["output.image_every=0"], sets].concat(), choice)
}

fn run_source(source: &CaseSource, sets: &[&str], choice: DeviceChoice) -> FluidRun {
    let pictures = ["image.size=64", "output.plots=false"];
    let sets: Vec<String> = pictures.iter().chain(sets).map(|&set| set.to_owned()).collect();
    let case = Case::load(source, &sets).unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = Output { folder: folder.path().join("run"), replace: Replace::Nothing };
    let control = Control { device: DeviceRequest { choice, tuned: None }, ..Control::default() };
    let ends = Mutex::new(Vec::new());
    let keep_particles = |moment: &Moment<'_>| {
        let System::Fluid(system) = moment.system else { panic!("a case of a fluid") };
        ends.lock().unwrap().push(system.particles().map_err(|error| error.at(moment.stamp()))?);
        Ok(())
    };
    // Parallel loops are faster on a thread of the pool.
    let summary = rayon::scope(|_| {
        let mut run = Run::start(&case, &output, &control, |_| {})?;
        run.observe(Trigger::new(Every::Never), Box::new(keep_particles));
        run.finish()
    });
    let summary = summary.unwrap_or_else(|error| panic!("{error}"));
    let table = fs::read_to_string(output.folder.join("thermo.csv")).expect("a table");
    let rows: Option<Vec<Row>> = table.lines().skip(1).map(|line| summary.schema.parse_row(line)).collect();
    let mut ends = ends.into_inner().unwrap().into_iter();
    let (first, last) = (ends.next().expect("the start"), ends.next_back().expect("the end"));
    FluidRun { summary, rows: rows.expect("rows of numbers"), first, last, folder }
}

/// Mean of correlated values with its standard error.
#[derive(Clone, Copy, Debug)]
pub struct Mean {
    /// Mean.
    pub value: f64,
    /// Standard error.
    pub error: f64,
}

/// Blocks of a mean. Its error has a relative error of 1/√(2 (blocks − 1)), which is 18%.
const BLOCKS: usize = 16;

impl Mean {
    /// Returns the mean of a time series of at least 16 values, and its error from the means of 16
    /// blocks. The blocks must be longer than the correlations. A rest of less than 16 values at
    /// the start is not used.
    ///
    /// # Panics
    /// If there are fewer values.
    pub fn of_series(values: &[f64]) -> Self {
        let length = values.len() / BLOCKS;
        assert!(length > 0, "{} values are too few", values.len());
        let used = &values[values.len() - BLOCKS * length..];
        let means: Vec<f64> =
            used.chunks(length).map(|block| block.iter().sum::<f64>() / length as f64).collect();
        Self::of_independent(&means)
    }

    /// Returns the mean of at least two independent values.
    pub fn of_independent(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let value = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|x| (x - value).powi(2)).sum::<f64>() / (n - 1.0);
        Self { value, error: (variance / n).sqrt() }
    }

    /// Returns the variance of a time series, with the error of [`Mean::of_series`].
    ///
    /// # Panics
    /// If there are less than 16 values.
    pub fn variance_of_series(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: Vec<f64> = values.iter().map(|x| (x - mean).powi(2) * n / (n - 1.0)).collect();
        Self::of_series(&squares)
    }

    /// Returns the mean plus a known correction.
    pub fn plus(self, correction: f64) -> Self {
        Self { value: self.value + correction, ..self }
    }

    /// Returns the mean times a factor.
    pub fn times(self, factor: f64) -> Self {
        Self { value: self.value * factor, error: self.error * factor.abs() }
    }
}

/// Returns the momentum relative to Σ |v| of particles with the same mass.
pub fn relative_momentum(particles: &FluidParticles) -> f64 {
    let mut sum = [0.0; 3];
    let mut speeds = 0.0;
    for v in particles.velocity.iter() {
        (0..3).for_each(|axis| sum[axis] += v[axis]);
        speeds += crate::norm(v);
    }
    crate::norm(sum) / speeds
}

/// Returns the distance of the maximum of g(r) between two distances, from a parabola through the
/// values within `half_width` of the largest. `rows` are those of `rdf.csv`.
///
/// # Panics
/// If there are no values between the distances.
pub fn maximum_between(rows: &[Vec<f64>], [from, to]: [f64; 2], half_width: f64) -> f64 {
    let inside = rows.iter().filter(|row| (from..to).contains(&row[0]));
    let largest = inside.max_by(|a, b| a[1].total_cmp(&b[1])).expect("values of g(r)")[0];
    // With x from the largest value, least squares of g = a + b x + c x² for bins that are
    // symmetric about 0: b = Σ x g / Σ x², c = (n Σ x² g − Σ x² Σ g) / (n Σ x⁴ − (Σ x²)²).
    let near: Vec<[f64; 2]> =
        rows.iter().map(|row| [row[0] - largest, row[1]]).filter(|row| row[0].abs() < half_width).collect();
    let sum = |term: fn(f64, f64) -> f64| near.iter().map(|&[x, g]| term(x, g)).sum::<f64>();
    let (n, x2, x4) = (near.len() as f64, sum(|x, _| x * x), sum(|x, _| x.powi(4)));
    let slope = sum(|x, g| x * g) / x2;
    let curvature = (n * sum(|x, g| x * x * g) - x2 * sum(|_, g| g)) / (n * x4 - x2 * x2);
    largest - 0.5 * slope / curvature
}
