//! Particles and ghosts as messages between ranks.

use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::SimulationBox;
use orrery_simd::MAX_LANES;

use super::HostFluid;
use crate::arithmetic::upper_half;
use crate::slab::{GhostRecord, ParticleRecord, WORK_PER_PARTICLE};

/// Returns a number with these halves.
fn joined(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The numbers of a [`ParticleRecord`].
pub(crate) struct Unpacked {
    /// User's index.
    pub user: u32,
    pub id: u64,
    pub species: u8,
    pub position: [u64; 3],
    pub image: [i32; 3],
    pub velocity: [f64; 3],
}

impl Unpacked {
    fn packed(&self) -> ParticleRecord {
        let [x, y, z] = self.position;
        let [vx, vy, vz] = self.velocity.map(f64::to_bits);
        let [image_x, image_y, image_z] = self.image.map(|image| image as u32);
        let images = [joined(image_x, image_y), joined(image_z, self.user)];
        [x, y, z, vx, vy, vz, self.id, images[0], images[1], self.species.into()]
    }
}

impl From<&ParticleRecord> for Unpacked {
    fn from(record: &ParticleRecord) -> Self {
        let &[x, y, z, vx, vy, vz, id, images_xy, image_z_and_user, species] = record;
        Self {
            user: (image_z_and_user >> 32) as u32,
            id,
            species: species as u8,
            position: [x, y, z],
            image: [images_xy as i32, (images_xy >> 32) as i32, image_z_and_user as i32],
            velocity: [vx, vy, vz].map(f64::from_bits),
        }
    }
}

/// Returns the records of all particles, in the user's order.
pub(crate) fn packed_particles(particles: &FluidParticles) -> Vec<ParticleRecord> {
    let record = |k: usize| {
        Unpacked {
            user: k as u32,
            id: particles.id[k],
            species: particles.species[k],
            position: particles.fractions(k),
            image: [0, 1, 2].map(|axis| particles.image[axis][k]),
            velocity: particles.velocity.get(k),
        }
        .packed()
    };
    (0..particles.len()).map(record).collect()
}

/// Returns the particles of all records in the user's order. The user's indices are those from 0
/// on, each once.
pub(crate) fn unpacked_particles(bounds: SimulationBox, records: &[Vec<ParticleRecord>]) -> FluidParticles {
    let n = records.iter().map(Vec::len).sum();
    let mut particles = FluidParticles::at_rest(bounds, &Vec3s::zeros(n));
    for record in records.iter().flatten() {
        let Unpacked { user, id, species, position, image, velocity } = record.into();
        let user = user as usize;
        particles.id[user] = id;
        particles.species[user] = species;
        particles.velocity.set(user, velocity);
        for axis in 0..3 {
            particles.position[axis][user] = position[axis];
            particles.image[axis][user] = image[axis];
        }
    }
    particles
}

/// Moves the last number of each column to index `k`, whose numbers are lost.
fn remove_from<T>(columns: &mut [Vec<T>; 3], k: usize) {
    for column in columns {
        column.swap_remove(k);
    }
}

impl HostFluid {
    /// Returns particle `k` as a message.
    pub(crate) fn record(&self, k: usize) -> ParticleRecord {
        Unpacked {
            user: self.order[k],
            id: self.id[k],
            species: self.species[k],
            position: self.fractions(k),
            image: [0, 1, 2].map(|axis| self.image[axis][k]),
            velocity: [0, 1, 2].map(|axis| self.velocity[axis][k]),
        }
        .packed()
    }

    /// Removes the particles with these indices, which are in ascending order. The order of the
    /// others changes, and forces are lost. There must be no ghosts.
    pub(crate) fn remove_particles(&mut self, leaving: &[usize]) {
        for &k in leaving.iter().rev() {
            self.order.swap_remove(k);
            self.id.swap_remove(k);
            self.species.swap_remove(k);
            remove_from(&mut self.position, k);
            remove_from(&mut self.image, k);
            remove_from(&mut self.velocity, k);
        }
        self.resize_columns();
    }

    /// Adds particles behind the others. Forces are lost. There must be no ghosts.
    pub(crate) fn add_particles(&mut self, arriving: &[ParticleRecord]) {
        for record in arriving {
            let Unpacked { user, id, species, position, image, velocity } = record.into();
            self.order.push(user);
            self.id.push(id);
            self.species.push(species);
            for axis in 0..3 {
                self.position[axis].push(position[axis]);
                self.image[axis].push(image[axis]);
                self.velocity[axis].push(velocity[axis]);
            }
        }
        self.resize_columns();
    }

    /// Adapts the columns that follow from others to the number of particles.
    fn resize_columns(&mut self) {
        let n = self.len();
        self.force.iter_mut().for_each(|column| column.resize(n, 0));
        self.listed.iter_mut().for_each(|column| column.resize(n, 0));
        self.upper.iter_mut().for_each(|column| column.resize(n + MAX_LANES, 0));
        self.update_upper();
    }

    /// Returns the fractions of a particle or ghost.
    pub(crate) fn fractions(&self, k: usize) -> [u64; 3] {
        [0, 1, 2].map(|axis| self.position[axis][k])
    }

    /// Returns the user's index of a particle or ghost.
    #[cfg(test)]
    pub(crate) fn user_index(&self, k: usize) -> usize {
        self.order[k] as usize
    }

    /// Returns the upper halves of the fractions of a particle or ghost.
    pub(crate) fn upper_halves(&self, k: usize) -> [i32; 3] {
        [0, 1, 2].map(|axis| self.upper[axis][k])
    }

    /// Returns the message that makes particle `k` a ghost of another rank.
    pub(crate) fn ghost_record(&self, k: usize) -> GhostRecord {
        let [x, y, z] = self.fractions(k);
        [x, y, z, joined(self.order[k], self.species[k].into())]
    }

    /// Removes all ghosts.
    pub(crate) fn remove_ghosts(&mut self) {
        let n = self.len();
        self.order.truncate(n);
        self.species.truncate(n);
        self.position.iter_mut().for_each(|column| column.truncate(n));
        self.upper.iter_mut().for_each(|column| column.truncate(n + MAX_LANES));
    }

    /// Adds ghosts behind the particles.
    pub(crate) fn add_ghosts(&mut self, ghosts: impl Iterator<Item = GhostRecord>) {
        for [x, y, z, user_and_species] in ghosts {
            self.order.push(user_and_species as u32);
            self.species.push((user_and_species >> 32) as u8);
            self.position.iter_mut().zip([x, y, z]).for_each(|(column, x)| column.push(x));
        }
        let total = self.species.len();
        self.upper.iter_mut().for_each(|column| column.resize(total + MAX_LANES, 0));
        self.update_upper();
    }

    /// Moves the ghost at index `k`.
    pub(crate) fn move_ghost(&mut self, k: usize, fractions: [u64; 3]) {
        for axis in 0..3 {
            self.position[axis][k] = fractions[axis];
            self.upper[axis][k] = upper_half(fractions[axis]);
        }
    }

    /// Returns true if neighbour lists are used.
    pub(crate) fn uses_lists(&self) -> bool {
        self.lists.is_some()
    }

    /// Returns the work of a step for particle `k`, which has the index of the last build of lists.
    pub(crate) fn work(&self, k: usize) -> u64 {
        match &self.lists {
            Some(lists) if self.rebuilds > 0 => u64::from(WORK_PER_PARTICLE) + lists.count(k) as u64,
            _ => 1,
        }
    }

    /// Returns whether a particle has moved by more than half the skin since the last call.
    pub(crate) fn take_must_rebuild(&mut self) -> bool {
        std::mem::take(&mut self.must_rebuild)
    }
}
