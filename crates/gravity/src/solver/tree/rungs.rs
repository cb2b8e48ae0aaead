//! Ladder of the tree, from one CPU thread to the default of a GPU.
//!
//! The rungs by insertion are the six kernels of a course (slides on Barnes-Hut in CUDA after
//! Burtscher & Pingali 2011). Each adds one optimisation of the course up to its complete program,
//! of which a step with all six kernels is measured too. The next rung has kernels in which no
//! thread waits for another. The other GPU rungs walk in groups.

use orrery_device::Device;
use orrery_model::Precision;
use orrery_simd::InstructionSet;

use super::device::{self, InsertionOptions, Order, TreeAlgorithm, Waiting, WarpWalk};
use crate::settings::Acceptance;
use crate::solver::CpuStrategy;
use crate::solver::rungs::{Rung, RungKind, Threads};

/// Opening angle of every rung, for the geometric acceptance.
pub const THETA: f64 = 0.5;

/// Returns the rungs from the first to the last. Without a device, only those of the CPU.
pub fn rungs(device: Option<&Device>) -> Vec<Rung> {
    let single = Precision::Single;
    let cpu = |name, set, threads| {
        let strategy = super::TreeCpuStrategy {
            acceptance: Acceptance::Geometric { theta: THETA },
            ..super::TreeCpuStrategy::new(single, set)
        };
        let kind = RungKind::Cpu(CpuStrategy::Tree(strategy), threads);
        Rung { name, kind, precision: single, course: &[], note: "quadrupoles" }
    };
    let mut rungs = vec![
        cpu("CPU, one thread, scalar", InstructionSet::Portable, Threads::One),
        cpu("CPU, all cores, SIMD", InstructionSet::best(), Threads::All),
    ];
    let Some(device) = device else { return rungs };
    let default = device::TreeDeviceStrategy::default_for(device, single);
    let on_device = |name, strategy: device::TreeDeviceStrategy, note| {
        let kind = RungKind::Device(strategy.into());
        Rung { name, kind, precision: single, course: &[], note }
    };

    for (name, options, note) in insertion_rungs() {
        let algorithm = TreeAlgorithm::Insertion(options);
        let strategy = device::TreeDeviceStrategy { algorithm, order: Order::Monopole, ..default };
        rungs.push(on_device(name, strategy, note));
        if options == InsertionOptions::COURSE {
            let (name, kind) = ("with the integration kernel", RungKind::InsertionStep(options));
            rungs.push(Rung { name, kind, precision: single, course: &[], note: "a whole step" });
        }
    }
    let monopoles = device::TreeDeviceStrategy { order: Order::Monopole, ..default };
    let octupoles = device::TreeDeviceStrategy { order: Order::Octupole, ..default };
    rungs.push(on_device("groups, sorted along a curve", monopoles, "cells from the sorted keys; no locks"));
    for (name, precision) in [
        ("with quadrupoles: default", single),
        ("the default, mixed", Precision::Mixed),
        ("the default, f64", Precision::Double),
    ] {
        rungs.push(Rung { name, kind: RungKind::Default, precision, course: &[], note: "" });
    }
    rungs.push(on_device("with octupoles", octupoles, ""));
    rungs
}

/// Returns the rungs by insertion: name, options and remark.
pub fn insertion_rungs() -> Vec<(&'static str, InsertionOptions, &'static str)> {
    let plain = InsertionOptions::PLAIN;
    let throttled = InsertionOptions { throttled: true, ..plain };
    let missing = InsertionOptions { waiting: Waiting::PollMissing, ..throttled };
    let sorted = InsertionOptions { sorted: true, ..missing };
    let with_walk = |walk| InsertionOptions { walk, ..sorted };
    vec![
        ("six kernels, one thread per body", plain, "bodies inserted one by one, under locks"),
        ("throttled by barriers", throttled, "kernel 2"),
        ("only missing children polled", missing, "kernel 3, with their indices in shared memory"),
        ("walked in the tree's order", sorted, "kernel 4: a warp's bodies are neighbours"),
        ("one lane reads for the warp", with_walk(WarpWalk::OneReader), "kernel 5: a warp walks together"),
        ("nodes cached in shared memory", with_walk(WarpWalk::CachedNodes), "kernel 5"),
        ("one stack per warp", with_walk(WarpWalk::SharedStack), "kernel 5, in shared memory"),
        ("opened by vote of a warp", with_walk(WarpWalk::Vote), "the complete program of the course"),
        (
            "no thread waits for another",
            InsertionOptions { waiting: Waiting::None, ..InsertionOptions::COURSE },
            "kernels 3 and 4",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each rung differs from the previous one in one option.
    #[test]
    fn each_rung_of_the_course_adds_one_optimisation() {
        let rungs = insertion_rungs();
        for pair in rungs.windows(2) {
            let (a, b) = (pair[0].1, pair[1].1);
            let changes =
                [a.throttled != b.throttled, a.waiting != b.waiting, a.sorted != b.sorted, a.walk != b.walk];
            assert_eq!(changes.iter().filter(|changed| **changed).count(), 1, "{}", pair[1].0);
            assert!(a.walk <= b.walk, "{}", pair[1].0);
        }
        assert_eq!(rungs[0].1, InsertionOptions::PLAIN);
        assert_eq!(rungs[rungs.len() - 2].1, InsertionOptions::COURSE);
    }
}
