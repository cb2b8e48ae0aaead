//! `tune`, and loading its results for other commands.

use orrery_device::{Device, DeviceChoice};
use orrery_engine::case::available_memory;
use orrery_engine::compute_device::{DeviceRequest, Tuned};
use orrery_fields::heat::device::HeatDeviceStrategy;
use orrery_fields::wave::device::{WaveDeviceStrategy, WaveShape};
use orrery_fluids::FluidStrategy;
use orrery_gravity::solver::direct::device::DirectDeviceStrategy;
use orrery_gravity::solver::tree::device::TreeDeviceStrategy;
use orrery_measure::format::format_seconds;
use orrery_measure::tuning::{
    DEFAULT_SIZES, DEFAULT_TREE_THETA, FluidOutcome, HeatOutcome, PrimitiveOutcome, TreeOutcome, TuneOutcome,
    Tuning, WaveOutcome, default_fluid_sizes, default_sides, default_tree_sizes, default_wave_sides,
    tune_device, tune_fluid, tune_heat, tune_primitives, tune_tree, tune_wave,
};
use orrery_model::Precision;

use super::bench::primitive_cases;
use crate::args::{TuneArgs, TunedSolver};
use crate::failure::Failure;
use crate::print::{eprint_line, print_line};
use crate::ranks;

/// Tunes a device and stores the results in the cache.
pub fn tune(arguments: &TuneArgs) -> Result<(), Failure> {
    if arguments.n.contains(&0) {
        return Err(Failure::Usage("-n 0 is outside n >= 1".to_owned()));
    }
    if let Some(theta) = arguments.theta {
        if arguments.solver != Some(TunedSolver::Tree) {
            return Err(Failure::Usage("--theta is for tune tree, expected orrery tune tree".to_owned()));
        }
        super::check_theta(theta)?;
    }
    match arguments.solver {
        Some(TunedSolver::Heat) => super::bench::check_heat_flags(&arguments.n, arguments.precision)?,
        Some(TunedSolver::Wave) => super::bench::check_wave_flags(&arguments.n, arguments.precision)?,
        Some(TunedSolver::Lj) => check_tuned_fluids(arguments)?,
        Some(TunedSolver::Primitives) => check_tuned_primitives(arguments)?,
        Some(TunedSolver::Direct | TunedSolver::Tree) | None => {
            super::bench::check_body_memory(&arguments.n)?
        }
    }
    let choice = arguments.device_args.device;
    let Some(device) = Device::open(choice)? else {
        return Err(Failure::Usage(format!(
            "--device {choice}: there is no device to tune, expected a CUDA or OpenCL device; \
             orrery devices lists the devices of this machine"
        )));
    };
    // Checked first: tuning takes minutes, and its results need a folder.
    let path = Tuning::file_path(&device).ok_or(orrery_measure::MeasureError::NoCache)?;
    Tuning::check_writable(&device)?;
    // Warns now if the stored file is damaged, because it is about to be replaced.
    load_tuning(&device, false);
    print_line!("{}", device.title());
    print_line!("gain: time of the default strategy over the time of the best one");
    print_line!("tried: strategies timed in a few seconds; run orrery tune again to try more");
    let solvers = match arguments.solver {
        Some(solver) => vec![solver],
        None if arguments.n.is_empty() => {
            vec![
                TunedSolver::Direct,
                TunedSolver::Tree,
                TunedSolver::Heat,
                TunedSolver::Wave,
                TunedSolver::Lj,
                TunedSolver::Primitives,
            ]
        }
        None => vec![TunedSolver::Direct],
    };
    let mut is_tuned = false;
    for solver in solvers {
        is_tuned |= match solver {
            TunedSolver::Direct => tune_direct(arguments, &device)?,
            TunedSolver::Tree => tune_tree_solver(arguments, &device)?,
            TunedSolver::Heat => tune_heat_solver(arguments, &device)?,
            TunedSolver::Wave => tune_wave_solver(arguments, &device)?,
            TunedSolver::Lj => tune_fluids(arguments, &device)?,
            TunedSolver::Primitives => tune_all_primitives(arguments, &device)?,
        };
    }
    match is_tuned {
        true => print_line!("stored in {}", path.display()),
        false => print_line!("nothing was tuned"),
    }
    Ok(())
}

/// Returns the precisions to tune for bodies.
fn body_precisions(arguments: &TuneArgs) -> Vec<Precision> {
    arguments.precision.map_or_else(|| Precision::ALL.to_vec(), |flag| vec![flag.0])
}

fn print_body_heading() {
    print_line!("{:>9} {:>9} {:>9} {:>8} {:>7}  strategy", "bodies", "precision", "time", "gain", "tried");
}

/// Tunes the direct sum and stores the results. Returns whether there are any.
fn tune_direct(arguments: &TuneArgs, device: &Device) -> Result<bool, Failure> {
    let sizes = if arguments.n.is_empty() { DEFAULT_SIZES.to_vec() } else { arguments.n.clone() };
    let precisions = body_precisions(arguments);
    print_body_heading();
    let tuning = tune_device(device, &sizes, &precisions, &mut print_outcome)?;
    if tuning.entries().is_empty() {
        return Ok(false);
    }
    tuning.save(device, &primitive_cases())?;
    Ok(true)
}

/// Tunes the tree and stores the results. Returns whether there are any. Without f64, a device has
/// no bodies.
fn tune_tree_solver(arguments: &TuneArgs, device: &Device) -> Result<bool, Failure> {
    if !device.properties().has_f64 {
        return Ok(false);
    }
    let sizes =
        if arguments.n.is_empty() { default_tree_sizes(device).to_vec() } else { arguments.n.clone() };
    let theta = arguments.theta.unwrap_or(DEFAULT_TREE_THETA);
    print_line!("tree: Plummer spheres, theta {theta}; at least as accurate as the default");
    print_body_heading();
    let tuning = tune_tree(device, &sizes, &body_precisions(arguments), theta, &mut print_tree_outcome)?;
    tuning.save(device, &primitive_cases())?;
    Ok(true)
}

fn print_tree_outcome(outcome: &TreeOutcome) {
    let TreeOutcome { entry, tried, available, default_seconds } = outcome;
    print_line!(
        "{:>9} {:>9} {:>9} {:>8} {:>7}  {}",
        entry.n,
        entry.precision.as_str(),
        format_seconds(entry.seconds),
        format!("{:.2}x", default_seconds / entry.seconds),
        format!("{tried}/{available}"),
        entry.strategy.describe()
    );
}

/// Returns the precisions to tune for fields, which have no mixed precision.
fn field_precisions(arguments: &TuneArgs) -> Vec<Precision> {
    arguments.precision.map_or_else(|| vec![Precision::Single, Precision::Double], |flag| vec![flag.0])
}

/// Tunes the heat solver and stores the results. Returns whether there are any.
fn tune_heat_solver(arguments: &TuneArgs, device: &Device) -> Result<bool, Failure> {
    let sides = if arguments.n.is_empty() { default_sides(device).to_vec() } else { arguments.n.clone() };
    let precisions = field_precisions(arguments);
    print_line!("heat: sides of square plates, with uniform conductivity and with one value per node");
    print_line!(
        "{:>9} {:>9} {:>9} {:>9} {:>8} {:>7}  strategy",
        "side",
        "precision",
        "cond.",
        "per step",
        "gain",
        "tried"
    );
    let tuning = tune_heat(device, &sides, &precisions, &mut print_heat_outcome)?;
    if tuning.heat_entries().is_empty() {
        return Ok(false);
    }
    tuning.save(device, &primitive_cases())?;
    Ok(true)
}

fn print_heat_outcome(outcome: &HeatOutcome) {
    let HeatOutcome { entry, tried, available, default_seconds } = outcome;
    print_line!(
        "{:>9} {:>9} {:>9} {:>9} {:>8} {:>7}  {}",
        entry.side,
        entry.precision.as_str(),
        if entry.is_variable { "per node" } else { "uniform" },
        format_seconds(entry.seconds),
        format!("{:.2}x", default_seconds / entry.seconds),
        format!("{tried}/{available}"),
        entry.strategy.name()
    );
}

/// Tunes the wave solver and stores the results. Returns whether there are any.
fn tune_wave_solver(arguments: &TuneArgs, device: &Device) -> Result<bool, Failure> {
    let sides = match arguments.n.is_empty() {
        true => default_wave_sides(device, available_memory())?,
        false => arguments.n.clone(),
    };
    print_line!("waves: order 8 in cubes and squares, with uniform velocity and with one value per node");
    print_line!(
        "{:>9} {:>9} {:>9} {:>9} {:>8} {:>7}  strategy",
        "nodes",
        "precision",
        "velocity",
        "per step",
        "gain",
        "tried"
    );
    let tuning = tune_wave(device, &sides, &field_precisions(arguments), &mut print_wave_outcome)?;
    if tuning.wave_entries().is_empty() {
        return Ok(false);
    }
    tuning.save(device, &primitive_cases())?;
    Ok(true)
}

fn print_wave_outcome(outcome: &WaveOutcome) {
    let WaveOutcome { entry, tried, available, default_seconds } = outcome;
    print_line!(
        "{:>9} {:>9} {:>9} {:>9} {:>8} {:>7}  {}",
        entry.grid_name(),
        entry.precision.as_str(),
        if entry.is_variable { "per node" } else { "uniform" },
        format_seconds(entry.seconds),
        format!("{:.2}x", default_seconds / entry.seconds),
        format!("{tried}/{available}"),
        entry.strategy.name()
    );
}

/// Refuses sizes and precisions that fluids on a device do not have.
fn check_tuned_fluids(arguments: &TuneArgs) -> Result<(), Failure> {
    if let Some(flag) = arguments.precision.filter(|flag| flag.0 != Precision::Mixed) {
        let precision = flag.0.as_str();
        return Err(Failure::Usage(format!("--precision {precision}: expected mixed for lj on a device")));
    }
    super::bench::check_lj_flags(&arguments.n, arguments.precision)
}

/// Tunes fluids and stores the results. Returns whether there are any. Without f64, a device has no
/// fluids.
fn tune_fluids(arguments: &TuneArgs, device: &Device) -> Result<bool, Failure> {
    let is_wanted = arguments.precision.is_none_or(|flag| flag.0 == Precision::Mixed);
    if !device.properties().has_f64 || !is_wanted {
        return Ok(false);
    }
    let sizes =
        if arguments.n.is_empty() { default_fluid_sizes(device).to_vec() } else { arguments.n.clone() };
    print_line!("lj: Lennard-Jones melts, mixed precision");
    print_line!("{:>9} {:>9} {:>8} {:>7}  strategy", "particles", "per step", "gain", "tried");
    let tuning = tune_fluid(device, &sizes, &mut print_fluid_outcome)?;
    if tuning.fluid_entries().is_empty() {
        return Ok(false);
    }
    tuning.save(device, &primitive_cases())?;
    Ok(true)
}

fn print_fluid_outcome(outcome: &FluidOutcome) {
    let FluidOutcome { entry, tried, available, default_seconds } = outcome;
    print_line!(
        "{:>9} {:>9} {:>8} {:>7}  {}",
        entry.n,
        format_seconds(entry.seconds),
        format!("{:.2}x", default_seconds / entry.seconds),
        format!("{tried}/{available}"),
        entry.strategy.describe()
    );
}

/// Refuses a precision and sizes that `bench primitives` refuses.
fn check_tuned_primitives(arguments: &TuneArgs) -> Result<(), Failure> {
    if let Some(flag) = arguments.precision {
        let precision = flag.0.as_str();
        return Err(Failure::Usage(format!("--precision {precision}: expected no precision for primitives")));
    }
    super::bench::check_primitive_sizes(&arguments.n)
}

/// Tunes the primitives and stores the results. Returns whether there are any. With a precision,
/// only solvers are tuned.
fn tune_all_primitives(arguments: &TuneArgs, device: &Device) -> Result<bool, Failure> {
    if arguments.precision.is_some() {
        return Ok(false);
    }
    print_line!("primitives: for bench and ladder; results are checked");
    print_line!("{:<16} {:>10} {:>9} {:>8} {:>5}  strategy", "", "elements", "time", "gain", "tried");
    let tuning = tune_primitives(device, &primitive_cases(), &arguments.n, &mut print_primitive_outcome)?;
    tuning.save(device, &primitive_cases())?;
    Ok(true)
}

fn print_primitive_outcome(outcome: &PrimitiveOutcome) {
    let PrimitiveOutcome { entry, tried, available, default_seconds } = outcome;
    print_line!(
        "{:<16} {:>10} {:>9} {:>8} {:>5}  {}",
        entry.primitive,
        entry.n,
        format_seconds(entry.seconds),
        format!("{:.2}x", default_seconds / entry.seconds),
        format!("{tried}/{available}"),
        entry.strategy
    );
}

fn print_outcome(outcome: &TuneOutcome) {
    match outcome {
        TuneOutcome::Best { entry, tried, available, default_seconds } => {
            print_line!(
                "{:>9} {:>9} {:>9} {:>8} {:>7}  {}",
                entry.n,
                entry.precision.as_str(),
                format_seconds(entry.seconds),
                format!("{:.2}x", default_seconds / entry.seconds),
                format!("{tried}/{available}"),
                entry.strategy.describe()
            );
        }
        TuneOutcome::TooLong { n, precision, seconds } => {
            let (precision, seconds) = (precision.as_str(), format_seconds(*seconds));
            print_line!(
                "{n:>9} {precision:>9} skipped, with all larger sizes: one evaluation takes {seconds}"
            );
        }
    }
}

/// Loads the stored results for this device. Returns `None` if `no_tuned` is set, and prints a
/// warning if the file is damaged. Of several ranks, rank 0 prints it.
pub fn load_tuning(device: &Device, no_tuned: bool) -> Option<Tuning> {
    if no_tuned {
        return None;
    }
    Tuning::load(device, &primitive_cases()).unwrap_or_else(|ignored| {
        if !ranks::is_follower() {
            eprint_line!("warning: {ignored}");
        }
        None
    })
}

/// Returns the device of a run, with the tuned strategies unless `no_tuned` is set.
pub fn device_request(choice: DeviceChoice, no_tuned: bool) -> DeviceRequest {
    let tuned = Tuned {
        direct: tuned_strategy,
        tree: tuned_tree_strategy,
        heat: tuned_heat_strategy,
        wave: tuned_wave_strategy,
        fluid: tuned_fluid_strategy,
    };
    DeviceRequest { choice, tuned: (!no_tuned).then_some(tuned) }
}

/// Returns the tuned strategy for the direct sum of `n` bodies, if there is one.
fn tuned_strategy(device: &Device, n: usize, precision: Precision) -> Option<DirectDeviceStrategy> {
    load_tuning(device, false)?.nearest_entry(n, precision).map(|entry| entry.strategy)
}

/// Returns the tuned strategy for the tree of `n` bodies, if there is one.
fn tuned_tree_strategy(device: &Device, n: usize, precision: Precision) -> Option<TreeDeviceStrategy> {
    load_tuning(device, false)?.nearest_tree_entry(n, precision).map(|entry| entry.strategy)
}

/// Returns the tuned strategy for heat on a grid with this number of nodes, if there is one.
fn tuned_heat_strategy(
    device: &Device,
    nodes: usize,
    precision: Precision,
    is_variable: bool,
) -> Option<HeatDeviceStrategy> {
    let tuning = load_tuning(device, false)?;
    tuning.nearest_heat_entry(nodes, precision, is_variable).map(|entry| entry.strategy)
}

/// Returns the tuned strategy for a fluid of `n` particles, if there is one.
fn tuned_fluid_strategy(device: &Device, n: usize) -> Option<FluidStrategy> {
    load_tuning(device, false)?.nearest_fluid_entry(n).map(|entry| entry.strategy)
}

/// Returns the tuned strategy for waves on a grid of this shape, if there is one.
fn tuned_wave_strategy(device: &Device, shape: WaveShape, is_variable: bool) -> Option<WaveDeviceStrategy> {
    let tuning = load_tuning(device, false)?;
    tuning.nearest_wave_entry(&shape, is_variable).map(|entry| entry.strategy)
}
