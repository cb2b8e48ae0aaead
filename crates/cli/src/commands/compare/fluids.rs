//! Differences between the last frames of two trajectories.

use std::path::Path;

use orrery_io::{FluidFile, Limits, read_fluid};
use orrery_model::format_count;

use super::{Comparison, compare_column};
use crate::failure::Failure;

/// Trajectories in the folder of a run, one per format.
pub const TRAJECTORIES: [&str; 2] = ["trajectory.gsd", "trajectory.xyz"];

/// Returns true for a path that can be a trajectory. Extended XYZ files with another name are
/// snapshots of bodies.
pub fn is_trajectory(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    path.extension().is_some_and(|extension| extension == "gsd")
        || TRAJECTORIES.iter().any(|known| name == *known)
}

/// Compares the particles of the last frames, which must be in the same order.
pub fn compare_trajectories(a_path: &Path, b_path: &Path, limits: &Limits) -> Result<Comparison, Failure> {
    let read = |path: &Path| read_fluid(path, limits).map_err(Failure::Input);
    let (a, b) = (read(a_path)?, read(b_path)?);
    let mut notes = Vec::new();
    if a.id != b.id {
        notes.push("the particles or their order differ".to_owned());
    }
    let species = |file: &FluidFile| -> Vec<String> {
        file.species.iter().map(|&k| file.species_names[usize::from(k)].clone()).collect()
    };
    if species(&a) != species(&b) {
        notes.push("the species differ".to_owned());
    }
    if a.bounds != b.bounds {
        notes.push(format!("box {:?} and {:?}", a.bounds.lengths, b.bounds.lengths));
    }
    if (a.step, a.time.map(f64::to_bits)) != (b.step, b.time.map(f64::to_bits)) {
        notes.push(format!("step {:?} and {:?}", a.step, b.step));
    }
    if a.image != b.image {
        notes.push("the image counts differ".to_owned());
    }
    let columns = columns_of(&a).into_iter().zip(columns_of(&b)).filter_map(|((name, a), (_, b))| {
        let pairs = a.iter().copied().zip(b.iter().copied());
        compare_column(name, pairs, |row| format!("particle {}", row + 1))
    });
    let columns = columns.collect();
    let particles = format_count(a.id.len().min(b.id.len()) as u64, "particle", "particles");
    Ok(Comparison {
        title: format!("{} and {}", a_path.display(), b_path.display()),
        compared: format!("{particles} of the last frame"),
        notes,
        columns,
    })
}

fn columns_of(file: &FluidFile) -> Vec<(&'static str, &[f64])> {
    let x = &file.coordinates;
    let mut columns = vec![("x", &x.x[..]), ("y", &x.y), ("z", &x.z)];
    if let Some(v) = &file.velocity {
        columns.extend([("vx", &v.x[..]), ("vy", &v.y), ("vz", &v.z)]);
    }
    columns
}
