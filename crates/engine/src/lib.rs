//! From what the user wrote to what is on disk: the case and its presets, the simulation, and the observers
//! that look at it when their triggers say so. Mistakes are found before anything runs or is written.
//!
//! A run: [`case::Case`] → [`start::bodies`] → [`Simulation`] → [`run::run`], which steps it, shows each due
//! moment to the observers and writes checkpoints; [`run::resume`] goes on from one.

pub mod analysis;
mod blocks;
pub mod case;
pub mod checkpoint;
pub mod control;
pub mod error;
mod folder;
mod identity;
mod observers;
mod patience;
pub mod place;
pub mod provenance;
pub mod run;
mod simulation;
pub mod start;
mod trigger;
pub mod wall_time;

pub use error::EngineError;
pub use simulation::{Moment, Simulation};
pub use trigger::Trigger;
