//! Steps from a plain kernel to the production kernel, for order 2 and order 8.
//!
//! All rungs advance the same [`DeviceWave`] and compute the same bits, so they differ in the
//! kernel alone.

pub mod selftest;

use orrery_device::{Device, DeviceError, KernelFile, Math, kernel_source};
use orrery_fields::Scalar;
use orrery_fields::wave::device::{
    AdvanceKernel, DeviceWave, WAVE_KERNEL_SOURCE, WaveDeviceStrategy, WaveKernel, WaveShape,
};

/// Kernel of a rung that no run uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaveVariant {
    /// One thread per node, all loads from global memory.
    Nodes,
    /// A tile of a plane in shared memory.
    Tiles,
    /// A tile in shared memory, and a column of planes in registers.
    Planes,
}

impl WaveVariant {
    /// Returns the name of the kernel in `wave_rungs.cu`.
    fn kernel_name(self) -> &'static str {
        match self {
            Self::Nodes => "advance_nodes",
            Self::Tiles => "advance_tiles",
            Self::Planes => "advance_planes",
        }
    }
}

/// Algorithm of a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaveRungKernel {
    /// A thread advances one node of a plane.
    SingleNodes {
        /// Kernel.
        variant: WaveVariant,
        /// Threads per block along x and y.
        threads: [u32; 2],
        /// Planes that a block marches through.
        planes_per_chunk: u32,
    },
    /// A kernel that runs use.
    Production(WaveDeviceStrategy),
}

/// One rung of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaveRung {
    /// Name: the change from the previous rung.
    pub name: &'static str,
    /// Algorithm.
    pub kernel: WaveRungKernel,
    /// Note for the reader of the table. May be empty for a production kernel.
    pub note: &'static str,
}

impl WaveRung {
    /// Makes `wave` advance with the kernel of this rung.
    pub fn select<R: Scalar>(&self, wave: &mut DeviceWave<R>) -> Result<(), DeviceError> {
        match self.kernel {
            WaveRungKernel::Production(strategy) => wave.set_strategy(strategy),
            WaveRungKernel::SingleNodes { variant, threads, planes_per_chunk } => {
                let kernel = build_single_nodes(wave, variant, threads, planes_per_chunk)?;
                wave.set_advance_kernel(kernel);
                Ok(())
            }
        }
    }

    /// Returns the note, or the strategy of a production kernel without a note.
    pub fn description(&self) -> String {
        match self.kernel {
            WaveRungKernel::Production(strategy) if self.note.is_empty() => strategy.name(),
            _ => self.note.to_owned(),
        }
    }
}

/// Compiles a kernel with one thread per node of a plane, for the field of `wave`.
fn build_single_nodes<R: Scalar>(
    wave: &DeviceWave<R>,
    variant: WaveVariant,
    threads: [u32; 2],
    planes_per_chunk: u32,
) -> Result<AdvanceKernel, DeviceError> {
    let text = [WAVE_KERNEL_SOURCE, kernel_source!("wave_rungs.cu")].concat();
    // SAFETY: the kernels access nodes of the planes `begin` to `end` that are in the grid, and
    // their neighbours at distances up to RADIUS. `DeviceWave` passes planes that it owns, and its
    // layout has the ghost nodes. Tiles leave out nodes beyond the ghost nodes of their plane. All
    // loops end.
    let rungs = unsafe { KernelFile::new("wave_rungs.cu", &text) };
    let mut definitions = wave.kernel_definitions();
    definitions.extend([("THREADS_X", threads[0].to_string()), ("THREADS_Y", threads[1].to_string())]);
    let module = wave.device().build(&rungs, &definitions, Math::Precise)?;
    Ok(AdvanceKernel {
        kernel: module.kernel(variant.kernel_name())?,
        tile: threads,
        block_size: threads[0] * threads[1],
        planes_per_chunk,
    })
}

/// Returns the rungs, slowest first. `production` is the strategy that runs use.
pub fn rungs(device: &Device, shape: WaveShape, production: WaveDeviceStrategy) -> Vec<WaveRung> {
    let default = WaveDeviceStrategy::default_for(device, shape);
    let is_volume = shape.dimensions == 3;
    let single_nodes = |variant, threads_y: u32, planes_per_chunk| WaveRungKernel::SingleNodes {
        variant,
        threads: [32, if is_volume { threads_y } else { 1 }],
        planes_per_chunk,
    };
    let vectors = WaveDeviceStrategy {
        kernel: WaveKernel::Columns,
        rows_per_thread: 1,
        planes_ahead: 1,
        unrolled_planes: 1,
        ..default
    };
    let marching = match shape.radius {
        1 => "three planes cycle through registers",
        _ => "a column of planes in registers",
    };
    vec![
        WaveRung {
            name: "one thread per node",
            kernel: single_nodes(WaveVariant::Nodes, 8, 1),
            note: "all neighbours from global memory",
        },
        WaveRung {
            name: "tile in shared memory",
            kernel: single_nodes(WaveVariant::Tiles, 16, 1),
            note: "with halo; neighbours in other planes from global memory",
        },
        WaveRung {
            name: "marching planes",
            kernel: single_nodes(WaveVariant::Planes, 16, default.planes_per_chunk),
            note: marching,
        },
        WaveRung {
            name: "vector loads, aligned rows",
            kernel: WaveRungKernel::Production(vectors),
            note: "neighbours through the cache, no barriers",
        },
        WaveRung { name: "tuned default", kernel: WaveRungKernel::Production(production), note: "" },
    ]
}
