//! The ladder of the tree: from one thread to the default. The steps by insertion are the six kernels of a course (slides on
//! Barnes-Hut in CUDA after Burtscher & Pingali 2011) with what it adds to them one by one, so that the last of them is the
//! course's whole program; the rest walks by groups.

use orrery_device::Device;

use super::device::{self, Order, TreeAlgorithm};
use crate::settings::{Acceptance, Precision};
use crate::simd::InstructionSet;
use crate::solver::direct::rungs::Threads;

/// The opening angle of every rung, in the geometric acceptance.
pub const THETA: f64 = 0.5;

/// Where a rung runs and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RungKind {
    /// On the processor.
    Cpu(super::TreeCpuStrategy, Threads),
    /// On the device.
    Device(device::TreeDeviceStrategy),
}

/// A step of the ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct Rung {
    /// What is new in it.
    pub name: &'static str,
    /// Where and how.
    pub kind: RungKind,
    /// The highest multipole of its cells.
    pub order: Order,
    /// The arithmetic.
    pub precision: Precision,
    /// What a reader should know beside it.
    pub note: &'static str,
}

/// The rungs, from the first to the last; those of `device` if there is one.
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
    let mut add = |name, form, order, precision, note| {
        let strategy = device::TreeDeviceStrategy {
            form,
            order,
            ..device::TreeDeviceStrategy::default_for(device, precision)
        };
        rungs.push(Rung { name, kind: RungKind::Device(strategy), order, precision, note });
    };

    for (name, throttled, sorted, vote, note) in [
        ("six kernels, a thread a body", false, false, false, "bodies inserted one by one, under locks"),
        ("throttled by barriers", true, false, false, ""),
        ("walked in the tree's order", true, true, false, "a warp's bodies are neighbours"),
        ("opened by vote of a warp", true, true, true, "the course's program, whole"),
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

    /// Each rung of the course adds one thing to the one before it.
    #[test]
    fn one_thing_at_a_time() {
        let Some(device) = Device::list().devices.into_iter().next() else { return };
        let mut added = Vec::new();
        for rung in rungs(Some(&device)) {
            if let RungKind::Device(device::TreeDeviceStrategy {
                form: TreeAlgorithm::Insertion { sorted, vote, throttled },
                ..
            }) = rung.kind
            {
                added.push(u32::from(sorted) + u32::from(vote) + u32::from(throttled));
            }
        }
        assert_eq!(added, [0, 1, 2, 3]);
    }
}
