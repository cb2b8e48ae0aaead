//! Whole runs of plates of several materials, and of small changes on a large temperature, on the
//! CPU and on every available device.

use orrery_validation::plates::{run_plate, targets};

/// Two insulated halves of a plate, copper at 100 and steel at 0, in SI units. They meet midway
/// between nodes 4 and 5, so the copper has 4.5 of 9 spaces.
const HALVES: &str = r#"
units = "si"
grid = { nx = 10, ny = 4, width = "9 cm", hy = "1 cm" }
initial = { state = "checkerboard", columns = 2, rows = 1, first = 100, second = 0 }
time.end = "2 h"
output.record_every = "200 steps"
[heat]
conductivity = 14.9
heat_capacity = 3.77e6
unit = "K"
region = [{ shape = "rectangle", x = 0, y = 0, width = 0.042, height = 1, conductivity = 401, heat_capacity = 3.44e6 }]
"#;

/// The final temperature is that of the heat capacities. With diffusivities it would be 50. The
/// slowest rate is at least that of the steel alone with one end held, (π/2 L)² k/c for L = 4.5 cm:
/// 4.8e-3/s, which is e⁻³⁴ at the end.
#[test]
fn two_materials_share_their_heat_by_their_heat_capacities() {
    let expected = 100.0 * 3.44 / (3.44 + 3.77);
    // Σ c u of the copper half: 100 × 3.44e6 × 0.045 × 0.03.
    let heat = 100.0 * 3.44e6 * 0.045 * 0.03;
    // 20 roundings per step of 38,000 steps. In f32, differences that decay by λ dt = 9e-4 per step
    // have errors of 6e-8/(λ dt).
    for (precision, bound) in [("double", 2e-10), ("single", 1e-4)] {
        for choice in targets() {
            let plate = run_plate(HALVES, &[&format!("heat.precision={precision}")], choice);
            let last = |name: &str| *plate.column(name).last().unwrap();
            println!("{choice:?}, {precision}: {} K, range {:e}", last("minimum"), last("range"));
            assert!((last("minimum") / expected - 1.0).abs() < bound, "{}", last("minimum"));
            assert!((last("maximum") / expected - 1.0).abs() < bound, "{}", last("maximum"));
            for found in plate.column("heat") {
                assert!((found / heat - 1.0).abs() < bound, "{found}, expected {heat}");
            }
            assert_eq!(plate.summary.schema.unit("heat"), "J/m");
        }
    }
}

/// An insulated plate at 300 with a hot spot. The slowest mode decays to e⁻²⁰.
const WARM: &str = r#"
grid = { nx = 65, ny = 65, width = 1 }
initial = { state = "hot-spot", value = 301, background = 300, radius = 0.1 }
time.end = 2
output.record_every = "1000 steps"
[heat]
precision = "single"
"#;

/// Without differences the range stays at 0.034 for ever: a step changes the slowest mode by
/// 5e-4 of it, which is below half of the distance between numbers of f32 near 300.
#[test]
fn an_insulated_plate_at_a_large_temperature_becomes_uniform_in_single_precision() {
    for choice in targets() {
        let plate = run_plate(WARM, &[], choice);
        let [range, minimum] = ["range", "minimum"].map(|name| *plate.column(name).last().unwrap());
        println!("{choice:?}: range {range:.1e} at {minimum}");
        // The spot has the heat 2π r².
        let mean = 300.0 + std::f64::consts::TAU * 0.01;
        assert!(range < 1e-7 && (minimum - mean).abs() < 1e-4, "{range:e} {minimum}");
    }
}

/// A source of 1e-3 raises the temperature by 1e-3 per time.
#[test]
fn a_weak_source_heats_a_warm_plate_in_single_precision() {
    let sets = ["heat.source=1e-3", "initial={ state = \"uniform\", value = 300 }", "time.end=1"];
    for choice in targets() {
        let plate = run_plate(WARM, &sets, choice);
        let [minimum, maximum] = ["minimum", "maximum"].map(|name| plate.column(name));
        for (k, row) in plate.rows.iter().enumerate() {
            let expected = 300.0 + 1e-3 * row.time;
            // The step is rounded to f32, and then each addition by at most 6e-8 of 1e-3.
            let bound = 1e-3 * row.time * 1e-3;
            assert!((minimum[k] - expected).abs() <= bound && (maximum[k] - expected).abs() <= bound);
        }
    }
}
