//! Unit systems and species as short texts, the same in every format.

use orrery_model::units::Scale;
use orrery_model::{Species, Units};

/// `nbody`, `galactic`, `solar`, or `custom LENGTH m MASS kg TIME s`.
pub fn from_units(units: Units) -> String {
    match units {
        Units::Custom(s) => format!("custom {:e} m {:e} kg {:e} s", s.length, s.mass, s.time),
        named => named.name().to_owned(),
    }
}

/// The inverse of [`from_units`].
pub fn to_units(text: &str) -> Option<Units> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["custom", length, "m", mass, "kg", time, "s"] => {
            let [length, mass, time] = [length, mass, time].map(positive);
            Some(Units::Custom(Scale { length: length?, mass: mass?, time: time? }))
        }
        [name] => Units::from_name(name).ok(),
        _ => None,
    }
}

fn positive(text: &str) -> Option<f64> {
    text.parse().ok().filter(|v: &f64| v.is_finite() && *v > 0.0)
}

/// What [`to_units`] understands, for messages.
pub const UNITS_EXPECTED: &str = "nbody, galactic, solar or 'custom LENGTH m MASS kg TIME s'";

/// What a species is called in files.
pub fn from_species(species: Species) -> &'static str {
    match species {
        Species::Gas => "Gas",
        Species::Halo => "Halo",
        Species::Disc => "Disc",
        Species::Bulge => "Bulge",
        Species::Stars => "Stars",
        Species::Boundary => "Boundary",
    }
}

/// The inverse of [`from_species`].
pub fn to_species(name: &str) -> Option<Species> {
    Species::ALL.into_iter().find(|&species| from_species(species) == name)
}

/// What provenance says of a file that names no units.
pub const ASSUMED_UNITS: (&str, &str) = ("units assumed", "galactic, since the file names none");

/// The longest word of a stranger that a message repeats.
pub const LONGEST_WORD: usize = 40;

/// No more of a stranger's text than `longest` characters, in one line.
pub fn shortened(text: &str, longest: usize) -> String {
    text.chars().take(longest).map(|c| if c.is_control() { '?' } else { c }).collect()
}
