//! Checks of transfers on one device, for `orrery selftest` and the tests: contents after every
//! kind of copy, and results of SAXPY in segments for every order of the work.

use orrery_device::check::Check;
use orrery_device::{Device, DeviceError};

use super::calls::{CallExperiment, HostCall};
use super::clock::SpanRecorder;
use super::segments::{SegmentOrder, SegmentQueues, SegmentedArrays};
use super::visible::{ManagedSaxpy, MappedSaxpy};
use super::{HostMemory, PieceCopies, TransferArrays, TransferKind, check_pattern};

/// Lengths of the copies. PoCL compiles no kernel for them.
const LENGTHS: [usize; 5] = [1, 2, 255, 4096, 100_003];
/// Elements and segments of SAXPY: around blocks and with a short last segment. Not longer, because
/// PoCL compiles a kernel again for 2^16 threads or more.
const SEGMENTS: [[usize; 2]; 6] = [[1, 1], [1, 4], [255, 2], [257, 3], [5000, 7], [4096, 16]];

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("lab: transfer {name}"), run };
    vec![
        check("of pageable and pinned memory in both directions", compare_copies),
        check("in both directions at once", compare_both_directions),
        check("in pieces", compare_pieces),
        check("of segments, for every order and number of queues", compare_segments),
        check("of mapped memory by a kernel", compare_mapped),
        check("of managed memory by page faults and prefetches", compare_managed),
        check("during a kernel", compare_calls),
    ]
}

fn message_of(error: DeviceError) -> String {
    error.to_string()
}

fn compare_copies(device: &Device) -> Result<(), String> {
    let mut arrays = TransferArrays::new(device, LENGTHS[4]).map_err(message_of)?;
    for (seed, kind) in (1..).zip(TransferKind::ALL) {
        for len in LENGTHS {
            let queue = device.queue();
            arrays.prepare(queue, kind, seed, len).map_err(message_of)?;
            let unfinished = arrays.check(queue, kind, seed, len).map_err(message_of)?;
            if unfinished.is_ok() {
                return Err(format!("{}: the target has the pattern before the copy", kind.name()));
            }
            arrays.copy(queue, kind, len).map_err(message_of)?;
            let checked = arrays.check(queue, kind, seed, len).map_err(message_of)?;
            checked.map_err(|wrong| format!("{}: {wrong}", kind.name()))?;
        }
    }
    Ok(())
}

fn compare_both_directions(device: &Device) -> Result<(), String> {
    let [_, _, up, down] = TransferKind::ALL;
    let queues = [device.new_queue().map_err(message_of)?, device.new_queue().map_err(message_of)?];
    for len in LENGTHS {
        let mut arrays = TransferArrays::new(device, len).map_err(message_of)?;
        for (seed, pair) in [(1, [&queues[0], &queues[1]]), (2, [&queues[0], &queues[0]])] {
            // The source of the upload is filled last: preparing a download uses the same memory.
            arrays.prepare(device.queue(), down, seed, len).map_err(message_of)?;
            arrays.prepare(device.queue(), up, seed + 10, len).map_err(message_of)?;
            arrays.copy_both(pair).map_err(message_of)?;
            // The check of the upload overwrites the memory of the download, so it comes second.
            arrays.check(device.queue(), down, seed, len).map_err(message_of)??;
            arrays.check(device.queue(), up, seed + 10, len).map_err(message_of)??;
        }
    }
    Ok(())
}

fn compare_pieces(device: &Device) -> Result<(), String> {
    for (len, piece_len) in [(1, 1), (1000, 1), (1000, 7), (1000, 1000), (1000, 2000)] {
        let mut copies = PieceCopies::new(device, len, piece_len, 3).map_err(message_of)?;
        for memory in [HostMemory::Pageable, HostMemory::Pinned] {
            copies.clear_target(device.queue()).map_err(message_of)?;
            copies.copy(device.queue(), memory).map_err(message_of)?;
            let received = copies.received().map_err(message_of)?;
            check_pattern(3, &received)
                .map_err(|wrong| format!("pieces of {piece_len}, {memory:?}: {wrong}"))?;
        }
    }
    Ok(())
}

fn compare_segments(device: &Device) -> Result<(), String> {
    for [n, segments] in SEGMENTS {
        let mut arrays = SegmentedArrays::new(device, n, segments).map_err(message_of)?;
        for queue_count in [1, 2, 3] {
            let queues = SegmentQueues::new(device, queue_count, &arrays).map_err(message_of)?;
            for order in [SegmentOrder::DepthFirst, SegmentOrder::BreadthFirst] {
                arrays.clear_output();
                if arrays.check_output().is_ok() {
                    return Err("the output is correct before the computation".to_owned());
                }
                queues.run(&mut arrays, order, &mut SpanRecorder::default()).map_err(message_of)?;
                arrays.check_output().map_err(|wrong| {
                    format!("{n} elements in {segments} segments, {queue_count} queues, {order:?}: {wrong}")
                })?;
            }
        }
    }
    Ok(())
}

fn compare_mapped(device: &Device) -> Result<(), String> {
    if !device.properties().can_map_host_memory {
        return Ok(());
    }
    for [n, _] in SEGMENTS {
        let mut saxpy = MappedSaxpy::new(device, n).map_err(message_of)?;
        if saxpy.check_output().map_err(message_of)?.is_ok() {
            return Err("the output is correct before the computation".to_owned());
        }
        saxpy.run(device.queue()).map_err(message_of)?;
        saxpy.check_output().map_err(message_of)?.map_err(|wrong| format!("{n} elements: {wrong}"))?;
    }
    Ok(())
}

fn compare_managed(device: &Device) -> Result<(), String> {
    if !device.properties().has_managed_memory {
        return Ok(());
    }
    for [n, _] in SEGMENTS {
        let mut saxpy = ManagedSaxpy::new(device, n).map_err(message_of)?;
        for run in [ManagedSaxpy::run_with_faults, ManagedSaxpy::run_with_prefetches] {
            saxpy.clear_output().map_err(message_of)?;
            saxpy.move_to_host().map_err(message_of)?;
            run(&mut saxpy, device.queue()).map_err(message_of)?;
            saxpy.check_output().map_err(message_of)?.map_err(|wrong| format!("{n} elements: {wrong}"))?;
        }
    }
    Ok(())
}

/// The kernel computes the same while calls are made, and a copy in its queue waits for it.
fn compare_calls(device: &Device) -> Result<(), String> {
    let experiment = CallExperiment::new(device, 2e-3, 1000).map_err(message_of)?;
    for call in HostCall::ALL {
        let found = experiment.run(call).map_err(message_of)?;
        if call == HostCall::CopyInSameQueue && !found.has_waited() {
            return Err(format!("the copy did not wait for the kernel: {found:?}"));
        }
        // 0.5 value + 1 reaches 2 exactly after 25 rounds.
        let output = experiment.kernel_output().map_err(message_of)?;
        if let Some(wrong) = output.iter().find(|value| **value != 2.0) {
            return Err(format!("{}: the kernel computed {wrong}, expected 2", call.name()));
        }
    }
    Ok(())
}
