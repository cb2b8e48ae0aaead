//! Numbers of components in the order of their first pixels: a bitmap of first pixels, and the
//! number of bits before each of its words (`ranks.cu`).

use orrery_device::{Buffer, Device, DeviceError, Queue};
use orrery_primitives::scan::{Scan, ScanKind};

/// Bitmap of first pixels, with the memory for its prefix sums.
#[derive(Debug)]
pub(super) struct Numbering {
    /// A bit for each pixel, set for the first pixel of a component.
    pub(super) roots: Buffer<u32>,
    /// Number of bits in each word of `roots`, then in all words before it.
    pub(super) before: Buffer<u32>,
    scan: Scan<u32>,
}

impl Numbering {
    /// Allocates the bitmap with this number of words.
    pub(super) fn new(device: &Device, words: usize) -> Result<Self, DeviceError> {
        let mut scan = Scan::new(device, ScanKind::Exclusive)?;
        scan.reserve(words)?;
        Ok(Self { roots: device.zeros(words)?, before: device.zeros(words)?, scan })
    }

    /// Queues the prefix sum: replaces the bits of each word by those of all words before it.
    pub(super) fn queue_scan(&mut self, queue: &Queue) -> Result<(), DeviceError> {
        self.scan.launch(queue, &self.before, &self.before)
    }
}
