//! Attributes of a GADGET HDF5 file: counts, time, units, provenance.

use std::collections::HashMap;

use hdf5_pure::{AttrValue, File, Group};
use orrery_model::Units;
use orrery_model::units::Scale;

use super::read::library_fault;
use super::source::Meter;
use super::{UNIT_LENGTH, UNIT_MASS, UNIT_SYSTEM, UNIT_VELOCITY};
use crate::error::Fault;
use crate::limits::check_provenance;
use crate::text;

/// Content of /Header.
pub struct Header {
    /// Number of bodies of each species.
    pub counts: [u64; 6],
    /// Mass of all bodies of a species. If it is zero, the bodies have individual masses.
    pub mass_table: [f64; 6],
    /// Simulated time.
    pub time: f64,
    /// Provenance entries about values that may be misread, such as comoving coordinates.
    pub notes: Vec<(String, String)>,
}

type Attributes = HashMap<String, AttrValue>;

impl Header {
    /// Reads /Header.
    pub fn read(file: &File, meter: &Meter) -> Result<Self, Fault> {
        meter.allow_metadata();
        let group = file.group("Header").map_err(|error| library_fault("group /Header", error))?;
        let attributes = read_attributes(&group, "group /Header", meter)?;
        let counts = six_values(&attributes, "NumPart_ThisFile", AttrValue::to_u64s)?
            .ok_or_else(|| missing_attribute("NumPart_ThisFile"))?;
        let files = attributes.get("NumFilesPerSnapshot").and_then(AttrValue::as_i64).unwrap_or(1);
        if files > 1 {
            return Err(Fault::malformed(
                header_attribute("NumFilesPerSnapshot"),
                files.to_string(),
                "1 file per snapshot",
            ));
        }
        let number = |name: &str| attributes.get(name).and_then(AttrValue::as_f64);
        Ok(Self {
            counts,
            mass_table: six_values(&attributes, "MassTable", AttrValue::to_f64s)?.unwrap_or_default(),
            time: number("Time").unwrap_or(0.0),
            notes: comoving_note(number("Redshift").unwrap_or(0.0), number("HubbleParam").unwrap_or(1.0)),
        })
    }
}

/// Returns a note for cosmological snapshots. Orrery does not model the expansion of space and uses
/// their values unchanged.
fn comoving_note(redshift: f64, hubble: f64) -> Vec<(String, String)> {
    if redshift == 0.0 && (hubble == 0.0 || hubble == 1.0) {
        return Vec::new();
    }
    let note = format!("taken as they stand: Redshift = {redshift}, HubbleParam = {hubble}");
    vec![("comoving numbers".to_owned(), note)]
}

/// Reads the attributes of `group`.
fn read_attributes(group: &Group, location: &str, meter: &Meter) -> Result<Attributes, Fault> {
    meter.allow_metadata();
    let location = format!("attributes of {location}");
    let attributes = group.attrs().map_err(|error| library_fault(&location, error))?;
    meter.check_budget(&location)?;
    Ok(attributes)
}

fn header_attribute(name: &str) -> String {
    format!("attribute /Header/{name}")
}

fn missing_attribute(name: &str) -> Fault {
    Fault::malformed(header_attribute(name), "nothing", "6 numbers")
}

/// Returns an attribute of /Header with one value per species, or `None` if there is no such
/// attribute.
fn six_values<T: Copy>(
    attributes: &Attributes,
    name: &str,
    convert: impl Fn(&AttrValue) -> Option<Vec<T>>,
) -> Result<Option<[T; 6]>, Fault> {
    let Some(value) = attributes.get(name) else { return Ok(None) };
    let values = convert(value).ok_or_else(|| {
        Fault::malformed(
            header_attribute(name),
            text::shorten_for_message(&format!("{value:?}"), text::MAX_QUOTED_CHARS),
            "6 numbers >= 0",
        )
    })?;
    let length = values.len() as u64;
    <[T; 6]>::try_from(values).map(Some).map_err(|_| Fault::Length {
        location: header_attribute(name),
        got: length,
        expected: 6,
    })
}

/// Returns the units that the file names. Programs derived from GADGET store them in different
/// groups.
pub fn read_units(file: &File, meter: &Meter) -> Result<Option<Units>, Fault> {
    for name in ["Units", "Header", "Parameters"] {
        meter.allow_metadata();
        let Ok(group) = file.group(name) else { continue };
        let attributes = read_attributes(&group, &format!("group /{name}"), meter)?;
        if let Some(system) = attributes.get(UNIT_SYSTEM).and_then(AttrValue::as_str) {
            let unknown = || {
                let got = format!("'{}'", text::shorten_for_message(system, text::MAX_QUOTED_CHARS));
                Fault::malformed(format!("attribute /{name}/{UNIT_SYSTEM}"), got, text::UNITS_EXPECTED)
            };
            return text::parse_units(system).ok_or_else(unknown).map(Some);
        }
        let number = |name: &str| attributes.get(name).and_then(first_number);
        if let (Some(length), Some(mass), Some(velocity)) =
            (number(UNIT_LENGTH), number(UNIT_MASS), number(UNIT_VELOCITY))
        {
            return from_cgs(length, mass, length / velocity).map(Some);
        }
        // Names used by SWIFT.
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

/// Returns units of the given sizes. They become a named system if they agree with it to the usual
/// digits: six for lengths and times, three for the solar mass.
fn from_cgs(length_cm: f64, mass_g: f64, time_s: f64) -> Result<Units, Fault> {
    let scale = Scale { length: length_cm / 1e2, mass: mass_g / 1e3, time: time_s };
    if ![scale.length, scale.mass, scale.time].iter().all(|v| v.is_finite() && *v > 0.0) {
        return Err(Fault::malformed("units", format!("{scale:?}"), "finite numbers > 0"));
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
