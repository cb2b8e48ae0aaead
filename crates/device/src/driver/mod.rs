//! Interface of a driver, in terms of opaque handles. CUDA and OpenCL implement it.
//!
//! A handle is the driver's own identifier (a CUdeviceptr, a cl_mem, a CUstream and so on). The
//! safety contract of every `unsafe fn` below:
//! - A handle is used only with the driver that returned it, for its purpose, and not after it was
//!   freed.
//! - Byte counts are within both ends of a copy.
//! - Host pointers stay valid until the copy is done.
//!
//! The typed handles of this crate (buffer, queue, event, kernel) ensure it.

use std::sync::{Arc, OnceLock};

use crate::kernel::{Math, Resources};
use crate::launch::Dim3;
use crate::properties::Properties;

pub(crate) mod cuda;
mod memory;
pub(crate) mod opencl;
mod textures;

pub(crate) use memory::{MappedMemory, MemoryDriver, Pin, PitchedRows, PrefetchTarget};
pub(crate) use textures::{TextureDriver, TextureLimits, TextureObject};

/// Identifier of an object of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handle(pub(crate) u64);

/// A failed call to the driver.
#[derive(Clone, Debug)]
pub(crate) struct DriverFault {
    pub(crate) call: &'static str,
    /// Message of the driver.
    pub(crate) message: String,
    pub(crate) out_of_memory: bool,
    /// Whether the cause may be a kernel that was queued before.
    pub(crate) may_be_earlier_kernel: bool,
}

impl DriverFault {
    pub(crate) fn new(call: &'static str, message: impl Into<String>) -> Self {
        Self { call, message: message.into(), out_of_memory: false, may_be_earlier_kernel: false }
    }

    /// Returns the message. If an earlier kernel may be the cause, adds how to find it.
    pub(crate) fn into_message(self) -> String {
        if self.may_be_earlier_kernel && !waits_after_launch() {
            return format!(
                "{} (possibly caused by a kernel queued before: ORRERY_DEBUG=1 names it)",
                self.message
            );
        }
        self.message
    }
}

/// Returns whether ORRERY_DEBUG=1 requests a wait after every launch.
pub(crate) fn waits_after_launch() -> bool {
    static DEBUG: OnceLock<bool> = OnceLock::new();
    *DEBUG.get_or_init(|| std::env::var_os("ORRERY_DEBUG").is_some_and(|value| value == "1"))
}

/// Reason why a build failed.
#[derive(Clone, Debug)]
pub(crate) enum BuildFault {
    /// An error in the source, with the compiler's log.
    Log(String),
    /// A failed call to the compiler or driver.
    Fault(DriverFault),
}

impl From<DriverFault> for BuildFault {
    fn from(fault: DriverFault) -> Self {
        Self::Fault(fault)
    }
}

/// Bytes `offset` to `offset + bytes` of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemorySlice {
    pub(crate) memory: Handle,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

impl MemorySlice {
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.memory == other.memory
            && self.offset < other.offset + other.bytes
            && other.offset < self.offset + self.bytes
    }
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Argument {
    /// The first `len` of these bytes.
    Scalar { bytes: [u8; 8], len: usize },
    /// A pointer to this memory.
    Memory(MemorySlice),
    /// A texture, with its sampler if the driver has one.
    Texture { object: Handle, sampler: Option<Handle> },
}

impl Default for Argument {
    fn default() -> Self {
        Self::Scalar { bytes: [0; 8], len: 0 }
    }
}

/// Parameters of a kernel, as far as the driver reports them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters {
    pub(crate) count: Option<usize>,
    /// Size of each parameter. Empty if the driver does not report it.
    pub(crate) bytes: Vec<usize>,
}

/// Largest number of arguments of a kernel. A launch keeps them on the stack.
pub(crate) const MAX_ARGUMENTS: usize = 64;

/// Options of a compilation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompileOptions {
    pub math: Math,
    /// Largest number of registers per thread, for NVIDIA's compilers. Others ignore it.
    pub max_registers: Option<u32>,
}

/// A driver for one device. The module documentation has the contract of the unsafe functions, also
/// for the traits of memory and textures.
#[allow(clippy::missing_safety_doc, reason = "one contract, stated above")]
pub(crate) trait Driver: MemoryDriver + TextureDriver + Send + Sync {
    fn new_queue(&self) -> Result<Handle, DriverFault>;
    /// Creates a queue with the highest priority, or a usual one if the driver has no priorities.
    fn new_urgent_queue(&self) -> Result<Handle, DriverFault> {
        self.new_queue()
    }
    unsafe fn free_queue(&self, queue: Handle);
    unsafe fn finish(&self, queue: Handle) -> Result<(), DriverFault>;
    /// Waits for the work of all queues of the device.
    fn finish_all(&self) -> Result<(), DriverFault>;
    /// Queues an event.
    unsafe fn record(&self, queue: Handle) -> Result<Handle, DriverFault>;
    /// Makes the queue wait for an event.
    unsafe fn wait_for(&self, queue: Handle, event: Handle) -> Result<(), DriverFault>;
    unsafe fn is_done(&self, event: Handle) -> Result<bool, DriverFault>;
    /// Makes the calling thread wait for an event.
    unsafe fn wait(&self, event: Handle) -> Result<(), DriverFault>;
    /// Returns the time between two events. Both must be done.
    unsafe fn seconds_between(&self, earlier: Handle, later: Handle) -> Result<f64, DriverFault>;
    unsafe fn free_event(&self, event: Handle);

    /// Compiles a text with its prelude. Returns the module and the binary for `load_module`. The
    /// binary is empty if it should not be cached, because the driver has its own cache.
    fn compile_module(
        &self,
        name: &str,
        text: &str,
        options: CompileOptions,
    ) -> Result<(Handle, Vec<u8>), BuildFault>;
    fn load_module(&self, binary: &[u8]) -> Result<Handle, DriverFault>;
    unsafe fn unload_module(&self, module: Handle);
    /// Returns the kernel with this name, or None if there is none.
    unsafe fn find_function(&self, module: Handle, name: &str) -> Result<Option<Handle>, DriverFault>;
    unsafe fn free_function(&self, function: Handle);
    /// Returns the variable in constant memory with this name. None on a backend without such
    /// variables, where they are arguments of kernels.
    unsafe fn find_constant(&self, _module: Handle, _name: &str) -> Result<Option<MemorySlice>, DriverFault> {
        Ok(None)
    }
    unsafe fn parameters(&self, function: Handle) -> Result<Parameters, DriverFault>;
    unsafe fn resources(&self, function: Handle) -> Result<Resources, DriverFault>;
    /// Allows launches of a kernel with this much dynamic shared memory.
    unsafe fn allow_dynamic_shared(&self, function: Handle, bytes: u32) -> Result<(), DriverFault>;
    unsafe fn blocks_per_sm(&self, function: Handle, block_size: u32, dynamic_shared: u32) -> Option<u32>;
    unsafe fn launch(
        &self,
        queue: Handle,
        function: Handle,
        grid: Dim3,
        block: Dim3,
        dynamic_shared: u32,
        arguments: &[Argument],
    ) -> Result<(), DriverFault>;
    /// As `launch`, with blocks that are resident together and may wait for one another. One block
    /// always may.
    unsafe fn launch_cooperative(
        &self,
        queue: Handle,
        function: Handle,
        grid: Dim3,
        block: Dim3,
        dynamic_shared: u32,
        arguments: &[Argument],
    ) -> Result<(), DriverFault> {
        if grid.count() > 1 {
            return Err(DriverFault::new("cooperative launch", "this backend runs only one block that way"));
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.launch(queue, function, grid, block, dynamic_shared, arguments) }
    }

    /// Returns the CUDA context, for operations on two devices.
    fn context(&self) -> Option<Handle> {
        None
    }
    /// Returns whether kernels of this device can access memory of the CUDA device `other`.
    fn can_access(&self, _other: usize) -> bool {
        false
    }
    /// Allows kernels of this device to access memory of another context.
    unsafe fn enable_peer(&self, _context: Handle) -> Result<(), DriverFault> {
        Err(DriverFault::new("peer access", "not supported by this driver"))
    }
    /// Queues a copy between contexts. `from` and `to` are memory and context.
    unsafe fn copy_across(
        &self,
        _queue: Handle,
        _from: (MemorySlice, Handle),
        _to: (MemorySlice, Handle),
    ) -> Result<(), DriverFault> {
        Err(DriverFault::new("copy between devices", "not supported by this driver"))
    }
}

/// An opened device.
pub(crate) struct Opened {
    pub(crate) properties: Properties,
    pub(crate) driver: Arc<dyn Driver>,
}
