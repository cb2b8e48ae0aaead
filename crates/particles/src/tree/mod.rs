//! The octree: bodies along a Morton curve, cells over them, moments of the cells, groups of neighbours.
//! It knows nothing of force laws.
//!
//! Invariants
//! - `order` is a permutation of 0..n, sorted by (key, index): the same bodies give the same order whatever
//!   the number of threads.
//! - A cell's bodies are the contiguous range `begin..end` of the sorted bodies and share the first
//!   3 × `level` bits of their keys. The root holds all; siblings are disjoint and cover their parent.
//! - Cells stand in breadth-first order: a cell's children are contiguous and come after it.
//! - A cell with more than `leaf_size` bodies has children, unless all its keys are equal.
//! - No cell has a single child: chains collapse into the smallest cube that still holds the bodies.

mod build;
pub mod device;
mod groups;
mod moments;
mod morton;

pub use build::{Cell, Octree};
pub use groups::Group;
pub use moments::Moments;
pub use morton::{BITS, Cube};

#[cfg(test)]
mod tests;
