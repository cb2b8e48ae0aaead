//! The systems that can be simulated: one arm of [`System`] per physics.
//!
//! The run loop, the triggers, the checkpoint file and the folder know no physics. All that they
//! need of one is the trait [`Dynamics`] and the functions of [`System`]. A new physics adds a
//! module like [`gravity`] and its lines in the `match` expressions of this file.

mod error;
mod plan;
mod table;

use std::fmt::Debug;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::time::Duration;

use orrery_device::Device;
use orrery_formats::{Block, Column, Limits};
use orrery_model::{Units, format_count};
use serde_json::{Map, Value};

pub use error::{Stamp, SystemError};
pub use plan::Plan;
pub use table::{
    Drift, NamedPlot, Quantity, Row, Schema, SolutionError, SummaryValue, column_header, largest_time,
};

use crate::blocks::Blocks;
use crate::case::{Case, Physics};
use crate::compute_device::ComputeDevice;
use crate::control::{Control, RunEvent};
use crate::error::EngineError;
use crate::fluid::{self, FluidSystem};
use crate::gravity::{self, GravitySystem};
use crate::heat::{self, HeatSystem};
use crate::input_files::InputHashes;
use crate::observers::{self, Painter, STRUCTURE_PLOTS, STRUCTURE_TABLES};
use crate::wave::{self, WaveSystem};

/// Name of the table of conserved quantities.
pub(crate) const CONSERVED: &str = "conserved.csv";
/// Names of the trajectories of fluids, one per format.
pub(crate) const TRAJECTORIES: [&str; 2] = ["trajectory.gsd", "trajectory.xyz"];

/// Function that is called on every event of a run.
pub type ReportFn<'a> = dyn FnMut(RunEvent<'_>) + Send + 'a;

/// Names of the plots that the systems draw at the end of a run, without extension.
pub(crate) const PLOTS: [&str; 8] = {
    let [temperature, energy, pressure] = fluid::PLOTS;
    let [distribution, displacement] = STRUCTURE_PLOTS;
    [gravity::PLOT, heat::PLOT, wave::PLOT, temperature, energy, pressure, distribution, displacement]
};
/// Names of the tables of the systems.
pub(crate) const TABLES: [&str; 2] = [CONSERVED, fluid::TABLE];
/// Names of the files with the state at which a run failed.
pub(crate) const POST_MORTEMS: [&str; 4] =
    [gravity::POST_MORTEM, heat::POST_MORTEM, wave::POST_MORTEM, fluid::POST_MORTEM];
/// Names of the other files that the systems write.
pub(crate) const RESULTS: [&str; 9] = {
    let [npy, segy, wiggles, grey] = wave::SEISMOGRAMS;
    let [distribution, displacement, diffusion] = STRUCTURE_TABLES;
    let [gsd, xyz] = TRAJECTORIES;
    [npy, segy, wiggles, grey, distribution, displacement, diffusion, gsd, xyz]
};

/// A system that is simulated: its state and its method. The operations that all systems have are
/// those of [`Dynamics`].
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a run has one system, so its size does not matter")]
pub enum System {
    /// Bodies that attract one another.
    Gravity(GravitySystem),
    /// A plate that conducts heat.
    Heat(HeatSystem),
    /// Acoustic waves.
    Wave(WaveSystem),
    /// Particles with Lennard-Jones forces.
    Fluid(FluidSystem),
}

impl Deref for System {
    type Target = dyn Dynamics;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Gravity(system) => system,
            Self::Heat(system) => system,
            Self::Wave(system) => system,
            Self::Fluid(system) => system,
        }
    }
}

impl DerefMut for System {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Gravity(system) => system,
            Self::Heat(system) => system,
            Self::Wave(system) => system,
            Self::Fluid(system) => system,
        }
    }
}

impl System {
    /// Creates the system at the start of `case`, on the selected device. Returns it with the case,
    /// which now has the time of the start and absolute paths.
    pub(crate) fn start(
        case: &Case,
        selected: ComputeDevice,
        control: &Control,
        report: &mut ReportFn<'_>,
    ) -> Result<(Case, Self), EngineError> {
        match &case.physics {
            Physics::Gravity(gravity) => {
                let (case, system) = gravity::start(case, gravity, selected, control, report)?;
                Ok((case, Self::Gravity(system)))
            }
            Physics::Heat(heat) => {
                let (case, system) = heat::start(case, heat, selected, control, report)?;
                Ok((case, Self::Heat(system)))
            }
            Physics::Wave(wave) => {
                let (case, system) = wave::start(case, wave, selected, control, report)?;
                Ok((case, Self::Wave(system)))
            }
            Physics::LennardJones(fluid) => {
                let (case, system) = fluid::start(case, fluid, selected, control, report)?;
                Ok((case, Self::Fluid(system)))
            }
        }
    }

    /// Restores the system of a checkpoint, on the host. Takes the columns of its state from
    /// `columns` and leaves the others there.
    pub(crate) fn restore(saved: &SavedSystem<'_>, columns: &mut Blocks) -> Result<Self, EngineError> {
        match &saved.case.physics {
            Physics::Gravity(gravity) => GravitySystem::restore(saved, gravity, columns).map(Self::Gravity),
            Physics::Heat(heat) => HeatSystem::restore(saved, heat, columns).map(Self::Heat),
            Physics::Wave(wave) => WaveSystem::restore(saved, wave, columns).map(Self::Wave),
            Physics::LennardJones(fluid) => FluidSystem::restore(saved, fluid, columns).map(Self::Fluid),
        }
    }

    /// Returns what a run of `case` would need, without starting it.
    pub fn plan(
        case: &Case,
        control: &Control,
        warn: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Plan, EngineError> {
        control.ranks.check_case(case)?;
        let plan = match &case.physics {
            Physics::Gravity(gravity) => gravity::plan(case, gravity, control, warn),
            Physics::Heat(heat) => heat::plan(case, heat, control),
            Physics::Wave(wave) => wave::plan(case, wave, control),
            Physics::LennardJones(fluid) => fluid::plan(case, fluid, control, warn),
        }?;
        observers::check_table_memory(&plan.case, control.limits.memory)?;
        Ok(plan)
    }

    /// Returns the name of the physics, which is that of its section in a case.
    pub fn physics(&self) -> &'static str {
        match self {
            Self::Gravity(_) => gravity::NAME,
            Self::Heat(_) => heat::NAME,
            Self::Wave(_) => wave::NAME,
            Self::Fluid(_) => fluid::NAME,
        }
    }

    /// Returns the hashes of the input files that this rank has read. `None` for bodies and
    /// particles, whose files are hashed separately.
    pub(crate) fn input_hashes(&self) -> Option<&InputHashes> {
        match self {
            Self::Gravity(_) | Self::Fluid(_) => None,
            Self::Heat(system) => Some(system.input_hashes()),
            Self::Wave(system) => Some(system.input_hashes()),
        }
    }

    /// Sets the number of ranks that will compute the system of `case`.
    pub(crate) fn with_ranks(self, case: &Case, ranks: usize) -> Self {
        match (self, &case.physics) {
            (Self::Gravity(system), _) => Self::Gravity(system.with_ranks(ranks)),
            (Self::Heat(system), _) => Self::Heat(system.with_ranks(ranks)),
            (Self::Wave(system), Physics::Wave(wave)) => Self::Wave(system.with_ranks(case, wave, ranks)),
            (Self::Fluid(system), _) => Self::Fluid(system.with_ranks(ranks)),
            // A wave always has the case of a wave.
            (system @ Self::Wave(_), _) => system,
        }
    }

    /// Moves a restored system, which is that of `case`, from the host to the ranks of `control`
    /// and to the selected device. `recorded` is the strategy that the checkpoint recorded on this
    /// device.
    pub(crate) fn moved_to(
        self,
        case: &Case,
        selected: &ComputeDevice,
        recorded: Option<&str>,
        control: &Control,
        report: &mut ReportFn<'_>,
    ) -> Result<Self, SystemError> {
        let (device, tuned, ranks) = (selected.device.as_ref(), control.device.tuned, &control.ranks);
        Ok(match self {
            Self::Gravity(system) => {
                let team = ranks.start_bodies(selected)?;
                Self::Gravity(system.moved_to(team, device, recorded, tuned, report)?)
            }
            Self::Heat(system) => {
                let team = ranks.start_field(case, selected, system.input_hashes())?;
                Self::Heat(system.moved_to(team, device, tuned)?)
            }
            Self::Wave(system) => {
                let team = ranks.start_field(case, selected, system.input_hashes())?;
                Self::Wave(system.moved_to(team, device, tuned)?)
            }
            Self::Fluid(system) => {
                Self::Fluid(system.moved_to(ranks.start_fluid(selected)?, device, tuned)?)
            }
        })
    }

    /// Calls `observe` with the system after a step of length `dt`. The system itself does not
    /// change.
    pub(crate) fn look_ahead(
        &mut self,
        dt: f64,
        observe: &mut dyn FnMut(&Self) -> Result<(), EngineError>,
    ) -> Result<Result<(), EngineError>, SystemError> {
        match self {
            // A copy takes the step.
            Self::Gravity(system) => Ok(observe(&Self::Gravity(system.ahead(dt)?))),
            Self::Fluid(system) => Ok(observe(&Self::Fluid(system.ahead(dt)?))),
            // The second buffer has the result.
            Self::Heat(system) => {
                system.show_ahead(dt)?;
                let observed = observe(self);
                if let Self::Heat(system) = self {
                    system.show_now();
                }
                Ok(observed)
            }
            Self::Wave(system) => {
                system.show_ahead(dt)?;
                let observed = observe(self);
                if let Self::Wave(system) = self {
                    system.show_now();
                }
                Ok(observed)
            }
        }
    }
}

/// Operations of a system that the run loop, the checkpoints and the observers use.
///
/// Results depend on the sequence of steps alone. They do not depend on the number of steps per
/// call of [`advance`](Self::advance), nor on calls of the other functions.
pub trait Dynamics: Debug + Send {
    /// Returns the number of elements of the state, for example bodies.
    fn size(&self) -> Size;

    /// Returns the name of the method in use, for example `tree`. A checkpoint records it.
    fn method(&self) -> &'static str;

    /// Returns the method in words, for example "tree forces".
    fn method_text(&self) -> String;

    /// Returns the device of the state, `None` on the host.
    fn device(&self) -> Option<&Device>;

    /// Returns the strategy of the device in JSON, `None` on the host.
    fn strategy_text(&self) -> Option<String>;

    /// Returns the method, the settings that affect its accuracy, the strategy of the device and
    /// the size, in one line.
    fn setup_text(&self) -> String;

    /// Returns an upper bound of the bytes that a run of this system needs on the host.
    fn host_bytes(&self) -> u64;

    /// Returns an upper bound of the bytes that a run of this system needs on `device`.
    fn device_bytes(&self, device: &Device) -> u64;

    /// Returns why `device` cannot compute this system, `None` if it can.
    fn unsupported_reason(&self, _device: &Device) -> Option<String> {
        None
    }

    /// Returns the length of the next adaptive step, with the accuracy parameter `eta`.
    fn adaptive_step(&self, eta: f64) -> Result<f64, SystemError>;

    /// Returns the number of steps that one pass takes, if several steps per call of
    /// [`advance`](Self::advance) are faster than one. Batches are then multiples of this number
    /// where possible. `None` is for a system that takes one step at a time.
    fn steps_per_pass(&self) -> Option<u64> {
        None
    }

    /// Takes `steps` steps of length `dt`. `end_of(k)` is the end of the k-th of them, from 1.
    ///
    /// With more than one step, the call returns when the steps are complete, because the run loop
    /// measures its time. A non-finite result is an error, now or in a later call of any function.
    fn advance(&mut self, dt: f64, steps: u64, end_of: &dyn Fn(u64) -> Stamp) -> Result<(), SystemError>;

    /// Announces that the state at the end of the next call of [`advance`](Self::advance) will be
    /// measured. The last step may then compute what [`measure`](Self::measure) needs.
    fn request_measure(&mut self) {}

    /// Returns the time of all force evaluations since the start of this process. `None` for a
    /// system that has no separate forces.
    fn force_time(&self) -> Option<Duration> {
        None
    }

    /// Returns an error that describes the first value of the state that is not finite.
    fn check_finite(&self) -> Result<(), SystemError>;

    /// Returns a warning of one line if the precision of the method does not resolve the state. The
    /// run loop asks for it with each checkpoint.
    fn resolution_warning(&self) -> Result<Option<String>, SystemError> {
        Ok(None)
    }

    /// Returns the number of steps between two calls of [`is_settled`](Self::is_settled), if the
    /// case has such a criterion.
    fn settling_check_every(&self) -> Option<u64> {
        None
    }

    /// Returns true if the run can end before its end time, because the state has settled.
    fn is_settled(&self) -> Result<bool, SystemError> {
        Ok(false)
    }

    /// Compares the state, which is that of `now`, with known solutions of the case. The list is
    /// empty if there are none.
    fn solution_errors(&self, _now: Stamp) -> Result<Vec<SolutionError>, SystemError> {
        Ok(Vec::new())
    }

    /// Returns the columns of the table and the measures that are derived from them, in `units`.
    fn schema(&self, units: &Units) -> Schema;

    /// Measures the quantities of [`schema`](Self::schema), in the same order.
    fn measure(&self) -> Result<Vec<f64>, SystemError>;

    /// Returns all columns of the state, for a checkpoint. Their names have at most 14 bytes.
    fn columns(&self) -> Result<Vec<StateColumn<'_>>, SystemError>;

    /// Copies the state for a snapshot. The function writes it to a file, whose extension selects
    /// the format.
    fn capture_snapshot(&self, labels: &SnapshotLabels<'_>) -> Result<WriteFn, EngineError>;

    /// Returns about the bytes of a captured snapshot.
    fn snapshot_bytes(&self) -> u64;

    /// Copies the results that are no snapshot, for example seismograms. The function writes them
    /// to the folder of a run and replaces earlier files. It is called with each snapshot.
    fn capture_results(&self, _now: Stamp) -> Result<Option<WriteFn>, EngineError> {
        Ok(None)
    }

    /// Draws plots of these results. It is called at the end of a run, or at a stop.
    fn draw_results(&self, _folder: &Path, _now: Stamp) -> Result<(), EngineError> {
        Ok(())
    }

    /// Writes a state with non-finite values to the folder of a run. Returns the path, or `None` if
    /// the file could not be written.
    fn write_post_mortem(&self, folder: &Path, labels: &SnapshotLabels<'_>) -> Option<PathBuf>;

    /// Creates the painter of the images of a new run.
    fn new_painter(&self, case: &Case) -> Result<Box<dyn Painter>, EngineError>;

    /// Creates the painter of a resumed run from [`Painter::state`] and the columns of a
    /// checkpoint. Returns an error if no run can have written them.
    fn resumed_painter(
        &self,
        case: &Case,
        state: &Map<String, Value>,
        columns: &mut Blocks,
    ) -> Result<Box<dyn Painter>, EngineError>;

    /// Returns the files of a finished run that its summary lists, each with a description. FOLDER
    /// in it stands for the folder of the run.
    fn listed_files(&self) -> &'static [(&'static str, &'static str)];

    /// Returns the fields of the JSON summary that belong to this physics, from the first and the
    /// last row of the table.
    fn summary_json(&self, first: &Row, last: &Row) -> Map<String, Value>;
}

/// Writes captured data to a path, in any thread. After an error it may be called again.
pub type WriteFn = Box<dyn Fn(&Path) -> Result<(), EngineError> + Send>;

/// Number of elements of a system, with their name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The number.
    pub count: u64,
    /// Name of one element, for example "body".
    pub one: &'static str,
    /// Name of several elements, for example "bodies".
    pub many: &'static str,
}

impl Size {
    /// Returns for example "1 body needs" or "3 bodies need".
    pub(crate) fn need_text(&self) -> String {
        format!("{self} {}", if self.count == 1 { "needs" } else { "need" })
    }
}

/// Prints for example "1 body" or "3 bodies".
impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&format_count(self.count, self.one, self.many))
    }
}

/// Column of the state of a system.
#[derive(Clone, Debug)]
pub struct StateColumn<'a> {
    /// Name of the column.
    pub name: &'static str,
    /// Its values.
    pub values: ColumnValues<'a>,
    /// True if the values never change during a run, for example masses.
    pub is_constant: bool,
}

/// Values of a column: borrowed from the state, or made for the checkpoint.
#[derive(Clone, Debug)]
pub enum ColumnValues<'a> {
    /// Values of the state.
    Borrowed(Column<'a>),
    /// A copy, for example from a device.
    Owned(Block),
}

impl ColumnValues<'_> {
    /// Borrows the values.
    pub fn as_column(&self) -> Column<'_> {
        match self {
            Self::Borrowed(column) => *column,
            Self::Owned(block) => block.as_column(),
        }
    }

    /// Returns a copy of the values.
    pub fn into_block(self) -> Block {
        match self {
            Self::Borrowed(column) => column.to_block(),
            Self::Owned(block) => block,
        }
    }
}

/// Part of a checkpoint that describes its system, besides the columns.
#[derive(Clone, Copy, Debug)]
pub struct SavedSystem<'a> {
    /// Path of the checkpoint.
    pub path: &'a Path,
    /// Case of the run.
    pub case: &'a Case,
    /// Number of elements.
    pub count: usize,
    /// Name of the method.
    pub method: &'a str,
    /// Limits for reading input files.
    pub limits: &'a Limits,
    /// Step and time of the state.
    pub stamp: Stamp,
}

/// Time, units and provenance of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotLabels<'a> {
    /// Steps completed.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
    /// Units of all values.
    pub units: Units,
    /// Provenance of the run.
    pub provenance: &'a [(String, String)],
}
