//! The fluid of a run and its operations.

use std::path::{Path, PathBuf};

use orrery_cluster::Team;
use orrery_device::Device;
use orrery_fluids::ensemble::Ensemble;
use orrery_fluids::potential::Truncation;
use orrery_fluids::settings::{FluidSettings, PairPrecision};
use orrery_fluids::{DeviceFluid, DeviceFluidError, Fluid, FluidMeasures, FluidStrategy, FluidTeam};
use orrery_formats::{Block, FluidFrame, FluidSpecies, append_fluid_frame};
use orrery_model::Units;
use orrery_model::fluid::FluidParticles;
use orrery_model::ic::lattice::remove_drift;
use orrery_model::simulation_box::BoxSides;
use serde_json::{Map, Value, json};

use super::handover::{EnergyMean, SAMPLE_STEPS};
use super::painter::FluidPainter;
use super::record::{self, TableUnits};
use super::{POST_MORTEM, host_bytes, particle_count};
use crate::blocks::Blocks;
use crate::case::{Case, FluidCase};
use crate::compute_device::Tuned;
use crate::error::EngineError;
use crate::observers::Painter;
use crate::system::{
    ColumnValues, Dynamics, Row, Schema, Size, SnapshotLabels, Stamp, StateColumn, SystemError, WriteFn,
};

/// A fluid of particles in a box.
#[derive(Debug)]
pub struct FluidSystem {
    fluid: Fluid,
    facts: FluidFacts,
    /// Step and time of the state.
    now: Stamp,
    /// Energies of the second half of the thermostatted phase. `None` if the thermostat is never
    /// switched off, and in a run that started with a version without them.
    mean: Option<EnergyMean>,
    /// Number of ranks that compute it.
    ranks: usize,
}

/// Properties of a fluid that do not change during a run.
#[derive(Clone, Debug)]
pub(super) struct FluidFacts {
    pub units: Units,
    pub species: Vec<FluidSpecies>,
    /// Ensemble until `thermostat_end`.
    ensemble: Ensemble,
    /// Time at which the thermostat is switched off, infinite if it is not.
    thermostat_end: f64,
    /// Start of the second half of the thermostatted phase.
    sampled_from: f64,
    removes_drift: bool,
    /// Skin of the case, `None` for the default of the device.
    skin: Option<f64>,
    /// Energy per particle and pressure of the pairs beyond the cutoff.
    tail: [f64; 2],
}

impl FluidFacts {
    /// Collects the properties of a case with these particles.
    pub fn new(case: &Case, fluid: &FluidCase, particles: &FluidParticles) -> Self {
        let species = fluid.species.iter().map(|species| FluidSpecies {
            name: species.name.clone(),
            mass: species.mass,
            sigma: species.sigma,
        });
        let thermostat_end =
            fluid.thermostat.and_then(|thermostat| thermostat.until).unwrap_or(f64::INFINITY);
        Self {
            units: case.units,
            species: species.collect(),
            ensemble: fluid.ensemble(case.units.boltzmann_constant()),
            thermostat_end,
            sampled_from: 0.5 * (case.time.known_start() + thermostat_end),
            removes_drift: fluid.removes_drift,
            skin: fluid.skin,
            tail: if fluid.has_tail_corrections { tail_corrections(fluid, particles) } else { [0.0; 2] },
        }
    }

    /// Returns the strategy of a fluid of `n` particles on `device`: a tuned one, or the default. A
    /// skin in the case replaces that of the strategy.
    pub fn strategy(
        &self,
        device: &Device,
        n: usize,
        settings: &FluidSettings,
        tuned: Option<Tuned>,
    ) -> FluidStrategy {
        let unit = settings.potential.length_unit();
        let strategy = match tuned.and_then(|tuned| (tuned.fluid)(device, n)) {
            // The melt that was measured has σ = 1.
            Some(tuned) => FluidStrategy { skin: tuned.skin * unit, ..tuned },
            None => FluidStrategy {
                skin: FluidStrategy::default_skin(n, settings),
                ..FluidStrategy::default_for(device, n, settings)
            },
        };
        FluidStrategy { skin: self.skin.unwrap_or(strategy.skin), ..strategy }
    }

    /// Returns the ensemble of a step that ends at `time`.
    pub fn ensemble_at(&self, time: f64) -> Ensemble {
        // Times are products of the step, so they have rounding errors.
        if time <= self.thermostat_end * (1.0 + 1e-12) { self.ensemble } else { Ensemble::Nve }
    }

    /// Returns true if the energy is constant during the whole run.
    pub fn is_energy_constant(&self) -> bool {
        self.ensemble == Ensemble::Nve
    }
}

/// Returns energy per particle and pressure of the pairs beyond the cutoff. An open box has none.
fn tail_corrections(fluid: &FluidCase, particles: &FluidParticles) -> [f64; 2] {
    let bounds = &particles.bounds;
    if bounds.sides == BoxSides::Open {
        return [0.0; 2];
    }
    let n = particles.len() as f64;
    let count = |species: usize| particles.species.iter().filter(|&&s| usize::from(s) == species).count();
    let fractions: Vec<f64> = (0..fluid.species.len()).map(|species| count(species) as f64 / n).collect();
    let (potential, density) = (fluid.potential(), n / bounds.volume());
    [
        potential.tail_energy(density, &fractions, bounds.dimensions),
        potential.tail_pressure(density, &fractions, bounds.dimensions),
    ]
}

impl FluidSystem {
    pub(super) fn new(fluid: Fluid, facts: FluidFacts, now: Stamp) -> Self {
        let mean = facts.thermostat_end.is_finite().then(EnergyMean::default);
        Self { fluid, facts, now, mean, ranks: 1 }
    }

    /// Sets the energies that a run has sampled.
    pub(super) fn with_mean(self, mean: Option<EnergyMean>) -> Self {
        Self { mean, ..self }
    }

    /// Sets the number of ranks that compute the fluid, or will do so.
    pub(crate) fn with_ranks(self, ranks: usize) -> Self {
        Self { ranks, ..self }
    }

    /// Returns the particles in the user's order.
    pub fn particles(&self) -> Result<FluidParticles, SystemError> {
        self.fluid.particles().map_err(|error| system_error(error, Some(self.now)))
    }

    /// Returns the properties of the fluid.
    pub(super) fn facts(&self) -> &FluidFacts {
        &self.facts
    }

    /// Returns the fluid.
    pub fn fluid(&self) -> &Fluid {
        &self.fluid
    }

    /// Moves the fluid from the host to the ranks of a team, and to the `device` of this rank if
    /// there is one. Results do not change.
    pub(crate) fn moved_to(
        self,
        team: &Team,
        device: Option<&Device>,
        tuned: Option<Tuned>,
    ) -> Result<Self, SystemError> {
        let (n, settings) = (self.fluid.len(), self.fluid.settings());
        let strategy = device.map(|device| self.facts.strategy(device, n, settings, tuned));
        let moved = self.fluid.moved_to(&FluidTeam::lead(team), device.zip(strategy.as_ref()));
        let fluid = moved.map_err(|error| system_error(error, Some(self.now)))?;
        Ok(Self { fluid, ranks: team.size(), ..self })
    }

    /// Returns a copy after a step of length `dt`.
    pub(crate) fn ahead(&self, dt: f64) -> Result<Self, SystemError> {
        let fluid = self.fluid.try_clone().map_err(|error| system_error(error, Some(self.now)))?;
        let (facts, mean) = (self.facts.clone(), self.mean);
        let mut ahead = Self { fluid, facts, now: self.now, mean, ranks: self.ranks };
        let (start, Stamp { step, time }) = (self.now, self.now);
        ahead.advance(dt, 1, &|k| if k == 0 { start } else { Stamp { step: step + 1, time: time + dt } })?;
        Ok(ahead)
    }

    /// Switches the thermostat off. The centre of mass, which a thermostat may have moved, is
    /// stopped, and the energy becomes the mean of the thermostatted phase.
    fn set_ensemble(&mut self, ensemble: Ensemble) -> Result<(), DeviceFluidError> {
        let mut particles = self.fluid.particles()?;
        let (settings, stops_drift) = (self.fluid.settings(), self.facts.removes_drift);
        if stops_drift {
            remove_drift(&mut particles, &settings.mass);
        }
        if let Some(mean) = self.mean {
            let potential = self.fluid.measure()?.potential;
            mean.apply(&mut particles, &settings.mass, potential, settings.ensemble, stops_drift);
        }
        self.fluid.restart(particles, ensemble)
    }

    /// Returns the first step after `done`, and at most `last`, whose energies are sampled. Without
    /// one it is `last`. Steps are counted as in [`Dynamics::advance`].
    fn next_sample(&self, done: u64, last: u64, end_of: &dyn Fn(u64) -> Stamp) -> u64 {
        let next = done + SAMPLE_STEPS - end_of(done).step % SAMPLE_STEPS;
        let can_sample = self.mean.is_some() && end_of(last).time >= self.facts.sampled_from;
        if can_sample { next.min(last) } else { last }
    }

    /// Adds the energies to the mean if they are sampled now.
    fn sample(&mut self) -> Result<(), DeviceFluidError> {
        let Stamp { step, time } = self.now;
        let is_due = step.is_multiple_of(SAMPLE_STEPS)
            && time >= self.facts.sampled_from
            && self.fluid.settings().ensemble != Ensemble::Nve;
        if let Some(mean) = self.mean.as_mut().filter(|_| is_due) {
            mean.add(&self.fluid.measure()?);
        }
        Ok(())
    }

    /// Returns temperature, potential and kinetic energy per particle, and pressure, in the units
    /// of the case.
    fn thermodynamics(&self, measures: &FluidMeasures) -> [f64; 4] {
        let (n, bounds) = (self.fluid.len(), self.fluid.bounds());
        let FluidMeasures { potential, virial, kinetic, .. } = *measures;
        let freedom = self.facts.ensemble_at(self.now.time).degrees_of_freedom(n, bounds.dimensions);
        let boltzmann = self.facts.units.boltzmann_constant();
        let temperature = if freedom > 0.0 { 2.0 * kinetic / (freedom * boltzmann) } else { 0.0 };
        let [tail_energy, tail_pressure] = self.facts.tail;
        let pressure =
            (2.0 * kinetic + virial) / (bounds.dimensions as f64 * bounds.volume()) + tail_pressure;
        [temperature, potential / n as f64 + tail_energy, kinetic / n as f64, pressure]
    }

    /// Returns the units of the table.
    pub(super) fn table_units(&self) -> TableUnits {
        TableUnits::new(&self.facts.units, self.fluid.bounds())
    }

    /// Returns a function that adds `particles` to the trajectory at a path.
    fn frame_writer(&self, particles: FluidParticles, labels: &SnapshotLabels<'_>) -> FrameWriter {
        let names = self.facts.units.names();
        let unit_names = [
            ("length", names.length),
            ("time", names.time),
            ("mass", names.mass),
            ("velocity", names.velocity),
        ];
        FrameWriter {
            particles,
            species: self.facts.species.clone(),
            step: labels.step,
            time: labels.time,
            units: self.facts.units,
            unit_names: unit_names.map(|(quantity, unit)| (quantity, unit.to_owned())).to_vec(),
            provenance: labels.provenance.to_vec(),
        }
    }
}

/// A captured frame of a trajectory.
struct FrameWriter {
    particles: FluidParticles,
    species: Vec<FluidSpecies>,
    step: u64,
    time: f64,
    units: Units,
    unit_names: Vec<(&'static str, String)>,
    provenance: Vec<(String, String)>,
}

impl FrameWriter {
    fn write(&self, path: &Path) -> Result<(), EngineError> {
        let frame = FluidFrame {
            particles: &self.particles,
            species: &self.species,
            step: self.step,
            time: self.time,
            units: self.units.name(),
            unit_names: &self.unit_names,
            provenance: &self.provenance,
        };
        append_fluid_frame(path, &frame).map_err(EngineError::Output)
    }
}

impl Dynamics for FluidSystem {
    fn size(&self) -> Size {
        particle_count(self.fluid.len() as u64)
    }

    fn method(&self) -> &'static str {
        match self.fluid.uses_lists() {
            true => "neighbour-lists",
            false => "all-pairs",
        }
    }

    fn method_text(&self) -> String {
        match self.fluid.uses_lists() {
            true => "neighbour lists".to_owned(),
            false => "all pairs".to_owned(),
        }
    }

    fn device(&self) -> Option<&Device> {
        self.fluid.device()
    }

    fn strategy_text(&self) -> Option<String> {
        self.fluid.strategy().map(|strategy| json!({ "lennard_jones": strategy }).to_string())
    }

    fn setup_text(&self) -> String {
        let settings = self.fluid.settings();
        let cutoff = match (settings.potential.largest_cutoff(), settings.potential.truncation) {
            (None, _) => "no cutoff".to_owned(),
            (Some(cutoff), truncation) => {
                let kind = match truncation {
                    Truncation::Shifted => "shifted at",
                    Truncation::Switched { .. } => "switched to",
                    Truncation::None | Truncation::Truncated => "cutoff",
                };
                format!("{kind} {}", orrery_model::short_number(cutoff))
            }
        };
        let ensemble = match self.facts.ensemble {
            Ensemble::Nve => "constant energy",
            Ensemble::Langevin { .. } => "Langevin thermostat",
            Ensemble::Rescaling { .. } => "rescaling thermostat",
        };
        let precision = match settings.precision {
            PairPrecision::Mixed => "mixed",
            PairPrecision::Double => "double",
        };
        let method = self.method_text();
        format!("lennard_jones: {}, {method}, {cutoff}, {ensemble}, {precision} precision", self.size())
    }

    fn host_bytes(&self) -> u64 {
        host_bytes(self.fluid.len() as u64)
    }

    fn device_bytes(&self, _device: &Device) -> u64 {
        let (settings, bounds) = (self.fluid.settings(), self.fluid.bounds());
        DeviceFluid::device_bytes_of_rank(self.fluid.len(), self.ranks, settings, bounds)
    }

    fn unsupported_reason(&self, device: &Device) -> Option<String> {
        let (n, settings) = (self.fluid.len(), self.fluid.settings());
        DeviceFluid::check_support(device, n, settings).err().map(|reason| reason.to_string())
    }

    fn adaptive_step(&self, _eta: f64) -> Result<f64, SystemError> {
        unreachable!("a case of a fluid has a fixed step")
    }

    fn steps_per_pass(&self) -> Option<u64> {
        Some(1)
    }

    fn advance(&mut self, dt: f64, steps: u64, end_of: &dyn Fn(u64) -> Stamp) -> Result<(), SystemError> {
        let mut done = 0;
        while done < steps {
            let ensemble = self.facts.ensemble_at(end_of(done + 1).time);
            let is_same = |k: u64| self.facts.ensemble_at(end_of(k).time) == ensemble;
            // Steps before the thermostat is switched off come first.
            let last = if is_same(steps) { steps } else { last_where(done + 1, steps, is_same) };
            let last = if ensemble == Ensemble::Nve { last } else { self.next_sample(done, last, end_of) };
            let changed = match ensemble == self.fluid.settings().ensemble {
                true => Ok(()),
                false => self.set_ensemble(ensemble),
            };
            let first = end_of(done).step;
            let advanced = changed.and_then(|()| self.fluid.advance(dt, first, last - done));
            advanced.map_err(|error| {
                let at = match &error {
                    // The step that failed would have been the next one.
                    DeviceFluidError::Exploded(exploded) => Some(end_of(done + exploded.step - first)),
                    _ => None,
                };
                system_error(error, at)
            })?;
            done = last;
            self.now = end_of(done);
            self.sample().map_err(|error| system_error(error, Some(self.now)))?;
        }
        Ok(())
    }

    /// A particle that moves too far in a step ends the run, and NaN does too. Positions are always
    /// finite.
    fn check_finite(&self) -> Result<(), SystemError> {
        Ok(())
    }

    fn schema(&self, _units: &Units) -> Schema {
        let potential = &self.fluid.settings().potential;
        record::schema(&self.facts, &self.table_units(), potential.energy_unit(), potential.truncation)
    }

    fn measure(&self) -> Result<Vec<f64>, SystemError> {
        let measures = self.fluid.measure().map_err(|error| system_error(error, Some(self.now)))?;
        Ok(self.table_units().row(self.thermodynamics(&measures)))
    }

    fn columns(&self) -> Result<Vec<StateColumn<'_>>, SystemError> {
        Ok(super::columns::state_columns(self.particles()?, self.mean))
    }

    fn capture_snapshot(&self, labels: &SnapshotLabels<'_>) -> Result<WriteFn, EngineError> {
        let particles = self.particles().map_err(|error| error.at(self.now))?;
        let writer = self.frame_writer(particles, labels);
        Ok(Box::new(move |path| writer.write(path)))
    }

    fn snapshot_bytes(&self) -> u64 {
        // Fractions, images, velocities, species and identifiers.
        self.size().count * (24 + 12 + 24 + 1 + 8)
    }

    fn write_post_mortem(&self, folder: &Path, labels: &SnapshotLabels<'_>) -> Option<PathBuf> {
        let path = folder.join(POST_MORTEM);
        let _ = std::fs::remove_file(&path);
        self.frame_writer(self.fluid.particles().ok()?, labels).write(&path).ok().map(|()| path)
    }

    fn new_painter(&self, case: &Case) -> Result<Box<dyn Painter>, EngineError> {
        let particles = self.particles().map_err(|error| error.at(self.now))?;
        Ok(Box::new(FluidPainter::new(case, self, &particles)))
    }

    fn resumed_painter(
        &self,
        case: &Case,
        state: &Map<String, Value>,
        columns: &mut Blocks,
    ) -> Result<Box<dyn Painter>, EngineError> {
        Ok(Box::new(FluidPainter::resume(case, self, state, columns)?))
    }

    fn listed_files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("thermo-energy.svg", "energies over time; all values in thermo.csv"),
            ("trajectory.gsd", "particles, for OVITO, MDAnalysis or gsd"),
            ("trajectory.xyz", "particles, for OVITO, ASE or MDAnalysis"),
            ("rdf.svg", "pair distribution function; values in rdf.csv"),
            ("msd.svg", "mean square displacement; values in msd.csv"),
        ]
    }

    fn summary_json(&self, first: &Row, last: &Row) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("particles".into(), self.fluid.len().into());
        fields.insert("solver".into(), self.method().into());
        let schema = self.schema(&self.facts.units);
        for (name, row) in [("start", first), ("end", last)] {
            fields.insert(name.into(), record::row_json(&schema, row));
        }
        fields
    }
}

/// Returns the last k from `first` to `last` for which `is_true`. It holds for `first`, and for no
/// number after one for which it does not.
fn last_where(first: u64, last: u64, is_true: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (first, last);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if is_true(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// Converts an error of the solver. `at` is the step, if the error does not contain it.
pub(super) fn system_error(error: DeviceFluidError, at: Option<Stamp>) -> SystemError {
    match error {
        DeviceFluidError::Device(error) => SystemError::Device(error),
        // The device was checked before the fluid was moved to it.
        DeviceFluidError::Unsupported(reason) => unreachable!("{reason}"),
        DeviceFluidError::Stalled { device } => SystemError::Stalled { device },
        DeviceFluidError::Exploded(exploded) => SystemError::NotFinite { at, found: exploded.to_string() },
        DeviceFluidError::Cluster(error) => error.into(),
    }
}

/// Values of a column for a checkpoint.
pub(super) fn owned(block: Block) -> ColumnValues<'static> {
    ColumnValues::Owned(block)
}
