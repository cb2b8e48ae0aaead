//! Messages with owned buffers that were started and can be completed later.

use std::sync::Arc;

use crate::counters::Counters;
use crate::error::ClusterError;
use crate::mpi::{Mpi, Transfer};
use crate::threads::{Member, Ticket, into_value};

/// A message that is being sent. Dropping it is allowed: the transport keeps the buffer until the
/// message is sent.
#[must_use = "the message may not be sent yet"]
pub struct SendRequest {
    pub(crate) counters: Arc<Counters>,
    /// `None` for threads, whose messages are sent immediately, and after the end.
    pub(crate) transfer: Option<(Arc<Mpi>, Transfer)>,
}

impl SendRequest {
    /// Returns whether the message is sent. Does not wait.
    pub fn poll(&mut self) -> Result<bool, ClusterError> {
        let Some((mpi, transfer)) = &mut self.transfer else { return Ok(true) };
        self.counters.time(|_| transfer.poll(mpi))
    }

    /// Waits until the message is sent. A long message is sent when its receiver is ready.
    pub fn wait(mut self) -> Result<(), ClusterError> {
        let Some((mpi, transfer)) = self.transfer.take() else { return Ok(()) };
        self.counters.time(|waited| transfer.wait(&mpi, waited)).map(|_| ())
    }
}

impl Drop for SendRequest {
    fn drop(&mut self) {
        if let Some((mpi, transfer)) = self.transfer.take() {
            mpi.detach(transfer);
        }
    }
}

/// A message that is being received.
#[must_use = "the message is lost without `wait`"]
pub struct ReceiveRequest {
    pub(crate) counters: Arc<Counters>,
    /// Expected length in bytes.
    pub(crate) length: usize,
    /// `None` after the end.
    pub(crate) state: Option<ReceiveState>,
}

pub(crate) enum ReceiveState {
    Waiting(Arc<Member>, Ticket),
    Arrived(Vec<u8>),
    Mpi(Arc<Mpi>, Transfer),
}

impl ReceiveRequest {
    /// Returns whether the message is received. Does not wait.
    pub fn poll(&mut self) -> Result<bool, ClusterError> {
        let (counters, length) = (&self.counters, self.length);
        let state = &mut self.state;
        counters.time(|_| match state {
            Some(ReceiveState::Waiting(member, ticket)) => {
                let Some(message) = member.try_take(ticket)? else { return Ok(false) };
                let bytes = checked_bytes(into_value(message, ticket)?, ticket, length)?;
                *state = Some(ReceiveState::Arrived(bytes));
                Ok(true)
            }
            Some(ReceiveState::Mpi(mpi, transfer)) => transfer.poll(mpi),
            Some(ReceiveState::Arrived(_)) | None => Ok(true),
        })
    }

    /// Waits for the message and returns it.
    pub fn wait(mut self) -> Result<Vec<u8>, ClusterError> {
        let state = self.state.take();
        let bytes = self.counters.time(|waited| match state {
            Some(ReceiveState::Waiting(member, ticket)) => {
                let message = member.take(&ticket, waited)?;
                checked_bytes(into_value(message, &ticket)?, &ticket, self.length)
            }
            Some(ReceiveState::Mpi(mpi, transfer)) => transfer.wait(&mpi, waited),
            Some(ReceiveState::Arrived(bytes)) => Ok(bytes),
            None => Ok(Vec::new()),
        })?;
        self.counters.count_received(bytes.len());
        Ok(bytes)
    }
}

impl Drop for ReceiveRequest {
    fn drop(&mut self) {
        if let Some(ReceiveState::Waiting(member, ticket)) = &self.state {
            member.cancel(ticket);
        }
    }
}

fn checked_bytes(bytes: Vec<u8>, ticket: &Ticket, expected: usize) -> Result<Vec<u8>, ClusterError> {
    ClusterError::check_length(ticket.from, ticket.tag, bytes.len(), expected)?;
    Ok(bytes)
}
