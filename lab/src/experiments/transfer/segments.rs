//! c ← α a + b with arrays in the memory of the host: copies to the device, a kernel, a copy back.
//!
//! With one segment, each part waits for the one before. With several segments in several queues,
//! the copies of one segment overlap with the kernel and the copies of others. At best the time is
//! that of the longest of three parts: copies to the device, kernels, copies from the device.
//!
//! Depth-first order queues all work of a segment before that of the next one. Breadth-first order
//! queues the copies to the device of one segment per queue, then their kernels, then their copies
//! back. On old devices with one queue for all copies, only breadth-first order overlaps: a copy
//! back, which waits for its kernel, blocks the copies behind it.

use orrery_device::{Arg, Buffer, Device, DeviceError, Kernel, KernelFile, Math, Pinned, Queue};
use rayon::prelude::*;

use super::clock::SpanRecorder;

// SAFETY: `saxpy_segment` accesses the first n elements of a, b and c, and the launch checks that
// they have as many. `occupy` writes one element per thread of its only block, and its launch
// passes a buffer of that length.
const TRANSFER: KernelFile = unsafe { KernelFile::new("transfer.cu", include_str!("transfer.cu")) };

/// Threads per block.
pub(super) const BLOCK_SIZE: u32 = 256;

/// Factor α.
pub const ALPHA: f32 = 2.0;

/// Returns a kernel of `transfer.cu`.
pub(super) fn build_kernel(device: &Device, name: &str) -> Result<Kernel, DeviceError> {
    device.build(&TRANSFER, &[("BLOCK_SIZE", BLOCK_SIZE.to_string())], Math::Precise)?.kernel(name)
}

/// Order in which the work of segments is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentOrder {
    /// All work of a segment, then all work of the next one.
    DepthFirst,
    /// Copies to the device for one segment per queue, then the kernels, then the copies back.
    BreadthFirst,
}

/// Returns element `i` of a and b: small integers, for which α a + b is exact.
fn inputs(i: usize) -> [f32; 2] {
    [(1 + i % 251) as f32, (i % 127) as f32 - 63.0]
}

/// Returns element `i` of c after the computation.
pub fn expected_output(i: usize) -> f32 {
    let [a, b] = inputs(i);
    ALPHA * a + b
}

/// Writes the inputs of elements from `first` on.
pub fn fill_inputs(first: usize, a: &mut [f32], b: &mut [f32]) {
    a.par_iter_mut().zip(b).enumerate().for_each(|(i, (a, b))| [*a, *b] = inputs(first + i));
}

/// Checks elements of c from `first` on. The error names the first that is wrong.
pub fn check_output(first: usize, c: &[f32]) -> Result<(), String> {
    let first_wrong = (0..c.len()).into_par_iter().find_first(|&i| c[i] != expected_output(first + i));
    first_wrong.map_or(Ok(()), |i| {
        let (index, expected) = (first + i, expected_output(first + i));
        Err(format!("element {index}: found {}, expected {expected}", c[i]))
    })
}

/// Launches c ← α a + b.
#[derive(Debug)]
pub struct SaxpySegment {
    kernel: Kernel,
}

impl SaxpySegment {
    /// Compiles the kernel.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(Self { kernel: build_kernel(device, "saxpy_segment")? })
    }

    /// Queues the kernel for arrays of `n` elements. Each argument has at least as many.
    pub(super) fn launch(&self, queue: &Queue, n: usize, [a, b, c]: [Arg<'_>; 3]) -> Result<(), DeviceError> {
        let args = [(n as u32).into(), ALPHA.into(), a, b, c];
        queue.launch(&self.kernel, (n as u32).div_ceil(BLOCK_SIZE), BLOCK_SIZE, &args)
    }
}

/// Arrays a, b and c in page-locked memory, divided into segments.
#[derive(Debug)]
pub struct SegmentedArrays {
    n: usize,
    segment_len: usize,
    a: Vec<Pinned<f32>>,
    b: Vec<Pinned<f32>>,
    c: Vec<Pinned<f32>>,
}

impl SegmentedArrays {
    /// Allocates arrays of `n` elements, 1 to 2^32 - 1, and writes the inputs. There are at most
    /// `segments` segments.
    pub fn new(device: &Device, n: usize, segments: usize) -> Result<Self, DeviceError> {
        let (mut a, mut b) = (device.pinned::<f32>(n)?, device.pinned::<f32>(n)?);
        fill_inputs(0, &mut a, &mut b);
        let segment_len = n.div_ceil(segments.max(1)).max(1);
        let c = device.pinned::<f32>(n)?;
        let [a, b, c] = [a, b, c].map(|array| array.into_pieces(segment_len));
        Ok(Self { n, segment_len, a, b, c })
    }

    /// Returns the bytes that one run copies: a and b to the device, c back.
    pub fn bytes(&self) -> usize {
        12 * self.n
    }

    /// Overwrites c with NaN.
    pub fn clear_output(&mut self) {
        self.c.iter_mut().for_each(|segment| segment.fill(f32::NAN));
    }

    /// Checks c. The error names the first wrong element.
    pub fn check_output(&self) -> Result<(), String> {
        let mut first = 0;
        for segment in &self.c {
            check_output(first, segment)?;
            first += segment.len();
        }
        Ok(())
    }
}

/// Queues with memory on the device for one segment each.
#[derive(Debug)]
pub struct SegmentQueues {
    kernel: SaxpySegment,
    slots: Vec<Slot>,
}

/// A queue and its segments of a, b and c on the device.
#[derive(Debug)]
struct Slot {
    queue: Queue,
    a: Buffer<f32>,
    b: Buffer<f32>,
    c: Buffer<f32>,
}

impl SegmentQueues {
    /// Creates `queues` queues, at least one, for the segments of `arrays`.
    pub fn new(device: &Device, queues: usize, arrays: &SegmentedArrays) -> Result<Self, DeviceError> {
        let n = arrays.segment_len;
        let new_slot = |_| {
            let (queue, a, b, c) =
                (device.new_queue()?, device.zeros(n)?, device.zeros(n)?, device.zeros(n)?);
            Ok(Slot { queue, a, b, c })
        };
        let slots = (0..queues.max(1)).map(new_slot).collect::<Result<_, DeviceError>>()?;
        Ok(Self { kernel: SaxpySegment::new(device)?, slots })
    }

    /// Returns the first queue.
    pub fn first_queue(&self) -> &Queue {
        &self.slots[0].queue
    }

    /// Computes c for all segments and waits. `arrays` are those of [`Self::new`].
    pub fn run(
        &self,
        arrays: &mut SegmentedArrays,
        order: SegmentOrder,
        recorder: &mut SpanRecorder,
    ) -> Result<(), DeviceError> {
        let lanes = self.slots.len();
        for first in (0..arrays.a.len()).step_by(lanes) {
            let segments = first..arrays.a.len().min(first + lanes);
            match order {
                SegmentOrder::DepthFirst => {
                    for segment in segments {
                        self.copy_inputs(arrays, segment, recorder)?;
                        self.compute(arrays, segment, recorder)?;
                        self.copy_output(arrays, segment, recorder)?;
                    }
                }
                SegmentOrder::BreadthFirst => {
                    for segment in segments.clone() {
                        self.copy_inputs(arrays, segment, recorder)?;
                    }
                    for segment in segments.clone() {
                        self.compute(arrays, segment, recorder)?;
                    }
                    for segment in segments {
                        self.copy_output(arrays, segment, recorder)?;
                    }
                }
            }
        }
        recorder.record_call("wait", || self.slots.iter().try_for_each(|slot| slot.queue.finish()))
    }

    fn copy_inputs(
        &self,
        arrays: &mut SegmentedArrays,
        segment: usize,
        recorder: &mut SpanRecorder,
    ) -> Result<(), DeviceError> {
        let lane = segment % self.slots.len();
        let slot = &self.slots[lane];
        let (a, b) = (&mut arrays.a[segment], &mut arrays.b[segment]);
        recorder.record(lane, &slot.queue, "in", || {
            slot.queue.write_async(slot.a.range(..a.len())?, a)?;
            slot.queue.write_async(slot.b.range(..b.len())?, b).map(drop)
        })
    }

    fn compute(
        &self,
        arrays: &SegmentedArrays,
        segment: usize,
        recorder: &mut SpanRecorder,
    ) -> Result<(), DeviceError> {
        let lane = segment % self.slots.len();
        let slot = &self.slots[lane];
        let n = arrays.a[segment].len();
        recorder.record(lane, &slot.queue, "kernel", || {
            self.kernel.launch(&slot.queue, n, [(&slot.a).into(), (&slot.b).into(), (&slot.c).into()])
        })
    }

    fn copy_output(
        &self,
        arrays: &mut SegmentedArrays,
        segment: usize,
        recorder: &mut SpanRecorder,
    ) -> Result<(), DeviceError> {
        let lane = segment % self.slots.len();
        let slot = &self.slots[lane];
        let c = &mut arrays.c[segment];
        recorder
            .record(lane, &slot.queue, "out", || slot.queue.read_async(slot.c.range(..c.len())?, c).map(drop))
    }
}
