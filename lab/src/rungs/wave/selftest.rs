//! Check of the rungs of the wave equation on a device, for `orrery selftest` and the tests. Every
//! rung is compared with the reference, bit for bit.

use orrery_device::check::Check;
use orrery_device::testing::SplitMix64;
use orrery_device::{Device, DeviceError};
use orrery_fields::wave::device::{DeviceWave, WaveDeviceStrategy, WaveShape};
use orrery_fields::wave::{Medium, SpaceOrder, Velocity, WaveProblem, WaveSource, WaveState, reference};
use orrery_model::Precision;
use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, WaveGrid, Wavelet};

use super::rungs;

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let name = "fields: waves by every rung of the ladder equal the reference".to_owned();
    vec![Check { name, run: every_rung }]
}

/// Steps that are compared.
const STEPS: u64 = 4;

/// Compares every rung in two and three dimensions, for order 8 with a velocity per node and for
/// order 2 with uniform velocity.
fn every_rung(device: &Device) -> Result<(), String> {
    for grid in [WaveGrid::volume([141, 21, 40], [0.1, 0.13, 0.12]), WaveGrid::plane([519, 81], [0.1, 0.13])]
    {
        for (order, is_variable) in [(SpaceOrder::Eighth, true), (SpaceOrder::Second, false)] {
            compare_rungs(device, &medium(grid, order, is_variable))
                .map_err(|error| format!("{:?} nodes, order {}, {error}", grid.nodes, order.number()))?;
        }
    }
    Ok(())
}

/// Returns random numbers from `low` to `high`, one per node.
fn random_numbers(grid: &WaveGrid, seed: u64, low: f64, high: f64) -> Vec<f64> {
    let mut random = SplitMix64::new(seed);
    let mut fraction = || (random.next_bits() >> 11) as f64 / (1u64 << 53) as f64;
    (0..grid.len()).map(|_| low + (high - low) * fraction()).collect()
}

/// Returns a medium with absorbing and free sides and a source.
fn medium(grid: WaveGrid, order: SpaceOrder, is_variable: bool) -> Medium<f32> {
    let layer = |thickness| SideCondition::Absorbing(AbsorbingLayer::new(thickness));
    let sides = Sides { x_min: layer(10), z_max: layer(7), ..Sides::uniform(SideCondition::Free) };
    let velocity = match is_variable {
        true => Velocity::Field(random_numbers(&grid, 1, 0.5, 2.5)),
        false => Velocity::Uniform(1.2),
    };
    let position = std::array::from_fn(|axis| match axis < grid.dimensions() {
        true => 0.4 * grid.extent(axis),
        false => 0.0,
    });
    let wavelet = Wavelet::Ricker { frequency: 0.3, delay: 0.5, amplitude: 3.0 };
    let sources = vec![WaveSource { position, wavelet }];
    let problem = WaveProblem::new(grid, sides, order, velocity, sources, Vec::new(), Precision::Single)
        .expect("a valid problem");
    Medium::new(&problem, 0.9 * problem.max_stable_step())
}

fn compare_rungs(device: &Device, medium: &Medium<f32>) -> Result<(), String> {
    let message = |error: DeviceError| error.to_string();
    let field = |seed| random_numbers(&medium.grid, seed, -1.0, 1.0).into_iter().map(|u| u as f32).collect();
    let start = WaveState::start(medium, field(2), field(3));
    let mut expected = start.clone();
    reference::advance(medium, &mut expected, STEPS);
    let shape = WaveShape::of_medium(medium);
    let default = WaveDeviceStrategy::default_for(device, shape);
    for rung in rungs(device, shape, default) {
        let mut wave = DeviceWave::new(device, medium.clone(), &start, default).map_err(message)?;
        rung.select(&mut wave).map_err(message)?;
        wave.advance(STEPS).map_err(message)?;
        let found = wave.state().map_err(message)?;
        for (name, found, expected) in
            [("u", &found.now, &expected.now), ("u before", &found.previous, &expected.previous)]
        {
            compare_bits(&medium.grid, found, expected)
                .map_err(|error| format!("{}: {name}{error}", rung.name))?;
        }
    }
    Ok(())
}

fn compare_bits(grid: &WaveGrid, found: &[f32], expected: &[f32]) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!(" has {} values, expected {}", found.len(), expected.len()));
    }
    let differs = |node: &usize| found[*node].to_bits() != expected[*node].to_bits();
    match (0..expected.len()).find(differs) {
        Some(node) => {
            Err(format!(" at node {:?} is {}, expected {}", grid.node(node), found[node], expected[node]))
        }
        None => Ok(()),
    }
}
