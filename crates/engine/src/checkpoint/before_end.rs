//! The state before the last step of a run, from which a finished run is extended.
//!
//! The end of a run shortens its last step, and it adds rows, images and snapshots that are not
//! due otherwise. The checkpoint of a finished run therefore also contains the state before that
//! step. An extended run repeats the step at full length.

use orrery_io::{Block, Column, Fault, IoError};
use orrery_model::{Particles, Vec3s, format_count};
use orrery_particles::bodies::Bodies;
use serde::{Deserialize, Serialize};

use crate::blocks::Blocks;
use crate::case::Case;
use crate::error::EngineError;
use crate::observers::{self, Observers};
use crate::simulation::{Moment, Simulation};

/// Columns of this state start with this text, for "before". The rest is the usual name. The names
/// of columns have at most 16 bytes.
const PREFIX: &str = "b.";

/// Part of this state in the header of a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HeaderPart {
    step: u64,
    time: f64,
    observers: observers::State,
}

/// State of a run before its last step. Masses, ids and species are those of the last step.
pub(crate) struct StateBeforeEnd {
    header: HeaderPart,
    position: Vec3s,
    velocity: Vec3s,
    acceleration: Vec3s,
    jerk: Option<Vec3s>,
    /// Columns of the observers.
    blocks: Vec<(String, Block)>,
}

impl StateBeforeEnd {
    /// Copies the state of a run that is about to take its last step.
    pub fn capture(moment: &Moment, observers: &mut Observers) -> Result<Self, EngineError> {
        let failed = |error| moment.to_engine_error(error);
        let Particles { position, velocity, .. } = moment.particles()?;
        let header = HeaderPart { step: moment.step, time: moment.time, observers: observers.sync()? };
        let blocks = observers.checkpoint_blocks().into_iter();
        Ok(Self {
            header,
            position: position.clone(),
            velocity: velocity.clone(),
            acceleration: moment.bodies.acceleration().map_err(failed)?.clone(),
            jerk: moment.bodies.known_jerk().map_err(failed)?.cloned(),
            blocks: blocks.map(|(name, block)| (name.to_owned(), block)).collect(),
        })
    }

    /// Returns the part for the header of a checkpoint.
    pub(super) fn header(&self) -> HeaderPart {
        self.header.clone()
    }

    /// Returns the columns for a checkpoint, with their names.
    pub(super) fn columns(&self) -> Vec<(String, Column<'_>)> {
        let Self { position, velocity, acceleration, .. } = self;
        let vectors = [("position", position), ("velocity", velocity), ("acceleration", acceleration)];
        let jerk = self.jerk.iter().map(|jerk| ("jerk", jerk));
        let components = vectors.into_iter().chain(jerk).flat_map(|(name, Vec3s { x, y, z })| {
            [("x", x), ("y", y), ("z", z)]
                .map(|(axis, column)| (format!("{PREFIX}{name}.{axis}"), Column::Reals(column)))
        });
        let blocks = self.blocks.iter().map(|(name, block)| (format!("{PREFIX}{name}"), block.as_column()));
        components.chain(blocks).collect()
    }

    /// Takes the state from the columns of a checkpoint of `case` with `bodies` bodies after `step`
    /// steps.
    pub(super) fn take(
        header: HeaderPart,
        columns: &mut Blocks,
        case: &Case,
        bodies: usize,
        step: u64,
    ) -> Result<Self, EngineError> {
        let mut columns = columns.take_prefixed(PREFIX);
        let path = columns.path().to_owned();
        let malformed = |got: String, expected: &str| {
            let fault = Fault::malformed("state before the last step", got, expected);
            EngineError::Input(IoError { path: path.clone(), fault })
        };
        let HeaderPart { step: before, time, ref observers } = header;
        if before.checked_add(1) != Some(step)
            || !Simulation::is_reachable(case, before, time)
            || time >= case.time.end
        {
            let got = format!("time {time:e} after {}", format_count(before, "step", "steps"));
            return Err(malformed(got, "the state one step before the end"));
        }
        if !observers.is_valid(bodies, columns.reals_len("trails")) {
            return Err(malformed("counts out of range".to_owned(), "counts that a run can have"));
        }
        let position = columns.take_vectors("position")?;
        let velocity = columns.take_vectors("velocity")?;
        let acceleration = columns.take_vectors("acceleration")?;
        let jerk = columns.take_vectors_if_any("jerk")?;
        let vectors = [Some(&position), Some(&velocity), Some(&acceleration), jerk.as_ref()];
        for column in vectors.into_iter().flatten().flat_map(|v| [&v.x, &v.y, &v.z]) {
            if column.len() != bodies || !column.iter().all(|x| x.is_finite()) {
                let expected = format!("{bodies} finite numbers in each column");
                return Err(malformed("a column with others".to_owned(), &expected));
            }
        }
        Ok(Self { header, position, velocity, acceleration, jerk, blocks: columns.into_remaining() })
    }

    /// Returns the simulation of `case` in this state, the state of its observers and their
    /// columns. `end` are the bodies at the end of the run.
    pub(super) fn restore(self, case: &Case, end: &Bodies) -> Result<Restored, EngineError> {
        let Self { header: HeaderPart { step, time, observers }, position, velocity, .. } = self;
        let moment = Moment { step, time, bodies: end };
        let particles = Particles { position, velocity, ..moment.particles()?.clone() };
        let bodies = Bodies::restore(particles, self.acceleration, self.jerk, end.settings());
        let simulation = Simulation::restore(case, bodies, step, time);
        Ok(Restored { simulation, observers, blocks: self.blocks })
    }
}

/// Parts of a run that [`StateBeforeEnd::restore`] returns.
pub(super) struct Restored {
    pub simulation: Simulation,
    pub observers: observers::State,
    pub blocks: Vec<(String, Block)>,
}
