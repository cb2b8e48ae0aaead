//! Rungs of ladders whose last rung is a production kernel of another crate: the steps of a course
//! that lead to it. No run uses them. Each is compared with a reference implementation by its
//! self-test, and timed by the ladder of the same name.

pub mod fluids;
pub mod gravity;
pub mod heat;
pub mod reduce;
pub mod wave;

use orrery_device::check::Check;

/// Returns the checks of all rungs of this module.
pub fn checks() -> Vec<Check> {
    let mut checks = reduce::selftest::checks();
    checks.extend(gravity::direct::selftest::checks());
    checks.extend(gravity::tree::insertion::selftest::checks());
    checks.extend(fluids::selftest::checks());
    checks.extend(heat::selftest::checks());
    checks.extend(wave::selftest::checks());
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rung_of_the_direct_sum_passes() {
        crate::run_checks(&gravity::direct::selftest::checks());
    }

    #[test]
    fn every_rung_of_the_tree_passes() {
        crate::run_checks(&gravity::tree::insertion::selftest::checks());
    }

    #[test]
    fn every_rung_of_fluids_passes() {
        crate::run_checks(&fluids::selftest::checks());
    }

    #[test]
    fn every_rung_of_heat_passes() {
        crate::run_checks(&heat::selftest::checks());
    }

    #[test]
    fn every_rung_of_waves_passes() {
        crate::run_checks(&wave::selftest::checks());
    }
}
