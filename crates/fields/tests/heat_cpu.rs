//! The CPU version gives the bits of the reference, for every strategy.

use orrery_fields::Scalar;
use orrery_fields::heat::cpu::HeatCpuStrategy;
use orrery_fields::heat::{Conductivity, HeatCapacity, HeatProblem, Plate, PlateFields, reference};
use orrery_model::Precision;
use orrery_model::grid::{Boundaries, Boundary, EdgeValues, Grid};
use orrery_simd::InstructionSet;
use proptest::prelude::*;

/// Returns numbers between 0 and 1 without order, the same for the same `seed`.
pub fn scattered(n: usize, seed: u64) -> Vec<f64> {
    (0..n as u64)
        .map(|k| (k ^ seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .map(|bits| {
            ((bits ^ bits >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64 / (1u64 << 53) as f64
        })
        .collect()
}

/// A plate with neither conductivity, heat capacity nor source per node.
pub const UNIFORM: PlateFields = PlateFields { conductivity: false, heat_capacity: false, source: false };

/// A plate with all fields.
pub const ALL_FIELDS: PlateFields = PlateFields { conductivity: true, heat_capacity: true, source: true };

/// A plate with a conductivity and a source per node.
pub const VARIABLE: PlateFields = PlateFields { conductivity: true, heat_capacity: false, source: true };

/// Returns all combinations of fields that solvers distinguish.
pub fn field_combinations() -> impl Iterator<Item = PlateFields> {
    [(false, false), (true, false), (true, true)].into_iter().flat_map(|(conductivity, heat_capacity)| {
        [false, true].map(|source| PlateFields { conductivity, heat_capacity, source })
    })
}

pub fn problem_of<R: Scalar>(
    grid: Grid,
    boundaries: Boundaries,
    fields: PlateFields,
) -> (HeatProblem, Vec<R>) {
    let n = grid.len();
    let conductivity = match fields.conductivity {
        true => Conductivity::Field(scattered(n, 1).iter().map(|k| k + 0.05).collect()),
        false => Conductivity::Uniform(0.7),
    };
    let source = fields.source.then(|| scattered(n, 2));
    let heat_capacity = match fields.heat_capacity {
        true => HeatCapacity::Field(scattered(n, 9).iter().map(|c| c + 0.1).collect()),
        false => HeatCapacity::Uniform(1.0),
    };
    let problem = HeatProblem::new(grid, boundaries, conductivity, source, R::PRECISION).unwrap();
    let problem = problem.with_heat_capacity(heat_capacity).unwrap();
    let mut initial = scattered(n, 3);
    problem.boundaries().set_fixed_nodes(&grid, &mut initial);
    (problem, initial.into_iter().map(R::from_f64).collect())
}

/// Requires the bits of the reference after `steps` steps, with passes of `strategy`.
fn compare<R: Scalar>(problem: &HeatProblem, initial: &[R], strategy: &HeatCpuStrategy, steps: usize) {
    let plate = Plate::new(problem);
    let dt = 0.9 * problem.max_stable_step();
    let mut expected = initial.to_vec();
    reference::advance(&plate, dt, steps as u64, &mut expected);
    let mut state = initial.to_vec();
    let mut next = vec![R::default(); initial.len()];
    let mut done = 0;
    while done < steps {
        let n = strategy.steps_per_pass.min(steps - done);
        strategy.pass(&plate, plate.step_coefficients(dt), n, &state, &mut next);
        std::mem::swap(&mut state, &mut next);
        done += n;
    }
    let bits = |state: &[R]| state.iter().map(|u| u.to_f64().to_bits()).collect::<Vec<_>>();
    if let Some(index) = (0..state.len()).find(|&k| bits(&state[k..=k]) != bits(&expected[k..=k])) {
        let (grid, [i, j]) = (problem.grid(), problem.grid().node(index));
        panic!(
            "{} x {}, {strategy:?}: node ({i}, {j}) is {}, expected {}",
            grid.nx, grid.ny, state[index], expected[index]
        );
    }
}

fn profile(n: usize, seed: u64) -> EdgeValues {
    EdgeValues::Profile(scattered(n, seed).iter().map(|v| v - 0.5).collect())
}

/// Returns a condition of each kind for both edges of a direction whose edges have `n` nodes.
fn edge_pair(kind: usize, n: usize) -> [Boundary; 2] {
    match kind {
        0 => [Boundary::Fixed(profile(n, 4)), Boundary::Fixed(profile(n, 5))],
        1 => [Boundary::Flux(profile(n, 6)), Boundary::Flux(profile(n, 7))],
        2 => [Boundary::Fixed(profile(n, 8)), Boundary::INSULATED],
        3 => [Boundary::flux(-0.3), Boundary::fixed(0.2)],
        _ => [Boundary::Periodic, Boundary::Periodic],
    }
}

pub const EDGE_PAIRS: usize = 5;

pub fn boundaries_of(grid: &Grid, kind_x: usize, kind_y: usize) -> Boundaries {
    let ([west, east], [south, north]) = (edge_pair(kind_x, grid.ny), edge_pair(kind_y, grid.nx));
    Boundaries { west, east, south, north }
}

#[test]
fn every_boundary_and_instruction_set_gives_the_bits_of_the_reference() {
    for instruction_set in InstructionSet::available() {
        for kinds in 0..EDGE_PAIRS * EDGE_PAIRS {
            for (nx, ny) in [(3, 3), (5, 40), (37, 4), (50, 33)] {
                let grid = Grid { nx, ny, hx: 0.1, hy: 0.13 };
                let boundaries = boundaries_of(&grid, kinds % EDGE_PAIRS, kinds / EDGE_PAIRS);
                for fields in field_combinations() {
                    let (steps_per_pass, is_streaming) = (1 + (kinds + nx) % 6, fields.source);
                    let strategy =
                        HeatCpuStrategy { instruction_set, steps_per_pass, tile_width: 32, is_streaming };
                    let (problem, initial) = problem_of::<f32>(grid, boundaries.clone(), fields);
                    compare(&problem, &initial, &strategy, 7);
                    let (problem, initial) = problem_of::<f64>(grid, boundaries.clone(), fields);
                    compare(&problem, &initial, &strategy, 7);
                }
            }
        }
    }
}

#[test]
fn threads_and_bands_do_not_change_bits() {
    let grid = Grid { nx: 70, ny: 400, hx: 0.1, hy: 0.1 };
    for kind in 0..EDGE_PAIRS {
        let (problem, initial) = problem_of::<f32>(grid, boundaries_of(&grid, kind, kind), ALL_FIELDS);
        for threads in [1, 2, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            for steps_per_pass in [1, 3, 16] {
                let best = HeatCpuStrategy::resolve(&Plate::<f32>::new(&problem));
                pool.install(|| compare(&problem, &initial, &HeatCpuStrategy { steps_per_pass, ..best }, 20));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_grid_and_strategy_gives_the_bits_of_the_reference(
        (nx, ny) in (3_usize..130, 3_usize..60),
        (kind_x, kind_y) in (0..EDGE_PAIRS, 0..EDGE_PAIRS),
        fields in prop::sample::select(field_combinations().collect::<Vec<_>>()),
        is_streaming in any::<bool>(),
        steps_per_pass in 1..=HeatCpuStrategy::MAX_STEPS_PER_PASS,
        tile_width in 1_usize..100,
        steps in 1_usize..40,
        precision in prop::sample::select(vec![Precision::Single, Precision::Double]),
    ) {
        let grid = Grid { nx, ny, hx: 0.1, hy: 0.13 };
        let boundaries = boundaries_of(&grid, kind_x, kind_y);
        let strategy =
            HeatCpuStrategy { instruction_set: InstructionSet::best(), steps_per_pass, tile_width, is_streaming };
        if precision == Precision::Single {
            let (problem, initial) = problem_of::<f32>(grid, boundaries, fields);
            compare(&problem, &initial, &strategy, steps);
        } else {
            let (problem, initial) = problem_of::<f64>(grid, boundaries, fields);
            compare(&problem, &initial, &strategy, steps);
        }
    }
}
