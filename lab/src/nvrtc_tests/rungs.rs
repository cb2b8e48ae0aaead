//! Compiles kernels of rungs for problems that the ladders do not measure, and those of sweeps.

use orrery_device::Device;
use orrery_fields::Scalar;
use orrery_fields::wave::device::{DeviceWave, WaveDeviceStrategy, WaveShape};
use orrery_fields::wave::{Medium, SpaceOrder, Velocity, WaveProblem, WaveState};
use orrery_gravity::solver::direct::device::{DeviceTargetSum, DirectDeviceStrategy};
use orrery_measure::workload::DeviceWorkload;
use orrery_model::wave::{SideCondition, Sides, WaveGrid};
use orrery_model::{Precision, Vec3s};

use super::ListResult;
use crate::experiments::hybrid::device_strategy;
use crate::rungs::gravity::direct::course::{CourseProgram, CourseSteps};
use crate::rungs::wave::rungs as wave_rungs;

/// Number of bodies.
const BODIES: usize = 1024;

/// Compiles the steps with parameters as arguments and in constant memory.
pub fn compile_course_steps(device: &Device) -> ListResult {
    for program in [CourseProgram::Arguments, CourseProgram::ConstantMemory] {
        CourseSteps::new(device, program, &Vec3s::zeros(2), &[1.0; 2], 0.1, 0.1)?.queue_step()?;
    }
    Ok(())
}

/// Compiles the forces on a range of targets.
pub fn compile_ranges(device: &Device) -> ListResult {
    let workload = DeviceWorkload::for_direct(device, BODIES)?;
    let request = workload.force_request();
    let double = DirectDeviceStrategy::default_for(device, BODIES, Precision::Double);
    for strategy in [device_strategy(device), double] {
        let mut sum = DeviceTargetSum::new(device, &[1.0; BODIES], 10..BODIES - 10, &strategy)?;
        sum.queue_forces(request.position, request.mass, 1.0, 0.01, request.acceleration)?;
    }
    Ok(())
}

/// Compiles the rungs of waves in two dimensions, and in f64.
pub fn compile_waves(device: &Device) -> ListResult {
    let (plane, volume) = (WaveGrid::plane([64; 2], [1.0; 2]), WaveGrid::volume([32; 3], [1.0; 3]));
    compile_wave::<f32>(device, plane, SpaceOrder::Second)?;
    compile_wave::<f32>(device, plane, SpaceOrder::Eighth)?;
    compile_wave::<f64>(device, plane, SpaceOrder::Eighth)?;
    compile_wave::<f64>(device, volume, SpaceOrder::Eighth)
}

/// Compiles the rungs for a problem with a velocity per node.
fn compile_wave<R: Scalar>(device: &Device, grid: WaveGrid, order: SpaceOrder) -> ListResult {
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
