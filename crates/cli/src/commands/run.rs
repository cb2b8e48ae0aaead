//! `run` and `resume`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use orrery_engine::case::{AnimationFormat, Case, CaseError, CaseSource, Location};
use orrery_engine::compute_device::DeviceRequest;
use orrery_engine::control::{Control, StopReason};
use orrery_engine::run::{Replace, Summary};
use orrery_engine::system::Plan;
use orrery_engine::{EngineError, System, provenance, run as engine_run, survey};
use orrery_formats::{Limits, format_bytes};
use orrery_gravity::settings::StepChoice;
use orrery_model::format_count;
use serde_json::{Value, json};

use super::run_list::{Runs, Start, selected_shots};
use super::timing::{print_times, timing_json};
use super::{Ending, shell_quoted};
use crate::args::{CommonRunArgs, ResumeArgs, RunArgs};
use crate::failure::Failure;
use crate::json::JsonTarget;
use crate::log;
use crate::print::{self, eprint_line, print_line, print_lines};
use crate::progress::{Progress, format_duration, name_run};
use crate::ranks::LeadingRank;
use crate::signals;

/// Film of a run, with `image.animation = "mp4"`.
const FILM: &str = "animation.mp4";

/// Simulates a case.
pub fn run(arguments: &RunArgs, leader: &LeadingRank) -> Result<Ending, Failure> {
    let common = &arguments.common;
    let limits = common.memory.limits();
    let mut sets = arguments.set.clone();
    let source = CaseSource::from_argument(&arguments.case)?;
    if let Some(flag) = arguments.precision {
        let key = format!("{}.precision", source.physics(&sets)?.as_str());
        super::add_flag(&mut sets, "--precision", &key, flag.0.as_str())?;
    }
    // The longest stable step of a field is computed when the case is loaded.
    super::use_threads(leader.threads)?;
    let case = Case::load_within(&source, &sets, Some(limits.memory)).map_err(|error| {
        let flag = arguments.precision.map(|flag| format!("--precision {}", flag.0.as_str()));
        name_flag(error, arguments.set.len(), flag)
    })?;
    let folder = arguments.out.clone().unwrap_or_else(|| PathBuf::from("out").join(&case.name));
    let runs = match selected_shots(&case) {
        Some(shots) => Runs::of_survey(&source, &sets, case, &shots, &folder, &limits)?,
        None => Runs { runs: vec![(case, folder)], survey: None },
    };
    if arguments.dry_run {
        let (case, folder) = &runs.runs[0];
        print_dry_run(case, folder, leader, &limits)?;
        if runs.survey.is_some() {
            print_line!("# {} shots, one after another; this is the first one", runs.runs.len());
        }
        return Ok(Ending::Done);
    }
    let targets = prepare_json(common, arguments.force)?;
    let start = match (arguments.resume, arguments.force) {
        (true, _) => Start::Resume { restart_outputs: false },
        (false, true) => Start::New(Replace::Any),
        (false, false) => Start::New(Replace::Nothing),
    };
    runs.check_usable(start)?;
    // A missing device is an error in the flags, so it is found before anything is printed.
    leader.check_devices()?;
    let control = prepare_control(common, limits, leader)?;
    runs.execute(start, &control, common, targets)
}

/// Resumes the shots of a survey, and starts those that were not started.
fn resume_survey(arguments: &ResumeArgs, leader: &LeadingRank) -> Result<Ending, Failure> {
    let (folder, common) = (&arguments.folder, &arguments.common);
    let limits = common.memory.limits();
    let targets = prepare_json(common, arguments.force)?;
    let sets = resume_sets(arguments)?;
    super::use_threads(leader.threads)?;
    let source = survey::resumed_source(folder, &sets).map_err(|error| name_end_flag(error, arguments))?;
    let case = Case::load_within(&source, &sets, Some(limits.memory))?;
    let shots = selected_shots(&case).unwrap_or_default();
    let runs = Runs::of_survey(&source, &sets, case, &shots, folder, &limits)?;
    let start = Start::Resume { restart_outputs: arguments.force };
    runs.check_usable(start)?;
    leader.check_devices()?;
    let control = prepare_control(common, limits, leader)?;
    runs.execute(start, &control, common, targets)
}

/// Returns the settings of `--set` and `--end`.
fn resume_sets(arguments: &ResumeArgs) -> Result<Vec<String>, Failure> {
    let mut sets = arguments.set.clone();
    if let Some(end) = &arguments.end {
        super::add_flag(&mut sets, "--end", "time.end", end)?;
    }
    Ok(sets)
}

/// Names the flag `--end` in an error about its value.
fn name_end_flag(error: EngineError, arguments: &ResumeArgs) -> EngineError {
    match error {
        EngineError::Case(error) => {
            let flag = arguments.end.as_ref().map(|end| format!("--end {end}"));
            EngineError::Case(name_flag(error, arguments.set.len(), flag))
        }
        error => error,
    }
}

/// Resumes a run or a survey.
pub fn resume(arguments: &ResumeArgs, leader: &LeadingRank) -> Result<Ending, Failure> {
    let (folder, common) = (&arguments.folder, &arguments.common);
    if survey::is_survey(folder) {
        return resume_survey(arguments, leader);
    }
    let [json, timing] = prepare_json(common, arguments.force)?;
    super::use_threads(leader.threads)?;
    let control = prepare_control(common, common.memory.limits(), leader)?;
    let mut progress = Progress::new(common.quiet).of_run(folder);
    let sets = resume_sets(arguments)?;
    let run = engine_run::Resume { folder, sets: &sets, restart_outputs: arguments.force };
    let outcome = engine_run::resume(&run, &control, |event| progress.print_event(&event))
        .map_err(|error| name_end_flag(error, arguments));
    progress.finish();
    let summary = outcome.map_err(|error| match common.quiet {
        true => name_run(error, folder),
        false => error.into(),
    })?;
    json.write(|| summary_json(&summary, folder))?;
    timing.write(|| timing_json(&summary))?;
    Ok(print_end(&summary, folder, folder))
}

/// Checks the targets of `--json` and `--timing`, see [`JsonTarget::prepare`]. Refuses the same
/// target for both: a reader expects one JSON object, and a second file would replace the first.
fn prepare_json(common: &CommonRunArgs, force: bool) -> Result<[JsonTarget<'_>; 2], Failure> {
    let (json, timing) = (common.json.as_deref(), common.timing.as_deref());
    if let Some(path) = json.filter(|_| json == timing) {
        let path = path.display();
        let expected = match path.to_string().as_str() {
            "-" => "standard output has one JSON object, expected a file for one of them",
            _ => "expected two different files",
        };
        return Err(Failure::Usage(format!("--json {path} --timing {path}: {expected}")));
    }
    Ok([JsonTarget::prepare(json, force)?, JsonTarget::prepare(timing, force)?])
}

/// Names the flag with its value in an error about this value. It is the setting after the
/// `set_count` settings of `--set`.
fn name_flag(error: CaseError, set_count: usize, flag: Option<String>) -> CaseError {
    match (error, flag) {
        (CaseError { label, location: Location::Set { index, .. }, message }, Some(text))
            if index == set_count =>
        {
            CaseError { label, location: Location::Set { index, text }, message }
        }
        (error, _) => error,
    }
}

/// Starts the log, installs the signal handlers and returns the run's control flags.
fn prepare_control(common: &CommonRunArgs, limits: Limits, leader: &LeadingRank) -> Result<Control, Failure> {
    log::start();
    if common.quiet {
        print::suppress_text();
    }
    if common.verbose {
        print::show_details();
    }
    // A limit beyond the range of `Instant` is no limit.
    let deadline = common.wall_time.and_then(|wall_time| Instant::now().checked_add(wall_time));
    let device = super::tune::device_request(leader.device(), common.no_tuned);
    let ranks = leader.ranks.clone();
    let ignores_claims = common.no_lock;
    let control = Control { deadline, limits, device, ranks, ignores_claims, ..Control::default() };
    if !common.quiet {
        signals::announce_stop(&control);
    }
    signals::install_handlers(&control).map_err(signals::install_failure)?;
    Ok(control)
}

pub fn print_case(case: &Case, folder: &Path) {
    match case.description.as_str() {
        "" => print_line!("{}", case.name),
        description => print_line!("{}: {description}", case.name),
    }
    let precision = case.physics.precision().as_str();
    print_line!("{precision} precision, output in {}", folder.display());
}

/// Prints the summary of a finished run, or how to resume a stopped one. `whole` is the folder of
/// its survey, or its folder.
pub fn print_end(summary: &Summary, folder: &Path, whole: &Path) -> Ending {
    let Some((reason, checkpoint)) = &summary.stopped else {
        print_summary(summary, folder);
        return Ending::Done;
    };
    print_times(summary);
    let cause = match reason {
        StopReason::Requested => "by a signal",
        StopReason::WallTime => "at the wall-time limit",
    };
    eprint_line!("stopped after step {}, {cause}; checkpoint: {}", summary.step, checkpoint.display());
    eprint_line!("resume with: orrery resume {}", shell_quoted(whole));
    Ending::Stopped
}

/// Returns the summary of a run as JSON.
pub fn summary_json(summary: &Summary, folder: &Path) -> Value {
    let case = &summary.case;
    let stopped = summary.stopped.as_ref().map(|(reason, checkpoint)| {
        let reason = match reason {
            StopReason::Requested => "signal",
            StopReason::WallTime => "wall time",
        };
        json!({ "reason": reason, "checkpoint": checkpoint.display().to_string() })
    });
    let units = summary.schema.quantities.iter().map(|quantity| (quantity.name, quantity.unit.as_str()));
    let mut value = json!({
        "program": format!("orrery {}", provenance::VERSION),
        "commit": provenance::COMMIT,
        "name": case.name,
        "folder": folder.display().to_string(),
        "units": case.units.describe(),
        "quantity_units": units.collect::<BTreeMap<_, _>>(),
        "first_step": summary.from,
        "step": summary.step,
        "seconds": summary.elapsed.as_secs_f64(),
        "times": {
            "steps": summary.times.steps.as_secs_f64(),
            "output": summary.times.output().as_secs_f64(),
            "checkpoints": summary.times.checkpoints.as_secs_f64(),
            "waiting": summary.times.waiting.as_secs_f64(),
        },
        "stopped": stopped,
        "settled": summary.is_settled,
        "ranks": summary.rank_times.len().max(1),
    });
    if let Value::Object(fields) = &mut value {
        if !summary.solution_errors.is_empty() {
            let errors = summary.solution_errors.iter().map(|error| (error.solution, error.max));
            fields.insert("largest_errors".to_owned(), json!(errors.collect::<BTreeMap<_, _>>()));
        }
        fields.extend(summary.details.clone());
    }
    value
}

fn print_summary(summary: &Summary, folder: &Path) {
    let steps = summary.step - summary.from;
    if steps == 0 {
        let (name, step) = (folder.display(), summary.step);
        if summary.is_settled {
            let end = "it has settled, and a later end does not continue it";
            print_line!("{name}: already finished at step {step}, nothing to do; {end}");
            return;
        }
        let extend = format!("orrery resume {} --end TIME", shell_quoted(folder));
        print_line!("{name}: already finished at step {step}, nothing to do; {extend} extends it");
        return;
    }
    let seconds = summary.elapsed.as_secs_f64();
    let noun = if summary.step == 1 { "step" } else { "steps" };
    let all = if summary.from == 0 { String::new() } else { format!(" of {}", summary.step) };
    print_line!(
        "{}, {steps}{all} {noun} ({}) to t = {} in {}: {:.2e} {}-steps/s",
        summary.size,
        summary.method_text,
        summary.case.units.format_time(summary.first_and_last.1.time),
        format_duration(seconds),
        summary.size.count as f64 * steps as f64 / seconds,
        summary.size.one
    );
    if summary.is_settled {
        let end = summary.case.units.format_time(summary.case.time.end);
        print_line!("settled: the run ends before t = {end}");
    }
    print_line!("");
    print_quantities(summary);
    for error in &summary.solution_errors {
        print_line!("largest difference to the {} solution: {:.2e}", error.solution, error.max);
    }
    print_times(summary);
    print_line!("");
    let folder = folder.display().to_string();
    match summary.case.image.animation {
        AnimationFormat::None => print_line!("{folder}/images           images"),
        _ => print_line!("{folder}/animation.gif    animation; single images in {folder}/images"),
    }
    if summary.case.image.animation == AnimationFormat::Mp4 && Path::new(&folder).join(FILM).exists() {
        print_line!("{folder}/{FILM}    the same as a film");
    }
    for (name, description) in summary.files.iter().filter(|(name, _)| Path::new(&folder).join(name).exists())
    {
        print_line!("{folder}/{name:<16} {}", description.replace("FOLDER", &folder));
    }
}

/// Prints a table of the measured quantities at the start and the end of a run. Changes are
/// relative to the value at the start. One that is 0 there has none.
fn print_quantities(summary: &Summary) {
    print_line!("{:<18} {:>16} {:>16} {:>15}", "", "start", "end", "relative change");
    let (first, last) = &summary.first_and_last;
    let [first, last] = [first, last].map(summary.schema.summary);
    for (first, last) in first.iter().zip(last) {
        let (title, a, b) = (first.title, first.value, last.value);
        let change = match first.has_change {
            true if a == 0.0 => "-".to_owned(),
            true => format!("{:+.2e}", (b - a) / a.abs()),
            false => String::new(),
        };
        let line =
            format!("{title:<18} {a:>16.8e} {b:>16.8e} {change:>15}  {}", summary.schema.unit(first.column));
        print_line!("{}", line.trim_end());
    }
}

fn print_warning(warning: &str) {
    eprint_line!("warning: {warning}");
}

/// Prints the resolved case, and as comments the memory, device and output directory of the run.
fn print_dry_run(case: &Case, folder: &Path, leader: &LeadingRank, limits: &Limits) -> Result<(), Failure> {
    let device = DeviceRequest { choice: leader.device(), ..DeviceRequest::default() };
    let ranks = leader.ranks.clone();
    let control = Control { limits: *limits, device, ranks, ..Control::default() };
    let Plan { case, size, host_bytes, selected, device_bytes } =
        System::plan(case, &control, &mut print_warning)?;
    print_lines(case.to_toml().trim_end());
    print_line!("");
    print_line!("# {size}: about {} of memory", format_bytes(host_bytes));
    if limits.memory < u64::MAX {
        print_line!("# {} available", format_bytes(limits.memory));
    }
    if leader.ranks.size() > 1 {
        print_line!("# {} ranks, on rank 0:", leader.ranks.size());
    }
    print_line!("# device: {selected}");
    if let (Some(device), Some(needed)) = (&selected.device, device_bytes) {
        let (needed, free) = (format_bytes(needed), device.memory().map_err(EngineError::from)?.free);
        print_line!("# about {needed} on {}, {} free", device.label(), format_bytes(free));
    }
    if let StepChoice::Fixed(step) = case.time.step {
        let steps = ((case.time.end - case.time.known_start()) / step).ceil() as u64;
        print_line!("# {}", format_count(steps, "step", "steps"));
    }
    print_line!("# output would go to {}", folder.display());
    Ok(())
}
