//! Partial differential equations on grids.
//!
//! [`heat`] solves the heat equation on a rectangle, and [`wave`] the acoustic wave equation in two
//! and three dimensions. A field is computed by one rank, or by several that divide its grid. This
//! crate reads no files and no user input.

pub mod heat;
mod pixels;
mod scalar;
mod search;
mod team;
pub mod wave;

pub use pixels::pixel_mean_bytes;
pub use scalar::Scalar;
pub use team::{BorderTime, time_border_exchange};
