//! Passes of a slab on a device together with its neighbours.
//!
//! As for waves (`wave::device::team`), borders and interior have a queue each. The borders of a pass
//! wait for the interior of the pass before, and the interior for the borders of the pass before.
//! The interior needs no ghost rows, so it is queued before the ghost rows of the pass before are
//! received. Both fields take turns, so no row is overwritten that another kernel or a neighbour may
//! still read.

use std::mem;

use orrery_device::Event;

use super::DeviceHeat;
use crate::Scalar;
use crate::team::{DeviceLinks, LinkError, Neighbours};

impl<R: Scalar> DeviceHeat<R> {
    /// Connects the slab with its neighbours. All ranks must call it.
    pub(in crate::heat) fn connect(&self, neighbours: &Neighbours) -> Result<DeviceLinks<R>, LinkError> {
        let [border, _] = self.slab.border_ranges(i64::from(self.strategy.steps_per_pass));
        DeviceLinks::new(&self.device, neighbours, border.len())
    }

    /// Queues `steps` steps of length `dt` together with the neighbours. If borders are sent as
    /// messages, the call waits for them.
    pub(in crate::heat) fn advance_with(
        &mut self,
        neighbours: &Neighbours,
        links: &mut DeviceLinks<R>,
        dt: f64,
        steps: u64,
    ) -> Result<(), LinkError> {
        let coefficients = self.plate.step_coefficients(dt);
        let border_rows = self.strategy.steps_per_pass as usize;
        let owned = self.slab.owned.clone();
        let [low, interior, high] = neighbours
            .split((owned.end - owned.start) as usize, border_rows)
            .map(|rows| owned.start + rows.start as i64..owned.start + rows.end as i64);
        let mut interior_done = self.queue().record()?;
        let mut borders_done: Option<Event> = None;
        for steps in self.passes(steps) {
            let queue = self.own_queue.as_ref().unwrap_or(self.device.queue());
            let (slab, kernels, plate) = (&self.slab, &mut self.kernels, &self.plate);
            borders_done.as_ref().map_or(Ok(()), |event| queue.wait_for(event))?;
            slab.launch(queue, kernels, plate, coefficients, steps, interior.clone())?;
            let interior_before = mem::replace(&mut interior_done, queue.record()?);

            if borders_done.is_some() {
                links.finish(&slab.state, slab.ghost_ranges())?;
            }
            links.queue().wait_for(&interior_before)?;
            for rows in [&low, &high] {
                slab.launch(links.queue(), kernels, plate, coefficients, steps, rows.clone())?;
            }
            borders_done = Some(links.queue().record()?);
            links.start(&slab.next, slab.border_ranges(border_rows as i64))?;
            mem::swap(&mut self.slab.state, &mut self.slab.next);
        }
        if borders_done.is_some() {
            links.finish(&self.slab.state, self.slab.ghost_ranges())?;
        }
        self.queue().wait_for(&links.queue().record()?)?;
        Ok(())
    }

    /// Queues the exchange of the ghost rows of the state.
    pub(in crate::heat) fn exchange_ghosts(&mut self, links: &mut DeviceLinks<R>) -> Result<(), LinkError> {
        let (slab, border_rows) = (&self.slab, i64::from(self.strategy.steps_per_pass));
        links.queue().wait_for(&self.queue().record()?)?;
        links.start(&slab.state, slab.border_ranges(border_rows))?;
        links.finish(&slab.state, slab.ghost_ranges())?;
        self.queue().wait_for(&links.queue().record()?)?;
        Ok(())
    }
}
