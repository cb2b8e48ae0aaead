//! Units as text: named units such as `kpc`, and products of them such as `W/(m K)`, `m^2/s`,
//! `m²/s`, `m2/s`, `1/s` or `s^-1`.
//!
//! A `/` divides by the one factor after it: `J/m^3/K` is `J/(m^3 K)`. A product after a `/`, such
//! as `W/m K`, has two readings and is refused.

use super::dimension::{Dimension, Powers};
use super::{ASTRONOMICAL_UNIT, ATOMIC_MASS, AVOGADRO, DAY, ELECTRONVOLT, JULIAN_YEAR, PARSEC, SOLAR_MASS};

/// Splits a quantity into its number and its unit, without the space around them. The number is the
/// longest prefix that parses, for example in `"1e10 Msun"`, `"1kpc"` or `"2e3m"`.
///
/// ```
/// assert_eq!(orrery_model::units::split_quantity("8kpc"), Some(("8", "kpc")));
/// assert_eq!(orrery_model::units::split_quantity("kpc"), None);
/// ```
pub fn split_quantity(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    (1..=text.len())
        .rev()
        .filter(|&end| {
            text.is_char_boundary(end) && text.as_bytes()[end - 1].is_ascii_digit()
                || text.as_bytes()[end - 1] == b'.'
        })
        .map(|end| (&text[..end], text[end..].trim()))
        .find(|(number, _)| number.parse::<f64>().is_ok())
}

/// A unit of quantities.
pub struct NamedUnit {
    /// Names in quantities. The first is the usual one.
    pub names: &'static [&'static str],
    /// Dimension of the unit.
    pub dimension: Dimension,
    /// Value in SI.
    pub si_value: f64,
}

const fn unit(names: &'static [&'static str], dimension: Dimension, si_value: f64) -> NamedUnit {
    NamedUnit { names, dimension, si_value }
}

/// All units with a name. Products of them are units too, such as `km/s`. The micro sign has two
/// characters, U+00B5 and the Greek letter U+03BC, and so has ångström, U+00C5 and U+212B.
pub const NAMED_UNITS: &[NamedUnit] = &[
    unit(&["m"], Dimension::Length, 1.0),
    unit(&["km"], Dimension::Length, 1e3),
    unit(&["cm"], Dimension::Length, 1e-2),
    unit(&["mm"], Dimension::Length, 1e-3),
    unit(&["um", "µm", "\u{3bc}m"], Dimension::Length, 1e-6),
    unit(&["nm"], Dimension::Length, 1e-9),
    unit(&["angstrom", "Å", "\u{212b}"], Dimension::Length, 1e-10),
    unit(&["au", "AU"], Dimension::Length, ASTRONOMICAL_UNIT),
    unit(&["pc"], Dimension::Length, PARSEC),
    unit(&["kpc"], Dimension::Length, 1e3 * PARSEC),
    unit(&["Mpc"], Dimension::Length, 1e6 * PARSEC),
    unit(&["s"], Dimension::Time, 1.0),
    unit(&["ms"], Dimension::Time, 1e-3),
    unit(&["us", "µs", "\u{3bc}s"], Dimension::Time, 1e-6),
    unit(&["ns"], Dimension::Time, 1e-9),
    unit(&["ps"], Dimension::Time, 1e-12),
    unit(&["fs"], Dimension::Time, 1e-15),
    unit(&["min"], Dimension::Time, 60.0),
    unit(&["h", "hour", "hours"], Dimension::Time, 3600.0),
    unit(&["d", "day", "days"], Dimension::Time, DAY),
    unit(&["yr", "year", "years"], Dimension::Time, JULIAN_YEAR),
    unit(&["kyr"], Dimension::Time, 1e3 * JULIAN_YEAR),
    unit(&["Myr"], Dimension::Time, 1e6 * JULIAN_YEAR),
    unit(&["Gyr"], Dimension::Time, 1e9 * JULIAN_YEAR),
    unit(&["kg"], Dimension::Mass, 1.0),
    unit(&["g"], Dimension::Mass, 1e-3),
    unit(&["u", "amu", "Da"], Dimension::Mass, ATOMIC_MASS),
    unit(&["Msun"], Dimension::Mass, SOLAR_MASS),
    unit(&["Mjup"], Dimension::Mass, SOLAR_MASS / 1_047.348_6),
    unit(&["Mearth"], Dimension::Mass, SOLAR_MASS / 332_946.05),
    unit(&["J"], Dimension::Energy, 1.0),
    unit(&["kJ"], Dimension::Energy, 1e3),
    unit(&["MJ"], Dimension::Energy, 1e6),
    unit(&["kJ/mol"], Dimension::Energy, 1e3 / AVOGADRO),
    unit(&["kcal/mol"], Dimension::Energy, 4184.0 / AVOGADRO),
    unit(&["eV"], Dimension::Energy, ELECTRONVOLT),
    unit(&["meV"], Dimension::Energy, 1e-3 * ELECTRONVOLT),
    unit(&["W"], Dimension::Power, 1.0),
    unit(&["mW"], Dimension::Power, 1e-3),
    unit(&["kW"], Dimension::Power, 1e3),
    unit(&["MW"], Dimension::Power, 1e6),
    unit(&["Hz"], Dimension::Frequency, 1.0),
    unit(&["kHz"], Dimension::Frequency, 1e3),
    unit(&["MHz"], Dimension::Frequency, 1e6),
    unit(&["GHz"], Dimension::Frequency, 1e9),
    unit(&["K"], Dimension::Temperature, 1.0),
    unit(&["kg/m^3"], Dimension::Density, 1.0),
    unit(&["g/cm^3"], Dimension::Density, 1e3),
    unit(&["deg"], Dimension::Angle, std::f64::consts::PI / 180.0),
    unit(&["rad"], Dimension::Angle, 1.0),
];

/// Longest text of a unit in bytes. It bounds the depth of parentheses.
const MAX_UNIT_BYTES: usize = 100;
/// Largest power of a factor.
const MAX_POWER: i32 = 9;

/// Returns the powers of a unit and its value in SI. `None` if the text is not a unit.
pub(super) fn unit_in_si(unit: &str) -> Option<(Powers, f64)> {
    if let Some(found) = NAMED_UNITS.iter().find(|known| known.names.contains(&unit)) {
        return Some((found.dimension.powers(), found.si_value));
    }
    if unit.len() > MAX_UNIT_BYTES || !unit.chars().any(char::is_alphabetic) {
        return None;
    }
    let mut rest = unit;
    let product = parse_product(&mut rest)?;
    rest.is_empty().then_some(product)
}

/// Parses factors until the end of the text or a closing parenthesis.
fn parse_product(rest: &mut &str) -> Option<(Powers, f64)> {
    let mut product: Option<(Powers, f64)> = None;
    let mut has_divided = false;
    loop {
        *rest = rest.trim_start();
        if rest.is_empty() || rest.starts_with(')') {
            return product;
        }
        let divides = skip(rest, &["/"]);
        if !divides && product.is_some() {
            skip(rest, &["*", "·"]);
            if has_divided {
                return None;
            }
        }
        has_divided |= divides;
        *rest = rest.trim_start();
        let (powers, si_value) = parse_factor(rest)?;
        product = Some(match (product, divides) {
            (None, false) => (powers, si_value),
            (None, true) => (Powers::default().times(powers, -1), 1.0 / si_value),
            (Some((earlier, size)), false) => (earlier.times(powers, 1), size * si_value),
            (Some((earlier, size)), true) => (earlier.times(powers, -1), size / si_value),
        });
    }
}

/// Parses a name, `1` or a product in parentheses, with its power.
fn parse_factor(rest: &mut &str) -> Option<(Powers, f64)> {
    let (powers, si_value) = if skip(rest, &["("]) {
        let product = parse_product(rest)?;
        skip(rest, &[")"]).then_some(product)?
    } else if let Some(after) = rest.strip_prefix('1') {
        *rest = after;
        let is_number = after.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        return (!is_number).then_some((Powers::default(), 1.0));
    } else {
        let end = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let found = NAMED_UNITS.iter().find(|known| known.names.contains(&name))?;
        *rest = after;
        (found.dimension.powers(), found.si_value)
    };
    let power = parse_power(rest)?;
    Some((Powers::default().times(powers, power), si_value.powi(power)))
}

const SUPERSCRIPTS: &str = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/// Parses a power such as `^2`, `^-1`, `²`, `⁻¹`, `2` or `-1`. Without one it is 1.
fn parse_power(rest: &mut &str) -> Option<i32> {
    let superscript = |c: char| SUPERSCRIPTS.chars().position(|known| known == c).map(|digit| digit as u32);
    let is_superscript = rest.starts_with(|c: char| c == '⁻' || superscript(c).is_some());
    let digit = |c: char| if is_superscript { superscript(c) } else { c.to_digit(10) };
    let has_caret = !is_superscript && skip(rest, &["^"]);
    let is_negative = skip(rest, if is_superscript { &["⁻"] } else { &["-", "−"] });
    let first = rest.chars().next();
    let Some((c, power)) = first.and_then(|c| Some((c, i32::try_from(digit(c)?).ok()?))) else {
        return (!has_caret && !is_negative).then_some(1);
    };
    *rest = &rest[c.len_utf8()..];
    let has_more = rest.chars().next().is_some_and(|c| digit(c).is_some());
    if has_more || !(1..=MAX_POWER).contains(&power) {
        return None;
    }
    Some(if is_negative { -power } else { power })
}

/// Removes one of `prefixes` from the text. Returns true if it starts with one.
fn skip(rest: &mut &str, prefixes: &[&str]) -> bool {
    let after = prefixes.iter().find_map(|prefix| rest.strip_prefix(prefix));
    *rest = after.unwrap_or(rest);
    after.is_some()
}
