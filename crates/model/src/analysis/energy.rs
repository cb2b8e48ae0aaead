//! Energies:
//!
//! T = ½ Σ_i m_i v_i²,   W = −G Σ_{i<j} m_i m_j / (|x_i − x_j|² + eps²)^{1/2}

use super::sum::{CompensatedSum, compensated_sum};
use crate::Particles;

/// Kinetic energy T.
pub fn kinetic_energy(bodies: &Particles) -> f64 {
    let terms = bodies.velocity.iter().zip(&bodies.mass);
    0.5 * compensated_sum(terms.map(|([x, y, z], m)| m * (x * x + y * y + z * z)))
}

/// Potential energy W by a plain sum over all pairs. This is the reference implementation for
/// faster methods.
pub fn potential_energy_direct(bodies: &Particles, g: f64, eps: f64) -> f64 {
    let Particles { position, mass, .. } = bodies;
    let mut total = CompensatedSum::default();
    for i in 0..bodies.len() {
        let mut row = 0.0;
        for j in 0..i {
            let dx = position.x[j] - position.x[i];
            let dy = position.y[j] - position.y[i];
            let dz = position.z[j] - position.z[i];
            row += mass[j] / (dx * dx + dy * dy + dz * dz + eps * eps).sqrt();
        }
        total.add(mass[i] * row);
    }
    -g * total.value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Particle, Species};

    #[test]
    fn energies_of_two_bodies_match_the_formula() {
        let body = Particle {
            position: [0.0; 3],
            velocity: [1.0, 2.0, 2.0],
            mass: 2.0,
            id: 0,
            species: Species::Halo,
        };
        let mut bodies = Particles::default();
        bodies.push(body);
        bodies.push(Particle { position: [0.0, 3.0, 0.0], velocity: [0.0; 3], mass: 5.0, id: 1, ..body });
        assert_eq!(kinetic_energy(&bodies), 9.0);
        assert_eq!(potential_energy_direct(&bodies, 3.0, 0.0), -10.0);
        assert_eq!(potential_energy_direct(&bodies, 3.0, 4.0), -6.0);
    }
}
