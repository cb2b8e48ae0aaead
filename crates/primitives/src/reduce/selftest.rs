//! Checks of the reduction on one device, for `orrery selftest` and the tests. Every type
//! and operation is compared with the reference implementation.

use orrery_device::check::Check;
use orrery_device::testing::random_bits;
use orrery_device::{Device, DeviceError, DeviceKind};

use super::{Reduce, ReduceOperation, ReduceStrategy, reduce_reference};
use crate::PrimitiveNumber;

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
    ]
}

/// Returns 0 to 3, and the powers of two up to 2^17 with their neighbours.
fn test_lengths() -> Vec<usize> {
    let mut lengths = vec![0, 1, 2, 3];
    lengths.extend((2..=17).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]));
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// Random numbers for the checks.
trait ReduceSample: PrimitiveNumber {
    /// Returns a number of random sign and magnitude from random bits.
    fn from_random_bits(bits: u64) -> Self;
    /// Returns a number whose sums are the same in any order: an integer of any magnitude, or a
    /// float with a small integer value.
    fn exact_in_sums(bits: u64) -> Self;
}

macro_rules! impl_sample_for_float {
    ($($kind:ty),*) => { $(
        impl ReduceSample for $kind {
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
        impl ReduceSample for $kind {
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
fn sample_for<T: ReduceSample>(operation: ReduceOperation, index: u64) -> T {
    match operation {
        ReduceOperation::Sum => T::exact_in_sums(random_bits(index)),
        ReduceOperation::Min | ReduceOperation::Max => T::from_random_bits(random_bits(index)),
    }
}

/// Requires the result of [`reduce_reference`]. The numbers must have the same sum in any order.
fn compare<T: ReduceSample>(
    device: &Device,
    reduce: &Reduce<T>,
    operation: ReduceOperation,
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

fn all_lengths<T: ReduceSample>(device: &Device) -> Result<(), String> {
    for operation in ReduceOperation::ALL {
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
    let reduce = Reduce::<f32>::new(device, ReduceOperation::Sum).map_err(|error| error.to_string())?;
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
        for operation in ReduceOperation::ALL {
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
        let sum = || Reduce::new(device, ReduceOperation::Sum);
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
        let reduce = Reduce::<u32>::with_strategy(device, ReduceOperation::Sum, *strategy);
        let reduce = reduce.map_err(|error| error.to_string())?;
        for n in [0, 1, 16_383, 16_385, 100_000] {
            let data: Vec<u32> = (0..n).map(|i| sample_for(ReduceOperation::Sum, i)).collect();
            compare(device, &reduce, ReduceOperation::Sum, &data)
                .map_err(|error| format!("{}: {error}", strategy.name()))?;
        }
    }
    Ok(())
}
