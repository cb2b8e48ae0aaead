//! Exchange of borders between devices.
//!
//! Borders have a queue, so that copies and small kernels overlap with the interior. It is urgent:
//! borders that are ready do not wait for the blocks of the interior that have not started.
//!
//! A border is a round of [`DeviceLinks`]. Each rank sends to both neighbours, so a message of the
//! neighbour's next round shows that its device has read the border of this one. Two buffers that
//! take turns satisfy the rule of direct messages.

use std::ops::Range;
use std::sync::Arc;

use orrery_cluster::{DeviceLinks, DeviceMessage, LinkError, MessagePath, Tag};
use orrery_device::{Buffer, Device, Queue};

use super::neighbours::{DOWNWARDS, Neighbours, UPWARDS};
use crate::Scalar;

/// Tags of the messages to the lower and to the upper neighbour.
const SENT: [Tag; 2] = [DOWNWARDS, UPWARDS];
/// Tags of the messages from them.
const RECEIVED: [Tag; 2] = [UPWARDS, DOWNWARDS];

/// Connections of a slab on a device to its neighbours.
#[derive(Debug)]
pub(crate) struct BorderLinks<R: Scalar> {
    links: DeviceLinks<R>,
    queue: Queue,
    /// Owners of the slices below and above.
    ranks: [Option<usize>; 2],
}

impl<R: Scalar> BorderLinks<R> {
    /// Connects a slab on `device` with its neighbours, for borders of `border_len` values. All
    /// ranks must call it.
    pub(crate) fn new(
        device: &Device,
        neighbours: &Neighbours,
        border_len: usize,
    ) -> Result<Self, LinkError> {
        let ranks = [neighbours.lower, neighbours.upper];
        let connected: Vec<usize> = ranks.into_iter().flatten().collect();
        let links = DeviceLinks::new(device, &neighbours.transport, &connected, border_len)?;
        Ok(Self { links, queue: device.new_urgent_queue()?, ranks })
    }

    /// Returns the paths to the neighbours.
    pub(super) fn paths(&self) -> Vec<MessagePath> {
        self.links.paths()
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
        let messages = self.messages(SENT, borders);
        self.links.start(&self.queue, field, messages)
    }

    /// Receives the borders of the neighbours and queues their copies to the parts `ghosts` of a
    /// field. [`Self::start`] must have been called before.
    pub(crate) fn finish(&mut self, field: &Buffer<R>, ghosts: [Range<usize>; 2]) -> Result<(), LinkError> {
        let messages = self.messages(RECEIVED, ghosts);
        self.links.finish(&self.queue, field, &messages)
    }

    /// Returns the messages to or from the neighbours.
    fn messages(&self, tags: [Tag; 2], ranges: [Range<usize>; 2]) -> Vec<DeviceMessage> {
        let sides = self.ranks.into_iter().zip(tags).zip(ranges);
        sides.filter_map(|((rank, tag), range)| Some(DeviceMessage { rank: rank?, tag, range })).collect()
    }
}

impl<R: Scalar> Drop for BorderLinks<R> {
    /// Receives borders that nobody needs, so that the next field of these ranks does not get them.
    fn drop(&mut self) {
        let received = self.ranks.into_iter().zip(RECEIVED);
        self.links.discard(received.filter_map(|(rank, tag)| Some((rank?, tag))));
    }
}
