//! The optimisation steps of the course on GPU programming that this project started from, in f32
//! and f64. See `course.cu`. `vectors` has the kernels of the second course.

mod columns;
pub mod selftest;
mod steps;
mod vectors;

pub use steps::{CourseProgram, CourseSteps};
pub(in crate::rungs::gravity) use vectors::VectorSum;
pub use vectors::{VectorKernel, VectorStrategy};

use orrery_device::{
    Arg, Buffer, Device, DeviceError, Kernel, KernelBuilder, KernelFile, Math, join_sources, kernel_source,
};
use orrery_gravity::solver::device::ForceRequest;
use orrery_gravity::solver::direct::device::{EvaluationFrame, FRAME_SLOTS_SOURCE};
use orrery_measure::workload::{TimedSolver, all_pairs};
use orrery_model::Precision;

use crate::kernel_enum::kernel_enum;
use crate::rungs::gravity::{check_body_count, check_request};
use columns::{AX, AY, AZ, CourseColumns, CourseReal, MASS, X, Y, Z};

// SAFETY: the kernels access n elements of the columns and 10 n of the structures. `CourseSum`
// and `CourseSteps` allocate as many. They write n and the addresses of these columns to constant
// memory, and keep the columns with the kernels.
const COURSE: KernelFile = unsafe {
    KernelFile::new(
        "course.cu",
        join_sources!(CourseKernel::DEFINES, FRAME_SLOTS_SOURCE, kernel_source!("course.cu")),
    )
};

/// Threads per block, as in both courses.
pub const BLOCK_SIZE: u32 = 256;
/// Block size of the kernels that convert bodies and sums.
const CONVERT_BLOCK_SIZE: u32 = 128;

kernel_enum! {
    /// Optimisation step of the course. Each includes the steps before it, except that the tiles
    /// bring the `if` back. All compute in f32, and those without special compiler flags also in
    /// f64.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum CourseKernel {
        /// One thread for all bodies.
        OneThread = 0 => "RUNG_ONE_THREAD",
        /// One thread per body, bodies as an array of structures.
        Structs = 1 => "RUNG_STRUCTS",
        /// Bodies as a structure of arrays.
        Arrays = 2 => "RUNG_ARRAYS",
        /// Parameters in constant memory.
        Constant = 3 => "RUNG_CONSTANT",
        /// Reciprocal square root instruction.
        Rsqrt = 4 => "RUNG_RSQRT",
        /// Two loops instead of `if (i != j)`.
        TwoLoops = 5 => "RUNG_TWO_LOOPS",
        /// Tiles of sources in shared memory, with the `if` again.
        Tile = 6 => "RUNG_TILE",
        /// Inner loop unrolled.
        Unrolled = 7 => "RUNG_UNROLLED",
        /// Without the `if`. Softening keeps a body's own term finite, and its difference is zero.
        NoIf = 8 => "RUNG_NO_IF",
        /// Terms arranged for FMA.
        Fma = 9 => "RUNG_FMA",
        /// Inner loop unrolled further.
        MoreUnrolled = 10 => "RUNG_MORE_UNROLLED",
        /// Denormals flushed to zero.
        FlushToZero = 11 => "RUNG_FLUSH_TO_ZERO",
        /// All fast-math flags.
        FastMath = 12 => "RUNG_FAST_MATH",
    }
}

impl CourseKernel {
    /// Returns the compiler flags.
    fn math(self) -> Math {
        match self {
            Self::FlushToZero => Math::FlushToZero,
            Self::FastMath => Math::Fast,
            _ => Math::Precise,
        }
    }

    /// Returns whether bodies are an array of structures.
    pub fn has_structs(self) -> bool {
        self < Self::Arrays
    }

    /// Returns whether blocks load tiles of sources into shared memory.
    pub fn has_tiles(self) -> bool {
        self >= Self::Tile
    }

    /// Returns the definitions of `course.cu`.
    fn definitions<R: CourseReal>(self, block_size: u32, unroll: u32) -> [(&'static str, String); 4] {
        [
            ("RUNG", self.kernel_name().to_owned()),
            ("BLOCK_SIZE", block_size.to_string()),
            ("UNROLL_BY", unroll.to_string()),
            ("DOUBLE", u8::from(R::IS_DOUBLE).to_string()),
        ]
    }
}

/// Kernel of the course with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CourseStrategy {
    /// Optimisation step.
    pub kernel: CourseKernel,
    /// Arithmetic: `Single`, or `Double` for kernels without special compiler flags.
    pub precision: Precision,
    /// Number of iterations of the inner loop that are unrolled, if the kernel unrolls it.
    pub unroll: u32,
}

/// Frame of bodies that do not move.
struct LadderFrame {
    frame: EvaluationFrame,
    /// Total mass, from the first evaluation.
    total_mass: Option<f64>,
}

impl LadderFrame {
    fn new(builder: &mut KernelBuilder) -> Result<Self, DeviceError> {
        Ok(Self { frame: EvaluationFrame::new(builder)?, total_mass: None })
    }

    /// Queues the computation of the frame.
    fn queue_update(&mut self, request: &ForceRequest) -> Result<(), DeviceError> {
        let ForceRequest { position, mass, g, eps, .. } = *request;
        let total_mass = match self.total_mass {
            Some(total) => total,
            None => *self.total_mass.insert(mass.to_vec()?.iter().sum()),
        };
        self.frame.queue_update(position, mass, g, eps, total_mass).map(drop)
    }

    /// Returns the buffer with the frame of the last update.
    fn values(&self) -> &Buffer<f64> {
        self.frame.values()
    }

    /// Waits for the last update and returns the squared softening in scaled units.
    fn scaled_eps2(&self) -> Result<f64, DeviceError> {
        self.frame.scaled_eps2()
    }
}

/// Sum over all pairs by a kernel of the course.
pub(in crate::rungs::gravity) struct CourseSum<R: CourseReal> {
    device: Device,
    n: usize,
    frame: LadderFrame,
    convert_bodies: Kernel,
    sum_pairs: Kernel,
    scale_sums: Kernel,
    block_size: u32,
    blocks: u32,
    course_kernel: CourseKernel,
    /// Bodies as structures of 10 numbers, for the first rungs. Empty for the others.
    bodies: Buffer<R>,
    /// The first rungs only use the columns of accelerations.
    columns: CourseColumns<R>,
    /// Squared softening in scaled units, from the frame of the first evaluation: bodies do not
    /// move in a ladder.
    eps2: Option<R>,
}

impl<R: CourseReal> CourseSum<R> {
    /// Builds the kernels for `n` bodies, at least one.
    pub(in crate::rungs::gravity) fn new(
        builder: &mut KernelBuilder,
        n: usize,
        strategy: &CourseStrategy,
    ) -> Result<Self, DeviceError> {
        check_body_count(builder.device(), n)?;
        let CourseStrategy { kernel: course_kernel, unroll, .. } = *strategy;
        let (block_size, blocks) = match course_kernel {
            CourseKernel::OneThread => (1, 1),
            _ => (BLOCK_SIZE, (n as u32).div_ceil(BLOCK_SIZE)),
        };
        let definitions = course_kernel.definitions::<R>(block_size, unroll);
        let module = builder.build(&COURSE, &definitions, course_kernel.math())?;
        let device = builder.device().clone();
        let columns = match course_kernel {
            CourseKernel::OneThread | CourseKernel::Structs => CourseColumns::accelerations(&device, n)?,
            CourseKernel::Arrays => CourseColumns::with_arguments(&device, n)?,
            _ => CourseColumns::with_constants(&device, n, &module)?,
        };
        Ok(Self {
            n,
            frame: LadderFrame::new(builder)?,
            convert_bodies: module.kernel("convert_bodies")?,
            sum_pairs: module.kernel("sum_pairs")?,
            scale_sums: module.kernel("scale_sums")?,
            block_size,
            blocks,
            course_kernel,
            bodies: device.zeros(if course_kernel.has_structs() { 10 * n } else { 0 })?,
            columns,
            eps2: None,
            device,
        })
    }
}

impl<R: CourseReal> TimedSolver for CourseSum<R> {
    fn queue_forces(&mut self, request: &ForceRequest) -> Result<(), DeviceError> {
        check_request(request, self.n, COURSE.name())?;
        let ForceRequest { position, mass, acceleration, .. } = *request;
        self.frame.queue_update(request)?;
        let (queue, frame, n) = (self.device.queue(), self.frame.values(), self.n);
        let convert_blocks = (n as u32).div_ceil(CONVERT_BLOCK_SIZE);
        let [x, y, z] = position.args();
        let mut args = vec![x, y, z, mass.into(), frame.into(), (n as i32).into()];
        if self.course_kernel.has_structs() {
            args.push((&self.bodies).into());
        } else {
            args.extend([X, Y, Z, MASS].map(|column| Arg::from(self.columns.get(column))));
        }
        queue.launch(&self.convert_bodies, convert_blocks, CONVERT_BLOCK_SIZE, &args)?;

        let eps2 = match self.eps2 {
            Some(eps2) => eps2,
            None => {
                let eps2 = R::from_f64(self.frame.scaled_eps2()?);
                self.columns.write_constants(queue, eps2, R::default())?;
                *self.eps2.insert(eps2)
            }
        };
        let sums = [AX, AY, AZ].map(|column| Arg::from(self.columns.get(column)));
        let args = if self.course_kernel.has_structs() {
            let [ax, ay, az] = sums;
            vec![(&self.bodies).into(), ax, ay, az, eps2.into(), (n as i32).into()]
        } else {
            self.columns.sum_args(eps2)
        };
        queue.launch(&self.sum_pairs, self.blocks, self.block_size, &args)?;

        let ([sum_x, sum_y, sum_z], [ax, ay, az]) = (sums, acceleration.args());
        let args = [sum_x, sum_y, sum_z, frame.into(), (n as i32).into(), ax, ay, az];
        queue.launch(&self.scale_sums, convert_blocks, CONVERT_BLOCK_SIZE, &args)
    }

    fn count_terms(&self, n: usize) -> Result<[u64; 2], DeviceError> {
        Ok(all_pairs(n))
    }

    fn main_kernel(&self) -> Option<(&Kernel, u32)> {
        Some((&self.sum_pairs, self.block_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_enum::check_conditions;

    #[test]
    fn rungs_in_the_kernel_file_are_defined() {
        check_conditions(COURSE.text(), "RUNG");
    }
}
