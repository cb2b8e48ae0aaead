//! Transpose on a device: compiles and launches `transpose.cu`.

use std::marker::PhantomData;

use orrery_device::{Buffer, BufferRange, Device, DeviceError, Element, Kernel, KernelFile, Math, Queue};

use super::MatrixShape;

// SAFETY: the kernels access rows * columns elements of each matrix, and vectors only where rows
// and columns are multiples of their width. `VectorLayout::of` chooses the width, and the launches
// check the lengths. Loads and stores beyond the end of the matrix are skipped.
const TRANSPOSE: KernelFile = unsafe { KernelFile::new("transpose.cu", include_str!("transpose.cu")) };

/// Bytes of the widest load and store.
const MAX_VECTOR_BYTES: usize = 16;

/// Launch parameters of a transpose. They do not change the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransposeStrategy {
    /// Rows and columns of a tile, a power of two.
    pub tile: u32,
    /// Threads per block, a power of two. At least as many as a row of a tile has vectors, and at
    /// most as many as a tile has pieces.
    pub block_size: u32,
    /// Blocks per SM that the compiler leaves enough registers for.
    pub min_blocks_per_sm: u32,
    /// Rows of tiles per strip. Blocks go down the columns of a strip, so that those which run at
    /// the same time access long rows in both matrices. With 1 they go along the rows of the input.
    pub strip: u32,
    /// Whether stores mark their cache lines as the first to be evicted. Loads always do.
    pub has_streaming_stores: bool,
}

impl TransposeStrategy {
    /// Strategies for f32 that differ in one parameter each from the first one.
    /// `orrery bench primitives --candidates` measures them.
    pub const CANDIDATES: [Self; 6] = [
        Self { tile: 64, block_size: 128, min_blocks_per_sm: 8, strip: 512, has_streaming_stores: true },
        Self { tile: 64, block_size: 128, min_blocks_per_sm: 8, strip: 1, has_streaming_stores: true },
        Self { tile: 64, block_size: 128, min_blocks_per_sm: 8, strip: 16, has_streaming_stores: true },
        Self { tile: 64, block_size: 128, min_blocks_per_sm: 8, strip: 512, has_streaming_stores: false },
        Self { tile: 64, block_size: 256, min_blocks_per_sm: 4, strip: 512, has_streaming_stores: true },
        Self { tile: 32, block_size: 64, min_blocks_per_sm: 24, strip: 32, has_streaming_stores: true },
    ];

    /// Returns the strategy for a matrix with elements of 1, 2, 4, 8 or 16 bytes.
    ///
    /// A thread has 128 bytes in flight for elements of 4 bytes, 64 for smaller and larger ones,
    /// and 32 for elements of 8 bytes. Rows of a tile have 128 bytes for elements of 1 and 2 bytes,
    /// 256 for 4 and 8, and 512 for 16.
    ///
    /// For f32 it is the best of about 60 that were measured on an H200: 8192² numbers 3.97 TB/s,
    /// 97% of the copy, and 16384² 4.07 TB/s, 96%. With strips of 1 they reach 3.85 and 3.95 TB/s,
    /// and without streaming stores about 0.07 TB/s less. `orrery bench primitives --candidates`
    /// repeats the measurement.
    pub fn default_for(shape: MatrixShape, element_bytes: usize) -> Self {
        let is_wide = VectorLayout::of(shape, element_bytes).vector_width > 1;
        let tile = match element_bytes {
            1 if is_wide => 128,
            8 | 16 => 32,
            _ => 64,
        };
        let [block_size, min_blocks_per_sm] = if element_bytes == 4 && is_wide { [128, 8] } else { [256, 6] };
        Self { tile, block_size, min_blocks_per_sm, ..Self::CANDIDATES[0] }
    }

    /// Returns a short name, for example `64 x 64, 256 threads, strips of 16`.
    pub fn name(&self) -> String {
        let Self { tile, block_size, strip, has_streaming_stores, .. } = self;
        let stores = if *has_streaming_stores { ", streaming stores" } else { "" };
        format!("{tile} x {tile}, {block_size} threads, strips of {strip}{stores}")
    }

    /// Panics if the kernel does not support the strategy.
    fn check(&self, layout: VectorLayout) {
        let slots = self.tile / layout.vector_width;
        let is_valid = self.tile.is_power_of_two()
            && self.block_size.is_power_of_two()
            && self.tile >= layout.vector_width
            && (slots..=slots * slots).contains(&self.block_size)
            && self.strip > 0
            && self.min_blocks_per_sm > 0;
        assert!(is_valid, "{self:?} is no strategy for {layout:?}");
    }

    /// Returns the definitions of `transpose.cu`.
    fn definitions(&self, layout: VectorLayout) -> [(&'static str, String); 9] {
        self.check(layout);
        let type_name = |bytes: usize| match bytes {
            1 => "uchar",
            2 => "ushort",
            4 => "uint",
            8 => "uint2",
            _ => "uint4",
        };
        let VectorLayout { element_bytes, vector_width } = layout;
        let vector_bytes = element_bytes * vector_width as usize;
        [
            ("ELEMENT", type_name(element_bytes).to_owned()),
            ("VECTOR", type_name(vector_bytes).to_owned()),
            ("VECTOR_WIDTH", format!("{vector_width}u")),
            ("VECTOR_BYTES", format!("{vector_bytes}u")),
            ("TILE", format!("{}u", self.tile)),
            ("BLOCK_SIZE", format!("{}u", self.block_size)),
            ("MIN_BLOCKS_PER_SM", self.min_blocks_per_sm.to_string()),
            ("STRIP", format!("{}u", self.strip)),
            ("STREAMING_STORES", u32::from(self.has_streaming_stores).to_string()),
        ]
    }
}

/// Size of the elements, and of the vectors that are loaded and stored.
#[derive(Clone, Copy, Debug)]
struct VectorLayout {
    element_bytes: usize,
    /// Elements per vector.
    vector_width: u32,
}

impl VectorLayout {
    /// Returns the widest vectors that the shape allows: rows of both matrices must start at a
    /// multiple of the width. More than four elements would need a piece of 16 x 16 bytes in
    /// registers, or 8 x 8 elements of 2 bytes.
    fn of(shape: MatrixShape, element_bytes: usize) -> Self {
        let widest = (MAX_VECTOR_BYTES / element_bytes).clamp(1, 4);
        let is_aligned = shape.rows.is_multiple_of(widest) && shape.columns.is_multiple_of(widest);
        Self { element_bytes, vector_width: if is_aligned { widest as u32 } else { 1 } }
    }
}

/// Returns the number of bytes of an element. Refuses other sizes at compile time.
const fn element_bytes<T>() -> usize {
    const { assert!(size_of::<T>().is_power_of_two() && size_of::<T>() <= MAX_VECTOR_BYTES) };
    size_of::<T>()
}

/// Returns the buffer as bytes, the type of the kernels' parameters.
fn bytes_of<T: Element>(buffer: &Buffer<T>) -> Result<BufferRange<'_, u8>, DeviceError> {
    BufferRange::from(buffer).reinterpret()
}

fn check_length<T: Element>(buffer: &Buffer<T>, expected: usize) -> Result<(), DeviceError> {
    let got = buffer.len();
    if got == expected {
        return Ok(());
    }
    Err(DeviceError::Length { device: buffer.device().title(), expected, got })
}

/// Transpose of matrices of one shape, compiled for a device. Can be launched many times.
///
/// ```
/// use orrery_device::{Device, DeviceChoice};
/// use orrery_lab::primitives::transpose::{MatrixShape, Transpose};
///
/// # fn main() -> Result<(), orrery_device::DeviceError> {
/// // Without an OpenCL device there is nothing to run on.
/// let Ok(Some(device)) = Device::open(DeviceChoice::OpenCl(None)) else { return Ok(()) };
/// let transpose = Transpose::new(&device, MatrixShape { rows: 2, columns: 3 })?;
/// let (from, to) = (device.upload(&[1u32, 2, 3, 4, 5, 6])?, device.zeros(6)?);
/// transpose.launch(device.queue(), &from, &to)?;
/// assert_eq!(to.to_vec()?, [1, 4, 2, 5, 3, 6]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Transpose<T: Element> {
    kernel: Kernel,
    shape: MatrixShape,
    strategy: TransposeStrategy,
    element: PhantomData<T>,
}

impl<T: Element> Transpose<T> {
    /// Compiles the kernel for inputs of this shape. Elements have 1, 2, 4, 8 or 16 bytes.
    pub fn new(device: &Device, shape: MatrixShape) -> Result<Self, DeviceError> {
        Self::with_strategy(device, shape, TransposeStrategy::default_for(shape, element_bytes::<T>()))
    }

    /// Compiles the kernel for the given strategy.
    ///
    /// # Panics
    /// If the fields of the strategy do not fit together, see [`TransposeStrategy`].
    pub fn with_strategy(
        device: &Device,
        shape: MatrixShape,
        strategy: TransposeStrategy,
    ) -> Result<Self, DeviceError> {
        let definitions = strategy.definitions(VectorLayout::of(shape, element_bytes::<T>()));
        let kernel = device.build(&TRANSPOSE, &definitions, Math::Precise)?.kernel("transpose")?;
        Ok(Self { kernel, shape, strategy, element: PhantomData })
    }

    /// Returns the kernel, for its resources.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Returns the strategy.
    pub fn strategy(&self) -> TransposeStrategy {
        self.strategy
    }

    /// Returns the shape of the input.
    pub fn shape(&self) -> MatrixShape {
        self.shape
    }

    /// Queues the transpose of `from` into `to`, another buffer of the same length. Does not wait.
    pub fn launch(&self, queue: &Queue, from: &Buffer<T>, to: &Buffer<T>) -> Result<(), DeviceError> {
        let MatrixShape { rows, columns } = self.shape;
        check_length(from, self.shape.element_count())?;
        check_length(to, self.shape.element_count())?;
        if std::ptr::eq(from, to) {
            let message = "input and output are the same buffer, expected two".to_owned();
            let device = from.device().title();
            return Err(DeviceError::Call { device, call: "transpose", size: None, message });
        }
        if rows == 1 || columns == 1 {
            return queue.copy(from, to);
        }
        let tile = self.strategy.tile as usize;
        let tiles = u32::try_from(rows.div_ceil(tile) * columns.div_ceil(tile))
            .expect("a matrix has fewer than 2^32 tiles");
        let args =
            [bytes_of(from)?.into(), bytes_of(to)?.into(), (rows as u64).into(), (columns as u64).into()];
        queue.launch(&self.kernel, tiles, self.strategy.block_size, &args)
    }
}

/// Transpose of squares in their memory, compiled for a device. Can be launched many times.
#[derive(Debug)]
pub struct TransposeInPlace<T: Element> {
    kernel: Kernel,
    side: usize,
    strategy: TransposeStrategy,
    element: PhantomData<T>,
}

impl<T: Element> TransposeInPlace<T> {
    /// Compiles the kernel for squares of `side` x `side` elements of 1, 2, 4, 8 or 16 bytes.
    pub fn new(device: &Device, side: usize) -> Result<Self, DeviceError> {
        let shape = MatrixShape::square(side);
        let strategy = TransposeStrategy::default_for(shape, element_bytes::<T>());
        let definitions = strategy.definitions(VectorLayout::of(shape, element_bytes::<T>()));
        let kernel = device.build(&TRANSPOSE, &definitions, Math::Precise)?.kernel("transpose_in_place")?;
        Ok(Self { kernel, side, strategy, element: PhantomData })
    }

    /// Queues the transpose of `matrix`. Does not wait.
    pub fn launch(&self, queue: &Queue, matrix: &Buffer<T>) -> Result<(), DeviceError> {
        check_length(matrix, MatrixShape::square(self.side).element_count())?;
        let tiles = self.side.div_ceil(self.strategy.tile as usize);
        let pairs =
            u32::try_from(tiles * (tiles + 1) / 2).expect("a matrix has fewer than 2^32 pairs of tiles");
        let args = [bytes_of(matrix)?.into(), (self.side as u64).into()];
        queue.launch(&self.kernel, pairs, self.strategy.block_size, &args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector_width(rows: usize, columns: usize, element_bytes: usize) -> u32 {
        VectorLayout::of(MatrixShape { rows, columns }, element_bytes).vector_width
    }

    #[test]
    fn vectors_are_as_wide_as_rows_and_columns_allow() {
        for (element_bytes, widest) in [(1, 4), (2, 4), (4, 4), (8, 2), (16, 1)] {
            assert_eq!(vector_width(8, 4, element_bytes), widest);
            assert_eq!(vector_width(0, 4, element_bytes), widest);
            assert_eq!([vector_width(7, 4, element_bytes), vector_width(4, 7, element_bytes)], [1, 1]);
        }
        assert_eq!([vector_width(2, 6, 8), vector_width(2, 6, 4)], [2, 1]);
    }

    #[test]
    fn default_strategies_and_candidates_are_valid() {
        for element_bytes in [1, 2, 4, 8, 16] {
            for shape in [MatrixShape::square(64), MatrixShape { rows: 63, columns: 64 }] {
                let strategy = TransposeStrategy::default_for(shape, element_bytes);
                let layout = VectorLayout::of(shape, element_bytes);
                strategy.check(layout);
                // In place, two tiles must fit in the 48 KiB that every block may have.
                let tile_bytes = strategy.tile as usize * strategy.tile as usize * element_bytes;
                assert!(2 * tile_bytes <= 48 << 10, "{strategy:?}, {element_bytes} bytes");
            }
        }
        for shape in [MatrixShape::square(64), MatrixShape { rows: 63, columns: 64 }] {
            TransposeStrategy::CANDIDATES
                .iter()
                .for_each(|strategy| strategy.check(VectorLayout::of(shape, 4)));
        }
    }

    #[test]
    #[should_panic(expected = "is no strategy for")]
    fn a_block_must_not_have_more_threads_than_pieces() {
        let strategy = TransposeStrategy { tile: 32, ..TransposeStrategy::CANDIDATES[0] };
        strategy.check(VectorLayout::of(MatrixShape::square(64), 4));
    }
}
