//! Ladder of transposes of f32: the steps of a course (notes on GPU computing), and four more.

use orrery_device::{
    Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, join_sources, kernel_source,
};

use super::{MatrixShape, Transpose};
use crate::kernel_enum::kernel_enum;

// SAFETY: a block accesses those elements of its tile that are within rows x columns. `launch`
// checks that both buffers have that many.
const RUNGS: KernelFile = unsafe {
    KernelFile::new("rungs.cu", join_sources!(TransposeVariant::DEFINES, kernel_source!("rungs.cu")))
};

/// Rows and columns of a tile, for the rungs that have one. The course uses 16, as many as threads
/// of its GPU accessed memory together.
pub const TILES: [u32; 2] = [16, 32];

kernel_enum! {
    /// Algorithm of a rung.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum TransposeVariant {
        /// Copies without transposing, with the same threads as [`Self::Naive`].
        Copy = 1 => "RUNG_COPY",
        /// Reads rows and writes columns: the stores of a warp lie a row apart.
        Naive = 2 => "RUNG_NAIVE",
        /// Tile in shared memory: reads and writes rows. Columns of the tile lie in the same bank.
        SharedTile = 3 => "RUNG_SHARED_TILE",
        /// One more column in the tile, which nothing uses: columns lie in different banks.
        PaddedTile = 4 => "RUNG_PADDED_TILE",
        /// Blocks take tiles along diagonals.
        Diagonal = 5 => "RUNG_DIAGONAL",
        /// Four elements per thread, in the order of blocks of [`Self::PaddedTile`].
        FourElements = 6 => "RUNG_FOUR_ELEMENTS",
        /// [`Transpose`]: tiles of 64 x 64, loads and stores of 16 bytes.
        Production = 7 => "RUNG_PRODUCTION",
    }
}

impl TransposeVariant {
    /// Returns whether the algorithm has a tile of one of [`TILES`].
    pub fn has_tile_parameter(self) -> bool {
        self != Self::Production
    }
}

/// One rung of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransposeRung {
    /// Name: the change from the previous rung.
    pub name: &'static str,
    /// Algorithm.
    pub variant: TransposeVariant,
    /// Note for the reader of the table. May be empty.
    pub note: &'static str,
}

/// Returns the rungs: the copy, then the transposes from the first to the production kernel.
pub fn rungs() -> [TransposeRung; 7] {
    let rung = |name, variant, note| TransposeRung { name, variant, note };
    [
        rung("copy", TransposeVariant::Copy, "not transposed: one element per thread, as in the next rungs"),
        rung("naive transpose", TransposeVariant::Naive, "reads rows, writes columns"),
        rung("tile in shared memory", TransposeVariant::SharedTile, "columns of the tile in one bank"),
        rung("padded tile", TransposeVariant::PaddedTile, "[T][T+1]: no bank conflicts"),
        rung("diagonal order", TransposeVariant::Diagonal, "against partition camping on old GPUs"),
        rung("four elements per thread", TransposeVariant::FourElements, "padded tile, not diagonal"),
        rung(
            "16-byte loads and stores",
            TransposeVariant::Production,
            "the production kernel `Transpose`: 64 x 64, swizzled, blocks in strips",
        ),
    ]
}

/// Transpose of f32 on a device with the algorithm of one rung.
#[derive(Debug)]
pub struct RungTranspose {
    shape: MatrixShape,
    method: TransposeMethod,
}

#[derive(Debug)]
enum TransposeMethod {
    Tiles { kernel: Kernel, tile: u32, thread_rows: u32 },
    Production(Transpose<f32>),
}

impl RungTranspose {
    /// Compiles the rung for tiles of `tile` x `tile` elements, one of [`TILES`].
    pub fn new(
        device: &Device,
        variant: TransposeVariant,
        tile: u32,
        shape: MatrixShape,
    ) -> Result<Self, DeviceError> {
        if variant == TransposeVariant::Production {
            return Ok(Self::production(Transpose::new(device, shape)?));
        }
        let definitions = [("RUNG", variant.kernel_name().to_owned()), ("TILE", tile.to_string())];
        let kernel = device.build(&RUNGS, &definitions, Math::Precise)?.kernel("transpose_rung")?;
        let thread_rows = if variant == TransposeVariant::FourElements { tile / 4 } else { tile };
        Ok(Self { shape, method: TransposeMethod::Tiles { kernel, tile, thread_rows } })
    }

    /// Returns the production rung with the strategy of `transpose`.
    pub fn production(transpose: Transpose<f32>) -> Self {
        Self { shape: transpose.shape(), method: TransposeMethod::Production(transpose) }
    }

    /// Returns the kernel, for its resources.
    pub fn kernel(&self) -> &Kernel {
        match &self.method {
            TransposeMethod::Tiles { kernel, .. } => kernel,
            TransposeMethod::Production(transpose) => transpose.kernel(),
        }
    }

    /// Returns the threads per block.
    pub fn block_size(&self) -> u32 {
        match &self.method {
            TransposeMethod::Tiles { tile, thread_rows, .. } => tile * thread_rows,
            TransposeMethod::Production(transpose) => transpose.strategy().block_size,
        }
    }

    /// Queues the transpose, or copy, of `from` into `to`, another buffer of the same length.
    pub fn launch(&self, queue: &Queue, from: &Buffer<f32>, to: &Buffer<f32>) -> Result<(), DeviceError> {
        let (kernel, tile, thread_rows) = match &self.method {
            TransposeMethod::Production(transpose) => return transpose.launch(queue, from, to),
            TransposeMethod::Tiles { kernel, tile, thread_rows } => (kernel, *tile, *thread_rows),
        };
        let expected = self.shape.element_count();
        if let Some(buffer) = [from, to].into_iter().find(|buffer| buffer.len() != expected) {
            let (device, got) = (buffer.device().title(), buffer.len());
            return Err(DeviceError::Length { device, expected, got });
        }
        let MatrixShape { rows, columns } = self.shape;
        let tiles_along = |n: usize| n.div_ceil(tile as usize) as u32;
        let args = [from.into(), to.into(), (rows as u64).into(), (columns as u64).into()];
        queue.launch(kernel, [tiles_along(columns), tiles_along(rows)], [tile, thread_rows], &args)
    }
}
