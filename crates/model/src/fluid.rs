//! Particles of a fluid in a box.

use crate::Vec3s;
use crate::simulation_box::SimulationBox;

/// Particles in a box, in the order of the user.
#[derive(Clone, Debug, PartialEq)]
pub struct FluidParticles {
    /// The box.
    pub bounds: SimulationBox,
    /// Fractions of the box along each axis, one per particle.
    pub position: [Vec<u64>; 3],
    /// Number of the image of the box that a particle is in: it has left the box this many times.
    pub image: [Vec<i32>; 3],
    /// Velocities.
    pub velocity: Vec3s,
    /// Index of the species of each particle.
    pub species: Vec<u8>,
    /// Identifiers, all different.
    pub id: Vec<u64>,
}

impl FluidParticles {
    /// Returns particles at rest at these coordinates. They have the species 0, and identifiers
    /// from 0 on. Coordinates outside a periodic box are moved into it.
    pub fn at_rest(bounds: SimulationBox, coordinates: &Vec3s) -> Self {
        let n = coordinates.len();
        let mut particles = Self {
            bounds,
            position: [(); 3].map(|()| vec![0; n]),
            image: [(); 3].map(|()| vec![0; n]),
            velocity: Vec3s::zeros(n),
            species: vec![0; n],
            id: (0..n as u64).collect(),
        };
        let columns = [&coordinates.x, &coordinates.y, &coordinates.z];
        for axis in 0..bounds.dimensions {
            for (particle, &x) in columns[axis].iter().enumerate() {
                (particles.position[axis][particle], particles.image[axis][particle]) =
                    bounds.fraction(axis, x);
            }
        }
        particles
    }

    /// Returns the number of particles.
    pub fn len(&self) -> usize {
        self.id.len()
    }

    /// Returns true if there are no particles.
    pub fn is_empty(&self) -> bool {
        self.id.is_empty()
    }

    /// Returns the fractions of a particle.
    pub fn fractions(&self, particle: usize) -> [u64; 3] {
        [0, 1, 2].map(|axis| self.position[axis][particle])
    }

    /// Returns the coordinates within the box. In two dimensions z is 0.
    pub fn coordinates(&self) -> Vec3s {
        self.map_coordinates(|axis, particle| self.bounds.coordinate(axis, self.position[axis][particle]))
    }

    /// Returns the coordinates that follow each particle through the images of the box.
    pub fn unwrapped_coordinates(&self) -> Vec3s {
        self.map_coordinates(|axis, particle| {
            let image = f64::from(self.image[axis][particle]);
            self.bounds.coordinate(axis, self.position[axis][particle]) + image * self.bounds.lengths[axis]
        })
    }

    fn map_coordinates(&self, coordinate: impl Fn(usize, usize) -> f64) -> Vec3s {
        let column = |axis: usize| {
            let is_used = axis < self.bounds.dimensions;
            (0..self.len()).map(|k| if is_used { coordinate(axis, k) } else { 0.0 }).collect()
        };
        Vec3s { x: column(0), y: column(1), z: column(2) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_wrapped_and_unwrapped() {
        let bounds = SimulationBox::periodic([4.0, 2.0, 8.0], 3);
        let coordinates = Vec3s { x: vec![1.0, -1.0], y: vec![0.5, 5.5], z: vec![7.0, 8.0] };
        let particles = FluidParticles::at_rest(bounds, &coordinates);
        assert_eq!(
            particles.coordinates(),
            Vec3s { x: vec![1.0, 3.0], y: vec![0.5, 1.5], z: vec![7.0, 0.0] }
        );
        assert_eq!(particles.unwrapped_coordinates(), coordinates);
        assert_eq!((particles.len(), particles.image[1][1]), (2, 2));
    }

    #[test]
    fn particles_in_a_plane_have_no_z() {
        let coordinates = Vec3s { x: vec![1.0], y: vec![0.5], z: vec![3.0] };
        let particles = FluidParticles::at_rest(SimulationBox::periodic([4.0, 2.0, 1.0], 2), &coordinates);
        assert_eq!(particles.unwrapped_coordinates().get(0), [1.0, 0.5, 0.0]);
    }
}
