//! Source of bytes for the HDF5 library, with a read budget for each call of the library.

use std::fs::File;

use hdf5_pure::{FormatError, ReadSeekSource, Source};

use crate::error::Fault;
use crate::metered::{Budget, OVER_BUDGET};

/// Smallest charge of one read, so that many small reads spend the budget, too.
const MIN_CHARGE: u64 = 512;
/// Largest budget for finding a group or reading its attributes. Provenance is at most 4 MiB.
const MAX_METADATA_BYTES: u64 = 8 << 20;

/// File with a read budget.
pub struct MeteredFile {
    file: ReadSeekSource<File>,
    budget: Budget,
}

/// Handle to the budget of a [`MeteredFile`]. It is refilled before each call of the library.
pub struct Meter {
    budget: Budget,
    file_bytes: u64,
}

impl MeteredFile {
    /// Returns the file and the handle to its budget.
    pub fn new(file: File, file_bytes: u64) -> Result<(Self, Meter), FormatError> {
        let budget = Budget::default();
        let meter = Meter { budget: budget.clone(), file_bytes };
        Ok((Self { file: ReadSeekSource::new(file)?, budget }, meter))
    }
}

impl Meter {
    /// Sets the budget for a call that reads groups and attributes.
    pub fn allow_metadata(&self) {
        self.budget.refill(MAX_METADATA_BYTES.min(self.file_bytes.saturating_mul(2).saturating_add(1 << 20)));
    }

    /// Checks that the last call did not spend the budget. The library omits attributes that it
    /// cannot read.
    pub fn check_budget(&self, location: &str) -> Result<(), Fault> {
        if self.budget.is_spent() {
            return Err(Fault::malformed(location, OVER_BUDGET, "an intact HDF5 file"));
        }
        Ok(())
    }

    /// Sets the budget for a call that reads values of a dataset. It needs each byte of the file at
    /// most once.
    pub fn allow_values(&self) {
        self.budget.refill(self.file_bytes.saturating_mul(2).saturating_add(1 << 20));
    }
}

impl Source for MeteredFile {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), FormatError> {
        if !self.budget.spend(MIN_CHARGE.max(buffer.len() as u64)) {
            return Err(FormatError::Source(OVER_BUDGET.to_owned()));
        }
        self.file.read_at(offset, buffer)
    }
}
