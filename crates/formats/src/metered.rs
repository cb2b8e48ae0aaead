//! A file with a budget of bytes that may be read from it.
//!
//! In a hostile file, directories, trees and chains of blocks can contain loops or refer to the
//! same bytes a million times. A reader of such a structure gets a budget far above the needs of
//! any valid file. Reading fails when the budget is spent.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of bytes that may still be read. Clones share one budget.
#[derive(Clone, Default)]
pub(crate) struct Budget(Arc<AtomicU64>);

impl Budget {
    /// Sets the budget to `bytes`.
    pub fn refill(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Subtracts `bytes` from the budget. Returns `false` if fewer are left.
    pub fn spend(&self, bytes: u64) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(bytes), Ordering::Relaxed);
        bytes <= left
    }

    /// Whether the budget is spent.
    pub fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// Message for a structure that spent its budget.
pub(crate) const OVER_BUDGET: &str = "a structure larger than the read limit";

/// A reader that stops when its budget is spent.
pub(crate) struct Metered<R> {
    pub inner: R,
    pub budget: Budget,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if !self.budget.spend(count as u64) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, OVER_BUDGET));
        }
        Ok(count)
    }
}

impl<R: Seek> Seek for Metered<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
