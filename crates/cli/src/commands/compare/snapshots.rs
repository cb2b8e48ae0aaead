//! Differences between two snapshots of bodies.

use std::collections::BTreeMap;
use std::path::Path;

use orrery_formats::{Comoving, Snapshot, read_snapshot_as};
use orrery_model::format_count;

use super::Rules;
use super::report::Comparison;
use super::tolerance::compare_column;
use crate::failure::Failure;

/// Compares the bodies of two snapshots.
pub fn compare_snapshots(a_path: &Path, b_path: &Path, rules: &Rules) -> Result<Comparison, Failure> {
    // The numbers of the files are compared, so cosmological files need no conversion.
    let read = |path| read_snapshot_as(path, &rules.limits, Comoving::Unchanged).map_err(Failure::Input);
    let (a, b) = (read(a_path)?, read(b_path)?);
    if !a.units.is_same_as(&b.units) {
        return Err(Failure::Usage(format!(
            "{}: the units are {}, but {} has {}; expected files with the same units",
            b_path.display(),
            b.units.describe(),
            a_path.display(),
            a.units.describe()
        )));
    }
    let (a_index, b_index) = (index_by_id(&a, a_path)?, index_by_id(&b, b_path)?);
    let missing = |from: &BTreeMap<u64, usize>, other: &BTreeMap<u64, usize>, path: &Path| {
        let ids: Vec<u64> = from.keys().filter(|id| !other.contains_key(id)).copied().collect();
        let first = *ids.first()?;
        Some(match ids.len() {
            1 => format!("only {} has 1 body, id {first}", path.display()),
            n => format!("only {} has {n} bodies, the first with id {first}", path.display()),
        })
    };
    let mut notes: Vec<String> = [missing(&a_index, &b_index, a_path), missing(&b_index, &a_index, b_path)]
        .into_iter()
        .flatten()
        .collect();
    if !rules.tolerance.accepts_values(a.time, b.time) {
        notes.push(format!("time {} and {}", a.time, b.time));
    }
    if a.step != b.step {
        notes.push(format!("step {} and {}", a.step, b.step));
    }
    let matched: Vec<(u64, usize, usize)> =
        a_index.iter().filter_map(|(id, &i)| Some((*id, i, *b_index.get(id)?))).collect();
    let (p, q) = (&a.particles, &b.particles);
    let species = matched.iter().filter(|(_, i, j)| p.species[*i] != q.species[*j]).count();
    if species > 0 {
        let bodies = format_count(species as u64, "body has", "bodies have");
        notes.push(format!("{bodies} another species"));
    }
    let columns = [
        ("mass", &p.mass, &q.mass),
        ("x", &p.position.x, &q.position.x),
        ("y", &p.position.y, &q.position.y),
        ("z", &p.position.z, &q.position.z),
        ("vx", &p.velocity.x, &q.velocity.x),
        ("vy", &p.velocity.y, &q.velocity.y),
        ("vz", &p.velocity.z, &q.velocity.z),
    ];
    let columns = columns.into_iter().filter_map(|(name, a, b)| {
        let pairs = matched.iter().map(|&(_, i, j)| (a[i], b[j]));
        compare_column(name, rules.tolerance, pairs, |row| format!("body {}", matched[row].0))
    });
    Ok(Comparison {
        title: format!("{} and {}", a_path.display(), b_path.display()),
        compared: format_count(matched.len() as u64, "body", "bodies"),
        notes,
        columns: columns.collect(),
        first: None,
    })
}

/// Maps the ids to the indices of the bodies. Refuses ids that occur twice.
fn index_by_id(snapshot: &Snapshot, path: &Path) -> Result<BTreeMap<u64, usize>, Failure> {
    let mut index = BTreeMap::new();
    for (i, &id) in snapshot.particles.id.iter().enumerate() {
        if let Some(earlier) = index.insert(id, i) {
            return Err(Failure::Usage(format!(
                "{}: bodies number {earlier} and {i} share the id {id}, expected unique ids",
                path.display()
            )));
        }
    }
    Ok(index)
}
