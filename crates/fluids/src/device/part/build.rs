//! Builds of lists: particles change their rank, are sorted, and get new ghosts.

use orrery_device::{Arg, Buffer, Device, DeviceError, Element, Kernel};

use super::FluidDevicePart;
use crate::DeviceFluidError;
use crate::device::{ControlWord, kernel_number};
use crate::slab::{ParticleRecord, SlabWindow};

/// Numbers of a particle in messages.
const PARTICLE_WORDS: usize = kernel_number("PARTICLE_WORDS");
const _: () = assert!(size_of::<ParticleRecord>() == 8 * PARTICLE_WORDS);
/// Index of the identifier in the message of a particle.
const RECORD_ID: usize = 6;
/// Index of the number with the user's index, in its upper half, in the message of a particle.
const RECORD_USER: usize = 8;

/// Makes room for `len` elements. The old ones are lost if there was less.
pub(super) fn make_room<T: Element>(
    device: &Device,
    buffer: &mut Buffer<T>,
    len: usize,
) -> Result<(), DeviceError> {
    if buffer.len() < len {
        *buffer = device.zeros(len + len / 8)?;
    }
    Ok(())
}

impl FluidDevicePart {
    /// Appends the particles inside a window, or those outside of it, to a list whose length is in
    /// `length`. Returns the new length.
    fn select(
        &self,
        axis: usize,
        SlabWindow { low, span }: SlabWindow,
        selects_inside: bool,
        list: &Buffer<u32>,
    ) -> Result<usize, DeviceError> {
        let mut args = self.first_arguments(self.fluid.n);
        args.extend([Arg::from(&self.fluid.position[axis]), low.into(), span.into()]);
        args.extend([Arg::from(i32::from(selects_inside)), list.into(), (&self.length).into()]);
        self.launch(&self.kernels().select_particles, self.fluid.n, &args)?;
        let mut length = [0];
        self.device().queue().read(&self.length, &mut length)?;
        Ok(length[0] as usize)
    }

    /// Writes numbers to the start of `indices`.
    fn write_indices(&mut self, indices: &[u32]) -> Result<(), DeviceError> {
        make_room(&self.fluid.device, &mut self.indices, indices.len())?;
        self.device().queue().write(self.indices.range(..indices.len())?, indices)
    }

    /// Writes messages of particles to the start of `records`.
    fn write_records(&mut self, words: &[u64]) -> Result<(), DeviceError> {
        make_room(&self.fluid.device, &mut self.records, words.len())?;
        self.device().queue().write(self.records.range(..words.len())?, words)
    }

    /// Queues a kernel that copies the particles with the first `count` numbers of `indices` to
    /// records, or from them.
    fn copy_particles(
        &self,
        kernel: &Kernel,
        count: usize,
        indices: &Buffer<u32>,
        records: &Buffer<u64>,
    ) -> Result<(), DeviceError> {
        let mut args = self.first_arguments(count);
        args.extend([Arg::from(indices), records.into()]);
        args.extend(self.column_arguments());
        self.launch(kernel, count, &args)
    }

    /// Queues copies of the particles with the first `count` numbers of `indices` to `records`.
    fn pack_particles(&mut self, count: usize) -> Result<(), DeviceError> {
        make_room(&self.fluid.device, &mut self.records, count * PARTICLE_WORDS)?;
        self.copy_particles(&self.kernels().pack_particles, count, &self.indices, &self.records)
    }

    /// Queues copies of `records` to the particles with the first `count` numbers of `indices`.
    fn place_particles(&self, count: usize) -> Result<(), DeviceError> {
        self.copy_particles(&self.kernels().place_particles, count, &self.indices, &self.records)
    }

    /// Returns packed particles from the device.
    fn read_particles(
        &self,
        count: usize,
        records: &Buffer<u64>,
    ) -> Result<Vec<ParticleRecord>, DeviceError> {
        let mut words = vec![0; count * PARTICLE_WORDS];
        self.device().queue().read(records.range(..words.len())?, &mut words)?;
        let (records, _) = words.as_chunks::<PARTICLE_WORDS>();
        let with_id = |record: &ParticleRecord| {
            let mut record = *record;
            record[RECORD_ID] = self.fluid.id[(record[RECORD_USER] >> 32) as usize];
            record
        };
        Ok(records.iter().map(with_id).collect())
    }

    /// Returns all particles as messages.
    pub(super) fn all_particles(&self) -> Result<Vec<ParticleRecord>, DeviceError> {
        let n = self.fluid.n;
        let indices = self.device().upload(&(0..n as u32).collect::<Vec<_>>())?;
        let records = self.device().zeros(n * PARTICLE_WORDS)?;
        self.copy_particles(&self.kernels().pack_particles, n, &indices, &records)?;
        self.read_particles(n, &records)
    }

    /// Returns the particles outside a slab, whose indices become holes.
    pub(super) fn take_particles_outside(
        &mut self,
        axis: usize,
        slab: Option<SlabWindow>,
    ) -> Result<Vec<ParticleRecord>, DeviceError> {
        self.device().queue().write(&self.length, &[0])?;
        make_room(&self.fluid.device, &mut self.indices, self.fluid.n)?;
        // Nothing is inside an empty slab.
        let slab = slab.unwrap_or(SlabWindow { low: 0, span: 0 });
        let count = self.select(axis, slab, false, &self.indices)?;
        let mut holes = vec![0; count];
        self.device().queue().read(self.indices.range(..count)?, &mut holes)?;
        holes.sort_unstable();
        self.holes = holes;
        self.pack_particles(count)?;
        self.read_particles(count, &self.records)
    }

    /// Puts particles into the holes and behind the others, and closes the remaining holes with the
    /// last particles.
    pub(super) fn replace_holes(&mut self, arriving: &[ParticleRecord]) -> Result<(), DeviceError> {
        let (before, holes) = (self.fluid.n, std::mem::take(&mut self.holes));
        let after = before + arriving.len() - holes.len();
        self.fluid.reserve(after)?;
        let behind = before as u32..;
        let targets: Vec<u32> = holes.iter().copied().chain(behind).take(arriving.len()).collect();
        self.write_records(&arriving.concat())?;
        self.write_indices(&targets)?;
        self.place_particles(targets.len())?;

        let (moved, closed) = moves_into(&holes[arriving.len().min(holes.len())..], before, after);
        self.write_indices(&moved)?;
        self.pack_particles(moved.len())?;
        self.write_indices(&closed)?;
        self.place_particles(closed.len())?;
        self.fluid.n = after;
        Ok(())
    }

    /// Sorts the particles by cell.
    pub(super) fn sort(&mut self) -> Result<(), DeviceError> {
        self.fluid.words[ControlWord::Rebuild as usize] = 1;
        self.write_words()?;
        self.fluid.queue_sort()?;
        self.read_words()
    }

    /// Selects the particles in each window as ghosts of a rank, and returns their numbers.
    pub(super) fn select_ghosts(
        &mut self,
        axis: usize,
        windows: &[Option<SlabWindow>],
    ) -> Result<Vec<usize>, DeviceError> {
        self.device().queue().write(&self.length, &[0])?;
        let most = self.fluid.n * windows.iter().flatten().count();
        make_room(&self.fluid.device, &mut self.sent, most)?;
        let mut counts = Vec::with_capacity(windows.len());
        self.sent_count = 0;
        for window in windows {
            let before = self.sent_count;
            if let Some(window) = *window {
                self.sent_count = self.select(axis, window, true, &self.sent)?;
            }
            counts.push(self.sent_count - before);
        }
        Ok(counts)
    }

    /// Puts the ghosts of `incoming` behind the particles, sorted by cell if there are lists.
    pub(super) fn place_ghosts(&mut self) -> Result<(), DeviceError> {
        self.find_slots()?;
        let mut args = self.first_arguments(self.ghost_count);
        args.extend([Arg::from(&self.slots), (&self.incoming).into()]);
        args.extend(self.fluid.position.iter().map(Arg::from));
        args.push((&self.fluid.species).into());
        args.extend([&self.fluid.upper, &self.fluid.listed].map(Arg::from));
        self.launch(&self.kernels().place_ghosts, self.ghost_count, &args)
    }

    /// Finds the index of each ghost of `incoming`.
    fn find_slots(&mut self) -> Result<(), DeviceError> {
        let Self { fluid, incoming, slots, ghost_count, .. } = self;
        make_room(&fluid.device, slots, *ghost_count)?;
        let (n, count, queue) = (fluid.n as u32, *ghost_count as u32, fluid.device.queue());
        let list_kernels = fluid.kernels.slab.as_ref().and_then(|slab| slab.lists.as_ref());
        let (Some(lists), Some([assign_cells, find_slots])) = (&mut fluid.lists, list_kernels) else {
            let indices: Vec<u32> = (n..n + count).collect();
            return queue.write(slots.range(..indices.len())?, &indices);
        };
        let block_size = fluid.strategy.block_size;
        let blocks = count.div_ceil(block_size);
        let mut args: Vec<Arg> = vec![count.into(), (&*incoming).into()];
        args.extend(lists.cells.map(Arg::from));
        args.extend([&lists.ghost_counts, &lists.cell_of, &lists.rank_of].map(Arg::from));
        queue.launch(assign_cells, blocks, block_size, &args)?;
        lists.scan.launch(queue, &lists.ghost_counts, &lists.ghost_starts)?;
        let mut args: Vec<Arg> = vec![count.into(), n.into(), (lists.ghost_counts.len() as u32).into()];
        args.extend([&lists.ghost_counts, &lists.ghost_starts].map(Arg::from));
        args.extend([&lists.cell_of, &lists.rank_of, &*slots].map(Arg::from));
        queue.launch(find_slots, blocks, block_size, &args)
    }

    /// Builds the lists of sorted particles. Lists that are too short grow.
    pub(super) fn build_lists(&mut self) -> Result<(), DeviceFluidError> {
        while self.fluid.lists.is_some() && self.fluid.n > 0 {
            self.fluid.queue_lists()?;
            self.read_words()?;
            let overflow = std::mem::take(&mut self.fluid.words[ControlWord::Overflow as usize]);
            if overflow == 0 {
                return self.expect_progress(self.fluid.words[ControlWord::Rebuild as usize] == 0);
            }
            self.fluid.words[ControlWord::OverflowNext as usize] = 0;
            self.write_words()?;
            let (device, stride) = (self.device().clone(), self.fluid.stride);
            if let Some(lists) = &mut self.fluid.lists {
                lists.grow(&device, stride, overflow)?;
            }
        }
        self.fluid.words[ControlWord::Rebuild as usize] = 0;
        Ok(self.write_words()?)
    }
}

/// Returns the indices of particles, and the holes that they move to, when `before` particles with
/// these holes become `after` without any. The holes are in ascending order.
fn moves_into(holes: &[u32], before: usize, after: usize) -> (Vec<u32>, Vec<u32>) {
    let inside = holes.partition_point(|&hole| (hole as usize) < after);
    let (closed, behind) = holes.split_at(inside);
    let is_particle = |k: &u32| behind.binary_search(k).is_err();
    ((after as u32..before as u32).filter(is_particle).collect(), closed.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_particles_move_into_holes() {
        assert_eq!(moves_into(&[], 7, 7), (vec![], vec![]));
        assert_eq!(moves_into(&[], 7, 9), (vec![], vec![]));
        assert_eq!(moves_into(&[1, 4], 7, 5), (vec![5, 6], vec![1, 4]));
        assert_eq!(moves_into(&[1, 5], 7, 5), (vec![6], vec![1]));
        assert_eq!(moves_into(&[5, 6], 7, 5), (vec![], vec![]));
        assert_eq!(moves_into(&[0, 1, 2], 3, 0), (vec![], vec![]));
    }
}
