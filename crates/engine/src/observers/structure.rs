//! Structure and diffusion of a fluid: `rdf.csv` with the mean pair distribution function,
//! `msd.csv` with the mean square displacement over time, `diffusion.csv` with the diffusion
//! coefficient, and their plots.
//!
//! A measurement copies the particles. Workers count pairs and displacements while the run
//! continues. Means are sums in the order of the measurements, so a resumed run has the same bits.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use orrery_io::plot::{Axis, Plot, Series, label_with_unit};
use orrery_io::{AppendFile, Block, Fault, IoError, Mark, write_file_atomically};
use orrery_model::fluid::FluidParticles;
use orrery_model::{Units, Vec3s, short_number};
use orrery_particles::lennard_jones::structure::{PairDistribution, mean_square_displacement};
use serde::{Deserialize, Serialize};

use super::{Recorder, lock_file};
use crate::blocks::Blocks;
use crate::case::{Case, Every, FluidCase};
use crate::error::EngineError;
use crate::fluid::{diffusion_unit, length_unit};
use crate::pipeline::Job;
use crate::simulation::Moment;
use crate::system::{System, column_header};

/// Mean pair distribution function.
const RDF: &str = "rdf.csv";
/// Mean square displacement over time.
pub(super) const MSD: &str = "msd.csv";
/// Diffusion coefficient.
const DIFFUSION: &str = "diffusion.csv";
/// Names of the plots without extension.
pub(crate) const STRUCTURE_PLOTS: [&str; 2] = ["rdf", "msd"];
/// Names of the tables.
pub(crate) const STRUCTURE_TABLES: [&str; 3] = [RDF, MSD, DIFFUSION];

/// Columns of a checkpoint.
const ORIGIN: [&str; 3] = ["msd_x", "msd_y", "msd_z"];
const SUM: &str = "rdf";

/// Largest radius of the pair distribution function in units of σ, if the case gives none.
const DEFAULT_RADIUS: f64 = 5.0;

/// Measures structure and diffusion.
pub struct Structure {
    folder: PathBuf,
    name: String,
    units: Units,
    dimensions: usize,
    radius: f64,
    bins: usize,
    from: f64,
    /// Unwrapped positions at the first measurement.
    origin: Option<Arc<Vec3s>>,
    results: Arc<Mutex<Results>>,
}

/// Results of all measurements so far.
struct Results {
    file: AppendFile,
    /// Sum of g(r) of all measurements.
    sum: Vec<f64>,
    samples: u64,
    /// Time and mean square displacement.
    displacements: Vec<(f64, f64)>,
}

/// State of the measurements in a checkpoint. Larger data is in the columns from
/// [`Structure::checkpoint_blocks`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// Position of the trigger.
    pub(super) trigger: u64,
    #[serde(rename = "seen")]
    pub(super) last_observed: Option<f64>,
    pub(super) file: Mark,
    samples: u64,
}

impl Structure {
    /// Returns the settings of a case that measures structure.
    fn settings(case: &Case) -> Option<&FluidCase> {
        case.fluid().filter(|fluid| fluid.structure.every != Every::Never)
    }

    /// Returns when the measurements of a case take place, if it has any.
    pub fn schedule(case: &Case) -> Option<Every> {
        Self::settings(case).map(|fluid| fluid.structure.every)
    }

    /// Creates the observer of a new run, if its case measures structure.
    pub fn create(case: &Case, system: &System, folder: &Path) -> Result<Option<Self>, EngineError> {
        let Some((fluid, radius)) = Self::settings(case).zip(largest_distance(case, system)) else {
            return Ok(None);
        };
        let header = format!("{}\n", msd_header(&case.units));
        let file =
            AppendFile::create(&folder.join(MSD), b"", header.as_bytes()).map_err(EngineError::Output)?;
        let sum = vec![0.0; fluid.structure.bins];
        let results = Results { file, sum, samples: 0, displacements: Vec::new() };
        Ok(Some(Self::from_parts(case, fluid, folder, radius, None, results)))
    }

    /// Continues from the state in a checkpoint. `restart` creates a new table of displacements.
    pub fn resume(
        case: &Case,
        system: &System,
        folder: &Path,
        state: Option<&State>,
        blocks: &mut Blocks,
        restart: bool,
    ) -> Result<Option<Self>, EngineError> {
        let (Some((fluid, radius)), Some(state)) =
            (Self::settings(case).zip(largest_distance(case, system)), state)
        else {
            return Ok(None);
        };
        let (origin, sum) = restore_columns(fluid, system, state, blocks)?;
        if restart {
            let header = format!("{}\n", msd_header(&case.units));
            let file =
                AppendFile::create(&folder.join(MSD), b"", header.as_bytes()).map_err(EngineError::Output)?;
            let results = Results { file, sum, samples: state.samples, displacements: Vec::new() };
            return Ok(Some(Self::from_parts(case, fluid, folder, radius, origin, results)));
        }
        let mut file =
            AppendFile::reopen(&folder.join(MSD), b"", &state.file).map_err(EngineError::Output)?;
        let content = file.read_content().map_err(EngineError::Output)?;
        let text = String::from_utf8_lossy(&content);
        let row = |line: &str| {
            let (time, displacement) = line.split_once(',')?;
            Some((time.parse().ok()?, displacement.parse().ok()?))
        };
        let displacements = text.lines().skip(1).filter_map(row).collect();
        let results = Results { file, sum, samples: state.samples, displacements };
        Ok(Some(Self::from_parts(case, fluid, folder, radius, origin, results)))
    }

    fn from_parts(
        case: &Case,
        fluid: &FluidCase,
        folder: &Path,
        radius: f64,
        origin: Option<Arc<Vec3s>>,
        results: Results,
    ) -> Self {
        Self {
            folder: folder.to_owned(),
            name: case.name.clone(),
            units: case.units,
            dimensions: fluid.dimensions(),
            radius,
            bins: fluid.structure.bins,
            from: fluid.structure.from,
            origin,
            results: Arc::new(Mutex::new(results)),
        }
    }

    /// Writes the tables to the disk and returns the state. All measurements must be complete.
    pub fn sync(&mut self, trigger: u64, last_observed: Option<f64>) -> Result<State, EngineError> {
        let mut results = lock_file(&self.results);
        let file = results.file.sync().map_err(EngineError::Output)?;
        write_file_atomically(&self.folder.join(RDF), self.rdf_table(&results).as_bytes())
            .map_err(EngineError::Output)?;
        Ok(State { trigger, last_observed, file, samples: results.samples })
    }

    /// Returns the part of the state that is too large for the header of a checkpoint.
    pub fn checkpoint_blocks(&self) -> Vec<(String, Block)> {
        let mut blocks = vec![(SUM.to_owned(), Block::Reals(lock_file(&self.results).sum.clone()))];
        if let Some(origin) = &self.origin {
            let columns = [&origin.x, &origin.y, &origin.z];
            blocks.extend(
                ORIGIN.into_iter().zip(columns).map(|(name, x)| (name.to_owned(), Block::Reals(x.clone()))),
            );
        }
        blocks
    }

    /// Returns r and the mean of g(r).
    fn mean_distribution(&self, results: &Results) -> Vec<(f64, f64)> {
        let width = self.radius / self.bins as f64;
        let samples = results.samples.max(1) as f64;
        let mean = |(bin, sum): (usize, &f64)| ((bin as f64 + 0.5) * width, sum / samples);
        results.sum.iter().enumerate().map(mean).collect()
    }

    fn rdf_table(&self, results: &Results) -> String {
        let mut table = format!("{},g\n", column_header("r", length_unit(&self.units)));
        for (r, g) in self.mean_distribution(results) {
            table.push_str(&format!("{r:e},{g:e}\n"));
        }
        table
    }

    /// Writes all tables and plots.
    pub fn finish(&mut self) -> Result<(), EngineError> {
        self.sync(0, None)?;
        let results = lock_file(&self.results);
        let length = length_unit(&self.units);
        let rdf = Plot {
            title: format!("{}: pair distribution function", self.name),
            x: Axis::linear(label_with_unit("r", length)),
            y: Axis::linear("g(r)"),
            series: vec![Series::line("", self.mean_distribution(&results))],
            ..Plot::default()
        };
        let fit = DiffusionFit::new(&results.displacements, self.dimensions);
        let (unit, factor) = diffusion_unit(&self.units);
        if let Some(fit) = &fit {
            let header = [
                column_header("diffusion", unit),
                column_header("from", self.units.names().time),
                column_header("to", self.units.names().time),
            ];
            let coefficient = factor * fit.coefficient;
            let table = format!("{}\n{coefficient:e},{:e},{:e}\n", header.join(","), fit.from, fit.to);
            write_file_atomically(&self.folder.join(DIFFUSION), table.as_bytes())
                .map_err(EngineError::Output)?;
        }
        let shown = self.units.shown_time(results.displacements.last().map_or(1.0, |row| row.0));
        let points = |rows: &[(f64, f64)]| rows.iter().map(|&(t, x)| (t / shown.size, x)).collect::<Vec<_>>();
        let mut series = vec![Series::line("measured", points(&results.displacements))];
        if let Some(fit) = &fit {
            let label = format!("D = {} {unit}", short_number(factor * fit.coefficient));
            let ends = [fit.from, fit.to].map(|t| (t, fit.at(t)));
            series.push(Series::line(label.trim(), points(&ends)));
        }
        let msd = Plot {
            title: format!("{}: mean square displacement", self.name),
            x: Axis::linear(label_with_unit("time", shown.name)),
            y: Axis::linear(label_with_unit("msd", &squared(length))),
            series,
            ..Plot::default()
        };
        for (name, plot) in STRUCTURE_PLOTS.into_iter().zip([rdf, msd]) {
            plot.write_svg(&self.folder.join(format!("{name}.svg")))?;
            plot.write_png(&self.folder.join(format!("{name}.png")), 960, 640)?;
        }
        Ok(())
    }
}

fn squared(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!("{unit}^2") }
}

fn msd_header(units: &Units) -> String {
    let names = units.names();
    [column_header("time", names.time), column_header("msd", &squared(names.length))].join(",")
}

/// Returns the largest distance of the pair distribution function of a fluid.
fn largest_distance(case: &Case, system: &System) -> Option<f64> {
    let (fluid, System::Fluid(system)) = (case.fluid()?, system) else { return None };
    let bounds = system.fluid().bounds();
    let sides = bounds.lengths[..bounds.dimensions].iter();
    let half = 0.5 * sides.copied().fold(f64::INFINITY, f64::min);
    let sigma = system.fluid().settings().potential.length_unit();
    Some(fluid.structure.radius.unwrap_or(DEFAULT_RADIUS * sigma).min(half))
}

/// Origin of the displacements, and sum of g(r).
type Columns = (Option<Arc<Vec3s>>, Vec<f64>);

/// Returns the columns of a checkpoint, which may be hostile.
fn restore_columns(
    fluid: &FluidCase,
    system: &System,
    state: &State,
    blocks: &mut Blocks,
) -> Result<Columns, EngineError> {
    let path = blocks.path().to_owned();
    let malformed = |context: &str, expected: &str| {
        let fault = Fault::malformed(context, "another number of values", expected);
        EngineError::Input(IoError { path: path.clone(), fault })
    };
    let sum = blocks.take_reals(SUM)?;
    if sum.len() != fluid.structure.bins {
        return Err(malformed(SUM, "one value per bin"));
    }
    if state.samples == 0 {
        return Ok((None, sum));
    }
    let [x, y, z] =
        [blocks.take_reals(ORIGIN[0])?, blocks.take_reals(ORIGIN[1])?, blocks.take_reals(ORIGIN[2])?];
    if [&x, &y, &z].iter().any(|column| column.len() as u64 != system.size().count) {
        return Err(malformed(ORIGIN[0], "one value per particle"));
    }
    Ok((Some(Arc::new(Vec3s { x, y, z })), sum))
}

impl State {
    /// Returns true if a run of `system` can have written this state with these columns.
    pub(super) fn is_valid(&self, case: &Case, system: &System, columns: &Blocks) -> bool {
        Structure::settings(case)
            .is_some_and(|fluid| restore_columns(fluid, system, self, &mut columns.clone()).is_ok())
    }
}

/// Straight line through the mean square displacements.
struct DiffusionFit {
    /// Diffusion coefficient D in ⟨r²⟩ = 2 d D t + constant.
    coefficient: f64,
    slope: f64,
    offset: f64,
    from: f64,
    to: f64,
}

impl DiffusionFit {
    /// Fits the second half of the time. Before that, particles still leave the cages of their
    /// neighbours. `None` with less than three rows there.
    fn new(rows: &[(f64, f64)], dimensions: usize) -> Option<Self> {
        let (first, last) = (rows.first()?.0, rows.last()?.0);
        let from = 0.5 * (first + last);
        let fitted: Vec<(f64, f64)> = rows.iter().copied().filter(|row| row.0 >= from).collect();
        if fitted.len() < 3 {
            return None;
        }
        let n = fitted.len() as f64;
        let mean_t = fitted.iter().map(|row| row.0).sum::<f64>() / n;
        let mean_x = fitted.iter().map(|row| row.1).sum::<f64>() / n;
        let spread = fitted.iter().map(|row| (row.0 - mean_t).powi(2)).sum::<f64>();
        let slope = fitted.iter().map(|row| (row.0 - mean_t) * (row.1 - mean_x)).sum::<f64>() / spread;
        let coefficient = slope / (2.0 * dimensions as f64);
        Some(Self { coefficient, slope, offset: mean_x - slope * mean_t, from: fitted[0].0, to: last })
    }

    fn at(&self, time: f64) -> f64 {
        self.offset + self.slope * time
    }
}

impl Recorder for Structure {
    fn needed_bytes(&self, moment: &Moment) -> u64 {
        moment.system.snapshot_bytes()
    }

    fn capture(&mut self, moment: &Moment) -> Result<Box<dyn Job>, EngineError> {
        let System::Fluid(system) = moment.system else { unreachable!("only fluids have this observer") };
        // Times are products of the step, so they have rounding errors.
        if moment.time < self.from * (1.0 - 1e-12) {
            return Ok(Box::new(Nothing));
        }
        let particles = system.particles().map_err(|error| error.at(moment.stamp()))?;
        let origin = self.origin.get_or_insert_with(|| Arc::new(particles.unwrapped_coordinates())).clone();
        Ok(Box::new(Measurement {
            particles,
            origin,
            time: moment.time,
            radius: self.radius,
            bins: self.bins,
            measured: None,
            results: self.results.clone(),
        }))
    }
}

/// Job of a call before the first measurement.
struct Nothing;

impl Job for Nothing {
    fn commit(&mut self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Measures captured particles.
struct Measurement {
    particles: FluidParticles,
    origin: Arc<Vec3s>,
    time: f64,
    radius: f64,
    bins: usize,
    /// g(r) and mean square displacement.
    measured: Option<(PairDistribution, f64)>,
    results: Arc<Mutex<Results>>,
}

impl Job for Measurement {
    fn prepare(&mut self) -> Result<(), EngineError> {
        let distribution = PairDistribution::measure(&self.particles, self.radius, self.bins);
        let displacement = mean_square_displacement(&self.origin, &self.particles.unwrapped_coordinates());
        self.measured = Some((distribution, displacement));
        Ok(())
    }

    fn commit(&mut self) -> Result<(), EngineError> {
        let Some((distribution, displacement)) = &self.measured else { return Ok(()) };
        let mut results = lock_file(&self.results);
        let line = format!("{:e},{displacement:e}\n", self.time);
        // After an error this is called again, so nothing else may change before.
        results.file.append(line.as_bytes()).map_err(EngineError::Output)?;
        results.sum.iter_mut().zip(&distribution.values).for_each(|(sum, g)| *sum += g);
        results.samples += 1;
        results.displacements.push((self.time, *displacement));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ⟨r²⟩ = 6 D t + c after a ballistic start.
    #[test]
    fn the_diffusion_coefficient_is_the_slope_of_the_second_half() {
        let row = |k: i32| {
            let t = f64::from(k);
            (t, if k < 40 { 0.1 * t * t } else { 6.0 * 0.3 * t + 2.0 })
        };
        let rows: Vec<_> = (0..=100).map(row).collect();
        let fit = DiffusionFit::new(&rows, 3).unwrap();
        assert!((fit.coefficient - 0.3).abs() < 1e-12 && (fit.at(80.0) - 146.0).abs() < 1e-9);
        assert_eq!((fit.from, fit.to), (50.0, 100.0));
        assert!(DiffusionFit::new(&rows[..4], 3).is_none());
        assert!(DiffusionFit::new(&[], 3).is_none());
    }
}
