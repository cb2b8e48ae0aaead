//! From what the user wrote to what is on disk: the case and its presets, the simulation, and the observers
//! that look at it when their triggers say so. Mistakes are found before anything runs or is written.
//!
//! A run: [`case::Case`] → [`start::bodies`] → [`Simulation`] → [`run::run`], which steps it, shows each due
//! moment to the observers and writes checkpoints; [`run::resume`] goes on from one.

pub mod analysis;
mod blocks;
pub mod case;
pub mod checkpoint;
pub mod compute_device;
pub mod control;
pub mod error;
mod folder;
mod identity;
mod observers;
pub mod provenance;
mod retry;
pub mod run;
mod simulation;
pub mod start;
mod trigger;
pub mod wall_time;

pub use error::EngineError;
pub use simulation::{Moment, Simulation};
pub use trigger::Trigger;
