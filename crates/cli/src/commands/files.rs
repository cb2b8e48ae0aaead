//! `ic`, `info` and `convert`.

use std::path::{Path, PathBuf};

use orrery_engine::case::{Case, CaseSource};
use orrery_engine::{EngineError, checkpoint, provenance, start};
use orrery_io::{Limits, Snapshot};
use orrery_model::Dimension;

use crate::args::Ic;
use crate::failure::{Failure, check_input, check_new_output, check_output};
use crate::say::say;

/// Makes initial conditions.
pub fn ic(arguments: &Ic, limits: &Limits) -> Result<(), Failure> {
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
    // A case with nothing but bodies: the same names, units and checks as in a case file.
    let text = "[bodies]\n[time]\nstep = 1.0\nend = 1.0\n";
    let source = CaseSource::Text { label: "ic".to_owned(), text: text.to_owned(), folder: PathBuf::new() };
    let mut sets = vec![format!("units={units:?}"), format!("bodies.model={:?}", arguments.model)];
    sets.extend(arguments.n.map(|n| format!("bodies.n={n}")));
    // An encounter has a seed a galaxy: the second takes the next one.
    let seed_of = if arguments.model == "encounter" { "bodies.first" } else { "bodies" };
    sets.extend(arguments.seed.map(|seed| format!("{seed_of}.seed={seed}")));
    sets.extend(arguments.set.iter().map(|set| format!("bodies.{set}")));
    // The user wrote flags, not a case: what a message says of a key is enough.
    let case = Case::load_within(&source, &sets, Some(limits.memory)).map_err(|error| {
        let message = error.message.strip_prefix("bodies.").unwrap_or(&error.message);
        Failure::Usage(format!("ic {}: {message}", arguments.model.escape_debug()))
    })?;
    let snapshot = Snapshot {
        particles: start::bodies(&Case { gravity: softened(&case), ..case.clone() }, limits)?,
        time: 0.0,
        step: 0,
        units: case.units,
        provenance: provenance::of_run(&case, "none", None, None).map_err(Failure::Input)?,
    };
    orrery_io::write_snapshot(&arguments.output, &snapshot).map_err(Failure::Output)?;
    say!("wrote {} bodies to {}", snapshot.particles.len(), arguments.output.display());
    Ok(())
}

/// No force is computed here, so bodies may coincide.
fn softened(case: &Case) -> orrery_particles::settings::GravitySettings {
    orrery_particles::settings::GravitySettings { eps: f64::MIN_POSITIVE, ..case.gravity }
}

/// Tells what a file holds.
pub fn info(path: &Path, limits: &Limits) -> Result<(), Failure> {
    check_input(path)?;
    if path.extension().is_some_and(|extension| extension == "orrery") {
        return checkpoint_info(path, limits);
    }
    let found = orrery_io::describe_snapshot(path, limits).map_err(Failure::Input)?;
    say!("{}", path.display());
    say!("  format     {}", found.format.name());
    let species: Vec<String> = found
        .species
        .iter()
        .map(|&(species, n)| format!("{n} {}", provenance::species_name(species)))
        .collect();
    match found.body_count() {
        0 => say!("  bodies     none"),
        n => say!("  bodies     {n} ({})", species.join(", ")),
    }
    say!("  time       {} after {} steps", found.units.format_time(found.time), found.step);
    say!("  units      {}", found.units.name());
    say!("  mass       {}", with_unit(found.total_mass, &found.units, Dimension::Mass));
    if let Some([low, high]) = found.extent {
        for (axis, (low, high)) in ["x", "y", "z"].into_iter().zip(low.into_iter().zip(high)) {
            say!("  {axis}          {low:.6} to {high:.6}");
        }
    }
    for (name, text) in &found.provenance {
        // The whole case is for `run`, not for a glance.
        match text.lines().count() {
            0 | 1 => say!("  {name:<10} {text}"),
            lines => say!("  {name:<10} ({lines} lines)"),
        }
    }
    Ok(())
}

fn checkpoint_info(path: &Path, limits: &Limits) -> Result<(), Failure> {
    let found = checkpoint::describe(path, limits)?;
    say!("{}", path.display());
    say!("  format     checkpoint, whole");
    say!("  case       {}", found.case.name);
    say!("  bodies     {}", found.bodies);
    say!("  time       {} after {} steps", found.case.units.format_time(found.time), found.step);
    say!("  end        {}", found.case.units.format_time(found.case.time.end));
    say!("  solver     {}", found.solver);
    say!("  written by {}", found.writer);
    Ok(())
}

fn with_unit(value: f64, units: &orrery_model::Units, dimension: Dimension) -> String {
    let value = value + 0.0; // the sum of nothing is -0
    match (units, dimension) {
        (orrery_model::Units::Galactic, Dimension::Mass) => format!("{value:.6} x 1e10 Msun"),
        (orrery_model::Units::Solar, Dimension::Mass) => format!("{value:.6} Msun"),
        _ => format!("{value:.6}"),
    }
}

/// Reads one format and writes another.
pub fn convert(input: &Path, output: &Path, limits: &Limits) -> Result<(), Failure> {
    check_input(input)?;
    check_output(output)?;
    let snapshot = orrery_io::read_snapshot(input, limits).map_err(Failure::Input)?;
    let wrong = |source| EngineError::Bodies { origin: input.display().to_string(), source };
    snapshot.particles.validate().map_err(wrong)?;
    orrery_io::write_snapshot(output, &snapshot).map_err(Failure::Output)?;
    say!("wrote {} bodies to {}", snapshot.particles.len(), output.display());
    Ok(())
}
