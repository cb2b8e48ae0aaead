//! Compiles the kernels of heat and waves.

use std::collections::HashSet;

use orrery_cluster::{Team, threads};
use orrery_device::{Device, DeviceError};
use orrery_fields::Scalar;
use orrery_fields::heat::device::{DeviceHeat, HeatDeviceStrategy, StoredField};
use orrery_fields::heat::{Conductivity, HeatCapacity, HeatProblem, Plate, PlateFields};
use orrery_fields::wave::device::{DeviceWave, WaveDeviceStrategy, WaveShape};
use orrery_fields::wave::{
    GridPlane, Medium, SpaceOrder, StoredWave, Velocity, WaveDeviceSetup, WaveError, WaveField, WaveProblem,
    WaveSource, WaveState, follow,
};
use orrery_model::Precision;
use orrery_model::grid::{Boundaries, Boundary, Grid, PixelWeights};
use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, WaveGrid, Wavelet};

use super::ListResult;

/// Number of nodes for which strategies have the most steps per pass.
const LARGE_PLATE: usize = 1 << 28;
/// Nodes along each side of a plate.
const PLATE_SIDE: usize = 64;

const UNIFORM: PlateFields = PlateFields { conductivity: false, heat_capacity: false, source: false };
const HEATED: PlateFields = PlateFields { source: true, ..UNIFORM };
const VARIABLE: PlateFields = PlateFields { conductivity: true, ..HEATED };
const MATERIALS: PlateFields = PlateFields { heat_capacity: true, ..VARIABLE };

/// Returns a plate with fixed edges and some properties per node.
fn plate<R: Scalar>(fields: PlateFields) -> Plate<R> {
    let grid = Grid { nx: PLATE_SIDE, ny: PLATE_SIDE, hx: 1.0, hy: 1.0 };
    let field = || -> Vec<f64> { (0..grid.len()).map(|node| 1.0 + (node % 2) as f64).collect() };
    let conductivity =
        if fields.conductivity { Conductivity::Field(field()) } else { Conductivity::Uniform(1.0) };
    let boundaries = Boundaries::uniform(Boundary::fixed(0.0));
    let source = fields.source.then(field);
    let mut problem = HeatProblem::new(grid, boundaries, conductivity, source, R::PRECISION);
    if fields.heat_capacity {
        problem = problem.and_then(|problem| problem.with_heat_capacity(HeatCapacity::Field(field())));
    }
    let plate = Plate::new(&problem.expect("a valid problem"));
    assert_eq!(plate.fields(), fields);
    plate
}

/// Compiles the kernels of a strategy, also those for fewer steps than a pass has.
fn compile_heat_strategy<R: Scalar>(
    device: &Device,
    plate: Plate<R>,
    strategy: HeatDeviceStrategy,
) -> Result<(), DeviceError> {
    let initial = vec![R::default(); plate.grid.len()];
    let mut heat = DeviceHeat::new(device, plate, &initial, strategy)?;
    heat.advance(0.1, u64::from(2 * strategy.steps_per_pass - 1))?;
    heat.measures(StoredField::State)?;
    let (grid, boundaries) = (heat.plate().grid, heat.plate().boundaries.clone());
    heat.pixel_means(StoredField::State, &PixelWeights::new(&grid, &boundaries, (20, 20)))?;
    heat.edge_values(StoredField::State).map(drop)
}

/// Compiles the heat solver that runs use, for plates with different properties per node.
fn compile_default_heat<R: Scalar>(device: &Device, variants: &[PlateFields]) -> Result<(), DeviceError> {
    for &fields in variants {
        let strategy =
            HeatDeviceStrategy::default_for(device, LARGE_PLATE, R::PRECISION, fields.conductivity);
        compile_heat_strategy(device, plate::<R>(fields), strategy)?;
    }
    Ok(())
}

/// Returns a problem in two or three dimensions with layers, images, a source and a receiver.
fn wave_problem(
    dimensions: usize,
    order: SpaceOrder,
    is_variable: bool,
    precision: Precision,
) -> WaveProblem {
    let grid = match dimensions {
        2 => WaveGrid::plane([64; 2], [1.0; 2]),
        _ => WaveGrid::volume([32; 3], [1.0; 3]),
    };
    let layer = SideCondition::Absorbing(AbsorbingLayer::new(10));
    let sides = Sides { x_min: layer, y_max: layer, z_max: layer, ..Sides::uniform(SideCondition::Free) };
    let velocity = match is_variable {
        true => Velocity::Field(vec![1.0; grid.len()]),
        false => Velocity::Uniform(1.0),
    };
    let position = if dimensions == 2 { [9.5, 9.5, 0.0] } else { [9.5; 3] };
    let sources = vec![WaveSource { position, wavelet: Wavelet::ricker(0.1) }];
    WaveProblem::new(grid, sides, order, velocity, sources, vec![position], precision)
        .expect("a valid problem")
}

fn wave_medium<R: Scalar>(dimensions: usize, order: SpaceOrder, is_variable: bool) -> Medium<R> {
    let problem = wave_problem(dimensions, order, is_variable, R::PRECISION);
    Medium::new(&problem, problem.max_stable_step())
}

/// Runs two steps on two ranks that share a device. Borders have another kernel than the interior.
fn compile_shared_wave(device: &Device) -> Result<(), WaveError> {
    for dimensions in [2, 3] {
        let problem = wave_problem(dimensions, SpaceOrder::Eighth, true, Precision::Single);
        let (setup, dt) = (WaveDeviceSetup::new(device, &problem), problem.max_stable_step());
        threads::run(2, |transport| {
            let team = Team::new(transport);
            match team.is_leader() {
                true => WaveField::new_in_team(&team, &problem, dt, Some(&setup))?.advance(dt, 2),
                false => follow(&team, &problem, Some(&setup)),
            }
        })?;
    }
    Ok(())
}

/// Compiles the kernels of a step, a look ahead and measures with the default strategy.
fn compile_wave<R: Scalar>(device: &Device, medium: Medium<R>) -> Result<(), DeviceError> {
    let (shape, state) = (WaveShape::of_medium(&medium), WaveState::at_rest(&medium));
    let default = WaveDeviceStrategy::default_for(device, shape);
    let mut wave = DeviceWave::new(device, medium, &state, default)?;
    wave.advance(1)?;
    wave.step_ahead(0.5)?;
    wave.measures(StoredWave::Ahead)?;
    let plane = GridPlane { normal: 2, node: 0 };
    let [nx, ny, _] = wave.medium().grid.nodes;
    let grid = Grid { nx, ny, hx: 1.0, hy: 1.0 };
    let weights = PixelWeights::new(&grid, &Boundaries::uniform(Boundary::INSULATED), (20, 20));
    wave.pixel_means(StoredWave::State, plane, &weights)?;
    wave.plane(StoredWave::State, plane).map(drop)
}

/// Compiles the kernels of a step with every candidate of the tuner. The number of planes per chunk
/// does not change the code.
fn compile_wave_candidates<R: Scalar>(device: &Device, medium: Medium<R>) -> Result<(), DeviceError> {
    let (shape, state) = (WaveShape::of_medium(&medium), WaveState::at_rest(&medium));
    let mut candidates = WaveDeviceStrategy::candidates(device, shape);
    let mut known = HashSet::new();
    candidates.retain(|strategy| known.insert(WaveDeviceStrategy { planes_per_chunk: 1, ..*strategy }));
    let mut wave = DeviceWave::new(device, medium, &state, candidates[0])?;
    for strategy in candidates {
        wave.set_strategy(strategy)?;
        wave.advance(1)?;
    }
    Ok(())
}

/// Compiles the wave solver that runs use, for one order.
fn compile_default_wave<R: Scalar>(
    device: &Device,
    order: SpaceOrder,
    is_variable: bool,
) -> Result<(), DeviceError> {
    for dimensions in [2, 3] {
        compile_wave(device, wave_medium::<R>(dimensions, order, is_variable))?;
    }
    Ok(())
}

/// Compiles the heat solvers that runs use, for every kind of plate.
pub fn compile_all_default_heat(device: &Device) -> ListResult {
    let conducting = PlateFields { source: false, ..VARIABLE };
    compile_default_heat::<f32>(device, &[UNIFORM, HEATED, conducting, VARIABLE, MATERIALS])?;
    Ok(compile_default_heat::<f64>(device, &[HEATED, VARIABLE, MATERIALS])?)
}

/// Compiles the wave solvers that runs use, for every order.
pub fn compile_all_default_waves(device: &Device) -> ListResult {
    for order in SpaceOrder::ALL {
        compile_default_wave::<f32>(device, order, false)?;
        compile_default_wave::<f64>(device, order, true)?;
    }
    Ok(())
}

/// Compiles the solvers that runs use, for some kinds of plates and order 8.
pub fn compile_some_defaults(device: &Device) -> ListResult {
    compile_default_heat::<f32>(device, &[UNIFORM, VARIABLE])?;
    compile_default_heat::<f64>(device, &[HEATED])?;
    compile_default_wave::<f32>(device, SpaceOrder::Eighth, true)?;
    Ok(compile_default_wave::<f64>(device, SpaceOrder::Eighth, true)?)
}

/// Compiles those candidates of the tuner for heat that need the most registers, the candidates for
/// waves of orders 2 and 8, and waves on two ranks.
pub fn compile_others(device: &Device) -> ListResult {
    for precision in [Precision::Single, Precision::Double] {
        for is_variable in [false, true] {
            let candidates = HeatDeviceStrategy::candidates(device, LARGE_PLATE, precision, is_variable);
            let fields = PlateFields { conductivity: is_variable, ..UNIFORM };
            let size = |strategy: &HeatDeviceStrategy| (strategy.steps_per_pass, strategy.rows_in_flight);
            let largest = *candidates.iter().max_by_key(|strategy| size(strategy)).expect("a default");
            match precision {
                Precision::Double => compile_heat_strategy(device, plate::<f64>(fields), largest),
                _ => compile_heat_strategy(device, plate::<f32>(fields), largest),
            }?;
        }
    }
    for dimensions in [2, 3] {
        for order in [SpaceOrder::Second, SpaceOrder::Eighth] {
            compile_wave_candidates(device, wave_medium::<f32>(dimensions, order, true))?;
        }
        compile_wave_candidates(device, wave_medium::<f64>(dimensions, SpaceOrder::Eighth, true))?;
    }
    Ok(compile_shared_wave(device)?)
}
