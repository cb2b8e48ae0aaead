//! A section of a case while it is read: its entries, its declared keys, and the errors found.
//!
//! An error does not stop the reading. It is recorded, the reader continues with a placeholder
//! value, and the case is rejected at the end with the first error in the file. The code of a
//! section therefore needs no error handling, but its result is valid only if [`Findings`] has no
//! problems.
//!
//! The typed reading of values is in `values`. Every section reads all of its declared keys and
//! then calls [`Section::finish`], which reports the other keys of the file.

use std::cell::{Cell, RefCell};

use orrery_model::{Dimension, Units};

use super::declare::{KeySpec, Kind, SectionSpec, Variant};
use super::document::{CaseError, Entry, Location, Value, one_line, setting_value};
use super::origins::Origins;
use super::physics::PhysicsName;
use super::quantities::WrittenQuantities;
use super::suggest::did_you_mean;

/// Errors, quantities with a unit, and locations of files and lists that were found so far.
#[derive(Default)]
pub(super) struct Findings {
    /// The first problem in the file.
    problem: RefCell<Option<(Rank, Location, String)>>,
    quantities: RefCell<WrittenQuantities>,
    origins: RefCell<Origins>,
    /// True if the case gives a temperature with a unit.
    has_kelvins: Cell<bool>,
}

/// A missing key is often a misspelt one, so misspelt keys are reported first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Written,
    Missing,
}

impl Findings {
    pub fn add_problem(&self, location: &Location, message: String) {
        self.add(Rank::Written, location, message);
    }

    fn add_missing(&self, location: &Location, message: String) {
        self.add(Rank::Missing, location, message);
    }

    fn add(&self, rank: Rank, location: &Location, message: String) {
        if self.is_first(rank, location) {
            self.problem.replace(Some((rank, location.clone(), message)));
        }
    }

    /// Returns true if a problem there would be reported, and not one that was found before.
    fn is_first(&self, rank: Rank, location: &Location) -> bool {
        let problem = self.problem.borrow();
        problem.as_ref().is_none_or(|(known, earlier, _)| (rank, location) < (*known, earlier))
    }

    /// Returns the quantities with a unit.
    pub fn take_quantities(&self) -> WrittenQuantities {
        self.quantities.take()
    }

    /// Returns the locations of files and of entries of lists.
    pub fn take_origins(&self) -> Origins {
        self.origins.take()
    }

    /// Checks that there are no errors. Otherwise returns the first one in the file.
    pub fn check_no_problems(&self, label: &str) -> Result<(), CaseError> {
        match &*self.problem.borrow() {
            None => Ok(()),
            Some((_, location, message)) => Err(CaseError {
                label: label.to_owned(),
                location: location.clone(),
                message: message.clone(),
            }),
        }
    }
}

/// A table of the case, such as `[gravity]`.
pub(super) struct Section<'a> {
    /// Path such as `bodies.first`. Empty for the top level of the file.
    path: String,
    location: Location,
    spec: &'static SectionSpec,
    physics: PhysicsName,
    /// True if the case has the section of its physics, which is otherwise the default one.
    is_physics_written: bool,
    entries: &'a [Entry],
    /// Entries of the section that has the values of missing keys.
    fallback: &'a [Entry],
    units: Units,
    findings: &'a Findings,
    declared: RefCell<Vec<&'static KeySpec>>,
    /// Names of the declared keys that were read.
    read: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    /// Returns the top level of a case of the given physics.
    pub fn root(
        spec: &'static SectionSpec,
        physics: PhysicsName,
        entries: &'a [Entry],
        findings: &'a Findings,
    ) -> Self {
        Self {
            path: String::new(),
            location: Location::File { line: 1, column: 1 },
            spec,
            physics,
            is_physics_written: entries.iter().any(|entry| entry.key == physics.as_str()),
            entries,
            fallback: &[],
            units: Units::NBody,
            findings,
            declared: RefCell::new(spec.keys_of(physics).collect()),
            read: RefCell::default(),
        }
    }

    /// Sets the units of plain numbers in this section and in those below.
    pub fn with_units(self, units: Units) -> Self {
        Self { units, ..self }
    }

    pub fn units(&self) -> Units {
        self.units
    }

    /// Returns the section `key` below this one. A missing section is empty, and reported if it is
    /// required.
    pub fn section(&self, key: &'static str) -> Section<'a> {
        let Kind::Section(spec) = self.declaration(key).kind else { self.misdeclared(key) };
        let (location, entries) = match self.entry(key) {
            None => {
                if let Some(expected) = spec.required {
                    let message = match self.selects_no_physics(key) {
                        true => missing_physics(),
                        false => format!("missing section [{key}], expected {expected}"),
                    };
                    self.findings.add_missing(&self.location, message);
                }
                (self.location.clone(), &[][..])
            }
            Some(Entry { location, value: Value::Table(entries), .. }) => {
                self.record_origin(key, location);
                (location.clone(), &entries[..])
            }
            Some(entry) => {
                self.reject_type(entry, &format!("a section [{}]", self.key_path(key)));
                (entry.location.clone(), &[][..])
            }
        };
        let fallback = match spec.defaults_from.and_then(|name| self.entry(name)) {
            Some(Entry { value: Value::Table(entries), .. }) => &entries[..],
            _ => &[],
        };
        Section { fallback, ..self.below(self.key_path(key), spec, location, entries) }
    }

    /// Returns true if the case has no section of a physics, and the missing section `key` is of
    /// the default one.
    fn selects_no_physics(&self, key: &str) -> bool {
        !self.is_physics_written
            && self.spec.common_keys().any(|spec| spec.name == key && !spec.only_for.is_empty())
    }

    /// Returns true if the case has neither the section of a physics nor the required one of the
    /// default physics, which is reported.
    pub fn lacks_physics(&self) -> bool {
        let is_missing = |spec: &&KeySpec| {
            matches!(spec.kind, Kind::Section(section) if section.required.is_some())
                && self.selects_no_physics(spec.name)
                && spec.applies_to(self.physics)
                && self.entry(spec.name).is_none()
        };
        self.path.is_empty() && self.spec.common_keys().any(|spec| is_missing(&spec))
    }

    /// Returns the list of sections `key` below this one.
    pub fn sections(&self, key: &'static str) -> Vec<Section<'a>> {
        let Kind::Sections(spec) = self.declaration(key).kind else { self.misdeclared(key) };
        let Some(entry) = self.entry(key) else { return Vec::new() };
        let path = self.key_path(key);
        let expected = format!("a list of sections [[{path}]]");
        let Value::Array(items) = &entry.value else {
            self.reject_type(entry, &expected);
            return Vec::new();
        };
        let section = |(index, item): (usize, &'a Entry)| match &item.value {
            Value::Table(entries) => {
                let path = item_path(&path, index);
                self.findings.origins.borrow_mut().insert(path.clone(), item.location.clone());
                Some(self.below(path, spec, item.location.clone(), entries))
            }
            value => {
                let (item_path, kind) = (item_path(&path, index), value.kind());
                let message = format!("{item_path} is {kind}, expected a section [[{path}]]");
                self.add_problem(&item.location, message);
                None
            }
        };
        items.iter().enumerate().filter_map(section).collect()
    }

    fn below(
        &self,
        path: String,
        spec: &'static SectionSpec,
        location: Location,
        entries: &'a [Entry],
    ) -> Section<'a> {
        Section {
            path,
            location,
            spec,
            physics: self.physics,
            is_physics_written: self.is_physics_written,
            entries,
            fallback: &[],
            units: self.units,
            findings: self.findings,
            declared: RefCell::new(spec.keys_of(self.physics).collect()),
            read: RefCell::default(),
        }
    }

    /// Adds the keys of a variant to the declared ones.
    pub fn add_variant(&self, variant: &Variant) {
        self.declared.borrow_mut().extend(variant.keys.iter().copied().flatten());
    }

    /// Returns the declaration of a key that is being read.
    pub fn declaration(&self, key: &'static str) -> &'static KeySpec {
        self.read.borrow_mut().push(key);
        let declared = self.declared.borrow();
        let found = declared.iter().find(|spec| spec.name == key);
        found.unwrap_or_else(|| panic!("the key {} is read but not declared", self.key_path(key)))
    }

    /// Ends with an error in the code: the reader of a section and its declaration disagree.
    pub fn misdeclared(&self, key: &str) -> ! {
        panic!("the key {} is declared with another type than it is read", self.key_path(key))
    }

    /// Returns true if the section contains `key`.
    pub fn has_key(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// Returns the location of the value of `key`, or of the section if the key is missing.
    pub fn location_of(&self, key: &str) -> &Location {
        self.entry(key).map_or(&self.location, |entry| &entry.location)
    }

    /// Returns the path of the section, such as `bodies.first`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the entry of `key` in the case.
    pub fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Returns the entry that has the value of `key` if it is missing here.
    pub fn fallback_entry(&self, key: &str) -> Option<&'a Entry> {
        self.fallback.iter().find(|entry| entry.key == key)
    }

    /// Returns true if the value of `key` in the case, or else its default, is the string `word`.
    pub fn is_word(&self, key: &'static str, word: &str) -> bool {
        match self.entry(key) {
            Some(entry) => matches!(&entry.value, Value::String(text) if text == word),
            None => self.declaration(key).default_text() == Some(word),
        }
    }

    /// Records the text of a quantity, for the resolved case.
    pub fn record_quantity(&self, key: &str, text: &str, dimension: Dimension) {
        let has_unit = self.findings.quantities.borrow_mut().insert(self.key_path(key), text);
        let is_difference =
            || self.declared.borrow().iter().any(|spec| spec.name == key && spec.is_difference);
        if has_unit && dimension == Dimension::Temperature && !is_difference() {
            self.findings.has_kelvins.set(true);
        }
    }

    /// Returns true if a temperature with a unit was read, here or elsewhere in the case.
    pub fn has_kelvins(&self) -> bool {
        self.findings.has_kelvins.get()
    }

    /// Records the location of a file or a section, for errors that are found later.
    pub fn record_origin(&self, key: &str, location: &Location) {
        self.findings.origins.borrow_mut().insert(self.key_path(key), location.clone());
    }

    /// Reports a missing key.
    pub fn report_missing(&self, key: &str, expected: &str) {
        let message = format!("missing key '{key}' in {}, expected {expected}", self.display_name());
        self.findings.add_missing(&self.location, message);
    }

    /// Reports that the section is incomplete.
    pub fn report_incomplete(&self, message: &str) {
        self.findings.add_missing(&self.location, message.to_owned());
    }

    /// Reports the value of `key` as `path = value` followed by `fault`.
    pub fn reject(&self, key: &str, fault: &str) {
        let entry = self.entry(key).or_else(|| self.fallback_entry(key));
        self.reject_at(entry.map_or(&self.location, |entry| &entry.location), key, fault);
    }

    /// Does the same as [`Section::reject`] with another location. A missing key is reported with
    /// its default.
    pub fn reject_at(&self, location: &Location, key: &str, fault: &str) {
        let text = match self.entry(key).or_else(|| self.fallback_entry(key)) {
            Some(entry) => one_line(&entry.text),
            None => self.default_for_message(key),
        };
        self.findings.add_problem(location, format!("{} = {text}{fault}", self.key_path(key)));
    }

    fn default_for_message(&self, key: &str) -> String {
        let declared = self.declared.borrow();
        let default = declared.iter().find(|spec| spec.name == key).and_then(|spec| spec.default_text());
        default.map_or(String::new(), |text| format!("{} (default)", setting_value(text, &Location::Whole).1))
    }

    /// Reports an error at a given location.
    pub fn add_problem(&self, location: &Location, message: String) {
        self.findings.add_problem(location, message);
    }

    /// Reports a value of the wrong type.
    pub fn reject_type(&self, entry: &Entry, expected: &str) {
        let written = match entry.value {
            Value::Table(_) | Value::Array(_) => String::new(),
            _ => format!(" = {}", one_line(&entry.text)),
        };
        let (path, kind) = (self.key_path(&entry.key), entry.value.kind());
        self.findings.add_problem(&entry.location, format!("{path}{written} is {kind}, expected {expected}"));
    }

    /// Reports the keys that are not declared or do not apply.
    pub fn finish(&self) {
        self.finish_with(|_| None);
    }

    /// Does the same. `explain` may return a better message than a suggestion of a similar key.
    pub fn finish_with(&self, explain: impl Fn(&str) -> Option<String>) {
        self.assert_all_read();
        self.report_inapplicable_keys();
        self.report_unknown_keys(explain);
    }

    /// Does the same for a section whose variant is not known: keys of all `variants` are accepted.
    pub fn finish_without_variant(&self, variants: &[Variant]) {
        variants.iter().for_each(|variant| self.add_variant(variant));
        self.report_unknown_keys(|_| None);
    }

    fn assert_all_read(&self) {
        let read = self.read.borrow();
        for spec in self.declared.borrow().iter() {
            debug_assert!(read.contains(&spec.name), "{} is declared but not read", self.key_path(spec.name));
        }
    }

    /// Reports keys that apply only to another value of a second key. If that value came from
    /// `--set`, the key belongs to the value that was replaced, and is ignored.
    fn report_inapplicable_keys(&self) {
        let declared = self.declared.borrow().clone();
        for spec in declared.iter().filter(|spec| self.has_key(spec.name)) {
            let Some((selector, word)) = spec.only_with.filter(|&(key, word)| !self.is_word(key, word))
            else {
                continue;
            };
            if !self.is_set_after(spec.name, selector) {
                self.reject(spec.name, &format!(" applies only to {selector} = \"{word}\""));
            }
        }
    }

    /// Returns true if `key` is in the file and a setting gives `selector` another value than the
    /// file.
    pub fn is_set_after(&self, key: &str, selector: &str) -> bool {
        matches!(
            (self.location_of(key), self.location_of(selector)),
            (Location::File { .. }, Location::Set { .. })
        )
    }

    fn report_unknown_keys(&self, explain: impl Fn(&str) -> Option<String>) {
        let mut known: Vec<&str> = Vec::new();
        for spec in self.declared.borrow().iter() {
            if !known.contains(&spec.name) {
                known.push(spec.name);
            }
        }
        for entry in self.entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            // The search for a similar key takes longer than everything else.
            if !self.findings.is_first(Rank::Written, &entry.key_location) {
                continue;
            }
            let key = one_line(&entry.key);
            let explained = explain(&entry.key).or_else(|| self.key_of_other_physics(entry));
            let message = explained.unwrap_or_else(|| {
                // A misspelt section of a physics selects none.
                let of_all = self.spec.common_keys().map(|spec| spec.name);
                let others = of_all.filter(|_| self.path.is_empty() && !self.is_physics_written);
                let mut hint = did_you_mean(&entry.key, known.iter().copied().chain(others));
                if hint.is_empty() && !known.is_empty() {
                    hint = format!(", expected {}", join_with_or(known.iter().copied()));
                }
                match (&entry.value, self.path.as_str()) {
                    (Value::Table(_), "") => format!("unknown section [{key}]{hint}"),
                    _ => format!("unknown key '{key}' in {}{hint}", self.display_name()),
                }
            });
            self.findings.add_problem(&entry.key_location, message);
        }
    }

    /// Returns the message for a key that only cases of another physics have.
    fn key_of_other_physics(&self, entry: &Entry) -> Option<String> {
        let named = self.spec.common_keys().filter(|spec| spec.name == entry.key);
        let owners: Vec<&str> =
            named.flat_map(|spec| spec.only_for).map(|physics| physics.as_str()).collect();
        if owners.is_empty() {
            return None;
        }
        let physics = self.physics.as_str();
        let key = match entry.value {
            Value::Table(_) => format!("[{}]", self.key_path(&entry.key)),
            _ => self.key_path(&entry.key),
        };
        Some(match self.is_physics_written {
            true => {
                let owners = join_with_or(owners.into_iter());
                format!("{key} is for {owners}, and the section [{physics}] selects {physics}")
            }
            false => {
                let sections: Vec<_> = owners.iter().map(|name| format!("[{name}]")).collect();
                let sections = join_with_or(sections.iter().map(String::as_str));
                let owners = join_with_or(owners.into_iter());
                format!("{key} is for {owners}, and the case has no section {sections}")
            }
        })
    }

    /// Returns the physics that accept the word `text` for `key`, if this one does not.
    pub fn owners_of_word(&self, key: &str, text: &str) -> Option<String> {
        let of_others =
            self.spec.common_keys().filter(|spec| spec.name == key && !spec.applies_to(self.physics));
        let accepts = |spec: &&KeySpec| match spec.kind {
            Kind::Word(list) | Kind::Point(list) => list.words().iter().any(|word| word.word == text),
            Kind::Number { or, .. } | Kind::Quantity { or, .. } => or.is_some_and(|or| or.word == text),
            _ => false,
        };
        of_others.into_iter().find(accepts).map(KeySpec::owner_names)
    }

    fn display_name(&self) -> String {
        match &self.path[..] {
            "" => "the case".to_owned(),
            path if path.ends_with(']') => path.to_owned(),
            path => format!("[{path}]"),
        }
    }

    fn key_path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

/// Returns the message for a case without a physics.
fn missing_physics() -> String {
    let sections: Vec<String> = PhysicsName::ALL
        .iter()
        .map(|name| match name.is_default() {
            true => "[bodies] for gravity".to_owned(),
            false => format!("[{}]", name.as_str()),
        })
        .collect();
    let sections = join_with_or(sections.iter().map(String::as_str));
    format!("no section selects a physics, expected {sections}; orrery init PRESET writes a complete case")
}

/// Returns the path of a section in a list. Users count from 1.
pub(super) fn item_path(list: &str, index: usize) -> String {
    format!("{list}[{}]", index + 1)
}

/// Joins words: `a, b or c`.
pub(super) fn join_with_or<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// Errors in the code of a section are found by any test that loads a case.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::declare::{integer_from, key};

    const SPEC: &SectionSpec = &SectionSpec::new(
        "",
        "",
        &[&[key("size", integer_from(1), "7", ""), key("n", integer_from(1), "1", "")]],
    );

    fn with_section(read: impl FnOnce(&Section<'_>)) {
        let findings = Findings::default();
        read(&Section::root(SPEC, PhysicsName::Gravity, &[], &findings));
    }

    #[test]
    fn a_missing_key_has_its_declared_default() {
        with_section(|section| {
            assert_eq!((section.integer("size"), section.integer("n")), (7, 1));
            section.finish();
        });
    }

    /// Only the first problem is reported, so only that one gets a suggestion. With one for each of
    /// them, this takes 9 s in the development build.
    #[test]
    fn many_unknown_keys_are_refused() {
        let text: String = (0..90_000).map(|number| format!("key{number} = 1\n")).collect();
        let entries = crate::case::document::parse_document("case", text.as_bytes(), &[]).unwrap();
        let findings = Findings::default();
        let section = Section::root(SPEC, PhysicsName::Gravity, &entries, &findings);
        let _ = [section.integer("size"), section.integer("n")];
        section.finish();
        let error = findings.check_no_problems("case").unwrap_err().to_string();
        assert!(error.starts_with("case:1:1: unknown key 'key0' in the case"), "{error}");
    }

    #[test]
    #[should_panic(expected = "the key length is read but not declared")]
    fn an_undeclared_key_cannot_be_read() {
        with_section(|section| assert_eq!(section.integer("length"), 0));
    }

    #[test]
    #[should_panic(expected = "the key size is declared with another type than it is read")]
    fn a_key_cannot_be_read_with_another_type() {
        with_section(|section| assert_eq!(section.number("size"), 7.0));
    }

    #[test]
    #[should_panic(expected = "n is declared but not read")]
    fn every_declared_key_must_be_read() {
        with_section(|section| {
            section.integer("size");
            section.finish();
        });
    }
}
