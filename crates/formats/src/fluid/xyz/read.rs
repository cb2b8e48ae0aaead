//! Reading of the frames of an extended XYZ file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use orrery_model::format_count;
use orrery_model::simulation_box::{BoxSides, SimulationBox};

use super::PROPERTIES;
use crate::error::Fault;
use crate::fluid::builder::{Builder, open_box};
use crate::fluid::{FluidFile, quoted};
use crate::limits::Limits;
use crate::regular::open_input;
use crate::text::byte_count;
use crate::xyz::{BYTE_ORDER_MARK, Lines, MAX_COLUMNS, columns_text, parse_pairs, property_text};

/// Columns of a file that does not list them.
const DEFAULT_PROPERTIES: &str = "species:S:1:pos:R:3";

/// Largest number of empty lines after the last frame.
const MAX_EMPTY_LINES: u32 = 1000;

/// Reads the last frame.
pub(in crate::fluid) fn read(path: &Path, limits: &Limits) -> Result<FluidFile, Fault> {
    let (file, file_bytes) = open_input(path)?;
    let (offset, line_number) = find_last_frame(&file)?;
    (&file).seek(SeekFrom::Start(offset))?;
    let mut lines = Lines::after_line(line_number, BufReader::with_capacity(1 << 20, &file));
    lines.next_whole_line("the number of particles")?;
    read_frame(&mut lines, file_bytes, limits)
}

/// Returns true if the comment line or another frame shows that the file is a trajectory of a
/// fluid: it has a lattice, it lacks the velocities or masses of a snapshot of bodies, or a second
/// frame follows.
pub(in crate::fluid) fn is_trajectory(path: &Path) -> Result<bool, Fault> {
    let mut lines = Lines::after_line(0, BufReader::with_capacity(1 << 16, open_input(path)?.0));
    lines.next_whole_line("the number of particles")?;
    let n = parse_count(&lines)?;
    let pairs = parse_pairs(lines.next_whole_line("a comment line")?, 2)?;
    let value = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let columns = parse_properties(value("Properties").unwrap_or(DEFAULT_PROPERTIES), 2)?;
    if value("Lattice").is_some() || ![Column::Velocity(0), Column::Mass].iter().all(|c| columns.contains(c))
    {
        return Ok(true);
    }
    for _ in 0..n {
        lines.next_line("a particle")?;
    }
    Ok(lines.read_line()? && !lines.bytes().trim_ascii().is_empty())
}

/// All frames of a file, in their order.
pub(in crate::fluid) struct XyzFrames {
    lines: Lines<BufReader<File>>,
    file_bytes: u64,
    /// Number of frames that were read.
    frames: u64,
}

impl XyzFrames {
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let (file, file_bytes) = open_input(path)?;
        let lines = Lines::after_line(0, BufReader::with_capacity(1 << 20, file));
        Ok(Self { lines, file_bytes, frames: 0 })
    }

    /// Reads the next frame. Returns `None` after the last one, which at most 1000 empty lines may
    /// follow.
    pub fn next_frame(&mut self, limits: &Limits) -> Result<Option<FluidFile>, Fault> {
        let mut empty = 0;
        loop {
            if !self.lines.read_line()? {
                return match self.frames {
                    0 => Err(self.lines.fault("end of file", "the number of particles")),
                    _ => Ok(None),
                };
            }
            if self.frames == 0 || !self.lines.bytes().trim_ascii().is_empty() {
                break;
            }
            empty += 1;
            if empty > MAX_EMPTY_LINES {
                return Err(self.lines.fault("more than 1000 empty lines", "the end of the file"));
            }
        }
        if empty > 0 {
            return Err(self.lines.fault("a frame after an empty line", "the end of the file"));
        }
        self.frames += 1;
        read_frame(&mut self.lines, self.file_bytes, limits).map(Some)
    }
}

/// Reads a frame, whose first line is the current one.
fn read_frame(lines: &mut Lines<impl BufRead>, file_bytes: u64, limits: &Limits) -> Result<FluidFile, Fault> {
    let n = parse_count(lines)?;
    let line_number = lines.number;
    let comment = lines.next_whole_line("a comment line")?.to_owned();
    let comment = CommentLine::parse(&comment, lines.number)?;
    // Each column takes at least one character and a separator.
    if n.saturating_mul(2 * comment.columns.len() as u64) > file_bytes {
        let expected = format!("no more than fit into a file of {}", byte_count(file_bytes));
        let got = format_count(n, "particle", "particles");
        return Err(Fault::malformed(format!("line {line_number}"), got, expected));
    }
    let mut builder = Builder::new(limits, n, comment.species_names.clone())?;
    let has = |column: Column| comment.columns.contains(&column);
    builder.reserve(has(Column::Velocity(0)), has(Column::Image(0)))?;
    for index in 0..n {
        let number = lines.number + 1;
        let line =
            lines.next_line(&format!("{}, found {index}", format_count(n, "particle", "particles")))?;
        parse_particle(line, &comment.columns, index, &mut builder)
            .map_err(|(got, expected)| Fault::malformed(format!("line {number}"), got, expected))?;
    }
    let bounds = match comment.bounds {
        Some(bounds) if bounds.sides == BoxSides::Periodic => bounds,
        given => open_box(given, comment.dimensions, &builder.coordinates),
    };
    let fluid = builder.finish(bounds, comment.species_masses, comment.step, comment.time);
    let CommentLine { units, stated_dimensions, ignored, .. } = comment;
    Ok(FluidFile { units, stated_dimensions, ignored, ..fluid })
}

/// Returns the byte and the number of lines before the last frame. At most 1000 empty lines may
/// follow it.
fn find_last_frame(file: &File) -> Result<(u64, u64), Fault> {
    let mut lines = Lines::after_line(0, BufReader::with_capacity(1 << 20, file));
    let (mut offset, mut last) = (0, None);
    let mut empty = 0;
    while lines.read_line()? {
        let start = (offset, lines.number - 1);
        offset += lines.bytes().len() as u64;
        if last.is_some() && lines.bytes().trim_ascii().is_empty() {
            empty += 1;
            if empty > MAX_EMPTY_LINES {
                return Err(lines.fault("more than 1000 empty lines", "the end of the file"));
            }
            continue;
        }
        let n = parse_count(&lines)?;
        if empty > 0 {
            return Err(lines.fault("a frame after an empty line", "the end of the file"));
        }
        for line in 0..=n {
            if !lines.read_line()? {
                let expected = match line {
                    0 => "a comment line".to_owned(),
                    _ => format!("{}, found {}", format_count(n, "particle", "particles"), line - 1),
                };
                return Err(lines.fault("end of file", &expected));
            }
            offset += lines.bytes().len() as u64;
        }
        last = Some(start);
    }
    last.ok_or_else(|| lines.fault("end of file", "the number of particles"))
}

/// Parses the current line as the number of particles.
fn parse_count(lines: &Lines<impl BufRead>) -> Result<u64, Fault> {
    let expected = "the number of particles";
    if !lines.bytes().ends_with(b"\n") {
        return Err(lines.fault("no newline at its end", "a whole line"));
    }
    let text = lines.text(expected)?.trim_start_matches(BYTE_ORDER_MARK).trim();
    text.parse().map_err(|_| lines.fault(&quoted(text), expected))
}

/// Content of a column.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    Species,
    Position(usize),
    Velocity(usize),
    Mass,
    Id,
    Image(usize),
    Ignored,
}

/// Content of a comment line.
struct CommentLine {
    columns: Vec<Column>,
    bounds: Option<SimulationBox>,
    dimensions: usize,
    time: Option<f64>,
    step: Option<u64>,
    species_names: Vec<String>,
    species_masses: Option<Vec<f64>>,
    units: Option<BTreeMap<String, String>>,
    stated_dimensions: Option<usize>,
    /// Descriptions of parts that are not read.
    ignored: Vec<String>,
}

impl CommentLine {
    fn parse(line: &str, number: u64) -> Result<Self, Fault> {
        let pairs = parse_pairs(line, number)?;
        let value = |names: &[&str]| {
            pairs.iter().find(|(key, _)| names.contains(&key.as_str())).map(|(_, value)| value.as_str())
        };
        let fault = |key: &str, got: &str, expected: &str| {
            Fault::malformed(format!("line {number}, {key}"), quoted(got), expected)
        };
        let parsed = |key: &str, expected: &str| {
            let parse = |text: &str| numbers_of(text).ok_or_else(|| fault(key, text, expected));
            value(&[key]).map(parse).transpose()
        };
        let properties = value(&["Properties"]).unwrap_or(DEFAULT_PROPERTIES);
        let columns = parse_properties(properties, number)?;
        let ignored = match columns.contains(&Column::Velocity(0)) {
            true => Vec::new(),
            false => possible_velocities(properties).into_iter().collect(),
        };
        let dimensions = match value(&["dimensions"]) {
            None | Some("3") => 3,
            Some("2") => 2,
            Some(other) => return Err(fault("dimensions", other, "2 or 3")),
        };
        let lattice = match parsed("Lattice", "nine numbers")? {
            None => None,
            Some(numbers) => {
                let all: [f64; 9] = numbers
                    .try_into()
                    .map_err(|_| fault("Lattice", value(&["Lattice"]).unwrap_or_default(), "nine numbers"))?;
                if [1, 2, 3, 5, 6, 7].iter().any(|&k| all[k] != 0.0) {
                    let expected = "a box with right angles: numbers 2, 3, 4, 6, 7 and 8 are 0";
                    return Err(fault("Lattice", value(&["Lattice"]).unwrap_or_default(), expected));
                }
                Some([all[0], all[4], all[8]])
            }
        };
        let origin = match parsed("Origin", "three numbers")?.map(<[f64; 3]>::try_from) {
            None => [0.0; 3],
            Some(Ok(origin)) => origin,
            Some(Err(_)) => {
                return Err(fault("Origin", value(&["Origin"]).unwrap_or_default(), "three numbers"));
            }
        };
        let sides = parse_pbc(value(&["pbc"]), lattice.is_some(), dimensions)
            .ok_or_else(|| fault("pbc", value(&["pbc"]).unwrap_or_default(), PBC_EXPECTED))?;
        if sides == BoxSides::Periodic && lattice.is_none() {
            return Err(fault("Lattice", "nothing", "nine numbers, since the box is periodic"));
        }
        let time = value(&["Time", "time"])
            .map(|text| text.parse().map_err(|_| fault("Time", text, "a number")))
            .transpose()?;
        let step = value(&["Step", "step"])
            .map(|text| text.parse().map_err(|_| fault("Step", text, "an integer >= 0")))
            .transpose()?;
        let names = value(&["species_names"]).unwrap_or_default();
        Ok(Self {
            columns,
            bounds: lattice.map(|lengths| SimulationBox { origin, lengths, sides, dimensions }),
            dimensions,
            time,
            step,
            species_names: names.split_whitespace().map(str::to_owned).collect(),
            species_masses: parsed("species_masses", "numbers")?,
            units: units_of(&pairs),
            stated_dimensions: value(&["dimensions"]).map(|_| dimensions),
            ignored,
        })
    }
}

/// Returns the system of units and the unit of each quantity, if the file has them.
fn units_of(pairs: &[(String, String)]) -> Option<BTreeMap<String, String>> {
    let name_of = |key: &str| match key {
        "units" => Some("system".to_owned()),
        _ => key.strip_prefix("unit_").map(str::to_owned),
    };
    let units: BTreeMap<_, _> =
        pairs.iter().filter_map(|(key, value)| Some((name_of(key)?, value.clone()))).collect();
    (!units.is_empty()).then_some(units)
}

/// Values of `pbc` that are accepted, for messages.
const PBC_EXPECTED: &str = "\"T T T\", \"F F F\", or \"T T F\" with dimensions=2";

/// Returns the sides of the box. A lattice is periodic unless `pbc` says otherwise.
fn parse_pbc(value: Option<&str>, has_lattice: bool, dimensions: usize) -> Option<BoxSides> {
    let Some(value) = value else {
        return Some(if has_lattice { BoxSides::Periodic } else { BoxSides::Open });
    };
    let axes: Option<Vec<bool>> = value
        .split_whitespace()
        .map(|axis| match axis {
            "T" | "1" | "True" | "true" => Some(true),
            "F" | "0" | "False" | "false" => Some(false),
            _ => None,
        })
        .collect();
    match axes?[..] {
        [false, false, false] => Some(BoxSides::Open),
        [true, true, true] => Some(BoxSides::Periodic),
        [true, true, false] if dimensions == 2 => Some(BoxSides::Periodic),
        _ => None,
    }
}

/// Parses finite numbers between blanks.
fn numbers_of(text: &str) -> Option<Vec<f64>> {
    let number = |word: &str| word.parse().ok().filter(|value: &f64| value.is_finite());
    text.split_whitespace().map(number).collect()
}

/// Describes the properties of a file without velocities that may be velocities under another or a
/// damaged name: those with three numbers, those whose name starts like that of velocities, and
/// components such as `vx` or `v_x`.
fn possible_velocities(properties: &str) -> Option<String> {
    let fields: Vec<&str> = properties.split(':').collect();
    let may_be_velocity = |property: &&[&str]| {
        let [name, _, count] = property[..] else { return false };
        let is_other = ["pos", "image", "force", "forces", "species"].contains(&name);
        let name = name.to_ascii_lowercase();
        let component = name.strip_prefix('v').map(|rest| rest.trim_start_matches('_'));
        let is_component = component.is_some_and(|component| ["", "x", "y", "z"].contains(&component));
        !is_other && (count == "3" || name.starts_with("vel") || is_component)
    };
    let found: Vec<String> =
        fields.chunks(3).filter(may_be_velocity).map(|property| quoted(&property.join(":"))).collect();
    (!found.is_empty())
        .then(|| format!("no velocities but properties of another name ({})", found.join(", ")))
}

/// Parses a list of `name:type:count` into one entry per column.
fn parse_properties(value: &str, line: u64) -> Result<Vec<Column>, Fault> {
    let fault = |got: String, expected: &str| {
        Err(Fault::malformed(format!("line {line}, Properties"), got, expected))
    };
    let mut fields = value.split(':');
    let mut columns = Vec::new();
    while let Some(name) = fields.next() {
        let (kind, count) = (fields.next(), fields.next().and_then(|count| count.parse().ok()));
        let (Some(kind), Some(count)) = (kind, count.filter(|&c| c > 0 && c <= MAX_COLUMNS - columns.len()))
        else {
            return fault(quoted(value), PROPERTIES);
        };
        match (name, kind, count) {
            // Types without names are numbers, as in data files of LAMMPS.
            ("species", "S" | "I", 1) => columns.push(Column::Species),
            // A program may call whole numbers integers.
            ("pos", "R" | "I", 3) => columns.extend((0..3).map(Column::Position)),
            ("velo" | "vel" | "velocity" | "velocities", "R" | "I", 3) => {
                columns.extend((0..3).map(Column::Velocity));
            }
            ("mass" | "masses", "R" | "I", 1) => columns.push(Column::Mass),
            ("id", "I", 1) => columns.push(Column::Id),
            ("image", "I", 3) => columns.extend((0..3).map(Column::Image)),
            // Without these columns, particles would get other species and ids than those of the
            // file.
            ("species", ..) => {
                return fault(property_text(name, kind, count), "names species:S:1 or integers species:I:1");
            }
            ("id", ..) => return fault(property_text(name, kind, count), "integers id:I:1"),
            _ => columns.extend(std::iter::repeat_n(Column::Ignored, count)),
        }
    }
    let count = |column: Column| columns.iter().filter(|&&c| c == column).count();
    if count(Column::Position(0)) != 1 {
        return fault(format!("{} without one 'pos'", quoted(value)), PROPERTIES);
    }
    let others = [Column::Species, Column::Velocity(0), Column::Mass, Column::Id, Column::Image(0)];
    if others.into_iter().any(|column| count(column) > 1) {
        return fault(quoted(value), "each property once");
    }
    Ok(columns)
}

/// Parses the line of one particle. The error contains what was found and what was expected.
fn parse_particle(
    line: &str,
    columns: &[Column],
    index: u64,
    builder: &mut Builder,
) -> Result<(), (String, String)> {
    let (mut position, mut velocity, mut image) = ([0.0; 3], [0.0; 3], [0; 3]);
    let (mut id, mut mass, mut name) = (index, None, "A");
    let mut words = line.split_ascii_whitespace();
    for (k, column) in columns.iter().enumerate() {
        let word = words.next().ok_or_else(|| (columns_text(k), columns.len().to_string()))?;
        let fault = |expected: &str| (format!("{} in column {}", quoted(word), k + 1), expected.to_owned());
        let number = || {
            let finite = word.parse().ok().filter(|value: &f64| value.is_finite());
            finite.ok_or_else(|| fault("a finite number"))
        };
        match *column {
            Column::Species => name = word,
            Column::Position(axis) => position[axis] = number()?,
            Column::Velocity(axis) => velocity[axis] = number()?,
            Column::Mass => mass = Some(number()?),
            Column::Id => id = word.parse().map_err(|_| fault("an integer >= 0"))?,
            Column::Image(axis) => image[axis] = word.parse().map_err(|_| fault("an integer of 32 bits"))?,
            Column::Ignored => {}
        }
    }
    let more = words.count();
    if more > 0 {
        return Err((columns_text(columns.len() + more), columns.len().to_string()));
    }
    let species = builder.species_index(name)?;
    if let Some(mass) = mass {
        builder.set_mass(species, mass)?;
    }
    builder.push(position, velocity, image, species, id);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<FluidFile, Fault> {
        let mut lines = Lines::after_line(0, text.as_bytes());
        lines.next_whole_line("the number of particles")?;
        read_frame(&mut lines, text.len() as u64, &Limits::default())
    }

    #[test]
    fn species_may_be_numbers() {
        let fluid = read_text("2\nProperties=species:I:1:pos:R:3\n2 0 0 0\n1 1 0 0\n").unwrap();
        assert_eq!((fluid.species_names, fluid.species), (vec!["2".to_owned(), "1".to_owned()], vec![0, 1]));
    }

    #[test]
    fn species_and_ids_of_another_type_are_refused() {
        for (property, expected) in [
            ("species:R:1", "names species:S:1 or integers species:I:1"),
            ("species:S:2", "names species:S:1 or integers species:I:1"),
            ("id:R:1", "integers id:I:1"),
            ("id:S:1", "integers id:I:1"),
        ] {
            let error = read_text(&format!("1\nProperties={property}:pos:R:3\n1 0 0 0\n")).unwrap_err();
            let message = format!("line 2, Properties: got '{property}', expected {expected}");
            assert_eq!(error.to_string(), message);
        }
    }
}
