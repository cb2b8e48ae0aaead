//! Host memory that a device can write to by itself.
//!
//! Invariant: while a copy into it is under way, `pending` holds the event behind that copy. Whoever looks
//! at the elements, starts another copy or drops the memory waits for that event first, so no reader ever
//! races with the device.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::device::Device;
use crate::driver::Pin;
use crate::element::Element;
use crate::error::DeviceError;
use crate::event::Event;

/// `len` elements of page-locked host memory, read and written as a slice. Looking at it waits for the copy
/// that is under way; a fault of that copy shows at its event.
pub struct Pinned<T: Element> {
    device: Device,
    pin: Pin,
    len: usize,
    pending: Option<Event>,
    element: std::marker::PhantomData<T>,
}

// SAFETY: the memory belongs to this value alone, its elements are plain numbers, and drivers take calls
// from any thread.
unsafe impl<T: Element> Send for Pinned<T> {}
// SAFETY: a shared reference only reads, after waiting for the copy under way.
unsafe impl<T: Element> Sync for Pinned<T> {}

impl<T: Element> Pinned<T> {
    pub(crate) fn new(device: &Device, len: usize) -> Result<Self, DeviceError> {
        let bytes = (len.max(1) as u64).saturating_mul(size_of::<T>() as u64);
        let refused = |word: &str| DeviceError::Call {
            device: device.title(),
            call: "page-locked memory",
            size: Some(bytes),
            word: word.to_owned(),
        };
        let size = isize::try_from(bytes).map_err(|_| refused("more than there are addresses"))? as usize;
        // The host's memory is short here, not the device's.
        let pin = device.driver().pin(size).map_err(|fault| refused(&fault.word))?;
        Ok(Self { device: device.clone(), pin, len, pending: None, element: std::marker::PhantomData })
    }

    /// Where a copy may write to now, the one before being done.
    pub(crate) fn target(&mut self) -> *mut u8 {
        self.settle();
        self.pin.pointer
    }

    /// Keeps the event behind the copy that was just queued.
    pub(crate) fn set_pending(&mut self, event: Event) {
        self.pending = Some(event);
    }

    fn settle(&mut self) {
        if let Some(event) = self.pending.take() {
            event.settle();
        }
    }
}

impl<T: Element> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        if let Some(event) = &self.pending {
            event.settle();
        }
        // SAFETY: the memory has `len` elements, was zeroed, every bit pattern is a value (`Element` is
        // sealed), and no copy is under way.
        unsafe { std::slice::from_raw_parts(self.pin.pointer.cast(), self.len) }
    }
}

impl<T: Element> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.settle();
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.pin.pointer.cast(), self.len) }
    }
}

impl<T: Element> Drop for Pinned<T> {
    fn drop(&mut self) {
        self.settle();
        let bytes = self.len.max(1) * size_of::<T>();
        // SAFETY: allocated in `new` with these bytes, and no copy is under way.
        unsafe { self.device.driver().unpin(self.pin, bytes) };
    }
}

impl<T: Element> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned<{}>({} for {})", std::any::type_name::<T>(), self.len, self.device.label())
    }
}
