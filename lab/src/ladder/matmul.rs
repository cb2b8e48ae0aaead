//! Ladder of matrix products C = A B of n × n numbers, from three loops on the CPU to tensor cores.

use orrery_device::{Buffer, Device, DeviceError};
use orrery_measure::MeasureError;
use orrery_measure::format::format_number;
use orrery_measure::timing::largest_affordable_size;
use orrery_model::Precision;
use rayon::ThreadPool;

use super::repeats::{build_thread_pool, max_run_seconds, repeat_count};
use super::rung::kernel_use;
use super::{
    CheckedRung, Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, LadderRung, PrepareResult,
    PreparedRung, Roofs, RungClock, RungDetails, RungLabel, RungLimit, RungSet, TimedRuns, Work,
};
use crate::primitives::bench::MATMUL_F32;
use crate::primitives::matmul::rungs::{
    LoopOrder, MatmulRung, MatmulVariant, RungMatmul, multiply_in_order, rungs,
};
use crate::primitives::matmul::selftest::{self, random_matrix};
use crate::primitives::matmul::{Matmul, MatmulStrategy, MatrixNumber, Product, TensorMatmul, matmul_on_cpu};
use crate::rungs::gravity::ThreadCount;

pub static LADDER: LadderEntry = LadderEntry {
    name: "matmul",
    description: "Product of two matrices, from three loops to tiles in registers",
    title: "matrix product of f32",
    size_unit: "rows and columns",
    // A, B and C in f64.
    host_bytes: |n| (n as u64).saturating_mul(n as u64).saturating_mul(3 * 8),
    sizes: DefaultSizes { gpu: 4096, opencl_cpu: 256, host: 1024 },
    counted: Counted { item: "flop", rate_unit: "flops/s", heading: "GFLOP/s", to_column: |rate| rate / 1e9 },
    rungs: &[RungSet::of::<MatmulRung>()],
    measure,
};

/// Largest matrix that a single block can compute.
const ONE_BLOCK: usize = 32;
/// Two numbers of f32 per multiply-add.
const BYTES_PER_FLOP_OF_LOOPS: f64 = 2.0 * 4.0 / 2.0;
/// A tile of 12 x 32 numbers of C takes 44 numbers per step along k.
const BYTES_PER_FLOP_OF_BLOCKS: f64 = 44.0 * 4.0 / (2.0 * 12.0 * 32.0);
/// Rows and columns of C whose error is measured.
const CHECKED_NUMBERS: usize = 16;

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    ladder.roofs = request.device.map_or(Ok(ladder.host_roofs), Roofs::of_device)?;
    ladder.roof = ladder.roofs.peak_roof();
    ladder.remarks =
        vec!["error: largest error of 256 numbers of C, relative to the sum of |a b|".to_owned()];
    measure_on_host(request, ladder)?;
    let Some(device) = request.device else { return Ok(()) };
    let tuned = request.tuning.and_then(|tuning| tuning.tuned_candidate(MATMUL_F32, request.n * request.n));
    let tuned = tuned.map(|candidate| MatmulStrategy::CANDIDATES[candidate]);
    let input = MatmulInput { device: device.clone(), tuned };
    for rung in rungs() {
        if let (MatmulVariant::Production, Some(strategy)) = (rung.variant, tuned) {
            ladder.remarks.push(format!("tuned: {}", strategy.name()));
        }
        if !ladder.measure_rung(request, &rung, &input)? {
            ladder.remarks.push(format!("{}: not on this device, or not for this size", rung.name));
        }
    }
    if device.properties().has_f64 {
        measure_f64(request, ladder, device)?;
    }
    Ok(())
}

/// Device, and the strategy that the tuner found.
pub struct MatmulInput {
    device: Device,
    tuned: Option<MatmulStrategy>,
}

impl LadderRung for MatmulRung {
    type Input = MatmulInput;

    /// Tensor cores need multiples of their tiles.
    const TEST_SIZE: usize = 256;

    fn all(_: &Device) -> Vec<Self> {
        rungs()
    }

    fn new_input(device: &Device, _: usize) -> Result<MatmulInput, MeasureError> {
        Ok(MatmulInput { device: device.clone(), tuned: None })
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel::new(self.name, describe_access(self.flops_per_access, self.note))
    }

    fn prepare<'a>(
        &'a self,
        MatmulInput { device, tuned }: &'a MatmulInput,
        n: usize,
        _: usize,
    ) -> PrepareResult<'a> {
        let n = if self.variant == MatmulVariant::OneBlock { n.min(ONE_BLOCK) } else { n };
        let product = Product::<f32>::new(n, n, n);
        let matmul = match (self.variant, tuned) {
            (MatmulVariant::Production, Some(strategy)) => {
                let matmul = Matmul::with_strategy(device, &product, *strategy)?;
                Some(RungMatmul::production(product, matmul))
            }
            _ => RungMatmul::new(device, self.variant, product)?,
        };
        let Some(matmul) = matmul else { return Ok(None) };
        let kernel = matmul.kernel();
        let kernel = kernel_use(kernel.0, kernel.1);
        let mut matrices = ProductMatrices::upload(device, n)?;
        if self.variant == MatmulVariant::Addition {
            (matrices.items, matrices.has_error) = ((n * n) as f64, false);
        }
        let launch = move |[a, b, c]: [&Buffer<f32>; 3]| matmul.launch(device.queue(), a, b, c);
        let prepared = matrices.prepare(device, Precision::Single, self.flops_per_access, launch);
        Ok(Some(prepared.with_kernel(kernel)))
    }
}

impl CheckedRung for MatmulRung {
    fn check(&self, device: &Device) -> Result<(), String> {
        selftest::check_variant(device, self.variant)
    }
}

/// Adds the products of f64 by the production kernel and by tensor cores.
fn measure_f64(
    request: &mut LadderRequest,
    ladder: &mut Ladder,
    device: &Device,
) -> Result<(), MeasureError> {
    type Launch<'l> = dyn Fn([&Buffer<f64>; 3]) -> Result<(), DeviceError> + 'l;
    let (n, precision) = (request.n, Precision::Double);
    let product = Product::<f64>::new(n, n, n);
    let mut add = |name, flops_per_access, (kernel, block_size), launch: &Launch| {
        let matrices = ProductMatrices::upload(device, n)?;
        let prepared = matrices.prepare(device, precision, flops_per_access, launch);
        let note = describe_access(flops_per_access, "of peak: the f64 peak without tensor cores");
        let prepared = prepared.with_kernel(kernel_use(kernel, block_size));
        ladder.measure_prepared(request, name, &note, prepared)
    };
    let matmul = Matmul::new(device, &product)?;
    let launch = |[a, b, c]: [&Buffer<f64>; 3]| matmul.launch(device.queue(), a, b, c);
    add("tuned, f64", 2.0 * 128.0 * 64.0 / 192.0, matmul.kernel(), &launch)?;
    if TensorMatmul::<f64>::is_supported(device) && TensorMatmul::fits(&product) {
        let matmul = TensorMatmul::<f64>::new(device)?;
        let launch = |matrices: [&Buffer<f64>; 3]| matmul.launch(device.queue(), &product, matrices);
        add("tensor cores, f64", 128.0, matmul.kernel(), &launch)?;
    }
    Ok(())
}

/// Returns a note that starts with the operations per number from device memory.
fn describe_access(flops_per_access: f64, note: &str) -> String {
    let unit = if flops_per_access == 1.0 { "flop" } else { "flops" };
    format!("{} {unit} per number loaded or stored; {note}", format_number(flops_per_access))
}

/// Computes C of a product from A and B.
type MultiplyOnHost = dyn Fn(&Product<f32>, [&[f32]; 2], &mut [f32]) + Sync;

/// Product on the CPU.
struct HostMatmul<'p> {
    label: RungLabel<'static>,
    bytes_per_flop: f64,
    pool: Option<&'p ThreadPool>,
    multiply: Box<MultiplyOnHost>,
}

impl HostMatmul<'_> {
    /// Builds a product of `n` rows and columns.
    fn prepare(&self, n: usize) -> PreparedRung<'_> {
        let product = Product::<f32>::new(n, n, n);
        let (items, state) = (product.flops(), HostMatrices::new(n));
        let multiply = move |HostMatrices { a, b, c, .. }: &mut HostMatrices| {
            let mut run = || (self.multiply)(&product, [a, b], c);
            match self.pool {
                Some(pool) => pool.install(run),
                None => run(),
            }
            Ok::<_, MeasureError>(())
        };
        let details = |HostMatrices { n, a, b, c }: &mut HostMatrices, _: &TimedRuns| {
            Ok(RungDetails { error: Some(largest_error(*n, a, b, c)), ..RungDetails::default() })
        };
        let work = Work { flops: Some(1.0), bytes: Some(self.bytes_per_flop) };
        PreparedRung::with_details(RungClock::Host, n, items, state, multiply, details)
            .with_work(work, RungLimit::Flops(Precision::Single))
    }
}

/// Square matrices on the host.
struct HostMatrices {
    n: usize,
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

impl HostMatrices {
    fn new(n: usize) -> Self {
        Self { n, a: random_matrix(n * n, 1), b: random_matrix(n * n, 2), c: vec![0.0; n * n] }
    }
}

fn measure_on_host(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let one_thread = build_thread_pool(ThreadCount::One)?;
    let blocked = |name, note, pool| HostMatmul {
        label: RungLabel::new(name, note),
        bytes_per_flop: BYTES_PER_FLOP_OF_BLOCKS,
        pool,
        multiply: Box::new(|product, [a, b], c| matmul_on_cpu(product, a, b, c)),
    };
    let loops = LoopOrder::ALL.map(|order| HostMatmul {
        label: RungLabel::new(order.name(), order.note()),
        bytes_per_flop: BYTES_PER_FLOP_OF_LOOPS,
        pool: None,
        multiply: Box::new(move |product, [a, b], c| multiply_in_order(order, product, a, b, c)),
    });
    let note = "tiles of C in registers, packed blocks of A and B in caches";
    let others =
        [blocked("CPU, one thread, SIMD", note, Some(&one_thread)), blocked("CPU, all cores", "", None)];
    for matmul in loops.into_iter().chain(others) {
        let (name, note) = (&matmul.label.name, &matmul.label.note);
        // The work grows as n³, the search assumes n². The limit for the search is therefore lower.
        let time_size = |n| matmul.prepare(n).time_once();
        let (n, run_seconds) = largest_affordable_size(request.n, 0.25 * max_run_seconds(), time_size)?;
        let prepared = matmul.prepare(n).with_repeats(repeat_count(run_seconds));
        ladder.measure_prepared(request, name, note, prepared)?;
    }
    Ok(())
}

/// Square matrices on the host and on a device.
struct ProductMatrices<T: MatrixNumber> {
    n: usize,
    items: f64,
    has_error: bool,
    a: Vec<T>,
    b: Vec<T>,
    buffers: [Buffer<T>; 3],
}

impl<T: MatrixNumber> ProductMatrices<T> {
    fn upload(device: &Device, n: usize) -> Result<Self, DeviceError> {
        let (a, b) = (random_matrix(n * n, 1), random_matrix(n * n, 2));
        let buffers = [device.upload(&a)?, device.upload(&b)?, device.zeros(n * n)?];
        Ok(Self { n, items: Product::<T>::new(n, n, n).flops(), has_error: true, a, b, buffers })
    }

    /// Returns a rung that launches a product, with its error.
    fn prepare<'a>(
        self,
        device: &Device,
        precision: Precision,
        flops_per_access: f64,
        launch: impl Fn([&Buffer<T>; 3]) -> Result<(), DeviceError> + 'a,
    ) -> PreparedRung<'a>
    where
        T: 'a,
    {
        let details = |matrices: &mut Self, _: &TimedRuns| {
            let Self { n, a, b, buffers, .. } = matrices;
            let error = match matrices.has_error {
                true => Some(largest_error(*n, a, b, &buffers[2].to_vec()?)),
                false => None,
            };
            Ok(RungDetails { error, ..RungDetails::default() })
        };
        let work = Work { flops: Some(1.0), bytes: Some(size_of::<T>() as f64 / flops_per_access) };
        let run = move |matrices: &mut Self| launch(matrices.buffers.each_ref());
        PreparedRung::with_details(RungClock::of(device), self.n, self.items, self, run, details)
            .with_work(work, RungLimit::Flops(precision))
    }
}

/// Returns the largest error of some numbers of C, relative to the sum of the magnitudes of their
/// terms. NaN in C gives NaN.
fn largest_error<T: MatrixNumber>(n: usize, a: &[T], b: &[T], c: &[T]) -> f64 {
    let step = n.div_ceil(CHECKED_NUMBERS);
    let mut largest: f64 = 0.0;
    for row in (0..n).step_by(step) {
        for column in (0..n).step_by(step) {
            let (mut sum, mut magnitude) = (0.0, 0.0);
            for p in 0..n {
                let term = a[row * n + p].to_f64() * b[p * n + column].to_f64();
                sum += term;
                magnitude += term.abs();
            }
            let error = (c[row * n + column].to_f64() - sum).abs() / magnitude;
            largest = if error.is_nan() { error } else { largest.max(error) };
            if largest.is_nan() {
                return largest;
            }
        }
    }
    largest
}
