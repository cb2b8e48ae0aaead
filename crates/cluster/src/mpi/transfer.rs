//! Memory of messages that are not complete: a [`Transfer`] owns one buffer, and a
//! [`PendingMessages`] borrows the buffers of an exchange.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::marker::PhantomData;
use std::time::Duration;

use orrery_device::{BufferRange, Element};

use super::{Mpi, Request};
use crate::error::ClusterError;
use crate::process;
use crate::tag::Tag;

/// Time in which the messages of an exchange that failed may still arrive. Other ranks usually do
/// not know about the failure and complete them.
const LAST_MESSAGES: Duration = Duration::from_millis(500);

/// A message with its buffer. MPI uses the buffer until `requests` is empty. A transfer that is
/// dropped before leaks the buffer.
pub(crate) struct Transfer {
    requests: Vec<Request>,
    buffer: Vec<u8>,
}

impl Transfer {
    /// Starts to send a message.
    pub(crate) fn send(mpi: &Mpi, to: usize, tag: Tag, buffer: Vec<u8>) -> Result<Self, ClusterError> {
        mpi.free_detached();
        let mut transfer = Self { requests: Vec::new(), buffer };
        let (pointer, length) = (transfer.buffer.as_ptr(), transfer.buffer.len());
        // SAFETY: the elements of the vector stay at their address when the transfer moves, and are
        // neither changed nor freed before the requests are complete.
        unsafe { mpi.start_send(to, tag, pointer, length, &mut transfer.requests)? };
        Ok(transfer)
    }

    /// Starts to receive a message of `length` bytes.
    pub(crate) fn receive(mpi: &Mpi, from: usize, tag: Tag, length: usize) -> Result<Self, ClusterError> {
        let mut transfer = Self { requests: Vec::new(), buffer: vec![0; length] };
        let pointer = transfer.buffer.as_mut_ptr();
        // SAFETY: as above, and nobody reads the elements before the requests are complete.
        unsafe { mpi.start_receive(from, tag, pointer, length, &mut transfer.requests)? };
        Ok(transfer)
    }

    /// Starts to receive one chunk of a message.
    pub(super) fn receive_chunk(
        mpi: &Mpi,
        from: usize,
        tag: Tag,
        length: usize,
    ) -> Result<Self, ClusterError> {
        let mut buffer = vec![0; length];
        // SAFETY: as above.
        let request = unsafe { mpi.start_chunk(from, tag, buffer.as_mut_ptr(), length)? };
        Ok(Self { requests: vec![request], buffer })
    }

    /// Returns whether the message is complete.
    pub(crate) fn poll(&mut self, mpi: &Mpi) -> Result<bool, ClusterError> {
        mpi.test(&mut self.requests)
    }

    /// Waits for the end of the message and returns the buffer.
    pub(crate) fn wait(mut self, mpi: &Mpi, waited: &mut Duration) -> Result<Vec<u8>, ClusterError> {
        mpi.wait(&mut self.requests, None, waited)?;
        Ok(std::mem::take(&mut self.buffer))
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if !self.requests.is_empty() {
            std::mem::forget(std::mem::take(&mut self.buffer));
        }
    }
}

/// Messages of one exchange with borrowed buffers. Only [`PendingMessages::run`] creates it, and
/// returns after all messages are complete.
pub(crate) struct PendingMessages<'m, 'b> {
    mpi: &'m Mpi,
    requests: RefCell<Vec<Request>>,
    /// Makes `'b` invariant, so that no buffer with a shorter life can be added.
    buffers: PhantomData<Cell<&'b mut [u8]>>,
}

impl<'m, 'b> PendingMessages<'m, 'b> {
    /// Calls `body`, which starts messages and waits for them.
    pub(crate) fn run<R, E: Display>(mpi: &'m Mpi, body: impl FnOnce(&Self) -> Result<R, E>) -> Result<R, E> {
        // Dropped at the end of this function, also if `body` panics.
        let pending = Self { mpi, requests: RefCell::default(), buffers: PhantomData };
        let result = body(&pending);
        if let Err(error) = &result {
            pending.end_after(error);
        }
        result
    }

    /// Waits for the messages of an exchange that failed, or ends all ranks.
    fn end_after(&self, error: &dyn Display) {
        if !self.is_complete_soon() {
            self.mpi.abort(&error.to_string(), 1);
        }
    }

    pub(crate) fn send(&self, to: usize, tag: Tag, bytes: &'b [u8]) -> Result<(), ClusterError> {
        let requests = &mut self.requests.borrow_mut();
        // SAFETY: the bytes are borrowed for 'b, which is longer than `run`, and `run` returns only
        // after the requests are complete.
        unsafe { self.mpi.start_send(to, tag, bytes.as_ptr(), bytes.len(), requests) }
    }

    pub(crate) fn receive(&self, from: usize, tag: Tag, buffer: &'b mut [u8]) -> Result<(), ClusterError> {
        let requests = &mut self.requests.borrow_mut();
        // SAFETY: as above. The borrow is exclusive, so nobody else uses the bytes.
        unsafe { self.mpi.start_receive(from, tag, buffer.as_mut_ptr(), buffer.len(), requests) }
    }

    /// Starts to send memory of a CUDA device.
    pub(crate) fn send_from_device<T: Element>(
        &self,
        to: usize,
        tag: Tag,
        values: BufferRange<'b, T>,
    ) -> Result<(), ClusterError> {
        let (address, length) = self.device_bytes(&values)?;
        let requests = &mut self.requests.borrow_mut();
        // SAFETY: the memory is borrowed for 'b, see `send`. The library reads memory of devices,
        // which is no memory of this program: a kernel that writes to it changes the message only.
        unsafe { self.mpi.start_send(to, tag, address, length, requests) }
    }

    /// Starts to receive a message in the memory of a CUDA device.
    pub(crate) fn receive_on_device<T: Element>(
        &self,
        from: usize,
        tag: Tag,
        values: BufferRange<'b, T>,
    ) -> Result<(), ClusterError> {
        let (address, length) = self.device_bytes(&values)?;
        let requests = &mut self.requests.borrow_mut();
        // SAFETY: as above.
        unsafe { self.mpi.start_receive(from, tag, address, length, requests) }
    }

    /// Returns the address and the number of bytes of device memory that MPI can use.
    fn device_bytes<T: Element>(
        &self,
        values: &BufferRange<'b, T>,
    ) -> Result<(*mut u8, usize), ClusterError> {
        let address = values.address().filter(|_| self.mpi.is_cuda_aware());
        let address = address.ok_or(ClusterError::DeviceMemory)?;
        Ok((std::ptr::without_provenance_mut(address as usize), values.len() * size_of::<T>()))
    }

    /// Returns whether all messages are complete.
    pub(crate) fn poll(&self) -> Result<bool, ClusterError> {
        self.mpi.test(&mut self.requests.borrow_mut())
    }

    /// Waits for all messages.
    pub(crate) fn wait(&self, waited: &mut Duration) -> Result<(), ClusterError> {
        self.mpi.wait(&mut self.requests.borrow_mut(), None, waited).map(|_| ())
    }

    /// Waits a limited time for all messages, and ignores errors of single ones. Returns whether
    /// all are complete.
    fn is_complete_soon(&self) -> bool {
        let requests = &mut self.requests.borrow_mut();
        loop {
            let before = requests.len();
            match self.mpi.wait(requests, Some(LAST_MESSAGES), &mut Duration::default()) {
                Ok(is_complete) => return is_complete,
                // An error that removed no request would be repeated.
                Err(_) if requests.len() == before => return requests.is_empty(),
                Err(_) => {}
            }
        }
    }
}

impl Drop for PendingMessages<'_, '_> {
    fn drop(&mut self) {
        // Incomplete only if the body panicked. MPI could still use the buffers, which are freed
        // after this call, so the process must not continue.
        if !self.is_complete_soon() {
            let message = process::panic_message();
            self.mpi.abort(message.as_deref().unwrap_or("panicked during an exchange"), 1);
        }
    }
}
