//! The ladder of all-pairs gravity: from one thread to the default strategy, one optimisation per
//! rung.
//!
//! The device rungs up to the compiler flags are those of a course (slides on N-body simulation in
//! CUDA after Martin Burtscher's tutorial), with the gains that the course reports for its
//! GPUs. The later rungs are not from the course.

use orrery_device::Device;
use orrery_model::Precision;
use orrery_simd::InstructionSet;

use super::device::{self, DirectKernel};
use crate::solver::CpuStrategy;
use crate::solver::rungs::{Rung, RungKind, Threads};

/// Compute capabilities of the GPUs for which the course reports gains, in the order of
/// [`Rung::course`]: Quadro FX 5800, Tesla C2050 and GeForce GTX 680. A gain is relative to the
/// previous rung.
pub const COURSE_GPUS: [&str; 3] = ["1.3", "2.0", "3.0"];

/// Returns the rungs from the first to the last. Device rungs are included if `device` is given and
/// can run them.
pub fn rungs(device: Option<&Device>) -> Vec<Rung> {
    let mut rungs = cpu_rungs();
    if let Some(device) = device {
        rungs.extend(course_rungs());
        rungs.extend(device_rungs(device));
    }
    rungs
}

fn cpu_rungs() -> Vec<Rung> {
    let precision = Precision::Single;
    let cpu = |name, set, threads| Rung {
        name,
        kind: RungKind::Cpu(CpuStrategy::Direct(super::DirectCpuStrategy::new(precision, set)), threads),
        precision,
        course: &[],
        note: "",
    };
    vec![
        cpu("CPU, one thread, scalar", InstructionSet::Portable, Threads::One),
        cpu("CPU, all cores, SIMD", InstructionSet::best(), Threads::All),
    ]
}

/// Returns the rungs of the course, with the gains that it reports.
fn course_rungs() -> Vec<Rung> {
    let rung = |name, kernel, unroll, course: &'static [f64], note| {
        let precision = Precision::Single;
        let strategy =
            device::DirectDeviceStrategy { kernel, precision, block: 256, targets: 1, unroll, splits: 1 };
        Rung { name, kind: RungKind::Device(strategy.into()), precision, course, note }
    };
    vec![
        rung("one GPU thread", DirectKernel::OneThread, 1, &[], ""),
        rung("one thread per body, structs", DirectKernel::Structs, 1, &[7781.0, 6495.0, 12_150.0], ""),
        rung("structure of arrays", DirectKernel::Arrays, 1, &[0.83, 0.96, 0.82], ""),
        rung(
            "parameters in constant memory",
            DirectKernel::Constant,
            1,
            &[1.015, 1.016, 0.971],
            "course: 1,000 or 3,000 bodies; see the steps below",
        ),
        rung("reciprocal square root", DirectKernel::Rsqrt, 1, &[0.99, 1.83, 1.64], ""),
        rung("two loops, no if", DirectKernel::TwoLoops, 1, &[0.55, 1.0, 1.0], ""),
        rung("tiles in shared memory", DirectKernel::Tile, 1, &[3.7, 1.1, 1.6], "with the if again"),
        rung("unrolled 8 times", DirectKernel::Unrolled, 8, &[1.07, 1.16, 1.07], ""),
        rung(
            "without the if",
            DirectKernel::NoIf,
            8,
            &[1.38, 1.54, 1.64],
            "softening keeps the self-interaction finite",
        ),
        rung("terms arranged for FMA", DirectKernel::Fma, 8, &[1.03, 1.05, 1.06], ""),
        rung("unrolled 32 times", DirectKernel::MoreUnrolled, 32, &[], ""),
        rung(
            "unrolled 128 times",
            DirectKernel::MoreUnrolled,
            128,
            &[1.01, 1.04, 0.93],
            "gain of the course: over 8 times",
        ),
        rung("denormals flushed to zero", DirectKernel::FlushToZero, 32, &[1.0, 1.18, 1.15], ""),
        rung("all fast-math flags", DirectKernel::FastMath, 32, &[], ""),
    ]
}

/// Returns the production kernels that fit the device and the default strategies.
fn device_rungs(device: &Device) -> Vec<Rung> {
    let single = Precision::Single;
    let mut rungs = Vec::new();
    for (name, kernel, block, targets, unroll, note) in [
        ("several targets, split sources", DirectKernel::Tiled, 256, 4, 32, "also correct without softening"),
        ("every pair once", DirectKernel::PairsOnce, 128, 8, 4, "action and reaction"),
    ] {
        let strategy =
            device::DirectDeviceStrategy { kernel, precision: single, block, targets, unroll, splits: 0 };
        if strategy.fits(device) {
            rungs.push(Rung {
                name,
                kind: RungKind::Device(strategy.into()),
                precision: single,
                course: &[],
                note,
            });
        }
    }
    for (name, precision) in [
        ("the default, single", single),
        ("the default, mixed", Precision::Mixed),
        ("the default, f64", Precision::Double),
    ] {
        rungs.push(Rung { name, kind: RungKind::Default, precision, course: &[], note: "" });
    }
    rungs
}
