//! `bench run`: whole runs with their output, compared with the time of their forces.
//!
//! The time of a run goes from its first step to its last file. The ratio to the time of its force
//! evaluations, or of its field updates, is 1 for a run that does nothing else. The start-up is not
//! a part of the run: the initial state, the device and the kernels. An untimed run of a few steps
//! comes first, so that kernels that are loaded at their first use do not count.

mod cases;
mod scratch;

use orrery_device::Device;
use orrery_engine::EngineError;
use orrery_engine::case::Case;
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{self as engine_run, Output, Replace, Summary};
use orrery_measure::devices::cpu_name;
use orrery_measure::format::{format_number, format_seconds, wrap_text};
use orrery_model::{Precision, format_count};
use orrery_simd::InstructionSet;
use rayon::ThreadPool;
use serde_json::{Value, json};

use cases::{BenchRunCase, selected_workloads};
use scratch::ScratchFolder;

use super::{about_cpu, device_choice};
use crate::args::{BenchArgs, RunCase, limits_for};
use crate::commands::timing::timing_json;
use crate::commands::tune::device_request;
use crate::failure::Failure;
use crate::print::{eprint_line, print_line};
use crate::signals::{StopSignal, install_failure};

/// Default number of timed runs of each case. A run takes long, and its ratio varies little.
const REPEATS: usize = 1;
/// Largest number of steps of the untimed run. Fields take up to 16 steps per pass, and have an
/// image every 20 steps.
const UNTIMED_STEPS: u64 = 20;
/// Width of the printed tables.
const COLUMNS: usize = 80;

/// Refuses flags that `bench run` does not use, and sizes without a case.
pub fn check_run_flags(arguments: &BenchArgs) -> Result<(), Failure> {
    let BenchArgs { theta, rms, bodies, order, leaf, group, simd, .. } = arguments;
    let unused = [
        ("--theta", theta.is_some()),
        ("--rms", rms.is_some()),
        ("--bodies", bodies.is_some()),
        ("--order", order.is_some()),
        ("--leaf", leaf.is_some()),
        ("--group", group.is_some()),
        ("--simd", simd.is_some()),
    ];
    if let Some((flag, _)) = unused.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::Usage(format!("{flag} has no effect on bench run, expected no {flag}")));
    }
    if !arguments.n.is_empty() && arguments.run_cases.len() != 1 {
        let expected = "expected --case with one of its runs, such as --case heat -n 1024";
        return Err(Failure::Usage(format!("-n: bench run has runs of different kinds, {expected}")));
    }
    let has_fields =
        |cases: &[RunCase]| cases.is_empty() || cases.iter().any(|case| BenchRunCase::is_field(*case));
    if arguments.precision.is_some_and(|flag| flag.0 == Precision::Mixed) && has_fields(&arguments.run_cases)
    {
        let expected = "expected single or double for heat and wave; --case selects other runs";
        return Err(Failure::Usage(format!("--precision mixed: {expected}")));
    }
    Ok(())
}

/// Measures and prints. Returns the device and the results. After a signal, the files are removed
/// and the process ends.
pub fn bench_run(
    arguments: &BenchArgs,
    device: Option<&Device>,
    set: InstructionSet,
) -> Result<(Value, Value), Failure> {
    let workloads = selected_workloads(arguments, device)?;
    let control = Control {
        limits: limits_for(None),
        device: device_request(device_choice(arguments)?, arguments.no_tuned),
        ..Control::default()
    };
    let signal = StopSignal::install_handlers(&control).map_err(install_failure)?;
    let outcome =
        measure_workloads(arguments, &workloads, &control, || print_heading(arguments, device, set));
    signal.end_process();
    let results = outcome?;
    print_activities(&results);
    print_speedups(&results);
    let results: Vec<Value> = results.iter().map(|result| result.to_json(&results)).collect();
    Ok((device.map_or_else(|| about_cpu(set), about_device), json!(results)))
}

fn about_device(device: &Device) -> Value {
    let properties = device.properties();
    json!({
        "kind": properties.backend.to_string().to_lowercase(), "label": device.label(),
        "name": properties.name, "driver": properties.driver, "version": properties.version,
        "memory_bytes": properties.memory,
    })
}

/// A workload with its result.
struct RunResult {
    workload: BenchRunCase,
    threads: usize,
    outcome: Outcome,
}

enum Outcome {
    /// The run does not fit into the memory or on the disk. The text says why.
    Skipped(String),
    Measured(Measured),
}

/// Times of the runs of a workload.
struct Measured {
    /// The timed runs, from the fastest to the slowest.
    runs: Vec<Summary>,
    /// Start-up of the untimed run, in seconds. It opens the device and builds the kernels.
    first_startup: f64,
}

impl Measured {
    /// Returns the run with the median time.
    fn median(&self) -> &Summary {
        &self.runs[self.runs.len() / 2]
    }
}

/// Time of a run, in seconds.
fn run_secs(summary: &Summary) -> f64 {
    summary.elapsed.as_secs_f64()
}

/// Time of the forces of a run, in seconds, or of its steps if it has no separate forces.
fn force_secs(summary: &Summary) -> f64 {
    summary.times.forces.unwrap_or(summary.times.steps).as_secs_f64()
}

/// Time of a run over that of its forces.
fn ratio(summary: &Summary) -> f64 {
    run_secs(summary) / force_secs(summary)
}

/// Measures the workloads one after another and prints a row for each. All cases are checked
/// before `print_heading` is called.
fn measure_workloads(
    arguments: &BenchArgs,
    workloads: &[BenchRunCase],
    control: &Control,
    print_heading: impl FnOnce(),
) -> Result<Vec<RunResult>, Failure> {
    let scratch = ScratchFolder::create()?;
    let prepare = |workload: &BenchRunCase| workload.prepare(arguments, control, &scratch);
    let cases = workloads.iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
    print_heading();
    let measure = |(workload, case): (&BenchRunCase, Result<Case, String>)| -> Result<RunResult, Failure> {
        let pool = workload.threads.map(thread_pool).transpose()?;
        let threads = workload.threads.unwrap_or_else(rayon::current_num_threads);
        let outcome = match case {
            Ok(case) => Outcome::Measured(measure_case(arguments, &case, control, &scratch, pool.as_ref())?),
            Err(why) => Outcome::Skipped(why),
        };
        let result = RunResult { workload: workload.clone(), threads, outcome };
        result.print_row();
        Ok(result)
    };
    workloads.iter().zip(cases).map(measure).collect()
}

fn thread_pool(threads: usize) -> Result<ThreadPool, Failure> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|e| Failure::Machine(format!("cannot start {threads} threads: {e}")))
}

/// Runs a case untimed with a few steps, and then as often as the flags say.
fn measure_case(
    arguments: &BenchArgs,
    case: &Case,
    control: &Control,
    scratch: &ScratchFolder,
    pool: Option<&ThreadPool>,
) -> Result<Measured, Failure> {
    let short = cases::shortened(case, UNTIMED_STEPS);
    let first_startup = run_case(&short, control, scratch, pool)?.times.startup.as_secs_f64();
    let repeats = arguments.repeats.map_or(REPEATS, |k| k as usize);
    let runs: Result<Vec<Summary>, Failure> =
        (0..repeats).map(|_| run_case(case, control, scratch, pool)).collect();
    let mut runs = runs?;
    runs.sort_by_key(|summary| summary.elapsed);
    Ok(Measured { runs, first_startup })
}

/// Runs a case to its end and removes its files. A requested stop is an error.
fn run_case(
    case: &Case,
    control: &Control,
    scratch: &ScratchFolder,
    pool: Option<&ThreadPool>,
) -> Result<Summary, Failure> {
    let folder = scratch.path().join("run");
    let output = Output { folder: folder.clone(), replace: Replace::Nothing };
    let run = || engine_run::run(case, &output, control, report_failure);
    let outcome = match pool {
        Some(pool) => pool.install(run),
        None => run(),
    };
    let removed = scratch::remove_folder(&folder);
    let summary = outcome.map_err(without_recovery)?;
    removed?;
    match summary.stopped {
        Some(_) => Err(Failure::Machine("stopped by a signal".to_owned())),
        None => Ok(summary),
    }
}

/// Reports output that failed. Other events of a run have no effect on its time.
fn report_failure(event: RunEvent<'_>) {
    if let RunEvent::OutputFailed(error) = event {
        eprint_line!("warning: {error}");
    }
}

/// Removes the advice how to resume or inspect a run, whose files do not exist any more.
fn without_recovery(error: EngineError) -> EngineError {
    match error {
        EngineError::Recoverable { source, .. } | EngineError::PostMortem { source, .. } => *source,
        error => error,
    }
}

fn print_heading(arguments: &BenchArgs, device: Option<&Device>, set: InstructionSet) {
    match device {
        Some(device) => print_line!("{}", device.title()),
        None => print_line!("{}, {}, threads: {}", cpu_name(), set.name(), rayon::current_num_threads()),
    }
    print_line!("run: from the first step to the last file, in the current directory");
    print_line!("forces: force evaluations, or updates of a field; ratio: run / forces");
    print_line!("start-up: initial state, device and kernels; not a part of the run");
    if let Some(repeats) = arguments.repeats.filter(|&repeats| repeats > 1) {
        print_line!("median of {repeats} runs");
    }
    if let Some(steps) = arguments.steps {
        print_line!("{} per run (--steps)", format_count(steps, "step", "steps"));
    }
    print_line!("");
    print_line!(
        "{:<16} {:>9} {:>6} {:>8} {:>8} {:>6} {:>8} {:>8}",
        "case",
        "size",
        "steps",
        "run",
        "forces",
        "ratio",
        "steps/s",
        "start-up"
    );
}

impl RunResult {
    fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Skipped(_) => None,
        }
    }

    fn print_row(&self) {
        let (label, size) = (self.workload.label(), self.workload.size_text());
        let summary = match &self.outcome {
            Outcome::Measured(measured) => measured.median(),
            Outcome::Skipped(why) => {
                let text = wrap_text(&format!("skipped: {why}"), COLUMNS - 28);
                print_line!("{label:<16} {size:>9}  {}", text[0]);
                text[1..].iter().for_each(|line| print_line!("{:28}{}", "", line.trim_start()));
                return;
            }
        };
        let startup = summary.times.startup.as_secs_f64();
        let [run, forces, startup] = [run_secs(summary), force_secs(summary), startup].map(format_seconds);
        print_line!(
            "{label:<16} {size:>9} {:>6} {run:>8} {forces:>8} {:>6.2} {:>8} {startup:>8}",
            summary.step,
            ratio(summary),
            format_number(summary.step as f64 / run_secs(summary)),
        );
    }

    /// Returns the result for the JSON file. `all` are the results of all workloads.
    fn to_json(&self, all: &[Self]) -> Value {
        let mut row = json!({
            "case": "run", "run": self.workload.name(), "n": self.workload.n,
            "precision": self.workload.precision.as_str(), "threads": self.threads,
        });
        let of_outcome = match &self.outcome {
            Outcome::Skipped(why) => json!({ "skipped": why }),
            Outcome::Measured(measured) => {
                let summary = measured.median();
                let runs = measured.runs.iter();
                json!({
                    "repeats": measured.runs.len(), "seconds": run_secs(summary),
                    "force_seconds": force_secs(summary), "ratio": ratio(summary),
                    "startup": summary.times.startup.as_secs_f64(), "first_startup": measured.first_startup,
                    "speedup": self.speedup(all), "timing": timing_json(summary),
                    "all_seconds": runs.clone().map(run_secs).collect::<Vec<_>>(),
                    "all_force_seconds": runs.map(force_secs).collect::<Vec<_>>(),
                })
            }
        };
        if let (Value::Object(row), Value::Object(of_outcome)) = (&mut row, of_outcome) {
            row.extend(of_outcome);
        }
        row
    }

    /// Returns the time of this run, which has a given number of threads, over that of the same run
    /// with all threads. `None` for other runs.
    fn speedup(&self, all: &[Self]) -> Option<f64> {
        self.workload.threads?;
        let is_same =
            |other: &&Self| other.workload == BenchRunCase { threads: None, ..self.workload.clone() };
        let other = all.iter().find(is_same)?.measured()?;
        Some(run_secs(self.measured()?.median()) / run_secs(other.median()))
    }
}

/// Prints which part of its time each run spent on which activity.
fn print_activities(results: &[RunResult]) {
    let measured = results.iter().filter_map(|result| Some((result, result.measured()?.median())));
    let measured: Vec<_> = measured.collect();
    if measured.is_empty() {
        return;
    }
    print_line!("");
    print_line!("parts of the run in %; waiting: for output that workers draw and write");
    print_line!("");
    print_line!(
        "{:<16} {:>6} {:>6} {:>9} {:>6} {:>7} {:>6} {:>11}",
        "case",
        "steps",
        "table",
        "snapshots",
        "images",
        "waiting",
        "plots",
        "checkpoints"
    );
    for (result, summary) in measured {
        let times = &summary.times;
        let parts = [
            times.steps,
            times.table,
            times.snapshots,
            times.images,
            times.output_wait,
            times.plots,
            times.checkpoints,
        ];
        let [steps, table, snapshots, images, waiting, plots, checkpoints] =
            parts.map(|part| format!("{:.1}", 100.0 * part.as_secs_f64() / run_secs(summary)));
        print_line!(
            "{:<16} {steps:>6} {table:>6} {snapshots:>9} {images:>6} {waiting:>7} {plots:>6} {checkpoints:>11}",
            result.workload.label()
        );
    }
}

/// Prints how much faster all threads are.
fn print_speedups(results: &[RunResult]) {
    for result in results {
        if let Some(speedup) = result.speedup(results) {
            let all = format_count(rayon::current_num_threads() as u64, "thread", "threads");
            print_line!("");
            print_line!(
                "{}: {all} are {speedup:.2} times as fast as {}",
                result.workload.name(),
                result.threads
            );
        }
    }
}
