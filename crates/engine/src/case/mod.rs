//! The case: what to simulate, as plain data.
//!
//! Text becomes a [`Case`] in three stages, each in its module: `document` finds every key and value with
//! its location and applies `--set`; `sections` reads them with their types, units and ranges; `together`
//! checks what only the whole can show. A [`Case`] in hand is therefore free of mistakes that need no device and
//! no snapshot to be seen.

mod document;
mod load;
mod presets;
mod reader;
mod resolved;
mod sections;
mod suggest;
mod together;

use std::path::PathBuf;
use std::time::Duration;

use orrery_model::Units;
use orrery_particles::settings::{GravitySettings, IntegratorChoice, StepChoice};

pub use document::{CaseError, Location};
pub use load::{BYTES_PER_BODY, CaseSource, available_memory};
pub use presets::{Preset, preset, presets};
pub use sections::bodies::BodiesSource;
pub use sections::models::{Model, models};
pub use suggest::nearest;

/// A checked case.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Names the run and its folder: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// One line for people; may be empty.
    pub description: String,
    /// The units of every number below.
    pub units: Units,
    /// Where the bodies come from.
    pub bodies: BodiesSource,
    /// The forces.
    pub gravity: GravitySettings,
    /// How time advances.
    pub time: TimeSettings,
    /// What is written, and when.
    pub output: OutputSettings,
    /// When the state is saved to go on from.
    pub checkpoint: CheckpointSettings,
    /// How far numbers may go wrong.
    pub limits: LimitSettings,
    /// How pictures look.
    pub image: ImageSettings,
    /// The folder that a relative `bodies.file` starts from.
    pub folder: PathBuf,
}

/// `[time]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeSettings {
    /// The method.
    pub integrator: IntegratorChoice,
    /// The step.
    pub step: StepChoice,
    /// When the run ends; it starts at 0.
    pub end: f64,
}

/// How often something happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Every {
    /// At the start and the end only.
    Never,
    /// After so many steps.
    Steps(u64),
    /// After so much simulated time.
    Time(f64),
}

/// A snapshot's file format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotFormat {
    /// GADGET's layout in HDF5.
    #[default]
    Hdf5,
    /// Extended XYZ.
    Xyz,
    /// NumPy arrays.
    Npz,
}

/// `[output]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutputSettings {
    /// Snapshots of all bodies.
    pub snapshot_every: Every,
    /// Pictures.
    pub image_every: Every,
    /// Rows of `conserved.csv`.
    pub record_every: Every,
    /// The snapshots' format.
    pub format: SnapshotFormat,
    /// What to do when a file cannot be written.
    pub on_error: OnError,
}

/// What a run does when the storage fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Ends with an error.
    #[default]
    Stop,
    /// Waits and tries again.
    Wait,
}

/// `[checkpoint]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckpointSettings {
    /// When one is written.
    pub every: CheckpointEvery,
    /// How many are kept.
    pub keep: u32,
}

/// How often a checkpoint is written. A case says which clock it means by the unit: "10 s", "10 min" and
/// "2 h" are the wall clock; a number, "1 day", "1 yr" and "10 Myr" are simulated time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CheckpointEvery {
    /// Not by itself.
    Never,
    /// After so many steps.
    Steps(u64),
    /// After so much simulated time.
    Time(f64),
    /// After so much time of the user; a second or more.
    WallClock(Duration),
}

impl CheckpointEvery {
    /// The schedule in steps or simulated time; the wall clock has none.
    pub fn schedule(self) -> Every {
        match self {
            Self::Never | Self::WallClock(_) => Every::Never,
            Self::Steps(count) => Every::Steps(count),
            Self::Time(interval) => Every::Time(interval),
        }
    }
}

/// `[limits]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitSettings {
    /// The largest |E − E₀| / |E₀|; `None` is no limit.
    pub energy_error: Option<f64>,
    /// What to do beyond it.
    pub on_energy_error: OnEnergyError,
}

/// What a run does when its energy error passes the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnEnergyError {
    /// Says so and goes on.
    #[default]
    Warn,
    /// Ends with an error.
    Stop,
}

/// The plane that a picture projects onto.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plane {
    /// Seen along z.
    #[default]
    Xy,
    /// Seen along y.
    Xz,
    /// Seen along x.
    Yz,
}

/// Which bodies a picture shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Show {
    /// Stars where there are any, otherwise all.
    #[default]
    Auto,
    /// All.
    All,
    /// Stars only.
    Stars,
}

/// `[image]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageSettings {
    /// Pixels on a side.
    pub size: u32,
    /// Width of the view; `None` fits it to the bodies at the start.
    pub width: Option<f64>,
    /// The plane.
    pub plane: Plane,
    /// The bodies shown.
    pub show: Show,
    /// Speed of the animation.
    pub frames_per_second: u32,
}
