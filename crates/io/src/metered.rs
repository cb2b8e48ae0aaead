//! A file that may be read only so much before somebody asks for more.
//!
//! Directories, trees and chains of blocks can lead in circles, or name the same bytes a million times. A
//! reader of such a structure gets a budget that an honest file stays far below; a hostile one runs dry.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that may still be read; clones share them.
#[derive(Clone, Default)]
pub(crate) struct Budget(Arc<AtomicU64>);

impl Budget {
    /// From here on, `bytes` more.
    pub fn refill(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Takes `bytes` out of the budget; `false` where fewer are left.
    pub fn spend(&self, bytes: u64) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(bytes), Ordering::Relaxed);
        bytes <= left
    }

    /// Whether it is spent.
    pub fn is_dry(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// What is said of a structure that used up its budget.
pub(crate) const DRY: &str = "a structure without end";

/// A reader that stops when its budget is spent.
pub(crate) struct Metered<R> {
    pub inner: R,
    pub budget: Budget,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if !self.budget.spend(count as u64) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, DRY));
        }
        Ok(count)
    }
}

impl<R: Seek> Seek for Metered<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
