//! Ladder of histograms: bytes in 256 bins, for random and for equal bytes.

use orrery_device::testing::random_bits;
use orrery_device::{Buffer, DeviceError};
use orrery_primitives::histogram::rungs::{RungHistogram, rungs};
use orrery_primitives::histogram::{BYTE_BINS, histogram_on_cpu, histogram_reference};
use rayon::prelude::*;

use super::repeats::{time_rung_on_cpu, time_rung_on_device};
use super::{
    BYTES, DefaultSizes, Ladder, LadderEntry, LadderRequest, Parameter, Roofs, RungResult, ShownValue,
    TimedRuns, Work,
};
use crate::LabError;
use crate::timing::Times;

pub static LADDER: LadderEntry = LadderEntry {
    name: "histogram",
    description: "Histogram of bytes in 256 bins, for random and for equal bytes",
    title: "histogram of 256 bins",
    size_unit: "bytes",
    host_bytes: |n| n as u64,
    sizes: DefaultSizes { gpu: 1 << 28, opencl_cpu: 1 << 20, host: 1 << 26 },
    counted: BYTES,
    measure,
};

/// Each byte is read once. Increments of counters are not floating-point operations.
const WORK: Work = Work { flops: None, bytes: Some(1.0) };

/// Inputs of the histogram. Equal bytes all increment the same counter.
const INPUTS: [&str; 2] = ["random", "equal"];

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), LabError> {
    let n = request.n;
    let timed = |times: Times| TimedRuns { n, items: n as f64, times };
    let random: Vec<u8> = (0..n as u64).into_par_iter().map(|index| random_bits(index) as u8).collect();
    ladder.roof = ladder.host_roofs.copy_roof();
    let host_roof = ladder.host_roofs.bandwidth;
    let mut add_on_cpu = |name, count: fn(&[u8]) -> [u64; BYTE_BINS]| {
        (request.progress)(name);
        let times = time_rung_on_cpu(|| count(&random));
        ladder.add_rung(RungResult { work: WORK, roof: host_roof, ..RungResult::new(name, &timed(times)) });
    };
    add_on_cpu("CPU, one thread", histogram_reference);
    add_on_cpu("CPU, all cores", histogram_on_cpu);

    let Some(device) = request.device else { return Ok(()) };
    ladder.roofs = Roofs::of_device(device)?;
    ladder.roof = ladder.roofs.copy_roof();
    let shown = ShownValue::First;
    ladder.parameter = Some(Parameter { name: "input", values: INPUTS.map(str::to_owned).to_vec(), shown });
    let inputs = [device.upload(&random)?, device.zeros(n)?];
    let counts = device.zeros(BYTE_BINS)?;
    for rung in rungs() {
        (request.progress)(rung.name);
        let histogram = RungHistogram::new(device, rung.variant)?;
        let time_input = |input: &Buffer<u8>| -> Result<Option<TimedRuns>, DeviceError> {
            let times = time_rung_on_device(device, || histogram.launch(device.queue(), input, &counts))?;
            Ok(Some(timed(times)))
        };
        let runs = inputs.iter().map(time_input).collect::<Result<Vec<_>, _>>()?;
        let Some(result) = RungResult::with_sweep(rung.name, &runs, shown) else { continue };
        let note = rung.note.to_owned();
        ladder.add_rung(RungResult { note, work: WORK, roof: ladder.roofs.bandwidth, ..result });
    }
    Ok(())
}
