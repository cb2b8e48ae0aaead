//! The system that starts with the problem of a case.

use std::path::Path;

use orrery_device::Device;
use orrery_fields::heat::{Conductivity, HeatDeviceSetup, HeatField, HeatProblem};

use super::node_count;
use super::placement::placement_warnings;
use super::rounding::RoundingScale;
use super::start::{build_problem, initial_values};
use super::system::{HeatSystem, PlateFacts, device_bytes};
use crate::case::{Case, HeatCase};
use crate::compute_device::{self, ComputeDevice, Tuned, select_device_of};
use crate::control::{Control, RunEvent};
use crate::error::EngineError;
use crate::host_memory::check_host_memory;
use crate::input_files::InputFiles;
use crate::system::{Dynamics, Plan, ReportFn, Size, Stamp, SystemError};

/// Creates the plate of `case` on the selected device, or on the CPU if `auto` selected a device
/// with too little memory. Returns it with the case, which then has the time of the start.
pub(crate) fn start(
    case: &Case,
    heat: &HeatCase,
    selected: ComputeDevice,
    control: &Control,
    report: &mut ReportFn<'_>,
) -> Result<(Case, HeatSystem), EngineError> {
    let selected = ensure_memory(selected, control, case, heat)?;
    check_memory(heat, &selected, control)?;
    let files = InputFiles::new(&control.limits);
    let problem = build_problem(case, heat, &files)?;
    let initial = initial_values(case, heat, &problem, &files)?;
    let inputs = files.into_hashes();
    let mut case = case.with_absolute_paths();
    let time = case.time.known_start();
    case.time.start = Some(time);
    report(RunEvent::Device(&selected));
    if let Some(warning) = RoundingScale::of(&case, &problem).and_then(|rounding| rounding.start_warning()) {
        report(RunEvent::InputWarning(&warning));
    }
    for warning in placement_warnings(&case, heat, problem.max_stable_step()) {
        report(RunEvent::InputWarning(&warning));
    }
    let device = selected.device.as_ref();
    let setup = device.map(|device| device_setup(device, &problem, control.device.tuned));
    let at_start = |error: SystemError| error.at(Stamp { step: 0, time });
    let team = control.ranks.start_field(&case, &selected, &inputs).map_err(at_start)?;
    let field = HeatField::new_in_team(team, &problem, &initial, setup.as_ref())
        .map_err(|error| at_start(error.into()))?;
    let facts = PlateFacts::new(&case, heat, &problem);
    let system = HeatSystem::new(field, facts, inputs).with_ranks(control.ranks.size());
    system.check_finite().map_err(at_start)?;
    Ok((case, system))
}

/// Returns the device of a rank with its tuned strategy, or the default one.
pub(crate) fn device_setup(device: &Device, problem: &HeatProblem, tuned: Option<Tuned>) -> HeatDeviceSetup {
    let is_variable = matches!(problem.conductivity(), Conductivity::Field(_));
    let (nodes, precision) = (problem.grid().len(), problem.precision());
    let tuned = tuned.and_then(|tuned| (tuned.heat)(device, nodes, precision, is_variable));
    let default = HeatDeviceSetup::new(device, problem);
    HeatDeviceSetup { strategy: tuned.unwrap_or(default.strategy), ..default }
}

/// Returns what a run of `case` would need. All files of the case are read.
pub(crate) fn plan(case: &Case, heat: &HeatCase, control: &Control) -> Result<Plan, EngineError> {
    let selected = select_device_of(&control.ranks, control.device.choice)?;
    let selected = ensure_memory(selected, control, case, heat)?;
    check_memory(heat, &selected, control)?;
    let files = InputFiles::new(&control.limits);
    let problem = build_problem(case, heat, &files)?;
    initial_values(case, heat, &problem, &files)?;
    let mut case = case.with_absolute_paths();
    case.time.start = Some(case.time.known_start());
    let host_bytes = PlateFacts::host_bytes(heat, selected.device.is_some());
    let device_bytes = selected.device.as_ref().map(|_| device_bytes(&case, heat, control.ranks.size()));
    Ok(Plan { case, size: size_of_plate(heat), host_bytes, selected, device_bytes })
}

fn size_of_plate(heat: &HeatCase) -> Size {
    node_count((heat.grid.nx as u64).saturating_mul(heat.grid.ny as u64))
}

fn ensure_memory(
    selected: ComputeDevice,
    control: &Control,
    case: &Case,
    heat: &HeatCase,
) -> Result<ComputeDevice, EngineError> {
    let ranks = &control.ranks;
    compute_device::ensure_memory(selected, control.device.choice, size_of_plate(heat), |_| {
        device_bytes(case, heat, ranks.size()).saturating_mul(ranks.ranks_on_device())
    })
}

/// Fails if the host does not have the memory that the plate needs.
fn check_memory(heat: &HeatCase, selected: &ComputeDevice, control: &Control) -> Result<(), EngineError> {
    let (needed, available) =
        (PlateFacts::host_bytes(heat, selected.device.is_some()), control.limits.memory);
    check_host_memory(needed, available, Path::new("[grid]"), size_of_plate(heat))
}
