//! Observers write the output of a run: table, snapshots and images, each with its trigger.

mod conserved;
mod pictures;
mod snapshots;

use std::path::{Path, PathBuf};

use orrery_io::Block;
use orrery_model::Particles;
use serde::{Deserialize, Serialize};

pub use conserved::{Conserved, Record};

use crate::blocks::Blocks;
use crate::case::{Case, Every};
use crate::control::RunEvent;
use crate::error::EngineError;
use crate::folder::{ANIMATION, IMAGES, SNAPSHOTS, TABLE};
use crate::simulation::{MAX_STEPS, Moment};
use crate::trigger::Trigger;

/// Largest plausible number of files of one kind in a checkpoint. A case allows fewer.
const MAX_FILES: u64 = 100_000_000;

/// Writes one kind of output.
pub trait Observer {
    /// Called when the trigger of the observer fires, and at the start and the end.
    fn observe(&mut self, moment: &Moment) -> Result<(), EngineError>;

    /// Called after every step, for observers that collect data between their outputs.
    fn after_step(&mut self, _moment: &Moment) -> Result<(), EngineError> {
        Ok(())
    }

    /// Called once, after the last call of `observe`.
    fn finish(&mut self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// All observers of a run, each with its trigger.
pub struct Observers {
    pub conserved: Conserved,
    snapshots: snapshots::Snapshots,
    pictures: pictures::Pictures,
    /// In the order of `all_mut`.
    triggers: [Trigger; 3],
    /// Time of the last call of `observe`, in the same order.
    last_observed: [Option<f64>; 3],
}

/// State of the observers in a checkpoint. Larger data is in the columns from
/// [`Observers::checkpoint_blocks`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    triggers: [u64; 3],
    #[serde(rename = "seen")]
    last_observed: [Option<f64>; 3],
    conserved: conserved::State,
    snapshots: usize,
    pictures: pictures::State,
}

impl State {
    /// Returns an error if the table or the animation was changed after this state was stored.
    pub fn check_files(&self, folder: &Path) -> Result<(), EngineError> {
        self.conserved.file.check_file(&folder.join(TABLE)).map_err(EngineError::Output)?;
        self.pictures.animation.file.check_file(&folder.join(ANIMATION)).map_err(EngineError::Output)
    }

    /// Lists the numbered files that were written after this state was stored.
    pub fn later_files(&self, folder: &Path) -> Vec<PathBuf> {
        let mut files = SNAPSHOTS.list_files_from(folder, self.snapshots);
        files.extend(IMAGES.list_files_from(folder, self.pictures.written));
        files
    }

    /// Returns true if a run can have written this state. `places` is the length of the column of
    /// trails, if there is one, for `bodies` that are drawn as orbits.
    pub fn is_valid(&self, bodies: usize, places: Option<usize>) -> bool {
        let pictures = &self.pictures;
        let counts = [self.snapshots as u64, pictures.written as u64, pictures.animation.frames];
        counts.iter().all(|&count| count <= MAX_FILES)
            && self.triggers.iter().all(|&position| (1..=MAX_STEPS).contains(&position))
            && pictures.stride.is_power_of_two()
            && pictures.stride <= MAX_STEPS
            && places.is_none_or(|places| places.is_multiple_of(3 * bodies.max(1)))
    }
}

/// Renames a changed file to `NAME.changed`, so that a new one can be written and none is lost.
fn set_aside_changed(path: &Path, report: &mut dyn FnMut(RunEvent<'_>)) {
    let mut new_name = path.as_os_str().to_owned();
    new_name.push(".changed");
    let _ = std::fs::rename(path, new_name);
    report(RunEvent::OutputRestarted(path));
}

/// Returns the schedules in the order of [`Observers::all_mut`].
fn schedules(case: &Case) -> [Every; 3] {
    [case.output.record_every, case.output.snapshot_every, case.output.image_every]
}

impl Observers {
    /// Creates the observers of a new run, which write to `folder`.
    pub fn new(
        case: &Case,
        start: &Particles,
        folder: &Path,
        provenance: &[(String, String)],
    ) -> Result<Self, EngineError> {
        Ok(Self {
            conserved: Conserved::create(case, folder)?,
            snapshots: snapshots::Snapshots::create(case, folder, provenance, 0)?,
            pictures: pictures::Pictures::create(case, start, folder, provenance)?,
            triggers: schedules(case).map(|every| {
                let mut trigger = Trigger::new(every);
                trigger.advance_past(case.time.known_start(), 0.0);
                trigger
            }),
            last_observed: [None; 3],
        })
    }

    /// Continues the outputs from the state in a checkpoint. A file that was changed since then is
    /// an error. With `restart_outputs` it is set aside and restarted, and `report` is called.
    pub fn resume(
        case: &Case,
        bodies: usize,
        folder: &Path,
        provenance: &[(String, String)],
        (state, blocks): (&State, &mut Blocks),
        restart_outputs: bool,
        report: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<Self, EngineError> {
        let conserved = match Conserved::resume(case, folder, &state.conserved) {
            Err(error) if restart_outputs && error.is_changed_file() => {
                set_aside_changed(&folder.join(TABLE), report);
                Conserved::restart(case, folder, &state.conserved)?
            }
            outcome => outcome?,
        };
        let resume_pictures = |blocks: &mut Blocks, restart| {
            pictures::Pictures::resume(case, bodies, folder, provenance, &state.pictures, blocks, restart)
        };
        let pictures = match resume_pictures(&mut blocks.clone(), false) {
            Err(error) if restart_outputs && error.is_changed_file() => {
                set_aside_changed(&folder.join(ANIMATION), report);
                resume_pictures(blocks, true)?
            }
            outcome => outcome?,
        };
        let snapshots = snapshots::Snapshots::create(case, folder, provenance, state.snapshots)?;
        for missing in [snapshots.missing_files(), pictures.missing_files()] {
            if let Some(path) = missing.first() {
                report(RunEvent::MissingFiles { path, count: missing.len() });
            }
        }
        let schedules = schedules(case);
        Ok(Self {
            conserved,
            snapshots,
            pictures,
            triggers: [0, 1, 2].map(|index| Trigger::at_position(schedules[index], state.triggers[index])),
            last_observed: state.last_observed,
        })
    }

    /// Writes all buffered output to the disk and returns the state for a checkpoint.
    pub fn sync(&mut self) -> Result<State, EngineError> {
        Ok(State {
            triggers: self.triggers.map(|trigger| trigger.position()),
            last_observed: self.last_observed,
            conserved: self.conserved.sync()?,
            snapshots: self.snapshots.written_count(),
            pictures: self.pictures.sync()?,
        })
    }

    /// Returns the part of the state that is too large for the header of a checkpoint.
    pub fn checkpoint_blocks(&self) -> Vec<(String, Block)> {
        self.pictures.checkpoint_blocks()
    }

    fn all_mut(&mut self) -> [&mut dyn Observer; 3] {
        [&mut self.conserved, &mut self.snapshots, &mut self.pictures]
    }

    /// Returns the earliest due time of all triggers in simulated time.
    pub fn next_due_time(&self) -> Option<f64> {
        self.triggers.iter().filter_map(Trigger::due_time).min_by(f64::total_cmp)
    }

    /// Calls the observers whose trigger fires at the end of a step of length `dt`.
    pub fn observe_step(&mut self, moment: &Moment, dt: f64) -> Result<(), EngineError> {
        self.observe_where(moment, dt, |trigger| trigger.is_due(moment.step, moment.time, dt))
    }

    /// Calls the observers that are due at a time between two steps.
    pub fn observe_between_steps(&mut self, moment: &Moment) -> Result<(), EngineError> {
        self.observe_where(moment, 0.0, |trigger| trigger.due_time().is_some_and(|due| due <= moment.time))
    }

    /// Calls all observers, at the start or the end of the run.
    pub fn observe_all(&mut self, moment: &Moment) -> Result<(), EngineError> {
        self.observe_where(moment, 0.0, |_| true)
    }

    fn observe_where(
        &mut self,
        moment: &Moment,
        dt: f64,
        due: impl Fn(&Trigger) -> bool,
    ) -> Result<(), EngineError> {
        for index in 0..self.triggers.len() {
            if !due(&self.triggers[index]) {
                continue;
            }
            // No observer gets the same time twice. The end of the run is also the end of the last
            // step.
            if self.last_observed[index] != Some(moment.time) {
                self.all_mut()[index].observe(moment)?;
                self.last_observed[index] = Some(moment.time);
            }
            self.triggers[index].advance_past(moment.time, dt);
        }
        Ok(())
    }

    /// Calls `after_step` of all observers.
    pub fn after_step(&mut self, moment: &Moment) -> Result<(), EngineError> {
        self.all_mut().into_iter().try_for_each(|observer| observer.after_step(moment))
    }

    /// Completes all files.
    pub fn finish(&mut self) -> Result<(), EngineError> {
        self.all_mut().into_iter().try_for_each(|observer| observer.finish())
    }
}
