//! Warning about settings of z in a case of two dimensions.

use orrery_model::wave::SideCondition;

use crate::case::{VelocityShape, WaveCase};

/// Number of keys that a warning names.
const MAX_NAMED: usize = 6;
/// Default of the extent of a box along z.
const DEFAULT_DEPTH: f64 = 1.0;

/// Returns a warning about keys of z that differ from their defaults, in two dimensions.
pub(super) fn warning(wave: &WaveCase) -> Option<String> {
    if wave.grid.dimensions() == 3 {
        return None;
    }
    let mut keys = Vec::new();
    let mut add = |is_given: bool, key: &str| {
        if is_given {
            keys.push(key.to_owned());
        }
    };
    // The resolved case does not have the extent.
    add(wave.grid.spacing[2] != wave.grid.spacing[0], "grid.hz or grid.depth");
    let is_default = |condition: &SideCondition| matches!(condition, SideCondition::Absorbing(_));
    add(!is_default(&wave.sides.z_min), "wave.z_min");
    add(!is_default(&wave.sides.z_max), "wave.z_max");
    for (index, source) in wave.shot_sources() {
        add(source.position[2] != 0.0, &format!("wave.source[{}].z", index + 1));
    }
    for (index, line) in wave.receivers.iter().enumerate() {
        add(line.first[2] != 0.0, &format!("wave.receivers[{}].z", index + 1));
        add(line.spacing[2] != 0.0, &format!("wave.receivers[{}].dz", index + 1));
    }
    for (index, region) in wave.regions.iter().enumerate() {
        let (z, depth) = match region.shape {
            VelocityShape::Box { corner, size } => (corner[2], size[2]),
            VelocityShape::Ball { centre, .. } => (centre[2], DEFAULT_DEPTH),
        };
        add(z != 0.0, &format!("wave.region[{}].z", index + 1));
        add(depth != DEFAULT_DEPTH, &format!("wave.region[{}].depth", index + 1));
    }
    add(wave.snapshot.from[2] != 0.0, "wave.snapshot.z_from");
    add(wave.snapshot.to[2].is_some(), "wave.snapshot.z_to");
    let more = keys.len().saturating_sub(MAX_NAMED);
    keys.truncate(MAX_NAMED);
    if more > 0 {
        keys.push(format!("{more} more"));
    }
    let last = keys.pop()?;
    let (names, verb) = match keys.is_empty() {
        true => (last, "has"),
        false => (format!("{} and {last}", keys.join(", ")), "have"),
    };
    Some(format!(
        "{names} {verb} no effect in two dimensions, where y is the depth; expected y, or grid.nz > 1 for three dimensions"
    ))
}
