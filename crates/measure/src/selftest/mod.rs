//! Self-test of a device, for `orrery selftest` and for the tests.
//!
//! Each module with kernels contributes a list of named checks, such as `device: atomics lose no
//! update`. The part before the colon is the module. A check is a function of the device that
//! returns a one-line message on failure.

mod device;
mod fault;
pub mod isolated;
mod memory;

use orrery_device::Device;
use orrery_device::check::Check;
use orrery_fields::{heat, wave};
use orrery_gravity::bodies;
use orrery_gravity::solver::{direct, tree};
use orrery_primitives::{reduce, scan, sort};

/// Returns the checks of the simulator, module by module.
pub fn simulator_checks() -> Vec<Check> {
    let mut checks = device::checks();
    checks.extend(fault::checks());
    checks.extend(memory::checks());
    checks.extend(reduce::selftest::checks());
    checks.extend(scan::selftest::checks());
    checks.extend(sort::selftest::checks());
    checks.extend(direct::selftest::checks());
    checks.extend(tree::selftest::checks());
    checks.extend(bodies::selftest::checks());
    checks.extend(orrery_fluids::selftest::checks());
    checks.extend(heat::device::selftest::checks());
    checks.extend(wave::device::selftest::checks());
    checks
}

/// Number of checks of one module that ran and that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleCount {
    /// Name of the module.
    pub module: String,
    /// Number of checks that passed.
    pub passed: usize,
    /// Number of checks that ran.
    pub total: usize,
}

/// Results of the self-test on one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelftestSummary {
    /// Counts per module, in the order of the checks.
    pub modules: Vec<ModuleCount>,
    /// Names and messages of the checks that failed.
    pub failures: Vec<(String, String)>,
}

impl SelftestSummary {
    /// Returns the numbers of checks that passed and that ran.
    pub fn passed_and_total(&self) -> (usize, usize) {
        self.modules
            .iter()
            .fold((0, 0), |(passed, total), count| (passed + count.passed, total + count.total))
    }

    /// Adds the result of a check.
    fn count(&mut self, check_name: &str, result: Result<(), String>) {
        let count = self.module_count(module_name(check_name));
        count.total += 1;
        match result {
            Ok(()) => count.passed += 1,
            Err(message) => self.failures.push((check_name.to_owned(), message)),
        }
    }

    /// Returns the count of a module, and adds it if it is not there yet.
    fn module_count(&mut self, module: &str) -> &mut ModuleCount {
        let index = self.modules.iter().position(|count| count.module == module).unwrap_or_else(|| {
            self.modules.push(ModuleCount { module: module.to_owned(), passed: 0, total: 0 });
            self.modules.len() - 1
        });
        &mut self.modules[index]
    }
}

/// Returns the part of a check's name before the colon.
fn module_name(check_name: &str) -> &str {
    check_name.split_once(':').map_or(check_name, |(module, _)| module)
}

/// Runs those of `checks` whose name contains `filter`. Calls `progress` with each name before its
/// check.
pub fn run_checks(
    checks: &[Check],
    device: &Device,
    filter: &str,
    progress: &mut dyn FnMut(&str),
) -> SelftestSummary {
    let mut summary = SelftestSummary::default();
    for check in checks.iter().filter(|check| check.name.contains(filter)) {
        progress(&check.name);
        summary.count(&check.name, (check.run)(device));
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_per_module_and_named() {
        let Some(device) = &crate::test_device() else { return };
        let check = |name: &str, run| Check { name: name.to_owned(), run };
        let checks = [
            check("one: good", |_| Ok(())),
            check("two: bad", |_| Err("got 1, expected 2".to_owned())),
            check("one: good too", |_| Ok(())),
        ];
        let mut names = Vec::new();
        let summary = run_checks(&checks, device, "", &mut |name| names.push(name.to_owned()));
        let count = |module: &str, passed, total| ModuleCount { module: module.to_owned(), passed, total };
        assert_eq!(summary.modules, [count("one", 2, 2), count("two", 0, 1)]);
        assert_eq!(summary.failures, [("two: bad".to_owned(), "got 1, expected 2".to_owned())]);
        assert_eq!(summary.passed_and_total(), (2, 3));
        assert_eq!(names.len(), 3);
        assert_eq!(run_checks(&checks, device, "too", &mut |_| ()).passed_and_total(), (1, 1));
    }

    #[test]
    fn check_names_are_unique_and_start_with_a_module() {
        let checks = simulator_checks();
        let mut names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
        assert!(names.iter().all(|name| name.contains(": ")), "{names:?}");
        names.sort_unstable();
        let total = names.len();
        names.dedup();
        assert_eq!(names.len(), total);
    }
}
