//! Passes of a slab on a device together with its neighbours.
//!
//! Borders and interior have a queue each. In every pass, which is one step or several,
//!
//! - the queue of the slab waits for the borders of the pass before and computes the interior,
//!   which needs no ghost slices,
//! - the border queue receives the ghost slices of the pass before, waits for its interior,
//!   computes both borders and sends them.
//!
//! The host queues the interior first, and then waits for messages. So the device has work while
//! the borders of the pass before are on their way, and an exchange may take as long as an
//! interior. The ghost slices of the last pass are received by the next operation that needs them.
//!
//! Neither queue writes nodes that the other one or a neighbour may still read: the two fields of a
//! slab take turns, so pass n + 1 writes to the buffer that pass n has read, after the event of the
//! other queue that comes after pass n.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use orrery_cluster::LinkError;
use orrery_device::{Buffer, Device, DeviceError, Event, Queue};

use super::{BorderLinks, Neighbours};
use crate::Scalar;

/// A slab on a device: two fields that take turns. Slices count from the first one of the slab.
pub(crate) trait DeviceSlab: Debug + Send {
    /// Numbers of the fields.
    type Number: Scalar;
    /// Parameters of a pass.
    type Pass: Copy;

    /// Returns the device, whose queue is that of the slab.
    fn device(&self) -> &Device;
    /// Returns the state.
    fn state(&self) -> &Arc<Buffer<Self::Number>>;
    /// Returns the field that a pass writes.
    fn next(&self) -> &Arc<Buffer<Self::Number>>;
    /// Returns the number of slices of the slab, and of those that a neighbour needs.
    fn slices(&self) -> [usize; 2];
    /// Returns the values of the slices that the lower and the upper neighbour need.
    fn border_ranges(&self) -> [Range<usize>; 2];
    /// Returns the values of the ghost slices below and above.
    fn ghost_ranges(&self) -> [Range<usize>; 2];

    /// Prepares the next pass.
    fn prepare_pass(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    /// Queues the new values of `slices`, without those at borders, in the queue of the slab.
    fn launch_interior(&mut self, pass: Self::Pass, slices: Range<usize>) -> Result<(), DeviceError>;
    /// Queues the new values of a border.
    fn launch_border(
        &mut self,
        queue: &Queue,
        pass: Self::Pass,
        slices: Range<usize>,
    ) -> Result<(), DeviceError>;
    /// Makes the new values the state.
    fn finish_pass(&mut self);
    /// Queues what needs the state with its ghost slices after a pass.
    fn launch_after_pass(&mut self, _queue: &Queue) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Queues a pass of all slices, without neighbours.
    fn run_pass(&mut self, pass: Self::Pass) -> Result<(), DeviceError> {
        self.prepare_pass()?;
        self.launch_interior(pass, 0..self.slices()[0])?;
        self.finish_pass();
        let device = self.device().clone();
        self.launch_after_pass(device.queue())
    }
}

/// A slab on a device with its neighbours.
#[derive(Debug)]
pub(crate) struct LinkedSlab<D: DeviceSlab> {
    slab: D,
    /// `None` for a rank alone.
    links: Option<SlabLinks<D::Number>>,
}

#[derive(Debug)]
struct SlabLinks<R: Scalar> {
    neighbours: Neighbours,
    borders: BorderLinks<R>,
    /// Exchange of the last pass, if it is not complete.
    pending: Option<PendingExchange>,
}

/// Borders of a pass that are sent, and ghost slices that are not received yet.
#[derive(Debug)]
struct PendingExchange {
    /// After the new values of the borders.
    borders_done: Event,
    /// After the new values of the interior.
    interior_done: Event,
}

impl<D: DeviceSlab> LinkedSlab<D> {
    /// Connects a slab with its neighbours, and copies their slices. All ranks must call it.
    pub(crate) fn new(slab: D, neighbours: Neighbours) -> Result<Self, LinkError> {
        let mut links = None;
        if !neighbours.is_alone() {
            let [border, _] = slab.border_ranges();
            let borders = BorderLinks::new(slab.device(), &neighbours, border.len())?;
            links = Some(SlabLinks { neighbours, borders, pending: None });
        }
        let mut linked = Self { slab, links };
        linked.exchange_ghosts()?;
        Ok(linked)
    }

    /// Returns the slab. The exchange of its last pass may be pending.
    pub(crate) fn slab(&self) -> &D {
        &self.slab
    }

    /// Returns the slab.
    pub(crate) fn into_slab(self) -> D {
        self.slab
    }

    /// Queues passes. If borders are sent as messages, the call waits for all but the last of them
    /// ([`Self::completed`]).
    pub(crate) fn advance(&mut self, passes: impl Iterator<Item = D::Pass>) -> Result<(), LinkError> {
        let Self { slab, links } = self;
        let Some(links) = links else {
            for pass in passes {
                slab.run_pass(pass)?;
            }
            return Ok(());
        };
        let [slices, border] = slab.slices();
        let [low, interior, high] = links.neighbours.split(slices, border);
        links.borders.queue().wait_for(&slab.device().queue().record()?)?;
        for pass in passes {
            slab.prepare_pass()?;
            links.wait_for_borders(slab)?;
            slab.launch_interior(pass, interior.clone())?;
            let interior_done = slab.device().queue().record()?;

            links.finish_exchange(slab)?;
            for slices in [&low, &high] {
                slab.launch_border(links.borders.queue(), pass, slices.clone())?;
            }
            let borders_done = links.borders.queue().record()?;
            links.borders.start(slab.next(), slab.border_ranges())?;
            slab.finish_pass();
            links.pending = Some(PendingExchange { borders_done, interior_done });
        }
        Ok(links.wait_for_borders(slab)?)
    }

    /// Receives the ghost slices of the last pass, if they are pending, and returns the slab. All
    /// ranks must call it before work of the slab's queue that needs them.
    pub(crate) fn completed(&mut self) -> Result<&mut D, LinkError> {
        if let Some(links) = self.links.as_mut().filter(|links| links.pending.is_some()) {
            links.finish_exchange(&mut self.slab)?;
            self.slab.device().queue().wait_for(&links.borders.queue().record()?)?;
        }
        Ok(&mut self.slab)
    }

    /// Queues the exchange of the ghost slices of the state. All ranks must call it.
    pub(crate) fn exchange_ghosts(&mut self) -> Result<(), LinkError> {
        let Self { slab, links: Some(SlabLinks { borders, .. }) } = self else { return Ok(()) };
        borders.queue().wait_for(&slab.device().queue().record()?)?;
        borders.start(slab.state(), slab.border_ranges())?;
        borders.finish(slab.state(), slab.ghost_ranges())?;
        slab.device().queue().wait_for(&borders.queue().record()?)?;
        Ok(())
    }
}

impl<R: Scalar> SlabLinks<R> {
    /// Makes the queue of the slab wait for the borders of the last pass.
    fn wait_for_borders(&self, slab: &impl DeviceSlab) -> Result<(), DeviceError> {
        let wait = |pending: &PendingExchange| slab.device().queue().wait_for(&pending.borders_done);
        self.pending.as_ref().map_or(Ok(()), wait)
    }

    /// Receives the ghost slices of the last pass, if they are pending.
    fn finish_exchange(&mut self, slab: &mut impl DeviceSlab<Number = R>) -> Result<(), LinkError> {
        let Some(PendingExchange { interior_done, .. }) = self.pending.take() else { return Ok(()) };
        self.borders.finish(slab.state(), slab.ghost_ranges())?;
        self.borders.queue().wait_for(&interior_done)?;
        Ok(slab.launch_after_pass(self.borders.queue())?)
    }
}
