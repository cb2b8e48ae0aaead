//! Checks of the potential on one device, for `orrery selftest` and the tests. Every rung and every
//! version on the CPU is compared with the reference at all points, within its error bound.

use orrery_device::check::Check;
use orrery_device::{Device, DeviceError};

use super::{
    CHUNK, Charge, CoulombMap, CoulombMethod, CoulombRung, DeviceCharges, PointGrid, TiledStrategy,
    error_bound, gather_on_cpu, largest_error, potential_on_all_cores, random_charges, rsqrt_rate,
    scatter_on_cpu,
};
use crate::ladder::check_rungs;

/// Grids and numbers of charges: a single point, rows that are no multiple of the points per thread
/// or of a block, planes, and numbers around a tile.
const CASES: [([usize; 3], usize); 8] = [
    ([1, 1, 1], 1),
    ([1, 1, 1], 300),
    ([7, 5, 3], 127),
    ([8, 1, 1], 128),
    ([9, 1, 4], 129),
    ([65, 3, 1], 255),
    ([130, 2, 2], 257),
    ([16, 16, 4], 0),
];

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("lab: coulomb {name}"), run };
    vec![
        check("by every rung", every_rung),
        check("of several chunks", several_chunks),
        check("of charges that stay in memory", resident_charges),
        check("with any number of points per thread", points_per_thread),
        check("rate of reciprocal square roots", positive_rate),
    ]
}

fn message_of(error: DeviceError) -> String {
    error.to_string()
}

/// Returns a grid that does not start at the origin.
fn grid_of(counts: [usize; 3]) -> PointGrid {
    PointGrid::new(counts, [-3.0, 0.5, 100.0], 0.3)
}

/// Compares all potentials with the reference.
fn compare(
    name: &str,
    charges: &[Charge],
    grid: &PointGrid,
    additions: usize,
    found: &[f32],
) -> Result<(), String> {
    let points: Vec<usize> = (0..grid.point_count()).collect();
    let context = || format!("{name}, {} charges, {:?} points", charges.len(), grid.counts());
    if found.len() != points.len() {
        return Err(format!("{}: {} potentials", context(), found.len()));
    }
    let (error, bound) = (largest_error(charges, grid, &points, found), error_bound(additions));
    if error.is_nan() || error > bound {
        return Err(format!("{}: relative error {error:.2e}, expected at most {bound:.2e}", context()));
    }
    Ok(())
}

/// Computes a map on a device, in a buffer that contains other numbers before.
fn compute(
    device: &Device,
    map: &CoulombMap,
    charges: &[Charge],
    grid: &PointGrid,
) -> Result<Vec<f32>, String> {
    let run = || -> Result<Vec<f32>, DeviceError> {
        let potential = device.upload(&vec![7.0; grid.point_count()])?;
        let charges = DeviceCharges::upload(device, charges)?;
        map.launch(device.queue(), &charges, grid, &potential)?;
        potential.to_vec()
    };
    run().map_err(message_of)
}

/// Compares the maps of a method with the reference.
pub fn check_method(device: &Device, method: CoulombMethod) -> Result<(), String> {
    let map = CoulombMap::new(device, method).map_err(message_of)?;
    for (counts, n) in CASES {
        let grid = grid_of(counts);
        let charges = random_charges(&grid, n);
        let found = compute(device, &map, &charges, &grid)?;
        compare("map", &charges, &grid, method.additions(n), &found)?;
    }
    Ok(())
}

/// Compares the rungs of the device and of the CPU with the reference.
fn every_rung(device: &Device) -> Result<(), String> {
    check_rungs::<CoulombRung>(device)?;
    for (counts, n) in CASES {
        let grid = grid_of(counts);
        let charges = random_charges(&grid, n);
        for (name, found) in [
            ("CPU, scatter", scatter_on_cpu(&charges, &grid)),
            ("CPU, gather", gather_on_cpu(&charges, &grid)),
            ("CPU, all cores", potential_on_all_cores(&charges, &grid)),
        ] {
            compare(name, &charges, &grid, n, &found)?;
        }
    }
    Ok(())
}

/// More charges than constant memory, a tile of the CPU or a tile of the device contain.
fn several_chunks(device: &Device) -> Result<(), String> {
    let (grid, n) = (grid_of([5, 3, 2]), 2 * CHUNK + 1);
    let charges = random_charges(&grid, n);
    for method in [CoulombMethod::Constant, CoulombMethod::Tiled(TiledStrategy::ONE_POINT)] {
        let map = CoulombMap::new(device, method).map_err(message_of)?;
        let found = compute(device, &map, &charges, &grid)?;
        compare(&format!("{method:?}"), &charges, &grid, method.additions(n), &found)?;
    }
    let tile = super::cpu::TILE;
    let additions = tile + n.div_ceil(tile);
    compare("CPU, all cores", &charges, &grid, additions, &potential_on_all_cores(&charges, &grid))
}

/// Repeated launches with parts of the charges that were copied once. More charges than a chunk
/// has, or than there are, are refused.
fn resident_charges(device: &Device) -> Result<(), String> {
    let (grid, n) = (grid_of([5, 3, 2]), CHUNK + 5);
    let charges = random_charges(&grid, n);
    let on_device = DeviceCharges::upload(device, &charges).map_err(message_of)?;
    let potential = device.upload(&vec![7.0; grid.point_count()]).map_err(message_of)?;
    for method in [CoulombMethod::Constant, CoulombMethod::Gather, CoulombMethod::Scatter] {
        let map = CoulombMap::new(device, method).map_err(message_of)?;
        map.write_chunk(device.queue(), &on_device).map_err(message_of)?;
        let launch = |count| map.launch_chunk(device.queue(), &on_device, count, &grid, &potential);
        for count in [1, 32, 33, CHUNK, 16, 0] {
            launch(count).map_err(message_of)?;
            let found = potential.to_vec().map_err(message_of)?;
            compare(&format!("{method:?}"), &charges[..count], &grid, method.additions(count), &found)?;
        }
        if launch(CHUNK + 1).is_ok() {
            return Err(format!("{method:?}: {} charges are accepted", CHUNK + 1));
        }
    }
    Ok(())
}

/// Numbers of points that do not divide the row.
fn points_per_thread(device: &Device) -> Result<(), String> {
    let grid = grid_of([29, 2, 3]);
    let charges = random_charges(&grid, 100);
    for points in [2, 3] {
        let strategy = TiledStrategy { points, newton_points: points - 1, ..TiledStrategy::TUNED };
        let method = CoulombMethod::Tiled(strategy);
        let map = CoulombMap::new(device, method).map_err(message_of)?;
        let found = compute(device, &map, &charges, &grid)?;
        compare(&format!("{points} points per thread"), &charges, &grid, method.additions(100), &found)?;
    }
    Ok(())
}

/// A single core computes more than a million per second, and no device computes 1e15.
fn positive_rate(device: &Device) -> Result<(), String> {
    let rate = rsqrt_rate(device).map_err(message_of)?;
    if (1e6..1e15).contains(&rate) {
        return Ok(());
    }
    Err(format!("{rate:.2e} per second, expected 1e6 to 1e15"))
}
