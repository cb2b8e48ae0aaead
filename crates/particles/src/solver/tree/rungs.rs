//! Ladder of the tree, from one CPU thread to the default of a GPU.
//!
//! The rungs by insertion are the six kernels of a course (slides on Barnes-Hut in CUDA after
//! Burtscher & Pingali 2011). Each adds one optimisation of the course, so the last one is the
//! course's complete program. The other GPU rungs walk in groups.

use orrery_device::Device;
use orrery_model::Precision;
use orrery_simd::InstructionSet;

use super::device::{self, Order, TreeAlgorithm};
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

    for (name, throttled, sorted, vote, note) in [
        ("six kernels, one thread per body", false, false, false, "bodies inserted one by one, under locks"),
        ("throttled by barriers", true, false, false, ""),
        ("walked in the tree's order", true, true, false, "a warp's bodies are neighbours"),
        ("opened by vote of a warp", true, true, true, "the complete program of the course"),
    ] {
        let algorithm = TreeAlgorithm::Insertion { sorted, vote, throttled };
        let strategy = device::TreeDeviceStrategy { algorithm, order: Order::Monopole, ..default };
        rungs.push(on_device(name, strategy, note));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::device::DeviceStrategy;

    /// Each rung of the course adds one optimisation to the previous one.
    #[test]
    fn each_rung_of_the_course_adds_one_optimisation() {
        let Some(device) = Device::list().devices.into_iter().next() else { return };
        let mut added = Vec::new();
        for rung in rungs(Some(&device)) {
            if let RungKind::Device(DeviceStrategy::Tree(strategy)) = rung.kind
                && let TreeAlgorithm::Insertion { sorted, vote, throttled } = strategy.algorithm
            {
                added.push(u32::from(sorted) + u32::from(vote) + u32::from(throttled));
            }
        }
        assert_eq!(added, [0, 1, 2, 3]);
    }
}
