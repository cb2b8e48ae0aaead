//! Kernels as they are built, with where they came from and how long that took.

use std::time::Duration;

use orrery_device::{Device, DeviceError, DeviceKind, Math, Module, Origin, Source};

/// Builds the kernels of one solver.
pub(crate) struct Builder {
    pub device: Device,
    /// What was built so far.
    pub times: Vec<(String, Origin, Duration)>,
}

impl Builder {
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), times: Vec::new() }
    }

    pub fn build(
        &mut self,
        name: &str,
        text: &str,
        definitions: &[(&str, String)],
        math: Math,
    ) -> Result<Module, DeviceError> {
        let module = self.device.build(&Source { name, text, definitions, math })?;
        self.times.push((name.to_owned(), module.origin(), module.build_time()));
        Ok(module)
    }
}

/// Whether lanes of a group can hand numbers to one another: NVIDIA's through CUDA or OpenCL. Elsewhere they go through
/// local memory.
pub(crate) fn has_warp_shuffle(device: &Device) -> bool {
    let properties = device.properties();
    properties.kind == DeviceKind::Gpu && properties.vendor.to_ascii_lowercase().contains("nvidia")
}
