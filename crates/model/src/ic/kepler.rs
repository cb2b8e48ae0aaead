//! Two bodies on a Kepler ellipse.
//!
//! M = E − e sin E,   x = a (cos E − e),   y = a (1 − e²)^{1/2} sin E
//!
//! in the orbital plane, with x towards the pericentre. This plane is rotated by the argument of
//! pericentre ω about its normal, by the inclination i about the line of nodes, and by the node Ω
//! about the z axis (Murray & Dermott 1999, Solar System Dynamics, §2.8).

use std::f64::consts::{PI, TAU};

use super::{IcError, MAGNITUDES, require_angle, require_between, require_positive, require_range, scaled};
use crate::{Particle, Particles, Species};

/// Two bodies on an elliptic orbit, given by the elements of the secondary relative to the primary.
/// Angles in radians.
#[derive(Clone, Debug, PartialEq)]
pub struct Kepler {
    /// Mass of the primary, body 0.
    pub primary_mass: f64,
    /// Mass of the secondary, body 1. It may be 0.
    pub secondary_mass: f64,
    /// Semi-major axis of the relative orbit.
    pub semi_major_axis: f64,
    /// Eccentricity, 0 <= e < 1.
    pub eccentricity: f64,
    /// Inclination to the x-y plane.
    pub inclination: f64,
    /// Longitude of the ascending node.
    pub node: f64,
    /// Argument of pericentre.
    pub pericentre: f64,
    /// Mean anomaly. It is 0 at the pericentre.
    pub mean_anomaly: f64,
}

impl Default for Kepler {
    /// Two masses of 1/2 on a circle of diameter 1. The period is 2π for g = 1.
    fn default() -> Self {
        Self {
            primary_mass: 0.5,
            secondary_mass: 0.5,
            semi_major_axis: 1.0,
            eccentricity: 0.0,
            inclination: 0.0,
            node: 0.0,
            pericentre: 0.0,
            mean_anomaly: 0.0,
        }
    }
}

impl Kepler {
    /// Returns the two bodies.
    pub fn generate(&self, g: f64) -> Result<Particles, IcError> {
        require_positive("primary_mass", self.primary_mass)?;
        require_between("secondary_mass", self.secondary_mass, [0.0, MAGNITUDES[1]])?;
        require_positive("semi_major_axis", self.semi_major_axis)?;
        let range = "0 <= eccentricity < 1".to_owned();
        require_range((0.0..1.0).contains(&self.eccentricity), "eccentricity", self.eccentricity, range)?;
        require_angle("inclination", self.inclination)?;
        require_angle("node", self.node)?;
        require_angle("pericentre", self.pericentre)?;
        require_angle("mean_anomaly", self.mean_anomaly)?;
        require_positive("g", g)?;
        let total = self.primary_mass + self.secondary_mass;
        let (position, velocity) = state_from_elements(
            g * total,
            self.semi_major_axis,
            self.eccentricity,
            self.inclination,
            self.node,
            self.pericentre,
            self.mean_anomaly,
        );
        let mut bodies = Particles::with_capacity(2);
        let distance_fractions = [-self.secondary_mass / total, self.primary_mass / total];
        for (id, (fraction, mass)) in
            distance_fractions.into_iter().zip([self.primary_mass, self.secondary_mass]).enumerate()
        {
            bodies.push(Particle {
                position: scaled(position, fraction),
                velocity: scaled(velocity, fraction),
                mass,
                id: id as u64,
                species: Species::Stars,
            });
        }
        Ok(bodies)
    }

    /// Orbital period 2π (a³ / (G (m_1 + m_2)))^{1/2}.
    pub fn period(&self, g: f64) -> f64 {
        let a = self.semi_major_axis;
        TAU * (a * a * a / (g * (self.primary_mass + self.secondary_mass))).sqrt()
    }
}

/// Returns position and velocity on an ellipse (0 <= e < 1), relative to the centre of attraction.
///
/// `gm` is G times the mass that attracts: G (m_1 + m_2) for the relative orbit of two bodies.
///
/// ```
/// use orrery_model::ic::state_from_elements;
/// let (x, v) = state_from_elements(1.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0);
/// assert_eq!(x, [0.5, 0.0, 0.0]);                       // pericentre, a (1 - e)
/// assert!((v[1] - 3f64.sqrt()).abs() < 1e-15);          // ((1 + e) / (1 - e))^{1/2}
/// ```
pub fn state_from_elements(
    gm: f64,
    a: f64,
    e: f64,
    i: f64,
    node: f64,
    argument_of_pericentre: f64,
    mean_anomaly: f64,
) -> ([f64; 3], [f64; 3]) {
    let anomaly = eccentric_anomaly(mean_anomaly, e);
    let (sin, cos) = (libm::sin(anomaly), libm::cos(anomaly));
    let half = libm::sin(0.5 * anomaly);
    // cos E − e and 1 − e cos E, without cancellation near the pericentre of an eccentric orbit.
    let (x, distance) = ((1.0 - e) - 2.0 * half * half, (1.0 - e) + 2.0 * e * half * half);
    let flattening = ((1.0 - e) * (1.0 + e)).sqrt();
    let speed = (gm / a).sqrt() / distance;
    let position = [a * x, a * flattening * sin, 0.0];
    let velocity = [-speed * sin, speed * flattening * cos, 0.0];
    let rotated = |v| rotated_about_z(rotated_about_x(rotated_about_z(v, argument_of_pericentre), i), node);
    (rotated(position), rotated(velocity))
}

/// Rotates a vector by `angle` about the z axis.
pub(super) fn rotated_about_z([x, y, z]: [f64; 3], angle: f64) -> [f64; 3] {
    let (sin, cos) = (libm::sin(angle), libm::cos(angle));
    [cos * x - sin * y, sin * x + cos * y, z]
}

/// Rotates a vector by `angle` about the x axis.
pub(super) fn rotated_about_x([x, y, z]: [f64; 3], angle: f64) -> [f64; 3] {
    let (sin, cos) = (libm::sin(angle), libm::cos(angle));
    [x, cos * y - sin * z, sin * y + cos * z]
}

/// Solves Kepler's equation M = E − e sin E for E.
///
/// Newton's method runs inside a bracket. A step that would leave the bracket is replaced by a
/// bisection, which happens near the pericentre of eccentric orbits.
fn eccentric_anomaly(mean_anomaly: f64, e: f64) -> f64 {
    let revolutions = (mean_anomaly / TAU).round();
    let m = mean_anomaly - TAU * revolutions;
    // |E − M| = e |sin E| <= e, and E has the sign of M.
    let (mut low, mut high) = if m >= 0.0 { (m, (m + e).min(PI)) } else { ((m - e).max(-PI), m) };
    let mut anomaly = if m >= 0.0 { high } else { low };
    // Bisection alone would need about 60 iterations for all digits.
    for _ in 0..64 {
        let excess = anomaly - e * libm::sin(anomaly) - m;
        if excess > 0.0 {
            high = anomaly
        } else {
            low = anomaly
        }
        let newton = anomaly - excess / (1.0 - e * libm::cos(anomaly));
        let next = if (low..=high).contains(&newton) { newton } else { 0.5 * (low + high) };
        if next == anomaly {
            break;
        }
        anomaly = next;
    }
    anomaly
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{angular_momentum, kinetic_energy, potential_energy_direct};
    use crate::ic::testing::assert_well_formed;
    use proptest::prelude::*;

    fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
        a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    }

    fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    }

    /// Computes (a, e, i, Ω, ω, M) from a state, by the textbook inversion.
    fn orbital_elements(gm: f64, x: [f64; 3], v: [f64; 3]) -> [f64; 6] {
        let r = dot(x, x).sqrt();
        let a = 1.0 / (2.0 / r - dot(v, v) / gm);
        let h = cross(x, v);
        let vh = cross(v, h);
        let toward: [f64; 3] = [0, 1, 2].map(|k| vh[k] / gm - x[k] / r);
        let e = dot(toward, toward).sqrt();
        let normal = scaled(h, 1.0 / dot(h, h).sqrt());
        let inclination = normal[2].acos();
        let node = normal[0].atan2(-normal[1]);
        let line = [node.cos(), node.sin(), 0.0];
        let argument = dot(cross(line, toward), normal).atan2(dot(line, toward));
        let anomaly = (dot(x, v) / (gm * a).sqrt()).atan2(1.0 - r / a);
        [a, e, inclination, node, argument, anomaly - e * anomaly.sin()]
    }

    proptest! {
        #[test]
        fn elements_are_recovered_from_the_state(
            a in 0.1..10.0f64, e in 0.01..0.999f64, i in 0.1..3.0f64,
            node in -3.1..3.1f64, argument in -3.1..3.1f64, mean in -3.1..3.1f64, gm in 0.1..10.0f64,
        ) {
            let (x, v) = state_from_elements(gm, a, e, i, node, argument, mean);
            let recovered = orbital_elements(gm, x, v);
            for (got, expected) in recovered.into_iter().zip([a, e, i, node, argument, mean]) {
                prop_assert!((got - expected).abs() < 1e-9 * (1.0 + a), "{recovered:?}");
            }
        }

        /// The residual of Kepler's equation is a rounding error, also for nearly parabolic orbits.
        #[test]
        fn keplers_equation_is_solved_to_rounding(mean in -20.0..20.0f64, digits in 0.0..15.0f64) {
            let e = 1.0 - 10f64.powf(-digits);
            let anomaly = eccentric_anomaly(mean, e);
            let residual = (anomaly - e * anomaly.sin() - mean) / TAU;
            prop_assert!((residual - residual.round()).abs() < 1e-15, "e = {e}: {residual}");
        }
    }

    #[test]
    fn energy_period_and_angular_momentum_match_the_elements() {
        let (g, e) = (2.0, 0.9);
        let orbit = Kepler {
            primary_mass: 3.0,
            secondary_mass: 1.0,
            semi_major_axis: 1.5,
            eccentricity: e,
            mean_anomaly: 1.0,
            ..Kepler::default()
        };
        let bodies = orbit.generate(g).unwrap();
        assert_well_formed(&bodies);
        let energy = kinetic_energy(&bodies) + potential_energy_direct(&bodies, g, 0.0);
        assert!((energy + g * 3.0 / (2.0 * 1.5)).abs() < 1e-14, "{energy}");
        let reduced = 0.75;
        let expected = reduced * (g * 4.0 * 1.5 * (1.0 - e * e)).sqrt();
        assert!((angular_momentum(&bodies)[2] - expected).abs() < 1e-14);
        assert!((orbit.period(g) - TAU * (1.5f64.powi(3) / 8.0).sqrt()).abs() < 1e-14);
        assert!((Kepler::default().period(1.0) - TAU).abs() < 1e-15);
    }

    #[test]
    fn massless_secondary_is_allowed() {
        let bodies = Kepler { secondary_mass: 0.0, ..Kepler::default() }.generate(1.0).unwrap();
        assert_eq!(bodies.position.get(0), [0.0; 3]);
        assert_eq!(bodies.position.get(1), [1.0, 0.0, 0.0]);
    }
}
