//! Memory of a device, typed and sized.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use crate::device::Device;
use crate::driver::Handle;
use crate::element::Element;
use crate::error::{DeviceError, bytes as in_words};

/// `len` elements on a device, freed when dropped. May be used from several threads; what one queue writes
/// another sees only after an [`crate::Event`] or a wait in between.
pub struct Buffer<T: Element> {
    device: Device,
    handle: Handle,
    len: usize,
    /// What was allocated: an empty buffer has one element, as drivers give out no empty ones.
    bytes: u64,
    element: PhantomData<T>,
}

/// A buffer of whatever element, as an argument of a kernel.
pub trait AnyBuffer: sealed::Raw + Send + Sync {
    /// Where it is.
    fn device(&self) -> &Device;
}

pub(crate) mod sealed {
    use crate::driver::Handle;

    pub trait Raw {
        #[doc(hidden)]
        fn handle(&self) -> HandleOfBuffer;
    }

    /// Opaque outside this crate.
    #[derive(Clone, Copy)]
    pub struct HandleOfBuffer(pub(crate) Handle);
}

impl<T: Element> Buffer<T> {
    pub(crate) fn zeros(device: &Device, len: usize) -> Result<Self, DeviceError> {
        let buffer = Self::allocate(device, len)?;
        let queue = device.filling();
        // SAFETY: the buffer was allocated with this many bytes, and is waited for while it lives.
        unsafe {
            device
                .driver()
                .clear(queue, buffer.handle, buffer.bytes as usize)
                .and_then(|()| device.driver().finish(queue))
        }
        .map_err(|fault| device.fault(fault, Some(buffer.bytes)))?;
        Ok(buffer)
    }

    pub(crate) fn upload(device: &Device, data: &[T]) -> Result<Self, DeviceError> {
        if data.is_empty() {
            return Self::zeros(device, 0);
        }
        let buffer = Self::allocate(device, data.len())?;
        let (from, bytes) = (data.as_ptr().cast(), size_of_val(data));
        // SAFETY: both ends have this many bytes, and `write` returns when `data` was read.
        unsafe { device.driver().write(device.filling(), buffer.handle, from, bytes) }
            .map_err(|fault| device.fault(fault, Some(buffer.bytes)))?;
        Ok(buffer)
    }

    fn allocate(device: &Device, len: usize) -> Result<Self, DeviceError> {
        let bytes = (len.max(1) as u64).saturating_mul(size_of::<T>() as u64);
        let out = |free| DeviceError::OutOfMemory { device: device.title(), needed: bytes, free };
        if isize::try_from(bytes).is_err() {
            return Err(out(device.memory()?.free));
        }
        let most = device.driver().largest_buffer(device.held_bytes());
        if bytes > most {
            let free = device.memory()?.free;
            return Err(if bytes > free {
                out(free)
            } else {
                let word = format!("the driver gives one buffer {} at most", in_words(most));
                DeviceError::Call { device: device.title(), call: "clCreateBuffer", size: Some(bytes), word }
            });
        }
        let handle = device.driver().allocate(bytes).map_err(|fault| device.fault(fault, Some(bytes)))?;
        device.held().fetch_add(bytes, Ordering::Relaxed);
        Ok(Self { device: device.clone(), handle, len, bytes, element: PhantomData })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it is.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A copy on the host, of what the device's own queue has computed.
    pub fn to_vec(&self) -> Result<Vec<T>, DeviceError> {
        let mut host = vec![T::default(); self.len];
        self.device.queue().read(self, &mut host)?;
        Ok(host)
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// Fails unless `got` is the number of elements.
    pub(crate) fn expect_len(&self, got: usize) -> Result<(), DeviceError> {
        if got == self.len {
            return Ok(());
        }
        Err(DeviceError::Length { device: self.device.title(), expected: self.len, got })
    }
}

impl<T: Element> sealed::Raw for Buffer<T> {
    fn handle(&self) -> sealed::HandleOfBuffer {
        sealed::HandleOfBuffer(self.handle)
    }
}

impl<T: Element> AnyBuffer for Buffer<T> {
    fn device(&self) -> &Device {
        &self.device
    }
}

impl<T: Element> Drop for Buffer<T> {
    fn drop(&mut self) {
        self.device.held().fetch_sub(self.bytes, Ordering::Relaxed);
        // SAFETY: nobody else has the handle any more; both drivers let queued work on it finish first.
        unsafe { self.device.driver().free(self.handle) };
    }
}

impl<T: Element> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer<{}>({} on {})", std::any::type_name::<T>(), self.len, self.device.label())
    }
}
