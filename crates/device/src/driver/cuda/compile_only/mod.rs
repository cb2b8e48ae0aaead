//! A CUDA device without a GPU, for tests: it compiles kernels exactly as the CUDA driver does and
//! reports the resources they need, but does not run them.
//!
//! Device memory is host memory. Allocations, uploads, copies and downloads work, launches do
//! nothing. Code that launches kernels therefore compiles the same kernels as on the real device
//! and checks their arguments, and its results are meaningless.

mod memory;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use super::cubin::{self, CubinKernel};
use super::nvrtc::Nvrtc;
use super::ptx;
use crate::choice::Backend;
use crate::device::Device;
use crate::driver::{
    Argument, BuildFault, CompileOptions, Driver, DriverFault, Handle, MemorySlice, Opened, Parameters,
};
use crate::kernel::Resources;
use crate::launch::Dim3;
use crate::peaks;
use crate::properties::{DeviceKind, Properties};

/// A CUDA device that compiles kernels and does not run them.
pub struct CompileOnlyCuda {
    /// The device.
    pub device: Device,
    driver: Arc<CompileOnly>,
}

/// A kernel that was compiled for a [`CompileOnlyCuda`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledKernel {
    /// Kernel file, for example "walk.cu".
    pub file: String,
    /// Compile-time definitions, for example "BLOCK_SIZE=256 TARGETS=4".
    pub definitions: String,
    /// Name of the kernel.
    pub name: String,
    /// Resources that the kernel uses.
    pub resources: Resources,
}

/// Code that a [`CompileOnlyCuda`] compiles kernels to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestCode {
    /// Machine code, from which the registers and the local memory of kernels are read.
    Cubin,
    /// PTX. Takes two thirds of the time, and the resources of kernels are unknown.
    Ptx,
}

impl CompileOnlyCuda {
    /// Creates a device of this compute capability: 7.5, 8.0 or 9.0. Every call creates another
    /// device. Fails if NVRTC cannot be loaded.
    pub(crate) fn new(capability: (u32, u32), code: TestCode) -> Result<Self, String> {
        static COMPILER: LazyLock<Result<Nvrtc, String>> = LazyLock::new(Nvrtc::load_for_tests);
        let compiler = COMPILER.as_ref().map_err(Clone::clone)?;
        let properties = card_properties(capability, code, compiler.title());
        let driver = Arc::new(CompileOnly {
            capability,
            code,
            compiler,
            memory: Mutex::default(),
            modules: Mutex::default(),
        });
        let opened = Opened { properties, driver: Arc::clone(&driver) as Arc<dyn Driver> };
        let device = Device::from_driver(opened).map_err(|fault| fault.into_message())?;
        Ok(Self { device, driver })
    }

    /// Returns all kernels of all modules that were built so far.
    pub fn kernels(&self) -> Vec<CompiledKernel> {
        let modules = lock(&self.driver.modules);
        let kernels = modules.iter().flat_map(|module| {
            module.kernels.iter().map(|kernel| CompiledKernel {
                file: module.file.clone(),
                definitions: module.definitions.clone(),
                name: kernel.name.clone(),
                resources: self.driver.resources_of(kernel),
            })
        });
        kernels.collect()
    }
}

/// Returns the properties of a typical card: T4, A100 or H200.
fn card_properties(capability: (u32, u32), code: TestCode, compiler: String) -> Properties {
    let (name, sm_count, threads_per_sm, clock_hz, memory, bandwidth) = match capability {
        (7, 5) => ("T4", 40, 1024, 1.59e9, 16 << 30, 0.32e12),
        (8, 0) => ("A100", 108, 2048, 1.41e9, 40 << 30, 1.56e12),
        (9, 0) => ("H200", 132, 2048, 1.98e9, 140 << 30, 4.8e12),
        (major, minor) => panic!("no card of compute capability {major}.{minor} is described here"),
    };
    let (peak_f32, peak_f64) = peaks::peak_rates(Some(capability), sm_count, clock_hz);
    Properties {
        name: format!("NVIDIA {name}, compile only"),
        backend: Backend::Cuda,
        index: 0,
        kind: DeviceKind::Gpu,
        vendor: "NVIDIA".to_owned(),
        memory,
        sm_count,
        clock_hz,
        version: format!("compute capability {}.{}", capability.0, capability.1),
        capability: Some(capability),
        // Part of the key of a cached kernel, so that no real device uses the file format below.
        driver: format!("compile only, {code:?}"),
        compiler,
        max_block_size: 1024,
        range_alignment: 128,
        shared_bytes: 48 << 10,
        warp_size: 32,
        has_warp_shuffle: true,
        has_f64: true,
        has_f16: true,
        has_textures: true,
        copy_engines: Some(3),
        can_map_host_memory: true,
        is_integrated: false,
        has_unified_addressing: true,
        has_managed_memory: true,
        compute_mode: Some("default"),
        registers_per_sm: Some(65_536),
        threads_per_sm: Some(threads_per_sm),
        peak_f32,
        peak_f64,
        peak_bandwidth: Some(bandwidth),
    }
}

struct CompileOnly {
    capability: (u32, u32),
    code: TestCode,
    compiler: &'static Nvrtc,
    /// Device and pinned memory by address. The elements have the alignment of every element type.
    memory: Mutex<HashMap<u64, Box<[u128]>>>,
    /// Modules by handle. They are never removed.
    modules: Mutex<Vec<LoadedCode>>,
}

struct LoadedCode {
    file: String,
    definitions: String,
    kernels: Vec<CubinKernel>,
    /// Names and sizes in bytes of variables in constant memory.
    constants: Vec<(String, usize)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time between any two events. Not 0, because callers divide by it.
const SECONDS_BETWEEN_EVENTS: f64 = 1e-3;

/// Handle of every queue and event.
const DONE: Handle = Handle(0);

impl CompileOnly {
    fn allocate(&self, bytes: usize) -> *mut u8 {
        let mut memory = vec![0u128; bytes.div_ceil(size_of::<u128>()).max(1)].into_boxed_slice();
        let pointer = memory.as_mut_ptr();
        lock(&self.memory).insert(pointer as usize as u64, memory);
        pointer.cast()
    }

    /// Returns the kernel of a handle of `find_function`.
    fn kernel_of(&self, function: Handle) -> CubinKernel {
        lock(&self.modules)[(function.0 >> 32) as usize].kernels[function.0 as u32 as usize].clone()
    }

    fn resources_of(&self, kernel: &CubinKernel) -> Resources {
        let reserved = if self.capability >= (9, 0) { 1024 } else { 0 };
        let is_known = self.code == TestCode::Cubin;
        Resources {
            registers: is_known.then_some(kernel.registers),
            shared_bytes: kernel.shared_section_bytes.saturating_sub(reserved),
            spill_bytes: is_known.then_some(kernel.local_bytes),
            max_block_size: if kernel.max_block_size == 0 { 1024 } else { kernel.max_block_size },
        }
    }
}

/// Returns the definitions in front of a kernel file: "BLOCK_SIZE=256 TARGETS=4".
fn definitions_in(text: &str) -> String {
    let text = text.strip_prefix(include_str!("../../../prelude/cuda.h")).unwrap_or_default();
    let definitions = text.lines().map_while(|line| line.strip_prefix("#define "));
    definitions.map(|definition| definition.replacen(' ', "=", 1)).collect::<Vec<_>>().join(" ")
}

impl Driver for CompileOnly {
    fn new_queue(&self) -> Result<Handle, DriverFault> {
        Ok(DONE)
    }

    unsafe fn free_queue(&self, _queue: Handle) {}

    unsafe fn finish(&self, _queue: Handle) -> Result<(), DriverFault> {
        Ok(())
    }

    fn finish_all(&self) -> Result<(), DriverFault> {
        Ok(())
    }

    unsafe fn record(&self, _queue: Handle) -> Result<Handle, DriverFault> {
        Ok(DONE)
    }

    unsafe fn wait_for(&self, _queue: Handle, _event: Handle) -> Result<(), DriverFault> {
        Ok(())
    }

    unsafe fn is_done(&self, _event: Handle) -> Result<bool, DriverFault> {
        Ok(true)
    }

    unsafe fn wait(&self, _event: Handle) -> Result<(), DriverFault> {
        Ok(())
    }

    unsafe fn seconds_between(&self, _earlier: Handle, _later: Handle) -> Result<f64, DriverFault> {
        Ok(SECONDS_BETWEEN_EVENTS)
    }

    unsafe fn free_event(&self, _event: Handle) {}

    /// The binary starts with two lines, the file's name and the definitions, because a module that
    /// is loaded from the cache has to report them too. The code follows.
    fn compile_module(
        &self,
        name: &str,
        text: &str,
        options: CompileOptions,
    ) -> Result<(Handle, Vec<u8>), BuildFault> {
        let compiled = match self.code {
            TestCode::Cubin => self.compiler.compile(name, text, options, self.capability),
            TestCode::Ptx => self.compiler.compile_to_ptx(name, text, options, self.capability),
        };
        let mut binary = format!("{name}\n{}\n", definitions_in(text)).into_bytes();
        binary.extend(compiled?.code);
        Ok((self.load_module(&binary)?, binary))
    }

    fn load_module(&self, binary: &[u8]) -> Result<Handle, DriverFault> {
        let mut parts = binary.splitn(3, |byte| *byte == b'\n');
        let (Some(file), Some(definitions), Some(code)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(DriverFault::new("load_module", "the binary does not start with two lines"));
        };
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let (kernels, constants) = match self.code {
            TestCode::Cubin => (cubin::read_kernels(code), cubin::read_constants(code)),
            TestCode::Ptx => (ptx::read_kernels(&text(code)), ptx::read_constants(&text(code))),
        };
        let unreadable =
            || DriverFault::new("load_module", format!("the compiler's output is not {:?}", self.code));
        let (kernels, constants) = kernels.zip(constants).ok_or_else(unreadable)?;
        let mut modules = lock(&self.modules);
        modules.push(LoadedCode { file: text(file), definitions: text(definitions), kernels, constants });
        Ok(Handle(modules.len() as u64 - 1))
    }

    unsafe fn unload_module(&self, _module: Handle) {}

    unsafe fn find_function(&self, module: Handle, name: &str) -> Result<Option<Handle>, DriverFault> {
        let kernel = lock(&self.modules)[module.0 as usize].kernels.iter().position(|k| k.name == name);
        Ok(kernel.map(|kernel| Handle(module.0 << 32 | kernel as u64)))
    }

    unsafe fn free_function(&self, _function: Handle) {}

    unsafe fn find_constant(&self, module: Handle, name: &str) -> Result<Option<MemorySlice>, DriverFault> {
        let constants = &lock(&self.modules)[module.0 as usize].constants;
        let (_, bytes) = constants.iter().find(|(known, _)| known == name).ok_or_else(|| {
            DriverFault::new("find_constant", format!("no variable {name} in constant memory"))
        })?;
        let memory = Handle(self.allocate(*bytes) as usize as u64);
        Ok(Some(MemorySlice { memory, offset: 0, bytes: *bytes }))
    }

    unsafe fn parameters(&self, function: Handle) -> Result<Parameters, DriverFault> {
        let bytes = self.kernel_of(function).parameter_bytes;
        Ok(Parameters { count: Some(bytes.len()), bytes })
    }

    unsafe fn resources(&self, function: Handle) -> Result<Resources, DriverFault> {
        Ok(self.resources_of(&self.kernel_of(function)))
    }

    unsafe fn allow_dynamic_shared(&self, _function: Handle, _bytes: u32) -> Result<(), DriverFault> {
        Ok(())
    }

    unsafe fn blocks_per_sm(&self, _: Handle, _block_size: u32, _dynamic_shared: u32) -> Option<u32> {
        None
    }

    unsafe fn launch(
        &self,
        _queue: Handle,
        _function: Handle,
        _grid: Dim3,
        _block: Dim3,
        _dynamic_shared: u32,
        _arguments: &[Argument],
    ) -> Result<(), DriverFault> {
        Ok(())
    }

    unsafe fn launch_cooperative(
        &self,
        _queue: Handle,
        _function: Handle,
        _grid: Dim3,
        _block: Dim3,
        _dynamic_shared: u32,
        _arguments: &[Argument],
    ) -> Result<(), DriverFault> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
