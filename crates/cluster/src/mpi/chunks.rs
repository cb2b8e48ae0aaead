//! Division of long messages. Counts of MPI are 32-bit integers.
//!
//! A message of n bytes is sent as floor(n / chunk) messages of `chunk` bytes and a last one of n
//! mod chunk bytes, which may be empty. Only the last one is shorter than `chunk`, so the receiver
//! finds the end of a message whose length it does not know, and notices any other length than the
//! expected one. An empty message is one empty chunk.

use std::ops::Range;

/// Largest chunk in bytes. A power of two below 2^31, so that chunks of page-aligned buffers are
/// page-aligned.
pub(super) const MAX_CHUNK: usize = 1 << 30;

/// Returns the byte ranges of the chunks of a message.
pub(super) fn chunk_ranges(length: usize, chunk: usize) -> impl Iterator<Item = Range<usize>> {
    (0..=length / chunk).map(move |index| index * chunk..length.min((index + 1) * chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(length: usize, chunk: usize) {
        let mut end = 0;
        let mut sizes = Vec::new();
        for range in chunk_ranges(length, chunk) {
            assert_eq!(range.start, end);
            end = range.end;
            sizes.push(range.len());
        }
        assert_eq!(end, length);
        let (last, full) = sizes.split_last().unwrap();
        assert!(*last < chunk && full.iter().all(|&size| size == chunk), "{length} in chunks of {chunk}");
    }

    #[test]
    fn chunks_cover_the_message_and_only_the_last_is_shorter() {
        for length in 0..40 {
            for chunk in 1..10 {
                check(length, chunk);
            }
        }
    }

    #[test]
    fn chunks_of_messages_above_two_gib_fit_into_an_int() {
        for length in [(1 << 31) - 1, 1 << 31, (1 << 31) + 1, 5 << 31, (7 << 32) + 3] {
            check(length, MAX_CHUNK);
        }
        assert!(i32::try_from(MAX_CHUNK).is_ok());
    }
}
