//! Ladder of reductions: sums of f32 for several block sizes.

use orrery_device::DeviceError;
use orrery_primitives::reduce::rungs::{BLOCK_SIZES, RungSum, rungs};
use orrery_primitives::reduce::{Operation, reduce_on_cpu, reduce_reference};
use rayon::prelude::*;

use super::repeats::{time_rung_on_cpu, time_rung_on_device};
use super::{
    BYTES, DefaultSizes, Ladder, LadderEntry, LadderRequest, Parameter, ReferenceTable, Roofs, RungResult,
    ShownValue, TimedRuns, Work,
};
use crate::LabError;
use crate::timing::Times;

pub static LADDER: LadderEntry = LadderEntry {
    name: "reduce",
    description: "Sum of an array, for several block sizes",
    title: "sum of f32",
    size_unit: "numbers",
    bytes_per_item: 4,
    sizes: DefaultSizes { gpu: 1 << 28, opencl_cpu: 1 << 20, host: 1 << 26 },
    counted: BYTES,
    measure,
};

/// Each number is read once. Additions are not counted, because memory limits all rungs.
const WORK: Work = Work { flops: None, bytes: Some(1.0) };

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), LabError> {
    let n = request.n;
    let timed = |times: Times| TimedRuns { n, items: 4.0 * n as f64, times };
    let numbers: Vec<f32> = (0..n).into_par_iter().map(|i| (i % 1024) as f32 / 1024.0).collect();
    ladder.roof = ladder.host_roofs.copy_roof();
    let host_roof = ladder.host_roofs.bandwidth;
    let mut add_on_cpu = |name, sum: fn(Operation, &[f32]) -> f32| {
        (request.progress)(name);
        let times = time_rung_on_cpu(|| sum(Operation::Sum, &numbers));
        ladder.add_rung(RungResult { work: WORK, roof: host_roof, ..RungResult::new(name, &timed(times)) });
    };
    add_on_cpu("CPU, one thread", reduce_reference);
    add_on_cpu("CPU, all cores", reduce_on_cpu);

    let Some(device) = request.device else { return Ok(()) };
    ladder.roofs = Roofs::of_device(device)?;
    ladder.roof = ladder.roofs.copy_roof();
    let block_sizes = BLOCK_SIZES.map(|block| block.to_string()).to_vec();
    ladder.reference = Some(ReferenceTable {
        caption: "GB/s reported in the course, for its GPU, by threads per block".to_owned(),
        columns: block_sizes.clone(),
        legend: &[],
    });
    ladder.parameter =
        Some(Parameter { name: "threads per block", values: block_sizes, shown: ShownValue::Fastest });
    let (input, output) = (device.upload(&numbers)?, device.zeros(1)?);
    for rung in rungs() {
        (request.progress)(rung.name);
        let time_block_size = |block: u32| -> Result<Option<TimedRuns>, DeviceError> {
            if block > device.properties().max_block_size {
                return Ok(None);
            }
            let mut sum = RungSum::new(device, rung.variant, block)?;
            let times = time_rung_on_device(device, || sum.launch(device.queue(), &input, &output))?;
            Ok(Some(timed(times)))
        };
        let runs = BLOCK_SIZES.into_iter().map(time_block_size).collect::<Result<Vec<_>, _>>()?;
        let Some(result) = RungResult::with_sweep(rung.name, &runs, ShownValue::Fastest) else { continue };
        ladder.add_rung(RungResult {
            note: rung.note.to_owned(),
            work: WORK,
            roof: ladder.roofs.bandwidth,
            reference: rung.course.to_vec(),
            ..result
        });
    }
    Ok(())
}
