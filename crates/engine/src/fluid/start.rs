//! The particles of a case at its start.

use orrery_fluids::MinimiseState;
use orrery_fluids::settings::FluidSettings;
use orrery_fluids::structure::{Overlap, closest_overlap};
use orrery_formats::{FluidFile, read_fluid};
use orrery_model::fluid::FluidParticles;
use orrery_model::ic::lattice::{
    assign_species, droplet, random_positions, remove_drift, set_maxwell_velocities,
};
use orrery_model::simulation_box::{BoxError, BoxSides, SimulationBox};
use orrery_model::{Units, format_count, four_digits, short_number};
use thiserror::Error;

use super::minimisation::minimised;
use crate::case::{Case, FluidCase, FluidStart};
use crate::control::{Control, RunEvent};
use crate::error::EngineError;

/// Particles closer than this fraction of σ overlap. Their energy is above 16,000 ε.
const OVERLAP: f64 = 0.5;
/// Coordinates of a file may be outside of its box by this fraction, because some formats have f32.
const BOX_TOLERANCE: f64 = 1e-5;
/// Boxes by which particles are wrapped. Numbers of images are far below 2^31, and fractions of a
/// box keep nine digits.
const MAX_WRAPPED_BOXES: f64 = 1e6;

/// Returns the remedy for particles that overlap.
fn overlap_advice(start: &FluidStart, is_minimised: bool) -> &'static str {
    match (start, is_minimised) {
        // The forces on the particles of a lattice are 0.
        (FluidStart::Lattice { .. }, _) => "a lower particles.density moves them apart",
        (_, false) => "particles.minimise = true moves them apart",
        (FluidStart::File { .. }, true) => {
            "the minimisation did not move them apart, particles at the same place must be moved in the file"
        }
        (FluidStart::Random { .. } | FluidStart::Droplet { .. }, true) => {
            "the minimisation did not move them apart, expected a lower particles.density or another particles.seed"
        }
    }
}

/// Reason why particles cannot be simulated.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum FluidError {
    /// The box has a length that cannot be used.
    #[error(transparent)]
    Box(#[from] BoxError),
    /// There are no particles.
    #[error("there are no particles, expected at least one")]
    Empty,
    /// The cutoff reaches beyond the nearest images.
    #[error(
        "the cutoff is {}, and half of the box is {} along {axis}, expected a larger box or a smaller \
         lennard_jones.cutoff",
        four_digits(*cutoff), four_digits(*half)
    )]
    Cutoff {
        /// Largest cutoff.
        cutoff: f64,
        /// Half of the shortest side.
        half: f64,
        /// Axis of this side.
        axis: &'static str,
    },
    /// Two particles overlap.
    #[error(
        "particles {} and {} overlap: their distance is {} and sigma is {}, expected at least half of sigma; {}",
        ids[0], ids[1], four_digits(*distance), four_digits(*sigma), advice
    )]
    Overlap {
        /// Identifiers of the particles.
        ids: [u64; 2],
        /// Their distance.
        distance: f64,
        /// σ of the pair.
        sigma: f64,
        /// Remedy.
        advice: &'static str,
    },
    /// The forces did not fall below the limit within the largest number of steps.
    #[error(
        "the minimisation of the energy did not converge in {}: the largest force is {} epsilon/sigma, expected \
         at most {} (particles.minimise_force), and the energy per particle is {} epsilon; a larger \
         particles.minimise_steps takes it farther",
        format_count(state.steps.into(), "step", "steps"), four_digits(state.largest_force), four_digits(*expected), four_digits(state.energy)
    )]
    NotMinimised {
        /// Last state.
        state: MinimiseState,
        /// Largest force of a minimum.
        expected: f64,
    },
    /// The minimisation did not separate all particles.
    #[error("the minimisation of the energy failed: {0}")]
    Minimisation(String),
    /// A drop is larger than the box.
    #[error("the drop is wider than the box, expected a larger particles.length")]
    Drop,
    /// A file has a species that the case does not have.
    #[error("species '{found}' is not in the case, expected {expected} (lennard_jones.species)")]
    UnknownSpecies {
        /// Name in the file.
        found: String,
        /// Names in the case.
        expected: String,
    },
    /// Masses of a species in the file and in the case differ.
    #[error(
        "species {name} has the mass {} in the file and {} in the case, expected the same",
        four_digits(*in_file), four_digits(*in_case)
    )]
    Mass {
        /// Name of the species.
        name: String,
        /// Mass in the file.
        in_file: f64,
        /// Mass in the case.
        in_case: f64,
    },
    /// A particle of a file is not in its box.
    #[error(
        "particle {id} has {axis} = {}, outside of the box from {} to {}{advice}",
        short_number(*coordinate), short_number(*low), short_number(*high)
    )]
    Outside {
        /// Identifier of the particle.
        id: u64,
        /// Axis.
        axis: &'static str,
        /// Coordinate.
        coordinate: f64,
        /// Lower side of the box.
        low: f64,
        /// Upper side of the box.
        high: f64,
        /// Remedy, with the punctuation before it.
        advice: &'static str,
    },
    /// A file has another number of dimensions than the case.
    #[error("the file has {found} dimensions, expected {expected} as in the case (particles.dimensions)")]
    Dimensions {
        /// Dimensions of the file.
        found: usize,
        /// Dimensions of the case.
        expected: usize,
    },
    /// Particles of a case in two dimensions are not in a plane.
    #[error(
        "particles {} and {} have z = {} and {}, expected the same z for all particles in two dimensions \
         (particles.dimensions)",
        ids[0], ids[1], four_digits(z[0]), four_digits(z[1])
    )]
    NotFlat {
        /// Identifiers of the particles.
        ids: [u64; 2],
        /// Their coordinates.
        z: [f64; 2],
    },
    /// A particle of a case in two dimensions moves along z.
    #[error(
        "particle {id} has the velocity {} along z, expected 0 in two dimensions (particles.dimensions)",
        four_digits(*velocity)
    )]
    MovesAlongZ {
        /// Identifier of the particle.
        id: u64,
        /// Its velocity along z.
        velocity: f64,
    },
    /// A file has other units than the case.
    #[error("the {quantity} of the file is {found}, expected {expected} as in the case")]
    Units {
        /// Name of the unit, such as "unit of length".
        quantity: String,
        /// Unit of the file.
        found: String,
        /// Unit of the case.
        expected: String,
    },
    /// Two particles of a file have the same identifier.
    #[error("two particles have the id {0}, expected different ones")]
    SameId(u64),
}

/// Returns the particles of a case at its start. A plan does not minimise their energy. Reports
/// warnings, and the minimisation, which a request to stop ends with an error.
pub(super) fn start_particles(
    case: &Case,
    fluid: &FluidCase,
    settings: &FluidSettings,
    control: &Control,
    is_plan: bool,
    report: &mut dyn FnMut(RunEvent<'_>),
) -> Result<FluidParticles, EngineError> {
    read_or_generate(case, fluid, settings, control, is_plan, report)
        .map_err(|error| case.error_at("particles.file", error))
}

fn read_or_generate(
    case: &Case,
    fluid: &FluidCase,
    settings: &FluidSettings,
    control: &Control,
    is_plan: bool,
    report: &mut dyn FnMut(RunEvent<'_>),
) -> Result<FluidParticles, EngineError> {
    let origin = match &fluid.start {
        FluidStart::File { path, .. } => case.folder.join(path).display().to_string(),
        _ => "[particles]".to_owned(),
    };
    let refused =
        |source: FluidError| EngineError::Fluid { origin: origin.clone(), source: Box::new(source) };
    let mut particles = match &fluid.start {
        &FluidStart::File { ref path, dimensions, wraps } => {
            let file = read_fluid(&case.folder.join(path), &control.limits).map_err(EngineError::Input)?;
            for part in &file.ignored {
                let text = format!("{origin}: the file has {part}, which are not modelled and are ignored");
                report(RunEvent::InputWarning(&text));
            }
            check_units(&file, &case.units).map_err(refused)?;
            particles_of_file(file, fluid, dimensions, wraps).map_err(refused)?
        }
        start => {
            let mut particles = generated_particles(start, fluid).map_err(refused)?;
            let fractions: Vec<f64> = fluid.species.iter().map(|species| species.fraction).collect();
            assign_species(&mut particles, &fractions, fluid.seed);
            particles
        }
    };
    check_box(&particles, settings).map_err(refused)?;
    let is_minimised = fluid.minimises && !is_plan;
    if is_minimised {
        particles = minimised(particles, fluid, settings, control, report, &refused)?;
    }
    if (is_minimised || !fluid.minimises)
        && settings.potential.damping == 0.0
        && let Some(overlap) = closest_overlap(&particles, &settings.potential, OVERLAP)
    {
        let Overlap { particles: pair, distance, sigma } = overlap;
        let ids = pair.map(|k| particles.id[k]);
        let advice = overlap_advice(&fluid.start, is_minimised);
        return Err(refused(FluidError::Overlap { ids, distance, sigma, advice }));
    }
    match fluid.temperature {
        Some(temperature) => {
            let kt = case.units.boltzmann_constant() * temperature;
            set_maxwell_velocities(&mut particles, &settings.mass, kt, fluid.seed);
        }
        None if fluid.removes_drift => remove_drift(&mut particles, &settings.mass),
        None => {}
    }
    Ok(particles)
}

fn generated_particles(start: &FluidStart, fluid: &FluidCase) -> Result<FluidParticles, FluidError> {
    let (particles, sides) = match start {
        FluidStart::Lattice { lattice, cells, density, sides } => {
            (lattice.fill(*cells, fluid.number_density(*density)), *sides)
        }
        FluidStart::Droplet { n, density, vapour_density, length } => {
            let drop = droplet(*n, fluid.number_density(*density), *vapour_density, *length);
            (drop.ok_or(FluidError::Drop)?, BoxSides::Periodic)
        }
        FluidStart::Random { n, density, dimensions, sides } => {
            let side = (*n as f64 / fluid.number_density(*density)).powf(1.0 / *dimensions as f64);
            let mut lengths = [side; 3];
            lengths[*dimensions..].fill(1.0);
            let bounds = SimulationBox::periodic(lengths, *dimensions);
            bounds.validate()?;
            (random_positions(bounds, *n, fluid.seed), *sides)
        }
        FluidStart::File { .. } => unreachable!("a file is read, not generated"),
    };
    particles.bounds.validate()?;
    Ok(match sides {
        BoxSides::Periodic => particles,
        BoxSides::Open => opened(&particles),
    })
}

/// Returns the particles in an open box.
fn opened(particles: &FluidParticles) -> FluidParticles {
    let coordinates = particles.coordinates();
    let bound = |pick: fn(f64, f64) -> f64, start: f64| {
        [&coordinates.x, &coordinates.y, &coordinates.z]
            .map(|column| column.iter().copied().fold(start, pick))
    };
    let (low, high) = (bound(f64::min, f64::INFINITY), bound(f64::max, f64::NEG_INFINITY));
    let bounds = SimulationBox::open(low, high, particles.bounds.dimensions);
    FluidParticles::at_rest(bounds, &coordinates)
}

/// Returns the particles of a file, whose species are those of the case.
fn particles_of_file(
    file: FluidFile,
    fluid: &FluidCase,
    dimensions: usize,
    wraps: bool,
) -> Result<FluidParticles, FluidError> {
    if file.id.is_empty() {
        return Err(FluidError::Empty);
    }
    if let Some(found) = file.stated_dimensions.filter(|found| *found != dimensions) {
        return Err(FluidError::Dimensions { found, expected: dimensions });
    }
    let mut bounds = SimulationBox { dimensions, ..file.bounds };
    if dimensions == 2 {
        check_flat(&file)?;
        (bounds.origin[2], bounds.lengths[2]) = (0.0, 1.0);
    }
    bounds.validate()?;
    check_within(&file, &bounds, wraps)?;
    let species_map = species_of_file(&file, fluid)?;
    let mut particles = FluidParticles::at_rest(bounds, &file.coordinates);
    if let Some(image) = file.image {
        for (own, image) in particles.image.iter_mut().zip(image) {
            own.iter_mut().zip(image).for_each(|(own, image)| *own = own.wrapping_add(image));
        }
    }
    particles.species = file.species.iter().map(|&species| species_map[usize::from(species)]).collect();
    if let Some(velocity) = file.velocity {
        particles.velocity = velocity;
    }
    let mut ids = file.id.clone();
    ids.sort_unstable();
    if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(FluidError::SameId(pair[0]));
    }
    particles.id = file.id;
    Ok(particles)
}

/// Checks that all particles of a file are in its box, or if it `wraps` them, near it.
fn check_within(file: &FluidFile, bounds: &SimulationBox, wraps: bool) -> Result<(), FluidError> {
    let can_wrap = bounds.sides == BoxSides::Periodic;
    let columns = [&file.coordinates.x, &file.coordinates.y, &file.coordinates.z];
    for axis in 0..bounds.dimensions {
        let length = bounds.lengths[axis];
        let (low, high) = (bounds.origin[axis], bounds.origin[axis] + length);
        let margin = length * if wraps && can_wrap { MAX_WRAPPED_BOXES } else { BOX_TOLERANCE };
        let outside = columns[axis].iter().position(|&x| !(low - margin..=high + margin).contains(&x));
        if let Some(k) = outside {
            let (id, axis, coordinate) = (file.id[k], ["x", "y", "z"][axis], columns[axis][k]);
            let advice = match (can_wrap, wraps) {
                (true, false) => "; particles.wrap = true moves particles into the periodic box",
                (true, true) => ", by too many boxes to move it there",
                (false, _) => "",
            };
            return Err(FluidError::Outside { id, axis, coordinate, low, high, advice });
        }
    }
    Ok(())
}

/// Checks that all particles are in a plane of constant z and stay there.
fn check_flat(file: &FluidFile) -> Result<(), FluidError> {
    let z = &file.coordinates.z;
    let size = file.bounds.lengths[0].max(file.bounds.lengths[1]);
    if let Some(k) = z.iter().position(|&other| (other - z[0]).abs() > BOX_TOLERANCE * size) {
        return Err(FluidError::NotFlat { ids: [file.id[0], file.id[k]], z: [z[0], z[k]] });
    }
    let moving = file.velocity.as_ref().and_then(|v| v.z.iter().position(|&velocity| velocity != 0.0));
    match (moving, &file.velocity) {
        (Some(k), Some(velocity)) => Err(FluidError::MovesAlongZ { id: file.id[k], velocity: velocity.z[k] }),
        _ => Ok(()),
    }
}

/// Checks that a file that names its units has those of the case.
fn check_units(file: &FluidFile, units: &Units) -> Result<(), FluidError> {
    let Some(found) = file.units.as_ref().filter(|found| found.contains_key("system")) else { return Ok(()) };
    let names = units.names();
    let expected = [
        ("system", units.name()),
        ("length", names.length),
        ("time", names.time),
        ("mass", names.mass),
        ("velocity", names.velocity),
    ];
    for (name, expected) in expected {
        let Some(found) = found.get(name).filter(|found| *found != expected) else { continue };
        let quantity =
            if name == "system" { "system of units".to_owned() } else { format!("unit of {name}") };
        let (found, expected) = (format!("'{found}'"), format!("'{expected}'"));
        return Err(FluidError::Units { quantity, found, expected });
    }
    Ok(())
}

/// Returns the index in the case of each species of a file: the one with the same name, or for a
/// number, as in LAMMPS data, the one with this position from 1.
fn species_of_file(file: &FluidFile, fluid: &FluidCase) -> Result<Vec<u8>, FluidError> {
    let find = |name: &String| {
        let named = fluid.species.iter().position(|species| species.name == *name);
        let numbered = || name.parse::<usize>().ok()?.checked_sub(1).filter(|&k| k < fluid.species.len());
        named.or_else(numbered).ok_or_else(|| {
            let names: Vec<&str> = fluid.species.iter().map(|species| species.name.as_str()).collect();
            FluidError::UnknownSpecies { found: name.clone(), expected: names.join(" or ") }
        })
    };
    let found: Vec<usize> = file.species_names.iter().map(find).collect::<Result<_, _>>()?;
    for (&index, &in_file) in found.iter().zip(file.mass.iter().flatten()) {
        let (name, in_case) = (fluid.species[index].name.clone(), fluid.species[index].mass);
        if (in_file - in_case).abs() > 1e-5 * in_case {
            return Err(FluidError::Mass { name, in_file, in_case });
        }
    }
    Ok(found.into_iter().map(|index| index as u8).collect())
}

/// Checks that no particle interacts with two images of another one.
pub(super) fn check_box(particles: &FluidParticles, settings: &FluidSettings) -> Result<(), FluidError> {
    let bounds = &particles.bounds;
    bounds.validate()?;
    if particles.is_empty() {
        return Err(FluidError::Empty);
    }
    let Some(cutoff) = settings.potential.largest_cutoff() else { return Ok(()) };
    if bounds.sides == BoxSides::Open {
        return Ok(());
    }
    for axis in 0..bounds.dimensions {
        let half = 0.5 * bounds.lengths[axis];
        if cutoff > half {
            return Err(FluidError::Cutoff { cutoff, half, axis: ["x", "y", "z"][axis] });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use orrery_model::Vec3s;

    use super::*;

    /// The conversion of an open box keeps coordinates.
    #[test]
    fn opened_particles_are_where_they_were() {
        let coordinates = Vec3s { x: vec![1.0, 3.0], y: vec![2.0, 2.5], z: vec![0.5, 3.5] };
        let closed = FluidParticles::at_rest(SimulationBox::periodic([4.0; 3], 3), &coordinates);
        let opened = opened(&closed);
        assert_eq!(opened.bounds.sides, BoxSides::Open);
        for (a, b) in opened.coordinates().iter().zip(coordinates.iter()) {
            assert!((0..3).all(|axis| (a[axis] - b[axis]).abs() < 1e-12), "{a:?} {b:?}");
        }
    }
}
