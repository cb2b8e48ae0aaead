//! Steady states of whole runs against solutions that do not use the code of the scheme:
//! resistances in series, and a balance of all cells that is solved directly.

use orrery_device::DeviceChoice;
use orrery_model::grid::Grid;
use orrery_validation::plates::{PlateRun, largest_difference, run_plate, targets};

/// Two layers with conductivities 4 and 0.25, which meet between the nodes 4 and 5.
const LAYERS: &str = r#"
grid = { nx = 13, ny = 3, width = 1, hy = 0.2 }
initial.state = "uniform"
time.end = 12
output.record_every = "1000 steps"
[heat]
conductivity = 0.25
west = { condition = "fixed", value = 3 }
east = { condition = "fixed", value = -1 }
region = [{ shape = "rectangle", x = 0, y = 0, width = 0.34, height = 0.4, conductivity = 4 }]
"#;

/// The layers are resistances in series: 4.5 spaces of conductivity 4 and 7.5 of 0.25. The slowest
/// mode decays as exp(−λ t) with λ > 2.4, the rate of the poor conductor alone with one insulated
/// end, which is e⁻²⁹ at the end. The steps add rounding errors of 3 × 2⁻⁵² / (λ dt).
#[test]
fn layered_plate_reaches_its_steady_state() {
    let h = 1.0 / 12.0;
    let resistance = |i: f64| h * (i.min(4.5) / 4.0 + (i - 4.5).max(0.0) / 0.25);
    let flux = 4.0 / resistance(12.0);
    let expected: Vec<f64> = (0..39).map(|index| 3.0 - flux * resistance(f64::from(index % 13))).collect();
    for choice in targets() {
        let plate = run_plate(LAYERS, &[], choice);
        let error = largest_difference(&plate.last, &expected);
        println!("{choice:?}: {error:.1e} from the steady state, {} steps", plate.summary.step);
        assert!(error < 1e-11, "{choice:?}: {error}");
        let last = |name: &str| *plate.column(name).last().unwrap();
        // The edges are 0.4 long.
        assert!((last("flux_west") - 0.4 * flux).abs() < 1e-10, "{}", last("flux_west"));
        assert!((last("flux_east") + 0.4 * flux).abs() < 1e-10, "{}", last("flux_east"));
        assert_eq!((last("flux_south"), last("flux_north")), (0.0, 0.0));
    }
}

/// A plate with all kinds of edges that are not periodic, a poor and a good conductor, and a
/// source.
const PLATE: &str = r#"
grid = { nx = 25, ny = 21, hx = 0.04, hy = 0.05 }
initial = { state = "uniform", value = 1 }
time.end = 6
output.record_every = "10_000 steps"
[heat]
conductivity = 1
south = { condition = "fixed", profile = [0, 4, 1] }
north = { condition = "fixed", value = 2 }
west = { condition = "flux", profile = [0, 3] }
region = [
    { shape = "disc", x = 0.4, y = 0.5, radius = 0.21, conductivity = 0.1 },
    { shape = "rectangle", x = 0.64, y = 0.2, width = 0.2, height = 0.4, conductivity = 3, source = 20 },
]
"#;

const GRID: Grid = Grid { nx: 25, ny: 21, hx: 0.04, hy: 0.05 };

/// Returns the conductivity and the source of node (i, j) of [`PLATE`]. No node is within 1e-3 of
/// the boundary of the disc.
fn material(i: usize, j: usize) -> (f64, f64) {
    let (x, y) = (i as f64 * GRID.hx, j as f64 * GRID.hy);
    if (16..=21).contains(&i) && (4..=12).contains(&j) {
        (3.0, 20.0)
    } else if (x - 0.4).hypot(y - 0.5) < 0.21 {
        (0.1, 0.0)
    } else {
        (1.0, 0.0)
    }
}

/// Returns the temperature of node `i` of the south edge: linear from 0 to 4 and down to 1.
fn south_temperature(i: usize) -> f64 {
    let x = i as f64 / 12.0;
    if x <= 1.0 { 4.0 * x } else { 4.0 - 3.0 * (x - 1.0) }
}

/// Returns the steady state from the balance of every cell: heat through its four sides, from its
/// source and through the west edge adds up to 0. Cells on the west and east edges have half of the
/// width.
fn steady_state() -> Vec<f64> {
    let Grid { nx, ny, hx, hy } = GRID;
    let n = GRID.len();
    let mut matrix = vec![vec![0.0; n + 1]; n];
    for j in 0..ny {
        for i in 0..nx {
            let node = GRID.index(i, j);
            let row = &mut matrix[node];
            if j == 0 || j == ny - 1 {
                row[node] = 1.0;
                row[n] = if j == 0 { south_temperature(i) } else { 2.0 };
                continue;
            }
            let (k, source) = material(i, j);
            let width = if i == 0 || i == nx - 1 { 0.5 * hx } else { hx };
            let mut add_side = |i2: usize, j2: usize, length: f64, distance: f64| {
                // Two half spaces in series.
                let resistance = 0.5 * distance / k + 0.5 * distance / material(i2, j2).0;
                row[node] += length / resistance;
                row[GRID.index(i2, j2)] -= length / resistance;
            };
            if i > 0 {
                add_side(i - 1, j, hy, hx);
            }
            if i < nx - 1 {
                add_side(i + 1, j, hy, hx);
            }
            add_side(i, j - 1, width, hy);
            add_side(i, j + 1, width, hy);
            let flux = if i == 0 { 3.0 * j as f64 / (ny - 1) as f64 } else { 0.0 };
            row[n] = source * width * hy + flux * hy;
        }
    }
    solve(matrix)
}

/// Solves a system of equations by Gaussian elimination. The last column has the right side. The
/// matrix is diagonally dominant, so no pivoting is needed.
fn solve(mut matrix: Vec<Vec<f64>>) -> Vec<f64> {
    let n = matrix.len();
    for k in 0..n {
        let (above, below) = matrix.split_at_mut(k + 1);
        let pivot = &above[k];
        for row in below.iter_mut().filter(|row| row[k] != 0.0) {
            let factor = row[k] / pivot[k];
            row[k..].iter_mut().zip(&pivot[k..]).for_each(|(value, pivot)| *value -= factor * pivot);
        }
    }
    let mut solution = vec![0.0; n];
    for k in (0..n).rev() {
        let known: f64 = (k + 1..n).map(|column| matrix[k][column] * solution[column]).sum();
        solution[k] = (matrix[k][n] - known) / matrix[k][k];
    }
    solution
}

fn check_balance(plate: &PlateRun, bound: f64) {
    let rates = ["flux_west", "flux_east", "flux_south", "flux_north", "sources"]
        .map(|name| *plate.column(name).last().unwrap());
    assert!(rates.iter().sum::<f64>().abs() < bound, "{rates:?}");
    // 1.5 on average over the west edge of length 1. The corners are fixed, and half a space of the
    // edge belongs to each of them.
    let west: f64 = (1..20).map(|j| 3.0 * f64::from(j) / 20.0 * 0.05).sum();
    assert!((rates[0] - west).abs() < 1e-12, "{rates:?}");
    // 6 x 9 cells of 0.04 x 0.05.
    assert!((rates[4] - 20.0 * 54.0 * 0.002).abs() < 1e-12, "{rates:?}");
}

/// The slowest mode decays at least as exp(−5 t), which is e⁻³⁰ at the end. Rounding errors of the
/// steps add up to 4 × 2⁻⁵²/(5 dt) = 1e-12.
#[test]
fn plate_of_three_materials_reaches_the_solution_of_its_balance() {
    let expected = steady_state();
    for choice in targets() {
        let plate = run_plate(PLATE, &[], choice);
        let error = largest_difference(&plate.last, &expected);
        println!("{choice:?}: {error:.1e} from the solution, {} steps", plate.summary.step);
        assert!(error < 1e-10, "{choice:?}: {error}");
        check_balance(&plate, 1e-8);
    }
}

/// A field of single precision stops changing when a step changes less than the last bit: at a
/// distance of about largest × 2⁻²⁴/(λ dt) from the solution.
#[test]
fn single_precision_reaches_the_same_state_to_its_resolution() {
    let plate = run_plate(PLATE, &["heat.precision=single"], DeviceChoice::Cpu);
    let error = largest_difference(&plate.last, &steady_state());
    let dt = 6.0 / plate.summary.step as f64;
    let bound = 4.0 * 0.5f64.powi(24) / (5.0 * dt);
    println!("single precision: {error:.1e} from the solution, bound {bound:.1e}");
    assert!(error < bound, "{error}, bound {bound}");
}
