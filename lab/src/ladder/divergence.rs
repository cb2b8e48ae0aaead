//! Ladder of divergence: threads of a warp that take different paths, and loops of uneven length.

use orrery_device::{Device, DeviceError, DeviceKind};
use orrery_measure::MeasureError;
use orrery_measure::timing::{time_on_device, time_once};
use orrery_model::Precision;

use super::repeats::{time_rung_on_cpu, time_rung_on_device};
use super::{
    Counted, DataCell, DataRow, DataTable, DefaultSizes, Ladder, LadderEntry, LadderRequest, Roofs,
    RungResult, Scale, Sweep, SweepSeries, TimedRuns, Work,
};
use crate::experiments::divergence::predication::{BODIES, Choices, Conditions};
use crate::experiments::divergence::{
    DivergencePattern, DivergentWork, FMAS_PER_STEP, StepCounts, ThreadWork, run_on_all_cores,
    run_on_one_core, rungs,
};

pub static LADDER: LadderEntry = LadderEntry {
    name: "divergence",
    description: "Threads of a warp that take different paths, and loops of uneven length",
    title: "branches and loops in a warp",
    size_unit: "threads",
    host_bytes: |n| (n as u64).saturating_mul(12),
    sizes: DefaultSizes { gpu: 1 << 24, opencl_cpu: 1 << 14, host: 1 << 14 },
    counted: Counted { item: "FMA", rate_unit: "FMA/s", heading: "GFMA/s", to_column: |rate| rate / 1e9 },
    measure,
};

/// A fused multiply-add has two operations. The bytes of a thread are negligible.
const WORK: Work = Work { flops: Some(2.0), bytes: None };
/// Mean number of steps of a thread: 1,024 fused multiply-adds.
const STEPS: u32 = 64;
/// Largest number of threads that the CPU computes.
const MAX_CPU_THREADS: usize = 1 << 14;
/// Numbers of paths of the sweep.
const PATH_COUNTS: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
/// The same on a CPU through OpenCL, which has no warps.
const CPU_PATH_COUNTS: [u32; 3] = [1, 4, 32];
/// Lengths of a body on a CPU through OpenCL, which takes long to compile a kernel.
const CPU_BODIES: [u32; 2] = [1, 16];
/// Number of timed runs of each point of a sweep.
const SWEEP_REPEATS: usize = 5;

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let host_roofs = ladder.host_roofs;
    ladder.roofs = request.device.map_or(Ok(host_roofs), Roofs::of_device)?;
    ladder.roof = ladder.roofs.peak_roof();
    ladder.remarks.push(
        "tid: index of the thread in its block of 256. Each path is a loop of dependent fused multiply-adds; those \
         of lanes that wait do not count."
            .to_owned(),
    );
    add_cpu_rungs(request, ladder);
    let Some(device) = request.device else { return Ok(()) };
    if device.properties().kind != DeviceKind::Gpu {
        ladder
            .remarks
            .push("This device has no warps, so its threads do not wait for one another.".to_owned());
    }
    let mut measurement = Measurement { device, n: request.n.min(u32::MAX as usize / 2), request, ladder };
    measurement.add_patterns()?;
    measurement.add_choices()?;
    measurement.sweep_paths()?;
    measurement.sweep_bodies()?;
    Ok(())
}

/// Returns the fused multiply-adds of all threads.
fn fma_count(work: &ThreadWork) -> f64 {
    StepCounts::by_model(work).lane_steps as f64 * FMAS_PER_STEP as f64
}

fn add_cpu_rungs(request: &mut LadderRequest, ladder: &mut Ladder) {
    let n = request.n.min(MAX_CPU_THREADS);
    let roof = ladder.host_roofs.peak_flops(Precision::Single).map(|flops| flops / 2.0);
    let mut add = |name: &str, pattern: DivergencePattern, run: fn(&ThreadWork) -> Vec<f32>| {
        (request.progress)(name);
        let work = pattern.work(n, STEPS);
        let runs = TimedRuns { n, items: fma_count(&work), times: time_rung_on_cpu(|| run(&work)) };
        ladder.add_rung(RungResult { work: WORK, roof, ..RungResult::new(name, &runs) });
    };
    add("CPU, one thread, one path", DivergencePattern::Uniform, run_on_one_core);
    add("CPU, one thread, random data", DivergencePattern::RandomData, run_on_one_core);
    add("CPU, all cores, random data", DivergencePattern::RandomData, run_on_all_cores);
}

struct Measurement<'a, 'b> {
    device: &'a Device,
    /// Number of threads.
    n: usize,
    request: &'a mut LadderRequest<'b>,
    ladder: &'a mut Ladder,
}

impl Measurement<'_, '_> {
    fn is_gpu(&self) -> bool {
        self.device.properties().kind == DeviceKind::Gpu
    }

    fn roof(&self) -> Option<f64> {
        self.ladder.roofs.peak_flops(Precision::Single).map(|flops| flops / 2.0)
    }

    /// Adds the rungs of all patterns, and the table of active lanes by model and measurement.
    fn add_patterns(&mut self) -> Result<(), DeviceError> {
        let mut rows = Vec::new();
        let mut rate_of_one_path = None;
        for rung in rungs() {
            (self.request.progress)(rung.name);
            let work = rung.pattern.work(self.n, STEPS);
            let divergent = DivergentWork::new(self.device, &work)?;
            let times = time_rung_on_device(self.device, || divergent.launch(self.device.queue()))?;
            let runs = TimedRuns { n: self.request.n, items: fma_count(&work), times };
            let (kernel, occupancy) = divergent.resources();
            let roof = self.roof();
            self.ladder.add_rung(RungResult {
                note: rung.note.to_owned(),
                work: WORK,
                roof,
                registers: kernel.registers,
                shared_bytes: Some(kernel.shared_bytes),
                occupancy,
                ..RungResult::new(rung.name, &runs)
            });
            let cost = *rate_of_one_path.get_or_insert(runs.rate()) / runs.rate();
            rows.push(share_row(rung.name, &work, divergent.count_steps()?, cost));
        }
        self.ladder.tables.push(DataTable {
            title: "active lanes of warps of 32, and time relative to one path".to_owned(),
            row_heading: "pattern",
            columns: ["model, %", "counted, %", "model time", "time"].map(str::to_owned).to_vec(),
            rows,
        });
        Ok(())
    }

    /// Returns the rounds with which a thread computes as much as in the patterns.
    fn rounds(body: u32) -> u32 {
        STEPS * FMAS_PER_STEP as u32 / body
    }

    /// Adds the rungs with a short and with a long `if`.
    fn add_choices(&mut self) -> Result<(), DeviceError> {
        for (name, body, conditions) in [
            ("short if, lanes agree", BODIES[0], Conditions::SameInWarp),
            ("short if, random", BODIES[0], Conditions::Random),
            ("long if, lanes agree", 16, Conditions::SameInWarp),
            ("long if, random", 16, Conditions::Random),
        ] {
            (self.request.progress)(name);
            let choices = Choices::new(self.device, body, &conditions.masks(self.n))?;
            let rounds = Self::rounds(body);
            let times = time_rung_on_device(self.device, || choices.launch(self.device.queue(), rounds))?;
            let items = self.n as f64 * f64::from(rounds * body);
            let runs = TimedRuns { n: self.request.n, items, times };
            let note = format!("{body} FMA on each side");
            let roof = self.roof();
            self.ladder.add_rung(RungResult { note, work: WORK, roof, ..RungResult::new(name, &runs) });
        }
        Ok(())
    }

    /// Returns the median time of a few runs.
    fn median_seconds(&self, launch: impl Fn() -> Result<(), DeviceError>) -> Result<f64, DeviceError> {
        let run_seconds = time_once(self.device, &launch)?;
        Ok(time_on_device(self.device, SWEEP_REPEATS, run_seconds, launch)?.median())
    }

    /// Measures the time for 1 to 32 different paths, by lane and by warp, relative to one path.
    fn sweep_paths(&mut self) -> Result<(), DeviceError> {
        let counts: &[u32] = if self.is_gpu() { &PATH_COUNTS } else { &CPU_PATH_COUNTS };
        let mut series = Vec::new();
        for name in ["by lane", "by warp"] {
            let mut seconds = Vec::new();
            for &count in counts {
                (self.request.progress)(&format!("{count} paths {name}"));
                let pattern = match name {
                    "by lane" => DivergencePattern::PathsByLane(count),
                    _ => DivergencePattern::PathsByWarp(count),
                };
                let divergent = DivergentWork::new(self.device, &pattern.work(self.n, STEPS))?;
                seconds.push(self.median_seconds(|| divergent.launch(self.device.queue()))?);
            }
            let points = seconds.iter().map(|time| Some(time / seconds[0])).collect();
            series.push(SweepSeries { name: name.to_owned(), points });
        }
        let model = counts.iter().map(|count| Some(f64::from(*count))).collect();
        series.push(SweepSeries { name: "model by lane".to_owned(), points: model });
        self.ladder.sweeps.push(Sweep {
            title: "different paths".to_owned(),
            parameter: "paths",
            unit: "times the time of one path",
            x_scale: Scale::Log,
            y_scale: Scale::Log,
            values: counts.iter().map(|count| f64::from(*count)).collect(),
            series,
        });
        Ok(())
    }

    /// Measures an `if` with bodies of several lengths, for lanes that agree and for random lanes.
    fn sweep_bodies(&mut self) -> Result<(), DeviceError> {
        let bodies: &[u32] = if self.is_gpu() { &BODIES } else { &CPU_BODIES };
        let mut series = Vec::new();
        for (name, conditions) in [("lanes agree", Conditions::SameInWarp), ("random", Conditions::Random)] {
            let masks = conditions.masks(self.n);
            let mut points = Vec::new();
            for &body in bodies {
                (self.request.progress)(&format!("if with {body} FMA, {name}"));
                let choices = Choices::new(self.device, body, &masks)?;
                let rounds = Self::rounds(body);
                let seconds = self.median_seconds(|| choices.launch(self.device.queue(), rounds))?;
                points.push(Some(self.n as f64 * f64::from(rounds * body) / seconds / 1e9));
            }
            series.push(SweepSeries { name: name.to_owned(), points });
        }
        self.ladder.sweeps.push(Sweep {
            title: "an if in a loop, by the length of its sides".to_owned(),
            parameter: "FMA per side",
            unit: "GFMA/s",
            x_scale: Scale::Log,
            y_scale: Scale::Log,
            values: bodies.iter().map(|body| f64::from(*body)).collect(),
            series,
        });
        Ok(())
    }
}

/// Returns the row of a pattern: active lanes by the model and counted, time by the model and
/// measured.
fn share_row(name: &str, work: &ThreadWork, counted: Option<StepCounts>, cost: f64) -> DataRow {
    let model = StepCounts::by_model(work).active_share();
    let counted = match counted {
        Some(counts) => DataCell::Number(100.0 * counts.active_share()),
        None => DataCell::Text("-".to_owned()),
    };
    let cells =
        vec![DataCell::Number(100.0 * model), counted, DataCell::Number(1.0 / model), DataCell::Number(cost)];
    DataRow { name: name.to_owned(), cells }
}
