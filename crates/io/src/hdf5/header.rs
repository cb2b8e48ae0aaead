//! What the attributes of a GADGET HDF5 file say: counts, time, units, provenance.

use std::collections::HashMap;

use hdf5_pure::{AttrValue, File, Group};
use orrery_model::Units;
use orrery_model::units::Scale;

use super::read::refused;
use super::source::Meter;
use super::{UNIT_LENGTH, UNIT_MASS, UNIT_SYSTEM, UNIT_VELOCITY};
use crate::error::Fault;
use crate::limits::check_provenance;
use crate::text;

/// What is needed of /Header.
pub struct Header {
    /// Bodies of each species.
    pub counts: [u64; 6],
    /// The mass that all bodies of a species share, where it is not zero.
    pub mass_table: [f64; 6],
    /// Simulated time.
    pub time: f64,
    /// Why the numbers may not mean what they seem to.
    pub notes: Vec<(String, String)>,
}

type Attributes = HashMap<String, AttrValue>;

impl Header {
    /// Reads /Header.
    pub fn read(file: &File, meter: &Meter) -> Result<Self, Fault> {
        meter.for_metadata();
        let group = file.group("Header").map_err(|error| refused("group /Header", error))?;
        let attributes = attributes(&group, "group /Header", meter)?;
        let counts = six(&attributes, "NumPart_ThisFile", AttrValue::to_u64s)?
            .ok_or_else(|| missing("NumPart_ThisFile"))?;
        let files = attributes.get("NumFilesPerSnapshot").and_then(AttrValue::as_i64).unwrap_or(1);
        if files > 1 {
            return Err(Fault::malformed(
                place("NumFilesPerSnapshot"),
                files.to_string(),
                "1, a whole snapshot",
            ));
        }
        let number = |name: &str| attributes.get(name).and_then(AttrValue::as_f64);
        Ok(Self {
            counts,
            mass_table: six(&attributes, "MassTable", AttrValue::to_f64s)?.unwrap_or_default(),
            time: number("Time").unwrap_or(0.0),
            notes: comoving_note(number("Redshift").unwrap_or(0.0), number("HubbleParam").unwrap_or(1.0)),
        })
    }
}

/// Orrery knows no expanding space; a cosmological snapshot's numbers are kept as they are, and that is said.
fn comoving_note(redshift: f64, hubble: f64) -> Vec<(String, String)> {
    if redshift == 0.0 && (hubble == 0.0 || hubble == 1.0) {
        return Vec::new();
    }
    let note = format!("taken as they stand: Redshift = {redshift}, HubbleParam = {hubble}");
    vec![("comoving numbers".to_owned(), note)]
}

/// The attributes of `group`.
fn attributes(group: &Group, place: &str, meter: &Meter) -> Result<Attributes, Fault> {
    meter.for_metadata();
    let place = format!("attributes of {place}");
    let attributes = group.attrs().map_err(|error| refused(&place, error))?;
    meter.check(&place)?;
    Ok(attributes)
}

fn place(name: &str) -> String {
    format!("attribute /Header/{name}")
}

fn missing(name: &str) -> Fault {
    Fault::malformed(place(name), "nothing", "6 numbers")
}

/// An attribute of /Header with one value a species; `None` where there is no such attribute.
fn six<T: Copy>(
    attributes: &Attributes,
    name: &str,
    convert: impl Fn(&AttrValue) -> Option<Vec<T>>,
) -> Result<Option<[T; 6]>, Fault> {
    let Some(value) = attributes.get(name) else { return Ok(None) };
    let values = convert(value).ok_or_else(|| {
        Fault::malformed(
            place(name),
            text::shortened(&format!("{value:?}"), text::LONGEST_WORD),
            "6 numbers >= 0",
        )
    })?;
    let length = values.len() as u64;
    <[T; 6]>::try_from(values).map(Some).map_err(|_| Fault::Length {
        place: place(name),
        got: length,
        expected: 6,
    })
}

/// The units the file names, wherever GADGET's descendants put them.
pub fn read_units(file: &File, meter: &Meter) -> Result<Option<Units>, Fault> {
    for name in ["Units", "Header", "Parameters"] {
        meter.for_metadata();
        let Ok(group) = file.group(name) else { continue };
        let attributes = attributes(&group, &format!("group /{name}"), meter)?;
        if let Some(system) = attributes.get(UNIT_SYSTEM).and_then(AttrValue::as_str) {
            let unknown = || {
                let got = format!("'{}'", text::shortened(system, text::LONGEST_WORD));
                Fault::malformed(format!("attribute /{name}/{UNIT_SYSTEM}"), got, text::UNITS_EXPECTED)
            };
            return text::to_units(system).ok_or_else(unknown).map(Some);
        }
        let number = |name: &str| attributes.get(name).and_then(first_number);
        if let (Some(length), Some(mass), Some(velocity)) =
            (number(UNIT_LENGTH), number(UNIT_MASS), number(UNIT_VELOCITY))
        {
            return from_cgs(length, mass, length / velocity).map(Some);
        }
        // SWIFT's names.
        if let (Some(length), Some(mass), Some(time)) = (
            number("Unit length in cgs (U_L)"),
            number("Unit mass in cgs (U_M)"),
            number("Unit time in cgs (U_t)"),
        ) {
            return from_cgs(length, mass, time).map(Some);
        }
    }
    Ok(None)
}

fn first_number(value: &AttrValue) -> Option<f64> {
    value.as_f64().or_else(|| value.to_f64s()?.first().copied())
}

/// Units of the given sizes; a system known by name where they agree to the digits usually quoted: six for
/// lengths, three for the solar mass.
fn from_cgs(length_cm: f64, mass_g: f64, time_s: f64) -> Result<Units, Fault> {
    let scale = Scale { length: length_cm / 1e2, mass: mass_g / 1e3, time: time_s };
    if ![scale.length, scale.mass, scale.time].iter().all(|v| v.is_finite() && *v > 0.0) {
        return Err(Fault::malformed("units", format!("{scale:?}"), "finite numbers > 0"));
    }
    let close = |a: f64, b: f64, tolerance: f64| (a / b - 1.0).abs() < tolerance;
    let same = |units: &Units| {
        units.scale().is_some_and(|known| {
            close(scale.length, known.length, 1e-6)
                && close(scale.mass, known.mass, 1e-3)
                && close(scale.time, known.time, 1e-6)
        })
    };
    Ok([Units::Galactic, Units::Solar].into_iter().find(same).unwrap_or(Units::Custom(scale)))
}

/// The step and the provenance, where this program wrote the file.
pub fn read_provenance(file: &File, meter: &Meter) -> Result<(u64, Vec<(String, String)>), Fault> {
    meter.for_metadata();
    let Ok(group) = file.group("Orrery") else { return Ok((0, Vec::new())) };
    let attributes_of_run = attributes(&group, "group /Orrery", meter)?;
    let step = attributes_of_run.get("Step").and_then(AttrValue::as_u64).unwrap_or(0);
    let Some(keys) = attributes_of_run.get("Keys").and_then(AttrValue::as_strings) else {
        return Ok((step, Vec::new()));
    };
    meter.for_metadata();
    let texts = group.group("Provenance").map_err(|error| refused("group /Orrery/Provenance", error))?;
    let texts = attributes(&texts, "group /Orrery/Provenance", meter)?;
    check_provenance(0, keys.len())?;
    let text = |key: &String| {
        let found = texts.get(key).and_then(AttrValue::as_str).ok_or_else(|| {
            let key = text::shortened(key, text::LONGEST_WORD);
            Fault::malformed(format!("attribute /Orrery/Provenance/{key}"), "nothing", "a text")
        })?;
        Ok((key.clone(), found.to_owned()))
    };
    Ok((step, keys.iter().map(text).collect::<Result<_, Fault>>()?))
}
