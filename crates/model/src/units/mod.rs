//! Unit systems, and quantities with a unit such as `"1 kpc"`, `"10 Myr"` or `"220 km/s"`.
//!
//! A unit system defines units of length L, mass M and time T. The gravitational constant follows
//! as G = G_SI M T² / L³. The systems `nbody`, in which G = 1, `lj`, in which σ = ε = m = k_B = 1,
//! and `none` have no physical scale. A quantity with an explicit unit is an error there.
//!
//! The solar mass is GM_sun / G. The product GM_sun is known to ten digits, but G and the mass only
//! to five. With this choice the planets have the correct periods.

mod dimension;
mod expression;

use thiserror::Error;

use crate::four_digits;

pub use dimension::{Dimension, Powers};
use expression::unit_in_si;
pub use expression::{NAMED_UNITS, NamedUnit, split_quantity};

/// Newton's constant, m³ kg⁻¹ s⁻² (CODATA 2018).
pub const G_SI: f64 = 6.674_30e-11;
/// Boltzmann's constant, J/K (SI 2019).
pub const BOLTZMANN_SI: f64 = 1.380_649e-23;
/// Avogadro's constant, 1/mol (SI 2019).
const AVOGADRO: f64 = 6.022_140_76e23;
/// Unified atomic mass unit, kg (CODATA 2018).
const ATOMIC_MASS: f64 = 1.660_539_066_60e-27;
const ELECTRONVOLT: f64 = 1.602_176_634e-19;
const GM_SUN: f64 = 1.327_124_400_18e20;
const PARSEC: f64 = 3.085_677_581_491_367e16;
const ASTRONOMICAL_UNIT: f64 = 1.495_978_707e11;
const DAY: f64 = 86_400.0;
const JULIAN_YEAR: f64 = 365.25 * DAY;
/// Kilograms in a solar mass.
pub const SOLAR_MASS: f64 = GM_SUN / G_SI;

/// Sizes of the units of a system in SI.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitScale {
    /// Metres.
    pub length: f64,
    /// Kilograms.
    pub mass: f64,
    /// Seconds.
    pub time: f64,
}

/// Names of the units of a system for tables, such as `"kpc"`. All are empty in a system without a
/// physical scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitNames {
    /// Unit of length.
    pub length: &'static str,
    /// Unit of mass.
    pub mass: &'static str,
    /// Unit of time.
    pub time: &'static str,
    /// Unit of velocity.
    pub velocity: &'static str,
    /// Unit of energy.
    pub energy: &'static str,
    /// Unit of momentum.
    pub momentum: &'static str,
    /// Unit of angular momentum.
    pub angular_momentum: &'static str,
    /// Unit of mass per volume.
    pub density: &'static str,
}

/// Unit in which tables and axes show a quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShownUnit {
    /// Name, for example `"Gyr"`. Empty in a system without a physical scale.
    pub name: &'static str,
    /// Size in units of the system.
    pub size: f64,
}

/// A system of units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Units {
    /// G = 1, no physical scale.
    NBody,
    /// kpc, 10¹⁰ solar masses, km/s, as is customary for GADGET. The time unit is 0.978 Gyr.
    Galactic,
    /// au, solar masses, Julian years. G is 4π² to four digits.
    Solar,
    /// Metres, kilograms and seconds.
    Si,
    /// No physical scale, for fields.
    Dimensionless,
    /// No physical scale, for fluids: σ = ε = m = k_B = 1 for a fluid of one species.
    LennardJones,
    /// Ångström, atomic mass units, picoseconds and kelvin. The unit of energy is 0.01 kJ/mol.
    Real,
    /// A scale read from a file.
    Custom(UnitScale),
}

/// Error in a quantity or in the name of a unit system.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum UnitError {
    /// The unit system is unknown.
    #[error("unknown unit system '{0}', expected nbody, galactic, solar, si, none, lj or real")]
    UnknownSystem(String),
    /// The text is not of the form `NUMBER UNIT`.
    #[error("'{text}' is not a quantity, expected {expected}")]
    Malformed {
        /// Text given.
        text: String,
        /// Form of a quantity.
        expected: String,
    },
    /// The unit is unknown.
    #[error("unknown unit '{unit}', expected {expected}")]
    UnknownUnit {
        /// Unit given.
        unit: String,
        /// Expected dimension with examples.
        expected: String,
    },
    /// The unit has another dimension.
    #[error("'{unit}' is a unit of {got}, expected {expected}")]
    WrongDimension {
        /// Unit given.
        unit: String,
        /// Powers of the unit given.
        got: Powers,
        /// Expected dimension with examples.
        expected: String,
    },
    /// A physical unit in the nbody system, which has no physical scale.
    #[error(
        "'{unit}' has no meaning in nbody units (G = 1), expected a plain number; or set units = \"galactic\" or \"solar\""
    )]
    NoScale {
        /// Unit given.
        unit: String,
    },
    /// A physical unit in reduced units of Lennard-Jones, which have no physical scale.
    #[error("'{unit}' has no meaning in lj units, expected a plain number; or set units = \"real\"")]
    ReducedUnits {
        /// Unit given.
        unit: String,
    },
    /// A physical unit in a case without units.
    #[error(
        "'{unit}' has no meaning in a case without units, expected a plain number; or set units = \"si\""
    )]
    NoUnits {
        /// Unit given.
        unit: String,
    },
}

impl Units {
    /// Returns the system that case files call `name`.
    pub fn from_name(name: &str) -> Result<Self, UnitError> {
        match name {
            "nbody" => Ok(Self::NBody),
            "galactic" => Ok(Self::Galactic),
            "solar" => Ok(Self::Solar),
            "si" => Ok(Self::Si),
            "none" => Ok(Self::Dimensionless),
            "lj" => Ok(Self::LennardJones),
            "real" => Ok(Self::Real),
            _ => Err(UnitError::UnknownSystem(name.to_owned())),
        }
    }

    /// Name of the system.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NBody => "nbody",
            Self::Galactic => "galactic",
            Self::Solar => "solar",
            Self::Si => "si",
            Self::Dimensionless => "none",
            Self::LennardJones => "lj",
            Self::Real => "real",
            Self::Custom(_) => "custom",
        }
    }

    /// Sizes of the units in SI. `None` for a system without a physical scale.
    pub fn scale(&self) -> Option<UnitScale> {
        match self {
            Self::NBody | Self::Dimensionless | Self::LennardJones => None,
            Self::Real => Some(UnitScale { length: 1e-10, mass: ATOMIC_MASS, time: 1e-12 }),
            Self::Si => Some(UnitScale { length: 1.0, mass: 1.0, time: 1.0 }),
            Self::Galactic => {
                let length = 1e3 * PARSEC;
                Some(UnitScale { length, mass: 1e10 * SOLAR_MASS, time: length / 1e3 })
            }
            Self::Solar => Some(UnitScale { length: ASTRONOMICAL_UNIT, mass: SOLAR_MASS, time: JULIAN_YEAR }),
            Self::Custom(scale) => Some(*scale),
        }
    }

    /// Returns true if numbers in both systems mean the same. Scales that were rounded in a file
    /// may differ by 1e-9.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
        match (self.scale(), other.scale()) {
            (None, None) => true,
            (Some(a), Some(b)) => close(a.length, b.length) && close(a.mass, b.mass) && close(a.time, b.time),
            _ => false,
        }
    }

    /// Returns the name of the system, with its units in SI if the name does not imply them.
    pub fn describe(&self) -> String {
        match self {
            Self::Custom(s) => {
                format!("custom (length {:e} m, mass {:e} kg, time {:e} s)", s.length, s.mass, s.time)
            }
            _ => self.name().to_owned(),
        }
    }

    /// Returns the names of the units.
    pub fn names(&self) -> UnitNames {
        match self {
            Self::NBody | Self::Dimensionless | Self::LennardJones => UnitNames {
                length: "",
                mass: "",
                time: "",
                velocity: "",
                energy: "",
                momentum: "",
                angular_momentum: "",
                density: "",
            },
            Self::Galactic => UnitNames {
                length: "kpc",
                mass: "1e10 Msun",
                time: "kpc/(km/s)",
                velocity: "km/s",
                energy: "1e10 Msun km^2/s^2",
                momentum: "1e10 Msun km/s",
                angular_momentum: "1e10 Msun kpc km/s",
                density: "1e10 Msun/kpc^3",
            },
            Self::Solar => UnitNames {
                length: "au",
                mass: "Msun",
                time: "yr",
                velocity: "au/yr",
                energy: "Msun au^2/yr^2",
                momentum: "Msun au/yr",
                angular_momentum: "Msun au^2/yr",
                density: "Msun/au^3",
            },
            Self::Si => UnitNames {
                length: "m",
                mass: "kg",
                time: "s",
                velocity: "m/s",
                energy: "J",
                momentum: "kg m/s",
                angular_momentum: "kg m^2/s",
                density: "kg/m^3",
            },
            Self::Real => UnitNames {
                length: "Å",
                mass: "u",
                time: "ps",
                velocity: "Å/ps",
                energy: "u Å^2/ps^2",
                momentum: "u Å/ps",
                angular_momentum: "u Å^2/ps",
                density: "u/Å^3",
            },
            Self::Custom(_) => UnitNames {
                length: "L",
                mass: "M",
                time: "T",
                velocity: "L/T",
                energy: "M L^2/T^2",
                momentum: "M L/T",
                angular_momentum: "M L^2/T",
                density: "M/L^3",
            },
        }
    }

    /// Returns the text for the unit `name` on an axis. In nbody units, which have no names, it is
    /// `"N-body units"`.
    pub fn axis_unit<'a>(&self, name: &'a str) -> &'a str {
        if *self == Self::NBody && name.is_empty() { "N-body units" } else { name }
    }

    /// Gravitational constant in these units.
    pub fn gravitational_constant(&self) -> f64 {
        self.scale().map_or(1.0, |s| G_SI * s.mass * s.time * s.time / (s.length * s.length * s.length))
    }

    /// Boltzmann's constant in these units, per kelvin. It is 1 in a system without a physical
    /// scale.
    pub fn boltzmann_constant(&self) -> f64 {
        self.si_value(Dimension::Energy).map_or(1.0, |energy| BOLTZMANN_SI / energy)
    }

    /// SI value of one unit of `dimension`, or `None` if the system has no scale.
    fn si_value(&self, dimension: Dimension) -> Option<f64> {
        if matches!(dimension, Dimension::None | Dimension::Angle) {
            return Some(1.0);
        }
        self.scale().map(|s| match dimension {
            Dimension::Length => s.length,
            Dimension::Mass => s.mass,
            Dimension::Time => s.time,
            Dimension::Velocity => s.length / s.time,
            Dimension::Energy => s.mass * (s.length / s.time).powi(2),
            Dimension::Density => s.mass / s.length.powi(3),
            // A temperature is in kelvin.
            dimension => {
                let Powers { length, mass, time, .. } = dimension.powers();
                s.length.powi(length) * s.mass.powi(mass) * s.time.powi(time)
            }
        })
    }

    /// Converts `"NUMBER UNIT"` to a number in these units. A number without a unit is returned
    /// unchanged.
    ///
    /// ```
    /// use orrery_model::{Dimension, Units};
    /// let ten_myr = Units::Solar.parse("10 Myr", Dimension::Time).unwrap();
    /// assert!((ten_myr - 1e7).abs() < 1e-3);
    /// assert!(Units::NBody.parse("10 Myr", Dimension::Time).is_err());
    /// ```
    pub fn parse(&self, text: &str, dimension: Dimension) -> Result<f64, UnitError> {
        let text = text.trim();
        let examples = self.examples(dimension);
        let one = self.si_value(dimension);
        let expected = |form: &str| match one {
            Some(_) => format!("{form} such as {examples}"),
            None => "a plain number".to_owned(),
        };
        let malformed =
            || UnitError::Malformed { text: text.to_owned(), expected: expected("a number and a unit") };
        let (number, unit) = split_quantity(text).ok_or_else(malformed)?;
        let value: f64 = number.parse().map_err(|_| malformed())?;
        if unit.is_empty() {
            return Ok(value);
        }
        let unknown = || UnitError::UnknownUnit {
            unit: unit.to_owned(),
            expected: expected(&dimension.with_article()),
        };
        let (mut got, mut si_value) = unit_in_si(unit).ok_or_else(unknown)?;
        if dimension == Dimension::Energy && got == Dimension::Temperature.powers() {
            (got, si_value) = (dimension.powers(), BOLTZMANN_SI * si_value);
        }
        let is_named = || NAMED_UNITS.iter().any(|known| known.names.contains(&unit));
        if got == dimension.powers() && dimension.has_plain_units() && !is_named() {
            return Err(unknown());
        }
        if got != dimension.powers() {
            return Err(UnitError::WrongDimension {
                unit: unit.to_owned(),
                got,
                expected: expected(&dimension.with_article()),
            });
        }
        let one = one.ok_or_else(|| match self {
            Self::Dimensionless => UnitError::NoUnits { unit: unit.to_owned() },
            Self::LennardJones => UnitError::ReducedUnits { unit: unit.to_owned() },
            _ => UnitError::NoScale { unit: unit.to_owned() },
        })?;
        Ok(value * (si_value / one))
    }

    /// Returns examples of quantities of this dimension, for error messages.
    pub fn examples(&self, dimension: Dimension) -> &'static str {
        let is_of_plates = matches!(self, Self::Si | Self::Dimensionless);
        let is_of_atoms = matches!(self, Self::LennardJones | Self::Real);
        match dimension {
            Dimension::None => "a plain number",
            Dimension::Length if is_of_atoms => "\"3.4 Å\", \"3.4 angstrom\", \"0.34 nm\"",
            Dimension::Mass if is_of_atoms => "\"39.95 u\"",
            Dimension::Time if is_of_atoms => "\"10 fs\", \"2 ps\", \"1 ns\"",
            Dimension::Energy => "\"0.998 kJ/mol\", \"10.3 meV\", \"120 K\"",
            Dimension::Temperature if is_of_plates => "\"300 K\"",
            Dimension::Temperature => "\"94.4 K\"",
            Dimension::Density => "\"1.374 g/cm^3\", \"1374 kg/m^3\"",
            Dimension::Angle => "\"30 deg\" or \"0.5 rad\"",
            Dimension::Length if is_of_plates => "\"1 m\", \"20 cm\", \"5 mm\"",
            Dimension::Length => "\"1 kpc\", \"1 pc\", \"1 au\", \"1 km\"",
            Dimension::Mass => "\"1e10 Msun\", \"1 Mearth\", \"1 kg\"",
            Dimension::Time if is_of_plates => "\"1 h\", \"40 s\", \"5 ms\"",
            Dimension::Time => "\"10 Myr\", \"1 Gyr\", \"1 yr\", \"1 day\", \"1 s\"",
            Dimension::Velocity if is_of_plates => "\"1500 m/s\", \"2.5 km/s\"",
            Dimension::Velocity => "\"220 km/s\", \"1 m/s\", \"1 au/yr\"",
            Dimension::Frequency => "\"15 Hz\", \"2 kHz\", \"0.5 1/s\"",
            Dimension::VelocityGradient => "\"0.6 1/s\"",
            Dimension::Diffusivity => "\"1.17e-4 m^2/s\", \"117 mm^2/s\"",
            Dimension::Conductivity => "\"401 W/(m K)\"",
            Dimension::HeatCapacity => "\"3.44e6 J/(m^3 K)\"",
            Dimension::HeatSource => "\"1e5 W/m^3\"",
            Dimension::HeatFlux => "\"500 W/m^2\"",
            Dimension::HeatingRate => "\"2 K/s\"",
            Dimension::TemperatureFlux => "\"0.1 K m/s\"",
            Dimension::NumberDensity => "\"21.1 1/nm^3\", \"0.0211 1/Å^3\"",
            Dimension::AreaDensity => "\"8.6 1/nm^2\"",
            Dimension::MassPerArea => "\"1e-6 kg/m^2\"",
            Dimension::Power => "\"5 W\"",
        }
    }

    /// Formats a time for output, for example `"1.23 Gyr"` or `"4 yr"`. In nbody units the result
    /// is the bare number.
    pub fn format_time(&self, time: f64) -> String {
        self.format_in(time, self.shown_time(time))
    }

    /// Formats a time with four digits, for messages.
    ///
    /// ```
    /// use orrery_model::Units;
    /// assert_eq!(Units::NBody.format_time_in_message(0.001234567), "0.001235");
    /// assert_eq!(Units::Si.format_time_in_message(7.12345), "7.123 s");
    /// ```
    pub fn format_time_in_message(&self, time: f64) -> String {
        let unit = self.shown_time(time);
        format!("{} {}", four_digits(time / unit.size), unit.name).trim_end().to_owned()
    }

    /// Formats a length with four digits, for example `"50 pc"`.
    pub fn format_length(&self, length: f64) -> String {
        const OF_GALAXIES: &[(&str, f64)] = &[
            ("Mpc", 1e6 * PARSEC),
            ("kpc", 1e3 * PARSEC),
            ("pc", PARSEC),
            ("au", ASTRONOMICAL_UNIT),
            ("km", 1e3),
            ("m", 1.0),
        ];
        const OF_PLATES: &[(&str, f64)] = &[("km", 1e3), ("m", 1.0), ("mm", 1e-3), ("µm", 1e-6)];
        const OF_ATOMS: &[(&str, f64)] = &[("µm", 1e-6), ("nm", 1e-9), ("Å", 1e-10)];
        let units = match self {
            Self::Si => OF_PLATES,
            Self::Real => OF_ATOMS,
            _ => OF_GALAXIES,
        };
        let unit = self.largest_unit(length, Dimension::Length, units);
        let value = four_digits(length / unit.size);
        if unit.name.is_empty() { value } else { format!("{value} {}", unit.name) }
    }

    /// Returns the unit in which times up to `largest` are shown, for example Gyr or Myr in
    /// galactic units.
    ///
    /// ```
    /// use orrery_model::Units;
    /// let unit = Units::Galactic.shown_time(2.0);
    /// assert_eq!(unit.name, "Gyr");
    /// assert!((2.0 / unit.size - 1.956).abs() < 1e-3);
    /// ```
    pub fn shown_time(&self, largest: f64) -> ShownUnit {
        const OF_PLANETS: &[(&str, f64)] = &[
            ("Gyr", 1e9 * JULIAN_YEAR),
            ("Myr", 1e6 * JULIAN_YEAR),
            ("yr", JULIAN_YEAR),
            ("d", DAY),
            ("s", 1.0),
        ];
        const OF_PLATES: &[(&str, f64)] = &[("h", 3600.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)];
        const OF_ATOMS: &[(&str, f64)] = &[("ns", 1e-9), ("ps", 1e-12), ("fs", 1e-15)];
        let units = match self {
            Self::Si => OF_PLATES,
            Self::Real => OF_ATOMS,
            _ => OF_PLANETS,
        };
        self.largest_unit(largest, Dimension::Time, units)
    }

    /// Returns the unit in which masses per area are shown: Msun/kpc^2, Msun/au^2 or kg/m^2,
    /// depending on the unit of length.
    pub fn shown_surface_density(&self) -> ShownUnit {
        let Some(UnitScale { length, mass, .. }) = self.scale() else {
            return ShownUnit { name: "", size: 1.0 };
        };
        let kpc = 1e3 * PARSEC;
        let (name, si) = match length {
            _ if length >= PARSEC => ("Msun/kpc^2", SOLAR_MASS / (kpc * kpc)),
            _ if length >= 1e-3 * ASTRONOMICAL_UNIT => {
                ("Msun/au^2", SOLAR_MASS / (ASTRONOMICAL_UNIT * ASTRONOMICAL_UNIT))
            }
            _ => ("kg/m^2", 1.0),
        };
        ShownUnit { name, size: si / (mass / (length * length)) }
    }

    /// Returns the largest of `units` (name and SI size, descending) that `value` reaches.
    fn largest_unit(&self, value: f64, dimension: Dimension, units: &[(&'static str, f64)]) -> ShownUnit {
        let Some(one) = self.si_value(dimension) else {
            return ShownUnit { name: "", size: 1.0 };
        };
        let si = value * one;
        let &(name, size) = units
            .iter()
            .find(|(_, size)| si.abs() >= 0.9999 * size)
            .unwrap_or(if si == 0.0 { &units[1] } else { &units[units.len() - 1] });
        ShownUnit { name, size: size / one }
    }

    fn format_in(&self, value: f64, unit: ShownUnit) -> String {
        match self.scale() {
            None => visible_number(value, 4),
            Some(_) => format!("{} {}", visible_number(value / unit.size, 3), unit.name),
        }
    }
}

/// Formats a number with up to `decimals` decimals, or in scientific notation if they would show
/// only zeros or if the number is very large.
fn visible_number(value: f64, decimals: usize) -> String {
    let digits = format!("{value:.decimals$}");
    let is_hidden = value != 0.0 && digits.parse() == Ok(0.0);
    if is_hidden || (value.is_finite() && value.abs() >= 1e15) {
        return format!("{value:.3e}");
    }
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits,
    }
}

#[cfg(test)]
mod tests;
