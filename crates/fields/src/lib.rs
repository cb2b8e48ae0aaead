//! Partial differential equations on grids.
//!
//! [`heat`] solves the heat equation on a rectangle, and [`wave`] the acoustic wave equation in two
//! and three dimensions. A field is computed by one rank, or by several that divide its grid. This
//! crate reads no files and no user input.

mod column;
pub mod heat;
pub mod pixels;
mod scalar;
mod search;
mod selftest;
mod team;
pub mod wave;

pub use column::{FieldColumn, NamedColumn};
pub use scalar::Scalar;
pub use team::{
    BorderTime, DeviceSetup, EndSlices, TeamError, divided_slices, run_team, time_border_exchange,
};
