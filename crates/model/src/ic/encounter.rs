//! Two disc galaxies on a parabolic orbit.
//!
//! r = 2q / (1 + cos ν),   ν < 0
//! v_r = (G M / 2q)^{1/2} sin ν,   v_t = (G M / 2q)^{1/2} (1 + cos ν)
//!
//! with pericentre q, true anomaly ν and the mass M of both galaxies. The orbit lies in the x-y
//! plane and is counterclockwise. Seen from the first galaxy, the second passes its pericentre on
//! the +x axis. The orbit is that of two point masses. Once the haloes overlap, the real galaxies
//! pass at a somewhat larger distance and become bound.
//!
//! The orientation of each disc is given by the angles of Toomre & Toomre (1972, ApJ 178, 623, fig.
//! 6). The inclination i is the angle of the disc to the orbital plane: 0 for a direct passage, π
//! for a retrograde one. The argument ω is the angle from the ascending node of the disc to the
//! pericentre, as seen from that galaxy.

use std::f64::consts::PI;
use std::sync::atomic::AtomicBool;

use super::kepler::{rotated_about_x, rotated_about_z};
use super::{
    Galaxy, IcError, galaxy, move_to_rest_frame, require_angle, require_positive, require_positive_between,
    require_range,
};
use crate::{Particles, short_number};

/// Largest separation, in units of the pericentre. The velocity contains 1 + cos ν = 2q/r, which
/// then has a relative error below 1e-10.
const MAX_SEPARATION_RATIO: f64 = 1e6;

/// Orientation of a disc relative to the orbit. Angles in radians.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiscOrientation {
    /// Angle between the spins of the disc and of the orbit.
    pub inclination: f64,
    /// Angle from the ascending node to the pericentre, along the orbit.
    pub argument: f64,
}

/// An encounter of two galaxies.
#[derive(Clone, Debug, PartialEq)]
pub struct Encounter {
    /// First galaxy. Its bodies come first.
    pub first: Galaxy,
    /// Second galaxy. Its ids follow those of the first.
    pub second: Galaxy,
    /// Orientation of the first disc.
    pub first_orientation: DiscOrientation,
    /// Orientation of the second disc.
    pub second_orientation: DiscOrientation,
    /// Smallest distance of the two centres on the orbit.
    pub pericentre: f64,
    /// Distance of the centres at the start.
    pub separation: f64,
}

impl Default for Encounter {
    /// Two equal galaxies with the orientations of Toomre & Toomre's model of the Antennae, in
    /// galactic units: i = 60° and ω = −30° for both.
    fn default() -> Self {
        let orientation = DiscOrientation { inclination: PI / 3.0, argument: -PI / 6.0 };
        Self {
            first: Galaxy::default(),
            second: Galaxy { seed: 2, ..Galaxy::default() },
            first_orientation: orientation,
            second_orientation: orientation,
            pericentre: 8.0,
            separation: 60.0,
        }
    }
}

impl Encounter {
    /// Samples both galaxies and places them on the orbit before the pericentre.
    pub fn generate(&self, g: f64) -> Result<Particles, IcError> {
        self.generate_until(g, &AtomicBool::new(false))
    }

    /// Does the same as `generate`. Returns [`IcError::Stopped`] soon after `stop` is set.
    pub fn generate_until(&self, g: f64, stop: &AtomicBool) -> Result<Particles, IcError> {
        self.first.check_parameters().map_err(|error| error.with_prefix("first"))?;
        self.second.check_parameters().map_err(|error| error.with_prefix("second"))?;
        for (name, o) in [("first", self.first_orientation), ("second", self.second_orientation)] {
            require_angle(&format!("{name}_orientation.inclination"), o.inclination)?;
            require_angle(&format!("{name}_orientation.argument"), o.argument)?;
        }
        require_positive_between("pericentre", self.pericentre, galaxy::LENGTHS)?;
        let longest = MAX_SEPARATION_RATIO * self.pericentre;
        let range = format!(
            "pericentre ({}) <= separation <= {}",
            short_number(self.pericentre),
            short_number(longest)
        );
        require_range(
            (self.pericentre..=longest).contains(&self.separation),
            "separation",
            self.separation,
            range,
        )?;
        require_positive("g", g)?;

        let mut bodies = self.first.generate_until(g, stop).map_err(|error| error.with_prefix("first"))?;
        let mut second = self.second.generate_until(g, stop).map_err(|error| error.with_prefix("second"))?;
        tilt_galaxy(&mut bodies, self.first_orientation, 0.0);
        tilt_galaxy(&mut second, self.second_orientation, PI);
        let (position, velocity) = self.relative_orbit(g);
        second.position.translate(position);
        second.velocity.translate(velocity);
        let first_count = bodies.len() as u64;
        second.id.iter_mut().for_each(|id| *id += first_count);
        bodies.extend(&second);
        move_to_rest_frame(&mut bodies);
        Ok(bodies)
    }

    /// Time from the start to the pericentre on the parabola, by Barker's equation.
    pub fn time_to_pericentre(&self, g: f64) -> f64 {
        let q = self.pericentre;
        // tan(ν/2)² = r/q − 1.
        let tangent = (self.separation / q - 1.0).sqrt();
        (2.0 * q * q * q / (g * self.total_mass())).sqrt() * (tangent + tangent * tangent * tangent / 3.0)
    }

    fn total_mass(&self) -> f64 {
        self.first.total_mass() + self.second.total_mass()
    }

    /// Returns the initial position and velocity of the second centre relative to the first.
    fn relative_orbit(&self, g: f64) -> ([f64; 3], [f64; 3]) {
        let (q, r) = (self.pericentre, self.separation);
        let cos = 2.0 * q / r - 1.0;
        let sin = -((1.0 - cos) * (1.0 + cos)).max(0.0).sqrt();
        let speed = (g * self.total_mass() / (2.0 * q)).sqrt();
        ([r * cos, r * sin, 0.0], [-speed * sin, speed * (1.0 + cos), 0.0])
    }
}

/// Rotates a galaxy out of the x-y plane. `pericentre` is the azimuth of the other galaxy, seen
/// from this one, at the pericentre.
fn tilt_galaxy(bodies: &mut Particles, orientation: DiscOrientation, pericentre: f64) {
    let rotated =
        |v| rotated_about_z(rotated_about_x(v, orientation.inclination), pericentre - orientation.argument);
    for i in 0..bodies.len() {
        bodies.position.set(i, rotated(bodies.position.get(i)));
        bodies.velocity.set(i, rotated(bodies.velocity.get(i)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Species;
    use crate::analysis::{angular_momentum, centre_of_mass, centre_of_mass_velocity};
    use crate::ic::testing::assert_well_formed;

    const G: f64 = 43_007.1;

    fn small_encounter() -> Encounter {
        let galaxy = Galaxy { n_disc: 500, n_bulge: 100, n_halo: 400, ..Galaxy::default() };
        let second = Galaxy { seed: 2, halo_mass: 12.0, ..galaxy.clone() };
        Encounter { first: galaxy, second, ..Encounter::default() }
    }

    #[test]
    fn relative_orbit_is_a_parabola() {
        let encounter = small_encounter();
        let bodies = encounter.generate(G).unwrap();
        assert_well_formed(&bodies);
        let halves = [0..1000, 1000..2000].map(|ids| bodies.filtered(|body| ids.contains(&body.id)));
        let [(x1, v1), (x2, v2)] = halves.map(|half| (centre_of_mass(&half), centre_of_mass_velocity(&half)));
        let (x, v) = ([0, 1, 2].map(|k| x2[k] - x1[k]), [0, 1, 2].map(|k| v2[k] - v1[k]));
        let r = x.iter().map(|c| c * c).sum::<f64>().sqrt();
        assert!((r - 60.0).abs() < 1e-9);
        let gm = G * encounter.total_mass();
        let speed_squared = v.iter().map(|c| c * c).sum::<f64>();
        assert!((speed_squared / (2.0 * gm / r) - 1.0).abs() < 1e-9);
        // h² = 2 q G M, about +z, and approaching.
        let h = x[0] * v[1] - x[1] * v[0];
        assert!((h / (2.0 * 8.0 * gm).sqrt() - 1.0).abs() < 1e-9);
        assert!(x[0] * v[0] + x[1] * v[1] < 0.0);
    }

    #[test]
    fn discs_have_the_given_orientation() {
        let mut encounter = small_encounter();
        encounter.first_orientation = DiscOrientation { inclination: PI / 2.0, argument: 0.0 };
        encounter.second_orientation = DiscOrientation { inclination: PI, argument: 0.3 };
        let bodies = encounter.generate(G).unwrap();
        let spin = |ids: std::ops::Range<u64>| {
            let mut disc = bodies.filtered(|body| ids.contains(&body.id) && body.species == Species::Disc);
            move_to_rest_frame(&mut disc);
            let l = angular_momentum(&disc);
            let length = l.iter().map(|c| c * c).sum::<f64>().sqrt();
            l.map(|c| c / length)
        };
        // The node of the first points to the pericentre (+x), so its spin turns from +z to −y. The
        // second is retrograde, with spin −z.
        assert!(spin(0..1000)[1] < -0.999, "{:?}", spin(0..1000));
        assert!(spin(1000..2000)[2] < -0.999, "{:?}", spin(1000..2000));
    }

    /// Compares Barker's equation with the sum of dt = dr / v_r along the parabola.
    #[test]
    fn time_to_pericentre_matches_the_integral_along_the_orbit() {
        let encounter = small_encounter();
        let gm = G * encounter.total_mass();
        let (q, steps) = (encounter.pericentre, 100_000);
        // With r = q + s²: dr / v_r = 2 s ds r / (2 G M s²)^{1/2}.
        let ds = (60.0 - q).sqrt() / f64::from(steps);
        let time: f64 = (0..steps)
            .map(|k| {
                let s = (f64::from(k) + 0.5) * ds;
                2.0 * (q + s * s) / (2.0 * gm).sqrt() * ds
            })
            .sum();
        assert!((encounter.time_to_pericentre(G) / time - 1.0).abs() < 1e-9);
    }

    #[test]
    fn separation_below_the_pericentre_is_rejected() {
        let error = Encounter { separation: 5.0, ..small_encounter() }.generate(G).unwrap_err();
        assert_eq!(error.to_string(), "separation = 5 is outside pericentre (8) <= separation <= 8000000");
    }
}
