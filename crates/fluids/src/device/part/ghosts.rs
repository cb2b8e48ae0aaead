//! Messages of ghosts on devices: all of a ghost when lists are built, and its position in every
//! step.
//!
//! Messages pass from device to device ([`DeviceLinks`]). The owner writes its next message after
//! the next drift, when all ranks have agreed on the result of that drift. Their copies come before
//! it in their queues, so no message is overwritten early. A rank without particles writes the
//! words of a drift itself, which also waits for its queue. Without lists, ghosts are sent once,
//! and all ranks wait for them.

use std::sync::Arc;

use orrery_cluster::{DeviceLinks, DeviceMessage, LinkError, Tag, Transport};
use orrery_device::{Arg, DeviceError};

use super::FluidDevicePart;
use crate::DeviceFluidError;
use crate::device::kernel_number;
use crate::slab::{GhostBits, GhostCounts, SlabPart, SlabWindow};

/// Ghosts on devices.
const GHOSTS: Tag = Tag::new(62);

/// Numbers of a ghost when lists are built. Positions are shorter.
const GHOST_WORDS: usize = kernel_number("GHOST_WORDS");

impl FluidDevicePart {
    /// Connects this rank with all others. All ranks must call it.
    pub(super) fn connect_links(&mut self, transport: &Transport) -> Result<(), LinkError> {
        let others: Vec<usize> = transport.other_ranks().collect();
        let allowed = (self.allowed)(transport);
        self.links = Some(DeviceLinks::with_paths(self.device(), transport, &others, 1, allowed)?);
        Ok(())
    }

    /// Moves the ghosts to the positions on their ranks.
    pub(super) fn exchange_positions(
        &mut self,
        counts: &GhostCounts,
        bits: GhostBits,
    ) -> Result<(), DeviceFluidError> {
        self.pack_positions(bits)?;
        self.exchange_messages(counts, bits.words())?;
        Ok(self.place_positions(bits)?)
    }

    /// Makes the particles in the window of each rank ghosts of that rank, adds the ghosts of this
    /// rank, and builds the lists.
    pub(super) fn renew(
        &mut self,
        transport: &Transport,
        axis: usize,
        windows: &[Option<SlabWindow>],
    ) -> Result<GhostCounts, DeviceFluidError> {
        let sent = self.select_ghosts(axis, windows)?;
        let counts = GhostCounts::of_sent(transport, sent)?;
        self.ghost_count = counts.received.iter().sum();
        self.fluid.reserve(self.fluid.n + self.ghost_count)?;
        self.reserve_messages()?;
        self.pack_ghosts()?;
        self.exchange_messages(&counts, GHOST_WORDS)?;
        self.place_ghosts()?;
        if !self.uses_lists() {
            self.device().queue().finish()?;
            transport.barrier()?;
        }
        self.build_lists()?;
        Ok(counts)
    }

    /// Copies `words` numbers per ghost from `outgoing` of the other ranks to `incoming`.
    fn exchange_messages(&mut self, counts: &GhostCounts, words: usize) -> Result<(), LinkError> {
        let Self { fluid, outgoing, incoming, links, .. } = self;
        let links = links.as_mut().expect("the part is connected");
        let message = |(rank, range)| DeviceMessage { rank, tag: GHOSTS, range };
        let received: Vec<_> = counts.received_ranges(words).into_iter().map(message).collect();
        links.start(fluid.device.queue(), outgoing, counts.sent_ranges(words).into_iter().map(message))?;
        links.finish(fluid.device.queue(), incoming, &received)
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
        super::build::make_room(&device, &mut self.incoming, received)
    }
}

#[cfg(test)]
mod tests {
    use orrery_cluster::{AllowedPaths, MessagePath, threads};
    use orrery_device::Device;
    use orrery_device::testing::test_devices_with_f64;
    use orrery_model::fluid::FluidParticles;

    use super::*;
    use crate::FluidStrategy;
    use crate::sample::{MELT_DT, melt, melt_settings};
    use crate::slab::{SlabFluid, share_particles};

    /// Returns the particles after some steps of three ranks on the allowed paths, which must
    /// become `path`.
    fn moved_melt(
        device: &Device,
        allowed: fn(&Transport) -> AllowedPaths,
        path: MessagePath,
    ) -> FluidParticles {
        let (particles, settings) = (melt(1000), melt_settings());
        let strategy = FluidStrategy::default_for(device, particles.len(), &settings);
        let found = threads::run(3, |transport| {
            let records = share_particles(transport, (transport.rank() == 0).then_some(&particles))?;
            let (bounds, id) = (particles.bounds, particles.id.clone());
            let mut part = FluidDevicePart::new(device, &records, bounds, &settings, &strategy, id)?;
            part.allowed = allowed;
            let mut slab = SlabFluid::new(transport, part, particles.len())?;
            assert_eq!(slab.part().links.as_ref().unwrap().paths(), [path; 2]);
            slab.advance(MELT_DT, 0, 25)?;
            slab.particles()
        });
        found.unwrap().swap_remove(0)
    }

    #[test]
    fn the_path_of_ghosts_does_not_change_bits() {
        for device in test_devices_with_f64() {
            let has_shared = cfg!(target_os = "linux");
            let shared_path = if has_shared { MessagePath::Shared } else { MessagePath::Staged };
            let direct =
                moved_melt(&device, |_| AllowedPaths { direct: true, shared: false }, MessagePath::Direct);
            let shared = moved_melt(&device, |_| AllowedPaths { direct: false, shared: true }, shared_path);
            let staged =
                moved_melt(&device, |_| AllowedPaths { direct: false, shared: false }, MessagePath::Staged);
            assert!(direct == shared && direct == staged, "{}", device.title());
        }
    }
}
