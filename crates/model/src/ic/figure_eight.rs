//! The figure-eight: three equal masses follow one another along a closed curve.
//!
//! Found by Moore (1993), proved by Chenciner & Montgomery (2000, Ann. Math. 152, 881). They print
//! the initial data computed by Simó to eight digits. All fourteen known digits are used here.
//!
//! The data are for G = 1 and unit masses. The orbit depends only on G m, so the masses are 1/g for
//! other values of g.

use super::{IcError, require_positive, scaled};
use crate::{Particle, Particles, Species};

const FIRST_POSITION: [f64; 3] = [0.970_004_356_697_34, -0.243_087_531_535_83, 0.0];
const THIRD_VELOCITY: [f64; 3] = [-0.932_407_371_441_04, -0.864_731_460_921_02, 0.0];

/// The figure-eight orbit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FigureEight;

impl FigureEight {
    /// Time after which each body is back at its initial position.
    pub const PERIOD: f64 = 6.325_913_98;

    /// Returns the three bodies.
    pub fn generate(&self, g: f64) -> Result<Particles, IcError> {
        require_positive("g", g)?;
        let pair_velocity = scaled(THIRD_VELOCITY, -0.5);
        let states = [
            (FIRST_POSITION, pair_velocity),
            (scaled(FIRST_POSITION, -1.0), pair_velocity),
            ([0.0; 3], THIRD_VELOCITY),
        ];
        let mut bodies = Particles::with_capacity(3);
        for (id, (position, velocity)) in states.into_iter().enumerate() {
            bodies.push(Particle {
                position,
                velocity,
                mass: 1.0 / g,
                id: id as u64,
                species: Species::Stars,
            });
        }
        Ok(bodies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{angular_momentum, kinetic_energy, max_or_nan, momentum, potential_energy_direct};
    use crate::ic::testing::assert_well_formed;

    #[test]
    fn momentum_and_energy_match_the_published_orbit() {
        let bodies = FigureEight.generate(1.0).unwrap();
        assert_well_formed(&bodies);
        assert_eq!(momentum(&bodies), [0.0; 3]);
        assert!(angular_momentum(&bodies)[2].abs() < 1e-15);
        let energy = kinetic_energy(&bodies) + potential_energy_direct(&bodies, 1.0, 0.0);
        assert!((energy + 1.287_142).abs() < 1e-6, "{energy}");
    }

    /// A plain leapfrog returns to the start after one period up to its own error, which is second
    /// order: half the step gives a quarter of the error.
    #[test]
    fn bodies_return_after_one_period() {
        let error = |steps: u32| {
            let mut bodies = FigureEight.generate(2.0).unwrap();
            let start = bodies.clone();
            let dt = FigureEight::PERIOD / f64::from(steps);
            for _ in 0..steps {
                drift(&mut bodies, 0.5 * dt);
                kick(&mut bodies, 2.0, dt);
                drift(&mut bodies, 0.5 * dt);
            }
            (0..3).map(|i| (bodies.position.x[i] - start.position.x[i]).abs()).fold(0.0, max_or_nan)
        };
        let (coarse, fine) = (error(2000), error(4000));
        assert!(fine < 1e-4, "{fine}");
        assert!((coarse / fine - 4.0).abs() < 0.1, "{coarse} {fine}");
    }

    fn drift(bodies: &mut Particles, dt: f64) {
        for i in 0..3 {
            let (x, v) = (bodies.position.get(i), bodies.velocity.get(i));
            bodies.position.set(i, [0, 1, 2].map(|k| x[k] + dt * v[k]));
        }
    }

    fn kick(bodies: &mut Particles, g: f64, dt: f64) {
        for (i, j) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            let (x, y) = (bodies.position.get(i), bodies.position.get(j));
            let d = [0, 1, 2].map(|k| y[k] - x[k]);
            let r = d.iter().map(|c| c * c).sum::<f64>().sqrt();
            let v = bodies.velocity.get(i);
            bodies.velocity.set(i, [0, 1, 2].map(|k| v[k] + dt * g * bodies.mass[j] * d[k] / (r * r * r)));
        }
    }
}
