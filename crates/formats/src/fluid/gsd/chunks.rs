//! Chunks of a frame of a GSD file.

use std::io::{self, Write};

use orrery_model::simulation_box::{BoxSides, SimulationBox};
use serde_json::{Map, Value};

use super::{CHUNK_NAMES, Entry, ValueType};
use crate::error::Fault;
use crate::fluid::FluidFrame;

/// Lengths of a box for which lengths and positions are normal numbers of f32.
const F32_LENGTHS: std::ops::RangeInclusive<f64> = 1e-30..=1e30;

/// Returns the number of the chunk with this name.
pub(super) fn name_id(name: &str) -> u16 {
    CHUNK_NAMES.iter().position(|&known| known == name).expect("the name is in the table") as u16
}

/// Function that writes the data of a chunk.
type WriteData<'a> = dyn Fn(&mut dyn Write) -> io::Result<()> + 'a;

/// Data of one chunk. They are generated when they are written, because they may be large.
pub(super) struct Chunk<'a> {
    pub name: u16,
    kind: ValueType,
    rows: u64,
    columns: u32,
    pub write: Box<WriteData<'a>>,
}

impl<'a> Chunk<'a> {
    /// Returns a chunk with one value of `N` bytes per row and column.
    fn values<const N: usize>(
        (name, kind): (&str, ValueType),
        rows: usize,
        columns: u32,
        value: impl Fn(usize, usize) -> [u8; N] + 'a,
    ) -> Self {
        debug_assert_eq!(kind.bytes(), N as u64);
        let write = move |sink: &mut dyn Write| {
            for row in 0..rows {
                for column in 0..columns as usize {
                    sink.write_all(&value(row, column))?;
                }
            }
            Ok(())
        };
        Self { name: name_id(name), kind, rows: rows as u64, columns, write: Box::new(write) }
    }

    /// Returns a chunk with a text as bytes.
    fn text(name: &str, text: String) -> Self {
        Self::values((name, ValueType::U8), text.len(), 1, move |row, _| [text.as_bytes()[row]])
    }

    /// Returns the entry of the chunk at `location`.
    pub fn entry(&self, frame: u64, location: u64) -> Entry {
        let Self { name, kind, rows, columns, .. } = *self;
        Entry { frame, rows, location, columns, name, kind }
    }
}

/// Returns all chunks of a frame, sorted by name.
pub(super) fn frame_chunks<'a>(frame: &FluidFrame<'a>) -> Result<Vec<Chunk<'a>>, Fault> {
    use ValueType::{F32, F64, I8, I32, U8, U32, U64};
    let (particles, species, bounds) = (frame.particles, frame.species, frame.particles.bounds);
    let n = particles.len();
    let n_u32 = u32::try_from(n)
        .map_err(|_| Fault::malformed("particles", n.to_string(), "at most 4294967295 in a GSD file"))?;
    if let Some(&length) = bounds.lengths.iter().find(|&&length| !F32_LENGTHS.contains(&length)) {
        let expected = "1e-30 to 1e30 in a GSD file, whose numbers are f32";
        return Err(Fault::malformed("length of the box", format!("{length:e}"), expected));
    }
    let (step, time) = (frame.step, frame.time);
    let velocity = [&particles.velocity.x, &particles.velocity.y, &particles.velocity.z];
    let type_of = |row: usize| usize::from(particles.species[row]);
    // Each name is a row that ends in NUL.
    let width = species.iter().map(|species| species.name.len()).max().unwrap_or(0) + 1;
    let letter = |row: usize, column: usize| species[row].name.as_bytes().get(column).copied().unwrap_or(0);
    let is_periodic = move |axis: usize| bounds.sides == BoxSides::Periodic && axis < bounds.dimensions;
    let box_value = move |row: usize| bounds.lengths.get(row).map_or(0.0, |&length| length as f32);
    let bytes = |value: f64| value.to_le_bytes();
    let single = |value: f64| (value as f32).to_le_bytes();
    Ok(vec![
        Chunk::values(("configuration/step", U64), 1, 1, move |_, _| step.to_le_bytes()),
        Chunk::values(("configuration/dimensions", U8), 1, 1, move |_, _| [bounds.dimensions as u8]),
        Chunk::values(("configuration/box", F32), 6, 1, move |row, _| box_value(row).to_le_bytes()),
        Chunk::values(("particles/N", U32), 1, 1, move |_, _| n_u32.to_le_bytes()),
        Chunk::values(("particles/types", I8), species.len(), width as u32, move |row, k| [letter(row, k)]),
        Chunk::values(("particles/typeid", U32), n, 1, move |row, _| (type_of(row) as u32).to_le_bytes()),
        Chunk::values(("particles/mass", F32), n, 1, move |row, _| single(species[type_of(row)].mass)),
        Chunk::values(("particles/diameter", F32), n, 1, move |row, _| single(species[type_of(row)].sigma)),
        Chunk::values(("particles/position", F32), n, 3, move |row, axis| {
            centred_position(&bounds, axis, particles.position[axis][row]).to_le_bytes()
        }),
        Chunk::values(("particles/velocity", F32), n, 3, move |row, axis| single(velocity[axis][row])),
        Chunk::values(("particles/image", I32), n, 3, move |row, axis| {
            particles.image[axis][row].to_le_bytes()
        }),
        Chunk::values(("log/particles/orrery/id", U64), n, 1, move |row, _| particles.id[row].to_le_bytes()),
        Chunk::values(("log/orrery/time", F64), 1, 1, move |_, _| bytes(time)),
        Chunk::values(("log/orrery/origin", F64), 3, 1, move |axis, _| bytes(bounds.origin[axis])),
        Chunk::values(("log/orrery/lengths", F64), 3, 1, move |axis, _| bytes(bounds.lengths[axis])),
        Chunk::values(("log/orrery/periodic", U8), 3, 1, move |axis, _| [u8::from(is_periodic(axis))]),
        Chunk::values(("log/orrery/species_mass", F64), species.len(), 1, move |row, _| {
            bytes(species[row].mass)
        }),
        Chunk::values(("log/orrery/species_sigma", F64), species.len(), 1, move |row, _| {
            bytes(species[row].sigma)
        }),
        Chunk::text("log/orrery/units", units_text(frame)),
        Chunk::text("log/orrery/provenance", provenance_text(frame)),
    ])
}

/// Returns the position relative to the centre of the box, in [-L/2, L/2).
fn centred_position(bounds: &SimulationBox, axis: usize, fraction: u64) -> f32 {
    if axis >= bounds.dimensions {
        return 0.0;
    }
    // The difference to the centre, read as a signed number, is in [-1/2, 1/2).
    let position = bounds.separation([fraction; 3], [1 << 63; 3])[axis] as f32;
    let half = 0.5 * bounds.lengths[axis] as f32;
    // Rounding may give L/2, and -L/2 may round to a number below.
    position.clamp(-half, half.next_down())
}

/// Returns the units as JSON, for example `{"system":"lj","length":"sigma"}`.
fn units_text(frame: &FluidFrame<'_>) -> String {
    let mut units = Map::new();
    units.insert("system".to_owned(), Value::from(frame.units));
    for (quantity, unit) in frame.unit_names {
        units.insert((*quantity).to_owned(), Value::from(unit.as_str()));
    }
    Value::Object(units).to_string()
}

/// Returns the provenance as JSON: `[[name, text], ...]`, as in NPZ files.
fn provenance_text(frame: &FluidFrame<'_>) -> String {
    let pair = |(name, text): &(String, String)| Value::from(vec![name.as_str(), text.as_str()]);
    Value::Array(frame.provenance.iter().map(pair).collect()).to_string()
}
