//! Input, measurement and check of the production primitives: sum, scan and sort.

use std::fmt::Display;

use orrery_device::{Device, DeviceError};
use orrery_primitives::PrimitiveNumber;
use orrery_primitives::reduce::{self, Reduce, ReduceOperation, ReduceStrategy};
use orrery_primitives::scan::{self, Scan, ScanKind, ScanStrategy};
use orrery_primitives::sort::{self, Sort, SortKey, SortStrategy};
use rayon::prelude::*;

use super::verify::{first_difference, first_unsorted};
use super::{CheckedTimes, PrimitiveCase, PrimitiveWork, random_elements, small_whole_number};
use crate::bench::BenchPlace;
use crate::timing::Times;

const NUMBER_READ: PrimitiveWork = PrimitiveWork::BytesPerElement(4.0);
const NUMBER_READ_AND_WRITTEN: PrimitiveWork = PrimitiveWork::BytesPerElement(8.0);
const KEYS: PrimitiveWork = PrimitiveWork::Operations { count: |n| n as f64, unit: "keys/s" };

/// Sum of f32.
pub static SUM_F32: &PrimitiveCase =
    &PrimitiveCase::new("sum", "f32", NUMBER_READ, sum_candidates, measure_sum);
/// Inclusive scan (prefix sum) of f32.
pub static SCAN_F32: &PrimitiveCase =
    &PrimitiveCase::new("scan", "f32", NUMBER_READ_AND_WRITTEN, scan_candidates, |bench, n, candidate| {
        measure_scan(bench, candidate, random_elements(n, small_whole_number))
    });
/// Inclusive scan (prefix sum) of u32.
pub static SCAN_U32: &PrimitiveCase =
    &PrimitiveCase::new("scan", "u32", NUMBER_READ_AND_WRITTEN, scan_candidates, |bench, n, candidate| {
        measure_scan(bench, candidate, random_elements(n, |bits| bits as u32))
    });
/// Sort of pairs of a u64 key and a u32 value.
pub static SORT_U64: &PrimitiveCase =
    &PrimitiveCase::new("sort", "u64 + u32", KEYS, sort_candidates, |bench, n, candidate| {
        measure_sort(bench, candidate, &random_elements(n, |bits| bits))
    })
    .with_sizes(&[1 << 20, 1 << 24], &[1 << 18]);
/// Sort of pairs of a u32 key and a u32 value.
pub static SORT_U32: &PrimitiveCase =
    &PrimitiveCase::new("sort", "u32 + u32", KEYS, sort_candidates, |bench, n, candidate| {
        measure_sort(bench, candidate, &random_elements(n, |bits| bits as u32))
    })
    .with_sizes(&[1 << 20, 1 << 24], &[1 << 18]);

/// Production primitives, in the order of the table.
pub static PRODUCTION_CASES: [&PrimitiveCase; 5] = [SUM_F32, SCAN_F32, SCAN_U32, SORT_U64, SORT_U32];

fn sum_candidates() -> Vec<String> {
    ReduceStrategy::CANDIDATES.iter().map(ReduceStrategy::name).collect()
}

fn scan_candidates() -> Vec<String> {
    ScanStrategy::CANDIDATES.iter().map(ScanStrategy::name).collect()
}

fn sort_candidates() -> Vec<String> {
    SortStrategy::CANDIDATES.iter().map(SortStrategy::name).collect()
}

fn measure_sum(bench: &BenchPlace, n: usize, candidate: Option<usize>) -> Result<CheckedTimes, DeviceError> {
    let (sum, numbers) = (ReduceOperation::Sum, random_elements(n, small_whole_number));
    bench.check(
        || bench.time_on_host(|| (), |()| reduce::reduce_on_cpu(sum, &numbers)),
        |device| {
            let (input, output) = (device.upload(&numbers)?, device.zeros(1)?);
            let strategy = ReduceStrategy::CANDIDATES[candidate.unwrap_or(0)];
            let reduce = Reduce::with_strategy(device, sum, strategy)?;
            let times = bench.time_on_device(device, || reduce.launch(device.queue(), &input, &output))?;
            Ok((times, output.to_vec()?[0]))
        },
        |found| first_difference(&[*found], &[reduce::reduce_reference(sum, &numbers)]),
    )
}

fn measure_scan<T: PrimitiveNumber + Display>(
    bench: &BenchPlace,
    candidate: Option<usize>,
    numbers: Vec<T>,
) -> Result<CheckedTimes, DeviceError> {
    let kind = ScanKind::Inclusive;
    let scan_with = |scan: fn(ScanKind, &mut [T])| {
        move |mut sums: Vec<T>| {
            scan(kind, &mut sums);
            sums
        }
    };
    bench.check(
        || bench.time_on_host(|| numbers.clone(), scan_with(scan::scan_on_cpu)),
        |device| {
            let (input, output) = (device.upload(&numbers)?, device.zeros(numbers.len())?);
            let strategy = candidate.map_or_else(ScanStrategy::default, |i| ScanStrategy::CANDIDATES[i]);
            let mut scan = Scan::with_strategy(device, kind, strategy)?;
            let times = bench.time_on_device(device, || scan.launch(device.queue(), &input, &output))?;
            Ok((times, output.to_vec()?))
        },
        |sums| first_difference(sums, &scan_with(scan::scan_reference)(numbers.clone())),
    )
}

/// Measures a sort with indices as values.
fn measure_sort<K: SortKey + Display>(
    bench: &BenchPlace,
    candidate: Option<usize>,
    keys: &[K],
) -> Result<CheckedTimes, DeviceError> {
    let values: Vec<u32> = (0..keys.len()).into_par_iter().map(|i| i as u32).collect();
    let sort_on_cpu = |(mut keys, mut values): SortedPairs<K>| {
        sort::sort_on_cpu(&mut keys, &mut values);
        (keys, values)
    };
    bench.check(
        || bench.time_on_host(|| (keys.to_vec(), values.clone()), sort_on_cpu),
        |device| time_sort(bench, device, keys, &values, candidate.map(|i| SortStrategy::CANDIDATES[i])),
        |(sorted_keys, sorted_values)| first_unsorted(keys, sorted_keys, sorted_values),
    )
}

/// Keys and values in the order of the keys.
type SortedPairs<K> = (Vec<K>, Vec<u32>);

/// Measures a sort on a device, with the default strategy if none is given.
fn time_sort<K: SortKey>(
    bench: &BenchPlace,
    device: &Device,
    keys: &[K],
    values: &[u32],
    strategy: Option<SortStrategy>,
) -> Result<(Times, SortedPairs<K>), DeviceError> {
    let unsorted = (device.upload(keys)?, device.upload(values)?);
    let (sorted_keys, sorted_values) = (device.zeros(keys.len())?, device.zeros(keys.len())?);
    let mut sort = match strategy {
        None => Sort::new(device, keys.len())?,
        Some(strategy) => {
            let has_wide_offsets = u32::try_from(keys.len()).is_err();
            Sort::with_strategy(device, keys.len(), SortStrategy { has_wide_offsets, ..strategy })?
        }
    };
    let restore = || {
        device.queue().copy(&unsorted.0, &sorted_keys)?;
        device.queue().copy(&unsorted.1, &sorted_values)
    };
    let launch = || sort.launch(device.queue(), &sorted_keys, &sorted_values);
    let times = bench.time_with_restore(device, restore, launch)?;
    Ok((times, (sorted_keys.to_vec()?, sorted_values.to_vec()?)))
}
