//! Division of a launch of the kernel `heat.cu`.

use super::HeatDeviceStrategy;

/// Division of a launch into strips of columns and chunks of rows. See `find_chunk` in heat.cu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeatSchedule {
    /// Number of strips.
    pub strips: u64,
    /// First strip that contains the east edge, at least 1. Strip 0 contains the west edge.
    pub east_strip: u64,
    /// Blocks with strips that contain an edge.
    pub edge_blocks: u64,
    /// Rows per chunk of a strip that contains an edge.
    pub edge_chunk_rows: u64,
    /// Rows per chunk of the other strips.
    pub chunk_rows: u64,
    /// All blocks.
    pub blocks: u64,
}

/// Returns the fewest rows of a chunk. A chunk computes two more rows per step than it stores. One
/// step per pass is limited by the memory, and is fastest with 12 rows on an H200.
fn min_chunk_rows(steps: u32) -> u64 {
    if steps == 1 { 12 } else { 4 * u64::from(steps) }
}

/// Number of chunks of a strip with an edge per chunk of another strip. Such a strip takes two to
/// three times as long.
const EDGE_CHUNKS: u64 = 4;

impl HeatSchedule {
    /// Divides `rows` rows of `nx` columns for a device that runs `resident_blocks` at once.
    pub fn new(
        strategy: &HeatDeviceStrategy,
        steps: u32,
        [nx, rows]: [u64; 2],
        vector_width: u32,
        resident_blocks: u32,
    ) -> Self {
        let (stored, loaded) = strategy.strip_columns(steps, vector_width);
        let warps = u64::from(strategy.warps_per_block);
        let strips = nx.div_ceil(stored);
        // Strip s ends before column s * stored + stored + halo.
        let halo = (loaded - stored) / 2;
        let east_strip = nx.saturating_sub(stored + halo).div_ceil(stored).clamp(1, strips);
        let blocks_per_row = (east_strip - 1).div_ceil(warps);
        let min_rows = min_chunk_rows(steps);
        let chunk_count = u64::from(resident_blocks) * u64::from(strategy.waves) / blocks_per_row.max(1);
        let chunk_rows = rows.div_ceil(chunk_count.max(1)).max(min_rows);
        let edge_chunk_rows = chunk_rows.div_ceil(EDGE_CHUNKS).max(min_rows);
        let edge_chunks = rows.div_ceil(edge_chunk_rows) * (1 + strips - east_strip);
        let edge_blocks = edge_chunks.div_ceil(warps);
        let blocks = edge_blocks + blocks_per_row * rows.div_ceil(chunk_rows);
        Self { strips, east_strip, edge_blocks, edge_chunk_rows, chunk_rows, blocks }
    }
}
