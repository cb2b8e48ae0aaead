//! Tags of messages.

use std::fmt;

/// Number that tells messages between the same two ranks apart. Messages with the same sender,
/// receiver and tag arrive in the order in which they were sent.
///
/// `const HALO: Tag = Tag::new(1);`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(u16);

/// Number of tags for callers. MPI guarantees tags up to 32,767, and the upper half belongs to this
/// crate.
const TAGS_OF_CALLERS: u16 = 1 << 14;

impl Tag {
    pub(crate) const BARRIER: Self = Self(TAGS_OF_CALLERS);
    pub(crate) const BROADCAST: Self = Self(TAGS_OF_CALLERS + 1);
    pub(crate) const GATHER: Self = Self(TAGS_OF_CALLERS + 2);
    pub(crate) const ALL_GATHER: Self = Self(TAGS_OF_CALLERS + 3);
    pub(crate) const REDUCE: Self = Self(TAGS_OF_CALLERS + 4);
    pub(crate) const FAILURE: Self = Self(TAGS_OF_CALLERS + 5);
    pub(crate) const STOP: Self = Self(TAGS_OF_CALLERS + 6);
    pub(crate) const LINKS: Self = Self(TAGS_OF_CALLERS + 7);

    /// Returns the tag with this number.
    ///
    /// # Panics
    /// If the number is not below 16,384. In a constant this is an error of the compiler.
    pub const fn new(number: u16) -> Self {
        assert!(number < TAGS_OF_CALLERS, "tags are below 16384");
        Self(number)
    }

    pub(crate) fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_callers_are_below_those_of_this_crate() {
        assert_eq!(Tag::new(16_383).number() + 1, Tag::BARRIER.number());
        assert!(std::panic::catch_unwind(|| Tag::new(16_384)).is_err());
        // The largest tag that every MPI library accepts.
        assert!(Tag::LINKS.number() <= 32_767);
    }
}
