//! Steps of a slab on a device together with its neighbours.
//!
//! Borders and interior have a queue each. In every step
//!
//! - the border queue waits for the interior of the step before, computes both borders, sends them
//!   and receives the ghost slices,
//! - the queue of the slab waits for the borders of the step before and computes the interior, which
//!   needs no ghost slices, and the images at the ends.
//!
//! So the borders of a step, their messages and the copies of the ghost slices overlap with its
//! interior. Neither queue writes nodes that the other one may still read: step n + 1 writes to the
//! buffer that step n has read, after the event of the other queue that comes after step n.
//! Receivers read ghost slices, so they are in the border queue.

use orrery_device::{DeviceError, Event};

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
        let mut borders_done = None;
        for _ in 0..steps {
            self.points.upload_amplitudes(&self.device, &self.medium, self.step)?;
            let (slab, target) = (&self.slab, Target::Previous);
            links.queue().wait_for(&interior_done)?;
            let borders = self.step_launch(links.queue());
            slab.launch_step(&borders, target, low.clone())?;
            slab.launch_step(&borders, target, high.clone())?;
            let borders_before = borders_done.replace(links.queue().record()?);
            links.start(&slab.previous, slab.layout.border_ranges())?;

            borders_before.map_or(Ok(()), |event| self.queue().wait_for(&event))?;
            let step = self.step_launch(self.queue());
            slab.launch_step(&step, target, interior.clone())?;
            slab.launch_end_images(&step, target)?;
            interior_done = self.queue().record()?;

            links.finish(&slab.previous, slab.layout.ghost_ranges())?;
            self.finish_step();
            self.sample_in(links, &interior_done)?;
        }
        self.queue().wait_for(&links.queue().record()?)?;
        Ok(())
    }

    /// Queues the samples of the receivers in the border queue.
    fn sample_in(&mut self, links: &DeviceLinks<R>, interior_done: &Event) -> Result<(), DeviceError> {
        if self.points.has_receivers() {
            links.queue().wait_for(interior_done)?;
            self.points.launch_samples(&self.device, links.queue(), &self.slab.now)?;
        }
        Ok(())
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
