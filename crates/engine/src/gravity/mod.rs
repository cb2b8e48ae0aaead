//! Gravity: bodies that attract one another, as a [`System`](crate::System).
//!
//! `start` creates the bodies of a case and `columns` stores them in checkpoints. `record` measures
//! energies and momenta, `painter` draws images, and `device` selects the strategy of a device.
//! [`analysis`] measures snapshots.

pub mod analysis;
mod columns;
mod device;
mod painter;
mod record;
mod start;
mod warnings;

use std::path::{Path, PathBuf};
use std::time::Duration;

use orrery_cluster::Team;
use orrery_device::Device;
use orrery_formats::{Snapshot, write_snapshot};
use orrery_gravity::bodies::{self, Bodies, BodiesError, BodiesTeam, needed_bytes};
use orrery_gravity::integrator::adaptive;
use orrery_gravity::settings::{Acceptance, GravitySettings, IntegratorChoice, SolverChoice, StepChoice};
use orrery_model::{Particles, Units, Vec3s, short_number};
use serde_json::{Map, Value, json};

pub use columns::state_columns;
pub use device::{device_setup, ensure_memory};
pub use record::{Record, schema};
use start::crowding_warning;
pub use start::{Start, initial_bodies, resolution_warning};
pub(crate) use start::{plan, start};

use crate::blocks::Blocks;
use crate::case::{BYTES_PER_BODY, Case, GravityCase};
use crate::compute_device::Tuned;
use crate::error::EngineError;
use crate::observers::Painter;
use crate::system::{
    Dynamics, ReportFn, Row, Schema, Size, SnapshotLabels, Stamp, StateColumn, SystemError, WriteFn,
};

/// Name of this physics.
pub(crate) const NAME: &str = "gravity";
/// Name of the plot of the energy error, without extension.
pub(crate) const PLOT: &str = "energy";
/// Snapshot of the bodies at which a run failed.
pub(crate) const POST_MORTEM: &str = "post-mortem.hdf5";

/// Bodies that attract one another, and the integrator that moves them.
#[derive(Debug)]
pub struct GravitySystem {
    bodies: Bodies,
    integrator: IntegratorChoice,
    /// Number of ranks that compute the bodies, or will do so.
    ranks: usize,
    /// True if the state after the next call of `advance` will be measured.
    is_measure_requested: bool,
    /// True if the crowding of the tree's cells was reported at the start.
    is_crowding_reported: bool,
}

/// Returns the settings of the forces for a run with this `step`. Some integrators and steps need
/// the direct sum, for example `hermite4`. For them, `auto` becomes `direct`.
pub fn settings(gravity: &GravityCase, step: StepChoice) -> GravitySettings {
    let &GravityCase { settings, integrator, .. } = gravity;
    let needs_pairs = integrator == IntegratorChoice::Hermite4
        || (matches!(step, StepChoice::Adaptive { .. }) && settings.eps == 0.0);
    let solver = if needs_pairs { SolverChoice::Direct } else { settings.solver };
    GravitySettings { solver, ..settings }
}

/// Returns a number of bodies.
pub(crate) fn body_count(count: u64) -> Size {
    Size { count, one: "body", many: "bodies" }
}

impl GravitySystem {
    fn new(bodies: Bodies, integrator: IntegratorChoice) -> Self {
        Self { bodies, integrator, ranks: 1, is_measure_requested: false, is_crowding_reported: false }
    }

    /// Sets the number of ranks, on which the memory of a device depends.
    pub(crate) fn with_ranks(self, ranks: usize) -> Self {
        Self { ranks, ..self }
    }

    /// Returns the bodies.
    pub fn bodies(&self) -> &Bodies {
        &self.bodies
    }

    /// Returns the bodies on the host. Bodies on a device are copied first.
    pub fn particles(&self) -> Result<&Particles, SystemError> {
        Ok(self.bodies.particles()?)
    }

    /// Returns the bodies for a new painter, and prepares the device for its images.
    fn painted_particles(&self) -> Result<&Particles, SystemError> {
        self.bodies.prepare_bins()?;
        self.particles()
    }

    /// Returns the positions on the host. From a device only these are copied.
    pub fn positions(&self) -> Result<&Vec3s, SystemError> {
        Ok(self.bodies.positions()?)
    }

    /// Moves the bodies from the host to the ranks of a team, if there is one, and to the `device`
    /// of this rank, with the `recorded` strategy if it is for this run.
    pub(crate) fn moved_to(
        self,
        team: Option<&Team>,
        device: Option<&Device>,
        recorded: Option<&str>,
        tuned: Option<Tuned>,
        report: &mut ReportFn<'_>,
    ) -> Result<Self, SystemError> {
        // The settings of the checkpoint contain the solver that `auto` selected at the start.
        let (n, settings) = (self.bodies.len(), *self.bodies.settings());
        let solver = self.bodies.solver_name();
        let setup = device.map(|device| {
            let recorded =
                recorded.and_then(|text| device::recorded_strategy(text, device, &settings, solver));
            let setup = device_setup(device, n, &settings, recorded, tuned);
            device::report_tuned(&setup, n, &settings, report);
            setup
        });
        let bodies = match team {
            Some(team) => self.bodies.shared_with(&BodiesTeam::lead(team))?,
            None => self.bodies,
        };
        let bodies = match &setup {
            Some(setup) => bodies.moved_to(setup)?,
            None => bodies,
        };
        Ok(Self { bodies, ..self })
    }

    /// Returns a copy of the system that has taken a step of length `dt`.
    pub(crate) fn ahead(&self, dt: f64) -> Result<Self, SystemError> {
        let mut bodies = self.bodies.try_clone()?;
        self.integrator.step(&mut bodies, dt)?;
        Ok(Self::new(bodies, self.integrator).with_ranks(self.ranks))
    }

    fn snapshot(&self, particles: Particles, labels: &SnapshotLabels<'_>) -> Snapshot {
        let SnapshotLabels { step, time, units, provenance } = *labels;
        Snapshot { particles, time, step, units, provenance: provenance.to_vec() }
    }
}

impl Dynamics for GravitySystem {
    fn size(&self) -> Size {
        body_count(self.bodies.len() as u64)
    }

    fn method(&self) -> &'static str {
        self.bodies.solver_name()
    }

    fn method_text(&self) -> String {
        format!("{} forces", self.method())
    }

    fn device(&self) -> Option<&Device> {
        self.bodies.device()
    }

    fn strategy_text(&self) -> Option<String> {
        self.bodies.device_strategy().map(device::strategy_text)
    }

    fn setup_text(&self) -> String {
        let settings = self.bodies.settings();
        let mut text = format!("solver: {}", self.method());
        if self.method() == "tree" {
            text += &match settings.acceptance {
                Acceptance::Geometric { theta } => format!(", theta {}", short_number(theta)),
                Acceptance::Relative { alpha, .. } => format!(", relative error {}", short_number(alpha)),
            };
        }
        if let Some(strategy) = self.bodies.device_strategy() {
            text += &format!(", {}", strategy.describe());
        }
        let (size, precision) = (self.size(), settings.precision.as_str());
        text + &format!(", {size}, {precision} precision, softening {}", short_number(settings.eps))
    }

    fn host_bytes(&self) -> u64 {
        self.size().count.saturating_mul(BYTES_PER_BODY)
    }

    fn device_bytes(&self, device: &Device) -> u64 {
        needed_bytes(device, self.bodies.len() as u64, self.bodies.settings(), self.integrator, self.ranks)
    }

    fn adaptive_step(&self, eta: f64) -> Result<f64, SystemError> {
        Ok(adaptive::step_length(&self.bodies, eta)?)
    }

    fn advance(&mut self, dt: f64, steps: u64, end_of: &dyn Fn(u64) -> Stamp) -> Result<(), SystemError> {
        let is_measured = std::mem::take(&mut self.is_measure_requested);
        for index in 1..=steps {
            if is_measured && index == steps {
                self.integrator.step_with_potential(&mut self.bodies, dt)?;
            } else {
                self.integrator.step(&mut self.bodies, dt)?;
            }
            let Stamp { step, time } = end_of(index);
            self.bodies.check_step(bodies::CheckStamp { step, time })?;
        }
        Ok(())
    }

    fn request_measure(&mut self) {
        self.is_measure_requested = true;
    }

    fn force_time(&self) -> Option<Duration> {
        Some(self.bodies.force_time())
    }

    fn check_finite(&self) -> Result<(), SystemError> {
        Ok(self.bodies.check_finite()?)
    }

    fn resolution_warning(&self) -> Result<Option<String>, SystemError> {
        let particles = self.particles()?;
        let resolution = resolution_warning(&particles.position, self.bodies.settings());
        let has_tree = self.method() == "tree" && !self.is_crowding_reported;
        Ok(resolution.or_else(|| crowding_warning(particles).filter(|_| has_tree)))
    }

    fn schema(&self, units: &Units) -> Schema {
        schema(units)
    }

    fn measure(&self) -> Result<Vec<f64>, SystemError> {
        // Step and time are not among the values.
        Ok(Record::measure(&self.bodies, 0, 0.0)?.to_row().values)
    }

    fn columns(&self) -> Result<Vec<StateColumn<'_>>, SystemError> {
        Ok(state_columns(&self.bodies)?)
    }

    fn capture_snapshot(&self, labels: &SnapshotLabels<'_>) -> Result<WriteFn, EngineError> {
        let now = Stamp { step: labels.step, time: labels.time };
        let particles = self.particles().map_err(|error| error.at(now))?.clone();
        let snapshot = self.snapshot(particles, labels);
        Ok(Box::new(move |path| write_snapshot(path, &snapshot).map_err(EngineError::Output)))
    }

    fn snapshot_bytes(&self) -> u64 {
        // Six components, mass, id and species.
        65 * self.size().count
    }

    fn write_post_mortem(&self, folder: &Path, labels: &SnapshotLabels<'_>) -> Option<PathBuf> {
        let path = folder.join(POST_MORTEM);
        let particles = self.bodies.particles_unchecked().ok()?;
        write_snapshot(&path, &self.snapshot(particles, labels)).ok().map(|()| path)
    }

    fn new_painter(&self, case: &Case) -> Result<Box<dyn Painter>, EngineError> {
        let now = Stamp { step: 0, time: case.time.known_start() };
        let particles = self.painted_particles().map_err(|error| error.at(now))?;
        Ok(Box::new(painter::BodyPainter::new(case, particles)))
    }

    fn resumed_painter(
        &self,
        case: &Case,
        state: &Map<String, Value>,
        columns: &mut Blocks,
    ) -> Result<Box<dyn Painter>, EngineError> {
        let now = Stamp { step: 0, time: case.time.known_start() };
        let particles = self.painted_particles().map_err(|error| error.at(now))?;
        Ok(Box::new(painter::BodyPainter::resume(case, particles, state, columns)?))
    }

    fn listed_files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("energy.svg", "energy error over time; all values in conserved.csv"),
            ("snapshots", "all bodies, for yt, pynbody, h5py or orrery analyze FOLDER"),
        ]
    }

    fn summary_json(&self, first: &Row, last: &Row) -> Map<String, Value> {
        let [first, last] = [first, last].map(Record::from_row);
        let (start, end) = (first.total_energy(), last.total_energy());
        let fields = json!({
            "bodies": self.bodies.len(),
            "solver": self.method(),
            "precision": self.bodies.settings().precision.as_str(),
            "softening": self.bodies.settings().eps,
            "start": first.to_json(),
            "end": last.to_json(),
            "relative_energy_error": (start != 0.0).then(|| (end - start) / start.abs()),
        });
        fields.as_object().cloned().unwrap_or_default()
    }
}

impl From<BodiesError> for SystemError {
    fn from(error: BodiesError) -> Self {
        match error {
            BodiesError::NotFinite { at, source } => Self::NotFinite {
                at: at.map(|bodies::CheckStamp { step, time }| Stamp { step, time }),
                found: source.to_string(),
            },
            BodiesError::Device(error) => Self::Device(error),
            error @ (BodiesError::Cluster(_) | BodiesError::Hardware { .. }) => {
                Self::Ranks { message: error.to_string() }
            }
        }
    }
}
