//! Observers: what is written of a run, and when.

mod conserved;
mod pictures;
mod snapshots;

use std::path::Path;

use orrery_io::Block;
use orrery_model::Particles;
use serde::{Deserialize, Serialize};

pub use conserved::{Conserved, Record};

use crate::blocks::Blocks;
use crate::case::{Case, Every};
use crate::control::RunEvent;
use crate::error::EngineError;
use crate::folder::{ANIMATION, TABLE};
use crate::simulation::MOST_STEPS;
use crate::simulation::Moment;
use crate::trigger::Trigger;

/// More files of a kind than a case may ask for.
const MOST_FILES: u64 = 100_000_000;

/// Looks at a run and writes what it sees.
pub trait Observer {
    /// Called at the moments that its trigger picks, and at the start and the end.
    fn observe(&mut self, moment: &Moment) -> Result<(), EngineError>;

    /// Called after every step, for those who gather more than they write.
    fn after_step(&mut self, _moment: &Moment) -> Result<(), EngineError> {
        Ok(())
    }

    /// Called once, after the last moment.
    fn finish(&mut self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// The observers of a run, each with its trigger.
pub struct Observers {
    pub conserved: Conserved,
    snapshots: snapshots::Snapshots,
    pictures: pictures::Pictures,
    /// In the order of `each`.
    triggers: [Trigger; 3],
    /// When each last looked.
    seen: [Option<f64>; 3],
}

/// What a checkpoint keeps of the observers, besides the blocks that [`Observers::blocks`] gives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    triggers: [u64; 3],
    seen: [Option<f64>; 3],
    conserved: conserved::State,
    snapshots: usize,
    pictures: pictures::State,
}

impl State {
    /// Whether a run could have left it, with trails of `places` numbers for `bodies` drawn as orbits.
    pub fn is_sound(&self, bodies: usize, places: Option<usize>) -> bool {
        let pictures = &self.pictures;
        let counts = [self.snapshots as u64, pictures.written as u64, pictures.animation.frames];
        counts.iter().all(|&count| count <= MOST_FILES)
            && self.triggers.iter().all(|&position| (1..=MOST_STEPS).contains(&position))
            && pictures.stride.is_power_of_two()
            && pictures.stride <= MOST_STEPS
            && places.is_none_or(|places| places.is_multiple_of(3 * bodies.max(1)))
    }
}

/// Makes room for a new file; the one that was changed stays for whoever changed it.
fn begin_anew(path: &Path, report: &mut dyn FnMut(RunEvent<'_>)) {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".changed");
    let _ = std::fs::rename(path, aside);
    report(RunEvent::BegunAnew(path));
}

/// When each is to look, in the order of [`Observers::each`].
fn schedules(case: &Case) -> [Every; 3] {
    [case.output.record_every, case.output.snapshot_every, case.output.image_every]
}

impl Observers {
    /// All that the case asks for, writing into `folder`.
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
            triggers: schedules(case).map(Trigger::new),
            seen: [None; 3],
        })
    }

    /// Goes on where a checkpoint saw them. A file that was changed since is refused, or with `anew` begun
    /// again, which `report` hears.
    pub fn resume(
        case: &Case,
        bodies: usize,
        folder: &Path,
        provenance: &[(String, String)],
        (state, blocks): (&State, &mut Blocks),
        anew: bool,
        report: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<Self, EngineError> {
        let conserved = match Conserved::resume(case, folder, &state.conserved) {
            Err(error) if anew && error.is_changed_file() => {
                begin_anew(&folder.join(TABLE), report);
                Conserved::begin_anew(case, folder, &state.conserved)?
            }
            outcome => outcome?,
        };
        let pictures = |blocks: &mut Blocks, anew| {
            pictures::Pictures::resume(case, bodies, folder, provenance, &state.pictures, blocks, anew)
        };
        let pictures = match pictures(&mut blocks.clone(), false) {
            Err(error) if anew && error.is_changed_file() => {
                begin_anew(&folder.join(ANIMATION), report);
                pictures(blocks, true)?
            }
            outcome => outcome?,
        };
        let snapshots = snapshots::Snapshots::create(case, folder, provenance, state.snapshots)?;
        for missing in [snapshots.missing(), pictures.missing()] {
            if let Some(path) = missing.first() {
                report(RunEvent::Missing { path, count: missing.len() });
            }
        }
        let schedules = schedules(case);
        Ok(Self {
            conserved,
            snapshots,
            pictures,
            triggers: [0, 1, 2].map(|k| Trigger::taken_up(schedules[k], state.triggers[k])),
            seen: state.seen,
        })
    }

    /// Brings all that grows to the disk and tells how far it is.
    pub fn sync(&mut self) -> Result<State, EngineError> {
        Ok(State {
            triggers: self.triggers.map(|trigger| trigger.position()),
            seen: self.seen,
            conserved: self.conserved.sync()?,
            snapshots: self.snapshots.written(),
            pictures: self.pictures.sync()?,
        })
    }

    /// What of their state is too large for a checkpoint's header.
    pub fn blocks(&self) -> Vec<(&'static str, Block)> {
        self.pictures.blocks()
    }

    fn each(&mut self) -> [&mut dyn Observer; 3] {
        [&mut self.conserved, &mut self.snapshots, &mut self.pictures]
    }

    /// The earliest time at which anyone wants to look, if times were set.
    pub fn next_due_time(&self) -> Option<f64> {
        self.triggers.iter().filter_map(Trigger::due_time).min_by(f64::total_cmp)
    }

    /// Shows the end of a step of length `dt` to those whose trigger fires.
    pub fn show_step(&mut self, moment: &Moment, dt: f64) -> Result<(), EngineError> {
        self.show(moment, dt, |trigger| trigger.fires(moment.step, moment.time, dt))
    }

    /// Shows a moment between two steps to those who asked for that time.
    pub fn show_between(&mut self, moment: &Moment) -> Result<(), EngineError> {
        self.show(moment, 0.0, |trigger| trigger.due_time().is_some_and(|due| due <= moment.time))
    }

    /// Shows the start or the end to all.
    pub fn show_all(&mut self, moment: &Moment) -> Result<(), EngineError> {
        self.show(moment, 0.0, |_| true)
    }

    fn show(&mut self, moment: &Moment, dt: f64, due: impl Fn(&Trigger) -> bool) -> Result<(), EngineError> {
        for k in 0..3 {
            if !due(&self.triggers[k]) {
                continue;
            }
            // No one is shown the same moment twice, as the last step's end would be.
            if self.seen[k] != Some(moment.time) {
                self.each()[k].observe(moment)?;
                self.seen[k] = Some(moment.time);
            }
            self.triggers[k].advance(moment.time, dt);
        }
        Ok(())
    }

    /// Shows the end of a step to all.
    pub fn after_step(&mut self, moment: &Moment) -> Result<(), EngineError> {
        self.each().into_iter().try_for_each(|observer| observer.after_step(moment))
    }

    /// Completes all files.
    pub fn finish(&mut self) -> Result<(), EngineError> {
        self.each().into_iter().try_for_each(|observer| observer.finish())
    }
}
