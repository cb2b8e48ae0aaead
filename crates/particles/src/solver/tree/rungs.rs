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
use crate::solver::direct::rungs::Threads;

/// Opening angle of every rung, for the geometric acceptance.
pub const THETA: f64 = 0.5;

/// Device and strategy of a rung.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RungKind {
    /// On the CPU.
    Cpu(super::TreeCpuStrategy, Threads),
    /// On a GPU or another device.
    Device(device::TreeDeviceStrategy),
}

/// Step of the ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct Rung {
    /// Name, which says what is new in this rung.
    pub name: &'static str,
    /// Device and strategy.
    pub kind: RungKind,
    /// Highest multipole moment of its cells.
    pub order: Order,
    /// Arithmetic.
    pub precision: Precision,
    /// Remark for the table, or empty.
    pub note: &'static str,
}

/// Returns the rungs from the first to the last. Without a device, only those of the CPU.
pub fn rungs(device: Option<&Device>) -> Vec<Rung> {
    let single = Precision::Single;
    let cpu = |name, set, threads| Rung {
        name,
        kind: RungKind::Cpu(
            super::TreeCpuStrategy {
                acceptance: Acceptance::Geometric { theta: THETA },
                ..super::TreeCpuStrategy::new(single, set)
            },
            threads,
        ),
        order: Order::Quadrupole,
        precision: single,
        note: "quadrupoles",
    };
    let mut rungs = vec![
        cpu("CPU, one thread, scalar", InstructionSet::Portable, Threads::One),
        cpu("CPU, all cores, SIMD", InstructionSet::best(), Threads::All),
    ];
    let Some(device) = device else { return rungs };
    let mut add = |name, algorithm, order, precision, note| {
        let strategy = device::TreeDeviceStrategy {
            algorithm,
            order,
            ..device::TreeDeviceStrategy::default_for(device, precision)
        };
        rungs.push(Rung { name, kind: RungKind::Device(strategy), order, precision, note });
    };

    for (name, throttled, sorted, vote, note) in [
        ("six kernels, one thread per body", false, false, false, "bodies inserted one by one, under locks"),
        ("throttled by barriers", true, false, false, ""),
        ("walked in the tree's order", true, true, false, "a warp's bodies are neighbours"),
        ("opened by vote of a warp", true, true, true, "the complete program of the course"),
    ] {
        add(name, TreeAlgorithm::Insertion { sorted, vote, throttled }, Order::Monopole, single, note);
    }
    for (name, order, precision, note) in [
        ("groups, sorted along a curve", Order::Monopole, single, "cells from the sorted keys; no locks"),
        ("with quadrupoles: default", Order::Quadrupole, single, ""),
        ("the default, mixed", Order::Quadrupole, Precision::Mixed, ""),
        ("the default, f64", Order::Quadrupole, Precision::Double, ""),
        ("with octupoles", Order::Octupole, single, ""),
    ] {
        add(name, TreeAlgorithm::Groups, order, precision, note);
    }
    rungs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each rung of the course adds one optimisation to the previous one.
    #[test]
    fn each_rung_of_the_course_adds_one_optimisation() {
        let Some(device) = Device::list().devices.into_iter().next() else { return };
        let mut added = Vec::new();
        for rung in rungs(Some(&device)) {
            if let RungKind::Device(device::TreeDeviceStrategy {
                algorithm: TreeAlgorithm::Insertion { sorted, vote, throttled },
                ..
            }) = rung.kind
            {
                added.push(u32::from(sorted) + u32::from(vote) + u32::from(throttled));
            }
        }
        assert_eq!(added, [0, 1, 2, 3]);
    }
}
