//! The system that starts with the particles of a case.

use std::path::Path;

use orrery_fluids::settings::FluidSettings;
use orrery_fluids::{DeviceFluid, Fluid, FluidTeam};
use orrery_model::fluid::FluidParticles;

use super::start::start_particles;
use super::system::{FluidFacts, FluidSystem, system_error};
use super::warnings::setup_warnings;
use super::{host_bytes, particle_count};
use crate::case::{Case, FluidCase};
use crate::compute_device::{self, ComputeDevice, select_device_of};
use crate::control::{Control, RunEvent};
use crate::error::EngineError;
use crate::host_memory::check_host_memory;
use crate::system::{Plan, ReportFn, Stamp};

/// Creates the fluid of `case` on the selected device, or on the CPU if `auto` selected a device
/// that cannot compute it. Returns it with the case, which then has absolute paths.
pub(crate) fn start(
    case: &Case,
    fluid: &FluidCase,
    selected: ComputeDevice,
    control: &Control,
    report: &mut ReportFn<'_>,
) -> Result<(Case, FluidSystem), EngineError> {
    let (case, particles, settings, selected) =
        prepare(case, fluid, selected, control, false, &mut |event| report(event))?;
    report(RunEvent::Device(&selected));
    let now = Stamp { step: 0, time: case.time.known_start() };
    let facts = FluidFacts::new(&case, fluid, &particles);
    let n = particles.len();
    let strategy =
        selected.device.as_ref().map(|device| facts.strategy(device, n, &settings, control.device.tuned));
    let team = FluidTeam::lead(control.ranks.start_fluid(&selected)?);
    let placement = selected.device.as_ref().zip(strategy.as_ref());
    let fluid = Fluid::new_on_team(&team, particles, &settings, placement)
        .map_err(|error| system_error(error, None).at(now))?;
    Ok((case, FluidSystem::new(fluid, facts, now).with_ranks(control.ranks.size())))
}

/// Returns what a run of `case` would need. Its particles are generated or read.
/// Calls `warn` with each warning, which is one line.
pub(crate) fn plan(
    case: &Case,
    fluid: &FluidCase,
    control: &Control,
    warn: &mut dyn FnMut(&str),
) -> Result<Plan, EngineError> {
    let selected = select_device_of(&control.ranks, control.device.choice)?;
    let (case, particles, settings, selected) =
        prepare(case, fluid, selected, control, true, &mut |event| {
            if let RunEvent::InputWarning(text) = event {
                warn(text);
            }
        })?;
    let (n, bounds) = (particles.len(), particles.bounds);
    let ranks = control.ranks.size();
    let device_bytes =
        selected.device.as_ref().map(|_| DeviceFluid::device_bytes_of_rank(n, ranks, &settings, &bounds));
    Ok(Plan {
        case,
        size: particle_count(n as u64),
        host_bytes: host_bytes(n as u64),
        selected,
        device_bytes,
    })
}

fn prepare(
    case: &Case,
    fluid: &FluidCase,
    selected: ComputeDevice,
    control: &Control,
    is_plan: bool,
    report: &mut dyn FnMut(RunEvent<'_>),
) -> Result<(Case, FluidParticles, FluidSettings, ComputeDevice), EngineError> {
    let settings = fluid.settings(fluid.ensemble(case.units.boltzmann_constant()), &case.time);
    if let Some(count) = fluid.particle_count() {
        let (needed, available) = (host_bytes(count), control.limits.memory);
        check_host_memory(needed, available, Path::new("[particles]"), particle_count(count))?;
    }
    let particles = start_particles(case, fluid, &settings, control, is_plan, report)?;
    setup_warnings(case, fluid, &particles).iter().for_each(|text| report(RunEvent::InputWarning(text)));
    let (n, bounds) = (particles.len(), particles.bounds);
    let (needed, available) = (host_bytes(n as u64), control.limits.memory);
    check_host_memory(needed, available, Path::new("[particles]"), particle_count(n as u64))?;
    let selected = compute_device::ensure_support(selected, control.device.choice, |device| {
        DeviceFluid::check_support(device, n, &settings).err().map(|reason| reason.to_string())
    })?;
    let selected =
        compute_device::ensure_memory(selected, control.device.choice, particle_count(n as u64), |_| {
            let bytes = DeviceFluid::device_bytes_of_rank(n, control.ranks.size(), &settings, &bounds);
            bytes.saturating_mul(control.ranks.ranks_on_device())
        })?;
    let mut case = case.with_absolute_paths();
    case.time.start = Some(case.time.known_start());
    Ok((case, particles, settings, selected))
}
