//! Extended XYZ: a text file with one line per body, as ASE and OVITO read it
//! (<https://github.com/libAtoms/extxyz>).
//!
//! # Layout
//!
//! ```text
//! 2
//! Properties=species:S:1:pos:R:3:vel:R:3:mass:R:1:id:I:1:Z:I:1 Time=0.5 Step=10 units="nbody"
//! Halo 1 0 0 0 0.5 0 0.25 1 1
//! Halo -1 0 0 0 -0.5 0 0.25 2 1
//! ```
//!
//! Line 1 is the number of bodies. Line 2, the comment line, has pairs `key=value`. `Properties`
//! lists the columns as `name:type:count`, with types S (text), R (real) and I (integer).
//!
//! - Numbers are the shortest decimals that give the same f64 when read.
//! - `Z` repeats the species as GADGET's number, because ASE accepts only chemical elements as
//!   names.
//! - Provenance is written as `orrery_NAME="text"` in line 2. The reader stores every other unknown
//!   key as provenance, too.
//! - Columns `pos`, `vel` and `mass` are required. Ids default to the line order, species to halo,
//!   and units to galactic.
//!
//! # Invariants of the reader
//!
//! - The first two lines end in a newline. The line of the last body may lack it, because some
//!   editors write no newline at the end. Its columns must be complete. Files of Orrery end in the
//!   column `Z`, so a truncated number is found as a missing column.
//! - The number of bodies in line 1 is checked against the length of the file before memory is
//!   allocated.
//! - Lines, names and columns have fixed upper limits, so memory is bounded for any input.
//! - Writing and reading a snapshot gives the same bits.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use orrery_model::{Particle, Species, Units, format_count};

use crate::cosmology::PERIODIC_BOX;
use crate::error::Fault;
use crate::limits::{COLUMN_BYTES, Limits, MAX_PROVENANCE_BYTES, MAX_PROVENANCE_NAMES, check_provenance};
use crate::regular::open_input;
use crate::snapshot::Snapshot;
use crate::text::{self, MAX_QUOTED_CHARS, byte_count, shorten_for_message};

/// Columns of written files.
const PROPERTIES: &str = "species:S:1:pos:R:3:vel:R:3:mass:R:1:id:I:1:Z:I:1";
/// Prefix of provenance keys in line 2.
pub const PREFIX: &str = "orrery_";
/// Largest length of a line in bytes, including the newline. Line 2 contains all provenance.
const MAX_LINE_BYTES: u64 = MAX_PROVENANCE_BYTES + 4096;
/// First character of a text file that some editors write.
pub const BYTE_ORDER_MARK: &str = "\u{feff}";
/// Largest number of columns.
pub const MAX_COLUMNS: usize = 1000;

/// Returns true if `head` can be the start of an XYZ file: a first line with a number and nothing
/// else.
pub fn looks_like(head: &[u8]) -> bool {
    let head = head.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(head);
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or(head);
    let number = line.trim_ascii();
    !number.is_empty() && number.iter().all(u8::is_ascii_digit)
}

/// Writes a snapshot to `sink`.
pub fn write(sink: &mut impl Write, snapshot: &Snapshot) -> Result<(), Fault> {
    let bodies = &snapshot.particles;
    let mut provenance = String::new();
    for (key, value) in &snapshot.provenance {
        provenance.push_str(&format!(
            " {}={}",
            quote_if_needed(&format!("{PREFIX}{key}")),
            quote_if_needed(value)
        ));
    }
    check_provenance(provenance.len() as u64, snapshot.provenance.len())?;
    writeln!(sink, "{}", bodies.len())?;
    let units = quote_if_needed(&text::format_units(snapshot.units));
    writeln!(
        sink,
        "Properties={PROPERTIES} Time={} Step={} units={units} pbc=\"F F F\"{provenance}",
        Number(snapshot.time),
        snapshot.step
    )?;
    for body in bodies.iter() {
        let [x, y, z] = body.position.map(Number);
        let [vx, vy, vz] = body.velocity.map(Number);
        let name = text::species_name(body.species);
        let (mass, id, kind) = (Number(body.mass), body.id, body.species as u8);
        writeln!(sink, "{name} {x} {y} {z} {vx} {vy} {vz} {mass} {id} {kind}")?;
    }
    Ok(())
}

/// A number written as the shortest decimal that gives the same f64. Very small and very large
/// numbers get an exponent, for example `1e-7`.
pub struct Number(pub f64);

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = self.0.abs();
        if size != 0.0 && !(1e-5..1e16).contains(&size) {
            write!(f, "{:e}", self.0)
        } else {
            write!(f, "{}", self.0)
        }
    }
}

/// Returns `text` unchanged if it is a plain word. Otherwise puts it in quotes, with the escapes
/// `\n`, `\r`, `\"` and `\\`.
pub fn quote_if_needed(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.:+/".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '"' | '\\' => quoted.extend(['\\', c]),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Reads the file at `path`.
pub fn read(path: &Path, limits: &Limits) -> Result<Snapshot, Fault> {
    let (file, file_bytes) = open_input(path)?;
    let mut lines = Lines::after_line(0, BufReader::with_capacity(1 << 20, file));

    let count = lines.next_whole_line("the number of bodies")?.trim_start_matches(BYTE_ORDER_MARK).trim();
    let n: u64 = count.parse().map_err(|_| {
        Fault::malformed(
            "line 1",
            format!("'{}'", shorten_for_message(count, MAX_QUOTED_CHARS)),
            "the number of bodies",
        )
    })?;
    let comment = CommentLine::parse(lines.next_whole_line("a line with Properties=")?)?;
    // Each column takes at least one character and a separator.
    if n.saturating_mul(2 * comment.columns.len() as u64) > file_bytes {
        let expected = format!("no more than fit into a file of {}", byte_count(file_bytes));
        return Err(Fault::malformed("line 1", format_count(n, "body", "bodies"), expected));
    }
    let mut particles = limits.allocate_bodies(n, COLUMN_BYTES, 0)?;
    for i in 0..n {
        let line_number = lines.number + 1;
        let line = lines.next_line(&format!("{}, found {i}", format_count(n, "body", "bodies")))?;
        particles.push(
            parse_body(line, &comment.columns, i)
                .map_err(|(got, expected)| Fault::malformed(format!("line {line_number}"), got, expected))?,
        );
    }
    lines.expect_end(n)?;
    let CommentLine { time, step, units, mut provenance, .. } = comment;
    let units = units.unwrap_or_else(|| {
        provenance.push((text::ASSUMED_UNITS.0.to_owned(), text::ASSUMED_UNITS.1.to_owned()));
        Units::Galactic
    });
    Ok(Snapshot { particles, time, step, units, provenance })
}

/// Reader of lines with a limited length.
pub struct Lines<R> {
    source: R,
    /// Number of the current line, from 1.
    pub number: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    /// Returns a reader of the lines after line `number` of a file.
    pub fn after_line(number: u64, source: R) -> Self {
        Self { source, number, line: Vec::new() }
    }

    /// Returns the current line with its newline.
    pub fn bytes(&self) -> &[u8] {
        &self.line
    }

    /// Returns the next line without its newline. `expected` describes the line for the error at
    /// the end of the file.
    pub fn next_line(&mut self, expected: &str) -> Result<&str, Fault> {
        if !self.read_line()? {
            return Err(self.fault("end of file", expected));
        }
        self.text(expected)
    }

    /// Does the same as [`Lines::next_line`] and also refuses a line without a newline, which is
    /// truncated.
    pub fn next_whole_line(&mut self, expected: &str) -> Result<&str, Fault> {
        if !self.read_line()? {
            return Err(self.fault("end of file", expected));
        }
        if !self.line.ends_with(b"\n") {
            return Err(self.fault("no newline at its end", "a whole line"));
        }
        self.text(expected)
    }

    /// Returns the current line without its newline.
    pub fn text(&self, expected: &str) -> Result<&str, Fault> {
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        std::str::from_utf8(line).map_err(|_| self.fault("bytes that are not UTF-8", expected))
    }

    /// Returns the error for the current line.
    pub fn fault(&self, got: &str, expected: &str) -> Fault {
        Fault::malformed(format!("line {}", self.number), got, expected)
    }

    /// Checks that at most 1000 empty lines follow and nothing else.
    fn expect_end(&mut self, n: u64) -> Result<(), Fault> {
        for empty in 0.. {
            if !self.read_line()? {
                break;
            }
            if !self.line.trim_ascii().is_empty() || empty == 1000 {
                let expected = format!(
                    "the end of the file after {}, since a file contains one snapshot",
                    format_count(n, "body", "bodies")
                );
                return Err(Fault::malformed(format!("line {}", self.number), "another line", expected));
            }
        }
        Ok(())
    }

    /// Reads the next line with its newline into `self.line`. Returns `false` at the end of the
    /// file.
    pub fn read_line(&mut self) -> Result<bool, Fault> {
        self.number += 1;
        self.line.clear();
        self.source.by_ref().take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut self.line)?;
        if self.line.len() as u64 > MAX_LINE_BYTES {
            let (location, expected) =
                (format!("line {}", self.number), format!("at most {MAX_LINE_BYTES} bytes"));
            return Err(Fault::malformed(location, "a longer line", expected));
        }
        Ok(!self.line.is_empty())
    }
}

/// Content of a column.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    Species,
    Position(usize),
    Velocity(usize),
    Mass,
    Id,
    Ignored,
}

/// Content of line 2.
struct CommentLine {
    columns: Vec<Column>,
    time: f64,
    step: u64,
    units: Option<Units>,
    provenance: Vec<(String, String)>,
}

impl CommentLine {
    fn parse(line: &str) -> Result<Self, Fault> {
        let fault = |key: &str, got: &str, expected: &str| {
            Fault::malformed(
                format!("line 2, {key}"),
                format!("'{}'", shorten_for_message(got, MAX_QUOTED_CHARS)),
                expected,
            )
        };
        let mut columns = None;
        let (mut time, mut step, mut units, mut provenance) = (0.0, 0, None, Vec::new());
        let mut periodic = None;
        for (key, value) in parse_pairs(line, 2)? {
            match key.as_str() {
                "Properties" => columns = Some(parse_properties(&value)?),
                "Time" | "time" => time = value.parse().map_err(|_| fault(&key, &value, "a number"))?,
                "Step" | "step" => step = value.parse().map_err(|_| fault(&key, &value, "an integer"))?,
                "units" => {
                    units = Some(
                        text::parse_units(&value).ok_or_else(|| fault(&key, &value, text::UNITS_EXPECTED))?,
                    );
                }
                "pbc" => periodic = Some(value.split_whitespace().any(|axis| axis != "F" && axis != "0")),
                _ => {
                    let name =
                        key.strip_prefix(PREFIX).filter(|name| !name.is_empty()).unwrap_or(&key).to_owned();
                    if !name.is_empty() && provenance.iter().all(|(known, _)| *known != name) {
                        provenance.push((name, value));
                    }
                }
            }
        }
        let columns = columns.ok_or_else(|| fault("Properties", "nothing", PROPERTIES))?;
        // A lattice is periodic unless `pbc` says otherwise.
        let has_lattice = || provenance.iter().any(|(name, _)| name == "Lattice");
        if periodic.unwrap_or_else(has_lattice) && provenance.iter().all(|(name, _)| name != PERIODIC_BOX) {
            provenance
                .push((PERIODIC_BOX.to_owned(), "pbc or Lattice, but forces are not periodic".to_owned()));
        }
        Ok(Self { columns, time, step, units, provenance })
    }
}

/// Parses a list of `name:type:count` into one entry per column.
fn parse_properties(value: &str) -> Result<Vec<Column>, Fault> {
    let fault = |got: String| Fault::malformed("line 2, Properties", got, PROPERTIES);
    // Without the column, bodies would get other species or ids than those of the file.
    let wrong_type = |got, expected| Err(Fault::malformed("line 2, Properties", got, expected));
    let mut fields = value.split(':');
    let mut columns = Vec::new();
    while let Some(name) = fields.next() {
        let (kind, count) = (fields.next(), fields.next().and_then(|count| count.parse().ok()));
        let (Some(kind), Some(count)) = (kind, count.filter(|&c| c > 0 && c <= MAX_COLUMNS - columns.len()))
        else {
            return Err(fault(format!("'{}'", shorten_for_message(value, MAX_QUOTED_CHARS))));
        };
        match (name, kind, count) {
            ("species", "S", 1) => columns.push(Column::Species),
            // A program may call whole numbers integers.
            ("pos", "R" | "I", 3) => columns.extend((0..3).map(Column::Position)),
            ("vel" | "velo" | "velocity", "R" | "I", 3) => columns.extend((0..3).map(Column::Velocity)),
            ("mass" | "masses", "R" | "I", 1) => columns.push(Column::Mass),
            ("id", "I", 1) => columns.push(Column::Id),
            ("species", ..) => return wrong_type(property_text(name, kind, count), "names species:S:1"),
            ("id", ..) => return wrong_type(property_text(name, kind, count), "integers id:I:1"),
            _ => columns.extend(std::iter::repeat_n(Column::Ignored, count)),
        }
    }
    for (name, column) in [("pos", Column::Position(0)), ("vel", Column::Velocity(0)), ("mass", Column::Mass)]
    {
        if columns.iter().filter(|&&c| c == column).count() != 1 {
            return Err(fault(format!(
                "'{}' without one '{name}'",
                shorten_for_message(value, MAX_QUOTED_CHARS)
            )));
        }
    }
    Ok(columns)
}

/// Returns `'name:type:count'` for messages, shortened.
pub fn property_text(name: &str, kind: &str, count: usize) -> String {
    format!("'{}'", shorten_for_message(&format!("{name}:{kind}:{count}"), MAX_QUOTED_CHARS))
}

/// Splits a comment line into pairs `key=value`. A key without a value has the value `T`, as in
/// ASE. `number` is the number of the line.
pub fn parse_pairs(line: &str, number: u64) -> Result<Vec<(String, String)>, Fault> {
    let mut pairs: Vec<(String, Option<String>)> = Vec::new();
    let mut chars = line.chars().peekable();
    while let Some(&c) = chars.peek() {
        if c.is_whitespace() {
            chars.next();
        } else if c == '=' {
            chars.next();
            while chars.next_if(|c| c.is_whitespace()).is_some() {}
            let value = next_word(&mut chars);
            if let Some(last) = pairs.last_mut() {
                last.1.get_or_insert(value);
            }
        } else {
            pairs.push((next_word(&mut chars), None));
            // The 24 extra names allow for Properties, Time, Step, units, pbc, and keys of other
            // programs.
            if pairs.len() > MAX_PROVENANCE_NAMES + 24 {
                let (got, expected) =
                    (format!("{} names", pairs.len()), format!("at most {MAX_PROVENANCE_NAMES}"));
                return Err(Fault::malformed(format!("line {number}"), got, expected));
            }
        }
    }
    Ok(pairs.into_iter().map(|(key, value)| (key, value.unwrap_or_else(|| "T".to_owned()))).collect())
}

/// Reads the next word, which ends at a blank or `=`, or the next text in quotes.
fn next_word(chars: &mut std::iter::Peekable<std::str::Chars>) -> String {
    let mut word = String::new();
    if chars.next_if_eq(&'"').is_some() {
        while let Some(c) = chars.next() {
            match c {
                '"' => break,
                '\\' => match chars.next() {
                    Some('n') => word.push('\n'),
                    Some('r') => word.push('\r'),
                    Some(other) => word.push(other),
                    None => {}
                },
                other => word.push(other),
            }
        }
    } else {
        while let Some(c) = chars.next_if(|&c| !c.is_whitespace() && c != '=') {
            word.push(c);
        }
    }
    word
}

/// Parses the line of one body. The error contains what was found and what was expected.
fn parse_body(line: &str, columns: &[Column], index: u64) -> Result<Particle, (String, String)> {
    let mut body =
        Particle { position: [0.0; 3], velocity: [0.0; 3], mass: 0.0, id: index, species: Species::Halo };
    let mut words = line.split_ascii_whitespace();
    for (k, column) in columns.iter().enumerate() {
        let word = words.next().ok_or_else(|| (columns_text(k), columns.len().to_string()))?;
        let fault = |expected: &str| {
            (
                format!("'{}' in column {}", shorten_for_message(word, MAX_QUOTED_CHARS), k + 1),
                expected.to_owned(),
            )
        };
        let number = || word.parse::<f64>().map_err(|_| fault("a number"));
        match *column {
            // Names of other programs, such as chemical elements, become the default species.
            Column::Species => body.species = text::parse_species(word).unwrap_or_default(),
            Column::Position(axis) => body.position[axis] = number()?,
            Column::Velocity(axis) => body.velocity[axis] = number()?,
            Column::Mass => body.mass = number()?,
            Column::Id => body.id = word.parse().map_err(|_| fault("an integer >= 0"))?,
            Column::Ignored => {}
        }
    }
    match words.count() {
        0 => Ok(body),
        more => Err((columns_text(columns.len() + more), columns.len().to_string())),
    }
}

/// Returns `1 column`, `2 columns` and so on.
pub fn columns_text(count: usize) -> String {
    format_count(count as u64, "column", "columns")
}
