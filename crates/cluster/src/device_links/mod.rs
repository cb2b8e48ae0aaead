//! Messages between the memory of devices.
//!
//! - **Direct**, for ranks of one process on the same device or on CUDA devices. The sender passes
//!   the handle of its buffer and an event, and the receiver's queue copies behind that event.
//!   Hosts do not wait for devices.
//! - **On device**, for CUDA devices and a CUDA-aware MPI library. MPI sends from device memory
//!   when it is complete.
//! - **Shared**, for processes of one computer. The sender's device copies to page-locked memory
//!   that both processes map ([`shared`]), MPI sends its name, and the receiver's device copies
//!   from it.
//! - **Staged**, for all others. Both ends copy through page-locked memory, and MPI sends it.
//!
//! Each pair of ranks uses the first path that is possible, the same on both ends.
//!
//! A round is a call of [`DeviceLinks::start`] and one of [`DeviceLinks::finish`]. Receivers may
//! still copy when `finish` has returned on the sender. So the caller must ensure that all
//! receivers of round n have completed their copies before it
//!
//! - writes to the ranges that it has sent in round n, and
//! - starts round n + 2.
//!
//! A message that a receiver can only send after its copy proves that. Two buffers that take turns
//! and a message in each direction per round are enough, because queues are in order.

mod paths;
mod shared;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use orrery_device::{Buffer, Device, DeviceError, Element, Event, Pinned, Queue};
use thiserror::Error;

use crate::error::ClusterError;
use crate::request::SendRequest;
use crate::tag::Tag;
use crate::transport::Transport;
pub use paths::{AllowedPaths, MessagePath};
use shared::SharedMessages;

/// An error of a device or of a transport.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum LinkError {
    /// A device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The connection to another rank failed, or that rank.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// One end of a message between devices: a range of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceMessage {
    /// The other rank.
    pub rank: usize,
    /// Tag of the message, the same on both ends.
    pub tag: Tag,
    /// Elements that are sent or received, equally many on both ends.
    pub range: Range<usize>,
}

/// Connections between the memory of this rank's device and that of other ranks.
pub struct DeviceLinks<T: Element + Pod> {
    transport: Transport,
    device: Device,
    /// Path to each rank. None if the rank is not connected.
    paths: Vec<Option<MessagePath>>,
    shared: SharedMessages<T>,
    /// Copies of the ranges of a round for staged messages.
    outgoing: Vec<Pinned<T>>,
    /// Staged messages of a round that are received.
    incoming: Vec<Pinned<T>>,
    /// Messages between `start` and `finish`.
    round: Option<Round<T>>,
}

/// Messages that were started.
struct Round<T: Element> {
    from: Arc<Buffer<T>>,
    /// After the work that completes the messages, and after earlier uses of received ranges.
    done: Event,
    /// Sent messages that are not direct.
    sent: Vec<Sent>,
    /// Copies in shared and in staged memory, by slot.
    copies: [Vec<HostCopy>; 2],
}

struct Sent {
    message: DeviceMessage,
    content: Content,
}

/// Memory from which a message is sent.
#[derive(Clone, Copy)]
enum Content {
    OnDevice,
    /// Slot of shared memory.
    Shared(usize),
    /// Slot of page-locked memory.
    Staged(usize),
}

/// Copy of a range in host memory.
struct HostCopy {
    range: Range<usize>,
    /// Ranks that get it. A rank gets a slot once per round.
    ranks: Vec<usize>,
    copied: Event,
}

/// Notices of a round that are being sent.
struct Notices {
    sends: Vec<SendRequest>,
    /// Receivers of new shared memory, which confirm that they have opened it.
    confirming: Vec<usize>,
}

/// Indices of [`Round::copies`].
const IN_SHARED: usize = 0;
const IN_STAGED: usize = 1;

/// Range of another rank's buffer that is complete after an event.
struct ReadyRange<T: Element> {
    buffer: Arc<Buffer<T>>,
    range: Range<usize>,
    done: Event,
}

impl<T: Element + Pod> DeviceLinks<T> {
    /// Connects this rank with `ranks`, which must connect with this one at the same time. A rank
    /// may be named twice. Messages with up to `len` elements need no further memory on the path of
    /// shared memory.
    pub fn new(
        device: &Device,
        transport: &Transport,
        ranks: &[usize],
        len: usize,
    ) -> Result<Self, LinkError> {
        Self::with_paths(device, transport, ranks, len, AllowedPaths::for_transport(transport))
    }

    /// Connects as [`Self::new`] does, with a choice of paths, for tests and comparisons.
    pub fn with_paths(
        device: &Device,
        transport: &Transport,
        ranks: &[usize],
        len: usize,
        allowed: AllowedPaths,
    ) -> Result<Self, LinkError> {
        let mut ranks = ranks.to_vec();
        ranks.sort_unstable();
        ranks.dedup();
        let mut links = Self {
            transport: transport.clone(),
            device: device.clone(),
            paths: vec![None; transport.size()],
            shared: SharedMessages::new(device),
            outgoing: Vec::new(),
            incoming: Vec::new(),
            round: None,
        };
        if !transport.is_mpi() {
            links.find_direct(&ranks, allowed.direct)?;
        }
        ranks.retain(|rank| links.paths[*rank].is_none());
        links.find_others(&ranks, allowed.shared, len)?;
        Ok(links)
    }

    /// Returns the paths to the connected ranks, in rank order.
    pub fn paths(&self) -> Vec<MessagePath> {
        self.paths.iter().copied().flatten().collect()
    }

    /// Starts a round: sends messages from `from`, which are complete after all work that is in
    /// `queue`. A range that several ranks get is copied once.
    ///
    /// # Panics
    /// If a rank is not connected.
    pub fn start(
        &mut self,
        queue: &Queue,
        from: &Arc<Buffer<T>>,
        messages: impl IntoIterator<Item = DeviceMessage>,
    ) -> Result<(), LinkError> {
        let done = queue.record()?;
        let mut round =
            Round { from: Arc::clone(from), done, sent: Vec::new(), copies: [Vec::new(), Vec::new()] };
        self.shared.start_round();
        for message in messages {
            let range = message.range.clone();
            let content = match self.path_to(message.rank) {
                MessagePath::Direct => {
                    let ready = ReadyRange { buffer: Arc::clone(from), range, done: round.done.clone() };
                    self.transport.send_value(message.rank, message.tag, ready)?;
                    continue;
                }
                MessagePath::OnDevice => Content::OnDevice,
                MessagePath::Shared => {
                    let values = from.range(range)?;
                    let copy = |slot| self.shared.copy(queue, slot, values);
                    Content::Shared(copy_once(&mut round.copies[IN_SHARED], &message, copy)?)
                }
                MessagePath::Staged => {
                    let values = from.range(range)?;
                    let copy = |slot| {
                        let memory = reserve(&self.device, &mut self.outgoing, slot, values.len())?;
                        queue.read_async(values, memory.first(values.len()))
                    };
                    Content::Staged(copy_once(&mut round.copies[IN_STAGED], &message, copy)?)
                }
                MessagePath::Messages => unreachable!("a path between hosts"),
            };
            round.sent.push(Sent { message, content });
        }
        self.round = Some(round);
        Ok(())
    }

    /// Ends a round: receives messages and queues their copies to `to`. Waits for the messages of
    /// other ranks, and for the device unless they are direct.
    ///
    /// # Panics
    /// If a rank is not connected, or no round was started.
    pub fn finish(
        &mut self,
        queue: &Queue,
        to: &Buffer<T>,
        messages: &[DeviceMessage],
    ) -> Result<(), LinkError> {
        let round = self.round.take().expect("a round was started");
        let mut notices = self.exchange(round, to, messages)?;
        let mut staged = 0;
        for message in messages {
            let (from, tag, target) = (message.rank, message.tag, to.range(message.range.clone())?);
            match self.path_to(from) {
                MessagePath::Direct => {
                    let ready: ReadyRange<T> = self.transport.receive_value(from, tag)?;
                    queue.wait_for(&ready.done)?;
                    queue.copy(ready.buffer.range(ready.range)?, target)?;
                }
                MessagePath::OnDevice => {}
                MessagePath::Shared => {
                    let notice = self.transport.receive(from, tag)?;
                    let (place, is_new) = self.shared.open(from, tag, &notice)?;
                    if is_new {
                        notices.sends.push(self.transport.start_send(from, Tag::LINKS, Vec::new())?);
                    }
                    let memory = self.shared.received(place, tag, target.len())?;
                    queue.write_async(target, memory.first(target.len()))?;
                }
                MessagePath::Staged => {
                    queue.write_async(target, self.incoming[staged].first(target.len()))?;
                    staged += 1;
                }
                MessagePath::Messages => unreachable!("a path between hosts"),
            }
        }
        for rank in notices.confirming {
            self.transport.receive(rank, Tag::LINKS)?;
        }
        // MPI may complete a send only when its receiver is ready, so all receives come first.
        Ok(notices.sends.into_iter().try_for_each(|send| send.wait())?)
    }

    /// Ends a round that is not finished, so that its messages do not reach the next user of these
    /// ranks. `messages` are the ranks and tags of those that this rank would receive.
    pub fn discard(&mut self, messages: impl IntoIterator<Item = (usize, Tag)>) {
        if self.round.take().is_none() {
            return;
        }
        for (rank, tag) in messages {
            // Other paths send nothing before `finish`.
            if self.path_to(rank) == MessagePath::Direct {
                // If this fails, the group has ended.
                let _ = self.transport.receive_value::<ReadyRange<T>>(rank, tag);
            }
        }
    }

    /// Exchanges messages of MPI: contents, or notices that shared memory has the contents. All
    /// receives are started before the first wait.
    fn exchange(
        &mut self,
        round: Round<T>,
        to: &Buffer<T>,
        messages: &[DeviceMessage],
    ) -> Result<Notices, LinkError> {
        let path_of = |message: &DeviceMessage| self.paths[message.rank];
        let is_staged = |message: &DeviceMessage| path_of(message) == Some(MessagePath::Staged);
        for (slot, message) in messages.iter().filter(|message| is_staged(message)).enumerate() {
            reserve(&self.device, &mut self.incoming, slot, message.range.len())?;
        }
        let Round { from, done, sent, copies } = &round;
        let (transport, outgoing, shared) = (&self.transport, &self.outgoing, &mut self.shared);
        let mut notices = Notices { sends: Vec::new(), confirming: Vec::new() };
        let mut incoming = self.incoming.iter_mut();
        transport.exchange(|exchange| {
            for message in messages {
                let DeviceMessage { rank, tag, range } = message.clone();
                match path_of(message) {
                    Some(MessagePath::OnDevice) => {
                        done.wait()?;
                        exchange.receive_on_device(rank, tag, to.range(range)?)?;
                    }
                    Some(MessagePath::Staged) => {
                        let memory = incoming.next().expect("a slot per staged message");
                        exchange.receive(rank, tag, &mut memory[..range.len()])?;
                    }
                    _ => {}
                }
            }
            for Sent { message, content } in sent {
                let DeviceMessage { rank, tag, range } = message.clone();
                match *content {
                    Content::OnDevice => {
                        done.wait()?;
                        exchange.send_from_device(rank, tag, from.range(range)?)?;
                    }
                    Content::Shared(slot) => {
                        copies[IN_SHARED][slot].copied.wait()?;
                        let notice = shared.notice(rank, slot);
                        notices.sends.push(transport.start_send(rank, tag, notice.bytes)?);
                        notices.confirming.extend(notice.is_confirmed.then_some(rank));
                    }
                    Content::Staged(slot) => {
                        copies[IN_STAGED][slot].copied.wait()?;
                        exchange.send(rank, tag, &outgoing[slot][..range.len()])?;
                    }
                }
            }
            Ok::<_, LinkError>(())
        })?;
        Ok(notices)
    }

    fn path_to(&self, rank: usize) -> MessagePath {
        self.paths[rank].unwrap_or_else(|| panic!("rank {rank} is not connected"))
    }
}

/// Returns the slot with a copy of the range of a message. Makes the copy in a new slot if there is
/// none for this rank.
fn copy_once(
    copies: &mut Vec<HostCopy>,
    message: &DeviceMessage,
    copy: impl FnOnce(usize) -> Result<Event, DeviceError>,
) -> Result<usize, DeviceError> {
    let (rank, range) = (message.rank, &message.range);
    let is_usable = |copy: &HostCopy| copy.range == *range && !copy.ranks.contains(&rank);
    if let Some(slot) = copies.iter().position(is_usable) {
        copies[slot].ranks.push(rank);
        return Ok(slot);
    }
    let copied = copy(copies.len())?;
    copies.push(HostCopy { range: range.clone(), ranks: vec![rank], copied });
    Ok(copies.len() - 1)
}

/// Returns the memory of a slot with at least `len` elements. Slots are used in their order.
fn reserve<'a, T: Element>(
    device: &Device,
    slots: &'a mut Vec<Pinned<T>>,
    slot: usize,
    len: usize,
) -> Result<&'a mut Pinned<T>, DeviceError> {
    if slot == slots.len() {
        slots.push(device.pinned(len)?);
    } else if slots[slot].len() < len {
        slots[slot] = device.pinned(len + len / 8)?;
    }
    Ok(&mut slots[slot])
}

impl<T: Element + Pod> std::fmt::Debug for DeviceLinks<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceLinks").field("device", &self.device).field("paths", &self.paths).finish()
    }
}
