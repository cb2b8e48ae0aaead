//! Checks of the reduction on one device, for `orrery selftest` and the tests. Every type,
//! operation and rung is compared with the reference implementation.

use orrery_device::check::Check;
use orrery_device::testing::random_bits;
use orrery_device::{Buffer, Device, DeviceError, DeviceKind};

use super::rungs::{BLOCK_SIZES, ReductionVariant, RungNumber, RungSum, rungs};
use super::{Operation, Reduce, ReduceStrategy, reduce_reference};
use crate::Number;

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("primitives: reduce {name}"), run };
    vec![
        check("f32", all_lengths::<f32>),
        check("f64", |device| if device.properties().has_f64 { all_lengths::<f64>(device) } else { Ok(()) }),
        check("u32", all_lengths::<u32>),
        check("u64", all_lengths::<u64>),
        check("i32", all_lengths::<i32>),
        check("rounds within its error bound", rounding_error),
        check("infinities and NaN", infinities_and_nan),
        check("gives the same bits twice", gives_same_bits),
        check("by every candidate strategy", every_candidate),
        check("by every rung of its ladder", every_rung::<f32>),
        check("by every rung of its ladder, in integers", every_rung::<i32>),
    ]
}

/// Returns 0 to 3, and the powers of two up to 2^17 with their neighbours.
pub(crate) fn test_lengths() -> Vec<usize> {
    let mut lengths = vec![0, 1, 2, 3];
    lengths.extend((2..=17).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]));
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// Random numbers for the checks.
trait Sample: Number {
    /// Returns a number of random sign and magnitude from random bits.
    fn from_random_bits(bits: u64) -> Self;
    /// Returns a number whose sums are the same in any order: an integer of any magnitude, or a
    /// float with a small integer value.
    fn exact_in_sums(bits: u64) -> Self;
}

macro_rules! impl_sample_for_float {
    ($($kind:ty),*) => { $(
        impl Sample for $kind {
            fn from_random_bits(bits: u64) -> Self {
                let fraction = (bits >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
                (fraction * 2f64.powi((bits % 32) as i32)) as Self
            }
            // 2^19 numbers from -31 to 31 have sums below 2^24, which are exact in f32. None is 0,
            // so a lost number changes the sum.
            fn exact_in_sums(bits: u64) -> Self {
                let magnitude = (1 + (bits >> 1) % 31) as Self;
                if bits % 2 == 0 { magnitude } else { -magnitude }
            }
        }
    )* };
}

macro_rules! impl_sample_for_integer {
    ($($kind:ty),*) => { $(
        impl Sample for $kind {
            fn from_random_bits(bits: u64) -> Self {
                bits as Self
            }
            fn exact_in_sums(bits: u64) -> Self {
                bits as Self
            }
        }
    )* };
}

impl_sample_for_float!(f32, f64);
impl_sample_for_integer!(u32, u64, i32);

/// Returns a random number for a check of `operation`. Minima and maxima are exact for any number.
fn sample_for<T: Sample>(operation: Operation, index: u64) -> T {
    match operation {
        Operation::Sum => T::exact_in_sums(random_bits(index)),
        Operation::Min | Operation::Max => T::from_random_bits(random_bits(index)),
    }
}

/// Requires the result of [`reduce_reference`]. The numbers must have the same sum in any order.
fn compare<T: Sample>(
    device: &Device,
    reduce: &Reduce<T>,
    operation: Operation,
    data: &[T],
) -> Result<(), String> {
    let found = device
        .upload(data)
        .and_then(|from| reduce.reduce(device.queue(), &from))
        .map_err(|error| error.to_string())?;
    let expected = reduce_reference(operation, data);
    if found == expected {
        return Ok(());
    }
    Err(format!("{operation:?} of {} {}: found {found:?}, expected {expected:?}", data.len(), T::NAME))
}

fn all_lengths<T: Sample>(device: &Device) -> Result<(), String> {
    for operation in Operation::ALL {
        let reduce = Reduce::<T>::new(device, operation).map_err(|error| error.to_string())?;
        for n in test_lengths() {
            let data: Vec<T> = (0..n as u64).map(|i| sample_for(operation, i + ((n as u64) << 32))).collect();
            compare(device, &reduce, operation, &data)?;
        }
        // Integers wrap, infinities stay infinite.
        for n in [1, 33, 4097] {
            for value in [sample_for(operation, n as u64), T::ZERO, T::LOWEST, T::HIGHEST] {
                compare(device, &reduce, operation, &vec![value; n])?;
            }
        }
    }
    Ok(())
}

/// Sums fractions of random magnitude. The error is at most n ε Σ|x|, where ε is half of EPSILON.
fn rounding_error(device: &Device) -> Result<(), String> {
    let reduce = Reduce::<f32>::new(device, Operation::Sum).map_err(|error| error.to_string())?;
    for n in [2, 100, 1000, 3000] {
        let data: Vec<f32> = (0..n).map(|i| f32::from_random_bits(random_bits(i))).collect();
        let found = device
            .upload(&data)
            .and_then(|from| reduce.reduce(device.queue(), &from))
            .map_err(|error| error.to_string())?;
        let sum_of = |term: fn(f64) -> f64| data.iter().map(|&x| term(f64::from(x))).sum::<f64>();
        let error = (f64::from(found) - sum_of(|x| x)).abs();
        let limit = 0.5 * n as f64 * f64::from(f32::EPSILON) * sum_of(f64::abs);
        if error.is_nan() || error > limit {
            return Err(format!("sum of {n}: error {error:.1e}, expected at most {limit:.1e}"));
        }
    }
    Ok(())
}

fn infinities_and_nan(device: &Device) -> Result<(), String> {
    let message = |error: DeviceError| error.to_string();
    for n in [2, 33, 1000, 70_001] {
        let at = |i: usize| (random_bits((n + i) as u64) % n as u64) as usize;
        let mut data: Vec<f32> = (0..n as u64).map(|i| f32::from_random_bits(random_bits(i))).collect();
        for i in 0..4 {
            data[at(i)] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::NAN][i];
        }
        let from = device.upload(&data).map_err(message)?;
        for operation in Operation::ALL {
            let found = Reduce::new(device, operation)
                .and_then(|reduce| reduce.reduce(device.queue(), &from))
                .map_err(message)?;
            let expected = reduce_reference(operation, &data);
            if found != expected && !(found.is_nan() && expected.is_nan()) {
                return Err(format!(
                    "{operation:?} of {n} with NaN and infinities: found {found}, expected {expected}"
                ));
            }
        }
    }
    Ok(())
}

fn gives_same_bits(device: &Device) -> Result<(), String> {
    let run = || -> Result<[u32; 3], DeviceError> {
        let data: Vec<f32> = (0..200_003).map(|i| f32::from_random_bits(random_bits(i))).collect();
        let from = device.upload(&data)?;
        let sum = || Reduce::new(device, Operation::Sum);
        let one = sum()?;
        Ok([
            one.reduce(device.queue(), &from)?,
            one.reduce(device.queue(), &from)?,
            sum()?.reduce(device.queue(), &from)?,
        ]
        .map(f32::to_bits))
    };
    let bits = run().map_err(|error| error.to_string())?;
    if bits.iter().all(|b| *b == bits[0]) {
        return Ok(());
    }
    Err(format!("the same sum three times: {:?}", bits.map(f32::from_bits)))
}

fn every_candidate(device: &Device) -> Result<(), String> {
    // OpenCL on a CPU compiles slowly. There, the one with the smallest blocks represents all.
    let candidates = match device.properties().kind {
        DeviceKind::Gpu => &ReduceStrategy::CANDIDATES[..],
        DeviceKind::Cpu | DeviceKind::Other => &ReduceStrategy::CANDIDATES[1..2],
    };
    for strategy in candidates {
        let reduce = Reduce::<u32>::with_strategy(device, Operation::Sum, *strategy);
        let reduce = reduce.map_err(|error| error.to_string())?;
        for n in [0, 1, 16_383, 16_385, 100_000] {
            let data: Vec<u32> = (0..n).map(|i| sample_for(Operation::Sum, i)).collect();
            compare(device, &reduce, Operation::Sum, &data)
                .map_err(|error| format!("{}: {error}", strategy.name()))?;
        }
    }
    Ok(())
}

fn every_rung<T: Sample + RungNumber>(device: &Device) -> Result<(), String> {
    // OpenCL on a CPU compiles slowly. There, one block size of two warps represents all.
    let block_sizes = if device.properties().kind == DeviceKind::Gpu { &BLOCK_SIZES[..] } else { &[64] };
    for rung in rungs() {
        for &block_size in block_sizes.iter().filter(|size| **size <= device.properties().max_block_size) {
            compare_rung::<T>(device, rung.variant, block_size)
                .map_err(|error| format!("{}, {block_size} threads: {error}", rung.name))?;
        }
    }
    Ok(())
}

fn compare_rung<T: Sample + RungNumber>(
    device: &Device,
    variant: ReductionVariant,
    block_size: u32,
) -> Result<(), String> {
    let message = |error: DeviceError| error.to_string();
    let mut sum = RungSum::<T>::new(device, variant, block_size).map_err(message)?;
    let to = device.upload(&[T::HIGHEST]).map_err(message)?;
    // Long enough for three layers. Not longer, because PoCL compiles a kernel again for 2^16
    // threads or more.
    for n in test_lengths().into_iter().filter(|n| *n < 50_000) {
        let data: Vec<T> = (0..n as u64).map(|i| sample_for(Operation::Sum, i)).collect();
        let from = device.upload(&data).map_err(message)?;
        sum.launch(device.queue(), &from, &to).map_err(message)?;
        let found = to.to_vec().map_err(message)?[0];
        let expected = reduce_reference(Operation::Sum, &data);
        if found != expected {
            return Err(format!("sum of {n}: found {found:?}, expected {expected:?}"));
        }
        compare_first_layer(device, &sum, &from, &data)?;
    }
    Ok(())
}

/// Compares the first layer with the sums of the numbers of each block.
fn compare_first_layer<T: RungNumber>(
    device: &Device,
    sum: &RungSum<T>,
    from: &Buffer<T>,
    data: &[T],
) -> Result<(), String> {
    let message = |error: DeviceError| error.to_string();
    let Some(numbers_per_block) = sum.numbers_per_block() else { return Ok(()) };
    let to = device.upload(&vec![T::HIGHEST; sum.first_layer_len(data.len())]).map_err(message)?;
    sum.launch_first_layer(device.queue(), from, &to).map_err(message)?;
    for (block, found) in to.to_vec().map_err(message)?.into_iter().enumerate() {
        let first = block * numbers_per_block;
        let numbers = &data[first.min(data.len())..(first + numbers_per_block).min(data.len())];
        let expected = reduce_reference(Operation::Sum, numbers);
        if found != expected {
            let n = data.len();
            return Err(format!("block {block} of {n}: found {found:?}, expected {expected:?}"));
        }
    }
    Ok(())
}
