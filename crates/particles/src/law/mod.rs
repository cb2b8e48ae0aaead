//! Pair laws: from the squared distance and the sources' parameters to force and energy, written once and
//! used by every solver that sums pairs.

pub mod gravity;
