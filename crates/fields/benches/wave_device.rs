//! Speed of the wave solver on the first GPU for a list of strategies.
//!
//!     cargo bench -p orrery-fields --bench wave_device -- [check[=NAME]] [volume] [plane] [n=N]
//!
//! `check` compares all kernels with the reference, or runs the checks whose names contain NAME.
//! `volume` measures N³ nodes, 1024 by default, and `plane` M² nodes (m=M), 16384 by default, in
//! f32 with order 8 and a velocity per node, then the default strategies of other problems.
//! `compile` compiles the candidates for an H200 without running them. The figure is that of the
//! fastest of several runs.

use orrery_device::check::Check;
use orrery_device::testing::compile_only_cuda;
use orrery_device::{Backend, Device, DeviceError, DeviceKind};
use orrery_fields::Scalar;
use orrery_fields::wave::device::{DeviceWave, WaveDeviceStrategy, WaveShape, selftest};
use orrery_fields::wave::{Medium, SpaceOrder, Velocity, WaveProblem, WaveState};
use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, WaveGrid};
use rayon::prelude::*;

/// Steps per run, and runs per strategy.
const STEPS: u64 = 10;
const RUNS: usize = 3;

fn main() -> Result<(), DeviceError> {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let number = |prefix: &str, default| {
        arguments.iter().find_map(|text| text.strip_prefix(prefix)?.parse().ok()).unwrap_or(default)
    };
    if has("compile") {
        return compile();
    }
    let devices = Device::list().devices;
    let backend = if has("opencl") { Backend::OpenCl } else { Backend::Cuda };
    let is_gpu = |device: &&Device| {
        device.properties().kind == DeviceKind::Gpu && device.properties().backend == backend
    };
    let Some(device) = devices.iter().find(is_gpu).or(devices.first()) else {
        println!("no device");
        return Ok(());
    };
    println!("{}", device.title());
    if let Some(names) = arguments.iter().find_map(|text| text.strip_prefix("check")) {
        let is_chosen = |check: &Check| check.name.contains(names.trim_start_matches('='));
        for check in selftest::checks().into_iter().filter(is_chosen) {
            println!("{}: {}", check.name, (check.run)(device).err().unwrap_or("same bits".to_owned()));
        }
    }
    let (n, m) = (number("n=", 1024), number("m=", 16_384));
    if has("volume") {
        measure_all(device, WaveGrid::volume([n; 3], [1.0; 3]))?;
    }
    if has("plane") {
        measure_all(device, WaveGrid::plane([m; 2], [1.0; 2]))?;
    }
    Ok(())
}

/// Returns a medium with open or free sides. `thickness` 0 stands for free sides.
fn medium<R: Scalar>(grid: WaveGrid, order: SpaceOrder, is_variable: bool, thickness: usize) -> Medium<R> {
    let velocity = match is_variable {
        true => Velocity::Field((0..grid.len()).into_par_iter().map(|k| 0.8 + 0.2 * noise(k)).collect()),
        false => Velocity::Uniform(1.0),
    };
    let sides = Sides::uniform(match thickness {
        0 => SideCondition::Free,
        _ => SideCondition::Absorbing(AbsorbingLayer::new(thickness)),
    });
    let problem = WaveProblem::new(grid, sides, order, velocity, Vec::new(), Vec::new(), R::PRECISION)
        .expect("the problem is valid");
    Medium::new(&problem, 0.9 * problem.max_stable_step())
}

fn noise(k: usize) -> f64 {
    ((k as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1u64 << 24) as f64
}

fn upload<R: Scalar>(device: &Device, medium: Medium<R>) -> Result<DeviceWave<R>, DeviceError> {
    let field = |shift| -> Vec<R> {
        (0..medium.grid.len()).into_par_iter().map(|k| R::from_f64(noise(k ^ shift) - 0.5)).collect()
    };
    let state = WaveState::start(&medium, field(1), field(2));
    let strategy = WaveDeviceStrategy::default_for(device, WaveShape::of_medium(&medium));
    DeviceWave::new(device, medium, &state, strategy)
}

/// Returns Gpoint/s of the fastest run.
fn rate<R: Scalar>(wave: &mut DeviceWave<R>) -> Result<f64, DeviceError> {
    let device = wave.device().clone();
    let mut fastest = f64::INFINITY;
    for _ in 0..RUNS {
        let start = device.queue().record()?;
        wave.advance(STEPS)?;
        let end = device.queue().record()?;
        fastest = fastest.min(end.seconds_since(&start)?);
    }
    Ok(wave.medium().grid.len() as f64 * STEPS as f64 / fastest / 1e9)
}

fn measure_all(device: &Device, grid: WaveGrid) -> Result<(), DeviceError> {
    println!("{:?} nodes, f32, order 8, velocity per node, free sides", grid.nodes);
    let mut wave = upload(device, medium::<f32>(grid, SpaceOrder::Eighth, true, 0))?;
    let shape = WaveShape::of_medium(wave.medium());
    let default = *wave.strategy();
    println!("  default: {:.1} Gpoint/s", rate(&mut wave)?);
    let mut best = (0.0, default);
    for strategy in WaveDeviceStrategy::candidates(device, shape) {
        wave.set_strategy(strategy)?;
        let (rate, resources) = (rate(&mut wave)?, wave.kernel().resources());
        let registers = resources.registers.unwrap_or(0);
        let spilled = resources.spill_bytes.unwrap_or(0);
        println!("  {rate:.1} Gpoint/s, {}, {registers} registers, {spilled} spilled", strategy.name());
        if rate > best.0 {
            best = (rate, strategy);
        }
    }
    println!("  best: {}", best.1.name());
    drop(wave);
    for thickness in [10, 20] {
        let mut wave = upload(device, medium::<f32>(grid, SpaceOrder::Eighth, true, thickness))?;
        println!("  {:.1} Gpoint/s, default, layers of {thickness} on all sides", rate(&mut wave)?);
        wave.set_strategy(best.1)?;
        println!("  {:.1} Gpoint/s, best, layers of {thickness} on all sides", rate(&mut wave)?);
    }
    for order in [SpaceOrder::Second, SpaceOrder::Eighth] {
        let mut wave = upload(device, medium::<f32>(grid, order, false, 0))?;
        println!("  {:.1} Gpoint/s, default, uniform velocity, order {}", rate(&mut wave)?, order.number());
        wave.set_strategy(best.1)?;
        println!("  {:.1} Gpoint/s, best, uniform velocity, order {}", rate(&mut wave)?, order.number());
    }
    let mut wave = upload(device, medium::<f64>(grid, SpaceOrder::Eighth, false, 0))?;
    println!("  {:.1} Gpoint/s, default, uniform velocity, order 8, f64", rate(&mut wave)?);
    for strategy in WaveDeviceStrategy::candidates(device, WaveShape::of_medium(wave.medium())) {
        if [64, 256].contains(&strategy.planes_per_chunk) {
            wave.set_strategy(strategy)?;
            println!("  {:.1} Gpoint/s, f64, {}", rate(&mut wave)?, strategy.name());
        }
    }
    Ok(())
}

/// Compiles the kernels of all candidates for compute capability 9.0 and prints their resources.
fn compile() -> Result<(), DeviceError> {
    let Some(cuda) = compile_only_cuda((9, 0)) else { return Ok(()) };
    fn build<R: Scalar>(device: &Device, grid: WaveGrid, is_variable: bool) -> Result<(), DeviceError> {
        for order in [SpaceOrder::Second, SpaceOrder::Eighth] {
            let medium = medium::<R>(grid, order, is_variable, 10);
            let state = WaveState::at_rest(&medium);
            let shape = WaveShape::of_medium(&medium);
            let default = WaveDeviceStrategy::default_for(device, shape);
            let mut wave = DeviceWave::new(device, medium, &state, default)?;
            for strategy in WaveDeviceStrategy::candidates(device, shape) {
                wave.set_strategy(strategy)?;
                wave.advance(1)?;
            }
        }
        Ok(())
    }
    for grid in [WaveGrid::volume([32; 3], [1.0; 3]), WaveGrid::plane([64; 2], [1.0; 2])] {
        build::<f32>(&cuda.device, grid, true)?;
        build::<f32>(&cuda.device, grid, false)?;
        build::<f64>(&cuda.device, grid, true)?;
    }
    for kernel in cuda.kernels() {
        let resources = kernel.resources;
        println!(
            "{} {}: {:?} registers, {:?} spilled, {} shared: {}",
            kernel.file,
            kernel.name,
            resources.registers.unwrap_or(0),
            resources.spill_bytes.unwrap_or(0),
            resources.shared_bytes,
            kernel.definitions
        );
    }
    Ok(())
}
