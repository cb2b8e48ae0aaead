//! Which OpenCL devices there are, and what they are. They are numbered through all platforms, in the
//! order in which the loader names them.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use opencl3::device::{CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU, Device};
use opencl3::error_codes::{ClError, DLOPEN_RUNTIME_LOAD_FAILED};
use opencl3::platform::{Platform, get_platforms};

use super::OpenCl;
use crate::choice::Backend;
use crate::driver::{Fault, Opened};
use crate::peaks;
use crate::properties::{DeviceKind, Properties};

/// A device that can be used, and the platform that drives it.
#[derive(Clone, Copy)]
struct Found {
    platform: Platform,
    device: Device,
}

/// How many devices, or why there is none.
pub(crate) fn count() -> Result<usize, String> {
    found().map(<[Found]>::len)
}

/// The GPUs among them; none is opened. Asking OpenCL loads every driver that is installed, and PoCL, which
/// comes with a whole compiler, takes tens of milliseconds and starts threads: not where there is no GPU.
pub(crate) fn gpus() -> Vec<usize> {
    if !may_have_gpu() {
        return Vec::new();
    }
    let found = found().unwrap_or_default();
    (0..found.len()).filter(|&index| kind(found[index].device) == DeviceKind::Gpu).collect()
}

/// Whether the kernel shows a GPU. On Linux every driver works through one of these.
fn may_have_gpu() -> bool {
    const NODES: [&str; 6] =
        ["/dev/dri", "/dev/nvidiactl", "/dev/kfd", "/dev/dxg", "/dev/mali0", "/dev/kgsl-3d0"];
    !cfg!(target_os = "linux") || NODES.iter().any(|node| Path::new(node).exists())
}

fn found() -> Result<&'static [Found], String> {
    static FOUND: OnceLock<Result<Vec<Found>, String>> = OnceLock::new();
    FOUND.get_or_init(look).as_deref().map_err(Clone::clone)
}

fn look() -> Result<Vec<Found>, String> {
    /// What the loader says where no driver is registered.
    const CL_PLATFORM_NOT_FOUND_KHR: i32 = -1001;
    let platforms = match get_platforms() {
        Ok(platforms) => platforms,
        Err(ClError(DLOPEN_RUNTIME_LOAD_FAILED)) => {
            return Err("there is no OpenCL loader here (libOpenCL cannot be loaded)".to_owned());
        }
        Err(ClError(CL_PLATFORM_NOT_FOUND_KHR)) => return Err("no OpenCL driver is installed".to_owned()),
        Err(error) => return Err(format!("clGetPlatformIDs: {error}")),
    };
    let mut found = Vec::new();
    for platform in platforms {
        // A platform without devices answers with an error.
        let devices = platform.get_devices(CL_DEVICE_TYPE_ALL).unwrap_or_default();
        found.extend(
            devices.into_iter().map(|id| Found { platform, device: Device::new(id) }).filter(is_usable),
        );
    }
    if found.is_empty() { Err("no OpenCL driver has one that can be used".to_owned()) } else { Ok(found) }
}

fn is_usable(found: &Found) -> bool {
    let device = found.device;
    let yes = |answer: Result<bool, ClError>| answer.unwrap_or(false);
    yes(device.available()) && yes(device.compiler_available()) && yes(device.endian_little())
}

fn kind(device: Device) -> DeviceKind {
    match device.dev_type().unwrap_or(0) {
        kind if kind & CL_DEVICE_TYPE_GPU != 0 => DeviceKind::Gpu,
        kind if kind & CL_DEVICE_TYPE_CPU != 0 => DeviceKind::Cpu,
        _ => DeviceKind::Other,
    }
}

pub(crate) fn open(index: usize) -> Result<Opened, Fault> {
    let found = found().map_err(|why| Fault::new("clGetPlatformIDs", why))?;
    let Found { platform, device } =
        *found.get(index).ok_or_else(|| Fault::new("clGetDeviceIDs", "there is no such device"))?;
    let properties = properties(index, platform, device)
        .map_err(|error| Fault::new("clGetDeviceInfo", error.to_string()))?;
    let driver = OpenCl::new(device, language(device), properties.memory)?;
    Ok(Opened { properties, driver: Arc::new(driver) })
}

fn properties(index: usize, platform: Platform, device: Device) -> Result<Properties, ClError> {
    let tidy = |text: String| text.trim_matches(|c: char| c == '\0' || c.is_whitespace()).to_owned();
    let extensions = device.extensions()?;
    let has = |name| extensions.split_whitespace().any(|extension| extension == name);
    let is_nvidia = has("cl_nv_device_attribute_query");
    let capability = if is_nvidia {
        Some((device.compute_capability_major_nv()?, device.compute_capability_minor_nv()?))
    } else {
        None
    };
    let kind = kind(device);
    let sm_count = device.max_compute_units()?;
    let clock_hz = f64::from(device.max_clock_frequency()?) * 1e6;
    let (peak_f32, peak_f64) = peaks::rates(capability, sm_count, clock_hz);
    let warp_size = match (is_nvidia, kind) {
        (true, _) => device.wrap_size_nv()?,
        (false, DeviceKind::Cpu) => device.native_vector_width_float().unwrap_or(1).max(1),
        // OpenCL 3.0 tells; before, 32 suits what is on the market.
        (false, _) => device.preferred_work_group_size_multiple().map_or(32, |lanes| lanes as u32),
    };
    Ok(Properties {
        name: tidy(device.name()?),
        backend: Backend::OpenCl,
        index,
        kind,
        vendor: tidy(device.vendor()?),
        memory: device.global_mem_size()?,
        sm_count,
        clock_hz,
        version: tidy(device.version()?),
        capability,
        driver: tidy(device.driver_version()?),
        compiler: format!("{}, {}", tidy(platform.version()?), language(device)),
        max_block_size: device.max_work_group_size()? as u32,
        shared_bytes: device.local_mem_size()?,
        warp_size,
        has_f64: device.double_fp_config().unwrap_or(0) != 0,
        registers_per_sm: None,
        threads_per_sm: None,
        peak_f32,
        peak_f64,
        peak_bandwidth: None,
    })
}

/// The compiler's option for the language: the newest that is of use, which is one whose fences order the
/// whole device.
fn language(device: Device) -> &'static str {
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
