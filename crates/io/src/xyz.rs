//! Extended XYZ: text, one body a line, as ASE and OVITO read it.
//!
//! ```text
//! 2
//! Properties=species:S:1:pos:R:3:vel:R:3:mass:R:1:id:I:1:Z:I:1 Time=0.5 Step=10 units="nbody"
//! Halo 1 0 0 0 0.5 0 0.25 1 1
//! Halo -1 0 0 0 -0.5 0 0.25 2 1
//! ```
//!
//! Numbers are the shortest decimals that give the same f64 again. `Z` repeats the species as GADGET's
//! number: ASE takes names only of chemical elements. Provenance stands in the second line as
//! `orrery_NAME="text"`; reading keeps any name it does not know as provenance.
//!
//! Every line ends in a newline, the last one too: without it a cut number could pass for a whole one.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use orrery_model::{Particle, Species, Units};

use crate::error::Fault;
use crate::limits::{COLUMN_BYTES, LONGEST_TEXT, Limits, MOST_NAMES, check_provenance};
use crate::snapshot::Snapshot;
use crate::text::{self, LONGEST_WORD, shortened};

const PROPERTIES: &str = "species:S:1:pos:R:3:vel:R:3:mass:R:1:id:I:1:Z:I:1";
const PREFIX: &str = "orrery_";
/// Longest line, its end included: the second one holds all provenance.
const LONGEST_LINE: u64 = LONGEST_TEXT + 4096;
/// Columns of a body's line.
const MOST_COLUMNS: usize = 1000;

/// Whether a file that starts with `head` may be one: a line with a number and nothing else.
pub fn looks_like(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or(head);
    let word = line.trim_ascii();
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}

/// Writes the whole file.
pub fn write(sink: &mut impl Write, snapshot: &Snapshot) -> Result<(), Fault> {
    let bodies = &snapshot.particles;
    let mut provenance = String::new();
    for (key, value) in &snapshot.provenance {
        provenance.push_str(&format!(" {}={}", quoted(&format!("{PREFIX}{key}")), quoted(value)));
    }
    check_provenance(provenance.len() as u64, snapshot.provenance.len())?;
    writeln!(sink, "{}", bodies.len())?;
    let units = quoted(&text::from_units(snapshot.units));
    writeln!(
        sink,
        "Properties={PROPERTIES} Time={} Step={} units={units} pbc=\"F F F\"{provenance}",
        Number(snapshot.time),
        snapshot.step
    )?;
    for body in bodies.iter() {
        let [x, y, z] = body.position.map(Number);
        let [vx, vy, vz] = body.velocity.map(Number);
        let name = text::from_species(body.species);
        let (mass, id, kind) = (Number(body.mass), body.id, body.species as u8);
        writeln!(sink, "{name} {x} {y} {z} {vx} {vy} {vz} {mass} {id} {kind}")?;
    }
    Ok(())
}

/// The shortest decimal that gives the same f64; with an exponent where plain digits would be many.
struct Number(f64);

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

/// `text` as one word, or between quotes with `\n`, `\r`, `\"` and `\\` inside.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:+/".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
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

/// Reads the whole file.
pub fn read(path: &Path, limits: &Limits) -> Result<Snapshot, Fault> {
    let file = File::open(path)?;
    let file_bytes = file.metadata()?.len();
    let mut lines = Lines { source: BufReader::with_capacity(1 << 20, file), number: 0, line: Vec::new() };

    let count = lines.next_line("the number of bodies")?.trim();
    let n: u64 = count.parse().map_err(|_| {
        Fault::malformed("line 1", format!("'{}'", shortened(count, LONGEST_WORD)), "the number of bodies")
    })?;
    let comment = Comment::parse(lines.next_line("a line with Properties=")?)?;
    // Each column takes a character and what divides it from the next.
    if n.saturating_mul(2 * comment.columns.len() as u64) > file_bytes {
        let expected = format!("no more than fit into a file of {file_bytes} bytes");
        return Err(Fault::malformed("line 1", format!("{n} bodies"), expected));
    }
    let mut particles = limits.room_for(n, COLUMN_BYTES, 0)?;
    for i in 0..n {
        let line_number = lines.number + 1;
        let line = lines.next_line(&format!("{n} bodies, found {i}"))?;
        particles.push(
            parse_body(line, &comment.columns, i)
                .map_err(|(got, expected)| Fault::malformed(format!("line {line_number}"), got, expected))?,
        );
    }
    lines.expect_end(n)?;
    let Comment { time, step, units, mut provenance, .. } = comment;
    let units = units.unwrap_or_else(|| {
        provenance.push((text::ASSUMED_UNITS.0.to_owned(), text::ASSUMED_UNITS.1.to_owned()));
        Units::Galactic
    });
    Ok(Snapshot { particles, time, step, units, provenance })
}

struct Lines<R> {
    source: R,
    number: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    /// The next line without its end.
    fn next_line(&mut self, expected: &str) -> Result<&str, Fault> {
        self.advance()?;
        let place = || format!("line {}", self.number);
        match self.line.pop() {
            Some(b'\n') => {}
            Some(_) => return Err(Fault::malformed(place(), "no newline at its end", "a whole line")),
            None => return Err(Fault::malformed(place(), "end of file", expected)),
        }
        std::str::from_utf8(&self.line)
            .map_err(|_| Fault::malformed(place(), "bytes that are no text", expected))
    }

    /// Only empty lines may follow, and not many.
    fn expect_end(&mut self, n: u64) -> Result<(), Fault> {
        for empty in 0.. {
            if !self.advance()? {
                break;
            }
            if !self.line.trim_ascii().is_empty() || empty == 1000 {
                let expected = format!("the end after {n} bodies; a file holds one snapshot");
                return Err(Fault::malformed(format!("line {}", self.number), "a further line", expected));
            }
        }
        Ok(())
    }

    /// Takes the next line with its end; `false` at the end of the file.
    fn advance(&mut self) -> Result<bool, Fault> {
        self.number += 1;
        self.line.clear();
        self.source.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', &mut self.line)?;
        if self.line.len() as u64 > LONGEST_LINE {
            let (place, expected) =
                (format!("line {}", self.number), format!("at most {LONGEST_LINE} bytes"));
            return Err(Fault::malformed(place, "a longer line", expected));
        }
        Ok(!self.line.is_empty())
    }
}

/// What a column of a body's line holds.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    Species,
    Position(usize),
    Velocity(usize),
    Mass,
    Id,
    Ignored,
}

struct Comment {
    columns: Vec<Column>,
    time: f64,
    step: u64,
    units: Option<Units>,
    provenance: Vec<(String, String)>,
}

impl Comment {
    fn parse(line: &str) -> Result<Self, Fault> {
        let wrong = |key: &str, got: &str, expected: &str| {
            Fault::malformed(
                format!("line 2, {key}"),
                format!("'{}'", shortened(got, LONGEST_WORD)),
                expected,
            )
        };
        let mut columns = None;
        let (mut time, mut step, mut units, mut provenance) = (0.0, 0, None, Vec::new());
        for (key, value) in key_values(line)? {
            match key.as_str() {
                "Properties" => columns = Some(parse_properties(&value)?),
                "Time" | "time" => time = value.parse().map_err(|_| wrong(&key, &value, "a number"))?,
                "Step" | "step" => step = value.parse().map_err(|_| wrong(&key, &value, "an integer"))?,
                "units" => {
                    units = Some(
                        text::to_units(&value).ok_or_else(|| wrong(&key, &value, text::UNITS_EXPECTED))?,
                    );
                }
                "pbc" => {}
                _ => {
                    let name =
                        key.strip_prefix(PREFIX).filter(|name| !name.is_empty()).unwrap_or(&key).to_owned();
                    if !name.is_empty() && provenance.iter().all(|(known, _)| *known != name) {
                        provenance.push((name, value));
                    }
                }
            }
        }
        let columns = columns.ok_or_else(|| wrong("Properties", "nothing", PROPERTIES))?;
        Ok(Self { columns, time, step, units, provenance })
    }
}

/// `name:type:columns`, again and again.
fn parse_properties(value: &str) -> Result<Vec<Column>, Fault> {
    let wrong = |got: String| Fault::malformed("line 2, Properties", got, PROPERTIES);
    let mut fields = value.split(':');
    let mut columns = Vec::new();
    while let Some(name) = fields.next() {
        let (kind, count) = (fields.next(), fields.next().and_then(|count| count.parse().ok()));
        let (Some(kind), Some(count)) = (kind, count.filter(|&c| c > 0 && c <= MOST_COLUMNS - columns.len()))
        else {
            return Err(wrong(format!("'{}'", shortened(value, LONGEST_WORD))));
        };
        match (name, kind, count) {
            ("species", "S", 1) => columns.push(Column::Species),
            ("pos", "R", 3) => columns.extend((0..3).map(Column::Position)),
            ("vel" | "velo" | "velocity", "R", 3) => columns.extend((0..3).map(Column::Velocity)),
            ("mass" | "masses", "R", 1) => columns.push(Column::Mass),
            ("id", "I", 1) => columns.push(Column::Id),
            _ => columns.extend(std::iter::repeat_n(Column::Ignored, count)),
        }
    }
    for (name, column) in [("pos", Column::Position(0)), ("vel", Column::Velocity(0)), ("mass", Column::Mass)]
    {
        if columns.iter().filter(|&&c| c == column).count() != 1 {
            return Err(wrong(format!("'{}' without one '{name}'", shortened(value, LONGEST_WORD))));
        }
    }
    Ok(columns)
}

/// The pairs `key=value` of a comment line; a key alone has the value `T`, as ASE has it.
fn key_values(line: &str) -> Result<Vec<(String, String)>, Fault> {
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
            // Beside provenance stand Properties, Time, Step, units, pbc, and what other programs add.
            if pairs.len() > MOST_NAMES + 24 {
                let (got, expected) = (format!("{} names", pairs.len()), format!("at most {MOST_NAMES}"));
                return Err(Fault::malformed("line 2", got, expected));
            }
        }
    }
    Ok(pairs.into_iter().map(|(key, value)| (key, value.unwrap_or_else(|| "T".to_owned()))).collect())
}

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

/// One body; the error is what was found and what was expected.
fn parse_body(line: &str, columns: &[Column], index: u64) -> Result<Particle, (String, String)> {
    let mut body =
        Particle { position: [0.0; 3], velocity: [0.0; 3], mass: 0.0, id: index, species: Species::Halo };
    let mut words = line.split_ascii_whitespace();
    for (k, column) in columns.iter().enumerate() {
        let word = words.next().ok_or_else(|| (format!("{k} columns"), columns.len().to_string()))?;
        let wrong = |expected: &str| {
            (format!("'{}' in column {}", shortened(word, LONGEST_WORD), k + 1), expected.to_owned())
        };
        let number = || word.parse::<f64>().map_err(|_| wrong("a number"));
        match *column {
            // Another program's names (elements, say) mean bodies of no particular kind.
            Column::Species => body.species = text::to_species(word).unwrap_or_default(),
            Column::Position(axis) => body.position[axis] = number()?,
            Column::Velocity(axis) => body.velocity[axis] = number()?,
            Column::Mass => body.mass = number()?,
            Column::Id => body.id = word.parse().map_err(|_| wrong("an integer >= 0"))?,
            Column::Ignored => {}
        }
    }
    match words.count() {
        0 => Ok(body),
        more => Err((format!("{} columns", columns.len() + more), columns.len().to_string())),
    }
}
