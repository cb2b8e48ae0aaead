//! Search for OpenCL devices, and their properties. Devices of all platforms are numbered together,
//! in the order of the loader.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use opencl3::device::{CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU, Device};
use opencl3::error_codes::{ClError, DLOPEN_RUNTIME_LOAD_FAILED};
use opencl3::platform::{Platform, get_platforms};

use super::OpenCl;
use crate::choice::Backend;
use crate::driver::{DriverFault, Opened, TextureDriver};
use crate::peaks;
use crate::properties::{DeviceKind, Properties};

/// A usable device and its platform.
#[derive(Clone, Copy)]
struct PlatformDevice {
    platform: Platform,
    device: Device,
}

/// Returns the number of devices, or why there is none.
pub(crate) fn device_count() -> Result<usize, String> {
    devices().map(<[PlatformDevice]>::len)
}

/// Returns the indices of the GPUs. Opens none of them. If the machine has no GPU, it does not call
/// OpenCL at all: the first call loads every installed driver, and PoCL, which contains a compiler,
/// takes tens of milliseconds and starts threads.
pub(crate) fn gpu_indices() -> Vec<usize> {
    if !may_have_gpu() {
        return Vec::new();
    }
    let devices = devices().unwrap_or_default();
    (0..devices.len()).filter(|&index| device_kind(devices[index].device) == DeviceKind::Gpu).collect()
}

/// Returns whether the machine may have a GPU. On Linux every driver uses one of these device
/// files.
fn may_have_gpu() -> bool {
    const NODES: [&str; 6] =
        ["/dev/dri", "/dev/nvidiactl", "/dev/kfd", "/dev/dxg", "/dev/mali0", "/dev/kgsl-3d0"];
    !cfg!(target_os = "linux") || NODES.iter().any(|node| Path::new(node).exists())
}

/// Returns the usable devices. Searches for them at the first call.
fn devices() -> Result<&'static [PlatformDevice], String> {
    static DEVICES: OnceLock<Result<Vec<PlatformDevice>, String>> = OnceLock::new();
    DEVICES.get_or_init(find_devices).as_deref().map_err(Clone::clone)
}

/// Variable with a list of drivers for the loader.
const DRIVER_LIST: &str = "OCL_ICD_FILENAMES";

/// Returns the variable with the list of drivers as it was before the loader read it.
///
/// The Khronos loader splits the list in place: it writes NUL characters into the environment of
/// the process. A child process would then see the first driver only.
fn driver_list() -> Option<&'static OsString> {
    static LIST: OnceLock<Option<OsString>> = OnceLock::new();
    LIST.get_or_init(|| std::env::var_os(DRIVER_LIST)).as_ref()
}

/// Returns the variables that a child process needs to find the same devices as this process.
pub fn child_environment() -> Option<(&'static str, OsString)> {
    driver_list().map(|list| (DRIVER_LIST, list.clone()))
}

fn find_devices() -> Result<Vec<PlatformDevice>, String> {
    // Before the first call of the loader.
    driver_list();
    /// Error of the loader if no driver is registered.
    const CL_PLATFORM_NOT_FOUND_KHR: i32 = -1001;
    let platforms = match get_platforms() {
        Ok(platforms) => platforms,
        Err(ClError(DLOPEN_RUNTIME_LOAD_FAILED)) => {
            return Err("no OpenCL loader is installed (libOpenCL cannot be loaded)".to_owned());
        }
        Err(ClError(CL_PLATFORM_NOT_FOUND_KHR)) => return Err("no OpenCL driver is installed".to_owned()),
        Err(error) => return Err(format!("clGetPlatformIDs: {error}")),
    };
    let mut found = Vec::new();
    for platform in platforms {
        // A platform without devices returns an error.
        let devices = platform.get_devices(CL_DEVICE_TYPE_ALL).unwrap_or_default();
        found.extend(
            devices
                .into_iter()
                .map(|id| PlatformDevice { platform, device: Device::new(id) })
                .filter(is_usable),
        );
    }
    if found.is_empty() { Err("no OpenCL driver has a usable device".to_owned()) } else { Ok(found) }
}

fn is_usable(found: &PlatformDevice) -> bool {
    let device = found.device;
    let is_true = |answer: Result<bool, ClError>| answer.unwrap_or(false);
    is_true(device.available()) && is_true(device.compiler_available()) && is_true(device.endian_little())
}

fn device_kind(device: Device) -> DeviceKind {
    match device.dev_type().unwrap_or(0) {
        kind if kind & CL_DEVICE_TYPE_GPU != 0 => DeviceKind::Gpu,
        kind if kind & CL_DEVICE_TYPE_CPU != 0 => DeviceKind::Cpu,
        _ => DeviceKind::Other,
    }
}

/// Opens a device: creates its context and reads its properties.
pub(crate) fn open(index: usize) -> Result<Opened, DriverFault> {
    let devices = devices().map_err(|why| DriverFault::new("clGetPlatformIDs", why))?;
    let PlatformDevice { platform, device } = *devices
        .get(index)
        .ok_or_else(|| DriverFault::new("clGetDeviceIDs", format!("no device with index {index}")))?;
    let mut properties = read_properties(index, platform, device)
        .map_err(|error| DriverFault::new("clGetDeviceInfo", error.to_string()))?;
    let driver = OpenCl::new(device, language_option(device), properties.memory)?;
    properties.has_textures = driver.texture_limits().is_some();
    Ok(Opened { properties, driver: Arc::new(driver) })
}

fn read_properties(index: usize, platform: Platform, device: Device) -> Result<Properties, ClError> {
    let trimmed = |text: String| text.trim_matches(|c: char| c == '\0' || c.is_whitespace()).to_owned();
    let extensions = device.extensions()?;
    let has_extension = |name| extensions.split_whitespace().any(|extension| extension == name);
    let is_nvidia = has_extension("cl_nv_device_attribute_query");
    let capability = if is_nvidia {
        Some((device.compute_capability_major_nv()?, device.compute_capability_minor_nv()?))
    } else {
        None
    };
    let kind = device_kind(device);
    let sm_count = device.max_compute_units()?;
    let clock_hz = f64::from(device.max_clock_frequency()?) * 1e6;
    let (peak_f32, peak_f64) = peaks::peak_rates(capability, sm_count, clock_hz);
    let warp_size = match (is_nvidia, kind) {
        (true, _) => device.wrap_size_nv()?,
        (false, DeviceKind::Cpu) => device.native_vector_width_float().unwrap_or(1).max(1),
        // Reported since OpenCL 3.0. Before, 32 suits most devices.
        (false, _) => device.preferred_work_group_size_multiple().map_or(32, |size| size as u32),
    };
    Ok(Properties {
        name: trimmed(device.name()?),
        backend: Backend::OpenCl,
        index,
        kind,
        vendor: trimmed(device.vendor()?),
        memory: device.global_mem_size()?,
        sm_count,
        clock_hz,
        version: trimmed(device.version()?),
        capability,
        driver: trimmed(device.driver_version()?),
        compiler: format!("{}, {}", trimmed(platform.version()?), language_option(device)),
        max_block_size: device.max_work_group_size()? as u32,
        // Reported in bits.
        range_alignment: (device.mem_base_addr_align()? as usize / 8).max(128),
        shared_bytes: device.local_mem_size()?,
        warp_size,
        // The condition of the prelude, __NV_CL_C_VERSION, is set by NVIDIA's compiler.
        has_warp_shuffle: is_nvidia && trimmed(platform.vendor()?).starts_with("NVIDIA"),
        has_f64: device.double_fp_config().unwrap_or(0) != 0,
        has_f16: has_extension("cl_khr_fp16"),
        // Known when the context exists.
        has_textures: false,
        copy_engines: None,
        can_map_host_memory: true,
        is_integrated: device.host_unified_memory().unwrap_or(false),
        has_unified_addressing: device.svm_capabilities().unwrap_or(0) != 0,
        has_managed_memory: false,
        compute_mode: None,
        registers_per_sm: None,
        threads_per_sm: None,
        peak_f32,
        peak_f64,
        peak_bandwidth: None,
    })
}

/// Returns the compiler option for the language version. Versions with a memory fence for the whole
/// device are preferred.
fn language_option(device: Device) -> &'static str {
    let features = device.opencl_c_features().unwrap_or_default();
    let has_device_fences = features.iter().any(|feature| {
        let end = feature.name.iter().position(|&byte| byte == 0).unwrap_or(feature.name.len());
        feature.name[..end] == *b"__opencl_c_atomic_scope_device"
    });
    let is_2 = device.opencl_c_version().is_ok_and(|version| version.starts_with("OpenCL C 2."));
    match (has_device_fences, is_2) {
        (true, _) => "-cl-std=CL3.0",
        (false, true) => "-cl-std=CL2.0",
        (false, false) => "-cl-std=CL1.2",
    }
}
