//! `bench`: speed of the solvers and primitives compared with the peak of the machine, cost of a
//! checkpoint, whole runs compared with their forces, and scaling with the number of ranks.

mod checkpoint;
mod cpu;
mod device;
mod heat;
mod lj;
mod primitives;
mod run;
mod scaling;
mod table;
mod tree;
mod wave;

pub use heat::check_heat_flags;
pub use lj::check_lj_flags;
use orrery_device::{Device, DeviceChoice};
use orrery_engine::case::{BYTES_PER_BODY, available_memory};
use orrery_engine::provenance;
use orrery_formats::format_bytes;
use orrery_measure::FLOPS_PER_PAIR;
use orrery_measure::bench::{FLOPS_PER_CELL, ForceMeasurement};
use orrery_measure::devices::cpu_name;
use orrery_model::Precision;
use orrery_simd::InstructionSet;
pub use primitives::{check_sizes as check_primitive_sizes, primitive_cases};
pub use scaling::{follow_scaling, lead_scaling};
use serde_json::{Value, json};
pub use wave::check_wave_flags;

use crate::args::{BenchArgs, BenchCase, RunDevices};
use crate::failure::Failure;
use crate::print::print_line;

/// Default number of timed repetitions on the CPU.
const REPEATS: u32 = 5;

/// Measures a case, prints the results and writes the JSON file.
pub fn bench(arguments: &BenchArgs) -> Result<(), Failure> {
    check_flags(arguments)?;
    let json = arguments.json.prepare()?;
    let device = open_device(arguments)?;
    check_tree_flags(arguments, device.as_ref())?;
    super::use_threads(arguments.threads)?;
    let set = arguments.simd.map_or_else(InstructionSet::best, Into::into).min(InstructionSet::best());
    let (about, results) = match (arguments.case, &device) {
        (_, Some(device)) if arguments.builds => return device::print_build_times(arguments, device),
        (BenchCase::Tree, Some(device)) => tree::bench_tree(arguments, device)?,
        (BenchCase::Crossover, Some(device)) => tree::bench_crossover(arguments, device)?,
        (BenchCase::Primitives, device) => primitives::bench_primitives(arguments, device.as_ref(), set)?,
        (BenchCase::Heat, device) => heat::bench_heat(arguments, device.as_ref(), set)?,
        (BenchCase::Wave, device) => wave::bench_wave(arguments, device.as_ref(), set)?,
        (BenchCase::Lj, device) => lj::bench_lj(arguments, device.as_ref(), set)?,
        (BenchCase::Run, device) => run::bench_run(arguments, device.as_ref(), set)?,
        (_, Some(device)) => device::bench_direct(arguments, device)?,
        (BenchCase::Checkpoint, None) => (about_cpu(set), checkpoint::bench_checkpoint(arguments)?),
        (case, None) => (about_cpu(set), json!(bench_cpu(arguments, case, set))),
    };
    json.write(|| json_report(about, results))
}

/// Refuses flags with invalid values.
fn check_flags(arguments: &BenchArgs) -> Result<(), Failure> {
    if arguments.n.contains(&0) {
        return Err(Failure::Usage("-n 0 is outside n >= 1".to_owned()));
    }
    let of_run = [("--case", !arguments.run_cases.is_empty()), ("--steps", arguments.steps.is_some())];
    if let Some((flag, _)) = of_run.iter().find(|(_, given)| *given && arguments.case != BenchCase::Run) {
        return Err(Failure::Usage(format!("{flag} is for bench run, expected orrery bench run")));
    }
    if arguments.candidates && arguments.case != BenchCase::Primitives {
        let message = "--candidates is for bench primitives, expected orrery bench primitives";
        return Err(Failure::Usage(message.to_owned()));
    }
    scaling::check_other_flags(arguments)?;
    arguments.theta.map_or(Ok(()), super::check_theta)?;
    if let Some(rms) = arguments.rms.filter(|rms| !(*rms > 1e-6 && *rms < 0.1)) {
        return Err(Failure::Usage(format!("--rms {rms} is outside 1e-6 < rms < 0.1")));
    }
    match arguments.case {
        BenchCase::Primitives => primitives::check_sizes(&arguments.n),
        BenchCase::Heat => check_heat_flags(&arguments.n, arguments.precision),
        BenchCase::Wave => check_wave_flags(&arguments.n, arguments.precision),
        BenchCase::Lj => lj::check_bench_flags(arguments),
        BenchCase::Run => run::check_run_flags(arguments),
        BenchCase::Scaling => scaling::check_scaling_flags(arguments),
        _ => check_body_memory(&arguments.n),
    }
}

/// Opens the requested device. `bench checkpoint` runs on the CPU only.
fn open_device(arguments: &BenchArgs) -> Result<Option<Device>, Failure> {
    match (arguments.case, device_choice(arguments)?) {
        (BenchCase::Checkpoint, DeviceChoice::Auto | DeviceChoice::Cpu) => Ok(None),
        (BenchCase::Checkpoint, choice) => {
            Err(Failure::Usage(format!("--device {choice}: bench checkpoint runs on the CPU, expected cpu")))
        }
        (_, choice) => Ok(Device::open(choice)?),
    }
}

/// Returns the device of a case that needs one.
fn device_choice(arguments: &BenchArgs) -> Result<DeviceChoice, Failure> {
    match &arguments.devices {
        RunDevices::One(choice) => Ok(*choice),
        _ => Err(Failure::Usage("several devices are for bench scaling, expected one device".to_owned())),
    }
}

/// Refuses flags that have no effect for this case and device.
fn check_tree_flags(arguments: &BenchArgs, device: Option<&Device>) -> Result<(), Failure> {
    let BenchArgs { case, rms, order, leaf, group, .. } = arguments;
    let is_device_tree = device.is_some() && *case == BenchCase::Tree;
    if is_device_tree && rms.is_some() {
        return Err(Failure::Usage(
            "--rms is for the tree on the CPU, expected --theta on a device".to_owned(),
        ));
    }
    let flags = [("--order", order.is_some()), ("--leaf", leaf.is_some()), ("--group", group.is_some())];
    match flags.iter().find(|(_, given)| *given && !is_device_tree) {
        Some((flag, _)) => Err(Failure::Usage(format!(
            "{flag} is for the tree on a device, expected bench tree --device cuda or opencl"
        ))),
        None => Ok(()),
    }
}

/// Measures the solvers on the CPU and prints a heading and the results.
fn bench_cpu(arguments: &BenchArgs, case: BenchCase, set: InstructionSet) -> Vec<Value> {
    print_line!("{}, {}, threads: {}", cpu_name(), set.name(), rayon::current_num_threads());
    print_line!(
        "median of {} (fastest to slowest); {FLOPS_PER_PAIR} flops per pair, {FLOPS_PER_CELL} per cell",
        repeat_count(arguments)
    );
    let results = match case {
        BenchCase::Tree => cpu::bench_tree(arguments, set),
        BenchCase::Crossover => cpu::bench_crossover(arguments, set),
        BenchCase::Direct
        | BenchCase::Checkpoint
        | BenchCase::Primitives
        | BenchCase::Heat
        | BenchCase::Wave
        | BenchCase::Lj
        | BenchCase::Run
        | BenchCase::Scaling => cpu::bench_direct(arguments, set),
    };
    results.iter().map(ForceMeasurement::to_json).collect()
}

/// Refuses numbers of bodies that do not fit into the host's memory.
pub fn check_body_memory(counts: &[usize]) -> Result<(), Failure> {
    check_memory(counts, BYTES_PER_BODY, "bodies")
}

/// Refuses numbers of elements that do not fit into the host's memory. `elements` is their plural
/// noun.
pub fn check_memory(counts: &[usize], bytes_each: u64, elements: &str) -> Result<(), Failure> {
    counts.iter().max().map_or(Ok(()), |&n| check_memory_for(n, n as u64, bytes_each, elements))
}

/// Refuses `-n n` if it stands for a number of elements that does not fit into the host's memory.
fn check_memory_for(n: usize, count: u64, bytes_each: u64, elements: &str) -> Result<(), Failure> {
    let needed = count.saturating_mul(bytes_each);
    let Some(available) = available_memory().filter(|available| needed > *available) else { return Ok(()) };
    let (needed, available) = (format_bytes(needed), format_bytes(available));
    Err(Failure::Usage(format!(
        "-n {n}: {count} {elements} need {needed} of memory, {available} are available"
    )))
}

fn selected_precisions(arguments: &BenchArgs, default: &[Precision]) -> Vec<Precision> {
    arguments.precision.map_or_else(|| default.to_vec(), |flag| vec![flag.0])
}

fn selected_sizes(arguments: &BenchArgs, default: &[usize]) -> Vec<usize> {
    if arguments.n.is_empty() { default.to_vec() } else { arguments.n.clone() }
}

fn repeat_count(arguments: &BenchArgs) -> u32 {
    arguments.repeats.unwrap_or(REPEATS)
}

fn about_cpu(set: InstructionSet) -> Value {
    json!({ "kind": "cpu", "threads": rayon::current_num_threads(), "instruction_set": set.name() })
}

/// Returns the content of the JSON file: results, program version, machine and device.
fn json_report(device: Value, results: Value) -> Value {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    json!({
        "program": format!("orrery {}", provenance::VERSION),
        "commit": provenance::COMMIT,
        "machine": { "cpu": cpu_name(), "cores": cores },
        "device": device,
        "flops_per_pair": FLOPS_PER_PAIR,
        "flops_per_cell": FLOPS_PER_CELL,
        "results": results,
    })
}
