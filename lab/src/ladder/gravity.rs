//! Measurement of the gravity ladders: force evaluations of a Plummer sphere by the direct sum or
//! the tree, on the CPU and on a device, with the errors of the accelerations.

use std::collections::HashMap;

use orrery_device::{Device, DeviceError, Kernel};
use orrery_gravity::solver::device::{DeviceSolver, DeviceStrategy};
use orrery_gravity::solver::{ForceProblem, GravityCpuStrategy, direct, tree};
use orrery_measure::MeasureError;
use orrery_measure::sample::ReferenceForces;
use orrery_measure::timing::{self, largest_affordable_size};
use orrery_measure::tuning::Tuning;
use orrery_measure::workload::{DeviceWorkload, Workload};
use orrery_measure::workload::{TimedSolver, all_pairs};
use orrery_model::{Precision, Vec3s};

use super::repeats::{repeat_count, time_rung_on_device};
use super::{Ladder, LadderRequest, Roofs, RungResult, TimedRuns, Work};
use crate::rungs::gravity::direct::course::{CourseProgram, CourseSteps};
use crate::rungs::gravity::direct::plain;
use crate::rungs::gravity::tree::THETA;
use crate::rungs::gravity::tree::insertion::{BLOCKS_PER_SM, InsertionOptions, InsertionSteps};
use crate::rungs::gravity::{GravityRung, GravityRungKind, LectureStrategy, Threads};

/// Host memory per body. A run needs at most as much.
pub const BYTES_PER_BODY: u64 = 450;
/// Remark on the column of errors.
pub const ERROR_REMARK: &str = "error: median relative error of the accelerations";
/// Step so short that bodies at rest do not move noticeably during a measurement.
pub const STEP_DT: f64 = 1e-9;

/// Longest time of a single evaluation on the CPU if all rungs have the same number of bodies: a
/// device with millions of bodies is compared with one thread.
const MAX_CPU_SECONDS: f64 = 8.0;

/// Numbers of bodies of the rungs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RungSizes {
    /// As many as a rung computes in time, so that slow rungs have fewer bodies. For rates that
    /// hardly depend on the number, such as pairs per second.
    PerRung,
    /// The same for all rungs: as many as the slowest one computes in time.
    Common,
}

/// Differences between the ladders of the direct sum and of the tree.
pub struct GravityLadder {
    /// Returns the rungs for the CPU and for a device.
    pub rungs: fn(Option<&Device>) -> Vec<GravityRung>,
    /// Creates the given number of bodies.
    pub new_workload: fn(usize) -> Workload,
    /// Returns the strategy that a run with the given number of bodies uses.
    pub default_strategy: fn(&Device, usize, Precision, Option<&Tuning>) -> DeviceStrategy,
    /// Returns the items counted in one evaluation and the work per item.
    pub count_work: fn(&RungEvaluation) -> (f64, Work),
    /// Numbers of bodies of the rungs.
    pub sizes: RungSizes,
    /// Longest time of a single evaluation, usually [`super::repeats::max_run_seconds`].
    pub max_run_seconds: f64,
}

/// Strategy and size of a force evaluation, and the terms that it summed.
pub struct RungEvaluation {
    pub n: usize,
    pub strategy: EvaluatedStrategy,
    pub body_terms: u64,
    pub cell_terms: u64,
}

/// Strategy of a force evaluation.
#[derive(Clone, Copy)]
pub enum EvaluatedStrategy {
    Cpu(GravityCpuStrategy),
    PlainCpu,
    Device(DeviceStrategy),
    Lecture(LectureStrategy),
    CourseStep,
    InsertionStep(InsertionOptions),
}

/// A rung that can be measured: what is evaluated, and where.
struct Runnable<'a> {
    rung: GravityRung,
    strategy: EvaluatedStrategy,
    processor: Processor<'a>,
}

enum Processor<'a> {
    Host(rayon::ThreadPool),
    Device(&'a Device),
}

impl GravityLadder {
    /// Measures all rungs and adds them to `ladder`.
    pub fn measure(&self, request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
        let host_roofs = ladder.host_roofs;
        ladder.roofs = request.device.map_or(Ok(host_roofs), Roofs::of_device)?;
        ladder.roof = ladder.roofs.peak_roof();
        let mut tried = match self.sizes {
            RungSizes::PerRung => Vec::new(),
            RungSizes::Common => self.try_sizes(request)?,
        };
        if let Some(n) = tried.iter().map(|(n, _)| *n).min() {
            (ladder.n, request.n) = (n, n);
        }
        tried.reverse();
        let mut references = HashMap::new();
        for run in self.runnable_rungs(request)? {
            let rung = &run.rung;
            (request.progress)(rung.name);
            let (n, run_seconds) = match tried.pop() {
                None => self.affordable_size(&run, request.n)?,
                Some((n, seconds)) if n == request.n => (n, seconds),
                Some(_) => (request.n, self.time_run(&run, request.n)?),
            };
            let measured = self.measure_rung(&run, n, run_seconds)?;
            let note = match (rung.kind, &run.strategy) {
                (GravityRungKind::Default, EvaluatedStrategy::Device(strategy)) => strategy.describe(),
                _ => rung.note.to_owned(),
            };
            let roofs = if matches!(run.processor, Processor::Host(_)) { &host_roofs } else { &ladder.roofs };
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

    /// Returns the rungs that can be measured here.
    fn runnable_rungs<'a>(&self, request: &LadderRequest<'a>) -> Result<Vec<Runnable<'a>>, MeasureError> {
        let mut runnable = Vec::new();
        for rung in (self.rungs)(request.device) {
            let (strategy, threads) = match rung.kind {
                GravityRungKind::Cpu(strategy, threads) => (EvaluatedStrategy::Cpu(strategy), Some(threads)),
                GravityRungKind::PlainCpu => (EvaluatedStrategy::PlainCpu, Some(Threads::One)),
                GravityRungKind::Device(strategy) => (EvaluatedStrategy::Device(strategy), None),
                GravityRungKind::Lecture(strategy) => (EvaluatedStrategy::Lecture(strategy), None),
                GravityRungKind::CourseStep => (EvaluatedStrategy::CourseStep, None),
                GravityRungKind::InsertionStep(options) => (EvaluatedStrategy::InsertionStep(options), None),
                GravityRungKind::Default => {
                    let Some(device) = request.device else { continue };
                    let strategy = (self.default_strategy)(device, request.n, rung.precision, request.tuning);
                    (EvaluatedStrategy::Device(strategy), None)
                }
            };
            let processor = match (threads, request.device) {
                (Some(threads), _) => Processor::Host(build_thread_pool(threads)?),
                (None, Some(device)) => Processor::Device(device),
                (None, None) => continue,
            };
            runnable.push(Runnable { rung, strategy, processor });
        }
        Ok(runnable)
    }

    /// Returns the affordable number of bodies and its time for each rung. No rung is tried with
    /// more bodies than the one before.
    fn try_sizes(&self, request: &mut LadderRequest) -> Result<Vec<(usize, f64)>, MeasureError> {
        let mut tried: Vec<(usize, f64)> = Vec::new();
        for run in self.runnable_rungs(request)? {
            (request.progress)(run.rung.name);
            let most = tried.last().map_or(request.n, |(n, _)| *n);
            tried.push(self.affordable_size(&run, most)?);
        }
        Ok(tried)
    }

    /// Returns the largest number of bodies, at most `n`, for which one evaluation takes at most
    /// the longest time, and its time.
    fn affordable_size(&self, run: &Runnable, n: usize) -> Result<(usize, f64), MeasureError> {
        let limit = match (&run.processor, self.sizes) {
            (Processor::Host(_), RungSizes::Common) => MAX_CPU_SECONDS,
            _ => self.max_run_seconds,
        };
        largest_affordable_size(n, limit, |n| self.time_run(run, n))
    }

    /// Times one evaluation.
    fn time_run(&self, run: &Runnable, n: usize) -> Result<f64, MeasureError> {
        let workload = (self.new_workload)(n);
        match (&run.processor, run.strategy) {
            (Processor::Host(pool), strategy) => {
                let evaluate = || drop(forces_on_host(&workload.problem(), &strategy));
                Ok(pool.install(|| timing::time_on_host(1, evaluate)).median())
            }
            (Processor::Device(device), strategy) => match DeviceProgram::new(device, &strategy, workload)? {
                DeviceProgram::Forces(workload, mut solver) => Ok(workload.time_once(&mut *solver)?),
                DeviceProgram::Steps(mut steps) => Ok(timing::time_once(device, || steps.queue_step())?),
            },
        }
    }

    /// Measures a rung with `n` bodies, of which one evaluation takes about `run_seconds`.
    fn measure_rung(
        &self,
        run: &Runnable,
        n: usize,
        run_seconds: f64,
    ) -> Result<MeasuredForces, MeasureError> {
        match (&run.processor, run.strategy) {
            (Processor::Host(pool), strategy) => self.measure_on_host(pool, strategy, n, run_seconds),
            (Processor::Device(device), strategy) => {
                match DeviceProgram::new(device, &strategy, (self.new_workload)(n))? {
                    DeviceProgram::Forces(workload, solver) => {
                        self.measure_forces(&workload, solver, strategy, run_seconds)
                    }
                    DeviceProgram::Steps(steps) => self.measure_steps(device, steps, strategy, n),
                }
            }
        }
    }

    fn measure_on_host(
        &self,
        pool: &rayon::ThreadPool,
        strategy: EvaluatedStrategy,
        n: usize,
        run_seconds: f64,
    ) -> Result<MeasuredForces, MeasureError> {
        let workload = (self.new_workload)(n);
        let mut last = None;
        let times = pool.install(|| {
            timing::time_on_host(repeat_count(run_seconds), || {
                last = Some(forces_on_host(&workload.problem(), &strategy));
            })
        });
        let (accelerations, [body_terms, cell_terms]) = last.expect("the solver has run");
        let (items, work) = (self.count_work)(&RungEvaluation { n, strategy, body_terms, cell_terms });
        let result = RungResult { work, ..RungResult::new("", &TimedRuns { n, items, times }) };
        Ok(MeasuredForces { result, accelerations })
    }

    /// Measures force evaluations on a device.
    fn measure_forces(
        &self,
        workload: &DeviceWorkload,
        mut solver: Box<dyn TimedSolver>,
        strategy: EvaluatedStrategy,
        run_seconds: f64,
    ) -> Result<MeasuredForces, MeasureError> {
        let n = workload.body_count();
        workload.time_once(&mut *solver)?;
        let times = workload.time_repeats(&mut *solver, repeat_count(run_seconds), run_seconds)?;
        let [body_terms, cell_terms] = solver.count_terms(n)?;
        let (items, work) = (self.count_work)(&RungEvaluation { n, strategy, body_terms, cell_terms });
        let result = RungResult { work, ..RungResult::new("", &TimedRuns { n, items, times }) };
        let result = with_resources(result, solver.main_kernel());
        Ok(MeasuredForces { result, accelerations: workload.accelerations()? })
    }

    /// Measures steps, which move the bodies after each force evaluation.
    fn measure_steps(
        &self,
        device: &Device,
        mut steps: Box<dyn TimedSteps>,
        strategy: EvaluatedStrategy,
        n: usize,
    ) -> Result<MeasuredForces, MeasureError> {
        let times = time_rung_on_device(device, || steps.queue_step())?;
        let [body_terms, cell_terms] = steps.count_terms(n)?;
        let (items, work) = (self.count_work)(&RungEvaluation { n, strategy, body_terms, cell_terms });
        let result = RungResult { work, ..RungResult::new("", &TimedRuns { n, items, times }) };
        let result = with_resources(result, steps.main_kernel());
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
    /// Returns the kernel that takes most of the time and its block size, once it is built.
    fn main_kernel(&self) -> Option<(&Kernel, u32)>;
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

    fn main_kernel(&self) -> Option<(&Kernel, u32)> {
        Some(Self::main_kernel(self))
    }
}

impl TimedSteps for InsertionSteps {
    fn queue_step(&mut self) -> Result<(), DeviceError> {
        Self::queue_step(self)
    }

    fn count_terms(&self, n: usize) -> Result<[u64; 2], DeviceError> {
        self.tree().count_terms(n)
    }

    fn accelerations(&self) -> Result<Vec3s, DeviceError> {
        Self::accelerations(self)
    }

    fn main_kernel(&self) -> Option<(&Kernel, u32)> {
        self.tree().main_kernel()
    }
}

/// Adds the resources of the kernel that takes most of the time.
fn with_resources(result: RungResult, main_kernel: Option<(&Kernel, u32)>) -> RungResult {
    let Some((kernel, block_size)) = main_kernel else { return result };
    let resources = kernel.resources();
    RungResult {
        registers: resources.registers,
        shared_bytes: Some(resources.shared_bytes),
        occupancy: kernel.occupancy(block_size),
        ..result
    }
}

/// Program of a rung on a device.
enum DeviceProgram {
    /// Force evaluations of bodies that do not move.
    Forces(Box<DeviceWorkload>, Box<dyn TimedSolver>),
    /// Steps, which move the bodies after each force evaluation.
    Steps(Box<dyn TimedSteps>),
}

impl DeviceProgram {
    /// Uploads the bodies of `workload` and builds the kernels. `strategy` is one of a device.
    fn new(device: &Device, strategy: &EvaluatedStrategy, workload: Workload) -> Result<Self, DeviceError> {
        let ForceProblem { position, mass, eps, .. } = workload.problem();
        let solver: Box<dyn TimedSolver> = match strategy {
            EvaluatedStrategy::InsertionStep(options) => {
                let problem = &workload.problem();
                let steps = InsertionSteps::new(device, *options, BLOCKS_PER_SM, problem, THETA, STEP_DT)?;
                return Ok(Self::Steps(Box::new(steps)));
            }
            EvaluatedStrategy::CourseStep => {
                let steps = CourseSteps::new(device, CourseProgram::Final, position, mass, eps, STEP_DT)?;
                return Ok(Self::Steps(Box::new(steps)));
            }
            EvaluatedStrategy::Device(strategy) => Box::new(DeviceSolver::new(device, mass.len(), strategy)?),
            EvaluatedStrategy::Lecture(strategy) => strategy.new_solver(device, mass.len())?,
            EvaluatedStrategy::Cpu(_) | EvaluatedStrategy::PlainCpu => {
                unreachable!("the rung runs on a device")
            }
        };
        Ok(Self::Forces(Box::new(DeviceWorkload::upload(device, workload)?), solver))
    }
}

/// Returns the accelerations, and the numbers of body-body and cell-body terms.
fn forces_on_host(problem: &ForceProblem, strategy: &EvaluatedStrategy) -> (Vec3s, [u64; 2]) {
    match strategy {
        EvaluatedStrategy::Cpu(GravityCpuStrategy::Direct(strategy)) => {
            (direct::forces(problem, strategy).acceleration, all_pairs(problem.mass.len()))
        }
        EvaluatedStrategy::Cpu(GravityCpuStrategy::Tree(strategy)) => {
            let (forces, report) = tree::forces(problem, strategy, None);
            (forces.acceleration, [report.body_terms, report.cell_terms])
        }
        _ => (plain::accelerations(problem), all_pairs(problem.mass.len())),
    }
}

/// Builds a pool of one thread or of as many threads as the current pool has.
pub fn build_thread_pool(threads: Threads) -> Result<rayon::ThreadPool, MeasureError> {
    let threads = match threads {
        Threads::One => 1,
        Threads::All => rayon::current_num_threads(),
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|e| MeasureError::Threads { threads, cause: e.to_string() })
}
