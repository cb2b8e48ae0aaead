//! y ← a x + y and then y ← b x + y for n numbers: the example of OpenACC in the course, without a
//! language of directives.
//!
//! On the CPU, rayon replaces `parallel loop`. On a device, the region of a `data` directive is the
//! code between the copies, gangs are blocks and a vector is the threads of a block.
//!
//! Cost of one update of one element: two operations and 12 bytes of memory. Copies to and from the
//! device take much longer than the update, and so the place of the copies decides the speed.

pub mod selftest;

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Module, Queue};
use rayon::prelude::*;

// SAFETY: all kernels access the first n elements, or rows * columns, of x and y. The launches
// check that both buffers have as many.
const SAXPY: KernelFile = unsafe { KernelFile::new("saxpy.cu", include_str!("saxpy.cu")) };

/// Factors of the course: a and b.
pub const FACTORS: [f32; 2] = [2.0, 3.0];

/// Numbers per task of the thread pool.
const CHUNK_LEN: usize = 1 << 15;

/// Reference implementation: updates `y` with each factor, element by element. `x` and `y` have the
/// same length.
pub fn saxpy_reference(factors: [f32; 2], x: &[f32], y: &mut [f32]) {
    for factor in factors {
        update(factor, x, y);
    }
}

fn update(factor: f32, x: &[f32], y: &mut [f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += factor * x;
    }
}

/// Updates `y` with each factor on all CPU cores, one loop after the other.
pub fn saxpy_on_cpu(factors: [f32; 2], x: &[f32], y: &mut [f32]) {
    for factor in factors {
        let parts = y.par_chunks_mut(CHUNK_LEN).zip(x.par_chunks(CHUNK_LEN));
        parts.for_each(|(y, x)| update(factor, x, y));
    }
}

/// Updates `y` with both factors on all CPU cores in one pass.
pub fn fused_saxpy_on_cpu([a, b]: [f32; 2], x: &[f32], y: &mut [f32]) {
    let parts = y.par_chunks_mut(CHUNK_LEN).zip(x.par_chunks(CHUNK_LEN));
    parts.for_each(|(y, x)| {
        for (y, x) in y.iter_mut().zip(x) {
            *y = b * x + (a * x + *y);
        }
    });
}

/// Part of the program around which the arrays are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyRegion {
    /// Each loop: x and y to the device before it, y back after it. `parallel loop` of OpenACC
    /// without a `data` directive.
    EachLoop,
    /// Both loops: `data copyin(x) copy(y)` of OpenACC.
    BothLoops,
}

/// Kernels that work on arrays on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceLoops {
    /// One launch per loop.
    Separate,
    /// One launch that updates each element twice.
    Fused,
    /// The same with loads and stores of 16 bytes.
    FusedVectors,
}

/// Distribution of two nested loops over blocks and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NestedLoops {
    /// The rows are distributed over all threads, and each thread runs the inner loop.
    ThreadPerRow,
    /// The rows are distributed over the blocks, and the columns over the threads of a block.
    BlockPerRow,
}

/// Rows and columns of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaxpyShape {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns. The elements of a row are neighbours in memory.
    pub columns: usize,
}

/// x and y on the two sides of a launch: buffers of the same length.
#[derive(Clone, Copy, Debug)]
pub struct SaxpyVectors<'a> {
    /// x, which is read.
    pub x: &'a Buffer<f32>,
    /// y, which is updated.
    pub y: &'a Buffer<f32>,
}

/// Kernels for one block size.
#[derive(Debug)]
pub struct Saxpy {
    block_size: u32,
    module: Module,
    saxpy: Kernel,
}

impl Saxpy {
    /// Compiles the kernels for `block_size` threads per block, the vector length of OpenACC.
    pub fn new(device: &Device, block_size: u32) -> Result<Self, DeviceError> {
        let module = device.build(&SAXPY, &[("BLOCK_SIZE", block_size.to_string())], Math::Precise)?;
        Ok(Self { block_size, saxpy: module.kernel("saxpy")?, module })
    }

    /// Returns the number of blocks with one thread per element.
    pub fn blocks_for(&self, n: usize) -> u32 {
        (n as u64).div_ceil(u64::from(self.block_size)).max(1) as u32
    }

    /// Copies the arrays to the device, updates them there and copies `y` back. Waits for it. `x`
    /// and `y` have as many elements as the buffers. They may be page-locked.
    pub fn run_with_copies(
        &self,
        queue: &Queue,
        region: CopyRegion,
        factors: [f32; 2],
        host: (&[f32], &mut [f32]),
        on_device: SaxpyVectors<'_>,
    ) -> Result<(), DeviceError> {
        let (x, y) = host;
        let blocks = self.blocks_for(x.len());
        match region {
            CopyRegion::EachLoop => {
                for factor in factors {
                    queue.write(on_device.x, x)?;
                    queue.write(on_device.y, y)?;
                    self.launch_update(queue, blocks, factor, on_device)?;
                    queue.read(on_device.y, y)?;
                }
            }
            CopyRegion::BothLoops => {
                queue.write(on_device.x, x)?;
                queue.write(on_device.y, y)?;
                for factor in factors {
                    self.launch_update(queue, blocks, factor, on_device)?;
                }
                queue.read(on_device.y, y)?;
            }
        }
        Ok(())
    }

    /// Queues both loops on arrays that are on the device.
    pub fn launch(
        &self,
        queue: &Queue,
        loops: DeviceLoops,
        [a, b]: [f32; 2],
        on_device: SaxpyVectors<'_>,
    ) -> Result<(), DeviceError> {
        let n = on_device.checked_len()?;
        let name = match loops {
            DeviceLoops::Separate => {
                let blocks = self.blocks_for(n);
                self.launch_update(queue, blocks, a, on_device)?;
                return self.launch_update(queue, blocks, b, on_device);
            }
            DeviceLoops::Fused => "saxpy_twice",
            DeviceLoops::FusedVectors => "saxpy_twice_vectors",
        };
        let threads = if loops == DeviceLoops::FusedVectors { n.div_ceil(4) } else { n };
        let args = [(n as u64).into(), a.into(), b.into(), on_device.x.into(), on_device.y.into()];
        queue.launch(&self.module.kernel(name)?, self.blocks_for(threads), self.block_size, &args)
    }

    /// Queues one loop with a given number of blocks, the gangs of OpenACC.
    pub fn launch_update(
        &self,
        queue: &Queue,
        blocks: u32,
        factor: f32,
        on_device: SaxpyVectors<'_>,
    ) -> Result<(), DeviceError> {
        let n = on_device.checked_len()?;
        let args = [(n as u64).into(), factor.into(), on_device.x.into(), on_device.y.into()];
        queue.launch(&self.saxpy, blocks, self.block_size, &args)
    }

    /// Queues one update of a matrix by two nested loops. `gangs` limits the number of blocks.
    /// Without it, there are as many as rows, or as threads for all rows.
    pub fn launch_nested(
        &self,
        queue: &Queue,
        nested: NestedLoops,
        gangs: Option<u32>,
        shape: SaxpyShape,
        factor: f32,
        on_device: SaxpyVectors<'_>,
    ) -> Result<(), DeviceError> {
        let (n, SaxpyShape { rows, columns }) = (on_device.checked_len()?, shape);
        if rows.checked_mul(columns) != Some(n) {
            let expected = rows.saturating_mul(columns);
            return Err(DeviceError::Length { device: queue.device().title(), expected, got: n });
        }
        let (name, blocks) = match nested {
            NestedLoops::ThreadPerRow => ("thread_per_row", self.blocks_for(rows)),
            NestedLoops::BlockPerRow => ("block_per_row", rows.clamp(1, 1 << 30) as u32),
        };
        let args = [
            (rows as u64).into(),
            (columns as u64).into(),
            factor.into(),
            on_device.x.into(),
            on_device.y.into(),
        ];
        let blocks = gangs.map_or(blocks, |gangs| gangs.min(blocks));
        queue.launch(&self.module.kernel(name)?, blocks, self.block_size, &args)
    }
}

impl SaxpyVectors<'_> {
    /// Returns the number of elements, which is the same for both.
    fn checked_len(&self) -> Result<usize, DeviceError> {
        let (expected, got) = (self.x.len(), self.y.len());
        if got == expected {
            return Ok(got);
        }
        Err(DeviceError::Length { device: self.y.device().title(), expected, got })
    }
}
