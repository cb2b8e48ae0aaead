//! Steps of a slab on a device together with its neighbours.
//!
//! Borders and interior have a queue each. In every step
//!
//! - the queue of the slab waits for the borders of the step before and computes the interior, which
//!   needs no ghost slices, and the images at the ends,
//! - the border queue receives the ghost slices of the step before, waits for its interior, computes
//!   both borders and sends them.
//!
//! The host queues the interior first, and then waits for messages. So the device has work while
//! the borders of the step before are on their way, and an exchange may take as long as an interior.
//!
//! Neither queue writes nodes that the other one may still read: step n + 1 writes to the buffer
//! that step n has read, after the event of the other queue that comes after step n. Receivers read
//! ghost slices, so they are in the border queue.

use std::mem;

use orrery_device::Event;

use super::DeviceWave;
use super::slab::{Slab, Target};
use crate::Scalar;
use crate::team::{DeviceLinks, LinkError, Neighbours};
use crate::wave::MAX_RADIUS;

impl<R: Scalar> DeviceWave<R> {
    /// Connects the slab with its neighbours. All ranks must call it.
    pub(in crate::wave) fn connect(&self, neighbours: &Neighbours) -> Result<DeviceLinks<R>, LinkError> {
        let ghosts = MAX_RADIUS as isize;
        DeviceLinks::new(&self.device, neighbours, self.slab.layout.slice_range(-ghosts..0).len())
    }

    /// Queues `steps` steps together with the neighbours. If borders are sent as messages, the call
    /// waits for them.
    pub(in crate::wave) fn advance_with(
        &mut self,
        neighbours: &Neighbours,
        links: &mut DeviceLinks<R>,
        steps: u64,
    ) -> Result<(), LinkError> {
        let [low, interior, high] = neighbours.split(self.slab.layout.slices(), MAX_RADIUS);
        let mut interior_done = self.queue().record()?;
        let mut borders_done: Option<Event> = None;
        for _ in 0..steps {
            self.points.upload_amplitudes(&self.device, &self.medium, self.step)?;
            borders_done.as_ref().map_or(Ok(()), |event| self.queue().wait_for(event))?;
            let (step, target) = (self.interior_launch(), Target::Previous);
            self.slab.launch_step(&step, target, interior.clone())?;
            self.slab.launch_end_images(&step, target)?;
            let interior_before = mem::replace(&mut interior_done, self.queue().record()?);

            match borders_done {
                Some(_) => self.finish_exchange(links, &interior_before)?,
                None => links.queue().wait_for(&interior_before)?,
            }
            let (step, slab) = (self.border_launch(links.queue()), &self.slab);
            slab.launch_step(&step, target, low.clone())?;
            slab.launch_step(&step, target, high.clone())?;
            borders_done = Some(links.queue().record()?);
            links.start(&slab.previous, slab.layout.border_ranges())?;
            self.finish_step();
        }
        if steps > 0 {
            self.finish_exchange(links, &interior_done)?;
        }
        self.queue().wait_for(&links.queue().record()?)?;
        Ok(())
    }

    /// Receives the ghost slices of u and queues the samples of the receivers. `interior_done` is
    /// the event after the interior of u.
    fn finish_exchange(
        &mut self,
        links: &mut DeviceLinks<R>,
        interior_done: &Event,
    ) -> Result<(), LinkError> {
        links.finish(&self.slab.now, self.slab.layout.ghost_ranges())?;
        links.queue().wait_for(interior_done)?;
        Ok(self.points.launch_samples(&self.device, links.queue(), &self.slab.now)?)
    }

    /// Queues the exchange of the ghost slices of u.
    pub(in crate::wave) fn exchange_ghosts(&mut self, links: &mut DeviceLinks<R>) -> Result<(), LinkError> {
        let Slab { now, layout, .. } = &self.slab;
        links.queue().wait_for(&self.queue().record()?)?;
        links.start(now, layout.border_ranges())?;
        links.finish(now, layout.ghost_ranges())?;
        self.queue().wait_for(&links.queue().record()?)?;
        Ok(())
    }
}
