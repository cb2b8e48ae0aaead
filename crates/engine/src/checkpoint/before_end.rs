//! The state before the last step of a run, from which a finished run is extended.
//!
//! The end of a run shortens its last step, and it adds rows, images and snapshots that are not
//! due otherwise. The checkpoint of a finished run therefore also contains the state before that
//! step. An extended run repeats the step at full length.

use std::path::Path;

use orrery_formats::{Block, Column, Fault, IoError, Limits};
use orrery_model::format_count;
use serde::{Deserialize, Serialize};

use crate::blocks::Blocks;
use crate::case::Case;
use crate::error::EngineError;
use crate::observers::{self, Observers};
use crate::simulation::{Moment, Simulation};
use crate::system::{SavedSystem, Stamp, StateColumn, System};

/// Columns of this state start with this text, for "before". The rest is the usual name. The names
/// of columns have at most 16 bytes.
pub(super) const PREFIX: &str = "b.";

/// Part of this state in the header of a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HeaderPart {
    step: u64,
    time: f64,
    observers: observers::State,
}

/// State of a run before its last step. Columns that never change, such as masses, are those of the
/// last step.
pub(crate) struct StateBeforeEnd {
    header: HeaderPart,
    /// Columns of the system that change, and columns of the observers.
    blocks: Vec<(String, Block)>,
}

impl StateBeforeEnd {
    /// Copies the state of a run that is about to take its last step.
    pub fn capture(moment: &Moment, observers: &mut Observers<'_>) -> Result<Self, EngineError> {
        let header = HeaderPart { step: moment.step, time: moment.time, observers: observers.sync()? };
        let columns = moment.system.columns().map_err(|error| error.at(moment.stamp()))?;
        let changing = columns.into_iter().filter(|column| !column.is_constant);
        let mut blocks: Vec<_> = changing.map(named_block).collect();
        blocks.extend(observers.checkpoint_blocks());
        Ok(Self { header, blocks })
    }

    /// Returns the step of this state.
    pub fn step(&self) -> u64 {
        self.header.step
    }

    /// Returns the part for the header of a checkpoint.
    pub(super) fn header(&self) -> HeaderPart {
        self.header.clone()
    }

    /// Returns the columns for a checkpoint, with their names.
    pub(super) fn columns(&self) -> Vec<(String, Column<'_>)> {
        self.blocks.iter().map(|(name, block)| (format!("{PREFIX}{name}"), block.as_column())).collect()
    }

    /// Takes the state from the columns of a checkpoint, whose run ended with `end` after `step`
    /// steps, or stopped within the step after `step`. Returns an error if no run can have been in
    /// this state.
    pub(super) fn take(
        header: HeaderPart,
        columns: Blocks,
        saved: &SavedSystem<'_>,
        end: &System,
        step: u64,
    ) -> Result<Self, EngineError> {
        let malformed = |got: String, expected: &str| {
            let fault = Fault::malformed("state before the last step", got, expected);
            EngineError::Input(IoError { path: saved.path.to_owned(), fault })
        };
        let HeaderPart { step: before, time, .. } = header;
        if !(before == step || before.checked_add(1) == Some(step))
            || !Simulation::is_reachable(saved.case, before, time)
            || time >= saved.case.time.end
        {
            let got = format!("time {time:e} after {}", format_count(before, "step", "steps"));
            return Err(malformed(got, "the state one step before the end"));
        }
        let state = Self { header, blocks: columns.into_remaining() };
        // Restoring the system checks its columns.
        let (system, blocks) = state.restore_system(saved, end)?;
        if !state.header.observers.is_valid(saved.case, &system, &blocks, time) {
            return Err(malformed("values out of range".to_owned(), "values that a run can have"));
        }
        Ok(state)
    }

    /// Returns the system in this state and the columns of the observers. `end` is the system at
    /// the end of the run.
    fn restore_system(&self, saved: &SavedSystem<'_>, end: &System) -> Result<(System, Blocks), EngineError> {
        let HeaderPart { step, time, .. } = self.header;
        let saved = &SavedSystem { stamp: Stamp { step, time }, ..*saved };
        let columns = end.columns().map_err(|error| error.at(Stamp { step, time }))?;
        let constant = columns.into_iter().filter(|column| column.is_constant).map(named_block);
        let mut columns = Blocks::new(saved.path, constant.chain(self.blocks.iter().cloned()).collect());
        Ok((System::restore(saved, &mut columns)?, columns))
    }

    /// Returns the simulation of `case` in this state, the state of its observers and their
    /// columns. `end` is the system at the end of the run, from the checkpoint at `path`.
    pub(super) fn restore(self, path: &Path, case: &Case, end: &System) -> Result<Restored, EngineError> {
        let (count, method) = (end.size().count as usize, end.method());
        let stamp = Stamp { step: self.header.step, time: self.header.time };
        // The checkpoint has been read within the limits.
        let saved = SavedSystem { path, case, count, method, limits: &Limits::unbounded(), stamp };
        let (system, blocks) = self.restore_system(&saved, end)?;
        let HeaderPart { step, time, observers } = self.header;
        Ok(Restored { simulation: Simulation::new(case, system, step, time)?, observers, blocks })
    }
}

fn named_block(column: StateColumn<'_>) -> (String, Block) {
    (column.name.to_owned(), column.values.into_block())
}

/// Parts of a run that [`StateBeforeEnd::restore`] returns.
pub(super) struct Restored {
    pub simulation: Simulation,
    pub observers: observers::State,
    pub blocks: Blocks,
}
