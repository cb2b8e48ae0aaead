//! Compiles the forces on a range of targets.

use orrery_device::testing::ptx_only_cuda;
use orrery_gravity::solver::direct::device::{DeviceTargetSum, DirectDeviceStrategy};
use orrery_model::Precision;

use super::{BODIES, CompiledForces, check_kernels};
use crate::experiments::hybrid::device_strategy;

#[test]
fn forces_on_a_range_compile_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    let device = &cuda.device;
    let workload = CompiledForces::new(device).expect("host memory");
    let double = DirectDeviceStrategy::default_for(device, BODIES, Precision::Double);
    for strategy in [device_strategy(device), double] {
        let mut sum = DeviceTargetSum::new(device, &[1.0; BODIES], 10..BODIES - 10, &strategy).unwrap();
        let (columns, mass) = (workload.columns(), &workload.equal_masses);
        sum.queue_forces(columns, mass, 1.0, 0.01, columns).unwrap();
    }
    check_kernels(&cuda, 2);
}
