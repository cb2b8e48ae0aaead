//! Check of the rungs of the heat equation on a device, for `orrery selftest` and the tests. Every
//! rung is compared with the reference, bit for bit.

use orrery_device::check::Check;
use orrery_device::testing::SplitMix64;
use orrery_device::{Device, DeviceError};
use orrery_fields::heat::device::HeatDeviceStrategy;
use orrery_fields::heat::{Conductivity, HeatProblem, Plate, reference};
use orrery_model::Precision;
use orrery_model::grid::{Boundaries, Boundary, Grid};

use super::{HeatRung, RungHeat};
use crate::ladder::check_rungs;

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    vec![Check { name: "fields: heat by every rung of its ladder".to_owned(), run: check_rungs::<HeatRung> }]
}

/// Numbers of nodes: the smallest grid, less than a tile of a block and more, and several tiles.
const SIZES: [(usize, usize); 3] = [(3, 3), (33, 12), (131, 29)];

/// Iterations that are compared.
const ITERATIONS: u32 = 3;

/// A plate with fixed edges and uniform conductivity, and a state of random numbers.
struct RungPlate {
    plate: Plate<f32>,
    initial: Vec<f32>,
    dt: f64,
}

impl RungPlate {
    fn new((nx, ny): (usize, usize)) -> Self {
        let grid = Grid { nx, ny, hx: 0.7, hy: 1.3 };
        let boundaries = Boundaries::uniform(Boundary::fixed(0.5));
        let mut random = SplitMix64::new((nx * 1000 + ny) as u64);
        let mut initial: Vec<f64> = (0..grid.len())
            .map(|_| 3.0 * (random.next_bits() >> 11) as f64 / (1u64 << 53) as f64 - 1.0)
            .collect();
        boundaries.set_fixed_nodes(&grid, &mut initial);
        let problem = HeatProblem::new(grid, boundaries, Conductivity::Uniform(0.3), None, Precision::Single)
            .expect("a valid problem");
        Self {
            plate: Plate::new(&problem),
            initial: initial.into_iter().map(|u| u as f32).collect(),
            dt: 0.9 * problem.max_stable_step(),
        }
    }

    /// Compares the state and the range after some iterations of a rung.
    fn compare(&self, device: &Device, rung: &HeatRung) -> Result<(), String> {
        let message = |error: DeviceError| error.to_string();
        // The strategy for large grids, which has the most steps per pass.
        let production = HeatDeviceStrategy::default_for(device, 1 << 28, Precision::Single, false);
        let mut heat =
            RungHeat::new(device, rung.variant, &self.plate, &self.initial, production).map_err(message)?;
        let mut range = [f32::NAN; 2];
        for _ in 0..ITERATIONS {
            range = heat.iterate(self.dt).map_err(message)?.0;
        }
        let mut expected = self.initial.clone();
        let steps = u64::from(ITERATIONS * heat.steps_per_iteration());
        reference::advance(&self.plate, self.dt, steps, &mut expected);
        let found = heat.values().map_err(message)?;
        if found.len() != expected.len() {
            return Err(format!("got {} values, expected {}", found.len(), expected.len()));
        }
        // NaN differs from itself, so it fails.
        if let Some(node) = (0..expected.len()).find(|&node| found[node] != expected[node]) {
            let [i, j] = self.plate.grid.node(node);
            return Err(format!("node ({i}, {j}) is {}, expected {}", found[node], expected[node]));
        }
        // The expected values are finite, because they equal the ones that were found.
        let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
        for &u in &expected {
            (low, high) = (low.min(u), high.max(u));
        }
        match range == [low, high] {
            true => Ok(()),
            false => Err(format!("the range is {range:?}, expected {:?}", [low, high])),
        }
    }
}

/// Compares a rung for all sizes.
pub fn check_rung(device: &Device, rung: &HeatRung) -> Result<(), String> {
    for size in SIZES {
        let compared = RungPlate::new(size).compare(device, rung);
        compared.map_err(|error| format!("{} x {} nodes: {error}", size.0, size.1))?;
    }
    Ok(())
}
