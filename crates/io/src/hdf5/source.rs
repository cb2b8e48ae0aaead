//! The bytes of the file as the HDF5 library sees them: only so many for each thing that is asked of it.

use std::fs::File;

use hdf5_pure::{FormatError, ReadSeekSource, Source};

use crate::error::Fault;
use crate::metered::{Budget, DRY};

/// What one read counts at least, so that many small ones end as well.
const LEAST_CHARGE: u64 = 512;
/// What finding a group or reading the attributes of one may take. Provenance is at most 4 MiB.
const MOST_METADATA: u64 = 8 << 20;

/// A file with a budget.
pub struct MeteredFile {
    file: ReadSeekSource<File>,
    budget: Budget,
}

/// The handle to the budget of a [`MeteredFile`], refilled before each question to the library.
pub struct Meter {
    budget: Budget,
    file_bytes: u64,
}

impl MeteredFile {
    /// The file and the handle to its budget.
    pub fn new(file: File, file_bytes: u64) -> Result<(Self, Meter), FormatError> {
        let budget = Budget::default();
        let meter = Meter { budget: budget.clone(), file_bytes };
        Ok((Self { file: ReadSeekSource::new(file)?, budget }, meter))
    }
}

impl Meter {
    /// A question about groups and attributes comes.
    pub fn for_metadata(&self) {
        self.budget.refill(MOST_METADATA.min(self.file_bytes.saturating_mul(2).saturating_add(1 << 20)));
    }

    /// `Ok` unless the answer took more than there was: the library leaves out what it could not read.
    pub fn check(&self, place: &str) -> Result<(), Fault> {
        if self.budget.is_dry() {
            return Err(Fault::malformed(place, DRY, "an intact HDF5 file"));
        }
        Ok(())
    }

    /// A question about the values of a dataset comes: no byte of the file is needed twice.
    pub fn for_values(&self) {
        self.budget.refill(self.file_bytes.saturating_mul(2).saturating_add(1 << 20));
    }
}

impl Source for MeteredFile {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), FormatError> {
        if !self.budget.spend(LEAST_CHARGE.max(buffer.len() as u64)) {
            return Err(FormatError::Source(DRY.to_owned()));
        }
        self.file.read_at(offset, buffer)
    }
}
