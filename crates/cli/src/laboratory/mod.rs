//! The laboratory in the command: `ladder`, the kernels of ladders in `occupancy`, its primitives
//! in `bench` and `tune`, and its checks in `selftest`. A program without the feature `lab` has the
//! file `no_laboratory.rs` instead.

mod args;
mod ladder;
mod occupancy;

use orrery_device::check::Check;
use orrery_lab::primitives::bench::LAB_CASES;
use orrery_measure::bench::primitives::PrimitiveCase;

pub use args::LadderArgs;
pub use ladder::ladder;
pub use occupancy::kernels_of_ladder;

/// Returns the primitives of the laboratory, for `bench` and `tune`.
pub fn primitive_cases() -> &'static [&'static PrimitiveCase] {
    &LAB_CASES
}

/// Returns the checks of the laboratory.
pub fn checks() -> Vec<Check> {
    orrery_lab::checks()
}
