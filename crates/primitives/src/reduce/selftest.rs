//! Every type, operation and rung against the plain reduction, on the device at hand: `orrery selftest`, and the tests.

use orrery_device::check::Check;
use orrery_device::{Device, DeviceError, DeviceKind};

use super::rungs::{BLOCK_SIZES, ReductionVariant, RungSum, rungs};
use super::{Operation, Reduce, reduce_reference};
use crate::Number;

/// All of them.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("primitives: reduce {name}"), run };
    vec![
        check("f32", whole_and_float::<f32>),
        check(
            "f64",
            |device| if device.properties().has_f64 { whole_and_float::<f64>(device) } else { Ok(()) },
        ),
        check("u32", whole_and_float::<u32>),
        check("u64", whole_and_float::<u64>),
        check("i32", whole_and_float::<i32>),
        check("infinities and NaN", infinities),
        check("gives the same bits twice", same_bits),
        check("by every rung of its ladder", ladder),
    ]
}

/// 0 and 1, and all around powers of two up to 2^17.
pub(crate) fn lengths() -> Vec<usize> {
    let mut lengths = vec![0, 1, 2, 3];
    lengths.extend((2..=17).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]));
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// A well-mixed number from an index (splitmix64).
pub(crate) fn mixed(index: u64) -> u64 {
    let mut z = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Numbers to check with.
trait Sample: Number {
    /// One of any size and sign that its type has, from well-mixed bits.
    fn of(bits: u64) -> Self;
    /// Whether a sum may be `found` where it is `right`, of `n` numbers whose absolute values are `sum_of_sizes` together.
    fn is_near(found: Self, right: Self, n: usize, sum_of_sizes: f64) -> bool;
    /// |x|, for floats.
    fn size(self) -> f64;
}

macro_rules! float {
    ($kind:ty) => {
        impl Sample for $kind {
            fn of(bits: u64) -> Self {
                let fraction = (bits >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
                (fraction * 2f64.powi((bits % 32) as i32)) as Self
            }
            // Each of two sums errs by n ε Σ|x| at most, ε being half of EPSILON.
            fn is_near(found: Self, right: Self, n: usize, sum_of_sizes: f64) -> bool {
                f64::from(found - right).abs() <= n as f64 * f64::from(Self::EPSILON) * sum_of_sizes
            }
            fn size(self) -> f64 {
                f64::from(self).abs()
            }
        }
    };
}

macro_rules! whole {
    ($($kind:ty),*) => { $(
        impl Sample for $kind {
            fn of(bits: u64) -> Self {
                bits as Self
            }
            fn is_near(found: Self, right: Self, _: usize, _: f64) -> bool {
                found == right
            }
            fn size(self) -> f64 {
                0.0
            }
        }
    )* };
}

float!(f32);
float!(f64);
whole!(u32, u64, i32);

/// Holds one reduction against [`reduce_reference`].
fn hold<T: Sample>(
    device: &Device,
    reduce: &Reduce<T>,
    operation: Operation,
    data: &[T],
) -> Result<(), String> {
    let found =
        device.upload(data).and_then(|from| reduce.reduce(&from)).map_err(|error| error.to_string())?;
    let right = reduce_reference(operation, data);
    let is_right = match operation {
        Operation::Sum => T::is_near(found, right, data.len(), data.iter().map(|x| x.size()).sum()),
        Operation::Min | Operation::Max => found == right,
    };
    if is_right {
        return Ok(());
    }
    Err(format!("{operation:?} of {} {}: found {found:?}, expected {right:?}", data.len(), T::NAME))
}

fn whole_and_float<T: Sample>(device: &Device) -> Result<(), String> {
    for operation in Operation::ALL {
        let reduce = Reduce::<T>::new(device, operation).map_err(|error| error.to_string())?;
        for n in lengths() {
            let data: Vec<T> = (0..n as u64).map(|i| T::of(mixed(i + ((n as u64) << 32)))).collect();
            hold(device, &reduce, operation, &data)?;
        }
        for n in [1, 33, 4097] {
            for value in [T::of(mixed(n as u64)), T::ZERO, T::LOWEST, T::HIGHEST] {
                hold_equal(device, &reduce, operation, value, n)?;
            }
        }
    }
    Ok(())
}

/// All numbers equal, at the ends of the type too: whole numbers wrap, infinities stay.
fn hold_equal<T: Sample>(
    device: &Device,
    reduce: &Reduce<T>,
    operation: Operation,
    value: T,
    n: usize,
) -> Result<(), String> {
    let data = vec![value; n];
    if value.size() < f64::INFINITY {
        return hold(device, reduce, operation, &data);
    }
    let found =
        device.upload(&data).and_then(|from| reduce.reduce(&from)).map_err(|error| error.to_string())?;
    if found == value {
        Ok(())
    } else {
        Err(format!("{operation:?} of {n} times {value:?}: found {found:?}"))
    }
}

fn infinities(device: &Device) -> Result<(), String> {
    let fault = |error: DeviceError| error.to_string();
    for n in [2, 33, 1000, 70_001] {
        let at = |i: usize| (mixed((n + i) as u64) % n as u64) as usize;
        let mut data: Vec<f32> = (0..n as u64).map(|i| f32::of(mixed(i))).collect();
        for i in 0..4 {
            data[at(i)] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::NAN][i];
        }
        let from = device.upload(&data).map_err(fault)?;
        for operation in Operation::ALL {
            let found =
                Reduce::new(device, operation).and_then(|reduce| reduce.reduce(&from)).map_err(fault)?;
            let right = reduce_reference(operation, &data);
            if found != right && !(found.is_nan() && right.is_nan()) {
                return Err(format!(
                    "{operation:?} of {n} with NaN and infinities: found {found}, expected {right}"
                ));
            }
        }
    }
    Ok(())
}

fn same_bits(device: &Device) -> Result<(), String> {
    let run = || -> Result<[u32; 3], DeviceError> {
        let data: Vec<f32> = (0..200_003).map(|i| f32::of(mixed(i))).collect();
        let from = device.upload(&data)?;
        let sum = || Reduce::new(device, Operation::Sum);
        let one = sum()?;
        Ok([one.reduce(&from)?, one.reduce(&from)?, sum()?.reduce(&from)?].map(f32::to_bits))
    };
    let bits = run().map_err(|error| error.to_string())?;
    if bits.iter().all(|b| *b == bits[0]) {
        return Ok(());
    }
    Err(format!("the same sum three times: {:?}", bits.map(f32::from_bits)))
}

fn ladder(device: &Device) -> Result<(), String> {
    // A processor's OpenCL takes its time to compile; there, one block size of two warps stands for all.
    let blocks = if device.properties().kind == DeviceKind::Gpu { &BLOCK_SIZES[..] } else { &[64] };
    for rung in rungs() {
        for &block in blocks.iter().filter(|block| **block <= device.properties().max_block_size) {
            rung_holds(device, rung.variant, block)
                .map_err(|word| format!("{}, {block} threads: {word}", rung.name))?;
        }
    }
    Ok(())
}

fn rung_holds(device: &Device, variant: ReductionVariant, block: u32) -> Result<(), String> {
    let fault = |error: DeviceError| error.to_string();
    let mut sum = RungSum::new(device, variant, block).map_err(fault)?;
    let to = device.upload(&[f32::NAN]).map_err(fault)?;
    // Enough for three layers, and for fewer than 2^16 threads: PoCL compiles anew for more.
    for n in lengths().into_iter().filter(|n| *n < 50_000) {
        let data: Vec<f32> = (0..n as u64).map(|i| f32::of(mixed(i))).collect();
        let from = device.upload(&data).map_err(fault)?;
        sum.queue(&from, &to).map_err(fault)?;
        let found = to.to_vec().map_err(fault)?[0];
        let right = reduce_reference(Operation::Sum, &data);
        if !f32::is_near(found, right, n, data.iter().map(|x| x.size()).sum()) {
            return Err(format!("sum of {n}: found {found}, expected {right}"));
        }
    }
    Ok(())
}
