//! Steps from a plain kernel to the production kernel, for order 2 and order 8.
//!
//! A rung is a strategy. All rungs have the same memory layout and compute the same bits, so they
//! differ in the kernel alone.

use orrery_device::Device;

use super::{WaveDeviceStrategy, WaveKernel, WaveShape};

/// One rung of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaveRung {
    /// Name: the change from the previous rung.
    pub name: &'static str,
    /// Strategy.
    pub strategy: WaveDeviceStrategy,
    /// Note for the reader of the table. May be empty.
    pub note: &'static str,
}

/// Returns the rungs, slowest first. `production` is the strategy that runs use.
pub fn rungs(device: &Device, shape: WaveShape, production: WaveDeviceStrategy) -> Vec<WaveRung> {
    let default = WaveDeviceStrategy::default_for(device, shape);
    let is_volume = shape.dimensions == 3;
    let simple = |kernel, threads_y: u32, planes_per_chunk| WaveDeviceStrategy {
        kernel,
        threads_x: 32,
        threads_y: if is_volume { threads_y } else { 1 },
        rows_per_thread: 1,
        planes_ahead: 0,
        unrolled_planes: 1,
        planes_per_chunk,
        min_blocks_per_sm: 1,
    };
    let vectors = WaveDeviceStrategy { rows_per_thread: 1, planes_ahead: 1, unrolled_planes: 1, ..default };
    let marching = match shape.radius {
        1 => "three planes cycle through registers",
        _ => "a column of planes in registers",
    };
    vec![
        WaveRung {
            name: "one thread per node",
            strategy: simple(WaveKernel::Nodes, 8, 1),
            note: "all neighbours from global memory",
        },
        WaveRung {
            name: "tile in shared memory",
            strategy: simple(WaveKernel::Tiles, 16, 1),
            note: "with halo; neighbours in other planes from global memory",
        },
        WaveRung {
            name: "marching planes",
            strategy: simple(WaveKernel::Planes, 16, default.planes_per_chunk),
            note: marching,
        },
        WaveRung {
            name: "vector loads, aligned rows",
            strategy: WaveDeviceStrategy { kernel: WaveKernel::Columns, ..vectors },
            note: "neighbours through the cache, no barriers",
        },
        WaveRung { name: "tuned default", strategy: production, note: "" },
    ]
}
