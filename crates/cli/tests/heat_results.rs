//! Numbers that a run of heat prints and records, against the known solution.

use std::f64::consts::PI;

use serde_json::Value;

use crate::common::TestDir;

/// The sine mode 3 sin(πx) sin(πy) on the unit square. 64 steps of 1/4096 end at 1/64.
const SINE: &str = r#"
grid = { nx = 17, ny = 17, hx = 0.0625 }
initial = { state = "sine-mode", amplitude = 3 }
time = { step = 0.000244140625, end = 0.015625 }
output.record_every = "16 steps"
image.size = 64
[heat]
unit = "K"
west = { condition = "fixed", value = 0 }
east = { condition = "fixed", value = 0 }
south = { condition = "fixed", value = 0 }
north = { condition = "fixed", value = 0 }
"#;

/// The scheme multiplies the mode by 1 − 8 r sin²(πh/2) per step, and Σ sin(π i/n) = cot(π/2n).
#[test]
fn summary_json_and_table_have_the_known_solution() {
    let dir = TestDir::new();
    dir.write("sine.toml", SINE);
    let arguments = ["run", "sine.toml", "--device", "cpu", "--out", "out", "--json", "summary.json"];
    let stdout = dir.stdout_of(&arguments);
    let json: Value = serde_json::from_str(&dir.text("summary.json")).unwrap();

    let (h, r) = (1.0f64 / 16.0, 256.0 / 4096.0);
    let sine = (0.5 * PI * h).sin();
    let decay = (1.0 - 8.0 * r * sine * sine).powi(64);
    let heat = 3.0 * (h / (0.5 * PI * h).tan()).powi(2);
    // 64 steps round six times each, relative to values of at most 3.
    let bound = 64.0 * 6.0 * 3.0 * f64::EPSILON;
    let number = |path: &str| json.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}"));
    for (path, expected) in [
        ("/step", 64.0),
        ("/start/heat", heat),
        ("/start/maximum", 3.0),
        ("/start/minimum", 0.0),
        ("/end/time", 1.0 / 64.0),
        ("/end/heat", heat * decay),
        ("/end/maximum", 3.0 * decay),
        ("/end/range", 3.0 * decay),
        ("/end/sources", 0.0),
        ("/largest_errors/exact discrete", 0.0),
        ("/largest_errors/analytic", 3.0 * (decay - (-2.0 * PI * PI / 64.0).exp()).abs()),
    ] {
        let found = number(path);
        assert!((found - expected).abs() <= bound, "{path}: {found}, expected {expected}");
    }
    // The same heat leaves through all edges.
    let fluxes = ["west", "east", "south", "north"].map(|edge| number(&format!("/end/flux_{edge}")));
    assert!(fluxes.iter().all(|flux| *flux < 0.0 && (flux - fluxes[0]).abs() < bound / h), "{fluxes:?}");
    assert_eq!(json["nodes"], serde_json::json!([17, 17]));
    assert_eq!((&json["precision"], &json["solver"]), (&"double".into(), &"explicit".into()));

    for solution in ["analytic", "exact discrete"] {
        let error = number(&format!("/largest_errors/{solution}"));
        let line = format!("largest difference to the {solution} solution: {error:.2e}\n");
        assert!(stdout.contains(&line), "{line}{stdout}");
    }
    let table = dir.text("out/conserved.csv");
    let last: Vec<f64> = table.lines().last().unwrap().split(',').map(|x| x.parse().unwrap()).collect();
    assert_eq!(last[..3], [64.0, 1.0 / 64.0, number("/end/heat")]);
    assert_eq!(table.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count(), 5);
}
