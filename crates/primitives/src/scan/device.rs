//! Prefix sums on a device: compiles and launches `scan.cu`.

use std::marker::PhantomData;

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, defined_number};

use super::ScanKind;
use crate::PrimitiveNumber;

// SAFETY: the kernel accesses n elements of input and output and the words that tiles publish. The
// launch passes buffers of length n, and `reserve` allocates `published_words`. A tile waits only
// for earlier tiles, which have started before it.
const SCAN: KernelFile = unsafe { KernelFile::new("scan.cu", include_str!("scan.cu")) };

/// Tiles per row and rows per page.
const SPAN: u64 = defined_number(SCAN.text(), "SPAN") as u64;

/// Launch parameters of a scan. Block size and loads determine where tiles begin, and with it the
/// order of additions. The other fields do not change a bit of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScanStrategy {
    /// Threads per block: a multiple of 32, at least 64.
    pub block_size: u32,
    /// Loads of 16 bytes per thread.
    pub loads_per_thread: u32,
    /// Whether a block holds its tile in shared memory, not in registers, while it waits for the
    /// sum of the earlier tiles. A device with too little shared memory uses registers.
    pub has_tile_in_shared: bool,
    /// Blocks per SM that the compiler leaves enough registers for.
    pub min_blocks_per_sm: u32,
    /// Nanoseconds between two looks at a sum that is not published yet. Only with CUDA.
    pub poll_delay_ns: u32,
}

impl Default for ScanStrategy {
    /// The best of 55 that were measured for 2^28 f32 on an H200: 3.62 TB/s, 85% of the copy. With
    /// 9 loads per thread 3.59 TB/s, with 8 loads 3.51, without the prefetch of tiles 3.45, and
    /// with tiles in registers (512 threads, 4 loads, no prefetch) 2.62. `scan.cu` explains the
    /// limit.
    fn default() -> Self {
        Self::in_shared(256, 11, 5)
    }
}

impl ScanStrategy {
    /// Strategies that `orrery bench primitives --candidates` measures. The first two have the same
    /// order of additions.
    pub const CANDIDATES: [Self; 6] = [
        Self {
            block_size: 512,
            loads_per_thread: 4,
            has_tile_in_shared: false,
            min_blocks_per_sm: 3,
            poll_delay_ns: 0,
        },
        Self::in_shared(512, 4, 4),
        Self::in_shared(256, 8, 6),
        Self::in_shared(128, 8, 12),
        Self::in_shared(256, 11, 5),
        Self { poll_delay_ns: 100, ..Self::in_shared(256, 8, 6) },
    ];

    /// Returns a strategy that holds tiles in shared memory.
    const fn in_shared(block_size: u32, loads_per_thread: u32, min_blocks_per_sm: u32) -> Self {
        Self { block_size, loads_per_thread, has_tile_in_shared: true, min_blocks_per_sm, poll_delay_ns: 0 }
    }

    /// Returns a short name, for example `256 x 8, shared`: threads per block, loads per thread,
    /// and where a tile is held.
    pub fn name(&self) -> String {
        let place = if self.has_tile_in_shared { "shared" } else { "registers" };
        let delay = match self.poll_delay_ns {
            0 => String::new(),
            delay => format!(", {delay} ns"),
        };
        format!("{} x {}, {place}{delay}", self.block_size, self.loads_per_thread)
    }

    /// Returns the strategy with the tile in registers if the shared memory of a block, which has
    /// `shared_bytes`, is too small for it.
    fn limited_to(self, shared_bytes: u64) -> Self {
        let tile_bytes = 16 * u64::from(self.block_size) * u64::from(self.loads_per_thread);
        // One word per thread for shuffles, and at most 36 sums of 8 bytes.
        let needed = tile_bytes + 4 * u64::from(self.block_size) + 8 * 36;
        Self { has_tile_in_shared: self.has_tile_in_shared && needed <= shared_bytes, ..self }
    }

    /// Returns the numbers per tile. A block scans one tile.
    pub fn tile_len<T: PrimitiveNumber>(&self) -> u64 {
        u64::from(self.block_size) * u64::from(self.loads_per_thread) * (16 / size_of::<T>() as u64)
    }

    /// Returns the number of blocks per SM that the compiler leaves enough registers for. Sums of 8
    /// bytes take two registers each: with a tile in registers, or with more than 8 loads per
    /// thread, there are enough for one block less.
    fn min_blocks<T: PrimitiveNumber>(&self) -> u32 {
        let is_tight = size_of::<T>() == 8 && (!self.has_tile_in_shared || self.loads_per_thread > 8);
        self.min_blocks_per_sm.saturating_sub(u32::from(is_tight)).max(1)
    }

    /// Returns the number of 64-bit words for the published sums of tiles, rows and pages. Each
    /// word has 32 bits of a sum.
    fn published_words<T: PrimitiveNumber>(&self, n: u64) -> u64 {
        let tiles = n.div_ceil(self.tile_len::<T>());
        let (rows, pages) = (tiles.div_ceil(SPAN), tiles.div_ceil(SPAN * SPAN));
        (tiles + rows + pages) * (size_of::<T>() as u64 / 4)
    }
}

/// Prefix sums that are compiled for a device and can be launched many times.
///
/// All launches of one `Scan` share its buffers, so they must be queued on one queue, or on several
/// queues that wait for each other's events.
#[derive(Debug)]
pub struct Scan<T: PrimitiveNumber> {
    device: Device,
    kernel: Kernel,
    kind: ScanKind,
    strategy: ScanStrategy,
    /// Number of the next tile. 0 between launches.
    tickets: Buffer<u32>,
    /// Sums that tiles publish for later tiles.
    published: Buffer<u64>,
    /// Number of the last launch, which marks its words in `published`. 0 marks a word that no
    /// launch has written.
    pub(super) stamp: u32,
    number: PhantomData<T>,
}

impl<T: PrimitiveNumber> Scan<T> {
    /// Compiles the kernel. A scan of f64 needs a device with f64 support.
    pub fn new(device: &Device, kind: ScanKind) -> Result<Self, DeviceError> {
        Self::with_strategy(device, kind, ScanStrategy::default())
    }

    /// Compiles the kernel for the given strategy.
    pub fn with_strategy(
        device: &Device,
        kind: ScanKind,
        strategy: ScanStrategy,
    ) -> Result<Self, DeviceError> {
        let strategy = strategy.limited_to(device.properties().shared_bytes);
        let definitions = [
            // Signed overflow is undefined in C. Unsigned sums have the same bits.
            ("NUMBER", if T::NAME == "int" { "uint" } else { T::NAME }.to_owned()),
            ("BLOCK_SIZE", format!("{}u", strategy.block_size)),
            ("LOADS_PER_THREAD", format!("{}u", strategy.loads_per_thread)),
            ("TILE_IN_SHARED", u32::from(strategy.has_tile_in_shared).to_string()),
            ("MIN_BLOCKS_PER_SM", strategy.min_blocks::<T>().to_string()),
            ("POLL_DELAY_NS", strategy.poll_delay_ns.to_string()),
        ];
        Ok(Self {
            kernel: device.build(&SCAN, &definitions, Math::Precise)?.kernel("scan")?,
            tickets: device.zeros(1)?,
            published: device.zeros(0)?,
            stamp: 0,
            kind,
            strategy,
            device: device.clone(),
            number: PhantomData,
        })
    }

    /// Returns the bytes of device memory that scans of up to `n` numbers need.
    pub fn device_bytes(n: usize) -> u64 {
        8 * ScanStrategy::default().published_words::<T>(n as u64)
    }

    /// Allocates memory for scans of up to `n` numbers. Without this call, [`Self::launch`]
    /// allocates it when needed.
    pub fn reserve(&mut self, n: usize) -> Result<(), DeviceError> {
        let words = self.strategy.published_words::<T>(n as u64) as usize;
        if self.published.len() < words {
            self.published = self.device.zeros(words)?;
        }
        Ok(())
    }

    /// Queues the scan of all elements of `from` into `to`, which has the same length and may be
    /// the same buffer. Does not wait.
    pub fn launch(&mut self, queue: &Queue, from: &Buffer<T>, to: &Buffer<T>) -> Result<(), DeviceError> {
        if to.len() != from.len() {
            let (expected, got) = (from.len(), to.len());
            return Err(DeviceError::Length { device: self.device.title(), expected, got });
        }
        self.reserve(from.len())?;
        if self.stamp == u32::MAX {
            self.published = self.device.zeros(self.published.len())?;
            self.stamp = 0;
        }
        self.stamp += 1;
        let n = from.len() as u64;
        let tiles = u32::try_from(n.div_ceil(self.strategy.tile_len::<T>()))
            .expect("a buffer has fewer than 2^32 tiles");
        let args = [
            from.into(),
            to.into(),
            n.into(),
            u32::from(self.kind == ScanKind::Inclusive).into(),
            (&self.tickets).into(),
            (&self.published).into(),
            self.stamp.into(),
        ];
        queue.launch(&self.kernel, tiles, self.strategy.block_size, &args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_words_cover_tiles_rows_and_pages() {
        let strategy = ScanStrategy { block_size: 64, loads_per_thread: 1, ..ScanStrategy::default() };
        assert_eq!((strategy.tile_len::<f32>(), strategy.tile_len::<f64>()), (256, 128));
        assert_eq!(strategy.published_words::<f32>(0), 0);
        assert_eq!(strategy.published_words::<f32>(1), 3);
        assert_eq!(strategy.published_words::<f32>(256 * 1024 + 1), 1025 + 33 + 2);
        assert_eq!(strategy.published_words::<u64>(128 * 1024), 2 * (1024 + 32 + 1));
    }

    #[test]
    fn a_tile_that_exceeds_shared_memory_is_held_in_registers() {
        let strategy = ScanStrategy::in_shared(256, 8, 6);
        let needed = 32 * 1024 + 1024 + 288;
        assert_eq!(strategy.limited_to(needed), strategy);
        let limited = strategy.limited_to(needed - 1);
        assert_eq!(limited, ScanStrategy { has_tile_in_shared: false, ..strategy });
        assert_eq!([strategy.name(), limited.name()], ["256 x 8, shared", "256 x 8, registers"]);
        assert_eq!(limited.limited_to(u64::MAX), limited);
    }
}
