//! The ladder of all-pairs gravity: from one thread to the default, one step at a time. The steps on the device up to
//! the compiler's flags are those of a course (slides on N-body simulation in CUDA after Martin Burtscher's tutorial), with
//! the gains that it reports for its three GPUs; the rest goes beyond it.

use orrery_device::Device;

use super::device::{self, DirectKernel};
use crate::settings::Precision;
use crate::simd::InstructionSet;

/// How many threads of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One.
    One,
    /// As many as there are cores.
    All,
}

/// Where a rung runs and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RungKind {
    /// On the processor.
    Cpu(super::DirectCpuStrategy, Threads),
    /// On the device.
    Device(device::DirectDeviceStrategy),
    /// On the device as a run would: tuned if there is a tuning, else [`device::DirectDeviceStrategy::default_for`].
    Default,
}

/// A step of the ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct Rung {
    /// What is new in it.
    pub name: &'static str,
    /// Where and how.
    pub kind: RungKind,
    /// The arithmetic.
    pub precision: Precision,
    /// The course's gain over the rung before, on compute capability 1.3, 2.0 and 3.0.
    pub course: Option<[f64; 3]>,
    /// What a reader should know beside it.
    pub note: &'static str,
}

/// The rungs, from the first to the last; those of `device` if it has one that they fit.
pub fn rungs(device: Option<&Device>) -> Vec<Rung> {
    let single = Precision::Single;
    let cpu = |name, set, threads| Rung {
        name,
        kind: RungKind::Cpu(super::DirectCpuStrategy::new(single, set), threads),
        precision: single,
        course: None,
        note: "",
    };
    let mut rungs = vec![
        cpu("CPU, one thread, scalar", InstructionSet::Portable, Threads::One),
        cpu("CPU, all cores, SIMD", InstructionSet::best(), Threads::All),
    ];
    let Some(device) = device else { return rungs };
    let mut add =
        |name, kind, precision, course, note| rungs.push(Rung { name, kind, precision, course, note });

    for (name, form, unroll, course, note) in [
        ("one GPU thread", DirectKernel::OneThread, 1, None, ""),
        ("one thread a body, structs", DirectKernel::Structs, 1, Some([7781.0, 6495.0, 12_150.0]), ""),
        ("structure of arrays", DirectKernel::Arrays, 1, Some([0.83, 0.96, 0.82]), ""),
        ("parameters in constant memory", DirectKernel::Constant, 1, Some([1.015, 1.016, 0.971]), ""),
        ("reciprocal square root", DirectKernel::Rsqrt, 1, Some([0.99, 1.83, 1.64]), ""),
        ("two loops, no if", DirectKernel::TwoLoops, 1, Some([0.55, 1.0, 1.0]), ""),
        ("tiles in shared memory", DirectKernel::Tile, 1, Some([3.7, 1.1, 1.6]), "the if is back"),
        ("unrolled 8 times", DirectKernel::Unrolled, 8, Some([1.07, 1.16, 1.07]), ""),
        (
            "without the if",
            DirectKernel::NoIf,
            8,
            Some([1.38, 1.54, 1.64]),
            "softening keeps the own term finite",
        ),
        ("terms arranged for FMA", DirectKernel::Fma, 8, Some([1.03, 1.05, 1.06]), ""),
        ("unrolled 32 times", DirectKernel::MoreUnrolled, 32, None, ""),
        (
            "unrolled 128 times",
            DirectKernel::MoreUnrolled,
            128,
            Some([1.01, 1.04, 0.93]),
            "the course's gain is over 8 times",
        ),
        ("denormals flushed to zero", DirectKernel::FlushToZero, 32, Some([1.0, 1.18, 1.15]), ""),
        ("all fast-math flags", DirectKernel::FastMath, 32, None, ""),
    ] {
        let kind = RungKind::Device(device::DirectDeviceStrategy {
            form,
            precision: single,
            block: 256,
            targets: 1,
            unroll,
            splits: 1,
        });
        add(name, kind, single, course, note);
    }
    for (name, form, block, targets, unroll, note) in [
        ("several targets, split sources", DirectKernel::Tiled, 256, 4, 32, "right without softening too"),
        ("every pair once", DirectKernel::PairsOnce, 128, 8, 4, "action and reaction"),
    ] {
        let strategy =
            device::DirectDeviceStrategy { form, precision: single, block, targets, unroll, splits: 0 };
        if strategy.fits(device) {
            add(name, RungKind::Device(strategy), single, None, note);
        }
    }
    add("the default, single", RungKind::Default, single, None, "");
    add("the default, mixed", RungKind::Default, Precision::Mixed, None, "");
    add("the default, f64", RungKind::Default, Precision::Double, None, "");
    rungs
}
