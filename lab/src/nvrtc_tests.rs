//! Compiles the kernels of the laboratory with NVRTC, without a GPU. The default strategies of its
//! primitives become machine code for compute capability 9.0 and 7.5, and their local memory is
//! checked. All other strategies, rungs and experiments become PTX for 9.0, which takes two thirds
//! of the time.
//!
//! PoCL, on which the other tests run on a machine without a GPU, takes other branches than CUDA
//! for shuffles, votes and tickets. Each test builds rungs and primitives on a device that
//! compiles kernels, checks the arguments of launches and does not run them, so their results have
//! no meaning. A test fails if a kernel does not compile, if a launch does not match a kernel, and
//! if machine code uses local memory without being in [`ALLOWED_LOCAL_MEMORY`].

mod coulomb;
mod execution;
mod fields;
mod fluids;
mod histogram;
mod hybrid;
mod label;
mod matmul;
mod memory;
mod ordering;
mod transfers;
mod transpose;

use orrery_device::testing::{AllowedLocalMemory, CompileOnlyCuda, compile_only_cuda, ptx_only_cuda};
use orrery_device::{Device, DeviceError};
use orrery_gravity::solver::ForceProblem;
use orrery_measure::workload::DeviceWorkload;
use orrery_model::Vec3s;

use crate::primitives::histogram::binned::{BinnedHistogram, FloatBins, MAX_BINS};
use crate::primitives::histogram::{Histogram, HistogramStrategy};
use crate::rungs::gravity::direct::course::{CourseProgram, CourseSteps};
use crate::rungs::gravity::tree::insertion::{BLOCKS_PER_SM, InsertionSteps};
use crate::rungs::gravity::{GravityRungKind, LectureStrategy, direct as direct_rungs, tree as tree_rungs};
use crate::rungs::reduce;

const ALLOWED_LOCAL_MEMORY: [AllowedLocalMemory; 1] = [AllowedLocalMemory {
    file: "pressure.cu",
    kernel: "update_values",
    definitions: &["MAX_REGISTERS=32"],
    max_bytes: 512,
    reason: "the experiment measures what spilled registers cost",
}];

/// Number of bodies.
const BODIES: usize = 1024;
/// Number of elements for primitives.
const ELEMENTS: usize = 5000;

type TestResult = Result<(), DeviceError>;

/// Checks that at least `min_kernels` were compiled, and their local memory.
fn check_kernels(cuda: &CompileOnlyCuda, min_kernels: usize) {
    cuda.check_kernels(min_kernels, &ALLOWED_LOCAL_MEMORY);
}

fn compile_histograms(device: &Device) -> TestResult {
    Histogram::new(device)?.count(device.queue(), &device.zeros(ELEMENTS)?)?;
    for count in [1, 100, MAX_BINS] {
        let bins = FloatBins::new(0.0, 1.0, count).expect("valid bins");
        BinnedHistogram::new(device, bins)?.count(device.queue(), &device.zeros(ELEMENTS)?)?;
    }
    Ok(())
}

/// Compiles the default strategies of the primitives.
fn compile_default_primitives(device: &Device) -> TestResult {
    transpose::compile_defaults(device)?;
    label::compile_defaults(device)?;
    compile_histograms(device)
}

#[test]
fn default_primitives_compile_for_turing() {
    let Some(cuda) = compile_only_cuda((7, 5)) else { return };
    compile_default_primitives(&cuda.device).unwrap();
    check_kernels(&cuda, 15);
}

#[test]
fn default_primitives_compile_for_hopper() {
    let Some(cuda) = compile_only_cuda((9, 0)) else { return };
    compile_default_primitives(&cuda.device).unwrap();
    check_kernels(&cuda, 15);
}

/// Strategies of the ladder.
#[test]
fn direct_rungs_compile_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    let device = &cuda.device;
    let workload = DeviceWorkload::for_direct(device, BODIES).expect("host memory");
    for rung in direct_rungs::rungs(Some(device)) {
        match rung.kind {
            GravityRungKind::Device(strategy) => {
                let mut solver = workload.new_solver(strategy).unwrap();
                workload.queue_forces(&mut solver).unwrap();
            }
            GravityRungKind::Lecture(strategy) => run_lecture(&workload, device, strategy),
            _ => {}
        }
    }
    for program in [CourseProgram::Arguments, CourseProgram::ConstantMemory, CourseProgram::Final] {
        let position = Vec3s { x: vec![0.0; 2], y: vec![0.0; 2], z: vec![0.0; 2] };
        let steps = CourseSteps::new(device, program, &position, &[1.0; 2], 0.1, 0.1).unwrap();
        steps.queue_step().unwrap();
    }
    check_kernels(&cuda, 60);
}

fn run_lecture(workload: &DeviceWorkload, device: &Device, strategy: LectureStrategy) {
    let mut solver = strategy.new_solver(device, BODIES).unwrap();
    workload.queue_forces(&mut *solver).unwrap();
}

#[test]
fn tree_rungs_compile_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    let device = &cuda.device;
    let workload = DeviceWorkload::for_direct(device, BODIES).expect("host memory");
    let position = Vec3s::zeros(2);
    for rung in tree_rungs::rungs(Some(device)) {
        if let GravityRungKind::Lecture(strategy) = rung.kind {
            run_lecture(&workload, device, strategy);
        }
        if let GravityRungKind::InsertionStep(options) = rung.kind {
            let problem = ForceProblem {
                position: &position,
                mass: &[1.0; 2],
                g: 1.0,
                eps: 0.1,
                with_potential: false,
            };
            InsertionSteps::new(device, options, BLOCKS_PER_SM, &problem, 0.5, 0.1)
                .and_then(|mut steps| steps.queue_step())
                .unwrap();
        }
    }
    check_kernels(&cuda, 17);
}

#[test]
fn all_primitives_compile_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    let device = &cuda.device;
    for strategy in HistogramStrategy::CANDIDATES {
        Histogram::with_strategy(device, strategy).unwrap();
    }
    compile_primitive_rungs(device).unwrap();
    transpose::compile_candidates_and_rungs(device).unwrap();
    label::compile_candidates_and_rungs(device).unwrap();
    check_kernels(&cuda, 50);
}

fn compile_primitive_rungs(device: &Device) -> TestResult {
    let (numbers, sum) = (device.zeros(ELEMENTS)?, device.zeros(1)?);
    let (integers, integer_sum) = (device.zeros::<i32>(ELEMENTS)?, device.zeros(1)?);
    for rung in reduce::rungs() {
        for block_size in reduce::BLOCK_SIZES {
            reduce::RungSum::<f32>::new(device, rung.variant, block_size)?.launch(
                device.queue(),
                &numbers,
                &sum,
            )?;
        }
        reduce::RungSum::<i32>::new(device, rung.variant, 256)?.launch(
            device.queue(),
            &integers,
            &integer_sum,
        )?;
    }
    histogram::compile_rungs(device)
}
