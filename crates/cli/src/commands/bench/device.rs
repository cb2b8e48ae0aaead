//! Benchmarks of the sum over all pairs on a device, and of the kernel builds.

use std::process::Command;

use orrery_device::{Device, DeviceKind};
use orrery_gravity::bodies::{Bodies, BodiesError, CheckStamp, DeviceSetup};
use orrery_gravity::integrator::leapfrog_step;
use orrery_gravity::settings::{Acceptance, GravitySettings, SolverChoice};
use orrery_gravity::solver::direct::device::DirectDeviceStrategy;
use orrery_measure::FLOPS_PER_PAIR;
use orrery_measure::bench::ForceMeasurement;
use orrery_measure::bench::direct as measure;
use orrery_measure::format::{format_number, format_percent, format_seconds};
use orrery_model::ic::Plummer;
use orrery_model::{Precision, format_count};
use serde_json::{Value, json};

use super::{selected_precisions, selected_sizes};
use crate::args::BenchArgs;
use crate::commands::tune;
use crate::failure::Failure;
use crate::print::{eprint_line, print_line};

/// Number of bodies for which the kernel build is timed. The time hardly depends on it.
const BUILD_N: usize = 16_384;
/// Number of bodies for which a whole step is timed. An OpenCL device that is a CPU gets a
/// sixteenth.
const STEP_N: usize = 16_384;

/// Measures and prints. Returns the device with its measured peaks, and the results.
pub fn bench_direct(arguments: &BenchArgs, device: &Device) -> Result<(Value, Value), Failure> {
    let tuning = tune::load_tuning(device, arguments.no_tuned);
    let mut bench = measure::DirectBench::new(device)?;
    print_line!("{}", device.title());
    print_line!("median time, next line: fastest, slowest and strategy; {FLOPS_PER_PAIR} flops per pair");
    print_line!("share of theoretical and measured peak; relative force error, median and 99%");
    print_line!("");
    print_line!(
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
    for precision in selected_precisions(arguments, &Precision::ALL) {
        for n in selected_sizes(arguments, &measure::default_sizes(device, precision)) {
            let entry = tuning.as_ref().and_then(|tuning| tuning.nearest_entry(n, precision));
            let default = || DirectDeviceStrategy::default_for(device, n, precision);
            let strategy = entry.map_or_else(default, |entry| entry.strategy);
            let measured = bench.measure_strategy(n, &strategy, arguments.repeats.map(|k| k as usize))?;
            print_measurement(&measured, &strategy, entry.is_some());
            let mut line = measured.to_json();
            line["tuned"] = json!(entry.is_some());
            results.push(line);
        }
    }
    let n = if device.properties().kind == DeviceKind::Gpu { STEP_N } else { STEP_N / 16 };
    print_line!("");
    for precision in selected_precisions(arguments, &Precision::ALL) {
        let entry = tuning.as_ref().and_then(|tuning| tuning.nearest_entry(n, precision));
        let default = || DirectDeviceStrategy::default_for(device, n, precision);
        let strategy = entry.map_or_else(default, |entry| entry.strategy);
        results.push(bench_step(&mut bench, n, device, &strategy)?);
    }
    match bench_builds(device) {
        Ok(times) => results.push(times),
        // The other results are still valid.
        Err(failure) => eprint_line!("warning: {failure}"),
    }
    Ok((bench.device_json(), json!(results)))
}

/// Times a leapfrog step as a run executes it: kick, drift, forces, kick and the check for NaN.
fn bench_step(
    bench: &mut measure::DirectBench,
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
    let mut step_count = 0;
    let step = measure::StepTiming::measure::<BodiesError>(device, n, force_seconds, || {
        leapfrog_step(&mut bodies, 1e-4)?;
        step_count += 1;
        bodies.check_step(CheckStamp { step: step_count, time: 0.0 })
    })?;
    print_line!(
        "leapfrog step of {}, {}: {}, forces alone {} ({:+.1}%)",
        format_count(n as u64, "body", "bodies"),
        strategy.precision.as_str(),
        format_seconds(step.seconds),
        format_seconds(step.force_seconds),
        100.0 * (step.seconds / step.force_seconds - 1.0)
    );
    let mut line = step.to_json();
    line["precision"] = json!(strategy.precision.as_str());
    Ok(line)
}

fn print_measurement(measured: &ForceMeasurement, strategy: &DirectDeviceStrategy, tuned: bool) {
    let times = &measured.times;
    print_line!(
        "{:>9} {:>6} {:>9} {:>9.2e} {:>8} {:>7} {:>8} {:>7.1e} {:>7.1e}",
        measured.n,
        measured.precision.as_str(),
        format_seconds(times.median()),
        measured.rate,
        format_number(measured.flops / 1e9),
        format_percent(measured.theoretical_peak.map(|peak| measured.flops / peak)),
        format_percent(Some(measured.flops / measured.measured_peak)),
        measured.errors.median,
        measured.errors.p99
    );
    print_line!(
        "          {} to {} in {}; {}{}",
        format_seconds(times.fastest()),
        format_seconds(times.slowest()),
        times.count(),
        if tuned { "tuned: " } else { "" },
        strategy.describe()
    );
}

/// Times a kernel build by the compiler and one from the cache, in another process with an empty
/// cache folder.
fn bench_builds(device: &Device) -> Result<Value, Failure> {
    let folder = std::env::temp_dir().join(format!("orrery-builds-{}", std::process::id()));
    // Fails if the folder exists: kernels found in someone else's folder would be executed.
    std::fs::create_dir(&folder).map_err(|e| Failure::Machine(format!("{}: {e}", folder.display())))?;
    let program = std::env::current_exe()
        .map_err(|e| Failure::Machine(format!("cannot find the orrery program: {e}")))?;
    let mut command = Command::new(program);
    orrery_cluster::detach_from_launcher(&mut command);
    let output = command
        .args(["bench", "direct", "--builds", "--no-tuned", "--device", &device.label()])
        .env("ORRERY_CACHE_DIR", &folder)
        // The OpenCL drivers of NVIDIA and PoCL have their own caches.
        .env("CUDA_CACHE_DISABLE", "1")
        .env("POCL_KERNEL_CACHE", "0")
        .env("POCL_CACHE_DIR", &folder)
        .envs(orrery_device::child_environment())
        .output();
    let _ = std::fs::remove_dir_all(&folder);
    let output = output.map_err(|e| Failure::Machine(format!("building kernels: {e}")))?;
    let times: Value = serde_json::from_slice(&output.stdout).map_err(|_| {
        let message = String::from_utf8_lossy(&output.stderr);
        Failure::Machine(format!("building kernels: {}", message.trim()))
    })?;
    let seconds =
        |which: &str| times[which]["seconds"].as_f64().map_or_else(|| "-".to_owned(), format_seconds);
    print_line!("");
    print_line!("kernels built in {}, loaded from the cache in {}", seconds("first"), seconds("cached"));
    Ok(times)
}

/// Builds the kernels twice, the second time from the cache on disk, and prints the times as JSON.
pub fn print_build_times(arguments: &BenchArgs, device: &Device) -> Result<(), Failure> {
    let n = selected_sizes(arguments, &[BUILD_N])[0];
    let strategy =
        DirectDeviceStrategy::default_for(device, n, selected_precisions(arguments, &[Precision::Single])[0]);
    let first = measure::time_builds(device, n, &strategy)?;
    device.forget_builds();
    let cached = measure::time_builds(device, n, &strategy)?;
    print_line!("{}", json!({ "case": "build", "n": n, "first": first, "cached": cached }));
    Ok(())
}
