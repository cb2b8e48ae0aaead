//! `forces` and `accuracy`.

use std::path::Path;

use orrery_device::DeviceChoice;
use orrery_engine::EngineError;
use orrery_engine::compute_device::{ComputeDevice, select_device};
use orrery_engine::gravity::{device_setup, ensure_memory, resolution_warning};
use orrery_formats::{Limits, NpzArray, Snapshot, write_npz_arrays};
use orrery_gravity::accuracy::ForceErrors;
use orrery_gravity::bodies::forces_on_device;
use orrery_gravity::settings::{GravitySettings, IntegratorChoice};
use orrery_gravity::solver::{ForceProblem, Forces, GravityCpuStrategy, reference};
use orrery_measure::sample::evenly_spaced_indices;
use orrery_model::format_count;
use serde_json::json;

use super::Softening;
use crate::args::{AccuracyArgs, ForcesArgs, GravityArgs};
use crate::failure::{Failure, check_input, check_new_output};
use crate::print::{eprint_line, print_line};

/// Reads a snapshot and returns it with the settings of its forces. Checks that forces can be
/// computed: all values are finite, and without softening no two bodies have the same position.
fn read_snapshot(
    path: &Path,
    flags: &GravityArgs,
    limits: &Limits,
) -> Result<(Snapshot, GravitySettings, Softening), Failure> {
    check_input(path)?;
    let snapshot = orrery_formats::read_snapshot(path, limits).map_err(Failure::Input)?;
    super::warn_about_input(path, &snapshot);
    let invalid = |source| EngineError::Bodies { origin: path.display().to_string(), source };
    snapshot.particles.validate().map_err(invalid)?;
    let softening = Softening::select(flags.softening, &snapshot);
    if softening.eps == 0.0 {
        snapshot.particles.check_distinct_positions().map_err(invalid)?;
    }
    let settings = super::gravity_settings(flags, softening.eps, &snapshot.units);
    Ok((snapshot, settings, softening))
}

/// Prints the selected device, computes the forces there, and returns them with the name of the
/// solver and the device.
fn compute_forces(
    problem: &ForceProblem,
    settings: &GravitySettings,
    choice: DeviceChoice,
) -> Result<(Forces, &'static str, ComputeDevice), Failure> {
    let n = problem.mass.len();
    if let Some(warning) = resolution_warning(problem.position, settings) {
        eprint_line!("warning: {warning}");
    }
    let selected = ensure_memory(select_device(choice)?, choice, n, settings, IntegratorChoice::Leapfrog)?;
    print_line!("device: {selected}");
    match selected.device.as_ref().map(|device| device_setup(device, n, settings, None, None)) {
        Some(setup) => {
            let forces = forces_on_device(&setup, problem, settings.acceptance).map_err(EngineError::from)?;
            Ok((forces, setup.strategy.name(), selected))
        }
        None => {
            let strategy = GravityCpuStrategy::resolve(settings, n);
            Ok((strategy.forces(problem, None), strategy.name(), selected))
        }
    }
}

/// Computes forces and writes them to an NPZ file.
pub fn write_forces(arguments: &ForcesArgs) -> Result<(), Failure> {
    let ForcesArgs { file: path, gravity: flags, output, .. } = arguments;
    if output.canonicalize().is_ok_and(|output| path.canonicalize().is_ok_and(|path| path == output)) {
        let path = output.display();
        return Err(Failure::Usage(format!(
            "{path}: is the input snapshot, expected another file for the forces"
        )));
    }
    check_new_output(output, arguments.force)?;
    if output.extension() != Some("npz".as_ref()) {
        return Err(Failure::Usage(format!("{}: expected a name ending in .npz", output.display())));
    }
    super::check_gravity(flags)?;
    let (snapshot, settings, softening) = read_snapshot(path, flags, &arguments.memory.limits())?;
    let particles = &snapshot.particles;
    let problem = ForceProblem {
        position: &particles.position,
        mass: &particles.mass,
        g: settings.g,
        eps: settings.eps,
        with_potential: true,
    };
    let (forces, solver, _) = compute_forces(&problem, &settings, arguments.device_args.device)?;
    print_line!("{softening}");
    if let Some(i) = (0..particles.len()).find(|&i| !forces.acceleration.get(i).iter().all(|a| a.is_finite()))
    {
        return Err(Failure::Usage(format!(
            "{}: the acceleration of body {} is not finite, expected --softening above 0 or --precision double",
            path.display(),
            particles.id[i]
        )));
    }
    let potential = forces.potential.unwrap_or_default();
    let arrays = [
        ("id", NpzArray::Integers(&particles.id)),
        ("acceleration", NpzArray::Vectors(&forces.acceleration)),
        ("potential", NpzArray::Reals(&potential)),
    ];
    write_npz_arrays(output, &arrays).map_err(Failure::Output)?;
    print_line!(
        "wrote accelerations and potentials of {} ({solver}) to {}",
        format_count(particles.len() as u64, "body", "bodies"),
        output.display()
    );
    Ok(())
}

/// Prints the errors of a solver against the reference sum in f64.
pub fn print_force_errors(arguments: &AccuracyArgs) -> Result<(), Failure> {
    let flags = &arguments.gravity;
    super::check_gravity(flags)?;
    let json = arguments.json.prepare()?;
    let (snapshot, settings, softening) = read_snapshot(&arguments.file, flags, &arguments.memory.limits())?;
    let (particles, n) = (&snapshot.particles, snapshot.particles.len());
    let problem = ForceProblem {
        position: &particles.position,
        mass: &particles.mass,
        g: settings.g,
        eps: settings.eps,
        with_potential: false,
    };
    let (forces, solver, device) = compute_forces(&problem, &settings, arguments.device_args.device)?;
    print_line!("{softening}");
    let sample: Vec<usize> = evenly_spaced_indices(n, arguments.sample as usize);
    let errors =
        ForceErrors::measure(&forces.acceleration, &sample, &reference::forces_on(&problem, &sample).0);
    let [bodies, sampled] = [n, sample.len()].map(|count| format_count(count as u64, "body", "bodies"));
    print_line!("{bodies}, {solver} solver, {} precision", flags.precision.0.as_str());
    print_line!("relative errors |a - a'| / |a|, {sampled} against the f64 all-pairs sum");
    for (name, value) in figures(&errors) {
        print_line!("  {name:<8} {value:.3e}");
    }
    json.write(|| {
        let errors: serde_json::Map<_, _> = figures(&errors)
            .into_iter()
            .map(|(name, value)| (name.replace('%', "_percent"), json!(value)))
            .collect();
        json!({
            "file": arguments.file.display().to_string(),
            "bodies": n,
            "sample": sample.len(),
            "solver": solver,
            "precision": flags.precision.0.as_str(),
            "theta": flags.theta,
            "softening": softening.eps,
            "softening_source": softening.source,
            "device": device.to_string(),
            "errors": errors,
        })
    })
}

/// Returns the names and values of the errors that are reported.
fn figures(errors: &ForceErrors) -> [(&'static str, f64); 5] {
    [
        ("median", errors.median),
        ("99%", errors.p99),
        ("99.99%", errors.p9999),
        ("max", errors.max),
        ("rms", errors.rms),
    ]
}
