//! Heat conduction in a plate, as a [`System`](crate::System).
//!
//! `start` builds the problem of a case and `begin` the system that starts with it. `columns` reads
//! it from checkpoints, `record` describes the table, `solution` has the known solution of a sine
//! mode, `rounding` warns where single precision is too coarse, `placement` about regions without
//! nodes, and `painter` draws images.

mod begin;
mod columns;
mod painter;
mod placement;
mod record;
mod rounding;
mod solution;
mod start;
mod system;

pub(crate) use begin::{device_setup, plan, start};
pub(crate) use painter::FieldDrawing;
pub(crate) use start::{build_problem, max_stable_step, read_heat_capacity};
pub use system::HeatSystem;
pub(crate) use system::precision_bytes;

use crate::case::HeatCase;
use crate::system::Size;

/// Name of this physics.
pub(crate) const NAME: &str = "heat";
/// Name of the method in checkpoints and provenance.
pub(crate) const METHOD: &str = "explicit";
/// Name of the plot of the temperatures, without extension.
pub(crate) const PLOT: &str = "temperature";
/// Field at which a run failed.
pub(crate) const POST_MORTEM: &str = "post-mortem.npy";

/// Returns an upper bound of the bytes that a run needs on the host.
pub(crate) fn host_bytes(heat: &HeatCase, on_device: bool) -> u64 {
    system::PlateFacts::host_bytes(heat, on_device)
}

/// Returns a number of nodes.
pub(crate) fn node_count(count: u64) -> Size {
    Size { count, one: "node", many: "nodes" }
}

#[cfg(test)]
mod start_tests;
#[cfg(test)]
mod tests;
