//! Messages about the events of a run.

use orrery_engine::System;
use orrery_engine::case::{Case, OnDrift, available_memory};
use orrery_engine::control::RunEvent;
use orrery_formats::{MANIFEST_FILE, format_bytes};
use orrery_gravity::settings::StepChoice;
use orrery_measure::format::format_seconds;
use orrery_model::{format_count, short_number};

use crate::commands::shell_quoted;
use crate::progress::format_duration;

/// Where and when a message is printed. All messages are in `run.log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importance {
    /// On standard error.
    Warning,
    /// On standard error, except with `--quiet`.
    Notice,
    /// On standard output, except with `--quiet`.
    Text,
    /// On standard output with `--verbose`.
    Detail,
}

/// Returns the message about an event. `None` for a step, which only changes the progress line.
pub fn describe(event: &RunEvent<'_>) -> Option<(Importance, String)> {
    use Importance::{Detail, Notice, Text, Warning};
    Some(match event {
        RunEvent::Step(_) | RunEvent::Minimising(_) => return None,
        RunEvent::Minimised(status) => {
            let (steps, seconds) = (status.state.steps.into(), format_seconds(status.elapsed.as_secs_f64()));
            let steps = format_count(steps, "step", "steps");
            (Text, format!("minimised in {steps}, {seconds}: {status}"))
        }
        RunEvent::Device(selected) => (Text, format!("device: {selected}")),
        RunEvent::Ranks { transport, devices } => (Text, ranks_text(transport, devices)),
        RunEvent::TunedStrategy(strategy) => (Text, format!("tuned: {strategy}")),
        RunEvent::Accuracy(text) => (Text, (*text).to_owned()),
        RunEvent::StartTime { case, file_time } => (Text, start_time_text(case, *file_time)),
        RunEvent::Ready { case, system, .. } => (Detail, setup_text(case, system)),
        RunEvent::EndChanged { case, before } => {
            let [before, end] = [*before, case.time.end].map(|time| case.units.format_time(time));
            (Notice, format!("{}: the end changes from t = {before} to t = {end}", case.name))
        }
        RunEvent::Resumed { case, path, step, time, is_finished } => {
            let action = if *is_finished { "already finished" } else { "resuming" };
            let (name, time, path) = (&case.name, case.units.format_time(*time), path.display());
            (Notice, format!("{name}: {action} after step {step}, t = {time}, from {path}"))
        }
        RunEvent::CheckpointWritten { path, step, elapsed, is_requested } => {
            let importance = if *is_requested { Notice } else { Detail };
            let (path, seconds) = (path.display(), format_seconds(elapsed.as_secs_f64()));
            (importance, format!("checkpoint after step {step}: {path}, written in {seconds}"))
        }
        RunEvent::StorageRecovered => (Warning, "storage works again, the run continues".to_owned()),
        RunEvent::NoManifest { folder } => {
            let manifest = folder.join(MANIFEST_FILE);
            let text = "the run has no manifest, so its earlier files are not checked; one is started";
            (Notice, format!("{}: {text}", manifest.display()))
        }
        RunEvent::FilesNotRead { folder, count, bytes } => {
            let count = format_count(*count as u64, "file", "files");
            let (bytes, folder) = (format_bytes(*bytes), shell_quoted(folder));
            (Notice, format!("{count} ({bytes}) compared by length only; orrery check {folder} reads all"))
        }
        RunEvent::WaitingForStorage { error, pause } => {
            let pause = format_duration(pause.as_secs_f64());
            (Warning, format!("waiting: {error}; next attempt in {pause}"))
        }
        warning => (Warning, format!("warning: {}", warning_text(warning)?)),
    })
}

/// Returns the text of a warning. `None` for events that are not warnings.
fn warning_text(event: &RunEvent<'_>) -> Option<String> {
    Some(match event {
        RunEvent::DamagedCheckpoint(error) => format!("skipped a damaged checkpoint: {error}"),
        RunEvent::InputWarning(warning) => (*warning).to_owned(),
        RunEvent::Unresolved { step, text } => format!("step {step}: {text}"),
        RunEvent::WriterChanged { before, now } => {
            format!("the checkpoint was written by {before}, this is {now}: the last bits may differ")
        }
        RunEvent::CaseFileEdited { folder, found, given } => {
            let (folder, set) = (shell_quoted(folder), given.replace(" = ", "="));
            format!(
                "{folder}/case.toml was edited: it has {given}, the run keeps {found}; \
                 to change it: orrery resume {folder} --set '{set}'"
            )
        }
        RunEvent::InputChanged { path, is_resumed: true } => format!(
            "{} has changed since the run started from it; the run continues from its checkpoint, \
             run --force starts from the changed file",
            path.display()
        ),
        RunEvent::InputChanged { path, is_resumed: false } => {
            format!("{} has changed since the run that is replaced started from it", path.display())
        }
        RunEvent::OutputRestarted { path, kept: Some(kept) } => {
            format!("{}: restarted; the old file is kept as {}", path.display(), kept.display())
        }
        RunEvent::OutputRestarted { path, kept: None } => format!("{}: restarted", path.display()),
        RunEvent::OutputFailed(error) => error.to_string(),
        RunEvent::NoFfmpeg => "ffmpeg is not in PATH: the run writes animation.gif and no animation.mp4; \
                               install ffmpeg, or set image.animation = \"gif\""
            .to_owned(),
        RunEvent::NoFileLocks => {
            "this file system has no locks: the file .running prevents a second run in this directory; \
             if this run is killed, the next one on another computer needs --no-lock"
                .to_owned()
        }
        RunEvent::FileDiffers { path, problem } => format!("{}: {problem}", path.display()),
        RunEvent::MoreFilesDiffer { folder, count } => format!(
            "{} more differ; orrery check {} lists them",
            format_count(*count as u64, "file", "files"),
            shell_quoted(folder)
        ),
        RunEvent::MissingFiles { path, count: 1 } => {
            format!("{}: this output file of the run is missing; it is not written again", path.display())
        }
        RunEvent::MissingFiles { path, count } => format!(
            "{count} output files of the run are missing, the first is {}; they are not written again",
            path.display()
        ),
        RunEvent::AboveLimit { step, drift, error, limit } => format!(
            "step {step}: the {} is {error:.1e}, above {} ([limits] {}); {}",
            drift.title,
            short_number(*limit),
            drift.key,
            drift.advice
        ),
        RunEvent::ManySteps { steps, dt } => format!(
            "the run would take about {steps:.0e} steps of {dt:.1e}; \
             a longer step, a larger eta or an earlier end may be intended"
        ),
        RunEvent::ManyOutputs { outputs, interval, dt } => format!(
            "a step of {dt:.1e} has about {outputs:.0} outputs, every {}; states within a step hardly differ, \
             so a longer interval in [output] may be intended",
            short_number(*interval)
        ),
        RunEvent::Step(_)
        | RunEvent::Minimising(_)
        | RunEvent::Minimised(_)
        | RunEvent::Device(_)
        | RunEvent::Ranks { .. }
        | RunEvent::TunedStrategy(_)
        | RunEvent::Accuracy(_)
        | RunEvent::StartTime { .. }
        | RunEvent::Ready { .. }
        | RunEvent::EndChanged { .. }
        | RunEvent::Resumed { .. }
        | RunEvent::CheckpointWritten { .. }
        | RunEvent::NoManifest { .. }
        | RunEvent::FilesNotRead { .. }
        | RunEvent::StorageRecovered
        | RunEvent::WaitingForStorage { .. } => return None,
    })
}

/// Names the connection of the ranks and their devices, for example "ranks: 2 (threads), 0 on
/// cuda:0, NVIDIA H200; 1 on cuda:1, NVIDIA H200".
fn ranks_text(transport: &str, devices: &[String]) -> String {
    let count = devices.len();
    if devices.iter().all(|device| *device == devices[0]) {
        return format!("ranks: {count} ({transport}), each on {}", devices[0]);
    }
    let of_rank = |(rank, device): (usize, &String)| format!("{rank} on {device}");
    let list: Vec<String> = devices.iter().enumerate().map(of_rank).collect();
    format!("ranks: {count} ({transport}), {}", list.join("; "))
}

fn start_time_text(case: &Case, file_time: f64) -> String {
    let is_same = file_time == case.time.known_start();
    let [file_time, start] = [file_time, case.time.known_start()].map(|time| case.units.format_time(time));
    if is_same {
        format!("start: t = {start}, the time of the file of bodies")
    } else {
        format!("start: t = {start} (time.start), the time of the file of bodies is {file_time}")
    }
}

/// Describes method, steps, memory and limits of a run, one per line.
fn setup_text(case: &Case, system: &System) -> String {
    let start = case.time.known_start();
    let end = case.units.format_time(case.time.end);
    let steps = match case.time.step {
        StepChoice::Fixed(step) => {
            let count = format_count(((case.time.end - start) / step).ceil() as u64, "step", "steps");
            format!("steps: {count} of {} to t = {end}", case.units.format_time(step))
        }
        StepChoice::Adaptive { eta } => format!("steps: adaptive, eta {}, to t = {end}", short_number(eta)),
    };

    let mut memory = format!("memory: about {}", format_bytes(system.host_bytes()));
    if let Some(available) = available_memory() {
        memory += &format!(", {} available", format_bytes(available));
    }
    if let Some(device) = system.device() {
        let needed = format_bytes(system.device_bytes(device));
        memory += &format!("; about {needed} on {}", device.label());
    }

    let error = system.schema(&case.units).drift.map_or("error of the run", |drift| drift.title);
    let limit = match (case.limits.drift.map(short_number), case.limits.on_drift) {
        (None, _) => format!("limits: none for the {error}"),
        (Some(limit), OnDrift::Warn) => format!("limits: a warning above {limit} for the {error}"),
        (Some(limit), OnDrift::Stop) => format!("limits: stop above {limit} for the {error}"),
    };
    [system.setup_text(), steps, memory, limit].join("\n")
}
