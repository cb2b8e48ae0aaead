//! Memory that both kernels and the host access: mapped host memory and managed memory.
//!
//! Invariant: the host accesses the elements only inside `with_host`, after all queued work of the
//! device has ended. `with_host` borrows the memory mutably, and a launch borrows it too. So no
//! kernel that uses the memory starts before `with_host` returns.

use std::fmt;
use std::marker::PhantomData;

use crate::buffer::BufferRange;
use crate::device::Device;
use crate::driver::MappedMemory;
use crate::element::Element;
use crate::error::DeviceError;
use crate::memory::DeviceMemory;

/// Host memory of `len` elements that kernels access over the bus, without a copy ("zero copy").
/// Freed when dropped, after all queued work of the device. Its pages are locked and start as
/// zeros.
///
/// ```
/// use orrery_device::{Device, DeviceChoice, KernelFile, Math};
///
/// # fn main() -> Result<(), orrery_device::DeviceError> {
/// // Without an OpenCL device there is nothing to run on.
/// let Ok(Some(device)) = Device::open(DeviceChoice::OpenCl(None)) else { return Ok(()) };
/// let text = "KERNEL(4) double_elements(GLOBAL float* x)
/// {
///     x[THREAD] *= 2.0f;
/// }";
/// // SAFETY: the kernel accesses 4 elements, and x has 4.
/// let file = unsafe { KernelFile::new("double_elements.cu", text) };
/// let kernel = device.build(&file, &[], Math::Precise)?.kernel("double_elements")?;
/// let mut x = device.mapped::<f32>(4)?;
/// x.with_host(|x| x.copy_from_slice(&[1.0, 2.0, 3.0, 4.0]))?;
/// device.queue().launch(&kernel, 1, 4, &[(&x).into()])?;
/// assert_eq!(x.with_host(|x| x.to_vec())?, [2.0, 4.0, 6.0, 8.0]);
/// # Ok(())
/// # }
/// ```
pub struct Mapped<T: Element>(HostVisible<T>);

/// Memory of `len` elements whose pages move to the host or the device that accesses them (CUDA's
/// unified memory). Freed when dropped, after all queued work of the device. Its pages start as
/// zeros in device memory.
///
/// [`Queue::prefetch_to_device`](crate::Queue::prefetch_to_device) moves all pages at once, without
/// a page fault for each.
pub struct Managed<T: Element>(HostVisible<T>);

/// Elements in mapped or managed memory.
struct HostVisible<T: Element> {
    /// Empty memory has one element, because drivers do not allocate empty memory.
    memory: DeviceMemory,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Element> HostVisible<T> {
    fn new(
        len: usize,
        allocate: impl FnOnce(u64) -> Result<DeviceMemory, DeviceError>,
    ) -> Result<Self, DeviceError> {
        let bytes = (len.max(1) as u64).saturating_mul(size_of::<T>() as u64);
        Ok(Self { memory: allocate(bytes)?, len, element: PhantomData })
    }

    fn with_host<R>(&mut self, access: impl FnOnce(&mut [T]) -> R) -> Result<R, DeviceError> {
        self.memory.finish_uses()?;
        let mapping = Mapping::start(&self.memory)?;
        // SAFETY: the memory has `len` elements and was set to zero, every bit pattern is a valid
        // element (`Element` is sealed), and no device uses it: see the invariant.
        let elements = unsafe { std::slice::from_raw_parts_mut(mapping.pointer.cast(), self.len) };
        let result = access(elements);
        mapping.end()?;
        Ok(result)
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>, kind: &str) -> fmt::Result {
        let (name, label) = (std::any::type_name::<T>(), self.memory.device().label());
        write!(f, "{kind}<{name}>({} for {label})", self.len)
    }
}

/// Access of the host to memory. Ends when dropped, for example by a panic.
struct Mapping<'a> {
    device: &'a Device,
    /// None for memory that is always mapped.
    mapped: Option<MappedMemory>,
    pointer: *mut u8,
}

impl<'a> Mapping<'a> {
    fn start(memory: &'a DeviceMemory) -> Result<Self, DeviceError> {
        let device = memory.device();
        let mapped = memory.mapped();
        let pointer = match mapped {
            // SAFETY: the memory has this many bytes, and no device uses it.
            Some(mapped) => unsafe { device.driver().map(mapped, memory.bytes() as usize) }
                .map_err(|fault| device.error_from(fault, Some(memory.bytes())))?,
            // The address of managed memory is the same on the host.
            None => memory.handle().0 as usize as *mut u8,
        };
        Ok(Self { device, mapped, pointer })
    }

    fn end(mut self) -> Result<(), DeviceError> {
        self.unmap()
    }

    fn unmap(&mut self) -> Result<(), DeviceError> {
        let Some(mapped) = self.mapped.take() else { return Ok(()) };
        // SAFETY: `start` mapped the memory to this address.
        unsafe { self.device.driver().unmap(mapped, self.pointer) }
            .map_err(|fault| self.device.error_from(fault, None))
    }
}

impl Drop for Mapping<'_> {
    fn drop(&mut self) {
        let _ = self.unmap();
    }
}

macro_rules! impl_host_visible {
    ($name:ident, $allocate:expr) => {
        impl<T: Element> $name<T> {
            pub(crate) fn new(device: &Device, len: usize) -> Result<Self, DeviceError> {
                HostVisible::new(len, |bytes| $allocate(device, bytes)).map(Self)
            }

            /// Returns the number of elements.
            pub fn len(&self) -> usize {
                self.0.len
            }

            /// Returns whether there are no elements.
            pub fn is_empty(&self) -> bool {
                self.0.len == 0
            }

            /// Returns the device of the memory.
            pub fn device(&self) -> &Device {
                self.0.memory.device()
            }

            /// Waits for all queued work of the device, then calls `access` with the elements and
            /// returns its result. Kernels see changes of the elements.
            pub fn with_host<R>(&mut self, access: impl FnOnce(&mut [T]) -> R) -> Result<R, DeviceError> {
                self.0.with_host(access)
            }

            /// Returns all elements, as the argument of a kernel.
            pub(crate) fn range(&self) -> BufferRange<'_, T> {
                BufferRange::whole(&self.0.memory, self.0.len)
            }
        }

        impl<T: Element> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.describe(f, stringify!($name))
            }
        }
    };
}

impl_host_visible!(Mapped, DeviceMemory::allocate_mapped);
impl_host_visible!(Managed, DeviceMemory::allocate_managed);
