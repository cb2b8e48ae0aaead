//! The case: what to simulate, as plain data.
//!
//! Text becomes a [`Case`] in three stages, one per module. `document` finds every key and value
//! with its location and applies `--set`. `sections` reads them with their types, units and ranges,
//! which are declared once per key. `cross_checks` checks settings against each other. A [`Case`]
//! therefore has no error that can be found without a device or a snapshot.

mod cross_checks;
mod declare;
#[cfg(test)]
mod dimension_tests;
mod document;
mod fluid;
mod heat;
mod load;
mod origins;
mod physics;
mod presets;
mod quantities;
mod reader;
mod reference;
mod resolved;
mod schema;
mod sections;
mod settings;
mod suggest;
mod values;
mod wave;

use std::path::PathBuf;
use std::time::Duration;

use orrery_draw::picture::{FieldPicture, ValueRange};
use orrery_gravity::settings::StepChoice;
use orrery_model::{Species, Units};

pub(crate) use cross_checks::MAX_OUTPUTS_PER_STEP;
pub use document::{CaseError, Location};
pub use fluid::{
    FluidCase, FluidColour, FluidDensity, FluidStart, FluidView, PairCase, SpeciesCase, StructureCase,
    ThermostatCase, ThermostatMethod,
};
pub use heat::{EdgeCondition, EdgeProfile, HeatCase, InitialState, NodeValues, Region, StopRange};
pub use load::{BYTES_PER_BODY, CaseSource};
pub use origins::Origins;
pub use orrery_formats::available_memory;
pub use physics::{GravityCase, Physics, PhysicsName};
pub use presets::{Preset, find_preset, presets};
pub use quantities::WrittenQuantities;
pub use reference::reference_page;
pub use schema::json_schema;
pub use sections::bodies::{BodiesFile, BodiesSource};
pub use sections::models::{Model, model_names};
pub use suggest::nearest_word;
pub use wave::{
    ReceiverLine, SliceView, SnapshotWindow, SourceCase, VelocityRegion, VelocityShape, VelocitySource,
    WaveCase, WaveletSource,
};

/// A checked case.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Name of the run and of its folder: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// Description in one line. May be empty.
    pub description: String,
    /// Units of all values below.
    pub units: Units,
    /// The physics with its settings.
    pub physics: Physics,
    /// Step, start and end.
    pub time: TimeSettings,
    /// Which output is written, and when.
    pub output: OutputSettings,
    /// When checkpoints are written.
    pub checkpoint: CheckpointSettings,
    /// Limits of the numerical errors.
    pub limits: LimitSettings,
    /// Appearance of the images.
    pub image: ImageSettings,
    /// Folder to which relative paths refer.
    pub folder: PathBuf,
    /// The quantities with a unit as the user wrote them.
    pub written: WrittenQuantities,
    /// Where the case file names files, and where it has the entries of lists.
    pub origins: Origins,
}

/// `[time]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeSettings {
    /// Fixed or adaptive step.
    pub step: StepChoice,
    /// Simulated time at which the run starts. `None` is the time of the input file, which is not
    /// known before the file is read.
    pub start: Option<f64>,
    /// Simulated time at which the run ends.
    pub end: f64,
}

impl TimeSettings {
    /// Returns the time at which the run starts, or 0 if it is not known yet.
    pub fn known_start(&self) -> f64 {
        self.start.unwrap_or(0.0)
    }
}

/// Schedule of an output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Every {
    /// Only at the start and the end.
    Never,
    /// Every n steps.
    Steps(u64),
    /// At multiples of this simulated time.
    Time(f64),
}

/// File format of snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotFormat {
    /// HDF5 in the layout of GADGET.
    #[default]
    Hdf5,
    /// Extended XYZ. Of a fluid it is a trajectory.
    Xyz,
    /// NumPy arrays.
    Npz,
    /// A field as a NumPy array.
    Npy,
    /// A field as VTK image data.
    Vti,
    /// A trajectory in the GSD format of HOOMD.
    Gsd,
}

/// `[output]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutputSettings {
    /// Schedule of snapshots.
    pub snapshot_every: Every,
    /// Schedule of images.
    pub image_every: Every,
    /// Schedule of rows of the table, `conserved.csv` or `thermo.csv`.
    pub record_every: Every,
    /// Format of snapshots.
    pub format: SnapshotFormat,
    /// True to copy the file of bodies to the folder of the run.
    pub keep_start: bool,
    /// True to draw plots at the end of the run.
    pub plots: bool,
    /// Reaction when a file cannot be written.
    pub on_error: OnError,
}

/// Reaction of a run to a storage error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Ends the run with an error.
    #[default]
    Stop,
    /// Waits and tries again, for example until a full disk has space.
    Wait,
}

/// `[checkpoint]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckpointSettings {
    /// When a checkpoint is written.
    pub every: CheckpointEvery,
    /// Number of checkpoints that are kept.
    pub keep: u32,
}

/// Schedule of checkpoints. In a case file the unit selects the clock: "10 s", "10 min" and "2 h"
/// are wall-clock times. A plain number, "1 day", "1 yr" and "10 Myr" are simulated times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CheckpointEvery {
    /// Only at the start and the end, and on request.
    Never,
    /// Every n steps.
    Steps(u64),
    /// At multiples of this simulated time.
    Time(f64),
    /// After this wall-clock time, at least one second.
    WallClock(Duration),
}

impl CheckpointEvery {
    /// Returns the schedule in steps or simulated time. A wall-clock schedule becomes
    /// [`Every::Never`].
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
    /// Largest allowed error of the run, which is the [`Drift`](crate::system::Drift) of its
    /// system. For gravity it is |E − E₀| / |E₀|. `None` is no limit.
    pub drift: Option<f64>,
    /// Reaction to a larger error.
    pub on_drift: OnDrift,
}

/// Reaction of a run when its error exceeds the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDrift {
    /// Reports it once and continues.
    #[default]
    Warn,
    /// Ends the run with an error.
    Stop,
}

/// Plane onto which images are projected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plane {
    /// Viewed along z.
    #[default]
    Xy,
    /// Viewed along y.
    Xz,
    /// Viewed along x.
    Yz,
}

/// Which bodies an image shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Show {
    /// Stars if there are any, otherwise all bodies.
    #[default]
    Auto,
    /// All bodies.
    All,
    /// Stars only.
    Stars,
}

/// Point in the middle of images of bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ViewCentre {
    /// Centre of mass of the shown bodies at the start. It does not move.
    #[default]
    Start,
    /// A fixed point.
    Point([f64; 3]),
    /// Centre of mass of all bodies, at the time of each image.
    CentreOfMass,
    /// Centre of mass of a species, at the time of each image.
    Species(Species),
}

/// Direction of view of images of bodies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ViewDirection {
    /// Along the axis that is not in the plane.
    Plane(Plane),
    /// From the direction of these angles, in radians.
    Angles {
        /// Angle of the viewer about the z axis, from x towards y.
        azimuth: f64,
        /// Angle of the viewer above the x-y plane.
        elevation: f64,
    },
}

/// Settings of `[image]` for bodies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BodyView {
    /// Width of the view. `None` fits it to the initial bodies.
    pub width: Option<f64>,
    /// Point in the middle.
    pub centre: ViewCentre,
    /// Direction of view.
    pub direction: ViewDirection,
    /// Bodies shown.
    pub show: Show,
    /// Name of the colour map, one of
    /// [`ColourMap::DENSITY_NAMES`](orrery_draw::picture::ColourMap::DENSITY_NAMES). `None` is one
    /// colour per galaxy.
    pub colour_map: Option<&'static str>,
}

/// Settings of `[image]` for fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldView {
    /// Name of the colour map, one of [`ColourMap::NAMES`](orrery_draw::picture::ColourMap::NAMES).
    pub colour_map: &'static str,
    /// Value of the first colour. `None` follows the field.
    pub low: Option<f64>,
    /// Value of the last colour. `None` follows the field.
    pub high: Option<f64>,
}

/// Settings of `[image]` for every physics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageSettings {
    /// Width and height.
    pub size: ImageSize,
    /// Format of the animation.
    pub animation: AnimationFormat,
    /// Speed of the animation, in frames per second.
    pub frames_per_second: u32,
}

/// Width and height of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageSize {
    /// The larger one in pixels. Images of bodies are squares, and the other side of images of
    /// fields fits the field.
    Longer(u32),
    /// Width and height in pixels.
    Exact(u32, u32),
}

impl ImageSize {
    /// Returns width and height of images of bodies.
    pub fn body_pixels(self) -> (u32, u32) {
        match self {
            Self::Longer(side) => (side, side),
            Self::Exact(width, height) => (width, height),
        }
    }

    /// Returns width and height of images of a field with the range `range`.
    pub(crate) fn field_pixels(self, picture: &FieldPicture, range: ValueRange) -> (u32, u32) {
        match self {
            Self::Longer(side) => picture.fitted_pixels(side, range),
            Self::Exact(width, height) => (width, height),
        }
    }

    /// Returns true if images of a field can have this width and height.
    pub(crate) fn allows(self, (width, height): (u32, u32)) -> bool {
        match self {
            Self::Longer(side) => [width, height].iter().all(|found| (1..=side.max(2)).contains(found)),
            exact => exact == Self::Exact(width, height),
        }
    }
}

/// Format of the animation. A GIF is complete after each image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnimationFormat {
    /// Only the GIF.
    #[default]
    Gif,
    /// At the end of the run also an MP4, if ffmpeg is installed.
    Mp4,
    /// No animation.
    None,
}
