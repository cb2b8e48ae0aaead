//! A uniform sphere at rest. It collapses within the free-fall time t_ff.
//!
//! M(r) = M r³/R³,   v = 0,   t_ff = (π/2) (R³ / (2 G M))^{1/2}

use std::sync::atomic::AtomicBool;

use super::{IcError, check_stop, move_to_rest_frame, require_bodies, require_positive, scaled, stream};
use crate::rng::Draws;
use crate::{Particle, Particles, Species};

/// A uniform sphere at rest.
#[derive(Clone, Debug, PartialEq)]
pub struct UniformSphere {
    /// Number of bodies.
    pub n: usize,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Total mass.
    pub mass: f64,
    /// Radius.
    pub radius: f64,
}

impl Default for UniformSphere {
    fn default() -> Self {
        Self { n: 1000, seed: 1, mass: 1.0, radius: 1.0 }
    }
}

impl UniformSphere {
    /// Samples the bodies.
    pub fn generate(&self, g: f64) -> Result<Particles, IcError> {
        self.generate_until(g, &AtomicBool::new(false))
    }

    /// Does the same as `generate`. Returns [`IcError::Stopped`] soon after `stop` is set.
    pub fn generate_until(&self, g: f64, stop: &AtomicBool) -> Result<Particles, IcError> {
        require_bodies("n", self.n)?;
        require_positive("mass", self.mass)?;
        require_positive("radius", self.radius)?;
        require_positive("g", g)?;
        let mut bodies = Particles::with_capacity(self.n);
        for id in 0..self.n as u64 {
            check_stop(stop)?;
            let mut draws = Draws::new(self.seed, stream::SPHERE, id);
            let r = self.radius * libm::cbrt(draws.uniform());
            bodies.push(Particle {
                position: scaled(draws.direction(), r),
                velocity: [0.0; 3],
                mass: self.mass / self.n as f64,
                id,
                species: Species::Halo,
            });
        }
        move_to_rest_frame(&mut bodies);
        Ok(bodies)
    }

    /// Time in which the sphere collapses to its centre.
    pub fn free_fall_time(&self, g: f64) -> f64 {
        let radius_cubed = self.radius * self.radius * self.radius;
        0.5 * std::f64::consts::PI * (radius_cubed / (2.0 * g * self.mass)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{lagrangian_radii, potential_energy_direct};
    use crate::ic::testing::{assert_well_formed, hash_bits};

    #[test]
    fn sphere_is_uniform_and_at_rest() {
        let model = UniformSphere { n: 10_000, mass: 2.0, radius: 3.0, ..UniformSphere::default() };
        let bodies = model.generate(1.0).unwrap();
        assert_well_formed(&bodies);
        assert!(bodies.velocity.iter().all(|v| v == [0.0; 3]));
        let half = lagrangian_radii(&bodies, [0.0; 3], &[0.5])[0];
        assert!((half / 3.0 - 0.5f64.cbrt()).abs() < 0.01, "{half}");
        // W = −3/5 G M²/R. The spread of φ over bodies is 0.12 of its mean.
        let w = potential_energy_direct(&bodies, 1.0, 0.0);
        assert!((w / (-0.6 * 4.0 / 3.0) - 1.0).abs() < 0.01, "{w}");
    }

    #[test]
    fn free_fall_time_of_the_unit_sphere_is_correct() {
        let time = UniformSphere::default().free_fall_time(1.0);
        assert!((time - 1.110_720_734_539_591_5).abs() < 1e-15);
    }

    #[test]
    fn same_seed_gives_the_same_bits() {
        assert_eq!(
            hash_bits(&UniformSphere { n: 64, ..UniformSphere::default() }.generate(1.0).unwrap()),
            0xc410_b58c_5450_70fb
        );
    }
}
