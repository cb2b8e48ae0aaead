//! Copy of n floats: to_i = from_i.
//!
//! Cost: 8 bytes moved per float and no arithmetic, so memory bandwidth is the limit. The rungs
//! differ in the bytes per load and in the number of loads in flight. [`patterns`] has the copies
//! whose addresses are shifted or strided.
//!
//! When not to use them: [`Queue::copy`](orrery_device::Queue::copy) is as fast and shorter. These
//! kernels show the speed that any other kernel can reach.

pub mod patterns;
pub mod selftest;

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, Resources};
use rayon::prelude::*;

// SAFETY: the kernels access n elements of both buffers, in vectors of up to 16 bytes. The launch
// passes the length of `from` as n, checks that `to` is as long, and passes whole buffers, which
// are aligned to more than 16 bytes.
const COPY: KernelFile = unsafe { KernelFile::new("copy.cu", include_str!("copy.cu")) };

/// Block sizes (threads per block) that the ladder measures.
pub const BLOCK_SIZES: [u32; 4] = [128, 256, 512, 1024];

/// Method of a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyMethod {
    /// One thread per vector of `width` floats: 1, 2 or 4.
    Vectors {
        /// Floats per load.
        width: u32,
    },
    /// Blocks that copy tiles of vectors of 4 floats.
    Tiles {
        /// Loads that a thread issues before its first store.
        loads: u32,
        /// Number of blocks.
        grid: TileGrid,
        /// Whether loads and stores are marked as used once. Without effect on OpenCL.
        is_streaming: bool,
    },
    /// Copy command of the driver.
    Driver,
}

/// Number of blocks of a copy by tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TileGrid {
    /// As many blocks as the device runs at once. Each loops over several tiles.
    Resident,
    /// One block per tile.
    Whole,
}

/// One rung of the ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyRung {
    /// Name: the change from the previous rung.
    pub name: &'static str,
    /// Method.
    pub method: CopyMethod,
    /// Note for the reader of the table. May be empty.
    pub note: &'static str,
}

/// Returns the rungs in the order of the table.
pub fn rungs() -> Vec<CopyRung> {
    let rung = |name, method, note| CopyRung { name, method, note };
    let tiles = |loads, grid, is_streaming| CopyMethod::Tiles { loads, grid, is_streaming };
    vec![
        rung("4 bytes per thread", CopyMethod::Vectors { width: 1 }, "to[i] = from[i], one float per thread"),
        rung("8 bytes per thread", CopyMethod::Vectors { width: 2 }, "float2"),
        rung(
            "16 bytes per thread",
            CopyMethod::Vectors { width: 4 },
            "float4, the widest load below Blackwell",
        ),
        rung(
            "grid-stride loop",
            tiles(1, TileGrid::Resident, false),
            "only as many blocks as run at once; each thread waits for a load, then stores",
        ),
        rung(
            "4 loads in flight",
            tiles(4, TileGrid::Resident, false),
            "each thread issues four loads of 16 bytes before its first store",
        ),
        rung(
            "4 loads, all blocks",
            tiles(4, TileGrid::Whole, false),
            "one tile per block: new blocks load while others store",
        ),
        rung(
            "marked as used once",
            tiles(4, TileGrid::Whole, true),
            "ld.global.cs and st.global.cs on CUDA, the same as before on OpenCL",
        ),
        rung("copy of the driver", CopyMethod::Driver, "cuMemcpyAsync or clEnqueueCopyBuffer"),
    ]
}

/// Reference implementation: copies the floats one by one. `to` has at least as many as `from`.
pub fn copy_reference(from: &[f32], to: &mut [f32]) {
    for (target, &source) in to.iter_mut().zip(from) {
        *target = source;
    }
}

/// Floats per task of the thread pool.
const CHUNK_LEN: usize = 1 << 18;

/// Copies on all CPU cores. `to` has at least as many floats as `from`.
pub fn copy_on_cpu(from: &[f32], to: &mut [f32]) {
    to.par_chunks_mut(CHUNK_LEN)
        .zip(from.par_chunks(CHUNK_LEN))
        .for_each(|(target, source)| target[..source.len()].copy_from_slice(source));
}

/// Copy on a device with the method of one rung.
#[derive(Debug)]
pub struct RungCopy {
    launch: Option<CopyLaunch>,
}

/// Kernel of a copy with its launch parameters.
#[derive(Debug)]
struct CopyLaunch {
    kernel: Kernel,
    block_size: u32,
    /// Floats that a block copies in one round.
    floats_per_block: u64,
    /// Largest number of blocks. None if every tile has a block.
    max_blocks: Option<u32>,
}

impl RungCopy {
    /// Compiles the rung. The copy of the driver has no block size.
    pub fn new(device: &Device, method: CopyMethod, block_size: u32) -> Result<Self, DeviceError> {
        let (name, width, loads, grid, is_streaming) = match method {
            CopyMethod::Vectors { width } => ("copy_vectors", width, 1, TileGrid::Whole, false),
            CopyMethod::Tiles { loads, grid, is_streaming } => ("copy_tiles", 4, loads, grid, is_streaming),
            CopyMethod::Driver => return Ok(Self { launch: None }),
        };
        let definitions = [
            ("BLOCK_SIZE", block_size.to_string()),
            ("WIDTH", width.to_string()),
            ("LOADS", loads.to_string()),
            ("STREAMING", i32::from(is_streaming).to_string()),
        ];
        let kernel = device.build(&COPY, &definitions, Math::Precise)?.kernel(name)?;
        let max_blocks = match grid {
            TileGrid::Resident => Some(kernel.resident_blocks(block_size)),
            TileGrid::Whole => None,
        };
        let floats_per_block = u64::from(block_size * width * loads);
        Ok(Self { launch: Some(CopyLaunch { kernel, block_size, floats_per_block, max_blocks }) })
    }

    /// Queues the copy of all floats of `from` to the start of `to`, which has at least as many.
    /// Does not wait.
    pub fn launch(&self, queue: &Queue, from: &Buffer<f32>, to: &Buffer<f32>) -> Result<(), DeviceError> {
        expect_at_least(to, from.len())?;
        let Some(launch) = &self.launch else { return queue.copy(from, to.range(..from.len())?) };
        let n = from.len() as u64;
        let max_blocks = launch.max_blocks.unwrap_or(i32::MAX as u32);
        let blocks = n.div_ceil(launch.floats_per_block).min(u64::from(max_blocks)) as u32;
        queue.launch(&launch.kernel, blocks, launch.block_size, &[from.into(), n.into(), to.into()])
    }

    /// Returns the floats that all blocks copy in one round of their loop. None without a loop.
    fn floats_per_round(&self) -> Option<usize> {
        let launch = self.launch.as_ref()?;
        Some(launch.max_blocks? as usize * launch.floats_per_block as usize)
    }

    /// Returns the resources of the kernel and its occupancy. None for the copy of the driver.
    pub fn resources(&self) -> Option<(Resources, Option<f64>)> {
        let launch = self.launch.as_ref()?;
        Some((launch.kernel.resources(), launch.kernel.occupancy(launch.block_size)))
    }
}

/// Checks that a buffer has at least `expected` elements.
fn expect_at_least(buffer: &Buffer<f32>, expected: usize) -> Result<(), DeviceError> {
    if buffer.len() >= expected {
        return Ok(());
    }
    Err(DeviceError::Length { device: buffer.device().title(), expected, got: buffer.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_on_the_cpu_leave_the_rest_of_the_target_unchanged() {
        for n in [0, 1, CHUNK_LEN - 1, CHUNK_LEN, 2 * CHUNK_LEN + 3] {
            let from: Vec<f32> = (0..n).map(|i| i as f32 + 0.5).collect();
            for copy in [copy_reference, copy_on_cpu] {
                let mut to = vec![-1.0; n + 5];
                copy(&from, &mut to);
                assert!(to[..n] == from[..] && to[n..] == [-1.0; 5], "{n}");
            }
        }
    }
}
