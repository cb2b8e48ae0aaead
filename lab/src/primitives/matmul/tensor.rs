//! Matrix product on tensor cores of CUDA devices: compiles and launches `tensor.cu`.
//!
//! f32 numbers are rounded to TF32, with 10 bits after the binary point. The relative error of a
//! product is therefore about 2⁻¹¹ per factor, in place of 2⁻²⁴. f64 has the error of other f64
//! products.

use std::marker::PhantomData;

use orrery_device::{Backend, Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue};

use super::device::check_shapes;
use super::{MatrixNumber, Product};

// SAFETY: the dimensions are multiples of the tiles, which the launch checks, so all accesses are
// within the m x k, k x n and m x n numbers of the matrices.
const TENSOR: KernelFile = unsafe { KernelFile::new("tensor.cu", include_str!("tensor.cu")) };

/// Sizes of the tiles in `tensor.cu`.
struct TileSizes {
    tile_m: usize,
    tile_n: usize,
    tile_k: usize,
    warp_tile_m: usize,
    warp_tile_n: usize,
    stages: usize,
    /// Unused numbers at the end of a row of a tile of B.
    b_padding: usize,
}

/// Fastest of five measured for 8192² numbers on an H200: 143 TFLOP/s. 128 × 128 tiles with warp
/// tiles of 64 × 32: 115 TFLOP/s.
const TF32_TILES: TileSizes = TileSizes {
    tile_m: 128,
    tile_n: 256,
    tile_k: 32,
    warp_tile_m: 64,
    warp_tile_n: 64,
    stages: 3,
    b_padding: 8,
};

/// Fastest of five measured for 8192² numbers on an H200: 44 TFLOP/s. Three stages: 43.9 TFLOP/s.
const F64_TILES: TileSizes = TileSizes {
    tile_m: 128,
    tile_n: 128,
    tile_k: 16,
    warp_tile_m: 32,
    warp_tile_n: 64,
    stages: 4,
    b_padding: 4,
};

fn tiles_for<T>() -> &'static TileSizes {
    if size_of::<T>() == 4 { &TF32_TILES } else { &F64_TILES }
}

impl TileSizes {
    fn block_size(&self) -> usize {
        self.tile_m / self.warp_tile_m * (self.tile_n / self.warp_tile_n) * 32
    }

    /// Returns the bytes of shared memory per block. Rows of tiles of A have 4 unused numbers.
    fn shared_bytes(&self, number_size: usize) -> usize {
        let (a, b) = (self.tile_m * (self.tile_k + 4), self.tile_k * (self.tile_n + self.b_padding));
        self.stages * (a + b) * number_size
    }
}

/// A plain product C = A B that is compiled for the tensor cores of a device.
#[derive(Debug)]
pub struct TensorMatmul<T: MatrixNumber> {
    kernel: Kernel,
    number: PhantomData<T>,
}

impl<T: MatrixNumber> TensorMatmul<T> {
    /// Returns whether the device has tensor cores for these numbers: CUDA with compute capability
    /// 8.0 or higher for f32 (as TF32), and 9.0 or higher for f64.
    pub fn is_supported(device: &Device) -> bool {
        let needed = if size_of::<T>() == 4 { (8, 0) } else { (9, 0) };
        let properties = device.properties();
        properties.backend == Backend::Cuda && properties.capability.is_some_and(|found| found >= needed)
    }

    /// Returns whether the dimensions are multiples of the tiles.
    pub fn fits(product: &Product<T>) -> bool {
        let tiles = tiles_for::<T>();
        let is_plain = !product.transposed_a && !product.transposed_b;
        is_plain
            && product.m.is_multiple_of(tiles.tile_m)
            && product.n.is_multiple_of(tiles.tile_n)
            && product.k.is_multiple_of(tiles.tile_k)
    }

    /// Compiles the kernel.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        let tiles = tiles_for::<T>();
        let number = |value: usize| value.to_string();
        let definitions = [
            ("NUMBER", T::NAME.to_owned()),
            ("PAIR", format!("{}2", T::NAME)),
            ("IS_DOUBLE", number(usize::from(size_of::<T>() == 8))),
            ("TILE_M", number(tiles.tile_m)),
            ("TILE_N", number(tiles.tile_n)),
            ("TILE_K", number(tiles.tile_k)),
            ("WARP_TILE_M", number(tiles.warp_tile_m)),
            ("WARP_TILE_N", number(tiles.warp_tile_n)),
            ("STAGES", number(tiles.stages)),
            ("B_PAD", number(tiles.b_padding)),
        ];
        let module = device.build(&TENSOR, &definitions, Math::Precise)?;
        let shared_bytes = tiles.shared_bytes(size_of::<T>()) as u32;
        Ok(Self { kernel: module.kernel_with_shared("tensor_matmul", shared_bytes)?, number: PhantomData })
    }

    /// Returns the kernel and its block size, for reports.
    pub fn kernel(&self) -> (&Kernel, u32) {
        (&self.kernel, tiles_for::<T>().block_size() as u32)
    }

    /// Queues the product C = A B. The dimensions must be multiples of the tiles, see
    /// [`Self::fits`].
    pub fn launch(
        &self,
        queue: &Queue,
        product: &Product<T>,
        [a, b, c]: [&Buffer<T>; 3],
    ) -> Result<(), DeviceError> {
        let tiles = tiles_for::<T>();
        let dimensions = check_shapes(product, [a, b, c])?;
        if !Self::fits(product) {
            let message = format!(
                "{} x {} x {} numbers, expected multiples of {} x {} x {}",
                product.m, product.n, product.k, tiles.tile_m, tiles.tile_n, tiles.tile_k
            );
            let device = a.device().title();
            return Err(DeviceError::Call { device, call: "tensor cores", size: None, message });
        }
        let blocks = product.m / tiles.tile_m * (product.n / tiles.tile_n);
        if blocks == 0 {
            return Ok(());
        }
        let [m, n, k] = dimensions.map(Into::into);
        queue.launch(
            &self.kernel,
            blocks as u32,
            tiles.block_size() as u32,
            &[a.into(), b.into(), c.into(), m, n, k],
        )
    }
}
