//! `tune`, and loading its results for other commands.

use orrery_device::{Device, DeviceChoice};
use orrery_engine::case::available_memory;
use orrery_engine::compute_device::{DeviceRequest, Tuned};
use orrery_measure::format::format_seconds;
use orrery_measure::text_table::{RowColumn, format_cells, format_headings};
use orrery_measure::tuning::{
    DEFAULT_SIZES, DEFAULT_TREE_THETA, TuneOutcome, TunedProblem, Tuning, default_fluid_sizes, default_sides,
    default_tree_sizes, default_wave_sides, tune_direct, tune_fluid, tune_heat, tune_primitives, tune_tree,
    tune_wave,
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
        is_tuned |= tune_solver(solver, arguments, &device)?;
    }
    match is_tuned {
        true => print_line!("stored in {}", path.display()),
        false => print_line!("nothing was tuned"),
    }
    Ok(())
}

/// Columns of the results. They follow the columns that describe the problem.
const RESULT_COLUMNS: [RowColumn; 3] =
    [RowColumn::right("gain", 8), RowColumn::right("tried", 7), RowColumn::left(" strategy", 0)];

/// Prints the outcomes of a solver.
struct OutcomeTable(Vec<RowColumn>);

impl OutcomeTable {
    /// Prints a note and the headings: those of the problem, and that of the time.
    fn start(note: &str, problem: &[&'static str], time: &'static str) -> Self {
        let headings = problem.iter().chain([&time]).map(|heading| RowColumn::right(heading, 9));
        Self::start_columns(note, headings.chain(RESULT_COLUMNS).collect())
    }

    fn start_columns(note: &str, columns: Vec<RowColumn>) -> Self {
        if !note.is_empty() {
            print_line!("{note}");
        }
        print_line!("{}", format_headings(&columns));
        Self(columns)
    }

    fn print<P: TunedProblem>(&self, outcome: &TuneOutcome<P>) {
        match outcome {
            TuneOutcome::Best { entry, tried, available, default_seconds } => {
                let mut cells = entry.problem.cells();
                cells.extend([
                    format_seconds(entry.seconds),
                    format!("{:.2}x", default_seconds / entry.seconds),
                    format!("{tried}/{available}"),
                    format!(" {}", P::describe(&entry.strategy)),
                ]);
                print_line!("{}", format_cells(&self.0, cells));
            }
            TuneOutcome::TooLong { problem, seconds } => {
                let (cells, seconds) = (format_cells(&self.0, problem.cells()), format_seconds(*seconds));
                print_line!("{cells} skipped, with all larger sizes: one evaluation takes {seconds}");
            }
        }
    }
}

/// Tunes a solver and stores the results. Returns whether there are any. Without f64, a device has
/// neither trees nor fluids. With another precision, fluids and primitives are left out.
fn tune_solver(solver: TunedSolver, arguments: &TuneArgs, device: &Device) -> Result<bool, Failure> {
    let precision = arguments.precision.map(|flag| flag.0);
    let precisions = |all: &[Precision]| precision.map_or_else(|| all.to_vec(), |precision| vec![precision]);
    let for_bodies = precisions(&Precision::ALL);
    let for_fields = precisions(&[Precision::Single, Precision::Double]);
    let sizes = |default: &[usize]| {
        if arguments.n.is_empty() { default.to_vec() } else { arguments.n.clone() }
    };
    let has_f64 = device.properties().has_f64;
    let tuning = match solver {
        TunedSolver::Direct => {
            let table = OutcomeTable::start("", &["bodies", "precision"], "time");
            tune_direct(device, &sizes(&DEFAULT_SIZES), &for_bodies, &mut |outcome| table.print(outcome))?
        }
        TunedSolver::Tree if has_f64 => {
            let theta = arguments.theta.unwrap_or(DEFAULT_TREE_THETA);
            let note = format!("tree: Plummer spheres, theta {theta}; at least as accurate as the default");
            let table = OutcomeTable::start(&note, &["bodies", "precision"], "time");
            let sizes = sizes(default_tree_sizes(device));
            tune_tree(device, &sizes, &for_bodies, theta, &mut |outcome| table.print(outcome))?
        }
        TunedSolver::Heat => {
            let note = "heat: sides of square plates, with uniform conductivity and with one value per node";
            let table = OutcomeTable::start(note, &["side", "precision", "cond."], "per step");
            let sides = sizes(default_sides(device));
            tune_heat(device, &sides, &for_fields, &mut |outcome| table.print(outcome))?
        }
        TunedSolver::Wave => {
            let sides = match arguments.n.is_empty() {
                true => default_wave_sides(device, available_memory())?,
                false => arguments.n.clone(),
            };
            let note =
                "waves: order 8 in cubes and squares, with uniform velocity and with one value per node";
            let table = OutcomeTable::start(note, &["nodes", "precision", "velocity"], "per step");
            tune_wave(device, &sides, &for_fields, &mut |outcome| table.print(outcome))?
        }
        TunedSolver::Lj if has_f64 && precision.is_none_or(|precision| precision == Precision::Mixed) => {
            let table =
                OutcomeTable::start("lj: Lennard-Jones melts, mixed precision", &["particles"], "per step");
            tune_fluid(device, &sizes(default_fluid_sizes(device)), &mut |outcome| table.print(outcome))?
        }
        TunedSolver::Primitives if precision.is_none() => {
            let columns = [
                RowColumn::left("", 16),
                RowColumn::right("elements", 10),
                RowColumn::right("time", 9),
                RowColumn::right("gain", 8),
                RowColumn::right("tried", 5),
                RowColumn::left(" strategy", 0),
            ];
            let note = "primitives: for bench and ladder; results are checked";
            let table = OutcomeTable::start_columns(note, columns.to_vec());
            tune_primitives(device, &primitive_cases(), &arguments.n, &mut |outcome| table.print(outcome))?
        }
        TunedSolver::Tree | TunedSolver::Lj | TunedSolver::Primitives => return Ok(false),
    };
    if !tuning.is_empty() {
        tuning.save(device, &primitive_cases())?;
    }
    Ok(!tuning.is_empty())
}

/// Refuses sizes and precisions that fluids on a device do not have.
fn check_tuned_fluids(arguments: &TuneArgs) -> Result<(), Failure> {
    if let Some(flag) = arguments.precision.filter(|flag| flag.0 != Precision::Mixed) {
        let precision = flag.0.as_str();
        return Err(Failure::Usage(format!("--precision {precision}: expected mixed for lj on a device")));
    }
    super::bench::check_lj_flags(&arguments.n, arguments.precision)
}

/// Refuses a precision and sizes that `bench primitives` refuses.
fn check_tuned_primitives(arguments: &TuneArgs) -> Result<(), Failure> {
    if let Some(flag) = arguments.precision {
        let precision = flag.0.as_str();
        return Err(Failure::Usage(format!("--precision {precision}: expected no precision for primitives")));
    }
    super::bench::check_primitive_sizes(&arguments.n)
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
        direct: |device, n, precision| {
            load_tuning(device, false)?.nearest_entry(n, precision).map(|entry| entry.strategy)
        },
        tree: |device, n, precision| {
            load_tuning(device, false)?.nearest_tree_entry(n, precision).map(|entry| entry.strategy)
        },
        heat: |device, nodes, precision, is_variable| {
            let tuning = load_tuning(device, false)?;
            tuning.nearest_heat_entry(nodes, precision, is_variable).map(|entry| entry.strategy)
        },
        wave: |device, shape, is_variable| {
            load_tuning(device, false)?.nearest_wave_entry(&shape, is_variable).map(|entry| entry.strategy)
        },
        fluid: |device, n| load_tuning(device, false)?.nearest_fluid_entry(n).map(|entry| entry.strategy),
    };
    DeviceRequest { choice, tuned: (!no_tuned).then_some(tuned) }
}
