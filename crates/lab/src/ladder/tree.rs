//! Ladder of the Barnes-Hut tree.

use std::collections::HashMap;

use orrery_device::Device;
use orrery_model::Vec3s;
use orrery_particles::solver::device::DeviceSolver;
use orrery_particles::solver::direct::rungs::Threads;
use orrery_particles::solver::tree::device::TreeDeviceStrategy;
use orrery_particles::solver::tree::rungs::{Rung, RungKind, THETA, rungs};
use orrery_particles::solver::{Problem, tree};

use super::peaks::{MAX_RUN_SECONDS, Peaks, build_thread_pool, repeat_count};
use super::{Ladder, RateUnit, RungResult};
use crate::LabError;
use crate::bench::tree::evaluation_flops;
use crate::sample::{ReferenceForces, Shape};
use crate::timing::{self, Times, largest_affordable_size};
use crate::workload::DeviceWorkload;

/// Remarks below the table's heading.
const REMARKS: [&str; 2] = [
    "all rungs: theta = 0.5, geometric; the error column shows the resulting accuracy",
    "flops per term: body 20, cell 20 (monopole), 55 (quadrupole), 100 (octupole)",
];

/// Measures every rung of the CPU and of `device`. Calls `progress` with the name of each rung
/// before it is measured.
pub fn measure_ladder(
    device: Option<&Device>,
    n: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Ladder, LabError> {
    let mut timer = RungTimer { peaks: Peaks::measure(device)?, references: HashMap::new() };
    let mut ladder = Ladder {
        title: "Barnes-Hut, Plummer sphere".to_owned(),
        device: device.map_or_else(crate::devices::cpu_name, |device| device.title()),
        n,
        size_unit: "bodies",
        unit: RateUnit::Bodies,
        flops_per_unit: None,
        remarks: &REMARKS,
        roofs: timer.peaks.roofs,
        rungs: Vec::new(),
    };
    for rung in rungs(device) {
        progress(rung.name);
        ladder.add_rung(match (rung.kind, device) {
            (RungKind::Cpu(strategy, threads), _) => timer.measure_on_cpu(&rung, &strategy, threads, n)?,
            (RungKind::Device(strategy), Some(device)) => {
                timer.measure_on_device(&rung, device, &strategy, n)?
            }
            (RungKind::Device(_), None) => continue,
        });
    }
    Ok(ladder)
}

/// Peaks, and the reference forces for each problem size measured so far.
struct RungTimer {
    peaks: Peaks,
    references: HashMap<usize, ReferenceForces>,
}

impl RungTimer {
    fn measure_on_cpu(
        &mut self,
        rung: &Rung,
        strategy: &tree::TreeCpuStrategy,
        threads: Threads,
        n: usize,
    ) -> Result<RungResult, LabError> {
        let pool = build_thread_pool(threads)?;
        let time_size = |n: usize| {
            let (position, mass) = Shape::Plummer.bodies(n);
            let problem = gravity_problem(&position, &mass);
            let times =
                pool.install(|| timing::time_on_host(1, || drop(tree::forces(&problem, strategy, None))));
            Ok::<_, LabError>(times.median())
        };
        let (n, run_seconds) = largest_affordable_size(n, MAX_RUN_SECONDS, time_size)?;
        let (position, mass) = Shape::Plummer.bodies(n);
        let problem = gravity_problem(&position, &mass);
        let mut last = None;
        let times = pool.install(|| {
            timing::time_on_host(repeat_count(run_seconds), || {
                last = Some(tree::forces(&problem, strategy, None));
            })
        });
        let (forces, report) = last.expect("the solver has run");
        let flop_count = evaluation_flops(rung.order, report.body_terms, report.cell_terms);
        let error = self.median_error(&problem, &forces.acceleration);
        Ok(rung_result(rung, n, &times, flop_count, Some(self.peaks.cpu_peak(rung.precision)), error))
    }

    fn measure_on_device(
        &mut self,
        rung: &Rung,
        device: &Device,
        strategy: &TreeDeviceStrategy,
        n: usize,
    ) -> Result<RungResult, LabError> {
        let new_workload = |n| DeviceWorkload::for_tree(device, Shape::Plummer, n, THETA);
        let time_size = |n: usize| {
            let workload = new_workload(n)?;
            Ok::<_, LabError>(workload.time_once(&mut workload.new_solver(*strategy)?)?)
        };
        let (n, run_seconds) = largest_affordable_size(n, MAX_RUN_SECONDS, time_size)?;
        let workload = new_workload(n)?;
        let mut solver = workload.new_solver(*strategy)?;
        workload.time_once(&mut solver)?;
        let times = workload.time_repeats(&mut solver, repeat_count(run_seconds), run_seconds)?;
        let DeviceSolver::Tree(tree) = &solver else { unreachable!("the strategy is a tree strategy") };
        let report = tree.report()?;
        let flop_count = evaluation_flops(rung.order, report.body_terms, report.cell_terms);
        let error = self.median_error(&workload.problem(), &workload.accelerations()?);
        let result = rung_result(rung, n, &times, flop_count, self.peaks.device_peak(rung.precision), error);
        let Some((kernel, block)) = tree.main_kernel() else { return Ok(result) };
        let resources = kernel.resources();
        Ok(RungResult {
            registers: resources.registers,
            shared_bytes: Some(resources.shared_bytes),
            occupancy: kernel.occupancy(block),
            ..result
        })
    }

    /// Returns the median relative error of the accelerations, or `None` for a single body.
    fn median_error(&mut self, problem: &Problem, accelerations: &Vec3s) -> Option<f64> {
        let n = problem.mass.len();
        let reference = self.references.entry(n).or_insert_with(|| ReferenceForces::compute(problem));
        (n > 1).then(|| reference.errors(accelerations).median)
    }
}

/// Returns the same problem as [`DeviceWorkload::for_tree`].
fn gravity_problem<'a>(position: &'a Vec3s, mass: &'a [f64]) -> Problem<'a> {
    Problem { position, mass, g: 1.0, eps: 0.001, with_potential: false }
}

fn rung_result(
    rung: &Rung,
    n: usize,
    times: &Times,
    flop_count: f64,
    peak: Option<f64>,
    error: Option<f64>,
) -> RungResult {
    let flops = flop_count / times.median();
    RungResult {
        name: rung.name.to_owned(),
        n,
        seconds: times.median(),
        repeats: times.count(),
        rate: n as f64 / times.median(),
        flops: Some(flops),
        share_of_peak: peak.map(|peak| flops / peak),
        error,
        note: rung.note.to_owned(),
        ..RungResult::default()
    }
}
