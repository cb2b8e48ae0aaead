//! Writer of the layout that the parent module describes.

use std::io::Write;

use hdf5_pure::{AttrValue, Error, FileBuilder};
use orrery_model::units::UnitScale;
use orrery_model::{Species, Units, Vec3s};

use super::{UNIT_LENGTH, UNIT_MASS, UNIT_SYSTEM, UNIT_VELOCITY};
use crate::error::Fault;
use crate::snapshot::Snapshot;
use crate::text;

/// Writes a snapshot to `sink`, from front to back.
pub fn write(sink: &mut impl Write, snapshot: &Snapshot) -> Result<(), Fault> {
    let members = members_by_species(&snapshot.particles.species);
    let mut builder = FileBuilder::new();
    add_header(&mut builder, snapshot, &members)?;
    add_units(&mut builder, snapshot.units);
    add_provenance(&mut builder, snapshot);
    let in_file_order = members.iter().flatten().is_sorted();
    for (species, members) in Species::ALL.into_iter().zip(&members) {
        if !members.is_empty() {
            add_bodies(&mut builder, snapshot, species, members, !in_file_order);
        }
    }
    builder.finish_to(sink).map_err(|error| match error {
        Error::Io(error) => Fault::System(error),
        other => Fault::malformed("snapshot", other.to_string(), "values that HDF5 can store"),
    })
}

/// Returns the indices of the bodies of each species, in GADGET's order of species.
fn members_by_species(species: &[Species]) -> [Vec<usize>; 6] {
    let mut members: [Vec<usize>; 6] = Default::default();
    for (i, &s) in species.iter().enumerate() {
        members[s as usize].push(i);
    }
    members
}

fn add_header(
    builder: &mut FileBuilder,
    snapshot: &Snapshot,
    members: &[Vec<usize>; 6],
) -> Result<(), Fault> {
    let mut counts = Vec::with_capacity(6);
    for members in members {
        counts.push(u32::try_from(members.len()).map_err(|_| {
            Fault::malformed(
                "species",
                format!("{} bodies", members.len()),
                "fewer than 2^32 of each species",
            )
        })?);
    }
    let mut header = builder.create_group("Header");
    header.set_attr("NumPart_ThisFile", AttrValue::U32Array(counts.clone()));
    header.set_attr("NumPart_Total", AttrValue::U32Array(counts));
    header.set_attr("NumPart_Total_HighWord", AttrValue::U32Array(vec![0; 6]));
    // Zero: the masses are in the Masses datasets.
    header.set_attr("MassTable", AttrValue::F64Array(vec![0.0; 6]));
    header.set_attr("NumFilesPerSnapshot", AttrValue::I32(1));
    for (name, value) in [
        ("Time", snapshot.time),
        ("Redshift", 0.0),
        // Zero: space is open, there is no periodic box.
        ("BoxSize", 0.0),
        ("Omega0", 0.0),
        ("OmegaLambda", 0.0),
        ("HubbleParam", 1.0),
    ] {
        header.set_attr(name, AttrValue::F64(value));
    }
    for flag in ["Sfr", "Cooling", "StellarAge", "Metals", "Feedback"] {
        header.set_attr(&format!("Flag_{flag}"), AttrValue::I32(0));
    }
    header.set_attr("Flag_DoublePrecision", AttrValue::I32(1));
    // Name of the time in pynbody. Without it, pynbody computes an age of the universe.
    let gyr = cgs_scale(snapshot.units).time / (1e9 * 365.25 * 86_400.0);
    header.set_attr("Time_GYR", AttrValue::F64(snapshot.time * gyr));
    builder.add_group(header.finish());
    Ok(())
}

/// Returns the scale of the units for other programs: 1 cm, 1 g and 1 s for units without a scale.
fn cgs_scale(units: Units) -> UnitScale {
    units.scale().unwrap_or(UnitScale { length: 1e-2, mass: 1e-3, time: 1.0 })
}

fn add_units(builder: &mut FileBuilder, units: Units) {
    let UnitScale { length, mass, time } = cgs_scale(units);
    let mut group = builder.create_group("Units");
    group.set_attr(UNIT_LENGTH, AttrValue::F64(length * 1e2));
    group.set_attr(UNIT_MASS, AttrValue::F64(mass * 1e3));
    group.set_attr(UNIT_VELOCITY, AttrValue::F64(length * 1e2 / time));
    group.set_attr(UNIT_SYSTEM, AttrValue::VarLenString(text::format_units(units)));
    builder.add_group(group.finish());
}

fn add_provenance(builder: &mut FileBuilder, snapshot: &Snapshot) {
    let mut group = builder.create_group("Orrery");
    group.set_attr("Step", AttrValue::U64(snapshot.step));
    let keys: Vec<String> = snapshot.provenance.iter().map(|(key, _)| key.clone()).collect();
    if !keys.is_empty() {
        group.set_attr("Keys", AttrValue::VarLenStringArray(keys));
        let mut texts = group.create_group("Provenance");
        for (key, value) in &snapshot.provenance {
            // Variable-length texts are stored in the global heap, without the 64 KiB limit of
            // attributes.
            texts.set_attr(key, AttrValue::VarLenString(value.clone()));
        }
        group.add_group(texts.finish());
    }
    builder.add_group(group.finish());
}

fn add_bodies(
    builder: &mut FileBuilder,
    snapshot: &Snapshot,
    species: Species,
    members: &[usize],
    with_order: bool,
) {
    let bodies = &snapshot.particles;
    let rows = |column: &Vec3s| members.iter().flat_map(|&i| column.get(i)).collect::<Vec<f64>>();
    let masses: Vec<f64> = members.iter().map(|&i| bodies.mass[i]).collect();
    let n = members.len() as u64;
    let mut group = builder.create_group(&format!("PartType{}", species as u8));
    for (name, values, shape) in [
        ("Coordinates", rows(&bodies.position), &[n, 3][..]),
        ("Velocities", rows(&bodies.velocity), &[n, 3]),
        ("Masses", masses, &[n]),
    ] {
        let dataset = group.create_dataset(name).with_f64_data(&values).with_shape(shape);
        // Values are neither comoving nor scaled by h. Without these attributes pynbody assumes
        // cosmology.
        dataset.set_attr("aexp-scale-exponent", AttrValue::F64(0.0));
        dataset.set_attr("h-scale-exponent", AttrValue::F64(0.0));
    }
    let ids: Vec<u64> = members.iter().map(|&i| bodies.id[i]).collect();
    group.create_dataset("ParticleIDs").with_u64_data(&ids);
    if with_order {
        let order: Vec<u64> = members.iter().map(|&i| i as u64).collect();
        group.create_dataset("Order").with_u64_data(&order);
    }
    builder.add_group(group.finish());
}
