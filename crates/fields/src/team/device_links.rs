//! Exchange of borders between devices.
//!
//! Borders have a queue, so that copies and small kernels overlap with the interior. It is urgent:
//! borders that are ready do not wait for the blocks of the interior that have not started.
//!
//! Two ranks of one process whose devices are the same one, or both of CUDA, copy from device to
//! device: the owner of a border sends the handle of its buffer and the event after which the
//! border is complete, and the receiver queues a copy behind that event. The host does not wait for
//! the devices then. MPI libraries that accept memory of CUDA devices get the border itself when it
//! is complete. All others copy borders through page-locked memory and send messages.
//!
//! A receiver may read a border until it has sent its own border of the next step, because its
//! event comes after the copy. So the owner must not write to the same buffer before it has
//! received that event. Two buffers that take turns satisfy this.

use std::ops::Range;
use std::sync::Arc;

use orrery_cluster::{ClusterError, Tag, Transport};
use orrery_device::{Backend, Buffer, Device, DeviceError, Event, Pinned, Queue};
use thiserror::Error;

use super::neighbours::{DOWNWARDS, Neighbours, UPWARDS};
use crate::Scalar;

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

impl<R: Scalar> DeviceLinks<R> {
    /// Connects a slab on `device` with its neighbours, for borders of `border_len` values. All
    /// ranks must call it.
    pub(crate) fn new(
        device: &Device,
        neighbours: &Neighbours,
        border_len: usize,
    ) -> Result<Self, LinkError> {
        Self::with_paths(device, neighbours, border_len, can_copy)
    }

    /// As [`Self::new`]. `is_direct` chooses the links that copy from device to device.
    fn with_paths(
        device: &Device,
        neighbours: &Neighbours,
        border_len: usize,
        is_direct: fn(&Device, &Device) -> bool,
    ) -> Result<Self, LinkError> {
        let Neighbours { transport, lower, upper } = neighbours;
        let ranks = [*lower, *upper];
        if !transport.is_mpi() {
            for (side, rank) in ranks.iter().enumerate() {
                rank.map_or(Ok(()), |rank| transport.send_value(rank, SENT[side], device.clone()))?;
            }
        }
        let link = |side: usize, rank: usize| {
            let is_direct = !transport.is_mpi()
                && is_direct(device, &transport.receive_value::<Device>(rank, RECEIVED[side])?);
            let path = if is_direct {
                LinkPath::Direct
            } else if transport.is_cuda_aware() && device.properties().backend == Backend::Cuda {
                LinkPath::OnDevice(None)
            } else {
                let [sent, received] = [device.pinned(border_len)?, device.pinned(border_len)?];
                LinkPath::Staged { sent, copied: None, received }
            };
            Ok::<_, LinkError>(Link { rank, path })
        };
        let [lower, upper] = [0, 1].map(|side| ranks[side].map(|rank| link(side, rank)).transpose());
        let (queue, links) = (device.new_urgent_queue()?, [lower?, upper?]);
        Ok(Self { transport: transport.clone(), queue, links, is_started: false })
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
                    LinkPath::Staged { sent, copied, received } => {
                        exchange.receive(*rank, RECEIVED[side], &mut received[..])?;
                        sends.push((*rank, SENT[side], copied.take(), sent));
                    }
                }
            }
            for (rank, tag, copied, sent) in sends {
                copied.map_or(Ok(()), |copied| copied.wait())?;
                exchange.send(rank, tag, &sent[..])?;
            }
            Ok(())
        })
    }
}

impl<R: Scalar> Drop for DeviceLinks<R> {
    /// Receives borders that nobody needs, so that the next field of these ranks does not get them.
    fn drop(&mut self) {
        for (side, link) in self.links.iter().enumerate() {
            if let (true, Some(Link { rank, path: LinkPath::Direct })) = (self.is_started, link) {
                // If this fails, the group has ended.
                let _ = self.transport.receive_value::<ReadyBorder<R>>(*rank, RECEIVED[side]);
            }
        }
    }
}

/// Returns true if queues of both devices can copy between them and wait for each other's events.
fn can_copy(device: &Device, other: &Device) -> bool {
    device == other || [device, other].iter().all(|device| device.properties().backend == Backend::Cuda)
}

#[cfg(test)]
mod tests {
    use orrery_cluster::{Team, threads};
    use orrery_device::testing::test_devices;

    use super::*;

    const BORDER: usize = 100;
    const LEN: usize = 1000;

    /// Returns the fields of all ranks after some steps in which each value becomes that of its
    /// neighbour: a border moves by one rank per step. `is_direct` chooses the links.
    fn moved_borders(
        device: &Device,
        ranks: usize,
        is_direct: fn(&Device, &Device) -> bool,
    ) -> Vec<Vec<f32>> {
        let ghosts = [0..BORDER, LEN - BORDER..LEN];
        let borders = [BORDER..2 * BORDER, LEN - 2 * BORDER..LEN - BORDER];
        let fields = threads::run(ranks, |transport| {
            let neighbours = Neighbours::new(&Team::new(transport), true);
            let mut links = DeviceLinks::<f32>::with_paths(device, &neighbours, BORDER, is_direct)?;
            let values: Vec<f32> = (0..LEN).map(|k| (1000 * transport.rank() + k) as f32).collect();
            let mut field = Arc::new(device.upload(&values)?);
            let mut next = Arc::new(device.zeros(LEN)?);
            for _ in 0..5 {
                // The next step sends the ghosts that it has received.
                let queue = links.queue();
                queue.copy(field.range(ghosts[0].clone())?, next.range(borders[1].clone())?)?;
                queue.copy(field.range(ghosts[1].clone())?, next.range(borders[0].clone())?)?;
                links.start(&next, borders.clone())?;
                links.finish(&next, ghosts.clone())?;
                std::mem::swap(&mut field, &mut next);
            }
            let mut values = vec![0.0; LEN];
            links.queue().read(&*field, &mut values)?;
            Ok::<_, LinkError>(values)
        });
        fields.unwrap()
    }

    /// After five steps the lower ghosts of a rank were sent five ranks below, and the upper ones
    /// five ranks above.
    #[test]
    fn borders_reach_their_neighbours_on_every_path() {
        for device in test_devices() {
            for ranks in [2, 3] {
                let paths: [fn(&Device, &Device) -> bool; 2] = [can_copy, |_, _| false];
                for path in paths {
                    let fields = moved_borders(&device, ranks, path);
                    for (rank, field) in fields.iter().enumerate() {
                        let [below, above] =
                            [(rank + 5 * ranks - 5) % ranks, (rank + 5) % ranks].map(|rank| 1000 * rank);
                        for k in 0..BORDER {
                            assert_eq!(field[k], (below + k) as f32, "{ranks} ranks, rank {rank}");
                            assert_eq!(field[LEN - BORDER + k], (above + LEN - BORDER + k) as f32);
                        }
                    }
                }
            }
        }
    }

    /// The second connection must not receive the borders of the first one.
    #[test]
    fn borders_that_are_not_received_do_not_remain() {
        let device = &test_devices()[0];
        let result = threads::run(2, |transport| {
            let neighbours = Neighbours::new(&Team::new(transport), false);
            let field = Arc::new(device.upload(&vec![transport.rank() as f32; LEN])?);
            for _ in 0..2 {
                let mut links = DeviceLinks::<f32>::with_paths(device, &neighbours, BORDER, can_copy)?;
                links.start(&field, [BORDER..2 * BORDER, BORDER..2 * BORDER])?;
            }
            let mut links = DeviceLinks::<f32>::with_paths(device, &neighbours, BORDER, can_copy)?;
            links.start(&field, [BORDER..2 * BORDER, BORDER..2 * BORDER])?;
            links.finish(&field, [0..BORDER, LEN - BORDER..LEN])?;
            let mut values = vec![0.0; LEN];
            links.queue().read(&*field, &mut values)?;
            Ok::<_, LinkError>([values[0], values[LEN - 1]])
        });
        assert_eq!(result.unwrap(), [[0.0, 1.0], [0.0, 1.0]]);
    }

    #[test]
    fn a_device_that_fails_is_reported() {
        let device = &test_devices()[0];
        let result = threads::run(2, |transport| {
            let neighbours = Neighbours::new(&Team::new(transport), false);
            let mut links = DeviceLinks::<f32>::with_paths(device, &neighbours, BORDER, |_, _| false)?;
            let field = Arc::new(device.zeros(LEN)?);
            // The range is outside the field on one rank.
            let end = if transport.rank() == 1 { LEN + 1 } else { LEN };
            links.start(&field, [end - BORDER..end, end - BORDER..end])?;
            links.finish(&field, [0..BORDER, 0..BORDER])
        });
        assert!(matches!(result, Err(LinkError::Device(_))), "{result:?}");
    }
}
