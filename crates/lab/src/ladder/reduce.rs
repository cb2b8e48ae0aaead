//! Ladder of reductions: sums of f32 for several block sizes.

use orrery_device::{Device, DeviceError, ceiling};
use orrery_primitives::reduce::rungs::{BLOCK_SIZES, RungSum, rungs};
use orrery_primitives::reduce::{Operation, reduce_on_cpu, reduce_reference};
use rayon::prelude::*;

use super::peaks::{rate_on_cpu, rate_on_device};
use super::sweep::{ComparedColumn, Sweep, SweepRung};
use crate::LabError;

/// Measures the CPU versions and every rung of `device`. Calls `progress` with the name of each
/// rung before it is measured.
pub fn measure_ladder(
    device: Option<&Device>,
    n: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Sweep, LabError> {
    let numbers: Vec<f32> = (0..n).into_par_iter().map(|i| (i % 1024) as f32 / 1024.0).collect();
    let bytes = 4.0 * n as f64;
    progress("CPU");
    let mut sweep = Sweep {
        title: "sum of f32".to_owned(),
        device: device.map_or_else(crate::devices::cpu_name, |device| device.title()),
        n,
        size_unit: "numbers",
        parameter: "threads per block",
        columns: BLOCK_SIZES.map(|block| block.to_string()).to_vec(),
        compared: ComparedColumn::Fastest,
        copy: None,
        on_cpu: vec![
            ("CPU, one thread", rate_on_cpu(bytes, || reduce_reference(Operation::Sum, &numbers))),
            ("CPU, all cores", rate_on_cpu(bytes, || reduce_on_cpu(Operation::Sum, &numbers))),
        ],
        rungs: Vec::new(),
    };
    let Some(device) = device else { return Ok(sweep) };
    sweep.copy = Some(ceiling::measure(device)?.copy_bytes_per_s);
    let (input, output) = (device.upload(&numbers)?, device.zeros(1)?);
    for rung in rungs() {
        progress(rung.name);
        let measure_rate = |block: u32| -> Result<Option<f64>, DeviceError> {
            if block > device.properties().max_block_size {
                return Ok(None);
            }
            let mut sum = RungSum::new(device, rung.variant, block)?;
            rate_on_device(device, bytes, || sum.launch(device.queue(), &input, &output)).map(Some)
        };
        let rates = BLOCK_SIZES.map(measure_rate).into_iter().collect::<Result<_, _>>()?;
        sweep.rungs.push(SweepRung { name: rung.name, rates, course: rung.course, note: rung.note });
    }
    Ok(sweep)
}
