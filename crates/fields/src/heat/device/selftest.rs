//! Checks of the heat solver on one device, for `orrery selftest` and the tests. Every kernel is
//! compared with the reference, bit for bit.

use orrery_cluster::Team;
use orrery_device::check::Check;
use orrery_device::testing::SplitMix64;
use orrery_device::{Device, DeviceKind};
use orrery_model::grid::{Boundaries, Boundary, Edge, EdgeValues, Grid, PixelWeights};

use super::{DeviceHeat, HeatDeviceStrategy, StoredField};
use crate::Scalar;
use crate::heat::{
    Conductivity, HeatCapacity, HeatDeviceSetup, HeatError, HeatField, HeatProblem, Plate, PlateFields,
    follow, reference,
};
use crate::pixels::{compare_means, pixel_means_of};
use crate::selftest::{compare_bits, message, random_numbers, with_f64};
use crate::team::run_team;

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("fields: heat {name}"), run };
    vec![
        check("in single precision equals the reference", plain::<f32>),
        check("in double precision equals the reference", |device| with_f64(device, plain::<f64>)),
        check("with sources equals the reference", with_source::<f32>),
        check("with conductivity per node equals the reference", variable::<f32>),
        check("with conductivity per node in double precision equals the reference", |device| {
            with_f64(device, variable::<f64>)
        }),
        check("with heat capacity per node equals the reference", with_heat_capacity::<f32>),
        check("with heat capacity per node in double precision equals the reference", |device| {
            with_f64(device, with_heat_capacity::<f64>)
        }),
        check("by every kind of strategy equals the reference", other_strategies),
        check("in several slabs equals one", slabs),
        check("measures equal those of the host", measures),
        check("means over pixels equal those of the host", |device| {
            with_f64(device, |device| pixel_means::<f32>(device).and_then(|()| pixel_means::<f64>(device)))
        }),
    ]
}

/// Numbers of nodes: the smallest grid, less than a strip, one strip and more, and strips without
/// edges. Most are odd.
const SIZES: [(usize, usize); 5] = [(3, 3), (7, 5), (33, 12), (131, 29), (397, 61)];

/// A problem with its initial state, rounded.
struct HeatCase<R> {
    name: String,
    problem: HeatProblem,
    plate: Plate<R>,
    initial: Vec<R>,
    dt: f64,
}

const UNIFORM: PlateFields = PlateFields { conductivity: false, heat_capacity: false, source: false };
const ALL_FIELDS: PlateFields = PlateFields { conductivity: true, heat_capacity: true, source: true };

impl<R: Scalar> HeatCase<R> {
    fn new((nx, ny): (usize, usize), name: &str, boundaries: &Boundaries, fields: PlateFields) -> Self {
        let grid = Grid { nx, ny, hx: 0.7, hy: 1.3 };
        let mut random = SplitMix64::new((nx * 1000 + ny) as u64);
        let mut numbers = |low, high| random_numbers(&mut random, grid.len(), [low, high]);
        let mut initial = numbers(-1.0, 2.0);
        boundaries.set_fixed_nodes(&grid, &mut initial);
        let conductivity = match fields.conductivity {
            true => Conductivity::Field(numbers(0.05, 3.0)),
            false => Conductivity::Uniform(0.3),
        };
        let source = fields.source.then(|| numbers(-0.1, 0.1));
        let heat_capacity = match fields.heat_capacity {
            true => HeatCapacity::Field(numbers(0.1, 4.0)),
            false => HeatCapacity::Uniform(1.0),
        };
        let problem = HeatProblem::new(grid, boundaries.clone(), conductivity, source, R::PRECISION)
            .and_then(|problem| problem.with_heat_capacity(heat_capacity))
            .expect("a valid problem");
        Self {
            name: format!("{nx} x {ny} nodes, {name} edges"),
            plate: Plate::new(&problem),
            initial: initial.into_iter().map(R::from_f64).collect(),
            dt: 0.9 * problem.max_stable_step(),
            problem,
        }
    }

    /// Returns all sizes with all kinds of edges.
    fn all(fields: PlateFields) -> Vec<Self> {
        let mut cases = Vec::new();
        for size in SIZES {
            for (name, boundaries) in edge_kinds(size) {
                cases.push(Self::new(size, name, &boundaries, fields));
            }
        }
        cases
    }

    /// Returns the state after `steps` steps by the reference.
    fn expected(&self, steps: u64) -> Vec<R> {
        let mut state = self.initial.clone();
        reference::advance(&self.plate, self.dt, steps, &mut state);
        state
    }

    fn upload(&self, device: &Device, strategy: HeatDeviceStrategy) -> Result<DeviceHeat<R>, String> {
        DeviceHeat::new(device, self.plate.clone(), &self.initial, strategy).map_err(message)
    }

    /// Compares the state after `steps` steps on several ranks that share a device.
    fn compare_team(
        &self,
        device: &Device,
        strategy: HeatDeviceStrategy,
        ranks: usize,
        steps: u64,
        expected: &[R],
    ) -> Result<(), String> {
        let setup = HeatDeviceSetup { device: device.clone(), strategy };
        let lead = |team: &Team| {
            let column = R::into_column(self.initial.clone());
            let mut field = HeatField::restore_in_team(team, &self.problem, column, Some(&setup))?;
            field.advance(self.dt, steps)?;
            field.now().column()
        };
        let column = run_team(ranks, lead, |team| follow(team, &self.problem, Some(&setup)))
            .map_err(|error: HeatError| error.to_string())?;
        // Columns of NaN would not be equal.
        match column == R::into_column(expected.to_vec()) {
            true => Ok(()),
            false => Err(format!("{}: {ranks} slabs differ from the reference", self.name)),
        }
    }

    /// Compares the state after `steps` steps with `expected`.
    fn compare(
        &self,
        device: &Device,
        strategy: HeatDeviceStrategy,
        steps: u64,
        expected: &[R],
    ) -> Result<(), String> {
        let mut heat = self.upload(device, strategy)?;
        heat.advance(self.dt, steps).map_err(message)?;
        let found = heat.values(StoredField::State).map_err(message)?;
        let name = format!("{}, {}, {steps} steps", self.name, strategy.name());
        self.compare_values(&name, &found, expected)
    }

    fn compare_values(&self, name: &str, found: &[R], expected: &[R]) -> Result<(), String> {
        let grid = &self.plate.grid;
        compare_bits(name, found, expected, |node| format!("node {:?}", grid.node(node)))
    }
}

/// Returns combinations in which every kind of edge meets every other kind.
fn edge_kinds((nx, ny): (usize, usize)) -> [(&'static str, Boundaries); 5] {
    let profile = |n: usize| EdgeValues::Profile((0..n).map(|k| (k % 7) as f64 * 0.1 - 0.3).collect());
    let flux = |edge: Edge| match edge {
        Edge::West | Edge::East => Boundary::Flux(profile(ny)),
        Edge::South | Edge::North => Boundary::Flux(profile(nx)),
    };
    let periodic = || Boundary::Periodic;
    [
        ("fixed", Boundaries::uniform(Boundary::fixed(0.5))),
        (
            "flux",
            Boundaries {
                west: flux(Edge::West),
                east: Boundary::INSULATED,
                south: flux(Edge::South),
                north: flux(Edge::North),
            },
        ),
        ("periodic", Boundaries::uniform(periodic())),
        (
            "periodic, fixed and flux",
            Boundaries {
                west: periodic(),
                east: periodic(),
                south: Boundary::Fixed(profile(nx)),
                north: flux(Edge::North),
            },
        ),
        (
            "fixed, flux and periodic",
            Boundaries {
                west: Boundary::Fixed(profile(ny)),
                east: flux(Edge::East),
                south: periodic(),
                north: periodic(),
            },
        ),
    ]
}

/// Returns the default strategy for large grids.
fn default_strategy<R: Scalar>(device: &Device, is_variable: bool) -> HeatDeviceStrategy {
    HeatDeviceStrategy::default_for(device, 1 << 28, R::PRECISION, is_variable)
}

/// Compares all cases with the default strategy. The number of steps needs passes of every length.
fn compare_all<R: Scalar>(device: &Device, fields: PlateFields) -> Result<(), String> {
    let strategy = default_strategy::<R>(device, fields.conductivity);
    let steps = u64::from(2 * strategy.steps_per_pass - 1);
    for case in HeatCase::<R>::all(fields) {
        case.compare(device, strategy, steps, &case.expected(steps))?;
    }
    Ok(())
}

fn plain<R: Scalar>(device: &Device) -> Result<(), String> {
    compare_all::<R>(device, UNIFORM)
}

fn with_source<R: Scalar>(device: &Device) -> Result<(), String> {
    compare_all::<R>(device, PlateFields { source: true, ..UNIFORM })
}

fn variable<R: Scalar>(device: &Device) -> Result<(), String> {
    compare_all::<R>(device, PlateFields { heat_capacity: false, ..ALL_FIELDS })
}

fn with_heat_capacity<R: Scalar>(device: &Device) -> Result<(), String> {
    compare_all::<R>(device, ALL_FIELDS)
}

/// Compares strategies that differ from the default in each parameter. OpenCL on a CPU compiles
/// slowly, so there are fewer.
fn other_strategies(device: &Device) -> Result<(), String> {
    let default = default_strategy::<f32>(device, false);
    let strategies = match device.properties().kind {
        DeviceKind::Gpu => vec![
            HeatDeviceStrategy::default_for(device, 1 << 24, f32::PRECISION, false),
            HeatDeviceStrategy::default_for(device, 1 << 16, f32::PRECISION, false),
            HeatDeviceStrategy { steps_per_pass: 12, ..default },
            HeatDeviceStrategy { steps_per_pass: 5, rows_in_flight: 4, waves: 3, ..default },
            HeatDeviceStrategy { steps_per_pass: 1, rows_in_flight: 6, vectors_per_lane: 2, ..default },
            HeatDeviceStrategy { steps_per_pass: 3, rows_in_flight: 2, warps_per_block: 1, ..default },
        ],
        _ => {
            vec![HeatDeviceStrategy { steps_per_pass: 5, rows_in_flight: 3, vectors_per_lane: 2, ..default }]
        }
    };
    for case in HeatCase::<f32>::all(UNIFORM) {
        let expected = case.expected(24);
        for &strategy in &strategies {
            case.compare(device, strategy, 24, &expected)?;
        }
    }
    Ok(())
}

/// Compares 2, 3 and 5 ranks that share the device with the reference. Some slabs have fewer rows
/// than a pass of the strategy needs.
fn slabs(device: &Device) -> Result<(), String> {
    for (size, fields) in [((33, 12), UNIFORM), ((397, 61), UNIFORM), ((397, 61), ALL_FIELDS)] {
        let strategy = default_strategy::<f32>(device, fields.conductivity);
        let steps = u64::from(2 * strategy.steps_per_pass + 1);
        for (name, boundaries) in edge_kinds(size) {
            let case = HeatCase::<f32>::new(size, name, &boundaries, fields);
            let expected = case.expected(steps);
            for ranks in [2, 3, 5] {
                case.compare_team(device, strategy, ranks, steps, &expected)?;
            }
        }
    }
    Ok(())
}

/// Compares minimum, maximum, heat content and edges with sums over the downloaded field, and
/// checks that a step ahead does not change the state, and that NaN is found.
fn measures(device: &Device) -> Result<(), String> {
    if !device.properties().has_f64 {
        return Ok(());
    }
    for (number, (name, boundaries)) in edge_kinds((397, 61)).into_iter().enumerate() {
        let fields = if number % 2 == 0 { ALL_FIELDS } else { UNIFORM };
        let strategy = default_strategy::<f32>(device, fields.conductivity);
        let mut case = HeatCase::<f32>::new((397, 61), name, &boundaries, fields);
        let mut heat = case.upload(device, strategy)?;
        heat.step_ahead(0.5 * case.dt).map_err(message)?;
        let state = heat.values(StoredField::State).map_err(message)?;
        case.compare_values(&case.name, &state, &case.initial)?;
        let mut expected = case.initial.clone();
        reference::advance(&case.plate, 0.5 * case.dt, 1, &mut expected);
        let ahead = heat.values(StoredField::Ahead).map_err(message)?;
        case.compare_values(&format!("{} ahead", case.name), &ahead, &expected)?;
        compare_measures(&case, &heat, &expected)?;
        for node in [0, 5000, case.initial.len() - 1] {
            let value = std::mem::replace(&mut case.initial[node], f32::NAN);
            let found = case.upload(device, strategy)?.measures(StoredField::State).map_err(message)?;
            if !found.min.is_nan() || !found.max.is_nan() || !found.heat_content.is_nan() {
                return Err(format!("{}: {found:?} with NaN in node {node}, expected NaN", case.name));
            }
            case.initial[node] = value;
        }
    }
    Ok(())
}

/// Compares the measures of the field ahead with those of `expected`.
fn compare_measures(case: &HeatCase<f32>, heat: &DeviceHeat<f32>, expected: &[f32]) -> Result<(), String> {
    let found = heat.measures(StoredField::Ahead).map_err(message)?;
    let grid = &case.plate.grid;
    let weight = |k: usize, n: usize, is_periodic: bool| {
        if !is_periodic && (k == 0 || k == n - 1) { 0.5 } else { 1.0 }
    };
    let (mut min, mut max, mut sum, mut sum_abs) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0.0);
    for (node, &u) in expected.iter().enumerate() {
        let ([i, j], u) = (grid.node(node), f64::from(u));
        (min, max) = (min.min(u), max.max(u));
        let weights = weight(i, grid.nx, case.plate.boundaries.is_periodic_in_x())
            * weight(j, grid.ny, case.plate.boundaries.is_periodic_in_y());
        let ratio = case.plate.capacity_ratio.as_ref().map_or(1.0, |ratio| f64::from(ratio[node]));
        let heat = u / ratio * weights * grid.hx * grid.hy * case.plate.heat_capacity;
        sum += heat;
        sum_abs += heat.abs();
    }
    // Both sums round once per node, relative to partial sums of at most Σ|x|.
    let limit = 2.0 * expected.len() as f64 * f64::EPSILON * sum_abs;
    let error = (found.heat_content - sum).abs();
    if (found.min, found.max) != (min, max) || error.is_nan() || error > limit {
        return Err(format!("{}: {found:?}, expected [{min}, {max}] and heat {sum}", case.name));
    }
    let edges = heat.edge_values(StoredField::Ahead).map_err(message)?;
    for (node, &u) in expected.iter().enumerate() {
        let [i, j] = grid.node(node);
        let is_outer = i < 2 || j < 2 || i + 2 >= grid.nx || j + 2 >= grid.ny;
        if is_outer && edges.at(i, j) != u {
            return Err(format!("{}: edge node ({i}, {j}) is {}, expected {u}", case.name, edges.at(i, j)));
        }
    }
    Ok(())
}

/// Compares means over pixels, bit for bit: finer and coarser grids than the picture, pixels with
/// more columns than a block sums at a time, all kinds of edges, and NaN.
fn pixel_means<R: Scalar>(device: &Device) -> Result<(), String> {
    let strategy = default_strategy::<R>(device, false);
    for size in [(3, 3), (33, 12), (397, 61), (2600, 9)] {
        for (name, boundaries) in edge_kinds(size) {
            let mut case = HeatCase::<R>::new(size, name, &boundaries, UNIFORM);
            let middle = case.initial.len() / 2;
            for value in [None, Some(f64::NAN)] {
                if let Some(value) = value {
                    case.initial[middle] = R::from_f64(value);
                }
                let mut heat = case.upload(device, strategy)?;
                heat.step_ahead(0.5 * case.dt).map_err(message)?;
                let fields = [StoredField::State, StoredField::Ahead];
                for (pixels, field) in
                    [(1, 1), (7, 5), (50, 41), (301, 6)].into_iter().zip(fields.into_iter().cycle())
                {
                    let weights = PixelWeights::new(&case.plate.grid, &boundaries, pixels);
                    let found = heat.pixel_means(field, &weights).map_err(message)?;
                    let values = heat.values(field).map_err(message)?;
                    compare_means(&found, &pixel_means_of(&values, &weights))
                        .map_err(|error| format!("{}, {pixels:?} pixels: {error}", case.name))?;
                }
            }
        }
    }
    Ok(())
}
