//! Compiles the experiment with the electrostatic map.

use orrery_device::testing::ptx_only_cuda;

use super::check_kernels;
use crate::experiments::coulomb::{
    CoulombMap, CoulombMethod, DeviceCharges, PointGrid, TiledStrategy, rsqrt_rate, rungs,
};

#[test]
fn electrostatic_map_compiles_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    let (device, queue) = (&cuda.device, cuda.device.queue());
    let grid = PointGrid::new([9, 5, 2], [0.0; 3], 0.5);
    let charges = DeviceCharges::upload(device, &[[1.0; 4]; 5]).unwrap();
    let potential = device.zeros(grid.point_count()).unwrap();
    let sixteen = TiledStrategy { points: 16, ..TiledStrategy::TUNED };
    let methods = rungs().into_iter().map(|rung| rung.method);
    for method in methods.chain([CoulombMethod::Tiled(sixteen)]) {
        CoulombMap::new(device, method).unwrap().launch(queue, &charges, &grid, &potential).unwrap();
    }
    rsqrt_rate(device).unwrap();
    // Four kernels without tiles, five and one with tiles, and one for the rate.
    check_kernels(&cuda, 11);
}
