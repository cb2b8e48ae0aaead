//! Typed buffers in device memory, and ranges of them.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use crate::choice::Backend;
use crate::device::Device;
use crate::driver::{Handle, MemorySlice};
use crate::element::Element;
use crate::error::DeviceError;
use crate::memory::DeviceMemory;

/// A buffer of `len` elements in device memory, freed when dropped. May be used from several
/// threads. Another queue sees what one queue wrote only after an [`crate::Event`] or a wait in
/// between.
pub struct Buffer<T: Element> {
    /// An empty buffer has memory for one element, because drivers do not allocate empty buffers.
    memory: DeviceMemory,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    pub(crate) fn zeros(device: &Device, len: usize) -> Result<Self, DeviceError> {
        let buffer = Self::allocate(device, len)?;
        buffer.memory.clear()?;
        Ok(buffer)
    }

    pub(crate) fn upload(device: &Device, data: &[T]) -> Result<Self, DeviceError> {
        if data.is_empty() {
            return Self::zeros(device, 0);
        }
        let buffer = Self::allocate(device, data.len())?;
        let (to, from) = (BufferRange::from(&buffer).slice(), data.as_ptr().cast());
        // SAFETY: both ends have this many bytes, and `write` returns after `data` was read.
        unsafe { device.driver().write(device.init_queue(), to, from) }
            .map_err(|fault| device.error_from(fault, Some(buffer.memory.bytes())))?;
        Ok(buffer)
    }

    fn allocate(device: &Device, len: usize) -> Result<Self, DeviceError> {
        let bytes = (len.max(1) as u64).saturating_mul(size_of::<T>() as u64);
        Ok(Self { memory: DeviceMemory::allocate(device, bytes)?, len, element: PhantomData })
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the buffer has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the device of the buffer.
    pub fn device(&self) -> &Device {
        self.memory.device()
    }

    /// Returns a part of the buffer, for example `buffer.range(0..n)?`.
    pub fn range(&self, range: impl RangeBounds<usize>) -> Result<BufferRange<'_, T>, DeviceError> {
        BufferRange::from(self).range(range)
    }

    /// Waits for the queue of its device handle and copies the elements to the host.
    pub fn to_vec(&self) -> Result<Vec<T>, DeviceError> {
        let mut host = vec![T::default(); self.len];
        self.device().queue().read(self, &mut host)?;
        Ok(host)
    }

    /// Returns the address of the first element, with which kernels access the buffer through a
    /// pointer in constant memory. None on OpenCL, where memory has no fixed address. The buffer
    /// must exist until such a kernel has been launched.
    pub fn address(&self) -> Option<u64> {
        (self.device().properties().backend == Backend::Cuda).then(|| self.handle().0)
    }

    pub(crate) fn handle(&self) -> Handle {
        self.memory.handle()
    }
}

impl<T: Element> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer<{}>({} on {})", std::any::type_name::<T>(), self.len, self.device().label())
    }
}

/// Neighbouring elements of a buffer, for copies and as the argument of a kernel.
///
/// As an argument it must start at a multiple of [`crate::Properties::range_alignment`] bytes,
/// which the driver dictates. Copies may start at any element.
///
/// ```
/// use orrery_device::{Device, DeviceChoice};
///
/// # fn main() -> Result<(), orrery_device::DeviceError> {
/// // Without an OpenCL device there is nothing to run on.
/// let Ok(Some(device)) = Device::open(DeviceChoice::OpenCl(None)) else { return Ok(()) };
/// let rows = device.upload(&[0, 0, 0, 1, 1, 1])?;
/// device.queue().copy(rows.range(3..)?, rows.range(..3)?)?;
/// assert_eq!(rows.to_vec()?, [1; 6]);
/// # Ok(())
/// # }
/// ```
pub struct BufferRange<'a, T: Element> {
    memory: &'a DeviceMemory,
    /// First byte.
    offset: usize,
    len: usize,
    element: PhantomData<T>,
}

// Not derived: that would require `T: Clone` in the wrong place.
impl<T: Element> Clone for BufferRange<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Element> Copy for BufferRange<'_, T> {}

impl<'a, T: Element> BufferRange<'a, T> {
    /// Returns the first `len` elements of memory.
    pub(crate) fn whole(memory: &'a DeviceMemory, len: usize) -> Self {
        Self { memory, offset: 0, len, element: PhantomData }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the range has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the device of the buffer.
    pub fn device(&self) -> &'a Device {
        self.memory.device()
    }

    /// Returns the address of the first element, for libraries that accept memory of CUDA devices.
    /// None on OpenCL.
    pub fn address(&self) -> Option<u64> {
        let is_cuda = self.device().properties().backend == Backend::Cuda;
        is_cuda.then(|| self.memory.handle().0 + self.offset as u64)
    }

    /// Returns a part of this range. Indices count from its first element.
    pub fn range(&self, range: impl RangeBounds<usize>) -> Result<Self, DeviceError> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len,
        };
        if start > end || end > self.len {
            return Err(DeviceError::Range { device: self.device().title(), start, end, len: self.len });
        }
        Ok(Self { offset: self.offset + start * size_of::<T>(), len: end - start, ..*self })
    }

    /// Returns the same bytes as elements of another type, for example `[f32; 4]` as `u32`. Returns
    /// an error if they are not a whole number of elements.
    pub fn reinterpret<U: Element>(&self) -> Result<BufferRange<'a, U>, DeviceError> {
        let (bytes, size) = (self.len * size_of::<T>(), size_of::<U>());
        if !bytes.is_multiple_of(size) {
            return Err(DeviceError::Call {
                device: self.device().title(),
                call: "reinterpret",
                size: Some(bytes as u64),
                message: format!("expected a multiple of {size} bytes"),
            });
        }
        let (memory, offset) = (self.memory, self.offset);
        Ok(BufferRange { memory, offset, len: bytes / size, element: PhantomData })
    }

    pub(crate) fn memory(&self) -> &'a DeviceMemory {
        self.memory
    }

    /// Returns the bytes of the range, for the driver.
    pub(crate) fn slice(&self) -> MemorySlice {
        MemorySlice { memory: self.memory.handle(), offset: self.offset, bytes: self.len * size_of::<T>() }
    }

    /// Checks that `got` is the number of elements.
    pub(crate) fn expect_len(&self, got: usize) -> Result<(), DeviceError> {
        if got == self.len {
            return Ok(());
        }
        Err(DeviceError::Length { device: self.device().title(), expected: self.len, got })
    }
}

impl<'a, T: Element> From<&'a Buffer<T>> for BufferRange<'a, T> {
    fn from(buffer: &'a Buffer<T>) -> Self {
        Self::whole(&buffer.memory, buffer.len)
    }
}

impl<T: Element> fmt::Debug for BufferRange<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, label) = (std::any::type_name::<T>(), self.device().label());
        write!(f, "BufferRange<{name}>({} from byte {} on {label})", self.len, self.offset)
    }
}
