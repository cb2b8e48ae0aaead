//! Ladder of matrix products: the steps of a course (notes on GPU computing) from three loops on
//! the CPU to tiles in shared memory, and the steps from there to the production kernel. Every rung
//! computes C = A B of f32 for m × k and k × n numbers.

use orrery_device::{Buffer, Device, DeviceError, Dim3, Kernel, KernelFile, Math, Queue};

use super::device::check_shapes;
use super::{Matmul, MatmulStrategy, MatrixNumber, Product, TensorMatmul};

// SAFETY: every access is within the m x k, k x n and m x n numbers of the matrices. The launch
// checks these lengths, that `one_block` has at most 32 x 32 numbers, and that the matrices of
// `add` have the same shape.
const RUNGS: KernelFile = unsafe { KernelFile::new("rungs.cu", include_str!("rungs.cu")) };

/// Order of the three loops over rows i, columns j and terms p, outermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoopOrder {
    /// i, j, p: one sum after the other. B is read along columns.
    Ijp,
    /// i, p, j: the inner loop reads B and C along rows.
    Ipj,
    /// j, i, p: the loops of the course.
    Jip,
    /// j, p, i: the inner loop reads A and C along columns.
    Jpi,
    /// p, i, j: the inner loop reads B and C along rows, and all of C for each p.
    Pij,
    /// p, j, i: the inner loop reads A and C along columns, and all of C for each p.
    Pji,
}

impl LoopOrder {
    /// All orders, as the ladder measures them: from the course's to the fastest.
    pub const ALL: [Self; 6] = [Self::Jip, Self::Jpi, Self::Pji, Self::Ijp, Self::Pij, Self::Ipj];

    /// Returns the name of the rung.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ijp => "CPU, loops i j p",
            Self::Ipj => "CPU, loops i p j",
            Self::Jip => "CPU, loops j i p",
            Self::Jpi => "CPU, loops j p i",
            Self::Pij => "CPU, loops p i j",
            Self::Pji => "CPU, loops p j i",
        }
    }

    /// Returns the note for the reader of the table.
    pub fn note(self) -> &'static str {
        match self {
            Self::Jip => "the course's loops: B along columns, a cache line per number",
            Self::Jpi => "A and C along columns",
            Self::Pji => "A and C along columns, all of C for each p",
            Self::Ijp => "B along columns",
            Self::Pij => "B and C along rows, all of C for each p",
            Self::Ipj => "B and C along rows: the compiler vectorises it",
        }
    }
}

/// Computes C = A B on one thread with three plain loops. Products and sums are rounded separately.
/// Panics if a slice does not have the length of its matrix.
pub fn multiply_in_order(order: LoopOrder, product: &Product<f32>, a: &[f32], b: &[f32], c: &mut [f32]) {
    product.check_lengths(a, b, c);
    let Product { m, n, k, .. } = *product;
    c.fill(0.0);
    // The ranges are those of the loops, outermost first.
    macro_rules! run_loops {
        ($x:ident in $nx:expr, $y:ident in $ny:expr, $z:ident in $nz:expr, $i:ident $j:ident $p:ident) => {
            for $x in 0..$nx {
                for $y in 0..$ny {
                    for $z in 0..$nz {
                        c[$i * n + $j] += a[$i * k + $p] * b[$p * n + $j];
                    }
                }
            }
        };
    }
    match order {
        LoopOrder::Ijp => run_loops!(i in m, j in n, p in k, i j p),
        LoopOrder::Ipj => run_loops!(i in m, p in k, j in n, i j p),
        LoopOrder::Jip => run_loops!(j in n, i in m, p in k, i j p),
        LoopOrder::Jpi => run_loops!(j in n, p in k, i in m, i j p),
        LoopOrder::Pij => run_loops!(p in k, i in m, j in n, i j p),
        LoopOrder::Pji => run_loops!(p in k, j in n, i in m, i j p),
    }
}

/// Algorithm of a rung on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatmulVariant {
    /// C = A + B, as a warm-up.
    Addition,
    /// One block of 32 × 32 threads.
    OneBlock,
    /// One thread per number of C.
    ManyBlocks,
    /// Tiles in shared memory, with two barriers per tile.
    SharedTiles,
    /// 4 × 4 numbers of C per thread.
    RegisterTiles,
    /// The production kernel [`Matmul`] with 4 × 4 numbers per thread: vector loads and double
    /// buffering.
    DoubleBuffered,
    /// The production kernel with its default strategy.
    Production,
    /// Tensor cores, with f32 rounded to TF32.
    Tf32,
}

/// One rung of the ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct MatmulRung {
    /// Name: the change from the previous rung.
    pub name: &'static str,
    /// Algorithm.
    pub variant: MatmulVariant,
    /// Floating-point operations per number that a thread requests from device memory.
    pub flops_per_access: f64,
    /// Note for the reader of the table. May be empty.
    pub note: &'static str,
}

/// Strategy of [`MatmulVariant::DoubleBuffered`].
const DOUBLE_BUFFERED: MatmulStrategy =
    MatmulStrategy { tile_m: 64, tile_n: 64, tile_k: 16, rows: 4, columns: 4, min_blocks: 2 };

/// Returns the rungs of a device, slowest first.
pub fn rungs() -> Vec<MatmulRung> {
    let rung = |name, variant, flops_per_access, note| MatmulRung { name, variant, flops_per_access, note };
    // A tile of x² numbers of C takes 2 x numbers of A and B for 2 x² operations.
    vec![
        rung(
            "addition, 16 x 16 blocks",
            MatmulVariant::Addition,
            1.0 / 3.0,
            "C = A + B as a warm-up: n² operations",
        ),
        rung("one block", MatmulVariant::OneBlock, 1.0, "at most 32 x 32 numbers: one SM works"),
        rung("one thread per number", MatmulVariant::ManyBlocks, 1.0, "each multiply-add loads two numbers"),
        rung("shared tiles 32 x 32", MatmulVariant::SharedTiles, 32.0, "two barriers per tile"),
        rung(
            "register tiles 4 x 4",
            MatmulVariant::RegisterTiles,
            64.0,
            "tiles of 64 x 64 numbers per block",
        ),
        rung(
            "vector loads, double buffer",
            MatmulVariant::DoubleBuffered,
            64.0,
            "16 bytes per load, one barrier per tile",
        ),
        rung(
            "tuned",
            MatmulVariant::Production,
            128.0,
            "the production kernel `Matmul`: on a GPU 8 x 8 numbers per thread",
        ),
        rung(
            "tensor cores, TF32",
            MatmulVariant::Tf32,
            2.0 * 128.0 * 256.0 / 384.0,
            "11 bits of each factor",
        ),
    ]
}

/// Product of f32 on a device with the algorithm of one rung.
#[derive(Debug)]
pub struct RungMatmul {
    variant: MatmulVariant,
    product: Product<f32>,
    method: MatmulMethod,
}

#[derive(Debug)]
enum MatmulMethod {
    Plain(Kernel),
    Production(Matmul<f32>),
    Tensor(TensorMatmul<f32>),
}

impl RungMatmul {
    /// Returns the production rung with the strategy of `matmul`.
    pub fn production(product: Product<f32>, matmul: Matmul<f32>) -> Self {
        Self { variant: MatmulVariant::Production, product, method: MatmulMethod::Production(matmul) }
    }

    /// Compiles the rung. Returns `None` if the device or the dimensions do not allow it: one block
    /// is limited to 32 × 32 numbers, and tensor cores to multiples of their tiles.
    pub fn new(
        device: &Device,
        variant: MatmulVariant,
        product: Product<f32>,
    ) -> Result<Option<Self>, DeviceError> {
        let plain = |name: &str| -> Result<MatmulMethod, DeviceError> {
            Ok(MatmulMethod::Plain(device.build(&RUNGS, &[], Math::Precise)?.kernel(name)?))
        };
        let method = match variant {
            MatmulVariant::Addition if product.m != product.k || product.n != product.k => return Ok(None),
            MatmulVariant::Addition => plain("add")?,
            MatmulVariant::OneBlock if product.m > 32 || product.n > 32 => return Ok(None),
            MatmulVariant::OneBlock => plain("one_block")?,
            MatmulVariant::ManyBlocks => plain("many_blocks")?,
            MatmulVariant::SharedTiles => plain("shared_tiles")?,
            MatmulVariant::RegisterTiles => plain("register_tiles")?,
            MatmulVariant::DoubleBuffered => {
                MatmulMethod::Production(Matmul::with_strategy(device, &product, DOUBLE_BUFFERED)?)
            }
            MatmulVariant::Production => MatmulMethod::Production(Matmul::new(device, &product)?),
            MatmulVariant::Tf32 => {
                if !TensorMatmul::<f32>::is_supported(device) || !TensorMatmul::fits(&product) {
                    return Ok(None);
                }
                MatmulMethod::Tensor(TensorMatmul::new(device)?)
            }
        };
        Ok(Some(Self { variant, product, method }))
    }

    /// Returns the grid and the block of a plain kernel.
    fn launch_sizes(&self) -> (Dim3, Dim3) {
        let tiles = |tile: usize| {
            [self.product.n.div_ceil(tile).max(1) as u32, self.product.m.div_ceil(tile).max(1) as u32].into()
        };
        match self.variant {
            MatmulVariant::Addition => (tiles(16), [16, 16].into()),
            MatmulVariant::OneBlock => (1.into(), [32, 32].into()),
            MatmulVariant::RegisterTiles => (tiles(64), 256.into()),
            _ => (tiles(32), [32, 32].into()),
        }
    }

    /// Returns the kernel and its block size, for reports.
    pub fn kernel(&self) -> (&Kernel, u32) {
        match &self.method {
            MatmulMethod::Plain(kernel) => (kernel, self.launch_sizes().1.count() as u32),
            MatmulMethod::Production(matmul) => matmul.kernel(),
            MatmulMethod::Tensor(matmul) => matmul.kernel(),
        }
    }

    /// Queues the product, or the sum of the warm-up.
    pub fn launch(
        &self,
        queue: &Queue,
        a: &Buffer<f32>,
        b: &Buffer<f32>,
        c: &Buffer<f32>,
    ) -> Result<(), DeviceError> {
        let kernel = match &self.method {
            MatmulMethod::Plain(kernel) => kernel,
            MatmulMethod::Production(matmul) => return matmul.launch(queue, a, b, c),
            MatmulMethod::Tensor(matmul) => return matmul.launch(queue, &self.product, [a, b, c]),
        };
        let [m, n, k] = check_shapes(&self.product, [a, b, c])?.map(Into::into);
        let (grid, block) = self.launch_sizes();
        queue.launch(kernel, grid, block, &[a.into(), b.into(), c.into(), m, n, k])
    }
}

/// Returns the number of C that a rung must compute, and the largest error of its rounding.
pub(super) fn expected_with_bound<T: MatrixNumber>(
    product: &Product<T>,
    a: &[T],
    b: &[T],
    row: usize,
    column: usize,
    factor_error: f64,
) -> (f64, f64) {
    let (a, b) = (product.view_a(a), product.view_b(b));
    let (mut sum, mut magnitude) = (0.0, 0.0);
    for p in 0..product.k {
        let term = a.get(row, p).to_f64() * b.get(p, column).to_f64();
        sum += term;
        magnitude += term.abs();
    }
    // γ of k products and sums that are rounded separately, and two factors with their own error.
    let roundings = (product.k + 1) as f64 * T::HALF_ULP;
    (sum, (roundings / (1.0 - roundings) + 2.0 * factor_error) * magnitude)
}
