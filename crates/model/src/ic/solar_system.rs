//! The Sun and the eight planets at J2000 (JD 2451545.0 TDB), in the mean ecliptic and equinox of
//! J2000.
//!
//! Elements: Standish, "Keplerian elements for approximate positions of the major planets", JPL,
//! table 1 (fit for 1800–2050, with errors of about 20" for the inner planets and 10' for Saturn).
//! The row of the Earth gives the orbit of the barycentre of Earth and Moon and the mass of both.
//! Mass ratios: IAU 2009 system of constants (Luzum et al. 2011, Celest. Mech. 110, 293).
//!
//! The mean anomaly is L − ϖ and the argument of perihelion ϖ − Ω.

use super::{IcError, move_to_rest_frame, require_positive, state_from_elements};
use crate::units::{SOLAR_MASS, Units};
use crate::{Particle, Particles, Species};

/// One row of the table, in au and degrees.
struct Planet {
    semi_major_axis: f64,
    eccentricity: f64,
    inclination: f64,
    mean_longitude: f64,
    perihelion_longitude: f64,
    node: f64,
    /// Mass of the Sun divided by the mass of the planet.
    inverse_mass: f64,
}

const fn planet_row(elements: [f64; 6], inverse_mass: f64) -> Planet {
    let [semi_major_axis, eccentricity, inclination, mean_longitude, perihelion_longitude, node] = elements;
    Planet {
        semi_major_axis,
        eccentricity,
        inclination,
        mean_longitude,
        perihelion_longitude,
        node,
        inverse_mass,
    }
}

#[rustfmt::skip]
const PLANETS: [Planet; 8] = [
    planet_row([ 0.38709927, 0.20563593,  7.00497902, 252.25032350,  77.45779628,  48.33076593], 6_023_600.0),
    planet_row([ 0.72333566, 0.00677672,  3.39467605, 181.97909950, 131.60246718,  76.67984255], 408_523.719),
    planet_row([ 1.00000261, 0.01671123, -0.00001531, 100.46457166, 102.93768193,   0.0       ], 328_900.559_6),
    planet_row([ 1.52371034, 0.09339410,  1.84969142,  -4.55343205, -23.94362959,  49.55953891], 3_098_703.59),
    planet_row([ 5.20288700, 0.04838624,  1.30439695,  34.39644051,  14.72847983, 100.47390909], 1_047.348_644),
    planet_row([ 9.53667594, 0.05386179,  2.48599187,  49.95424423,  92.59887831, 113.66242448], 3_497.901_8),
    planet_row([19.18916464, 0.04725744,  0.77263783, 313.23810451, 170.95427630,  74.01692503], 22_902.98),
    planet_row([30.06992276, 0.00859048,  1.77004347, -55.12002969,  44.96476227, 131.78422574], 19_412.26),
];

/// The Sun and its planets.
#[derive(Clone, Debug, PartialEq)]
pub struct SolarSystem {
    /// Units of positions, velocities and masses. They need a physical scale, such as
    /// [`Units::Solar`].
    pub units: Units,
}

impl Default for SolarSystem {
    /// au, solar masses, years.
    fn default() -> Self {
        Self { units: Units::Solar }
    }
}

impl SolarSystem {
    /// Names of the bodies. The id of a body is its index in this list.
    pub const NAMES: [&str; 9] =
        ["Sun", "Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune"];

    /// Returns the nine bodies in the frame of their barycentre. `g` is in the same units.
    pub fn generate(&self, g: f64) -> Result<Particles, IcError> {
        require_positive("g", g)?;
        let no_scale = || IcError::NoScale { units: self.units.name() };
        let scale = self.units.scale().ok_or_else(no_scale)?;
        let astronomical_unit = Units::Solar.scale().ok_or_else(no_scale)?.length / scale.length;
        let sun_mass = SOLAR_MASS / scale.mass;
        let body = |id, mass, (position, velocity)| Particle {
            position,
            velocity,
            mass,
            id,
            species: Species::Stars,
        };
        let mut bodies = Particles::with_capacity(9);
        bodies.push(body(0, sun_mass, ([0.0; 3], [0.0; 3])));
        for (id, planet) in (1..).zip(&PLANETS) {
            let mass = sun_mass / planet.inverse_mass;
            let state = state_from_elements(
                g * (sun_mass + mass),
                planet.semi_major_axis * astronomical_unit,
                planet.eccentricity,
                planet.inclination.to_radians(),
                planet.node.to_radians(),
                (planet.perihelion_longitude - planet.node).to_radians(),
                (planet.mean_longitude - planet.perihelion_longitude).to_radians(),
            );
            bodies.push(body(id, mass, state));
        }
        move_to_rest_frame(&mut bodies);
        Ok(bodies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ic::testing::{assert_well_formed, hash_bits};

    /// Distance and speed relative to the Sun.
    fn distance_and_speed(bodies: &Particles, id: usize) -> (f64, f64) {
        let length = |a: [f64; 3], b: [f64; 3]| (0..3).map(|k| (a[k] - b[k]).powi(2)).sum::<f64>().sqrt();
        (
            length(bodies.position.get(id), bodies.position.get(0)),
            length(bodies.velocity.get(id), bodies.velocity.get(0)),
        )
    }

    #[test]
    fn distances_and_periods_match_the_planets() {
        let g = Units::Solar.gravitational_constant();
        let bodies = SolarSystem::default().generate(g).unwrap();
        assert_well_formed(&bodies);
        let (earth, speed) = distance_and_speed(&bodies, 3);
        // In early January the Earth is near its perihelion, where it moves at 30.29 km/s.
        assert!((0.983..0.984).contains(&earth), "{earth}");
        assert!((6.3..6.4).contains(&speed), "{speed}");
        // Sidereal periods in years, from the vis-viva equation.
        let periods = [0.240_8, 0.615_2, 1.0000, 1.880_8, 11.862, 29.447, 84.017, 164.79];
        for (id, expected) in (1..).zip(periods) {
            let (r, v) = distance_and_speed(&bodies, id);
            let gm = g * (bodies.mass[0] + bodies.mass[id]);
            let a = 1.0 / (2.0 / r - v * v / gm);
            let period = std::f64::consts::TAU * (a * a * a / gm).sqrt();
            assert!((period / expected - 1.0).abs() < 2e-3, "{}: {period}", SolarSystem::NAMES[id]);
        }
    }

    /// Heliocentric ecliptic longitude at J2000, from the almanac to 0.1 degrees.
    #[test]
    fn longitude_of_the_earth_matches_the_almanac() {
        let bodies = SolarSystem::default().generate(Units::Solar.gravitational_constant()).unwrap();
        let sun = bodies.position.get(0);
        // At noon on 2000 January 1 the Sun's longitude was 280.4°, so the Earth's was 100.4°.
        let earth = bodies.position.get(3);
        let longitude = (earth[1] - sun[1]).atan2(earth[0] - sun[0]).to_degrees();
        assert!((longitude - 100.4).abs() < 0.1, "{longitude}");
        // The centre of the Sun is at most 2.2 solar radii (0.0102 au) from the barycentre.
        let offset = sun.iter().map(|c| c * c).sum::<f64>().sqrt();
        assert!((0.003..0.0102).contains(&offset), "{offset}");
    }

    #[test]
    fn other_units_give_the_same_system() {
        let solar = SolarSystem::default().generate(Units::Solar.gravitational_constant()).unwrap();
        let galactic = Units::Galactic;
        let scaled = SolarSystem { units: galactic }.generate(galactic.gravitational_constant()).unwrap();
        let au = galactic.parse("1 au", crate::Dimension::Length).unwrap();
        let speed = galactic.parse("1 au/yr", crate::Dimension::Velocity).unwrap();
        for id in 0..9 {
            for k in 0..3 {
                let (x, v) = (solar.position.get(id)[k], solar.velocity.get(id)[k]);
                assert!((scaled.position.get(id)[k] / au - x).abs() < 1e-12);
                assert!((scaled.velocity.get(id)[k] / speed - v).abs() < 1e-12);
            }
        }
        let error = SolarSystem { units: Units::NBody }.generate(1.0).unwrap_err();
        assert_eq!(error.to_string(), "units = nbody have no physical scale, expected galactic or solar");
    }

    #[test]
    fn bits_are_reproducible() {
        assert_eq!(hash_bits(&SolarSystem::default().generate(39.478).unwrap()), 0x9613_5371_d738_cf5f);
    }
}
