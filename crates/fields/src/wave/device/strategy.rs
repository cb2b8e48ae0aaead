//! Launch parameters of the kernels that advance a wave field.

use orrery_device::{Backend, Device, DeviceKind};
use orrery_model::{Precision, format_count};
use serde::{Deserialize, Serialize};

/// Algorithm of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaveKernel {
    /// One thread per node, all loads from global memory. A rung of the ladder.
    Nodes,
    /// A tile of a plane in shared memory. A rung of the ladder.
    Tiles,
    /// A tile in shared memory, and a column of planes in registers. A rung of the ladder.
    Planes,
    /// Vectors and a column of planes in registers, neighbours through the cache (`columns.cu`).
    Columns,
    /// As `Columns`, with asynchronous copies into a ring of planes in shared memory (`ring.cu`). Only
    /// for CUDA from compute capability 8.0 on, and in three dimensions.
    Ring,
}

impl WaveKernel {
    /// Returns the name of the kernel in its file.
    pub(super) fn function(self) -> &'static str {
        match self {
            Self::Nodes => "advance_nodes",
            Self::Tiles => "advance_tiles",
            Self::Planes => "advance_planes",
            Self::Columns => "advance_columns",
            Self::Ring => "advance_ring",
        }
    }

    /// Returns true if a thread advances a vector of nodes, not a single one.
    pub(super) fn has_vectors(self) -> bool {
        matches!(self, Self::Columns | Self::Ring)
    }
}

/// Launch parameters. All of them give the same bits.
///
/// A plane is one of constant z, or in two dimensions a row. Kernels march from plane to plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaveDeviceStrategy {
    /// Algorithm.
    pub kernel: WaveKernel,
    /// Threads per block along x.
    pub threads_x: u32,
    /// Threads per block along y, 1 in two dimensions.
    pub threads_y: u32,
    /// Rows per thread, 1 in two dimensions.
    pub rows_per_thread: u32,
    /// Planes whose loads are in flight while a plane is computed.
    pub planes_ahead: u32,
    /// Planes per iteration of the unrolled loop.
    pub unrolled_planes: u32,
    /// Planes that a block marches through.
    pub planes_per_chunk: u32,
    /// Blocks per SM that registers must suffice for.
    pub min_blocks_per_sm: u32,
}

/// Properties of a problem that determine its strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaveShape {
    /// 2 or 3.
    pub dimensions: usize,
    /// Nodes along the axis of the march: z, or y in two dimensions.
    pub planes: usize,
    /// Nodes of a plane.
    pub plane_nodes: usize,
    /// Nodes that the stencil reaches to either side: 1 to 4.
    pub radius: usize,
    /// Precision.
    pub precision: Precision,
}

/// Chunks that keep a GPU with 132 SMs busy: three blocks of 1024 nodes per plane and SM, twice.
const BUSY_PLANE_NODES: usize = 800_000;

impl WaveDeviceStrategy {
    /// Returns the fastest strategy that was measured for a problem.
    ///
    /// Measured on an H200 in single precision with order 8 and a velocity per node, in Gpoint/s.
    /// 1024³ nodes: 225 with blocks of 32 x 4 threads, 2 rows and chunks of 64 planes, 210 with chunks
    /// of 512, 212 with blocks of 32 x 8 and 1 row, 183 with 4 rows. 16384² nodes: 245 with 3 rows
    /// ahead, 227 with 1. `orrery tune wave` repeats the measurement.
    pub fn default_for(device: &Device, shape: WaveShape) -> Self {
        if device.properties().kind != DeviceKind::Gpu {
            return Self::cpu(shape.dimensions);
        }
        let chunk = |most: usize| {
            // Small planes need more chunks to keep all SMs busy.
            let chunks = BUSY_PLANE_NODES.div_ceil(shape.plane_nodes.max(1));
            (shape.planes / chunks).clamp(8, most) as u32
        };
        match (shape.dimensions, shape.precision) {
            (2, Precision::Double) => Self { planes_per_chunk: chunk(256), ..Self::PLANE_DOUBLE },
            (2, _) => Self { planes_per_chunk: chunk(256), ..Self::PLANE },
            (_, Precision::Double) => Self { planes_per_chunk: chunk(64), ..Self::VOLUME_DOUBLE },
            _ if Self::has_ring(device) => Self { planes_per_chunk: chunk(256), ..Self::RING },
            _ => Self { planes_per_chunk: chunk(64), ..Self::VOLUME },
        }
    }

    /// Default in three dimensions.
    pub(super) const VOLUME: Self = Self {
        kernel: WaveKernel::Columns,
        threads_x: 32,
        threads_y: 4,
        rows_per_thread: 2,
        planes_ahead: 1,
        unrolled_planes: 1,
        planes_per_chunk: 64,
        min_blocks_per_sm: 3,
    };

    /// A vector has two numbers and needs as many registers as four in single precision.
    pub(super) const VOLUME_DOUBLE: Self = Self { ..Self::VOLUME };

    /// Default in two dimensions.
    pub(super) const PLANE: Self = Self {
        kernel: WaveKernel::Columns,
        threads_x: 128,
        threads_y: 1,
        rows_per_thread: 1,
        planes_ahead: 3,
        unrolled_planes: 12,
        planes_per_chunk: 256,
        min_blocks_per_sm: 3,
    };

    /// As [`Self::PLANE`].
    pub(super) const PLANE_DOUBLE: Self = Self { ..Self::PLANE };

    /// Returns a strategy for OpenCL on a CPU, whose compiler is slow: little is unrolled.
    fn cpu(dimensions: usize) -> Self {
        Self {
            threads_x: 16,
            threads_y: if dimensions == 3 { 4 } else { 1 },
            rows_per_thread: 1,
            planes_ahead: 1,
            unrolled_planes: 1,
            planes_per_chunk: 16,
            min_blocks_per_sm: 1,
            ..Self::VOLUME
        }
    }

    /// Ring in three dimensions, for compute capability 9.0: 191 KiB of shared memory for order 8.
    pub(super) const RING: Self = Self {
        kernel: WaveKernel::Ring,
        threads_x: 32,
        threads_y: 16,
        rows_per_thread: 2,
        planes_ahead: 1,
        unrolled_planes: 1,
        planes_per_chunk: 256,
        min_blocks_per_sm: 1,
    };

    /// Returns true if a device has [`WaveKernel::Ring`] with the shared memory of [`Self::RING`].
    fn has_ring(device: &Device) -> bool {
        let properties = device.properties();
        properties.backend == Backend::Cuda && properties.capability == Some((9, 0))
    }

    /// Returns the strategies that the tuner tries, the default first.
    pub fn candidates(device: &Device, shape: WaveShape) -> Vec<Self> {
        let default = Self::default_for(device, shape);
        let mut candidates = vec![default];
        if device.properties().kind != DeviceKind::Gpu {
            return candidates;
        }
        let mut add = |strategy: Self, chunks: &[u32]| {
            for &planes_per_chunk in chunks {
                let candidate = Self { planes_per_chunk, ..strategy };
                if !candidates.contains(&candidate) {
                    candidates.push(candidate);
                }
            }
        };
        if shape.dimensions == 2 {
            for (threads_x, planes_ahead, unrolled_planes, min_blocks_per_sm) in
                [(128, 3, 12, 3), (128, 1, 10, 4), (64, 3, 12, 6), (128, 2, 11, 3), (128, 3, 4, 3)]
            {
                let plane = Self::PLANE;
                add(
                    Self { threads_x, planes_ahead, unrolled_planes, min_blocks_per_sm, ..plane },
                    &[128, 256, 512],
                );
            }
            return candidates;
        }
        if Self::has_ring(device) {
            for (threads_x, threads_y, planes_ahead, min_blocks_per_sm) in ring_shapes(shape.precision) {
                let ring = Self { threads_x, threads_y, planes_ahead, min_blocks_per_sm, ..Self::RING };
                add(ring, &[64, 128, 256, 512]);
            }
        }
        for (threads_y, rows_per_thread, unrolled_planes, min_blocks_per_sm) in
            [(4, 2, 1, 3), (8, 1, 1, 2), (8, 1, 10, 2), (16, 1, 1, 1), (4, 1, 1, 4), (2, 2, 1, 6)]
        {
            let volume = Self::VOLUME;
            add(
                Self { threads_y, rows_per_thread, unrolled_planes, min_blocks_per_sm, ..volume },
                &[32, 64, 128, 256],
            );
        }
        candidates
    }

    /// Returns a name for reports, for example "columns 32 x 4, 2 rows, 1 plane ahead, chunks of 64".
    pub fn name(&self) -> String {
        let kernel = match self.kernel {
            WaveKernel::Nodes => "nodes",
            WaveKernel::Tiles => "tiles",
            WaveKernel::Planes => "planes",
            WaveKernel::Columns => "columns",
            WaveKernel::Ring => "ring",
        };
        let mut name = format!("{kernel} {} x {}", self.threads_x, self.threads_y);
        if self.kernel.has_vectors() {
            let count = |n: u32, one: &str, many: &str| format_count(u64::from(n), one, many);
            name.push_str(&format!(
                ", {}, {} ahead, {} unrolled, {} per SM",
                count(self.rows_per_thread, "row", "rows"),
                count(self.planes_ahead, "plane", "planes"),
                self.unrolled_planes,
                count(self.min_blocks_per_sm, "block", "blocks"),
            ));
        }
        name.push_str(&format!(", chunks of {}", self.planes_per_chunk));
        name
    }

    /// Returns the bytes of dynamic shared memory per block, as `ring.cu` uses it.
    pub(super) fn dynamic_shared(&self, radius: u32, is_variable: bool, value_bytes: u32) -> u32 {
        if self.kernel != WaveKernel::Ring {
            return 0;
        }
        let vector_width = 16 / value_bytes;
        let [width, height] = self.tile(vector_width);
        let halo_plane = (width + 2 * radius.next_multiple_of(vector_width)) * (height + 2 * radius);
        let short_rings = (1 + u32::from(is_variable)) * (self.planes_ahead + 1) * width * height;
        ((self.planes_ahead + radius + 1) * halo_plane + short_rings) * value_bytes
    }

    /// Returns the threads per block.
    pub(super) fn block_size(&self) -> u32 {
        self.threads_x * self.threads_y
    }

    /// Returns the nodes of a block along x and y, for vectors of `vector_width` numbers.
    pub(super) fn tile(&self, vector_width: u32) -> [u32; 2] {
        match self.kernel.has_vectors() {
            true => [self.threads_x * vector_width, self.threads_y * self.rows_per_thread],
            false => [self.threads_x, self.threads_y],
        }
    }
}

/// Returns threads along x and y, planes ahead and blocks per SM of rings that fit in 227 KiB of shared
/// memory for every order.
fn ring_shapes(precision: Precision) -> Vec<(u32, u32, u32, u32)> {
    match precision {
        Precision::Double => vec![(32, 16, 1, 1), (32, 8, 1, 1)],
        _ => vec![(32, 16, 1, 1), (16, 16, 1, 2)],
    }
}
