//! Kernels: a source with its compile-time values, the module it compiles to, and what is in it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::choice::Backend;
use crate::device::Device;
use crate::driver::{Handle, MOST_ARGUMENTS, Parameters};
use crate::error::DeviceError;

/// How exact a kernel's arithmetic is. FMA contraction is on in all three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Math {
    /// Division and square root as IEEE has them, denormals kept.
    #[default]
    Precise,
    /// Denormal f32 count as zero.
    FlushToZero,
    /// Approximate division, square root and functions as well.
    Fast,
}

/// A kernel file in the dialect, with its compile-time values.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// "direct.cu": what messages call it.
    pub name: &'a str,
    /// The file's text.
    pub text: &'a str,
    /// NAME and value, defined before the text.
    pub definitions: &'a [(&'a str, String)],
    /// How exact.
    pub math: Math,
}

impl Source<'_> {
    /// All that the compiler sees: the backend's prelude, the values, and the text under its own name and
    /// line numbers.
    pub(crate) fn whole(&self, backend: Backend) -> String {
        let mut whole = match backend {
            Backend::Cuda => include_str!("prelude/cuda.h"),
            Backend::OpenCl => include_str!("prelude/opencl.h"),
        }
        .to_owned();
        for (name, value) in self.definitions {
            whole.push_str(&format!("#define {name} {value}\n"));
        }
        whole.push_str(&format!("#line 1 \"{}\"\n{}\n", self.name, self.text));
        whole
    }

    /// "BLOCK_SIZE=256 TARGETS=4"
    pub(crate) fn values(&self) -> String {
        let values: Vec<_> = self.definitions.iter().map(|(name, value)| format!("{name}={value}")).collect();
        values.join(" ")
    }
}

/// Where a module came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The compiler.
    Compiled,
    /// The cache on the disk.
    Disk,
    /// This process had built it before.
    Memory,
}

/// A compiled source.
#[derive(Clone)]
pub struct Module {
    pub(crate) code: Arc<Code>,
    pub(crate) origin: Origin,
    pub(crate) build_time: Duration,
}

/// A module as the driver holds it; unloaded with its last kernel.
pub(crate) struct Code {
    pub(crate) device: Device,
    pub(crate) name: String,
    pub(crate) handle: Handle,
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: no kernel of it is left. A launch under way is finished first: by the driver on OpenCL,
        // which counts references, and here on CUDA, which does not.
        unsafe { self.device.driver().unload(self.handle) };
    }
}

impl Module {
    /// A kernel of this module by name.
    pub fn kernel(&self, name: &str) -> Result<Kernel, DeviceError> {
        let device = &self.code.device;
        let driver = device.driver();
        let call = |fault| device.fault(fault, None);
        // SAFETY: the module lives.
        let found = unsafe { driver.function(self.code.handle, name) }.map_err(call)?;
        let Some(handle) = found else {
            return Err(DeviceError::Kernel {
                device: device.title(),
                module: self.code.name.clone(),
                name: name.to_owned(),
            });
        };
        let mut kernel = Function {
            code: Arc::clone(&self.code),
            name: name.to_owned(),
            handle,
            resources: Resources::default(),
            parameters: Parameters::default(),
        };
        // SAFETY: the function was just given out and `kernel` keeps its module.
        unsafe {
            kernel.resources = driver.resources(handle).map_err(call)?;
            kernel.parameters = driver.parameters(handle).map_err(call)?;
        }
        Ok(Kernel(Arc::new(kernel)))
    }

    /// Where it came from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// How long this build took.
    pub fn build_time(&self) -> Duration {
        self.build_time
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({} on {}, {:?})", self.code.name, self.code.device.label(), self.origin)
    }
}

/// What a kernel uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// 32-bit registers a thread, where the driver tells.
    pub registers: Option<u32>,
    /// Bytes of local (shared) memory a group.
    pub shared_bytes: u32,
    /// Bytes a thread keeps in slow memory for want of registers, where the driver tells.
    pub spill_bytes: Option<u32>,
    /// Most threads in a group of this kernel.
    pub max_block_size: u32,
}

/// A function that a queue can launch. Clones are the same function.
#[derive(Clone)]
pub struct Kernel(Arc<Function>);

struct Function {
    code: Arc<Code>,
    name: String,
    handle: Handle,
    resources: Resources,
    parameters: Parameters,
}

impl Drop for Function {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handle; the driver lets queued launches finish.
        unsafe { self.code.device.driver().free_function(self.handle) };
    }
}

impl Kernel {
    /// Its name in the source.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What it uses.
    pub fn resources(&self) -> Resources {
        self.0.resources
    }

    /// Share of a multiprocessor's threads that can be resident at this group size; None where the driver
    /// does not tell.
    pub fn occupancy(&self, group: u32) -> Option<f64> {
        let threads = self.device().properties().threads_per_sm?;
        let groups = self.blocks_per_sm(group)?;
        Some(f64::from(groups) * f64::from(group) / f64::from(threads))
    }

    /// Groups of this size that one multiprocessor holds at once; None where the driver does not tell.
    pub fn blocks_per_sm(&self, group: u32) -> Option<u32> {
        // SAFETY: the kernel lives.
        unsafe { self.device().driver().blocks_per_sm(self.0.handle, group) }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.0.code.device
    }

    pub(crate) fn handle(&self) -> Handle {
        self.0.handle
    }

    /// Fails, with words for the message, unless the kernel takes `got` arguments.
    pub(crate) fn check_count(&self, got: usize) -> Result<(), String> {
        match self.0.parameters.count {
            Some(count) if count != got => Err(format!("it takes {count} arguments, got {got}")),
            _ if got > MOST_ARGUMENTS => {
                Err(format!("{got} arguments; at most {MOST_ARGUMENTS} are allowed"))
            }
            _ => Ok(()),
        }
    }

    /// Fails unless argument `i` (from 0) has `got` bytes.
    pub(crate) fn check_bytes(&self, i: usize, got: usize) -> Result<(), String> {
        match self.0.parameters.bytes.get(i) {
            Some(&bytes) if bytes != got => Err(format!("argument {} has {bytes} bytes, got {got}", i + 1)),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({} of {} on {})", self.0.name, self.0.code.name, self.device().label())
    }
}
