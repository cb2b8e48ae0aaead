//! Labels of images by runs: compiles and launches `runs.cu`.

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, kernel_source};

use super::numbering::Numbering;
use super::{Connectivity, MaskShape};

// SAFETY: the kernels access the pixels of mask and labels that are within rows x columns, vectors
// only where columns is a multiple of 16, and their share of the arrays of each tile.
// `Label::launch` checks the lengths, and `RunLabels::new` allocates the arrays with the lengths of
// `TileLayout`. Parents are earlier runs or nodes, so searches end.
const RUNS: KernelFile = unsafe {
    KernelFile::new(
        "runs.cu",
        kernel_source!("forest.cu", "ranks.cu", "runs.cu", "runs_merge.cu", "runs_number.cu"),
    )
};

/// Threads per block of `count_roots`.
const COUNT_BLOCK_SIZE: u32 = 256;

/// Tiles of the labels by runs. They do not change the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunTiles {
    /// Columns of a tile: a multiple of 32.
    pub columns: u32,
    /// Rows of a tile. There is one thread for 32 pixels of a row, and their number is a multiple
    /// of 32. Rows and columns together are at most 256.
    pub rows: u32,
    /// Blocks per SM that the compiler leaves enough registers for.
    pub min_blocks_per_sm: u32,
}

impl Default for RunTiles {
    fn default() -> Self {
        Self::CANDIDATES[0]
    }
}

impl RunTiles {
    /// Tiles that `orrery bench primitives --candidates` measures. The first ones are the default.
    /// For 8192² pixels on an H200 they label 144e9 and 104e9 pixels per second, of which 0.5 and
    /// 0.593 are set. 128 x 32 has 144e9 and 107e9, 32 x 32 has 108e9 and 84e9.
    pub const CANDIDATES: [Self; 6] = [
        Self { columns: 64, rows: 64, min_blocks_per_sm: 16 },
        Self { columns: 64, rows: 32, min_blocks_per_sm: 32 },
        Self { columns: 32, rows: 32, min_blocks_per_sm: 32 },
        Self { columns: 128, rows: 32, min_blocks_per_sm: 16 },
        Self { columns: 128, rows: 64, min_blocks_per_sm: 8 },
        Self { columns: 64, rows: 128, min_blocks_per_sm: 8 },
    ];

    /// Returns a short name, for example `64 x 64, 16 blocks per SM`: columns and rows of a tile.
    pub fn name(&self) -> String {
        format!("{} x {}, {} blocks per SM", self.columns, self.rows, self.min_blocks_per_sm)
    }

    /// Returns the threads per block.
    pub fn block_size(&self) -> u32 {
        self.columns / 32 * self.rows
    }

    /// Panics if the kernel does not support the tiles.
    fn check(&self) {
        let is_valid = self.columns.is_multiple_of(32)
            && self.block_size().is_multiple_of(32)
            && (32..=1024).contains(&self.block_size())
            && self.columns + self.rows <= 256
            && self.min_blocks_per_sm > 0;
        assert!(is_valid, "{self:?}: expected multiples of 32 threads, and rows + columns of at most 256");
    }
}

/// Numbers of tiles and words of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TileLayout {
    tiles_along: usize,
    tiles: usize,
    /// Words of all rows, each padded to whole tiles.
    root_words: usize,
}

impl TileLayout {
    fn new(shape: MaskShape, tiles: RunTiles) -> Self {
        let (columns, rows) = (tiles.columns as usize, tiles.rows as usize);
        let tiles_along = shape.columns.div_ceil(columns);
        Self {
            tiles_along,
            tiles: tiles_along * shape.rows.div_ceil(rows),
            root_words: shape.rows * tiles_along * (columns / 32),
        }
    }
}

/// Kernels and memory for images of one shape.
#[derive(Debug)]
pub(super) struct TiledRunLabels {
    shape: MaskShape,
    tiles: RunTiles,
    layout: TileLayout,
    label_tiles: Kernel,
    merge_tiles: Kernel,
    count_roots: Kernel,
    number_tiles: Kernel,
    /// Bits of the mask, in the order of tiles.
    tile_bits: Buffer<u32>,
    /// Root or node of each run.
    runs: Buffer<u16>,
    /// Node at each border position of each tile.
    borders: Buffer<u8>,
    /// Number of nodes of each tile.
    node_counts: Buffer<u32>,
    /// Forest of nodes.
    node_parents: Buffer<u32>,
    /// First pixel of each node.
    node_pixels: Buffer<u32>,
    numbering: Numbering,
}

impl TiledRunLabels {
    /// Returns whether the positions of all pixels, with rows padded to whole tiles, fit in 32
    /// bits.
    pub(super) fn supports(shape: MaskShape, tiles: RunTiles) -> bool {
        let padded = |n: usize, unit: u32| n.checked_next_multiple_of(unit as usize);
        let pixels = padded(shape.columns, tiles.columns)
            .zip(padded(shape.rows, tiles.rows))
            .and_then(|(columns, rows)| columns.checked_mul(rows));
        shape.is_image() && pixels.is_some_and(|pixels| pixels < u32::MAX as usize)
    }

    /// Compiles the kernels and allocates memory: 2.8 bytes per pixel with tiles of 64 x 64.
    ///
    /// # Panics
    /// If the kernels do not support the tiles, see [`RunTiles`].
    pub(super) fn new(
        device: &Device,
        shape: MaskShape,
        connectivity: Connectivity,
        tiles: RunTiles,
    ) -> Result<Self, DeviceError> {
        tiles.check();
        let block_size = tiles.block_size();
        let definitions = [
            ("WORDS", format!("{}u", tiles.columns / 32)),
            ("TILE_ROWS", format!("{}u", tiles.rows)),
            ("BLOCK_SIZE", format!("{block_size}u")),
            ("MIN_BLOCKS_PER_SM", tiles.min_blocks_per_sm.to_string()),
            ("HAS_CORNERS", u32::from(connectivity == Connectivity::Corners).to_string()),
            ("HAS_VECTORS", u32::from(shape.columns.is_multiple_of(16)).to_string()),
        ];
        let module = device.build(&RUNS, &definitions, Math::Precise)?;
        let layout = TileLayout::new(shape, tiles);
        let border = (tiles.columns + tiles.rows) as usize;
        Ok(Self {
            shape,
            tiles,
            layout,
            label_tiles: module.kernel("label_tiles")?,
            merge_tiles: module.kernel("merge_tiles")?,
            count_roots: module.kernel("count_roots")?,
            number_tiles: module.kernel("number_tiles")?,
            tile_bits: device.zeros(layout.tiles * block_size as usize)?,
            runs: device.zeros(layout.tiles * block_size as usize * 16)?,
            borders: device.zeros(layout.tiles * 2 * border)?,
            node_counts: device.zeros(layout.tiles)?,
            node_parents: device.zeros(layout.tiles * border)?,
            node_pixels: device.zeros(layout.tiles * border)?,
            numbering: Numbering::new(device, layout.root_words)?,
        })
    }

    /// Returns the kernel that labels tiles, and its threads per block.
    pub(super) fn main_kernel(&self) -> (&Kernel, u32) {
        (&self.label_tiles, self.tiles.block_size())
    }

    /// Queues all kernels. Does not wait.
    pub(super) fn launch(
        &mut self,
        queue: &Queue,
        mask: &Buffer<u8>,
        labels: &Buffer<u32>,
        count: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let [rows, columns, tiles_along, tiles, root_words] = [
            self.shape.rows,
            self.shape.columns,
            self.layout.tiles_along,
            self.layout.tiles,
            self.layout.root_words,
        ]
        .map(|number| number as u32);
        let block_size = self.tiles.block_size();
        let Numbering { roots, before, .. } = &self.numbering;
        let args = [
            mask.into(),
            rows.into(),
            columns.into(),
            tiles_along.into(),
            (&self.tile_bits).into(),
            (&self.runs).into(),
            (&self.borders).into(),
            (&self.node_counts).into(),
            (&self.node_parents).into(),
            (&self.node_pixels).into(),
            roots.into(),
        ];
        queue.launch(&self.label_tiles, tiles, block_size, &args)?;
        let args = [
            (&self.borders).into(),
            tiles_along.into(),
            (&self.node_parents).into(),
            (&self.node_pixels).into(),
            roots.into(),
        ];
        queue.launch(&self.merge_tiles, tiles, self.tiles.columns + self.tiles.rows, &args)?;
        let args = [roots.into(), before.into(), root_words.into()];
        queue.launch(&self.count_roots, root_words.div_ceil(COUNT_BLOCK_SIZE), COUNT_BLOCK_SIZE, &args)?;
        self.numbering.queue_scan(queue)?;
        let Numbering { roots, before, .. } = &self.numbering;
        let args = [
            labels.into(),
            rows.into(),
            columns.into(),
            tiles_along.into(),
            (&self.tile_bits).into(),
            (&self.runs).into(),
            (&self.node_counts).into(),
            (&self.node_parents).into(),
            (&self.node_pixels).into(),
            roots.into(),
            before.into(),
            root_words.into(),
            count.into(),
        ];
        queue.launch(&self.number_tiles, tiles, block_size, &args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_padded_to_whole_tiles() {
        let tiles = RunTiles::default();
        let layout = |rows, columns| TileLayout::new(MaskShape::image(rows, columns), tiles);
        assert_eq!(layout(1, 1), TileLayout { tiles_along: 1, tiles: 1, root_words: 2 });
        assert_eq!(layout(65, 129), TileLayout { tiles_along: 3, tiles: 6, root_words: 65 * 6 });
    }

    #[test]
    fn candidates_are_valid_and_positions_are_limited() {
        RunTiles::CANDIDATES.iter().for_each(RunTiles::check);
        let supports =
            |rows, columns| TiledRunLabels::supports(MaskShape::image(rows, columns), RunTiles::default());
        assert!(supports(0, 5));
        assert!(supports((1 << 26) - 64, 1) && !supports(1 << 26, 1) && !supports(1 << 26, 65));
        assert!(!supports(usize::MAX, usize::MAX));
        assert!(!TiledRunLabels::supports(MaskShape { planes: 2, rows: 4, columns: 4 }, RunTiles::default()));
    }

    #[test]
    #[should_panic(expected = "expected multiples of 32 threads")]
    fn tiles_of_partial_warps_are_refused() {
        RunTiles { rows: 33, ..RunTiles::CANDIDATES[2] }.check();
    }
}
