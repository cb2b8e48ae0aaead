//! A fluid from the columns of a checkpoint.

use orrery_fluids::Fluid;
use orrery_formats::{Block, Fault, IoError};
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::{BoxSides, SimulationBox};
use orrery_model::{Vec3s, format_count};

use super::handover::EnergyMean;
use super::start::check_box;
use super::system::{FluidFacts, FluidSystem, owned, system_error};
use super::{host_bytes, particle_count};
use crate::blocks::{Blocks, repeated_id};
use crate::case::FluidCase;
use crate::error::EngineError;
use crate::host_memory::check_host_memory;
use crate::system::{SavedSystem, StateColumn};

const POSITIONS: [&str; 3] = ["fraction_x", "fraction_y", "fraction_z"];
const IMAGES: [&str; 3] = ["image_x", "image_y", "image_z"];
const VELOCITIES: [&str; 3] = ["velocity_x", "velocity_y", "velocity_z"];
const SPECIES: &str = "species";
const IDS: &str = "id";
/// Origin and lengths of the box, 1 for open sides, and the number of dimensions.
const BOX: &str = "box";
/// Sums of potential and kinetic energy of the thermostatted phase, and their number.
const MEAN: &str = "mean_energy";

/// Returns all columns of the state. `mean` has the energies that were sampled.
pub(super) fn state_columns(
    particles: FluidParticles,
    mean: Option<EnergyMean>,
) -> Vec<StateColumn<'static>> {
    let FluidParticles { bounds, position, image, velocity, species, id } = particles;
    let column = |name, block, is_constant| StateColumn { name, values: owned(block), is_constant };
    let mut columns = Vec::new();
    for (name, values) in POSITIONS.into_iter().zip(position) {
        columns.push(column(name, Block::Integers(values), false));
    }
    for (name, values) in IMAGES.into_iter().zip(image) {
        // Negative numbers are stored modulo 2^32.
        let words = values.into_iter().map(|image| u64::from(image as u32)).collect();
        columns.push(column(name, Block::Integers(words), false));
    }
    for (name, values) in VELOCITIES.into_iter().zip([velocity.x, velocity.y, velocity.z]) {
        columns.push(column(name, Block::Reals(values), false));
    }
    columns.push(column(SPECIES, Block::Bytes(species), true));
    columns.push(column(IDS, Block::Integers(id), true));
    let is_open = f64::from(u8::from(bounds.sides == BoxSides::Open));
    let numbers = bounds.origin.into_iter().chain(bounds.lengths).chain([is_open, bounds.dimensions as f64]);
    columns.push(column(BOX, Block::Reals(numbers.collect()), false));
    if let Some(mean) = mean {
        columns.push(column(MEAN, Block::Reals(mean.to_numbers()), false));
    }
    columns
}

impl FluidSystem {
    /// Restores a fluid on the host from the columns of a checkpoint, which may be hostile.
    pub(crate) fn restore(
        saved: &SavedSystem<'_>,
        case: &FluidCase,
        columns: &mut Blocks,
    ) -> Result<Self, EngineError> {
        let &SavedSystem { path, count, limits, stamp, .. } = saved;
        let malformed = |context: &str, got: String, expected: &str| {
            EngineError::Input(IoError {
                path: path.to_owned(),
                fault: Fault::malformed(context, got, expected),
            })
        };
        let needed = host_bytes(count as u64);
        check_host_memory(needed, limits.memory, path, particle_count(count as u64))?;
        let checked = |name: &str, length: usize| match length == count {
            true => Ok(()),
            false => {
                let found = format_count(length as u64, "value", "values");
                Err(malformed(name, found, "one value per particle"))
            }
        };
        let bounds = restore_box(&columns.take_reals(BOX)?, case)
            .ok_or_else(|| malformed(BOX, "other numbers".to_owned(), "a box of this case"))?;
        let mut position = [const { Vec::new() }; 3];
        let mut image = [const { Vec::new() }; 3];
        let mut velocity = [const { Vec::new() }; 3];
        for axis in 0..3 {
            position[axis] = columns.take_integers(POSITIONS[axis])?;
            checked(POSITIONS[axis], position[axis].len())?;
            let words = columns.take_integers(IMAGES[axis])?;
            checked(IMAGES[axis], words.len())?;
            if words.iter().any(|&word| word > u64::from(u32::MAX)) {
                return Err(malformed(IMAGES[axis], "a larger number".to_owned(), "numbers of 32 bits"));
            }
            image[axis] = words.into_iter().map(|word| word as u32 as i32).collect();
            velocity[axis] = columns.take_reals(VELOCITIES[axis])?;
            checked(VELOCITIES[axis], velocity[axis].len())?;
            if let Some(value) = velocity[axis].iter().find(|value| !value.is_finite()) {
                return Err(malformed(VELOCITIES[axis], value.to_string(), "finite numbers"));
            }
        }
        // A version without this column handed over one draw of the energy.
        let mean = match columns.reals_len(MEAN) {
            None => None,
            Some(_) => {
                let mean = EnergyMean::from_numbers(&columns.take_reals(MEAN)?);
                Some(mean.ok_or_else(|| malformed(MEAN, "other numbers".to_owned(), "two sums and a count"))?)
            }
        };
        let [x, y, z] = velocity;
        let species = columns.take_bytes(SPECIES)?;
        checked(SPECIES, species.len())?;
        if let Some(found) = species.iter().find(|&&species| usize::from(species) >= case.species.len()) {
            return Err(malformed(SPECIES, format!("species {found}"), "a species of the case"));
        }
        let id = columns.take_integers(IDS)?;
        checked(IDS, id.len())?;
        if let Some(id) = repeated_id(&id) {
            return Err(malformed(IDS, format!("{id} twice"), "different numbers"));
        }
        let particles = FluidParticles { bounds, position, image, velocity: Vec3s { x, y, z }, species, id };
        let facts = FluidFacts::new(saved.case, case, &particles);
        let settings = case.settings(facts.ensemble_at(stamp.time), &saved.case.time);
        let refused = |error: super::FluidError| malformed(BOX, error.to_string(), "a box of this case");
        check_box(&particles, &settings).map_err(refused)?;
        let fluid =
            Fluid::new(particles, &settings, None).map_err(|error| system_error(error, None).at(stamp))?;
        Ok(Self::new(fluid, facts, stamp).with_mean(mean))
    }
}

/// Returns the box of a checkpoint. `None` if no run of the case can have written it.
fn restore_box(numbers: &[f64], case: &FluidCase) -> Option<SimulationBox> {
    let &[x, y, z, lx, ly, lz, is_open, dimensions] = numbers else { return None };
    let sides = match is_open {
        0.0 => BoxSides::Periodic,
        1.0 => BoxSides::Open,
        _ => return None,
    };
    let is_same = dimensions == case.dimensions() as f64;
    let bounds =
        SimulationBox { origin: [x, y, z], lengths: [lx, ly, lz], sides, dimensions: case.dimensions() };
    (is_same && bounds.validate().is_ok()).then_some(bounds)
}
