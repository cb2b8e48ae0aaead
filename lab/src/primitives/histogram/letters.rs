//! Histogram of the course: letters in groups of four,
//!
//!   h(b) = #{i : 'a' ≤ cᵢ ≤ 'z', ⌊(cᵢ − 'a') / 4⌋ = b},   b = 0 ... 6   (a-d, e-h, ..., y-z)
//!
//! Other characters, among them capitals, are not counted. With seven counters nearly all threads
//! increment the same ones. So this is the worst case for atomics in global memory, and the best
//! case for private counters.
//!
//! Two of the rungs have a race on purpose, as the first two versions of the course: threads read a
//! counter, add 1 and write it, and lose the counts of the threads that do the same at that time.
//! Their counts are therefore not exact, and tools that search for races report them. The self-test
//! checks the limits that hold for every order of reads and writes: a count is at most the exact
//! one, and at least 1 if that is.

use orrery_device::{
    Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, join_sources, kernel_source,
};
use rayon::prelude::*;

use super::part_counts::{CountedPart, PartCounts, rung_block_count};
use crate::kernel_enum::kernel_enum;

// SAFETY: the kernel reads n bytes from `first` on and increments LETTER_BINS counters. The
// launches pass parts of the input that lie within it, and as many counters.
const LETTERS: KernelFile = unsafe {
    KernelFile::new("letters.cu", join_sources!(LetterCounting::DEFINES, kernel_source!("letters.cu")))
};

/// Number of bins: six groups of four letters, and the last two letters.
pub const LETTER_BINS: usize = 7;

/// Names of the bins.
pub const LETTER_BIN_NAMES: [&str; LETTER_BINS] = ["a-d", "e-h", "i-l", "m-p", "q-t", "u-x", "y-z"];

/// Sentence that the course counts.
pub const COURSE_TEXT: &[u8] = b"Programming Massively Parallel Processors";

/// Returns the bin of a character, or None if it is not one of the letters a to z.
pub fn letter_bin(character: u8) -> Option<usize> {
    character.is_ascii_lowercase().then(|| usize::from(character - b'a') / 4)
}

/// Reference implementation: counts one character after the other.
pub fn letters_reference(text: &[u8]) -> [u64; LETTER_BINS] {
    let mut counts = [0; LETTER_BINS];
    for bin in text.iter().filter_map(|&character| letter_bin(character)) {
        counts[bin] += 1;
    }
    counts
}

/// Characters per task of the thread pool.
const CHUNK_LEN: usize = 1 << 20;

/// Counts on all CPU cores. Each task has private counters.
pub fn letters_on_cpu(text: &[u8]) -> [u64; LETTER_BINS] {
    let sum = |a: [u64; LETTER_BINS], b: [u64; LETTER_BINS]| std::array::from_fn(|bin| a[bin] + b[bin]);
    text.par_chunks(CHUNK_LEN).map(letters_reference).reduce(|| [0; LETTER_BINS], sum)
}

/// Division of the text among threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LetterPartition {
    /// Each thread counts a section of neighbouring letters.
    Sections,
    /// Neighbouring threads count neighbouring letters.
    Interleaved,
}

kernel_enum! {
    /// Increment of a counter.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum LetterCounting {
        /// Read, add and write: counts are lost.
        Racy = 1 => "COUNTING_RACY",
        /// Atomic operations on counters in global memory.
        Atomic = 2 => "COUNTING_ATOMIC",
        /// Atomic operations on counters of the block in shared memory.
        Private = 3 => "COUNTING_PRIVATE",
        /// Counters of each thread in shared memory, which need no atomic operations. Several loads
        /// are in flight, so that the loads and not the increments are the limit.
        PrivateToThreads = 4 => "COUNTING_PRIVATE_TO_THREADS",
    }
}

/// One rung of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LetterRung {
    /// Name: the change from the previous rung.
    pub name: &'static str,
    /// Division of the text.
    pub partition: LetterPartition,
    /// Increment of a counter.
    pub counting: LetterCounting,
    /// Note for the reader of the table. May be empty.
    pub note: &'static str,
}

/// Returns the rungs in the order of the course.
pub fn rungs() -> Vec<LetterRung> {
    let rung = |name, partition, counting, note| LetterRung { name, partition, counting, note };
    use LetterCounting::{Atomic, Private, PrivateToThreads, Racy};
    use LetterPartition::{Interleaved, Sections};
    vec![
        rung("letters: sections, racy", Sections, Racy, "implementation 1 of the course"),
        rung("letters: interleaved, racy", Interleaved, Racy, "implementation 2"),
        rung("letters: sections, atomics", Sections, Atomic, "exact, but loads are not coalesced"),
        rung("letters: interleaved, atomics", Interleaved, Atomic, "implementation 3"),
        rung("letters: privatised", Interleaved, Private, "seven counters per block in shared memory"),
        rung(
            "letters: sections, per thread",
            Sections,
            PrivateToThreads,
            "seven counters per thread, 8 loads in flight, not coalesced",
        ),
        rung("letters: interleaved, per thread", Interleaved, PrivateToThreads, "the same, coalesced"),
    ]
}

/// Threads per block.
const BLOCK_SIZE: u32 = 256;
/// Loads of a byte that a thread with its own counters issues before it counts the first. With one,
/// both partitions would wait for the latency of memory. All other rungs have one, as the course.
const LOADS_IN_FLIGHT: u32 = 8;

/// Histogram of letters on a device with the algorithm of one rung.
#[derive(Debug)]
pub struct LetterHistogram {
    device: Device,
    kernel: Kernel,
    counts: PartCounts,
}

impl LetterHistogram {
    /// Compiles the rung.
    pub fn new(
        device: &Device,
        partition: LetterPartition,
        counting: LetterCounting,
    ) -> Result<Self, DeviceError> {
        let loads_in_flight = match counting {
            LetterCounting::PrivateToThreads => LOADS_IN_FLIGHT,
            _ => 1,
        };
        let has_sections = partition == LetterPartition::Sections;
        let definitions = [
            ("BLOCK_SIZE", BLOCK_SIZE.to_string()),
            ("BINS", LETTER_BINS.to_string()),
            ("HAS_SECTIONS", u8::from(has_sections).to_string()),
            ("COUNTING", counting.kernel_name().to_owned()),
            ("LOADS_IN_FLIGHT", loads_in_flight.to_string()),
        ];
        Ok(Self {
            kernel: device.build(&LETTERS, &definitions, Math::Precise)?.kernel("count_letters")?,
            counts: PartCounts::new(device, LETTER_BINS)?,
            device: device.clone(),
        })
    }

    /// Queues the counting of all letters of `text` into `to`, which has [`LETTER_BINS`] elements.
    /// Does not wait.
    pub fn launch(&self, queue: &Queue, text: &Buffer<u8>, to: &Buffer<u64>) -> Result<(), DeviceError> {
        self.counts.count_parts(queue, text.len() as u64, to, |CountedPart { first, n }, counts| {
            let blocks = rung_block_count(&self.device, BLOCK_SIZE, n);
            let args = [text.into(), first.into(), n.into(), counts.into()];
            queue.launch(&self.kernel, blocks, BLOCK_SIZE, &args)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small letters of the course's sentence, counted by hand.
    const COURSE_COUNTS: [u64; LETTER_BINS] = [5, 5, 6, 6, 10, 1, 1];

    #[test]
    fn sentence_of_the_course_has_known_counts() {
        assert_eq!(letters_reference(COURSE_TEXT), COURSE_COUNTS);
        // The 41 characters are 34 small letters, 4 capitals (P, M, P and P, all in the fourth bin)
        // and 3 blanks.
        assert_eq!(COURSE_COUNTS.iter().sum::<u64>(), 34);
        let mut with_capitals = COURSE_COUNTS;
        with_capitals[3] += 4;
        assert_eq!(letters_reference(&COURSE_TEXT.to_ascii_lowercase()), with_capitals);
    }

    #[test]
    fn bins_have_four_letters_and_the_last_has_two() {
        for (bin, name) in LETTER_BIN_NAMES.iter().enumerate() {
            let [first, _, last] = name.as_bytes() else { panic!("{name}") };
            assert_eq!((letter_bin(*first), letter_bin(*last)), (Some(bin), Some(bin)));
        }
        for character in [b'a' - 1, b'z' + 1, b'A', b'Z', b' ', 0, 255] {
            assert_eq!(letter_bin(character), None, "{character}");
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(letters_reference(&all), [4, 4, 4, 4, 4, 4, 2]);
    }

    #[test]
    fn cpu_counts_equal_the_reference() {
        for n in [0, 1, 5, CHUNK_LEN - 1, 2 * CHUNK_LEN + 7] {
            let text: Vec<u8> = (0..n).map(|i| ((i * i) >> 3) as u8).collect();
            assert_eq!(letters_on_cpu(&text), letters_reference(&text), "n = {n}");
        }
    }
}
