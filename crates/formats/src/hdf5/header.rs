//! Attributes of a GADGET HDF5 file: counts, time, units, provenance.

use std::collections::HashMap;

use hdf5_pure::{AttrValue, File, Group};
use orrery_model::Units;
use orrery_model::units::UnitScale;

use super::read::library_fault;
use super::source::Meter;
use super::{UNIT_LENGTH, UNIT_MASS, UNIT_SYSTEM, UNIT_VELOCITY};
use crate::cosmology::{CosmologyFields, Exponents};
use crate::error::Fault;
use crate::gadget::{MAX_TYPES, check_totals};
use crate::limits::check_provenance;
use crate::text;

/// Content of /Header.
pub struct Header {
    /// Number of bodies of each type: 6 in GADGET-2, 7 in SWIFT, any number in GADGET-4.
    pub counts: Vec<u64>,
    /// Mass of all bodies of a type. If it is zero, the bodies have individual masses.
    pub mass_table: Vec<f64>,
    /// Simulated time.
    pub time: f64,
    /// Fields that identify a cosmological snapshot.
    pub cosmology: CosmologyFields,
}

type Attributes = HashMap<String, AttrValue>;

impl Header {
    /// Reads /Header.
    pub fn read(file: &File, meter: &Meter) -> Result<Self, Fault> {
        meter.allow_metadata();
        let group = file.group("Header").map_err(|error| library_fault("group /Header", error))?;
        let attributes = read_attributes(&group, "group /Header", meter)?;
        let counts = values_per_type(&attributes, "NumPart_ThisFile", AttrValue::to_u64s)?
            .ok_or_else(|| missing_attribute("NumPart_ThisFile"))?;
        if counts.is_empty() || counts.len() > MAX_TYPES {
            let got = format!("{} numbers", counts.len());
            let expected = format!("one for each of 1 to {MAX_TYPES} types");
            return Err(Fault::malformed(header_attribute("NumPart_ThisFile"), got, expected));
        }
        let check_types = |name: &str, length: usize| {
            Fault::check_length(header_attribute(name), length as u64, counts.len() as u64)
        };
        let files = header_number(&attributes, "NumFilesPerSnapshot")?.unwrap_or(1.0);
        // Some programs write 0.
        if files.is_nan() || files > 1.0 {
            return Err(Fault::malformed(
                header_attribute("NumFilesPerSnapshot"),
                files.to_string(),
                "1 file per snapshot",
            ));
        }
        if let Some(totals) = values_per_type(&attributes, "NumPart_Total", AttrValue::to_u64s)? {
            check_types("NumPart_Total", totals.len())?;
            check_totals(&header_attribute("NumPart_Total"), &totals, &counts)?;
        }
        let mass_table = values_per_type(&attributes, "MassTable", to_numbers)?;
        let mass_table = mass_table.unwrap_or_else(|| vec![0.0; counts.len()]);
        check_types("MassTable", mass_table.len())?;
        Ok(Self {
            counts,
            mass_table,
            time: header_number(&attributes, "Time")?.unwrap_or(0.0),
            cosmology: cosmology_fields(file, &attributes, meter)?,
        })
    }
}

/// Returns the fields that identify a cosmological snapshot. Programs store the flag in different
/// groups.
fn cosmology_fields(file: &File, header: &Attributes, meter: &Meter) -> Result<CosmologyFields, Fault> {
    let number = |name: &str| header_number(header, name);
    let flag_in = |attributes: &Attributes, name: &'static str| {
        attributes.get(name).and_then(first_number).map(|value| (name, value != 0.0))
    };
    let mut flag = flag_in(header, "ComovingIntegrationOn");
    // GADGET-4 and SWIFT.
    for (group, name) in [("Parameters", "ComovingIntegrationOn"), ("Cosmology", "Cosmological run")] {
        meter.allow_metadata();
        let Ok(found) = file.group(group) else { continue };
        let attributes = read_attributes(&found, &format!("group /{group}"), meter)?;
        flag = flag.or_else(|| flag_in(&attributes, name));
    }
    Ok(CosmologyFields {
        flag,
        time: number("Time")?,
        redshift: number("Redshift")?,
        omega0: number("Omega0")?.or(number("Omega_Matter")?),
        hubble: number("HubbleParam")?,
        box_size: number("BoxSize")?,
    })
}

/// Reads the attributes of `group`.
fn read_attributes(group: &Group, location: &str, meter: &Meter) -> Result<Attributes, Fault> {
    meter.allow_metadata();
    let location = format!("attributes of {location}");
    let attributes = group.attrs().map_err(|error| library_fault(&location, error))?;
    meter.check_budget(&location)?;
    Ok(attributes)
}

/// Returns a number of /Header, or `None` if there is no such attribute. SWIFT stores numbers as
/// arrays.
fn header_number(attributes: &Attributes, name: &str) -> Result<Option<f64>, Fault> {
    let Some(value) = attributes.get(name) else { return Ok(None) };
    let number = first_number(value)
        .ok_or_else(|| Fault::malformed(header_attribute(name), describe_value(value), "a number"))?;
    Ok(Some(number))
}

fn header_attribute(name: &str) -> String {
    format!("attribute /Header/{name}")
}

fn missing_attribute(name: &str) -> Fault {
    Fault::malformed(header_attribute(name), "nothing", "a number for each type of particle")
}

/// Names of the attributes of a dataset for its exponents of a and h: EAGLE, SWIFT, GADGET-4.
const EXPONENT_NAMES: [(&str, &str); 3] = [
    ("aexp-scale-exponent", "h-scale-exponent"),
    ("a-scale exponent", "h-scale exponent"),
    ("a_scaling", "h_scaling"),
];

/// Returns the exponents of a and h of a dataset with these attributes, or `usual` if it has none.
pub fn exponents(attributes: &HashMap<String, AttrValue>, usual: Exponents) -> Exponents {
    let number = |name: &str| attributes.get(name).and_then(first_number);
    let found = EXPONENT_NAMES.iter().find_map(|(a, h)| Some(Exponents { a: number(a)?, h: number(h)? }));
    found.unwrap_or(usual)
}

/// Returns the value of an attribute for a message, without the types of the library.
fn describe_value(value: &AttrValue) -> String {
    let text = if let Some(text) = value.as_str() {
        format!("'{text}'")
    } else if let Some(numbers) = to_numbers(value) {
        numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(" ")
    } else {
        "a value of another type".to_owned()
    };
    text::shorten_for_message(&text, text::MAX_QUOTED_CHARS)
}

/// Returns an attribute of /Header with one value per type, or `None` if there is no such
/// attribute.
fn values_per_type<T>(
    attributes: &Attributes,
    name: &str,
    convert: impl Fn(&AttrValue) -> Option<Vec<T>>,
) -> Result<Option<Vec<T>>, Fault> {
    let Some(value) = attributes.get(name) else { return Ok(None) };
    convert(value)
        .map(Some)
        .ok_or_else(|| Fault::malformed(header_attribute(name), describe_value(value), "numbers >= 0"))
}

/// Names of the attributes for a unit, in cgs: those of GADGET, GIZMO and SWIFT. The last entry is
/// an example of a value.
static UNIT_NAMES: [(&[&str], &str); 4] = [
    (&[UNIT_LENGTH, "UnitLength_In_CGS", "Unit length in cgs (U_L)"], "3.085678e21"),
    (&[UNIT_MASS, "UnitMass_In_CGS", "Unit mass in cgs (U_M)"], "1.989e43"),
    (&[UNIT_VELOCITY, "UnitVelocity_In_CGS"], "1e5"),
    (&["UnitTime_in_s", "Unit time in cgs (U_t)"], "3.085678e16"),
];

/// Returns the units that the file names. Programs derived from GADGET store them in different
/// groups.
pub fn read_units(file: &File, meter: &Meter) -> Result<Option<Units>, Fault> {
    let mut found: [Option<(String, f64)>; 4] = Default::default();
    for group_name in ["Units", "Header", "Parameters"] {
        meter.allow_metadata();
        let Ok(group) = file.group(group_name) else { continue };
        let attributes = read_attributes(&group, &format!("group /{group_name}"), meter)?;
        if let Some(system) = attributes.get(UNIT_SYSTEM).and_then(AttrValue::as_str) {
            let unknown = || {
                let got = format!("'{}'", text::shorten_for_message(system, text::MAX_QUOTED_CHARS));
                Fault::malformed(format!("attribute /{group_name}/{UNIT_SYSTEM}"), got, text::UNITS_EXPECTED)
            };
            return text::parse_units(system).ok_or_else(unknown).map(Some);
        }
        for (slot, (names, _)) in found.iter_mut().zip(&UNIT_NAMES) {
            let Some(name) = names.iter().find(|name| attributes.contains_key(**name)) else { continue };
            let path = format!("/{group_name}/{name}");
            let value = positive_number(&path, &attributes[*name])?;
            slot.get_or_insert((path, value));
        }
    }
    match &found {
        [None, None, None, None] => Ok(None),
        [Some((_, length)), Some((_, mass)), Some((_, velocity)), _] => {
            from_cgs(*length, *mass, length / velocity).map(Some)
        }
        [Some((_, length)), Some((_, mass)), None, Some((_, time))] => {
            from_cgs(*length, *mass, *time).map(Some)
        }
        _ => Err(missing_units(&found)),
    }
}

fn positive_number(path: &str, value: &AttrValue) -> Result<f64, Fault> {
    first_number(value).filter(|number| number.is_finite() && *number > 0.0).ok_or_else(|| {
        Fault::malformed(format!("attribute {path}"), describe_value(value), "a finite number > 0")
    })
}

/// Returns the error for a file with some units only. It names those found, those missing, and how
/// to add them.
fn missing_units(found: &[Option<(String, f64)>; 4]) -> Fault {
    let [length, mass, velocity, time] = found;
    let is_missing = [length.is_none(), mass.is_none(), velocity.is_none() && time.is_none()];
    let missing: Vec<_> =
        UNIT_NAMES.iter().zip(is_missing).filter(|(_, missing)| *missing).map(|(unit, _)| unit).collect();
    let got: Vec<String> =
        found.iter().flatten().map(|(path, value)| format!("{path} = {value:e}")).collect();
    let names: Vec<&str> = missing.iter().map(|(names, _)| names[0]).collect();
    let command: Vec<String> = missing
        .iter()
        .map(|(names, example)| format!("f.require_group('Units').attrs['{}'] = {example}", names[0]))
        .collect();
    let expected = format!(
        "{} as well; with h5py, f = h5py.File(FILE, 'r+'); {}",
        names.join(" and "),
        command.join("; ")
    );
    Fault::malformed("units", format!("only {}", got.join(" and ")), expected)
}

/// Returns the numbers of an attribute, which may be integers: Python writes `Time = 1` as one.
fn to_numbers(value: &AttrValue) -> Option<Vec<f64>> {
    let unsigned = || Some(value.to_u64s()?.into_iter().map(|v| v as f64).collect());
    let signed = || Some(value.to_i64s()?.into_iter().map(|v| v as f64).collect());
    value.to_f64s().or_else(unsigned).or_else(signed)
}

fn first_number(value: &AttrValue) -> Option<f64> {
    to_numbers(value)?.first().copied()
}

/// Returns units of the given sizes. They become a named system if they agree with it to the usual
/// digits: six for lengths and times, three for the solar mass.
fn from_cgs(length_cm: f64, mass_g: f64, time_s: f64) -> Result<Units, Fault> {
    let scale = UnitScale { length: length_cm / 1e2, mass: mass_g / 1e3, time: time_s };
    if ![scale.length, scale.mass, scale.time].iter().all(|v| v.is_finite() && *v > 0.0) {
        let got = format!("{length_cm:e} cm, {mass_g:e} g and {time_s:e} s");
        return Err(Fault::malformed("units", got, "finite numbers > 0"));
    }
    let is_close = |a: f64, b: f64, tolerance: f64| (a / b - 1.0).abs() < tolerance;
    let matches = |units: &Units| {
        units.scale().is_some_and(|known| {
            is_close(scale.length, known.length, 1e-6)
                && is_close(scale.mass, known.mass, 1e-3)
                && is_close(scale.time, known.time, 1e-6)
        })
    };
    Ok([Units::Galactic, Units::Solar].into_iter().find(matches).unwrap_or(Units::Custom(scale)))
}

/// Returns the step and the provenance. Files of other programs have step 0 and no provenance.
pub fn read_provenance(file: &File, meter: &Meter) -> Result<(u64, Vec<(String, String)>), Fault> {
    meter.allow_metadata();
    let Ok(group) = file.group("Orrery") else { return Ok((0, Vec::new())) };
    let run_attributes = read_attributes(&group, "group /Orrery", meter)?;
    let step = run_attributes.get("Step").and_then(AttrValue::as_u64).unwrap_or(0);
    let Some(keys) = run_attributes.get("Keys").and_then(AttrValue::as_strings) else {
        return Ok((step, Vec::new()));
    };
    meter.allow_metadata();
    let texts =
        group.group("Provenance").map_err(|error| library_fault("group /Orrery/Provenance", error))?;
    let texts = read_attributes(&texts, "group /Orrery/Provenance", meter)?;
    check_provenance(0, keys.len())?;
    let text = |key: &String| {
        let found = texts.get(key).and_then(AttrValue::as_str).ok_or_else(|| {
            let key = text::shorten_for_message(key, text::MAX_QUOTED_CHARS);
            Fault::malformed(format!("attribute /Orrery/Provenance/{key}"), "nothing", "a text")
        })?;
        Ok((key.clone(), found.to_owned()))
    };
    Ok((step, keys.iter().map(text).collect::<Result<_, Fault>>()?))
}
