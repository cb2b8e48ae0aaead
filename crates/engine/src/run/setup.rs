//! Setup of a run, from a case or from a checkpoint.

use std::path::Path;

use orrery_model::{Particles, Precision};
use orrery_particles::bodies::DeviceSetup;
use orrery_particles::resolution::{MAX_SINGLE_ROUNDING, single_rounding};
use orrery_particles::settings::GravitySettings;
use orrery_particles::solver::device::DeviceStrategy;

use super::{Output, ReportFn, Resume, Run, RunParts};
use crate::case::{Case, OnError};
use crate::checkpoint::{self, Checkpoints, LoadedCheckpoint, RunState};
use crate::compute_device::{self, ComputeDevice};
use crate::control::{Control, RunEvent};
use crate::error::EngineError;
use crate::folder;
use crate::identity::{Difference, check_case_file, fixed_difference, write_run_info};
use crate::observers::Observers;
use crate::provenance;
use crate::retry::retry_on_storage_error;
use crate::simulation::{Moment, Simulation};
use crate::start::{self, Start};

impl<'a> Run<'a> {
    /// Starts a new run: creates the bodies, prepares the folder and writes the first checkpoint.
    pub fn start(
        case: &Case,
        output: &Output,
        control: &'a Control,
        report: &'a mut ReportFn<'a>,
    ) -> Result<Self, EngineError> {
        output.check_usable()?;
        output.check_is_not_input(case)?;
        let selected = compute_device::select_device(control.device.choice)?;
        let Start { particles, time, file_time } =
            start::initial_bodies(case, &control.limits, &control.stop, &mut |warning| {
                report(RunEvent::InputWarning(warning));
            })?;
        let mut case = start::with_absolute_paths(case);
        case.time.start = Some(time);
        if let Some(file_time) = file_time {
            report(RunEvent::StartTime { case: &case, file_time });
        }
        if case.gravity.precision == Precision::Single {
            let rounding = single_rounding(&particles.position, case.gravity.eps);
            if rounding > MAX_SINGLE_ROUNDING {
                report(RunEvent::UnresolvedBodies { rounding });
            }
        }
        let simulation = new_simulation(&case, particles, selected, control, report)?;
        let moment = simulation.moment();
        let Moment { bodies, .. } = moment;
        let (device, strategy) = (bodies.device(), bodies.device_strategy());
        let provenance = provenance::run_provenance(&case, bodies.solver_name(), device, strategy)
            .map_err(EngineError::Input)?;

        let inputs = provenance.iter().find(|(name, _)| name == "inputs");
        if let (Some(path), Some((_, now)), Some(before)) =
            (case.bodies_file(), inputs, folder::recorded_inputs(&output.folder))
        {
            let [now, before] = [now, &before].map(|text| provenance::recorded_input_hash(text, &path));
            if before.is_some() && before != now {
                report(RunEvent::InputChanged { path: &path, is_resumed: false });
            }
        }
        let on_error = case.output.on_error;
        let lock = retry_setup(report, on_error, control, |_| output.lock_and_clear())?;
        let folder = output.folder.clone();
        let (observers, checkpoints) = retry_setup(report, on_error, control, |_| {
            write_run_info(&folder, &case, &provenance)?;
            let observers = Observers::new(&case, moment.particles()?, &folder, &provenance)?;
            Ok((observers, Checkpoints::new(&case, &folder, &moment)?))
        })?;
        report(RunEvent::Ready { case: &case, folder: &folder, bodies });
        if !lock.is_enforced() {
            report(RunEvent::NoFileLocks);
        }
        let before_end = None;
        let parts =
            RunParts { case, folder, provenance, simulation, observers, checkpoints, before_end, lock };
        let mut run = Self::new(parts, control, report);
        // A checkpoint at step 0, even with `checkpoint.every = 0`: every run that started can be
        // resumed.
        run.save_checkpoint(0.0)?;
        Ok(run)
    }

    /// Resumes from the newest intact checkpoint. If `expected` is given, the checkpoint must be
    /// from a run of that case.
    pub fn resume_from_checkpoint(
        resume: &Resume<'_>,
        expected: Option<&Case>,
        control: &'a Control,
        report: &'a mut ReportFn<'a>,
    ) -> Result<Self, EngineError> {
        let folder = resume.folder;
        check_has_checkpoint(folder)?;
        let lock = folder::lock_folder(folder)?;
        let loaded = checkpoint::load_newest(folder, &control.limits, |error| {
            report(RunEvent::DamagedCheckpoint(error));
        })?;
        let case = match expected {
            Some(expected) => {
                let mut case = start::with_absolute_paths(expected);
                // Without `time.start`, the run started at the time of its file.
                case.time.start = case.time.start.or(loaded.case.time.start);
                case
            }
            None => Case::load_from_checkpoint(&loaded.case.to_toml(), "case", resume.sets)?,
        };
        if let Some(Difference { found, given }) = fixed_difference(&loaded.case, &case) {
            let path = folder.to_owned();
            return Err(match expected {
                Some(_) => EngineError::CaseDiffers { path, found, expected: given },
                None => EngineError::FixedKey { path, found, given },
            });
        }
        if let Some(path) = expected.and(case.bodies_file()) {
            let inputs = loaded.provenance.iter().find(|(name, _)| name == "inputs");
            let before = inputs.and_then(|(_, text)| provenance::recorded_input_hash(text, &path));
            let now = provenance::hash_file(&path).map_err(EngineError::Input)?;
            if before.is_some_and(|before| before != now) {
                report(RunEvent::InputChanged { path: &path, is_resumed: true });
            }
        }
        let edited = check_case_file(folder, &loaded.case, &case)?;
        let end_before = loaded.case.time.end;
        let (is_new_end, was_finished) = (case.time.end != end_before, loaded.is_finished());
        let loaded = if is_new_end { loaded.with_end_of(folder, &case)? } else { loaded };
        let rewinds = is_new_end && was_finished;
        if rewinds && !resume.restart_outputs {
            loaded.observers.check_files(folder)?;
        }
        let selected = device_for_resume(&loaded, &case, control)?;
        loaded.rename_damaged();
        folder::remove_unfinished_files(folder);
        if !lock.is_enforced() {
            report(RunEvent::NoFileLocks);
        }
        let recorded = selected.device.as_ref().and_then(|device| loaded.recorded_strategy(device));
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
        let simulation = move_to_device(simulation, &selected, recorded, control, report)?;
        let moment = simulation.moment();
        let Moment { step, time, bodies } = moment;
        report(RunEvent::Resumed { case: &case, path: &path, step, time });
        if let Some(Difference { found, given }) = &edited {
            report(RunEvent::CaseFileEdited { folder, found, given });
        }
        if is_new_end {
            report(RunEvent::EndChanged { case: &case, before: end_before });
        }
        report(RunEvent::Device(&selected));
        record_new_writer(&writer, &selected, step, &mut provenance, report);

        let (observers, checkpoints) = retry_setup(report, case.output.on_error, control, |report| {
            let mut checkpoints = Checkpoints::new(&case, folder, &moment)?;
            if rewinds {
                let blocks = blocks.clone().into_remaining();
                let observers = observers.clone();
                let (case, provenance) = (&case, provenance.as_slice());
                let state = RunState { case, provenance, moment, observers, blocks, before_end: None };
                checkpoints.save_extended(&state)?;
                folder::remove_output_of_end(folder, &state.observers)?;
            }
            write_run_info(folder, &case, &provenance)?;
            let saved = (&observers, &mut blocks.clone());
            let restart = resume.restart_outputs;
            let observers =
                Observers::resume(&case, bodies.len(), folder, &provenance, saved, restart, report)?;
            Ok((observers, checkpoints))
        })?;
        report(RunEvent::Ready { case: &case, folder, bodies });
        let folder = folder.to_owned();
        let parts =
            RunParts { case, folder, provenance, simulation, observers, checkpoints, before_end, lock };
        // Reading the checkpoint took about as long as writing one will.
        let mut run = Self { is_resumed: true, longest_save: read_time, ..Self::new(parts, control, report) };
        if resume.restart_outputs || (is_new_end && !rewinds) {
            // The old checkpoint describes the files before the restart, or the old end. The next
            // resume needs the new ones.
            run.save_checkpoint(0.0)?;
        }
        Ok(run)
    }
}

/// Creates the simulation of a new run on the selected device, or on the CPU if `auto` selected a
/// device with too little memory.
fn new_simulation(
    case: &Case,
    particles: Particles,
    selected: ComputeDevice,
    control: &Control,
    report: &mut ReportFn<'_>,
) -> Result<Simulation, EngineError> {
    let (n, gravity) = (particles.len(), Simulation::gravity_settings(case));
    let (choice, integrator) = (control.device.choice, case.time.integrator);
    let selected = compute_device::ensure_memory(selected, choice, n, &gravity, integrator)?;
    report(RunEvent::Device(&selected));
    let setup = set_up_device(&selected, n, &gravity, None, control, report);
    let simulation = Simulation::new(case, particles, setup.as_ref())?;
    // Bodies that are distinct in f64 can coincide in f32, and a softening can be too small to
    // matter there. Both give infinite forces.
    simulation.check_finite()?;
    Ok(simulation)
}

/// Returns an error unless `folder` is a folder with a checkpoint.
fn check_has_checkpoint(folder: &Path) -> Result<(), EngineError> {
    if !folder.is_dir() {
        return Err(EngineError::NotAFolder { path: folder.to_owned() });
    }
    if !checkpoint::exists_in(folder) {
        return Err(EngineError::NoCheckpoint { path: folder.to_owned(), damaged: 0 });
    }
    Ok(())
}

/// Selects the device of a resumed run and checks its memory.
fn device_for_resume(
    loaded: &LoadedCheckpoint,
    case: &Case,
    control: &Control,
) -> Result<ComputeDevice, EngineError> {
    let bodies = loaded.simulation.moment().bodies;
    let choice = loaded.resumed_device_choice(control.device.choice);
    let selected = compute_device::select_device(choice)?;
    let integrator = case.time.integrator;
    compute_device::ensure_memory(selected, choice, bodies.len(), bodies.settings(), integrator)
}

/// Moves a simulation from a checkpoint to the selected device. On the CPU it stays as it is.
fn move_to_device(
    simulation: Simulation,
    selected: &ComputeDevice,
    recorded: Option<DeviceStrategy>,
    control: &Control,
    report: &mut ReportFn<'_>,
) -> Result<Simulation, EngineError> {
    let bodies = simulation.moment().bodies;
    // The settings of the checkpoint: they contain the solver that `auto` selected at the start.
    let setup = set_up_device(selected, bodies.len(), bodies.settings(), recorded, control, report);
    match setup {
        Some(setup) => simulation.move_to_device(&setup),
        None => Ok(simulation),
    }
}

/// Returns the device and strategy for `n` bodies, or `None` for the CPU. Reports a strategy that
/// is not the default.
fn set_up_device(
    selected: &ComputeDevice,
    n: usize,
    gravity: &GravitySettings,
    recorded: Option<DeviceStrategy>,
    control: &Control,
    report: &mut ReportFn<'_>,
) -> Option<DeviceSetup> {
    let setup = control.device.setup(selected, n, gravity, recorded)?;
    if compute_device::is_tuned(&setup, n, gravity) {
        report(RunEvent::TunedStrategy(&setup.strategy));
    }
    Some(setup)
}

/// Reports a checkpoint that another program version or device wrote, and adds the present writer
/// to the provenance.
fn record_new_writer(
    before: &str,
    selected: &ComputeDevice,
    step: u64,
    provenance: &mut Vec<(String, String)>,
    report: &mut ReportFn<'_>,
) {
    let now = checkpoint::writer_text(selected.device.as_ref());
    if before == now {
        return;
    }
    report(RunEvent::WriterChanged { before, now: &now });
    let name = format!("resumed at step {step}");
    provenance.retain(|(known, _)| *known != name);
    provenance.push((name, now));
}

/// Calls `attempt`, which prepares the folder of a run. With `output.on_error = "wait"`, repeats it
/// until the storage works.
fn retry_setup<T>(
    mut report: &mut ReportFn<'_>,
    on_error: OnError,
    control: &Control,
    mut attempt: impl FnMut(&mut ReportFn<'_>) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    retry_on_storage_error(
        &mut report,
        on_error,
        control,
        |report, event| report(event),
        |report| attempt(*report),
    )
}
