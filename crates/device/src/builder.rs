//! Builds kernels and records the origin (compiler or cache) and build time of each.

use std::time::Duration;

use crate::device::Device;
use crate::error::DeviceError;
use crate::kernel::{KernelFile, Math, Module, ModuleOrigin};

/// Builds the kernels of one solver.
#[derive(Debug)]
pub struct KernelBuilder {
    device: Device,
    times: Vec<BuildTime>,
}

/// Origin and build time of a module.
#[derive(Clone, Debug, PartialEq)]
pub struct BuildTime {
    /// Kernel file, for example "tiled.cu".
    pub name: String,
    /// Compiler or cache.
    pub origin: ModuleOrigin,
    /// Time that the build took.
    pub time: Duration,
}

impl KernelBuilder {
    /// Creates a builder that has built nothing.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), times: Vec::new() }
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Builds a kernel file as [`Device::build`] does.
    pub fn build(
        &mut self,
        file: &KernelFile<'_>,
        definitions: &[(&str, String)],
        math: Math,
    ) -> Result<Module, DeviceError> {
        let module = self.device.build(file, definitions, math)?;
        let (origin, time) = (module.origin(), module.build_time());
        self.times.push(BuildTime { name: file.name().to_owned(), origin, time });
        Ok(module)
    }

    /// Returns the builds so far, in order.
    pub fn times(&self) -> &[BuildTime] {
        &self.times
    }
}
