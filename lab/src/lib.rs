//! The laboratory: every way that was tried to make a computation fast, each measured.
//!
//! A ladder ([`ladder`]) times one computation by several kernels, from the textbook version to the
//! production kernel. The experiments ([`experiments`]) show one property of the hardware each. The
//! laboratory uses the public interface of the simulator's crates, which do not know it. Start with
//! [`ladder::LADDERS`].

pub mod experiments;
pub mod ladder;
#[cfg(test)]
mod nvrtc_tests;
pub mod occupancy;

/// Returns the checks of the laboratory for the self-test, module by module.
pub fn checks() -> Vec<orrery_device::check::Check> {
    experiments::checks()
}

/// Returns the first device to test on. None only if `ORRERY_NO_DEVICE_TESTS` is set.
#[cfg(test)]
fn test_device() -> Option<orrery_device::Device> {
    orrery_device::testing::test_devices().into_iter().next()
}

#[cfg(test)]
mod tests {
    use orrery_device::testing::test_devices;
    use orrery_measure::selftest::{run_checks, simulator_checks};

    use super::*;

    #[test]
    fn every_device_passes_the_checks() {
        for device in &test_devices() {
            let summary = run_checks(&checks(), device, "", &mut |_| ());
            assert!(summary.failures.is_empty(), "{}: {:#?}", device.label(), summary.failures);
            assert!(summary.passed_and_total().0 >= 9, "{summary:?}");
        }
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
