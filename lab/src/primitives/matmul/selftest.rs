//! Checks of the matrix product on one device, for `orrery selftest` and the tests. The production
//! kernel must give the bits of the reference. Rungs on tensor cores must be within their error
//! bound.

use orrery_device::check::Check;
use orrery_device::testing::random_bits;
use orrery_device::{Device, DeviceError, DeviceKind};

use super::rungs::{MatmulRung, MatmulVariant, RungMatmul, expected_with_bound};
use super::{Matmul, MatmulStrategy, MatrixNumber, Product, TensorMatmul, matmul_reference};
use crate::ladder::check_rungs;

/// Largest relative error of a number that is rounded to TF32.
const TF32_ERROR: f64 = 1.0 / 2048.0;

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("primitives: matmul {name}"), run };
    vec![
        check("f32", every_shape::<f32>),
        check("f64", |device| if device.properties().has_f64 { every_shape::<f64>(device) } else { Ok(()) }),
        check("of transposed matrices", transposed),
        check("with alpha and beta", coefficients),
        check("by every strategy", every_strategy),
        check("by every rung of its ladder", check_rungs::<MatmulRung>),
        check("on tensor cores", on_tensor_cores),
    ]
}

/// m, n and k: single numbers, rows and columns, and sizes around the borders of tiles and vectors.
pub(super) const SHAPES: [[usize; 3]; 11] = [
    [1, 1, 1],
    [1, 7, 3],
    [5, 1, 129],
    [3, 4, 0],
    [0, 5, 2],
    [31, 33, 32],
    [32, 32, 8],
    [33, 65, 17],
    [64, 64, 64],
    [127, 36, 40],
    [130, 129, 9],
];

/// Returns a matrix of numbers between -1 and 1.
pub fn random_matrix<T: MatrixNumber>(len: usize, seed: u64) -> Vec<T> {
    let number = |i: u64| (random_bits(i ^ (seed << 40)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
    (0..len as u64).map(|i| T::from_f64(number(i))).collect()
}

/// Returns random matrices A, B and C for a product.
pub(super) fn random_matrices<T: MatrixNumber>(product: &Product<T>) -> [Vec<T>; 3] {
    let [a, b, c] = product.lengths();
    [random_matrix(a, 1), random_matrix(b, 2), random_matrix(c, 3)]
}

/// Requires the bits of the reference.
fn compare<T: MatrixNumber>(
    device: &Device,
    product: &Product<T>,
    strategy: Option<MatmulStrategy>,
) -> Result<(), String> {
    let [a, b, mut expected] = random_matrices(product);
    let run = || -> Result<Vec<T>, DeviceError> {
        let strategy = strategy.unwrap_or_else(|| MatmulStrategy::default_for(device, product));
        let matmul = Matmul::with_strategy(device, product, strategy)?;
        let [a, b, c] = [device.upload(&a)?, device.upload(&b)?, device.upload(&expected)?];
        matmul.launch(device.queue(), &a, &b, &c)?;
        c.to_vec()
    };
    let found = run().map_err(|error| error.to_string())?;
    matmul_reference(product, &a, &b, &mut expected);
    match found.iter().zip(&expected).position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(i) => Err(format!("{product:?}, number {i}: {:?}, expected {:?}", found[i], expected[i])),
    }
}

fn every_shape<T: MatrixNumber>(device: &Device) -> Result<(), String> {
    SHAPES.into_iter().try_for_each(|[m, n, k]| compare::<T>(device, &Product::new(m, n, k), None))
}

fn transposed(device: &Device) -> Result<(), String> {
    for [m, n, k] in [[1, 1, 1], [33, 65, 17], [64, 36, 40], [36, 40, 64]] {
        for (transposed_a, transposed_b) in [(true, false), (false, true), (true, true)] {
            compare::<f32>(device, &Product { transposed_a, transposed_b, ..Product::new(m, n, k) }, None)?;
        }
    }
    Ok(())
}

fn coefficients(device: &Device) -> Result<(), String> {
    for (alpha, beta) in [(-0.5, 0.0), (1.0, 1.0), (0.3, -1.7), (0.0, 2.0)] {
        for [m, n, k] in [[33, 65, 17], [64, 64, 16], [3, 4, 0]] {
            compare::<f32>(device, &Product { alpha, beta, ..Product::new(m, n, k) }, None)?;
        }
    }
    // With beta = 0, NaN in C does not reach the result.
    let product = Product::<f32>::new(2, 2, 1);
    let run = || -> Result<Vec<f32>, DeviceError> {
        let c = device.upload(&[f32::NAN; 4])?;
        let ones = device.upload(&[1.0; 2])?;
        Matmul::new(device, &product)?.launch(device.queue(), &ones, &ones, &c)?;
        c.to_vec()
    };
    let found = run().map_err(|error| error.to_string())?;
    if found == [1.0; 4] { Ok(()) } else { Err(format!("NaN in C: found {found:?}, expected 1")) }
}

/// The strategies that a GPU uses by default, and there all candidates. A CPU has its own, which
/// the other checks cover.
fn every_strategy(device: &Device) -> Result<(), String> {
    let small = MatmulStrategy { tile_m: 64, tile_n: 64, tile_k: 16, rows: 4, columns: 4, min_blocks: 2 };
    let large = MatmulStrategy { tile_m: 128, tile_n: 128, tile_k: 8, rows: 8, columns: 8, ..small };
    let is_gpu = device.properties().kind == DeviceKind::Gpu;
    let candidates = MatmulStrategy::CANDIDATES.into_iter().filter(|_| is_gpu);
    for strategy in [small, large].into_iter().chain(candidates) {
        for [m, n, k] in [[130, 129, 9], [128, 136, 20]] {
            compare::<f32>(device, &Product::new(m, n, k), Some(strategy))?;
        }
    }
    if device.properties().has_f64 {
        let wide = MatmulStrategy { tile_m: 128, tile_n: 64, tile_k: 8, rows: 8, columns: 4, ..small };
        compare::<f64>(device, &Product::new(130, 66, 10), Some(wide))?;
    }
    Ok(())
}

/// Compares the products of an algorithm with the sums in f64.
pub fn check_variant(device: &Device, variant: MatmulVariant) -> Result<(), String> {
    let gpu_only = [[256, 512, 96]];
    let shapes = [[1, 1, 1], [17, 31, 5], [33, 65, 17], [64, 64, 64], [1, 40, 33], [7, 1, 2]];
    let is_gpu = device.properties().kind == DeviceKind::Gpu;
    for [m, n, k] in shapes.into_iter().chain(gpu_only.into_iter().filter(|_| is_gpu)) {
        let product = Product::<f32>::new(m, n, k);
        let [a, b, c] = random_matrices(&product);
        let run = || -> Result<Option<Vec<f32>>, DeviceError> {
            let Some(matmul) = RungMatmul::new(device, variant, product)? else { return Ok(None) };
            let [a, b, c] = [device.upload(&a)?, device.upload(&b)?, device.upload(&c)?];
            matmul.launch(device.queue(), &a, &b, &c)?;
            c.to_vec().map(Some)
        };
        let Some(found) = run().map_err(|error| error.to_string())? else { continue };
        check_rung(variant, &product, &a, &b, &found)?;
    }
    Ok(())
}

/// Requires that every number is within the error bound of its sum.
fn check_rung(
    variant: MatmulVariant,
    product: &Product<f32>,
    a: &[f32],
    b: &[f32],
    found: &[f32],
) -> Result<(), String> {
    let factor_error = if variant == MatmulVariant::Tf32 { TF32_ERROR } else { 0.0 };
    for (i, &number) in found.iter().enumerate() {
        let (row, column) = (i / product.n, i % product.n);
        let (expected, bound) = if variant == MatmulVariant::Addition {
            (f64::from(a[i] + b[i]), 0.0)
        } else {
            expected_with_bound(product, a, b, row, column, factor_error)
        };
        let error = (f64::from(number) - expected).abs();
        if error.is_nan() || error > bound {
            return Err(format!(
                "{} x {} x {}, row {row}, column {column}: {number}, expected {expected} +- {bound:.1e}",
                product.m, product.n, product.k
            ));
        }
    }
    Ok(())
}

/// f64 on tensor cores. TF32 is a rung of the ladder.
fn on_tensor_cores(device: &Device) -> Result<(), String> {
    if !TensorMatmul::<f64>::is_supported(device) {
        return Ok(());
    }
    let product = Product::<f64>::new(256, 384, 48);
    let [a, b, c] = random_matrices(&product);
    let run = || -> Result<Vec<f64>, DeviceError> {
        let [a, b, c] = [device.upload(&a)?, device.upload(&b)?, device.upload(&c)?];
        TensorMatmul::new(device)?.launch(device.queue(), &product, [&a, &b, &c])?;
        c.to_vec()
    };
    let found = run().map_err(|error| error.to_string())?;
    for (i, &number) in found.iter().enumerate() {
        let (row, column) = (i / product.n, i % product.n);
        let (expected, bound) = expected_with_bound(&product, &a, &b, row, column, 0.0);
        // The expected sum is itself rounded in f64, hence twice the bound.
        let error = (number - expected).abs();
        if error.is_nan() || error > 2.0 * bound {
            return Err(format!("row {row}, column {column}: {number}, expected {expected} +- {bound:.1e}"));
        }
    }
    Ok(())
}
