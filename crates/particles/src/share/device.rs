//! Exchange of results that are in the memory of devices: 24 bytes per body for forces, 32 with
//! potentials.
//!
//! Ranks of one process whose devices are the same one, or all of CUDA, copy from device to device:
//! each sends the handle of a copy of its part and the event after which it is complete. Others
//! copy their part to page-locked host memory, gather the parts there, and copy those of the others
//! back.
//!
//! A rank may read the part of another one until its computation of the next evaluation has ended,
//! because its queue is in order. All ranks wait for that in [`SharedEvaluation::agree`] of the
//! next evaluation. So two copies of a part that take turns are enough: the copy for evaluation
//! k + 2 is queued after all ranks have agreed on k + 1.

use std::ops::Range;
use std::sync::Arc;

use orrery_cluster::{Tag, Transport};
use orrery_device::{Arg, Buffer, Device, DeviceError, Event, Kernel, KernelFile, Math, Pinned};

use super::{Parts, ShareError, SharedEvaluation};

/// Handles of devices and parts.
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
    path: Path,
    /// Whether a device can copy from another one. Tests replace it.
    may_copy: fn(&Device, &Device) -> bool,
    /// Replaces the order of a solver that uses the user's order.
    no_order: Buffer<u32>,
}

/// How parts reach the other ranks.
enum Path {
    /// Not known before the first exchange.
    Unknown,
    /// Copies from device to device.
    Direct(OwnCopies),
    /// Messages between page-locked memory.
    Host(Pinned<f64>),
}

/// Copies of the part of this rank, which others read.
struct OwnCopies {
    buffers: [Arc<Buffer<f64>>; 2],
    /// Index of the buffer of the current evaluation.
    turn: usize,
    /// Event after the copy of the current evaluation.
    done: Option<Event>,
    /// Parts of the others, which the queue may still read.
    received: Vec<ReadyPart>,
}

/// Part of another rank.
struct ReadyPart {
    buffer: Arc<Buffer<f64>>,
    /// Event after which it is complete.
    done: Event,
}

impl DeviceGather {
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        let module = device.build(&PACK, &[("BLOCK_SIZE", BLOCK_SIZE.to_string())], Math::Precise)?;
        Ok(Self {
            device: device.clone(),
            pack: module.kernel("pack")?,
            unpack: module.kernel("unpack")?,
            packed: device.zeros(0)?,
            path: Path::Unknown,
            may_copy: Device::shares_memory_with,
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
        parts: &Parts,
        columns: &[&Buffer<f64>],
        order: Option<&Buffer<u32>>,
        part: Result<PartSpan, DeviceError>,
    ) -> Result<(), ShareError> {
        let started = part.and_then(|span| {
            self.reserve(parts.target_count() * columns.len())?;
            self.queue_pack(parts.own(), columns, order)?;
            self.start_own(None, parts, columns.len())?;
            span.1.seconds_since(&span.0)
        });
        evaluation.agree(started.map_err(ShareError::from))?;
        self.complete(evaluation, None, parts, columns.len())?;
        Ok(self.queue_unpack(columns, order)?)
    }

    /// Completes `values`, which has `values_per_target` elements per target and of which this rank
    /// has queued the computation of its part. Otherwise as
    /// [`exchange_columns`](Self::exchange_columns).
    pub fn exchange_values(
        &mut self,
        evaluation: SharedEvaluation<'_>,
        parts: &Parts,
        values: &Buffer<f64>,
        values_per_target: usize,
        part: Result<PartSpan, DeviceError>,
    ) -> Result<(), ShareError> {
        let started = part.and_then(|span| {
            self.start_own(Some(values), parts, values_per_target)?;
            span.1.seconds_since(&span.0)
        });
        evaluation.agree(started.map_err(ShareError::from))?;
        self.complete(evaluation, Some(values), parts, values_per_target)
    }

    /// Returns whether parts are copied from device to device.
    pub fn is_direct(&self) -> bool {
        matches!(self.path, Path::Direct(_))
    }

    /// Returns the bytes on the device.
    #[cfg(test)]
    pub fn device_bytes(&self) -> u64 {
        let copies = match &self.path {
            Path::Direct(own) => own.buffers.iter().map(|buffer| buffer.len()).sum(),
            Path::Unknown | Path::Host(_) => 0,
        };
        ((self.packed.len() + copies) * size_of::<f64>()) as u64
    }

    fn reserve(&mut self, len: usize) -> Result<(), DeviceError> {
        if self.packed.len() < len {
            // Frees the old buffer first, so that only one is in memory.
            self.packed = self.device.zeros(0)?;
            self.packed = self.device.zeros(len)?;
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

    /// Makes the part of this rank ready for the others. Does nothing before the first exchange.
    /// `values` is `packed` if it is None.
    fn start_own(
        &mut self,
        values: Option<&Buffer<f64>>,
        parts: &Parts,
        values_per_target: usize,
    ) -> Result<(), DeviceError> {
        let part = parts.values_of(parts.rank, values_per_target);
        let Self { device, packed, path, .. } = self;
        let queue = device.queue();
        let own = values.unwrap_or(packed).range(part.clone())?;
        match path {
            Path::Unknown => Ok(()),
            Path::Direct(OwnCopies { buffers, turn, done, .. }) => {
                let buffer = &mut buffers[*turn];
                if buffer.len() < part.len() {
                    *buffer = Arc::new(device.zeros(part.len())?);
                }
                queue.copy(own, buffer.range(0..part.len())?)?;
                *done = Some(queue.record()?);
                Ok(())
            }
            Path::Host(host) => {
                let len = parts.target_count() * values_per_target;
                if host.len() < len {
                    *host = device.pinned(len)?;
                }
                queue.read(own, &mut host[part])
            }
        }
    }

    /// Copies the parts of the other ranks to `values`, or to `packed` if it is None. All ranks
    /// have agreed.
    fn complete(
        &mut self,
        evaluation: SharedEvaluation<'_>,
        values: Option<&Buffer<f64>>,
        parts: &Parts,
        values_per_target: usize,
    ) -> Result<(), ShareError> {
        let Some(transport) = evaluation.share.transport() else { return Ok(()) };
        if matches!(self.path, Path::Unknown) {
            self.path = self.find_path(transport)?;
            self.start_own(values, parts, values_per_target)?;
        }
        let Self { device, packed, path, .. } = self;
        let (queue, to) = (device.queue(), values.unwrap_or(packed));
        let range_of = |rank| parts.values_of(rank, values_per_target);
        match path {
            Path::Unknown => unreachable!("the path is known"),
            Path::Direct(own) => {
                own.send(transport)?;
                own.received.clear();
                for rank in transport.other_ranks() {
                    let part: ReadyPart = transport.receive_value(rank, PARTS)?;
                    let range = range_of(rank);
                    queue.wait_for(&part.done)?;
                    queue.copy(part.buffer.range(0..range.len())?, to.range(range)?)?;
                    own.received.push(part);
                }
            }
            Path::Host(host) => {
                let len = parts.target_count() * values_per_target;
                evaluation.gather(&mut host[..len], parts, values_per_target)?;
                let own = range_of(parts.rank);
                for range in [0..own.start, own.end..len] {
                    queue.write(to.range(range.clone())?, &host[range])?;
                }
            }
        }
        Ok(())
    }

    /// Chooses the path of the exchange, the same on all ranks.
    fn find_path(&self, transport: &Transport) -> Result<Path, ShareError> {
        let device = &self.device;
        let mut is_direct = !transport.is_mpi();
        if is_direct {
            for rank in transport.other_ranks() {
                transport.send_value(rank, PARTS, device.clone())?;
            }
            for rank in transport.other_ranks() {
                // All ranks come to the same result: the relation is one of equivalence.
                is_direct &= (self.may_copy)(device, &transport.receive_value(rank, PARTS)?);
            }
        }
        if !is_direct {
            return Ok(Path::Host(device.pinned(0)?));
        }
        let empty = || Ok::<_, DeviceError>(Arc::new(device.zeros(0)?));
        let buffers = [empty()?, empty()?];
        Ok(Path::Direct(OwnCopies { buffers, turn: 0, done: None, received: Vec::new() }))
    }
}

impl Drop for DeviceGather {
    /// Waits for copies of buffers that this rank may be the last one to have.
    fn drop(&mut self) {
        if self.is_direct() {
            // An error was reported by the call that failed.
            let _ = self.device.queue().finish();
        }
    }
}

impl OwnCopies {
    /// Sends the copy of the current evaluation to all other ranks.
    fn send(&mut self, transport: &Transport) -> Result<(), ShareError> {
        let Some(done) = self.done.take() else { return Ok(()) };
        for rank in transport.other_ranks() {
            let part = ReadyPart { buffer: Arc::clone(&self.buffers[self.turn]), done: done.clone() };
            transport.send_value(rank, PARTS, part)?;
        }
        self.turn = 1 - self.turn;
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
    fn all_have_all(device: &Device, ranks: usize, may_copy: fn(&Device, &Device) -> bool) -> bool {
        let complete = threads::run(ranks, |transport| {
            let share = TargetShare::new(transport);
            let order: Vec<u32> = (0..TARGETS as u32).rev().collect();
            let order = device.upload(&order)?;
            let mut gather = DeviceGather::new(device)?;
            gather.may_copy = may_copy;
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
            Ok::<_, ShareError>(is_complete)
        });
        complete.unwrap().into_iter().all(|is_complete| is_complete)
    }

    #[test]
    fn results_reach_all_ranks_on_every_path() {
        for device in test_devices_with_f64() {
            for ranks in [2, 3] {
                assert!(all_have_all(&device, ranks, Device::shares_memory_with), "direct, {ranks} ranks");
                assert!(all_have_all(&device, ranks, |_, _| false), "on the host, {ranks} ranks");
            }
        }
    }
}
