//! Properties of a device.

use crate::choice::Backend;

/// Kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// GPU.
    Gpu,
    /// The CPU, through OpenCL.
    Cpu,
    /// Another accelerator.
    Other,
}

/// Memory of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Free memory. OpenCL does not report it, so there it is all memory that this process has not
    /// allocated.
    pub free: u64,
    /// Total memory.
    pub total: u64,
}

/// Properties that the driver reports for a device, and those derived from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Properties {
    /// Name given by the vendor.
    pub name: String,
    /// Interface to the device.
    pub backend: Backend,
    /// Index among the devices of the backend.
    pub index: usize,
    /// GPU, CPU or other.
    pub kind: DeviceKind,
    /// Vendor.
    pub vendor: String,
    /// Memory in bytes.
    pub memory: u64,
    /// Number of SMs (compute units in OpenCL).
    pub sm_count: u32,
    /// Highest clock rate in Hz.
    pub clock_hz: f64,
    /// Version, for example "compute capability 9.0" or "OpenCL 3.0 CUDA".
    pub version: String,
    /// Compute capability (major, minor). Only for NVIDIA.
    pub capability: Option<(u32, u32)>,
    /// Version of the driver.
    pub driver: String,
    /// Version of the compiler. Part of the key of a cached kernel.
    pub compiler: String,
    /// Largest block size.
    pub max_block_size: u32,
    /// Largest shared memory per block, in bytes.
    pub shared_bytes: u64,
    /// Threads per warp. On OpenCL devices other than NVIDIA's, the preferred multiple of the block
    /// size.
    pub warp_size: u32,
    /// Alignment in bytes of the first element of a [`crate::BufferRange`] that is the argument of
    /// a kernel.
    pub range_alignment: usize,
    /// Whether the lanes of a warp exchange values by hardware shuffles and votes. If not, the
    /// dialect exchanges them through shared memory with barriers of the whole block. True with
    /// CUDA and with NVIDIA's OpenCL driver, whose compiler accepts PTX. False for all other
    /// OpenCL drivers, also on a GPU of NVIDIA: they compile the other branch of
    /// `prelude/opencl.h`. The vendor of the GPU therefore does not decide this, and neither does
    /// a compute capability, which other drivers may report too.
    pub has_warp_shuffle: bool,
    /// Whether the device has double precision.
    pub has_f64: bool,
    /// Whether the device computes in half precision.
    pub has_f16: bool,
    /// Whether kernels can read a [`crate::Texture`]. An OpenCL device may lack images.
    pub has_textures: bool,
    /// Number of engines that copy between host and device while kernels run. With two, copies in
    /// both directions overlap. None if the driver does not report it.
    pub copy_engines: Option<u32>,
    /// Whether kernels can access [`crate::Mapped`] host memory.
    pub can_map_host_memory: bool,
    /// Whether the device uses the memory of the host.
    pub is_integrated: bool,
    /// Whether host and device have one address space: CUDA's unified addressing, or shared virtual
    /// memory of OpenCL.
    pub has_unified_addressing: bool,
    /// Whether the device has [`crate::Managed`] memory that the host may access while kernels run.
    /// Only CUDA, on GPUs with page faults (compute capability 6.0 and later, on Linux).
    pub has_managed_memory: bool,
    /// CUDA's compute mode, "default", "exclusive process" or "prohibited". None on OpenCL.
    pub compute_mode: Option<&'static str>,
    /// 32-bit registers per SM. None if the driver does not report them.
    pub registers_per_sm: Option<u32>,
    /// Largest number of resident threads per SM. None if the driver does not report it.
    pub threads_per_sm: Option<u32>,
    /// Theoretical f32 rate in flop/s. An FMA counts as two. None if the architecture is unknown.
    pub peak_f32: Option<f64>,
    /// Theoretical f64 rate in flop/s, without tensor cores.
    pub peak_f64: Option<f64>,
    /// Theoretical memory bandwidth in bytes/s.
    pub peak_bandwidth: Option<f64>,
}
