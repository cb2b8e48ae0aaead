//! Exchange of results that are in the memory of devices: 24 bytes per body for forces, 32 with
//! potentials.
//!
//! Each rank sends a copy of its part to all others ([`DeviceLinks`]). A rank may read the copy of
//! another one until its computation of the next evaluation has ended, because its queue is in
//! order. All ranks wait for that in [`SharedEvaluation::agree`] of the next evaluation. So two
//! copies that take turns are enough: that of evaluation k + 2 is queued after all ranks have
//! agreed on k + 1.

use std::ops::Range;
use std::sync::Arc;

use orrery_cluster::{AllowedPaths, DeviceLinks, DeviceMessage, LinkError, MessagePath, Tag, Transport};
use orrery_device::{Arg, Buffer, Device, DeviceError, Event, Kernel, KernelFile, Math};

use super::{SharedEvaluation, TargetParts};

/// Parts of the results.
const PARTS: Tag = Tag::new(63);

const BLOCK_SIZE: u32 = 128;

// SAFETY: the kernels access the elements `begin..end` of `values`, or those that `order` gives,
// and as many rows of `packed`. `DeviceGather::queue_copy` passes columns and orders with one
// element per target, and `DeviceGather::reserve` allocates a row per target.
const PACK: KernelFile = unsafe { KernelFile::new("pack.cu", include_str!("pack.cu")) };

/// Events before and after the kernels that computed the part of this rank.
pub(crate) type PartSpan = (Event, Event);

/// Kernels and memory of the exchange, kept from evaluation to evaluation.
pub(crate) struct DeviceGather {
    device: Device,
    pack: Kernel,
    unpack: Kernel,
    /// One row of results per target.
    packed: Buffer<f64>,
    /// Copies of the part of this rank, which the others read.
    own: [Arc<Buffer<f64>>; 2],
    /// Index of the copy of the next evaluation.
    turn: usize,
    /// Connections to the other ranks. None before the first exchange.
    links: Option<DeviceLinks<f64>>,
    /// Returns the paths that may be used. Tests replace it.
    allowed: fn(&Transport) -> AllowedPaths,
    /// Replaces the order of a solver that uses the user's order.
    no_order: Buffer<u32>,
}

impl DeviceGather {
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        let module = device.build(&PACK, &[("BLOCK_SIZE", BLOCK_SIZE.to_string())], Math::Precise)?;
        Ok(Self {
            device: device.clone(),
            pack: module.kernel("pack")?,
            unpack: module.kernel("unpack")?,
            packed: device.zeros(0)?,
            own: [Arc::new(device.zeros(0)?), Arc::new(device.zeros(0)?)],
            turn: 0,
            links: None,
            allowed: AllowedPaths::for_transport,
            no_order: device.zeros(1)?,
        })
    }

    /// Completes `columns`, of which this rank has queued the computation of its part. `order` has
    /// the user's index of each target in the order of the solver, if that is another one.
    ///
    /// `part` are the events around the computation, or the reason why it could not be queued. All
    /// ranks must call this, also if their part failed.
    pub fn exchange_columns(
        &mut self,
        evaluation: SharedEvaluation<'_>,
        parts: &TargetParts,
        columns: &[&Buffer<f64>],
        order: Option<&Buffer<u32>>,
        part: Result<PartSpan, DeviceError>,
    ) -> Result<(), LinkError> {
        let started = part.and_then(|span| {
            self.reserve(parts.target_count() * columns.len())?;
            self.queue_pack(parts.own(), columns, order)?;
            self.reserve_own(parts, columns.len())?;
            span.1.seconds_since(&span.0)
        });
        evaluation.agree(started.map_err(LinkError::from))?;
        self.complete(evaluation, None, parts, columns.len())?;
        Ok(self.queue_unpack(columns, order)?)
    }

    /// Completes `values`, which has `values_per_target` elements per target and of which this rank
    /// has queued the computation of its part. Otherwise as
    /// [`exchange_columns`](Self::exchange_columns).
    pub fn exchange_values(
        &mut self,
        evaluation: SharedEvaluation<'_>,
        parts: &TargetParts,
        values: &Buffer<f64>,
        values_per_target: usize,
        part: Result<PartSpan, DeviceError>,
    ) -> Result<(), LinkError> {
        let started = part.and_then(|span| {
            self.reserve_own(parts, values_per_target)?;
            span.1.seconds_since(&span.0)
        });
        evaluation.agree(started.map_err(LinkError::from))?;
        self.complete(evaluation, Some(values), parts, values_per_target)
    }

    /// Returns the paths to the other ranks. There are none before the first exchange.
    pub fn paths(&self) -> Vec<MessagePath> {
        self.links.as_ref().map_or(Vec::new(), DeviceLinks::paths)
    }

    /// Returns the bytes on the device.
    #[cfg(test)]
    pub fn device_bytes(&self) -> u64 {
        let values: usize = self.packed.len() + self.own.iter().map(|own| own.len()).sum::<usize>();
        (values * size_of::<f64>()) as u64
    }

    fn reserve(&mut self, len: usize) -> Result<(), DeviceError> {
        if self.packed.len() < len {
            // Frees the old buffer first, so that only one is in memory.
            self.packed = self.device.zeros(0)?;
            self.packed = self.device.zeros(len)?;
        }
        Ok(())
    }

    /// Makes room for the copy of this rank's part. All ranks have read the last copy there.
    fn reserve_own(&mut self, parts: &TargetParts, values_per_target: usize) -> Result<(), DeviceError> {
        let len = parts.values_of(parts.rank, values_per_target).len();
        if self.own[self.turn].len() < len {
            self.own[self.turn] = Arc::new(self.device.zeros(len)?);
        }
        Ok(())
    }

    /// Queues copies of the results of `targets` from all columns to `packed`.
    fn queue_pack(
        &self,
        targets: Range<usize>,
        columns: &[&Buffer<f64>],
        order: Option<&Buffer<u32>>,
    ) -> Result<(), DeviceError> {
        columns.iter().enumerate().try_for_each(|(index, &column)| {
            let ends = [column.into(), (&self.packed).into()];
            self.queue_copy(&self.pack, targets.clone(), order, ends, [columns.len(), index])
        })
    }

    /// Queues copies of the results of all targets from `packed` to the columns.
    fn queue_unpack(&self, columns: &[&Buffer<f64>], order: Option<&Buffer<u32>>) -> Result<(), DeviceError> {
        columns.iter().enumerate().try_for_each(|(index, &column)| {
            let ends = [(&self.packed).into(), column.into()];
            self.queue_copy(&self.unpack, 0..column.len(), order, ends, [columns.len(), index])
        })
    }

    /// Queues a copy of one column. `place` is the number of columns and the index of this one.
    fn queue_copy(
        &self,
        kernel: &Kernel,
        targets: Range<usize>,
        order: Option<&Buffer<u32>>,
        [from, to]: [Arg<'_>; 2],
        place: [usize; 2],
    ) -> Result<(), DeviceError> {
        let [begin, end] = [targets.start, targets.end].map(|target| Arg::from(target as u32));
        let [columns, column] = place.map(|count| Arg::from(count as i32));
        let has_order = i32::from(order.is_some()).into();
        let order = order.unwrap_or(&self.no_order).into();
        let blocks = (targets.len() as u32).div_ceil(BLOCK_SIZE);
        let args = [begin, end, has_order, order, from, columns, column, to];
        self.device.queue().launch(kernel, blocks, BLOCK_SIZE, &args)
    }

    /// Exchanges the parts of `values`, or of `packed` if it is None. All ranks have agreed.
    fn complete(
        &mut self,
        evaluation: SharedEvaluation<'_>,
        values: Option<&Buffer<f64>>,
        parts: &TargetParts,
        values_per_target: usize,
    ) -> Result<(), LinkError> {
        let Some(transport) = evaluation.share.transport() else { return Ok(()) };
        let range_of = |rank| parts.values_of(rank, values_per_target);
        let part = range_of(parts.rank);
        let Self { device, packed, own, turn, links, allowed, .. } = self;
        let links = match links {
            Some(links) => links,
            None => {
                let others: Vec<usize> = transport.other_ranks().collect();
                let allowed = allowed(transport);
                links.insert(DeviceLinks::with_paths(device, transport, &others, part.len(), allowed)?)
            }
        };
        let (queue, values, copy) = (device.queue(), values.unwrap_or(packed), &own[*turn]);
        queue.copy(values.range(part.clone())?, copy.range(0..part.len())?)?;
        let messages = |range_of: &dyn Fn(usize) -> Range<usize>| -> Vec<DeviceMessage> {
            let message = |rank| DeviceMessage { rank, tag: PARTS, range: range_of(rank) };
            transport.other_ranks().map(message).filter(|message| !message.range.is_empty()).collect()
        };
        links.start(queue, copy, messages(&|_| 0..part.len()))?;
        links.finish(queue, values, &messages(&range_of))?;
        *turn = 1 - *turn;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use orrery_cluster::threads;
    use orrery_device::testing::test_devices_with_f64;

    use super::*;
    use crate::share::{Evaluation, TargetShare};

    const TARGETS: usize = 1000;

    /// Result of a target in one column of one evaluation.
    fn result(round: usize, column: usize, target: usize) -> f64 {
        (10_000 * round + 3000 * column + target) as f64
    }

    /// Returns whether all ranks have all results after several evaluations. The order of the
    /// solver is the opposite of the user's.
    /// All messages must have the path `path`.
    fn all_have_all(
        device: &Device,
        ranks: usize,
        allowed: fn(&Transport) -> AllowedPaths,
        path: MessagePath,
    ) -> bool {
        let complete = threads::run(ranks, |transport| {
            let share = TargetShare::new(transport);
            let order: Vec<u32> = (0..TARGETS as u32).rev().collect();
            let order = device.upload(&order)?;
            let mut gather = DeviceGather::new(device)?;
            gather.allowed = allowed;
            let mut is_complete = true;
            for round in 0..5 {
                let evaluation = share.of(Evaluation::Forces);
                let parts = evaluation.divide(TARGETS, |target| target);
                let own = parts.own();
                let part_of = |column: usize| -> Vec<f64> {
                    let of_target =
                        |target| if own.contains(&target) { result(round, column, target) } else { -1.0 };
                    (0..TARGETS).rev().map(of_target).collect()
                };
                let columns = [device.upload(&part_of(0))?, device.upload(&part_of(1))?];
                let queue = device.queue();
                let span = (queue.record()?, queue.record()?);
                let targets = [&columns[0], &columns[1]];
                gather.exchange_columns(evaluation, &parts, &targets, Some(&order), Ok(span))?;
                for (column, values) in columns.iter().enumerate() {
                    let mut found = vec![0.0; TARGETS];
                    queue.read(values, &mut found)?;
                    let expected = (0..TARGETS).rev().map(|target| result(round, column, target));
                    is_complete &= found.into_iter().eq(expected);
                }
            }
            Ok::<_, LinkError>(is_complete && gather.paths() == vec![path; ranks - 1])
        });
        complete.unwrap().into_iter().all(|is_complete| is_complete)
    }

    #[test]
    fn results_reach_all_ranks_on_every_path() {
        let has_shared = cfg!(target_os = "linux");
        let shared_path = if has_shared { MessagePath::Shared } else { MessagePath::Staged };
        for device in test_devices_with_f64() {
            for ranks in [2, 3] {
                let direct = |_: &Transport| AllowedPaths { direct: true, shared: false };
                assert!(all_have_all(&device, ranks, direct, MessagePath::Direct), "direct, {ranks} ranks");
                let shared = |_: &Transport| AllowedPaths { direct: false, shared: true };
                assert!(all_have_all(&device, ranks, shared, shared_path), "shared memory, {ranks} ranks");
                let staged = |_: &Transport| AllowedPaths { direct: false, shared: false };
                assert!(all_have_all(&device, ranks, staged, MessagePath::Staged), "messages, {ranks} ranks");
            }
        }
    }
}
