//! The scan on a device; see `scan.cu`.

use std::marker::PhantomData;

use orrery_device::{Buffer, Device, DeviceError, Kernel, Math, Source};

use super::ScanKind;
use crate::Number;

/// Tiles in a row and rows on a page: as `scan.cu` has it.
const SPAN: u64 = 32;

/// How a device goes through the numbers. It decides where tiles begin, and so the order of additions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScanStrategy {
    /// Threads a group: a multiple of 32, 64 at least.
    pub threads: u32,
    /// Loads of 16 bytes a thread.
    pub loads: u32,
}

impl Default for ScanStrategy {
    /// The best of eight on an H200: 2^28 f32 at 2.64 TB/s, 62% of the copy, where 75% was the aim; f64 at 49%. 396 groups
    /// are held at once and a tile is done every 25 ns, so that a group lives for 10 µs: its loads are over before it
    /// learns what came before, its stores begin after, and three on a multiprocessor (40 registers a thread) do not
    /// fill the time between.
    fn default() -> Self {
        Self { threads: 512, loads: 4 }
    }
}

impl ScanStrategy {
    /// Numbers a group.
    pub fn tile<T: Number>(&self) -> u64 {
        u64::from(self.threads) * u64::from(self.loads) * (16 / size_of::<T>() as u64)
    }

    /// 64-bit words for what tiles, rows and pages leave, each with half a word of a number.
    fn words<T: Number>(&self, n: u64) -> u64 {
        let tiles = n.div_ceil(self.tile::<T>());
        let (rows, pages) = (tiles.div_ceil(SPAN), tiles.div_ceil(SPAN * SPAN));
        (tiles + rows + pages) * (size_of::<T>() as u64 / 4)
    }
}

/// Running sums on a device, built once and queued again and again. Scans of one `Scan` follow each other on the
/// device's own queue.
#[derive(Debug)]
pub struct Scan<T: Number> {
    device: Device,
    kernel: Kernel,
    kind: ScanKind,
    strategy: ScanStrategy,
    /// The next tile; 0 between launches.
    tickets: Buffer<u32>,
    /// What tiles leave for those after them.
    seen: Buffer<u64>,
    /// The last launch's number, which marks its words in `seen`: those of no launch have 0.
    pub(super) stamp: u32,
    number: PhantomData<T>,
}

impl<T: Number> Scan<T> {
    /// Builds the kernel. A scan of f64 needs a device that has them.
    pub fn new(device: &Device, kind: ScanKind) -> Result<Self, DeviceError> {
        Self::with_strategy(device, kind, ScanStrategy::default())
    }

    /// The same by another strategy.
    pub fn with_strategy(
        device: &Device,
        kind: ScanKind,
        strategy: ScanStrategy,
    ) -> Result<Self, DeviceError> {
        let definitions = [
            // C does not say what a signed sum does that is too large; the bits are the same.
            ("NUMBER", if T::NAME == "int" { "uint" } else { T::NAME }.to_owned()),
            ("THREADS", format!("{}u", strategy.threads)),
            ("LOADS", format!("{}u", strategy.loads)),
        ];
        let text = include_str!("scan.cu");
        let source = Source { name: "scan.cu", text, definitions: &definitions, math: Math::Precise };
        Ok(Self {
            kernel: device.build(&source)?.kernel("scan")?,
            tickets: device.zeros(1)?,
            seen: device.zeros(0)?,
            stamp: 0,
            kind,
            strategy,
            device: device.clone(),
            number: PhantomData,
        })
    }

    /// Bytes that it holds on a device after scans of up to `n` numbers.
    pub fn bytes(n: usize) -> u64 {
        8 * ScanStrategy::default().words::<T>(n as u64)
    }

    /// Makes room for scans of up to `n` numbers, which [`Self::queue`] otherwise does when it meets them.
    pub fn reserve(&mut self, n: usize) -> Result<(), DeviceError> {
        let words = self.strategy.words::<T>(n as u64) as usize;
        if self.seen.len() < words {
            self.seen = self.device.zeros(words)?;
        }
        Ok(())
    }

    /// Queues the scan of all of `from` into `to`, which may be the same buffer; waits for nothing.
    pub fn queue(&mut self, from: &Buffer<T>, to: &Buffer<T>) -> Result<(), DeviceError> {
        if to.len() != from.len() {
            let (expected, got) = (from.len(), to.len());
            return Err(DeviceError::Length { device: self.device.title(), expected, got });
        }
        self.reserve(from.len())?;
        if self.stamp == u32::MAX {
            self.seen = self.device.zeros(self.seen.len())?;
            self.stamp = 0;
        }
        self.stamp += 1;
        let n = from.len() as u64;
        let tiles = u32::try_from(n.div_ceil(self.strategy.tile::<T>())).expect("no memory holds so many");
        let args = [
            from.into(),
            to.into(),
            n.into(),
            u32::from(self.kind == ScanKind::Inclusive).into(),
            (&self.tickets).into(),
            (&self.seen).into(),
            self.stamp.into(),
        ];
        self.device.queue().launch(&self.kernel, tiles, self.strategy.threads, &args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_for_tiles_rows_and_pages() {
        let strategy = ScanStrategy { threads: 64, loads: 1 };
        assert_eq!((strategy.tile::<f32>(), strategy.tile::<f64>()), (256, 128));
        assert_eq!(strategy.words::<f32>(0), 0);
        assert_eq!(strategy.words::<f32>(1), 3);
        assert_eq!(strategy.words::<f32>(256 * 1024 + 1), 1025 + 33 + 2);
        assert_eq!(strategy.words::<u64>(128 * 1024), 2 * (1024 + 32 + 1));
    }
}
