//! Compiles the rungs of heat and waves.

use orrery_device::Device;
use orrery_device::testing::ptx_only_cuda;
use orrery_fields::Scalar;
use orrery_fields::heat::device::HeatDeviceStrategy;
use orrery_fields::heat::{Conductivity, HeatProblem, Plate};
use orrery_fields::wave::device::{DeviceWave, WaveDeviceStrategy, WaveShape};
use orrery_fields::wave::{Medium, SpaceOrder, Velocity, WaveProblem, WaveState};
use orrery_model::Precision;
use orrery_model::grid::{Boundaries, Boundary, Grid};
use orrery_model::wave::{SideCondition, Sides, WaveGrid};

use super::{TestResult, check_kernels};
use crate::rungs::heat::{RungHeat, rungs as heat_rungs};
use crate::rungs::wave::rungs as wave_rungs;

/// Compiles the rungs for a problem with a velocity per node.
fn compile_wave_rungs<R: Scalar>(device: &Device, grid: WaveGrid, order: SpaceOrder) -> TestResult {
    let (sides, velocity) = (Sides::uniform(SideCondition::Free), Velocity::Field(vec![1.0; grid.len()]));
    let problem = WaveProblem::new(grid, sides, order, velocity, Vec::new(), Vec::new(), R::PRECISION)
        .expect("a valid problem");
    let medium = Medium::<R>::new(&problem, problem.max_stable_step());
    let (shape, state) = (WaveShape::of_medium(&medium), WaveState::at_rest(&medium));
    let default = WaveDeviceStrategy::default_for(device, shape);
    let mut wave = DeviceWave::new(device, medium, &state, default)?;
    for rung in wave_rungs(device, shape, default) {
        rung.select(&mut wave)?;
        wave.advance(1)?;
    }
    Ok(())
}

#[test]
fn wave_rungs_compile_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    for grid in [WaveGrid::plane([64; 2], [1.0; 2]), WaveGrid::volume([32; 3], [1.0; 3])] {
        for order in [SpaceOrder::Second, SpaceOrder::Eighth] {
            compile_wave_rungs::<f32>(&cuda.device, grid, order).unwrap();
        }
        compile_wave_rungs::<f64>(&cuda.device, grid, SpaceOrder::Eighth).unwrap();
    }
    // Three kernels of single nodes and two of columns for six problems.
    check_kernels(&cuda, 30);
}

#[test]
fn heat_rungs_compile_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    let grid = Grid { nx: 64, ny: 64, hx: 1.0, hy: 1.0 };
    let boundaries = Boundaries::uniform(Boundary::fixed(0.0));
    let problem =
        HeatProblem::new(grid, boundaries, Conductivity::Uniform(1.0), None, Precision::Single).unwrap();
    let plate = Plate::<f32>::new(&problem);
    let default = HeatDeviceStrategy::default_for(&cuda.device, grid.len(), Precision::Single, false);
    for rung in heat_rungs() {
        let initial = vec![0.0; grid.len()];
        RungHeat::new(&cuda.device, rung.variant, &plate, &initial, default).unwrap().iterate(0.1).unwrap();
    }
    check_kernels(&cuda, 10);
}
