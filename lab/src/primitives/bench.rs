//! Input, measurement and check of the primitives of the laboratory, for `bench primitives` and the
//! tuner.

#[cfg(test)]
use orrery_device::Device;
use orrery_device::DeviceError;
use orrery_measure::bench::BenchPlace;
use orrery_measure::bench::primitives::{
    CheckedTimes, PrimitiveCase, PrimitiveWork, first_difference, random_elements, small_whole_number,
};
use rayon::prelude::*;

use super::histogram::{self, BYTE_BINS, Histogram, HistogramStrategy};
use super::label::{Connectivity, Label, LabelStrategy, MaskShape, RunTiles, label_on_cpu, label_reference};
use super::matmul::{Matmul, MatmulStrategy, Product, matmul_on_cpu};
use super::transpose::{MatrixShape, Transpose, TransposeStrategy, transpose_on_cpu};
#[cfg(test)]
use orrery_measure::tuning::{PrimitiveProblem, TunedEntry, Tuning};

const BYTES: PrimitiveWork = PrimitiveWork::BytesPerElement(1.0);

/// Histogram of random bytes.
pub static HISTOGRAM_RANDOM: &PrimitiveCase =
    &PrimitiveCase::new("histogram", "random", BYTES, histogram_candidates, |bench, n, candidate| {
        measure_histogram(bench, candidate, &random_elements(n, |bits| bits as u8))
    });
/// Histogram of equal bytes, which all increment the same counter.
pub static HISTOGRAM_EQUAL: &PrimitiveCase =
    &PrimitiveCase::new("histogram", "equal", BYTES, histogram_candidates, |bench, n, candidate| {
        measure_histogram(bench, candidate, &vec![7; n])
    });
/// Transpose of a square matrix of f32.
pub static TRANSPOSE_F32: &PrimitiveCase = &PrimitiveCase::new(
    "transpose",
    "f32",
    PrimitiveWork::BytesPerElement(8.0),
    || TransposeStrategy::CANDIDATES.iter().map(TransposeStrategy::name).collect(),
    measure_transpose,
)
.with_sizes(&[1 << 26, 1 << 28], &[1 << 20])
.of_squares();
/// Product of two square matrices of f32, whose elements are whole numbers from -8 to 8. Sums of
/// 2^18 products stay below 2^24, so they are exact.
pub static MATMUL_F32: &PrimitiveCase = &PrimitiveCase::new(
    "matmul",
    "f32",
    PrimitiveWork::Operations { count: |n| 2.0 * (n as f64).powf(1.5), unit: "flops/s" },
    || MatmulStrategy::CANDIDATES.iter().map(MatmulStrategy::name).collect(),
    measure_matmul,
)
.with_sizes(&[1 << 24], &[1 << 16])
.of_squares();
/// Connected components of a square random image at its percolation threshold.
pub static LABEL_IMAGE: &PrimitiveCase = &PrimitiveCase::new(
    "label",
    "image",
    PrimitiveWork::BytesPerElement(5.0),
    || RunTiles::CANDIDATES.iter().map(RunTiles::name).collect(),
    measure_label,
)
.with_sizes(&[1 << 26], &[1 << 20])
.of_squares();

/// Primitives of the laboratory, in the order of the table.
pub static LAB_CASES: [&PrimitiveCase; 5] =
    [HISTOGRAM_RANDOM, HISTOGRAM_EQUAL, TRANSPOSE_F32, MATMUL_F32, LABEL_IMAGE];

fn histogram_candidates() -> Vec<String> {
    HistogramStrategy::CANDIDATES.iter().map(HistogramStrategy::name).collect()
}

fn measure_histogram(
    bench: &BenchPlace,
    candidate: Option<usize>,
    bytes: &[u8],
) -> Result<CheckedTimes, DeviceError> {
    bench.check(
        || bench.time_on_host(|| (), |()| histogram::histogram_on_cpu(bytes).to_vec()),
        |device| {
            let (input, output) = (device.upload(bytes)?, device.zeros(BYTE_BINS)?);
            let strategy = HistogramStrategy::CANDIDATES[candidate.unwrap_or(0)];
            let histogram = Histogram::with_strategy(device, strategy)?;
            let times = bench.time_on_device(device, || histogram.launch(device.queue(), &input, &output))?;
            Ok((times, output.to_vec()?))
        },
        |counts| first_difference(counts, &histogram::histogram_reference(bytes)),
    )
}

fn measure_transpose(
    bench: &BenchPlace,
    n: usize,
    candidate: Option<usize>,
) -> Result<CheckedTimes, DeviceError> {
    let numbers = random_elements(n, |bits| (bits >> 40) as f32);
    let shape = MatrixShape::square(n.isqrt());
    let transpose_on_host = |mut to: Vec<f32>| {
        transpose_on_cpu(shape, &numbers, &mut to);
        to
    };
    bench.check(
        || bench.time_on_host(|| vec![1.0; n], transpose_on_host),
        |device| {
            let strategy = candidate.map(|i| TransposeStrategy::CANDIDATES[i]);
            let strategy = strategy.unwrap_or_else(|| TransposeStrategy::default_for(shape, 4));
            let (from, to) = (device.upload(&numbers)?, device.zeros(n)?);
            let transpose = Transpose::with_strategy(device, shape, strategy)?;
            let times = bench.time_on_device(device, || transpose.launch(device.queue(), &from, &to))?;
            Ok((times, to.to_vec()?))
        },
        |transposed| first_not_transposed(shape, &numbers, transposed),
    )
}

fn measure_matmul(
    bench: &BenchPlace,
    n: usize,
    candidate: Option<usize>,
) -> Result<CheckedTimes, DeviceError> {
    let side = n.isqrt();
    let product = Product::<f32>::new(side, side, side);
    let [a, b] = [0, 32].map(|shift| random_elements(n, |bits| small_whole_number(bits >> shift)));
    let multiply_on_host = |mut c: Vec<f32>| {
        matmul_on_cpu(&product, &a, &b, &mut c);
        c
    };
    bench.check(
        || bench.time_on_host(|| vec![1.0; n], multiply_on_host),
        |device| {
            let strategy = candidate.map(|i| MatmulStrategy::CANDIDATES[i]);
            let strategy = strategy.unwrap_or_else(|| MatmulStrategy::default_for(device, &product));
            let matmul = Matmul::with_strategy(device, &product, strategy)?;
            let [left, right, to] = [device.upload(&a)?, device.upload(&b)?, device.zeros(n)?];
            let times = bench.time_on_device(device, || matmul.launch(device.queue(), &left, &right, &to))?;
            Ok((times, to.to_vec()?))
        },
        |found| first_wrong_product(side, &a, &b, found),
    )
}

/// Fraction of set pixels of a mask: the percolation threshold.
const SET_FRACTION: f64 = 0.593;

/// Returns 1 for the fraction [`SET_FRACTION`] of all random bits, else 0.
fn random_pixel(bits: u64) -> u8 {
    u8::from(((bits >> 11) as f64) < SET_FRACTION * (1u64 << 53) as f64)
}

fn measure_label(
    bench: &BenchPlace,
    n: usize,
    candidate: Option<usize>,
) -> Result<CheckedTimes, DeviceError> {
    let mask = random_elements(n, random_pixel);
    let shape = MaskShape::image(n.isqrt(), n.isqrt());
    let label_with = |label: fn(MaskShape, Connectivity, &[u8], &mut [u32]) -> u32| {
        let mask = &mask;
        move |mut labels: Vec<u32>| {
            label(shape, Connectivity::Faces, mask, &mut labels);
            labels
        }
    };
    // The CPU is compared with the plain reference, and a device with the CPU, which is faster.
    let is_on_cpu = bench.device().is_none();
    bench.check(
        || bench.time_on_host(|| vec![1; n], label_with(label_on_cpu)),
        |device| {
            let strategy = LabelStrategy::Runs(RunTiles::CANDIDATES[candidate.unwrap_or(0)]);
            let mut label = Label::with_strategy(device, shape, Connectivity::Faces, strategy)?;
            let (input, labels, count) = (device.upload(&mask)?, device.zeros(n)?, device.zeros(1)?);
            let times =
                bench.time_on_device(device, || label.launch(device.queue(), &input, &labels, &count))?;
            Ok((times, labels.to_vec()?))
        },
        |found| {
            let expected = label_with(if is_on_cpu { label_reference } else { label_on_cpu });
            first_difference(found, &expected(vec![0; n]))
        },
    )
}

/// Describes the first element of `to` that is not the element of `from`, a matrix of this shape,
/// with row and column exchanged. Tests all elements in parallel, because matrices have up to 2^28.
fn first_not_transposed(shape: MatrixShape, from: &[f32], to: &[f32]) -> Option<String> {
    let expected = |i: usize| from[i % shape.rows * shape.columns + i / shape.rows];
    let index = (0..to.len()).into_par_iter().find_first(|&i| to[i] != expected(i))?;
    Some(format!("result {index} is {}, expected {}", to[index], expected(index)))
}

/// Number of rows of a product that are checked.
const CHECKED_ROWS: usize = 16;

/// Describes the first wrong number among those in some rows of `c`, the product of two squares of
/// `side` x `side` whole numbers. All sums are exact.
fn first_wrong_product(side: usize, a: &[f32], b: &[f32], c: &[f32]) -> Option<String> {
    let rows = (0..CHECKED_ROWS.min(side)).map(|row| row * side / CHECKED_ROWS.min(side));
    for row in rows {
        let mut expected = vec![0.0; side];
        for (factor, b) in a[row * side..][..side].iter().zip(b.chunks(side)) {
            expected.iter_mut().zip(b).for_each(|(sum, b)| *sum += factor * b);
        }
        let column = (0..side).find(|&column| c[row * side + column] != expected[column]);
        if let Some(column) = column {
            let (found, expected) = (c[row * side + column], expected[column]);
            return Some(format!("row {row}, column {column} is {found}, expected {expected}"));
        }
    }
    None
}

/// Returns a tuning with one result: a candidate of a primitive, given by its index, for `n`
/// elements.
#[cfg(test)]
pub(crate) fn tuning_of_candidate(
    device: &Device,
    primitive: &PrimitiveCase,
    candidate: usize,
    n: usize,
) -> Tuning {
    let strategy = primitive.candidate_names().swap_remove(candidate);
    let mut tuning = Tuning::new(device);
    let problem = PrimitiveProblem { primitive: primitive.key(), n };
    tuning.insert(TunedEntry { problem, strategy, seconds: 1e-3 });
    tuning
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use orrery_measure::bench::primitives::{PRODUCTION_CASES, PrimitiveMeasurement};
    use orrery_measure::timing::Times;

    #[test]
    fn every_primitive_is_correct_and_timed_on_the_cpu() {
        let bench = BenchPlace::new(None, Some(3)).unwrap();
        for primitive in LAB_CASES {
            let result = bench.measure_primitive(primitive, 20_011).unwrap();
            assert!(result.times.fastest() > 0.0 && result.times.count() == 3, "{result:?}");
            assert_eq!(result.share_of_copy(), None, "{result:?}");
        }
    }

    #[test]
    fn every_primitive_is_correct_and_timed_on_a_device() {
        let Some(device) = crate::test_device() else { return };
        let bench = BenchPlace::new(Some(&device), Some(2)).unwrap();
        for (primitive, n) in LAB_CASES.into_iter().flat_map(|primitive| [(primitive, 1), (primitive, 5001)])
        {
            let result = bench.measure_primitive(primitive, n).unwrap();
            assert_eq!((result.n, result.times.count()), (primitive.measured_size(n), 2));
            assert_eq!(result.share_of_copy().is_some(), result.to_json()["unit"] == "bytes/s", "{result:?}");
        }
    }

    #[test]
    fn every_candidate_is_measured_and_named() {
        let bench = BenchPlace::new(None, Some(1)).unwrap();
        for primitive in LAB_CASES {
            let results = bench.measure_candidates(primitive, 1000).unwrap();
            let names: Vec<String> = results.iter().filter_map(|result| result.strategy.clone()).collect();
            assert_eq!(names, primitive.candidate_names(), "{primitive:?}");
        }
        assert_eq!(TRANSPOSE_F32.measured_size(1000), 961);
    }

    #[test]
    fn rates_count_the_bytes_that_must_move() {
        let times = Times::from_seconds(vec![3.0, 2.0, 1.0]);
        let result = |primitive| {
            let (times, copy) = (times.clone(), Some(1000.0));
            PrimitiveMeasurement { primitive, strategy: None, n: 100, times, copy }
        };
        assert_eq!(result(HISTOGRAM_EQUAL).bytes_per_s(), Some(50.0));
        assert_eq!(result(LABEL_IMAGE).share_of_copy(), Some(0.25));
        // Two matrices of 10 x 10 numbers take 2000 operations.
        assert_eq!(result(MATMUL_F32).operations_per_s(), Some(1000.0));
        assert_eq!(result(MATMUL_F32).to_json()["unit"], "flops/s");
    }

    #[test]
    fn names_of_primitives_and_of_their_candidates_differ() {
        let cases = [PRODUCTION_CASES, LAB_CASES].concat();
        let keys: HashSet<String> = cases.iter().map(|primitive| primitive.key()).collect();
        assert_eq!(keys.len(), cases.len());
        for primitive in cases {
            let names = primitive.candidate_names();
            let distinct: HashSet<&String> = names.iter().collect();
            assert!(distinct.len() == names.len() && names.len() > 1, "{names:?}");
        }
    }

    #[test]
    fn wrong_transposes_are_detected() {
        let shape = MatrixShape { rows: 2, columns: 3 };
        let from = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(first_not_transposed(shape, &from, &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]), None);
        let difference = first_not_transposed(shape, &from, &[1.0, 4.0, 2.0, 5.0, 6.0, 3.0]).unwrap();
        assert_eq!(difference, "result 4 is 6, expected 3");
    }

    #[test]
    fn wrong_products_are_detected() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]);
        assert_eq!(first_wrong_product(2, &a, &b, &[19.0, 22.0, 43.0, 50.0]), None);
        let difference = first_wrong_product(2, &a, &b, &[19.0, 22.0, 43.0, f32::NAN]).unwrap();
        assert_eq!(difference, "row 1, column 1 is NaN, expected 50");
        assert_eq!(first_wrong_product(0, &[], &[], &[]), None);
    }
}
