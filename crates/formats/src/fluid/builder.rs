//! Columns of a fluid while a file is read, shared by the formats.

use orrery_model::Vec3s;
use orrery_model::simulation_box::{BoxSides, SimulationBox};

use super::{FluidFile, MAX_SPECIES, quoted};
use crate::error::Fault;
use crate::limits::{Limits, reserve_column};
use crate::text::shorten_for_message;

/// Bytes per particle: coordinates and velocities 24 each, images 12, id 8, species 1, and 17 for a
/// sorted list of ids.
const PARTICLE_BYTES: u64 = 86;

/// Value found and value expected, for a message.
pub(super) type Difference = (String, String);

/// Columns that are being filled.
pub(super) struct Builder {
    n: usize,
    pub coordinates: Vec3s,
    velocity: Option<Vec3s>,
    image: Option<[Vec<i32>; 3]>,
    species_names: Vec<String>,
    species: Vec<u8>,
    /// Mass of each species, if it is known.
    mass: Vec<Option<f64>>,
    id: Vec<u64>,
}

impl Builder {
    /// Returns columns with memory for `n` particles, if they fit the limits. The length of the
    /// file must have confirmed `n`.
    pub fn new(limits: &Limits, n: u64, species_names: Vec<String>) -> Result<Self, Fault> {
        let n = limits.check_bodies(n, PARTICLE_BYTES, 0)?;
        if species_names.len() > MAX_SPECIES {
            let got = format!("{} names", species_names.len());
            return Err(Fault::malformed("species", got, format!("at most {MAX_SPECIES}")));
        }
        Ok(Self {
            n,
            coordinates: reserve_vectors(n)?,
            velocity: None,
            image: None,
            mass: vec![None; species_names.len()],
            species_names,
            species: reserve_column(n)?,
            id: reserve_column(n)?,
        })
    }

    /// Reserves the columns that not every file has.
    pub fn reserve(&mut self, has_velocity: bool, has_image: bool) -> Result<(), Fault> {
        let n = self.n;
        self.velocity = has_velocity.then(|| reserve_vectors(n)).transpose()?;
        self.image = match has_image {
            true => Some([reserve_column(n)?, reserve_column(n)?, reserve_column(n)?]),
            false => None,
        };
        Ok(())
    }

    /// Returns the identifiers so far.
    pub fn ids(&self) -> &[u64] {
        &self.id
    }

    /// Returns true if there is a column of velocities.
    pub fn has_velocity(&self) -> bool {
        self.velocity.is_some()
    }

    /// Adds velocities of 0 for all particles.
    pub fn fill_velocity(&mut self) -> Result<(), Fault> {
        let mut velocity = reserve_vectors(self.n)?;
        for column in [&mut velocity.x, &mut velocity.y, &mut velocity.z] {
            column.resize(self.n, 0.0);
        }
        self.velocity = Some(velocity);
        Ok(())
    }

    /// Sets the velocity of a particle. There must be a column of velocities.
    pub fn set_velocity(&mut self, particle: usize, velocity: [f64; 3]) {
        if let Some(velocities) = &mut self.velocity {
            velocities.set(particle, velocity);
        }
    }

    /// Appends a particle.
    pub fn push(&mut self, position: [f64; 3], velocity: [f64; 3], image: [i32; 3], species: u8, id: u64) {
        self.coordinates.push(position);
        if let Some(velocities) = &mut self.velocity {
            velocities.push(velocity);
        }
        if let Some(images) = &mut self.image {
            for axis in 0..3 {
                images[axis].push(image[axis]);
            }
        }
        self.species.push(species);
        self.id.push(id);
    }

    /// Returns the number of species so far.
    pub fn species_count(&self) -> usize {
        self.species_names.len()
    }

    /// Returns the index of the species with this name, and adds a new name.
    pub fn species_index(&mut self, name: &str) -> Result<u8, Difference> {
        if let Some(index) = self.species_names.iter().position(|known| known == name) {
            return Ok(index as u8);
        }
        if self.species_names.len() == MAX_SPECIES {
            return Err((
                format!("another species {}", quoted(name)),
                format!("at most {MAX_SPECIES} species"),
            ));
        }
        self.species_names.push(name.to_owned());
        self.mass.push(None);
        Ok((self.species_names.len() - 1) as u8)
    }

    /// Sets the mass of a particle of a species, which must be the same for all of them.
    pub fn set_mass(&mut self, species: u8, mass: f64) -> Result<(), Difference> {
        let known = &mut self.mass[usize::from(species)];
        if mass <= 0.0 {
            return Err((format!("the mass {mass:e}"), "a mass > 0".to_owned()));
        }
        match *known {
            Some(expected) if expected != mass => {
                let name = shorten_for_message(&self.species_names[usize::from(species)], 20);
                Err((
                    format!("the mass {mass:e}"),
                    format!("{expected:e}, as other particles of species {name}"),
                ))
            }
            _ => {
                *known = Some(mass);
                Ok(())
            }
        }
    }

    /// Returns the file. `masses` replaces the masses of the particles if it has one per species.
    pub fn finish(
        self,
        bounds: SimulationBox,
        masses: Option<Vec<f64>>,
        step: Option<u64>,
        time: Option<f64>,
    ) -> FluidFile {
        let is_usable = |masses: &Vec<f64>| {
            masses.len() == self.species_names.len() && masses.iter().all(|&m| m > 0.0 && m.is_finite())
        };
        FluidFile {
            bounds,
            coordinates: self.coordinates,
            velocity: self.velocity,
            image: self.image,
            species: self.species,
            mass: masses.filter(is_usable).or_else(|| self.mass.iter().copied().collect()),
            species_names: self.species_names,
            id: self.id,
            step,
            time: time.filter(|time| time.is_finite()),
            units: None,
            stated_dimensions: None,
            ignored: Vec::new(),
        }
    }
}

fn reserve_vectors(n: usize) -> Result<Vec3s, Fault> {
    Ok(Vec3s { x: reserve_column(n)?, y: reserve_column(n)?, z: reserve_column(n)? })
}

/// Returns the given open box if all particles are in its middle half. Otherwise returns a new one.
pub(super) fn open_box(
    given: Option<SimulationBox>,
    dimensions: usize,
    coordinates: &Vec3s,
) -> SimulationBox {
    let columns = [&coordinates.x, &coordinates.y, &coordinates.z];
    let mut low = columns.map(|column| column.iter().copied().reduce(f64::min).unwrap_or(0.0));
    let mut high = columns.map(|column| column.iter().copied().reduce(f64::max).unwrap_or(0.0));
    if (0..dimensions).all(|axis| low[axis] == high[axis]) {
        // A box around one point has the length 8.
        low = low.map(|x| x - 0.5);
        high = high.map(|x| x + 0.5);
    }
    let is_in_middle = |bounds: &SimulationBox| {
        (0..dimensions).all(|axis| {
            let quarter = 0.25 * bounds.lengths[axis];
            low[axis] >= bounds.origin[axis] + quarter && high[axis] < bounds.origin[axis] + 3.0 * quarter
        })
    };
    let given = given.filter(|bounds| bounds.sides == BoxSides::Open && bounds.validate().is_ok());
    given.filter(is_in_middle).unwrap_or_else(|| SimulationBox::open(low, high, dimensions))
}
