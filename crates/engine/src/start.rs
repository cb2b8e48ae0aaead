//! Initial bodies of a case, checked.

use std::sync::atomic::AtomicBool;

use orrery_io::{Limits, format_bytes};
use orrery_model::{Particles, Units};

use crate::case::{BYTES_PER_BODY, BodiesSource, Case};
use crate::error::EngineError;

/// Returns the case with an absolute path for its file of bodies. A copy of the case in another
/// folder then means the same.
pub fn with_absolute_paths(case: &Case) -> Case {
    match case.bodies_file().map(std::path::absolute) {
        Some(Ok(path)) => Case { bodies: BodiesSource::File(path), ..case.clone() },
        _ => case.clone(),
    }
}

/// Initial bodies of a case, and their time.
#[derive(Clone, Debug)]
pub struct Start {
    /// The bodies, in the units of the case.
    pub particles: Particles,
    /// Time at which the run starts: `time.start`, or else that of the file, or else 0.
    pub time: f64,
    /// Time of the file of bodies, in the units of the case. `None` for a model.
    pub file_time: Option<f64>,
}

/// Generates or reads the initial bodies and checks that they can be simulated. Generation ends
/// with an error soon after `stop` is set. Calls `warn` with each warning about the file, which is
/// one line.
pub fn initial_bodies(
    case: &Case,
    limits: &Limits,
    stop: &AtomicBool,
    warn: &mut dyn FnMut(&str),
) -> Result<Start, EngineError> {
    let (particles, origin, file_time) = match &case.bodies {
        BodiesSource::Model(model) => {
            let bodies = model.generate_until(case.gravity.g, stop)?;
            (bodies, format!("[bodies] model = \"{}\"", model.name()), None)
        }
        BodiesSource::File(_) => {
            let path = case.bodies_file().unwrap_or_default();
            let snapshot = orrery_io::read_snapshot(&path, limits).map_err(EngineError::Input)?;
            snapshot.warnings().iter().for_each(|warning| warn(&format!("{}: {warning}", path.display())));
            let assumed = snapshot.units_are_assumed();
            let (mut particles, mut time, found) = (snapshot.particles, snapshot.time, snapshot.units);
            // A file without units is assumed to be in the units of the case.
            if !assumed && !convert_units(&mut particles, &mut time, &found, &case.units) {
                let (found, expected) = (found.name(), case.units.name());
                return Err(EngineError::UnitsMismatch { path, found, expected });
            }
            let count = particles.len();
            let needed = count as u64 * BYTES_PER_BODY;
            if needed > limits.memory {
                let (needed, available) = (format_bytes(needed), format_bytes(limits.memory));
                return Err(EngineError::Memory { path, count, needed, available });
            }
            (particles, path.display().to_string(), Some(time))
        }
    };
    let time = case.time.start.or(file_time).unwrap_or(0.0);
    // The case is checked with `time.start`, so this is the time of the file.
    if !(0.0..case.time.end).contains(&time) {
        let path = case.bodies_file().unwrap_or_default();
        return Err(EngineError::StartTime { path, time, end: case.time.end });
    }
    let refused = |source| EngineError::Bodies { origin: origin.clone(), source };
    particles.validate().map_err(refused)?;
    if case.gravity.eps == 0.0 {
        particles.check_distinct_positions().map_err(refused)?;
    }
    Ok(Start { particles, time, file_time })
}

/// Converts the bodies and their time from one system of units to another. Returns false if only
/// one of them has a physical scale.
fn convert_units(particles: &mut Particles, time: &mut f64, from: &Units, to: &Units) -> bool {
    let (from, to) = match (from.scale(), to.scale()) {
        (None, None) => return true,
        (Some(from), Some(to)) => (from, to),
        _ => return false,
    };
    if from == to {
        return true;
    }
    let length = from.length / to.length;
    let velocity = length * (to.time / from.time);
    for (columns, factor) in [(&mut particles.position, length), (&mut particles.velocity, velocity)] {
        for column in [&mut columns.x, &mut columns.y, &mut columns.z] {
            column.iter_mut().for_each(|value| *value *= factor);
        }
    }
    particles.mass.iter_mut().for_each(|mass| *mass *= from.mass / to.mass);
    *time *= from.time / to.time;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::ic::SolarSystem;

    /// Converting from solar to galactic units gives the system that is generated in galactic
    /// units.
    #[test]
    fn unit_conversion_matches_generation_in_the_target_units() {
        let made = |units| SolarSystem { units }.generate(units.gravitational_constant()).unwrap();
        let (mut solar, galactic) = (made(Units::Solar), made(Units::Galactic));
        let mut time = 1e9;
        assert!(convert_units(&mut solar, &mut time, &Units::Solar, &Units::Galactic));
        // The galactic unit of time is 0.978 Gyr.
        assert!((time - 1.0 / 0.977_792_221).abs() < 1e-6, "{time}");
        for (a, b) in solar.iter().zip(galactic.iter()) {
            assert!((a.mass - b.mass).abs() <= 1e-12 * b.mass);
            for c in 0..3 {
                assert!((a.position[c] - b.position[c]).abs() <= 1e-11 * b.position[c].abs() + 1e-25);
                assert!((a.velocity[c] - b.velocity[c]).abs() <= 1e-11 * b.velocity[c].abs() + 1e-9);
            }
        }
        assert!(!convert_units(&mut solar, &mut time, &Units::Galactic, &Units::NBody));
    }
}
