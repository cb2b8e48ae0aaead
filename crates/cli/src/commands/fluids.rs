//! `info` of files with the particles of a fluid.

use std::path::Path;

use orrery_formats::{FluidFile, Limits, read_fluid};
use orrery_model::format_count;
use orrery_model::simulation_box::BoxSides;
use serde_json::{Value, json};

use super::table_number;
use crate::failure::Failure;
use crate::print::print_line;

/// Returns true for a file of a fluid: GSD, LAMMPS data, or the trajectory of a run. Extended XYZ
/// files with another name are snapshots of bodies.
pub fn is_fluid_file(path: &Path) -> bool {
    let has = |extension: &str| path.extension().is_some_and(|found| found == extension);
    has("gsd") || has("data") || has("lmp") || path.file_name().is_some_and(|name| name == "trajectory.xyz")
}

/// Prints the last frame of a file and returns it as JSON.
pub fn print_info(path: &Path, limits: &Limits) -> Result<Value, Failure> {
    let file = read_fluid(path, limits).map_err(Failure::Input)?;
    print_line!("{}", path.display());
    let n = file.id.len();
    let counts = species_counts(&file);
    let species: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    print_line!("  particles  {n} ({})", species.join(", "));
    if let (Some(step), Some(time)) = (file.step, file.time) {
        print_line!("  time       {} after {}", table_number(time), format_count(step, "step", "steps"));
    }
    let bounds = &file.bounds;
    let sides = match bounds.sides {
        BoxSides::Periodic => "periodic",
        BoxSides::Open => "open",
    };
    print_line!("  box        {sides}, {} dimensions", bounds.dimensions);
    for (axis, name) in ["x", "y", "z"].into_iter().enumerate().take(bounds.dimensions) {
        let (low, high) = (bounds.origin[axis], bounds.origin[axis] + bounds.lengths[axis]);
        print_line!("  {name}          {} to {}", table_number(low), table_number(high));
    }
    print_line!("  velocities {}", if file.velocity.is_some() { "yes" } else { "no" });
    for part in &file.ignored {
        print_line!("  ignored    {part}");
    }
    Ok(json!({
        "path": path.display().to_string(),
        "particles": n,
        "species": counts.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "step": file.step,
        "time": file.time,
        "box": { "origin": bounds.origin, "lengths": bounds.lengths, "sides": sides, "dimensions": bounds.dimensions },
        "velocities": file.velocity.is_some(),
    }))
}

/// Returns the number of particles of each species, by its name.
fn species_counts(file: &FluidFile) -> Vec<(String, usize)> {
    let count = |index: usize| file.species.iter().filter(|&&species| usize::from(species) == index).count();
    file.species_names.iter().enumerate().map(|(index, name)| (name.clone(), count(index))).collect()
}
