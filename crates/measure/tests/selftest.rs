//! Runs the checks of `orrery selftest` on every device of this machine: one test per module, so
//! that they run in parallel. The checks of primitives, fields, bodies and fluids run in the tests
//! of their crates, and those of the laboratory in its tests.

use orrery_device::testing::test_devices;
use orrery_measure::selftest;

/// Runs the checks of a module, which has at least `least` of them.
fn run_module(module: &str, least: usize) {
    run_filtered(&format!("{module}: "), least);
}

/// Runs the checks whose name contains `filter`, which are at least `least`.
fn run_filtered(filter: &str, least: usize) {
    for device in &test_devices() {
        let summary = selftest::run_checks(&selftest::simulator_checks(), device, filter, &mut |_| ());
        assert!(summary.failures.is_empty(), "{}: {:#?}", device.label(), summary.failures);
        assert!(summary.passed_and_total().0 >= least, "{summary:?}");
    }
}

#[test]
fn every_device_passes_the_checks_of_the_tree() {
    run_module("tree", 9);
}

#[test]
fn every_device_passes_the_checks_of_the_direct_sum() {
    run_module("direct", 9);
}

#[test]
fn every_device_passes_the_checks_of_the_device_layer() {
    run_module("device", 10);
}

/// On CUDA, the check starts this program again with the filter `selftest`, so that the child runs
/// only this test.
#[test]
fn selftest_names_a_faulting_kernel() {
    run_filtered("device: the error of a faulting kernel names it", 1);
}

#[test]
fn every_module_has_a_test() {
    let checks = selftest::simulator_checks();
    let mut modules: Vec<&str> =
        checks.iter().filter_map(|check| Some(check.name.split_once(':')?.0)).collect();
    modules.dedup();
    assert_eq!(modules, ["device", "primitives", "direct", "tree", "bodies", "lj", "fields"]);
}
