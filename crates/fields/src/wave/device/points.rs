//! Sources and receivers on a device: tables, samples, and launches of `points.cu`.

use std::ops::Range;

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Queue};

use super::kernels::{build_with, uniform_courant};
use super::layout::DeviceLayout;
use crate::Scalar;
use crate::wave::Medium;

// SAFETY: positions are those of nodes of the slab, and terms those of the tables. Samples and
// values have the lengths that `Points` allocates. `interpolate` gets the length of its buffers.
// All loops end.
const POINTS: KernelFile =
    unsafe { KernelFile::new("points.cu", concat!(include_str!("common.cu"), include_str!("points.cu"))) };

/// Threads per block.
const BLOCK_SIZE: u32 = 64;

/// Terms of a receiver that are in shared memory at a time: all terms of a point in three
/// dimensions.
const STAGED_TERMS: u32 = 512;

/// Steps whose amplitudes are uploaded together.
const AMPLITUDE_STEPS: u64 = 1024;

/// Fewest samples per receiver that are allocated together.
const MIN_SAMPLES: usize = 256;

/// Tables of all points, amplitudes of the sources and samples of the receivers.
#[derive(Debug)]
pub(super) struct Points<R: Scalar> {
    add_sources: Kernel,
    gather_terms: Kernel,
    add_terms: Kernel,
    interpolate: Kernel,
    sources: Buffer<u32>,
    source_weights: Buffer<R>,
    /// Amplitudes of the steps `amplitude_steps`, source by source.
    amplitudes: Buffer<R>,
    amplitude_steps: Range<u64>,
    receiver_starts: Buffer<u64>,
    receiver_weights: Buffer<R>,
    /// u at the node of each term of the receivers.
    term_values: Buffer<R>,
    /// Samples of the state that was uploaded.
    earlier_samples: Vec<R>,
    /// Samples since then. `recorded` of them are valid.
    samples: Buffer<R>,
    recorded: usize,
}

impl<R: Scalar> Points<R> {
    pub(super) fn new(
        device: &Device,
        medium: &Medium<R>,
        earlier_samples: Vec<R>,
    ) -> Result<Self, DeviceError> {
        let others = [("BLOCK_SIZE", BLOCK_SIZE), ("STAGED_TERMS", STAGED_TERMS)];
        let module = build_with(device, medium, &POINTS, &others)?;
        Ok(Self {
            add_sources: module.kernel("add_sources")?,
            gather_terms: module.kernel("gather_terms")?,
            add_terms: module.kernel("add_terms")?,
            interpolate: module.kernel("interpolate")?,
            sources: device.upload(&medium.sources.sources)?,
            source_weights: device.upload(&medium.sources.weights)?,
            amplitudes: device.zeros(0)?,
            amplitude_steps: 0..0,
            receiver_starts: device.upload(&to_u64(&medium.receivers.starts))?,
            receiver_weights: device.upload(&medium.receivers.weights)?,
            term_values: device.zeros(medium.receivers.nodes.len())?,
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
        if medium.wavelets.is_empty() || self.amplitude_steps.contains(&step) {
            return Ok(());
        }
        let steps = step..step.saturating_add(AMPLITUDE_STEPS);
        let amplitudes: Vec<R> = steps.clone().flat_map(|step| medium.amplitudes(step)).collect();
        self.amplitudes = device.upload(&amplitudes)?;
        self.amplitude_steps = steps;
        Ok(())
    }

    /// Queues the sources at the time of `step` in some planes of a slab, counted from its first
    /// one.
    pub(super) fn launch_sources(
        &self,
        queue: &Queue,
        medium: &Medium<R>,
        slab: &SlabPoints,
        [next, courant]: [&Buffer<R>; 2],
        planes: &Range<usize>,
        step: u64,
    ) -> Result<(), DeviceError> {
        let index = |plane: usize| slab.source_planes.partition_point(|&k| k < plane);
        let entries = index(planes.start)..index(planes.end);
        let first_amplitude = (step - self.amplitude_steps.start) * medium.wavelets.len() as u64;
        let args = [
            next.into(),
            courant.into(),
            uniform_courant(medium).to_argument(),
            (&slab.source_positions).into(),
            (&slab.source_starts).into(),
            (&self.sources).into(),
            (&self.source_weights).into(),
            (&self.amplitudes).into(),
            first_amplitude.into(),
            (entries.start as i32).into(),
            (entries.end as i32).into(),
        ];
        queue.launch(&self.add_sources, (entries.len() as u32).div_ceil(BLOCK_SIZE), BLOCK_SIZE, &args)
    }

    /// Queues the copies of u to the terms of the receivers in a slab.
    pub(super) fn launch_gather(
        &self,
        queue: &Queue,
        slab: &SlabPoints,
        u: &Buffer<R>,
    ) -> Result<(), DeviceError> {
        let count = slab.term_positions.len();
        let args = [
            u.into(),
            (&slab.term_positions).into(),
            (&slab.terms).into(),
            (count as i32).into(),
            (&self.term_values).into(),
        ];
        queue.launch(&self.gather_terms, (count as u32).div_ceil(BLOCK_SIZE), BLOCK_SIZE, &args)
    }

    /// Queues the sums of the gathered terms, the next sample of each receiver.
    pub(super) fn launch_sums(
        &mut self,
        device: &Device,
        queue: &Queue,
        receivers: usize,
    ) -> Result<(), DeviceError> {
        let needed = self.recorded + receivers;
        if needed > self.samples.len() {
            let longer = device.zeros((2 * self.recorded).max(MIN_SAMPLES * receivers))?;
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
        queue.launch(&self.add_terms, receivers as u32, BLOCK_SIZE, &args)?;
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

/// Points of a slab.
#[derive(Debug)]
pub(super) struct SlabPoints {
    /// Plane of each node with sources, ascending, from the first plane of the slab.
    source_planes: Vec<usize>,
    /// Position of each of these nodes.
    source_positions: Buffer<u64>,
    /// First term of each of these nodes, and the end of the last one.
    source_starts: Buffer<u64>,
    /// Position of the node of each term of the receivers in the slab.
    term_positions: Buffer<u64>,
    /// Number of each of these terms in the table of all slabs.
    terms: Buffer<u64>,
}

impl SlabPoints {
    /// Uploads the parts of the tables that belong to the planes `owned`.
    pub(super) fn new<R: Scalar>(
        device: &Device,
        medium: &Medium<R>,
        owned: &Range<usize>,
        layout: &DeviceLayout,
    ) -> Result<Self, DeviceError> {
        let (grid, table) = (&medium.grid, &medium.sources);
        let plane_nodes = grid.nodes[0] * grid.nodes[1];
        let position = |node: usize| {
            let [i, j, k] = grid.node(node);
            layout.position([i, j, k - owned.start]) as u64
        };
        let index = |plane: usize| table.nodes.partition_point(|&node| node < plane * plane_nodes);
        let entries = index(owned.start)..index(owned.end);
        let nodes = &table.nodes[entries.clone()];
        let is_inside = |node: &usize| owned.contains(&(node / plane_nodes));
        let (terms, positions): (Vec<u64>, Vec<u64>) = (0u64..)
            .zip(&medium.receivers.nodes)
            .filter(|(_, node)| is_inside(node))
            .map(|(term, &node)| (term, position(node)))
            .unzip();
        Ok(Self {
            source_planes: nodes.iter().map(|node| node / plane_nodes - owned.start).collect(),
            source_positions: device.upload(&nodes.iter().map(|&node| position(node)).collect::<Vec<_>>())?,
            source_starts: device.upload(&to_u64(&table.starts[entries.start..=entries.end]))?,
            term_positions: device.upload(&positions)?,
            terms: device.upload(&terms)?,
        })
    }
}

fn to_u64(indices: &[usize]) -> Vec<u64> {
    indices.iter().map(|&index| index as u64).collect()
}
