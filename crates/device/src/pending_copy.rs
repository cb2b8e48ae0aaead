//! Asynchronous copies between a device and host memory.

use std::marker::PhantomData;

use crate::element::Element;
use crate::event::Event;

/// Last copy into or out of host memory.
#[derive(Default)]
pub(crate) struct PendingCopy {
    /// Event after the copy. None if no copy is running.
    event: Option<Event>,
    /// Whether a wait for a copy failed, so that the device may access the memory at any time.
    may_be_in_use: bool,
}

/// First elements of page-locked host memory, as one end of an asynchronous copy: all of a
/// [`Pinned`](crate::Pinned) or [`SharedPinned`](crate::SharedPinned), or those of its `first`
/// method.
pub struct HostRange<'a, T: Element> {
    address: *mut u8,
    len: usize,
    pending: &'a mut PendingCopy,
    element: PhantomData<T>,
}

impl<'a, T: Element> HostRange<'a, T> {
    /// Returns the first `len` elements of memory that has `available`.
    ///
    /// # Safety
    /// `address` has `available` elements. Until the copy of `pending` is done, the owner neither
    /// frees them nor accesses them on the host.
    ///
    /// # Panics
    /// If the memory is shorter.
    pub(crate) unsafe fn new(
        address: *mut u8,
        len: usize,
        available: usize,
        pending: &'a mut PendingCopy,
    ) -> Self {
        assert!(len <= available, "expected at most {available} elements, got {len}");
        Self { address, len, pending, element: PhantomData }
    }

    pub(crate) fn address(&self) -> *mut u8 {
        self.address
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn pending(self) -> &'a mut PendingCopy {
        self.pending
    }

    /// Waits for the last copy of this memory.
    pub(crate) fn wait(&mut self) {
        self.pending.wait();
    }
}

impl PendingCopy {
    /// Stores the event after the copy that was just queued.
    pub(crate) fn set_event(&mut self, event: Event) {
        self.event = Some(event);
    }

    /// Returns the event after the copy, if one may be running.
    pub(crate) fn event(&self) -> Option<&Event> {
        self.event.as_ref()
    }

    /// Stores that a copy may be running whose end cannot be waited for.
    pub(crate) fn set_may_be_in_use(&mut self) {
        self.may_be_in_use = true;
    }

    /// Returns whether a copy may be running whose end cannot be waited for. The memory must not be
    /// freed then.
    pub(crate) fn may_be_in_use(&self) -> bool {
        self.may_be_in_use
    }

    /// Waits for the copy.
    pub(crate) fn wait(&mut self) {
        if let Some(event) = self.event.take()
            && event.wait().is_err()
        {
            self.set_may_be_in_use();
        }
    }
}
