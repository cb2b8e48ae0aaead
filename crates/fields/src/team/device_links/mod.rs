//! Exchange of borders between devices.
//!
//! Borders have a queue, so that copies and small kernels overlap with the interior. It is urgent:
//! borders that are ready do not wait for the blocks of the interior that have not started.
//!
//! A link between two ranks has one of these paths, the first that is possible:
//!
//! - **Direct.** Two ranks of one process whose devices are the same one, or both of CUDA, copy
//!   from device to device: the owner of a border sends the handle of its buffer and the event
//!   after which the border is complete, and the receiver queues a copy behind that event. The host
//!   does not wait for the devices then.
//! - **On device.** MPI libraries that accept memory of CUDA devices get the border itself when it
//!   is complete.
//! - **Shared.** Processes of one computer share page-locked memory ([`shared`]). The device of the
//!   owner copies its border into it, and that of the receiver copies out of it. MPI only sends an
//!   empty message in between.
//! - **Staged.** All others copy borders to page-locked memory, and send messages from it.
//!
//! A receiver of a direct link may read a border until it has sent its own border of the next step,
//! because its event comes after the copy. So the owner must not write to the same buffer before it
//! has received that event. Two buffers that take turns satisfy this. Shared links have the same
//! rule, with messages in place of events.

mod shared;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use orrery_cluster::{ClusterError, Tag, Transport};
use orrery_device::{Backend, Buffer, Device, DeviceError, Event, Pinned, Queue};
use serde::Serialize;
use thiserror::Error;

use super::neighbours::{DOWNWARDS, Neighbours, UPWARDS};
use crate::Scalar;
use shared::SharedBorders;

/// Path of borders from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BorderPath {
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

impl BorderPath {
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
}

/// An error of a device or of a transport.
#[derive(Debug, Error)]
pub enum LinkError {
    /// A device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The connection to another rank failed, or that rank.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// Tags of the messages to the lower and to the upper neighbour.
const SENT: [Tag; 2] = [DOWNWARDS, UPWARDS];
/// Tags of the messages from them.
const RECEIVED: [Tag; 2] = [UPWARDS, DOWNWARDS];

/// Connections of a slab on a device to its neighbours.
#[derive(Debug)]
pub(crate) struct DeviceLinks<R: Scalar> {
    transport: Transport,
    queue: Queue,
    /// Links to the lower and to the upper neighbour.
    links: [Option<Link<R>>; 2],
    /// True between [`Self::start`] and [`Self::finish`].
    is_started: bool,
}

#[derive(Debug)]
struct Link<R: Scalar> {
    rank: usize,
    path: LinkPath<R>,
}

#[derive(Debug)]
enum LinkPath<R: Scalar> {
    /// Copies from device to device.
    Direct,
    /// Messages from and to the memory of the device, with a border that is sent.
    OnDevice(Option<ReadyBorder<R>>),
    /// Copies through memory that both processes have mapped.
    Shared(Box<SharedBorders<R>>),
    /// Messages from and to page-locked memory.
    Staged {
        sent: Pinned<R>,
        /// Event after the copy to `sent`.
        copied: Option<Event>,
        received: Pinned<R>,
    },
}

/// Border that is complete after an event.
#[derive(Debug)]
struct ReadyBorder<R: Scalar> {
    field: Arc<Buffer<R>>,
    range: Range<usize>,
    done: Event,
}

/// Paths that a rank may use besides messages.
#[derive(Clone, Copy)]
struct Paths {
    /// Chooses the links that copy from device to device, equally on both ends.
    is_direct: fn(&Device, &Device) -> bool,
    /// Whether this rank offers shared memory. A link uses it if both of its ends do and can.
    offers_shared: bool,
}

impl<R: Scalar> DeviceLinks<R> {
    /// Connects a slab on `device` with its neighbours, for borders of `border_len` values. All
    /// ranks must call it.
    pub(crate) fn new(
        device: &Device,
        neighbours: &Neighbours,
        border_len: usize,
    ) -> Result<Self, LinkError> {
        let offers_shared = neighbours.transport.is_mpi();
        Self::with_paths(
            device,
            neighbours,
            border_len,
            Paths { is_direct: Device::shares_memory_with, offers_shared },
        )
    }

    /// As [`Self::new`], with a choice of paths.
    fn with_paths(
        device: &Device,
        neighbours: &Neighbours,
        border_len: usize,
        paths: Paths,
    ) -> Result<Self, LinkError> {
        let Neighbours { transport, lower, upper } = neighbours;
        let ranks = [*lower, *upper];
        let is_direct = find_direct(device, transport, ranks, paths.is_direct)?;
        let is_on_device = transport.is_cuda_aware() && device.properties().backend == Backend::Cuda;
        // Both ends of other links exchange offers, also if one of them has nothing to offer.
        let others = [0, 1].map(|side| ranks[side].filter(|_| !is_direct[side]));
        let offers_shared = paths.offers_shared && !is_on_device;
        let shared = shared::connect(device, transport, others, border_len, offers_shared)?;
        let mut links = [None, None];
        for (side, shared) in shared.into_iter().enumerate() {
            let Some(rank) = ranks[side] else { continue };
            let path = match shared {
                _ if is_direct[side] => LinkPath::Direct,
                _ if is_on_device => LinkPath::OnDevice(None),
                Some(borders) => LinkPath::Shared(Box::new(borders)),
                None => {
                    let [sent, received] = [device.pinned(border_len)?, device.pinned(border_len)?];
                    LinkPath::Staged { sent, copied: None, received }
                }
            };
            links[side] = Some(Link { rank, path });
        }
        let queue = device.new_urgent_queue()?;
        Ok(Self { transport: transport.clone(), queue, links, is_started: false })
    }

    /// Returns the paths to the lower and to the upper neighbour.
    pub(super) fn paths(&self) -> impl Iterator<Item = BorderPath> {
        self.links.iter().flatten().map(|link| match link.path {
            LinkPath::Direct => BorderPath::Direct,
            LinkPath::OnDevice(_) => BorderPath::OnDevice,
            LinkPath::Shared(_) => BorderPath::Shared,
            LinkPath::Staged { .. } => BorderPath::Staged,
        })
    }

    /// Returns the queue of the borders.
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Starts to send the parts `borders` of a field to the lower and to the upper neighbour. They
    /// are complete after all work that is in the queue of the borders.
    pub(crate) fn start(
        &mut self,
        field: &Arc<Buffer<R>>,
        borders: [Range<usize>; 2],
    ) -> Result<(), LinkError> {
        let done = self.queue.record()?;
        for (side, range) in borders.into_iter().enumerate() {
            let Some(link) = &mut self.links[side] else { continue };
            let border =
                |range: Range<usize>| ReadyBorder { field: Arc::clone(field), range, done: done.clone() };
            match &mut link.path {
                LinkPath::Direct => {
                    self.transport.send_value(link.rank, SENT[side], border(range))?;
                }
                LinkPath::OnDevice(sent) => *sent = Some(border(range)),
                LinkPath::Shared(borders) => borders.start(&self.queue, field.range(range)?)?,
                LinkPath::Staged { sent, copied, .. } => {
                    *copied = Some(self.queue.read_async(field.range(range)?, sent)?);
                }
            }
        }
        self.is_started = true;
        Ok(())
    }

    /// Receives the borders of the neighbours and queues their copies to the parts `ghosts` of a
    /// field. [`Self::start`] must have been called before.
    pub(crate) fn finish(&mut self, field: &Buffer<R>, ghosts: [Range<usize>; 2]) -> Result<(), LinkError> {
        self.is_started = false;
        self.exchange_messages(field, &ghosts)?;
        for (side, ghosts) in ghosts.into_iter().enumerate() {
            let Some(link) = &mut self.links[side] else { continue };
            let ghosts = field.range(ghosts)?;
            match &mut link.path {
                LinkPath::Direct => {
                    let border: ReadyBorder<R> = self.transport.receive_value(link.rank, RECEIVED[side])?;
                    self.queue.wait_for(&border.done)?;
                    self.queue.copy(border.field.range(border.range)?, ghosts)?;
                }
                LinkPath::OnDevice(sent) => *sent = None,
                LinkPath::Shared(borders) => borders.finish(&self.queue, ghosts)?,
                LinkPath::Staged { received, .. } => {
                    self.queue.write_async(ghosts, received)?;
                }
            }
        }
        Ok(())
    }

    /// Exchanges the borders that are messages. All receives are started before the first wait.
    fn exchange_messages(&mut self, field: &Buffer<R>, ghosts: &[Range<usize>; 2]) -> Result<(), LinkError> {
        let is_message = |link: &Link<R>| !matches!(link.path, LinkPath::Direct);
        if !self.links.iter().flatten().any(is_message) {
            return Ok(());
        }
        let links = &mut self.links;
        self.transport.exchange(|exchange| {
            let mut sends = Vec::new();
            for (side, link) in links.iter_mut().enumerate() {
                let Some(Link { rank, path }) = link else { continue };
                match path {
                    LinkPath::Direct => {}
                    LinkPath::OnDevice(sent) => {
                        let Some(border) = sent else { continue };
                        // The ghost slices were read by work before the event.
                        border.done.wait()?;
                        let ghosts = field.range(ghosts[side].clone())?;
                        exchange.receive_on_device(*rank, RECEIVED[side], ghosts)?;
                        let border = border.field.range(border.range.clone())?;
                        exchange.send_from_device(*rank, SENT[side], border)?;
                    }
                    LinkPath::Shared(borders) => {
                        exchange.receive::<R>(*rank, RECEIVED[side], &mut [])?;
                        sends.push((*rank, SENT[side], borders.take_event(), None));
                    }
                    LinkPath::Staged { sent, copied, received } => {
                        exchange.receive(*rank, RECEIVED[side], &mut received[..])?;
                        sends.push((*rank, SENT[side], copied.take(), Some(sent)));
                    }
                }
            }
            for (rank, tag, copied, sent) in sends {
                copied.map_or(Ok(()), |copied| copied.wait())?;
                exchange.send(rank, tag, sent.map_or(&[][..], |sent| &sent[..]))?;
            }
            Ok(())
        })
    }
}

impl<R: Scalar> Drop for DeviceLinks<R> {
    /// Receives borders that nobody needs, so that the next field of these ranks does not get them.
    /// Other paths send nothing before [`Self::finish`].
    fn drop(&mut self) {
        for (side, link) in self.links.iter().enumerate() {
            if let (true, Some(Link { rank, path: LinkPath::Direct })) = (self.is_started, link) {
                // If this fails, the group has ended.
                let _ = self.transport.receive_value::<ReadyBorder<R>>(*rank, RECEIVED[side]);
            }
        }
    }
}

/// Returns for each neighbour whether the link to it copies from device to device.
fn find_direct(
    device: &Device,
    transport: &Transport,
    ranks: [Option<usize>; 2],
    is_direct: fn(&Device, &Device) -> bool,
) -> Result<[bool; 2], LinkError> {
    let mut found = [false; 2];
    if transport.is_mpi() {
        return Ok(found);
    }
    for (side, rank) in ranks.iter().enumerate() {
        rank.map_or(Ok(()), |rank| transport.send_value(rank, SENT[side], device.clone()))?;
    }
    for (side, rank) in ranks.iter().enumerate() {
        let Some(rank) = *rank else { continue };
        found[side] = is_direct(device, &transport.receive_value::<Device>(rank, RECEIVED[side])?);
    }
    Ok(found)
}
