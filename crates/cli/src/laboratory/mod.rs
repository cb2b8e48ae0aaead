//! The laboratory in the command: `ladder`, the kernels of ladders in `occupancy`, and its checks in
//! `selftest`. A program without the feature `lab` has the file `no_laboratory.rs` instead.

mod args;
mod ladder;
mod occupancy;

use orrery_device::check::Check;

pub use args::LadderArgs;
pub use ladder::ladder;
pub use occupancy::kernels_of_ladder;

/// Returns the checks of the laboratory.
pub fn checks() -> Vec<Check> {
    orrery_lab::checks()
}
