//! Speed of the wave solver on the CPU for a list of strategies.
//!
//!     cargo bench -p orrery-fields --bench wave_cpu -- [n] [variable] [layers]
//!
//! n³ nodes in f32 with order 8, 256 by default. `variable` has a velocity per node, and `layers`
//! has absorbing layers of 10 nodes on all sides. The figure is that of the fastest of several
//! runs.

use std::time::Instant;

use orrery_fields::wave::cpu::WaveCpuStrategy;
use orrery_fields::wave::{HostWave, Medium, SpaceOrder, Velocity, WaveProblem, WaveState};
use orrery_model::Precision;
use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, WaveGrid};

/// Least time per strategy.
const SECONDS: f64 = 2.0;

/// Steps per run.
const STEPS: u64 = 8;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let n = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(256);
    let grid = WaveGrid::volume([n; 3], [1.0; 3]);
    let velocity =
        if has("variable") { Velocity::Field(vec![1.0; grid.len()]) } else { Velocity::Uniform(1.0) };
    let sides = Sides::uniform(match has("layers") {
        true => SideCondition::Absorbing(AbsorbingLayer::new(10)),
        false => SideCondition::Free,
    });
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
    for strategy in WaveCpuStrategy::all() {
        let mut wave = HostWave::new(medium.clone(), &WaveState::at_rest(&medium), strategy);
        let (mut fastest, start) = (f64::INFINITY, Instant::now());
        while start.elapsed().as_secs_f64() < SECONDS {
            let start = Instant::now();
            wave.advance(STEPS);
            fastest = fastest.min(start.elapsed().as_secs_f64());
        }
        let rate = grid.len() as f64 * STEPS as f64 / fastest / 1e9;
        println!("{}: {rate:.2} Gpoint/s", strategy.name());
    }
}
