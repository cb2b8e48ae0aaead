//! All pairs on a device: what is printed of them, and the time that building the kernels takes.

use std::process::Command;

use orrery_device::{Device, DeviceKind};
use orrery_lab::bench::Measurement;
use orrery_lab::bench::direct as lab;
use orrery_lab::format::{format_number, format_percent, format_seconds};
use orrery_lab::{FLOPS_PER_PAIR, PRECISIONS, precision_name};
use orrery_model::ic::Plummer;
use orrery_particles::bodies::{Bodies, BodiesError, DeviceSetup, Stamp};
use orrery_particles::integrator::leapfrog_step;
use orrery_particles::settings::{Acceptance, GravitySettings, Precision, SolverChoice};
use orrery_particles::solver::direct::device::DirectDeviceStrategy;
use serde_json::{Value, json};

use super::{precisions, sizes};
use crate::args::BenchArgs;
use crate::commands::tune;
use crate::failure::Failure;
use crate::say::{say, warn};

/// Number of bodies that the kernels' build is timed with; it hardly depends on it.
const BUILD_N: usize = 16_384;
/// Number of bodies of the whole step; a sixteenth of it where a processor stands in for a GPU.
const STEP_N: usize = 16_384;

/// Measures and prints. Gives the device with its roofs, and the results.
pub fn bench(arguments: &BenchArgs, device: &Device) -> Result<(Value, Value), Failure> {
    let tuning = tune::found(device, arguments.no_tuned);
    let mut bench = lab::DirectBench::new(device)?;
    say!("{}", device.title());
    say!("median time (below it fastest, slowest and strategy), {FLOPS_PER_PAIR} flops a pair; shares");
    say!("of the theoretical and of the measured peak; error of the force, median and 99%");
    say!("");
    say!(
        "{:>9} {:>6} {:>9} {:>9} {:>8} {:>7} {:>8} {:>7} {:>7}",
        "bodies",
        "",
        "time",
        "pairs/s",
        "GFLOP/s",
        "of peak",
        "measured",
        "error",
        "99%"
    );
    let mut results = Vec::new();
    for precision in precisions(arguments, &PRECISIONS) {
        for n in sizes(arguments, &lab::default_sizes(device, precision)) {
            let entry = tuning.as_ref().and_then(|tuning| tuning.nearest_entry(n, precision));
            let default = || DirectDeviceStrategy::default_for(device, n, precision);
            let strategy = entry.map_or_else(default, |entry| entry.strategy);
            let measured = bench.measure_strategy(n, &strategy, arguments.repeats.map(|k| k as usize))?;
            print(&measured, &strategy, entry.is_some());
            let mut line = measured.to_json();
            line["tuned"] = json!(entry.is_some());
            results.push(line);
        }
    }
    let n = if device.properties().kind == DeviceKind::Gpu { STEP_N } else { STEP_N / 16 };
    say!("");
    for precision in precisions(arguments, &PRECISIONS) {
        let entry = tuning.as_ref().and_then(|tuning| tuning.nearest_entry(n, precision));
        let default = || DirectDeviceStrategy::default_for(device, n, precision);
        let strategy = entry.map_or_else(default, |entry| entry.strategy);
        results.push(whole_step(&mut bench, n, device, &strategy)?);
    }
    match kernel_builds(device) {
        Ok(times) => results.push(times),
        // All else is measured.
        Err(failure) => warn(format_args!("warning: {failure}")),
    }
    Ok((bench.device_json(), json!(results)))
}

/// Leapfrog, as a run takes it: kick and drift, forces, kick, and the look for numbers that are none.
fn whole_step(
    bench: &mut lab::DirectBench,
    n: usize,
    device: &Device,
    strategy: &DirectDeviceStrategy,
) -> Result<Value, Failure> {
    let force_seconds = bench.measure_strategy(n, strategy, None)?.times.median();
    let particles = Plummer { n, seed: 1, ..Plummer::default() }.generate(1.0);
    let particles = particles.map_err(|e| Failure::Usage(e.to_string()))?;
    let settings = GravitySettings {
        g: 1.0,
        eps: 0.01,
        solver: SolverChoice::Direct,
        acceptance: Acceptance::default(),
        precision: strategy.precision,
    };
    let setup = DeviceSetup { device: device.clone(), strategy: (*strategy).into() };
    let mut bodies = Bodies::new(particles, &settings, Some(&setup))?;
    let mut taken = 0;
    let step = lab::StepTiming::measure::<BodiesError>(device, n, force_seconds, || {
        leapfrog_step(&mut bodies, 1e-4)?;
        taken += 1;
        bodies.check_step(Stamp { step: taken, time: 0.0 })
    })?;
    say!(
        "a leapfrog step of {n} bodies, {}: {}, its forces {} ({:+.1}%)",
        precision_name(strategy.precision),
        format_seconds(step.seconds),
        format_seconds(step.force_seconds),
        100.0 * (step.seconds / step.force_seconds - 1.0)
    );
    let mut line = step.to_json();
    line["precision"] = json!(precision_name(strategy.precision));
    Ok(line)
}

fn print(measured: &Measurement, strategy: &DirectDeviceStrategy, tuned: bool) {
    let times = &measured.times;
    say!(
        "{:>9} {:>6} {:>9} {:>9.2e} {:>8} {:>7} {:>8} {:>7.1e} {:>7.1e}",
        measured.n,
        precision_name(measured.precision),
        format_seconds(times.median()),
        measured.rate,
        format_number(measured.flops / 1e9),
        format_percent(measured.theoretical_peak.map(|peak| measured.flops / peak)),
        format_percent(Some(measured.flops / measured.measured_peak)),
        measured.errors.median,
        measured.errors.p99
    );
    say!(
        "          {} to {} in {}; {}{}",
        format_seconds(times.fastest()),
        format_seconds(times.slowest()),
        times.count(),
        if tuned { "tuned: " } else { "" },
        strategy.describe()
    );
}

/// First build and build from the disk's cache, in a process of its own with a cache of its own.
fn kernel_builds(device: &Device) -> Result<Value, Failure> {
    let folder = std::env::temp_dir().join(format!("orrery-builds-{}", std::process::id()));
    // Nobody else's: what is found there is run.
    std::fs::create_dir(&folder).map_err(|e| Failure::Machine(format!("{}: {e}", folder.display())))?;
    let program = std::env::current_exe().map_err(|e| Failure::Machine(format!("orrery itself: {e}")))?;
    let output = Command::new(program)
        .args(["bench", "direct", "--builds", "--no-tuned", "--device", &device.label()])
        .env("ORRERY_CACHE_DIR", &folder)
        // NVIDIA's OpenCL has a cache of its own.
        .env("CUDA_CACHE_DISABLE", "1")
        .output();
    let _ = std::fs::remove_dir_all(&folder);
    let output = output.map_err(|e| Failure::Machine(format!("building kernels: {e}")))?;
    let times: Value = serde_json::from_slice(&output.stdout).map_err(|_| {
        let word = String::from_utf8_lossy(&output.stderr);
        Failure::Machine(format!("building kernels: {}", word.trim()))
    })?;
    let seconds =
        |which: &str| times[which]["seconds"].as_f64().map_or_else(|| "-".to_owned(), format_seconds);
    say!("");
    say!("kernels built in {}, from the disk's cache in {}", seconds("first"), seconds("cached"));
    Ok(times)
}

/// Builds twice, forgetting in between what is in memory, and prints the times as JSON.
pub fn builds(arguments: &BenchArgs, device: &Device) -> Result<(), Failure> {
    let n = sizes(arguments, &[BUILD_N])[0];
    let strategy =
        DirectDeviceStrategy::default_for(device, n, precisions(arguments, &[Precision::Single])[0]);
    let first = lab::time_builds(device, n, &strategy)?;
    device.forget_builds();
    let cached = lab::time_builds(device, n, &strategy)?;
    say!("{}", json!({ "case": "build", "n": n, "first": first, "cached": cached }));
    Ok(())
}
