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
    let mut root =
        table_entries(table.get_ref(), &|span| (location_at(text, span.start), text[span].to_owned()));
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
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Location::File {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
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

/// Applies a setting `KEY=VALUE` to the tree.
fn apply_setting(root: &mut Vec<Entry>, set: &str, location: &Location) -> Result<(), String> {
    const EXPECTED: &str = "expected KEY=VALUE such as gravity.theta=0.5";
    let (path, written) = set.split_once('=').ok_or(EXPECTED)?;
    let mut path: Vec<&str> = path.split('.').map(str::trim).collect();
    if path.iter().any(|key| key.is_empty()) {
        return Err(EXPECTED.to_owned());
    }
    let (value, text) = setting_value(written.trim(), location);
    let last = path.pop().ok_or(EXPECTED)?;
    let entry = |key: &str, value, text| Entry {
        key: key.to_owned(),
        key_location: location.clone(),
        location: location.clone(),
        value,
        text,
    };
    let mut table = root;
    for (depth, &key) in path.iter().enumerate() {
        let index = table.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
            table.push(entry(key, Value::Table(Vec::new()), String::new()));
            table.len() - 1
        });
        let kind = table[index].value.kind();
        let Value::Table(inner) = &mut table[index].value else {
            return Err(format!("'{}' is {kind}, expected a section", path[..=depth].join(".")));
        };
        table = inner;
    }
    table.retain(|entry| entry.key != last);
    table.push(entry(last, value, text));
    Ok(())
}
