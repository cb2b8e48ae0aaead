//! Page-locked host memory, which a device can read and write asynchronously.
//!
//! Invariant: while a copy into or out of the memory is running, `pending` is the event after that
//! copy. The elements are read or written, another copy is started and the memory is freed only
//! after that event, so no access ever races with the device. Memory whose copy cannot be waited
//! for is never freed.
//!
//! The pieces of [`Pinned::into_pieces`] do not overlap and share one allocation. Each has its own
//! `pending`. The allocation is freed with its last piece.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::device::Device;
use crate::driver::Pin;
use crate::element::Element;
use crate::error::DeviceError;
use crate::pending_copy::{HostRange, PendingCopy};

/// `len` elements of page-locked host memory, used as a slice. Access waits for a running copy. An
/// error of that copy is reported by its event.
pub struct Pinned<T: Element> {
    allocation: Arc<PinnedAllocation>,
    /// First element.
    pointer: *mut u8,
    len: usize,
    pending: PendingCopy,
    element: std::marker::PhantomData<T>,
}

/// Page-locked memory of the driver, freed when dropped.
struct PinnedAllocation {
    device: Device,
    pin: Pin,
    bytes: usize,
}

// SAFETY: the address is only used to free the memory, and drivers accept calls from any thread.
unsafe impl Send for PinnedAllocation {}
// SAFETY: as above.
unsafe impl Sync for PinnedAllocation {}

impl Drop for PinnedAllocation {
    fn drop(&mut self) {
        // SAFETY: `Pinned::new` allocated this many bytes. All pieces are dropped, and each of them
        // has waited for its copy.
        unsafe { self.device.driver().free_pinned(self.pin, self.bytes) };
    }
}

// SAFETY: this value owns its elements, the elements are plain numbers, and drivers accept calls
// from any thread.
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
        Ok(Self {
            allocation: Arc::new(PinnedAllocation { device: device.clone(), pin, bytes: size }),
            pointer: pin.pointer,
            len,
            pending: PendingCopy::default(),
            element: std::marker::PhantomData,
        })
    }

    /// Returns the number of elements. Does not wait for a running copy, as the length of the slice
    /// would.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements. Does not wait either.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Waits for a running copy and divides the memory into pieces of `piece_len` elements. The
    /// last piece may be shorter. Copies of different pieces may run at the same time, for example
    /// in several queues.
    ///
    /// # Panics
    /// If `piece_len` is 0.
    pub fn into_pieces(mut self, piece_len: usize) -> Vec<Self> {
        assert!(piece_len > 0, "a piece has at least one element");
        self.pending.wait();
        let piece_at = |first: usize| {
            let mut pending = PendingCopy::default();
            if self.pending.may_be_in_use() {
                pending.set_may_be_in_use();
            }
            Self {
                allocation: Arc::clone(&self.allocation),
                // SAFETY: `first` is below the number of elements.
                pointer: unsafe { self.pointer.add(first * size_of::<T>()) },
                len: piece_len.min(self.len - first),
                pending,
                element: std::marker::PhantomData,
            }
        };
        (0..self.len).step_by(piece_len).map(piece_at).collect()
    }

    /// Returns the first `len` elements as one end of an asynchronous copy.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn first(&mut self, len: usize) -> HostRange<'_, T> {
        // SAFETY: the memory has `self.len` elements. Access and drop wait for `pending`.
        unsafe { HostRange::new(self.pointer, len, self.len, &mut self.pending) }
    }
}

impl<'a, T: Element> From<&'a mut Pinned<T>> for HostRange<'a, T> {
    fn from(memory: &'a mut Pinned<T>) -> Self {
        memory.first(memory.len)
    }
}

impl<T: Element> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        if let Some(event) = self.pending.event() {
            // The caller has a clone of the event, which reports the error.
            let _ = event.wait();
        }
        // SAFETY: the memory has `len` elements and was zeroed, every bit pattern is a valid
        // element (`Element` is sealed), and no copy is running.
        unsafe { std::slice::from_raw_parts(self.pointer.cast(), self.len) }
    }
}

impl<T: Element> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.pending.wait();
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.cast(), self.len) }
    }
}

impl<T: Element> Drop for Pinned<T> {
    fn drop(&mut self) {
        self.pending.wait();
        if self.pending.may_be_in_use() {
            // Leak the memory. A failed wait does not prove that the copy has ended, and the
            // allocator could give freed memory to someone else while the device writes to it.
            std::mem::forget(Arc::clone(&self.allocation));
        }
    }
}

impl<T: Element> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = self.allocation.device.label();
        write!(f, "Pinned<{}>({} for {label})", std::any::type_name::<T>(), self.len)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use opencl3::command_queue::{CL_QUEUE_CONTEXT, get_command_queue_info};
    use opencl3::event::{create_user_event, set_user_event_status};
    use opencl3::memory::{
        CL_MEM_REFERENCE_COUNT, get_mem_object_info, release_mem_object, retain_mem_object,
    };
    use opencl3::types::{cl_command_queue, cl_context, cl_event, cl_mem};

    use super::*;
    use crate::choice::Backend;
    use crate::driver::Handle;
    use crate::event::Event;

    /// Returns an event of an OpenCL device that is not done.
    fn new_user_event(device: &Device) -> cl_event {
        let queue = device.init_queue().0 as usize as cl_command_queue;
        let context = isize::from(get_command_queue_info(queue, CL_QUEUE_CONTEXT).unwrap()) as cl_context;
        create_user_event(context).unwrap()
    }

    /// Returns an event of an OpenCL device that is done, or that failed.
    fn finished_event(device: &Device, failed: bool) -> Event {
        let event = new_user_event(device);
        set_user_event_status(event, if failed { -1 } else { 0 }).unwrap();
        Event::new(device.clone(), Handle(event as usize as u64))
    }

    /// The host asks for the length between copies that it queues. A wait there would separate
    /// them.
    #[test]
    fn the_length_does_not_wait_for_a_copy() {
        for device in Device::list().devices {
            if device.properties().backend != Backend::OpenCl {
                continue;
            }
            let mut pinned = Pinned::<u32>::new(&device, 4).unwrap();
            let event = new_user_event(&device) as usize;
            pinned.pending.set_event(Event::new(device.clone(), Handle(event as u64)));
            // The copy ends when the length is known, or after ten seconds, so that a wait for it
            // does not block the test.
            let (end, ended) = mpsc::channel::<()>();
            let copy = thread::spawn(move || {
                let _ = ended.recv_timeout(Duration::from_secs(10));
                set_user_event_status(event as cl_event, 0).unwrap();
            });
            let found = (pinned.len(), pinned.is_empty(), pinned.pending.event().unwrap().is_done().unwrap());
            drop(end);
            copy.join().unwrap();
            assert_eq!(found, (4, false, false), "{device:?}");
        }
    }

    /// Returns whether dropping page-locked memory frees it, if the wait for its last copy fails or
    /// not. None if the driver has no page-locked memory.
    fn is_freed(device: &Device, failed: bool, accessed: bool) -> Option<bool> {
        let mut pinned = Pinned::<u32>::new(device, 4).unwrap();
        let memory = pinned.allocation.pin.handle.0 as usize as cl_mem;
        if memory.is_null() {
            return None;
        }
        let count = || u32::from(get_mem_object_info(memory, CL_MEM_REFERENCE_COUNT).unwrap());
        // SAFETY: the memory object is valid, and it is released below as often as it is retained.
        unsafe { retain_mem_object(memory) }.unwrap();
        let before = count();
        pinned.pending.set_event(finished_event(device, failed));
        if accessed {
            pinned[0] = 1;
        }
        drop(pinned);
        let after = count();
        // SAFETY: as above.
        unsafe { release_mem_object(memory) }.unwrap();
        Some(after < before)
    }

    #[test]
    fn memory_is_leaked_if_the_wait_for_its_copy_failed() {
        for device in Device::list().devices {
            if device.properties().backend != Backend::OpenCl {
                continue;
            }
            for accessed in [false, true] {
                assert_ne!(is_freed(&device, false, accessed), Some(false), "{device:?}");
                assert_ne!(is_freed(&device, true, accessed), Some(true), "{device:?}");
            }
        }
    }
}
