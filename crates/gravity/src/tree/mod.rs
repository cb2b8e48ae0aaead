//! Octree over bodies along a Morton curve: cells, their moments, and groups of neighbours. It is
//! independent of force laws.
//!
//! Invariants:
//! - `order` is a permutation of 0..n, sorted by (key, index). The same bodies give the same order
//!   for any number of threads.
//! - The bodies of a cell are the contiguous range `begin..end` of the sorted bodies and share the
//!   first 3 × `level` bits of their keys. The root contains all bodies. Siblings are disjoint and
//!   cover their parent.
//! - Cells are in breadth-first order: the children of a cell are contiguous and come after it.
//! - A cell with more than `leaf_size` bodies has children, unless all its keys are equal.
//! - No cell has a single child: the level of a cell is that of the smallest cube that contains its
//!   bodies.

mod build;
mod crowding;
mod curve;
pub mod device;
mod groups;
mod moments;
mod morton;
mod subtrees;

pub use build::{Cell, Octree};
pub use crowding::Crowding;
pub use groups::BodyGroup;
pub(crate) use groups::{groups_within, next_group_start};
pub use moments::Moments;
pub use morton::{COORDINATE_BITS, Cube};

#[cfg(test)]
mod tests;
