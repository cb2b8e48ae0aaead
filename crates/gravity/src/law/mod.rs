//! Pair laws: force and energy as functions of the squared distance and the parameters of the
//! source.
//!
//! Each law is written once and used by every solver that sums pairs.

pub mod gravity;
