//! The ladder of the tree.

use std::collections::HashMap;

use orrery_device::Device;
use orrery_model::Vec3s;
use orrery_particles::solver::device::DeviceSolver;
use orrery_particles::solver::direct::rungs::Threads;
use orrery_particles::solver::tree::device::TreeDeviceStrategy;
use orrery_particles::solver::tree::rungs::{Rung, RungKind, THETA, rungs};
use orrery_particles::solver::{Problem, tree};

use super::peaks::{ONE_SECONDS, Peaks, pool, repeats};
use super::{Ladder, Measured, Unit};
use crate::LabError;
use crate::bench::tree::flops;
use crate::sample::{Reference, Shape};
use crate::stage::DeviceWorkload;
use crate::timing::{self, Times, affordable};

/// Under the heading: what makes the rungs comparable, and what does not.
const REMARKS: [&str; 2] = [
    "all with theta = 0.5, geometric; what that comes to is the error of each rung",
    "flops: 20 a body or a cell without higher moments, 55 with quadrupoles, 100 with octupoles",
];

/// Measures every rung that `device` (and the processor) has; `progress` hears each rung's name before it is measured.
pub fn measure(
    device: Option<&Device>,
    n: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Ladder, LabError> {
    let mut bench = RungTimer { peaks: Peaks::measure(device)?, references: HashMap::new() };
    let mut ladder = Ladder {
        title: "Barnes-Hut, Plummer sphere".to_owned(),
        device: device.map_or_else(crate::devices::cpu_name, |device| device.title()),
        n,
        counted: "bodies",
        unit: Unit::Bodies,
        flops_per_unit: None,
        remarks: &REMARKS,
        roofs: bench.peaks.roofs,
        rungs: Vec::new(),
    };
    for rung in rungs(device) {
        progress(rung.name);
        ladder.push(match (rung.kind, device) {
            (RungKind::Cpu(strategy, threads), _) => bench.on_cpu(&rung, &strategy, threads, n)?,
            (RungKind::Device(strategy), Some(device)) => bench.on_device(&rung, device, &strategy, n)?,
            (RungKind::Device(_), None) => continue,
        });
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
        strategy: &tree::TreeCpuStrategy,
        threads: Threads,
        n: usize,
    ) -> Result<Measured, LabError> {
        let pool = pool(threads)?;
        let try_one = |n: usize| {
            let (position, mass) = Shape::Plummer.bodies(n);
            let problem = problem(&position, &mass);
            let times = pool.install(|| timing::on_host(1, || drop(tree::forces(&problem, strategy, None))));
            Ok::<_, LabError>(times.median())
        };
        let (n, once) = affordable(n, ONE_SECONDS, try_one)?;
        let (position, mass) = Shape::Plummer.bodies(n);
        let problem = problem(&position, &mass);
        let mut last = None;
        let times = pool.install(|| {
            timing::on_host(repeats(once), || last = Some(tree::forces(&problem, strategy, None)))
        });
        let (forces, report) = last.expect("it has run");
        let work = flops(rung.order, report.body_terms, report.cell_terms);
        let error = self.error(&problem, &forces.acceleration);
        Ok(measured(rung, n, &times, work, Some(self.peaks.of_cpu(rung.precision)), error))
    }

    fn on_device(
        &mut self,
        rung: &Rung,
        device: &Device,
        strategy: &TreeDeviceStrategy,
        n: usize,
    ) -> Result<Measured, LabError> {
        let stage = |n| DeviceWorkload::for_tree(device, Shape::Plummer, n, THETA);
        let try_one = |n: usize| {
            let stage = stage(n)?;
            Ok::<_, LabError>(stage.once(&mut stage.solver(*strategy)?)?)
        };
        let (n, once) = affordable(n, ONE_SECONDS, try_one)?;
        let stage = stage(n)?;
        let mut solver = stage.solver(*strategy)?;
        stage.once(&mut solver)?;
        let times = stage.times(&mut solver, repeats(once), once)?;
        let DeviceSolver::Tree(tree) = &solver else { unreachable!("its strategy is a tree's") };
        let report = tree.report()?;
        let work = flops(rung.order, report.body_terms, report.cell_terms);
        let error = self.error(&stage.problem(), &stage.accelerations()?);
        let measured = measured(rung, n, &times, work, self.peaks.of_device(rung.precision), error);
        let Some((kernel, group)) = tree.main_kernel() else { return Ok(measured) };
        let resources = kernel.resources();
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

/// As a stage has it on a device.
fn problem<'a>(position: &'a Vec3s, mass: &'a [f64]) -> Problem<'a> {
    Problem { position, mass, g: 1.0, eps: 0.001, with_potential: false }
}

fn measured(
    rung: &Rung,
    n: usize,
    times: &Times,
    work: f64,
    peak: Option<f64>,
    error: Option<f64>,
) -> Measured {
    let flops = work / times.median();
    Measured {
        name: rung.name.to_owned(),
        n,
        seconds: times.median(),
        repeats: times.count(),
        rate: n as f64 / times.median(),
        flops: Some(flops),
        share_of_peak: peak.map(|peak| flops / peak),
        error,
        note: rung.note.to_owned(),
        ..Measured::default()
    }
}
