//! Ladder of all-pairs gravity.

use std::collections::HashMap;

use orrery_device::Device;
use orrery_model::{Precision, Vec3s};
use orrery_particles::solver::direct::device::{DirectDeviceStrategy, DirectKernel};
use orrery_particles::solver::direct::rungs::{Rung, RungKind, Threads, rungs};
use orrery_particles::solver::{Problem, direct};

use super::peaks::{MAX_RUN_SECONDS, Peaks, build_thread_pool, repeat_count};
use super::{Ladder, RateUnit, RungResult};
use crate::sample::{ReferenceForces, Shape};
use crate::timing::{self, Times, largest_affordable_size};
use crate::workload::DeviceWorkload;
use crate::{FLOPS_PER_PAIR, LabError};

/// Measures every rung of the CPU and of `device`. `run_strategy` returns the strategy that a run
/// would use. Calls `progress` with the name of each rung before it is measured.
pub fn measure_ladder(
    device: Option<&Device>,
    n: usize,
    run_strategy: &dyn Fn(&Device, usize, Precision) -> DirectDeviceStrategy,
    progress: &mut dyn FnMut(&str),
) -> Result<Ladder, LabError> {
    let mut timer = RungTimer { peaks: Peaks::measure(device)?, references: HashMap::new() };
    let mut ladder = Ladder {
        title: "all-pairs gravity".to_owned(),
        device: device.map_or_else(crate::devices::cpu_name, |device| device.title()),
        n,
        size_unit: "bodies",
        unit: RateUnit::Interactions,
        flops_per_unit: Some(FLOPS_PER_PAIR),
        remarks: &[],
        roofs: timer.peaks.roofs,
        rungs: Vec::new(),
    };
    for rung in rungs(device) {
        progress(rung.name);
        let result = match (rung.kind, device) {
            (RungKind::Cpu(strategy, threads), _) => timer.measure_on_cpu(&rung, &strategy, threads, n)?,
            (RungKind::Device(strategy), Some(device)) => {
                timer.measure_on_device(&rung, device, &strategy, n)?
            }
            (RungKind::Default, Some(device)) => {
                let strategy = run_strategy(device, n, rung.precision);
                let result = timer.measure_on_device(&rung, device, &strategy, n)?;
                RungResult { note: strategy.describe(), ..result }
            }
            (RungKind::Device(_) | RungKind::Default, None) => continue,
        };
        ladder.add_rung(result);
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
        strategy: &direct::DirectCpuStrategy,
        threads: Threads,
        n: usize,
    ) -> Result<RungResult, LabError> {
        let pool = build_thread_pool(threads)?;
        let time_size = |n: usize| {
            let (position, mass) = Shape::Plummer.bodies(n);
            let problem = gravity_problem(&position, &mass);
            let times = pool.install(|| timing::time_on_host(1, || drop(direct::forces(&problem, strategy))));
            Ok::<_, LabError>(times.median())
        };
        let (n, run_seconds) = largest_affordable_size(n, MAX_RUN_SECONDS, time_size)?;
        let (position, mass) = Shape::Plummer.bodies(n);
        let problem = gravity_problem(&position, &mass);
        let mut accelerations = Vec3s::default();
        let times = pool.install(|| {
            timing::time_on_host(repeat_count(run_seconds), || {
                accelerations = direct::forces(&problem, strategy).acceleration;
            })
        });
        let peak = self.peaks.cpu_peak(rung.precision);
        let error = self.median_error(&problem, &accelerations);
        // Positions and masses are read as f64, once for each block of targets.
        let bytes_per_pair = 32.0 / strategy.block as f64;
        Ok(rung_result(rung, n, &times, Some(peak), bytes_per_pair, error))
    }

    fn measure_on_device(
        &mut self,
        rung: &Rung,
        device: &Device,
        strategy: &DirectDeviceStrategy,
        n: usize,
    ) -> Result<RungResult, LabError> {
        let time_size = |n: usize| {
            let workload = DeviceWorkload::for_direct(device, n)?;
            Ok::<_, LabError>(workload.time_once(&mut workload.new_solver(*strategy)?)?)
        };
        let (n, run_seconds) = largest_affordable_size(n, MAX_RUN_SECONDS, time_size)?;
        let workload = DeviceWorkload::for_direct(device, n)?;
        let mut solver = workload.new_solver(*strategy)?;
        workload.time_once(&mut solver)?;
        let times = workload.time_repeats(&mut solver, repeat_count(run_seconds), run_seconds)?;
        let error = self.median_error(&workload.problem(), &workload.accelerations()?);
        let peak = self.peaks.device_peak(rung.precision);
        let (kernel, block) = solver.main_kernel().expect("the solver has run");
        let resources = kernel.resources();
        let result = rung_result(rung, n, &times, peak, bytes_per_pair(strategy), error);
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

/// Returns the same problem as [`DeviceWorkload::for_direct`].
fn gravity_problem<'a>(position: &'a Vec3s, mass: &'a [f64]) -> Problem<'a> {
    Problem { position, mass, g: 1.0, eps: 0.01, with_potential: false }
}

fn rung_result(
    rung: &Rung,
    n: usize,
    times: &Times,
    peak: Option<f64>,
    bytes_per_pair: f64,
    error: Option<f64>,
) -> RungResult {
    let rate = (n as f64).powi(2) / times.median();
    let flops = FLOPS_PER_PAIR * rate;
    RungResult {
        name: rung.name.to_owned(),
        n,
        seconds: times.median(),
        repeats: times.count(),
        rate,
        flops: Some(flops),
        share_of_peak: peak.map(|peak| flops / peak),
        intensity: Some(FLOPS_PER_PAIR / bytes_per_pair),
        error,
        note: rung.note.to_owned(),
        course: rung.course,
        ..RungResult::default()
    }
}

/// Returns the bytes per pair that a thread requests from device memory. A kernel without tiles
/// requests a whole source per pair. With tiles, a block loads each source once for all its
/// targets.
fn bytes_per_pair(strategy: &DirectDeviceStrategy) -> f64 {
    // The tiled kernel reads the f64 columns of the state.
    let is_wide = strategy.precision == Precision::Double || strategy.kernel == DirectKernel::Tiled;
    let bytes_per_source = if is_wide { 32.0 } else { 16.0 };
    let has_no_tiles = matches!(
        strategy.kernel,
        DirectKernel::OneThread
            | DirectKernel::Structs
            | DirectKernel::Arrays
            | DirectKernel::Constant
            | DirectKernel::Rsqrt
            | DirectKernel::TwoLoops
    );
    if has_no_tiles {
        bytes_per_source
    } else {
        bytes_per_source / (f64::from(strategy.block) * f64::from(strategy.targets))
    }
}
