//! The ladder of all-pairs gravity: from one thread to the default strategy, one optimisation per
//! rung.
//!
//! The device rungs up to the step with its position update are those of a course (slides on N-body
//! simulation in CUDA after Martin Burtscher's tutorial), with the gains that the course reports
//! for its GPUs. Each changes one thing in the rung before it. The same rungs follow in f64, then
//! the kernels of the second course (lecture notes on GPU computing). The last rungs are not from
//! a course.

pub mod course;
pub mod plain;
pub mod selftest;

use orrery_device::Device;
use orrery_gravity::solver::GravityCpuStrategy;
use orrery_gravity::solver::direct::DirectCpuStrategy;
use orrery_gravity::solver::direct::device::{DirectDeviceStrategy, DirectKernel};
use orrery_model::Precision;
use orrery_simd::InstructionSet;

use super::{GravityRung, GravityRungKind, LectureStrategy, ThreadCount};
use course::{CourseKernel, CourseStrategy, VectorKernel, VectorStrategy};

/// Compute capabilities of the GPUs for which the course reports gains, in the order of
/// [`GravityRung::course`]: Quadro FX 5800, Tesla C2050 and GeForce GTX 680. A gain is relative to
/// the previous rung, and that of one GPU thread to one CPU thread.
pub const COURSE_GPUS: [&str; 3] = ["1.3", "2.0", "3.0"];

/// Absolute performance that the course reports for one of its GPUs. It times whole steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CourseFigure {
    /// Name of the rung that is the same program.
    pub rung: &'static str,
    /// Compute capability.
    pub gpu: &'static str,
    /// Number of bodies.
    pub bodies: usize,
    /// Time of a step in ms.
    pub milliseconds: Option<f64>,
    /// Billions of floating-point operations per second, 20 per pair.
    pub gflops: f64,
    /// Throughput of the main memory in GB/s. It is the number of bytes that blocks load, divided
    /// by the time: 16 n bytes per block of 256 targets, and about 80 per body.
    pub gigabytes_per_s: Option<f64>,
}

/// All absolute figures of the course.
pub const COURSE_FIGURES: [CourseFigure; 5] = [
    CourseFigure {
        rung: UNROLLED_8,
        gpu: "2.0",
        bodies: 100_000,
        milliseconds: Some(612.0),
        gflops: 326.7,
        gigabytes_per_s: Some(1.035),
    },
    CourseFigure {
        rung: COURSE_STEP,
        gpu: "2.0",
        bodies: 100_000,
        milliseconds: Some(296.1),
        gflops: 675.6,
        gigabytes_per_s: Some(2.139),
    },
    CourseFigure {
        rung: COURSE_STEP,
        gpu: "3.0",
        bodies: 300_000,
        milliseconds: Some(1073.0),
        gflops: 1677.6,
        gigabytes_per_s: Some(5.266),
    },
    CourseFigure {
        rung: UNROLLED_128_DOUBLE,
        gpu: "2.0",
        bodies: 100_000,
        milliseconds: None,
        gflops: 261.1,
        gigabytes_per_s: None,
    },
    CourseFigure {
        rung: UNROLLED_128_DOUBLE,
        gpu: "3.0",
        bodies: 300_000,
        milliseconds: None,
        gflops: 88.7,
        gigabytes_per_s: None,
    },
];

const UNROLLED_8: &str = "unrolled 8 times";
const COURSE_STEP: &str = "with the position update";
const UNROLLED_128_DOUBLE: &str = "f64: unrolled 128 times";

/// Returns the rungs from the first to the last. Device rungs are included if `device` is given and
/// can run them.
pub fn rungs(device: Option<&Device>) -> Vec<GravityRung> {
    let mut rungs = cpu_rungs();
    if let Some(device) = device {
        rungs.extend(course_rungs());
        rungs.extend(course_rungs_in_double());
        rungs.extend(second_course_rungs());
        rungs.extend(device_rungs(device));
    }
    rungs
}

fn cpu_rungs() -> Vec<GravityRung> {
    let precision = Precision::Single;
    let rung = |name, kind, note| GravityRung { name, kind, precision, course: &[], note };
    let strategy = GravityCpuStrategy::Direct(DirectCpuStrategy::new(precision, InstructionSet::best()));
    vec![
        rung("CPU, one thread, scalar", GravityRungKind::PlainCpu, "array of structures, two plain loops"),
        rung(
            "CPU, one thread, SIMD",
            GravityRungKind::Cpu(strategy, ThreadCount::One),
            "tiles in the L1 cache",
        ),
        rung("CPU, all cores, SIMD", GravityRungKind::Cpu(strategy, ThreadCount::All), ""),
    ]
}

/// Returns a rung of the course.
fn course_rung(
    name: &'static str,
    kernel: CourseKernel,
    precision: Precision,
    unroll: u32,
    course: &'static [f64],
    note: &'static str,
) -> GravityRung {
    let strategy = LectureStrategy::Course(CourseStrategy { kernel, precision, unroll });
    GravityRung { name, kind: GravityRungKind::Lecture(strategy), precision, course, note }
}

/// Returns the rungs of the course, with the gains that it reports.
fn course_rungs() -> Vec<GravityRung> {
    let rung = |name, kernel, unroll, course: &'static [f64], note| {
        course_rung(name, kernel, Precision::Single, unroll, course, note)
    };
    vec![
        rung(
            "one GPU thread",
            CourseKernel::OneThread,
            1,
            &[1.0 / 72.4, 1.0 / 36.7, 1.0 / 68.1],
            "a grid of one thread; gain of the course: over one CPU thread",
        ),
        rung("one thread per body, structs", CourseKernel::Structs, 1, &[7781.0, 6495.0, 12_150.0], ""),
        rung("structure of arrays", CourseKernel::Arrays, 1, &[0.83, 0.96, 0.82], ""),
        rung(
            "parameters in constant memory",
            CourseKernel::Constant,
            1,
            &[1.015, 1.016, 0.971],
            "course: 1,000 or 3,000 bodies; see the steps below",
        ),
        rung("reciprocal square root", CourseKernel::Rsqrt, 1, &[0.99, 1.83, 1.64], ""),
        rung("two loops, no if", CourseKernel::TwoLoops, 1, &[0.55, 1.0, 1.0], ""),
        rung("tiles in shared memory", CourseKernel::Tile, 1, &[3.7, 1.1, 1.6], "with the if again"),
        rung(UNROLLED_8, CourseKernel::Unrolled, 8, &[1.07, 1.16, 1.07], ""),
        rung(
            "without the if",
            CourseKernel::NoIf,
            8,
            &[1.38, 1.54, 1.64],
            "softening keeps the self-interaction finite",
        ),
        rung("terms arranged for FMA", CourseKernel::Fma, 8, &[1.03, 1.05, 1.06], ""),
        rung("unrolled 32 times", CourseKernel::MoreUnrolled, 32, &[], ""),
        rung(
            "unrolled 128 times",
            CourseKernel::MoreUnrolled,
            128,
            &[1.01, 1.04, 0.93],
            "gain of the course: over 8 times",
        ),
        rung("denormals flushed to zero", CourseKernel::FlushToZero, 128, &[1.0, 1.18, 1.15], ""),
        rung("all fast-math flags", CourseKernel::FastMath, 128, &[], ""),
        GravityRung {
            name: COURSE_STEP,
            kind: GravityRungKind::CourseStep,
            precision: Precision::Single,
            course: &[],
            note: "a step of two launches, as the course times it",
        },
    ]
}

/// Returns the rungs of the course in f64. Its compiler flags have no effect on f64.
fn course_rungs_in_double() -> Vec<GravityRung> {
    let rung = |name, kernel, unroll, note| course_rung(name, kernel, Precision::Double, unroll, &[], note);
    vec![
        rung("f64: one thread per body, structs", CourseKernel::Structs, 1, "the same rungs in f64"),
        rung("f64: structure of arrays", CourseKernel::Arrays, 1, ""),
        rung("f64: constant memory", CourseKernel::Constant, 1, ""),
        rung("f64: reciprocal square root", CourseKernel::Rsqrt, 1, ""),
        rung("f64: two loops, no if", CourseKernel::TwoLoops, 1, ""),
        rung("f64: tiles in shared memory", CourseKernel::Tile, 1, ""),
        rung("f64: unrolled 8 times", CourseKernel::Unrolled, 8, ""),
        rung("f64: without the if", CourseKernel::NoIf, 8, ""),
        rung("f64: terms arranged for FMA", CourseKernel::Fma, 8, ""),
        rung(UNROLLED_128_DOUBLE, CourseKernel::MoreUnrolled, 128, "the f32 flags do not change f64"),
    ]
}

/// Returns the rungs of the second course. They have no `if` and use the reciprocal square root
/// from the start.
fn second_course_rungs() -> Vec<GravityRung> {
    let rung = |name, kernel, unroll, note| {
        let kind = GravityRungKind::Lecture(LectureStrategy::Vectors(VectorStrategy { kernel, unroll }));
        GravityRung { name, kind, precision: Precision::Single, course: &[], note }
    };
    vec![
        rung(
            "second course: structs",
            VectorKernel::BodyStructs,
            16,
            "7 floats; reciprocal square root and no if from the start",
        ),
        rung("second course: arrays", VectorKernel::BodyArrays, 16, ""),
        rung("second course: float4", VectorKernel::BodyFloat4, 16, "one load of 16 bytes per source"),
        rung(
            "second course: grid-stride loop",
            VectorKernel::GridStride,
            16,
            "as many blocks as run at once; the same grid if they have a thread for every body",
        ),
        rung(
            "second course: float4 tiles",
            VectorKernel::TileFloat4,
            32,
            "in shared memory; unrolled 32 times, as in the course",
        ),
    ]
}

/// Returns the production kernels that fit the device and the default strategies.
fn device_rungs(device: &Device) -> Vec<GravityRung> {
    let single = Precision::Single;
    let mut rungs = Vec::new();
    for (name, kernel, block, targets, unroll, note) in [
        ("several targets, split sources", DirectKernel::Tiled, 256, 4, 32, "also correct without softening"),
        ("every pair once", DirectKernel::PairsOnce, 128, 8, 4, "action and reaction"),
    ] {
        let strategy = DirectDeviceStrategy { kernel, precision: single, block, targets, unroll, splits: 0 };
        if strategy.fits(device) {
            rungs.push(GravityRung {
                name,
                kind: GravityRungKind::Device(strategy.into()),
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
        rungs.push(GravityRung { name, kind: GravityRungKind::Default, precision, course: &[], note: "" });
    }
    rungs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the strategies of rungs of the course.
    fn strategies(rungs: &[GravityRung]) -> Vec<CourseStrategy> {
        let strategy = |rung: &GravityRung| match rung.kind {
            GravityRungKind::Lecture(LectureStrategy::Course(strategy)) => Some(strategy),
            _ => None,
        };
        rungs.iter().filter_map(strategy).collect()
    }

    #[test]
    fn figures_of_the_course_belong_to_rungs() {
        let names: Vec<&str> =
            course_rungs().iter().chain(&course_rungs_in_double()).map(|rung| rung.name).collect();
        for figure in COURSE_FIGURES {
            assert!(names.contains(&figure.rung), "{figure:?}");
            // The course counts 20 operations per pair.
            let pairs = (figure.bodies as f64).powi(2);
            let gflops = figure.milliseconds.map_or(figure.gflops, |ms| 20.0 * pairs / (1e6 * ms));
            assert!((gflops / figure.gflops - 1.0).abs() < 1e-3, "{figure:?}: {gflops}");
        }
    }

    /// A rung with other flags than the one before has the same code.
    #[test]
    fn compiler_flags_keep_the_unroll_factor() {
        let strategies = strategies(&course_rungs());
        let unroll_of = |kernel| strategies.iter().rev().find(|s| s.kernel == kernel).unwrap().unroll;
        assert_eq!(unroll_of(CourseKernel::FlushToZero), unroll_of(CourseKernel::MoreUnrolled));
        assert_eq!(unroll_of(CourseKernel::FastMath), unroll_of(CourseKernel::FlushToZero));
        for pair in strategies.windows(2) {
            assert!(pair[0].kernel != pair[1].kernel || pair[0].unroll != pair[1].unroll, "{pair:?}");
        }
    }
}
