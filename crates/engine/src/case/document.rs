//! The text of a case as a tree in which every key and value has a location.
//!
//! Invariants: columns count characters, starting at 1. A value from `--set` replaces the one in
//! the file, and the setting becomes its location. [`Location`]s are in reading order: the file
//! from top to bottom, then the settings from left to right.

use std::fmt;
use std::ops::Range;

use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::settings::apply_setting;

/// Where a key or value was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// The case as a whole.
    Whole,
    /// In the case file.
    File {
        /// Line, starting at 1.
        line: usize,
        /// Column in characters, starting at 1.
        column: usize,
    },
    /// In a setting `KEY=VALUE`.
    Set {
        /// Index of the setting, starting at 0.
        index: usize,
        /// The flag of the command line with its value: `--set KEY=VALUE`, or another one that the
        /// caller passed as a setting.
        text: String,
    },
}

/// Error in a case: one line with the location, what was found and what was expected.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub struct CaseError {
    /// Name of the file or preset.
    pub label: String,
    /// Location in the file or in a setting.
    pub location: Location,
    /// Value found and value expected, as a sentence without the location.
    pub message: String,
}

impl fmt::Display for CaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Location::Whole => write!(f, "{}: {}", self.label, self.message),
            Location::File { line, column } => write!(f, "{}:{line}:{column}: {}", self.label, self.message),
            Location::Set { text, .. } => write!(f, "{}: {}", one_line(text), self.message),
        }
    }
}

/// A key and its value.
#[derive(Debug)]
pub(super) struct Entry {
    pub key: String,
    pub key_location: Location,
    pub location: Location,
    pub value: Value,
    /// The value as written, for messages.
    pub text: String,
}

#[derive(Debug)]
pub(super) enum Value {
    String(String),
    /// Saturates beyond i128, which is far outside all ranges.
    Integer(i128),
    Float(f64),
    Boolean(bool),
    Datetime,
    /// Items, whose keys are empty.
    Array(Vec<Entry>),
    Table(Vec<Entry>),
}

impl Value {
    /// Returns the type with its article, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::String(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Boolean(_) => "a boolean",
            Self::Datetime => "a date",
            Self::Array(_) => "an array",
            Self::Table(_) => "a table",
        }
    }
}

/// Parses the text of a case and applies `sets`.
pub(super) fn parse_document(label: &str, bytes: &[u8], sets: &[String]) -> Result<Vec<Entry>, CaseError> {
    let error = |location, message| CaseError { label: label.to_owned(), location, message };
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let valid = String::from_utf8_lossy(&bytes[..e.valid_up_to()]);
        let byte = bytes[e.valid_up_to()];
        let message = format!("byte 0x{byte:02x} is not UTF-8, expected a text file");
        error(location_at(&valid, valid.len()), message)
    })?;
    let table = DeTable::parse(text).map_err(|e| {
        let span = e.span().unwrap_or(0..0);
        let which = match e.message() {
            "duplicate key" => format!(" '{}'", one_line(&text[span.clone()])),
            _ => String::new(),
        };
        error(location_at(text, span.start), format!("not valid TOML: {}{which}", one_line(e.message())))
    })?;
    let lines = LineIndex::new(text);
    let mut root =
        table_entries(table.get_ref(), &|span| (lines.location(span.start), text[span].to_owned()));
    for (index, set) in sets.iter().enumerate() {
        let location = Location::Set { index, text: format!("--set {set}") };
        apply_setting(&mut root, set, &location).map_err(|message| error(location.clone(), message))?;
    }
    Ok(root)
}

/// Returns `text` in one line: no control characters, and shortened if it is long.
pub(super) fn one_line(text: &str) -> String {
    const MAX_CHARS: usize = 200;
    let text = text.trim_end();
    let mut line = String::new();
    for c in text.chars().take(MAX_CHARS) {
        match c {
            '\n' => line.push(' '),
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    if text.chars().nth(MAX_CHARS).is_some() {
        line.push_str("...");
    }
    line
}

fn location_at(text: &str, offset: usize) -> Location {
    LineIndex::new(text).location(offset)
}

/// The lines of a text, which finds the location of an offset without reading the text before it.
struct LineIndex<'a> {
    bytes: &'a [u8],
    /// Offset of the first byte of each line.
    line_starts: Vec<usize>,
    /// Characters before each block of bytes.
    block_chars: Vec<usize>,
}

impl<'a> LineIndex<'a> {
    const BLOCK: usize = 256;

    fn new(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let newlines = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let line_starts = std::iter::once(0).chain(newlines.map(|(index, _)| index + 1)).collect();
        let mut block_chars = vec![0];
        let mut chars = 0;
        for block in bytes.chunks(Self::BLOCK) {
            chars += count_chars(block);
            block_chars.push(chars);
        }
        Self { bytes, line_starts, block_chars }
    }

    fn location(&self, offset: usize) -> Location {
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let line_start = self.line_starts[line - 1];
        Location::File { line, column: self.chars_before(offset) - self.chars_before(line_start) + 1 }
    }

    fn chars_before(&self, offset: usize) -> usize {
        let block = offset / Self::BLOCK;
        self.block_chars[block] + count_chars(&self.bytes[block * Self::BLOCK..offset])
    }
}

/// Returns the number of characters that start in these bytes of a text.
fn count_chars(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// Returns the location and the text of a span.
type Locate<'a> = &'a dyn Fn(Range<usize>) -> (Location, String);

/// Converts a TOML table to entries, in the order in which they were written.
fn table_entries(table: &DeTable<'_>, locate: Locate<'_>) -> Vec<Entry> {
    let mut written: Vec<_> = table.iter().collect();
    written.sort_by_key(|(key, _)| key.span().start);
    written
        .into_iter()
        .map(|(key, value)| {
            let (location, text) = locate(value.span());
            Entry {
                key: key.get_ref().to_string(),
                key_location: locate(key.span()).0,
                location,
                value: convert_value(value.get_ref(), locate),
                text,
            }
        })
        .collect()
}

fn convert_value(value: &DeValue<'_>, locate: Locate<'_>) -> Value {
    match value {
        DeValue::String(s) => Value::String(s.to_string()),
        DeValue::Integer(i) => Value::Integer(
            i128::from_str_radix(i.as_str(), i.radix()).unwrap_or(if i.as_str().starts_with('-') {
                i128::MIN
            } else {
                i128::MAX
            }),
        ),
        DeValue::Float(x) => Value::Float(x.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(_) => Value::Datetime,
        DeValue::Array(items) => {
            let item = |value: &Spanned<DeValue<'_>>| {
                let (location, text) = locate(value.span());
                let value = convert_value(value.get_ref(), locate);
                Entry { key: String::new(), key_location: location.clone(), location, value, text }
            };
            Value::Array(items.iter().map(item).collect())
        }
        DeValue::Table(table) => Value::Table(table_entries(table, locate)),
    }
}

/// Returns the value of a setting and its text for messages. A text that is not TOML is a plain
/// string.
pub(super) fn setting_value(written: &str, location: &Location) -> (Value, String) {
    match DeValue::parse(written) {
        Ok(value) => (
            convert_value(value.get_ref(), &|span| (location.clone(), written[span].to_owned())),
            written.to_owned(),
        ),
        Err(_) => (Value::String(written.to_owned()), format!("\"{written}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition: characters of the line before the offset.
    fn counted(text: &str, offset: usize) -> Location {
        let line_start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
        Location::File {
            line: text[..offset].matches('\n').count() + 1,
            column: text[line_start..offset].chars().count() + 1,
        }
    }

    #[test]
    fn locations_count_lines_and_characters() {
        let long = format!("a = \"{}\"\n\n", "Å€x".repeat(400));
        let text = format!("{long}b = 1\n{long}\u{1f30a}");
        let lines = LineIndex::new(&text);
        for offset in (0..=text.len()).filter(|&offset| text.is_char_boundary(offset)) {
            assert_eq!(lines.location(offset), counted(&text, offset), "{offset}");
        }
        assert_eq!(LineIndex::new("").location(0), Location::File { line: 1, column: 1 });
    }
}
