//! Checks of the rungs of the reduction on one device, for `orrery selftest` and the tests. Every
//! rung is compared with the reference implementation.

use orrery_device::check::Check;
use orrery_device::testing::random_bits;
use orrery_device::{Buffer, Device, DeviceError, DeviceKind};
use orrery_primitives::reduce::{ReduceOperation, reduce_reference};

use super::{BLOCK_SIZES, ReductionRung, ReductionVariant, RungNumber, RungSum, rungs};
use crate::ladder::check_rungs;
use crate::primitives::edge_lengths;

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("primitives: reduce {name}"), run };
    vec![
        check("by every rung of its ladder", check_rungs::<ReductionRung>),
        check("by every rung of its ladder, in integers", integer_sums),
    ]
}

/// Returns a whole number from -31 to 31 except 0, so that a lost number changes the sum. 2^19 of
/// them have a sum below 2^24, which is exact in f32.
fn small_whole_number(bits: u64) -> f32 {
    let magnitude = (1 + (bits >> 1) % 31) as f32;
    if bits.is_multiple_of(2) { magnitude } else { -magnitude }
}

/// Compares the sums of an algorithm with the reference.
pub fn check_sums(device: &Device, variant: ReductionVariant) -> Result<(), String> {
    compare_block_sizes(device, variant, small_whole_number)
}

fn integer_sums(device: &Device) -> Result<(), String> {
    for rung in rungs() {
        let compared = compare_block_sizes(device, rung.variant, |bits| bits as i32);
        compared.map_err(|error| format!("{}: {error}", rung.name))?;
    }
    Ok(())
}

/// Compares sums of numbers that `from_bits` makes of random bits. They have the same sum in any
/// order.
fn compare_block_sizes<T: RungNumber>(
    device: &Device,
    variant: ReductionVariant,
    from_bits: fn(u64) -> T,
) -> Result<(), String> {
    // OpenCL on a CPU compiles slowly. There, one block size of two warps represents all.
    let block_sizes = if device.properties().kind == DeviceKind::Gpu { &BLOCK_SIZES[..] } else { &[64] };
    for &block_size in block_sizes.iter().filter(|size| **size <= device.properties().max_block_size) {
        compare_rung(device, variant, block_size, from_bits)
            .map_err(|error| format!("{block_size} threads: {error}"))?;
    }
    Ok(())
}

fn compare_rung<T: RungNumber>(
    device: &Device,
    variant: ReductionVariant,
    block_size: u32,
    from_bits: fn(u64) -> T,
) -> Result<(), String> {
    let message = |error: DeviceError| error.to_string();
    let mut sum = RungSum::<T>::new(device, variant, block_size).map_err(message)?;
    let to = device.upload(&[T::HIGHEST]).map_err(message)?;
    // Long enough for three layers. Not longer, because PoCL compiles a kernel again for 2^16
    // threads or more.
    for n in edge_lengths().into_iter().filter(|n| *n < 50_000) {
        let data: Vec<T> = (0..n as u64).map(|i| from_bits(random_bits(i))).collect();
        let from = device.upload(&data).map_err(message)?;
        sum.launch(device.queue(), &from, &to).map_err(message)?;
        let found = to.to_vec().map_err(message)?[0];
        let expected = reduce_reference(ReduceOperation::Sum, &data);
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
        let expected = reduce_reference(ReduceOperation::Sum, numbers);
        if found != expected {
            let n = data.len();
            return Err(format!("block {block} of {n}: found {found:?}, expected {expected:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn selftest_passes_on_every_device() {
        crate::run_checks(&super::checks());
    }
}
