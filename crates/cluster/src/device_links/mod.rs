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

mod shared;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use orrery_device::{Backend, Buffer, Device, DeviceError, Element, Event, Pinned, Queue, SharedName};
use serde::Serialize;
use thiserror::Error;

use crate::error::ClusterError;
use crate::tag::Tag;
use crate::transport::Transport;
use shared::SharedMessages;

/// Path of messages from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessagePath {
    /// Messages from and to ordinary memory, for ranks on CPUs.
    Messages,
    /// Copies from device to device, within a process.
    Direct,
    /// Messages from and to the memory of CUDA devices.
    OnDevice,
    /// Page-locked memory that two processes share.
    Shared,
    /// Messages from and to page-locked memory.
    Staged,
}

impl MessagePath {
    /// All paths.
    pub const ALL: [Self; 5] = [Self::Messages, Self::Direct, Self::OnDevice, Self::Shared, Self::Staged];

    /// Returns a description for reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Direct => "from device to device",
            Self::OnDevice => "messages in device memory",
            Self::Shared => "shared page-locked memory",
            Self::Staged => "messages through page-locked memory",
        }
    }

    /// Returns the paths of all ranks, each once. `own` are those of this rank. All ranks must call
    /// it.
    pub fn of_all_ranks(transport: &Transport, own: &[Self]) -> Result<Vec<Self>, ClusterError> {
        let used = Self::ALL.map(|path| u8::from(own.contains(&path)));
        let used = transport.all_reduce(&used, u8::max)?;
        let used_paths = Self::ALL.into_iter().zip(used).filter(|(_, used)| *used > 0);
        Ok(used_paths.map(|(path, _)| path).collect())
    }
}

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

/// Paths that a rank may use. A pair of ranks uses those that both may.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AllowedPaths {
    /// Copies from device to device, between threads.
    pub direct: bool,
    /// Shared page-locked memory.
    pub shared: bool,
}

impl AllowedPaths {
    /// Returns the paths for a transport. Threads need no shared memory, but tests use it between
    /// them.
    pub fn for_transport(transport: &Transport) -> Self {
        Self { direct: !transport.is_mpi(), shared: transport.is_mpi() }
    }
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
    copied: Event,
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

    /// As [`Self::new`], with a choice of paths. For tests and comparisons.
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
                    let values = from.range(range.clone())?;
                    let copy = |slot| self.shared.copy(queue, slot, values);
                    Content::Shared(copy_once(&mut round.copies[IN_SHARED], range, copy)?)
                }
                MessagePath::Staged | MessagePath::Messages => {
                    let values = from.range(range.clone())?;
                    let copy = |slot| {
                        let memory = reserve(&self.device, &mut self.outgoing, slot, values.len())?;
                        queue.read_async(values, memory.first(values.len()))
                    };
                    Content::Staged(copy_once(&mut round.copies[IN_STAGED], range, copy)?)
                }
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
        let confirming = self.exchange(round, to, messages)?;
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
                        self.transport.start_send(from, Tag::LINKS, Vec::new())?.wait()?;
                    }
                    let memory = self.shared.received(from, tag, place, target.len())?;
                    queue.write_async(target, memory.first(target.len()))?;
                }
                MessagePath::Staged | MessagePath::Messages => {
                    queue.write_async(target, self.incoming[staged].first(target.len()))?;
                    staged += 1;
                }
            }
        }
        for rank in confirming {
            self.transport.receive(rank, Tag::LINKS)?;
        }
        Ok(())
    }

    /// Ends a round whose messages nobody needs, so that they do not reach the next user of these
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
    /// receives are started before the first wait. Returns the receivers of new shared memory,
    /// which confirm that they have opened it.
    fn exchange(
        &mut self,
        round: Round<T>,
        to: &Buffer<T>,
        messages: &[DeviceMessage],
    ) -> Result<Vec<usize>, LinkError> {
        let path_of = |message: &DeviceMessage| self.paths[message.rank];
        let is_staged = |message: &DeviceMessage| path_of(message) == Some(MessagePath::Staged);
        for (slot, message) in messages.iter().filter(|message| is_staged(message)).enumerate() {
            reserve(&self.device, &mut self.incoming, slot, message.range.len())?;
        }
        let Round { from, done, sent, copies } = &round;
        let (transport, outgoing, shared) = (&self.transport, &self.outgoing, &mut self.shared);
        let (mut notices, mut confirming) = (Vec::new(), Vec::new());
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
                        notices.push(transport.start_send(rank, tag, notice.bytes)?);
                        confirming.extend(notice.is_confirmed.then_some(rank));
                    }
                    Content::Staged(slot) => {
                        copies[IN_STAGED][slot].copied.wait()?;
                        exchange.send(rank, tag, &outgoing[slot][..range.len()])?;
                    }
                }
            }
            Ok::<_, LinkError>(())
        })?;
        notices.into_iter().try_for_each(|notice| notice.wait())?;
        Ok(confirming)
    }

    fn path_to(&self, rank: usize) -> MessagePath {
        self.paths[rank].unwrap_or_else(|| panic!("rank {rank} is not connected"))
    }

    /// Finds the threads whose memory this rank can copy from.
    fn find_direct(&mut self, ranks: &[usize], is_allowed: bool) -> Result<(), LinkError> {
        let offer = || is_allowed.then(|| self.device.clone());
        ranks.iter().try_for_each(|rank| self.transport.send_value(*rank, Tag::LINKS, offer()))?;
        for &rank in ranks {
            let other: Option<Device> = self.transport.receive_value(rank, Tag::LINKS)?;
            let is_direct = is_allowed && other.is_some_and(|other| self.device.shares_memory_with(&other));
            self.paths[rank] = is_direct.then_some(MessagePath::Direct);
        }
        Ok(())
    }

    /// Finds the paths to ranks of other processes. Both ends send an offer, try that of the other
    /// one, and report whether it works.
    fn find_others(&mut self, ranks: &[usize], offers_shared: bool, len: usize) -> Result<(), LinkError> {
        let is_cuda = self.device.properties().backend == Backend::Cuda;
        let takes_device_memory = is_cuda && self.transport.is_cuda_aware();
        // A CUDA-aware library can copy between devices without the host.
        let has_shared = offers_shared && !takes_device_memory && !ranks.is_empty();
        let memory = if has_shared { self.shared.offer(len) } else { None };
        let offer = Offer { takes_device_memory, memory }.to_bytes();
        let offers = self.exchange_bytes(ranks, &vec![offer; ranks.len()])?;
        let mut answers = Vec::new();
        for (&rank, offer) in ranks.iter().zip(offers) {
            let offer = Offer::from_bytes(&offer);
            let is_shared = has_shared && offer.memory.is_some_and(|name| self.shared.can_open(&name));
            self.paths[rank] = if takes_device_memory && offer.takes_device_memory {
                Some(MessagePath::OnDevice)
            } else {
                is_shared.then_some(MessagePath::Shared)
            };
            answers.push(vec![u8::from(is_shared)]);
        }
        for (&rank, answer) in ranks.iter().zip(self.exchange_bytes(ranks, &answers)?) {
            let path = &mut self.paths[rank];
            if path.is_none() || *path == Some(MessagePath::Shared) && answer != [1] {
                *path = Some(MessagePath::Staged);
            }
        }
        Ok(())
    }

    /// Sends a message to each rank, and returns theirs.
    fn exchange_bytes(&self, ranks: &[usize], messages: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, ClusterError> {
        let send = |(&rank, message): (&usize, &Vec<u8>)| {
            self.transport.start_send(rank, Tag::LINKS, message.clone())
        };
        let sends = ranks.iter().zip(messages).map(send).collect::<Result<Vec<_>, _>>()?;
        let received = ranks.iter().map(|&rank| self.transport.receive(rank, Tag::LINKS)).collect();
        sends.into_iter().try_for_each(|send| send.wait())?;
        received
    }
}

/// Paths of a rank besides messages through page-locked memory.
#[derive(Debug, PartialEq)]
struct Offer {
    takes_device_memory: bool,
    memory: Option<SharedName>,
}

impl Offer {
    fn to_bytes(&self) -> Vec<u8> {
        let name = self.memory.as_ref().map_or(String::new(), SharedName::to_text);
        format!("{}\n{name}", self.takes_device_memory).into_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (takes_device_memory, name) = text.split_once('\n').unwrap_or_default();
        Self { takes_device_memory: takes_device_memory == "true", memory: SharedName::from_text(name) }
    }
}

/// Returns the slot with a copy of `range`. Makes the copy in a new slot if there is none.
fn copy_once(
    copies: &mut Vec<HostCopy>,
    range: Range<usize>,
    copy: impl FnOnce(usize) -> Result<Event, DeviceError>,
) -> Result<usize, DeviceError> {
    if let Some(slot) = copies.iter().position(|copy| copy.range == range) {
        return Ok(slot);
    }
    let copied = copy(copies.len())?;
    copies.push(HostCopy { range, copied });
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
