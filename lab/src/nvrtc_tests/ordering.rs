//! Compiles the experiments on fences, atomics, votes and divergence.

use orrery_device::testing::ptx_only_cuda;

use super::check_kernels;
use crate::experiments::atomics::device::{
    AtomicScope, RealAddition, RealAtomics, Returns, ScopedAdditions, WordAtomics,
};
use crate::experiments::atomics::shared::{SharedAddition, SharedAdditions, SharedPattern};
use crate::experiments::atomics::votes::{Vote, Votes};
use crate::experiments::atomics::{AtomicOperation, Pattern, Workload};
use crate::experiments::divergence::predication::{BODIES, Choices};
use crate::experiments::divergence::{DivergencePattern, DivergentWork};
use crate::experiments::fences::{Access, Fence, LitmusTest, LitmusTrials, Placement};

#[test]
fn litmus_tests_compile_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    let (device, queue) = (&cuda.device, cuda.device.queue());
    for (access, fence) in Access::ALL.into_iter().flat_map(|access| Fence::ALL.map(|fence| (access, fence)))
    {
        let trials = LitmusTrials::new(device, access, fence).unwrap();
        trials.count_outcomes(queue, LitmusTest::Course, Placement::SameBlock, 1).unwrap();
    }
    // Four kernels for each of twelve kinds of access and fence.
    check_kernels(&cuda, 48);
}

#[test]
fn atomics_compile_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    let (device, queue) = (&cuda.device, cuda.device.queue());
    let work = Workload { operations: 100, numbers: 16, pattern: Pattern::Random };
    for returns in [Returns::Unused, Returns::Summed, Returns::Stored] {
        let words = WordAtomics::<u32>::new(device, returns, 16, 100).unwrap();
        words.launch(queue, AtomicOperation::Add, &work).unwrap();
        let words = WordAtomics::<u64>::new(device, returns, 16, 100).unwrap();
        words.launch(queue, AtomicOperation::Add, &work).unwrap();
    }
    RealAtomics::<f32>::new(device, 16).unwrap().launch(queue, RealAddition::Hardware, &work).unwrap();
    RealAtomics::<f64>::new(device, 16).unwrap().launch(queue, RealAddition::Hardware, &work).unwrap();
    ScopedAdditions::new(device, 100).unwrap().launch(queue, AtomicScope::System, 100).unwrap();
    let shared = SharedAdditions::new(device, SharedPattern::OneBank).unwrap();
    shared.launch(queue, SharedAddition::F32, 1).unwrap();
    Votes::new(device, 1).unwrap().launch(queue, Vote::MatchAll, 1).unwrap();
    // Integers of two widths with three uses of results, two kinds of floats, scopes, shared,
    // votes.
    check_kernels(&cuda, 11);
}

#[test]
fn divergent_kernels_compile_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    let (device, queue) = (&cuda.device, cuda.device.queue());
    let divergent = DivergentWork::new(device, &DivergencePattern::Parity.work(100, 3)).unwrap();
    divergent.launch(queue).unwrap();
    divergent.count_steps().unwrap();
    for body in BODIES {
        Choices::new(device, body, &[1; 100]).unwrap().launch(queue, 1).unwrap();
    }
    // Two kernels for paths, one of which counts active lanes, and one for each body.
    check_kernels(&cuda, 8);
}
