//! Measurement of the gravity ladders: force evaluations of a Plummer sphere by the direct sum or
//! the tree, on the CPU and on a device, with the errors of the accelerations.

use std::cell::RefCell;
use std::collections::HashMap;

use orrery_device::{Device, DeviceError, Kernel};
use orrery_gravity::solver::device::{DeviceSolver, DeviceStrategy};
use orrery_gravity::solver::{ForceProblem, GravityCpuStrategy, direct, tree};
use orrery_measure::MeasureError;
use orrery_measure::sample::ReferenceForces;
use orrery_measure::timing::largest_affordable_size;
use orrery_measure::tuning::Tuning;
use orrery_measure::workload::{DeviceWorkload, Workload};
use orrery_measure::workload::{TimedSolver, all_pairs};
use orrery_model::{Precision, Vec3s};

use super::repeats::{build_thread_pool, repeat_count};
use super::rung::kernel_use;
use super::{
    Ladder, LadderRequest, PreparedRung, Roofs, RungClock, RungDetails, RungLabel, RungLimit, TimedRuns, Work,
};
use crate::rungs::gravity::direct::course::{CourseProgram, CourseSteps};
use crate::rungs::gravity::direct::plain;
use crate::rungs::gravity::tree::THETA;
use crate::rungs::gravity::tree::insertion::{BLOCKS_PER_SM, InsertionOptions, InsertionSteps};
use crate::rungs::gravity::{GravityRung, GravityRungKind, LectureStrategy, ThreadCount};

/// Host memory per body. A run needs at most as much.
pub const BYTES_PER_BODY: u64 = 450;
/// Remark on the column of errors.
pub const ERROR_REMARK: &str = "error: median relative error of the accelerations";
/// Step so short that bodies at rest do not move noticeably during a measurement.
pub const STEP_DT: f64 = 1e-9;

/// Longest time of a single evaluation on the CPU if all rungs have the same number of bodies: a
/// device with millions of bodies is compared with one thread.
const MAX_CPU_SECONDS: f64 = 8.0;

/// Number of bodies with which a test runs every rung once.
const TEST_BODIES: usize = 1000;

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
        ladder.roofs = request.device.map_or(Ok(ladder.host_roofs), Roofs::of_device)?;
        ladder.roof = ladder.roofs.peak_roof();
        let tried = match self.sizes {
            RungSizes::PerRung => Vec::new(),
            RungSizes::Common => self.try_sizes(request)?,
        };
        if let Some((n, _)) = tried.last() {
            (ladder.n, request.n) = (*n, *n);
        }
        let references = References::new(self.new_workload);
        for (index, run) in self.runnable_rungs(request)?.iter().enumerate() {
            (request.progress)(run.rung.name);
            let (n, run_seconds) = match tried.get(index) {
                None => self.affordable_size(run, request.n)?,
                Some((n, seconds)) if *n == request.n => (*n, *seconds),
                Some(_) => (request.n, self.prepare(run, request.n, &references)?.time_once()?),
            };
            let prepared = self.prepare(run, n, &references)?;
            let measured = match run.processor {
                Processor::Host(_) => prepared.with_repeats(repeat_count(run_seconds)).measure()?,
                Processor::Device(_) => prepared.measure()?,
            };
            ladder.add_measured(run.label(), vec![Some(measured)]);
        }
        Ok(())
    }

    /// Builds every rung for few bodies on a device and runs it once, apart from the defaults,
    /// which are production kernels.
    pub fn run_once(&self, device: &Device) -> Result<(), MeasureError> {
        let references = References::new(self.new_workload);
        let request =
            LadderRequest { device: Some(device), n: TEST_BODIES, tuning: None, progress: &mut |_| () };
        for run in self.runnable_rungs(&request)? {
            let is_default = run.rung.kind == GravityRungKind::Default;
            if matches!(run.processor, Processor::Device(_)) && !is_default {
                self.prepare(&run, TEST_BODIES, &references)?.run()?;
            }
        }
        Ok(())
    }

    /// Returns the rungs that can be measured here.
    fn runnable_rungs<'a>(&self, request: &LadderRequest<'a>) -> Result<Vec<Runnable<'a>>, MeasureError> {
        let mut runnable = Vec::new();
        for rung in (self.rungs)(request.device) {
            let (strategy, threads) = match rung.kind {
                GravityRungKind::Cpu(strategy, threads) => (EvaluatedStrategy::Cpu(strategy), Some(threads)),
                GravityRungKind::PlainCpu => (EvaluatedStrategy::PlainCpu, Some(ThreadCount::One)),
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
    /// more bodies than the one before, so the last one has the fewest.
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
        let references = References::new(self.new_workload);
        largest_affordable_size(n, limit, |n| self.prepare(run, n, &references)?.time_once())
    }

    /// Builds a rung for `n` bodies.
    fn prepare<'a>(
        &self,
        run: &'a Runnable,
        n: usize,
        references: &'a References,
    ) -> Result<PreparedRung<'a>, MeasureError> {
        let (workload, count_work, strategy) = ((self.new_workload)(n), self.count_work, run.strategy);
        let finish = move |accelerations: &Vec3s, [body_terms, cell_terms]: [u64; 2], kernel| RungDetails {
            counted: Some(count_work(&RungEvaluation { n, strategy, body_terms, cell_terms })),
            error: references.median_error(n, accelerations),
            kernel,
            ..RungDetails::default()
        };
        let prepared = match &run.processor {
            Processor::Host(pool) => {
                let evaluate = move |last: &mut Option<_>| {
                    *last = Some(pool.install(|| forces_on_host(&workload.problem(), &strategy)));
                    Ok::<_, MeasureError>(())
                };
                let details = move |last: &mut Option<(Vec3s, [u64; 2])>, _: &TimedRuns| {
                    let (accelerations, terms) = last.as_ref().expect("the solver has run");
                    Ok(finish(accelerations, *terms, None))
                };
                PreparedRung::with_details(RungClock::Host, n, 0.0, None, evaluate, details)
            }
            Processor::Device(device) => {
                let clock = RungClock::of(device);
                match DeviceProgram::new(device, &strategy, workload)? {
                    DeviceProgram::Forces(workload, solver) => {
                        let evaluate =
                            |(workload, solver): &mut (Box<DeviceWorkload>, Box<dyn TimedSolver>)| {
                                workload.queue_forces(&mut **solver)
                            };
                        let details =
                            move |(workload, solver): &mut (Box<DeviceWorkload>, Box<dyn TimedSolver>),
                                  _: &TimedRuns| {
                                let terms = solver.count_terms(n)?;
                                let kernel =
                                    solver.main_kernel().map(|(kernel, size)| kernel_use(kernel, size));
                                Ok(finish(&workload.accelerations()?, terms, kernel))
                            };
                        PreparedRung::with_details(clock, n, 0.0, (workload, solver), evaluate, details)
                    }
                    DeviceProgram::Steps(steps) => {
                        let step = |steps: &mut Box<dyn TimedSteps>| steps.queue_step();
                        let details = move |steps: &mut Box<dyn TimedSteps>, _: &TimedRuns| {
                            let terms = steps.count_terms(n)?;
                            let kernel = steps.main_kernel().map(|(kernel, size)| kernel_use(kernel, size));
                            Ok(finish(&steps.accelerations()?, terms, kernel))
                        };
                        PreparedRung::with_details(clock, n, 0.0, steps, step, details)
                    }
                }
            }
        };
        Ok(prepared.with_work(Work::default(), RungLimit::Flops(run.rung.precision)))
    }
}

impl Runnable<'_> {
    fn label(&self) -> RungLabel<'_> {
        let note = match (self.rung.kind, &self.strategy) {
            (GravityRungKind::Default, EvaluatedStrategy::Device(strategy)) => strategy.describe(),
            _ => self.rung.note.to_owned(),
        };
        RungLabel { reference: self.rung.course, ..RungLabel::new(self.rung.name, note) }
    }
}

/// Reference forces by number of bodies.
struct References {
    new_workload: fn(usize) -> Workload,
    known: RefCell<HashMap<usize, ReferenceForces>>,
}

impl References {
    fn new(new_workload: fn(usize) -> Workload) -> Self {
        Self { new_workload, known: RefCell::default() }
    }

    /// Returns the median relative error of the accelerations, or `None` for a single body.
    fn median_error(&self, n: usize, accelerations: &Vec3s) -> Option<f64> {
        let mut known = self.known.borrow_mut();
        let compute = || ReferenceForces::compute(&(self.new_workload)(n).problem());
        (n > 1).then(|| known.entry(n).or_insert_with(compute).errors(accelerations).median)
    }
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
