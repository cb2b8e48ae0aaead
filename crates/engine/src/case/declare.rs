//! Declarations of the keys of a case.
//!
//! Every key is declared once, in a table next to the reader of its section: name, kind (type,
//! dimension, range, words), default and meaning. The declaration is used to read and check the
//! value, in error messages, in the resolved case, in the reference and in the JSON schema.
//!
//! Invariants: a section reads only declared keys and reads all of them, and the resolved case has
//! all of them. `Section` and `SectionWriter` check this whenever a case is read or written. A
//! default is the text of a value, which is read like a text in a case file, so the default in the
//! table is the one that is used.

use orrery_model::Dimension;

use super::physics::PhysicsName;
use super::reader::join_with_or;

/// A key of a section.
#[derive(Clone, Copy)]
pub(super) struct KeySpec {
    /// Name in case files.
    pub name: &'static str,
    /// Type of the value and its limits.
    pub kind: Kind,
    /// Value of a missing key.
    pub default: DefaultValue,
    /// Another key and its word, without which this key does not apply.
    pub only_with: Option<(&'static str, &'static str)>,
    /// The physics that have this key. Empty for a key of all.
    pub only_for: &'static [PhysicsName],
    /// Whether the value is a difference, such as a range of temperatures. It has the same number
    /// in °C and in K, so it does not say which of them the case has.
    pub is_difference: bool,
    /// Meaning, as sentences.
    pub meaning: &'static str,
}

/// Value of a missing key.
#[derive(Clone, Copy)]
pub(super) enum DefaultValue {
    /// There is none: the key must be given.
    Required,
    /// The value as in `--set KEY=VALUE`: a text that is not TOML is a string.
    Written(&'static str),
    /// Computed by the reader from other keys. The text describes it.
    Derived(&'static str),
}

/// Declares a key with the default `default`, as in `--set KEY=VALUE`.
pub(super) const fn key(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    meaning: &'static str,
) -> KeySpec {
    KeySpec::new(name, kind, DefaultValue::Written(default), meaning)
}

/// Declares a key that must be given.
pub(super) const fn required_key(name: &'static str, kind: Kind, meaning: &'static str) -> KeySpec {
    KeySpec::new(name, kind, DefaultValue::Required, meaning)
}

/// Declares a key whose default the reader computes, as described by `default`.
pub(super) const fn derived_key(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    meaning: &'static str,
) -> KeySpec {
    KeySpec::new(name, kind, DefaultValue::Derived(default), meaning)
}

/// Declares a section below the one that has this key.
pub(super) const fn section_key(spec: &'static SectionSpec) -> KeySpec {
    let default = match spec.required {
        Some(_) => DefaultValue::Required,
        None => DefaultValue::Derived("all defaults"),
    };
    KeySpec::new(spec.name, Kind::Section(spec), default, spec.meaning)
}

/// Declares a list of sections, such as `[[heat.region]]`, that may be empty.
pub(super) const fn sections_key(spec: &'static SectionSpec) -> KeySpec {
    KeySpec::new(spec.name, Kind::Sections(spec), DefaultValue::Derived("none"), spec.meaning)
}

impl KeySpec {
    const fn new(name: &'static str, kind: Kind, default: DefaultValue, meaning: &'static str) -> Self {
        Self { name, kind, default, only_with: None, only_for: &[], is_difference: false, meaning }
    }

    /// Restricts the key to cases of some physics. Keys with the same name can be declared for
    /// others.
    pub const fn only_for(self, physics: &'static [PhysicsName]) -> Self {
        Self { only_for: physics, ..self }
    }

    /// Declares that the value is a difference.
    pub const fn as_difference(self) -> Self {
        Self { is_difference: true, ..self }
    }

    /// Returns true if cases of this physics have the key.
    pub fn applies_to(&self, physics: PhysicsName) -> bool {
        self.only_for.is_empty() || self.only_for.contains(&physics)
    }

    /// Returns the names of the physics that have this key, such as `heat`. Empty for a key of all.
    pub fn owner_names(&self) -> String {
        join_with_or(self.only_for.iter().map(|physics| physics.as_str()))
    }

    /// Restricts the key to cases in which the key `other` has the value `word`.
    pub const fn only_with(self, other: &'static str, word: &'static str) -> Self {
        Self { only_with: Some((other, word)), ..self }
    }

    /// Returns the default as in `--set KEY=VALUE`, if it has one.
    pub fn default_text(&self) -> Option<&'static str> {
        match self.default {
            DefaultValue::Written(text) => Some(text),
            DefaultValue::Required | DefaultValue::Derived(_) => None,
        }
    }
}

/// Type of a value, with its limits.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A string.
    Text,
    /// Path of a file, relative to the folder of the case file.
    File,
    /// `true` or `false`.
    Boolean,
    /// One of several words.
    Word(&'static dyn WordList),
    /// An integer from `least` to `most`.
    Integer { least: u64, most: u64 },
    /// A number of pixels, or a width and a height such as `"1920x1080"`, each from `least` to
    /// `most`.
    PixelSize { least: u64, most: u64 },
    /// Three lengths, or one of several words.
    Point(&'static dyn WordList),
    /// A number without a unit, or a word.
    Number { range: Range, or: Option<Word> },
    /// A number in the units of the case, a string with a unit, or a word. Other settings of the
    /// case can give it one of the dimensions `others`.
    Quantity { dimension: Dimension, others: &'static [Dimension], range: Range, or: Option<Word> },
    /// Interval of an output: a simulated time or a number of steps. 0 is never.
    Interval,
    /// Interval of checkpoints: also a wall-clock time.
    CheckpointInterval,
    /// A list of quantities of one of the dimensions, with at least this length.
    Quantities { least: usize, dimensions: &'static [Dimension] },
    /// A section below this one.
    Section(&'static SectionSpec),
    /// A list of sections below this one.
    Sections(&'static SectionSpec),
}

impl Kind {
    /// Returns the dimensions of a quantity. Empty for other kinds.
    pub fn dimensions(self) -> Vec<Dimension> {
        match self {
            Self::Quantity { dimension, others, .. } => {
                std::iter::once(dimension).chain(others.iter().copied()).collect()
            }
            Self::Quantities { dimensions, .. } => dimensions.to_vec(),
            Self::Interval | Self::CheckpointInterval => vec![Dimension::Time],
            Self::Point(_) => vec![Dimension::Length],
            _ => Vec::new(),
        }
    }

    /// Returns the same kind that also accepts a word.
    pub const fn or(self, word: &'static str, meaning: &'static str) -> Self {
        let or = Some(Word { word, meaning });
        match self {
            Self::Number { range, .. } => Self::Number { range, or },
            Self::Quantity { dimension, others, range, .. } => {
                Self::Quantity { dimension, others, range, or }
            }
            _ => self,
        }
    }
}

/// A number without a unit.
pub(super) const fn number(range: Range) -> Kind {
    Kind::Number { range, or: None }
}

/// A number with a dimension.
pub(super) const fn quantity(dimension: Dimension, range: Range) -> Kind {
    Kind::Quantity { dimension, others: &[], range, or: None }
}

/// A number with one of the dimensions, of which there is at least one. Other settings of the case
/// select it.
pub(super) const fn quantity_of(dimensions: &'static [Dimension], range: Range) -> Kind {
    match dimensions.split_first() {
        Some((&dimension, others)) => Kind::Quantity { dimension, others, range, or: None },
        None => panic!("a quantity has a dimension"),
    }
}

/// The dimension of a quantity that depends on other settings, and the reason.
#[derive(Clone, Copy)]
pub(super) struct SelectedDimension {
    pub dimension: Dimension,
    /// Reason for messages, such as `as the case has no heat_capacity`.
    pub reason: &'static str,
}

/// An integer of at least `least`.
pub(super) const fn integer_from(least: u64) -> Kind {
    Kind::Integer { least, most: MAX_INTEGER }
}

/// Largest integer in a case: that of TOML.
pub(super) const MAX_INTEGER: u64 = i64::MAX as u64;

/// A word that a key accepts.
#[derive(Clone, Copy)]
pub(super) struct Word {
    pub word: &'static str,
    /// Meaning, without a period.
    pub meaning: &'static str,
}

/// Words of a case file, the values that they stand for, and their meanings.
pub(super) type Words<T> = [(&'static str, T, &'static str)];

/// The words that a key accepts, without their values.
pub(super) trait WordList: Sync {
    fn words(&self) -> Vec<Word>;
}

impl<T: Sync> WordList for &Words<T> {
    fn words(&self) -> Vec<Word> {
        self.iter().map(|&(word, _, meaning)| Word { word, meaning }).collect()
    }
}

/// Returns the word for `value`.
pub(super) fn word_for<T: PartialEq>(words: &Words<T>, value: &T) -> &'static str {
    let found = words.iter().find(|(_, known, _)| known == value);
    found.expect("every value of a choice has a name").0
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
    /// least <= x <= most, of which both are far from usual values.
    Between {
        least: f64,
        most: f64,
    },
}

impl Range {
    pub fn contains(self, x: f64) -> bool {
        match self {
            Self::Any => true,
            Self::Positive => x > 0.0,
            Self::NotNegative => x >= 0.0,
            Self::UpTo(max) => 0.0 < x && x <= max,
            Self::BelowOne => (0.0..1.0).contains(&x),
            Self::Between { least, most } => (least..=most).contains(&x),
        }
    }

    pub fn condition_on(self, name: &str) -> String {
        match self {
            Self::Any => name.to_owned(),
            Self::Positive => format!("{name} > 0"),
            Self::NotNegative => format!("{name} >= 0"),
            Self::UpTo(max) => format!("0 < {name} <= {max}"),
            Self::BelowOne => format!("0 <= {name} < 1"),
            Self::Between { least, most } => format!("{least:e} <= {name} <= {most:e}"),
        }
    }
}

/// Tables of keys. Several sections can share a table.
pub(super) type KeyTables = &'static [&'static [KeySpec]];

/// A section of a case.
pub(super) struct SectionSpec {
    /// Last part of its path. Empty for the top level of the file.
    pub name: &'static str,
    /// Meaning, as sentences.
    pub meaning: &'static str,
    /// Expected content, for the message if the section is missing. `None` for a section that may
    /// be missing.
    pub required: Option<&'static str>,
    /// The keys, in the order of the resolved case.
    pub keys: KeyTables,
    /// Further keys, of which exactly one variant applies. Empty for most sections.
    pub variants: fn() -> Vec<Variant>,
    /// Name of the neighbouring section that has the values of missing keys.
    pub defaults_from: Option<&'static str>,
}

impl SectionSpec {
    /// Declares a section that may be missing.
    pub const fn new(name: &'static str, meaning: &'static str, keys: KeyTables) -> Self {
        Self { name, meaning, required: None, keys, variants: Vec::new, defaults_from: None }
    }

    /// Returns the keys that cases of this physics have, without those of the variants.
    pub fn keys_of(&self, physics: PhysicsName) -> impl Iterator<Item = &'static KeySpec> + use<> {
        self.common_keys().filter(move |key| key.applies_to(physics))
    }

    /// Returns the keys without those of the variants.
    pub fn common_keys(&self) -> impl Iterator<Item = &'static KeySpec> + use<> {
        self.keys.iter().copied().flatten()
    }
}

/// Keys that a section has in one of several cases, such as the parameters of a model.
#[derive(Clone, Copy)]
pub(super) struct Variant {
    /// Name for messages, such as `plummer`.
    pub name: &'static str,
    /// Condition under which the section has the keys.
    pub when: When,
    /// Meaning, as sentences.
    pub meaning: &'static str,
    pub keys: KeyTables,
}

/// Condition for a variant of a section.
#[derive(Clone, Copy)]
pub(super) enum When {
    /// The key has the value of this word.
    Is(&'static str, &'static str),
    /// The key is present.
    Has(&'static str),
}

impl When {
    /// Returns the key that selects the variant.
    pub fn key(self) -> &'static str {
        match self {
            Self::Is(key, _) | Self::Has(key) => key,
        }
    }
}

impl Variant {
    pub fn has_key(&self, name: &str) -> bool {
        self.keys.iter().copied().flatten().any(|key| key.name == name)
    }
}
