//! Whole runs of plates against known solutions, on the CPU and on every available device: the
//! table, the snapshots and the reported differences.

use std::f64::consts::PI;

use orrery_device::DeviceChoice;
use orrery_model::analysis::max_or_nan;
use orrery_validation::measured_order;
use orrery_validation::plates::{PlateRun, largest_difference, run_plate, run_preset, sampled, targets};

/// Rounding error of one operation in each precision.
const PRECISIONS: [(&str, f64); 2] = [("double", f64::EPSILON / 2.0), ("single", f32::EPSILON as f64 / 2.0)];

/// Roundings of a value per step, relative to the largest value: six operations in the scheme for
/// uniform conductivity, 18 with conductivities of faces, and two for the source.
const ROUNDINGS_PER_STEP: f64 = 20.0;

/// Returns the largest error that rounding can cause in temperatures of at most `largest`. The
/// scheme does not amplify errors.
fn rounding_bound(unit: f64, steps: u64, largest: f64) -> f64 {
    ROUNDINGS_PER_STEP * unit * steps as f64 * largest
}

/// The sine mode 3 sin(πx) sin(πy) on the unit square, with cold edges. 512 steps end at 1/8.
const SINE: &str = r#"
grid = { nx = 33, ny = 17, hx = 0.03125, hy = 0.0625 }
initial = { state = "sine-mode", amplitude = 3 }
time = { step = 0.000244140625, end = 0.125 }
output.record_every = "64 steps"
[heat]
conductivity = 0.5
west = { condition = "fixed", value = 0 }
east = { condition = "fixed", value = 0 }
south = { condition = "fixed", value = 0 }
north = { condition = "fixed", value = 0 }
"#;

/// A step multiplies the mode by 1 − 4 r_x sin²(π hx/2) − 4 r_y sin²(π hy/2), where r = dt k/h².
/// The largest temperature is that of the node in the middle. The heat content is a product of
/// sums: Σ sin(π i/n) = cot(π/2n).
#[test]
fn sine_mode_decays_by_the_factor_of_the_scheme() {
    let (hx, hy, dt, k) = (1.0f64 / 32.0, 1.0f64 / 16.0, 1.0 / 4096.0, 0.5);
    let part = |h: f64| 4.0 * dt * k / (h * h) * (0.5 * PI * h).sin().powi(2);
    let factor: f64 = 1.0 - part(hx) - part(hy);
    let heat = 3.0 * hx * hy / ((0.5 * PI * hx).tan() * (0.5 * PI * hy).tan());
    for choice in targets() {
        for (precision, unit) in PRECISIONS {
            let plate = run_plate(SINE, &[&format!("heat.precision={precision}")], choice);
            assert_eq!(plate.summary.step, 512);
            let bound = rounding_bound(unit, 512, 3.0);
            let decay = factor.powi(512);
            let expected = sampled(&plate.grid, |x, y| 3.0 * decay * (PI * x).sin() * (PI * y).sin());
            let error = largest_difference(&plate.last, &expected);
            println!("{choice:?}, {precision}: {error:.1e} from the discrete solution, bound {bound:.1e}");
            assert!(error < bound, "{choice:?}, {precision}: {error}");
            assert!(plate.difference_to("exact discrete") < bound);

            let analytic = 3.0 * (decay - (-2.0 * PI * PI * k * 0.125).exp()).abs();
            assert!((plate.difference_to("analytic") - analytic).abs() < bound);
            assert_eq!(plate.rows.len(), 9);
            for (k, row) in plate.rows.iter().enumerate() {
                let decay = factor.powi(row.step as i32);
                let [maximum, content] = ["maximum", "heat"].map(|name| plate.column(name)[k]);
                assert!((maximum - 3.0 * decay).abs() < bound, "step {}: {maximum}", row.step);
                assert!((content - heat * decay).abs() < bound, "step {}: {content}", row.step);
                assert_eq!(row.time, row.step as f64 * dt);
            }
        }
    }
}

/// Returns the difference to the analytic solution on n x n spaces at t = 1/32, with dt = h²/8.
fn analytic_error(n: u32, choice: DeviceChoice) -> f64 {
    let h = 1.0 / f64::from(n);
    let sets = [
        format!("grid={{ nx = {0}, ny = {0}, hx = {h:?} }}", n + 1),
        format!("time={{ step = {:?}, end = 0.03125 }}", h * h / 8.0),
        "heat.conductivity=1".to_owned(),
    ];
    run_plate(SINE, &sets.each_ref().map(String::as_str), choice).difference_to("analytic")
}

/// The step is proportional to h², so all errors are.
fn check_order(spaces: [u32; 3], choice: DeviceChoice) {
    let errors = spaces.map(|n| analytic_error(n, choice));
    for pair in errors.windows(2) {
        let order = measured_order(pair[0], pair[1]);
        println!("{choice:?}, {spaces:?}: errors {errors:?}, order {order:.3}");
        // The next order changes the error by about (π h)² of itself, which is below 4% here.
        assert!((order - 2.0).abs() < 0.06, "{choice:?}: order {order} from errors {errors:?}");
    }
}

#[test]
fn error_of_the_analytic_solution_is_of_second_order() {
    targets().into_iter().for_each(|choice| check_order([16, 32, 64], choice));
}

#[test]
#[ignore = "long"]
fn error_of_the_analytic_solution_is_of_second_order_on_fine_grids() {
    targets().into_iter().for_each(|choice| check_order([64, 128, 256], choice));
}

/// A plate of 2 x 2.25 whose nodes conduct very differently.
const MIXED: &str = r#"
grid = { nx = 21, ny = 16, hx = 0.1, hy = 0.15 }
initial = { state = "checkerboard", columns = 5, rows = 3 }
time.end = 0.2
output.record_every = "20 steps"
[heat]
conductivity = 0.5
region = [
    { shape = "disc", x = 0.8, y = 1, radius = 0.5, conductivity = 5 },
    { shape = "rectangle", x = 1.2, y = 0, width = 0.4, height = 1.5, conductivity = 0.01 },
]
"#;

const PERIODIC: [&str; 4] = [
    "heat.west.condition=periodic",
    "heat.east.condition=periodic",
    "heat.south.condition=periodic",
    "heat.north.condition=periodic",
];

/// Returns the area of the plate, which a periodic plate has more of.
fn area(plate: &PlateRun, spaces: [usize; 2]) -> f64 {
    spaces[0] as f64 * plate.grid.hx * spaces[1] as f64 * plate.grid.hy
}

#[test]
fn closed_plates_conserve_heat() {
    for choice in targets() {
        for (precision, unit) in PRECISIONS {
            for (edges, spaces) in
                [(&[][..], [20, 15]), (&PERIODIC[..], [21, 16]), (&PERIODIC[..2], [21, 15])]
            {
                let precision = format!("heat.precision={precision}");
                let plate = run_plate(MIXED, &[edges, &[&precision]].concat(), choice);
                let heat = plate.column("heat");
                let bound = area(&plate, spaces) * rounding_bound(unit, plate.summary.step, 1.0);
                let change = heat.iter().map(|q| (q - heat[0]).abs()).fold(0.0, max_or_nan);
                println!("{choice:?}, {precision}, {spaces:?}: heat {:.3} changes by {change:.1e}", heat[0]);
                assert!(change < bound, "{choice:?}, {precision}: {change}, bound {bound}");
                assert!(plate.limited_error().abs() < bound / area(&plate, spaces));
                assert!(largest_difference(&plate.first, &plate.last) > 0.2);
            }
        }
    }
}

/// Each row of the table has the heat of the start plus the heat of fluxes and sources. The plate
/// has an area of 4.5: 2 x 1.5 from the west, 2.25 x 1 from the north, minus 4.5 x 0.5.
#[test]
fn heat_follows_fluxes_and_sources() {
    for choice in targets() {
        for (precision, unit) in PRECISIONS {
            let precision = format!("heat.precision={precision}");
            let sets = [
                "heat.west={ condition = \"flux\", value = 1.5 }",
                "heat.north={ condition = \"flux\", profile = [0.5, 1.5] }",
                "heat.source=-0.5",
                &precision,
            ];
            let plate = run_plate(MIXED, &sets, choice);
            let [west, north, sources] = [1.5 * 2.25, 2.0, -0.5 * 4.5];
            for (name, expected) in
                [("flux_west", west), ("flux_north", north), ("flux_east", 0.0), ("sources", sources)]
            {
                let found = plate.column(name);
                // Coefficients of the fluxes are rounded to the precision.
                assert!(found.iter().all(|rate| (rate - expected).abs() < 64.0 * unit), "{name}: {found:?}");
            }
            let heat = plate.column("heat");
            let largest = plate.column("maximum").into_iter().fold(1.0, max_or_nan);
            let bound = 4.5 * rounding_bound(unit, plate.summary.step, largest);
            for (row, found) in plate.rows.iter().zip(&heat) {
                let expected = heat[0] + (west + north + sources) * row.time;
                assert!((found - expected).abs() < bound, "{choice:?}, {precision}: {found}, {expected}");
            }
            println!("{choice:?}, {precision}: error {:.1e}", plate.limited_error());
            assert!(heat[heat.len() - 1] > heat[0] + 0.6);
        }
    }
}

/// No temperature leaves the range of the start and of the fixed edges.
#[test]
fn no_new_extremum_appears() {
    for choice in targets() {
        for (precision, unit) in PRECISIONS {
            let precision = format!("heat.precision={precision}");
            let west = "heat.west={ condition = \"fixed\", profile = [0.25, 0.75] }";
            let plate = run_plate(MIXED, &[west, &precision], choice);
            let bound = rounding_bound(unit, plate.summary.step, 1.0);
            assert!(plate.column("minimum").iter().all(|&u| u >= -bound));
            assert!(plate.column("maximum").iter().all(|&u| u <= 1.0 + bound));
            assert!(plate.limited_error() <= bound);
            assert!(plate.last.iter().all(|u| (-bound..=1.0 + bound).contains(u)));
        }
    }
}

/// The difference of the precisions is rounding alone, and there is one.
#[test]
fn single_precision_differs_by_its_rounding_errors() {
    for choice in targets() {
        let [double, single] = PRECISIONS
            .map(|(precision, _)| run_plate(MIXED, &[&format!("heat.precision={precision}")], choice));
        let difference = largest_difference(&double.last, &single.last);
        let bound = rounding_bound(PRECISIONS[1].1, single.summary.step, 1.0);
        println!("{choice:?}: single and double differ by {difference:.1e}, bound {bound:.1e}");
        assert!(difference < bound && difference > PRECISIONS[1].1, "{difference}");
    }
}

/// The run ends at the first check at which 3 factor^step is below the limit.
#[test]
fn a_run_ends_when_its_range_is_below_the_limit() {
    let factor: f64 = {
        let part = |h: f64| 4.0 * 0.5 / 4096.0 / (h * h) * (0.5 * PI * h).sin().powi(2);
        1.0 - part(1.0 / 32.0) - part(1.0 / 16.0)
    };
    let steps = ((1.0f64 / 3.0).ln() / factor.ln()).ceil();
    for choice in targets() {
        let plate = run_plate(SINE, &["time.end=10", "heat.stop_range=1", "heat.stop_every=7"], choice);
        assert!(plate.summary.is_settled);
        assert_eq!(plate.summary.step, 7 * (steps / 7.0).ceil() as u64);
        let range = *plate.column("range").last().unwrap();
        assert!(range < 1.0 && range > factor.powi(7), "{range}");
    }
}

/// The preset reports its difference to both solutions. Its step is 0.9 of the limit.
#[test]
#[ignore = "long"]
fn preset_sine_decay_follows_both_solutions() {
    for choice in targets() {
        for (precision, unit) in PRECISIONS {
            let plate = run_preset("sine-decay", &[&format!("heat.precision={precision}")], choice);
            let discrete = plate.difference_to("exact discrete");
            let bound = rounding_bound(unit, plate.summary.step, 1.0);
            println!(
                "{choice:?}, {precision}: {discrete:.1e}, analytic {:.1e}",
                plate.difference_to("analytic")
            );
            assert!(discrete < bound, "{choice:?}, {precision}: {discrete}, bound {bound}");
            // Rate 2π², truncation errors π⁴h²/6 of space and 2π⁴dt of time in the exponent.
            let (t, h, dt) = (0.1f64, 1.0 / 256.0, 3.43e-6);
            let truncation = t * (PI.powi(4) * h * h / 6.0 - 2.0 * PI.powi(4) * dt);
            let expected = ((-2.0 * PI * PI * t).exp() * truncation).abs();
            let found = plate.difference_to("analytic");
            assert!((found - expected).abs() < 0.05 * expected + bound, "{found}, expected {expected}");
        }
    }
}
