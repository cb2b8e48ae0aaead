//! Compiles the kernels with NVRTC, without a GPU. The kernels that runs use by default become
//! machine code for compute capability 9.0 and 7.5, and their local memory is checked. All other
//! strategies, rungs and experiments become PTX for 9.0, which takes two thirds of the time.
//! Primitives with code for 8.0 and later are also compiled for 8.0.
//!
//! PoCL, on which the other tests run on a machine without a GPU, takes other branches than CUDA
//! for shuffles, votes and tickets. Each test builds solvers and primitives on a device that
//! compiles kernels, checks the arguments of launches and does not run them, so their results have
//! no meaning. A test fails if a kernel does not compile, if a launch does not match a kernel, and
//! if machine code uses local memory without being in [`ALLOWED_LOCAL_MEMORY`].

mod coulomb;
mod execution;
mod fields;
mod fluid_steps;
mod fluids;
mod histogram;
mod hybrid;
mod label;
mod matmul;
mod memory;
mod ordering;
mod team;
mod transfers;
mod transpose;

use std::sync::Arc;

use orrery_device::testing::{CompileOnlyCuda, CompiledKernel, compile_only_cuda, ptx_only_cuda};
use orrery_device::{Buffer, Device, DeviceError, ceiling};
use orrery_gravity::bodies::{Bodies, BodiesError, DeviceSetup};
use orrery_gravity::settings::{Acceptance, GravitySettings, IntegratorChoice, SolverChoice};
use orrery_gravity::solver::ForceProblem;
use orrery_gravity::solver::device::{DeviceSolver, DeviceStrategy, ForceRequest};
use orrery_gravity::solver::direct::device::{Columns, DirectDeviceStrategy};
use orrery_gravity::solver::tree::device::{Order, TreeDeviceStrategy};
use orrery_measure::selftest;
use orrery_model::analysis::{BinnedBodies, Projection};
use orrery_model::ic::Plummer;
use orrery_model::{Precision, Vec3s};
use orrery_primitives::PrimitiveNumber;
use orrery_primitives::reduce::{Reduce, ReduceOperation, ReduceStrategy};
use orrery_primitives::scan::selftest::SHORT_TILES;
use orrery_primitives::scan::{Scan, ScanKind, ScanStrategy};
use orrery_primitives::sort::{Sort, SortKey, SortStrategy};

use crate::primitives::histogram::binned::{BinnedHistogram, FloatBins, MAX_BINS};
use crate::primitives::histogram::{Histogram, HistogramStrategy};
use crate::rungs::gravity::direct::course::{CourseProgram, CourseSteps};
use crate::rungs::gravity::tree::insertion::{BLOCKS_PER_SM, InsertionSteps};
use crate::rungs::gravity::{GravityRungKind, LectureStrategy, direct as direct_rungs, tree as tree_rungs};
use crate::rungs::reduce;

/// Kernels that may use local memory: spilled registers, or arrays with dynamic indices.
struct LocalMemory {
    /// Kernel file.
    file: &'static str,
    /// Kernel.
    kernel: &'static str,
    /// Definitions that the module must have, each as "NAME=VALUE".
    definitions: &'static [&'static str],
    /// Largest number of bytes per thread.
    max_bytes: u32,
    /// Reason why it is accepted.
    reason: &'static str,
}

const ALLOWED_LOCAL_MEMORY: [LocalMemory; 14] = [
    LocalMemory {
        file: "pressure.cu",
        kernel: "update_values",
        definitions: &["MAX_REGISTERS=32"],
        max_bytes: 512,
        reason: "the experiment measures what spilled registers cost",
    },
    LocalMemory {
        file: "fluid.cu",
        kernel: "take_force_step",
        definitions: &[],
        max_bytes: 32,
        reason: "numbers of a particle that are stored before the sum of forces and loaded once after it",
    },
    LocalMemory {
        file: "fluid.cu",
        kernel: "take_step",
        definitions: &[],
        max_bytes: 96,
        reason: "as in take_force_step; only the first and last step of a batch",
    },
    LocalMemory {
        file: "fluid.cu",
        kernel: "take_steps",
        definitions: &[],
        max_bytes: 32,
        reason: "numbers of a particle that are stored before the sum of forces and loaded once after it",
    },
    LocalMemory {
        file: "jerks.cu",
        kernel: "forces_and_jerks",
        definitions: &[],
        max_bytes: 8,
        reason: "one register, stored and loaded once per tile of 128 sources",
    },
    LocalMemory {
        file: "walk.cu",
        kernel: "walk",
        definitions: &["ORDER=2", "MIN_BLOCKS_PER_SM=32", "UNROLL_BODIES=16"],
        max_bytes: 16,
        reason: "four registers, with the relative acceptance; a candidate of the tuner, not a default",
    },
    LocalMemory {
        file: "walk.cu",
        kernel: "walk",
        definitions: &["PRECISION=PRECISION_SINGLE", "ORDER=2", "MIN_BLOCKS_PER_SM=32"],
        max_bytes: 8,
        reason: "two counters, stored and loaded once per group; 64 registers are fastest on an H200",
    },
    LocalMemory {
        file: "walk.cu",
        kernel: "walk",
        definitions: &["PRECISION=PRECISION_MIXED", "ORDER=2", "MIN_BLOCKS_PER_SM=32"],
        max_bytes: 16,
        reason: "as in single precision; four registers with potentials and the relative acceptance",
    },
    LocalMemory {
        file: "walk.cu",
        kernel: "walk",
        definitions: &["PRECISION=PRECISION_MIXED", "ORDER=1", "MIN_BLOCKS_PER_SM=32"],
        max_bytes: 16,
        reason: "as with quadrupoles; only with potentials and the relative acceptance",
    },
    LocalMemory {
        file: "walk.cu",
        kernel: "walk",
        definitions: &["PRECISION=PRECISION_DOUBLE", "ORDER=2", "MIN_BLOCKS_PER_SM=28", "UNROLL_BODIES=16"],
        max_bytes: 8,
        reason: "two registers, with potentials; a candidate of the tuner, not a default",
    },
    LocalMemory {
        file: "columns.cu",
        kernel: "advance_columns",
        definitions: &["REAL=double", "IS_VARIABLE=1", "DIMENSIONS=3", "UNROLLED_PLANES=10"],
        max_bytes: 80,
        reason: "a velocity per node; without spills, for uniform velocity, unrolling is 4% faster on an H200",
    },
    LocalMemory {
        file: "ring.cu",
        kernel: "advance_ring",
        definitions: &["REAL=double", "IS_VARIABLE=1"],
        max_bytes: 8,
        reason: "one register; a candidate of the tuner, not a default",
    },
    LocalMemory {
        file: "measures.cu",
        kernel: "measure_rows",
        definitions: &["REAL=double", "HAS_CAPACITY=1"],
        max_bytes: 8,
        reason: "one value; the heat content is computed once per row of conserved.csv",
    },
    LocalMemory {
        file: "wave_measures.cu",
        kernel: "measure_energy",
        definitions: &[],
        max_bytes: 16,
        reason: "up to four registers; the energy is computed once per row of conserved.csv",
    },
];

/// Number of bodies. From 512 on the tree uses mixed precision where it is requested.
const BODIES: usize = 1024;
/// Numbers of bodies in every range for which the direct sum has a default.
const DEFAULT_SIZES: [usize; 5] = [1024, 4096, 16_384, 65_536, 262_144];
/// Number of bodies for which the tuner tries every kernel.
const TUNED_SIZE: usize = 1 << 20;
/// Number of elements for primitives.
const ELEMENTS: usize = 5000;

type TestResult = Result<(), DeviceError>;

/// Checks the local memory of all kernels that were compiled, and that there are at least
/// `min_kernels` of them.
fn check_kernels(cuda: &CompileOnlyCuda, min_kernels: usize) {
    let kernels = cuda.kernels();
    let device = cuda.device.title();
    assert!(kernels.len() >= min_kernels, "{device}: expected {min_kernels} kernels, got {}", kernels.len());
    let mut failures = Vec::new();
    println!("{device}: {} kernels", kernels.len());
    for kernel in &kernels {
        let CompiledKernel { file, definitions, name, resources } = kernel;
        // Unknown in PTX.
        let Some(bytes) = resources.spill_bytes else { continue };
        let line = format!("{name} in {file} with {definitions}: {bytes} bytes");
        match find_allowed(kernel) {
            _ if bytes == 0 => {}
            Some(entry) if bytes <= entry.max_bytes => println!("{line}: {}", entry.reason),
            _ => failures.push(line),
        }
    }
    assert!(failures.is_empty(), "{device}: local memory that is not allowed:\n{}", failures.join("\n"));
}

fn find_allowed(kernel: &CompiledKernel) -> Option<&'static LocalMemory> {
    let definitions: Vec<&str> = kernel.definitions.split(' ').collect();
    ALLOWED_LOCAL_MEMORY.iter().find(|entry| {
        entry.file == kernel.file
            && entry.kernel == kernel.name
            && entry.definitions.iter().all(|definition| definitions.contains(definition))
    })
}

/// Bodies on a device. Their positions have no meaning, because no kernel runs.
struct CompiledForces {
    device: Device,
    vectors: [Buffer<f64>; 3],
    equal_masses: Buffer<f64>,
    unequal_masses: Buffer<f64>,
    potential: Buffer<f64>,
}

impl CompiledForces {
    fn new(device: &Device) -> Result<Self, DeviceError> {
        let unequal: Vec<f64> = (1..=BODIES).map(|mass| mass as f64).collect();
        Ok(Self {
            device: device.clone(),
            vectors: [device.zeros(BODIES)?, device.zeros(BODIES)?, device.zeros(BODIES)?],
            equal_masses: device.upload(&[1.0; BODIES])?,
            unequal_masses: device.upload(&unequal)?,
            potential: device.zeros(BODIES)?,
        })
    }

    fn columns(&self) -> Columns<'_> {
        let [x, y, z] = &self.vectors;
        Columns { x, y, z }
    }

    /// Returns a request with equal masses, the geometric criterion and no potentials.
    fn request(&self) -> ForceRequest<'_> {
        ForceRequest {
            position: self.columns(),
            mass: &self.equal_masses,
            g: 1.0,
            eps: 0.01,
            acceptance: Acceptance::Geometric { theta: 0.6 },
            previous: None,
            acceleration: self.columns(),
            potential: None,
        }
    }

    fn new_solver(&self, strategy: impl Into<DeviceStrategy>) -> Result<DeviceSolver, DeviceError> {
        DeviceSolver::new(&self.device, BODIES, &strategy.into())
    }

    fn run(&self, strategy: impl Into<DeviceStrategy>) -> TestResult {
        self.new_solver(strategy)?.forces(&self.request())
    }

    fn run_lecture(&self, strategy: LectureStrategy) -> TestResult {
        strategy.new_solver(&self.device, BODIES)?.queue_forces(&self.request())
    }

    /// Compiles the kernels that a run with this direct strategy uses for unequal masses, with and
    /// without potentials.
    fn run_with_unequal_masses(&self, strategy: DirectDeviceStrategy) -> TestResult {
        let mut solver = self.new_solver(strategy)?;
        let request = ForceRequest { mass: &self.unequal_masses, ..self.request() };
        solver.forces(&request)?;
        solver.forces(&ForceRequest { potential: Some(&self.potential), ..request })
    }

    /// Compiles all kernels that a run with this tree strategy may use.
    fn run_tree_variants(&self, strategy: TreeDeviceStrategy) -> TestResult {
        let mut solver = self.new_solver(strategy)?;
        let relative = Acceptance::Relative { alpha: 0.005, theta: 0.6 };
        for (acceptance, previous) in [(self.request().acceptance, None), (relative, Some(self.columns()))] {
            for potential in [None, Some(&self.potential)] {
                solver.forces(&ForceRequest { acceptance, previous, potential, ..self.request() })?;
            }
        }
        Ok(())
    }
}

/// Compiles the direct sums that runs use without tuning.
fn compile_default_direct(workload: &CompiledForces) -> TestResult {
    for precision in Precision::ALL {
        for n in DEFAULT_SIZES {
            let strategy = DirectDeviceStrategy::default_for(&workload.device, n, precision);
            workload.run(strategy)?;
            workload.run_with_unequal_masses(strategy)?;
        }
    }
    Ok(())
}

/// Compiles the trees that runs use.
fn compile_default_tree(workload: &CompiledForces) -> TestResult {
    for precision in Precision::ALL {
        workload.run_tree_variants(TreeDeviceStrategy::default_for(&workload.device, precision))?;
    }
    Ok(())
}

/// Compiles the kernels that move and bin bodies, and those of the Hermite integrator.
fn compile_bodies(device: &Device) -> Result<(), BodiesError> {
    let settings = GravitySettings {
        g: 1.0,
        eps: 0.1,
        solver: SolverChoice::Direct,
        acceptance: Acceptance::default(),
        precision: Precision::Double,
    };
    let particles = Plummer { n: BODIES, ..Plummer::default() }.generate(1.0).expect("a valid model");
    let setup = DeviceSetup::new(device, BODIES, &settings);
    let mut bodies = Bodies::new(particles, &settings, Some(&setup))?;
    for integrator in [IntegratorChoice::Leapfrog, IntegratorChoice::Hermite4] {
        integrator.step(&mut bodies, 0.01)?;
    }
    bodies.motion()?;
    bodies.potential_energy()?;
    bodies.largest_acceleration2()?;
    bodies.shortest_pair_time2()?;
    let shown = Arc::new(BinnedBodies::new(&[1.0; BODIES], |_| Some(0)));
    let (right, up) = ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]);
    let projection = Projection { centre: [0.0; 3], right, up, pixel_size: 0.1, width: 40, height: 30 };
    bodies.bins_on_device(&shown, 1, &projection)?;
    bodies.check_finite()
}

fn compile_reductions<T: PrimitiveNumber>(device: &Device) -> TestResult {
    let numbers = device.zeros::<T>(ELEMENTS)?;
    for operation in [ReduceOperation::Sum, ReduceOperation::Min, ReduceOperation::Max] {
        Reduce::<T>::new(device, operation)?.reduce(device.queue(), &numbers)?;
    }
    Ok(())
}

fn compile_scan<T: PrimitiveNumber>(device: &Device, strategy: ScanStrategy) -> TestResult {
    let numbers = device.zeros::<T>(ELEMENTS)?;
    Scan::<T>::with_strategy(device, ScanKind::Inclusive, strategy)?.launch(
        device.queue(),
        &numbers,
        &numbers,
    )
}

fn compile_sort<K: SortKey>(device: &Device, strategy: SortStrategy) -> TestResult {
    let (keys, values) = (device.zeros::<K>(ELEMENTS)?, device.zeros::<u32>(ELEMENTS)?);
    Sort::<K>::with_strategy(device, ELEMENTS, strategy)?.launch(device.queue(), &keys, &values)
}

fn compile_histograms(device: &Device) -> TestResult {
    Histogram::new(device)?.count(device.queue(), &device.zeros(ELEMENTS)?)?;
    for count in [1, 100, MAX_BINS] {
        let bins = FloatBins::new(0.0, 1.0, count).expect("valid bins");
        BinnedHistogram::new(device, bins)?.count(device.queue(), &device.zeros(ELEMENTS)?)?;
    }
    Ok(())
}

/// Compiles the default strategies of the primitives for numbers of 32 and of 64 bits.
fn compile_default_primitives(device: &Device) -> TestResult {
    compile_reductions::<f32>(device)?;
    compile_reductions::<f64>(device)?;
    compile_scan::<f32>(device, ScanStrategy::default())?;
    compile_scan::<f64>(device, ScanStrategy::default())?;
    for strategy in [SortStrategy::SMALL, SortStrategy::LARGE] {
        compile_sort::<u32>(device, strategy)?;
        compile_sort::<u64>(device, strategy)?;
    }
    transpose::compile_defaults(device)?;
    label::compile_defaults(device)?;
    compile_histograms(device)
}

fn compile_scans(device: &Device, strategy: ScanStrategy) -> TestResult {
    compile_scan::<f32>(device, strategy)?;
    compile_scan::<f64>(device, strategy)?;
    compile_scan::<u32>(device, strategy)?;
    compile_scan::<u64>(device, strategy)?;
    compile_scan::<i32>(device, strategy)
}

fn compile_defaults(device: &Device) {
    fields::compile_defaults(device).unwrap();
    let workload = CompiledForces::new(device).expect("host memory");
    compile_default_direct(&workload).unwrap();
    compile_default_tree(&workload).unwrap();
    compile_bodies(device).unwrap();
    compile_default_primitives(device).unwrap();
}

#[test]
fn default_strategies_compile_for_turing() {
    let Some(cuda) = compile_only_cuda((7, 5)) else { return };
    compile_defaults(&cuda.device);
    check_kernels(&cuda, 100);
}

/// The same for 9.0, and forces on several ranks. The fields of 9.0 have a test of their own.
#[test]
fn default_strategies_compile_for_hopper() {
    let Some(cuda) = compile_only_cuda((9, 0)) else { return };
    let workload = CompiledForces::new(&cuda.device).expect("host memory");
    compile_default_direct(&workload).unwrap();
    compile_default_tree(&workload).unwrap();
    compile_bodies(&cuda.device).unwrap();
    team::compile_shared_bodies(&cuda.device).unwrap();
    compile_default_primitives(&cuda.device).unwrap();
    check_kernels(&cuda, 80);
}

/// Only primitives: scans copy asynchronously from 8.0 on. Other default kernels have the same code
/// and the same constants as for 7.5 or 9.0.
#[test]
fn default_primitives_compile_for_ampere() {
    let Some(cuda) = ptx_only_cuda((8, 0)) else { return };
    compile_default_primitives(&cuda.device).unwrap();
    check_kernels(&cuda, 20);
}

/// Strategies of runs and of the ladder, and those candidates of the tuner that need the most
/// registers. The other candidates have the same code with other constants.
#[test]
fn direct_strategies_compile_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    let device = &cuda.device;
    let workload = CompiledForces::new(device).expect("host memory");
    for rung in direct_rungs::rungs(Some(device)) {
        match rung.kind {
            GravityRungKind::Device(strategy) => workload.run(strategy).unwrap(),
            GravityRungKind::Lecture(strategy) => workload.run_lecture(strategy).unwrap(),
            _ => {}
        }
    }
    for program in [CourseProgram::Arguments, CourseProgram::ConstantMemory, CourseProgram::Final] {
        let position = Vec3s { x: vec![0.0; 2], y: vec![0.0; 2], z: vec![0.0; 2] };
        let steps = CourseSteps::new(device, program, &position, &[1.0; 2], 0.1, 0.1).unwrap();
        steps.queue_step().unwrap();
    }
    for precision in Precision::ALL {
        let candidates = DirectDeviceStrategy::candidates(device, TUNED_SIZE, precision);
        for strategy in &candidates {
            let is_larger = |other: &&DirectDeviceStrategy| {
                other.kernel == strategy.kernel
                    && (other.targets, other.unroll) > (strategy.targets, strategy.unroll)
            };
            if !candidates.iter().any(|other| is_larger(&other)) {
                workload.run(*strategy).unwrap();
            }
        }
    }
    check_kernels(&cuda, 150);
}

/// Takes a minute.
#[test]
#[ignore = "most candidates of the tuner differ only in constants"]
fn all_candidates_of_the_tuner_compile_for_hopper() {
    let Some(cuda) = compile_only_cuda((9, 0)) else { return };
    let workload = CompiledForces::new(&cuda.device).expect("host memory");
    for precision in Precision::ALL {
        for strategy in DirectDeviceStrategy::candidates(&cuda.device, TUNED_SIZE, precision) {
            workload.run(strategy).unwrap();
        }
        for strategy in TreeDeviceStrategy::candidates(&cuda.device, precision) {
            workload.run(strategy).unwrap();
        }
    }
    check_kernels(&cuda, 300);
}

#[test]
fn all_trees_compile_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    let device = &cuda.device;
    let workload = CompiledForces::new(device).expect("host memory");
    for precision in Precision::ALL {
        for order in Order::ALL {
            let default = TreeDeviceStrategy::default_for(device, precision);
            workload.run_tree_variants(TreeDeviceStrategy { order, ..default }).unwrap();
        }
        // The last one has the fewest registers and unrolls most.
        let candidates = TreeDeviceStrategy::candidates(device, precision);
        workload.run_tree_variants(*candidates.last().expect("at least the default")).unwrap();
    }
    let position = Vec3s::zeros(2);
    for rung in tree_rungs::rungs(Some(device)) {
        if let GravityRungKind::Lecture(strategy) = rung.kind {
            workload.run_lecture(strategy).unwrap();
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
    check_kernels(&cuda, 100);
}

#[test]
fn all_primitives_compile_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    let device = &cuda.device;
    compile_reductions::<u32>(device).unwrap();
    compile_reductions::<u64>(device).unwrap();
    compile_reductions::<i32>(device).unwrap();
    compile_scans(device, ScanStrategy::default()).unwrap();
    compile_scans(device, SHORT_TILES).unwrap();
    for strategy in ScanStrategy::CANDIDATES {
        compile_scan::<f32>(device, strategy).unwrap();
        compile_scan::<u64>(device, strategy).unwrap();
    }
    for strategy in SortStrategy::CANDIDATES {
        compile_sort::<u32>(device, strategy).unwrap();
        compile_sort::<u64>(device, strategy).unwrap();
    }
    for strategy in ReduceStrategy::CANDIDATES {
        Reduce::<f32>::with_strategy(device, ReduceOperation::Sum, strategy).unwrap();
    }
    for strategy in HistogramStrategy::CANDIDATES {
        Histogram::with_strategy(device, strategy).unwrap();
    }
    for strategy in [SortStrategy::SMALL, SortStrategy::LARGE] {
        let wide = SortStrategy { has_wide_offsets: true, ..strategy };
        compile_sort::<u32>(device, wide).unwrap();
        compile_sort::<u64>(device, wide).unwrap();
    }
    compile_primitive_rungs(device).unwrap();
    transpose::compile_candidates_and_rungs(device).unwrap();
    label::compile_candidates_and_rungs(device).unwrap();
    ceiling::measure(device).unwrap();
    ceiling::measure_caches(device).unwrap();
    let summary = selftest::run_checks(&selftest::simulator_checks(), device, "device: ", &mut |_| ());
    for (name, message) in &summary.failures {
        assert!(!message.contains("compile"), "{name}: {message}");
    }
    check_kernels(&cuda, 80);
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
