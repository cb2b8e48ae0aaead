//! Grids, sides, velocities and wavelets of acoustic waves.
//!
//! Node (i, j, k) has the coordinates x = i hx, y = j hy and z = k hz, and the index
//! (k ny + j) nx + i: x varies fastest. A field on a grid is a slice with one value per node in
//! this order. A grid with nz = 1 is two-dimensional: it has the axes x and y, and no z. Depth is
//! the coordinate of the last axis: y in two dimensions, z in three.

mod grid;
mod sides;
mod velocity;
mod wavelet;

pub use grid::{MIN_NODES, WaveGrid, WaveGridError};
pub use sides::{AbsorbingLayer, Side, SideCondition, Sides};
pub use velocity::{VELOCITIES, VelocityError, VelocityLayer, VelocityModel};
pub use wavelet::{Wavelet, WaveletError};

/// Names of the axes.
pub const AXIS_NAMES: [&str; 3] = ["x", "y", "z"];
