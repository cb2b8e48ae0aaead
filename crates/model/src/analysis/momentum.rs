//! Momenta and the centre of mass:
//!
//! p = Σ m v,   L = Σ m x × v,   x_c = Σ m x / Σ m,   v_c = p / Σ m
//!
//! For a system without mass, the centre is at rest at the origin.

use super::sum::{compensated_sum, compensated_vector_sum};
use crate::{Particles, Vec3s};

/// Total momentum.
pub fn momentum(bodies: &Particles) -> [f64; 3] {
    weighted_sum(&bodies.velocity, &bodies.mass)
}

/// Total angular momentum about the origin.
pub fn angular_momentum(bodies: &Particles) -> [f64; 3] {
    compensated_vector_sum(bodies.iter().map(|body| {
        let ([x, y, z], [u, v, w], m) = (body.position, body.velocity, body.mass);
        [m * (y * w - z * v), m * (z * u - x * w), m * (x * v - y * u)]
    }))
}

/// Centre of mass.
pub fn centre_of_mass(bodies: &Particles) -> [f64; 3] {
    weighted_mean(&bodies.position, &bodies.mass)
}

/// Velocity of the centre of mass.
pub fn centre_of_mass_velocity(bodies: &Particles) -> [f64; 3] {
    weighted_mean(&bodies.velocity, &bodies.mass)
}

fn weighted_sum(vectors: &Vec3s, weights: &[f64]) -> [f64; 3] {
    compensated_vector_sum(vectors.iter().zip(weights).map(|(v, m)| v.map(|c| m * c)))
}

fn weighted_mean(vectors: &Vec3s, weights: &[f64]) -> [f64; 3] {
    let total = compensated_sum(weights.iter().copied());
    if total > 0.0 { weighted_sum(vectors, weights).map(|c| c / total) } else { [0.0; 3] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Particle, Species};

    #[test]
    fn momenta_and_centre_of_two_bodies_match_the_formula() {
        let mut bodies = Particles::default();
        assert_eq!(centre_of_mass(&bodies), [0.0; 3]);
        let species = Species::Halo;
        bodies.push(Particle {
            position: [1.0, 0.0, 0.0],
            velocity: [0.0, 2.0, 0.0],
            mass: 3.0,
            id: 0,
            species,
        });
        bodies.push(Particle {
            position: [0.0, 0.0, 4.0],
            velocity: [0.0, 1.0, 0.0],
            mass: 1.0,
            id: 1,
            species,
        });
        assert_eq!(momentum(&bodies), [0.0, 7.0, 0.0]);
        assert_eq!(angular_momentum(&bodies), [-4.0, 0.0, 6.0]);
        assert_eq!(centre_of_mass(&bodies), [0.75, 0.0, 1.0]);
        assert_eq!(centre_of_mass_velocity(&bodies), [0.0, 1.75, 0.0]);
    }
}
