//! Devices: found, opened once, and then valid until the process ends.
//!
//! Invariant: for each backend and index there is at most one `OpenDevice`. Handles are therefore
//! compared by address, and builds are shared. Compile-only devices of tests are not counted.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::buffer::Buffer;
use crate::builds::Builds;
use crate::choice::{Backend, DeviceChoice};
use crate::driver::{Driver, DriverFault, Handle, Opened, cuda, opencl};
use crate::element::Element;
use crate::error::DeviceError;
use crate::host_access::{Managed, Mapped};
use crate::kernel::{Kernel, KernelFile, KernelSource, Math, Module, ModuleOrigin};
use crate::pinned::Pinned;
use crate::pitched::Pitched;
use crate::properties::{Memory, Properties};
use crate::queue::Queue;
use crate::texture::{Texture, TextureSettings};

/// A handle to a GPU, or to another device that runs kernels, with a queue. Cheap to clone. Equal
/// handles are the same hardware through the same driver. Their queues may differ.
///
/// ```
/// use orrery_device::{Device, DeviceChoice, KernelFile, Math};
///
/// # fn main() -> Result<(), orrery_device::DeviceError> {
/// // Without an OpenCL device there is nothing to run on.
/// let Ok(Some(device)) = Device::open(DeviceChoice::OpenCl(None)) else { return Ok(()) };
/// let text = "KERNEL(64) add(GLOBAL float* x, float amount, int n)
/// {
///     const int i = BLOCK_INDEX * 64 + THREAD;
///     if (i < n)
///         x[i] += amount;
/// }";
/// // SAFETY: `add` accesses the first n elements of x, and the launch passes x.len() as n.
/// let file = unsafe { KernelFile::new("add.cu", text) };
/// let add = device.build(&file, &[], Math::Precise)?.kernel("add")?;
/// let x = device.upload(&[1.0f32, 2.0, 3.0])?;
/// device.queue().launch(&add, 1, 64, &[(&x).into(), 0.5f32.into(), 3.into()])?;
/// assert_eq!(x.to_vec()?, [1.5, 2.5, 3.5]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Device {
    open: &'static OpenDevice,
    /// Queue of this handle. Set before the handle is returned.
    queue: &'static OnceLock<Queue>,
}

pub(crate) struct OpenDevice {
    properties: Properties,
    driver: Arc<dyn Driver>,
    /// Bytes in existing buffers.
    held_bytes: AtomicU64,
    /// Bytes in existing managed memory, which are also in `held_bytes`.
    managed_bytes: AtomicU64,
    builds: Builds,
    /// Queue that clears or fills new buffers, so that they do not wait for work in other queues.
    init_queue: Handle,
    /// Queues by local rank. The first is the default queue.
    queues: Mutex<Vec<&'static OnceLock<Queue>>>,
    /// Bit mask of CUDA indices: devices whose memory the kernels of this device may access.
    peers: AtomicU64,
}

/// All devices that can be used, and why others cannot.
#[derive(Clone, Debug)]
pub struct DeviceList {
    /// CUDA devices first, each backend in the order of its driver.
    pub devices: Vec<Device>,
    /// Messages about backends and devices that cannot be used, for example "no CUDA device: no
    /// NVIDIA driver is installed".
    pub notes: Vec<String>,
}

impl Device {
    /// Opens and returns all devices. Never fails: a device that cannot be opened adds a note.
    pub fn list() -> DeviceList {
        let mut list = DeviceList { devices: Vec::new(), notes: Vec::new() };
        for backend in [Backend::Cuda, Backend::OpenCl] {
            match device_count(backend) {
                Err(why) => list.notes.push(why),
                Ok(count) => {
                    for index in 0..count {
                        match Self::open_index(backend, index) {
                            Ok(device) => list.devices.push(device),
                            Err(why) => list.notes.push(why.to_string()),
                        }
                    }
                }
            }
        }
        list
    }

    /// Opens the chosen device. Returns None for the CPU. `Auto` never fails: it skips a GPU that
    /// cannot be opened.
    pub fn open(choice: DeviceChoice) -> Result<Option<Self>, DeviceError> {
        match choice {
            DeviceChoice::Cpu => Ok(None),
            DeviceChoice::Auto => Ok(Self::open_best()),
            DeviceChoice::Cuda(index) => Self::open_numbered(choice, Backend::Cuda, index).map(Some),
            DeviceChoice::OpenCl(index) => Self::open_numbered(choice, Backend::OpenCl, index).map(Some),
        }
    }

    /// Does [`Device::open`] for one of several ranks on a computer. If `choice` has no index, the
    /// ranks get the devices in turn: with two CUDA devices and four ranks, `Cuda(None)` is cuda:1
    /// for the ranks 1 and 3.
    pub fn open_for_rank(choice: DeviceChoice, local_rank: usize) -> Result<Option<Self>, DeviceError> {
        let index_of_rank = |indices| in_turn(indices, local_rank);
        match choice {
            DeviceChoice::Cuda(None) | DeviceChoice::OpenCl(None) => {
                let backend =
                    if choice == DeviceChoice::Cuda(None) { Backend::Cuda } else { Backend::OpenCl };
                let index = index_of_rank(Self::indices(backend)?);
                Self::open_numbered(choice, backend, index).map(Some)
            }
            DeviceChoice::Auto => {
                let cuda = index_of_rank((0..device_count(Backend::Cuda).unwrap_or(0)).collect());
                let cuda = cuda.and_then(|index| Self::open_index(Backend::Cuda, index).ok());
                Ok(cuda.or_else(|| {
                    let has_f64 = |device: &Self| device.properties().has_f64;
                    let index = index_of_rank(opencl::gpu_indices())?;
                    Self::open_index(Backend::OpenCl, index).ok().filter(has_f64)
                }))
            }
            choice => Self::open(choice),
        }
    }

    /// Returns backend and index of the device that [`Device::open_for_rank`] opens, if it can, and
    /// opens nothing. `None` for the CPU.
    pub fn index_for_rank(choice: DeviceChoice, local_rank: usize) -> Option<(Backend, usize)> {
        let numbered = |backend, index: Option<usize>| {
            let next = || in_turn(Self::indices(backend).ok()?, local_rank);
            Some((backend, index.or_else(next)?))
        };
        match choice {
            DeviceChoice::Cpu => None,
            DeviceChoice::Cuda(index) => numbered(Backend::Cuda, index),
            DeviceChoice::OpenCl(index) => numbered(Backend::OpenCl, index),
            DeviceChoice::Auto => numbered(Backend::Cuda, None)
                .or_else(|| Some((Backend::OpenCl, in_turn(opencl::gpu_indices(), local_rank)?))),
        }
    }

    /// Returns a handle of the same device whose queue is that of this local rank, so that the work
    /// of ranks that share the device can overlap. Rank 0 has the default queue.
    pub fn for_rank(&self, local_rank: usize) -> Result<Self, DeviceError> {
        let mut queues = self.queues();
        while queues.len() <= local_rank {
            let handle = self.driver().new_queue().map_err(|fault| self.error_from(fault, None))?;
            queues.push(Self::with_queue(self.open, handle).queue);
        }
        Ok(Self { open: self.open, queue: queues[local_rank] })
    }

    fn queues(&self) -> MutexGuard<'_, Vec<&'static OnceLock<Queue>>> {
        self.open.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a handle with its own queue, which is never freed.
    fn with_queue(open: &'static OpenDevice, handle: Handle) -> Self {
        let device = Self { open, queue: Box::leak(Box::default()) };
        device.queue.get_or_init(|| Queue::new(device.clone(), handle));
        device
    }

    /// Returns the indices of all devices of a backend on which a run computes: for OpenCL the
    /// GPUs, or all devices if there is no GPU. Opens none of them.
    pub fn indices(backend: Backend) -> Result<Vec<usize>, DeviceError> {
        let choice = DeviceChoice::of_backend(backend, None);
        let count =
            device_count(backend).map_err(|why| DeviceError::NoDevice { choice, notes: vec![why] })?;
        let gpus = if backend == Backend::OpenCl { opencl::gpu_indices() } else { Vec::new() };
        Ok(if gpus.is_empty() { (0..count).collect() } else { gpus })
    }

    fn open_best() -> Option<Self> {
        let open = |backend| move |index| Self::open_index(backend, index).ok();
        let cuda = (0..device_count(Backend::Cuda).unwrap_or(0)).find_map(open(Backend::Cuda));
        cuda.or_else(|| {
            let mut gpus = opencl::gpu_indices().into_iter().filter_map(open(Backend::OpenCl));
            gpus.find(|device| device.properties().has_f64)
        })
    }

    fn open_numbered(
        choice: DeviceChoice,
        backend: Backend,
        index: Option<usize>,
    ) -> Result<Self, DeviceError> {
        let count =
            device_count(backend).map_err(|why| DeviceError::NoDevice { choice, notes: vec![why] })?;
        // OpenCL may list a CPU before the GPU.
        let first = || if backend == Backend::OpenCl { opencl::gpu_indices().first().copied() } else { None };
        let index = index.or_else(first).unwrap_or(0);
        if index < count {
            return Self::open_index(backend, index);
        }
        let found = (0..count).map(|index| match Self::open_index(backend, index) {
            Ok(device) => device.title(),
            Err(_) => format!("{}:{index}", backend.as_str()),
        });
        Err(DeviceError::Index { choice, found: found.collect() })
    }

    /// Returns the device with this index. Opens it at the first call.
    fn open_index(backend: Backend, index: usize) -> Result<Self, DeviceError> {
        static OPEN: LazyLock<Mutex<HashMap<(Backend, usize), Device>>> = LazyLock::new(Mutex::default);
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = open.get(&(backend, index)) {
            return Ok(device.clone());
        }
        let device = Self::start_driver(backend, index).map_err(|fault| DeviceError::Call {
            device: format!("{}:{index}", backend.as_str()),
            call: fault.call,
            size: None,
            message: fault.into_message(),
        })?;
        open.insert((backend, index), device.clone());
        Ok(device)
    }

    fn start_driver(backend: Backend, index: usize) -> Result<Self, DriverFault> {
        Self::from_driver(match backend {
            Backend::Cuda => cuda::open(index)?,
            Backend::OpenCl => opencl::open(index)?,
        })
    }

    /// Creates a device from its driver. Every call creates another device.
    pub(crate) fn from_driver(opened: Opened) -> Result<Self, DriverFault> {
        let Opened { properties, driver } = opened;
        let init_queue = driver.new_queue()?;
        let default_queue = driver.new_queue()?;
        // Leaked on purpose: buffers may exist until the process ends, and the driver must outlive
        // them.
        let open = Box::leak(Box::new(OpenDevice {
            properties,
            driver,
            held_bytes: AtomicU64::new(0),
            managed_bytes: AtomicU64::new(0),
            builds: Builds::default(),
            init_queue,
            queues: Mutex::default(),
            peers: AtomicU64::new(0),
        }));
        let device = Self::with_queue(open, default_queue);
        device.queues().push(device.queue);
        Ok(device)
    }

    /// Returns the name that `--device` accepts, for example "cuda:0".
    pub fn label(&self) -> String {
        format!("{}:{}", self.open.properties.backend.as_str(), self.open.properties.index)
    }

    /// Returns label and name for messages, for example "cuda:0 (NVIDIA H200)".
    pub fn title(&self) -> String {
        format!("{} ({})", self.label(), self.open.properties.name)
    }

    /// Returns the properties that the driver reports.
    pub fn properties(&self) -> &Properties {
        &self.open.properties
    }

    /// Returns free and total memory.
    pub fn memory(&self) -> Result<Memory, DeviceError> {
        self.driver().memory(self.held_bytes()).map_err(|fault| self.error_from(fault, None))
    }

    /// Returns the bytes in all existing buffers of this process.
    pub fn held_bytes(&self) -> u64 {
        self.open.held_bytes.load(Ordering::Relaxed)
    }

    /// Allocates a buffer of zeros.
    pub fn zeros<T: Element>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        Buffer::zeros(self, len)
    }

    /// Allocates a buffer and copies `data` to it.
    pub fn upload<T: Element>(&self, data: &[T]) -> Result<Buffer<T>, DeviceError> {
        Buffer::upload(self, data)
    }

    /// Returns whether queues of this device and of another one of this process can copy between
    /// their buffers and wait for each other's events: the same device, or two of CUDA.
    pub fn shares_memory_with(&self, other: &Self) -> bool {
        self == other || [self, other].iter().all(|device| device.properties().backend == Backend::Cuda)
    }

    /// Allocates page-locked host memory, initialised to zero. Asynchronous copies need it.
    pub fn pinned<T: Element>(&self, len: usize) -> Result<Pinned<T>, DeviceError> {
        Pinned::new(self, len)
    }

    /// Allocates `height` rows of `width` zeros, which start at aligned addresses.
    pub fn pitched<T: Element>(&self, width: usize, height: usize) -> Result<Pitched<T>, DeviceError> {
        Pitched::zeros(self, width, height)
    }

    /// Allocates host memory that kernels access over the bus, initialised to zero.
    pub fn mapped<T: Element>(&self, len: usize) -> Result<Mapped<T>, DeviceError> {
        Mapped::new(self, len)
    }

    /// Allocates memory whose pages move between host and device, initialised to zero. Returns an
    /// error if the device has none ([`Properties::has_managed_memory`]), or if all managed memory
    /// of this process would exceed the free memory of the device.
    pub fn managed<T: Element>(&self, len: usize) -> Result<Managed<T>, DeviceError> {
        Managed::new(self, len)
    }

    /// Creates a 1-D texture of these texels, which kernels read by index.
    pub fn texture_1d(&self, texels: &[f32]) -> Result<Texture, DeviceError> {
        Texture::new_1d(self, texels)
    }

    /// Creates a 2-D texture of `size` = [width, height] texels, given row by row.
    pub fn texture_2d(
        &self,
        size: [usize; 2],
        texels: &[f32],
        settings: TextureSettings,
    ) -> Result<Texture, DeviceError> {
        Texture::new_2d(self, size, texels, settings)
    }

    /// Compiles a kernel file. `definitions` are macros that are defined before its text: name and
    /// value, such as `("BLOCK_SIZE", "256")`. If the same was compiled before, takes it from
    /// memory or from the cache on disk.
    ///
    /// A definition of `MAX_REGISTERS` limits the registers per thread with CUDA and with NVIDIA's
    /// OpenCL driver. Other compilers ignore it. With CUDA, it does not apply to kernels that are
    /// declared with `KERNEL_MIN_BLOCKS`.
    pub fn build(
        &self,
        file: &KernelFile<'_>,
        definitions: &[(&str, String)],
        math: Math,
    ) -> Result<Module, DeviceError> {
        self.open.builds.get_or_build(self, &KernelSource { file: *file, definitions, math })
    }

    /// Returns the kernels that this process has built on the device, sorted by file, definitions
    /// and name. Kernels of files with constant arrays are missing, because each module of such a
    /// file belongs to one user.
    pub fn kernels(&self) -> Result<Vec<Kernel>, DeviceError> {
        let mut kernels = Vec::new();
        for code in self.open.builds.modules() {
            let requested = code.requested.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let module = Module::new(code, ModuleOrigin::Memory, Duration::ZERO);
            for (name, dynamic_shared) in requested {
                kernels.push(module.kernel_with_shared(&name, dynamic_shared)?);
            }
        }
        Ok(kernels)
    }

    /// Removes all builds from memory, as in a new process: the next build reads the cache on disk.
    pub fn forget_builds(&self) {
        self.open.builds.clear();
    }

    /// Returns the queue of this handle: the default queue, unless it is for one of several ranks.
    pub fn queue(&self) -> &Queue {
        self.queue.get().expect("set before the handle is returned")
    }

    /// Creates another queue. Its work may overlap with that of the default queue.
    pub fn new_queue(&self) -> Result<Queue, DeviceError> {
        let handle = self.driver().new_queue().map_err(|fault| self.error_from(fault, None))?;
        Ok(Queue::new(self.clone(), handle))
    }

    /// Creates a queue whose blocks start before waiting blocks of other queues. Blocks that run
    /// are not interrupted. With OpenCL it is a usual queue.
    pub fn new_urgent_queue(&self) -> Result<Queue, DeviceError> {
        let handle = self.driver().new_urgent_queue().map_err(|fault| self.error_from(fault, None))?;
        Ok(Queue::new(self.clone(), handle))
    }

    /// Returns whether kernels of this device can access memory of `other` (CUDA peer access).
    pub fn can_access(&self, other: &Self) -> bool {
        let both_cuda = [self, other].iter().all(|device| device.properties().backend == Backend::Cuda);
        both_cuda && self != other && self.driver().can_access(other.properties().index)
    }

    /// Allows kernels of this device to use buffers of `other`.
    pub fn enable_peer(&self, other: &Self) -> Result<(), DeviceError> {
        let wrong_device = || DeviceError::WrongDevice {
            what: "a buffer".to_owned(),
            owner: other.title(),
            device: self.title(),
        };
        if !self.can_access(other) {
            return Err(wrong_device());
        }
        let context = other.driver().context().ok_or_else(wrong_device)?;
        let bit = 1u64.checked_shl(other.properties().index as u32).ok_or_else(wrong_device)?;
        // SAFETY: contexts are valid until the process ends.
        unsafe { self.driver().enable_peer(context) }.map_err(|fault| self.error_from(fault, None))?;
        self.open.peers.fetch_or(bit, Ordering::Release);
        Ok(())
    }

    /// Returns whether kernels of this device may use buffers of `other`.
    pub(crate) fn accepts_buffers_of(&self, other: &Self) -> bool {
        self == other || {
            let bit = 1u64.checked_shl(other.properties().index as u32).unwrap_or(0);
            other.properties().backend == Backend::Cuda && self.open.peers.load(Ordering::Acquire) & bit != 0
        }
    }

    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        &self.open.driver
    }

    pub(crate) fn init_queue(&self) -> Handle {
        self.open.init_queue
    }

    pub(crate) fn held_byte_counter(&self) -> &AtomicU64 {
        &self.open.held_bytes
    }

    pub(crate) fn managed_byte_counter(&self) -> &AtomicU64 {
        &self.open.managed_bytes
    }

    /// Converts a failed driver call to an error of this device. `size` is the size in bytes of the
    /// memory or copy, if any.
    #[cold]
    pub(crate) fn error_from(&self, fault: DriverFault, size: Option<u64>) -> DeviceError {
        if let (true, Some(needed)) = (fault.out_of_memory, size) {
            let free = self.driver().memory(self.held_bytes()).map_or(0, |memory| memory.free);
            return DeviceError::OutOfMemory { device: self.title(), needed, free };
        }
        DeviceError::Call { device: self.title(), call: fault.call, size, message: fault.into_message() }
    }
}

/// Returns the index for a rank if ranks get the devices in turn.
fn in_turn(indices: Vec<usize>, local_rank: usize) -> Option<usize> {
    match indices.len() {
        0 => None,
        count => Some(indices[local_rank % count]),
    }
}

/// Returns the number of devices of a backend, or why it has none.
fn device_count(backend: Backend) -> Result<usize, String> {
    let found = match backend {
        Backend::Cuda => cuda::device_count(),
        Backend::OpenCl => opencl::device_count(),
    };
    found.map_err(|why| format!("no {backend} device: {why}"))
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.open, other.open)
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.title())
    }
}
