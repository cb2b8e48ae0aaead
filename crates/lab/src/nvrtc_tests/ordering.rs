//! Compiles the experiments on the order of accesses.

use orrery_device::testing::compile_only_cuda;

use super::check_kernels;
use crate::experiments::fences::{Access, Fence, LitmusTest, LitmusTrials, Placement};

#[test]
fn ordering_experiments_compile_for_hopper() {
    let Some(cuda) = compile_only_cuda((9, 0)) else { return };
    let (device, queue) = (&cuda.device, cuda.device.queue());
    for (access, fence) in Access::ALL.into_iter().flat_map(|access| Fence::ALL.map(|fence| (access, fence)))
    {
        let trials = LitmusTrials::new(device, access, fence).unwrap();
        trials.count_outcomes(queue, LitmusTest::Course, Placement::SameBlock, 1).unwrap();
    }
    // Four kernels for each of twelve kinds of access and fence.
    check_kernels(&cuda, 48);
}
