//! Header of a data file, and its lines.

use std::fs::File;
use std::io::BufReader;

use orrery_model::format_count;
use orrery_model::simulation_box::{BoxSides, SimulationBox};

use crate::error::Fault;
use crate::fluid::{MAX_SPECIES, quoted};
use crate::text::byte_count;
use crate::xyz::Lines;

/// Shortest line of an atom: `1 1 0 0 0` and a newline.
const MIN_ATOM_BYTES: u64 = 10;

/// A line without blanks at its ends, split at `#`.
pub(super) struct Text {
    pub line: u64,
    pub text: String,
    pub comment: String,
}

impl Text {
    pub fn fault(&self, got: impl Into<String>, expected: impl Into<String>) -> Fault {
        Fault::malformed(format!("line {}", self.line), got, expected)
    }

    /// Returns the error for this text.
    pub fn unexpected(&self, expected: impl Into<String>) -> Fault {
        self.fault(quoted(&self.text), expected)
    }
}

/// Lines of a data file.
pub(super) struct Source {
    pub lines: Lines<BufReader<File>>,
    pub file_bytes: u64,
}

impl Source {
    /// Returns the next line that is neither empty nor a comment, or `None` at the end of the file.
    pub fn next_text(&mut self) -> Result<Option<Text>, Fault> {
        while self.lines.read_line()? {
            let line = self.lines.text("UTF-8 text")?;
            let (text, comment) = line.split_once('#').unwrap_or((line, ""));
            let text = text.trim();
            if !text.is_empty() {
                let (text, comment) = (text.to_owned(), comment.trim().to_owned());
                return Ok(Some(Text { line: self.lines.number, text, comment }));
            }
        }
        Ok(None)
    }
}

pub(super) fn starts_with_letter(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Header of a data file.
pub(super) struct Header {
    pub atoms: u64,
    /// Number of species.
    pub types: usize,
    /// Lowest and highest coordinates.
    sides: [[f64; 2]; 3],
}

impl Header {
    /// Reads the header. Also returns the title of the first section.
    pub fn read(source: &mut Source) -> Result<(Self, Option<Text>), Fault> {
        let (mut atoms, mut types, mut sides) = (None, None, [None; 3]);
        let mut section = None;
        while let Some(text) = source.next_text()? {
            if starts_with_letter(&text.text) {
                section = Some(text);
                break;
            }
            let words: Vec<&str> = text.text.split_whitespace().collect();
            let first_name = words.iter().position(|word| word.starts_with(|c: char| c.is_alphabetic()));
            let (values, names) = words.split_at(first_name.unwrap_or(words.len()));
            let count = || match values {
                [value] => value.parse::<u64>().map_err(|_| text.unexpected("an integer >= 0")),
                _ => Err(text.unexpected("one number")),
            };
            match names.join(" ").as_str() {
                "atoms" => atoms = Some(count()?),
                "atom types" => types = Some(count()?),
                "xlo xhi" => sides[0] = Some(numbers::<2>(values, &text)?),
                "ylo yhi" => sides[1] = Some(numbers::<2>(values, &text)?),
                "zlo zhi" => sides[2] = Some(numbers::<2>(values, &text)?),
                "xy xz yz" => {
                    if numbers::<3>(values, &text)? != [0.0; 3] {
                        return Err(text.unexpected("the tilt factors 0 0 0: a box with right angles"));
                    }
                }
                "avec" | "bvec" | "cvec" | "abc origin" => {
                    return Err(text.unexpected("xlo xhi, ylo yhi and zlo zhi: a box with right angles"));
                }
                "bonds" | "angles" | "dihedrals" | "impropers" | "ellipsoids" | "lines" | "triangles"
                | "bodies" => {
                    if count()? > 0 {
                        return Err(text.unexpected("0: particles without bonds or shapes"));
                    }
                }
                "bond types" | "angle types" | "dihedral types" | "improper types" => drop(count()?),
                name if name.starts_with("extra ") => {}
                _ => return Err(text.unexpected("a line of the header, such as '100 atoms', or a section")),
            }
        }
        let missing = |name: &str| Fault::malformed("header", "no line with it", format!("'{name}'"));
        let names = ["xlo xhi", "ylo yhi", "zlo zhi"];
        let atoms = atoms.ok_or_else(|| missing("atoms"))?;
        let types = types.ok_or_else(|| missing("atom types"))?;
        for axis in 0..3 {
            if sides[axis].is_none() {
                return Err(missing(names[axis]));
            }
        }
        if types > MAX_SPECIES as u64 {
            let expected = format!("at most {MAX_SPECIES}");
            return Err(Fault::malformed("header", format!("{types} atom types"), expected));
        }
        if atoms.saturating_mul(MIN_ATOM_BYTES) > source.file_bytes.saturating_add(1) {
            let expected = format!("no more than fit into a file of {}", byte_count(source.file_bytes));
            return Err(Fault::malformed("header", format_count(atoms, "atom", "atoms"), expected));
        }
        Ok((Self { atoms, types: types as usize, sides: sides.map(Option::unwrap_or_default) }, section))
    }

    pub fn bounds(&self) -> SimulationBox {
        SimulationBox {
            origin: self.sides.map(|[low, _]| low),
            lengths: self.sides.map(|[low, high]| high - low),
            sides: BoxSides::Periodic,
            dimensions: 3,
        }
    }
}

/// Parses `N` finite numbers.
pub(super) fn numbers<const N: usize>(words: &[&str], text: &Text) -> Result<[f64; N], Fault> {
    let mut values = [0.0; N];
    if words.len() != N {
        return Err(text.unexpected(format!("{N} numbers")));
    }
    for (value, word) in values.iter_mut().zip(words) {
        *value = finite(word).ok_or_else(|| text.unexpected(format!("{N} numbers")))?;
    }
    Ok(values)
}

pub(super) fn finite(word: &str) -> Option<f64> {
    word.parse().ok().filter(|value: &f64| value.is_finite())
}
