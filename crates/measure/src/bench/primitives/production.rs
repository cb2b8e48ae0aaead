//! Input, measurement and check of the production primitives: sum, scan and sort.

use std::fmt::Display;

use orrery_device::{Device, DeviceError};
use orrery_primitives::PrimitiveNumber;
use orrery_primitives::reduce::{self, Reduce, ReduceOperation, ReduceStrategy};
use orrery_primitives::scan::{self, Scan, ScanKind, ScanStrategy};
use orrery_primitives::sort::{self, Sort, SortKey, SortStrategy};
use rayon::prelude::*;

use super::verify::{first_difference, first_unsorted};
use super::{
    CheckedTimes, PrimitiveCase, PrimitiveWork, PrimitivesBench, is_gpu, random_elements, small_whole_number,
};
use crate::timing::Times;

/// Sum of f32.
pub static SUM_F32: &dyn PrimitiveCase = &SumCase;
/// Inclusive scan (prefix sum) of f32.
pub static SCAN_F32: &dyn PrimitiveCase = &ScanCase { input: "f32", from_bits: small_whole_number };
/// Inclusive scan (prefix sum) of u32.
pub static SCAN_U32: &dyn PrimitiveCase = &ScanCase::<u32> { input: "u32", from_bits: |bits| bits as u32 };
/// Sort of pairs of a u64 key and a u32 value.
pub static SORT_U64: &dyn PrimitiveCase = &SortCase::<u64> { input: "u64 + u32", from_bits: |bits| bits };
/// Sort of pairs of a u32 key and a u32 value.
pub static SORT_U32: &dyn PrimitiveCase =
    &SortCase::<u32> { input: "u32 + u32", from_bits: |bits| bits as u32 };

/// Production primitives, in the order of the table.
pub static PRODUCTION_CASES: [&dyn PrimitiveCase; 5] = [SUM_F32, SCAN_F32, SCAN_U32, SORT_U64, SORT_U32];

#[derive(Debug)]
struct SumCase;

impl PrimitiveCase for SumCase {
    fn name_and_input(&self) -> (&'static str, &'static str) {
        ("sum", "f32")
    }

    fn work(&self) -> PrimitiveWork {
        PrimitiveWork::BytesPerElement(4.0)
    }

    fn candidate_names(&self) -> Vec<String> {
        ReduceStrategy::CANDIDATES.iter().map(ReduceStrategy::name).collect()
    }

    fn measure(
        &self,
        bench: &PrimitivesBench,
        n: usize,
        candidate: Option<usize>,
    ) -> Result<CheckedTimes, DeviceError> {
        let numbers = random_elements(n, small_whole_number);
        let (times, sum) = match bench.device() {
            None => bench.time_on_host(|| (), |()| reduce::reduce_on_cpu(ReduceOperation::Sum, &numbers)),
            Some(device) => {
                let (input, output) = (device.upload(&numbers)?, device.zeros(1)?);
                let strategy = ReduceStrategy::CANDIDATES[candidate.unwrap_or(0)];
                let reduce = Reduce::with_strategy(device, ReduceOperation::Sum, strategy)?;
                let times =
                    bench.time_on_device(device, || reduce.launch(device.queue(), &input, &output))?;
                (times, output.to_vec()?[0])
            }
        };
        let expected = reduce::reduce_reference(ReduceOperation::Sum, &numbers);
        Ok(CheckedTimes { times, difference: first_difference(&[sum], &[expected]) })
    }
}

/// Inclusive scan of numbers that are made from random bits.
#[derive(Debug)]
struct ScanCase<T> {
    input: &'static str,
    from_bits: fn(u64) -> T,
}

impl<T: PrimitiveNumber + Display> PrimitiveCase for ScanCase<T> {
    fn name_and_input(&self) -> (&'static str, &'static str) {
        ("scan", self.input)
    }

    fn work(&self) -> PrimitiveWork {
        PrimitiveWork::BytesPerElement(2.0 * size_of::<T>() as f64)
    }

    fn candidate_names(&self) -> Vec<String> {
        ScanStrategy::CANDIDATES.iter().map(ScanStrategy::name).collect()
    }

    fn measure(
        &self,
        bench: &PrimitivesBench,
        n: usize,
        candidate: Option<usize>,
    ) -> Result<CheckedTimes, DeviceError> {
        let numbers = random_elements(n, self.from_bits);
        let kind = ScanKind::Inclusive;
        let scan_on_cpu = |mut sums: Vec<T>| {
            scan::scan_on_cpu(kind, &mut sums);
            sums
        };
        let (times, sums) = match bench.device() {
            None => bench.time_on_host(|| numbers.clone(), scan_on_cpu),
            Some(device) => {
                let (input, output) = (device.upload(&numbers)?, device.zeros(numbers.len())?);
                let strategy = candidate.map_or_else(ScanStrategy::default, |i| ScanStrategy::CANDIDATES[i]);
                let mut scan = Scan::with_strategy(device, kind, strategy)?;
                let times = bench.time_on_device(device, || scan.launch(device.queue(), &input, &output))?;
                (times, output.to_vec()?)
            }
        };
        let mut expected = numbers;
        scan::scan_reference(kind, &mut expected);
        Ok(CheckedTimes { times, difference: first_difference(&sums, &expected) })
    }
}

/// Sort of keys that are made from random bits, with their indices as values.
#[derive(Debug)]
struct SortCase<K> {
    input: &'static str,
    from_bits: fn(u64) -> K,
}

impl<K: SortKey + Display> PrimitiveCase for SortCase<K> {
    fn name_and_input(&self) -> (&'static str, &'static str) {
        ("sort", self.input)
    }

    fn default_sizes(&self, device: Option<&Device>) -> Vec<usize> {
        if is_gpu(device) { vec![1 << 20, 1 << 24] } else { vec![1 << 18] }
    }

    fn work(&self) -> PrimitiveWork {
        PrimitiveWork::Operations { count: |n| n as f64, unit: "keys/s" }
    }

    fn candidate_names(&self) -> Vec<String> {
        SortStrategy::CANDIDATES.iter().map(SortStrategy::name).collect()
    }

    fn measure(
        &self,
        bench: &PrimitivesBench,
        n: usize,
        candidate: Option<usize>,
    ) -> Result<CheckedTimes, DeviceError> {
        let keys = random_elements(n, self.from_bits);
        let values: Vec<u32> = (0..n).into_par_iter().map(|i| i as u32).collect();
        let sort_on_cpu = |(mut keys, mut values): (Vec<K>, Vec<u32>)| {
            sort::sort_on_cpu(&mut keys, &mut values);
            (keys, values)
        };
        let (times, sorted) = match bench.device() {
            None => bench.time_on_host(|| (keys.clone(), values.clone()), sort_on_cpu),
            Some(device) => {
                let strategy = candidate.map(|i| SortStrategy::CANDIDATES[i]);
                time_sort(bench, device, &keys, &values, strategy)?
            }
        };
        Ok(CheckedTimes { times, difference: first_unsorted(&keys, &sorted.0, &sorted.1) })
    }
}

/// Keys and values in the order of the keys.
type SortedPairs<K> = (Vec<K>, Vec<u32>);

/// Measures a sort on a device, with the default strategy if none is given.
fn time_sort<K: SortKey>(
    bench: &PrimitivesBench,
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
