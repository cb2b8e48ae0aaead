//! Typed reading of a case's sections.
//!
//! A mistake does not stop the reading: it is noted, the reader goes on with a stand-in, and the whole
//! case is refused at the end with the mistake that stands first in the file. So the sections read
//! straight down, and what they return is meaningful only if [`Problems`] stayed empty.
//!
//! A key is known because it was asked for. Every section therefore asks for all the keys it could have,
//! then calls [`Section::finish`], which reports the others.

use std::cell::RefCell;

use orrery_model::units::UnitError;
use orrery_model::{Dimension, Units};

use super::document::{CaseError, Entry, Location, Value, one_line};
use super::suggest::did_you_mean;

/// The mistakes found so far.
#[derive(Default)]
pub(super) struct Problems(RefCell<Vec<(Rank, Location, String)>>);

/// A missing key is often a misspelt one, so misspelt ones are reported first.
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

    /// The first problem, if there is one.
    pub fn check(&self, label: &str) -> Result<(), CaseError> {
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

/// The numbers that a key accepts.
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

    fn show(self, name: &str) -> String {
        match self {
            Self::Any => name.to_owned(),
            Self::Positive => format!("{name} > 0"),
            Self::NotNegative => format!("{name} >= 0"),
            Self::UpTo(max) => format!("0 < {name} <= {max}"),
            Self::BelowOne => format!("0 <= {name} < 1"),
        }
    }
}

/// A table of the case being read.
pub(super) struct Section<'a> {
    /// `bodies.first`; empty for the top of the file.
    path: String,
    location: Location,
    entries: &'a [Entry],
    units: Units,
    problems: &'a Problems,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    pub fn root(entries: &'a [Entry], problems: &'a Problems) -> Self {
        Self {
            path: String::new(),
            location: Location::File { line: 1, column: 1 },
            entries,
            units: Units::NBody,
            problems,
            asked: RefCell::default(),
        }
    }

    /// From here on, bare numbers and the sections below are in `units`.
    pub fn with_units(self, units: Units) -> Self {
        Self { units, ..self }
    }

    pub fn units(&self) -> Units {
        self.units
    }

    /// The section `key` below this one; an absent one reads as empty.
    pub fn section(&self, key: &'static str) -> Section<'a> {
        let (location, entries) = match self.entry(key) {
            None => (self.location.clone(), &[][..]),
            Some(Entry { location, value: Value::Table(entries), .. }) => (location.clone(), &entries[..]),
            Some(entry) => {
                self.wrong_type(entry, &format!("a section [{}]", self.path_of(key)));
                (entry.location.clone(), &[][..])
            }
        };
        Section {
            path: self.path_of(key),
            location,
            entries,
            units: self.units,
            problems: self.problems,
            asked: RefCell::default(),
        }
    }

    /// Whether `key` is there at all.
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Where the value of `key` was written, or the section where it was not.
    pub fn location_of(&self, key: &str) -> &Location {
        self.entries.iter().find(|entry| entry.key == key).map_or(&self.location, |entry| &entry.location)
    }

    /// A string, as it stands.
    pub fn string(&self, key: &'static str) -> Option<String> {
        let entry = self.entry(key)?;
        let Value::String(s) = &entry.value else {
            self.wrong_type(entry, "a string");
            return None;
        };
        Some(s.clone())
    }

    /// The string under `key`, where one stands there, for a string beside other kinds of value.
    pub fn text(&self, key: &'static str) -> Option<&'a str> {
        match self.entry(key) {
            Some(Entry { value: Value::String(s), .. }) => Some(s),
            _ => None,
        }
    }

    /// A plain number.
    pub fn number(&self, key: &'static str, range: Range) -> Option<f64> {
        self.number_expecting(key, range, "a number")
    }

    /// The same, where more than a number is `expected`.
    pub fn number_expecting(&self, key: &'static str, range: Range, expected: &str) -> Option<f64> {
        let entry = self.entry(key)?;
        let Some(x) = number(&entry.value) else {
            self.wrong_type(entry, expected);
            return None;
        };
        self.in_range(key, x, range)
    }

    /// A number in the case's units, or a string with a unit.
    pub fn quantity(&self, key: &'static str, dimension: Dimension, range: Range) -> Option<f64> {
        self.quantity_or(key, None, dimension, range)
    }

    /// The same; `None` is also what `word` reads as.
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
            Value::Integer(_) | Value::Float(_) => number(&entry.value)?,
            Value::String(s) if Some(s.as_str()) == word => return None,
            Value::String(s) => match self.units.parse(s, dimension) {
                Ok(x) => x,
                Err(e) => {
                    let or_word = if matches!(e, UnitError::Malformed { .. }) { &or_word[..] } else { "" };
                    self.refuse(key, &format!(": {}{or_word}", one_line(&e.to_string())));
                    return None;
                }
            },
            _ => {
                let example = dimension.example();
                let expected = format!("a number or a string with a unit such as {example}{or_word}");
                self.wrong_type(entry, &expected);
                return None;
            }
        };
        self.in_range(key, x, range)
    }

    /// `x`, read from `key`, if it is finite and in `range`.
    pub fn in_range(&self, key: &str, x: f64, range: Range) -> Option<f64> {
        if !x.is_finite() {
            self.refuse(key, " is not a finite number");
            return None;
        }
        if !range.contains(x) {
            self.refuse(key, &format!(" is outside {}", range.show(key)));
            return None;
        }
        Some(x)
    }

    /// An integer from `least` to `most`.
    pub fn integer(&self, key: &'static str, least: u64, most: u64) -> Option<u64> {
        let entry = self.entry(key)?;
        let Value::Integer(i) = entry.value else {
            self.wrong_type(entry, "an integer");
            return None;
        };
        if (i128::from(least)..=i128::from(most)).contains(&i) {
            return u64::try_from(i).ok();
        }
        let condition = match most {
            MOST if i < i128::from(least) => format!("{key} >= {least}"),
            MOST => format!("{key} < 2^63"),
            _ => format!("{least} <= {key} <= {most}"),
        };
        self.refuse(key, &format!(" is outside {condition}"));
        None
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&self, key: &'static str, options: &[(&'static str, T)]) -> Option<T> {
        let entry = self.entry(key)?;
        let words = || options.iter().map(|&(word, _)| word);
        let Value::String(s) = &entry.value else {
            self.wrong_type(entry, &format!("a string: {}", list(words())));
            return None;
        };
        let found = options.iter().find(|(word, _)| word == s).map(|&(_, value)| value);
        if found.is_none() {
            let hint = did_you_mean(s, words());
            self.refuse(key, &format!(" is unknown, expected {}{hint}", list(words())));
        }
        found
    }

    /// Whether `key` holds exactly `word`, for a word beside other kinds of value.
    pub fn is_word(&self, key: &'static str, word: &str) -> bool {
        self.text(key) == Some(word)
    }

    /// What stands before the first of `endings` that the string under `key` ends with, if one does.
    pub fn before_ending(&self, key: &'static str, endings: &[&str]) -> Option<String> {
        let text = self.text(key)?.trim();
        endings.iter().find_map(|ending| text.strip_suffix(ending)).map(|rest| rest.trim().to_owned())
    }

    /// Reports `key` as missing unless it was written (and perhaps refused); then a stand-in will do.
    pub fn required<T: Default>(&self, key: &str, value: Option<T>, expected: &str) -> T {
        if value.is_none() && !self.has(key) {
            let message = format!("missing key '{key}' in {}, expected {expected}", self.name());
            self.problems.add_missing(&self.location, message);
        }
        value.unwrap_or_default()
    }

    /// Reports section `key` as missing.
    pub fn require_section(&self, key: &str, expected: &str) {
        if !self.has(key) {
            let message = format!("missing section [{key}], expected {expected}");
            self.problems.add_missing(&self.location, message);
        }
    }

    /// Reports a fault of the section as a whole that something missing causes.
    pub fn lacks(&self, message: &str) {
        self.problems.add_missing(&self.location, message.to_owned());
    }

    /// Reports the value of `key`: `path = value` and then `fault`.
    pub fn refuse(&self, key: &str, fault: &str) {
        self.refuse_at(self.location_of(key), key, fault);
    }

    /// The same, blaming another location.
    pub fn refuse_at(&self, location: &Location, key: &str, fault: &str) {
        let text = self.entries.iter().find(|entry| entry.key == key).map_or("", |entry| &entry.text);
        self.problems.add(location, format!("{} = {}{fault}", self.path_of(key), one_line(text)));
    }

    /// Reports a key that means something only beside another value of `beside`. Where that value came from
    /// a `--set`, the key is a left-over of what it replaced and is passed over.
    pub fn refuse_beside(&self, key: &str, beside: &str, wanted: &str) {
        let left_over = matches!(
            (self.location_of(key), self.location_of(beside)),
            (Location::File { .. }, Location::Set { .. })
        );
        if self.has(key) && !left_over {
            self.refuse(key, &format!(" applies only to {wanted}"));
        }
    }

    /// Reports a problem at a location that the caller knows.
    pub fn problem(&self, location: &Location, message: String) {
        self.problems.add(location, message);
    }

    /// Reports the keys that were not asked for.
    pub fn finish(&self) {
        self.finish_with(|_| None);
    }

    /// The same; `explain` may know better than a suggestion what an unknown key is.
    pub fn finish_with(&self, explain: impl Fn(&str) -> Option<String>) {
        let asked = self.asked.borrow();
        for entry in self.entries.iter().filter(|entry| !asked.contains(&entry.key.as_str())) {
            let key = one_line(&entry.key);
            let message = explain(&entry.key).unwrap_or_else(|| {
                let mut hint = did_you_mean(&entry.key, asked.iter().copied());
                if hint.is_empty() && !asked.is_empty() {
                    hint = format!(", expected {}", list(asked.iter().copied()));
                }
                match (&entry.value, self.path.as_str()) {
                    (Value::Table(_), "") => format!("unknown section [{key}]{hint}"),
                    _ => format!("unknown key '{key}' in {}{hint}", self.name()),
                }
            });
            self.problems.add(&entry.key_location, message);
        }
    }

    /// The keys asked for so far.
    pub fn asked(&self) -> Vec<&'static str> {
        self.asked.borrow().clone()
    }

    /// Makes `key` known without reading it.
    pub fn ask(&self, key: &'static str) {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&key) {
            asked.push(key);
        }
    }

    fn entry(&self, key: &'static str) -> Option<&'a Entry> {
        self.ask(key);
        self.entries.iter().find(|entry| entry.key == key)
    }

    fn name(&self) -> String {
        if self.path.is_empty() { "the case".to_owned() } else { format!("[{}]", self.path) }
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn wrong_type(&self, entry: &Entry, expected: &str) {
        let written = match entry.value {
            Value::Table(_) | Value::Array => String::new(),
            _ => format!(" = {}", one_line(&entry.text)),
        };
        let (path, kind) = (self.path_of(&entry.key), entry.value.kind());
        self.problems.add(&entry.location, format!("{path}{written} is {kind}, expected {expected}"));
    }
}

/// The largest integer of a case: all of TOML's.
pub(super) const MOST: u64 = i64::MAX as u64;

fn number(value: &Value) -> Option<f64> {
    match *value {
        Value::Integer(i) => Some(i as f64),
        Value::Float(x) => Some(x),
        _ => None,
    }
}

/// `a, b or c`
pub(super) fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}
