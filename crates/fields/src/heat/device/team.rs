//! Passes of a slab on a device together with its neighbours.
//!
//! As for waves (`wave::device::team`), borders and interior have a queue each. The borders of a
//! pass wait for the interior of the pass before, and the interior for the borders of the pass
//! before. The interior needs no ghost rows, so it is queued before the ghost rows of the pass
//! before are received. Those of the last pass are received by the next operation that needs them.
//! Both fields take turns, so no row is overwritten that another kernel or a neighbour may still
//! read.

use orrery_cluster::LinkError;
use orrery_device::{DeviceError, Event};

use super::DeviceHeat;
use crate::Scalar;
use crate::team::{BorderLinks, Neighbours};

/// Borders of a pass that are sent, and ghost rows that are not received yet.
#[derive(Debug)]
pub(super) struct PendingExchange {
    /// After the new values of the borders.
    borders_done: Event,
    /// After the new values of the interior.
    interior_done: Event,
}

impl<R: Scalar> DeviceHeat<R> {
    /// Connects the slab with its neighbours. All ranks must call it.
    pub(in crate::heat) fn connect(&self, neighbours: &Neighbours) -> Result<BorderLinks<R>, LinkError> {
        let [border, _] = self.slab.border_ranges(i64::from(self.strategy.steps_per_pass));
        BorderLinks::new(&self.device, neighbours, border.len())
    }

    /// Queues `steps` steps of length `dt` together with the neighbours. If borders are sent as
    /// messages, the call waits for all but the last of them ([`Self::complete_pass`]).
    pub(in crate::heat) fn advance_with(
        &mut self,
        neighbours: &Neighbours,
        links: &mut BorderLinks<R>,
        dt: f64,
        steps: u64,
    ) -> Result<(), LinkError> {
        let coefficients = self.plate.step_coefficients(dt);
        let border_rows = self.strategy.steps_per_pass as usize;
        let owned = self.slab.owned.clone();
        let [low, interior, high] = neighbours
            .split((owned.end - owned.start) as usize, border_rows)
            .map(|rows| owned.start + rows.start as i64..owned.start + rows.end as i64);
        links.queue().wait_for(&self.queue().record()?)?;
        for steps in self.passes(steps) {
            self.wait_for_borders()?;
            let queue = self.device.queue();
            let (slab, kernels, plate) = (&self.slab, &mut self.kernels, &self.plate);
            slab.launch(queue, kernels, plate, coefficients, steps, interior.clone())?;
            let interior_done = queue.record()?;

            self.finish_exchange(links)?;
            let (slab, kernels, plate) = (&self.slab, &mut self.kernels, &self.plate);
            for rows in [&low, &high] {
                slab.launch(links.queue(), kernels, plate, coefficients, steps, rows.clone())?;
            }
            let borders_done = links.queue().record()?;
            links.start(&slab.next, slab.border_ranges(border_rows as i64))?;
            std::mem::swap(&mut self.slab.state, &mut self.slab.next);
            self.pending = Some(PendingExchange { borders_done, interior_done });
        }
        Ok(self.wait_for_borders()?)
    }

    /// Makes the queue of the slab wait for the borders of the last pass.
    fn wait_for_borders(&self) -> Result<(), DeviceError> {
        self.pending.as_ref().map_or(Ok(()), |pending| self.queue().wait_for(&pending.borders_done))
    }

    /// Receives the ghost rows of the last pass, if they are pending.
    fn finish_exchange(&mut self, links: &mut BorderLinks<R>) -> Result<(), LinkError> {
        let Some(PendingExchange { interior_done, .. }) = self.pending.take() else { return Ok(()) };
        links.finish(&self.slab.state, self.slab.ghost_ranges())?;
        Ok(links.queue().wait_for(&interior_done)?)
    }

    /// Receives the ghost rows of the last pass, if they are pending. All ranks must call it before
    /// work of the slab's queue that needs them.
    pub(in crate::heat) fn complete_pass(&mut self, links: &mut BorderLinks<R>) -> Result<(), LinkError> {
        if self.pending.is_some() {
            self.finish_exchange(links)?;
            self.queue().wait_for(&links.queue().record()?)?;
        }
        Ok(())
    }

    /// Queues the exchange of the ghost rows of the state.
    pub(in crate::heat) fn exchange_ghosts(&mut self, links: &mut BorderLinks<R>) -> Result<(), LinkError> {
        let (slab, border_rows) = (&self.slab, i64::from(self.strategy.steps_per_pass));
        links.queue().wait_for(&self.queue().record()?)?;
        links.start(&slab.state, slab.border_ranges(border_rows))?;
        links.finish(&slab.state, slab.ghost_ranges())?;
        self.queue().wait_for(&links.queue().record()?)?;
        Ok(())
    }
}
