//! Builds kernels and records the origin (compiler or cache) and build time of each.

use std::time::Duration;

use orrery_device::{Device, DeviceError, Math, Module, Origin, Source};

/// Builds the kernels of one solver.
pub(crate) struct Builder {
    pub device: Device,
    /// Name, origin and build time of each module built so far.
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
