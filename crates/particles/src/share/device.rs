//! Exchange of results that are in the memory of devices.
//!
//! The part of this rank is copied to page-locked host memory, gathered there with the parts of the
//! other ranks, and the parts of the others are copied back. For a million bodies on two ranks that
//! are 12 MB in each direction.

use std::ops::Range;

use orrery_device::{Arg, Buffer, Device, DeviceError, Event, Kernel, KernelFile, Math, Pinned};

use super::{Parts, ShareError, SharedEvaluation};

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
    host: Pinned<f64>,
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
            host: device.pinned(0)?,
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
        let read = part.and_then(|span| {
            self.reserve(parts.target_count() * columns.len())?;
            self.queue_pack(parts.own(), columns, order)?;
            self.read_own(None, parts, columns.len())?;
            span.1.seconds_since(&span.0)
        });
        evaluation.agree(read.map_err(ShareError::from))?;
        self.gather_on_host(evaluation, parts, columns.len())?;
        self.write_others(None, parts, columns.len())?;
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
        let read = part.and_then(|span| {
            if self.host.len() < values.len() {
                self.host = self.device.pinned(values.len())?;
            }
            self.read_own(Some(values), parts, values_per_target)?;
            span.1.seconds_since(&span.0)
        });
        evaluation.agree(read.map_err(ShareError::from))?;
        self.gather_on_host(evaluation, parts, values_per_target)?;
        Ok(self.write_others(Some(values), parts, values_per_target)?)
    }

    /// Returns the bytes of the rows of results on the device.
    #[cfg(test)]
    pub fn device_bytes(&self) -> u64 {
        (self.packed.len() * size_of::<f64>()) as u64
    }

    fn reserve(&mut self, len: usize) -> Result<(), DeviceError> {
        if self.packed.len() < len {
            // Frees the old buffer first, so that only one is in memory.
            self.packed = self.device.zeros(0)?;
            self.packed = self.device.zeros(len)?;
            self.host = self.device.pinned(len)?;
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

    /// Copies the part of this rank to the host. Waits for it. `values` is `packed` if it is None.
    fn read_own(
        &mut self,
        values: Option<&Buffer<f64>>,
        parts: &Parts,
        values_per_target: usize,
    ) -> Result<(), DeviceError> {
        let own = parts.own_values(values_per_target);
        let Self { device, packed, host, .. } = self;
        device.queue().read(values.unwrap_or(packed).range(own.clone())?, &mut host[own])
    }

    fn gather_on_host(
        &mut self,
        evaluation: SharedEvaluation<'_>,
        parts: &Parts,
        values_per_target: usize,
    ) -> Result<(), ShareError> {
        let len = parts.target_count() * values_per_target;
        Ok(evaluation.gather(&mut self.host[..len], parts, values_per_target)?)
    }

    /// Copies the parts of the other ranks to the device.
    fn write_others(
        &self,
        values: Option<&Buffer<f64>>,
        parts: &Parts,
        values_per_target: usize,
    ) -> Result<(), DeviceError> {
        let own = parts.own_values(values_per_target);
        let end = parts.target_count() * values_per_target;
        for range in [0..own.start, own.end..end] {
            let to = values.unwrap_or(&self.packed).range(range.clone())?;
            self.device.queue().write(to, &self.host[range])?;
        }
        Ok(())
    }
}
