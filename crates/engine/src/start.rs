//! The bodies that a case starts from, checked.

use orrery_io::{Limits, format_bytes};
use orrery_model::{Particles, Units};

use crate::case::{BYTES_PER_BODY, BodiesSource, Case};
use crate::error::EngineError;

/// The case with its file of bodies named from the root, so that a copy elsewhere means the same.
pub fn located(case: &Case) -> Case {
    match case.bodies_file().map(std::path::absolute) {
        Some(Ok(path)) => Case { bodies: BodiesSource::File(path), ..case.clone() },
        _ => case.clone(),
    }
}

/// Makes or reads the bodies, and checks that they can be simulated.
pub fn bodies(case: &Case, limits: &Limits) -> Result<Particles, EngineError> {
    let (particles, origin) = match &case.bodies {
        BodiesSource::Model(model) => {
            (model.generate(case.gravity.g)?, format!("[bodies] model = \"{}\"", model.name()))
        }
        BodiesSource::File(_) => {
            let path = case.bodies_file().unwrap_or_default();
            let snapshot = orrery_io::read_snapshot(&path, limits).map_err(EngineError::Input)?;
            let assumed = snapshot.units_are_assumed();
            let (mut particles, found) = (snapshot.particles, snapshot.units);
            // A file that names no units is taken to be in the case's.
            if !assumed && !convert(&mut particles, &found, &case.units) {
                let (found, expected) = (found.name(), case.units.name());
                return Err(EngineError::UnitsMismatch { path, found, expected });
            }
            let count = particles.len();
            let needed = count as u64 * BYTES_PER_BODY;
            if needed > limits.memory {
                let (needed, available) = (format_bytes(needed), format_bytes(limits.memory));
                return Err(EngineError::Memory { path, count, needed, available });
            }
            (particles, path.display().to_string())
        }
    };
    let wrong = |source| EngineError::Bodies { origin: origin.clone(), source };
    particles.validate().map_err(wrong)?;
    if case.gravity.eps == 0.0 {
        particles.check_distinct_positions().map_err(wrong)?;
    }
    Ok(particles)
}

/// Brings the bodies from one system of units to another; false where only one of them has a physical scale.
fn convert(particles: &mut Particles, from: &Units, to: &Units) -> bool {
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
            column.iter_mut().for_each(|c| *c *= factor);
        }
    }
    particles.mass.iter_mut().for_each(|m| *m *= from.mass / to.mass);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::ic::SolarSystem;

    /// A system converted from solar to galactic units is the one made in galactic units.
    #[test]
    fn units_are_converted() {
        let made = |units| SolarSystem { units }.generate(units.gravitational_constant()).unwrap();
        let (mut solar, galactic) = (made(Units::Solar), made(Units::Galactic));
        assert!(convert(&mut solar, &Units::Solar, &Units::Galactic));
        for (a, b) in solar.iter().zip(galactic.iter()) {
            assert!((a.mass - b.mass).abs() <= 1e-12 * b.mass);
            for c in 0..3 {
                assert!((a.position[c] - b.position[c]).abs() <= 1e-11 * b.position[c].abs() + 1e-25);
                assert!((a.velocity[c] - b.velocity[c]).abs() <= 1e-11 * b.velocity[c].abs() + 1e-9);
            }
        }
        assert!(!convert(&mut solar, &Units::Galactic, &Units::NBody));
    }
}
