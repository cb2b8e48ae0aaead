//! Speed of the wave solver on the CPU for a list of strategies.
//!
//!     cargo bench -p orrery-fields --bench wave_cpu -- [n] [variable] [layers]
//!
//! n³ nodes in f32 with order 8, 256 by default. `variable` has a velocity per node, and `layers` has
//! absorbing layers of 10 nodes on all sides. The figure is that of the fastest of several runs.

use std::time::Instant;

use orrery_fields::wave::cpu::WaveCpuStrategy;
use orrery_fields::wave::{HostWave, Medium, SpaceOrder, Velocity, WaveProblem, WaveState};
use orrery_model::Precision;
use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, WaveGrid};

/// Least time per strategy.
const SECONDS: f64 = 1.0;

/// Steps per run.
const STEPS: u64 = 8;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let n = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(256);
    let grid = WaveGrid::volume([n; 3], [1.0; 3]);
    let velocity =
        if has("variable") { Velocity::Field(vec![1.0; grid.len()]) } else { Velocity::Uniform(1.0) };
    let layer = SideCondition::Absorbing(AbsorbingLayer::new(10));
    let thin = SideCondition::Absorbing(AbsorbingLayer::new(1));
    let side = |axis: &str| {
        if has("layers") || has(axis) {
            layer
        } else if has("thin") {
            thin
        } else {
            SideCondition::Free
        }
    };
    let sides = Sides {
        x_min: side("x"),
        x_max: side("x"),
        y_min: side("y"),
        y_max: side("y"),
        z_min: side("z"),
        z_max: side("z"),
    };
    let problem = WaveProblem::new(
        grid,
        sides,
        SpaceOrder::Eighth,
        velocity,
        Vec::new(),
        Vec::new(),
        Precision::Single,
    )
    .expect("the problem is valid");
    let medium = Medium::<f32>::new(&problem, 0.4);
    let caches = [256 << 10, 512 << 10];
    let strategies = WaveCpuStrategy::all().into_iter().skip(4);
    for strategy in strategies.flat_map(|s| caches.map(|cache_bytes| WaveCpuStrategy { cache_bytes, ..s })) {
        let mut wave = HostWave::new(medium.clone(), &WaveState::at_rest(&medium), strategy);
        let (mut fastest, start) = (f64::INFINITY, Instant::now());
        while start.elapsed().as_secs_f64() < SECONDS {
            let start = Instant::now();
            wave.advance(STEPS);
            fastest = fastest.min(start.elapsed().as_secs_f64());
        }
        let rate = grid.len() as f64 * STEPS as f64 / fastest / 1e9;
        println!("{}, {} KiB: {rate:.2} Gpoint/s", strategy.name(), strategy.cache_bytes >> 10);
    }
}
