//! Ladder of transfers: one array between host and device from ordinary and page-locked memory, in
//! both directions at once, in segments that overlap with kernels, and with work of the CPU.

mod sweeps;

use std::time::Instant;

use orrery_device::{Device, DeviceError, DeviceKind, Queue};
use orrery_measure::MeasureError;
use orrery_measure::format::format_rate;
use orrery_measure::timing::Times;
use rayon::prelude::*;

use super::repeats::{time_prepared_rung, time_rung_on_cpu, time_waiting_rung};
use super::{
    BYTES, DefaultSizes, Ladder, LadderEntry, LadderRequest, Roof, Roofs, RungResult, TimedRuns, Timeline,
    Work,
};
use crate::experiments::transfer::calls::{CallExperiment, HostCall, lanes_of};
use crate::experiments::transfer::clock::SpanRecorder;
use crate::experiments::transfer::segments::{SegmentOrder, SegmentQueues, SegmentedArrays};
use crate::experiments::transfer::visible::{ManagedSaxpy, MappedSaxpy};
use crate::experiments::transfer::{Direction, HostMemory, TransferArrays, TransferKind};

/// Function that times runs of the work it is given.
type TimeRuns = fn(&mut dyn FnMut() -> Result<(), DeviceError>) -> Result<Times, DeviceError>;

pub static LADDER: LadderEntry = LadderEntry {
    name: "transfer",
    description: "Transfers between host and device: pageable, pinned, both ways, overlapped",
    title: "transfers between host and device",
    size_unit: "bytes",
    // Three arrays for single transfers, or three shorter ones in segments.
    host_bytes: |n| (n as u64).saturating_mul(4),
    sizes: DefaultSizes { gpu: 1 << 30, opencl_cpu: 1 << 24, host: 1 << 28 },
    counted: BYTES,
    rungs: &[],
    measure,
};

/// Segments of the rungs with SAXPY.
const SEGMENTS: usize = 16;
/// Queues of the last rung with SAXPY.
const MANY_QUEUES: usize = 4;
/// Bytes of each array of SAXPY, as a fraction of the largest transfer.
const SAXPY_FRACTION: usize = 4;
/// Time of the kernel during which calls of the host are made.
const KERNEL_SECONDS: f64 = 10e-3;
/// Bytes that such a call copies or allocates, at most.
const CALL_BYTES: usize = 4 << 20;
/// Numbers per task of a copy on all cores.
const CHUNK_LEN: usize = 1 << 16;

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    measure_host_copies(request, ladder);
    let Some(device) = request.device else { return Ok(()) };
    ladder.roofs = Roofs::of_device(device)?;
    // Two buffers on the device.
    let free = usize::try_from(device.memory()?.free).unwrap_or(usize::MAX);
    let len = (request.n.min(free / 4) / 4).max(1);
    let mut arrays = TransferArrays::new(device, len)?;
    let mut measurement = TransferMeasurement { device, request, ladder, link: Link::default(), len };
    measurement.add_transfers(&mut arrays)?;
    measurement.add_both_directions(&mut arrays)?;
    measurement.add_cpu_work(&mut arrays)?;
    measurement.sweep_sizes(&mut arrays)?;
    drop(arrays);
    measurement.sweep_pieces()?;
    measurement.add_segments()?;
    measurement.sweep_segments()?;
    measurement.add_mapped()?;
    measurement.add_managed()?;
    measurement.draw_segments()?;
    measurement.draw_calls()
}

/// Adds copies within the memory of the host. A copied byte is read and written.
fn measure_host_copies(request: &mut LadderRequest, ladder: &mut Ladder) {
    let n = request.n;
    let from = vec![1u8; n];
    let mut to = vec![0u8; n];
    let copy_parts = |to: &mut [u8]| {
        to.par_chunks_mut(4 * CHUNK_LEN).zip(from.par_chunks(4 * CHUNK_LEN)).for_each(|(to, from)| {
            to.copy_from_slice(from);
        });
    };
    ladder.roof = ladder.host_roofs.copy_roof();
    let roof = ladder.host_roofs.bandwidth_roof(2.0);
    let work = Work { flops: None, bytes: Some(2.0) };
    let mut add = |name: &str, copy: &dyn Fn(&mut [u8])| {
        (request.progress)(name);
        let times = time_rung_on_cpu(|| copy(&mut to));
        let runs = TimedRuns { n, items: n as f64, times };
        ladder.add_rung(RungResult { work, roof, ..RungResult::new(name, &runs) });
    };
    add("CPU, one thread, copy", &|to| to.copy_from_slice(&from));
    add("CPU, all cores, copy", &copy_parts);
}

/// Rates of the link between host and device, in bytes per second: the fastest measured transfer of
/// page-locked memory in each direction.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    to_device: f64,
    from_device: f64,
}

impl Link {
    /// Returns the highest rate of a mix of bytes in both directions, which overlap.
    fn rate_for(&self, to_device: f64, from_device: f64) -> f64 {
        (to_device + from_device) / (to_device / self.to_device).max(from_device / self.from_device)
    }
}

struct TransferMeasurement<'a, 'b> {
    device: &'a Device,
    request: &'a mut LadderRequest<'b>,
    ladder: &'a mut Ladder,
    link: Link,
    /// Numbers of 32 bits of the largest transfer.
    len: usize,
}

impl TransferMeasurement<'_, '_> {
    /// Adds a rung that copies bytes in both directions. Its roof is the link.
    fn add(&mut self, name: &str, note: &str, [to_device, from_device]: [f64; 2], times: Times) {
        let runs = TimedRuns { n: 4 * self.len, items: to_device + from_device, times };
        self.ladder.add_rung(RungResult {
            note: note.to_owned(),
            roof: Some(self.link.rate_for(to_device, from_device)),
            ..RungResult::new(name, &runs)
        });
    }

    fn report_progress(&mut self, text: &str) {
        (self.request.progress)(text);
    }

    /// Adds transfers of each kind of memory in each direction, and sets the roof.
    fn add_transfers(&mut self, arrays: &mut TransferArrays) -> Result<(), MeasureError> {
        let mut measured = Vec::new();
        for (seed, kind) in (1..).zip(TransferKind::ALL) {
            self.report_progress(kind.name());
            measured.push(self.time_transfer(arrays, kind, seed)?);
        }
        let bytes = 4.0 * self.len as f64;
        let rate = |times: &Times| bytes / times.fastest();
        self.link = Link { to_device: rate(&measured[2]), from_device: rate(&measured[3]) };
        let [to_device, from_device] =
            [self.link.to_device, self.link.from_device].map(|rate| format_rate(rate, "B/s"));
        let description = format!("{to_device} to the device, {from_device} back, the fastest pinned copies");
        self.ladder.roof = Some(Roof { name: "link", description });
        let host_copy = self.ladder.host_roofs.bandwidth_roof(2.0);
        self.ladder.remarks.extend(host_copy.map(|rate| {
            format!("CPU rungs are compared with copies in the CPU's memory: {}.", format_rate(rate, "B/s"))
        }));
        for (kind, times) in TransferKind::ALL.into_iter().zip(measured) {
            let directions = match kind.direction {
                Direction::ToDevice => [bytes, 0.0],
                Direction::FromDevice => [0.0, bytes],
            };
            let note = match kind.memory {
                HostMemory::Pageable => "the driver copies through a pinned buffer",
                HostMemory::Pinned => "",
            };
            self.add(kind.name(), note, directions, times);
        }
        Ok(())
    }

    /// Times transfers of all numbers and checks the contents.
    fn time_transfer(
        &mut self,
        arrays: &mut TransferArrays,
        kind: TransferKind,
        seed: u32,
    ) -> Result<Times, MeasureError> {
        let (queue, len) = (self.device.queue(), self.len);
        arrays.prepare(queue, kind, seed, len)?;
        let times = time_waiting_rung(|| arrays.copy(queue, kind, len))?;
        check_rung(kind.name(), arrays.check(queue, kind, seed, len)?)?;
        Ok(times)
    }

    /// Adds transfers in both directions, one after the other and at the same time.
    fn add_both_directions(&mut self, arrays: &mut TransferArrays) -> Result<(), MeasureError> {
        let [_, _, up, down] = TransferKind::ALL;
        let (first, second) = (self.device.new_queue()?, self.device.new_queue()?);
        let bytes = 4.0 * self.len as f64;
        for (seed, name, queues) in [
            (11, "both directions, one queue", [&first, &first]),
            (12, "both directions, two queues", [&first, &second]),
        ] {
            self.report_progress(name);
            let (queue, len) = (self.device.queue(), self.len);
            arrays.prepare(queue, down, seed, len)?;
            arrays.prepare(queue, up, seed + 10, len)?;
            let times = time_waiting_rung(|| arrays.copy_both(queues))?;
            // The check of the upload overwrites the memory of the download.
            check_rung(name, arrays.check(queue, down, seed, len)?)?;
            check_rung(name, arrays.check(queue, up, seed + 10, len)?)?;
            self.add(name, "", [bytes, bytes], times);
        }
        Ok(())
    }

    /// Adds a transfer and work of the CPU that takes as long, one after the other and at the same
    /// time.
    fn add_cpu_work(&mut self, arrays: &mut TransferArrays) -> Result<(), MeasureError> {
        let kind = TransferKind::ALL[2];
        let (queue, len) = (self.device.queue(), self.len);
        arrays.prepare(queue, kind, 31, len)?;
        let bytes = 4.0 * len as f64;
        let rounds = rounds_for(bytes / self.link.to_device);
        let note = "the CPU computes for as long as the copy takes";
        let name = "pinned, then CPU work";
        self.report_progress(name);
        let times = time_waiting_rung(|| {
            arrays.start_copy_to_device(queue)?;
            queue.finish()?;
            compute(rounds);
            Ok::<_, DeviceError>(())
        })?;
        self.add(name, note, [bytes, 0.0], times);
        let name = "pinned, CPU work meanwhile";
        self.report_progress(name);
        let mut recorder = SpanRecorder::new(queue)?;
        recorder.record(0, queue, "copy", || arrays.start_copy_to_device(queue))?;
        recorder.record_call("CPU work", || compute(rounds));
        recorder.record_call("wait", || queue.finish())?;
        let lanes = recorder.into_lanes(&["queue".to_owned()])?;
        self.ladder.timelines.push(Timeline { title: "copy and CPU work".to_owned(), lanes });
        let times = time_waiting_rung(|| {
            arrays.start_copy_to_device(queue)?;
            compute(rounds);
            queue.finish()
        })?;
        check_rung(name, arrays.check(queue, kind, 31, len)?)?;
        self.add(name, "", [bytes, 0.0], times);
        Ok(())
    }

    /// Returns the elements of each array of SAXPY.
    fn saxpy_len(&self) -> usize {
        (self.len / SAXPY_FRACTION).clamp(1, u32::MAX as usize)
    }

    /// Adds c = α a + b with all arrays on the host, as a whole and in segments.
    fn add_segments(&mut self) -> Result<(), MeasureError> {
        let n = self.saxpy_len();
        let depth_first = SegmentOrder::DepthFirst;
        let many = format!("SAXPY, {MANY_QUEUES} queues");
        let plans = [
            ("SAXPY, one queue", "copies, kernel and copy back of whole arrays", 1, 1, depth_first),
            ("SAXPY, one queue, segments", "nothing overlaps in one queue", SEGMENTS, 1, depth_first),
            ("SAXPY, two queues, depth-first", "", SEGMENTS, 2, depth_first),
            ("SAXPY, two queues, breadth-first", "", SEGMENTS, 2, SegmentOrder::BreadthFirst),
            (many.as_str(), "", SEGMENTS, MANY_QUEUES, depth_first),
        ];
        for (name, note, segments, queue_count, order) in plans {
            self.report_progress(name);
            let mut arrays = SegmentedArrays::new(self.device, n, segments)?;
            let times =
                self.time_segments(name, &mut arrays, queue_count, order, |work| time_waiting_rung(work))?;
            self.add(name, note, [8.0 * n as f64, 4.0 * n as f64], times);
        }
        let bytes = 4 * n;
        self.ladder
            .remarks
            .push(format!("SAXPY: c = 2 a + b, {bytes} bytes per array, in {SEGMENTS} segments."));
        Ok(())
    }

    /// Times SAXPY in segments with `time` and checks the result.
    fn time_segments(
        &self,
        name: &str,
        arrays: &mut SegmentedArrays,
        queue_count: usize,
        order: SegmentOrder,
        time: TimeRuns,
    ) -> Result<Times, MeasureError> {
        let queues = SegmentQueues::new(self.device, queue_count, arrays)?;
        arrays.clear_output();
        let times = time(&mut || queues.run(arrays, order, &mut SpanRecorder::default()))?;
        check_rung(name, arrays.check_output())?;
        Ok(times)
    }

    /// Adds SAXPY with mapped arrays.
    fn add_mapped(&mut self) -> Result<(), MeasureError> {
        if !self.device.properties().can_map_host_memory {
            self.ladder.remarks.push("Zero-copy is not measured: the device maps no host memory.".to_owned());
            return Ok(());
        }
        let (name, n) = ("SAXPY, zero-copy", self.saxpy_len());
        self.report_progress(name);
        let mut saxpy = MappedSaxpy::new(self.device, n)?;
        let times = time_waiting_rung(|| saxpy.run(self.device.queue()))?;
        check_rung(name, saxpy.check_output()?)?;
        let note = "the kernel reads and writes memory of the host, each element once";
        self.add(name, note, [8.0 * n as f64, 4.0 * n as f64], times);
        Ok(())
    }

    /// Adds SAXPY with managed arrays, whose pages are on the host before each run.
    fn add_managed(&mut self) -> Result<(), MeasureError> {
        if !self.device.properties().has_managed_memory {
            self.ladder.remarks.push("Managed memory is not measured: the device has none.".to_owned());
            return Ok(());
        }
        let (n, queue) = (self.saxpy_len(), self.device.queue());
        self.report_progress("SAXPY, managed");
        let mut saxpy = ManagedSaxpy::new(self.device, n)?;
        let move_to_host = ManagedSaxpy::move_to_host;
        let first_touch = time_prepared_rung(&mut saxpy, move_to_host, |saxpy| saxpy.run_kernel(queue))?;
        let again = time_waiting_rung(|| saxpy.run_kernel(queue))?;
        let rate = |times: &Times| format_rate(12.0 * n as f64 / times.median(), "B/s");
        let kernel =
            format!("the kernel alone: {} at first touch, {} again", rate(&first_touch), rate(&again));
        type Run = fn(&mut ManagedSaxpy, &Queue) -> Result<(), DeviceError>;
        let rungs: [(&str, &str, Run); 2] = [
            ("SAXPY, managed, page faults", &kernel, ManagedSaxpy::run_with_faults),
            ("SAXPY, managed, prefetched", "", ManagedSaxpy::run_with_prefetches),
        ];
        for (name, note, run) in rungs {
            self.report_progress(name);
            saxpy.clear_output()?;
            let times = time_prepared_rung(&mut saxpy, move_to_host, |saxpy| run(saxpy, queue))?;
            check_rung(name, saxpy.check_output()?)?;
            self.add(name, note, [8.0 * n as f64, 4.0 * n as f64], times);
        }
        Ok(())
    }

    /// Draws SAXPY in four segments for one queue, and for two queues in both orders.
    fn draw_segments(&mut self) -> Result<(), MeasureError> {
        self.report_progress("time lines of segments");
        let mut arrays = SegmentedArrays::new(self.device, self.saxpy_len(), 4)?;
        for (name, queue_count, order) in [
            ("four segments, one queue", 1, SegmentOrder::DepthFirst),
            ("four segments, two queues, depth-first", 2, SegmentOrder::DepthFirst),
            ("four segments, two queues, breadth-first", 2, SegmentOrder::BreadthFirst),
        ] {
            let queues = SegmentQueues::new(self.device, queue_count, &arrays)?;
            queues.run(&mut arrays, order, &mut SpanRecorder::default())?;
            let mut recorder = SpanRecorder::new(queues.first_queue())?;
            queues.run(&mut arrays, order, &mut recorder)?;
            let names: Vec<String> = (0..queue_count).map(|queue| format!("queue {queue}")).collect();
            let lanes = recorder.into_lanes(&names)?;
            self.ladder.timelines.push(Timeline { title: name.to_owned(), lanes });
        }
        Ok(())
    }

    /// Draws calls of the host during a kernel.
    fn draw_calls(&mut self) -> Result<(), MeasureError> {
        self.report_progress("calls during a kernel");
        let len = self.len.min(CALL_BYTES / 4);
        let experiment = CallExperiment::new(self.device, KERNEL_SECONDS, len)?;
        let mut calls = Vec::new();
        for call in HostCall::ALL {
            // The first call of a kind may load code of the driver.
            experiment.run(call)?;
            calls.push(experiment.run(call)?);
        }
        let names: Vec<&str> =
            calls.iter().filter(|call| call.has_waited()).map(|call| call.call.name()).collect();
        let waited = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        self.ladder.remarks.push(format!("Calls that waited for the kernel: {waited}."));
        let title = "calls of the host during a kernel".to_owned();
        self.ladder.timelines.push(Timeline { title, lanes: lanes_of(&calls) });
        Ok(())
    }

    /// Returns whether the device is a GPU, for which longer sweeps are worth their time.
    fn is_gpu(&self) -> bool {
        self.device.properties().kind == DeviceKind::Gpu
    }
}

/// Returns an error that names the rung if its result is wrong.
fn check_rung(rung: &str, checked: Result<(), String>) -> Result<(), MeasureError> {
    checked.map_err(|message| MeasureError::WrongResult { rung: rung.to_owned(), message })
}

/// Computes on one core for a time that is proportional to `rounds`, without access to memory.
fn compute(rounds: u64) {
    let mut state = std::hint::black_box(1u64);
    for _ in 0..rounds {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    std::hint::black_box(state);
}

/// Returns the rounds of [`compute`] that take this long.
fn rounds_for(seconds: f64) -> u64 {
    const ROUNDS: u64 = 1_000_000;
    compute(ROUNDS);
    let start = Instant::now();
    compute(ROUNDS);
    let rounds_per_second = ROUNDS as f64 / start.elapsed().as_secs_f64().max(1e-9);
    (seconds * rounds_per_second) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_direction_limits_a_mix_of_both() {
        let link = Link { to_device: 50.0, from_device: 40.0 };
        assert_eq!((link.rate_for(1.0, 0.0), link.rate_for(0.0, 1.0)), (50.0, 40.0));
        assert_eq!(link.rate_for(100.0, 100.0), 80.0);
        assert_eq!(link.rate_for(100.0, 40.0), 70.0);
    }
}
