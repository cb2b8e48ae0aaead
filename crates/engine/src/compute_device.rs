//! Where a run computes: on the device that was asked for, if it has room for the bodies.

use orrery_device::{Device, DeviceChoice};
use orrery_io::format_bytes;
use orrery_particles::bodies::{DeviceSetup, needed_bytes};
use orrery_particles::settings::{GravitySettings, IntegratorChoice, Precision};
use orrery_particles::simd::InstructionSet;
use orrery_particles::solver::device::DeviceStrategy;
use orrery_particles::solver::direct;

use crate::error::EngineError;

/// Knows how a device sums all pairs of so many bodies quickest, where someone has measured it.
pub type Tuned = fn(&Device, usize, Precision) -> Option<direct::device::DirectDeviceStrategy>;

/// What a run is told of where to compute; the processor, unless anything is said.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRequest {
    /// The device.
    pub choice: DeviceChoice,
    /// What was measured on devices.
    pub tuned: Option<Tuned>,
}

impl Default for DeviceRequest {
    fn default() -> Self {
        Self { choice: DeviceChoice::Cpu, tuned: None }
    }
}

/// Where forces are computed.
#[derive(Clone, Debug)]
pub struct ComputeDevice {
    /// `None` is the processor.
    pub device: Option<Device>,
    /// Why it is not the device that `auto` takes otherwise.
    pub reason: Option<String>,
}

impl ComputeDevice {
    fn processor(reason: String) -> Self {
        Self { device: None, reason: Some(reason) }
    }
}

/// In words: "cuda:0, NVIDIA H200" or "cpu (avx512), 8 threads".
impl std::fmt::Display for ComputeDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.device {
            Some(device) => write!(f, "{}, {}", device.label(), device.properties().name)?,
            None => {
                let (set, threads) = (InstructionSet::best().name(), rayon::current_num_threads());
                write!(f, "cpu ({set}), {threads} threads")?;
            }
        }
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, "; {reason}"))
    }
}

/// What `choice` means on this machine.
pub fn find(choice: DeviceChoice) -> Result<ComputeDevice, EngineError> {
    Ok(ComputeDevice { device: Device::open(choice)?, reason: None })
}

/// The same selected if it has room for `n` bodies; `auto` goes back to the processor where it has not.
pub fn with_room(
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
        return Ok(ComputeDevice::processor(format!("{n} bodies need {needed} on {label}, {free} are free")));
    }
    let device = device.title();
    Err(EngineError::DeviceMemory { device, count: n, needed, free })
}

/// Whether someone has found something better for `n` bodies than the default.
pub fn is_tuned(setup: &DeviceSetup, n: usize, gravity: &GravitySettings) -> bool {
    setup.strategy != DeviceStrategy::resolve(&setup.device, n, gravity)
}

impl DeviceRequest {
    /// The setup for `n` bodies on the selected device; `None` is the processor. A strategy that was `recorded` is used again, so that
    /// the bits are the same.
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
