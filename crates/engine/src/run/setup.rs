//! Setup of a run, from a case or from a checkpoint.

use std::path::Path;

use orrery_formats::{Manifest, hash_file};

use super::{LOG_FILE, Output, Resume, Run, RunParts};
use crate::case::{Case, OnError};
use crate::checkpoint::{self, Checkpoints, LoadedCheckpoint, RunState};
use crate::compute_device::{self, ComputeDevice};
use crate::control::{Control, RunEvent};
use crate::error::EngineError;
use crate::film;
use crate::folder;
use crate::identity::{
    Difference, check_case_file, comparable_case, fixed_difference, keep_start_file, write_run_info,
};
use crate::integrity;
use crate::observers::{self, Observers};
use crate::provenance;
use crate::reporter::Reporter;
use crate::simulation::{Moment, Simulation};
use crate::system::System;

impl<'a> Run<'a> {
    /// Starts a new run: creates the system, prepares the folder and writes the first checkpoint.
    /// `control` can stop the run, and `report` is called on every event.
    pub fn start(
        case: &Case,
        output: &Output,
        control: &'a Control,
        report: impl FnMut(RunEvent<'_>) + Send + 'a,
    ) -> Result<Self, EngineError> {
        let mut reporter = Reporter::new(control, case.output.on_error, report);
        output.check_usable()?;
        output.check_is_not_input(case)?;
        control.ranks.check_case(case)?;
        let selected = compute_device::select_device_of(&control.ranks, control.device.choice)?;
        let (case, system) = System::start(case, selected, control, reporter.report_fn())?;
        observers::check_table_memory(&case, control.limits.memory)?;
        control.ranks.report_devices(reporter.report_fn());
        let (device, strategy) = (system.device(), system.strategy_text());
        let read = system.input_hashes();
        let provenance = provenance::run_provenance(&case, system.method(), device, strategy, read)
            .map_err(EngineError::Input)?;
        let simulation = Simulation::new(&case, system, 0, case.time.known_start())?;
        let moment = simulation.moment();

        let inputs = provenance.iter().find(|(name, _)| name == "inputs");
        let before = folder::recorded_inputs(&output.folder);
        for path in case.input_files() {
            let now = inputs.and_then(|(_, text)| provenance::recorded_input_hash(text, &path));
            report_changed_input(&path, before.as_deref(), now.unwrap_or_default(), false, &mut reporter);
        }
        let lock = reporter.retry(|_| {
            let lock = output.lock(control.ignores_claims)?;
            output.clear()?;
            Ok(lock)
        })?;
        let folder = output.folder.clone();
        let (observers, checkpoints) = reporter.retry(|_| {
            let manifest = Manifest::start(&folder);
            write_run_info(&folder, &case, &provenance)?;
            keep_start_file(&folder, &case, &provenance)?;
            manifest.create_file().map_err(EngineError::Output)?;
            let observers = Observers::new(&case, moment.system, &folder, &provenance, manifest)?;
            Ok((observers, Checkpoints::new(&case, &folder, &moment)?))
        })?;
        reporter.report(RunEvent::Ready { case: &case, folder: &folder, system: moment.system });
        if !lock.is_enforced() {
            reporter.report(RunEvent::NoFileLocks);
        }
        if film::lacks_ffmpeg(&case) {
            reporter.report(RunEvent::NoFfmpeg);
        }
        let before_end = None;
        let parts =
            RunParts { case, folder, provenance, simulation, observers, checkpoints, before_end, lock };
        control.ranks.start_times(&parts.folder.join(LOG_FILE))?;
        let mut run = Self::new(parts, reporter);
        // A checkpoint at step 0, even with `checkpoint.every = 0`: every run that started can be
        // resumed.
        run.save_checkpoint(0.0)?;
        Ok(run)
    }

    /// Resumes a run from its newest intact checkpoint.
    pub fn resume(
        resume: &Resume<'_>,
        control: &'a Control,
        report: impl FnMut(RunEvent<'_>) + Send + 'a,
    ) -> Result<Self, EngineError> {
        Self::resume_from_checkpoint(resume, None, control, report)
    }

    /// Resumes from the newest intact checkpoint. If `expected` is given, the checkpoint must be
    /// from a run of that case.
    pub(super) fn resume_from_checkpoint(
        resume: &Resume<'_>,
        expected: Option<&Case>,
        control: &'a Control,
        report: impl FnMut(RunEvent<'_>) + Send + 'a,
    ) -> Result<Self, EngineError> {
        let folder = resume.folder;
        check_has_checkpoint(folder)?;
        let lock = folder::lock_folder(folder, control.ignores_claims)?;
        let mut reporter = Reporter::new(control, OnError::default(), report);
        let loaded = checkpoint::load_newest(folder, &control.limits, |error| {
            reporter.report(RunEvent::DamagedCheckpoint(error));
        })?;
        let case = resumed_case(resume, expected, &loaded)?;
        control.ranks.check_case(&case)?;
        observers::check_table_memory(&case, control.limits.memory)?;
        reporter.set_on_error(case.output.on_error);
        let inputs = loaded.provenance.iter().find(|(name, _)| name == "inputs");
        for path in expected.map(|_| case.input_files()).unwrap_or_default() {
            let now = hash_file(&path).map_err(EngineError::Input)?;
            let before = inputs.map(|(_, text)| text.as_str());
            report_changed_input(&path, before, &now, true, &mut reporter);
        }
        let edited = check_case_file(folder, &loaded.case, &case)?;
        let end_before = loaded.case.time.end;
        let is_new_end = case.time.end != end_before;
        let rewinds = is_new_end && loaded.simulation.has_reached_end();
        let loaded = if is_new_end { loaded.with_end_of(folder, &case)? } else { loaded };
        let loaded = loaded.with_ranks(&case, control.ranks.size());
        if rewinds && !resume.restart_outputs {
            let schema = loaded.simulation.moment().system.schema(&case.units);
            loaded.observers.check_files(folder, &schema)?;
        }
        let selected = device_for_resume(&loaded, control)?;
        let is_finished = loaded.simulation.is_finished();
        let report = reporter.report_fn();
        let mode = (is_finished, resume.restart_outputs);
        integrity::report_differences(folder, &loaded.observers, mode, control, report)?;
        loaded.rename_damaged();
        folder::remove_unfinished_files(folder);
        if !lock.is_enforced() {
            reporter.report(RunEvent::NoFileLocks);
        }
        let recorded = selected.device.as_ref().and_then(|device| loaded.recorded_strategy(device));
        let recorded = recorded.map(str::to_owned);
        let LoadedCheckpoint {
            path,
            writer,
            mut provenance,
            simulation,
            observers,
            blocks,
            before_end,
            read_time,
            ..
        } = loaded;
        if is_new_end {
            provenance::replace_case(&mut provenance, &case);
        }
        let is_moved = selected.device.is_some() || control.ranks.size() > 1;
        let simulation = match is_moved {
            true => simulation.try_map_system(|system| {
                system.moved_to(&case, &selected, recorded.as_deref(), control, reporter.report_fn())
            })?,
            false => simulation,
        };
        let moment = simulation.moment();
        let Moment { step, time, system } = moment;
        let is_finished = simulation.is_finished();
        reporter.report(RunEvent::Resumed { case: &case, path: &path, step, time, is_finished });
        if let Some(Difference { found, given }) = &edited {
            reporter.report(RunEvent::CaseFileEdited { folder, found, given });
        }
        if is_new_end {
            reporter.report(RunEvent::EndChanged { case: &case, before: end_before });
        }
        if case.wave().is_some_and(|wave| wave.time_dispersion.is_none()) {
            reporter.report(RunEvent::InputWarning(RAW_TIME_DISPERSION));
        }
        reporter.report(RunEvent::Device(&selected));
        control.ranks.report_devices(reporter.report_fn());
        record_new_writer(&writer, &selected, step, &mut provenance, &mut reporter);

        let (observers, checkpoints) = reporter.retry(|reporter| {
            let mut checkpoints = Checkpoints::new(&case, folder, &moment)?;
            if rewinds {
                let blocks = blocks.clone().into_remaining();
                let observers = observers.clone();
                let (case, provenance) = (&case, provenance.as_slice());
                let state = RunState { case, provenance, moment, observers, blocks, before_end: None };
                checkpoints.save_extended(&state)?;
                folder::remove_output_of_end(folder, &state.observers)?;
            }
            let manifest = observers::reopen_manifest(folder, &observers, reporter.report_fn())?;
            write_run_info(folder, &case, &provenance)?;
            manifest.create_file().map_err(EngineError::Output)?;
            let saved = (&observers, &mut blocks.clone(), manifest);
            let (restart, report) = (resume.restart_outputs, reporter.report_fn());
            let resumed = Observers::resume(&case, system, folder, &provenance, saved, restart, report)?;
            if !is_finished {
                resumed.remove_later_frames(&observers, restart, reporter.report_fn())?;
            }
            Ok((resumed, checkpoints))
        })?;
        reporter.report(RunEvent::Ready { case: &case, folder, system });
        if film::lacks_ffmpeg(&case) {
            reporter.report(RunEvent::NoFfmpeg);
        }
        let folder = folder.to_owned();
        let parts =
            RunParts { case, folder, provenance, simulation, observers, checkpoints, before_end, lock };
        control.ranks.start_times(&parts.folder.join(LOG_FILE))?;
        // Reading the checkpoint took about as long as writing one will.
        let mut run = Self { is_resumed: true, longest_save: read_time, ..Self::new(parts, reporter) };
        if resume.restart_outputs || (is_new_end && !rewinds) {
            // The old checkpoint describes the files before the restart, or the old end. The next
            // resume needs the new ones.
            run.save_checkpoint(0.0)?;
        }
        Ok(run)
    }
}

/// Warning about a run of waves that an earlier version started.
const RAW_TIME_DISPERSION: &str = "the run was started without wave.time_dispersion, so its waves keep their error in \
                                   time; a new run has corrected seismograms";

/// Returns the case of a resumed run: `expected`, or that of the checkpoint with the new settings.
/// Keys that a run cannot change are an error.
fn resumed_case(
    resume: &Resume<'_>,
    expected: Option<&Case>,
    loaded: &LoadedCheckpoint,
) -> Result<Case, EngineError> {
    let case = match expected {
        Some(expected) => comparable_case(expected, &loaded.case),
        None => Case::load_from_checkpoint(&loaded.case.to_toml(), "case", resume.sets)?,
    };
    let path = resume.folder.to_owned();
    match (fixed_difference(&loaded.case, &case), expected) {
        (None, _) => Ok(case),
        (Some(Difference { found, given }), Some(_)) => {
            Err(EngineError::CaseDiffers { path, found, expected: given })
        }
        (Some(Difference { found, given }), None) => Err(EngineError::FixedKey { path, found, given }),
    }
}

/// Returns an error unless `folder` is a folder with a checkpoint and without linked subfolders.
fn check_has_checkpoint(folder: &Path) -> Result<(), EngineError> {
    if !folder.is_dir() {
        return Err(EngineError::NotAFolder { path: folder.to_owned() });
    }
    if !checkpoint::exists_in(folder) {
        return Err(EngineError::NoCheckpoint { path: folder.to_owned(), damaged: 0 });
    }
    folder::check_no_links(folder)
}

/// Selects the device of a resumed run and checks its memory.
fn device_for_resume(loaded: &LoadedCheckpoint, control: &Control) -> Result<ComputeDevice, EngineError> {
    let system = loaded.simulation.moment().system;
    let ranks = &control.ranks;
    let choice = loaded.resumed_device_choice(control.device.choice, ranks.size());
    let selected = compute_device::select_device_of(ranks, choice)?;
    let selected =
        compute_device::ensure_support(selected, choice, |device| system.unsupported_reason(device))?;
    compute_device::ensure_memory(selected, choice, system.size(), |device| {
        system.device_bytes(device).saturating_mul(ranks.ranks_on_device())
    })
}

/// Reports that the input file of a run has changed, if it has. `inputs` is the text in the
/// provenance of the earlier run, and `hash` the hash of the file now.
fn report_changed_input(
    path: &Path,
    inputs: Option<&str>,
    hash: &str,
    is_resumed: bool,
    reporter: &mut Reporter<'_>,
) {
    let before = inputs.and_then(|text| provenance::recorded_input_hash(text, path));
    if before.is_some_and(|before| before != hash) {
        reporter.report(RunEvent::InputChanged { path, is_resumed });
    }
}

/// Reports a checkpoint that another program version or device wrote, and adds the present writer
/// to the provenance.
fn record_new_writer(
    before: &str,
    selected: &ComputeDevice,
    step: u64,
    provenance: &mut Vec<(String, String)>,
    reporter: &mut Reporter<'_>,
) {
    let now = checkpoint::writer_text(selected.device.as_ref());
    if before == now {
        return;
    }
    reporter.report(RunEvent::WriterChanged { before, now: &now });
    let name = format!("resumed at step {step}");
    provenance.retain(|(known, _)| *known != name);
    provenance.push((name, now));
}
