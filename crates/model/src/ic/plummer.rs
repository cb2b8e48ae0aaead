//! The Plummer sphere, a star cluster in equilibrium.
//!
//! ρ(r) = 3M / (4πa³) (1 + r²/a²)^{−5/2},   M(r) = M r³ / (r² + a²)^{3/2},   f(E) ∝ (−E)^{7/2}
//!
//! Sampling follows Aarseth, Hénon & Wielen (1974, A&A 37, 183):
//!
//! - The radius solves M(r) = u M for a uniform random number u.
//! - The speed is q v_esc(r), with v_esc² = 2 G M / (r² + a²)^{1/2}. The fraction q has density
//!   ∝ q² (1 − q²)^{7/2} and is drawn by rejection.
//! - Both directions are uniform on the sphere.
//!
//! The outermost 0.1% of the mass is not sampled. It would reach r ~ a N^{1/2}, where a few bodies
//! with negligible mass would set the size of every picture and tree. The sampled part (r < 38.7 a)
//! gets the whole mass M, so it is cut from a sphere of mass M/0.999. The speeds are drawn for that
//! sphere.
//!
//! Invariants: body `id` depends only on (seed, id) and the parameters, up to the final shift to
//! the rest frame. All bodies have mass M/n. The centre of mass rests at the origin.

use std::sync::atomic::AtomicBool;

use super::{IcError, check_stop, move_to_rest_frame, require_bodies, require_positive, scaled, stream};
use crate::rng::Draws;
use crate::{Particle, Particles, Species};

/// Fraction of the mass that is sampled, from the centre outwards.
const MASS_FRACTION: f64 = 0.999;
/// Upper bound of q² (1 − q²)^{7/2}. The maximum is 0.0922, at q² = 2/9.
const MAX_SPEED_DENSITY: f64 = 0.1;

/// A Plummer sphere.
#[derive(Clone, Debug, PartialEq)]
pub struct Plummer {
    /// Number of bodies.
    pub n: usize,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Total mass M.
    pub mass: f64,
    /// Scale radius a. Half of the mass lies within 1.305 a.
    pub scale_radius: f64,
}

impl Default for Plummer {
    /// N-body units (Hénon units): G = M = 1 and E = −1/4, so a = 3π/16 and the half-mass radius is
    /// 0.769.
    fn default() -> Self {
        Self { n: 1000, seed: 1, mass: 1.0, scale_radius: 3.0 * std::f64::consts::PI / 16.0 }
    }
}

impl Plummer {
    /// Samples the bodies. `g` is the gravitational constant in the units of the parameters.
    ///
    /// ```
    /// use orrery_model::ic::Plummer;
    /// let bodies = Plummer { n: 100, ..Plummer::default() }.generate(1.0).unwrap();
    /// assert_eq!(bodies.len(), 100);
    /// ```
    pub fn generate(&self, g: f64) -> Result<Particles, IcError> {
        self.generate_until(g, &AtomicBool::new(false))
    }

    /// Does the same as `generate`. Returns [`IcError::Stopped`] soon after `stop` is set.
    pub fn generate_until(&self, g: f64, stop: &AtomicBool) -> Result<Particles, IcError> {
        require_bodies("n", self.n)?;
        require_positive("mass", self.mass)?;
        require_positive("scale_radius", self.scale_radius)?;
        require_positive("g", g)?;
        // v_esc(0)² = 2 G M / a.
        let central_escape_speed = (2.0 * g * self.mass / MASS_FRACTION / self.scale_radius).sqrt();
        let mut bodies = Particles::with_capacity(self.n);
        for id in 0..self.n as u64 {
            check_stop(stop)?;
            let mut draws = Draws::new(self.seed, stream::SPHERE, id);
            // With m = (M(r)/M)^{1/3} and r in units of a: r² = m² / (1 − m²), 1 + r² = 1 / (1 −
            // m²).
            let m = libm::cbrt(MASS_FRACTION * draws.uniform());
            let one_minus_m2 = 1.0 - m * m;
            let radius = self.scale_radius * m / one_minus_m2.sqrt();
            let escape_speed = central_escape_speed * one_minus_m2.sqrt().sqrt();
            bodies.push(Particle {
                position: scaled(draws.direction(), radius),
                velocity: scaled(draws.direction(), escape_speed * draw_speed_fraction(&mut draws)),
                mass: self.mass / self.n as f64,
                id,
                species: Species::Stars,
            });
        }
        move_to_rest_frame(&mut bodies);
        Ok(bodies)
    }
}

/// Draws q, the speed as a fraction of the escape speed, by rejection under a constant bound.
fn draw_speed_fraction(draws: &mut Draws) -> f64 {
    loop {
        let q = draws.uniform();
        let p = 1.0 - q * q;
        if MAX_SPEED_DENSITY * draws.uniform() < q * q * p * p * p * p.sqrt() {
            return q;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{kinetic_energy, lagrangian_radii, potential_energy_direct};
    use crate::ic::testing::{assert_well_formed, hash_bits};

    /// In N-body units E = −1/4, 2T = −W, and the half-mass radius is 0.769.
    #[test]
    fn energies_and_half_mass_radius_match_the_plummer_model() {
        let n = 20_000;
        let bodies = Plummer { n, ..Plummer::default() }.generate(1.0).unwrap();
        assert_well_formed(&bodies);
        let (t, w) = (kinetic_energy(&bodies), potential_energy_direct(&bodies, 1.0, 0.0));
        // The spread of v²/⟨v²⟩ and of φ/⟨φ⟩ over bodies is below 1. The tolerance is four standard
        // errors, plus the 0.2% by which the truncated sphere is more tightly bound.
        let noise = 4.0 / (n as f64).sqrt();
        assert!((2.0 * t / -w - 1.0).abs() < noise, "virial ratio {}", 2.0 * t / -w);
        assert!((t + w + 0.25).abs() < 0.25 * (noise + 0.002), "energy {}", t + w);
        let half = lagrangian_radii(&bodies, [0.0; 3], &[0.5])[0];
        // dM/dr = 0.43 at r_h, so one standard error of the radius is 0.5 / sqrt(n) / 0.43.
        assert!((half - 0.769).abs() < 4.0 * 0.5 / 0.43 / (n as f64).sqrt(), "half-mass radius {half}");
    }

    #[test]
    fn rejection_bound_is_above_the_density() {
        let density = |q: f64| q * q * (1.0 - q * q).powf(3.5);
        assert!((0..=1000).all(|k| density(k as f64 / 1000.0) < MAX_SPEED_DENSITY));
    }

    #[test]
    fn positions_and_velocities_scale_with_mass_and_radius() {
        let small = Plummer { n: 50, ..Plummer::default() };
        let large = Plummer { mass: 8.0, scale_radius: 2.0 * small.scale_radius, ..small.clone() };
        let (small, large) = (small.generate(1.0).unwrap(), large.generate(1.0).unwrap());
        // v² ~ M / a, here 8 / 2 = 4.
        for i in 0..50 {
            assert!((large.position.x[i] - 2.0 * small.position.x[i]).abs() < 1e-13);
            assert!((large.velocity.x[i] - 2.0 * small.velocity.x[i]).abs() < 1e-13);
        }
    }

    /// Recorded hash. If it changes, existing seeds give different bodies.
    #[test]
    fn same_seed_gives_the_same_bits() {
        let model = Plummer { n: 64, ..Plummer::default() };
        assert_eq!(hash_bits(&model.generate(1.0).unwrap()), 0xdcc6_a23b_f031_f3bd);
        let other = Plummer { seed: 2, ..model.clone() };
        assert_ne!(hash_bits(&model.generate(1.0).unwrap()), hash_bits(&other.generate(1.0).unwrap()));
    }
}
