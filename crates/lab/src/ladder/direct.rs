//! The ladder of all-pairs gravity.

use std::collections::HashMap;

use orrery_device::Device;
use orrery_model::Vec3s;
use orrery_particles::settings::Precision;
use orrery_particles::solver::direct::device::{DirectDeviceStrategy, DirectKernel};
use orrery_particles::solver::direct::rungs::{Rung, RungKind, Threads, rungs};
use orrery_particles::solver::{Problem, direct};

use super::peaks::{ONE_SECONDS, Peaks, pool, repeats};
use super::{Ladder, Measured, Unit};
use crate::sample::{Reference, Shape};
use crate::stage::DeviceWorkload;
use crate::timing::{self, Times, affordable};
use crate::{FLOPS_A_PAIR, LabError};

/// Measures every rung that `device` (and the processor) has. `choice` gives the strategy that a run would
/// take; `progress` hears each rung's name before it is measured.
pub fn measure(
    device: Option<&Device>,
    n: usize,
    choice: &dyn Fn(&Device, usize, Precision) -> DirectDeviceStrategy,
    progress: &mut dyn FnMut(&str),
) -> Result<Ladder, LabError> {
    let mut bench = RungTimer { peaks: Peaks::measure(device)?, references: HashMap::new() };
    let mut ladder = Ladder {
        title: "all-pairs gravity".to_owned(),
        device: device.map_or_else(crate::devices::cpu_name, |device| device.title()),
        n,
        counted: "bodies",
        unit: Unit::Interactions,
        flops_per_unit: Some(FLOPS_A_PAIR),
        remarks: &[],
        roofs: bench.peaks.roofs,
        rungs: Vec::new(),
    };
    for rung in rungs(device) {
        progress(rung.name);
        let measured = match (rung.kind, device) {
            (RungKind::Cpu(strategy, threads), _) => bench.on_cpu(&rung, &strategy, threads, n)?,
            (RungKind::Device(strategy), Some(device)) => bench.on_device(&rung, device, &strategy, n)?,
            (RungKind::Default, Some(device)) => {
                let strategy = choice(device, n, rung.precision);
                Measured { note: strategy.describe(), ..bench.on_device(&rung, device, &strategy, n)? }
            }
            (RungKind::Device(_) | RungKind::Default, None) => continue,
        };
        ladder.push(measured);
    }
    Ok(ladder)
}

/// What rungs share: the peaks, and right forces for each size that was measured.
struct RungTimer {
    peaks: Peaks,
    references: HashMap<usize, Reference>,
}

impl RungTimer {
    fn on_cpu(
        &mut self,
        rung: &Rung,
        strategy: &direct::DirectCpuStrategy,
        threads: Threads,
        n: usize,
    ) -> Result<Measured, LabError> {
        let pool = pool(threads)?;
        let try_one = |n: usize| {
            let (position, mass) = Shape::Plummer.bodies(n);
            let problem = problem(&position, &mass);
            let times = pool.install(|| timing::on_host(1, || drop(direct::forces(&problem, strategy))));
            Ok::<_, LabError>(times.median())
        };
        let (n, once) = affordable(n, ONE_SECONDS, try_one)?;
        let (position, mass) = Shape::Plummer.bodies(n);
        let problem = problem(&position, &mass);
        let mut found = Vec3s::default();
        let times = pool.install(|| {
            timing::on_host(repeats(once), || found = direct::forces(&problem, strategy).acceleration)
        });
        let peak = self.peaks.of_cpu(rung.precision);
        let error = self.error(&problem, &found);
        // Positions and masses are read as f64, once for each block of targets.
        let bytes = 32.0 / strategy.block as f64;
        Ok(measured(rung, n, &times, Some(peak), bytes, error))
    }

    fn on_device(
        &mut self,
        rung: &Rung,
        device: &Device,
        strategy: &DirectDeviceStrategy,
        n: usize,
    ) -> Result<Measured, LabError> {
        let try_one = |n: usize| {
            let stage = DeviceWorkload::new(device, n)?;
            Ok::<_, LabError>(stage.once(&mut stage.solver(*strategy)?)?)
        };
        let (n, once) = affordable(n, ONE_SECONDS, try_one)?;
        let stage = DeviceWorkload::new(device, n)?;
        let mut solver = stage.solver(*strategy)?;
        stage.once(&mut solver)?;
        let times = stage.times(&mut solver, repeats(once), once)?;
        let error = self.error(&stage.problem(), &stage.accelerations()?);
        let peak = self.peaks.of_device(rung.precision);
        let (kernel, group) = solver.main_kernel().expect("it has run");
        let resources = kernel.resources();
        let measured = measured(rung, n, &times, peak, bytes_per_pair(strategy), error);
        Ok(Measured {
            registers: resources.registers,
            shared_bytes: Some(resources.shared_bytes),
            occupancy: kernel.occupancy(group),
            ..measured
        })
    }

    /// The median relative error; none where there is but one body.
    fn error(&mut self, problem: &Problem, found: &Vec3s) -> Option<f64> {
        let n = problem.mass.len();
        let reference = self.references.entry(n).or_insert_with(|| Reference::of(problem));
        (n > 1).then(|| reference.errors(found).median)
    }
}

fn problem<'a>(position: &'a Vec3s, mass: &'a [f64]) -> Problem<'a> {
    Problem { position, mass, g: 1.0, eps: 0.01, with_potential: false }
}

fn measured(
    rung: &Rung,
    n: usize,
    times: &Times,
    peak: Option<f64>,
    bytes_per_pair: f64,
    error: Option<f64>,
) -> Measured {
    let rate = (n as f64).powi(2) / times.median();
    let flops = FLOPS_A_PAIR * rate;
    Measured {
        name: rung.name.to_owned(),
        n,
        seconds: times.median(),
        repeats: times.count(),
        rate,
        flops: Some(flops),
        share_of_peak: peak.map(|peak| flops / peak),
        intensity: Some(FLOPS_A_PAIR / bytes_per_pair),
        error,
        note: rung.note.to_owned(),
        course: rung.course,
        ..Measured::default()
    }
}

/// Bytes that a thread asks of the device's memory for each pair: a whole source where each thread reads for
/// itself, a share of it where a group reads a tile together for all of its targets.
fn bytes_per_pair(strategy: &DirectDeviceStrategy) -> f64 {
    // Tiles are read as the f64 of the state.
    let is_wide = strategy.precision == Precision::Double || strategy.form == DirectKernel::Tiled;
    let source = if is_wide { 32.0 } else { 16.0 };
    let alone = matches!(
        strategy.form,
        DirectKernel::OneThread
            | DirectKernel::Structs
            | DirectKernel::Arrays
            | DirectKernel::Constant
            | DirectKernel::Rsqrt
            | DirectKernel::TwoLoops
    );
    if alone { source } else { source / (f64::from(strategy.block) * f64::from(strategy.targets)) }
}
