//! How a dataset lies in the file, checked before any of its values is decoded.
//!
//! Of a chunked dataset all of this holds afterwards: a chunk is no larger than the dataset or [`ROOMY_CHUNK`];
//! the file has room for an entry for each chunk of the grid; each place of the grid has one chunk, for one that
//! was never written would read as zeros; together they lie in no more bytes than the file has; and filters are
//! few. That a filter does not inflate beyond its chunk the library sees to.

use std::collections::HashSet;

use hdf5_pure::{Dataset, Layout};

use super::read::{MAX_COMPRESSION, refused};
use crate::error::Fault;

/// An extensible dataset may be smaller than its one chunk, but no writer chooses one beyond this for that.
const ROOMY_CHUNK: u64 = 16 << 20;
/// What an index takes at least to name a chunk: an address.
const INDEX_ENTRY: u64 = 8;
/// Memory of a chunk in the list of chunks, with its place in the grid, and again in the library's cache.
const LISTED_CHUNK: u64 = 256;
/// Filters of one dataset; HDF5 itself stops at 32.
const MOST_FILTERS: usize = 8;

/// How the rows of a dataset are stored.
pub struct Storage {
    /// Rows of one chunk; 1 where there are none.
    pub chunk_rows: u64,
    /// Bytes of one row.
    pub row_bytes: u64,
    /// Chunks of the grid.
    pub chunks: u64,
}

impl Storage {
    /// Memory of the list of chunks.
    pub fn index_bytes(&self) -> u64 {
        self.chunks.saturating_mul(LISTED_CHUNK)
    }
}

/// Checks `dataset`, in a file of `file_bytes`.
pub fn checked(dataset: &Dataset, place: &str, file_bytes: u64) -> Result<Storage, Fault> {
    let fail = |error| refused(place, error);
    let shape = dataset.shape().map_err(fail)?;
    let element = dataset.element_size().map_err(fail)?;
    let extent = |shape: &[u64]| shape.iter().fold(element, |bytes, &d| bytes.saturating_mul(d));
    let wrong = |got: String, expected: String| Err(Fault::malformed(place, got, expected));
    let fits = format!("what fits into a file of {file_bytes} bytes");

    let filtered = !dataset.filters().is_empty();
    let most = if filtered { file_bytes.saturating_mul(MAX_COMPRESSION) } else { file_bytes };
    let bytes = extent(&shape);
    if bytes > most {
        return wrong(format!("shape {shape:?}"), fits);
    }
    let row_bytes = bytes.checked_div(shape.first().copied().unwrap_or(1)).unwrap_or(0);
    let Layout::Chunked { chunk_shape, .. } = dataset.layout().map_err(fail)? else {
        return Ok(Storage { chunk_rows: 1, row_bytes, chunks: 0 });
    };
    if chunk_shape.len() != shape.len() || chunk_shape.contains(&0) {
        return wrong(format!("chunks of {} dimensions", chunk_shape.len()), format!("{}", shape.len()));
    }
    let chunk_bytes = extent(&chunk_shape);
    if chunk_bytes > bytes.max(ROOMY_CHUNK) {
        return wrong(
            format!("chunks of {chunk_bytes} bytes"),
            format!("at most the {bytes} of the dataset"),
        );
    }
    let filters = dataset.filters().len();
    if filters > MOST_FILTERS {
        return wrong(format!("{filters} filters"), format!("at most {MOST_FILTERS}"));
    }
    let grid = shape.iter().zip(&chunk_shape).map(|(&d, &chunk)| d.div_ceil(chunk));
    let chunks = grid.fold(1, u64::saturating_mul);
    if chunks.saturating_mul(chunk_bytes.min(INDEX_ENTRY)) > file_bytes {
        return wrong(format!("{chunks} chunks"), fits);
    }
    let found = check_index(dataset, place, &shape, &chunk_shape, file_bytes)?;
    if found != chunks {
        return wrong(format!("{found} of {chunks} chunks"), "all of them".to_owned());
    }
    Ok(Storage { chunk_rows: chunk_shape[0], row_bytes, chunks })
}

/// Walks the index of the chunks, not their values, and counts them.
fn check_index(
    dataset: &Dataset,
    place: &str,
    shape: &[u64],
    chunk_shape: &[u64],
    file_bytes: u64,
) -> Result<u64, Fault> {
    let mut places = HashSet::new();
    let mut stored = 0u64;
    for chunk in dataset.chunks().map_err(|error| refused(place, error))? {
        let on_grid = chunk.offset.len() == shape.len()
            && chunk.offset.iter().zip(shape).all(|(&offset, &d)| offset < d)
            && chunk.offset.iter().zip(chunk_shape).all(|(&offset, &step)| offset % step == 0);
        if !on_grid {
            return Err(Fault::malformed(place, "a chunk off the grid", "chunks side by side"));
        }
        stored = stored.saturating_add(chunk.storage_size);
        if !places.insert(chunk.offset) {
            return Err(Fault::malformed(place, "two chunks at one place", "chunks side by side"));
        }
    }
    if stored > file_bytes {
        let expected = format!("what fits into a file of {file_bytes} bytes");
        return Err(Fault::malformed(place, format!("chunks of {stored} bytes"), expected));
    }
    Ok(places.len() as u64)
}
