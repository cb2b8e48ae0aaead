//! What a device is.

use crate::choice::Backend;

/// What sort of machine a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A graphics processor.
    Gpu,
    /// The processor itself, through OpenCL.
    Cpu,
    /// Anything else: an accelerator.
    Other,
}

/// Memory of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Not in use. OpenCL does not tell, so there it is all that this program does not hold.
    pub free: u64,
    /// All of it.
    pub total: u64,
}

/// What the driver tells of a device, and what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Properties {
    /// The maker's name for it.
    pub name: String,
    /// Who drives it.
    pub backend: Backend,
    /// Its number among the devices of that backend.
    pub index: usize,
    /// What sort of machine.
    pub kind: DeviceKind,
    /// The maker.
    pub vendor: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Multiprocessors, or OpenCL's compute units.
    pub sm_count: u32,
    /// The highest clock, in Hz.
    pub clock_hz: f64,
    /// "compute capability 9.0" or "OpenCL 3.0 CUDA".
    pub version: String,
    /// NVIDIA's number for the architecture.
    pub capability: Option<(u32, u32)>,
    /// The driver's version.
    pub driver: String,
    /// The compiler's version; part of the key of a cached kernel.
    pub compiler: String,
    /// Most threads in a group.
    pub max_block_size: u32,
    /// Bytes of local (shared) memory that a group may have.
    pub shared_bytes: u64,
    /// Threads that run in step: a warp, or the multiple that the driver prefers.
    pub warp_size: u32,
    /// Whether it computes in double precision.
    pub has_f64: bool,
    /// 32-bit registers of a multiprocessor, where the driver tells.
    pub registers_per_sm: Option<u32>,
    /// Threads resident on a multiprocessor at most, where the driver tells.
    pub threads_per_sm: Option<u32>,
    /// Theoretical f32 rate in flop/s, an FMA being two; None where the architecture is not known.
    pub peak_f32: Option<f64>,
    /// Theoretical f64 rate in flop/s, without tensor cores.
    pub peak_f64: Option<f64>,
    /// Theoretical memory bandwidth in bytes/s.
    pub peak_bandwidth: Option<f64>,
}
