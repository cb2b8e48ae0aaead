//! Compiles the experiments with transfers and SAXPY.

use orrery_device::testing::ptx_only_cuda;

use super::{ELEMENTS, check_kernels};
use crate::experiments::saxpy::{DeviceLoops, FACTORS, NestedLoops, Saxpy, Shape, Vectors};
use crate::experiments::transfer::calls::{CallExperiment, HostCall};
use crate::experiments::transfer::clock::SpanRecorder;
use crate::experiments::transfer::segments::{SegmentOrder, SegmentQueues, SegmentedArrays};

#[test]
fn transfers_and_saxpy_compile_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    let (device, queue) = (&cuda.device, cuda.device.queue());
    let (x, y) = (device.zeros(ELEMENTS).unwrap(), device.zeros(ELEMENTS).unwrap());
    let on_device = Vectors { x: &x, y: &y };
    for block_size in [32, 256, 1024] {
        let saxpy = Saxpy::new(device, block_size).unwrap();
        for loops in [DeviceLoops::Separate, DeviceLoops::Fused, DeviceLoops::FusedVectors] {
            saxpy.launch(queue, loops, FACTORS, on_device).unwrap();
        }
        let shape = Shape { rows: 2, columns: ELEMENTS / 2 };
        for nested in [NestedLoops::ThreadPerRow, NestedLoops::BlockPerRow] {
            saxpy.launch_nested(queue, nested, None, shape, FACTORS[0], on_device).unwrap();
        }
    }
    let mut arrays = SegmentedArrays::new(device, ELEMENTS, 3).unwrap();
    let queues = SegmentQueues::new(device, 2, &arrays).unwrap();
    queues.run(&mut arrays, SegmentOrder::BreadthFirst, &mut SpanRecorder::default()).unwrap();
    let experiment = CallExperiment::new(device, 1e-3, ELEMENTS).unwrap();
    experiment.run(HostCall::AsynchronousCopy).unwrap();
    // Five kernels of SAXPY for three block sizes, and two of transfers.
    check_kernels(&cuda, 17);
}
