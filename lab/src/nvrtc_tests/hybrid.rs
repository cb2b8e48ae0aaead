//! Compiles the forces on a range of targets.

use orrery_device::testing::ptx_only_cuda;
use orrery_gravity::solver::direct::device::{DeviceTargetSum, DirectDeviceStrategy};
use orrery_measure::workload::DeviceWorkload;
use orrery_model::Precision;

use super::{BODIES, check_kernels};
use crate::experiments::hybrid::device_strategy;

#[test]
fn forces_on_a_range_compile_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    let device = &cuda.device;
    let workload = DeviceWorkload::for_direct(device, BODIES).expect("host memory");
    let request = workload.force_request();
    let double = DirectDeviceStrategy::default_for(device, BODIES, Precision::Double);
    for strategy in [device_strategy(device), double] {
        let mut sum = DeviceTargetSum::new(device, &[1.0; BODIES], 10..BODIES - 10, &strategy).unwrap();
        sum.queue_forces(request.position, request.mass, 1.0, 0.01, request.acceleration).unwrap();
    }
    check_kernels(&cuda, 2);
}
