//! Rungs of ladders whose last rung is a production kernel of another crate: the steps of a course
//! that lead to it. No run uses them. Each is compared with a reference implementation by its
//! self-test, and timed by the ladder of the same name.

pub mod reduce;

use orrery_device::check::Check;

/// Returns the checks of all rungs of this module.
pub fn checks() -> Vec<Check> {
    reduce::selftest::checks()
}
