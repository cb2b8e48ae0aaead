//! Typed reading of the sections of a case.
//!
//! An error does not stop the reading. It is recorded, the reader continues with a placeholder
//! value, and the case is rejected at the end with the first error in the file. The code of a
//! section therefore needs no error handling, but its result is valid only if [`Problems`] stayed
//! empty.
//!
//! A key is known once it was read. Every section reads all the keys that it can have and then
//! calls [`Section::report_unknown_keys`], which reports the others.

use std::cell::RefCell;

use orrery_model::units::UnitError;
use orrery_model::{Dimension, Units};

use super::document::{CaseError, Entry, Location, Value, one_line};
use super::suggest::did_you_mean;

/// The errors found so far.
#[derive(Default)]
pub(super) struct Problems(RefCell<Vec<(Rank, Location, String)>>);

/// A missing key is often a misspelt one, so misspelt keys are reported first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Written,
    Missing,
}

impl Problems {
    pub fn add(&self, location: &Location, message: String) {
        self.0.borrow_mut().push((Rank::Written, location.clone(), message));
    }

    fn add_missing(&self, location: &Location, message: String) {
        self.0.borrow_mut().push((Rank::Missing, location.clone(), message));
    }

    /// Checks that there are no errors. Otherwise returns the first one in the file.
    pub fn check_none(&self, label: &str) -> Result<(), CaseError> {
        let problems = self.0.borrow();
        match problems.iter().min_by_key(|(rank, location, _)| (*rank, location)) {
            None => Ok(()),
            Some((_, location, message)) => Err(CaseError {
                label: label.to_owned(),
                location: location.clone(),
                message: message.clone(),
            }),
        }
    }
}

/// Range of the numbers that a key accepts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Range {
    Any,
    Positive,
    NotNegative,
    /// 0 < x <= max
    UpTo(f64),
    /// 0 <= x < 1
    BelowOne,
}

impl Range {
    fn contains(self, x: f64) -> bool {
        match self {
            Self::Any => true,
            Self::Positive => x > 0.0,
            Self::NotNegative => x >= 0.0,
            Self::UpTo(max) => 0.0 < x && x <= max,
            Self::BelowOne => (0.0..1.0).contains(&x),
        }
    }

    fn condition_on(self, name: &str) -> String {
        match self {
            Self::Any => name.to_owned(),
            Self::Positive => format!("{name} > 0"),
            Self::NotNegative => format!("{name} >= 0"),
            Self::UpTo(max) => format!("0 < {name} <= {max}"),
            Self::BelowOne => format!("0 <= {name} < 1"),
        }
    }
}

/// A table of the case, such as `[gravity]`.
pub(super) struct Section<'a> {
    /// Path such as `bodies.first`. Empty for the top level of the file.
    path: String,
    location: Location,
    entries: &'a [Entry],
    units: Units,
    problems: &'a Problems,
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    pub fn root(entries: &'a [Entry], problems: &'a Problems) -> Self {
        Self {
            path: String::new(),
            location: Location::File { line: 1, column: 1 },
            entries,
            units: Units::NBody,
            problems,
            known: RefCell::default(),
        }
    }

    /// Sets the units of plain numbers in this section and in those below.
    pub fn with_units(self, units: Units) -> Self {
        Self { units, ..self }
    }

    pub fn units(&self) -> Units {
        self.units
    }

    /// Returns the section `key` below this one. A missing section is empty.
    pub fn section(&self, key: &'static str) -> Section<'a> {
        let (location, entries) = match self.entry(key) {
            None => (self.location.clone(), &[][..]),
            Some(Entry { location, value: Value::Table(entries), .. }) => (location.clone(), &entries[..]),
            Some(entry) => {
                self.reject_type(entry, &format!("a section [{}]", self.key_path(key)));
                (entry.location.clone(), &[][..])
            }
        };
        Section {
            path: self.key_path(key),
            location,
            entries,
            units: self.units,
            problems: self.problems,
            known: RefCell::default(),
        }
    }

    /// Returns true if the section contains `key`.
    pub fn has_key(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Returns the location of the value of `key`, or of the section if the key is missing.
    pub fn location_of(&self, key: &str) -> &Location {
        self.entries.iter().find(|entry| entry.key == key).map_or(&self.location, |entry| &entry.location)
    }

    /// Reads a string.
    pub fn string(&self, key: &'static str) -> Option<String> {
        let entry = self.entry(key)?;
        let Value::String(s) = &entry.value else {
            self.reject_type(entry, "a string");
            return None;
        };
        Some(s.clone())
    }

    /// Returns the value of `key` if it is a string. Other types are not errors here.
    pub fn string_if_any(&self, key: &'static str) -> Option<&'a str> {
        match self.entry(key) {
            Some(Entry { value: Value::String(s), .. }) => Some(s),
            _ => None,
        }
    }

    /// Reads a number.
    pub fn number(&self, key: &'static str, range: Range) -> Option<f64> {
        self.number_expecting(key, range, "a number")
    }

    /// Reads a number for a key that has other forms too. Messages list them as `expected`.
    pub fn number_expecting(&self, key: &'static str, range: Range, expected: &str) -> Option<f64> {
        let entry = self.entry(key)?;
        let Some(x) = number_value(&entry.value) else {
            self.reject_type(entry, expected);
            return None;
        };
        self.check_range(key, x, range)
    }

    /// Reads a number in the units of the case, or a string with a unit.
    pub fn quantity(&self, key: &'static str, dimension: Dimension, range: Range) -> Option<f64> {
        self.quantity_or(key, None, dimension, range)
    }

    /// Reads a quantity or `word`. Returns `None` for `word`, such as "auto".
    pub fn quantity_or(
        &self,
        key: &'static str,
        word: Option<&str>,
        dimension: Dimension,
        range: Range,
    ) -> Option<f64> {
        let entry = self.entry(key)?;
        let or_word = word.map_or(String::new(), |word| format!(", or \"{word}\""));
        let x = match &entry.value {
            Value::Integer(_) | Value::Float(_) => number_value(&entry.value)?,
            Value::String(s) if Some(s.as_str()) == word => return None,
            Value::String(s) => match self.units.parse(s, dimension) {
                Ok(x) => x,
                Err(e) => {
                    let or_word = if matches!(e, UnitError::Malformed { .. }) { &or_word[..] } else { "" };
                    self.reject(key, &format!(": {}{or_word}", one_line(&e.to_string())));
                    return None;
                }
            },
            _ => {
                let example = dimension.example();
                let expected = format!("a number or a string with a unit such as {example}{or_word}");
                self.reject_type(entry, &expected);
                return None;
            }
        };
        self.check_range(key, x, range)
    }

    /// Returns `x`, the value of `key`, if it is finite and in `range`.
    pub fn check_range(&self, key: &str, x: f64, range: Range) -> Option<f64> {
        if !x.is_finite() {
            self.reject(key, " is not a finite number");
            return None;
        }
        if !range.contains(x) {
            self.reject(key, &format!(" is outside {}", range.condition_on(key)));
            return None;
        }
        Some(x)
    }

    /// Reads an integer from `least` to `most`. A float such as `1e6` is accepted if it is a whole
    /// number that f64 represents exactly.
    pub fn integer(&self, key: &'static str, least: u64, most: u64) -> Option<u64> {
        const LARGEST_EXACT: f64 = (1u64 << 53) as f64;
        let entry = self.entry(key)?;
        let i = match entry.value {
            Value::Integer(i) => i,
            Value::Float(x) if x.fract() == 0.0 && x.abs() <= LARGEST_EXACT => x as i128,
            Value::Float(_) => {
                self.reject(key, " is not a whole number, expected one such as 1500, 1_500 or 1.5e3");
                return None;
            }
            _ => {
                self.reject_type(entry, "an integer");
                return None;
            }
        };
        if (i128::from(least)..=i128::from(most)).contains(&i) {
            return u64::try_from(i).ok();
        }
        let condition = match most {
            MAX_INTEGER if i < i128::from(least) => format!("{key} >= {least}"),
            MAX_INTEGER => format!("{key} < 2^63"),
            _ => format!("{least} <= {key} <= {most}"),
        };
        self.reject(key, &format!(" is outside {condition}"));
        None
    }

    /// Reads one of the words in `options`.
    pub fn choice<T: Copy>(&self, key: &'static str, options: &[(&'static str, T)]) -> Option<T> {
        let entry = self.entry(key)?;
        let words = || options.iter().map(|&(word, _)| word);
        let Value::String(s) = &entry.value else {
            self.reject_type(entry, &format!("a string: {}", join_with_or(words())));
            return None;
        };
        let found = options.iter().find(|(word, _)| word == s).map(|&(_, value)| value);
        if found.is_none() {
            let hint = did_you_mean(s, words());
            self.reject(key, &format!(" is unknown, expected {}{hint}", join_with_or(words())));
        }
        found
    }

    /// Returns true if the value of `key` is the string `word`.
    pub fn is_word(&self, key: &'static str, word: &str) -> bool {
        self.string_if_any(key) == Some(word)
    }

    /// Returns the text before a suffix, if the value of `key` is a string with one of `suffixes`.
    /// For example, "100 steps" gives "100".
    pub fn text_before_suffix(&self, key: &'static str, suffixes: &[&str]) -> Option<String> {
        let text = self.string_if_any(key)?.trim();
        suffixes.iter().find_map(|suffix| text.strip_suffix(suffix)).map(|rest| rest.trim().to_owned())
    }

    /// Returns the value of a required key. A missing key is reported. A rejected value has been
    /// reported already. Both give a placeholder.
    pub fn require_key<T: Default>(&self, key: &str, value: Option<T>, expected: &str) -> T {
        if value.is_none() && !self.has_key(key) {
            let message = format!("missing key '{key}' in {}, expected {expected}", self.display_name());
            self.problems.add_missing(&self.location, message);
        }
        value.unwrap_or_default()
    }

    /// Reports a missing section.
    pub fn require_section(&self, key: &str, expected: &str) {
        if !self.has_key(key) {
            let message = format!("missing section [{key}], expected {expected}");
            self.problems.add_missing(&self.location, message);
        }
    }

    /// Reports that the section is incomplete.
    pub fn report_incomplete(&self, message: &str) {
        self.problems.add_missing(&self.location, message.to_owned());
    }

    /// Reports the value of `key` as `path = value` followed by `fault`.
    pub fn reject(&self, key: &str, fault: &str) {
        self.reject_at(self.location_of(key), key, fault);
    }

    /// Does the same as [`Section::reject`] with another location.
    pub fn reject_at(&self, location: &Location, key: &str, fault: &str) {
        let text = self.entries.iter().find(|entry| entry.key == key).map_or("", |entry| &entry.text);
        self.problems.add(location, format!("{} = {}{fault}", self.key_path(key), one_line(text)));
    }

    /// Reports a key that applies only to another value of `selector`. If that value came from
    /// `--set`, the key belongs to the value that was replaced, and is ignored.
    pub fn reject_unless_applicable(&self, key: &str, selector: &str, required: &str) {
        let is_overridden = matches!(
            (self.location_of(key), self.location_of(selector)),
            (Location::File { .. }, Location::Set { .. })
        );
        if self.has_key(key) && !is_overridden {
            self.reject(key, &format!(" applies only to {required}"));
        }
    }

    /// Reports an error at a given location.
    pub fn add_problem(&self, location: &Location, message: String) {
        self.problems.add(location, message);
    }

    /// Reports the keys that are not known.
    pub fn report_unknown_keys(&self) {
        self.report_unknown_keys_with(|_| None);
    }

    /// Does the same. `explain` may return a better message than a suggestion of a similar key.
    pub fn report_unknown_keys_with(&self, explain: impl Fn(&str) -> Option<String>) {
        let known = self.known.borrow();
        for entry in self.entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let key = one_line(&entry.key);
            let message = explain(&entry.key).unwrap_or_else(|| {
                let mut hint = did_you_mean(&entry.key, known.iter().copied());
                if hint.is_empty() && !known.is_empty() {
                    hint = format!(", expected {}", join_with_or(known.iter().copied()));
                }
                match (&entry.value, self.path.as_str()) {
                    (Value::Table(_), "") => format!("unknown section [{key}]{hint}"),
                    _ => format!("unknown key '{key}' in {}{hint}", self.display_name()),
                }
            });
            self.problems.add(&entry.key_location, message);
        }
    }

    /// Returns the keys that are known so far.
    pub fn known_keys(&self) -> Vec<&'static str> {
        self.known.borrow().clone()
    }

    /// Marks `key` as known without reading it.
    pub fn mark_known(&self, key: &'static str) {
        let mut known = self.known.borrow_mut();
        if !known.contains(&key) {
            known.push(key);
        }
    }

    fn entry(&self, key: &'static str) -> Option<&'a Entry> {
        self.mark_known(key);
        self.entries.iter().find(|entry| entry.key == key)
    }

    fn display_name(&self) -> String {
        if self.path.is_empty() { "the case".to_owned() } else { format!("[{}]", self.path) }
    }

    fn key_path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn reject_type(&self, entry: &Entry, expected: &str) {
        let written = match entry.value {
            Value::Table(_) | Value::Array => String::new(),
            _ => format!(" = {}", one_line(&entry.text)),
        };
        let (path, kind) = (self.key_path(&entry.key), entry.value.kind());
        self.problems.add(&entry.location, format!("{path}{written} is {kind}, expected {expected}"));
    }
}

/// Largest integer in a case: that of TOML.
pub(super) const MAX_INTEGER: u64 = i64::MAX as u64;

fn number_value(value: &Value) -> Option<f64> {
    match *value {
        Value::Integer(i) => Some(i as f64),
        Value::Float(x) => Some(x),
        _ => None,
    }
}

/// Joins words: `a, b or c`.
pub(super) fn join_with_or<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}
