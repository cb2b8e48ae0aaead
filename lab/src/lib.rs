//! The laboratory: every way that was tried to make a computation fast, each measured.
//!
//! A ladder ([`ladder`]) times one computation by several kernels, from the textbook version to the
//! production kernel. Its rungs are in [`rungs`] and, for computations that no run uses, beside
//! them in [`primitives`]. The experiments ([`experiments`]) show one property of the hardware
//! each. The laboratory uses the public interface of the simulator's crates, which do not know it.
//! Start with [`ladder::LADDERS`].

pub mod experiments;
mod kernel_enum;
pub mod ladder;
#[cfg(test)]
mod nvrtc_tests;
pub mod occupancy;
pub mod primitives;
pub mod rungs;

/// Returns the checks of the laboratory for the self-test, module by module.
pub fn checks() -> Vec<orrery_device::check::Check> {
    let mut checks = primitives::checks();
    checks.extend(rungs::checks());
    checks.extend(experiments::checks());
    checks
}

/// Returns the first device to test on. None only if `ORRERY_NO_DEVICE_TESTS` is set.
#[cfg(test)]
fn test_device() -> Option<orrery_device::Device> {
    orrery_device::testing::test_devices().into_iter().next()
}

/// Runs every check on every device to test on.
#[cfg(test)]
fn run_checks(checks: &[orrery_device::check::Check]) {
    for device in orrery_device::testing::test_devices() {
        for check in checks {
            (check.run)(&device)
                .unwrap_or_else(|error| panic!("{}: {}: {error}", device.title(), check.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use orrery_measure::selftest::simulator_checks;

    use super::*;

    #[test]
    fn every_device_passes_the_checks_of_the_experiments() {
        run_checks(&experiments::checks());
    }

    #[test]
    fn names_of_all_checks_are_unique() {
        let mut all = simulator_checks();
        all.extend(checks());
        let mut names: Vec<&str> = all.iter().map(|check| check.name.as_str()).collect();
        names.sort_unstable();
        let total = names.len();
        names.dedup();
        assert_eq!(names.len(), total);
    }
}
