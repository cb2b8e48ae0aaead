//! Measured bandwidth of the CPU, by the size of the working set.
//!
//! Every thread reads its own numbers again and again with SIMD loads and adds them up. Numbers
//! that fit into a cache are read from it after the first pass. The rate is that of all threads
//! together. For the memory, a copy with streaming stores is measured as well, reads and writes
//! both counted.

use std::sync::{Barrier, OnceLock};
use std::time::Instant;

use orrery_model::analysis::max_or_nan;
use orrery_simd::{
    AlignedVec, InstructionSet, MAX_LANES, SimdKernel, SingleVector, Vector, dispatch, sum_lanes,
};

/// Registers that a pass adds to in turn. The latency of an addition times the loads per cycle is
/// smaller on all CPUs known to us.
const REGISTERS: usize = 8;
/// Smallest working set per thread, in bytes.
const SMALLEST_BYTES: usize = 8 << 10;
/// Bounds of the memory of all threads together for measurements of the memory, in bytes.
const MEMORY_BYTES: [u64; 2] = [256 << 20, 2 << 30];
/// Time of a measurement, and the number of measurements. The best one counts.
const SECONDS: f64 = 4e-3;
const REPEATS: usize = 5;

/// Rate at which all threads together read working sets of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuReadRate {
    /// Bytes that each thread reads again and again.
    pub bytes_per_thread: u64,
    /// Bytes per second of all threads.
    pub bytes_per_s: f64,
}

/// A level of the memory of the CPU: a cache, or the memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuLevel {
    /// Name, for example `L1`.
    pub name: &'static str,
    /// Bytes per second of all threads.
    pub bytes_per_s: f64,
}

/// Measured bandwidths of the CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuBandwidths {
    /// Caches from the smallest to the largest, and the memory.
    pub levels: Vec<CpuLevel>,
    /// Rates of reads, by size of the working set in ascending order.
    pub reads: Vec<CpuReadRate>,
}

/// Measures reads of all sizes and the levels of the memory. Takes a second or two.
pub fn measure_bandwidths() -> CpuBandwidths {
    let caches = CacheSizes::detect();
    let largest = memory_bytes_per_thread(&caches);
    let sizes = std::iter::successors(Some(SMALLEST_BYTES), |bytes| Some(2 * bytes));
    let reads: Vec<CpuReadRate> = sizes
        .take_while(|bytes| *bytes <= largest)
        .map(|bytes| CpuReadRate { bytes_per_thread: bytes as u64, bytes_per_s: read_rate(bytes) })
        .collect();
    let mut levels = caches.levels_of(&reads, rayon::current_num_threads());
    levels.push(CpuLevel { name: "memory", bytes_per_s: memory_bytes_per_second() });
    CpuBandwidths { levels, reads }
}

/// Returns the highest rate of the memory, from reads and copies, in bytes per second. Measured
/// once per process.
pub fn memory_bytes_per_second() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let bytes = memory_bytes_per_thread(&CacheSizes::detect());
        read_rate(bytes).max(copy_rate(bytes))
    })
}

/// Returns the working set of a thread for measurements of the memory: together twice the last
/// cache, within bounds and at most a quarter of the available memory. A power of two.
fn memory_bytes_per_thread(caches: &CacheSizes) -> usize {
    let available = orrery_formats::available_memory().unwrap_or(u64::MAX);
    let [least, most] = MEMORY_BYTES;
    let total = (2 * caches.l3).clamp(least, most).min(available / 4);
    let per_thread = (total / rayon::current_num_threads() as u64).max(SMALLEST_BYTES as u64);
    1 << per_thread.ilog2()
}

/// Sizes of the data caches in bytes. 0 where there is none, or where it is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CacheSizes {
    l1: u64,
    l2: u64,
    /// Shared by all threads.
    l3: u64,
}

impl CacheSizes {
    /// Reads the sizes that Linux reports for the first core.
    fn detect() -> Self {
        let mut sizes = Self::default();
        for index in 0..8 {
            let read = |name: &str| {
                let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}");
                std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
            };
            let (Some(level), Some(kind), Some(size)) = (read("level"), read("type"), read("size")) else {
                break;
            };
            let Some(bytes) = parse_cache_size(&size).filter(|_| kind != "Instruction") else { continue };
            match level.as_str() {
                "1" => sizes.l1 = bytes,
                "2" => sizes.l2 = bytes,
                "3" => sizes.l3 = bytes,
                _ => {}
            }
        }
        sizes
    }

    /// Returns the caches with the highest rate of the working sets that fit into half of a cache,
    /// but not into the cache before. A cache that no working set fits into has no level.
    fn levels_of(&self, reads: &[CpuReadRate], threads: usize) -> Vec<CpuLevel> {
        let shared = self.l3 / threads as u64;
        let caches = [("L1", 0, self.l1), ("L2", self.l1, self.l2), ("L3", self.l2, shared)];
        let level = |(name, smaller, size): (&'static str, u64, u64)| {
            let fitting =
                |read: &&CpuReadRate| read.bytes_per_thread > smaller && read.bytes_per_thread <= size / 2;
            let rates = reads.iter().filter(fitting).map(|read| read.bytes_per_s);
            Some(CpuLevel { name, bytes_per_s: rates.max_by(f64::total_cmp)? })
        };
        caches.into_iter().filter_map(level).collect()
    }
}

/// Parses a size such as `48K`.
fn parse_cache_size(text: &str) -> Option<u64> {
    let (digits, factor) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => (text.strip_suffix('M')?, 1 << 20),
    };
    Some(digits.parse::<u64>().ok()? * factor)
}

/// Measures reads of `bytes` per thread, a power of two of at least [`SMALLEST_BYTES`].
fn read_rate(bytes: usize) -> f64 {
    let rate = |passes: usize| {
        let seconds = shortest_seconds(
            || {
                let mut numbers = AlignedVec::<f32>::zeros(bytes / 4);
                // Untouched zeros would all be the same page of physical memory.
                numbers.fill(1.0);
                numbers
            },
            |numbers| {
                let sum = dispatch(InstructionSet::best(), ReadPasses { numbers, passes });
                std::hint::black_box(sum);
            },
        );
        (bytes * passes * rayon::current_num_threads()) as f64 / seconds
    };
    let first_passes = (1usize << 20).div_ceil(bytes);
    let first_rate = rate(first_passes);
    let passes = passes_for(SECONDS, first_rate, bytes);
    // One pass over a large working set takes long enough.
    if passes <= first_passes { first_rate } else { rate(passes) }
}

/// Measures copies between two halves of `bytes` per thread, reads and writes counted.
fn copy_rate(bytes: usize) -> f64 {
    let seconds = shortest_seconds(
        || {
            let mut halves = [AlignedVec::<f32>::zeros(bytes / 8), AlignedVec::<f32>::zeros(bytes / 8)];
            halves.iter_mut().for_each(|half| half.fill(1.0));
            halves
        },
        |[from, to]| dispatch(InstructionSet::best(), StreamingCopy { from, to }),
    );
    (bytes * rayon::current_num_threads()) as f64 / seconds
}

/// Returns the passes over `bytes` per thread that take about `seconds` at a rate of all threads.
fn passes_for(seconds: f64, rate: f64, bytes: usize) -> usize {
    let per_thread = rate / rayon::current_num_threads() as f64;
    ((seconds * per_thread / bytes as f64) as usize).max(1)
}

/// Runs `work` on all threads of the pool at the same time, each with the data that it prepared.
/// Returns the shortest time of [`REPEATS`] runs, from the common start to the end of the last
/// thread.
fn shortest_seconds<T>(prepare: impl Fn() -> T + Sync, work: impl Fn(&mut T) + Sync) -> f64 {
    let barrier = Barrier::new(rayon::current_num_threads());
    let times_of_threads: Vec<[f64; REPEATS]> = rayon::broadcast(|_| {
        let mut data = prepare();
        [(); REPEATS].map(|()| {
            barrier.wait();
            let start = Instant::now();
            work(&mut data);
            start.elapsed().as_secs_f64()
        })
    });
    let slowest_thread =
        |repeat: usize| times_of_threads.iter().map(|times| times[repeat]).fold(0.0, max_or_nan);
    (0..REPEATS).map(slowest_thread).fold(f64::INFINITY, f64::min).max(1e-9)
}

struct ReadPasses<'a> {
    /// A multiple of [`REGISTERS`] times [`MAX_LANES`] numbers.
    numbers: &'a [f32],
    passes: usize,
}

impl SimdKernel for ReadPasses<'_> {
    /// Sum of all loads.
    type Output = f64;

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) -> f64 {
        read_passes::<S>(self.numbers, self.passes)
    }
}

#[inline(always)]
fn read_passes<V: Vector<Scalar = f32>>(numbers: &[f32], passes: usize) -> f64 {
    let mut sums = [V::splat(0.0); REGISTERS];
    for _ in 0..passes {
        // The compiler must not know that all passes read the same numbers.
        let numbers = std::hint::black_box(numbers);
        for part in numbers.chunks_exact(REGISTERS * V::LANES) {
            for k in 0..REGISTERS {
                sums[k] = sums[k].add(V::load(&part[k * V::LANES..]));
            }
        }
    }
    let mut lanes = [0.0; MAX_LANES];
    for k in 0..REGISTERS {
        sums[k].add_to_lane_sums(&mut lanes, 1.0);
    }
    sum_lanes(lanes)
}

struct StreamingCopy<'a> {
    from: &'a [f32],
    /// As many numbers as `from`, aligned to a register.
    to: &'a mut [f32],
}

impl SimdKernel for StreamingCopy<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) {
        for (from, to) in self.from.chunks_exact(S::LANES).zip(self.to.chunks_exact_mut(S::LANES)) {
            S::load(from).store_streaming(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that one iteration of a pass reads with the widest registers.
    const ITERATION_LEN: usize = REGISTERS * MAX_LANES;

    /// The compiler must not remove loads: every number is added once per pass.
    #[test]
    fn every_number_is_read_in_every_pass() {
        let numbers = vec![1.0; 3 * ITERATION_LEN];
        for set in InstructionSet::available() {
            for passes in [1, 2, 7] {
                let sum = dispatch(set, ReadPasses { numbers: &numbers, passes });
                assert_eq!(sum, (passes * numbers.len()) as f64, "{}", set.name());
            }
            let (mut from, mut to) = (AlignedVec::zeros(ITERATION_LEN), AlignedVec::zeros(ITERATION_LEN));
            from.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32);
            dispatch(set, StreamingCopy { from: &from, to: &mut to });
            assert_eq!(from[..], to[..]);
        }
    }

    #[test]
    fn levels_are_the_caches_that_differ() {
        let sizes = |l1: u64, l2: u64, l3: u64| CacheSizes { l1: l1 << 10, l2: l2 << 10, l3: l3 << 10 };
        let server = sizes(48, 2048, 105 << 10);
        let reads: Vec<CpuReadRate> = (13..28)
            .map(|power| CpuReadRate { bytes_per_thread: 1 << power, bytes_per_s: f64::from(100 - power) })
            .collect();
        let level = |name, bytes_per_s| CpuLevel { name, bytes_per_s };
        // The fastest fitting working sets are 8 KiB, 64 KiB and 4 MiB.
        assert_eq!(server.levels_of(&reads, 2), [level("L1", 87.0), level("L2", 84.0), level("L3", 78.0)]);
        // The share of 112 threads in the L3 cache is not larger than the L2 cache.
        assert_eq!(server.levels_of(&reads, 112), [level("L1", 87.0), level("L2", 84.0)]);
        assert_eq!(CacheSizes::default().levels_of(&reads, 2), []);
        assert_eq!(["48K", "2M", "x"].map(parse_cache_size), [Some(48 << 10), Some(2 << 20), None]);
    }
}
