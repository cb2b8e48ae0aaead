//! Reads of shared memory by a warp, for several patterns of addresses.
//!
//! Shared memory has 32 banks of 4 bytes. Word w is in bank w mod 32. In one cycle each bank
//! delivers one word, to any number of lanes. A warp whose lanes read k different words of the same
//! bank, and not more of any other bank, therefore needs k cycles: its conflict factor is k. For
//! lane l and word s l the factor is gcd(s, 32).
//!
//! Cost: one load and one integer addition per read. The banks are the limit. A device without
//! banks, such as a CPU through OpenCL, has the same speed for all patterns.

pub mod selftest;

use orrery_device::testing::SplitMix64;
use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, Resources};
use rayon::prelude::*;

// SAFETY: the kernel reads LANES elements of `words` and words[lane] + 32 (STEPS - 1) of shared
// memory, which `BankReads::new` keeps below WORDS. It writes one sum per thread and one number of
// cycles per block, and `BankReads` allocates as many.
const BANKS: KernelFile = unsafe { KernelFile::new("banks.cu", include_str!("banks.cu")) };

/// Lanes of a warp.
pub const LANES: usize = 32;
/// Banks of the shared memory of all current GPUs of NVIDIA.
pub const BANKS_PER_SM: usize = 32;
/// Words of shared memory.
const WORDS: usize = 2048;
/// Reads of a thread per round.
pub const READS_PER_ROUND: usize = 16;

/// Pattern of the words that the lanes of a warp read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BankPattern {
    /// Lane l reads word l times the stride.
    Stride(usize),
    /// The lanes read the words 0 to 31 in a random order.
    Permutation,
    /// All lanes read the same word.
    Broadcast,
}

impl BankPattern {
    /// Returns the word of each lane.
    ///
    /// # Panics
    /// If a stride is so large that a word is outside the shared memory.
    pub fn words(self) -> [u32; LANES] {
        let mut words: [u32; LANES] = match self {
            Self::Stride(stride) => std::array::from_fn(|lane| (lane * stride) as u32),
            Self::Permutation => std::array::from_fn(|lane| lane as u32),
            Self::Broadcast => [5; LANES],
        };
        if self == Self::Permutation {
            // Fisher and Yates.
            let mut random = SplitMix64::new(1);
            for last in (1..LANES).rev() {
                words.swap(last, random.below(last + 1));
            }
        }
        let last_read = words.into_iter().max().unwrap_or(0) as usize + BANKS_PER_SM * (READS_PER_ROUND - 1);
        assert!(last_read < WORDS, "word {last_read} of {WORDS}");
        words
    }

    /// Returns the expected conflict factor: the largest number of different words in one bank.
    pub fn conflict_factor(self) -> usize {
        let mut words = self.words().to_vec();
        words.sort_unstable();
        words.dedup();
        let in_bank =
            |bank: usize| words.iter().filter(|word| **word as usize % BANKS_PER_SM == bank).count();
        (0..BANKS_PER_SM).map(in_bank).max().unwrap_or(1)
    }
}

/// One rung of the ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct BankRung {
    /// Name of the pattern.
    pub name: &'static str,
    /// Pattern.
    pub pattern: BankPattern,
}

/// Returns the rungs in the order of the table. The first one has no conflicts.
pub fn rungs() -> Vec<BankRung> {
    let rung = |name, pattern| BankRung { name, pattern };
    vec![
        rung("stride 1", BankPattern::Stride(1)),
        rung("stride 2", BankPattern::Stride(2)),
        rung("stride 4", BankPattern::Stride(4)),
        rung("stride 8", BankPattern::Stride(8)),
        rung("stride 16", BankPattern::Stride(16)),
        rung("stride 32", BankPattern::Stride(32)),
        rung("stride 33", BankPattern::Stride(33)),
        rung("random permutation", BankPattern::Permutation),
        rung("broadcast", BankPattern::Broadcast),
    ]
}

/// Reference implementation: returns the sum of the words that each lane of a warp reads in
/// `rounds` rounds. Sums wrap.
pub fn read_reference(words: &[u32; LANES], rounds: usize) -> [u32; LANES] {
    let data: Vec<u32> = (0..WORDS as u32).map(|word| word.wrapping_mul(word).wrapping_add(7)).collect();
    let mut sums = [0u32; LANES];
    for _ in 0..rounds {
        // Without this, the compiler would compute the sum of one round and multiply it.
        let words = std::hint::black_box(words);
        for step in 0..READS_PER_ROUND {
            for (sum, word) in sums.iter_mut().zip(words) {
                *sum = sum.wrapping_add(data[*word as usize + BANKS_PER_SM * step]);
            }
        }
    }
    sums
}

/// Reads as [`read_reference`] in every thread of the thread pool. Returns the sums of the first.
pub fn read_on_all_cores(words: &[u32; LANES], rounds: usize) -> [u32; LANES] {
    let tasks = 0..rayon::current_num_threads();
    let sums: Vec<[u32; LANES]> = tasks.into_par_iter().map(|_| read_reference(words, rounds)).collect();
    sums[0]
}

/// Reads of shared memory on a device, one block per SM.
#[derive(Debug)]
pub struct BankReads {
    kernel: Kernel,
    block_size: u32,
    block_count: u32,
    words: Buffer<u32>,
    sums: Buffer<u32>,
    cycles: Buffer<u64>,
}

impl BankReads {
    /// Compiles the kernel and uploads the pattern.
    pub fn new(device: &Device, pattern: BankPattern) -> Result<Self, DeviceError> {
        // The 32 warps of the largest block hide the latency of their reads. A second block on an
        // SM would share its banks and spoil the count of cycles per block.
        let block_size = device.properties().max_block_size.min(1024) / LANES as u32 * LANES as u32;
        let block_count = device.properties().sm_count.max(1);
        let definitions = [
            ("BLOCK_SIZE", block_size.to_string()),
            ("WORDS", WORDS.to_string()),
            ("STEPS", READS_PER_ROUND.to_string()),
        ];
        Ok(Self {
            kernel: device.build(&BANKS, &definitions, Math::Precise)?.kernel("read_banks")?,
            block_size,
            block_count,
            words: device.upload(&pattern.words())?,
            sums: device.zeros((block_count * block_size) as usize)?,
            cycles: device.zeros(block_count as usize)?,
        })
    }

    /// Queues `rounds` rounds of reads. Does not wait.
    pub fn launch(&self, queue: &Queue, rounds: i32) -> Result<(), DeviceError> {
        let args = [(&self.words).into(), rounds.into(), (&self.sums).into(), (&self.cycles).into()];
        queue.launch(&self.kernel, self.block_count, self.block_size, &args)
    }

    /// Returns the number of threads of all blocks.
    pub fn thread_count(&self) -> usize {
        self.sums.len()
    }

    /// Returns the sums of all threads in the last launch, see [`read_reference`].
    pub fn sums(&self) -> Result<Vec<u32>, DeviceError> {
        self.sums.to_vec()
    }

    /// Returns the number of reads by all warps of a block in a launch of `rounds` rounds.
    pub fn warp_reads_per_block(&self, rounds: i32) -> f64 {
        f64::from(rounds) * READS_PER_ROUND as f64 * f64::from(self.block_size) / LANES as f64
    }

    /// Returns the cycles per read of a warp in the last launch of `rounds` rounds: the median over
    /// the blocks. None if the device has no cycle counter that kernels can read.
    pub fn cycles_per_read(&self, rounds: i32) -> Result<Option<f64>, DeviceError> {
        let mut cycles = self.cycles.to_vec()?;
        cycles.sort_unstable();
        let median = cycles[cycles.len() / 2];
        Ok((median > 0).then(|| median as f64 / self.warp_reads_per_block(rounds)))
    }

    /// Returns the resources of the kernel and its occupancy.
    pub fn resources(&self) -> (Resources, Option<f64>) {
        (self.kernel.resources(), self.kernel.occupancy(self.block_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflict_factor_of_a_stride_is_its_common_divisor_with_32() {
        let gcd = |mut a: usize, mut b: usize| {
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        for stride in 1..=33 {
            assert_eq!(BankPattern::Stride(stride).conflict_factor(), gcd(stride, 32), "{stride}");
        }
        assert_eq!(BankPattern::Permutation.conflict_factor(), 1);
        assert_eq!(BankPattern::Broadcast.conflict_factor(), 1);
    }

    #[test]
    fn permutation_has_every_word_once_and_is_not_sorted() {
        let words = BankPattern::Permutation.words();
        let mut sorted = words;
        sorted.sort_unstable();
        assert_eq!(sorted, BankPattern::Stride(1).words());
        assert_ne!(words, sorted);
    }

    /// One lane reads the words 3, 35, 67, ..., whose values are word² + 7.
    #[test]
    fn reference_adds_the_words_of_all_rounds() {
        let one_round: u32 = (0..READS_PER_ROUND as u32).map(|step| (3 + 32 * step).pow(2) + 7).sum();
        let sums = read_reference(&BankPattern::Stride(3).words(), 5);
        assert_eq!(sums[1], 5 * one_round);
        assert_eq!(read_on_all_cores(&BankPattern::Stride(3).words(), 5), sums);
    }
}
