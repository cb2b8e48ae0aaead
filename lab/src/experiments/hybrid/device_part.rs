//! The device's part of a shared sum: copies of the positions to the device, kernels, copies of the
//! accelerations back.

use orrery_device::{Buffer, Device, DeviceError, Event, Pinned, Queue};
use orrery_gravity::solver::ForceProblem;
use orrery_gravity::solver::direct::device::DeviceTargetSum;
use orrery_measure::workload::{VectorBuffers, columns_of, zero_vectors};
use orrery_model::Vec3s;

use super::device_strategy;
use crate::experiments::transfer::clock::SpanRecorder;

/// Copies between host and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyMode {
    /// The host waits for copies from and to ordinary memory. The CPU computes only while the
    /// kernel runs.
    Waiting,
    /// Arrays are in page-locked memory. The CPU computes while copies and kernels run, and
    /// accelerations are copied in segments while later ones are computed.
    Overlapped,
}

/// Largest number of segments of overlapped copies.
const SEGMENTS: usize = 4;
/// Lanes of a time line.
const KERNEL_LANE: usize = 0;
const COPY_LANE: usize = 1;
/// Names of the lanes of the device in a time line.
pub const LANE_NAMES: [&str; 2] = ["kernels", "copies back"];
/// Labels of the copies in a time line.
const UPLOAD: &str = "positions";
const DOWNLOAD: &str = "accelerations";

/// Returns the columns of vectors.
pub(super) fn slices_of(vectors: &Vec3s) -> [&[f64]; 3] {
    [&vectors.x, &vectors.y, &vectors.z]
}

/// Returns page-locked copies of the columns of vectors.
pub(super) fn pinned_copies(device: &Device, vectors: &Vec3s) -> Result<[Pinned<f64>; 3], DeviceError> {
    let pinned_copy = |column: &[f64]| {
        let mut pinned = device.pinned(column.len())?;
        pinned.copy_from_slice(column);
        Ok(pinned)
    };
    let [x, y, z] = slices_of(vectors);
    Ok([pinned_copy(x)?, pinned_copy(y)?, pinned_copy(z)?])
}

/// Targets that are computed by one launch.
struct Segment {
    sum: DeviceTargetSum,
    /// Accelerations in page-locked memory, for overlapped copies.
    found: [Pinned<f64>; 3],
}

/// Positions, masses and accelerations on a device, and the kernels for its targets.
pub(super) struct HybridDevicePart<'a> {
    device: &'a Device,
    problem: ForceProblem<'a>,
    mass: Buffer<f64>,
    position: VectorBuffers,
    acceleration: VectorBuffers,
    segments: Vec<Segment>,
    copies: Copies,
    /// Events before and after the work that was queued last.
    queued: Option<[Event; 2]>,
}

/// Members that depend on the [`CopyMode`].
enum Copies {
    Waiting { found: Vec3s },
    Overlapped { queue: Queue, position: [Pinned<f64>; 3] },
}

impl<'a> HybridDevicePart<'a> {
    /// Prepares the forces on the first `targets` bodies.
    pub(super) fn new(
        device: &'a Device,
        problem: ForceProblem<'a>,
        targets: usize,
        copies: CopyMode,
    ) -> Result<Self, DeviceError> {
        let n = problem.mass.len();
        let (copies, segment_count) = match copies {
            CopyMode::Waiting => {
                let column = vec![0.0; targets];
                (Copies::Waiting { found: Vec3s { x: column.clone(), y: column.clone(), z: column } }, 1)
            }
            CopyMode::Overlapped => {
                let position = pinned_copies(device, problem.position)?;
                (Copies::Overlapped { queue: device.new_queue()?, position }, SEGMENTS)
            }
        };
        let segment_len = targets.div_ceil(segment_count).max(1);
        let strategy = device_strategy(device);
        let mut segments = Vec::new();
        for first in (0..targets).step_by(segment_len) {
            let range = first..(first + segment_len).min(targets);
            let found =
                [device.pinned(range.len())?, device.pinned(range.len())?, device.pinned(range.len())?];
            let sum = DeviceTargetSum::new(device, problem.mass, range, &strategy)?;
            segments.push(Segment { sum, found });
        }
        let (position, acceleration) = (zero_vectors(device, n)?, zero_vectors(device, n)?);
        let mass = device.upload(problem.mass)?;
        Ok(Self { device, problem, mass, position, acceleration, segments, copies, queued: None })
    }

    /// Returns the number of targets.
    pub(super) fn target_count(&self) -> usize {
        self.segments.last().map_or(0, |segment| segment.sum.targets().end)
    }

    /// Queues copies of the positions, the kernels and, if they overlap, copies of the
    /// accelerations.
    pub(super) fn queue_work(&mut self, recorder: &mut SpanRecorder) -> Result<(), DeviceError> {
        let queue = self.device.queue();
        let ForceProblem { position, g, eps, .. } = self.problem;
        let mut before = queue.record()?;
        recorder.record(KERNEL_LANE, queue, UPLOAD, || match &mut self.copies {
            Copies::Waiting { .. } => {
                let mut columns = self.position.iter().zip(slices_of(position));
                columns.try_for_each(|(to, from)| queue.write(to, from))
            }
            Copies::Overlapped { position, .. } => {
                let mut columns = self.position.iter().zip(position);
                columns.try_for_each(|(to, from)| queue.write_async(to, from).map(drop))
            }
        })?;
        if matches!(self.copies, Copies::Waiting { .. }) {
            before = queue.record()?;
        }
        let (from, to) = (columns_of(&self.position), columns_of(&self.acceleration));
        let mut after = before.clone();
        for (index, Segment { sum, found }) in self.segments.iter_mut().enumerate() {
            let label = format!("kernel {}", index + 1);
            recorder.record(KERNEL_LANE, queue, &label, || sum.queue_forces(from, &self.mass, g, eps, to))?;
            after = queue.record()?;
            if let Copies::Overlapped { queue: copy_queue, .. } = &self.copies {
                copy_queue.wait_for(&after)?;
                recorder.record(COPY_LANE, copy_queue, DOWNLOAD, || {
                    for (buffer, found) in self.acceleration.iter().zip(found) {
                        copy_queue.read_async(buffer.range(sum.targets())?, found)?;
                    }
                    Ok(())
                })?;
                after = copy_queue.record()?;
            }
        }
        self.queued = Some([before, after]);
        Ok(())
    }

    /// Waits for the accelerations. Returns the time of the queued work.
    pub(super) fn finish(&mut self, recorder: &mut SpanRecorder) -> Result<f64, DeviceError> {
        let (queue, targets) = (self.device.queue(), self.target_count());
        match &mut self.copies {
            Copies::Waiting { found } => recorder.record(COPY_LANE, queue, DOWNLOAD, || {
                let found = [&mut found.x, &mut found.y, &mut found.z];
                let mut columns = self.acceleration.iter().zip(found);
                columns.try_for_each(|(buffer, found)| queue.read(buffer.range(..targets)?, found))
            })?,
            Copies::Overlapped { queue, .. } => recorder.record_call("wait", || queue.finish())?,
        }
        match self.queued.take() {
            Some([before, after]) => after.seconds_since(&before),
            None => Ok(0.0),
        }
    }

    /// Returns the accelerations of the targets.
    pub(super) fn accelerations(&self) -> Vec3s {
        match &self.copies {
            Copies::Waiting { found } => found.clone(),
            Copies::Overlapped { .. } => {
                let column = |axis: usize| {
                    self.segments.iter().flat_map(|segment| segment.found[axis].iter().copied()).collect()
                };
                Vec3s { x: column(0), y: column(1), z: column(2) }
            }
        }
    }
}
