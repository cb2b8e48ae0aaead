//! Burrau's Pythagorean problem: masses 3, 4 and 5 at rest at the corners of a 3-4-5 triangle.
//!
//! Each mass is opposite the side of its length. After many close encounters the lightest body is
//! ejected, near t = 60 for G = 1 (Burrau 1913, AN 195, 113, and Szebehely & Peters 1967, AJ 72,
//! 876). The orbit depends only on G m, so the masses are divided by g.

use super::{IcError, require_positive};
use crate::{Particle, Particles, Species};

/// The Pythagorean three-body problem.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pythagorean;

impl Pythagorean {
    /// Returns the three bodies.
    pub fn generate(&self, g: f64) -> Result<Particles, IcError> {
        require_positive("g", g)?;
        let corners = [(3.0, [1.0, 3.0, 0.0]), (4.0, [-2.0, -1.0, 0.0]), (5.0, [1.0, -1.0, 0.0])];
        let mut bodies = Particles::with_capacity(3);
        for (id, (mass, position)) in corners.into_iter().enumerate() {
            let species = Species::Stars;
            bodies.push(Particle { position, velocity: [0.0; 3], mass: mass / g, id: id as u64, species });
        }
        Ok(bodies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::potential_energy_direct;
    use crate::ic::testing::assert_well_formed;

    /// The energy is −(3·4/5 + 3·5/4 + 4·5/3): each pair of masses is as far apart as the third
    /// mass.
    #[test]
    fn energy_is_that_of_the_triangle_for_any_g() {
        let bodies = Pythagorean.generate(1.0).unwrap();
        assert_well_formed(&bodies);
        let energy = potential_energy_direct(&bodies, 1.0, 0.0);
        assert!((energy + 769.0 / 60.0).abs() < 1e-14, "{energy}");
        let scaled = Pythagorean.generate(2.0).unwrap();
        assert!((2.0 * potential_energy_direct(&scaled, 2.0, 0.0) - energy).abs() < 1e-14);
    }
}
