//! The optimisation steps of the course on GPU programming that this project started from, in f32
//! and f64. They are rungs of the ladder. See `course.cu`. `vectors` has the kernels of the second
//! course.

mod columns;
pub(in crate::solver::direct) mod selftest;
mod steps;
mod vectors;

pub use steps::{CourseProgram, CourseSteps};
pub(super) use vectors::VectorKernels;

use orrery_device::{
    Arg, Buffer, Device, DeviceError, Kernel, KernelBuilder, KernelFile, Math, kernel_source,
};
use orrery_model::Precision;

use super::{DirectDeviceStrategy, DirectKernel, FRAME_EPS2, Frame, PairSumRequest};
pub(super) use columns::CourseReal;
use columns::{AX, AY, AZ, CourseColumns, MASS, X, Y, Z};

// SAFETY: the kernels access n elements of the columns and 10 n of the structures. `CourseKernels`
// and `CourseSteps` allocate as many. They write n and the addresses of these columns to constant
// memory, and keep the columns with the kernels.
const COURSE: KernelFile =
    unsafe { KernelFile::new("course.cu", kernel_source!("../frame_slots.cu", "course.cu")) };

/// Block size of the kernels that convert bodies and sums.
const CONVERT_BLOCK_SIZE: u32 = 128;

pub(super) struct CourseKernels<R: CourseReal> {
    device: Device,
    frame: Frame,
    convert_bodies: Kernel,
    pub(super) kernel: Kernel,
    scale_sums: Kernel,
    pub(super) block_size: u32,
    rung: u32,
    /// Bodies as structures of 10 numbers, for the first rungs. Empty for the others.
    bodies: Buffer<R>,
    /// The first rungs only use the columns of accelerations.
    columns: CourseColumns<R>,
    /// Squared softening in scaled units, from the frame of the first evaluation: bodies do not
    /// move in a ladder.
    eps2: Option<R>,
}

/// Returns the bytes of scratch memory on the device: structures or columns of ten numbers, and
/// three sums.
pub(super) fn scratch_bytes(n: usize, precision: Precision) -> u64 {
    let bytes_per_number = if precision == Precision::Double { 8 } else { 4 };
    13 * bytes_per_number * n as u64
}

/// Returns the value of `RUNG` in `course.cu` and the compiler flags. Kernels of other files count
/// as the last rung.
fn rung_and_math(kernel: DirectKernel) -> (u32, Math) {
    match kernel {
        DirectKernel::OneThread => (0, Math::Precise),
        DirectKernel::Structs => (1, Math::Precise),
        DirectKernel::Arrays => (2, Math::Precise),
        DirectKernel::Constant => (3, Math::Precise),
        DirectKernel::Rsqrt => (4, Math::Precise),
        DirectKernel::TwoLoops => (5, Math::Precise),
        DirectKernel::Tile => (6, Math::Precise),
        DirectKernel::Unrolled => (7, Math::Precise),
        DirectKernel::NoIf => (8, Math::Precise),
        DirectKernel::Fma => (9, Math::Precise),
        DirectKernel::MoreUnrolled => (10, Math::Precise),
        DirectKernel::FlushToZero => (11, Math::FlushToZero),
        _ => (12, Math::Fast),
    }
}

/// Returns the definitions of `course.cu`.
fn definitions<R: CourseReal>(rung: u32, block_size: u32, unroll: u32) -> [(&'static str, String); 4] {
    [
        ("RUNG", rung.to_string()),
        ("BLOCK_SIZE", block_size.to_string()),
        ("UNROLL_BY", unroll.to_string()),
        ("DOUBLE", u8::from(R::IS_DOUBLE).to_string()),
    ]
}

impl<R: CourseReal> CourseKernels<R> {
    pub(super) fn new(
        builder: &mut KernelBuilder,
        n: usize,
        strategy: &DirectDeviceStrategy,
    ) -> Result<Self, DeviceError> {
        let (rung, math) = rung_and_math(strategy.kernel);
        let block_size = if rung == 0 { 1 } else { strategy.block };
        let values = definitions::<R>(rung, block_size, strategy.unroll);
        let module = builder.build(&COURSE, &values, math)?;
        let device = builder.device().clone();
        let columns = match rung {
            0 | 1 => CourseColumns::accelerations(&device, n)?,
            2 => CourseColumns::with_arguments(&device, n)?,
            _ => CourseColumns::with_constants(&device, n, &module)?,
        };
        Ok(Self {
            frame: Frame::new(builder)?,
            convert_bodies: module.kernel("convert_bodies")?,
            kernel: module.kernel("sum_pairs")?,
            scale_sums: module.kernel("scale_sums")?,
            block_size,
            rung,
            bodies: device.zeros(if rung < 2 { 10 * n } else { 0 })?,
            columns,
            eps2: None,
            device,
        })
    }

    pub(super) fn queue_sum(&mut self, request: &PairSumRequest) -> Result<(), DeviceError> {
        let PairSumRequest { position, mass, acceleration, .. } = *request;
        let frame = self.frame.queue_update(request)?;
        let (queue, n) = (self.device.queue(), mass.len());
        let convert_blocks = (n as u32).div_ceil(CONVERT_BLOCK_SIZE);
        let [x, y, z] = position.args();
        let mut args = vec![x, y, z, mass.into(), frame.into(), (n as i32).into()];
        match self.rung {
            0 | 1 => args.push((&self.bodies).into()),
            _ => args.extend([X, Y, Z, MASS].map(|column| Arg::from(self.columns.get(column)))),
        }
        queue.launch(&self.convert_bodies, convert_blocks, CONVERT_BLOCK_SIZE, &args)?;

        let eps2 = match self.eps2 {
            Some(eps2) => eps2,
            None => {
                let eps2 = R::from_f64(frame.to_vec()?[FRAME_EPS2]);
                self.columns.write_constants(queue, eps2, R::default())?;
                *self.eps2.insert(eps2)
            }
        };
        let sums = [AX, AY, AZ].map(|column| Arg::from(self.columns.get(column)));
        let blocks = if self.rung == 0 { 1 } else { (n as u32).div_ceil(self.block_size) };
        let args = match self.rung {
            0 | 1 => {
                let [ax, ay, az] = sums;
                vec![(&self.bodies).into(), ax, ay, az, eps2.into(), (n as i32).into()]
            }
            _ => self.columns.sum_args(eps2),
        };
        queue.launch(&self.kernel, blocks, self.block_size, &args)?;

        let ([sum_x, sum_y, sum_z], [ax, ay, az]) = (sums, acceleration.args());
        let args = [sum_x, sum_y, sum_z, frame.into(), (n as i32).into(), ax, ay, az];
        queue.launch(&self.scale_sums, convert_blocks, CONVERT_BLOCK_SIZE, &args)
    }
}
