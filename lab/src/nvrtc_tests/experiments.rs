//! Compiles the kernels of experiments that only sweeps, tables and time lines have.

use orrery_device::{Device, DeviceError};

use super::{ELEMENTS, ListResult};
use crate::experiments::arithmetic::sums::OrderedSums;
use crate::experiments::arithmetic::{
    ChainShape, Chains, CodeSize, all_operations, for_number, one_register_fma,
};
use crate::experiments::atomics::device::{Returns, WordAtomics};
use crate::experiments::atomics::votes::{Vote, Votes};
use crate::experiments::atomics::{AtomicOperation, AtomicPattern, AtomicWorkload};
use crate::experiments::copy::patterns::{PatternCopy, TextureCopy};
use crate::experiments::coulomb::{CoulombMap, CoulombMethod, TiledStrategy};
use crate::experiments::divergence::predication::{BODIES, Choices};
use crate::experiments::divergence::{DivergencePattern, DivergentWork};
use crate::experiments::occupancy::loads::{LoadShape, Loads};
use crate::experiments::occupancy::pressure::{Pressure, VALUES};
use crate::experiments::saxpy::{FACTORS, NestedLoops, Saxpy, SaxpyShape, SaxpyVectors};
use crate::experiments::transfer::calls::{CallExperiment, HostCall};
use crate::experiments::transfer::clock::SpanRecorder;
use crate::experiments::transfer::segments::{SegmentOrder, SegmentQueues, SegmentedArrays};

/// Compiles copies with offsets and strides.
pub fn compile_patterns(device: &Device) -> ListResult {
    let (from, to) = (device.zeros(ELEMENTS)?, device.zeros(ELEMENTS)?);
    let patterns = PatternCopy::new(device)?;
    patterns.launch_shifted(device.queue(), &from, 0, &to)?;
    patterns.launch_strided(device.queue(), &from, 3, &to)?;
    Ok(TextureCopy::new(device, &[0.0; ELEMENTS])?.launch(device.queue(), 0, &to)?)
}

/// Compiles atomics whose results are stored, as the self-test has them, and votes.
pub fn compile_atomics(device: &Device) -> ListResult {
    let queue = device.queue();
    let work = AtomicWorkload { operations: 100, numbers: 16, pattern: AtomicPattern::Random };
    let words = WordAtomics::<u32>::new(device, Returns::Stored, 16, 100)?;
    words.launch(queue, AtomicOperation::Add, &work)?;
    let words = WordAtomics::<u64>::new(device, Returns::Stored, 16, 100)?;
    words.launch(queue, AtomicOperation::Add, &work)?;
    Ok(Votes::new(device, 1)?.launch(queue, Vote::MatchAll, 1)?)
}

/// Compiles the count of active lanes, and bodies of all lengths.
pub fn compile_branches(device: &Device) -> ListResult {
    let divergent = DivergentWork::new(device, &DivergencePattern::Parity.work(100, 3))?;
    divergent.count_steps()?;
    for body in BODIES {
        Choices::new(device, body, &[1; 100])?.launch(device.queue(), 1)?;
    }
    Ok(())
}

/// Compiles loops with gangs and nested loops, transfers in segments, calls during a kernel, and
/// the electrostatic map with 16 points per thread.
pub fn compile_loops_and_segments(device: &Device) -> ListResult {
    let queue = device.queue();
    let (x, y) = (device.zeros(ELEMENTS)?, device.zeros(ELEMENTS)?);
    let on_device = SaxpyVectors { x: &x, y: &y };
    for block_size in [32, 1024] {
        let saxpy = Saxpy::new(device, block_size)?;
        saxpy.launch_update(queue, 16, FACTORS[0], on_device)?;
        let shape = SaxpyShape { rows: 2, columns: ELEMENTS / 2 };
        for nested in [NestedLoops::ThreadPerRow, NestedLoops::BlockPerRow] {
            saxpy.launch_nested(queue, nested, None, shape, FACTORS[0], on_device)?;
        }
    }
    let mut arrays = SegmentedArrays::new(device, ELEMENTS, 3)?;
    let queues = SegmentQueues::new(device, 2, &arrays)?;
    queues.run(&mut arrays, SegmentOrder::BreadthFirst, &mut SpanRecorder::default())?;
    CallExperiment::new(device, 1e-3, ELEMENTS)?.run(HostCall::AsynchronousCopy)?;
    let sixteen = TiledStrategy { points: 16, ..TiledStrategy::TUNED };
    CoulombMap::new(device, CoulombMethod::Tiled(sixteen))?;
    Ok(())
}

/// Compiles long chains of FMAs, whose latency is measured, and sums in different orders. Other
/// operations have the same code with other constants.
pub fn compile_arithmetic(device: &Device) -> ListResult {
    for any in &all_operations() {
        for_number!(any, operation => {
            if operation.name.ends_with("FMA") {
                let chains = Chains::new(device, operation, ChainShape::for_latency(CodeSize::Small), 1)?;
                chains.launch(device.queue(), 1, 1)?;
            }
        });
    }
    OrderedSums::single_on_device(device)?;
    OrderedSums::double_on_device(device)?;
    Ok(())
}

/// Compiles the experiments on occupancy to machine code, and checks their registers.
pub fn compile_occupancy(device: &Device) -> ListResult {
    let resources_with = |max_registers| -> Result<(u32, Option<u32>), DeviceError> {
        let pressure = Pressure::new(device, max_registers, 1)?;
        pressure.launch(device.queue(), 1)?;
        let resources = pressure.resources().0;
        Ok((resources.registers.unwrap(), resources.spill_bytes))
    };
    let [free, limited] = [resources_with(None)?, resources_with(Some(32))?];
    // All numbers of a thread are in registers, or those that the limit allows.
    assert!((VALUES as u32..=144).contains(&free.0) && free.1 == Some(0), "{free:?}");
    assert!(limited.0 <= 32 && limited.1 >= Some(4 * (VALUES as u32 - 32)), "{limited:?}");
    let from = device.zeros(ELEMENTS)?;
    for (width, loads) in [(1, 1), (2, 1), (4, 4)] {
        for block_size in [32, 1024] {
            let shape = LoadShape { width, loads, block_size, dynamic_shared: 1000 };
            let kernel = Loads::new(device, shape, 1)?;
            kernel.launch(device.queue(), &from)?;
            // 64 warps fit on an SM.
            assert!(kernel.resources().0.registers.unwrap() <= if loads == 1 { 32 } else { 64 });
        }
    }
    // Nor do registers limit the warps of one chain of FMAs.
    let shape = ChainShape::with_chains(device, 1, 1024);
    let chains = Chains::new(device, &one_register_fma(), shape, 1)?;
    assert!(chains.resources().0.registers.unwrap() <= 32);
    Ok(())
}
