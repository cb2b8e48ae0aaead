//! Compiles reductions, scans and sorts.

use orrery_device::{Device, DeviceError};
use orrery_primitives::PrimitiveNumber;
use orrery_primitives::reduce::{Reduce, ReduceOperation, ReduceStrategy};
use orrery_primitives::scan::selftest::SHORT_TILES;
use orrery_primitives::scan::{Scan, ScanKind, ScanStrategy};
use orrery_primitives::sort::{Sort, SortKey, SortStrategy};

use super::ListResult;

/// Number of elements.
const ELEMENTS: usize = 5000;

fn compile_reductions<T: PrimitiveNumber>(device: &Device) -> Result<(), DeviceError> {
    let numbers = device.zeros::<T>(ELEMENTS)?;
    for operation in [ReduceOperation::Sum, ReduceOperation::Min, ReduceOperation::Max] {
        Reduce::<T>::new(device, operation)?.reduce(device.queue(), &numbers)?;
    }
    Ok(())
}

fn compile_scan<T: PrimitiveNumber>(device: &Device, strategy: ScanStrategy) -> Result<(), DeviceError> {
    let numbers = device.zeros::<T>(ELEMENTS)?;
    Scan::<T>::with_strategy(device, ScanKind::Inclusive, strategy)?.launch(
        device.queue(),
        &numbers,
        &numbers,
    )
}

fn compile_sort<K: SortKey>(device: &Device, strategy: SortStrategy) -> Result<(), DeviceError> {
    let (keys, values) = (device.zeros::<K>(ELEMENTS)?, device.zeros::<u32>(ELEMENTS)?);
    Sort::<K>::with_strategy(device, ELEMENTS, strategy)?.launch(device.queue(), &keys, &values)
}

fn compile_scans(device: &Device, strategy: ScanStrategy) -> Result<(), DeviceError> {
    compile_scan::<f32>(device, strategy)?;
    compile_scan::<f64>(device, strategy)?;
    compile_scan::<u32>(device, strategy)?;
    compile_scan::<u64>(device, strategy)?;
    compile_scan::<i32>(device, strategy)
}

/// Compiles the default strategies for numbers of 32 and of 64 bits.
pub fn compile_defaults(device: &Device) -> ListResult {
    compile_reductions::<f32>(device)?;
    compile_reductions::<f64>(device)?;
    compile_scan::<f32>(device, ScanStrategy::default())?;
    compile_scan::<f64>(device, ScanStrategy::default())?;
    for strategy in [SortStrategy::SMALL, SortStrategy::LARGE] {
        compile_sort::<u32>(device, strategy)?;
        compile_sort::<u64>(device, strategy)?;
    }
    Ok(())
}

/// Compiles the other numbers and strategies.
pub fn compile_others(device: &Device) -> ListResult {
    compile_reductions::<u32>(device)?;
    compile_reductions::<u64>(device)?;
    compile_reductions::<i32>(device)?;
    compile_scans(device, ScanStrategy::default())?;
    compile_scans(device, SHORT_TILES)?;
    for strategy in ScanStrategy::CANDIDATES {
        compile_scan::<f32>(device, strategy)?;
        compile_scan::<u64>(device, strategy)?;
    }
    for strategy in SortStrategy::CANDIDATES {
        compile_sort::<u32>(device, strategy)?;
        compile_sort::<u64>(device, strategy)?;
    }
    for strategy in ReduceStrategy::CANDIDATES {
        Reduce::<f32>::with_strategy(device, ReduceOperation::Sum, strategy)?;
    }
    for strategy in [SortStrategy::SMALL, SortStrategy::LARGE] {
        let wide = SortStrategy { has_wide_offsets: true, ..strategy };
        compile_sort::<u32>(device, wide)?;
        compile_sort::<u64>(device, wide)?;
    }
    Ok(())
}
