//! Typed reading of the values of a section, as their keys are declared.
//!
//! The value of a key is that of the case, else that of the section which has the defaults, else
//! the default of the declaration. The methods `..._if_given` return only values of the case.

use orrery_model::units::UnitError;
use orrery_model::{Dimension, format_count, whole_number};

use super::declare::{DefaultValue, KeySpec, Kind, MAX_INTEGER, Range, SelectedDimension, Word, Words};
use super::document::{Entry, Location, Value, one_line, setting_value};
use super::reader::{Section, item_path, join_with_or};
use super::suggest::did_you_mean;
use super::{Every, ImageSize};

impl Section<'_> {
    /// Reads a value with `parse`, which reports errors and returns `None` for them. A value with
    /// an error is replaced by the default. Returns `None` if there is no default. A missing
    /// required key is reported.
    pub fn read<T>(&self, key: &'static str, parse: impl Fn(&Entry) -> Option<T>) -> Option<T> {
        let spec = self.declaration(key);
        let given = self.entry(key);
        let value = given.or_else(|| self.fallback_entry(key)).and_then(&parse);
        match spec.default {
            DefaultValue::Written(text) => value.or_else(|| parse(&default_entry(spec, text))),
            DefaultValue::Derived(_) => value,
            DefaultValue::Required => {
                if given.is_none() {
                    self.report_missing(key, &expected_value(spec.kind));
                }
                value
            }
        }
    }

    /// Reads a value of the case with `parse`. Returns `None` if the key is missing.
    fn read_given<T>(&self, key: &'static str, parse: impl Fn(&Entry) -> Option<T>) -> Option<T> {
        self.declaration(key);
        self.entry(key).and_then(parse)
    }

    /// Reads a string, or a path. `None` is a derived default.
    pub fn text(&self, key: &'static str) -> Option<String> {
        let kind = self.declaration(key).kind;
        let (Kind::Text | Kind::File) = kind else { self.misdeclared(key) };
        if let (Kind::File, Some(entry)) = (kind, self.entry(key)) {
            self.record_origin(key, &entry.location);
        }
        self.read(key, |entry| match &entry.value {
            Value::String(text) => Some(text.clone()),
            _ => {
                self.reject_type(entry, "a string");
                None
            }
        })
    }

    /// Reads the label of a unit.
    pub fn label(&self, key: &'static str) -> String {
        const MAX_CHARS: usize = 20;
        let label = self.text(key).unwrap_or_default();
        if label.contains(char::is_control) || label.chars().count() > MAX_CHARS {
            self.reject(key, " is not a label, expected up to 20 characters in one line");
        }
        label
    }

    /// Reads `true` or `false`.
    pub fn boolean(&self, key: &'static str) -> bool {
        let Kind::Boolean = self.declaration(key).kind else { self.misdeclared(key) };
        let parse = |entry: &Entry| match entry.value {
            Value::Boolean(value) => Some(value),
            _ => {
                self.reject_type(entry, "true or false");
                None
            }
        };
        self.read(key, parse).unwrap_or_default()
    }

    /// Reads one of the words in `words`.
    pub fn word<T: Copy + Sync>(&self, key: &'static str, words: &'static Words<T>) -> T {
        words[self.word_index(key, words).unwrap_or(0)].1
    }

    /// Reads one of the words in `words` and returns its index. `None` if it is missing or wrong.
    pub fn word_index<T: Copy + Sync>(&self, key: &'static str, words: &'static Words<T>) -> Option<usize> {
        let names: Vec<&'static str> = words.iter().map(|&(word, _, _)| word).collect();
        self.read(key, |entry| self.parse_word(key, entry, &names))
    }

    /// Reads one of the words in `names` that is in the case, and returns its index.
    pub fn word_if_given(&self, key: &'static str, names: &[&'static str]) -> Option<usize> {
        self.read_given(key, |entry| self.parse_word(key, entry, names))
    }

    fn parse_word(&self, key: &'static str, entry: &Entry, names: &[&'static str]) -> Option<usize> {
        let Kind::Word(list) = self.declaration(key).kind else { self.misdeclared(key) };
        debug_assert!(list.words().iter().map(|word| word.word).eq(names.iter().copied()), "{key}");
        let expected = || join_with_or(names.iter().copied());
        let Value::String(text) = &entry.value else {
            self.reject_type(entry, &format!("a string: {}", expected()));
            return None;
        };
        let found = names.iter().position(|name| name == text);
        if found.is_none()
            && let Some(owners) = self.owners_of_word(key, text)
        {
            // The word is right for another physics, and none is selected.
            if !self.lacks_physics() {
                self.reject(key, &format!(" is for {owners}, expected {}", expected()));
            }
        } else if found.is_none() {
            let hint = did_you_mean(text, names.iter().copied());
            self.reject(key, &format!(" is unknown, expected {}{hint}", expected()));
        }
        found
    }

    /// Reads a number without a unit.
    pub fn number(&self, key: &'static str) -> f64 {
        self.number_or_word(key).unwrap_or_default()
    }

    /// Reads a number without a unit. `None` is the word that the key accepts instead.
    pub fn number_or_word(&self, key: &'static str) -> Option<f64> {
        let Kind::Number { range, or } = self.declaration(key).kind else { self.misdeclared(key) };
        let parse = |entry: &Entry| match (&entry.value, number_value(&entry.value)) {
            (_, Some(x)) => self.check_range(key, x, range).map(Some),
            (Value::String(text), _) if or.is_some_and(|or| or.word == text) => Some(None),
            _ => {
                self.reject_type(
                    entry,
                    &match or {
                        None => "a number".to_owned(),
                        Some(or) => format!("{}, or \"{}\"", range.condition_on("a number"), or.word),
                    },
                );
                None
            }
        };
        self.read(key, parse).flatten()
    }

    /// Reads a number in the units of the case, or a string with a unit.
    pub fn quantity(&self, key: &'static str) -> f64 {
        self.quantity_or_word(key).unwrap_or_default()
    }

    /// Reads a quantity. `None` is the word that the key accepts instead.
    pub fn quantity_or_word(&self, key: &'static str) -> Option<f64> {
        self.read(key, |entry| self.parse_quantity(key, entry, None)).flatten()
    }

    /// Reads a quantity that is in the case.
    pub fn quantity_if_given(&self, key: &'static str) -> Option<f64> {
        self.read_given(key, |entry| self.parse_quantity(key, entry, None)).flatten()
    }

    /// Reads a quantity of one of the declared dimensions.
    pub fn quantity_of(&self, key: &'static str, selected: SelectedDimension) -> f64 {
        self.read(key, |entry| self.parse_quantity(key, entry, Some(selected))).flatten().unwrap_or_default()
    }

    /// Reads a quantity of one of the declared dimensions that is in the case.
    pub fn quantity_of_if_given(&self, key: &'static str, selected: SelectedDimension) -> Option<f64> {
        self.read_given(key, |entry| self.parse_quantity(key, entry, Some(selected))).flatten()
    }

    /// Parses a quantity of the only declared dimension, or of the selected one.
    fn parse_quantity(
        &self,
        key: &'static str,
        entry: &Entry,
        selected: Option<SelectedDimension>,
    ) -> Option<Option<f64>> {
        let kind = self.declaration(key).kind;
        let Kind::Quantity { dimension, others, range, or } = kind else { self.misdeclared(key) };
        match selected {
            None if others.is_empty() => self.parse_dimensional(key, entry, dimension, range, or),
            Some(selected) if kind.dimensions().contains(&selected.dimension) => {
                self.parse_selected(key, entry, selected, range, or)
            }
            _ => self.misdeclared(key),
        }
    }

    fn parse_dimensional(
        &self,
        key: &'static str,
        entry: &Entry,
        dimension: Dimension,
        range: Range,
        or: Option<Word>,
    ) -> Option<Option<f64>> {
        self.parse_selected(key, entry, SelectedDimension { dimension, reason: "" }, range, or)
    }

    fn parse_selected(
        &self,
        key: &'static str,
        entry: &Entry,
        selected: SelectedDimension,
        range: Range,
        or: Option<Word>,
    ) -> Option<Option<f64>> {
        let dimension = selected.dimension;
        let is_word = |text: &str| or.is_some_and(|or| or.word == text);
        if let Value::String(text) = &entry.value
            && !is_word(text)
            && let Some(owners) = self.owners_of_word(key, text)
        {
            let expected = expected_value(Kind::Quantity { dimension, others: &[], range, or });
            self.reject(key, &format!(" is for {owners}, expected {expected}"));
            return None;
        }
        let or_word = or.map_or(String::new(), |or| format!(", or \"{}\"", or.word));
        let x = match (&entry.value, number_value(&entry.value)) {
            (_, Some(x)) => x,
            (Value::String(text), _) if is_word(text) => return Some(None),
            (Value::String(text), _) => self.parse_with_unit(key, key, text, selected, &or_word)?,
            _ => {
                let expected = match self.units().scale() {
                    None if dimension != Dimension::Angle => format!("a number{or_word}"),
                    _ => {
                        let examples = self.units().examples(dimension);
                        format!("a number or a string with a unit such as {examples}{or_word}")
                    }
                };
                self.reject_type(entry, &expected);
                return None;
            }
        };
        self.check_range(key, x, range).map(Some)
    }

    /// Parses a string with a unit, the value of `key` or the item `item` of its list. `or_word`
    /// ends the message about a text that is no quantity.
    fn parse_with_unit(
        &self,
        key: &str,
        item: &str,
        text: &str,
        selected: SelectedDimension,
        or_word: &str,
    ) -> Option<f64> {
        match self.units().parse(text, selected.dimension) {
            Ok(x) => {
                self.record_quantity(item, text, selected.dimension);
                Some(x)
            }
            Err(e) => {
                let end = match e {
                    UnitError::Malformed { .. } => or_word.to_owned(),
                    UnitError::WrongDimension { .. }
                        if !selected.reason.is_empty() && self.units().scale().is_some() =>
                    {
                        format!(", {}", selected.reason)
                    }
                    _ => String::new(),
                };
                self.reject(key, &format!(": {}{end}", one_line(&e.to_string())));
                None
            }
        }
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

    /// Reads an integer.
    pub fn integer(&self, key: &'static str) -> u64 {
        self.read(key, |entry| self.parse_integer(key, entry)).unwrap_or_default()
    }

    /// Reads an integer that is in the case.
    pub fn integer_if_given(&self, key: &'static str) -> Option<u64> {
        self.read_given(key, |entry| self.parse_integer(key, entry))
    }

    /// Reads an integer as u32. The declared range must fit.
    pub fn small_integer(&self, key: &'static str) -> u32 {
        u32::try_from(self.integer(key)).unwrap_or(u32::MAX)
    }

    /// Reads a number of bodies.
    pub fn count(&self, key: &'static str) -> usize {
        usize::try_from(self.integer(key)).unwrap_or(usize::MAX)
    }

    /// Reads a number of pixels, or a width and a height.
    pub fn pixel_size(&self, key: &'static str) -> ImageSize {
        let Kind::PixelSize { least, most } = self.declaration(key).kind else { self.misdeclared(key) };
        let parse = |entry: &Entry| match &entry.value {
            Value::String(text) => {
                let sides = text.split_once('x').map(|(a, b)| [a, b].map(|side| whole_number(side.trim())));
                let Some([Some(width), Some(height)]) = sides else {
                    let expected = "expected a number of pixels or a string such as \"1920x1080\"";
                    self.reject(key, &format!(" is not a size, {expected}"));
                    return None;
                };
                if ![width, height].iter().all(|side| (least..=most).contains(side)) {
                    self.reject(key, &format!(" is outside {least} <= width, height <= {most}"));
                    return None;
                }
                Some(ImageSize::Exact(small_side(width), small_side(height)))
            }
            Value::Integer(_) | Value::Float(_) => {
                let pixels = self.parse_integer_within(key, entry, least, most)?;
                Some(ImageSize::Longer(small_side(pixels)))
            }
            _ => {
                self.reject_type(entry, "an integer or a string such as \"1920x1080\"");
                None
            }
        };
        self.read(key, parse).unwrap_or(ImageSize::Longer(small_side(least)))
    }

    /// Reads three lengths, which become a `T` by `from_point`, or one of the words in `words`.
    pub fn point_or_word<T: Copy + Sync>(
        &self,
        key: &'static str,
        words: &'static Words<T>,
        from_point: impl Fn([f64; 3]) -> T,
    ) -> T {
        let Kind::Point(list) = self.declaration(key).kind else { self.misdeclared(key) };
        debug_assert!(list.words().iter().map(|word| word.word).eq(words.iter().map(|word| word.0)), "{key}");
        let names = || words.iter().map(|&(word, _, _)| word);
        let expected = || format!("three lengths such as [1, 0, 0], or a string: {}", join_with_or(names()));
        let parse = |entry: &Entry| match &entry.value {
            Value::String(text) => {
                let found = words.iter().find(|(word, _, _)| word == text);
                if found.is_none() {
                    let hint = did_you_mean(text, names());
                    self.reject(key, &format!(" is unknown, expected {}{hint}", expected()));
                }
                found.map(|&(_, value, _)| value)
            }
            Value::Array(items) if items.len() == 3 => {
                let mut coordinates =
                    items.iter().enumerate().map(|(k, item)| self.parse_coordinate(key, k, item));
                let point = [coordinates.next()??, coordinates.next()??, coordinates.next()??];
                Some(from_point(point))
            }
            Value::Array(items) => {
                let found = format_count(items.len() as u64, "value", "values");
                self.reject(key, &format!(" has {found}, expected {}", expected()));
                None
            }
            _ => {
                self.reject_type(entry, &expected());
                None
            }
        };
        self.read(key, parse).unwrap_or(words[0].1)
    }

    /// Parses one of the lengths of a point.
    fn parse_coordinate(&self, key: &'static str, index: usize, item: &Entry) -> Option<f64> {
        let x = match (&item.value, number_value(&item.value)) {
            (_, Some(x)) => x,
            (Value::String(text), _) => {
                let length = SelectedDimension { dimension: Dimension::Length, reason: "" };
                self.parse_with_unit(key, &item_path(key, index), text, length, "")?
            }
            _ => {
                let examples = self.units().examples(Dimension::Length);
                self.reject(
                    key,
                    &format!(" has {}, expected three lengths such as {examples}", item.value.kind()),
                );
                return None;
            }
        };
        if !x.is_finite() {
            self.reject(key, " has a number that is not finite");
        }
        x.is_finite().then_some(x)
    }

    /// A float such as `1e6` is accepted if it is a whole number that f64 represents exactly.
    fn parse_integer(&self, key: &'static str, entry: &Entry) -> Option<u64> {
        let Kind::Integer { least, most } = self.declaration(key).kind else { self.misdeclared(key) };
        self.parse_integer_within(key, entry, least, most)
    }

    fn parse_integer_within(&self, key: &str, entry: &Entry, least: u64, most: u64) -> Option<u64> {
        const LARGEST_EXACT: f64 = (1u64 << 53) as f64;
        let i = match entry.value {
            Value::Integer(i) => i,
            Value::Float(x) if x.fract() == 0.0 && x.abs() <= LARGEST_EXACT => x as i128,
            Value::Float(x) if x.fract() == 0.0 => {
                self.reject(key, " is too large, expected at most 2^53 with an exponent");
                return None;
            }
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

    /// Reads a list of quantities of one of the declared dimensions. `None` if the key is missing
    /// or wrong.
    pub fn quantities_if_given(&self, key: &'static str, selected: SelectedDimension) -> Option<Vec<f64>> {
        let kind = self.declaration(key).kind;
        let Kind::Quantities { least, .. } = kind else { self.misdeclared(key) };
        debug_assert!(kind.dimensions().contains(&selected.dimension), "{key}");
        let expected = || format!("a list of at least {least} numbers");
        self.read_given(key, |entry| {
            let Value::Array(items) = &entry.value else {
                self.reject_type(entry, &expected());
                return None;
            };
            let mut numbers = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                let number = match (&item.value, number_value(&item.value)) {
                    (Value::String(text), _) => {
                        Some(self.parse_with_unit(key, &item_path(key, index), text, selected, "")?)
                    }
                    (_, number) => number,
                };
                numbers.extend(number.filter(|x| x.is_finite()));
            }
            let is_list = numbers.len() == items.len() && numbers.len() >= least;
            if !is_list {
                self.reject(key, &format!(" is not {}, all finite", expected()));
            }
            is_list.then_some(numbers)
        })
    }

    /// Reads a number without a unit that is in the case.
    pub fn number_if_given(&self, key: &'static str) -> Option<f64> {
        let Kind::Number { range, or: None } = self.declaration(key).kind else { self.misdeclared(key) };
        self.read_given(key, |entry| match number_value(&entry.value) {
            Some(x) => self.check_range(key, x, range),
            None => {
                self.reject_type(entry, "a number");
                None
            }
        })
    }

    /// Reads the interval of an output: a simulated time, or steps such as `"100 steps"`.
    pub fn interval(&self, key: &'static str) -> Every {
        let Kind::Interval = self.declaration(key).kind else { self.misdeclared(key) };
        let time = |entry: &Entry| {
            self.parse_dimensional(key, entry, Dimension::Time, Range::NotNegative, None).flatten()
        };
        self.read(key, |entry| self.parse_interval(key, entry, time)).unwrap_or(Every::Never)
    }

    /// Parses an interval in steps, or with `time` a simulated time. 0 means never.
    pub fn parse_interval(
        &self,
        key: &str,
        entry: &Entry,
        time: impl Fn(&Entry) -> Option<f64>,
    ) -> Option<Every> {
        let steps = match &entry.value {
            Value::String(text) => {
                let text = text.trim();
                ["steps", "step"].iter().find_map(|suffix| text.strip_suffix(suffix))
            }
            _ => None,
        };
        match steps.map(|count| whole_number(count.trim())) {
            Some(Some(0)) => Some(Every::Never),
            Some(Some(count)) => Some(Every::Steps(count)),
            Some(None) => {
                self.reject(key, " is not a count of steps, expected one such as \"100 steps\"");
                None
            }
            None => match time(entry)? {
                0.0 => Some(Every::Never),
                time => Some(Every::Time(time)),
            },
        }
    }
}

/// Converts a side of an image, which is at most 4096 pixels.
fn small_side(pixels: u64) -> u32 {
    u32::try_from(pixels).unwrap_or(u32::MAX)
}

/// Returns the number in a value.
pub(super) fn number_value(value: &Value) -> Option<f64> {
    match *value {
        Value::Integer(i) => Some(i as f64),
        Value::Float(x) => Some(x),
        _ => None,
    }
}

/// Returns the default of a key as an entry, as if it were in the case.
fn default_entry(spec: &KeySpec, default: &str) -> Entry {
    let (value, text) = setting_value(default, &Location::Whole);
    Entry { key: spec.name.to_owned(), key_location: Location::Whole, location: Location::Whole, value, text }
}

/// Describes the value that a required key must have.
fn expected_value(kind: Kind) -> String {
    let or_word = |or: Option<Word>| or.map_or(String::new(), |or| format!(" or \"{}\"", or.word));
    match kind {
        Kind::Text => "a string".to_owned(),
        Kind::File => "the path of a file".to_owned(),
        Kind::Boolean => "true or false".to_owned(),
        Kind::Word(list) => join_with_or(list.words().iter().map(|word| word.word)),
        Kind::Integer { .. } => "an integer".to_owned(),
        Kind::PixelSize { .. } => "a number of pixels or a string such as \"1920x1080\"".to_owned(),
        Kind::Point(list) => {
            format!("three lengths, {}", join_with_or(list.words().iter().map(|word| word.word)))
        }
        Kind::Number { range, or } => format!("{}{}", range.condition_on("a number"), or_word(or)),
        Kind::Quantity { dimension, range, or, .. } => {
            format!("{}{}", range.condition_on(&dimension.with_article()), or_word(or))
        }
        Kind::Interval | Kind::CheckpointInterval => "an interval".to_owned(),
        Kind::Quantities { least, .. } => format!("a list of at least {least} numbers"),
        Kind::Section(spec) => format!("a section [{}]", spec.name),
        Kind::Sections(spec) => format!("a list of sections [[{}]]", spec.name),
    }
}
