//! Measurement of the gravity ladders: force evaluations of a Plummer sphere by the direct sum or
//! the tree, on the CPU and on a device, with the errors of the accelerations.

use std::collections::HashMap;

use orrery_device::{Device, DeviceError, Kernel};
use orrery_model::{Precision, Vec3s};
use orrery_particles::solver::device::{DeviceSolver, DeviceStrategy};
use orrery_particles::solver::direct::device::{CourseProgram, CourseSteps};
use orrery_particles::solver::rungs::{Rung, RungKind, Threads};
use orrery_particles::solver::tree::device::{BLOCKS_PER_SM, InsertionSteps};
use orrery_particles::solver::tree::rungs::THETA;
use orrery_particles::solver::{CpuStrategy, Problem, direct, tree};

use super::repeats::{repeat_count, time_rung_on_device};
use super::{Ladder, LadderRequest, Roofs, RungResult, TimedRuns, Work};
use crate::LabError;
use crate::sample::ReferenceForces;
use crate::timing::{self, largest_affordable_size};
use crate::tuning::Tuning;
use crate::workload::{DeviceWorkload, Workload};

/// Host memory per body. A run needs at most as much.
pub const BYTES_PER_BODY: u64 = 450;
/// Remark on the column of errors.
pub const ERROR_REMARK: &str = "error: median relative error of the accelerations";
/// Longest time of a single evaluation. Slower rungs are measured with fewer bodies.
const MAX_RUN_SECONDS: f64 = 0.5;
/// Step so short that bodies at rest do not move noticeably during a measurement.
pub const STEP_DT: f64 = 1e-9;

/// Differences between the ladders of the direct sum and of the tree.
pub struct GravityLadder {
    /// Returns the rungs for the CPU and for a device.
    pub rungs: fn(Option<&Device>) -> Vec<Rung>,
    /// Creates the given number of bodies.
    pub new_workload: fn(usize) -> Workload,
    /// Returns the strategy that a run with the given number of bodies uses.
    pub default_strategy: fn(&Device, usize, Precision, Option<&Tuning>) -> DeviceStrategy,
    /// Returns the items counted in one evaluation and the work per item.
    pub count_work: fn(&Evaluation) -> (f64, Work),
}

/// Strategy and size of a force evaluation, and the terms that it summed.
pub struct Evaluation {
    pub n: usize,
    pub strategy: EvaluatedStrategy,
    pub body_terms: u64,
    pub cell_terms: u64,
}

/// Strategy of a force evaluation.
pub enum EvaluatedStrategy {
    Cpu(CpuStrategy),
    PlainCpu,
    Device(DeviceStrategy),
    CourseStep,
    InsertionStep,
}

impl GravityLadder {
    /// Measures all rungs and adds them to `ladder`.
    pub fn measure(&self, request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), LabError> {
        let (device, n) = (request.device, request.n);
        let host_roofs = ladder.host_roofs;
        ladder.roofs = device.map_or(Ok(host_roofs), Roofs::of_device)?;
        ladder.roof = ladder.roofs.peak_roof();
        let mut references = HashMap::new();
        for rung in (self.rungs)(device) {
            (request.progress)(rung.name);
            let (measured, note) = match (rung.kind, device) {
                (RungKind::Cpu(strategy, threads), _) => {
                    (self.measure_on_cpu(&strategy, threads, n)?, rung.note.to_owned())
                }
                (RungKind::PlainCpu, _) => (self.measure_plain(n)?, rung.note.to_owned()),
                (RungKind::Device(strategy), Some(device)) => {
                    (self.measure_on_device(device, &strategy, n)?, rung.note.to_owned())
                }
                (RungKind::CourseStep, Some(device)) => {
                    let measured = self.measure_steps(device, n, EvaluatedStrategy::CourseStep, |problem| {
                        let Problem { position, mass, eps, .. } = *problem;
                        CourseSteps::new(device, CourseProgram::Final, position, mass, eps, STEP_DT)
                    });
                    (measured?, rung.note.to_owned())
                }
                (RungKind::InsertionStep(options), Some(device)) => {
                    let measured =
                        self.measure_steps(device, n, EvaluatedStrategy::InsertionStep, |problem| {
                            InsertionSteps::new(device, options, BLOCKS_PER_SM, problem, THETA, STEP_DT)
                        });
                    (measured?, rung.note.to_owned())
                }
                (RungKind::Default, Some(device)) => {
                    let strategy = (self.default_strategy)(device, n, rung.precision, request.tuning);
                    (self.measure_on_device(device, &strategy, n)?, strategy.describe())
                }
                (
                    RungKind::Device(_)
                    | RungKind::CourseStep
                    | RungKind::InsertionStep(_)
                    | RungKind::Default,
                    None,
                ) => continue,
            };
            let is_cpu = matches!(rung.kind, RungKind::Cpu(..) | RungKind::PlainCpu);
            let roofs = if is_cpu { &host_roofs } else { &ladder.roofs };
            let error = self.median_error(&mut references, &measured);
            let peak = roofs.peak_flops(rung.precision);
            let flops = measured.result.work.flops;
            ladder.add_rung(RungResult {
                name: rung.name.to_owned(),
                note,
                roof: peak.zip(flops).map(|(peak, flops)| peak / flops),
                error,
                reference: rung.course.to_vec(),
                ..measured.result
            });
        }
        Ok(())
    }

    fn measure_on_cpu(
        &self,
        strategy: &CpuStrategy,
        threads: Threads,
        n: usize,
    ) -> Result<MeasuredForces, LabError> {
        let evaluated = EvaluatedStrategy::Cpu(*strategy);
        self.measure_on_host(evaluated, threads, n, |problem| forces_on_cpu(problem, strategy))
    }

    fn measure_plain(&self, n: usize) -> Result<MeasuredForces, LabError> {
        self.measure_on_host(EvaluatedStrategy::PlainCpu, Threads::One, n, |problem| {
            (direct::plain::accelerations(problem), all_pairs(problem.mass.len()))
        })
    }

    /// Measures `compute`, which returns the accelerations and the numbers of body-body and
    /// cell-body terms.
    fn measure_on_host(
        &self,
        strategy: EvaluatedStrategy,
        threads: Threads,
        n: usize,
        compute: impl Fn(&Problem) -> (Vec3s, [u64; 2]) + Sync,
    ) -> Result<MeasuredForces, LabError> {
        let pool = build_thread_pool(threads)?;
        let time_size = |n: usize| {
            let workload = (self.new_workload)(n);
            let run = || drop(compute(&workload.problem()));
            Ok::<_, LabError>(pool.install(|| timing::time_on_host(1, run)).median())
        };
        let (n, run_seconds) = largest_affordable_size(n, MAX_RUN_SECONDS, time_size)?;
        let workload = (self.new_workload)(n);
        let mut last = None;
        let times = pool.install(|| {
            timing::time_on_host(repeat_count(run_seconds), || {
                last = Some(compute(&workload.problem()));
            })
        });
        let (accelerations, [body_terms, cell_terms]) = last.expect("the solver has run");
        let (items, work) = (self.count_work)(&Evaluation { n, strategy, body_terms, cell_terms });
        let result = RungResult { work, ..RungResult::new("", &TimedRuns { n, items, times }) };
        Ok(MeasuredForces { result, accelerations })
    }

    fn measure_on_device(
        &self,
        device: &Device,
        strategy: &DeviceStrategy,
        n: usize,
    ) -> Result<MeasuredForces, LabError> {
        let time_size = |n: usize| {
            let workload = DeviceWorkload::upload(device, (self.new_workload)(n))?;
            Ok::<_, LabError>(workload.time_once(&mut workload.new_solver(*strategy)?)?)
        };
        let (n, run_seconds) = largest_affordable_size(n, MAX_RUN_SECONDS, time_size)?;
        let workload = DeviceWorkload::upload(device, (self.new_workload)(n))?;
        let mut solver = workload.new_solver(*strategy)?;
        workload.time_once(&mut solver)?;
        let times = workload.time_repeats(&mut solver, repeat_count(run_seconds), run_seconds)?;
        let [body_terms, cell_terms] = match &solver {
            DeviceSolver::Direct(_) => all_pairs(n),
            DeviceSolver::Tree(tree) => {
                let report = tree.report()?;
                [report.body_terms, report.cell_terms]
            }
        };
        let strategy = EvaluatedStrategy::Device(*strategy);
        let (items, work) = (self.count_work)(&Evaluation { n, strategy, body_terms, cell_terms });
        let result = RungResult { work, ..RungResult::new("", &TimedRuns { n, items, times }) };
        let result = match solver.main_kernel() {
            Some((kernel, block_size)) => with_resources(result, kernel, block_size),
            None => result,
        };
        Ok(MeasuredForces { result, accelerations: workload.accelerations()? })
    }

    /// Measures steps, which move the bodies after each force evaluation.
    fn measure_steps<S: TimedSteps>(
        &self,
        device: &Device,
        n: usize,
        strategy: EvaluatedStrategy,
        new_steps: impl Fn(&Problem) -> Result<S, DeviceError>,
    ) -> Result<MeasuredForces, LabError> {
        let time_size = |n: usize| {
            let mut steps = new_steps(&(self.new_workload)(n).problem())?;
            Ok::<_, LabError>(timing::time_once(device, || steps.queue_step())?)
        };
        let (n, _) = largest_affordable_size(n, MAX_RUN_SECONDS, time_size)?;
        let mut steps = new_steps(&(self.new_workload)(n).problem())?;
        let times = time_rung_on_device(device, || steps.queue_step())?;
        let [body_terms, cell_terms] = steps.count_terms(n)?;
        let (items, work) = (self.count_work)(&Evaluation { n, strategy, body_terms, cell_terms });
        let result = RungResult { work, ..RungResult::new("", &TimedRuns { n, items, times }) };
        let (kernel, block_size) = steps.main_kernel();
        let result = with_resources(result, kernel, block_size);
        Ok(MeasuredForces { result, accelerations: steps.accelerations()? })
    }

    /// Returns the median relative error of the accelerations, or `None` for a single body.
    fn median_error(
        &self,
        references: &mut HashMap<usize, ReferenceForces>,
        measured: &MeasuredForces,
    ) -> Option<f64> {
        let n = measured.result.n;
        let reference = references
            .entry(n)
            .or_insert_with(|| ReferenceForces::compute(&(self.new_workload)(n).problem()));
        (n > 1).then(|| reference.errors(&measured.accelerations).median)
    }
}

/// Times and accelerations of a rung.
struct MeasuredForces {
    result: RungResult,
    accelerations: Vec3s,
}

/// Program whose steps are timed.
trait TimedSteps {
    /// Queues one step.
    fn queue_step(&mut self) -> Result<(), DeviceError>;
    /// Returns the numbers of body-body and cell-body terms of the last step of `n` bodies.
    fn count_terms(&self, n: usize) -> Result<[u64; 2], DeviceError>;
    /// Returns the accelerations of the last step.
    fn accelerations(&self) -> Result<Vec3s, DeviceError>;
    /// Returns the kernel that takes most of the time and its block size.
    fn main_kernel(&self) -> (&Kernel, u32);
}

impl TimedSteps for CourseSteps {
    fn queue_step(&mut self) -> Result<(), DeviceError> {
        Self::queue_step(self)
    }

    fn count_terms(&self, n: usize) -> Result<[u64; 2], DeviceError> {
        Ok(all_pairs(n))
    }

    fn accelerations(&self) -> Result<Vec3s, DeviceError> {
        Self::accelerations(self)
    }

    fn main_kernel(&self) -> (&Kernel, u32) {
        Self::main_kernel(self)
    }
}

impl TimedSteps for InsertionSteps {
    fn queue_step(&mut self) -> Result<(), DeviceError> {
        Self::queue_step(self)
    }

    fn count_terms(&self, _n: usize) -> Result<[u64; 2], DeviceError> {
        let report = self.report()?;
        Ok([report.body_terms, report.cell_terms])
    }

    fn accelerations(&self) -> Result<Vec3s, DeviceError> {
        Self::accelerations(self)
    }

    fn main_kernel(&self) -> (&Kernel, u32) {
        Self::main_kernel(self)
    }
}

/// Adds the resources of the kernel that takes most of the time.
fn with_resources(result: RungResult, kernel: &Kernel, block_size: u32) -> RungResult {
    let resources = kernel.resources();
    RungResult {
        registers: resources.registers,
        shared_bytes: Some(resources.shared_bytes),
        occupancy: kernel.occupancy(block_size),
        ..result
    }
}

/// Returns the accelerations, and the numbers of body-body and cell-body terms.
fn forces_on_cpu(problem: &Problem, strategy: &CpuStrategy) -> (Vec3s, [u64; 2]) {
    match strategy {
        CpuStrategy::Direct(strategy) => {
            (direct::forces(problem, strategy).acceleration, all_pairs(problem.mass.len()))
        }
        CpuStrategy::Tree(strategy) => {
            let (forces, report) = tree::forces(problem, strategy, None);
            (forces.acceleration, [report.body_terms, report.cell_terms])
        }
    }
}

/// Returns the numbers of body-body and cell-body terms of a direct sum.
fn all_pairs(n: usize) -> [u64; 2] {
    [(n as u64).pow(2), 0]
}

/// Builds a pool of one thread or of as many threads as the current pool has.
pub fn build_thread_pool(threads: Threads) -> Result<rayon::ThreadPool, LabError> {
    let threads = match threads {
        Threads::One => 1,
        Threads::All => rayon::current_num_threads(),
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|e| LabError::Threads { threads, cause: e.to_string() })
}
