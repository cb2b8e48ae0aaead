//! Means over pixels on a device: compiles and launches `means.cu`.

use std::sync::{Mutex, PoisonError};

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Pinned, Queue};
use orrery_model::grid::{AxisWeights, MAX_PARTIAL, PixelMeans, PixelWeights};
use rayon::prelude::*;

use super::{larger, smaller};
use crate::Scalar;

// SAFETY: the kernel reads nodes (i, j) with i below nx and j below ny, because positions of
// weights are at most nx and ny, and these are node 0. `DeviceMeans::launch` checks that the field
// has all of them. It writes one mean per pixel and two numbers per block and row of pixels, for
// which `MeansBuffers` allocates memory. All loops end.
const MEANS: KernelFile = unsafe { KernelFile::new("pixel_means.cu", include_str!("means.cu")) };

/// Threads per block, and the most pixels of a block.
const BLOCK_SIZE: usize = 256;
/// Columns that a thread sums at a time. Their loads are independent.
const COLUMNS_PER_THREAD: usize = 4;
/// Columns that a block sums at a time.
const TILE_COLUMNS: usize = BLOCK_SIZE * COLUMNS_PER_THREAD;
/// Largest number of blocks along y.
const MAX_BLOCKS_Y: usize = 65_535;

/// Nodes of a two-dimensional field in a buffer. Node (i, j) is at `first` + i `strides[0]` + j
/// `strides[1]`.
#[derive(Clone, Copy, Debug)]
pub struct StridedNodes<'a, R: Scalar> {
    /// The buffer.
    pub buffer: &'a Buffer<R>,
    /// Position of node (0, 0).
    pub first: usize,
    /// Distances of neighbours along both axes.
    pub strides: [usize; 2],
}

/// The kernel, and the buffers of the last picture, which the next one uses again.
#[derive(Debug)]
pub struct DeviceMeans<R: Scalar> {
    kernel: Kernel,
    buffers: Mutex<Option<MeansBuffers<R>>>,
}

/// Buffers for the weights of a picture and for its means.
#[derive(Debug)]
struct MeansBuffers<R: Scalar> {
    weights: PixelWeights,
    blocks: BlocksOfRow,
    columns: AxisBuffers,
    rows: AxisBuffers,
    means: Buffer<f64>,
    /// Smallest and largest value of each block.
    extremes: Buffer<R>,
    /// Page-locked memory for the two results.
    host_means: Pinned<f64>,
    host_extremes: Pinned<R>,
}

/// Weights along one direction, in the form of the kernel.
#[derive(Debug)]
struct AxisBuffers {
    ranges: Buffer<i32>,
    weights: Buffer<f64>,
}

/// Division of a row of pixels into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlocksOfRow {
    /// Pixels of a block, at most 256.
    pub pixels_per_block: usize,
    /// Number of blocks.
    pub count: usize,
}

impl<R: Scalar> DeviceMeans<R> {
    /// Compiles the kernel.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        let definitions = [
            ("REAL", R::KERNEL_NAME.to_owned()),
            ("BLOCK_SIZE", BLOCK_SIZE.to_string()),
            ("COLUMNS_PER_THREAD", COLUMNS_PER_THREAD.to_string()),
            ("MAX_PARTIAL", MAX_PARTIAL.to_string()),
        ];
        let kernel = device.build(&MEANS, &definitions, Math::Precise)?.kernel("pixel_means")?;
        Ok(Self { kernel, buffers: Mutex::new(None) })
    }

    /// Returns the bytes of the buffers of the last picture in device memory.
    pub fn buffer_bytes(&self) -> u64 {
        let cached = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let of_axis = |axis: &AxisBuffers| 4 * axis.ranges.len() + 8 * axis.weights.len();
        let of_buffers = |buffers: &MeansBuffers<R>| {
            let results = 8 * buffers.means.len() + size_of::<R>() * buffers.extremes.len();
            results + of_axis(&buffers.columns) + of_axis(&buffers.rows)
        };
        cached.as_ref().map_or(0, of_buffers) as u64
    }

    /// Waits for the queued work and returns means and range of a field. `None` if there is no
    /// memory for the buffers.
    pub fn compute(
        &self,
        queue: &Queue,
        nodes: StridedNodes<'_, R>,
        weights: &PixelWeights,
    ) -> Result<Option<PixelMeans>, DeviceError> {
        // After a panic the buffers may have an old picture, but they are complete.
        let mut cached = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.as_ref().is_none_or(|buffers| buffers.weights != *weights) {
            // The old buffers are freed first.
            *cached = None;
            // If the reason is not a lack of memory, the download reports it.
            let Ok(buffers) = MeansBuffers::new(queue.device(), weights) else { return Ok(None) };
            *cached = Some(buffers);
        }
        let Some(buffers) = cached.as_mut() else { return Ok(None) };
        self.launch(queue, nodes, buffers)?;
        let means_read = queue.read_async(&buffers.means, &mut buffers.host_means)?;
        let extremes_read = queue.read_async(&buffers.extremes, &mut buffers.host_extremes)?;
        extremes_read.wait()?;
        means_read.wait()?;
        let extremes = || buffers.host_extremes.chunks_exact(2);
        let fold = |slot: usize, pick: fn(f64, f64) -> f64, start: f64| {
            extremes().map(|pair| pair[slot].to_f64()).fold(start, pick)
        };
        Ok(Some(PixelMeans {
            means: buffers.host_means.par_iter().copied().collect(),
            min: fold(0, smaller, f64::INFINITY),
            max: fold(1, larger, f64::NEG_INFINITY),
        }))
    }

    fn launch(
        &self,
        queue: &Queue,
        StridedNodes { buffer, first, strides: [right, up] }: StridedNodes<'_, R>,
        buffers: &MeansBuffers<R>,
    ) -> Result<(), DeviceError> {
        let (nx, ny) = (buffers.weights.columns().nodes(), buffers.weights.rows().nodes());
        let last = first + (nx - 1) * right + (ny - 1) * up;
        assert!(last < buffer.len(), "the weights are those of another grid");
        let (width, height) = (buffers.weights.width(), buffers.weights.height());
        let args = [
            buffer.into(),
            (first as u64).into(),
            (right as u64).into(),
            (up as u64).into(),
            (nx as i32).into(),
            (ny as i32).into(),
            (&buffers.columns.ranges).into(),
            (&buffers.columns.weights).into(),
            (&buffers.rows.ranges).into(),
            (&buffers.rows.weights).into(),
            (width as i32).into(),
            (height as i32).into(),
            (buffers.blocks.pixels_per_block as i32).into(),
            (&buffers.means).into(),
            (&buffers.extremes).into(),
        ];
        let grid = [buffers.blocks.count as u32, height.min(MAX_BLOCKS_Y) as u32];
        queue.launch(&self.kernel, grid, BLOCK_SIZE as u32, &args)
    }
}

impl<R: Scalar> MeansBuffers<R> {
    /// Allocates the buffers of a picture and uploads its weights.
    fn new(device: &Device, weights: &PixelWeights) -> Result<Self, DeviceError> {
        let (width, height) = (weights.width(), weights.height());
        let blocks = BlocksOfRow::new(weights.columns().nodes(), width);
        let (means, extremes) = (width * height, 2 * blocks.count * height);
        Ok(Self {
            blocks,
            columns: AxisBuffers::new(device, weights.columns())?,
            rows: AxisBuffers::new(device, weights.rows())?,
            means: device.zeros(means)?,
            extremes: device.zeros(extremes)?,
            host_means: device.pinned(means)?,
            host_extremes: device.pinned(extremes)?,
            weights: weights.clone(),
        })
    }
}

impl AxisBuffers {
    fn new(device: &Device, axis: &AxisWeights) -> Result<Self, DeviceError> {
        let ranges = axis
            .pixels()
            .iter()
            .flat_map(|pixel| [pixel.first, pixel.low, pixel.whole, pixel.high].map(|number| number as i32));
        let weights =
            axis.pixels().iter().flat_map(|pixel| pixel.weights.into_iter().chain([pixel.whole_weight]));
        Ok(Self {
            ranges: device.upload(&ranges.collect::<Vec<_>>())?,
            weights: device.upload(&weights.collect::<Vec<_>>())?,
        })
    }
}

impl BlocksOfRow {
    /// Divides `width` pixels of `nx` nodes such that the nodes of a block fit into one tile, if
    /// possible.
    pub fn new(nx: usize, width: usize) -> Self {
        // A pixel has up to three nodes more than cells.
        let fitting = (TILE_COLUMNS - MAX_PARTIAL) as u64 * width as u64 / nx as u64;
        let count = width.div_ceil((fitting as usize).clamp(1, BLOCK_SIZE));
        Self { pixels_per_block: width.div_ceil(count), count }
    }
}

/// Returns the bytes of the buffers on the device, at most.
pub(super) fn needed_bytes(nx: u64, [width, height]: [u64; 2]) -> u64 {
    let blocks = BlocksOfRow::new(nx as usize, width.max(1) as usize).count as u64;
    let of_axes = (width + height) * (4 * 4 + 8 * (MAX_PARTIAL as u64 + 1));
    8 * width * height + 2 * 8 * blocks * height + of_axes
}
