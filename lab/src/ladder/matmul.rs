//! Ladder of matrix products C = A B of n × n numbers, from three loops on the CPU to tensor cores.

use std::fmt::Display;

use orrery_device::{Buffer, Device, DeviceError, Kernel};
use orrery_measure::MeasureError;
use orrery_measure::format::format_number;
use orrery_measure::timing::{Times, largest_affordable_size};
use orrery_model::Precision;

use super::repeats::{max_run_seconds, time_rung_on_cpu, time_rung_on_device};
use super::{Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, Roofs, RungResult, TimedRuns, Work};
use crate::primitives::bench::MATMUL_F32;
use crate::primitives::matmul::rungs::{LoopOrder, MatmulVariant, RungMatmul, multiply_in_order, rungs};
use crate::primitives::matmul::selftest::random_matrix;
use crate::primitives::matmul::{Matmul, MatmulStrategy, MatrixNumber, Product, TensorMatmul, matmul_on_cpu};

pub static LADDER: LadderEntry = LadderEntry {
    name: "matmul",
    description: "Product of two matrices, from three loops to tiles in registers",
    title: "matrix product of f32",
    size_unit: "rows and columns",
    // A, B and C in f64.
    host_bytes: |n| (n as u64).saturating_mul(n as u64).saturating_mul(3 * 8),
    sizes: DefaultSizes { gpu: 4096, opencl_cpu: 256, host: 1024 },
    counted: Counted { item: "flop", rate_unit: "flops/s", heading: "GFLOP/s", to_column: |rate| rate / 1e9 },
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
    let host_roofs = ladder.host_roofs;
    ladder.roofs = request.device.map_or(Ok(host_roofs), Roofs::of_device)?;
    ladder.roof = ladder.roofs.peak_roof();
    ladder.remarks =
        vec!["error: largest error of 256 numbers of C, relative to the sum of |a b|".to_owned()];
    measure_on_cpu(request, ladder, &host_roofs)?;
    let Some(device) = request.device else { return Ok(()) };
    for rung in rungs() {
        (request.progress)(rung.name);
        let n = if rung.variant == MatmulVariant::OneBlock { request.n.min(ONE_BLOCK) } else { request.n };
        let product = Product::<f32>::new(n, n, n);
        let tuned = request.tuning.and_then(|tuning| tuning.tuned_candidate(MATMUL_F32, n * n));
        let compiled = match (rung.variant, tuned) {
            (MatmulVariant::Production, Some(candidate)) => {
                let strategy = MatmulStrategy::CANDIDATES[candidate];
                ladder.remarks.push(format!("tuned: {}", strategy.name()));
                let matmul = Matmul::with_strategy(device, &product, strategy)?;
                Some(RungMatmul::production(product, matmul))
            }
            _ => RungMatmul::new(device, rung.variant, product)?,
        };
        let Some(matmul) = compiled else {
            ladder.remarks.push(format!("{}: not on this device, or not for this size", rung.name));
            continue;
        };
        let matrices = ProductMatrices::upload(device, n)?;
        let mut measured =
            matrices.measure(device, matmul.kernel(), |[a, b, c]| matmul.launch(device.queue(), a, b, c))?;
        if rung.variant == MatmulVariant::Addition {
            measured = measured.for_addition(n);
        }
        ladder.add_rung(RungResult {
            name: rung.name.to_owned(),
            note: describe_access(rung.flops_per_access, rung.note),
            work: Work { flops: Some(1.0), bytes: Some(4.0 / rung.flops_per_access) },
            roof: ladder.roofs.peak_flops(Precision::Single),
            ..measured
        });
    }
    if device.properties().has_f64 {
        measure_f64(request, ladder, device)?;
    }
    Ok(())
}

/// Returns a note that starts with the operations per number from device memory.
fn describe_access(flops_per_access: f64, note: impl Display) -> String {
    let unit = if flops_per_access == 1.0 { "flop" } else { "flops" };
    format!("{} {unit} per number loaded or stored; {note}", format_number(flops_per_access))
}

fn measure_on_cpu(
    request: &mut LadderRequest,
    ladder: &mut Ladder,
    roofs: &Roofs,
) -> Result<(), MeasureError> {
    let roof = roofs.peak_flops(Precision::Single);
    for order in LoopOrder::ALL {
        (request.progress)(order.name());
        let multiply = |n: usize, [a, b]: [&[f32]; 2], c: &mut [f32]| {
            multiply_in_order(order, &Product::new(n, n, n), a, b, c);
        };
        let rung = measure_cpu_rung(request.n, BYTES_PER_FLOP_OF_LOOPS, multiply)?;
        let (name, note) = (order.name().to_owned(), order.note().to_owned());
        ladder.add_rung(RungResult { name, note, roof, ..rung });
    }
    let blocked = |n: usize, [a, b]: [&[f32]; 2], c: &mut [f32]| {
        matmul_on_cpu(&Product::new(n, n, n), a, b, c);
    };
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let one_thread =
        one_thread.map_err(|error| MeasureError::Threads { threads: 1, cause: error.to_string() })?;
    (request.progress)("CPU, one thread, SIMD");
    let rung = one_thread.install(|| measure_cpu_rung(request.n, BYTES_PER_FLOP_OF_BLOCKS, blocked))?;
    let note = "tiles of C in registers, packed blocks of A and B in caches".to_owned();
    ladder.add_rung(RungResult { name: "CPU, one thread, SIMD".to_owned(), note, roof, ..rung });
    (request.progress)("CPU, all cores");
    let rung = measure_cpu_rung(request.n, BYTES_PER_FLOP_OF_BLOCKS, blocked)?;
    ladder.add_rung(RungResult { name: "CPU, all cores".to_owned(), roof, ..rung });
    Ok(())
}

/// Measures a product of at most `n` rows and columns on the CPU.
fn measure_cpu_rung(
    n: usize,
    bytes_per_flop: f64,
    multiply: impl Fn(usize, [&[f32]; 2], &mut [f32]) + Sync,
) -> Result<RungResult, MeasureError> {
    let matrices = |n: usize| [random_matrix::<f32>(n * n, 1), random_matrix(n * n, 2)];
    let time_size = |n: usize| {
        let ([a, b], c) = (matrices(n), std::cell::RefCell::new(vec![0.0; n * n]));
        let times = time_rung_on_cpu(|| multiply(n, [&a, &b], &mut c.borrow_mut()));
        Ok::<_, MeasureError>((times, [a, b, c.into_inner()]))
    };
    // The work grows as n³, the search assumes n². The limit for the search is therefore lower.
    let (n, _) = largest_affordable_size(n, 0.25 * max_run_seconds(), |n| {
        time_size(n).map(|(times, _)| times.median())
    })?;
    let (times, [a, b, c]) = time_size(n)?;
    let error = largest_error(n, &a, &b, &c);
    let runs = TimedRuns { n, items: Product::<f32>::new(n, n, n).flops(), times };
    Ok(RungResult {
        error: Some(error),
        work: Work { flops: Some(1.0), bytes: Some(bytes_per_flop) },
        ..RungResult::new("", &runs)
    })
}

/// Products of f64 with the production kernel and with tensor cores.
fn measure_f64(
    request: &mut LadderRequest,
    ladder: &mut Ladder,
    device: &Device,
) -> Result<(), MeasureError> {
    let n = request.n;
    let product = Product::<f64>::new(n, n, n);
    let matrices = ProductMatrices::<f64>::upload(device, n)?;
    let roof = ladder.roofs.peak_flops(Precision::Double);
    let mut add = |name: &str, measured: RungResult, flops_per_access: f64, note: &str| {
        ladder.add_rung(RungResult {
            name: name.to_owned(),
            note: describe_access(flops_per_access, note),
            work: Work { flops: Some(1.0), bytes: Some(8.0 / flops_per_access) },
            roof,
            ..measured
        });
    };
    (request.progress)("tuned, f64");
    let matmul = Matmul::new(device, &product)?;
    let measured =
        matrices.measure(device, matmul.kernel(), |[a, b, c]| matmul.launch(device.queue(), a, b, c))?;
    add("tuned, f64", measured, 2.0 * 128.0 * 64.0 / 192.0, "of peak: the f64 peak without tensor cores");
    if TensorMatmul::<f64>::is_supported(device) && TensorMatmul::fits(&product) {
        (request.progress)("tensor cores, f64");
        let matmul = TensorMatmul::<f64>::new(device)?;
        let measured = matrices
            .measure(device, matmul.kernel(), |buffers| matmul.launch(device.queue(), &product, buffers))?;
        add("tensor cores, f64", measured, 128.0, "of peak: the f64 peak without tensor cores");
    }
    Ok(())
}

/// Square matrices on the host and on a device.
struct ProductMatrices<T: MatrixNumber> {
    n: usize,
    a: Vec<T>,
    b: Vec<T>,
    buffers: [Buffer<T>; 3],
}

impl<T: MatrixNumber> ProductMatrices<T> {
    fn upload(device: &Device, n: usize) -> Result<Self, DeviceError> {
        let (a, b) = (random_matrix(n * n, 1), random_matrix(n * n, 2));
        let buffers = [device.upload(&a)?, device.upload(&b)?, device.zeros(n * n)?];
        Ok(Self { n, a, b, buffers })
    }

    /// Times a product and measures its error.
    fn measure(
        &self,
        device: &Device,
        (kernel, block_size): (&Kernel, u32),
        launch: impl Fn([&Buffer<T>; 3]) -> Result<(), DeviceError>,
    ) -> Result<RungResult, MeasureError> {
        let n = self.n;
        let times: Times = time_rung_on_device(device, || launch(self.buffers.each_ref()))?;
        let runs = TimedRuns { n, items: Product::<T>::new(n, n, n).flops(), times };
        let resources = kernel.resources();
        Ok(RungResult {
            error: Some(largest_error(n, &self.a, &self.b, &self.buffers[2].to_vec()?)),
            registers: resources.registers,
            shared_bytes: Some(resources.shared_bytes),
            occupancy: kernel.occupancy(block_size),
            ..RungResult::new("", &runs)
        })
    }
}

impl RungResult {
    /// Converts the result of a product to that of a sum: n² operations, and no error of a product.
    fn for_addition(self, n: usize) -> Self {
        Self { rate: (n * n) as f64 / self.seconds, error: None, ..self }
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
