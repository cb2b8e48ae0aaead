//! The run: step, look, save, report, until the end or until it is asked to stop.
//!
//! Invariant: what is written never feeds back. Checkpoints, stops, resumes, full disks and waiting leave the
//! trajectory and every output as they would have been.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orrery_io::Snapshot;

pub use crate::folder::{Output, Replace};
pub use crate::observers::Record;

use crate::case::{Case, OnEnergyError};
use crate::checkpoint::{self, Checkpoints, Saved};
use crate::compute_device;
use crate::control::{Control, RESERVE, Reason, RunEvent, Status};
use crate::error::EngineError;
use crate::folder::{self, Lock, POST_MORTEM};
use crate::identity::{check_same_run, write_about};
use crate::observers::Observers;
use crate::provenance;
use crate::retry::insist;
use crate::simulation::{Moment, Simulation};
use crate::start;

/// What a run leaves to say.
#[derive(Clone, Debug)]
pub struct Summary {
    /// What was simulated.
    pub case: Case,
    /// Bodies.
    pub bodies: usize,
    /// Steps completed since the start.
    pub step: u64,
    /// Step at which this process took over: 0, or the checkpoint's.
    pub from: u64,
    /// Wall time of this process's steps and their output.
    pub elapsed: Duration,
    /// How forces were computed.
    pub solver: &'static str,
    /// The first and the last row of the table.
    pub first_and_last: (Record, Record),
    /// Why it ended before its end, and the checkpoint to go on from.
    pub stopped: Option<(Reason, PathBuf)>,
}

/// Simulates `case` into `output`, as `control` allows, telling `report` of every step.
pub fn run(
    case: &Case,
    output: &Output,
    control: &Control,
    mut report: impl FnMut(RunEvent<'_>) + Send,
) -> Result<Summary, EngineError> {
    // On a thread of the pool: parallel loops begun outside it would wake it each time, which cost nine
    // bodies ten times what their step does.
    rayon::scope(|_| Run::begin(case, output, control, &mut report)?.complete())
}

/// A run to go on with.
#[derive(Clone, Copy, Debug)]
pub struct Resume<'a> {
    /// Its folder.
    pub folder: &'a Path,
    /// `KEY=VALUE` in place of what its case says; of `[checkpoint]`, `[limits]` and `output.on_error` only, which
    /// change nothing that was or will be computed.
    pub sets: &'a [String],
    /// Whether a table or animation that was changed since is begun again.
    pub anew: bool,
}

/// Goes on with a run.
pub fn resume(
    run: &Resume<'_>,
    control: &Control,
    mut report: impl FnMut(RunEvent<'_>) + Send,
) -> Result<Summary, EngineError> {
    rayon::scope(|_| Run::take_up(run, None, control, &mut report)?.complete())
}

/// Goes on with the run of `case` in `folder` if there is one, otherwise starts it.
pub fn run_or_resume(
    case: &Case,
    folder: &Path,
    control: &Control,
    mut report: impl FnMut(RunEvent<'_>) + Send,
) -> Result<Summary, EngineError> {
    rayon::scope(|_| {
        if checkpoint::exists_in(folder) {
            let run = Resume { folder, sets: &[], anew: false };
            return Run::take_up(&run, Some(case), control, &mut report)?.complete();
        }
        let output = Output { folder: folder.to_owned(), replace: Replace::Unbegun };
        Run::begin(case, &output, control, &mut report)?.complete()
    })
}

/// A run under way.
struct Run<'a> {
    case: Case,
    folder: PathBuf,
    provenance: Vec<(String, String)>,
    simulation: Simulation,
    observers: Observers,
    checkpoints: Checkpoints,
    control: &'a Control,
    report: &'a mut (dyn FnMut(RunEvent<'_>) + Send),
    from: (u64, f64),
    is_resumed: bool,
    began: Instant,
    /// The longest step so far, output included.
    longest_step: Duration,
    /// The longest that a checkpoint took.
    longest_save: Duration,
    /// All the time that was spent waiting for storage.
    paused: Duration,
    /// Whether it was said that the energy error is beyond its limit.
    warned: bool,
    _lock: Lock,
}

impl<'a> Run<'a> {
    /// Starts a new run.
    fn begin(
        case: &Case,
        output: &Output,
        control: &'a Control,
        mut report: &'a mut (dyn FnMut(RunEvent<'_>) + Send),
    ) -> Result<Self, EngineError> {
        output.check()?;
        output.check_is_not_input(case)?;
        let selected = compute_device::find(control.device.choice)?;
        let particles = start::bodies(case, &control.limits)?;
        let case = start::located(case);
        let (n, gravity) = (particles.len(), Simulation::gravity(&case));
        let selected =
            compute_device::with_room(selected, control.device.choice, n, &gravity, case.time.integrator)?;
        report(RunEvent::Device(&selected));
        let setup = control.device.setup(&selected, n, &gravity, None);
        if let Some(setup) = setup.as_ref().filter(|setup| compute_device::is_tuned(setup, n, &gravity)) {
            report(RunEvent::Tuned(&setup.strategy));
        }
        let simulation = Simulation::new(&case, particles, setup.as_ref())?;
        // Bodies apart in f64 may coincide in f32, and a softening may be too small to count.
        simulation.check_finite()?;
        let moment = simulation.moment();
        let Moment { bodies, .. } = moment;
        let (device, strategy) = (bodies.device(), bodies.device_strategy());
        let provenance =
            provenance::of_run(&case, bodies.solver_name(), device, strategy).map_err(EngineError::Input)?;

        let on_error = case.output.on_error;
        let lock = insist(&mut report, on_error, control, |report, news| report(news), |_| output.claim())?;
        let folder = output.folder.clone();
        let prepare = |_: &mut _| {
            write_about(&folder, &case, &provenance)?;
            let observers = Observers::new(&case, moment.particles()?, &folder, &provenance)?;
            Ok((observers, Checkpoints::new(&case, &folder, &moment)?))
        };
        let (observers, checkpoints) =
            insist(&mut report, on_error, control, |report, news| report(news), prepare)?;
        if !lock.holds() {
            report(RunEvent::Unlocked);
        }
        let mut run = Self {
            case,
            folder,
            provenance,
            simulation,
            observers,
            checkpoints,
            control,
            report,
            from: (0, 0.0),
            is_resumed: false,
            began: Instant::now(),
            longest_step: Duration::ZERO,
            longest_save: Duration::ZERO,
            paused: Duration::ZERO,
            warned: false,
            _lock: lock,
        };
        // Whatever the schedule says: a run that was started can be gone on with.
        run.save(0.0)?;
        Ok(run)
    }

    /// Goes on from the newest checkpoint that is whole; `expected` is the case that it must be of.
    fn take_up(
        run: &Resume<'_>,
        expected: Option<&Case>,
        control: &'a Control,
        mut report: &'a mut (dyn FnMut(RunEvent<'_>) + Send),
    ) -> Result<Self, EngineError> {
        let folder = run.folder;
        if !folder.is_dir() {
            return Err(EngineError::NotAFolder { path: folder.to_owned() });
        }
        if !checkpoint::exists_in(folder) {
            return Err(EngineError::NoCheckpoint { path: folder.to_owned(), damaged: 0 });
        }
        let lock = folder::lock(folder)?;
        let saved = checkpoint::newest(folder, &control.limits, |error| report(RunEvent::Damaged(error)))?;
        let case = match expected {
            Some(expected) => start::located(expected),
            None => Case::load_resumed(&saved.case.to_toml(), "case", run.sets)?,
        };
        check_same_run(folder, &saved.case, &case)?;
        let bodies = saved.simulation.moment().bodies;
        // Those of the checkpoint: with the solver that `auto` came to be.
        let (n, gravity) = (bodies.len(), *bodies.settings());
        let choice = saved.choice_again(control.device.choice);
        let selected = compute_device::with_room(
            compute_device::find(choice)?,
            choice,
            n,
            &gravity,
            case.time.integrator,
        )?;
        saved.set_damaged_aside();
        folder::clear_unfinished(folder);
        if !lock.holds() {
            report(RunEvent::Unlocked);
        }
        let recorded = selected.device.as_ref().and_then(|device| saved.strategy_on(device));
        let Saved { path, writer, mut provenance, simulation, observers, blocks, cost, .. } = saved;
        let setup = control.device.setup(&selected, n, &gravity, recorded);
        if let Some(setup) = setup.as_ref().filter(|setup| compute_device::is_tuned(setup, n, &gravity)) {
            report(RunEvent::Tuned(&setup.strategy));
        }
        let simulation = match setup {
            Some(setup) => simulation.moved_to(&setup)?,
            None => simulation,
        };
        let moment = simulation.moment();
        let (step, time) = (moment.step, moment.time);
        report(RunEvent::Resumed { case: &case, path: &path, step, time });
        report(RunEvent::Device(&selected));
        let now = checkpoint::writer(selected.device.as_ref());
        if writer != now {
            report(RunEvent::Moved { before: &writer, now: &now });
            let name = format!("resumed at step {step}");
            provenance.retain(|(known, _)| *known != name);
            provenance.push((name, now));
        }
        let prepare = |report: &mut &mut (dyn FnMut(RunEvent<'_>) + Send)| {
            write_about(folder, &case, &provenance)?;
            let bodies = moment.bodies.len();
            let saved = (&observers, &mut blocks.clone());
            let observers = Observers::resume(&case, bodies, folder, &provenance, saved, run.anew, *report)?;
            Ok((observers, Checkpoints::new(&case, folder, &moment)?))
        };
        let on_error = case.output.on_error;
        let (observers, checkpoints) =
            insist(&mut report, on_error, control, |report, news| report(news), prepare)?;
        let mut taken_up = Self {
            case,
            folder: folder.to_owned(),
            provenance,
            simulation,
            observers,
            checkpoints,
            control,
            report,
            from: (step, time),
            is_resumed: true,
            began: Instant::now(),
            longest_step: Duration::ZERO,
            longest_save: cost,
            paused: Duration::ZERO,
            warned: false,
            _lock: lock,
        };
        if run.anew {
            // What was begun again is what the next resume must find.
            taken_up.save(0.0)?;
        }
        Ok(taken_up)
    }

    fn complete(mut self) -> Result<Summary, EngineError> {
        let outcome = self.go();
        let finished = match outcome {
            // No time is left to draw; what goes on with the run will.
            Ok(Some((Reason::WallTime, _))) => Ok(()),
            // What was seen until an error is worth keeping; the error itself comes first.
            _ => self.insist(|run| run.observers.finish()),
        };
        let stopped = outcome.map_err(|error| self.last_words(error))?;
        match finished {
            // It stopped in good order, with a checkpoint: a plot less does not change that.
            Err(error) if stopped.is_some() => (self.report)(RunEvent::Unwritten(&error)),
            finished => finished.map_err(|error| self.last_words(error))?,
        }
        let moment = self.simulation.moment();
        let first_and_last = match self.observers.conserved.records() {
            [] => [Record::of(&moment)?; 2].into(),
            [first, .., last] | [first @ last] => (*first, *last),
        };
        Ok(Summary {
            bodies: moment.bodies.len(),
            step: moment.step,
            from: self.from.0,
            elapsed: self.began.elapsed(),
            solver: moment.bodies.solver_name(),
            first_and_last,
            stopped,
            case: self.case,
        })
    }

    /// Steps until the end, or until asked to stop: then why, and the checkpoint.
    fn go(&mut self) -> Result<Option<(Reason, PathBuf)>, EngineError> {
        if self.simulation.moment().step == 0 {
            let began = self.now();
            self.insist(|run| run.observers.show_all(&run.simulation.moment()))?;
            self.longest_step = self.worked_since(began);
        }
        while !self.simulation.is_over() {
            // Twice the longest so far: the next may be longer.
            let needed = 2 * (self.longest_step + self.longest_save) + RESERVE;
            if let Some(reason) = self.control.stops(needed) {
                let (step, path) = (self.simulation.moment().step, self.save(0.0)?);
                // Whoever tries again for as long as it is stopped would try for ever.
                if reason == Reason::WallTime && step == self.from.0 {
                    return Err(EngineError::NoTime { step, needed });
                }
                return Ok(Some((reason, path)));
            }
            let began = self.now();
            let dt = self.step()?;
            self.check_energy()?;
            let Moment { step, time, .. } = self.simulation.moment();
            (self.report)(RunEvent::Step(Status {
                step,
                time,
                end: self.case.time.end,
                from: self.from,
                elapsed: self.began.elapsed(),
                energy_error: self.observers.conserved.energy_error(),
            }));
            self.longest_step = self.longest_step.max(self.worked_since(began));
            // The end has a checkpoint of its own.
            if self.simulation.is_over() {
                break;
            }
            if self.control.wants_checkpoint() {
                let path = self.save(dt)?;
                (self.report)(RunEvent::Checkpoint { path: &path, step });
            } else if self.checkpoints.is_due(&self.simulation.moment(), dt) {
                self.save(dt)?;
            }
        }
        self.insist(|run| run.observers.show_all(&run.simulation.moment()))?;
        if self.simulation.moment().step > self.from.0 {
            self.check_energy()?;
        }
        // To know that it is over; those on the way are of no more use.
        self.save(0.0)?;
        self.checkpoints.remove_all_but(1);
        Ok(None)
    }

    /// One step, and the moments on the way to its end that someone wants to see; its length.
    fn step(&mut self) -> Result<f64, EngineError> {
        let now = self.simulation.moment();
        let (step, next) = (now.step, self.simulation.next_time()?);
        let dt = next - now.time;
        let before = next - crate::trigger::SAME_TIME * dt;
        while let Some(time) = self.observers.next_due_time().filter(|due| *due < before) {
            let bodies = self.simulation.bodies_at(time)?;
            self.insist(|run| run.observers.show_between(&Moment { step, time, bodies: &bodies }))?;
        }
        self.simulation.advance(next)?;
        self.observers.after_step(&self.simulation.moment())?;
        self.insist(|run| run.observers.show_step(&run.simulation.moment(), dt))?;
        Ok(dt)
    }

    /// Writes a checkpoint after a step of length `dt`.
    fn save(&mut self, dt: f64) -> Result<PathBuf, EngineError> {
        let began = self.now();
        let path = self.insist(|run| {
            let state = run.observers.sync()?;
            let Run { case, provenance, simulation, observers, checkpoints, .. } = run;
            checkpoints.save(case, provenance, simulation, observers, state, dt)
        })?;
        self.longest_save = self.longest_save.max(self.worked_since(began));
        Ok(path)
    }

    fn now(&self) -> (Instant, Duration) {
        (Instant::now(), self.paused)
    }

    /// The time since then that was not spent waiting for storage.
    fn worked_since(&self, (began, paused): (Instant, Duration)) -> Duration {
        began.elapsed().saturating_sub(self.paused.saturating_sub(paused))
    }

    /// Does what may fail for want of storage; where the case says so, again and again until it succeeds.
    fn insist<T>(
        &mut self,
        attempt: impl FnMut(&mut Self) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let (on_error, control) = (self.case.output.on_error, self.control);
        let tell = |run: &mut Self, news: RunEvent<'_>| {
            if let RunEvent::Waiting { pause, .. } = &news {
                run.paused += *pause;
            }
            (run.report)(news);
        };
        insist(self, on_error, control, tell, attempt)
    }

    /// Says once that the energy error is beyond its limit, or ends the run.
    fn check_energy(&mut self) -> Result<(), EngineError> {
        let Some(limit) = self.case.limits.energy_error else { return Ok(()) };
        let error = self.observers.conserved.energy_error();
        if error.abs() <= limit || self.warned {
            return Ok(());
        }
        let Moment { step, time, .. } = self.simulation.moment();
        match self.case.limits.on_energy_error {
            OnEnergyError::Stop => Err(EngineError::Energy { step, time, error, limit }),
            OnEnergyError::Warn => {
                self.warned = true;
                (self.report)(RunEvent::EnergyError { step, error, limit });
                Ok(())
            }
        }
    }

    /// The error, with what remains: the bodies of the moment in which numbers went wrong, or the step to go on from.
    fn last_words(&mut self, error: EngineError) -> EngineError {
        if error.is_of_storage() || matches!(error, EngineError::Device(_)) {
            let from = self.is_resumed.then_some(self.from.0);
            let (folder, source) = (self.folder.clone(), Box::new(error));
            return match self.checkpoints.saved().or(from) {
                Some(step) => EngineError::Lost { source, step, folder },
                None => *source,
            };
        }
        let (EngineError::NotFinite { step, time, .. } | EngineError::Energy { step, time, .. }) = error
        else {
            return error;
        };
        let Ok(particles) = self.simulation.moment().bodies.particles_unchecked() else { return error };
        let snapshot =
            Snapshot { particles, time, step, units: self.case.units, provenance: self.provenance.clone() };
        let path = self.folder.join(POST_MORTEM);
        match orrery_io::write_snapshot(&path, &snapshot) {
            Ok(()) => EngineError::PostMortem { source: Box::new(error), path },
            Err(_) => error,
        }
    }
}
