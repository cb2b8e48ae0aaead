//! Selection of the device that computes the forces, with a check of its memory.

use orrery_device::{Device, DeviceChoice};
use orrery_io::format_bytes;
use orrery_model::{Precision, format_count};
use orrery_particles::bodies::{DeviceSetup, needed_bytes};
use orrery_particles::settings::{GravitySettings, IntegratorChoice};
use orrery_particles::solver::device::DeviceStrategy;
use orrery_particles::solver::direct;
use orrery_simd::InstructionSet;

use crate::error::EngineError;

/// Returns the fastest measured strategy for the direct sum with `n` bodies on a device. `None` if
/// nothing was measured.
pub type Tuned = fn(&Device, usize, Precision) -> Option<direct::device::DirectDeviceStrategy>;

/// Which device a run should use. The default is the CPU.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRequest {
    /// The device, or how to choose one.
    pub choice: DeviceChoice,
    /// Source of measured strategies, if any.
    pub tuned: Option<Tuned>,
}

impl Default for DeviceRequest {
    fn default() -> Self {
        Self { choice: DeviceChoice::Cpu, tuned: None }
    }
}

/// The device that computes the forces, or the CPU.
#[derive(Clone, Debug)]
pub struct ComputeDevice {
    /// The device. `None` is the CPU.
    pub device: Option<Device>,
    /// Why `auto` did not select the device that it normally selects.
    pub reason: Option<String>,
}

impl ComputeDevice {
    fn cpu_fallback(reason: String) -> Self {
        Self { device: None, reason: Some(reason) }
    }
}

/// Prints for example "cuda:0, NVIDIA H200" or "cpu (avx512), 8 threads".
impl std::fmt::Display for ComputeDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.device {
            Some(device) => write!(f, "{}, {}", device.label(), device.properties().name)?,
            None => {
                let (set, threads) = (InstructionSet::best().name(), rayon::current_num_threads());
                let threads = format_count(threads as u64, "thread", "threads");
                write!(f, "cpu ({set}), {threads}")?;
            }
        }
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, "; {reason}"))
    }
}

/// Opens the device that `choice` selects on this machine.
pub fn select_device(choice: DeviceChoice) -> Result<ComputeDevice, EngineError> {
    Ok(ComputeDevice { device: Device::open(choice)?, reason: None })
}

/// Checks that the selected device has enough memory for `n` bodies. If it has not,
/// [`DeviceChoice::Auto`] falls back to the CPU and any other choice is an error.
pub fn ensure_memory(
    selected: ComputeDevice,
    choice: DeviceChoice,
    n: usize,
    gravity: &GravitySettings,
    integrator: IntegratorChoice,
) -> Result<ComputeDevice, EngineError> {
    let Some(device) = &selected.device else { return Ok(selected) };
    let (needed, free) = (needed_bytes(device, n as u64, gravity, integrator), device.memory()?.free);
    if needed <= free {
        return Ok(selected);
    }
    let (needed, free) = (format_bytes(needed), format_bytes(free));
    let label = device.label();
    if choice == DeviceChoice::Auto {
        return Ok(ComputeDevice::cpu_fallback(format!(
            "{} {needed} on {label}, {free} are free",
            format_count(n as u64, "body needs", "bodies need")
        )));
    }
    let device = device.title();
    Err(EngineError::DeviceMemory { device, count: n, needed, free })
}

/// Returns true if the setup has a strategy other than the default for `n` bodies.
pub fn is_tuned(setup: &DeviceSetup, n: usize, gravity: &GravitySettings) -> bool {
    setup.strategy != DeviceStrategy::resolve(&setup.device, n, gravity)
}

impl DeviceRequest {
    /// Returns the device and strategy for `n` bodies. `None` is the CPU. A `recorded` strategy,
    /// from the checkpoint of the run, takes precedence: the results then have the same bits.
    pub fn setup(
        &self,
        selected: &ComputeDevice,
        n: usize,
        gravity: &GravitySettings,
        recorded: Option<DeviceStrategy>,
    ) -> Option<DeviceSetup> {
        let device = selected.device.as_ref()?;
        let setup = DeviceSetup::new(device, n, gravity);
        let tuned = || match setup.strategy {
            DeviceStrategy::Direct(_) => self.tuned.and_then(|tuned| tuned(device, n, gravity.precision)),
            DeviceStrategy::Tree(_) => None,
        };
        Some(match recorded.or_else(|| tuned().map(DeviceStrategy::Direct)) {
            Some(strategy) => DeviceSetup { strategy, ..setup },
            None => setup,
        })
    }
}
