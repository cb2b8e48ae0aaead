//! Messages of ghosts on devices: all of a ghost when lists are built, and its position in every
//! step.
//!
//! Two ranks of one process whose devices are the same one, or both of CUDA, copy from device to
//! device: the owner of a message sends its handle and the event after which it is complete. The
//! host does not wait for the devices then. All others copy through page-locked memory.
//!
//! The owner writes its next message after the next drift, when all ranks have agreed on the result
//! of that drift. Their copies come before it in their queues, so no message is overwritten early.
//! A rank without particles does not wait for its queue, but it does not use its ghosts either.
//! Without lists, ghosts are sent once, and all ranks wait for them.

use std::ops::Range;
use std::sync::Arc;

use orrery_cluster::{Tag, Transport};
use orrery_device::{Arg, Buffer, Device, DeviceError, Event};

use super::DevicePart;
use crate::lennard_jones::DeviceFluidError;
use crate::lennard_jones::slab::{GhostBits, GhostCounts, SlabPart, Window};

/// Devices at the start, and messages that are copied from device to device.
const DIRECT: Tag = Tag::new(62);

/// Numbers of a ghost when lists are built, as in `slab.cu`. Positions are shorter.
const GHOST_WORDS: usize = 7;

/// Message of another rank on its device.
struct ReadyMessage {
    words: Arc<Buffer<u32>>,
    range: Range<usize>,
    done: Event,
}

impl DevicePart {
    /// Finds the ranks that copy from device to device. All ranks must call it.
    pub(super) fn find_direct_ranks(&mut self, transport: &Transport) -> Result<(), DeviceFluidError> {
        self.is_direct = vec![false; transport.size()];
        if transport.is_mpi() {
            return Ok(());
        }
        for to in transport.other_ranks() {
            transport.send_value(to, DIRECT, self.device().clone())?;
        }
        for from in transport.other_ranks() {
            let device: Device = transport.receive_value(from, DIRECT)?;
            self.is_direct[from] = (self.may_copy)(self.device(), &device);
        }
        Ok(())
    }

    /// Moves the ghosts to the positions on their ranks.
    pub(super) fn exchange_positions(
        &mut self,
        transport: &Transport,
        counts: &GhostCounts,
        bits: GhostBits,
    ) -> Result<(), DeviceFluidError> {
        self.pack_positions(bits)?;
        self.exchange_messages(transport, counts, bits.words())?;
        Ok(self.place_positions(bits)?)
    }

    /// Makes the particles in the window of each rank ghosts of that rank, adds the ghosts of this
    /// rank, and builds the lists.
    pub(super) fn renew(
        &mut self,
        transport: &Transport,
        axis: usize,
        windows: &[Option<Window>],
    ) -> Result<GhostCounts, DeviceFluidError> {
        let sent = self.select_ghosts(axis, windows)?;
        let counts = GhostCounts::of_sent(transport, sent)?;
        self.ghost_count = counts.received.iter().sum();
        self.fluid.reserve(self.fluid.n + self.ghost_count)?;
        self.reserve_messages()?;
        self.pack_ghosts()?;
        self.exchange_messages(transport, &counts, GHOST_WORDS)?;
        self.place_ghosts()?;
        if !self.uses_lists() {
            self.device().queue().finish()?;
            transport.barrier()?;
        }
        self.build_lists()?;
        Ok(counts)
    }

    /// Copies `words` numbers per ghost from `outgoing` of the other ranks to `incoming`.
    fn exchange_messages(
        &mut self,
        transport: &Transport,
        counts: &GhostCounts,
        words: usize,
    ) -> Result<(), DeviceFluidError> {
        // The copies from these buffers are done, because the drift after them is.
        self.borrowed.clear();
        let (sent, received) = (counts.sent_ranges(words), counts.received_ranges(words));
        for (to, range) in sent.iter().filter(|(to, _)| self.is_direct[*to]) {
            let (words, done) = (Arc::clone(&self.outgoing), self.device().queue().record()?);
            transport.send_value(*to, DIRECT, ReadyMessage { words, range: range.clone(), done })?;
        }
        if sent.iter().chain(&received).any(|(rank, _)| !self.is_direct[*rank]) {
            self.exchange_staged(transport, counts, words)?;
        }
        let queue = self.fluid.device.queue();
        for (from, range) in received {
            let target = self.incoming.range(range.clone())?;
            if self.is_direct[from] {
                let ready: ReadyMessage = transport.receive_value(from, DIRECT)?;
                queue.wait_for(&ready.done)?;
                queue.copy(ready.words.range(ready.range)?, target)?;
                self.borrowed.push(ready.words);
            } else {
                queue.write(target, &self.pinned_incoming[range])?;
            }
        }
        Ok(())
    }

    /// Exchanges the messages of the other ranks through page-locked memory.
    fn exchange_staged(
        &mut self,
        transport: &Transport,
        counts: &GhostCounts,
        words: usize,
    ) -> Result<(), DeviceFluidError> {
        let [sent, received] = [self.sent_count, self.ghost_count].map(|count| count * words);
        let Self { fluid, outgoing, pinned_outgoing, pinned_incoming, is_direct, .. } = self;
        fluid.device.queue().read(outgoing.range(..sent)?, &mut pinned_outgoing[..sent])?;
        let messages = (&pinned_outgoing[..sent], &mut pinned_incoming[..received]);
        Ok(counts.exchange(transport, words, messages, |rank| !is_direct[rank])?)
    }

    /// Queues the kernel that writes positions to `outgoing`.
    fn pack_positions(&self, bits: GhostBits) -> Result<(), DeviceError> {
        let mut args = self.first_arguments(self.sent_count);
        args.extend([Arg::from(&self.sent), i32::from(bits == GhostBits::All).into()]);
        args.extend(self.fluid.position.iter().map(Arg::from));
        args.push((&*self.outgoing).into());
        self.launch(&self.kernels().pack_positions, self.sent_count, &args)
    }

    /// Queues the kernel that moves the ghosts to the positions of `incoming`.
    fn place_positions(&self, bits: GhostBits) -> Result<(), DeviceError> {
        let mut args = self.first_arguments(self.ghost_count);
        args.extend([Arg::from(&self.slots), i32::from(bits == GhostBits::All).into()]);
        args.push((&self.incoming).into());
        args.extend(self.fluid.position.iter().map(Arg::from));
        args.extend([Arg::from(&self.fluid.species), (&self.fluid.upper).into()]);
        self.launch(&self.kernels().place_positions, self.ghost_count, &args)
    }

    /// Queues the kernel that writes ghosts to `outgoing`.
    fn pack_ghosts(&self) -> Result<(), DeviceError> {
        let mut args = self.first_arguments(self.sent_count);
        args.push((&self.sent).into());
        args.extend(self.fluid.position.iter().map(Arg::from));
        args.extend([Arg::from(&self.fluid.species), (&*self.outgoing).into()]);
        self.launch(&self.kernels().pack_ghosts, self.sent_count, &args)
    }

    /// Makes room for messages with all of each ghost.
    fn reserve_messages(&mut self) -> Result<(), DeviceError> {
        let device = self.device().clone();
        let [sent, received] = [self.sent_count, self.ghost_count].map(|count| count * GHOST_WORDS);
        if self.outgoing.len() < sent {
            self.outgoing = Arc::new(device.zeros(sent + sent / 8)?);
        }
        super::build::make_room(&device, &mut self.incoming, received)?;
        if self.is_direct.iter().filter(|is_direct| !**is_direct).count() == 1 {
            // Only this rank itself is left, which sends nothing.
            return Ok(());
        }
        for (pinned, len) in [
            (&mut self.pinned_outgoing, self.outgoing.len()),
            (&mut self.pinned_incoming, self.incoming.len()),
        ] {
            if pinned.len() < len {
                *pinned = device.pinned(len)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use orrery_cluster::threads;
    use orrery_device::testing::test_devices_with_f64;
    use orrery_model::fluid::FluidParticles;

    use super::*;
    use crate::lennard_jones::FluidStrategy;
    use crate::lennard_jones::sample::{MELT_DT, melt, melt_settings};
    use crate::lennard_jones::slab::{SlabFluid, share_particles};

    /// Returns the particles after some steps of three ranks. `may_copy` chooses the ranks that
    /// copy from device to device.
    fn moved_melt(device: &Device, may_copy: fn(&Device, &Device) -> bool) -> FluidParticles {
        let (particles, settings) = (melt(1000), melt_settings());
        let strategy = FluidStrategy::default_for(device, particles.len(), &settings);
        let found = threads::run(3, |transport| {
            let records = share_particles(transport, (transport.rank() == 0).then_some(&particles))?;
            let (bounds, id) = (particles.bounds, particles.id.clone());
            let mut part = DevicePart::new(device, &records, bounds, &settings, &strategy, id)?;
            part.may_copy = may_copy;
            let mut slab = SlabFluid::new(transport, part, particles.len())?;
            slab.advance(MELT_DT, 0, 25)?;
            slab.particles()
        });
        found.unwrap().swap_remove(0)
    }

    #[test]
    fn messages_through_the_host_and_between_devices_are_equal() {
        for device in test_devices_with_f64() {
            let direct = moved_melt(&device, Device::shares_memory_with);
            assert!(direct == moved_melt(&device, |_, _| false), "{}", device.title());
        }
    }
}
