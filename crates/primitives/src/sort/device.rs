//! The sort on a device: kernels, scratch, and the order of launches; see `histogram.cu` and `pass.cu`.
//!
//! Invariants: between sorts `counts` and `arrived` are 0. A launch finds its half of `seen` clear: the histogram clears
//! the first launch's, every launch the next one's.

use std::ops::Range;

use orrery_device::{Arg, Buffer, Device, DeviceError, Kernel, Math, Source};

use super::Key;

const DIGITS: usize = 256;
const DIGIT_BITS: u32 = 8;
/// Threads of a histogram's group, and the keys that each takes at once: as `histogram.cu` has them.
const COUNTERS: u32 = 256;
const COUNTED_AT_ONCE: u64 = 4;

/// How a device goes through the pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SortStrategy {
    /// Threads a group: a multiple of 32, 256 at least.
    pub threads: u32,
    /// Pairs a thread.
    pub items: u32,
    /// Groups that a multiprocessor is to hold at once: what bounds a thread's registers.
    pub resident: u32,
    /// Tiles before a tile whose counts are looked at together.
    pub look: u32,
    /// Tiles a launch, at most; their pairs are fewer than 2^30.
    pub tiles: u32,
    /// 64-bit offsets, as 2^32 pairs and more need them.
    pub is_wide: bool,
}

impl SortStrategy {
    /// Short tiles, so that few pairs still fill the chip. u64 keys on an H200: 59 µs for 2^14 pairs, 85 for 2^18, where
    /// long tiles take 79 and 98; 4 items took 55 and 96.
    pub const SMALL: Self =
        Self { threads: 256, items: 8, resident: 4, look: 8, tiles: 1 << 18, is_wide: false };
    /// Long tiles: longer runs of each digit, and fewer words for the look back. As many items as 48 KiB of local memory
    /// allow. u64 keys on an H200: 1.49 ms for 2^24 pairs, where CUB takes 1.40 and 12 items 1.53.
    pub const LARGE: Self =
        Self { threads: 384, items: 14, resident: 2, look: 4, tiles: 1 << 16, is_wide: false };

    /// Pairs a group.
    pub fn tile(&self) -> u64 {
        u64::from(self.threads) * u64::from(self.items)
    }

    /// Local memory of a group, in bytes.
    fn shared_bytes<K: Key>(&self) -> u64 {
        let counters = u64::from(self.threads / 32) * DIGITS as u64 * 4;
        let offset = if self.is_wide { 8 } else { 4 };
        counters.max(self.tile() * size_of::<K>() as u64)
            + offset * DIGITS as u64
            + 4 * u64::from(self.threads)
            + 256
    }

    /// Tiles of the longest launch for so many pairs.
    fn rows(&self, n: usize) -> usize {
        (n as u64).div_ceil(self.tile()).min(u64::from(self.tiles)) as usize
    }
}

/// From this many pairs on, tiles are long: on an H200, 2^20 take 149 µs so and 167 by short ones; 2^18, 98 and 85.
const LARGE_FROM: usize = 1 << 19;

/// The strategies for up to `capacity` pairs, each with the number of pairs that it serves.
fn strategies<K: Key>(device: &Device, capacity: usize) -> Vec<(usize, SortStrategy)> {
    let is_wide = u32::try_from(capacity).is_err();
    let (small, large) =
        (SortStrategy { is_wide, ..SortStrategy::SMALL }, SortStrategy { is_wide, ..SortStrategy::LARGE });
    let properties = device.properties();
    let fits =
        large.threads <= properties.max_block_size && large.shared_bytes::<K>() <= properties.shared_bytes;
    match fits && capacity >= LARGE_FROM {
        true => vec![(LARGE_FROM - 1, small), (capacity, large)],
        false => vec![(capacity, small)],
    }
}

/// One compiled strategy.
struct CompiledPass {
    /// The longest sort that it is for.
    most: usize,
    strategy: SortStrategy,
    pass: Kernel,
}

/// Sorts pairs of a key and a value on a device, ascending and stable. Holds the second place that pairs move between.
pub struct Sort<K: Key> {
    device: Device,
    capacity: usize,
    histogram: Kernel,
    /// Shortest first.
    forms: Vec<CompiledPass>,
    other_keys: Buffer<K>,
    other_values: Buffer<u32>,
    counts: Buffer<u32>,
    arrived: Buffer<u32>,
    /// Where digits begin: two rows a pass, of u32 or (wide) u64.
    begins: Buffer<u64>,
    tickets: Buffer<u32>,
    /// What tiles leave for those after them: two halves.
    seen: Buffer<u32>,
    rows: usize,
}

impl<K: Key> Sort<K> {
    /// For up to `capacity` pairs.
    pub fn new(device: &Device, capacity: usize) -> Result<Self, DeviceError> {
        Self::build(device, capacity, &strategies::<K>(device, capacity))
    }

    /// By one strategy, however many the pairs.
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
        let wide = u8::from(strategies.iter().any(|(_, strategy)| strategy.is_wide));
        let common = [("KEY", K::NAME.to_owned()), ("WIDE", wide.to_string())];
        let build = |name, text, definitions: &[_]| {
            device.build(&Source { name, text, definitions, math: Math::Precise })
        };
        let histogram =
            build("histogram.cu", include_str!("histogram.cu"), &common)?.kernel("sort_histogram")?;
        let mut forms = Vec::with_capacity(strategies.len());
        for &(most, strategy) in strategies {
            let mut definitions = common.to_vec();
            definitions.extend([
                ("THREADS", format!("{}u", strategy.threads)),
                ("ITEMS", format!("{}u", strategy.items)),
                ("RESIDENT", strategy.resident.to_string()),
                ("LOOK", format!("{}u", strategy.look)),
            ]);
            let module = build("pass.cu", include_str!("pass.cu"), &definitions)?;
            forms.push(CompiledPass { most, strategy, pass: module.kernel("sort_pass")? });
        }
        let rows = strategies.iter().map(|(most, strategy)| strategy.rows(*most)).max().unwrap_or(0);
        let passes = (K::BITS / DIGIT_BITS) as usize;
        Ok(Self {
            device: device.clone(),
            capacity,
            histogram,
            forms,
            other_keys: device.zeros(capacity)?,
            other_values: device.zeros(capacity)?,
            counts: device.zeros(2 * passes * DIGITS)?,
            arrived: device.zeros(1)?,
            begins: device.zeros(2 * passes * DIGITS)?,
            tickets: device.zeros(passes)?,
            seen: device.zeros(2 * rows * DIGITS)?,
            rows,
        })
    }

    /// Bytes that a sort of up to `capacity` pairs holds on a device, about.
    pub fn bytes(capacity: usize) -> u64 {
        let pairs = capacity as u64 * (size_of::<K>() as u64 + 4);
        let small = SortStrategy::SMALL.rows(capacity.min(LARGE_FROM));
        let rows = small.max(SortStrategy::LARGE.rows(capacity)) as u64;
        pairs + 2 * rows * DIGITS as u64 * 4 + u64::from(K::BITS / DIGIT_BITS) * DIGITS as u64 * 24
    }

    /// Queues the sort of these buffers, in place. Does not wait.
    pub fn queue(&mut self, keys: &Buffer<K>, values: &Buffer<u32>) -> Result<(), DeviceError> {
        self.queue_bits(keys, values, 0..K::BITS)
    }

    /// The same by these bits of the keys alone: fewer bits, fewer passes.
    pub fn queue_bits(
        &mut self,
        keys: &Buffer<K>,
        values: &Buffer<u32>,
        bits: Range<u32>,
    ) -> Result<(), DeviceError> {
        let n = keys.len();
        let wrong = |expected, got| DeviceError::Length { device: self.device.title(), expected, got };
        if values.len() != n {
            return Err(wrong(n, values.len()));
        }
        let form = self.forms.iter().find(|form| n <= form.most);
        let form = form.ok_or_else(|| wrong(self.capacity, n))?;
        let digits = Digits::of(bits.start..bits.end.min(K::BITS));
        if n < 2 || digits.passes == 0 {
            return Ok(());
        }
        let launches = launches(n as u64, &form.strategy, digits.passes);
        self.queue_histogram(keys, &digits, launches[0].rows)?;
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
                digits.begin(launch.pass).into(),
                digits.width.into(),
                launch.pass.into(),
                launch.turn.into(),
                (&self.begins).into(),
                (&self.tickets).into(),
                launch.first_tile.into(),
                (&self.seen).into(),
                (i as u32 % 2).into(),
                (self.rows as u32).into(),
                launches.get(i + 1).map_or(0, |next| next.rows).into(),
            ];
            self.device.queue().launch(&form.pass, launch.rows, form.strategy.threads, &args)?;
        }
        Ok(())
    }

    fn queue_histogram(&self, keys: &Buffer<K>, digits: &Digits, rows: u32) -> Result<(), DeviceError> {
        let n = keys.len() as u64;
        let most = 4 * u64::from(self.device.properties().sm_count.max(1));
        let groups = n.div_ceil(u64::from(COUNTERS) * COUNTED_AT_ONCE).min(most) as u32;
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
            (&self.seen).into(),
            (rows * DIGITS as u32).into(),
        ];
        self.device.queue().launch(&self.histogram, groups, COUNTERS, &args)
    }
}

/// How a range of bits is cut: an even number of digits, so that pairs end where they began.
struct Digits {
    passes: u32,
    /// Bits of a digit.
    width: u32,
    low: u32,
    /// Where the last digit begins. It may share bits with the one before: sorting by them again changes nothing.
    last: u32,
}

impl Digits {
    fn of(bits: Range<u32>) -> Self {
        let count = bits.end.saturating_sub(bits.start);
        let passes = 2 * count.div_ceil(2 * DIGIT_BITS);
        let width = count.div_ceil(passes.max(1));
        Self { passes, width, low: bits.start, last: bits.end.saturating_sub(width) }
    }

    /// The lowest bit of a pass's digit.
    fn begin(&self, pass: u32) -> u32 {
        (self.low + pass * self.width).min(self.last)
    }
}

/// A part of a pass.
#[derive(Debug, PartialEq)]
struct Launch {
    pass: u32,
    /// Its number in the pass, modulo 2.
    turn: u32,
    first: u64,
    pairs: u32,
    first_tile: u32,
    /// Its tiles.
    rows: u32,
}

fn launches(n: u64, strategy: &SortStrategy, passes: u32) -> Vec<Launch> {
    let a_launch = strategy.tile() * u64::from(strategy.tiles);
    let parts = n.div_ceil(a_launch);
    let part = |pass, part: u64| {
        let pairs = a_launch.min(n - part * a_launch);
        Launch {
            pass,
            turn: (part % 2) as u32,
            first: part * a_launch,
            pairs: pairs as u32,
            first_tile: (part * u64::from(strategy.tiles)) as u32,
            rows: pairs.div_ceil(strategy.tile()) as u32,
        }
    };
    (0..passes).flat_map(|pass| (0..parts).map(move |k| part(pass, k))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_even_in_number_and_cover_the_bits() {
        for (low, high) in (0..65).flat_map(|low| (low..65).map(move |high| (low, high))) {
            let digits = Digits::of(low..high);
            assert!(digits.passes.is_multiple_of(2) && digits.width <= DIGIT_BITS, "{low}..{high}");
            let covered = (0..digits.passes).fold(low, |end, pass| {
                assert!((low..=end).contains(&digits.begin(pass)), "{low}..{high}, pass {pass}");
                digits.begin(pass) + digits.width
            });
            assert_eq!(covered, high, "{low}..{high}");
        }
        assert_eq!(Digits::of(0..63).passes, 8);
        assert_eq!(Digits::of(0..30).passes, 4);
    }

    #[test]
    fn launches_cover_every_pair_once_a_pass() {
        let strategy = SortStrategy { tiles: 3, ..SortStrategy::SMALL };
        let of_five_tiles = launches(5 * strategy.tile() - 1, &strategy, 2);
        let (tile, last) = (strategy.tile(), 2 * strategy.tile() as u32 - 1);
        let first = |pass| Launch { pass, turn: 0, first: 0, pairs: 3 * tile as u32, first_tile: 0, rows: 3 };
        let second = |pass| Launch { pass, turn: 1, first: 3 * tile, pairs: last, first_tile: 3, rows: 2 };
        assert_eq!(of_five_tiles, [first(0), second(0), first(1), second(1)]);
        assert!(SortStrategy::LARGE.tile() * u64::from(SortStrategy::LARGE.tiles) < 1 << 30);
        assert!(SortStrategy::SMALL.tile() * u64::from(SortStrategy::SMALL.tiles) < 1 << 30);
    }
}
