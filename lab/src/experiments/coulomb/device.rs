//! Potential on a device: compiles and launches the kernels, from one thread per charge to several
//! points per thread.

use orrery_device::{
    Arg, Buffer, Constant, Device, DeviceError, Kernel, KernelFile, Math, Queue, Resources, kernel_source,
};

use super::{Charge, EPS2, PointGrid};

// SAFETY: the kernels read `charge_count` charges and access nx ny nz potentials. `launch` passes
// the length of the charges, `launch_chunk` at most that, and `queue_kernel` checks the potentials.
// The constant array has CHUNK elements, and a launch uses at most as many.
const SCATTER_GATHER: KernelFile =
    unsafe { KernelFile::new("scatter_gather.cu", kernel_source!("point_grid.cu", "scatter_gather.cu")) };
// SAFETY: as above. Shared memory has TILE elements, the length of a tile.
const TILED: KernelFile = unsafe { KernelFile::new("tiled.cu", kernel_source!("point_grid.cu", "tiled.cu")) };

/// Charges in constant memory: all of its 64 KiB.
pub const CHUNK: usize = 4096;
/// Threads per block of the kernels without tiles.
const BLOCK_SIZE: u32 = 256;

/// Parameters of the kernel with tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TiledStrategy {
    /// Threads per block.
    pub block_size: u32,
    /// Points per thread.
    pub points: u32,
    /// Charges in a tile.
    pub tile: u32,
    /// Number of charges whose loop iterations are unrolled. Divides the tile.
    pub unroll: u32,
    /// Points per thread whose reciprocal square roots come from Newton's method.
    pub newton_points: u32,
    /// Whether denormals are flushed to zero. Otherwise a reciprocal square root has to test for
    /// them and scale them.
    pub flushes_denormals: bool,
}

impl TiledStrategy {
    /// One point per thread.
    pub const ONE_POINT: Self =
        Self { block_size: 256, points: 1, tile: 256, unroll: 4, newton_points: 0, flushes_denormals: false };
    /// Several points per thread.
    pub const SEVERAL_POINTS: Self = Self { points: 8, ..Self::ONE_POINT };
    /// The fastest kernel on an H200: 3.87e12 terms/s for 128³ points and 32,768 charges. Unrolled
    /// by 4 it has 3.72e12, with 16 points per thread 3.77e12.
    pub const TUNED: Self =
        Self { block_size: 128, unroll: 8, flushes_denormals: true, ..Self::SEVERAL_POINTS };
    /// The tuned kernel with fewer special functions. On an H200 it has 3.63e12 terms/s.
    pub const WITH_NEWTON: Self = Self { newton_points: 1, ..Self::TUNED };
}

/// Kernel that computes the potential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CoulombMethod {
    /// One thread per charge adds to all points atomically.
    Scatter,
    /// One thread per point reads all charges from global memory.
    Gather,
    /// The same with charges in constant memory, one launch per chunk.
    Constant,
    /// Tiles of charges in shared memory.
    Tiled(TiledStrategy),
}

impl CoulombMethod {
    /// Returns the number of sequential additions of the sum of `n` terms, for
    /// [`error_bound`](super::error_bound).
    pub fn additions(&self, n: usize) -> usize {
        match self {
            Self::Scatter | Self::Gather => n,
            Self::Constant => n.min(CHUNK) + n.div_ceil(CHUNK),
            Self::Tiled(strategy) => {
                let tile = strategy.tile as usize;
                n.min(tile) + n.div_ceil(tile)
            }
        }
    }

    /// Returns the bytes that threads request from memory per term. An atomic addition reads and
    /// writes a potential.
    pub fn bytes_per_term(&self) -> f64 {
        match self {
            Self::Scatter => 8.0,
            Self::Gather | Self::Constant => size_of::<Charge>() as f64,
            Self::Tiled(strategy) => {
                size_of::<Charge>() as f64 / f64::from(strategy.block_size * strategy.points)
            }
        }
    }
}

/// One rung of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoulombRung {
    /// Name: the change from the previous rung.
    pub name: &'static str,
    /// Kernel.
    pub method: CoulombMethod,
    /// Note for the reader of the table. May be empty.
    pub note: &'static str,
}

/// Returns the rungs, slowest first.
pub fn rungs() -> Vec<CoulombRung> {
    let rung = |name, method, note| CoulombRung { name, method, note };
    let flushed = TiledStrategy { flushes_denormals: true, ..TiledStrategy::SEVERAL_POINTS };
    vec![
        rung("scatter with atomics", CoulombMethod::Scatter, "one thread per charge"),
        rung("gather", CoulombMethod::Gather, "one thread per point"),
        rung("charges in constant memory", CoulombMethod::Constant, "one launch per 4,096 charges"),
        rung(
            "tiles in shared memory",
            CoulombMethod::Tiled(TiledStrategy::ONE_POINT),
            "256 charges per tile",
        ),
        rung(
            "8 points per thread",
            CoulombMethod::Tiled(TiledStrategy::SEVERAL_POINTS),
            "dy² + dz² computed once for 8 points",
        ),
        rung("denormals flushed to zero", CoulombMethod::Tiled(flushed), ""),
        rung("tuned", CoulombMethod::Tiled(TiledStrategy::TUNED), "block size, tile and unrolling"),
        rung(
            "1 of 8 by Newton's method",
            CoulombMethod::Tiled(TiledStrategy::WITH_NEWTON),
            "these reciprocal square roots need no special function unit",
        ),
    ]
}

/// Charges on the host and on a device.
#[derive(Debug)]
pub struct DeviceCharges {
    /// Padded with charges of 0 to whole chunks, at least one.
    padded: Vec<Charge>,
    buffer: Buffer<Charge>,
}

impl DeviceCharges {
    /// Uploads the charges, fewer than 2^31.
    pub fn upload(device: &Device, charges: &[Charge]) -> Result<Self, DeviceError> {
        let mut padded = charges.to_vec();
        padded.resize(charges.len().max(1).next_multiple_of(CHUNK), [0.0; 4]);
        Ok(Self { padded, buffer: device.upload(charges)? })
    }

    /// Returns the number of charges.
    fn count(&self) -> i32 {
        self.buffer.len() as i32
    }
}

/// Computation of the potential with one kernel, compiled for a device.
#[derive(Debug)]
pub struct CoulombMap {
    kernel: Kernel,
    block_size: u32,
    parts: MapParts,
}

/// Members of a [`CoulombMap`] that depend on its method.
#[derive(Debug)]
enum MapParts {
    Scatter { clear: Kernel },
    Gather,
    Constant { chunk: Constant<Charge> },
    Tiled { points: usize },
}

impl CoulombMap {
    /// Compiles the kernel.
    pub fn new(device: &Device, method: CoulombMethod) -> Result<Self, DeviceError> {
        if let CoulombMethod::Tiled(strategy) = method {
            return Self::new_tiled(device, &strategy);
        }
        let definitions = [
            ("EPS2", format!("{EPS2:e}f")),
            ("BLOCK_SIZE", BLOCK_SIZE.to_string()),
            ("CHUNK", CHUNK.to_string()),
        ];
        let module = device.build(&SCATTER_GATHER, &definitions, Math::Precise)?;
        let (name, parts) = match method {
            CoulombMethod::Scatter => {
                ("scatter", MapParts::Scatter { clear: module.kernel("clear_potential")? })
            }
            CoulombMethod::Constant => {
                ("gather_constant", MapParts::Constant { chunk: module.constant("chunk", CHUNK)? })
            }
            CoulombMethod::Gather | CoulombMethod::Tiled(_) => ("gather", MapParts::Gather),
        };
        Ok(Self { kernel: module.kernel(name)?, block_size: BLOCK_SIZE, parts })
    }

    fn new_tiled(device: &Device, strategy: &TiledStrategy) -> Result<Self, DeviceError> {
        let definitions = [
            ("EPS2", format!("{EPS2:e}f")),
            ("BLOCK_SIZE", strategy.block_size.to_string()),
            ("POINTS", strategy.points.to_string()),
            ("TILE", strategy.tile.to_string()),
            ("UNROLL_BY", strategy.unroll.to_string()),
            ("NEWTON_POINTS", strategy.newton_points.to_string()),
        ];
        let math = if strategy.flushes_denormals { Math::FlushToZero } else { Math::Precise };
        Ok(Self {
            kernel: device.build(&TILED, &definitions, math)?.kernel("gather_tiled")?,
            block_size: strategy.block_size,
            parts: MapParts::Tiled { points: strategy.points as usize },
        })
    }

    /// Queues the computation of the potential at all points of the grid. `potential` has one
    /// element per point. Does not wait, except for copies to constant memory.
    pub fn launch(
        &self,
        queue: &Queue,
        charges: &DeviceCharges,
        grid: &PointGrid,
        potential: &Buffer<f32>,
    ) -> Result<(), DeviceError> {
        let target = MapTarget { queue, grid, potential };
        let MapParts::Constant { chunk } = &self.parts else {
            return self.queue_terms(&target, charges, charges.count());
        };
        for (index, values) in charges.padded.chunks_exact(CHUNK).enumerate() {
            queue.write_constant(chunk, values)?;
            let count = (charges.count() - (index * CHUNK) as i32).clamp(0, CHUNK as i32);
            self.queue_chunk(&target, chunk, count, index == 0)?;
        }
        Ok(())
    }

    /// Copies the first [`CHUNK`] charges, or all if there are fewer, to constant memory and waits.
    /// Does nothing if the kernel does not read constant memory.
    pub fn write_chunk(&self, queue: &Queue, charges: &DeviceCharges) -> Result<(), DeviceError> {
        let MapParts::Constant { chunk } = &self.parts else { return Ok(()) };
        queue.write_constant(chunk, &charges.padded[..CHUNK])
    }

    /// Queues the computation of the potential of the first `count` charges, at most [`CHUNK`]. A
    /// kernel that reads constant memory uses the charges of the last [`Self::write_chunk`], so
    /// that repeated launches need no copies. `potential` has one element per point. Does not wait.
    pub fn launch_chunk(
        &self,
        queue: &Queue,
        charges: &DeviceCharges,
        count: usize,
        grid: &PointGrid,
        potential: &Buffer<f32>,
    ) -> Result<(), DeviceError> {
        let limit = charges.buffer.len().min(CHUNK);
        if count > limit {
            let device = potential.device().title();
            return Err(DeviceError::Length { device, expected: limit, got: count });
        }
        self.queue_terms(&MapTarget { queue, grid, potential }, charges, count as i32)
    }

    /// Queues the kernel for the first `count` charges. For constant memory they are those of the
    /// chunk.
    fn queue_terms(
        &self,
        target: &MapTarget,
        charges: &DeviceCharges,
        count: i32,
    ) -> Result<(), DeviceError> {
        let (points, charge_args) = (target.grid.point_count(), [(&charges.buffer).into(), count.into()]);
        match &self.parts {
            MapParts::Scatter { clear } => {
                target.queue_kernel(clear, BLOCK_SIZE, points, &[])?;
                target.queue_kernel(&self.kernel, self.block_size, count as usize, &charge_args)
            }
            MapParts::Gather => target.queue_kernel(&self.kernel, self.block_size, points, &charge_args),
            MapParts::Constant { chunk } => self.queue_chunk(target, chunk, count, true),
            MapParts::Tiled { points } => {
                let threads = target.grid.counts()[0].div_ceil(*points) * target.grid.row_count();
                target.queue_kernel(&self.kernel, self.block_size, threads, &charge_args)
            }
        }
    }

    /// Queues the kernel for `count` charges in constant memory.
    fn queue_chunk(
        &self,
        target: &MapTarget,
        chunk: &Constant<Charge>,
        count: i32,
        is_first: bool,
    ) -> Result<(), DeviceError> {
        let args = [chunk.into(), count.into(), i32::from(is_first).into()];
        target.queue_kernel(&self.kernel, self.block_size, target.grid.point_count(), &args)
    }

    /// Returns the resources of the kernel and its occupancy.
    pub fn resources(&self) -> (Resources, Option<f64>) {
        (self.kernel.resources(), self.kernel.occupancy(self.block_size))
    }
}

/// Queue, grid and result of a computation.
struct MapTarget<'a> {
    queue: &'a Queue,
    grid: &'a PointGrid,
    potential: &'a Buffer<f32>,
}

impl MapTarget<'_> {
    /// Queues a kernel with at least `threads` threads. Its parameters are `first_args`, the grid
    /// (`POINT_GRID` in `point_grid.cu`) and the potential.
    fn queue_kernel(
        &self,
        kernel: &Kernel,
        block_size: u32,
        threads: usize,
        first_args: &[Arg<'_>],
    ) -> Result<(), DeviceError> {
        let (expected, got) = (self.grid.point_count(), self.potential.len());
        if got != expected {
            return Err(DeviceError::Length { device: self.potential.device().title(), expected, got });
        }
        let mut args = first_args.to_vec();
        args.extend(self.grid.counts.map(|count| Arg::from(count as i32)));
        args.extend(self.grid.origin.map(Arg::from));
        args.extend([Arg::from(self.grid.spacing), self.potential.into()]);
        self.queue.launch(kernel, threads.div_ceil(block_size as usize) as u32, block_size, &args)
    }
}
