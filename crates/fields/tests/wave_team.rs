//! Several ranks give the bits of one, on the host and on devices.

use orrery_cluster::Team;
use orrery_device::testing::{test_devices, test_devices_with_f64};
use orrery_fields::wave::{
    GridPlane, SpaceOrder, Velocity, WaveDeviceSetup, WaveError, WaveField, WaveMeasures, WaveProblem,
    WaveSource, WaveView, follow,
};
use orrery_fields::{FieldColumn, NamedColumn, run_team};
use orrery_model::Precision;
use orrery_model::grid::{Boundaries, Boundary, Grid, PixelWeights};
use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, WaveGrid, Wavelet};

use crate::wave_cpu::{scattered, sides_of};

/// Returns a problem with sources and receivers at many distances from every border of slabs.
fn problem_of(grid: WaveGrid, sides: Sides, order: SpaceOrder, precision: Precision) -> WaveProblem {
    let velocity = Velocity::Field(scattered(grid.len(), 1).iter().map(|c| 1.5 + c).collect());
    let slow = grid.depth_axis();
    let at = |number: usize, spacing: f64| {
        let position = |axis: usize| {
            let fraction = if axis == slow { number as f64 * spacing } else { 0.37 * (1 + axis) as f64 };
            if axis < grid.dimensions() { fraction.min(1.0) * grid.extent(axis) } else { 0.0 }
        };
        std::array::from_fn(position)
    };
    let source = |number: usize| WaveSource {
        position: at(number, 0.091),
        wavelet: Wavelet::Ricker { frequency: 0.3, delay: 0.1 * number as f64, amplitude: 2.0 },
    };
    let sources = (0..11).map(source).collect();
    // The last receivers are on the first and on the last slice.
    let receivers = (0..23).map(|number| at(number, 0.0437)).chain([at(0, 1.0), at(1, 1.0)]).collect();
    WaveProblem::new(grid, sides, order, velocity, sources, receivers, precision).unwrap()
}

/// Returns a state without order: the columns of a field at rest with other values of u.
fn start_of(problem: &WaveProblem, dt: f64) -> Vec<NamedColumn> {
    let mut columns = WaveField::new(problem, dt, None).unwrap().columns().unwrap();
    for (seed, column) in (2..).zip(&mut columns).take(2) {
        let values = scattered(problem.grid().len(), seed);
        column.values = match column.values {
            FieldColumn::Single(_) => FieldColumn::Single(values.iter().map(|&u| u as f32).collect()),
            FieldColumn::Double(_) => FieldColumn::Double(values),
        };
    }
    columns
}

/// A stored state: the number of steps and the columns.
type Stored = (u64, Vec<NamedColumn>);

/// Runs `lead` with the field of the leader of `ranks` ranks, which starts with `stored`.
fn with_team<T: Send>(
    ranks: usize,
    problem: &WaveProblem,
    dt: f64,
    (step, columns): &Stored,
    setup: Option<&WaveDeviceSetup>,
    lead: impl Fn(WaveField) -> Result<T, WaveError> + Sync,
) -> Result<T, WaveError> {
    let restore = |team: &Team| {
        let field = WaveField::restore(problem, dt, *step, columns.clone())?;
        let device = setup.map(|setup| (&setup.device, Some(setup.strategy)));
        lead(field.moved_to_team(team, device)?)
    };
    run_team(ranks, restore, |team| follow(team, problem, setup))
}

fn to_bits(column: &FieldColumn) -> Vec<u64> {
    match column {
        FieldColumn::Single(values) => values.iter().map(|u| u64::from(u.to_bits())).collect(),
        FieldColumn::Double(values) => values.iter().map(|u| u.to_bits()).collect(),
    }
}

/// Everything that a view shows, in bits.
#[derive(Debug, PartialEq)]
struct Observed {
    column: Vec<u64>,
    measures: [u64; 2],
    planes: Vec<Vec<u64>>,
    means: Vec<u64>,
}

fn observe(view: WaveView<'_>, grid: &WaveGrid) -> Result<Observed, WaveError> {
    let WaveMeasures { energy, largest } = view.measures()?;
    view.check_finite()?;
    let (mut planes, mut means) = (Vec::new(), Vec::new());
    let normals = if grid.dimensions() == 3 { 0..3 } else { 2..3 };
    for (normal, node) in normals.flat_map(|normal| [(normal, 0), (normal, grid.nodes[normal] / 2)]) {
        let plane = GridPlane { normal, node };
        planes.push(to_bits(&view.plane(plane)?));
        let [nx, ny] = plane.axes().map(|axis| grid.nodes[axis]);
        let boundaries = Boundaries::uniform(Boundary::INSULATED);
        for pixels in [(5, 4), (3, 70)] {
            let weights = PixelWeights::new(&Grid { nx, ny, hx: 1.0, hy: 1.0 }, &boundaries, pixels);
            let found = view.pixel_means(plane, &weights)?;
            means.extend(found.means.into_iter().chain([found.min, found.max]).map(f64::to_bits));
        }
    }
    let measures = [energy, largest].map(f64::to_bits);
    Ok(Observed { column: to_bits(&view.column()?), measures, planes, means })
}

/// Results of a run: what was observed, and the columns and seismograms at the end.
#[derive(Debug, PartialEq)]
struct RunResult {
    observed: Vec<Observed>,
    columns: Vec<(String, Vec<u64>)>,
    seismograms: Vec<Vec<f64>>,
}

/// Observes a field after some steps, a look ahead, more steps and a shortened step.
fn observed_run(mut field: WaveField) -> Result<RunResult, WaveError> {
    let (dt, grid) = (field.dt(), *field.grid());
    let mut observed = Vec::new();
    field.advance(dt, 7)?;
    observed.push(observe(field.now(), &grid)?);
    field.ahead(0.3 * dt)?;
    observed.push(observe(field.last_ahead(), &grid)?);
    field.advance(dt, 4)?;
    field.wait()?;
    observed.push(observe(field.now(), &grid)?);
    field.advance(0.6 * dt, 1)?;
    observed.push(observe(field.now(), &grid)?);
    let columns = field.columns()?.into_iter().map(|column| (column.name, to_bits(&column.values)));
    Ok(RunResult { observed, columns: columns.collect(), seismograms: field.seismograms()? })
}

/// Requires that all numbers of ranks give the results of one.
fn compare(problem: &WaveProblem, setup: Option<&WaveDeviceSetup>, all_ranks: &[usize]) {
    let dt = 0.9 * problem.max_stable_step();
    let stored = (0, start_of(problem, dt));
    let run = |ranks| with_team(ranks, problem, dt, &stored, setup, observed_run).unwrap();
    let one = run(1);
    assert!(one.seismograms.iter().flatten().any(|u| *u != 0.0));
    for &ranks in all_ranks {
        let several = run(ranks);
        // The values differ in too many places to print them.
        for (several, one) in several.observed.iter().zip(&one.observed) {
            assert_eq!(several.measures, one.measures, "{ranks} ranks");
            assert!(several == one, "{ranks} ranks: {:?}", problem.grid());
        }
        for (several, one) in several.columns.iter().zip(&one.columns) {
            assert!(several == one, "{ranks} ranks: {} differs", one.0);
        }
        assert!(several == one, "{ranks} ranks: {:?}", problem.sides());
    }
}

fn layer(thickness: usize) -> SideCondition {
    SideCondition::Absorbing(AbsorbingLayer::new(thickness))
}

#[test]
fn ranks_do_not_change_bits_of_volumes() {
    let grid = WaveGrid::volume([28, 29, 57], [0.1, 0.13, 0.12]);
    for (kinds, order) in
        [(14_321, SpaceOrder::Eighth), (7_003, SpaceOrder::Second), (41, SpaceOrder::Fourth)]
    {
        compare(&problem_of(grid, sides_of(kinds), order, Precision::Single), None, &[2, 3, 4]);
    }
    let sides = Sides { z_min: layer(10), z_max: layer(10), ..sides_of(0) };
    compare(&problem_of(grid, sides, SpaceOrder::Eighth, Precision::Double), None, &[4]);
}

#[test]
fn ranks_do_not_change_bits_of_planes() {
    let grid = WaveGrid::plane([50, 57], [0.1, 0.13]);
    for (y_min, y_max) in [
        (SideCondition::Free, layer(10)),
        (SideCondition::Rigid, SideCondition::Free),
        (layer(5), SideCondition::Rigid),
    ] {
        let sides = Sides { x_min: layer(3), y_min, y_max, ..Sides::uniform(SideCondition::Rigid) };
        compare(&problem_of(grid, sides, SpaceOrder::Eighth, Precision::Single), None, &[2, 3, 4]);
    }
    let sides = Sides::uniform(layer(6));
    compare(&problem_of(grid, sides, SpaceOrder::Sixth, Precision::Double), None, &[3, 4]);
}

#[test]
fn ranks_on_devices_do_not_change_bits() {
    for device in test_devices_with_f64() {
        for (grid, sides) in [
            (
                WaveGrid::volume([37, 13, 60], [0.1, 0.13, 0.12]),
                Sides { x_max: layer(3), z_min: layer(5), z_max: SideCondition::Rigid, ..sides_of(0) },
            ),
            (
                WaveGrid::plane([141, 61], [0.1, 0.13]),
                Sides { x_max: layer(3), y_min: SideCondition::Rigid, y_max: layer(5), ..sides_of(0) },
            ),
        ] {
            let problem = problem_of(grid, sides, SpaceOrder::Eighth, Precision::Single);
            let setup = WaveDeviceSetup::new(&device, &problem);
            compare(&problem, Some(&setup), &[2, 3]);
        }
    }
}

#[test]
fn fields_continue_on_other_numbers_of_ranks() {
    let grid = WaveGrid::volume([20, 18, 50], [0.1, 0.13, 0.12]);
    let sides = Sides { z_max: layer(4), ..sides_of(2) };
    let problem = problem_of(grid, sides, SpaceOrder::Eighth, Precision::Single);
    let dt = 0.9 * problem.max_stable_step();
    let advanced = |stored: &Stored, ranks, steps| -> Stored {
        with_team(ranks, &problem, dt, stored, None, |mut field| {
            field.advance(dt, steps)?;
            Ok((field.step(), field.columns()?))
        })
        .unwrap()
    };
    let start = (0, start_of(&problem, dt));
    let expected = advanced(&start, 1, 12);
    assert_eq!(advanced(&advanced(&advanced(&start, 3, 5), 4, 3), 2, 4), expected);
    // The same from rest, without a stored state.
    let at_rest = |ranks| {
        let lead = |team: &Team| {
            let mut field = WaveField::new_in_team(team, &problem, dt, None)?;
            field.advance(dt, 9)?;
            Ok::<_, WaveError>((field.columns()?, field.seismograms()?))
        };
        run_team(ranks, lead, |team| follow(team, &problem, None)).unwrap()
    };
    assert!(at_rest(1).1.iter().flatten().any(|u| *u != 0.0));
    assert!(at_rest(3) == at_rest(1));
}

#[test]
fn bad_teams_are_refused() {
    let grid = WaveGrid::volume([20, 18, 50], [0.1, 0.13, 0.12]);
    let sides = Sides { z_max: layer(10), ..sides_of(0) };
    let problem = problem_of(grid, sides, SpaceOrder::Eighth, Precision::Single);
    let dt = problem.max_stable_step();
    let stored = (0, start_of(&problem, dt));
    let message = with_team(5, &problem, dt, &stored, None, |_| Ok(())).unwrap_err().to_string();
    assert_eq!(
        message,
        "the grid has 50 nodes along z, expected at least 54 for 5 ranks: 9 per rank, and 8 more than its absorbing layer at each end"
    );
    let largest = |ranks| WaveField::largest_slab(&grid, &sides, ranks).map(|grid| grid.nodes);
    assert_eq!((largest(1), largest(2)), (Ok(grid.nodes), Ok([20, 18, 32])));
    assert_eq!(largest(5).unwrap_err().to_string(), message);
    let device = &test_devices()[0];
    let setup = WaveDeviceSetup::new(device, &problem);
    let lead =
        |team: &Team| WaveField::new_in_team(team, &problem, dt, Some(&setup))?.now().measures().map(drop);
    let result = run_team(2, lead, |team| follow(team, &problem, None));
    let message = result.unwrap_err().to_string();
    assert_eq!(message, "rank 1 computes on the CPU, expected a device, as on rank 0");
}

#[test]
fn first_value_that_is_not_finite_is_named() {
    let grid = WaveGrid::plane([20, 40], [0.1, 0.13]);
    let problem = problem_of(grid, sides_of(0), SpaceOrder::Second, Precision::Single);
    let dt = problem.max_stable_step();
    let mut columns = start_of(&problem, dt);
    let FieldColumn::Single(values) = &mut columns[0].values else { panic!() };
    (values[grid.index([3, 22, 0])], values[grid.index([2, 30, 0])]) = (f32::NAN, f32::NAN);
    let stored = (0, columns);
    let message = |ranks| {
        let found = with_team(ranks, &problem, dt, &stored, None, |field| field.now().check_finite());
        found.unwrap_err().to_string()
    };
    assert_eq!(message(3), message(1));
    assert!(message(1).starts_with("u is NaN at node (3, 22, 0)"), "{}", message(1));
}
