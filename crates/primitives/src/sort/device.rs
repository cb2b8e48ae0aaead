//! Sort on a device: compiles `histogram.cu` and `pass.cu`, owns their buffers, and launches them.
//!
//! Invariants: `counts` and `arrived` are 0 between sorts. Each launch of a pass finds its half of
//! `tile_states` cleared: the histogram clears it for the first launch, and each launch clears it
//! for the next.

use std::ops::Range;

use orrery_device::{Arg, Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, defined_number};

use super::SortKey;

// SAFETY: the kernel reads n keys and writes the counts and offsets of all passes and `max_tiles`
// rows of tile states. `Sort::build` allocates as many, and the launch passes the length of the
// keys as n.
const HISTOGRAM: KernelFile = unsafe { KernelFile::new("histogram.cu", include_str!("histogram.cu")) };
// SAFETY: the kernel accesses n pairs in both copies, and the same scratch buffers. `launch_bits`
// checks that there are at most `capacity` pairs. A tile waits only for earlier tiles, which have
// started before it.
const PASS: KernelFile = unsafe { KernelFile::new("pass.cu", include_str!("pass.cu")) };

/// Values of a digit of 8 bits.
const RADIX: usize = defined_number(HISTOGRAM.text(), "RADIX");
const DIGIT_BITS: u32 = RADIX.ilog2();
/// Block size of the histogram.
const HISTOGRAM_BLOCK_SIZE: u32 = defined_number(HISTOGRAM.text(), "BLOCK_SIZE") as u32;
/// Keys that a thread of the histogram loads at a time.
const KEYS_IN_FLIGHT: u64 = defined_number(HISTOGRAM.text(), "KEYS_IN_FLIGHT") as u64;

/// Launch parameters of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SortStrategy {
    /// Threads per block: a multiple of 32, at least 256.
    pub block_size: u32,
    /// Pairs per thread.
    pub items_per_thread: u32,
    /// Smallest number of resident blocks per SM. Limits the registers per thread.
    pub min_blocks_per_sm: u32,
    /// Number of earlier tiles whose counts a block loads together.
    pub lookback_window: u32,
    /// Largest number of tiles per launch. They have fewer than 2^30 pairs.
    pub max_tiles_per_launch: u32,
    /// Whether offsets have 64 bits. Needed for 2^32 or more pairs.
    pub has_wide_offsets: bool,
}

impl SortStrategy {
    /// Short tiles, so that few pairs are enough to fill the device. u64 keys on an H200: 59 µs for
    /// 2^14 pairs and 85 µs for 2^18. Long tiles take 79 and 98 µs, and 4 items per thread 55 and
    /// 96 µs.
    pub const SMALL: Self = Self {
        block_size: 256,
        items_per_thread: 8,
        min_blocks_per_sm: 4,
        lookback_window: 8,
        max_tiles_per_launch: 1 << 18,
        has_wide_offsets: false,
    };
    /// Long tiles: longer runs of each digit value, and fewer tiles to look back over. As many
    /// items as 48 KiB of shared memory allow. u64 keys on an H200: 1.49 ms for 2^24 pairs. CUB
    /// takes 1.40 ms, and 12 items per thread 1.53 ms.
    pub const LARGE: Self = Self {
        block_size: 384,
        items_per_thread: 14,
        min_blocks_per_sm: 2,
        lookback_window: 4,
        max_tiles_per_launch: 1 << 16,
        has_wide_offsets: false,
    };

    /// Strategies that `orrery bench primitives --candidates` measures. Without one, the default is
    /// the first or the second, depending on the number of pairs.
    pub const CANDIDATES: [Self; 4] = [
        Self::SMALL,
        Self::LARGE,
        Self { items_per_thread: 4, ..Self::SMALL },
        Self { items_per_thread: 12, ..Self::LARGE },
    ];

    /// Returns a short name, for example `256 x 8`: threads per block and pairs per thread.
    pub fn name(&self) -> String {
        format!("{} x {}", self.block_size, self.items_per_thread)
    }

    /// Returns the pairs per tile. A block sorts one tile.
    pub fn tile_len(&self) -> u64 {
        u64::from(self.block_size) * u64::from(self.items_per_thread)
    }

    /// Returns the shared memory per block, in bytes.
    fn shared_bytes<K: SortKey>(&self) -> u64 {
        let counters = u64::from(self.block_size / 32) * RADIX as u64 * 4;
        let offset = if self.has_wide_offsets { 8 } else { 4 };
        counters.max(self.tile_len() * size_of::<K>() as u64)
            + offset * RADIX as u64
            + 4 * u64::from(self.block_size)
            + 256
    }

    /// Returns the number of tiles of the longest launch for `n` pairs.
    fn max_tiles(&self, n: usize) -> usize {
        (n as u64).div_ceil(self.tile_len()).min(u64::from(self.max_tiles_per_launch)) as usize
    }
}

/// Number of pairs from which tiles are long. On an H200, 2^20 pairs take 149 µs with long tiles
/// and 167 µs with short ones, 2^18 pairs 98 and 85 µs.
const MIN_LARGE: usize = 1 << 19;

/// Returns the strategies for up to `capacity` pairs, each with the largest number of pairs that it
/// is used for.
fn select_strategies<K: SortKey>(device: &Device, capacity: usize) -> Vec<(usize, SortStrategy)> {
    let has_wide_offsets = u32::try_from(capacity).is_err();
    let small = SortStrategy { has_wide_offsets, ..SortStrategy::SMALL };
    let large = SortStrategy { has_wide_offsets, ..SortStrategy::LARGE };
    let properties = device.properties();
    let fits =
        large.block_size <= properties.max_block_size && large.shared_bytes::<K>() <= properties.shared_bytes;
    match fits && capacity >= MIN_LARGE {
        true => vec![(MIN_LARGE - 1, small), (capacity, large)],
        false => vec![(capacity, small)],
    }
}

/// The pass kernel, compiled for one strategy.
struct CompiledPass {
    /// Largest number of pairs that it is used for.
    max_pairs: usize,
    strategy: SortStrategy,
    kernel: Kernel,
}

/// Offsets of pairs. They need 64 bits if there can be 2^32 pairs.
enum Offsets {
    Narrow(Buffer<u32>),
    Wide(Buffer<u64>),
}

impl<'a> From<&'a Offsets> for Arg<'a> {
    fn from(offsets: &'a Offsets) -> Self {
        match offsets {
            Offsets::Narrow(buffer) => buffer.into(),
            Offsets::Wide(buffer) => buffer.into(),
        }
    }
}

/// Ascending, stable sort of pairs of a key and a u32 value on a device.
///
/// It owns a second copy of the pairs, because each pass moves them between two buffers.
pub struct Sort<K: SortKey> {
    device: Device,
    capacity: usize,
    histogram: Kernel,
    /// Sorted by `max_pairs`.
    passes: Vec<CompiledPass>,
    /// Second buffer of the keys, for every other pass.
    other_keys: Buffer<K>,
    /// Second buffer of the values.
    other_values: Buffer<u32>,
    /// Digit counts of all passes.
    counts: Buffer<u32>,
    /// Blocks of the histogram that have added their counts.
    arrived: Buffer<u32>,
    /// Offsets at which the digit values begin: two rows per pass.
    begins: Offsets,
    /// Number of the next tile, one per pass.
    tickets: Buffer<u32>,
    /// Counts that tiles publish for later tiles: two halves of `max_tiles` rows.
    tile_states: Buffer<u32>,
    max_tiles: usize,
}

impl<K: SortKey> Sort<K> {
    /// Compiles the kernels and allocates memory for up to `capacity` pairs.
    pub fn new(device: &Device, capacity: usize) -> Result<Self, DeviceError> {
        Self::build(device, capacity, &select_strategies::<K>(device, capacity))
    }

    /// Uses one strategy for any number of pairs up to `capacity`.
    pub fn with_strategy(
        device: &Device,
        capacity: usize,
        strategy: SortStrategy,
    ) -> Result<Self, DeviceError> {
        Self::build(device, capacity, &[(capacity, strategy)])
    }

    fn build(
        device: &Device,
        capacity: usize,
        strategies: &[(usize, SortStrategy)],
    ) -> Result<Self, DeviceError> {
        let wide_offsets = u8::from(strategies.iter().any(|(_, strategy)| strategy.has_wide_offsets));
        let common = [("KEY", K::NAME.to_owned()), ("WIDE_OFFSETS", wide_offsets.to_string())];
        let histogram = device.build(&HISTOGRAM, &common, Math::Precise)?.kernel("sort_histogram")?;
        let mut passes = Vec::with_capacity(strategies.len());
        for &(max_pairs, strategy) in strategies {
            let mut definitions = common.to_vec();
            definitions.extend([
                ("BLOCK_SIZE", format!("{}u", strategy.block_size)),
                ("ITEMS_PER_THREAD", format!("{}u", strategy.items_per_thread)),
                ("MIN_BLOCKS_PER_SM", strategy.min_blocks_per_sm.to_string()),
                ("LOOKBACK_WINDOW", format!("{}u", strategy.lookback_window)),
            ]);
            let module = device.build(&PASS, &definitions, Math::Precise)?;
            passes.push(CompiledPass { max_pairs, strategy, kernel: module.kernel("sort_pass")? });
        }
        let max_tiles = strategies.iter().map(|(n, strategy)| strategy.max_tiles(*n)).max().unwrap_or(0);
        let pass_count = (K::BITS / DIGIT_BITS) as usize;
        Ok(Self {
            device: device.clone(),
            capacity,
            histogram,
            passes,
            other_keys: device.zeros(capacity)?,
            other_values: device.zeros(capacity)?,
            counts: device.zeros(2 * pass_count * RADIX)?,
            arrived: device.zeros(1)?,
            begins: match wide_offsets {
                0 => Offsets::Narrow(device.zeros(2 * pass_count * RADIX)?),
                _ => Offsets::Wide(device.zeros(2 * pass_count * RADIX)?),
            },
            tickets: device.zeros(pass_count)?,
            tile_states: device.zeros(2 * max_tiles * RADIX)?,
            max_tiles,
        })
    }

    /// Returns the approximate bytes of device memory that a sort of up to `capacity` pairs needs.
    pub fn device_bytes(capacity: usize) -> u64 {
        let pairs = capacity as u64 * (size_of::<K>() as u64 + 4);
        let small = SortStrategy::SMALL.max_tiles(capacity.min(MIN_LARGE));
        let max_tiles = small.max(SortStrategy::LARGE.max_tiles(capacity)) as u64;
        pairs + 2 * max_tiles * RADIX as u64 * 4 + u64::from(K::BITS / DIGIT_BITS) * RADIX as u64 * 24
    }

    /// Queues the sort of `keys` and `values`, in place. Both have the same length, at most the
    /// capacity. Does not wait.
    pub fn launch(
        &mut self,
        queue: &Queue,
        keys: &Buffer<K>,
        values: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        self.launch_bits(queue, keys, values, 0..K::BITS)
    }

    /// Queues a sort by the given bits of the keys only. Fewer bits need fewer passes.
    pub fn launch_bits(
        &mut self,
        queue: &Queue,
        keys: &Buffer<K>,
        values: &Buffer<u32>,
        bits: Range<u32>,
    ) -> Result<(), DeviceError> {
        let n = keys.len();
        let wrong_length = |expected, got| DeviceError::Length { device: self.device.title(), expected, got };
        if values.len() != n {
            return Err(wrong_length(n, values.len()));
        }
        let pass = self.passes.iter().find(|pass| n <= pass.max_pairs);
        let pass = pass.ok_or_else(|| wrong_length(self.capacity, n))?;
        let digits = Digits::from_bits(bits.start..bits.end.min(K::BITS));
        if n < 2 || digits.passes == 0 {
            return Ok(());
        }
        let launches = list_launches(n as u64, &pass.strategy, digits.passes);
        self.launch_histogram(queue, keys, &digits, launches[0].tiles)?;
        for (i, launch) in launches.iter().enumerate() {
            let (from, to) = ((keys, values), (&self.other_keys, &self.other_values));
            let (from, to) = if launch.pass.is_multiple_of(2) { (from, to) } else { (to, from) };
            let args: [Arg<'_>; 17] = [
                from.0.into(),
                from.1.into(),
                to.0.into(),
                to.1.into(),
                launch.first.into(),
                launch.pairs.into(),
                digits.first_bit(launch.pass).into(),
                digits.width.into(),
                launch.pass.into(),
                launch.parity.into(),
                (&self.begins).into(),
                (&self.tickets).into(),
                launch.first_tile.into(),
                (&self.tile_states).into(),
                (i as u32 % 2).into(),
                (self.max_tiles as u32).into(),
                launches.get(i + 1).map_or(0, |next| next.tiles).into(),
            ];
            queue.launch(&pass.kernel, launch.tiles, pass.strategy.block_size, &args)?;
        }
        Ok(())
    }

    /// Queues the histogram, which also clears the states of the first `tiles` tiles.
    fn launch_histogram(
        &self,
        queue: &Queue,
        keys: &Buffer<K>,
        digits: &Digits,
        tiles: u32,
    ) -> Result<(), DeviceError> {
        let n = keys.len() as u64;
        let max_blocks = 4 * u64::from(self.device.properties().sm_count.max(1));
        let blocks = n.div_ceil(u64::from(HISTOGRAM_BLOCK_SIZE) * KEYS_IN_FLIGHT).min(max_blocks) as u32;
        let args: [Arg<'_>; 12] = [
            keys.into(),
            n.into(),
            digits.passes.into(),
            digits.low.into(),
            digits.last.into(),
            digits.width.into(),
            (&self.counts).into(),
            (&self.arrived).into(),
            (&self.begins).into(),
            (&self.tickets).into(),
            (&self.tile_states).into(),
            (tiles * RADIX as u32).into(),
        ];
        queue.launch(&self.histogram, blocks, HISTOGRAM_BLOCK_SIZE, &args)
    }
}

/// Division of a range of bits into digits. The number of digits is even, so the sorted pairs end
/// in the buffers they started in.
struct Digits {
    passes: u32,
    /// Bits per digit.
    width: u32,
    /// First bit of the range.
    low: u32,
    /// First bit of the last digit. It may share bits with the digit before: sorting by them again
    /// changes nothing.
    last: u32,
}

impl Digits {
    fn from_bits(bits: Range<u32>) -> Self {
        let count = bits.end.saturating_sub(bits.start);
        let passes = 2 * count.div_ceil(2 * DIGIT_BITS);
        let width = count.div_ceil(passes.max(1));
        Self { passes, width, low: bits.start, last: bits.end.saturating_sub(width) }
    }

    /// Returns the lowest bit of a pass's digit.
    fn first_bit(&self, pass: u32) -> u32 {
        (self.low + pass * self.width).min(self.last)
    }
}

/// One launch of the pass kernel: a pass, or a part of it.
#[derive(Debug, PartialEq)]
struct PassLaunch {
    pass: u32,
    /// Number of the launch within the pass, modulo 2.
    parity: u32,
    /// First pair.
    first: u64,
    pairs: u32,
    first_tile: u32,
    tiles: u32,
}

/// Returns the launches of a sort of `n` pairs, in order.
fn list_launches(n: u64, strategy: &SortStrategy, passes: u32) -> Vec<PassLaunch> {
    let pairs_per_launch = strategy.tile_len() * u64::from(strategy.max_tiles_per_launch);
    let parts = n.div_ceil(pairs_per_launch);
    let launch = |pass, part: u64| {
        let pairs = pairs_per_launch.min(n - part * pairs_per_launch);
        PassLaunch {
            pass,
            parity: (part % 2) as u32,
            first: part * pairs_per_launch,
            pairs: pairs as u32,
            first_tile: (part * u64::from(strategy.max_tiles_per_launch)) as u32,
            tiles: pairs.div_ceil(strategy.tile_len()) as u32,
        }
    };
    (0..passes).flat_map(|pass| (0..parts).map(move |part| launch(pass, part))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_even_in_number_and_cover_the_bits() {
        for (low, high) in (0..65).flat_map(|low| (low..65).map(move |high| (low, high))) {
            let digits = Digits::from_bits(low..high);
            assert!(digits.passes.is_multiple_of(2) && digits.width <= DIGIT_BITS, "{low}..{high}");
            let covered = (0..digits.passes).fold(low, |end, pass| {
                assert!((low..=end).contains(&digits.first_bit(pass)), "{low}..{high}, pass {pass}");
                digits.first_bit(pass) + digits.width
            });
            assert_eq!(covered, high, "{low}..{high}");
        }
        assert_eq!(Digits::from_bits(0..63).passes, 8);
        assert_eq!(Digits::from_bits(0..30).passes, 4);
    }

    #[test]
    fn launches_cover_every_pair_once_per_pass() {
        let strategy = SortStrategy { max_tiles_per_launch: 3, ..SortStrategy::SMALL };
        let five_tiles = list_launches(5 * strategy.tile_len() - 1, &strategy, 2);
        let (tile, last) = (strategy.tile_len(), 2 * strategy.tile_len() as u32 - 1);
        let first =
            |pass| PassLaunch { pass, parity: 0, first: 0, pairs: 3 * tile as u32, first_tile: 0, tiles: 3 };
        let second =
            |pass| PassLaunch { pass, parity: 1, first: 3 * tile, pairs: last, first_tile: 3, tiles: 2 };
        assert_eq!(five_tiles, [first(0), second(0), first(1), second(1)]);
        assert!(
            SortStrategy::LARGE.tile_len() * u64::from(SortStrategy::LARGE.max_tiles_per_launch) < 1 << 30
        );
        assert!(
            SortStrategy::SMALL.tile_len() * u64::from(SortStrategy::SMALL.max_tiles_per_launch) < 1 << 30
        );
    }
}
