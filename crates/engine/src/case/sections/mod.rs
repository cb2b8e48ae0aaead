//! One module per section: its keys, their defaults and their ranges.

pub mod bodies;
pub mod checkpoint;
pub mod galaxies;
pub mod gravity;
pub mod limits;
pub mod models;
pub mod output;
pub mod time;

/// Words of a case file and the values that they stand for.
pub(super) type Words<T> = [(&'static str, T)];

/// Returns the word for `value`.
pub(super) fn word_for<T: PartialEq>(words: &Words<T>, value: &T) -> &'static str {
    let found = words.iter().find(|(_, known)| known == value);
    found.expect("every value of a choice has a name").0
}
