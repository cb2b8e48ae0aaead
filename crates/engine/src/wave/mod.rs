//! Acoustic waves, as a [`System`](crate::System).
//!
//! `start` builds the problem of a case and the system that starts with it. `accuracy` reports the
//! error of its waves, and `placement` parts of the case without effect. `columns` reads it from
//! checkpoints, `record` describes the table, `painter` draws images of the plane of `slice`, and
//! `seismograms` writes the values at the receivers.

mod accuracy;
mod columns;
mod painter;
mod placement;
mod record;
mod seismograms;
mod slice;
mod start;
mod system;

pub(crate) use seismograms::FILES as SEISMOGRAMS;
pub(crate) use start::{build_problem, device_setup, host_bytes, max_stable_step, plan, start};
pub use system::WaveSystem;

/// Name of this physics.
pub(crate) const NAME: &str = "wave";
/// Name of the method in checkpoints and provenance.
pub(crate) const METHOD: &str = "explicit";
/// Name of the plot of the energy, without extension.
pub(crate) const PLOT: &str = "wave-energy";
/// Field at which a run failed.
pub(crate) const POST_MORTEM: &str = "post-mortem-wave.npy";
