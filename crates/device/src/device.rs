//! A device: found, opened once, and then alive as long as the process.
//!
//! Invariant: for each backend and number there is at most one `Machine`, so that handles compare by
//! address and builds are shared.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use crate::buffer::Buffer;
use crate::builds::Builds;
use crate::choice::{Backend, DeviceChoice};
use crate::driver::{Driver, Fault, Handle, Opened, cuda, opencl};
use crate::element::Element;
use crate::error::DeviceError;
use crate::kernel::{Module, Source};
use crate::pinned::Pinned;
use crate::properties::{Memory, Properties};
use crate::queue::Queue;

/// A handle to a GPU, or to another device that runs kernels. Cheap to clone; equal handles are the same
/// hardware through the same driver.
#[derive(Clone)]
pub struct Device(&'static Machine);

pub(crate) struct Machine {
    properties: Properties,
    driver: Arc<dyn Driver>,
    /// Bytes in live buffers.
    held: AtomicU64,
    builds: Builds,
    /// Fills new buffers, so that their first bytes wait for no work in the other queues.
    filling: Handle,
    queue: OnceLock<Queue>,
    /// CUDA numbers of the devices whose memory kernels here may use, as bits.
    peers: AtomicU64,
}

/// What there is, and why there is no more.
#[derive(Clone, Debug)]
pub struct DeviceList {
    /// CUDA first, each backend in its driver's order.
    pub devices: Vec<Device>,
    /// "no CUDA device: there is no libcuda here", and what else could not be opened.
    pub notes: Vec<String>,
}

impl Device {
    /// Every device that can be opened. Never fails: what does not work is noted.
    pub fn list() -> DeviceList {
        let mut listing = DeviceList { devices: Vec::new(), notes: Vec::new() };
        for backend in [Backend::Cuda, Backend::OpenCl] {
            match count(backend) {
                Err(why) => listing.notes.push(why),
                Ok(count) => {
                    for index in 0..count {
                        match Self::at(backend, index) {
                            Ok(device) => listing.devices.push(device),
                            Err(why) => listing.notes.push(why.to_string()),
                        }
                    }
                }
            }
        }
        listing
    }

    /// The device to compute on; None is the processor. `Auto` never fails: a GPU that cannot be opened is
    /// passed over.
    pub fn open(choice: DeviceChoice) -> Result<Option<Self>, DeviceError> {
        match choice {
            DeviceChoice::Cpu => Ok(None),
            DeviceChoice::Auto => Ok(Self::best()),
            DeviceChoice::Cuda(index) => Self::numbered(choice, Backend::Cuda, index).map(Some),
            DeviceChoice::OpenCl(index) => Self::numbered(choice, Backend::OpenCl, index).map(Some),
        }
    }

    fn best() -> Option<Self> {
        let open = |backend| move |index| Self::at(backend, index).ok();
        let cuda = (0..count(Backend::Cuda).unwrap_or(0)).find_map(open(Backend::Cuda));
        cuda.or_else(|| {
            let mut gpus = opencl::gpus().into_iter().filter_map(open(Backend::OpenCl));
            gpus.find(|device| device.properties().has_f64)
        })
    }

    fn numbered(choice: DeviceChoice, backend: Backend, index: Option<usize>) -> Result<Self, DeviceError> {
        let count = count(backend).map_err(|why| DeviceError::NoDevice { choice, notes: vec![why] })?;
        // A processor behind OpenCL may stand before the GPU.
        let first = || if backend == Backend::OpenCl { opencl::gpus().first().copied() } else { None };
        let index = index.or_else(first).unwrap_or(0);
        if index < count {
            return Self::at(backend, index);
        }
        let found = (0..count).map(|index| match Self::at(backend, index) {
            Ok(device) => device.title(),
            Err(_) => format!("{}:{index}", backend.as_str()),
        });
        Err(DeviceError::Index { choice, found: found.collect() })
    }

    /// The one `Machine` of this number, opened when first asked for.
    fn at(backend: Backend, index: usize) -> Result<Self, DeviceError> {
        static OPEN: LazyLock<Mutex<HashMap<(Backend, usize), &'static Machine>>> =
            LazyLock::new(Mutex::default);
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(machine) = open.get(&(backend, index)) {
            return Ok(Self(machine));
        }
        let device = Self::start(backend, index).map_err(|fault| DeviceError::Call {
            device: format!("{}:{index}", backend.as_str()),
            call: fault.call,
            size: None,
            word: fault.said(),
        })?;
        open.insert((backend, index), device.0);
        Ok(device)
    }

    fn start(backend: Backend, index: usize) -> Result<Self, Fault> {
        let Opened { properties, driver } = match backend {
            Backend::Cuda => cuda::open(index)?,
            Backend::OpenCl => opencl::open(index)?,
        };
        let filling = driver.new_queue()?;
        let main = driver.new_queue()?;
        // Drivers end with the process, and so may handles: nothing is ever torn down under a buffer.
        let device = Self(Box::leak(Box::new(Machine {
            properties,
            driver,
            held: AtomicU64::new(0),
            builds: Builds::default(),
            filling,
            queue: OnceLock::new(),
            peers: AtomicU64::new(0),
        })));
        let queue = Queue::new(device.clone(), main);
        device.0.queue.get_or_init(|| queue);
        Ok(device)
    }

    /// What `--device` takes: "cuda:0".
    pub fn label(&self) -> String {
        format!("{}:{}", self.0.properties.backend.as_str(), self.0.properties.index)
    }

    /// Label and name, as messages say it: "cuda:0 (NVIDIA H200)".
    pub fn title(&self) -> String {
        format!("{} ({})", self.label(), self.0.properties.name)
    }

    /// What it is.
    pub fn properties(&self) -> &Properties {
        &self.0.properties
    }

    /// Its memory now.
    pub fn memory(&self) -> Result<Memory, DeviceError> {
        self.driver().memory(self.held_bytes()).map_err(|fault| self.fault(fault, None))
    }

    /// Bytes in live buffers of this process.
    pub fn held_bytes(&self) -> u64 {
        self.0.held.load(Ordering::Relaxed)
    }

    /// A buffer of zeros.
    pub fn zeros<T: Element>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        Buffer::zeros(self, len)
    }

    /// A buffer with this content.
    pub fn upload<T: Element>(&self, data: &[T]) -> Result<Buffer<T>, DeviceError> {
        Buffer::upload(self, data)
    }

    /// Page-locked host memory, zeroed: what asynchronous copies need.
    pub fn pinned<T: Element>(&self, len: usize) -> Result<Pinned<T>, DeviceError> {
        Pinned::new(self, len)
    }

    /// Compiles a kernel file, or takes it from memory or disk where it was compiled before.
    pub fn build(&self, source: &Source<'_>) -> Result<Module, DeviceError> {
        self.0.builds.get(self, source)
    }

    /// Forgets what was built, as a new process would: the next build looks on the disk.
    pub fn forget_builds(&self) {
        self.0.builds.forget();
    }

    /// The device's own queue, in order.
    pub fn queue(&self) -> &Queue {
        self.0.queue.get().expect("set before the device was given out")
    }

    /// Another queue, whose work may overlap with the first's.
    pub fn new_queue(&self) -> Result<Queue, DeviceError> {
        let handle = self.driver().new_queue().map_err(|fault| self.fault(fault, None))?;
        Ok(Queue::new(self.clone(), handle))
    }

    /// Whether kernels here could work on memory there.
    pub fn can_reach(&self, other: &Self) -> bool {
        let both_cuda = [self, other].iter().all(|device| device.properties().backend == Backend::Cuda);
        both_cuda && self != other && self.driver().can_reach(other.properties().index)
    }

    /// Lets kernels here take buffers of `other`.
    pub fn enable_peer(&self, other: &Self) -> Result<(), DeviceError> {
        let wrong = || DeviceError::WrongDevice {
            what: "a buffer".to_owned(),
            owner: other.title(),
            device: self.title(),
        };
        if !self.can_reach(other) {
            return Err(wrong());
        }
        let context = other.driver().context().ok_or_else(wrong)?;
        let bit = 1u64.checked_shl(other.properties().index as u32).ok_or_else(wrong)?;
        // SAFETY: contexts live as long as the process.
        unsafe { self.driver().enable_peer(context) }.map_err(|fault| self.fault(fault, None))?;
        self.0.peers.fetch_or(bit, Ordering::Release);
        Ok(())
    }

    /// Whether kernels here may be given buffers of `other`.
    pub(crate) fn takes_buffers_of(&self, other: &Self) -> bool {
        self == other || {
            let bit = 1u64.checked_shl(other.properties().index as u32).unwrap_or(0);
            other.properties().backend == Backend::Cuda && self.0.peers.load(Ordering::Acquire) & bit != 0
        }
    }

    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        &self.0.driver
    }

    pub(crate) fn filling(&self) -> Handle {
        self.0.filling
    }

    pub(crate) fn held(&self) -> &AtomicU64 {
        &self.0.held
    }

    /// A driver's fault as this device's error; `size` is what the call was about, in bytes.
    #[cold]
    pub(crate) fn fault(&self, fault: Fault, size: Option<u64>) -> DeviceError {
        if let (true, Some(needed)) = (fault.out_of_memory, size) {
            let free = self.driver().memory(self.held_bytes()).map_or(0, |memory| memory.free);
            return DeviceError::OutOfMemory { device: self.title(), needed, free };
        }
        DeviceError::Call { device: self.title(), call: fault.call, size, word: fault.said() }
    }
}

/// How many devices a backend has, or why it has none.
fn count(backend: Backend) -> Result<usize, String> {
    let found = match backend {
        Backend::Cuda => cuda::count(),
        Backend::OpenCl => opencl::count(),
    };
    found.map_err(|why| format!("no {backend} device: {why}"))
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.title())
    }
}
