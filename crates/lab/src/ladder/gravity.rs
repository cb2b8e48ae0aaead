//! Measurement of the gravity ladders: force evaluations of a Plummer sphere by the direct sum or
//! the tree, on the CPU and on a device, with the errors of the accelerations.

use std::collections::HashMap;

use orrery_device::Device;
use orrery_model::{Precision, Vec3s};
use orrery_particles::solver::device::{DeviceSolver, DeviceStrategy};
use orrery_particles::solver::rungs::{Rung, RungKind, Threads};
use orrery_particles::solver::{CpuStrategy, Problem, direct, tree};

use super::repeats::repeat_count;
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
    Device(DeviceStrategy),
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
            let (measured, roofs, note) = match (rung.kind, device) {
                (RungKind::Cpu(strategy, threads), _) => {
                    (self.measure_on_cpu(&strategy, threads, n)?, &host_roofs, rung.note.to_owned())
                }
                (RungKind::Device(strategy), Some(device)) => {
                    (self.measure_on_device(device, &strategy, n)?, &ladder.roofs, rung.note.to_owned())
                }
                (RungKind::Default, Some(device)) => {
                    let strategy = (self.default_strategy)(device, n, rung.precision, request.tuning);
                    (self.measure_on_device(device, &strategy, n)?, &ladder.roofs, strategy.describe())
                }
                (RungKind::Device(_) | RungKind::Default, None) => continue,
            };
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
        let pool = build_thread_pool(threads)?;
        let time_size = |n: usize| {
            let workload = (self.new_workload)(n);
            let run = || drop(forces_on_cpu(&workload.problem(), strategy));
            Ok::<_, LabError>(pool.install(|| timing::time_on_host(1, run)).median())
        };
        let (n, run_seconds) = largest_affordable_size(n, MAX_RUN_SECONDS, time_size)?;
        let workload = (self.new_workload)(n);
        let mut last = None;
        let times = pool.install(|| {
            timing::time_on_host(repeat_count(run_seconds), || {
                last = Some(forces_on_cpu(&workload.problem(), strategy));
            })
        });
        let (accelerations, [body_terms, cell_terms]) = last.expect("the solver has run");
        let strategy = EvaluatedStrategy::Cpu(*strategy);
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
        let mut result = RungResult { work, ..RungResult::new("", &TimedRuns { n, items, times }) };
        if let Some((kernel, block)) = solver.main_kernel() {
            let resources = kernel.resources();
            result.registers = resources.registers;
            result.shared_bytes = Some(resources.shared_bytes);
            result.occupancy = kernel.occupancy(block);
        }
        Ok(MeasuredForces { result, accelerations: workload.accelerations()? })
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
fn build_thread_pool(threads: Threads) -> Result<rayon::ThreadPool, LabError> {
    let threads = match threads {
        Threads::One => 1,
        Threads::All => rayon::current_num_threads(),
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|e| LabError::Threads { threads, cause: e.to_string() })
}
