//! Speed of the wave solver on the CPU for a list of strategies.
//!
//!     cargo bench -p orrery-fields --bench wave_cpu -- [n] [variable] [layers] [default|caches]
//!
//! n³ nodes in f32 with order 8, 256 by default. `variable` has a velocity per node, and `layers`
//! has absorbing layers of 10 nodes on all sides. `default` measures the default strategy alone,
//! and `caches` several sizes of bands. The figures are those of the fastest and of the median of
//! several runs.

use std::time::Instant;

use orrery_fields::wave::cpu::WaveCpuStrategy;
use orrery_fields::wave::{HostWave, Medium, SpaceOrder, Velocity, WaveProblem, WaveState};
use orrery_model::Precision;
use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, WaveGrid};

/// Least time per strategy.
const SECONDS: f64 = 1.5;

/// Steps per run.
const STEPS: u64 = 4;

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
    let strategies = match (has("default"), has("caches")) {
        (true, _) => vec![WaveCpuStrategy::resolve()],
        (_, true) => [256, 512, 768, 1024, 1536].map(with_cache).to_vec(),
        _ => WaveCpuStrategy::all(),
    };
    for strategy in strategies {
        let mut wave = HostWave::new(medium.clone(), &WaveState::at_rest(&medium), strategy);
        let (mut seconds, start) = (Vec::new(), Instant::now());
        while start.elapsed().as_secs_f64() < SECONDS {
            let start = Instant::now();
            wave.advance(STEPS);
            seconds.push(start.elapsed().as_secs_f64());
        }
        seconds.sort_by(f64::total_cmp);
        let rate = |secs: f64| grid.len() as f64 * STEPS as f64 / secs / 1e9;
        let [best, median] = [seconds[0], seconds[seconds.len() / 2]].map(rate);
        let cache = strategy.cache_bytes >> 10;
        println!("{}, {cache} KiB: best {best:.2}, median {median:.2} Gpoint/s", strategy.name());
    }
}

/// Returns the default strategy with this size of the cache in KiB.
fn with_cache(kib: usize) -> WaveCpuStrategy {
    WaveCpuStrategy { cache_bytes: kib << 10, ..WaveCpuStrategy::resolve() }
}
