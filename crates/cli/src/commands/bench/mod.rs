//! `bench`: how fast the solvers and the primitives under them are here, against what the machine could do; and what a
//! checkpoint costs.

mod checkpoint;
mod cpu;
mod device;
mod primitives;
mod tree;

use orrery_device::{Device, DeviceChoice};
use orrery_engine::case::{BYTES_PER_BODY, available_memory};
use orrery_engine::provenance;
use orrery_io::{format_bytes, write_file_atomically};
use orrery_lab::FLOPS_PER_PAIR;
use orrery_lab::bench::{FLOPS_PER_CELL, Measurement};
use orrery_lab::devices::cpu_name;
use orrery_particles::settings::Precision;
use orrery_particles::simd::InstructionSet;
use serde_json::{Value, json};

use crate::args::{BenchArgs, BenchCase};
use crate::failure::{Failure, check_output};
use crate::say::say;

/// Timed repeats on the processor, unless told otherwise.
const REPEATS: u32 = 5;

/// Measures and prints.
pub fn bench(arguments: &BenchArgs) -> Result<(), Failure> {
    if arguments.n.contains(&0) {
        return Err(Failure::Usage("-n 0 is outside n >= 1".to_owned()));
    }
    arguments.theta.map_or(Ok(()), super::check_theta)?;
    if let Some(rms) = arguments.rms.filter(|rms| !(*rms > 1e-6 && *rms < 0.1)) {
        return Err(Failure::Usage(format!("--rms {rms} is outside 1e-6 < rms < 0.1")));
    }
    if let Some(path) = &arguments.json {
        check_output(path)?;
    }
    match arguments.what {
        BenchCase::Primitives => primitives::check_sizes(&arguments.n)?,
        _ => check_memory(&arguments.n)?,
    }
    let device = chosen_device(arguments)?;
    check_place(arguments, device.as_ref())?;
    super::use_threads(arguments.threads)?;
    let set = arguments.simd.map_or_else(InstructionSet::best, Into::into).min(InstructionSet::best());
    let (about, results) = match (arguments.what, &device) {
        (_, Some(device)) if arguments.builds => return device::builds(arguments, device),
        (BenchCase::Tree, Some(device)) => tree::bench(arguments, device)?,
        (BenchCase::Crossover, Some(device)) => tree::crossover(arguments, device)?,
        (BenchCase::Primitives, device) => primitives::bench(arguments, device.as_ref(), set)?,
        (_, Some(device)) => device::bench(arguments, device)?,
        (BenchCase::Checkpoint, None) => (about_cpu(set), checkpoint::bench(arguments)?),
        (what, None) => (about_cpu(set), json!(on_cpu(arguments, what, set))),
    };
    let Some(path) = &arguments.json else { return Ok(()) };
    let all = report(about, results);
    write_file_atomically(path, format!("{all:#}\n").as_bytes()).map_err(Failure::Output)
}

/// The solvers run on devices; a checkpoint is the host's.
fn chosen_device(arguments: &BenchArgs) -> Result<Option<Device>, Failure> {
    match (arguments.what, arguments.device_args.device) {
        (BenchCase::Checkpoint, DeviceChoice::Auto | DeviceChoice::Cpu) => Ok(None),
        (BenchCase::Checkpoint, choice) => Err(Failure::Usage(format!(
            "--device {choice}: bench checkpoint does not run there, expected cpu"
        ))),
        (_, choice) => Ok(Device::open(choice)?),
    }
}

/// Refuses flags that would do nothing there.
fn check_place(arguments: &BenchArgs, device: Option<&Device>) -> Result<(), Failure> {
    let BenchArgs { what, rms, order, leaf, group, .. } = arguments;
    let on_device = device.is_some() && *what == BenchCase::Tree;
    if on_device && rms.is_some() {
        return Err(Failure::Usage(
            "--rms is for the processor's tree, expected --theta on a device".to_owned(),
        ));
    }
    let flags = [("--order", order.is_some()), ("--leaf", leaf.is_some()), ("--group", group.is_some())];
    match flags.iter().find(|(_, given)| *given && !on_device) {
        Some((flag, _)) => {
            let words = "is for the tree on a device, expected bench tree --device cuda or opencl";
            Err(Failure::Usage(format!("{flag} {words}")))
        }
        None => Ok(()),
    }
}

/// The processor's solvers, under their heading.
fn on_cpu(arguments: &BenchArgs, what: BenchCase, set: InstructionSet) -> Vec<Value> {
    say!("{}, {}, threads: {}", cpu_name(), set.name(), rayon::current_num_threads());
    say!(
        "median of {} (fastest to slowest); {FLOPS_PER_PAIR} flops a pair, {FLOPS_PER_CELL} a cell",
        repeats(arguments)
    );
    let results = match what {
        BenchCase::Tree => cpu::tree(arguments, set),
        BenchCase::Crossover => cpu::crossover(arguments, set),
        BenchCase::Direct | BenchCase::Checkpoint | BenchCase::Primitives => cpu::direct(arguments, set),
    };
    results.iter().map(Measurement::to_json).collect()
}

/// Refuses numbers of bodies that the host's memory could not hold.
pub fn check_memory(counts: &[usize]) -> Result<(), Failure> {
    check_room(counts, BYTES_PER_BODY, "bodies")
}

/// The same for anything of so many bytes each.
pub fn check_room(counts: &[usize], bytes_each: u64, what: &str) -> Result<(), Failure> {
    let (Some(&n), Some(available)) = (counts.iter().max(), available_memory()) else { return Ok(()) };
    let needed = (n as u64).saturating_mul(bytes_each);
    if needed <= available {
        return Ok(());
    }
    let (needed, available) = (format_bytes(needed), format_bytes(available));
    Err(Failure::Usage(format!("-n {n}: {n} {what} need {needed} of memory, {available} are available")))
}

fn precisions(arguments: &BenchArgs, default: &[Precision]) -> Vec<Precision> {
    arguments.precision.map_or_else(|| default.to_vec(), |precision| vec![precision.into()])
}

fn sizes(arguments: &BenchArgs, default: &[usize]) -> Vec<usize> {
    if arguments.n.is_empty() { default.to_vec() } else { arguments.n.clone() }
}

fn repeats(arguments: &BenchArgs) -> u32 {
    arguments.repeats.unwrap_or(REPEATS)
}

fn about_cpu(set: InstructionSet) -> Value {
    json!({ "kind": "cpu", "threads": rayon::current_num_threads(), "instruction_set": set.name() })
}

/// The results, and where they were measured.
fn report(device: Value, results: Value) -> Value {
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
