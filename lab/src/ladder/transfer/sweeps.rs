//! Sweeps of the ladder of transfers: size, pieces, and segments of SAXPY.

use std::time::Instant;

use orrery_device::DeviceError;
use orrery_measure::MeasureError;
use orrery_measure::timing::Times;

use super::super::{Sweep, SweepScale, SweepSeries};
use super::{TransferMeasurement, check_rung};
use crate::experiments::transfer::segments::{SegmentOrder, SegmentedArrays};
use crate::experiments::transfer::{HostMemory, PieceCopies, TransferArrays, TransferKind, check_pattern};

/// Smallest transfer, in bytes.
const SMALLEST_BYTES: usize = 1 << 10;
/// Bytes that are copied in pieces, at most, and the bytes of the smallest piece.
const PIECED_BYTES: usize = 64 << 20;
const SMALLEST_PIECE: usize = 4 << 10;
/// Numbers of segments.
const SEGMENTS: [usize; 5] = [1, 4, 16, 64, 256];
/// Time for all runs of a point, and the largest number of runs.
const SECONDS_PER_POINT: f64 = 0.1;
const MAX_REPEATS: f64 = 50.0;

/// Short names of [`TransferKind::ALL`] for the columns of a table.
const KIND_NAMES: [&str; 4] = ["pageable to", "pageable from", "pinned to", "pinned from"];

/// Queues and order of SAXPY in segments.
const SEGMENT_PLANS: [(&str, usize, SegmentOrder); 5] = [
    ("1 queue", 1, SegmentOrder::DepthFirst),
    ("2 depth-first", 2, SegmentOrder::DepthFirst),
    ("2 breadth", 2, SegmentOrder::BreadthFirst),
    ("4 depth-first", 4, SegmentOrder::DepthFirst),
    ("8 depth-first", 8, SegmentOrder::DepthFirst),
];

/// Measures a run that waits for the device, with fewer runs than a rung.
fn time_point(work: &mut dyn FnMut() -> Result<(), DeviceError>) -> Result<Times, DeviceError> {
    work()?;
    let mut seconds: Vec<f64> = Vec::new();
    let start = Instant::now();
    while seconds.is_empty()
        || (start.elapsed().as_secs_f64() < SECONDS_PER_POINT && (seconds.len() as f64) < MAX_REPEATS)
    {
        let before = Instant::now();
        work()?;
        seconds.push(before.elapsed().as_secs_f64());
    }
    Ok(Times::from_seconds(seconds))
}

/// Returns `smallest`, four times as much, and so on up to `largest`, which is the last.
fn sizes_up_to(smallest: usize, largest: usize) -> Vec<usize> {
    let sizes = std::iter::successors(Some(smallest), |size| size.checked_mul(4));
    sizes.take_while(|size| *size < largest).chain([largest]).collect()
}

fn new_sweep(title: &str, parameter: &'static str, unit: &'static str, values: &[usize]) -> Sweep {
    Sweep {
        title: title.to_owned(),
        parameter,
        unit,
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Log,
        values: values.iter().map(|value| *value as f64).collect(),
        series: Vec::new(),
    }
}

impl TransferMeasurement<'_, '_> {
    /// Measures transfers of 1 KiB up to the largest size: bandwidth and time.
    pub(super) fn sweep_sizes(&mut self, arrays: &mut TransferArrays) -> Result<(), MeasureError> {
        let sizes = sizes_up_to(SMALLEST_BYTES.min(4 * self.len), 4 * self.len);
        let mut bandwidth = new_sweep("bandwidth by size of a transfer", "bytes", "GB/s", &sizes);
        let mut time = new_sweep("time by size of a transfer", "bytes", "µs", &sizes);
        for (kind, name) in TransferKind::ALL.into_iter().zip(KIND_NAMES) {
            self.report_progress(&format!("{} by size", kind.name()));
            let mut points = Vec::new();
            for (seed, bytes) in (100..).zip(&sizes) {
                let (queue, len) = (self.device.queue(), bytes / 4);
                arrays.prepare(queue, kind, seed, len)?;
                let times = time_point(&mut || arrays.copy(queue, kind, len))?;
                check_rung(kind.name(), arrays.check(queue, kind, seed, len)?)?;
                points.push(times.median());
            }
            let series = |convert: &dyn Fn(usize, f64) -> f64| SweepSeries {
                name: name.to_owned(),
                points: sizes
                    .iter()
                    .zip(&points)
                    .map(|(bytes, seconds)| Some(convert(*bytes, *seconds)))
                    .collect(),
            };
            bandwidth.series.push(series(&|bytes, seconds| bytes as f64 / seconds / 1e9));
            time.series.push(series(&|_, seconds| 1e6 * seconds));
        }
        self.ladder.sweeps.extend([bandwidth, time]);
        Ok(())
    }

    /// Measures one array that is copied to the device in pieces of several sizes.
    pub(super) fn sweep_pieces(&mut self) -> Result<(), MeasureError> {
        let total = (4 * self.len).min(PIECED_BYTES);
        let sizes = sizes_up_to(SMALLEST_PIECE.min(total), total);
        let mut sweep = new_sweep("one array to the device in pieces", "bytes per piece", "GB/s", &sizes);
        let memories = [("pageable", HostMemory::Pageable), ("pinned", HostMemory::Pinned)];
        let mut series = memories.map(|(name, _)| SweepSeries { name: name.to_owned(), points: Vec::new() });
        for (seed, bytes) in (200..).zip(sizes) {
            self.report_progress(&format!("pieces of {bytes} bytes"));
            let mut copies = PieceCopies::new(self.device, total / 4, bytes / 4, seed)?;
            for ((name, memory), series) in memories.into_iter().zip(&mut series) {
                let queue = self.device.queue();
                copies.clear_target(queue)?;
                let times = time_point(&mut || copies.copy(queue, memory))?;
                check_rung(name, check_pattern(seed, &copies.received()?))?;
                series.points.push(Some(total as f64 / times.median() / 1e9));
            }
        }
        sweep.series = series.into();
        self.ladder.sweeps.push(sweep);
        Ok(())
    }

    /// Measures SAXPY for several numbers of segments, numbers of queues and both orders.
    pub(super) fn sweep_segments(&mut self) -> Result<(), MeasureError> {
        let n = self.saxpy_len();
        let counts: &[usize] = if self.is_gpu() { &SEGMENTS } else { &SEGMENTS[..3] };
        let mut sweep =
            new_sweep("SAXPY by number of segments, for 1 to 8 queues", "segments", "GB/s", counts);
        let mut series =
            SEGMENT_PLANS.map(|(name, ..)| SweepSeries { name: name.to_owned(), points: Vec::new() });
        for &segments in counts {
            self.report_progress(&format!("SAXPY in {segments} segments"));
            let mut arrays = SegmentedArrays::new(self.device, n, segments)?;
            for ((name, queue_count, order), series) in SEGMENT_PLANS.into_iter().zip(&mut series) {
                let times = self.time_segments(name, &mut arrays, queue_count, order, time_point)?;
                series.points.push(Some(arrays.bytes() as f64 / times.median() / 1e9));
            }
        }
        sweep.series = series.into();
        self.ladder.sweeps.push(sweep);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_end_with_the_largest() {
        assert_eq!(sizes_up_to(1024, 1 << 16), [1 << 10, 1 << 12, 1 << 14, 1 << 16]);
        assert_eq!(sizes_up_to(1024, 5000), [1024, 4096, 5000]);
        assert_eq!(sizes_up_to(4, 4), [4]);
    }
}
