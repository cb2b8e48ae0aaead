//! Kernels: a source with its compile-time values, the module that it compiles to, and the kernels
//! of the module.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::choice::Backend;
use crate::device::Device;
use crate::driver::{CompileOptions, Handle, MAX_ARGUMENTS, Parameters};
use crate::error::DeviceError;
use crate::launch::Arg;
use crate::occupancy::BlockNeeds;
use crate::signature::{Declarations, Signature, find_declarations};

/// Precision of a kernel's arithmetic. The first three contract a multiplication and an addition to
/// an FMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Math {
    /// IEEE division and square root, with denormals.
    #[default]
    Precise,
    /// As `Precise`, but denormal f32 are flushed to zero.
    FlushToZero,
    /// Denormals flushed to zero, and approximate division, square root and functions.
    Fast,
    /// As `Precise`, with some of its guarantees removed.
    Flags(MathFlags),
}

impl Math {
    /// Returns the flags, or None for `Fast`, which has an option of its own.
    pub(crate) fn flags(self) -> Option<MathFlags> {
        match self {
            Self::Precise => Some(MathFlags::default()),
            Self::FlushToZero => Some(MathFlags { flush_to_zero: true, ..MathFlags::default() }),
            Self::Fast => None,
            Self::Flags(flags) => Some(flags),
        }
    }
}

/// Flags of a compiler that change the arithmetic of f32, one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MathFlags {
    /// Denormal f32 are flushed to zero (CUDA's `--ftz=true`).
    pub flush_to_zero: bool,
    /// Division of f32 has an error of up to 2 ulp (`--prec-div=false`).
    pub approximate_division: bool,
    /// The square root of f32 has an error of up to 3 ulp (`--prec-sqrt=false`). OpenCL has one
    /// option for division and square root.
    pub approximate_sqrt: bool,
    /// A product is rounded before it is added (`--fmad=false`).
    pub no_contraction: bool,
}

/// A kernel file in the dialect: its name in messages and its text.
///
/// Kernels are part of the program, like its Rust code. The compiler cannot check that a kernel
/// stays within its buffers, so the module that declares the file vouches for it, once:
///
/// ```
/// use orrery_device::KernelFile;
///
/// const TEXT: &str = "KERNEL(64) add(GLOBAL float* x, float amount, int n)
/// {
///     const int i = BLOCK_INDEX * 64 + THREAD;
///     if (i < n)
///         x[i] += amount;
/// }";
/// // SAFETY: `add` accesses the first n elements of x, and every launch passes x.len() as n.
/// const ADD: KernelFile = unsafe { KernelFile::new("add.cu", TEXT) };
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KernelFile<'a> {
    name: &'a str,
    text: &'a str,
}

impl<'a> KernelFile<'a> {
    /// Declares a kernel file. `name` appears in messages, for example "direct.cu".
    ///
    /// # Safety
    /// For all definitions that the file is built with and all launches of its kernels:
    /// - A kernel accesses only elements of the buffers that it is given, at their alignment, and
    ///   of existing buffers whose addresses its constant arrays contain.
    /// - It ends.
    /// - The declaration of a kernel does not depend on macros of the prelude or the compiler, such
    ///   as `__CUDA_ARCH__`, except for ON_CUDA and ON_OPENCL.
    ///
    /// A launch checks the number, order and types of the arguments against the declaration. It
    /// cannot check their values, such as a length. So kernels are launched only by the module that
    /// declares their file.
    pub const unsafe fn new(name: &'a str, text: &'a str) -> Self {
        Self { name, text }
    }

    /// Returns the name in messages.
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the text, for example to test what a compiler reports about it.
    pub const fn text(&self) -> &'a str {
        self.text
    }
}

/// A kernel file with its compile-time values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelSource<'a> {
    pub(crate) file: KernelFile<'a>,
    /// Macros that are defined before the text: name and value, such as `("BLOCK_SIZE", "256")`.
    pub(crate) definitions: &'a [(&'a str, String)],
    pub(crate) math: Math,
}

impl KernelSource<'_> {
    /// Returns the text for the compiler: the backend's prelude, the definitions, and the text with
    /// a `#line` directive, so that error messages name its file and lines.
    pub(crate) fn with_prelude(&self, backend: Backend) -> String {
        let mut full_text = match backend {
            Backend::Cuda => include_str!("prelude/cuda.h"),
            Backend::OpenCl => include_str!("prelude/opencl.h"),
        }
        .to_owned();
        for (name, value) in self.definitions {
            full_text.push_str(&format!("#define {name} {value}\n"));
        }
        if backend == Backend::Cuda && self.compile_options().max_registers.is_some() {
            full_text.push_str("#undef LAUNCH_BOUNDS\n#define LAUNCH_BOUNDS(T)\n");
        }
        if backend == Backend::OpenCl && self.math.flags().is_some_and(|flags| flags.no_contraction) {
            full_text.push_str("#pragma OPENCL FP_CONTRACT OFF\n");
        }
        full_text.push_str(&format!("#line 1 \"{}\"\n{}\n", self.file.name, self.file.text));
        full_text
    }

    /// Returns the options of the compiler. A definition of `MAX_REGISTERS` limits the registers
    /// per thread of all kernels of the file.
    pub(crate) fn compile_options(&self) -> CompileOptions {
        let limit = self.definitions.iter().find(|(name, _)| *name == "MAX_REGISTERS");
        CompileOptions { math: self.math, max_registers: limit.and_then(|(_, value)| value.parse().ok()) }
    }

    /// Returns the name of the file.
    pub(crate) fn name(&self) -> &str {
        self.file.name
    }

    /// Returns the kernels and constant arrays that the file declares.
    pub(crate) fn declarations(&self, backend: Backend) -> Result<Declarations, String> {
        let compiler = match backend {
            Backend::Cuda => "ON_CUDA",
            Backend::OpenCl => "ON_OPENCL",
        };
        let definitions = [&[(compiler, "1".to_owned())], self.definitions].concat();
        find_declarations(self.file.text, &definitions)
    }

    /// Returns the definitions for messages: "BLOCK_SIZE=256 TARGETS=4".
    pub(crate) fn definition_list(&self) -> String {
        let values: Vec<_> = self.definitions.iter().map(|(name, value)| format!("{name}={value}")).collect();
        values.join(" ")
    }
}

/// Source of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModuleOrigin {
    /// Compiled from its source.
    Compiled,
    /// Loaded from the cache on disk.
    Disk,
    /// Built earlier by this process.
    Memory,
}

/// A compiled kernel file.
#[derive(Clone)]
pub struct Module {
    pub(crate) code: Arc<LoadedModule>,
    /// Names of the constant arrays of this build that a [`crate::Constant`] exists of.
    pub(crate) constants_in_use: Arc<Mutex<HashSet<String>>>,
    pub(crate) origin: ModuleOrigin,
    pub(crate) build_time: Duration,
}

/// A module of the driver, unloaded when its last kernel is dropped.
pub(crate) struct LoadedModule {
    pub(crate) device: Device,
    pub(crate) name: String,
    /// Compile-time definitions, for example "BLOCK_SIZE=256 TARGETS=4".
    pub(crate) definitions: String,
    pub(crate) handle: Handle,
    pub(crate) declarations: Declarations,
    /// Kernels that were requested: name and bytes of dynamic shared memory.
    pub(crate) requested: Mutex<BTreeSet<(String, u32)>>,
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        // SAFETY: no kernel of the module is left. A running launch finishes first: OpenCL counts
        // references, and for CUDA `unload_module` waits.
        unsafe { self.device.driver().unload_module(self.handle) };
    }
}

impl Module {
    pub(crate) fn new(code: Arc<LoadedModule>, origin: ModuleOrigin, build_time: Duration) -> Self {
        Self { code, constants_in_use: Arc::default(), origin, build_time }
    }

    /// Returns the kernel with this name.
    pub fn kernel(&self, name: &str) -> Result<Kernel, DeviceError> {
        self.kernel_with_shared(name, 0)
    }

    /// Returns the kernel with this name, for launches with `dynamic_shared` bytes of shared memory
    /// in addition to that of its declarations. The kernel declares it with `DYNAMIC_SHARED`, or
    /// on CUDA with `extern __shared__`. On CUDA it may be larger than
    /// [`Properties::shared_bytes`](crate::Properties::shared_bytes).
    pub fn kernel_with_shared(&self, name: &str, dynamic_shared: u32) -> Result<Kernel, DeviceError> {
        let device = &self.code.device;
        let driver = device.driver();
        let call_error = |fault| device.error_from(fault, None);
        let missing = || DeviceError::Kernel {
            device: device.title(),
            module: self.code.name.clone(),
            name: name.to_owned(),
        };
        let signature = self.code.declarations.kernels.get(name).ok_or_else(missing)?;
        let build_error = |message| DeviceError::Build {
            device: device.title(),
            name: self.code.name.clone(),
            definitions: String::new(),
            log: message,
        };
        signature
            .check_dynamic_shared(dynamic_shared, device.properties().backend)
            .map_err(|why| build_error(format!("kernel {name}: {why}")))?;
        // SAFETY: the module is loaded.
        let found = unsafe { driver.find_function(self.code.handle, name) }.map_err(call_error)?;
        let handle = found.ok_or_else(missing)?;
        let mut kernel = Function {
            code: Arc::clone(&self.code),
            name: name.to_owned(),
            handle,
            resources: Resources::default(),
            dynamic_shared,
            signature: signature.clone(),
        };
        // SAFETY: the driver just returned the function, and `kernel` keeps its module loaded.
        let parameters = unsafe {
            if dynamic_shared > 0 {
                driver.allow_dynamic_shared(handle, dynamic_shared).map_err(call_error)?;
            }
            kernel.resources = driver.resources(handle).map_err(call_error)?;
            kernel.resources.shared_bytes += dynamic_shared;
            // A CUDA kernel with a limit of registers has no bounds that the driver could report.
            if let Some(declared) = signature.block_size {
                kernel.resources.max_block_size = kernel.resources.max_block_size.min(declared);
            }
            driver.parameters(handle).map_err(call_error)?
        };
        kernel.check_signature(&parameters).map_err(build_error)?;
        let mut requested = self.code.requested.lock().unwrap_or_else(PoisonError::into_inner);
        requested.insert((name.to_owned(), dynamic_shared));
        Ok(Kernel(Arc::new(kernel)))
    }

    /// Returns whether the module was compiled or loaded from a cache.
    pub fn origin(&self) -> ModuleOrigin {
        self.origin
    }

    /// Returns the time that the build took.
    pub fn build_time(&self) -> Duration {
        self.build_time
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({} on {}, {:?})", self.code.name, self.code.device.label(), self.origin)
    }
}

/// Resources that a kernel uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// 32-bit registers per thread. None if the driver does not report them.
    pub registers: Option<u32>,
    /// Bytes of shared memory per block.
    pub shared_bytes: u32,
    /// Bytes per thread that are spilled from registers to memory. None if the driver does not
    /// report them.
    pub spill_bytes: Option<u32>,
    /// Largest block size of this kernel.
    pub max_block_size: u32,
}

/// A kernel that a queue can launch. Clones refer to the same kernel.
#[derive(Clone)]
pub struct Kernel(Arc<Function>);

struct Function {
    code: Arc<LoadedModule>,
    name: String,
    handle: Handle,
    resources: Resources,
    /// Bytes of dynamic shared memory per block.
    dynamic_shared: u32,
    signature: Signature,
}

impl Function {
    /// Compares the signature with the parameters that the driver reports. They differ only if the
    /// declaration was not understood. The error is the text for a message.
    fn check_signature(&self, reported: &Parameters) -> Result<(), String> {
        let declared = self.signature.parameters.len();
        let backend = self.code.device.properties().backend;
        let error = |message: String| Err(format!("kernel {}: {message}", self.name));
        if declared > MAX_ARGUMENTS {
            return error(format!("{declared} parameters, expected at most {MAX_ARGUMENTS}"));
        }
        let counted = self.signature.driver_parameters(backend);
        if let Some(count) = reported.count.filter(|&count| count != counted) {
            return error(format!("{counted} parameters are declared, the driver reports {count}"));
        }
        for ((name, parameter), &bytes) in self.signature.parameters.iter().zip(&reported.bytes) {
            if parameter.size() != bytes {
                return error(format!("{name} is declared as {parameter}, the driver reports {bytes} bytes"));
            }
        }
        Ok(())
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        // SAFETY: this was the last user of the handle. The driver finishes queued launches.
        unsafe { self.code.device.driver().free_function(self.handle) };
    }
}

impl Kernel {
    /// Returns the kernel's name in the source.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the name of the kernel file.
    pub fn file(&self) -> &str {
        &self.0.code.name
    }

    /// Returns the compile-time definitions of the file, for example "BLOCK_SIZE=256 TARGETS=4".
    pub fn definitions(&self) -> &str {
        &self.0.code.definitions
    }

    /// Returns the resources that the kernel uses.
    pub fn resources(&self) -> Resources {
        self.0.resources
    }

    /// Returns the resources that blocks of this size need. None if the driver does not report
    /// registers.
    pub fn block_needs(&self, block_size: u32) -> Option<BlockNeeds> {
        let Resources { registers, shared_bytes, .. } = self.0.resources;
        Some(BlockNeeds { threads: block_size, registers: registers?, shared_bytes })
    }

    /// Returns the occupancy for this block size: the fraction of an SM's threads that can be
    /// resident. None if the driver does not report it.
    pub fn occupancy(&self, block_size: u32) -> Option<f64> {
        let threads = self.device().properties().threads_per_sm?;
        let blocks = self.blocks_per_sm(block_size)?;
        Some(f64::from(blocks) * f64::from(block_size) / f64::from(threads))
    }

    /// Returns the number of blocks of this size that can be resident on one SM. None if the driver
    /// does not report it.
    pub fn blocks_per_sm(&self, block_size: u32) -> Option<u32> {
        // SAFETY: the kernel is loaded.
        unsafe { self.device().driver().blocks_per_sm(self.0.handle, block_size, self.0.dynamic_shared) }
    }

    /// Returns the number of blocks of this size that the device runs at once. Assumes 4 per SM
    /// where the driver does not report it.
    pub fn resident_blocks(&self, block_size: u32) -> u32 {
        self.device().properties().sm_count.max(1) * self.blocks_per_sm(block_size).unwrap_or(4).max(1)
    }

    pub(crate) fn device(&self) -> &Device {
        &self.0.code.device
    }

    pub(crate) fn handle(&self) -> Handle {
        self.0.handle
    }

    pub(crate) fn dynamic_shared(&self) -> u32 {
        self.0.dynamic_shared
    }

    /// Checks the number and types of arguments. The error is the text for a message.
    pub(crate) fn check_arguments(&self, args: &[Arg<'_>]) -> Result<(), String> {
        let signature = &self.0.signature.parameters;
        if args.len() != signature.len() {
            return Err(format!("expected {} arguments, got {}", signature.len(), args.len()));
        }
        let arguments = args.iter().map(Arg::parameter_type);
        match arguments.enumerate().zip(signature).find(|((_, got), (_, expected))| !expected.accepts(*got)) {
            None => Ok(()),
            Some(((i, got), (name, expected))) => {
                Err(format!("argument {} ({name}): expected {expected}, got {got}", i + 1))
            }
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({} of {} on {})", self.0.name, self.0.code.name, self.device().label())
    }
}
