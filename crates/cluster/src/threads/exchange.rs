//! Exchange of borrowed buffers between threads. A sent buffer is copied into its message, so only
//! receives can be pending.

use std::cell::RefCell;
use std::time::Duration;

use super::{Member, Message, Ticket, into_value};
use crate::error::ClusterError;
use crate::tag::Tag;

/// Receives of one exchange that are not complete.
pub(crate) struct PendingReceives<'m, 'b> {
    member: &'m Member,
    list: RefCell<Vec<(Ticket, &'b mut [u8])>>,
}

impl<'m, 'b> PendingReceives<'m, 'b> {
    pub(crate) fn new(member: &'m Member) -> Self {
        Self { member, list: RefCell::default() }
    }

    pub(crate) fn send(&self, to: usize, tag: Tag, bytes: &[u8]) -> Result<(), ClusterError> {
        self.member.send(to, tag, Box::new(self.member.copy_message(bytes)))
    }

    pub(crate) fn receive(&self, from: usize, tag: Tag, buffer: &'b mut [u8]) {
        self.list.borrow_mut().push((self.member.start_receive(from, tag), buffer));
    }

    /// Copies the messages that have arrived. Returns whether all have.
    pub(crate) fn poll(&self) -> Result<bool, ClusterError> {
        let mut list = self.list.borrow_mut();
        let mut index = 0;
        while index < list.len() {
            match self.member.try_take(&list[index].0)? {
                Some(message) => {
                    let (ticket, buffer) = list.swap_remove(index);
                    self.complete(message, &ticket, buffer)?;
                }
                None => index += 1,
            }
        }
        Ok(list.is_empty())
    }

    pub(crate) fn wait(&self, waited: &mut Duration) -> Result<(), ClusterError> {
        while let Some((ticket, buffer)) = self.list.borrow_mut().pop() {
            self.complete(self.member.take(&ticket, waited)?, &ticket, buffer)?;
        }
        Ok(())
    }

    /// Copies a message into the buffer of its receive.
    fn complete(&self, message: Message, ticket: &Ticket, buffer: &mut [u8]) -> Result<(), ClusterError> {
        let bytes: Vec<u8> = into_value(message, ticket)?;
        ClusterError::check_length(ticket.from, ticket.tag, bytes.len(), buffer.len())?;
        buffer.copy_from_slice(&bytes);
        self.member.recycle_message(bytes);
        Ok(())
    }
}

impl Drop for PendingReceives<'_, '_> {
    fn drop(&mut self) {
        for (ticket, _) in self.list.get_mut().drain(..) {
            self.member.cancel(&ticket);
        }
    }
}
