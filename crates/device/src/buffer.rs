//! Typed buffers in device memory.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use crate::device::Device;
use crate::driver::Handle;
use crate::element::Element;
use crate::error::{DeviceError, format_bytes};

/// A buffer of `len` elements in device memory, freed when dropped. May be used from several
/// threads. Another queue sees what one queue wrote only after an [`crate::Event`] or a wait in
/// between.
pub struct Buffer<T: Element> {
    device: Device,
    handle: Handle,
    len: usize,
    /// Allocated bytes. An empty buffer has one element, because drivers do not allocate empty
    /// buffers.
    bytes: u64,
    element: PhantomData<T>,
}

/// A buffer of any element type, as an argument of a kernel.
pub trait AnyBuffer: sealed::Raw + Send + Sync {
    /// Returns the device of the buffer.
    fn device(&self) -> &Device;
}

pub(crate) mod sealed {
    use crate::driver::Handle;

    pub trait Raw {
        #[doc(hidden)]
        fn handle(&self) -> BufferHandle;
    }

    /// Handle of a buffer, opaque outside this crate.
    #[derive(Clone, Copy)]
    pub struct BufferHandle(pub(crate) Handle);
}

impl<T: Element> Buffer<T> {
    pub(crate) fn zeros(device: &Device, len: usize) -> Result<Self, DeviceError> {
        let buffer = Self::allocate(device, len)?;
        let queue = device.init_queue();
        // SAFETY: the buffer was allocated with this many bytes, and `finish` waits before it can
        // be dropped.
        unsafe {
            device
                .driver()
                .clear_memory(queue, buffer.handle, buffer.bytes as usize)
                .and_then(|()| device.driver().finish(queue))
        }
        .map_err(|fault| device.error_from(fault, Some(buffer.bytes)))?;
        Ok(buffer)
    }

    pub(crate) fn upload(device: &Device, data: &[T]) -> Result<Self, DeviceError> {
        if data.is_empty() {
            return Self::zeros(device, 0);
        }
        let buffer = Self::allocate(device, data.len())?;
        let (from, bytes) = (data.as_ptr().cast(), size_of_val(data));
        // SAFETY: both ends have this many bytes, and `write` returns after `data` was read.
        unsafe { device.driver().write(device.init_queue(), buffer.handle, from, bytes) }
            .map_err(|fault| device.error_from(fault, Some(buffer.bytes)))?;
        Ok(buffer)
    }

    fn allocate(device: &Device, len: usize) -> Result<Self, DeviceError> {
        let bytes = (len.max(1) as u64).saturating_mul(size_of::<T>() as u64);
        let out_of_memory = |free| DeviceError::OutOfMemory { device: device.title(), needed: bytes, free };
        if isize::try_from(bytes).is_err() {
            return Err(out_of_memory(device.memory()?.free));
        }
        let largest = device.driver().largest_buffer(device.held_bytes());
        if bytes > largest {
            let free = device.memory()?.free;
            return Err(if bytes > free {
                out_of_memory(free)
            } else {
                let message = format!("the driver allows at most {} per buffer", format_bytes(largest));
                DeviceError::Call {
                    device: device.title(),
                    call: "clCreateBuffer",
                    size: Some(bytes),
                    message,
                }
            });
        }
        let handle =
            device.driver().allocate_memory(bytes).map_err(|fault| device.error_from(fault, Some(bytes)))?;
        device.held_byte_counter().fetch_add(bytes, Ordering::Relaxed);
        Ok(Self { device: device.clone(), handle, len, bytes, element: PhantomData })
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
        &self.device
    }

    /// Waits for the default queue and copies the elements to the host.
    pub fn to_vec(&self) -> Result<Vec<T>, DeviceError> {
        let mut host = vec![T::default(); self.len];
        self.device.queue().read(self, &mut host)?;
        Ok(host)
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// Checks that `got` is the number of elements.
    pub(crate) fn expect_len(&self, got: usize) -> Result<(), DeviceError> {
        if got == self.len {
            return Ok(());
        }
        Err(DeviceError::Length { device: self.device.title(), expected: self.len, got })
    }
}

impl<T: Element> sealed::Raw for Buffer<T> {
    fn handle(&self) -> sealed::BufferHandle {
        sealed::BufferHandle(self.handle)
    }
}

impl<T: Element> AnyBuffer for Buffer<T> {
    fn device(&self) -> &Device {
        &self.device
    }
}

impl<T: Element> Drop for Buffer<T> {
    fn drop(&mut self) {
        self.device.held_byte_counter().fetch_sub(self.bytes, Ordering::Relaxed);
        // SAFETY: this was the last user of the handle. Both drivers finish queued work on it
        // first.
        unsafe { self.device.driver().free_memory(self.handle) };
    }
}

impl<T: Element> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer<{}>({} on {})", std::any::type_name::<T>(), self.len, self.device.label())
    }
}
