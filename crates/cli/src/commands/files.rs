//! `ic`, `info` and `convert`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use orrery_engine::case::{Case, CaseSource, GravityCase};
use orrery_engine::gravity::initial_bodies;
use orrery_engine::{EngineError, checkpoint, provenance};
use orrery_formats::{
    Comoving, FieldFormat, Format, Limits, Snapshot, SnapshotDescription, is_fluid_trajectory,
};
use orrery_gravity::settings::GravitySettings;
use orrery_model::{Dimension, format_count};
use serde_json::{Value, json};

use super::other_files::{READ_BY_CONVERT, READ_BY_INFO, refusal, trajectory_refusal};
use super::table_number;
use crate::args::{ConvertArgs, IcArgs, InfoArgs, limits_for};
use crate::failure::{Failure, check_input, check_new_output};
use crate::print::{eprint_line, print_line};

/// Generates initial conditions and writes them to a file.
pub fn write_initial_conditions(arguments: &IcArgs) -> Result<(), Failure> {
    let limits = &limits_for(None);
    let units = arguments.units.clone().unwrap_or_else(|| {
        match arguments.model.as_str() {
            "galaxy" | "encounter" => "galactic",
            "solar-system" => "solar",
            _ => "nbody",
        }
        .to_owned()
    });
    check_new_output(&arguments.output, arguments.force)?;
    if let Some(set) = arguments.set.iter().find(|set| !set.contains('=')) {
        return Err(Failure::Usage(format!("--set {set}: expected KEY=VALUE such as scale_radius=2")));
    }
    // A case with bodies only. It has the same keys, units and checks as a case file.
    let text = "[bodies]\n[time]\nstep = 1.0\nend = 1.0\n";
    let source = CaseSource::Text { label: "ic".to_owned(), text: text.to_owned(), folder: PathBuf::new() };
    let mut given = arguments.set.clone();
    if let Some(n) = arguments.n {
        super::add_flag(&mut given, "-n", "n", &n.to_string())?;
    }
    if let Some(seed) = arguments.seed {
        // An encounter has one seed per galaxy. The second galaxy uses the next seed by default.
        let key = if arguments.model == "encounter" { "first.seed" } else { "seed" };
        super::add_flag(&mut given, "--seed", key, &seed.to_string())?;
    }
    let mut sets = vec![format!("units={units:?}"), format!("bodies.model={:?}", arguments.model)];
    sets.extend(given.iter().map(|set| format!("bodies.{set}")));
    // The user gave flags and no case file, so the message names the key without its section.
    let case = Case::load_within(&source, &sets, Some(limits.memory)).map_err(|error| {
        let message = error.message.strip_prefix("bodies.").unwrap_or(&error.message);
        Failure::Usage(format!("ic {}: {message}", arguments.model.escape_debug()))
    })?;
    // No handler is installed, so a signal ends the process.
    let never_stop = AtomicBool::new(false);
    let softened = with_softening(case.gravity().expect("a case with bodies is of gravity"));
    let snapshot = Snapshot {
        // The bodies of a model give no warnings.
        particles: initial_bodies(&case, &softened, limits, &never_stop, &mut |_| {})
            .map_err(|error| match error {
                EngineError::Model(error) => Failure::Usage(format!("ic {}: {error}", arguments.model)),
                other => other.into(),
            })?
            .particles,
        time: 0.0,
        step: 0,
        units: case.units,
        provenance: provenance::run_provenance(&case, provenance::NO_SOLVER, None, None, None)
            .map_err(Failure::Input)?,
    };
    orrery_formats::write_snapshot(&arguments.output, &snapshot).map_err(Failure::Output)?;
    print_line!("wrote {} to {}", bodies_text(snapshot.particles.len()), arguments.output.display());
    Ok(())
}

/// Returns the settings with a softening, so that bodies at the same position are accepted. `ic`
/// computes no forces.
fn with_softening(gravity: &GravityCase) -> GravityCase {
    let settings = GravitySettings { eps: f64::MIN_POSITIVE, ..gravity.settings };
    GravityCase { settings, ..gravity.clone() }
}

/// Prints the contents of snapshots, fields and checkpoints. A file that cannot be read does not
/// prevent the output for the others.
pub fn print_info(arguments: &InfoArgs) -> Result<(), Failure> {
    let limits = &arguments.memory.limits();
    let json = arguments.json.prepare()?;
    let write_json = |files: Vec<Value>| json.write(|| json!({ "files": files }));
    if let [path] = arguments.files.as_slice() {
        return write_json(vec![print_file_info(path, limits)?]);
    }
    let (mut described, mut failed) = (Vec::new(), 0);
    for path in &arguments.files {
        match print_file_info(path, limits) {
            Ok(description) => described.push(description),
            Err(failure) => {
                eprint_line!("error: {failure}");
                failed += 1;
            }
        }
    }
    write_json(described)?;
    if failed > 0 {
        let all = arguments.files.len();
        return Err(Failure::Usage(format!("{failed} of {all} files could not be read")));
    }
    Ok(())
}

/// Prints the contents of one file and returns them as JSON.
fn print_file_info(path: &Path, limits: &Limits) -> Result<Value, Failure> {
    check_input(path)?;
    if path.extension().is_some_and(|extension| extension == "orrery") {
        return print_checkpoint_info(path, limits);
    }
    if super::fluids::is_fluid_file(path) {
        return super::fluids::print_info(path, limits);
    }
    match FieldFormat::detect(path) {
        Some(FieldFormat::Segy) => return super::segy::print_info(path, limits),
        Some(_) => return super::fields::print_info(path, limits),
        None => {}
    }
    if let Some(failure) = refusal(path, READ_BY_INFO) {
        return Err(failure);
    }
    let found = match orrery_formats::describe_snapshot(path, limits) {
        // A trajectory may have any name.
        Err(_) if is_fluid_trajectory(path) => return super::fluids::print_info(path, limits),
        found => found.map_err(Failure::Input)?,
    };
    super::print_warnings(path, &found.warnings);
    print_line!("{}", path.display());
    print_line!("  format     {}", found.format.name());
    let species: Vec<String> = found
        .species
        .iter()
        .map(|&(species, n)| format!("{n} {}", provenance::species_name(species)))
        .collect();
    match found.body_count() {
        0 => print_line!("  bodies     none"),
        n => print_line!("  bodies     {n} ({})", species.join(", ")),
    }
    match found.expansion_factor {
        Some(a) => print_line!("  time       none, expansion factor {a}"),
        None => {
            let (time, steps) = (found.units.format_time(found.time), steps_text(found.step));
            print_line!("  time       {time} after {steps}");
        }
    }
    print_line!("  units      {}", found.units.name());
    print_line!("  mass       {}", format_with_unit(found.total_mass, &found.units, Dimension::Mass));
    for (axis, range) in ["x", "y", "z"].into_iter().zip(found.extent) {
        if let Some([low, high]) = range {
            print_line!("  {axis}          {} to {}", table_number(low), table_number(high));
        }
    }
    for problem in problems(&found) {
        print_line!("  problem    {problem}");
    }
    for (name, text) in &found.provenance {
        // The case has many lines. Only their number is shown.
        match text.lines().count() {
            0 | 1 => print_line!("  {name:<10} {text}"),
            lines => print_line!("  {name:<10} ({lines} lines)"),
        }
    }
    Ok(snapshot_json(path, &found))
}

fn snapshot_json(path: &Path, found: &SnapshotDescription) -> Value {
    let species: serde_json::Map<String, Value> =
        found.species.iter().map(|&(s, n)| (provenance::species_name(s).to_owned(), json!(n))).collect();
    let provenance: serde_json::Map<String, Value> =
        found.provenance.iter().map(|(name, text)| (name.clone(), json!(text))).collect();
    let [x, y, z] = found.extent;
    json!({
        "file": path.display().to_string(),
        "format": found.format.name(),
        "bytes": found.file_bytes,
        "bodies": found.body_count(),
        "species": species,
        "time": found.expansion_factor.is_none().then_some(found.time),
        "expansion_factor": found.expansion_factor,
        "step": found.step,
        "units": found.units.describe(),
        "mass": found.total_mass,
        "extent": { "x": x, "y": y, "z": z },
        "problems": problems(found),
        "warnings": found.warnings,
        "provenance": provenance,
    })
}

/// Returns the reasons why the other commands refuse this file.
fn problems(found: &SnapshotDescription) -> Vec<String> {
    let mut problems: Vec<String> = found
        .non_finite
        .iter()
        .map(|&(column, n)| {
            format!("{} NaN or infinite in {column}", format_count(n as u64, "value is", "values are"))
        })
        .collect();
    if !found.time.is_finite() {
        problems.push(format!("the time is {}", found.time));
    }
    if found.negative_masses > 0 {
        let count = format_count(found.negative_masses as u64, "mass is", "masses are");
        problems.push(format!("{count} negative"));
    }
    if found.repeated_ids > 0 {
        let count = format_count(found.repeated_ids as u64, "body has", "bodies have");
        problems.push(format!("{count} the id of an earlier body"));
    }
    problems
}

fn print_checkpoint_info(path: &Path, limits: &Limits) -> Result<Value, Failure> {
    let found = checkpoint::describe(path, limits)?;
    print_line!("{}", path.display());
    print_line!("  format     checkpoint, intact");
    print_line!("  case       {}", found.case.name);
    print_line!("  {:<10} {}", found.size.many, found.size.count);
    print_line!("  time       {} after {}", found.case.units.format_time(found.time), steps_text(found.step));
    print_line!("  end        {}", found.case.units.format_time(found.case.time.end));
    print_line!("  solver     {}", found.method);
    print_line!("  written by {}", found.writer);
    Ok(json!({
        "file": path.display().to_string(),
        "format": "checkpoint",
        "case": found.case.name,
        found.size.many: found.size.count,
        "time": found.time,
        "step": found.step,
        "end": found.case.time.end,
        "units": found.case.units.describe(),
        "solver": found.method,
        "written_by": found.writer.to_string(),
    }))
}

fn bodies_text(count: usize) -> String {
    format_count(count as u64, "body", "bodies")
}

fn steps_text(count: u64) -> String {
    format_count(count, "step", "steps")
}

fn format_with_unit(value: f64, units: &orrery_model::Units, dimension: Dimension) -> String {
    let value = table_number(value);
    match (units, dimension) {
        (orrery_model::Units::Galactic, Dimension::Mass) => format!("{value} x 1e10 Msun"),
        (orrery_model::Units::Solar, Dimension::Mass) => format!("{value} Msun"),
        _ => value,
    }
}

/// Reads a snapshot, a field or seismograms and writes them in another format.
pub fn convert(arguments: &ConvertArgs) -> Result<(), Failure> {
    let ConvertArgs { input, output, cosmological, force, memory, .. } = arguments;
    check_input(input)?;
    check_new_output(output, *force)?;
    match FieldFormat::detect(input) {
        Some(FieldFormat::Segy) => return super::segy::convert(arguments),
        Some(_) => return super::fields::convert(arguments),
        None => {}
    }
    if super::fluids::is_fluid_file(input) {
        return Err(trajectory_refusal(input));
    }
    if let Some(failure) = refusal(input, READ_BY_CONVERT) {
        return Err(failure);
    }
    refuse_flags(arguments, "has bodies", &["--cosmological"])?;
    if FieldFormat::from_path(output).is_some() {
        Format::detect(input).map_err(Failure::Input)?;
        return Err(Failure::Usage(format!(
            "{}: {} has bodies, expected a file to write with the extension .hdf5, .xyz or .npz",
            output.display(),
            input.display()
        )));
    }
    let comoving = cosmological.map_or(Comoving::Refuse, Comoving::from);
    let snapshot = match orrery_formats::read_snapshot_as(input, &memory.limits(), comoving) {
        Err(_) if is_fluid_trajectory(input) => return Err(trajectory_refusal(input)),
        snapshot => snapshot.map_err(Failure::Input)?,
    };
    super::print_warnings(input, &snapshot.warnings());
    let invalid = |source| EngineError::Bodies { origin: input.display().to_string(), source };
    snapshot.particles.validate().map_err(invalid)?;
    orrery_formats::write_snapshot(output, &snapshot).map_err(Failure::Output)?;
    print_line!("wrote {} to {}", bodies_text(snapshot.particles.len()), output.display());
    Ok(())
}

/// Refuses flags for other kinds of files. `found` describes the input, for example `is a field`.
pub fn refuse_flags(arguments: &ConvertArgs, found: &str, allowed: &[&str]) -> Result<(), Failure> {
    let flags = [
        ("--cosmological", arguments.cosmological.is_some(), "a snapshot of bodies"),
        ("--window", !arguments.window.is_empty(), "a field"),
        ("--stride", arguments.stride.is_some(), "a field"),
        ("--shot", arguments.shot.is_some(), "SEG-Y seismograms"),
        ("--as", arguments.kind.is_some(), "a SEG-Y file"),
    ];
    match flags.iter().find(|(flag, is_given, _)| *is_given && !allowed.contains(flag)) {
        None => Ok(()),
        Some((flag, _, expected)) => {
            Err(Failure::Usage(format!("{flag}: {} {found}, expected {expected}", arguments.input.display())))
        }
    }
}
