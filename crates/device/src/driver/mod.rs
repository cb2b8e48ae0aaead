//! What a driver must do, in terms of opaque handles; CUDA and OpenCL each do it.
//!
//! A handle is whatever the driver gave out (a CUdeviceptr, a cl_mem, a CUstream ...). Invariants, kept by
//! the typed handles of this crate (buffer, queue, event, kernel), are the safety contract of every `unsafe
//! fn` below: a handle is used only with the driver that gave it, for what it was given, and not after it
//! was freed; byte counts lie within both ends; host pointers stay valid until the copy is done.

use std::sync::{Arc, OnceLock};

use crate::kernel::{Math, Resources};
use crate::properties::{Memory, Properties};

pub(crate) mod cuda;
pub(crate) mod opencl;

/// Something of the driver's, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handle(pub(crate) u64);

/// Page-locked host memory: zeroed, aligned for every element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pin {
    pub(crate) pointer: *mut u8,
    pub(crate) handle: Handle,
}

/// A call that failed.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) call: &'static str,
    pub(crate) word: String,
    pub(crate) out_of_memory: bool,
    /// Whether it may come from a kernel that was queued before.
    pub(crate) of_a_kernel: bool,
}

impl Fault {
    pub(crate) fn new(call: &'static str, word: impl Into<String>) -> Self {
        Self { call, word: word.into(), out_of_memory: false, of_a_kernel: false }
    }

    /// The driver's word, and where to look when the fault lies elsewhere.
    pub(crate) fn said(self) -> String {
        if self.of_a_kernel && !is_debug() {
            return format!(
                "{}; a kernel that was queued before may be at fault, ORRERY_DEBUG=1 names it",
                self.word
            );
        }
        self.word
    }
}

/// Whether ORRERY_DEBUG=1 asks for a wait after every launch.
pub(crate) fn is_debug() -> bool {
    static DEBUG: OnceLock<bool> = OnceLock::new();
    *DEBUG.get_or_init(|| std::env::var_os("ORRERY_DEBUG").is_some_and(|value| value == "1"))
}

/// Why there is no module.
#[derive(Clone, Debug)]
pub(crate) enum BuildFault {
    /// The source is wrong.
    Log(String),
    /// The compiler or the driver is.
    Fault(Fault),
}

impl From<Fault> for BuildFault {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// An argument of a kernel as the driver takes it: its bytes, of which `len` count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packed {
    pub(crate) bytes: [u8; 8],
    pub(crate) len: usize,
}

/// What a kernel takes: how many arguments, and how long each is where the driver tells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters {
    pub(crate) count: Option<usize>,
    pub(crate) bytes: Vec<usize>,
}

/// Most arguments of a kernel; lets a launch live on the stack.
pub(crate) const MOST_ARGUMENTS: usize = 64;

/// A driver at work on one device. See the module's text for the contract of the unsafe functions.
#[allow(clippy::missing_safety_doc, reason = "one contract, stated above")]
pub(crate) trait Driver: Send + Sync {
    fn memory(&self, held: u64) -> Result<Memory, Fault>;
    /// Most bytes that one more buffer may have, where the driver would refuse them only at their first use.
    fn largest_buffer(&self, held: u64) -> u64;
    fn allocate(&self, bytes: u64) -> Result<Handle, Fault>;
    unsafe fn free(&self, memory: Handle);
    fn pin(&self, bytes: usize) -> Result<Pin, Fault>;
    unsafe fn unpin(&self, pin: Pin, bytes: usize);

    fn new_queue(&self) -> Result<Handle, Fault>;
    unsafe fn free_queue(&self, queue: Handle);
    unsafe fn finish(&self, queue: Handle) -> Result<(), Fault>;
    /// Sets bytes to zero, some time later.
    unsafe fn clear(&self, queue: Handle, memory: Handle, bytes: usize) -> Result<(), Fault>;
    /// Returns when `from` was read.
    unsafe fn write(&self, queue: Handle, to: Handle, from: *const u8, bytes: usize) -> Result<(), Fault>;
    /// Returns when `to` was written.
    unsafe fn read(&self, queue: Handle, from: Handle, to: *mut u8, bytes: usize) -> Result<(), Fault>;
    /// As `read`, but returns at once.
    unsafe fn read_async(&self, queue: Handle, from: Handle, to: *mut u8, bytes: usize) -> Result<(), Fault>;
    unsafe fn copy(&self, queue: Handle, from: Handle, to: Handle, bytes: usize) -> Result<(), Fault>;

    unsafe fn record(&self, queue: Handle) -> Result<Handle, Fault>;
    unsafe fn wait_for(&self, queue: Handle, event: Handle) -> Result<(), Fault>;
    unsafe fn is_done(&self, event: Handle) -> Result<bool, Fault>;
    unsafe fn wait(&self, event: Handle) -> Result<(), Fault>;
    /// Both must be done.
    unsafe fn seconds_between(&self, earlier: Handle, later: Handle) -> Result<f64, Fault>;
    unsafe fn free_event(&self, event: Handle);

    /// Compiles a text with its prelude; gives the module and the bytes that `load` takes.
    fn compile(&self, name: &str, text: &str, math: Math) -> Result<(Handle, Vec<u8>), BuildFault>;
    fn load(&self, binary: &[u8]) -> Result<Handle, Fault>;
    unsafe fn unload(&self, module: Handle);
    /// None: there is no kernel of that name.
    unsafe fn function(&self, module: Handle, name: &str) -> Result<Option<Handle>, Fault>;
    unsafe fn free_function(&self, function: Handle);
    unsafe fn parameters(&self, function: Handle) -> Result<Parameters, Fault>;
    unsafe fn resources(&self, function: Handle) -> Result<Resources, Fault>;
    unsafe fn blocks_per_sm(&self, function: Handle, group: u32) -> Option<u32>;
    unsafe fn launch(
        &self,
        queue: Handle,
        function: Handle,
        groups: u32,
        group: u32,
        arguments: &[Packed],
    ) -> Result<(), Fault>;

    /// CUDA's context, for what concerns two devices.
    fn context(&self) -> Option<Handle> {
        None
    }
    /// Whether kernels here could reach memory of the CUDA device `other`.
    fn can_reach(&self, _other: usize) -> bool {
        false
    }
    /// Lets kernels here reach memory of another context.
    unsafe fn enable_peer(&self, _context: Handle) -> Result<(), Fault> {
        Err(Fault::new("peer access", "this driver has none"))
    }
    /// Copies between contexts.
    unsafe fn copy_across(
        &self,
        _queue: Handle,
        _from: (Handle, Handle),
        _to: (Handle, Handle),
        _bytes: usize,
    ) -> Result<(), Fault> {
        Err(Fault::new("copy between devices", "this driver has none"))
    }
}

/// A device that was opened.
pub(crate) struct Opened {
    pub(crate) properties: Properties,
    pub(crate) driver: Arc<dyn Driver>,
}
