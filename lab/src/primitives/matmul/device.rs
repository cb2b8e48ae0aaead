//! Matrix product on a device: compiles and launches `matmul.cu`.

use orrery_device::{Arg, Buffer, Device, DeviceError, DeviceKind, Kernel, KernelFile, Math, Queue};

use super::{MatrixNumber, Product};

// SAFETY: loads and stores are within the m x k, k x n and m x n numbers of the matrices, and the
// launch checks these lengths.
const MATMUL: KernelFile = unsafe { KernelFile::new("matmul.cu", include_str!("matmul.cu")) };

/// Sizes of the tiles in `matmul.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatmulStrategy {
    /// Rows of C per block, a multiple of 4 `rows`.
    pub tile_m: u32,
    /// Columns of C per block, a multiple of 8 `columns`.
    pub tile_n: u32,
    /// Numbers along k per tile of A and B.
    pub tile_k: u32,
    /// Rows of C per thread, a multiple of the numbers in 16 bytes.
    pub rows: u32,
    /// Columns of C per thread, a multiple of the numbers in 16 bytes.
    pub columns: u32,
    /// Blocks per SM that the compiler leaves registers for.
    pub min_blocks: u32,
}

impl MatmulStrategy {
    /// Strategies for f32 that `orrery bench primitives --candidates` measures. The first one is
    /// the default for large products on a GPU.
    pub const CANDIDATES: [Self; 5] = [
        Self { tile_m: 128, tile_n: 128, tile_k: 8, rows: 8, columns: 8, min_blocks: 2 },
        Self { tile_m: 128, tile_n: 128, tile_k: 16, rows: 8, columns: 8, min_blocks: 1 },
        Self { tile_m: 128, tile_n: 64, tile_k: 16, rows: 8, columns: 4, min_blocks: 2 },
        Self { tile_m: 64, tile_n: 64, tile_k: 16, rows: 4, columns: 4, min_blocks: 2 },
        Self { tile_m: 256, tile_n: 128, tile_k: 8, rows: 16, columns: 8, min_blocks: 1 },
    ];

    /// Returns a short name, for example `128 x 128 x 8, 8 x 8 per thread`.
    pub fn name(&self) -> String {
        let Self { tile_m, tile_n, tile_k, rows, columns, .. } = self;
        format!("{tile_m} x {tile_n} x {tile_k}, {rows} x {columns} per thread")
    }

    /// Returns the strategy for a device and a product.
    ///
    /// Measured on an H200 for f32 and 4096² numbers: 128 × 128 × 8 with 8 × 8 per thread 46.1
    /// TFLOP/s, with 16 numbers along k 45.2, with 16 × 8 per thread (256 × 128 × 8) 34.0. cuBLAS:
    /// 50.8. `orrery ladder matmul` repeats the measurement of the first.
    pub fn default_for<T: MatrixNumber>(device: &Device, product: &Product<T>) -> Self {
        let small = Self { tile_m: 64, tile_n: 64, tile_k: 16, rows: 4, columns: 4, min_blocks: 2 };
        // With few tiles, the large ones would leave SMs without work.
        let tiles = product.m.div_ceil(128) * product.n.div_ceil(128);
        if device.properties().kind != DeviceKind::Gpu || tiles < device.properties().sm_count as usize {
            return small;
        }
        match size_of::<T>() {
            4 => Self { tile_m: 128, tile_n: 128, tile_k: 8, rows: 8, columns: 8, ..small },
            _ => Self { tile_m: 128, tile_n: 64, tile_k: 8, rows: 8, columns: 4, min_blocks: 1 },
        }
    }

    /// Returns the threads per block.
    pub fn block_size(&self) -> u32 {
        (self.tile_m / self.rows) * (self.tile_n / self.columns)
    }

    /// Returns whether the tiles consist of whole warps, and whether every thread loads the same
    /// number of vectors of `width` numbers.
    fn is_valid(&self, width: u32) -> bool {
        let loads_are_even = |tile: u32| (tile * self.tile_k / width).is_multiple_of(self.block_size());
        self.rows.is_multiple_of(width)
            && self.columns.is_multiple_of(width)
            && self.tile_k.is_multiple_of(width)
            && self.tile_m.is_multiple_of(4 * self.rows)
            && self.tile_n.is_multiple_of(8 * self.columns)
            && loads_are_even(self.tile_m)
            && loads_are_even(self.tile_n)
    }

    fn block_count<T>(&self, product: &Product<T>) -> Option<u32> {
        let tiles = product.m.div_ceil(self.tile_m as usize) * product.n.div_ceil(self.tile_n as usize);
        u32::try_from(tiles).ok().filter(|&tiles| tiles <= i32::MAX as u32)
    }
}

/// A matrix product that is compiled for a device, for one strategy and one choice of
/// transpositions.
///
/// ```
/// use orrery_device::{Device, DeviceChoice};
/// use orrery_lab::primitives::matmul::{Matmul, Product};
///
/// # fn main() -> Result<(), orrery_device::DeviceError> {
/// // Without an OpenCL device there is nothing to run on.
/// let Ok(Some(device)) = Device::open(DeviceChoice::OpenCl(None)) else { return Ok(()) };
/// let product = Product::<f32>::new(1, 2, 2);
/// let (a, b) = (device.upload(&[3.0, 4.0])?, device.upload(&[1.0, 0.0, 0.0, 2.0])?);
/// let c = device.zeros(2)?;
/// Matmul::new(&device, &product)?.launch(device.queue(), &a, &b, &c)?;
/// assert_eq!(c.to_vec()?, [3.0, 8.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Matmul<T: MatrixNumber> {
    kernel: Kernel,
    product: Product<T>,
    strategy: MatmulStrategy,
}

impl<T: MatrixNumber> Matmul<T> {
    /// Compiles the kernel with the default strategy. Products of f64 need a device with f64
    /// support.
    pub fn new(device: &Device, product: &Product<T>) -> Result<Self, DeviceError> {
        Self::with_strategy(device, product, MatmulStrategy::default_for(device, product))
    }

    /// Compiles the kernel with a strategy.
    pub fn with_strategy(
        device: &Device,
        product: &Product<T>,
        strategy: MatmulStrategy,
    ) -> Result<Self, DeviceError> {
        let (width, multiply_add) = if size_of::<T>() == 4 { (4, "FMA") } else { (2, "FMA64") };
        if !strategy.is_valid(width as u32) {
            return Err(call_error(device, format!("the tiles do not fit together: {strategy:?}")));
        }
        let is_multiple = |extent: usize| extent.is_multiple_of(width);
        // The numbers next to each other in A, B and C.
        let extents = [
            if product.transposed_a { product.m } else { product.k },
            product.n,
            product.k * usize::from(product.transposed_b),
        ];
        let definitions = [
            ("NUMBER", T::NAME.to_owned()),
            ("VECTOR", format!("{}{width}", T::NAME)),
            ("WIDTH", width.to_string()),
            ("MULTIPLY_ADD", multiply_add.to_owned()),
            ("TILE_M", strategy.tile_m.to_string()),
            ("TILE_N", strategy.tile_n.to_string()),
            ("TILE_K", strategy.tile_k.to_string()),
            ("ROWS", strategy.rows.to_string()),
            ("COLUMNS", strategy.columns.to_string()),
            ("MIN_BLOCKS", strategy.min_blocks.to_string()),
            ("TRANSPOSED_A", u32::from(product.transposed_a).to_string()),
            ("TRANSPOSED_B", u32::from(product.transposed_b).to_string()),
            ("ALIGNED", u32::from(extents.into_iter().all(is_multiple)).to_string()),
        ];
        let kernel = device.build(&MATMUL, &definitions, Math::Precise)?.kernel("matmul")?;
        Ok(Self { kernel, product: *product, strategy })
    }

    /// Returns the kernel and its block size, for reports.
    pub fn kernel(&self) -> (&Kernel, u32) {
        (&self.kernel, self.strategy.block_size())
    }

    /// Queues the product. The buffers have the lengths of [`Product::lengths`].
    pub fn launch(
        &self,
        queue: &Queue,
        a: &Buffer<T>,
        b: &Buffer<T>,
        c: &Buffer<T>,
    ) -> Result<(), DeviceError> {
        let product = &self.product;
        let dimensions = check_shapes(product, [a, b, c])?;
        if c.is_empty() {
            return Ok(());
        }
        let blocks = self.strategy.block_count(product).ok_or_else(|| too_large(c.device(), product))?;
        let [m, n, k] = dimensions.map(Into::into);
        let [alpha, beta]: [Arg<'static>; 2] = [product.alpha.into(), product.beta.into()];
        let args = [a.into(), b.into(), c.into(), m, n, k, alpha, beta];
        queue.launch(&self.kernel, blocks, self.strategy.block_size(), &args)
    }
}

/// Checks the lengths of A, B and C, and returns m, n and k for a kernel.
pub(super) fn check_shapes<T: MatrixNumber>(
    product: &Product<T>,
    buffers: [&Buffer<T>; 3],
) -> Result<[i32; 3], DeviceError> {
    for (buffer, expected) in buffers.into_iter().zip(product.lengths()) {
        if buffer.len() != expected {
            return Err(DeviceError::Length { device: buffer.device().title(), expected, got: buffer.len() });
        }
    }
    let to_i32 = |extent: usize| i32::try_from(extent).map_err(|_| too_large(buffers[0].device(), product));
    Ok([to_i32(product.m)?, to_i32(product.n)?, to_i32(product.k)?])
}

fn too_large<T>(device: &Device, product: &Product<T>) -> DeviceError {
    call_error(device, format!("{} x {} x {} is beyond 2^31", product.m, product.n, product.k))
}

fn call_error(device: &Device, message: String) -> DeviceError {
    DeviceError::Call { device: device.title(), call: "matrix product", size: None, message }
}
