//! Structure and diffusion of a fluid: `rdf.csv` with the mean pair distribution function,
//! `msd.csv` with the mean square displacement over the lag, `diffusion.csv` with the diffusion
//! coefficient, and their plots.
//!
//! A measurement copies the particles. Workers count pairs and displacements while the run
//! continues. Means are sums in the order of the measurements, so a resumed run has the same bits.
//! Tables are replaced at every checkpoint.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use orrery_draw::plot::{Axis, Plot, Series, label_with_unit};
use orrery_fluids::structure::{PairDistribution, mean_square_displacement};
use orrery_formats::{Block, Fault, IoError, Mark, write_file_atomically, write_unlisted_file};
use orrery_model::Units;
use orrery_model::fluid::FluidParticles;
use serde::{Deserialize, Serialize};

use super::displacements::{DiffusionFit, Lags, Origin, Origins};
use super::{Recorder, is_earlier, lock_file};
use crate::blocks::Blocks;
use crate::case::{Case, Every, FluidCase};
use crate::error::EngineError;
use crate::fluid::{diffusion_unit, length_unit};
use crate::pipeline::Job;
use crate::simulation::{MAX_STEPS, Moment};
use crate::system::{System, column_header};

/// Mean pair distribution function.
const RDF: &str = "rdf.csv";
/// Mean square displacement over the lag.
const MSD: &str = "msd.csv";
/// Diffusion coefficient.
const DIFFUSION: &str = "diffusion.csv";
/// Names of the plots without extension.
pub(crate) const STRUCTURE_PLOTS: [&str; 2] = ["rdf", "msd"];
/// Names of the tables.
pub(crate) const STRUCTURE_TABLES: [&str; 3] = [RDF, MSD, DIFFUSION];

/// Column of a checkpoint.
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
    has_plots: bool,
    origins: Origins,
    results: Arc<Mutex<Results>>,
}

/// Results of all measurements so far.
struct Results {
    /// Sum of g(r) of all measurements.
    sum: Vec<f64>,
    samples: u64,
    lags: Lags,
}

/// State of the measurements in a checkpoint. Larger data is in the columns from
/// [`Structure::checkpoint_blocks`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// Position of the trigger.
    pub(super) trigger: u64,
    #[serde(rename = "seen")]
    pub(super) last_observed: Option<f64>,
    samples: u64,
    /// Number of measurements between two origins of displacements.
    stride: u64,
    /// State of the tables that every checkpoint replaces, `rdf.csv` and `msd.csv`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tables: Vec<Mark>,
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
    pub fn create(case: &Case, system: &System, folder: &Path) -> Option<Self> {
        let (fluid, radius) = Self::settings(case).zip(largest_distance(case, system))?;
        let results = Results { sum: vec![0.0; fluid.structure.bins], samples: 0, lags: Lags::default() };
        let origins = Origins::new(system.size().count);
        Some(Self::from_parts(case, fluid, folder, radius, origins, results))
    }

    /// Continues from the state in a checkpoint.
    pub fn resume(
        case: &Case,
        system: &System,
        folder: &Path,
        state: Option<&State>,
        blocks: &mut Blocks,
    ) -> Result<Option<Self>, EngineError> {
        let (Some((fluid, radius)), Some(state)) =
            (Self::settings(case).zip(largest_distance(case, system)), state)
        else {
            return Ok(None);
        };
        let (origins, results) = restore_columns(fluid, system, state, blocks)?;
        Ok(Some(Self::from_parts(case, fluid, folder, radius, origins, results)))
    }

    fn from_parts(
        case: &Case,
        fluid: &FluidCase,
        folder: &Path,
        radius: f64,
        origins: Origins,
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
            has_plots: case.output.plots,
            origins,
            results: Arc::new(Mutex::new(results)),
        }
    }

    /// Writes the tables to the disk and returns the state. All measurements must be complete.
    pub fn sync(&mut self, trigger: u64, last_observed: Option<f64>) -> Result<State, EngineError> {
        let results = lock_file(&self.results);
        let write = |(name, table): (&str, String)| {
            write_unlisted_file(&self.folder.join(name), table.as_bytes()).map_err(EngineError::Output)
        };
        let tables = [(RDF, self.rdf_table(&results)), (MSD, self.msd_table(&results))];
        let tables = tables.into_iter().map(write).collect::<Result<_, _>>()?;
        let (samples, stride) = (results.samples, self.origins.stride());
        Ok(State { trigger, last_observed, samples, stride, tables })
    }

    /// Returns the part of the state that is too large for the header of a checkpoint.
    pub fn checkpoint_blocks(&self) -> Vec<(String, Block)> {
        let results = lock_file(&self.results);
        let mut blocks = vec![(SUM.to_owned(), Block::Reals(results.sum.clone()))];
        blocks.extend(results.lags.checkpoint_blocks());
        blocks.extend(self.origins.checkpoint_blocks());
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

    fn msd_table(&self, results: &Results) -> String {
        let names = self.units.names();
        let header = [column_header("time", names.time), column_header("msd", &squared(names.length))];
        let mut table = format!("{},origins\n", header.join(","));
        for row in results.lags.means() {
            table.push_str(&format!("{:e},{:e},{}\n", row.time, row.displacement, row.origins));
        }
        table
    }

    /// Writes all tables, and the plots if the case wants them.
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
        let means = results.lags.means();
        let fit = DiffusionFit::new(&means, self.dimensions);
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
        if !self.has_plots {
            return Ok(());
        }
        let shown = self.units.shown_time(means.last().map_or(1.0, |row| row.time));
        let points = |rows: &[(f64, f64)]| rows.iter().map(|&(t, x)| (t / shown.size, x)).collect::<Vec<_>>();
        let measured: Vec<_> = means.iter().map(|row| (row.time, row.displacement)).collect();
        let mut series = vec![Series::line("measured", points(&measured))];
        if let Some(fit) = &fit {
            let label = diffusion_label(factor * fit.coefficient, unit);
            let ends = [fit.from, fit.to].map(|t| (t, fit.at(t)));
            series.push(Series::line(label, points(&ends)));
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

/// Returns the label of a fit, such as `D = 2.404e-5 cm^2/s`. The unit belongs to a value, so it is
/// not in brackets.
fn diffusion_label(coefficient: f64, unit: &str) -> String {
    format!("D = {coefficient:.3e} {unit}").trim_end().to_owned()
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

/// Returns the parts of a checkpoint, which may be hostile.
fn restore_columns(
    fluid: &FluidCase,
    system: &System,
    state: &State,
    blocks: &mut Blocks,
) -> Result<(Origins, Results), EngineError> {
    let path = blocks.path().to_owned();
    let malformed = |context: &str, expected: &str| {
        let fault = Fault::malformed(context, "other values", expected);
        EngineError::Input(IoError { path: path.clone(), fault })
    };
    let sum = blocks.take_reals(SUM)?;
    if sum.len() != fluid.structure.bins || sum.iter().any(|&sum| sum < 0.0) {
        return Err(malformed(SUM, "one value per bin, at least 0"));
    }
    let origins = Origins::restore(system.size().count, state.stride, state.samples, blocks)?
        .ok_or_else(|| malformed("origins of displacements", "one value per particle and origin"))?;
    let lags = Lags::restore(state.samples, blocks)?
        .ok_or_else(|| malformed("mean square displacements", "one value per lag"))?;
    Ok((origins, Results { sum, samples: state.samples, lags }))
}

impl State {
    /// Returns names and states of the tables that every checkpoint replaces.
    pub(super) fn tables(&self) -> impl Iterator<Item = (String, Mark)> {
        [RDF, MSD].into_iter().zip(&self.tables).map(|(name, mark)| (name.to_owned(), mark.clone()))
    }

    /// Returns true if a run of `system` can have written this state with these columns, whose
    /// output is of `time` at the latest.
    pub(super) fn is_valid(&self, case: &Case, system: &System, columns: &Blocks, time: f64) -> bool {
        (1..=MAX_STEPS).contains(&self.trigger)
            && self.last_observed.is_none_or(|observed| is_earlier(observed, time))
            && Structure::settings(case).is_some_and(|fluid| {
                let restored = restore_columns(fluid, system, self, &mut columns.clone());
                restored.is_ok_and(|(origins, _)| origins.are_before(time))
            })
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
        let (number, origins) = (self.origins.measurements(), self.origins.list().to_vec());
        self.origins.add(moment.time, || particles.unwrapped_coordinates());
        Ok(Box::new(Measurement {
            particles,
            number,
            origins,
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
    /// Number of the measurement, from 0 on.
    number: u64,
    /// Origins of displacements before this measurement.
    origins: Vec<Origin>,
    time: f64,
    radius: f64,
    bins: usize,
    /// g(r), and the mean square displacement from each origin.
    measured: Option<(PairDistribution, Vec<f64>)>,
    results: Arc<Mutex<Results>>,
}

impl Job for Measurement {
    fn prepare(&mut self) -> Result<(), EngineError> {
        let distribution = PairDistribution::measure(&self.particles, self.radius, self.bins);
        let position = self.particles.unwrapped_coordinates();
        let displacement = |origin: &Origin| mean_square_displacement(&origin.position, &position);
        self.measured = Some((distribution, self.origins.iter().map(displacement).collect()));
        Ok(())
    }

    fn commit(&mut self) -> Result<(), EngineError> {
        let Some((distribution, displacements)) = &self.measured else { return Ok(()) };
        let mut results = lock_file(&self.results);
        results.sum.iter_mut().zip(&distribution.values).for_each(|(sum, g)| *sum += g);
        results.samples += 1;
        for (origin, displacement) in self.origins.iter().zip(displacements) {
            results.lags.add(self.number - origin.number, self.time - origin.time, *displacement);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_of_a_fit_is_a_value_with_its_unit() {
        assert_eq!(diffusion_label(2.4041e-5, "cm^2/s"), "D = 2.404e-5 cm^2/s");
        assert_eq!(diffusion_label(0.03, ""), "D = 3.000e-2");
    }
}
