//! One module a section: its keys, their defaults and their ranges.

pub mod bodies;
pub mod checkpoint;
pub mod galaxies;
pub mod gravity;
pub mod limits;
pub mod models;
pub mod output;
pub mod time;

/// The words a case file uses for the values of a choice.
pub(super) type Words<T> = [(&'static str, T)];

/// The word for `value`.
pub(super) fn word<T: PartialEq>(words: &Words<T>, value: &T) -> &'static str {
    let found = words.iter().find(|(_, known)| known == value);
    found.expect("every value of a choice has its word").0
}
