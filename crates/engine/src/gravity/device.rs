//! The strategy that computes forces on a device: recorded, tuned or default.

use orrery_device::{Device, DeviceChoice};
use orrery_gravity::bodies::{DeviceSetup, needed_bytes};
use orrery_gravity::settings::{GravitySettings, IntegratorChoice};
use orrery_gravity::solver::device::DeviceStrategy;

use super::body_count;
use crate::compute_device::{self, ComputeDevice, Tuned};
use crate::control::RunEvent;
use crate::error::EngineError;
use crate::system::ReportFn;

/// Checks that the selected device has enough memory for `n` bodies on one rank. If it has not,
/// [`DeviceChoice::Auto`] falls back to the CPU and any other choice is an error.
pub fn ensure_memory(
    selected: ComputeDevice,
    choice: DeviceChoice,
    n: usize,
    settings: &GravitySettings,
    integrator: IntegratorChoice,
) -> Result<ComputeDevice, EngineError> {
    compute_device::ensure_memory(selected, choice, body_count(n as u64), |device| {
        needed_bytes(device, n as u64, settings, integrator, 1)
    })
}

/// Returns the device with the strategy for `n` bodies. A `recorded` strategy, from the checkpoint
/// of the run, takes precedence: the results then have the same bits. A `tuned` strategy replaces
/// the default.
pub fn device_setup(
    device: &Device,
    n: usize,
    settings: &GravitySettings,
    recorded: Option<DeviceStrategy>,
    tuned: Option<Tuned>,
) -> DeviceSetup {
    let setup = DeviceSetup::new(device, n, settings);
    let tuned = || {
        let (tuned, precision) = (tuned?, settings.precision);
        match setup.strategy {
            DeviceStrategy::Direct(_) => (tuned.direct)(device, n, precision).map(DeviceStrategy::Direct),
            DeviceStrategy::Tree(_) => (tuned.tree)(device, n, precision).map(DeviceStrategy::Tree),
        }
    };
    let strategy = recorded.or_else(tuned).unwrap_or(setup.strategy);
    DeviceSetup { strategy, ..setup }
}

/// Reports a strategy that is not the default for `n` bodies.
pub(super) fn report_tuned(
    setup: &DeviceSetup,
    n: usize,
    settings: &GravitySettings,
    report: &mut ReportFn<'_>,
) {
    if setup.strategy != DeviceStrategy::resolve(&setup.device, n, settings) {
        report(RunEvent::TunedStrategy(&setup.strategy.describe()));
    }
}

/// Returns the strategy of a device in JSON.
pub(super) fn strategy_text(strategy: &DeviceStrategy) -> String {
    serde_json::to_string(strategy).unwrap_or_default()
}

/// Reads the text of [`strategy_text`]. Returns `None` if `device` cannot use the strategy, or if
/// it has another precision or solver than the run.
pub(super) fn recorded_strategy(
    text: &str,
    device: &Device,
    settings: &GravitySettings,
    solver: &str,
) -> Option<DeviceStrategy> {
    let strategy: DeviceStrategy = serde_json::from_str(text).ok()?;
    let matches_run = strategy.precision() == settings.precision && strategy.name() == solver;
    (matches_run && strategy.fits(device)).then_some(strategy)
}
