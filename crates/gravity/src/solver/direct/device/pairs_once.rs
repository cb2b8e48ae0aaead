//! Each pair evaluated once for both bodies. See `pairs_once.cu`.

use std::ops::Range;

use orrery_cluster::LinkError;
use orrery_device::{
    Arg, Buffer, Device, DeviceError, Kernel, KernelBuilder, KernelFile, Math, join_sources, kernel_source,
};
use orrery_model::Precision;

use super::{
    DirectDeviceStrategy, EvaluationFrame, FRAME_SLOTS_SOURCE, FRAME_SOURCE, PAIR_SOURCE, PairSumRequest,
};
use crate::share::{DeviceGather, PartSpan, SharedEvaluation};

// SAFETY: the kernels access n elements of the columns and one element per padded body of the other
// buffers, in as many rows as `RoundPlan` has chunks and offsets per round, SEGMENTS and nodes.
// `PairsOnce::new` and `PairsOnce::reserve_rows` allocate as many, and the launches pass columns of
// length n.
const PAIRS_ONCE: KernelFile = unsafe {
    KernelFile::new(
        "pairs_once.cu",
        join_sources!(FRAME_SLOTS_SOURCE, FRAME_SOURCE, PAIR_SOURCE, kernel_source!("pairs_once.cu")),
    )
};

/// Number of segments into which the chunks are divided, a power of two and at most 16
/// (`TreeSum` in `pairs_once.cu`). At most as many ranks share a sum.
const SEGMENTS: usize = 16;

/// Block size of the kernels with one thread per body, or per axis of a body.
const BODY_BLOCK_SIZE: u32 = 128;

/// Block size of `add_round`, which has one thread per segment of an axis of a body. The number of
/// padded bodies is a multiple of its `SUM_BODIES`.
const SUM_BLOCK_SIZE: u32 = 256;
const SUM_BODIES: u32 = SUM_BLOCK_SIZE / SEGMENTS as u32;

pub(super) struct PairsOnce {
    device: Device,
    frame: EvaluationFrame,
    prepare: Kernel,
    pub(super) kernel: Kernel,
    within_blocks: Kernel,
    add_round: Kernel,
    add_to_segments: Kernel,
    add_segments: Kernel,
    add_nodes: Kernel,
    strategy: DirectDeviceStrategy,
    plan: RoundPlan,
    near_factor: f32,
    /// High parts of scaled positions, and masses. One element per padded body.
    high: Buffer<[f32; 4]>,
    /// Low parts of scaled positions.
    low: Buffer<[f32; 4]>,
    /// Forces on the target blocks: `[chunk][axis][body]`.
    own_sums: Buffer<f64>,
    /// Forces on the source blocks: `[offset in the round][axis][body]`.
    reaction_sums: Buffer<f64>,
    /// Forces within the body blocks: `[axis][body]`.
    within_sums: Buffer<f64>,
    /// Sums of the segments: `[segment][axis][body]`. Empty if one round has all chunks and there
    /// is one rank.
    segment_sums: Buffer<f64>,
    /// Sums of the nodes that ranks exchange: `[node][axis][body]`. Empty if there is one rank.
    node_sums: Buffer<f64>,
}

/// Division of the pairs of body blocks into rounds and chunks. Terms as in `pairs_once.cu`.
#[derive(Clone, Copy)]
struct RoundPlan {
    /// Number of body blocks.
    body_blocks: u32,
    /// Offsets between paired body blocks are 1 to this.
    max_offset: u32,
    /// Number of offsets per thread block.
    offsets_per_chunk: u32,
    /// Number of offsets per round, a multiple of `offsets_per_chunk` unless one round has all.
    offsets_per_round: u32,
}

/// The sums of a round take at most the device's memory divided by this.
const MEMORY_DIVISOR: u64 = 16;

impl RoundPlan {
    fn new(device: &Device, n: usize, strategy: &DirectDeviceStrategy, resident_blocks: u64) -> Self {
        let bodies_per_block = u64::from(strategy.block) * u64::from(strategy.targets);
        let body_blocks = (n as u64).div_ceil(bodies_per_block).max(1);
        let max_offset = body_blocks / 2;
        // Eight times as many thread blocks as run at once: they finish at about the same time.
        let wanted_blocks = 8 * resident_blocks;
        let offsets_per_chunk = match strategy.splits {
            0 => (body_blocks * max_offset / wanted_blocks.max(1)).clamp(1, 4),
            splits => u64::from(splits),
        };
        let offsets_in_memory =
            device.properties().memory / MEMORY_DIVISOR / (24 * body_blocks * bodies_per_block);
        let offsets_per_round = (wanted_blocks.div_ceil(body_blocks) * offsets_per_chunk)
            .min(offsets_in_memory / offsets_per_chunk * offsets_per_chunk)
            .max(offsets_per_chunk)
            .min(max_offset);
        Self {
            body_blocks: body_blocks as u32,
            max_offset: max_offset as u32,
            offsets_per_chunk: offsets_per_chunk as u32,
            offsets_per_round: offsets_per_round as u32,
        }
    }

    fn chunks_per_round(&self) -> u32 {
        self.offsets_per_round.div_ceil(self.offsets_per_chunk)
    }

    /// Returns the number of chunks of all rounds.
    fn all_chunks(&self) -> u32 {
        self.max_offset.div_ceil(self.offsets_per_chunk)
    }

    /// Returns the first chunk of a segment, as `segment_start` in `pairs_once.cu` does.
    fn segment_start(&self, segment: usize) -> u32 {
        (u64::from(self.all_chunks()) * segment as u64 / SEGMENTS as u64) as u32
    }

    /// Returns the chunks `range` by round. The rounds are those of all chunks.
    fn rounds(&self, range: Range<u32>) -> impl Iterator<Item = Range<u32>> {
        let (chunks, all) = (self.chunks_per_round().max(1), self.all_chunks());
        let starts = (0..all).step_by(chunks as usize);
        starts
            .map(move |start| start.max(range.start)..(start + chunks).min(range.end))
            .filter(|round| !round.is_empty())
    }
}

/// Returns the number of nodes of the tree of segments that `ranks` ranks exchange: as few as
/// possible, but enough for parts of similar size.
fn exchanged_nodes(ranks: usize) -> usize {
    let nodes = if ranks.is_power_of_two() { ranks } else { (2 * ranks).next_power_of_two() };
    nodes.min(SEGMENTS)
}

/// Returns an upper bound of the bytes of scratch memory on the device. Assumes 16 blocks per SM.
pub(super) fn scratch_bytes(device: &Device, n: usize, strategy: &DirectDeviceStrategy) -> u64 {
    let resident_blocks = u64::from(device.properties().sm_count) * 16;
    let plan = RoundPlan::new(device, n, strategy, resident_blocks);
    let padded = u64::from(plan.body_blocks) * u64::from(strategy.block) * u64::from(strategy.targets);
    let rows = 1 + plan.offsets_per_round as usize + plan.chunks_per_round() as usize + 2 * SEGMENTS;
    padded * (32 + 24 * rows as u64)
}

impl PairsOnce {
    pub(super) fn new(
        builder: &mut KernelBuilder,
        n: usize,
        strategy: &DirectDeviceStrategy,
        equal_masses: bool,
    ) -> Result<Self, DeviceError> {
        let DirectDeviceStrategy { precision, block, targets, unroll, .. } = *strategy;
        let definitions = [
            ("BLOCK_SIZE", block.to_string()),
            ("TARGETS_PER_THREAD", targets.to_string()),
            ("UNROLL_BY", unroll.to_string()),
            ("EQUAL_MASSES", u8::from(equal_masses).to_string()),
            ("MIXED", u8::from(precision == Precision::Mixed).to_string()),
            ("SEGMENTS", SEGMENTS.to_string()),
            ("SUM_BLOCK_SIZE", SUM_BLOCK_SIZE.to_string()),
            // At least 16 warps per SM.
            ("MIN_BLOCKS_PER_SM", (512 / block).max(1).to_string()),
        ];
        let module = builder.build(&PAIRS_ONCE, &definitions, Math::FlushToZero)?;
        let kernel = module.kernel("pairs_once")?;
        let device = builder.device().clone();
        let plan = RoundPlan::new(&device, n, strategy, u64::from(kernel.resident_blocks(block)));
        let padded = plan.body_blocks as usize * (block * targets) as usize;
        // A quarter of the mean distance between bodies in a homogeneous system. Nearer pairs are
        // few, and pairs farther apart keep their digits.
        let near_distance = 0.25 / (n as f64).cbrt();
        Ok(Self {
            frame: EvaluationFrame::new(builder)?,
            prepare: module.kernel("prepare")?,
            within_blocks: module.kernel("within_blocks")?,
            add_round: module.kernel("add_round")?,
            add_to_segments: module.kernel("add_to_segments")?,
            add_segments: module.kernel("add_segments")?,
            add_nodes: module.kernel("add_nodes")?,
            kernel,
            strategy: *strategy,
            plan,
            near_factor: (near_distance * near_distance) as f32,
            high: device.zeros(padded)?,
            low: device.zeros(padded)?,
            own_sums: device.zeros(3 * padded * plan.chunks_per_round() as usize)?,
            reaction_sums: device.zeros(3 * padded * plan.offsets_per_round as usize)?,
            within_sums: device.zeros(3 * padded)?,
            segment_sums: device.zeros(0)?,
            node_sums: device.zeros(0)?,
            device,
        })
    }

    pub(super) fn queue_sum(&mut self, request: &PairSumRequest) -> Result<(), DeviceError> {
        let all = 0..self.plan.all_chunks();
        if self.plan.rounds(all.clone()).count() > 1 {
            self.reserve_rows(0)?;
            let frame = self.queue_frame(request)?;
            self.queue_preparation(request, frame)?;
            self.queue_rounds(frame, all)?;
            return self.queue_addition(request, frame, &self.segment_sums, SEGMENTS);
        }
        let frame = self.queue_frame(request)?;
        self.queue_preparation(request, frame)?;
        self.queue_chunks(frame, all)?;
        self.queue_addition_of_round(request, frame)
    }

    /// Queues the computation of the frame and returns its buffer.
    fn queue_frame(&self, request: &PairSumRequest) -> Result<&Buffer<f64>, DeviceError> {
        let PairSumRequest { position, mass, g, eps, total_mass, .. } = *request;
        self.frame.queue_update(position, mass, g, eps, total_mass)
    }

    /// Does [`queue_sum`](Self::queue_sum) together with other ranks. Every rank computes some
    /// nodes of the tree of segments. Waits for all ranks.
    pub(super) fn share_sum(
        &mut self,
        request: &PairSumRequest,
        evaluation: SharedEvaluation<'_>,
        gather: &mut DeviceGather,
    ) -> Result<(), LinkError> {
        let nodes = exchanged_nodes(evaluation.size());
        let parts = evaluation.divide(nodes, |node| node);
        let part = self.queue_nodes(request, nodes, parts.own());
        let values_per_node = 3 * self.high.len();
        gather.exchange_values(evaluation, &parts, &self.node_sums, values_per_node, part)?;
        Ok(self.queue_addition(request, self.frame.values(), &self.node_sums, nodes)?)
    }

    /// Queues the sums of the nodes `own` of `nodes` nodes. Returns the events around the rounds.
    fn queue_nodes(
        &mut self,
        request: &PairSumRequest,
        nodes: usize,
        own: Range<usize>,
    ) -> Result<PartSpan, DeviceError> {
        self.reserve_rows(nodes)?;
        let (queue, segments_per_node) = (self.device.queue(), SEGMENTS / nodes);
        let frame = self.queue_frame(request)?;
        self.queue_preparation(request, frame)?;
        let start = queue.record()?;
        let [first, end] = [own.start, own.end].map(|node| self.plan.segment_start(node * segments_per_node));
        self.queue_rounds(frame, first..end)?;
        let counts = [own.start, own.end, segments_per_node, self.high.len()];
        let [first, end, segments, padded] = counts.map(|count| Arg::from(count as i32));
        let args = [(&self.segment_sums).into(), first, end, segments, padded, (&self.node_sums).into()];
        queue.launch(&self.add_segments, self.axis_blocks(), BODY_BLOCK_SIZE, &args)?;
        Ok((start, queue.record()?))
    }

    /// Allocates the sums of the segments and of `nodes` nodes.
    fn reserve_rows(&mut self, nodes: usize) -> Result<(), DeviceError> {
        let row = 3 * self.high.len();
        if self.segment_sums.is_empty() {
            self.segment_sums = self.device.zeros(row * SEGMENTS)?;
        }
        if self.node_sums.len() != row * nodes {
            self.node_sums = self.device.zeros(row * nodes)?;
        }
        Ok(())
    }

    /// Queues the conversion of the bodies and the pairs within body blocks.
    fn queue_preparation(&self, request: &PairSumRequest, frame: &Buffer<f64>) -> Result<(), DeviceError> {
        let PairSumRequest { position, mass, .. } = *request;
        let DirectDeviceStrategy { block, targets, .. } = self.strategy;
        let (queue, body_blocks) = (self.device.queue(), self.plan.body_blocks);
        let (n, padded) = (mass.len() as i32, self.high.len() as i32);
        let (high, low) = (&self.high, &self.low);
        let [x, y, z] = position.args();
        let args = [x, y, z, mass.into(), frame.into(), n.into(), padded.into(), high.into(), low.into()];
        queue.launch(&self.prepare, (padded as u32).div_ceil(BODY_BLOCK_SIZE), BODY_BLOCK_SIZE, &args)?;
        let sums = &self.within_sums;
        let args = [high.into(), low.into(), frame.into(), (body_blocks as i32).into(), sums.into()];
        queue.launch(&self.within_blocks, body_blocks * targets, block, &args)
    }

    /// Queues the chunks `range` of pairs of different body blocks, one launch per round, and adds
    /// them to the sums of their segments.
    fn queue_rounds(&self, frame: &Buffer<f64>, range: Range<u32>) -> Result<(), DeviceError> {
        for chunks in self.plan.rounds(range) {
            self.queue_chunks(frame, chunks.clone())?;
            let [own_sums, reaction_sums, segment_sums] =
                [&self.own_sums, &self.reaction_sums, &self.segment_sums].map(Arg::from);
            let RoundPlan { body_blocks, offsets_per_chunk, .. } = self.plan;
            let counts = [chunks.start, chunks.end, self.plan.all_chunks(), offsets_per_chunk, body_blocks];
            let mut args = vec![own_sums, reaction_sums];
            args.extend(counts.map(|count| Arg::from(count as i32)));
            args.extend([(self.high.len() as i32).into(), segment_sums]);
            self.device.queue().launch(&self.add_to_segments, self.axis_blocks(), BODY_BLOCK_SIZE, &args)?;
        }
        Ok(())
    }

    /// Queues one launch for the chunks `range`, which are at most those of one round.
    fn queue_chunks(&self, frame: &Buffer<f64>, range: Range<u32>) -> Result<(), DeviceError> {
        let RoundPlan { body_blocks, max_offset, offsets_per_chunk, .. } = self.plan;
        let first_offset = 1 + range.start * offsets_per_chunk;
        let end_offset = (1 + range.end * offsets_per_chunk).min(max_offset + 1);
        let args = [
            (&self.high).into(),
            (&self.low).into(),
            frame.into(),
            (body_blocks as i32).into(),
            (first_offset as i32).into(),
            (end_offset as i32).into(),
            (offsets_per_chunk as i32).into(),
            self.near_factor.into(),
            (&self.own_sums).into(),
            (&self.reaction_sums).into(),
        ];
        let blocks = body_blocks * range.len() as u32;
        self.device.queue().launch(&self.kernel, blocks, self.strategy.block, &args)
    }

    /// Queues the addition of all sums of the only round into the accelerations.
    fn queue_addition_of_round(
        &self,
        request: &PairSumRequest,
        frame: &Buffer<f64>,
    ) -> Result<(), DeviceError> {
        let RoundPlan { body_blocks, offsets_per_chunk, .. } = self.plan;
        let sums = [&self.within_sums, &self.own_sums, &self.reaction_sums];
        let counts = [self.plan.all_chunks(), offsets_per_chunk, body_blocks];
        let mut args: Vec<Arg> = sums.map(Arg::from).to_vec();
        args.extend(counts.map(|count| Arg::from(count as i32)));
        let blocks = 3 * (request.mass.len() as u32).div_ceil(SUM_BODIES);
        self.queue_last_kernel(&self.add_round, [blocks, SUM_BLOCK_SIZE], args, request, frame)
    }

    /// Queues the addition of the nodes of the tree of segments into the accelerations.
    fn queue_addition(
        &self,
        request: &PairSumRequest,
        frame: &Buffer<f64>,
        node_sums: &Buffer<f64>,
        nodes: usize,
    ) -> Result<(), DeviceError> {
        let args = vec![(&self.within_sums).into(), node_sums.into(), (nodes as i32).into()];
        let blocks = 3 * (request.mass.len() as u32).div_ceil(BODY_BLOCK_SIZE);
        self.queue_last_kernel(&self.add_nodes, [blocks, BODY_BLOCK_SIZE], args, request, frame)
    }

    /// Queues a kernel that writes the accelerations. Its first arguments are `args`.
    fn queue_last_kernel<'a>(
        &'a self,
        kernel: &Kernel,
        [blocks, block_size]: [u32; 2],
        mut args: Vec<Arg<'a>>,
        request: &PairSumRequest<'a>,
        frame: &'a Buffer<f64>,
    ) -> Result<(), DeviceError> {
        let (n, padded) = (request.mass.len() as i32, self.high.len() as i32);
        args.extend([Arg::from(&self.high), frame.into(), n.into(), padded.into()]);
        args.extend(request.acceleration.args());
        self.device.queue().launch(kernel, blocks, block_size, &args)
    }

    /// Returns the number of blocks of a kernel with one thread per axis of a padded body.
    fn axis_blocks(&self) -> u32 {
        3 * (self.high.len() as u32).div_ceil(BODY_BLOCK_SIZE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chunks of a part are launched in the rounds of the whole sum, so that the terms of a
    /// segment are added in the same order.
    #[test]
    fn parts_are_cut_into_the_rounds_of_the_whole_sum() {
        let plan = RoundPlan { body_blocks: 44, max_offset: 22, offsets_per_chunk: 2, offsets_per_round: 8 };
        assert_eq!(plan.all_chunks(), 11);
        let rounds_of = |plan: &RoundPlan, range| {
            plan.rounds(range).map(|round| (round.start, round.end)).collect::<Vec<_>>()
        };
        assert_eq!(rounds_of(&plan, 0..11), [(0, 4), (4, 8), (8, 11)]);
        assert_eq!(rounds_of(&plan, 0..5), [(0, 4), (4, 5)]);
        assert_eq!(rounds_of(&plan, 5..7), [(5, 7)]);
        assert_eq!(rounds_of(&plan, 7..9), [(7, 8), (8, 9)]);
        assert!(rounds_of(&plan, 4..4).is_empty());
        // One round with an incomplete chunk, and no pairs of different blocks.
        let one = RoundPlan { body_blocks: 7, max_offset: 3, offsets_per_chunk: 2, offsets_per_round: 3 };
        assert_eq!(rounds_of(&one, 0..2), [(0, 2)]);
        let none = RoundPlan { body_blocks: 1, max_offset: 0, offsets_per_chunk: 1, offsets_per_round: 0 };
        assert_eq!((none.all_chunks(), none.rounds(0..0).count()), (0, 0));
    }

    #[test]
    fn segments_cover_all_chunks() {
        for max_offset in [0, 1, 5, 16, 500] {
            let plan = RoundPlan {
                body_blocks: 2 * max_offset,
                max_offset,
                offsets_per_chunk: 1,
                offsets_per_round: 8,
            };
            assert_eq!((plan.segment_start(0), plan.segment_start(SEGMENTS)), (0, max_offset));
            assert!((0..SEGMENTS).all(|s| plan.segment_start(s) <= plan.segment_start(s + 1)));
        }
    }

    #[test]
    fn ranks_exchange_few_nodes() {
        assert_eq!(
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 40].map(exchanged_nodes),
            [1, 2, 8, 4, 16, 16, 16, 8, 16, 16, 16]
        );
    }
}
