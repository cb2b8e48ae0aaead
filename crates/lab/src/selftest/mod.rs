//! The device suite, to be run from the program itself as well as by the tests.
//!
//! Each room contributes a list of named checks, "room: what"; a check is a function of the device that says
//! what is wrong. Nothing here knows what the checks do.

mod device;

use orrery_device::Device;
use orrery_device::check::Check;
use orrery_particles::solver::{direct, tree};
use orrery_primitives::{histogram, reduce, scan, sort};

/// Every check there is, in the order of the rooms.
pub fn checks() -> Vec<Check> {
    let mut checks = device::checks();
    checks.extend(reduce::selftest::checks());
    checks.extend(scan::selftest::checks());
    checks.extend(sort::selftest::checks());
    checks.extend(histogram::selftest::checks());
    checks.extend(direct::selftest::checks());
    checks.extend(tree::selftest::checks());
    checks
}

/// How the checks went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Each room with how many passed, of how many; in order.
    pub groups: Vec<(String, usize, usize)>,
    /// Checks that failed, with their message.
    pub failures: Vec<(String, String)>,
}

impl Summary {
    /// Checks that passed, of how many.
    pub fn counts(&self) -> (usize, usize) {
        self.groups.iter().fold((0, 0), |(passed, all), group| (passed + group.1, all + group.2))
    }
}

/// The room that a check belongs to.
fn group(name: &str) -> &str {
    name.split_once(':').map_or(name, |(group, _)| group)
}

/// Runs the checks whose name contains `filter`. `heard` is told each name before it is run.
pub fn run(device: &Device, filter: &str, heard: &mut dyn FnMut(&str)) -> Summary {
    run_all(&checks(), device, filter, heard)
}

fn run_all(checks: &[Check], device: &Device, filter: &str, heard: &mut dyn FnMut(&str)) -> Summary {
    let mut summary = Summary::default();
    for check in checks.iter().filter(|check| check.name.contains(filter)) {
        heard(&check.name);
        let group = group(&check.name);
        let place = summary.groups.iter().position(|other| other.0 == group).unwrap_or_else(|| {
            summary.groups.push((group.to_owned(), 0, 0));
            summary.groups.len() - 1
        });
        summary.groups[place].2 += 1;
        match (check.run)(device) {
            Ok(()) => summary.groups[place].1 += 1,
            Err(message) => summary.failures.push((check.name.clone(), message)),
        }
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_room_and_named() {
        let Some(device) = &crate::test_device() else { return };
        let check = |name: &str, run| Check { name: name.to_owned(), run };
        let checks = [
            check("one: good", |_| Ok(())),
            check("two: bad", |_| Err("got 1, expected 2".to_owned())),
            check("one: good too", |_| Ok(())),
        ];
        let mut names = Vec::new();
        let summary = run_all(&checks, device, "", &mut |name| names.push(name.to_owned()));
        assert_eq!(summary.groups, [("one".to_owned(), 2, 2), ("two".to_owned(), 0, 1)]);
        assert_eq!(summary.failures, [("two: bad".to_owned(), "got 1, expected 2".to_owned())]);
        assert_eq!(summary.counts(), (2, 3));
        assert_eq!(names.len(), 3);
        assert_eq!(run_all(&checks, device, "too", &mut |_| ()).counts(), (1, 1));
    }

    #[test]
    fn names_are_unique_and_name_their_room() {
        let checks = checks();
        let mut names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
        assert!(names.iter().all(|name| name.contains(": ")), "{names:?}");
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
