//! Sources and receivers on a device: tables, samples, and launches of `points.cu`.

use std::ops::Range;

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Queue, kernel_source};

use super::kernels::{build_with, uniform_courant};
use super::layers::SlabPlace;
use crate::Scalar;
use crate::wave::Medium;
use crate::wave::layer::slice_count;

// SAFETY: positions are those of nodes of the slab and its ghost slices, and terms those of the
// tables. Samples and values have the lengths that `DevicePoints` allocates. `interpolate` gets the
// length of its buffers. All loops end.
const POINTS: KernelFile = unsafe { KernelFile::new("points.cu", kernel_source!("common.cu", "points.cu")) };

/// Threads per block.
const BLOCK_SIZE: u32 = 64;

/// Terms of a receiver that are in shared memory at a time: all terms of a point in three
/// dimensions.
const STAGED_TERMS: u32 = 512;

/// Steps whose amplitudes are uploaded together.
const AMPLITUDE_STEPS: u64 = 1024;

/// Fewest samples per receiver that are allocated together.
const MIN_SAMPLES: usize = 256;

/// Points of a slab: their tables, amplitudes of the sources and samples of the receivers.
#[derive(Debug)]
pub(super) struct DevicePoints<R: Scalar> {
    add_sources: Kernel,
    gather_terms: Kernel,
    add_terms: Kernel,
    interpolate: Kernel,
    /// Slice of each node with sources, ascending, from the first slice of the slab.
    source_slices: Vec<usize>,
    /// Position of each of these nodes.
    source_positions: Buffer<u64>,
    /// First term of each of these nodes, and the end of the last one.
    source_starts: Buffer<u64>,
    sources: Buffer<u32>,
    source_weights: Buffer<R>,
    /// Amplitudes of the steps `amplitude_steps`, source by source.
    amplitudes: Buffer<R>,
    amplitude_steps: Range<u64>,
    /// Number of receivers that are recorded here.
    receivers: usize,
    /// First term of each of them, and the end of the last one.
    receiver_starts: Buffer<u64>,
    receiver_weights: Buffer<R>,
    /// Position of the node of each term.
    term_positions: Buffer<u64>,
    /// u at the node of each term.
    term_values: Buffer<R>,
    /// Samples of the state that was uploaded.
    earlier_samples: Vec<R>,
    /// Samples since then. `recorded` of them are valid.
    samples: Buffer<R>,
    recorded: usize,
}

impl<R: Scalar> DevicePoints<R> {
    /// Uploads the sources in a slab, and the receivers `recorded` with samples of earlier steps.
    pub(super) fn new(
        device: &Device,
        medium: &Medium<R>,
        place: &SlabPlace<'_>,
        recorded: &[usize],
        earlier_samples: Vec<R>,
    ) -> Result<Self, DeviceError> {
        let others = [("BLOCK_SIZE", BLOCK_SIZE), ("STAGED_TERMS", STAGED_TERMS)];
        let module = build_with(device, medium, &POINTS, &others)?;
        let (grid, table) = (&medium.grid, &medium.sources);
        let slice_nodes = grid.len() / slice_count(grid);
        let index = |slice: usize| table.nodes.partition_point(|&node| node < slice * slice_nodes);
        let entries = index(place.owned.start)..index(place.owned.end);
        let positions_of = |nodes: &[usize]| -> Vec<u64> {
            nodes.iter().map(|&node| place.position(grid.node(node))).collect()
        };
        let nodes = &table.nodes[entries.clone()];
        let receivers = medium.receivers.part(recorded);
        Ok(Self {
            add_sources: module.kernel("add_sources")?,
            gather_terms: module.kernel("gather_terms")?,
            add_terms: module.kernel("add_terms")?,
            interpolate: module.kernel("interpolate")?,
            source_slices: nodes.iter().map(|node| node / slice_nodes - place.owned.start).collect(),
            source_positions: device.upload(&positions_of(nodes))?,
            source_starts: device.upload(&to_u64(&table.starts[entries.start..=entries.end]))?,
            sources: device.upload(&table.sources)?,
            source_weights: device.upload(&table.weights)?,
            amplitudes: device.zeros(0)?,
            amplitude_steps: 0..0,
            receivers: receivers.len(),
            receiver_starts: device.upload(&to_u64(&receivers.starts))?,
            receiver_weights: device.upload(&receivers.weights)?,
            term_positions: device.upload(&positions_of(&receivers.nodes))?,
            term_values: device.zeros(receivers.nodes.len())?,
            earlier_samples,
            samples: device.zeros(0)?,
            recorded: 0,
        })
    }

    /// Uploads the amplitudes of `step` and of later steps, unless they are on the device.
    pub(super) fn upload_amplitudes(
        &mut self,
        device: &Device,
        medium: &Medium<R>,
        step: u64,
    ) -> Result<(), DeviceError> {
        if medium.signals.is_empty() || self.amplitude_steps.contains(&step) {
            return Ok(());
        }
        let steps = step..step.saturating_add(AMPLITUDE_STEPS);
        let amplitudes: Vec<R> = steps.clone().flat_map(|step| medium.amplitudes(step)).collect();
        self.amplitudes = device.upload(&amplitudes)?;
        self.amplitude_steps = steps;
        Ok(())
    }

    /// Queues the sources at the time of `step` in some slices of the slab, counted from its first
    /// one.
    pub(super) fn launch_sources(
        &self,
        queue: &Queue,
        medium: &Medium<R>,
        [next, courant]: [&Buffer<R>; 2],
        slices: &Range<usize>,
        step: u64,
    ) -> Result<(), DeviceError> {
        let index = |slice: usize| self.source_slices.partition_point(|&other| other < slice);
        let entries = index(slices.start)..index(slices.end);
        let first_amplitude = (step - self.amplitude_steps.start) * medium.signals.len() as u64;
        let args = [
            next.into(),
            courant.into(),
            uniform_courant(medium).to_argument(),
            (&self.source_positions).into(),
            (&self.source_starts).into(),
            (&self.sources).into(),
            (&self.source_weights).into(),
            (&self.amplitudes).into(),
            first_amplitude.into(),
            (entries.start as i32).into(),
            (entries.end as i32).into(),
        ];
        queue.launch(&self.add_sources, (entries.len() as u32).div_ceil(BLOCK_SIZE), BLOCK_SIZE, &args)
    }

    /// Queues the next sample of each receiver that is recorded here.
    pub(super) fn launch_samples(
        &mut self,
        device: &Device,
        queue: &Queue,
        u: &Buffer<R>,
    ) -> Result<(), DeviceError> {
        if self.receivers == 0 {
            return Ok(());
        }
        let count = self.term_positions.len();
        let args =
            [u.into(), (&self.term_positions).into(), (count as i32).into(), (&self.term_values).into()];
        queue.launch(&self.gather_terms, (count as u32).div_ceil(BLOCK_SIZE), BLOCK_SIZE, &args)?;
        let needed = self.recorded + self.receivers;
        if needed > self.samples.len() {
            let longer = device.zeros((2 * self.recorded).max(MIN_SAMPLES * self.receivers))?;
            queue.copy(self.samples.range(..self.recorded)?, longer.range(..self.recorded)?)?;
            self.samples = longer;
        }
        let args = [
            (&self.term_values).into(),
            (&self.receiver_weights).into(),
            (&self.receiver_starts).into(),
            (self.recorded as u64).into(),
            (&self.samples).into(),
        ];
        queue.launch(&self.add_terms, self.receivers as u32, BLOCK_SIZE, &args)?;
        self.recorded = needed;
        Ok(())
    }

    /// Waits for the queue and returns all samples.
    pub(super) fn download_samples(&self, queue: &Queue) -> Result<Vec<R>, DeviceError> {
        let mut samples = self.earlier_samples.clone();
        let earlier = samples.len();
        samples.resize(earlier + self.recorded, R::default());
        queue.read(self.samples.range(..self.recorded)?, &mut samples[earlier..])?;
        Ok(samples)
    }

    /// Queues the interpolation of u at `fraction` of a step. `next` is u one step later, and is
    /// replaced. The buffers have the same length.
    pub(super) fn launch_interpolation(
        &self,
        queue: &Queue,
        [u, previous]: [&Buffer<R>; 2],
        next: &Buffer<R>,
        fraction: f64,
    ) -> Result<(), DeviceError> {
        assert!(u.len() == next.len() && previous.len() == next.len());
        let args = [
            u.into(),
            previous.into(),
            next.into(),
            R::from_f64(0.5 * fraction).to_argument(),
            R::from_f64(0.5 * fraction * fraction).to_argument(),
            (next.len() as u64).into(),
        ];
        let blocks = next.len().div_ceil(BLOCK_SIZE as usize) as u32;
        queue.launch(&self.interpolate, blocks, BLOCK_SIZE, &args)
    }
}

fn to_u64(indices: &[usize]) -> Vec<u64> {
    indices.iter().map(|&index| index as u64).collect()
}
