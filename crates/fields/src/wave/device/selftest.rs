//! Checks of the wave solver on one device, for `orrery selftest` and the tests. Every kernel is
//! compared with the reference, bit for bit.

use orrery_cluster::Team;
use orrery_device::check::Check;
use orrery_device::testing::SplitMix64;
use orrery_device::{Device, DeviceKind};
use orrery_model::grid::{Boundaries, Boundary, Grid, PixelWeights};
use orrery_model::wave::{AbsorbingLayer, Side, SideCondition, Sides, WaveGrid, Wavelet};

use super::{DeviceWave, WaveDeviceStrategy, WaveKernel, WaveShape};
use crate::Scalar;
use crate::pixels::{compare_means, pixel_means_of};
use crate::selftest::{compare_bits, message, random_numbers, with_f64};
use crate::team::run_team;
use crate::wave::columns::state_columns;
use crate::wave::cpu::WaveCpuStrategy;
use crate::wave::{
    GridPlane, HostWave, Medium, SpaceOrder, StoredWave, Velocity, WaveDeviceSetup, WaveError, WaveField,
    WaveProblem, WaveSource, WaveState, follow, reference,
};

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("fields: waves {name}"), run };
    vec![
        check("in single precision equal the reference", every_order::<f32>),
        check("in double precision equal the reference", |device| with_f64(device, every_order::<f64>)),
        check("with thick and thin layers equal the reference", layers),
        check("by every kind of strategy equal the reference", strategies),
        check("in several slabs equal the reference", slabs),
        check("measures and look ahead equal those of the host", measures),
        check("means over pixels equal those of the host", |device| {
            with_f64(device, |device| pixel_means::<f32>(device).and_then(|()| pixel_means::<f64>(device)))
        }),
    ]
}

/// A problem with a state without order.
struct WaveCase<R> {
    name: String,
    problem: WaveProblem,
    medium: Medium<R>,
    state: WaveState<R>,
}

impl<R: Scalar> WaveCase<R> {
    /// Returns a problem with sources and receivers near all sides.
    fn new(grid: WaveGrid, sides: Sides, order: SpaceOrder, is_variable: bool) -> Self {
        let mut random = SplitMix64::new(grid.len() as u64);
        let mut numbers = |low, high| random_numbers(&mut random, grid.len(), [low, high]);
        let velocity = match is_variable {
            true => Velocity::Field(numbers(0.5, 2.5)),
            false => Velocity::Uniform(1.2),
        };
        let at = |fractions: [f64; 3]| {
            let extent = |axis: usize| if axis < grid.dimensions() { grid.extent(axis) } else { 0.0 };
            std::array::from_fn(|axis| fractions[axis] * extent(axis))
        };
        let points = [[0.03, 0.98, 0.5], [0.5, 0.5, 0.5], [0.51, 0.04, 0.97], [1.0, 0.3, 0.02]];
        // The last source is where another one is.
        let sources = [0, 1, 2, 3, 1].map(|k| WaveSource {
            position: at(points[k]),
            wavelet: Wavelet::Ricker { frequency: 0.3, delay: 0.5 + k as f64, amplitude: 3.0 },
        });
        let receivers = points.iter().map(|p| at([p[2], p[0], p[1]])).collect();
        let problem =
            WaveProblem::new(grid, sides, order, velocity, sources.to_vec(), receivers, R::PRECISION)
                .expect("a valid problem");
        let medium = Medium::<R>::new(&problem, 0.9 * problem.max_stable_step());
        // In the last quarter, new values are around the limit of `zero_if_tiny`.
        let scale = |index| if index < grid.len() / 4 * 3 { 1.0 } else { 2.0 * R::TINY.to_f64() };
        let scaled = |(index, value): (usize, f64)| R::from_f64(scale(index) * value);
        let mut field = || numbers(-1.0, 1.0).into_iter().enumerate().map(scaled).collect();
        let (now, previous) = (field(), field());
        let name = format!("{:?} nodes, order {}, {sides:?}", grid.nodes, order.number());
        Self { name, problem, state: WaveState::start(&medium, now, previous), medium }
    }

    fn default_strategy(&self, device: &Device) -> WaveDeviceStrategy {
        WaveDeviceStrategy::default_for(device, WaveShape::of_medium(&self.medium))
    }

    fn expected(&self, steps: u64) -> WaveState<R> {
        let mut state = self.state.clone();
        reference::advance(&self.medium, &mut state, steps);
        state
    }

    fn upload(&self, device: &Device, strategy: WaveDeviceStrategy) -> Result<DeviceWave<R>, String> {
        DeviceWave::new(device, self.medium.clone(), &self.state, strategy).map_err(message)
    }

    /// Compares the state after the steps of `expected` on several ranks that share a device.
    fn compare_team(&self, device: &Device, ranks: usize, expected: &WaveState<R>) -> Result<(), String> {
        let (dt, setup) = (self.medium.dt, WaveDeviceSetup::new(device, &self.problem));
        let lead = |team: &Team| {
            let columns = state_columns(self.state.clone());
            let field = WaveField::restore(&self.problem, dt, 0, columns)?;
            let mut field = field.moved_to_team(team, Some((device, None)))?;
            field.advance(dt, expected.step)?;
            field.columns()
        };
        let columns = run_team(ranks, lead, |team| follow(team, &self.problem, Some(&setup)))
            .map_err(|error: WaveError| error.to_string())?;
        // Columns of NaN would not be equal.
        match columns == state_columns(expected.clone()) {
            true => Ok(()),
            false => Err(format!("{}: {ranks} slabs differ from the reference", self.name)),
        }
    }

    /// Compares the state after the steps of `expected`.
    fn compare(
        &self,
        device: &Device,
        strategy: WaveDeviceStrategy,
        expected: &WaveState<R>,
    ) -> Result<(), String> {
        let mut wave = self.upload(device, strategy)?;
        wave.advance(expected.step - self.state.step).map_err(message)?;
        let found = wave.state().map_err(message)?;
        let name = format!("{}, {}", self.name, strategy.name());
        self.compare_values(&format!("{name}: u"), &found.now, &expected.now)?;
        self.compare_values(&format!("{name}: u before"), &found.previous, &expected.previous)?;
        for (found, expected) in found.layers.iter().zip(&expected.layers) {
            let side = expected.side.as_str();
            let value = |index| format!("value {index}");
            compare_bits(&format!("{name}: psi at {side}"), &found.psi, &expected.psi, value)?;
            compare_bits(&format!("{name}: zeta at {side}"), &found.zeta, &expected.zeta, value)?;
        }
        let sample = |index| format!("value {index}");
        compare_bits(&format!("{name}: samples"), &found.samples, &expected.samples, sample)
    }

    fn compare_values(&self, name: &str, found: &[R], expected: &[R]) -> Result<(), String> {
        let grid = &self.medium.grid;
        compare_bits(name, found, expected, |node| format!("node {:?}", grid.node(node)))
    }
}

fn layer(thickness: usize) -> SideCondition {
    SideCondition::Absorbing(AbsorbingLayer::new(thickness))
}

/// Returns sides of all kinds. `turn` moves the kinds to other sides.
fn mixed_sides(turn: usize) -> Sides {
    let shifted = SideCondition::Absorbing(AbsorbingLayer { shift: 2.0, ..AbsorbingLayer::new(5) });
    let kinds = [SideCondition::Free, layer(10), shifted, SideCondition::Rigid, layer(3), layer(1)];
    let kind = |side: Side| kinds[(side as usize + turn) % kinds.len()];
    Sides {
        x_min: kind(Side::XMin),
        x_max: kind(Side::XMax),
        y_min: kind(Side::YMin),
        y_max: kind(Side::YMax),
        z_min: kind(Side::ZMin),
        z_max: kind(Side::ZMax),
    }
}

/// Compares the default strategy for all orders, in two and three dimensions, with uniform and with
/// variable velocity.
fn every_order<R: Scalar>(device: &Device) -> Result<(), String> {
    for (turn, order) in SpaceOrder::ALL.into_iter().enumerate() {
        let is_variable = turn % 2 == 0;
        for (grid, is_variable) in [
            (WaveGrid::volume([37, 30, 29], [0.1, 0.13, 0.12]), is_variable),
            (WaveGrid::plane([141, 61], [0.2, 0.13]), !is_variable),
        ] {
            let case = WaveCase::<R>::new(grid, mixed_sides(turn), order, is_variable);
            case.compare(device, case.default_strategy(device), &case.expected(7))?;
        }
    }
    Ok(())
}

/// Compares layers on all sides that are thin, thick, and thicker than a warp.
fn layers(device: &Device) -> Result<(), String> {
    for (grid, sides, is_variable) in [
        (WaveGrid::volume([28, 28, 28], [0.1; 3]), Sides::uniform(layer(10)), true),
        (
            WaveGrid::volume([70, 9, 10], [0.1, 0.2, 0.3]),
            Sides { x_max: layer(40), ..Sides::uniform(SideCondition::Rigid) },
            true,
        ),
        (
            WaveGrid::plane([130, 60], [0.1, 0.1]),
            Sides { x_min: layer(100), y_max: layer(50), ..Sides::uniform(SideCondition::Free) },
            false,
        ),
    ] {
        let case = WaveCase::<f32>::new(grid, sides, SpaceOrder::Eighth, is_variable);
        case.compare(device, case.default_strategy(device), &case.expected(7))?;
    }
    Ok(())
}

/// Compares columns without unrolling, and on a GPU the candidates of the tuner. OpenCL on a CPU
/// compiles slowly, so there is one more strategy.
fn strategies(device: &Device) -> Result<(), String> {
    for grid in [WaveGrid::volume([141, 21, 40], [0.1, 0.13, 0.12]), WaveGrid::plane([519, 81], [0.1, 0.13])]
    {
        for (order, is_variable) in [(SpaceOrder::Eighth, true), (SpaceOrder::Second, false)] {
            let sides = Sides { x_min: layer(10), z_max: layer(7), ..Sides::uniform(SideCondition::Free) };
            let case = WaveCase::<f32>::new(grid, sides, order, is_variable);
            let (shape, default) = (WaveShape::of_medium(&case.medium), case.default_strategy(device));
            let mut strategies = vec![WaveDeviceStrategy {
                kernel: WaveKernel::Columns,
                rows_per_thread: 1,
                planes_ahead: 1,
                unrolled_planes: 1,
                ..default
            }];
            match device.properties().kind {
                DeviceKind::Gpu => strategies.extend(WaveDeviceStrategy::candidates(device, shape)),
                _ => strategies.push(WaveDeviceStrategy {
                    rows_per_thread: if grid.dimensions() == 3 { 2 } else { 1 },
                    planes_ahead: 3,
                    planes_per_chunk: 7,
                    ..default
                }),
            }
            let expected = case.expected(4);
            for strategy in strategies {
                case.compare(device, strategy, &expected)?;
            }
        }
    }
    Ok(())
}

/// Compares 2, 3 and 4 ranks that share the device with the reference. The smallest slabs have 9
/// slices.
fn slabs(device: &Device) -> Result<(), String> {
    let free = Sides::uniform(SideCondition::Free);
    let volume = |nz| WaveGrid::volume([37, 13, nz], [0.1, 0.13, 0.12]);
    let across = Sides { x_max: layer(3), y_min: layer(2), ..free };
    for (grid, sides) in [
        (volume(38), across),
        (volume(93), Sides { z_min: layer(5), z_max: layer(5), ..across }),
        (
            WaveGrid::plane([141, 55], [0.1, 0.13]),
            Sides { y_min: SideCondition::Rigid, y_max: layer(5), ..across },
        ),
    ] {
        let case = WaveCase::<f32>::new(grid, sides, SpaceOrder::Eighth, true);
        let expected = case.expected(5);
        for ranks in [2, 3, 4] {
            case.compare_team(device, ranks, &expected)?;
        }
    }
    Ok(())
}

/// Compares measures and a look ahead with those of the host, and checks that NaN is found.
fn measures(device: &Device) -> Result<(), String> {
    if !device.properties().has_f64 {
        return Ok(());
    }
    for (turn, grid) in
        [WaveGrid::volume([37, 30, 33], [0.1, 0.13, 0.12]), WaveGrid::plane([141, 61], [0.2, 0.13])]
            .into_iter()
            .enumerate()
    {
        let mut case = WaveCase::<f32>::new(grid, mixed_sides(turn), SpaceOrder::Eighth, true);
        let strategy = case.default_strategy(device);
        let mut host = HostWave::new(case.medium.clone(), &case.state, WaveCpuStrategy::resolve());
        let mut wave = case.upload(device, strategy)?;
        host.advance(3);
        wave.advance(3).map_err(message)?;
        host.step_ahead(0.3);
        wave.step_ahead(0.3).map_err(message)?;
        for field in [StoredWave::State, StoredWave::Ahead] {
            let (found, expected) = (wave.measures(field).map_err(message)?, host.measures(field));
            // Both sums round once per node, relative to partial sums of at most the sum of all
            // terms, which are at most 2 (1/v + |A|) u². v is at least (0.5/2.5)² of its limit.
            let largest = expected.largest;
            let limit = 1e3 * grid.len() as f64 * f64::EPSILON * grid.len() as f64 * largest * largest;
            let error = (found.energy - expected.energy).abs();
            if found.largest != expected.largest || error.is_nan() || error > limit {
                return Err(format!("{}: {found:?}, expected {expected:?}", case.name));
            }
            let values = wave.values(field).map_err(message)?;
            case.compare_values(&format!("{} {field:?}", case.name), &values, &host.values(field))?;
        }
        wave.advance(2).map_err(message)?;
        case.compare_values(&case.name, &wave.state().map_err(message)?.now, &case.expected(5).now)?;
        for node in [0, 1000, case.state.now.len() - 1] {
            let value = std::mem::replace(&mut case.state.now[node], f32::NAN);
            let found = case.upload(device, strategy)?.measures(StoredWave::State).map_err(message)?;
            if !found.largest.is_nan() || !found.energy.is_nan() {
                return Err(format!("{}: {found:?} with NaN in node {node}, expected NaN", case.name));
            }
            case.state.now[node] = value;
        }
    }
    Ok(())
}

/// Compares means over the pixels of planes, bit for bit: planes of all directions, of the state
/// and of a look ahead, and a grid of two dimensions.
fn pixel_means<R: Scalar>(device: &Device) -> Result<(), String> {
    let volume = WaveGrid::volume([37, 30, 29], [0.1, 0.13, 0.12]);
    let of_volume =
        [(0, 0), (0, 36), (1, 14), (2, 13), (2, 14)].map(|(normal, node)| GridPlane { normal, node });
    let flat = WaveGrid::plane([1100, 61], [0.2, 0.13]);
    let of_flat = [GridPlane { normal: 2, node: 0 }];
    for (grid, planes) in [(volume, &of_volume[..]), (flat, &of_flat)] {
        let case = WaveCase::<R>::new(grid, Sides::uniform(SideCondition::Free), SpaceOrder::Eighth, true);
        let mut wave = case.upload(device, case.default_strategy(device))?;
        wave.step_ahead(0.3).map_err(message)?;
        for &plane in planes {
            let [nx, ny] = plane.axes().map(|axis| grid.nodes[axis]);
            let grid_of_plane = Grid { nx, ny, hx: 1.0, hy: 1.0 };
            let boundaries = Boundaries::uniform(Boundary::INSULATED);
            let fields = [StoredWave::State, StoredWave::Ahead];
            for (pixels, field) in [(1, 1), (64, 48)].into_iter().zip(fields) {
                let weights = PixelWeights::new(&grid_of_plane, &boundaries, pixels);
                let found = wave.pixel_means(field, plane, &weights).map_err(message)?;
                let values = plane.values_of(grid.nodes, &wave.values(field).map_err(message)?);
                compare_means(&found, &pixel_means_of(&values, &weights))
                    .map_err(|error| format!("{}, {plane:?}, {pixels:?}: {error}", case.name))?;
            }
        }
    }
    Ok(())
}
