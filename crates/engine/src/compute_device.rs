//! Selection of the device that computes, with a check of its memory.

use orrery_device::{Device, DeviceChoice};
use orrery_fields::heat::device::HeatDeviceStrategy;
use orrery_fields::wave::device::{WaveDeviceStrategy, WaveShape};
use orrery_fluids::FluidStrategy;
use orrery_formats::format_bytes;
use orrery_gravity::solver::direct::device::DirectDeviceStrategy;
use orrery_gravity::solver::tree::device::TreeDeviceStrategy;
use orrery_model::{Precision, format_count};
use orrery_simd::InstructionSet;

use crate::error::EngineError;
use crate::system::Size;
use crate::team::Ranks;

/// Sources of measured strategies, one per method that has been tuned.
#[derive(Clone, Copy, Debug)]
pub struct Tuned {
    /// Returns the fastest measured strategy for the direct sum with this number of bodies on a
    /// device. `None` if nothing was measured.
    pub direct: fn(&Device, usize, Precision) -> Option<DirectDeviceStrategy>,
    /// Returns the fastest measured strategy for the tree with this number of bodies on a device.
    /// `None` if nothing was measured.
    pub tree: fn(&Device, usize, Precision) -> Option<TreeDeviceStrategy>,
    /// Returns the fastest measured strategy for heat on a grid with this number of nodes, with or
    /// without a conductivity per node. `None` if nothing was measured.
    pub heat: fn(&Device, usize, Precision, bool) -> Option<HeatDeviceStrategy>,
    /// Returns the fastest measured strategy for waves on a grid of this shape, with or without a
    /// velocity per node. `None` if nothing was measured.
    pub wave: fn(&Device, WaveShape, bool) -> Option<WaveDeviceStrategy>,
    /// Returns the fastest measured strategy for a melt with this number of particles, whose skin
    /// is in units of σ. `None` if nothing was measured.
    pub fluid: fn(&Device, usize) -> Option<FluidStrategy>,
}

/// Which device a run should use. The default is the CPU.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRequest {
    /// The device, or how to choose one.
    pub choice: DeviceChoice,
    /// Sources of measured strategies, if any.
    pub tuned: Option<Tuned>,
}

impl Default for DeviceRequest {
    fn default() -> Self {
        Self { choice: DeviceChoice::Cpu, tuned: None }
    }
}

/// The device that computes, or the CPU.
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

/// Opens the device of rank 0.
pub(crate) fn select_device_of(ranks: &Ranks, choice: DeviceChoice) -> Result<ComputeDevice, EngineError> {
    let device = match ranks.size() {
        1 => Device::open(choice)?,
        _ => Device::open_for_rank(choice, ranks.local_rank())?,
    };
    Ok(ComputeDevice { device, reason: None })
}

/// Checks that the selected device can compute a system. `reason` returns why it cannot. Then
/// [`DeviceChoice::Auto`] falls back to the CPU and any other choice is an error.
pub fn ensure_support(
    selected: ComputeDevice,
    choice: DeviceChoice,
    reason: impl FnOnce(&Device) -> Option<String>,
) -> Result<ComputeDevice, EngineError> {
    let Some(device) = &selected.device else { return Ok(selected) };
    match reason(device) {
        None => Ok(selected),
        Some(reason) if choice == DeviceChoice::Auto => Ok(ComputeDevice::cpu_fallback(reason)),
        Some(reason) => Err(EngineError::DeviceUnsupported { device: device.title(), reason }),
    }
}

/// Checks that the selected device has the memory that a system of this size needs there. If it has
/// not, [`DeviceChoice::Auto`] falls back to the CPU and any other choice is an error.
pub fn ensure_memory(
    selected: ComputeDevice,
    choice: DeviceChoice,
    size: Size,
    needed_bytes: impl FnOnce(&Device) -> u64,
) -> Result<ComputeDevice, EngineError> {
    let Some(device) = &selected.device else { return Ok(selected) };
    let (needed, free) = (needed_bytes(device), device.memory()?.free);
    if needed <= free {
        return Ok(selected);
    }
    let (needed, free) = (format_bytes(needed), format_bytes(free));
    if choice == DeviceChoice::Auto {
        let label = device.label();
        let reason = format!("{} {needed} on {label}, {free} are free", size.need_text());
        return Ok(ComputeDevice::cpu_fallback(reason));
    }
    Err(EngineError::DeviceMemory { device: device.title(), size, needed, free })
}
