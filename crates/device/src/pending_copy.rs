//! Asynchronous copies between a device and host memory.

use crate::event::Event;

/// Last copy into or out of host memory.
#[derive(Default)]
pub(crate) struct PendingCopy {
    /// Event after the copy. None if no copy is running.
    event: Option<Event>,
    /// Whether a wait for a copy failed, so that the device may access the memory at any time.
    may_be_in_use: bool,
}

/// Host memory of an asynchronous copy. Only its owner uses the memory, apart from the device.
pub(crate) struct HostMemory<'a> {
    pub(crate) address: *mut u8,
    /// Number of elements.
    pub(crate) len: usize,
    pub(crate) pending: &'a mut PendingCopy,
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
