//! Units: named systems, and quantities written with a unit (`"1 kpc"`, `"10 Myr"`, `"220 km/s"`).
//!
//! A system fixes the length, mass and time that the number 1 stands for; the gravitational constant
//! follows as G = G_SI M T² / L³. The `nbody` system has G = 1 and no physical scale at all, so an explicit
//! unit is a mistake there.
//!
//! The solar mass is taken as GM_sun / G, since the product is known to ten digits and its factors to five:
//! with that choice the planets keep their periods.

use std::fmt;

use thiserror::Error;

/// Newton's constant, m³ kg⁻¹ s⁻² (CODATA 2018).
pub const G_SI: f64 = 6.674_30e-11;
const GM_SUN: f64 = 1.327_124_400_18e20;
const PARSEC: f64 = 3.085_677_581_491_367e16;
const ASTRONOMICAL_UNIT: f64 = 1.495_978_707e11;
const DAY: f64 = 86_400.0;
const JULIAN_YEAR: f64 = 365.25 * DAY;
/// Kilograms in a solar mass.
pub const SOLAR_MASS: f64 = GM_SUN / G_SI;

/// Powers of length, mass and time, or an angle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// A plain number.
    None,
    /// Angle, held in radians.
    Angle,
    /// Length.
    Length,
    /// Mass.
    Mass,
    /// Time.
    Time,
    /// Length over time.
    Velocity,
}

impl Dimension {
    /// An example of how to write one, for messages.
    pub fn example(self) -> &'static str {
        match self {
            Self::None => "a plain number",
            Self::Angle => "\"30 deg\" or \"0.5 rad\"",
            Self::Length => "\"1 kpc\", \"1 pc\", \"1 au\", \"1 km\"",
            Self::Mass => "\"1e10 Msun\", \"1 Mearth\", \"1 kg\"",
            Self::Time => "\"10 Myr\", \"1 Gyr\", \"1 yr\", \"1 day\", \"1 s\"",
            Self::Velocity => "\"220 km/s\", \"1 m/s\", \"1 au/yr\"",
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "number",
            Self::Angle => "angle",
            Self::Length => "length",
            Self::Mass => "mass",
            Self::Time => "time",
            Self::Velocity => "velocity",
        })
    }
}

/// The meaning of 1 in SI, for systems that have one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Metres.
    pub length: f64,
    /// Kilograms.
    pub mass: f64,
    /// Seconds.
    pub time: f64,
}

/// A system of units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Units {
    /// G = 1, no physical scale.
    NBody,
    /// kpc, 10¹⁰ solar masses, km/s; the time unit is 0.978 Gyr. GADGET's customary choice.
    Galactic,
    /// au, solar masses, Julian years; G is 4π² to four digits.
    Solar,
    /// A scale read from a file.
    Custom(Scale),
}

/// What is wrong with a quantity or a unit system's name.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum UnitError {
    /// No such system.
    #[error("unknown unit system '{0}', expected nbody, galactic or solar")]
    UnknownSystem(String),
    /// Not `NUMBER UNIT`.
    #[error("'{text}' is not a quantity, expected a number and a unit such as {}", dimension.example())]
    Malformed {
        /// What was written.
        text: String,
        /// What was wanted.
        dimension: Dimension,
    },
    /// No such unit.
    #[error("unknown unit '{unit}', expected a {dimension} such as {}", dimension.example())]
    UnknownUnit {
        /// What was written.
        unit: String,
        /// What was wanted.
        dimension: Dimension,
    },
    /// A unit of something else.
    #[error("'{unit}' is a unit of {got}, expected a {expected} such as {}", expected.example())]
    WrongDimension {
        /// What was written.
        unit: String,
        /// What it measures.
        got: Dimension,
        /// What was wanted.
        expected: Dimension,
    },
    /// A physical unit where G = 1 and nothing else is fixed.
    #[error(
        "'{unit}' has no meaning in nbody units (G = 1), expected a plain number; or set units = \"galactic\" or \"solar\""
    )]
    NoScale {
        /// What was written.
        unit: String,
    },
}

impl Units {
    /// The system called `name` in case files.
    pub fn from_name(name: &str) -> Result<Self, UnitError> {
        match name {
            "nbody" => Ok(Self::NBody),
            "galactic" => Ok(Self::Galactic),
            "solar" => Ok(Self::Solar),
            _ => Err(UnitError::UnknownSystem(name.to_owned())),
        }
    }

    /// The system's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NBody => "nbody",
            Self::Galactic => "galactic",
            Self::Solar => "solar",
            Self::Custom(_) => "custom",
        }
    }

    /// What 1 stands for in SI; `None` in nbody units.
    pub fn scale(&self) -> Option<Scale> {
        match self {
            Self::NBody => None,
            Self::Galactic => {
                let length = 1e3 * PARSEC;
                Some(Scale { length, mass: 1e10 * SOLAR_MASS, time: length / 1e3 })
            }
            Self::Solar => Some(Scale { length: ASTRONOMICAL_UNIT, mass: SOLAR_MASS, time: JULIAN_YEAR }),
            Self::Custom(scale) => Some(*scale),
        }
    }

    /// The gravitational constant in these units.
    pub fn gravitational_constant(&self) -> f64 {
        self.scale().map_or(1.0, |s| G_SI * s.mass * s.time * s.time / (s.length * s.length * s.length))
    }

    /// SI value of one unit of `dimension`; `None` where the system has no scale.
    fn si(&self, dimension: Dimension) -> Option<f64> {
        if matches!(dimension, Dimension::None | Dimension::Angle) {
            return Some(1.0);
        }
        self.scale().map(|s| match dimension {
            Dimension::Length => s.length,
            Dimension::Mass => s.mass,
            Dimension::Time => s.time,
            Dimension::Velocity => s.length / s.time,
            Dimension::None | Dimension::Angle => 1.0,
        })
    }

    /// Reads `"NUMBER UNIT"` as a number in these units. A string with no unit is taken as it stands.
    ///
    /// ```
    /// use orrery_model::{Dimension, Units};
    /// let ten_myr = Units::Solar.parse("10 Myr", Dimension::Time).unwrap();
    /// assert!((ten_myr - 1e7).abs() < 1e-3);
    /// assert!(Units::NBody.parse("10 Myr", Dimension::Time).is_err());
    /// ```
    pub fn parse(&self, text: &str, dimension: Dimension) -> Result<f64, UnitError> {
        let text = text.trim();
        let malformed = || UnitError::Malformed { text: text.to_owned(), dimension };
        // The number is the longest prefix that parses: "1e10 Msun", "1kpc", "2e3m".
        let (value, unit) = (1..=text.len())
            .rev()
            .filter(|&end| {
                text.is_char_boundary(end) && text.as_bytes()[end - 1].is_ascii_digit()
                    || text.as_bytes()[end - 1] == b'.'
            })
            .find_map(|end| Some((text[..end].parse::<f64>().ok()?, text[end..].trim())))
            .ok_or_else(malformed)?;
        if unit.is_empty() {
            return Ok(value);
        }
        let (got, si_value) =
            unit_in_si(unit).ok_or_else(|| UnitError::UnknownUnit { unit: unit.to_owned(), dimension })?;
        if got != dimension {
            return Err(UnitError::WrongDimension { unit: unit.to_owned(), got, expected: dimension });
        }
        let one = self.si(dimension).ok_or_else(|| UnitError::NoScale { unit: unit.to_owned() })?;
        Ok(value * (si_value / one))
    }

    /// A time for people: `"1.23 Gyr"`, `"4.00 yr"`, or the bare number in nbody units.
    pub fn format_time(&self, time: f64) -> String {
        self.show(
            time,
            Dimension::Time,
            &[
                ("Gyr", 1e9 * JULIAN_YEAR),
                ("Myr", 1e6 * JULIAN_YEAR),
                ("yr", JULIAN_YEAR),
                ("d", DAY),
                ("s", 1.0),
            ],
        )
    }

    /// A length for people.
    pub fn format_length(&self, length: f64) -> String {
        self.show(
            length,
            Dimension::Length,
            &[
                ("Mpc", 1e6 * PARSEC),
                ("kpc", 1e3 * PARSEC),
                ("pc", PARSEC),
                ("au", ASTRONOMICAL_UNIT),
                ("km", 1e3),
                ("m", 1.0),
            ],
        )
    }

    /// Picks the largest unit of `ladder` that `value` reaches.
    fn show(&self, value: f64, dimension: Dimension, ladder: &[(&str, f64)]) -> String {
        let Some(one) = self.si(dimension) else {
            return format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_owned();
        };
        let si = value * one;
        let &(unit, size) = ladder
            .iter()
            .find(|(_, size)| si.abs() >= 0.9999 * size)
            .unwrap_or(if si == 0.0 { &ladder[1] } else { &ladder[ladder.len() - 1] });
        let shown = format!("{:.3}", si / size);
        format!("{} {unit}", shown.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// What a unit measures, and its value in SI.
fn unit_in_si(unit: &str) -> Option<(Dimension, f64)> {
    if let Some((length, time)) = unit.split_once('/') {
        return match (unit_in_si(length.trim())?, unit_in_si(time.trim())?) {
            ((Dimension::Length, l), (Dimension::Time, t)) => Some((Dimension::Velocity, l / t)),
            _ => None,
        };
    }
    Some(match unit {
        "m" => (Dimension::Length, 1.0),
        "km" => (Dimension::Length, 1e3),
        "cm" => (Dimension::Length, 1e-2),
        "au" | "AU" => (Dimension::Length, ASTRONOMICAL_UNIT),
        "pc" => (Dimension::Length, PARSEC),
        "kpc" => (Dimension::Length, 1e3 * PARSEC),
        "Mpc" => (Dimension::Length, 1e6 * PARSEC),
        "s" => (Dimension::Time, 1.0),
        "h" | "hour" | "hours" => (Dimension::Time, 3600.0),
        "d" | "day" | "days" => (Dimension::Time, DAY),
        "yr" | "year" | "years" => (Dimension::Time, JULIAN_YEAR),
        "kyr" => (Dimension::Time, 1e3 * JULIAN_YEAR),
        "Myr" => (Dimension::Time, 1e6 * JULIAN_YEAR),
        "Gyr" => (Dimension::Time, 1e9 * JULIAN_YEAR),
        "kg" => (Dimension::Mass, 1.0),
        "g" => (Dimension::Mass, 1e-3),
        "Msun" => (Dimension::Mass, SOLAR_MASS),
        "Mjup" => (Dimension::Mass, SOLAR_MASS / 1_047.348_6),
        "Mearth" => (Dimension::Mass, SOLAR_MASS / 332_946.05),
        "deg" => (Dimension::Angle, std::f64::consts::PI / 180.0),
        "rad" => (Dimension::Angle, 1.0),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_gravitational_constants() {
        assert_eq!(Units::NBody.gravitational_constant(), 1.0);
        // Kepler's third law for a massless planet at 1 au: the Gaussian year is 365.2569 days.
        let four_pi2 = 4.0 * std::f64::consts::PI.powi(2);
        let period_days = 365.25 * (four_pi2 / Units::Solar.gravitational_constant()).sqrt();
        assert!((period_days - 365.256_898).abs() < 1e-5, "{period_days}");
        // GADGET's customary G = 43007.1 (kpc (km/s)² / 10¹⁰ Msun), to the digits of its solar mass.
        assert!((Units::Galactic.gravitational_constant() - 43007.1).abs() < 4.0);
    }

    #[test]
    fn quantities_are_read() {
        let galactic = |text, dimension| Units::Galactic.parse(text, dimension).unwrap();
        assert_eq!(galactic("1 kpc", Dimension::Length), 1.0);
        assert_eq!(galactic("500pc", Dimension::Length), 0.5);
        assert!((galactic("220 km/s", Dimension::Velocity) - 220.0).abs() < 1e-10);
        assert!((galactic("1e10 Msun", Dimension::Mass) - 1.0).abs() < 1e-14);
        assert!((galactic("180 deg", Dimension::Angle) - std::f64::consts::PI).abs() < 1e-15);
        assert_eq!(galactic("3.", Dimension::Time), 3.0);
    }

    #[test]
    fn mistakes_say_what_was_expected() {
        let says = |units: Units, text: &str, dimension, expected: &str| {
            let message = units.parse(text, dimension).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        };
        says(Units::Galactic, "kpc", Dimension::Length, "'kpc' is not a quantity");
        says(Units::Galactic, "", Dimension::Length, "not a quantity");
        says(Units::Galactic, "µ", Dimension::Length, "not a quantity");
        says(Units::Galactic, "1 parsec", Dimension::Length, "unknown unit 'parsec', expected a length");
        says(Units::Galactic, "1 Myr", Dimension::Length, "'Myr' is a unit of time, expected a length");
        says(Units::NBody, "1 kpc", Dimension::Length, "no meaning in nbody units");
    }

    #[test]
    fn times_are_shown_in_a_fitting_unit() {
        assert_eq!(Units::Solar.format_time(100.0), "100 yr");
        assert_eq!(Units::Solar.format_time(2.5e6), "2.5 Myr");
        assert_eq!(Units::NBody.format_time(0.5), "0.5");
        assert_eq!(Units::Galactic.format_length(0.05), "50 pc");
    }
}
