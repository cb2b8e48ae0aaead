//! Page-locked host memory, which a device can write to asynchronously.
//!
//! Invariant: while a copy into the memory is running, `pending` is the event after that copy. The
//! elements are read or written, another copy is started and the memory is freed only after that
//! event, so no access ever races with the device.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::device::Device;
use crate::driver::Pin;
use crate::element::Element;
use crate::error::DeviceError;
use crate::event::Event;

/// `len` elements of page-locked host memory, used as a slice. Access waits for a running copy. An
/// error of that copy is reported by its event.
pub struct Pinned<T: Element> {
    device: Device,
    pin: Pin,
    len: usize,
    pending: Option<Event>,
    element: std::marker::PhantomData<T>,
}

// SAFETY: this value owns the memory, the elements are plain numbers, and drivers accept calls from
// any thread.
unsafe impl<T: Element> Send for Pinned<T> {}
// SAFETY: a shared reference only reads, after it has waited for a running copy.
unsafe impl<T: Element> Sync for Pinned<T> {}

impl<T: Element> Pinned<T> {
    pub(crate) fn new(device: &Device, len: usize) -> Result<Self, DeviceError> {
        let bytes = (len.max(1) as u64).saturating_mul(size_of::<T>() as u64);
        let call_error = |message: &str| DeviceError::Call {
            device: device.title(),
            call: "page-locked memory",
            size: Some(bytes),
            message: message.to_owned(),
        };
        let size = isize::try_from(bytes).map_err(|_| call_error("exceeds the address space"))? as usize;
        // Not `error_from`, which would report the free memory of the device: the host is out of
        // memory here.
        let pin = device.driver().allocate_pinned(size).map_err(|fault| call_error(&fault.message))?;
        Ok(Self { device: device.clone(), pin, len, pending: None, element: std::marker::PhantomData })
    }

    /// Waits for a running copy and returns the address that the next one may write to.
    pub(crate) fn copy_target(&mut self) -> *mut u8 {
        self.wait_for_copy();
        self.pin.pointer
    }

    /// Stores the event after the copy that was just queued.
    pub(crate) fn set_pending(&mut self, event: Event) {
        self.pending = Some(event);
    }

    fn wait_for_copy(&mut self) {
        if let Some(event) = self.pending.take() {
            event.wait_ignoring_errors();
        }
    }
}

impl<T: Element> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        if let Some(event) = &self.pending {
            event.wait_ignoring_errors();
        }
        // SAFETY: the memory has `len` elements and was zeroed, every bit pattern is a valid
        // element (`Element` is sealed), and no copy is running.
        unsafe { std::slice::from_raw_parts(self.pin.pointer.cast(), self.len) }
    }
}

impl<T: Element> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.wait_for_copy();
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.pin.pointer.cast(), self.len) }
    }
}

impl<T: Element> Drop for Pinned<T> {
    fn drop(&mut self) {
        self.wait_for_copy();
        let bytes = self.len.max(1) * size_of::<T>();
        // SAFETY: `new` allocated this many bytes, and no copy is running.
        unsafe { self.device.driver().free_pinned(self.pin, bytes) };
    }
}

impl<T: Element> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned<{}>({} for {})", std::any::type_name::<T>(), self.len, self.device.label())
    }
}
