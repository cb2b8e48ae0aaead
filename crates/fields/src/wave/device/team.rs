//! Steps of a slab on a device together with its neighbours.
//!
//! Borders and interior have a queue each. In every step
//!
//! - the queue of the slab waits for the borders of the step before and computes the interior,
//!   which needs no ghost slices, and the images at the ends,
//! - the border queue receives the ghost slices of the step before, waits for its interior,
//!   computes both borders and sends them.
//!
//! The host queues the interior first, and then waits for messages. So the device has work while
//! the borders of the step before are on their way, and an exchange may take as long as an
//! interior. The ghost slices of the last step are received by the next operation that needs them.
//!
//! Neither queue writes nodes that the other one may still read: step n + 1 writes to the buffer
//! that step n has read, after the event of the other queue that comes after step n. Receivers read
//! ghost slices, so they are in the border queue.

use orrery_cluster::LinkError;
use orrery_device::{DeviceError, Event};

use super::DeviceWave;
use super::slab::{Slab, Target};
use crate::Scalar;
use crate::team::{BorderLinks, Neighbours};
use crate::wave::MAX_RADIUS;

/// Borders of a step that are sent, and ghost slices that are not received yet.
#[derive(Debug)]
pub(super) struct PendingExchange {
    /// After the new values of the borders.
    borders_done: Event,
    /// After the new values of the interior.
    interior_done: Event,
}

impl<R: Scalar> DeviceWave<R> {
    /// Connects the slab with its neighbours. All ranks must call it.
    pub(in crate::wave) fn connect(&self, neighbours: &Neighbours) -> Result<BorderLinks<R>, LinkError> {
        let ghosts = MAX_RADIUS as isize;
        BorderLinks::new(&self.device, neighbours, self.slab.layout.slice_range(-ghosts..0).len())
    }

    /// Queues `steps` steps together with the neighbours. If borders are sent as messages, the call
    /// waits for all but the last of them ([`Self::complete_step`]).
    pub(in crate::wave) fn advance_with(
        &mut self,
        neighbours: &Neighbours,
        links: &mut BorderLinks<R>,
        steps: u64,
    ) -> Result<(), LinkError> {
        let [low, interior, high] = neighbours.split(self.slab.layout.slices(), MAX_RADIUS);
        links.queue().wait_for(&self.queue().record()?)?;
        for _ in 0..steps {
            self.points.upload_amplitudes(&self.device, &self.medium, self.step)?;
            self.wait_for_borders()?;
            let (step, target) = (self.interior_launch(), Target::Previous);
            self.slab.launch_step(&step, target, interior.clone())?;
            self.slab.launch_end_images(&step, target)?;
            let interior_done = self.queue().record()?;

            self.finish_exchange(links)?;
            let (step, slab) = (self.border_launch(links.queue()), &self.slab);
            slab.launch_step(&step, target, low.clone())?;
            slab.launch_step(&step, target, high.clone())?;
            let borders_done = links.queue().record()?;
            links.start(&slab.previous, slab.layout.border_ranges())?;
            self.finish_step();
            self.pending = Some(PendingExchange { borders_done, interior_done });
        }
        Ok(self.wait_for_borders()?)
    }

    /// Makes the queue of the slab wait for the borders of the last step.
    fn wait_for_borders(&self) -> Result<(), DeviceError> {
        self.pending.as_ref().map_or(Ok(()), |pending| self.queue().wait_for(&pending.borders_done))
    }

    /// Receives the ghost slices of the last step, if they are pending, and queues the samples of
    /// the receivers.
    fn finish_exchange(&mut self, links: &mut BorderLinks<R>) -> Result<(), LinkError> {
        let Some(PendingExchange { interior_done, .. }) = self.pending.take() else { return Ok(()) };
        links.finish(&self.slab.now, self.slab.layout.ghost_ranges())?;
        links.queue().wait_for(&interior_done)?;
        Ok(self.points.launch_samples(&self.device, links.queue(), &self.slab.now)?)
    }

    /// Receives the ghost slices and queues the samples of the last step, if they are pending. All
    /// ranks must call it before work of the slab's queue that needs them.
    pub(in crate::wave) fn complete_step(&mut self, links: &mut BorderLinks<R>) -> Result<(), LinkError> {
        if self.pending.is_some() {
            self.finish_exchange(links)?;
            self.queue().wait_for(&links.queue().record()?)?;
        }
        Ok(())
    }

    /// Queues the exchange of the ghost slices of u.
    pub(in crate::wave) fn exchange_ghosts(&mut self, links: &mut BorderLinks<R>) -> Result<(), LinkError> {
        let Slab { now, layout, .. } = &self.slab;
        links.queue().wait_for(&self.queue().record()?)?;
        links.start(now, layout.border_ranges())?;
        links.finish(now, layout.ghost_ranges())?;
        self.queue().wait_for(&links.queue().record()?)?;
        Ok(())
    }
}
