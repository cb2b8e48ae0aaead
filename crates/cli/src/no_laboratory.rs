//! A program that was built without the feature `lab`: the simulator alone. Ladders are refused
//! with the remedy.

use clap::Args;
use orrery_device::Device;
use orrery_device::check::Check;
use orrery_device::occupancy::SmLimits;
use orrery_measure::bench::primitives::PrimitiveCase;
use orrery_measure::occupancy::BuiltKernels;

use crate::failure::Failure;

/// Flags of `ladder`, which are not read.
#[derive(Debug, Args)]
pub struct LadderArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<String>,
}

fn no_laboratory() -> Failure {
    let message =
        "this program was built without ladders, expected one with the feature 'lab', which is the default";
    Failure::Usage(message.to_owned())
}

/// Refuses the command.
pub fn ladder(_arguments: &LadderArgs) -> Result<(), Failure> {
    Err(no_laboratory())
}

/// Refuses the kernels of a ladder.
pub fn kernels_of_ladder(
    _name: &str,
    _filter: &str,
    _open: impl FnOnce() -> Result<(Device, &'static SmLimits), Failure>,
) -> Result<BuiltKernels, Failure> {
    Err(no_laboratory())
}

/// Returns no primitives.
pub fn primitive_cases() -> &'static [&'static PrimitiveCase] {
    &[]
}

/// Returns no checks.
pub fn checks() -> Vec<Check> {
    Vec::new()
}
