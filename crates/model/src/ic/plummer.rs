//! The Plummer sphere, a star cluster in equilibrium.
//!
//! ρ(r) = 3M / (4πa³) (1 + r²/a²)^{−5/2},   M(r) = M r³ / (r² + a²)^{3/2},   f(E) ∝ (−E)^{7/2}
//!
//! Sampled as by Aarseth, Hénon & Wielen (1974, A&A 37, 183): the radius by inverting M(r), the speed as
//! q times the local escape speed with density q² (1 − q²)^{7/2}, by rejection.
//!
//! The outermost thousandth of the mass is left out: it would reach to r ~ a N^{1/2}, so a few bodies would
//! set the size of every picture and tree and hold nothing. The rest (r < 38.7 a) is given the whole mass;
//! the sphere that it is cut from then has M/0.999, which is what the speeds are drawn for.

use super::{IcError, centre, require_bodies, require_positive, scaled, stream};
use crate::rng::Draws;
use crate::{Particle, Particles, Species};

/// The share of the mass that is sampled, from the centre outwards.
const MASS_FRACTION: f64 = 0.999;
/// Above the largest value of q² (1 − q²)^{7/2}, 0.0922 at q² = 2/9.
const LARGEST_DENSITY: f64 = 0.1;

/// A Plummer sphere.
#[derive(Clone, Debug, PartialEq)]
pub struct Plummer {
    /// How many bodies.
    pub n: usize,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Mass of all bodies.
    pub mass: f64,
    /// The scale radius a.
    pub scale_radius: f64,
}

impl Default for Plummer {
    /// N-body units (Hénon units): G = M = 1 and E = −1/4, so a = 3π/16 and the half-mass radius is 0.769.
    fn default() -> Self {
        Self { n: 1000, seed: 1, mass: 1.0, scale_radius: 3.0 * std::f64::consts::PI / 16.0 }
    }
}

impl Plummer {
    /// Samples the bodies.
    ///
    /// ```
    /// use orrery_model::ic::Plummer;
    /// let bodies = Plummer { n: 100, ..Plummer::default() }.generate(1.0).unwrap();
    /// assert_eq!(bodies.len(), 100);
    /// ```
    pub fn generate(&self, g: f64) -> Result<Particles, IcError> {
        require_bodies("n", self.n)?;
        require_positive("mass", self.mass)?;
        require_positive("scale_radius", self.scale_radius)?;
        require_positive("g", g)?;
        let escape_from_centre = (2.0 * g * self.mass / MASS_FRACTION / self.scale_radius).sqrt();
        let mut bodies = Particles::with_capacity(self.n);
        for id in 0..self.n as u64 {
            let mut draws = Draws::new(self.seed, stream::SPHERE, id);
            let enclosed = libm::cbrt(MASS_FRACTION * draws.uniform());
            // r in units of a; with m = (M(r)/M)^{1/3}: r² = m² / (1 − m²) and 1 + r² = 1 / (1 − m²).
            let outside = 1.0 - enclosed * enclosed;
            let radius = self.scale_radius * enclosed / outside.sqrt();
            let escape = escape_from_centre * outside.sqrt().sqrt();
            bodies.push(Particle {
                position: scaled(draws.direction(), radius),
                velocity: scaled(draws.direction(), escape * share_of_escape_speed(&mut draws)),
                mass: self.mass / self.n as f64,
                id,
                species: Species::Halo,
            });
        }
        centre(&mut bodies);
        Ok(bodies)
    }
}

fn share_of_escape_speed(draws: &mut Draws) -> f64 {
    loop {
        let q = draws.uniform();
        let rest = 1.0 - q * q;
        if LARGEST_DENSITY * draws.uniform() < q * q * rest * rest * rest * rest.sqrt() {
            return q;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{kinetic_energy, lagrangian_radii, potential_energy_direct};
    use crate::ic::testing::{assert_well_formed, hash};

    #[test]
    fn energies_and_radii_are_plummers() {
        let n = 20_000;
        let bodies = Plummer { n, ..Plummer::default() }.generate(1.0).unwrap();
        assert_well_formed(&bodies);
        let (t, w) = (kinetic_energy(&bodies), potential_energy_direct(&bodies, 1.0, 0.0));
        // The spread of v²/⟨v²⟩ and of φ/⟨φ⟩ over bodies is below 1; four standard errors, plus the 0.2%
        // by which the cut sphere is more tightly bound.
        let noise = 4.0 / (n as f64).sqrt();
        assert!((2.0 * t / -w - 1.0).abs() < noise, "virial ratio {}", 2.0 * t / -w);
        assert!((t + w + 0.25).abs() < 0.25 * (noise + 0.002), "energy {}", t + w);
        let half = lagrangian_radii(&bodies, [0.0; 3], &[0.5])[0];
        // dM/dr = 0.43 at r_h: one standard error of the radius is 0.5 / sqrt(n) / 0.43.
        assert!((half - 0.769).abs() < 4.0 * 0.5 / 0.43 / (n as f64).sqrt(), "half-mass radius {half}");
    }

    #[test]
    fn the_speed_bound_is_a_bound() {
        let density = |q: f64| q * q * (1.0 - q * q).powf(3.5);
        assert!((0..=1000).all(|k| density(k as f64 / 1000.0) < LARGEST_DENSITY));
    }

    #[test]
    fn units_scale() {
        let small = Plummer { n: 50, ..Plummer::default() };
        let large = Plummer { mass: 8.0, scale_radius: 2.0 * small.scale_radius, ..small.clone() };
        let (small, large) = (small.generate(1.0).unwrap(), large.generate(1.0).unwrap());
        // v² ~ M / a = 4.
        for i in 0..50 {
            assert!((large.position.x[i] - 2.0 * small.position.x[i]).abs() < 1e-13);
            assert!((large.velocity.x[i] - 2.0 * small.velocity.x[i]).abs() < 1e-13);
        }
    }

    /// A golden value: a change means that old seeds give new bodies.
    #[test]
    fn same_seed_same_bits() {
        let model = Plummer { n: 64, ..Plummer::default() };
        assert_eq!(hash(&model.generate(1.0).unwrap()), 0xdcc6_a23b_f031_f3bd);
        let other = Plummer { seed: 2, ..model.clone() };
        assert_ne!(hash(&model.generate(1.0).unwrap()), hash(&other.generate(1.0).unwrap()));
    }
}
