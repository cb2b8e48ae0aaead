//! Checks of the storage layout of a dataset, before any value is decoded.
//!
//! After the check, these statements are true for a chunked dataset:
//!
//! - A chunk is not larger than the dataset or [`MAX_SPARE_CHUNK`].
//! - The file is large enough for an index entry per chunk of the grid.
//! - Each position of the grid has exactly one chunk. A chunk that was never written would read as
//!   zeros.
//! - The chunks together take no more bytes than the file has.
//! - The dataset has at most [`MAX_FILTERS`] filters.
//!
//! The HDF5 library checks that a filter does not inflate a chunk beyond its size.

use std::collections::HashSet;

use hdf5_pure::{Dataset, Layout};
use orrery_model::format_count;

use super::read::{MAX_COMPRESSION, library_fault};
use crate::error::Fault;
use crate::text::byte_count;

/// Largest chunk of an extensible dataset that is smaller than its chunk. No real writer uses more.
const MAX_SPARE_CHUNK: u64 = 16 << 20;
/// Smallest size of an index entry in bytes: an address.
const INDEX_ENTRY_BYTES: u64 = 8;
/// Memory per chunk in bytes: its entry and position in the list of chunks, and in the cache of the
/// library.
const LISTED_CHUNK_BYTES: u64 = 256;
/// Largest number of filters of a dataset. The limit of HDF5 is 32.
const MAX_FILTERS: usize = 8;

/// Storage layout of the rows of a dataset.
pub struct Storage {
    /// Rows per chunk, or 1 without chunks.
    pub chunk_rows: u64,
    /// Bytes per row.
    pub row_bytes: u64,
    /// Number of chunks of the grid, or 0 without chunks.
    pub chunks: u64,
}

impl Storage {
    /// Memory for the list of chunks in bytes.
    pub fn index_bytes(&self) -> u64 {
        self.chunks.saturating_mul(LISTED_CHUNK_BYTES)
    }
}

/// Checks the storage of `dataset` in a file of `file_bytes`.
pub fn check_storage(dataset: &Dataset, location: &str, file_bytes: u64) -> Result<Storage, Fault> {
    let fail = |error| library_fault(location, error);
    let shape = dataset.shape().map_err(fail)?;
    let element = dataset.element_size().map_err(fail)?;
    let extent = |shape: &[u64]| shape.iter().fold(element, |bytes, &d| bytes.saturating_mul(d));
    let reject = |got: String, expected: String| Err(Fault::malformed(location, got, expected));
    let fits = format!("no more than fit into a file of {}", byte_count(file_bytes));

    let filtered = !dataset.filters().is_empty();
    let max_bytes = if filtered { file_bytes.saturating_mul(MAX_COMPRESSION) } else { file_bytes };
    let bytes = extent(&shape);
    if bytes > max_bytes {
        return reject(format!("shape {shape:?}"), fits);
    }
    let row_bytes = bytes.checked_div(shape.first().copied().unwrap_or(1)).unwrap_or(0);
    let Layout::Chunked { chunk_shape, .. } = dataset.layout().map_err(fail)? else {
        return Ok(Storage { chunk_rows: 1, row_bytes, chunks: 0 });
    };
    if chunk_shape.len() != shape.len() || chunk_shape.contains(&0) {
        return reject(
            format!("chunks of {}", format_count(chunk_shape.len() as u64, "dimension", "dimensions")),
            shape.len().to_string(),
        );
    }
    let chunk_bytes = extent(&chunk_shape);
    if chunk_bytes > bytes.max(MAX_SPARE_CHUNK) {
        return reject(
            format!("chunks of {}", byte_count(chunk_bytes)),
            format!("at most the {bytes} of the dataset"),
        );
    }
    let filters = dataset.filters().len();
    if filters > MAX_FILTERS {
        return reject(format!("{filters} filters"), format!("at most {MAX_FILTERS}"));
    }
    let grid = shape.iter().zip(&chunk_shape).map(|(&d, &chunk)| d.div_ceil(chunk));
    let chunks = grid.fold(1, u64::saturating_mul);
    if chunks.saturating_mul(chunk_bytes.min(INDEX_ENTRY_BYTES)) > file_bytes {
        return reject(format_count(chunks, "chunk", "chunks"), fits);
    }
    let found = count_chunks(dataset, location, &shape, &chunk_shape, file_bytes)?;
    if found != chunks {
        return reject(format!("{found} of {chunks} chunks"), "all of them".to_owned());
    }
    Ok(Storage { chunk_rows: chunk_shape[0], row_bytes, chunks })
}

/// Checks the index of the chunks without reading their values, and returns the number of chunks.
fn count_chunks(
    dataset: &Dataset,
    location: &str,
    shape: &[u64],
    chunk_shape: &[u64],
    file_bytes: u64,
) -> Result<u64, Fault> {
    let mut positions = HashSet::new();
    let mut stored = 0u64;
    for chunk in dataset.chunks().map_err(|error| library_fault(location, error))? {
        let on_grid = chunk.offset.len() == shape.len()
            && chunk.offset.iter().zip(shape).all(|(&offset, &d)| offset < d)
            && chunk.offset.iter().zip(chunk_shape).all(|(&offset, &step)| offset % step == 0);
        if !on_grid {
            return Err(Fault::malformed(location, "a chunk off the grid", "chunks on a regular grid"));
        }
        stored = stored.saturating_add(chunk.storage_size);
        if !positions.insert(chunk.offset) {
            return Err(Fault::malformed(
                location,
                "two chunks at the same position",
                "chunks on a regular grid",
            ));
        }
    }
    if stored > file_bytes {
        let expected = format!("no more than fit into a file of {}", byte_count(file_bytes));
        return Err(Fault::malformed(location, format!("chunks of {}", byte_count(stored)), expected));
    }
    Ok(positions.len() as u64)
}
