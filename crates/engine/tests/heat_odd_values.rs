//! Very large and very small numbers in every key of a plate. Each gives an error of one line, or a
//! run that ends or fails with one line, and never a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

use orrery_device::DeviceChoice;
use orrery_engine::case::{Case, CaseSource};
use orrery_engine::compute_device::DeviceRequest;
use orrery_engine::control::Control;
use orrery_engine::run::{Output, Replace, run};
use orrery_formats::Limits;
use orrery_gravity::settings::StepChoice;

/// Memory of the runs. It limits the grids.
const MEMORY: u64 = 8 << 20;
/// Runs with more steps are only loaded.
const MAX_STEPS: f64 = 1e4;

const VALUES: [f64; 14] =
    [0.0, -1.0, 5e-324, 1e-100, 1e-20, 0.3, 7.0, 1e5, 1e38, 1e100, 1e300, f64::MAX, -f64::MAX, f64::NAN];

/// Heated from outside and inside. The step, the spacings and all times are given.
const HEATED: &str = "
[grid]
nx = 7
ny = 5
hx = 0.5
hy = 0.25
[heat]
conductivity = 0.5
source = 0.25
stop_range = 1e-3
stop_every = 3
[heat.west]
condition = \"fixed\"
value = 1.0
[heat.east]
condition = \"flux\"
value = 0.5
[[heat.region]]
shape = \"rectangle\"
x = 0.5
y = 0.25
width = 1.0
height = 0.5
conductivity = 2.0
source = 3.0
[[heat.region]]
shape = \"disc\"
x = 2.0
y = 0.5
radius = 0.5
source = -1.0
[initial]
state = \"hot-spot\"
x = 1.0
y = 0.5
radius = 0.5
value = 4.0
background = 1.0
[time]
step = 0.001
start = 0.001
end = 0.006
[output]
snapshot_every = 0.004
record_every = 0.002
[image]
size = 64
low = 0.0
high = 4.0
frames_per_second = 5
";

/// A ring with an automatic step, in single precision, whose range of colours follows the state.
const RING: &str = "
[grid]
nx = 6
ny = 5
width = 3.0
height = 1.0
[heat]
conductivity = 0.5
precision = \"single\"
[heat.west]
condition = \"periodic\"
[heat.east]
condition = \"periodic\"
[heat.north]
condition = \"flux\"
value = 1.0
[initial]
state = \"sine-mode\"
m = 2
n = 1
amplitude = 3.0
[time]
end = 0.3
[output]
record_every = 0.1
[limits]
heat_error = 0.001
[image]
size = 64
";

const BOARD: &str = "
[grid]
nx = 9
ny = 9
hx = 1.0
[heat]
conductivity = 1.0
[initial]
state = \"checkerboard\"
columns = 3
rows = 2
first = 0.0
second = 1.0
[time]
step = 0.2
end = 0.6
[image]
size = 64
";

/// Returns copies of `text`, in each of which one number is replaced by one of [`VALUES`].
fn with_odd_values(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_number =
        |line: &str| line.split_once(" = ").is_some_and(|(_, value)| value.parse::<f64>().is_ok());
    let mut changed = Vec::new();
    for (k, line) in lines.iter().enumerate().filter(|(_, line)| is_number(line)) {
        let key = line.split(' ').next().unwrap_or_default();
        for value in VALUES {
            // Counts accept whole numbers with an exponent. TOML has no exponent in `NaN`.
            let line = format!("{key} = {}", format!("{value:?}").to_lowercase());
            let mut copy = lines.clone();
            copy[k] = &line;
            changed.push(copy.join("\n"));
        }
    }
    changed
}

/// Loads and runs a case. Returns the message if it is refused or fails.
fn outcome(text: &str) -> Result<(), String> {
    let source = CaseSource::Text { label: "case".into(), text: text.to_owned(), folder: Default::default() };
    let case = Case::load_within(&source, &[], Some(MEMORY)).map_err(|error| error.to_string())?;
    if let StepChoice::Fixed(dt) = case.time.step
        && (case.time.end - case.time.known_start()) / dt > MAX_STEPS
    {
        return Ok(());
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Output { folder: folder.path().join("run"), replace: Replace::Nothing };
    let device = DeviceRequest { choice: DeviceChoice::Cpu, tuned: None };
    let control = Control { device, limits: Limits { memory: MEMORY }, ..Control::default() };
    run(&case, &output, &control, |_| {}).map(|_| ()).map_err(|error| error.to_string())
}

fn check_plate(text: &str) {
    outcome(text).unwrap_or_else(|error| panic!("{error}"));
    let (mut accepted, mut refused) = (0, 0);
    for changed in with_odd_values(text) {
        match catch_unwind(AssertUnwindSafe(|| outcome(&changed))) {
            Ok(Ok(())) => accepted += 1,
            Ok(Err(message)) => {
                let is_one_line = !message.is_empty() && !message.contains(char::is_control);
                assert!(is_one_line && message.len() < 300, "{message}\n{changed}");
                refused += 1;
            }
            Err(_) => panic!("panics:\n{changed}"),
        }
    }
    assert!(accepted > 20 && refused > 20, "{accepted} accepted, {refused} refused");
}

#[test]
fn no_number_breaks_a_heated_plate() {
    check_plate(HEATED);
}

#[test]
fn no_number_breaks_a_ring() {
    check_plate(RING);
}

#[test]
fn no_number_breaks_a_board() {
    check_plate(BOARD);
}
