//! Ladder of the tree, from one CPU thread to the default of a GPU.
//!
//! The rungs by insertion are the six kernels of a course (slides on Barnes-Hut in CUDA after
//! Burtscher & Pingali 2011). Each adds one optimisation of the course up to its complete program,
//! of which a step with all six kernels is measured too. The next rung has kernels in which no
//! thread waits for another. The other GPU rungs walk in groups.

pub mod insertion;

use orrery_device::Device;
use orrery_gravity::settings::Acceptance;
use orrery_gravity::solver::GravityCpuStrategy;
use orrery_gravity::solver::tree::TreeCpuStrategy;
use orrery_gravity::solver::tree::device::{Order, TreeDeviceStrategy};
use orrery_model::Precision;
use orrery_simd::InstructionSet;

use super::{GravityRung, GravityRungKind, LectureStrategy, ThreadCount};
use insertion::{InsertionOptions, Waiting, WarpWalk};

/// Opening angle of every rung, for the geometric acceptance.
pub const THETA: f64 = 0.5;

/// Returns the rungs from the first to the last. Without a device, only those of the CPU.
pub fn rungs(device: Option<&Device>) -> Vec<GravityRung> {
    let single = Precision::Single;
    let rung = |name, kind, precision, note| GravityRung { name, kind, precision, course: &[], note };
    let cpu = |name, set, threads| {
        let strategy = TreeCpuStrategy {
            acceptance: Acceptance::Geometric { theta: THETA },
            ..TreeCpuStrategy::new(single, set)
        };
        let kind = GravityRungKind::Cpu(GravityCpuStrategy::Tree(strategy), threads);
        rung(name, kind, single, "quadrupoles")
    };
    let mut rungs = vec![
        cpu("CPU, one thread, scalar", InstructionSet::Portable, ThreadCount::One),
        cpu("CPU, all cores, SIMD", InstructionSet::best(), ThreadCount::All),
    ];
    let Some(device) = device else { return rungs };

    for (name, options, note) in insertion_rungs() {
        let kind = GravityRungKind::Lecture(LectureStrategy::Insertion(options));
        rungs.push(rung(name, kind, single, note));
        if options == InsertionOptions::COURSE {
            let kind = GravityRungKind::InsertionStep(options);
            rungs.push(rung("with the integration kernel", kind, single, "a whole step"));
        }
    }
    let with_order = |name, order, note| {
        let strategy = TreeDeviceStrategy { order, ..TreeDeviceStrategy::default_for(device, single) };
        rung(name, GravityRungKind::Device(strategy.into()), single, note)
    };
    rungs.push(with_order(
        "groups, sorted along a curve",
        Order::Monopole,
        "cells from the sorted keys; no locks",
    ));
    for (name, precision) in [
        ("with quadrupoles: default", single),
        ("the default, mixed", Precision::Mixed),
        ("the default, f64", Precision::Double),
    ] {
        rungs.push(rung(name, GravityRungKind::Default, precision, ""));
    }
    rungs.push(with_order("with octupoles", Order::Octupole, ""));
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
