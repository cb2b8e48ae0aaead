//! Checks of the experiments on occupancy on one device, for `orrery selftest` and the tests.

use orrery_device::check::Check;
use orrery_device::occupancy::{BlockNeeds, SmLimits, WARP_SIZE};
use orrery_device::{Backend, Device, DeviceError, Kernel};

use super::loads::{LoadShape, Loads, whole_numbers};
use super::pressure::{self, BLOCK_SIZE, Pressure};
use super::{loads, shared_for_blocks};
use crate::rungs::reduce;

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("lab: occupancy {name}"), run };
    vec![
        check("as the driver reports it", compare_with_driver),
        check("with a limit of registers", every_register_limit),
        check("with loads in flight", every_load_shape),
    ]
}

fn every_register_limit(device: &Device) -> Result<(), String> {
    for max_registers in [None, Some(32)] {
        for rounds in [0, 1, 7] {
            let run = || -> Result<Vec<f32>, DeviceError> {
                let pressure = Pressure::new(device, max_registers, 2)?;
                pressure.launch(device.queue(), rounds)?;
                pressure.sums()
            };
            let found = run().map_err(|error| error.to_string())?;
            for (index, sum) in found.iter().enumerate() {
                let expected = pressure::reference_sum(index % BLOCK_SIZE as usize, rounds as usize);
                // Both do the same roundings in the same order.
                if *sum != expected {
                    return Err(format!(
                        "{max_registers:?} registers, {rounds} rounds, thread {index}: got {sum}, expected {expected}"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Arrays shorter than the threads, of whole tiles, and with rests.
const LENGTHS: [usize; 7] = [1, 3, 64, 512, 1000, 1024, 5003];

fn every_load_shape(device: &Device) -> Result<(), String> {
    let from = whole_numbers(5003);
    for (width, count) in [(1, 1), (2, 1), (4, 4)] {
        let shape = LoadShape { width, loads: count, block_size: 32, dynamic_shared: 0 };
        let run = |len: usize| -> Result<Vec<f32>, DeviceError> {
            let sums = Loads::new(device, shape, 2)?;
            sums.launch(device.queue(), &device.upload(&from[..len])?)?;
            sums.sums()
        };
        for len in LENGTHS {
            let found = run(len).map_err(|error| error.to_string())?;
            for (thread, sum) in found.iter().enumerate() {
                let expected = loads::reference_sum(&from[..len], width, thread, found.len());
                if *sum != expected {
                    return Err(format!(
                        "{shape:?}, {len} floats, thread {thread}: got {sum}, expected {expected}"
                    ));
                }
            }
        }
    }
    limited_blocks(device).map_err(|error| error.to_string())?
}

/// Checks with the driver that dynamic shared memory limits the blocks per SM.
fn limited_blocks(device: &Device) -> Result<Result<(), String>, DeviceError> {
    let properties = device.properties();
    let limits = properties.capability.and_then(SmLimits::of);
    let Some(limits) = limits.filter(|_| properties.backend == Backend::Cuda) else { return Ok(Ok(())) };
    for blocks in [1, 2, 4] {
        let dynamic_shared = shared_for_blocks(limits, blocks);
        let shape = LoadShape { width: 4, loads: 1, block_size: 256, dynamic_shared };
        let (_, occupancy) = Loads::new(device, shape, 1)?.resources();
        let expected = f64::from(256 * blocks) / f64::from(limits.threads_per_sm);
        if occupancy.is_some_and(|occupancy| occupancy != expected) {
            return Ok(Err(format!(
                "{blocks} blocks per SM: got occupancy {occupancy:?}, expected {expected}"
            )));
        }
    }
    Ok(Ok(()))
}

/// Limits of registers of the kernels that are compared. Without bounds of the block size, the
/// driver answers for all block sizes.
const REGISTER_LIMITS: [u32; 6] = [24, 32, 40, 64, 96, 255];
/// Sizes of dynamic shared memory in bytes, around multiples of the units of allocation.
const SHARED_SIZES: [u32; 9] = [1, 1000, 1024, 7168, 7169, 40_000, 60_000, 100_000, 200_000];

/// Compares the calculator with the driver for kernels with several numbers of registers and sizes
/// of shared memory, for the sums of the reduction, and for all kernels that earlier checks built.
fn compare_with_driver(device: &Device) -> Result<(), String> {
    let properties = device.properties();
    let Some(limits) = properties.capability.and_then(SmLimits::of) else { return Ok(()) };
    if properties.backend != Backend::Cuda {
        return Ok(());
    }
    let reported = (properties.threads_per_sm, properties.registers_per_sm);
    if reported != (Some(limits.threads_per_sm), Some(limits.registers_per_sm)) {
        return Err(format!("threads and registers per SM: the driver reports {reported:?}, got {limits:?}"));
    }
    let mut kernels = pressure_kernels(device, limits).map_err(|error| error.to_string())?;
    for rung in reduce::rungs() {
        for block_size in reduce::BLOCK_SIZES {
            reduce::RungSum::<f32>::new(device, rung.variant, block_size)
                .map_err(|error| error.to_string())?;
        }
    }
    kernels.extend(device.kernels().map_err(|error| error.to_string())?);
    kernels.iter().try_for_each(|kernel| compare_block_sizes(kernel, limits))
}

/// Compiles kernels with every limit of registers and size of shared memory.
fn pressure_kernels(device: &Device, limits: &SmLimits) -> Result<Vec<Kernel>, DeviceError> {
    let mut kernels = Vec::new();
    for max_registers in REGISTER_LIMITS {
        let module = pressure::build(device, Some(max_registers))?;
        kernels.push(module.kernel("update_values")?);
        for bytes in SHARED_SIZES.into_iter().filter(|bytes| *bytes <= limits.shared_per_block) {
            kernels.push(module.kernel_with_shared("update_values", bytes)?);
        }
    }
    Ok(kernels)
}

fn compare_block_sizes(kernel: &Kernel, limits: &SmLimits) -> Result<(), String> {
    // A kernel with bounds of its block size does not run with larger blocks.
    let is_bounded = !kernel.definitions().contains("MAX_REGISTERS");
    let largest = if is_bounded { kernel.resources().max_block_size } else { limits.threads_per_block };
    for warps in 1..=largest / WARP_SIZE {
        let threads = warps * WARP_SIZE;
        let Some(needs) = kernel.block_needs(threads) else { return Ok(()) };
        let Some(driver) = kernel.blocks_per_sm(threads) else { continue };
        let calculated = limits.occupancy(needs).map_or(0, |occupancy| occupancy.blocks_per_sm);
        if driver != calculated {
            let BlockNeeds { registers, shared_bytes, .. } = needs;
            return Err(format!(
                "{} of {}, {threads} threads, {registers} registers, {shared_bytes} bytes: got {calculated} blocks \
                 per SM, the driver reports {driver}",
                kernel.name(),
                kernel.file()
            ));
        }
    }
    Ok(())
}
