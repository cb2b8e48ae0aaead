//! Launch parameters of the kernels that advance a wave field.

use orrery_device::{Backend, Device, DeviceKind};
use orrery_model::wave::WaveGrid;
use orrery_model::{Precision, format_count};
use serde::{Deserialize, Serialize};

/// Algorithm of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaveKernel {
    /// Vectors and a column of planes in registers, neighbours through the cache (`columns.cu`).
    Columns,
    /// As `Columns`, with asynchronous copies into a ring of planes in shared memory (`ring.cu`).
    /// Only for CUDA from compute capability 8.0 on, and in three dimensions.
    Ring,
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

impl WaveShape {
    /// Returns the shape of a problem on a grid.
    pub fn new(grid: &WaveGrid, radius: usize, precision: Precision) -> Self {
        let ([nx, ny, nz], dimensions) = (grid.nodes, grid.dimensions());
        let (planes, plane_nodes) = if dimensions == 3 { (nz, nx * ny) } else { (ny, nx) };
        Self { dimensions, planes, plane_nodes, radius, precision }
    }
}

/// Nodes per plane that keep a GPU with 132 SMs busy without several chunks: three blocks of 1024
/// nodes per SM, twice.
const BUSY_PLANE_NODES: usize = 800_000;

impl WaveDeviceStrategy {
    /// Returns the fastest strategy that was measured for a problem. The constants below have the
    /// measurements.
    pub fn default_for(device: &Device, shape: WaveShape) -> Self {
        if device.properties().kind != DeviceKind::Gpu {
            return Self::cpu(shape.dimensions);
        }
        let fastest = match (shape.dimensions, shape.precision) {
            (2, Precision::Double) => Self::PLANE_DOUBLE,
            (2, _) => Self::PLANE,
            (_, Precision::Double) => Self::VOLUME_DOUBLE,
            _ if Self::has_ring(device) => Self::RING,
            _ => Self::VOLUME,
        };
        // Small planes need more chunks to keep all SMs busy.
        let chunks = BUSY_PLANE_NODES.div_ceil(shape.plane_nodes.max(1));
        let planes_per_chunk = (shape.planes / chunks).clamp(8, fastest.planes_per_chunk as usize) as u32;
        Self { planes_per_chunk, ..fastest }
    }

    /// Default in three dimensions and single precision on compute capability 9.0. The ring of
    /// order 8 has 191 KiB.
    ///
    /// Gpoint/s on an H200, 1024³ nodes with a velocity per node, order 8 and free sides: 208.
    /// Chunks of 64, 128 or 512 planes: 206, 208, 206. Blocks of 16 x 16 threads, two per SM: 205.
    /// Columns: at most
    /// 192. Layers of 10 and 20 nodes on all sides: 192 and 171. Command:
    /// `cargo bench -p orrery-fields --bench wave_device -- volume`.
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

    /// Default in three dimensions and single precision on other GPUs.
    ///
    /// Gpoint/s on an H200, measured as for [`Self::RING`]: 190. Blocks of 32 x 4 threads: 190 with
    /// chunks of 64, 187 with 256. Two rows per thread, 32 x 4: 175. 10 planes unrolled: 162, with
    /// spills.
    pub(super) const VOLUME: Self = Self {
        kernel: WaveKernel::Columns,
        threads_x: 32,
        threads_y: 8,
        rows_per_thread: 1,
        planes_ahead: 1,
        unrolled_planes: 1,
        planes_per_chunk: 64,
        min_blocks_per_sm: 2,
    };

    /// Default in three dimensions and double precision.
    ///
    /// Gpoint/s on an H200, 1024³ nodes with uniform velocity, order 8 and free sides: 118. Chunks
    /// of 256 planes: 114. Not unrolled: 114. Ring of 32 x 16 threads: 117. Command as for
    /// [`Self::RING`].
    pub(super) const VOLUME_DOUBLE: Self = Self { unrolled_planes: 10, ..Self::VOLUME };

    /// Default in two dimensions and single precision.
    ///
    /// Gpoint/s on an H200, 16384² nodes with a velocity per node, order 8 and free sides: 233.
    /// Chunks of 128 or 256 rows: 219, 226. One row ahead, 10 unrolled: 220. Three ahead, 12
    /// unrolled: 227, with spills. Layers of 10 and 20 nodes on all sides: 226 and 221. Command:
    /// `cargo bench -p orrery-fields --bench wave_device -- plane`.
    pub(super) const PLANE: Self = Self {
        kernel: WaveKernel::Columns,
        threads_x: 128,
        threads_y: 1,
        rows_per_thread: 1,
        planes_ahead: 3,
        unrolled_planes: 4,
        planes_per_chunk: 512,
        min_blocks_per_sm: 3,
    };

    /// Default in two dimensions and double precision.
    ///
    /// Gpoint/s on an H200, 16384² nodes with uniform velocity, order 8 and free sides: 153. One
    /// row ahead, 10 unrolled: 148. Three ahead, 4 unrolled: 147. Command as for [`Self::PLANE`].
    pub(super) const PLANE_DOUBLE: Self =
        Self { planes_ahead: 2, unrolled_planes: 11, planes_per_chunk: 256, ..Self::PLANE };

    /// Returns a strategy for OpenCL on a CPU, whose compiler is slow: nothing is unrolled.
    fn cpu(dimensions: usize) -> Self {
        Self {
            threads_x: 16,
            threads_y: if dimensions == 3 { 4 } else { 1 },
            planes_per_chunk: 16,
            min_blocks_per_sm: 1,
            ..Self::VOLUME
        }
    }

    /// Returns true if a device has [`WaveKernel::Ring`] with the shared memory of [`Self::RING`].
    fn has_ring(device: &Device) -> bool {
        let properties = device.properties();
        properties.backend == Backend::Cuda && properties.capability == Some((9, 0))
    }

    /// Returns the strategies that the tuner tries, the default first.
    pub fn candidates(device: &Device, shape: WaveShape) -> Vec<Self> {
        let mut candidates = vec![Self::default_for(device, shape)];
        if device.properties().kind != DeviceKind::Gpu {
            return candidates;
        }
        let (fastest, chunks): (Vec<Self>, &[u32]) = match shape.dimensions {
            2 => (Self::plane_candidates(shape.precision), &[128, 256, 512]),
            _ => (Self::volume_candidates(device, shape.precision), &[32, 64, 128, 256]),
        };
        for strategy in fastest {
            for &planes_per_chunk in chunks {
                let candidate = Self { planes_per_chunk, ..strategy };
                if !candidates.contains(&candidate) {
                    candidates.push(candidate);
                }
            }
        }
        candidates
    }

    fn plane_candidates(precision: Precision) -> Vec<Self> {
        let short = Self { planes_ahead: 1, unrolled_planes: 10, min_blocks_per_sm: 4, ..Self::PLANE };
        match precision {
            Precision::Double => vec![Self::PLANE_DOUBLE, short, Self::PLANE],
            _ => vec![Self::PLANE, short, Self { threads_x: 64, min_blocks_per_sm: 6, ..Self::PLANE }],
        }
    }

    fn volume_candidates(device: &Device, precision: Precision) -> Vec<Self> {
        let columns = |threads_y, min_blocks_per_sm| Self { threads_y, min_blocks_per_sm, ..Self::VOLUME };
        let mut candidates = match precision {
            Precision::Double => vec![Self::VOLUME_DOUBLE, Self::VOLUME, columns(4, 4)],
            _ => vec![Self::VOLUME, columns(16, 1), columns(4, 4)],
        };
        if Self::has_ring(device) {
            candidates.insert(0, Self::RING);
            // Two rings of double precision exceed the shared memory of an SM.
            if precision == Precision::Single {
                candidates.insert(1, Self { threads_x: 16, min_blocks_per_sm: 2, ..Self::RING });
            }
        }
        candidates
    }

    /// Returns the strategy for the few slices of a border, if it is another one. A block of the
    /// ring fills the shared memory of an SM, so it would wait for a block of the interior to end.
    /// Blocks of columns run beside it, and their first loads take less time.
    pub(super) fn for_borders(&self) -> Option<Self> {
        (self.kernel == WaveKernel::Ring).then_some(Self::VOLUME)
    }

    /// Returns a name for reports, for example "columns 32 x 4, 2 rows, 1 plane ahead, chunks of
    /// 64".
    pub fn name(&self) -> String {
        let kernel = match self.kernel {
            WaveKernel::Columns => "columns",
            WaveKernel::Ring => "ring",
        };
        let count = |n: u32, one: &str, many: &str| format_count(u64::from(n), one, many);
        format!(
            "{kernel} {} x {}, {}, {} ahead, {} unrolled, {} per SM, chunks of {}",
            self.threads_x,
            self.threads_y,
            count(self.rows_per_thread, "row", "rows"),
            count(self.planes_ahead, "plane", "planes"),
            self.unrolled_planes,
            count(self.min_blocks_per_sm, "block", "blocks"),
            self.planes_per_chunk
        )
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

    /// Returns the nodes of a block along x and y, for vectors of `vector_width` numbers.
    pub(super) fn tile(&self, vector_width: u32) -> [u32; 2] {
        [self.threads_x * vector_width, self.threads_y * self.rows_per_thread]
    }
}
