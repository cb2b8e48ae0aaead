//! Initial conditions. Each model is one file with a plain struct of parameters and a method
//! `generate(&self, g) -> Result<Particles, IcError>`.
//!
//! Lengths, masses and times are in the units of the caller, and `g` is the gravitational constant
//! in the same units. `generate_until` does the same and ends early when a stop flag is set. Models
//! with few bodies do not have it. Ids count from 0, the centre of mass rests at the origin, and
//! bodies of one component have equal masses.
//!
//! The same parameters give the same bits on every machine. Random numbers are functions of (seed,
//! stream, index), transcendental functions come from `libm`, and nothing runs in parallel. Each
//! file has a test with a recorded hash, for example `same_seed_gives_the_same_bits` in
//! `plummer.rs`.

mod encounter;
mod figure_eight;
mod galaxy;
mod hernquist;
mod kepler;
pub mod lattice;
mod plummer;
mod pythagorean;
mod solar_system;
mod speed;
mod sphere;

use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

use crate::analysis::sum::compensated_sum;
use crate::analysis::{centre_of_mass, centre_of_mass_velocity};
use crate::{Particles, short_number};

pub use encounter::{DiscOrientation, Encounter};
pub use figure_eight::FigureEight;
pub use galaxy::Galaxy;
pub use hernquist::Hernquist;
pub use kepler::{Kepler, state_from_elements};
pub use plummer::Plummer;
pub use pythagorean::Pythagorean;
pub use solar_system::SolarSystem;
pub use sphere::UniformSphere;

/// Reason why a model cannot be generated.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum IcError {
    /// A parameter is outside its range.
    #[error("{name} = {} is outside {range}", short_number(*value))]
    OutOfRange {
        /// Name of the parameter.
        name: String,
        /// Value given.
        value: f64,
        /// Accepted range, for example `mass > 0`.
        range: String,
    },
    /// The model has a physical size, but the unit system has no physical scale.
    #[error("units = {units} have no physical scale, expected galactic or solar")]
    NoScale {
        /// Name of the unit system.
        units: &'static str,
    },
    /// Rejection sampling accepted no value for a body.
    #[error(
        "{component} body {index}: none of {MAX_ATTEMPTS} random {quantity} was accepted, expected components with less different scales and masses"
    )]
    NoSample {
        /// Component of the galaxy, or the model.
        component: &'static str,
        /// Number of the body within the component.
        index: u64,
        /// Quantity that was drawn, in the plural.
        quantity: &'static str,
    },
    /// A stop was requested.
    #[error("stopped while the bodies were generated, nothing was written")]
    Stopped,
}

/// Most draws of one random value by rejection. Equilibrium models accept more than 1% of the
/// draws, so this limit is only reached where almost no value can be accepted.
const MAX_ATTEMPTS: u32 = 100_000;

impl IcError {
    /// Prefixes the parameter name with `part`. For example, `disc_mass` of `first` becomes
    /// `first.disc_mass`.
    fn with_prefix(self, part: &str) -> Self {
        match self {
            Self::OutOfRange { name, value, range } => Self::OutOfRange {
                range: range.replace(&name, &format!("{part}.{name}")),
                name: format!("{part}.{name}"),
                value,
            },
            other => other,
        }
    }
}

/// Random number streams, one per component. The index within a stream is the number of the body in
/// that component.
mod stream {
    pub const SPHERE: u32 = 1;
    pub const DISC: u32 = 2;
    pub const BULGE: u32 = 3;
    pub const HALO: u32 = 4;
}

fn require_range(is_inside: bool, name: &str, value: f64, range: String) -> Result<(), IcError> {
    if is_inside { Ok(()) } else { Err(IcError::OutOfRange { name: name.to_owned(), value, range }) }
}

/// Smallest and largest length, mass or gravitational constant. Products such as m r² and G m / r²
/// are then within the range of f64.
const MAGNITUDES: [f64; 2] = [1e-90, 1e90];

/// Largest angle in radians. Larger ones are known to less than 1e-7 radians in f64.
const MAX_ANGLE: f64 = 1e9;

/// Requires a positive number within [`MAGNITUDES`].
fn require_positive(name: &str, value: f64) -> Result<(), IcError> {
    require_positive_between(name, value, MAGNITUDES)
}

/// Requires a positive number within these limits.
fn require_positive_between(name: &str, value: f64, limits: [f64; 2]) -> Result<(), IcError> {
    let range = if value == f64::INFINITY { format!("0 < {name} < inf") } else { format!("{name} > 0") };
    require_range(value > 0.0 && value.is_finite(), name, value, range)?;
    require_between(name, value, limits)
}

fn require_between(name: &str, value: f64, [low, high]: [f64; 2]) -> Result<(), IcError> {
    let range = format!("{} <= {name} <= {}", short_number(low), short_number(high));
    require_range((low..=high).contains(&value), name, value, range)
}

/// Requires `value` to be within `factors` times another parameter or length, which is `reference`.
fn require_ratio(
    name: &str,
    value: f64,
    factors: [f64; 2],
    (reference_name, reference): (&str, f64),
) -> Result<(), IcError> {
    let [low, high] = factors.map(|factor| factor * reference);
    // Six digits, so that 3 x 1e-4 is printed as 0.0003.
    let six_digits = |bound: f64| format!("{bound:.5e}").parse().unwrap_or(bound);
    let range = format!(
        "{} <= {name} <= {} ({} to {} times {reference_name} = {})",
        short_number(six_digits(low)),
        short_number(six_digits(high)),
        short_number(factors[0]),
        short_number(factors[1]),
        short_number(reference)
    );
    require_range((low..=high).contains(&value), name, value, range)
}

/// Returns an error if a stop was requested.
fn check_stop(stop: &AtomicBool) -> Result<(), IcError> {
    if stop.load(Ordering::Relaxed) { Err(IcError::Stopped) } else { Ok(()) }
}

fn require_bodies(name: &str, n: usize) -> Result<(), IcError> {
    require_range(n > 0, name, n as f64, format!("{name} > 0"))
}

fn require_angle(name: &str, value: f64) -> Result<(), IcError> {
    require_between(name, value, [-MAX_ANGLE, MAX_ANGLE])
}

fn scaled(vector: [f64; 3], factor: f64) -> [f64; 3] {
    vector.map(|c| factor * c)
}

/// Shifts positions and velocities so that the centre of mass rests at the origin.
fn move_to_rest_frame(bodies: &mut Particles) {
    bodies.position.translate(scaled(centre_of_mass(bodies), -1.0));
    bodies.velocity.translate(scaled(centre_of_mass_velocity(bodies), -1.0));
}

/// As [`move_to_rest_frame`], but shifts mostly the distant bodies. Each body moves by −x_c r² /
/// ⟨r²⟩ instead of −x_c, with ⟨⟩ the mean weighted by mass.
///
/// For a model about the origin with a wide halo, a few distant bodies cause the offset x_c. With
/// this weight they also absorb it. A dense centre that is smaller than the offset stays at the
/// origin.
fn move_to_rest_frame_by_distant_bodies(bodies: &mut Particles) {
    let square = |[x, y, z]: [f64; 3]| x * x + y * y + z * z;
    let weighted = bodies.position.iter().zip(&bodies.mass).map(|(position, m)| m * square(position));
    let mean_square = compensated_sum(weighted) / compensated_sum(bodies.mass.iter().copied());
    let offset = centre_of_mass(bodies);
    for i in 0..bodies.len() {
        let position = bodies.position.get(i);
        let weight = square(position) / mean_square;
        bodies.position.set(i, [0, 1, 2].map(|k| position[k] - weight * offset[k]));
    }
    // The remaining offset is a rounding error.
    move_to_rest_frame(bodies);
}

#[cfg(test)]
mod testing {
    use super::*;
    use crate::analysis::{kinetic_energy, max_or_nan, potential_energy_direct};

    /// FNV-1a hash of the bits of positions, velocities and masses.
    pub fn hash_bits(bodies: &Particles) -> u64 {
        let columns = [&bodies.position.x, &bodies.position.y, &bodies.position.z].into_iter().chain([
            &bodies.velocity.x,
            &bodies.velocity.y,
            &bodies.velocity.z,
            &bodies.mass,
        ]);
        columns
            .flatten()
            .flat_map(|value| value.to_bits().to_le_bytes())
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    /// Virial ratio 2 T / |W|.
    pub fn virial_ratio(bodies: &Particles, g: f64, eps: f64) -> f64 {
        2.0 * kinetic_energy(bodies) / -potential_energy_direct(bodies, g, eps)
    }

    /// Asserts that the bodies are valid, that their ids are 0..n, and that their centre of mass
    /// rests at the origin up to rounding.
    pub fn assert_well_formed(bodies: &Particles) {
        bodies.validate().unwrap();
        assert!(bodies.id.iter().enumerate().all(|(i, &id)| i as u64 == id));
        let size = |column: &[f64]| column.iter().map(|v| v.abs()).fold(0.0, max_or_nan);
        let (extent, speed) = (size(&bodies.position.x), size(&bodies.velocity.x));
        assert!(
            centre_of_mass(bodies).iter().all(|c| c.abs() <= 1e-15 * extent),
            "{:?}",
            centre_of_mass(bodies)
        );
        assert!(centre_of_mass_velocity(bodies).iter().all(|c| c.abs() <= 1e-15 * speed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_parameter_value_and_range() {
        let message = |error: IcError| error.to_string();
        let plummer = Plummer { scale_radius: -1.0, ..Plummer::default() };
        assert_eq!(
            message(plummer.generate(1.0).unwrap_err()),
            "scale_radius = -1 is outside scale_radius > 0"
        );
        let plummer = Plummer { n: 0, ..Plummer::default() };
        assert_eq!(message(plummer.generate(1.0).unwrap_err()), "n = 0 is outside n > 0");
        assert_eq!(message(Plummer::default().generate(f64::NAN).unwrap_err()), "g = NaN is outside g > 0");
        let sphere = UniformSphere { mass: f64::INFINITY, ..UniformSphere::default() };
        assert_eq!(message(sphere.generate(1.0).unwrap_err()), "mass = inf is outside 0 < mass < inf");
        let kepler = Kepler { eccentricity: 1.0, ..Kepler::default() };
        assert_eq!(
            message(kepler.generate(1.0).unwrap_err()),
            "eccentricity = 1 is outside 0 <= eccentricity < 1"
        );
        let mut encounter = Encounter::default();
        encounter.second.disc_mass = 0.0;
        assert_eq!(
            message(encounter.generate(1.0).unwrap_err()),
            "second.disc_mass = 0 is outside second.disc_mass > 0"
        );
    }
}
