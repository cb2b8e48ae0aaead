//! Search for CUDA devices, and their properties.

use std::ffi::c_int;
use std::ptr;
use std::sync::{Arc, OnceLock};

use cudarc::driver::result::device as ask;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};

use super::nvrtc::Nvrtc;
use super::{Cuda, check_result};
use crate::choice::Backend;
use crate::driver::{DriverFault, Opened};
use crate::peaks;
use crate::properties::{DeviceKind, Properties};

/// The installed driver and compiler.
struct Installed {
    devices: usize,
    /// CUDA version that the driver supports: 1000 major + 10 minor.
    version: c_int,
    compiler: Nvrtc,
}

/// Returns the number of devices, or why none can be used.
pub(crate) fn device_count() -> Result<usize, String> {
    installed().map(|installed| installed.devices)
}

/// Returns driver and compiler. Searches for them at the first call.
fn installed() -> Result<&'static Installed, String> {
    static INSTALLED: OnceLock<Result<Installed, String>> = OnceLock::new();
    INSTALLED.get_or_init(find_installed).as_ref().map_err(Clone::clone)
}

fn find_installed() -> Result<Installed, String> {
    // Must come before all other calls: cudarc panics if the library does not exist.
    // SAFETY: loading the library only runs its initialisers.
    if !unsafe { sys::is_culib_present() } {
        return Err("no NVIDIA driver is installed (libcuda cannot be loaded)".to_owned());
    }
    let message = |fault: DriverFault| format!("{}: {}", fault.call, fault.message);
    let (mut devices, mut version) = (0, 0);
    // SAFETY: the library is loaded, and out-pointers point to locals.
    unsafe {
        check_result("cuInit", sys::cuInit(0)).map_err(message)?;
        check_result("cuDriverGetVersion", sys::cuDriverGetVersion(&raw mut version)).map_err(message)?;
        check_result("cuDeviceGetCount", sys::cuDeviceGetCount(&raw mut devices)).map_err(message)?;
    }
    if devices <= 0 {
        return Err("the NVIDIA driver reports none".to_owned());
    }
    let compiler =
        Nvrtc::load_for_driver((version / 1000).max(0) as u32).map_err(|why| format!("no NVRTC: {why}"))?;
    Ok(Installed { devices: devices as usize, version, compiler })
}

/// Opens a device: creates its context and reads its properties.
pub(crate) fn open(index: usize) -> Result<Opened, DriverFault> {
    let installed = installed().map_err(|why| DriverFault::new("cuInit", why))?;
    let mut device = 0;
    let mut context = ptr::null_mut();
    // SAFETY: the driver is loaded and initialised, and out-pointers point to locals.
    unsafe {
        check_result("cuDeviceGet", sys::cuDeviceGet(&raw mut device, index as c_int))?;
        check_result("cuDevicePrimaryCtxRetain", sys::cuDevicePrimaryCtxRetain(&raw mut context, device))?;
    }
    let properties = read_properties(index, device, installed)?;
    let capability = properties.capability.unwrap_or_default();
    let driver = Cuda { device, context, capability, compiler: &installed.compiler };
    Ok(Opened { properties, driver: Arc::new(driver) })
}

fn read_properties(
    index: usize,
    device: sys::CUdevice,
    installed: &Installed,
) -> Result<Properties, DriverFault> {
    let attribute = |attribute| {
        // SAFETY: the driver returned the device.
        let value = unsafe { ask::get_attribute(device, attribute) };
        value
            .map(|value| value.max(0) as u32)
            .map_err(|error| super::new_fault("cuDeviceGetAttribute", error.0))
    };
    let has = |name| attribute(name).map(|value| value != 0);
    let name = ask::get_name(device).map_err(|error| super::new_fault("cuDeviceGetName", error.0))?;
    // SAFETY: as above.
    let memory = unsafe { ask::total_mem(device) };
    let memory = memory.map_err(|error| super::new_fault("cuDeviceTotalMem", error.0))? as u64;
    let capability = (
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    );
    let sm_count = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let clock_hz = f64::from(attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?) * 1e3;
    let (peak_f32, peak_f64) = peaks::peak_rates(Some(capability), sm_count, clock_hz);
    // Two transfers per clock. The bus width is in bits.
    let memory_clock_hz = f64::from(attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?) * 1e3;
    let bus_bytes = f64::from(attribute(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?) / 8.0;
    let bandwidth = 2.0 * memory_clock_hz * bus_bytes;
    Ok(Properties {
        name,
        backend: Backend::Cuda,
        index,
        kind: DeviceKind::Gpu,
        vendor: "NVIDIA".to_owned(),
        memory,
        sm_count,
        clock_hz,
        version: format!("compute capability {}.{}", capability.0, capability.1),
        capability: Some(capability),
        driver: driver_version(installed.version),
        compiler: installed.compiler.title(),
        max_block_size: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        // CUDA accepts any address. Kernels load up to 16 bytes at once, and a cache line has 128.
        range_alignment: 128,
        shared_bytes: u64::from(attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?),
        warp_size: attribute(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
        has_warp_shuffle: true,
        has_f64: true,
        has_f16: capability >= (5, 3),
        has_textures: true,
        copy_engines: Some(attribute(Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT)?),
        can_map_host_memory: has(Attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY)?,
        is_integrated: has(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED)?,
        has_unified_addressing: has(Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING)?,
        // Without concurrent access, the host crashes if it accesses managed memory while any
        // kernel runs.
        has_managed_memory: has(Attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY)?
            && has(Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)?,
        compute_mode: compute_mode(attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)?),
        registers_per_sm: Some(attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?),
        threads_per_sm: Some(attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?),
        peak_f32,
        peak_f64,
        peak_bandwidth: (bandwidth > 0.0).then_some(bandwidth),
    })
}

/// Returns the name of a CUcomputemode.
fn compute_mode(mode: u32) -> Option<&'static str> {
    match mode {
        0 => Some("default"),
        2 => Some("prohibited"),
        3 => Some("exclusive process"),
        _ => None,
    }
}

/// Returns for example "580.65.06 (CUDA 13.0)". The driver API reports only the second number.
fn driver_version(version: c_int) -> String {
    let cuda = format!("CUDA {}.{}", version / 1000, version % 1000 / 10);
    let module = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    match module_version(&module) {
        Some(number) => format!("{number} ({cuda})"),
        None => cuda,
    }
}

/// Returns the version number in the first line of `/proc/driver/nvidia/version`.
fn module_version(text: &str) -> Option<&str> {
    let is_version =
        |word: &&str| word.contains('.') && word.bytes().all(|b| b == b'.' || b.is_ascii_digit());
    text.lines().next()?.split_whitespace().find(is_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_of_the_kernel_module_is_parsed() {
        let closed =
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n";
        let open =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC 12.2\n";
        assert_eq!(module_version(closed), Some("535.104.05"));
        assert_eq!(module_version(open), Some("580.65.06"));
        assert_eq!(module_version(""), None);
        assert_eq!(module_version("something else\n"), None);
    }
}
