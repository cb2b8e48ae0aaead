//! Text forms of unit systems and species, the same in every format.

use orrery_model::units::UnitScale;
use orrery_model::{Species, Units, format_count};

/// Returns `nbody`, `galactic`, `solar`, or `custom LENGTH m MASS kg TIME s`.
pub fn format_units(units: Units) -> String {
    match units {
        Units::Custom(s) => format!("custom {:e} m {:e} kg {:e} s", s.length, s.mass, s.time),
        named => named.name().to_owned(),
    }
}

/// Parses the result of [`format_units`].
pub fn parse_units(text: &str) -> Option<Units> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["custom", length, "m", mass, "kg", time, "s"] => {
            let [length, mass, time] = [length, mass, time].map(parse_positive);
            Some(Units::Custom(UnitScale { length: length?, mass: mass?, time: time? }))
        }
        [name] => Units::from_name(name).ok(),
        _ => None,
    }
}

fn parse_positive(text: &str) -> Option<f64> {
    text.parse().ok().filter(|v: &f64| v.is_finite() && *v > 0.0)
}

/// Returns `1 byte`, `2 bytes` and so on, for messages.
pub fn byte_count(count: u64) -> String {
    format_count(count, "byte", "bytes")
}

/// Name of the note about bodies of types that have no species.
pub const OTHER_TYPES: &str = "other types";

/// Texts that [`parse_units`] accepts, for messages.
pub const UNITS_EXPECTED: &str = "nbody, galactic, solar or 'custom LENGTH m MASS kg TIME s'";

/// Name of a species in files.
pub fn species_name(species: Species) -> &'static str {
    match species {
        Species::Gas => "Gas",
        Species::Halo => "Halo",
        Species::Disc => "Disc",
        Species::Bulge => "Bulge",
        Species::Stars => "Stars",
        Species::Boundary => "Boundary",
    }
}

/// Returns the species with this name.
pub fn parse_species(name: &str) -> Option<Species> {
    Species::ALL.into_iter().find(|&species| species_name(species) == name)
}

/// Provenance entry for a file that names no units.
pub const ASSUMED_UNITS: (&str, &str) = ("units assumed", "galactic, since the file names none");

/// Largest number of characters of a file that a message quotes.
pub const MAX_QUOTED_CHARS: usize = 40;

/// Returns the first `max_chars` characters of text from a file, on one line. Control characters
/// become `?`.
pub fn shorten_for_message(text: &str, max_chars: usize) -> String {
    text.chars().take(max_chars).map(|c| if c.is_control() { '?' } else { c }).collect()
}
