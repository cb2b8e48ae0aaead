//! Ladder of histograms: bytes in 256 bins, for random and for equal bytes.

use orrery_device::testing::random_bits;
use orrery_device::{Buffer, Device, DeviceError, ceiling};
use orrery_primitives::histogram::rungs::{RungHistogram, rungs};
use orrery_primitives::histogram::{BYTE_BINS, histogram_on_cpu, histogram_reference};
use rayon::prelude::*;

use super::peaks::{rate_on_cpu, rate_on_device};
use super::sweep::{ComparedColumn, Sweep, SweepRung};
use crate::LabError;

/// Inputs of the histogram. Equal bytes all increment the same counter.
const INPUTS: [&str; 2] = ["random", "equal"];

/// Measures the CPU versions and every rung of `device`. Calls `progress` with the name of each
/// rung before it is measured.
pub fn measure_ladder(
    device: Option<&Device>,
    n: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Sweep, LabError> {
    let random: Vec<u8> = (0..n as u64).into_par_iter().map(|index| random_bits(index) as u8).collect();
    let bytes = n as f64;
    progress("CPU");
    let mut sweep = Sweep {
        title: "histogram of 256 bins".to_owned(),
        device: device.map_or_else(crate::devices::cpu_name, |device| device.title()),
        n,
        size_unit: "bytes",
        parameter: "input",
        columns: INPUTS.map(str::to_owned).to_vec(),
        compared: ComparedColumn::First,
        copy: None,
        on_cpu: vec![
            ("CPU, one thread", rate_on_cpu(bytes, || histogram_reference(&random))),
            ("CPU, all cores", rate_on_cpu(bytes, || histogram_on_cpu(&random))),
        ],
        rungs: Vec::new(),
    };
    let Some(device) = device else { return Ok(sweep) };
    sweep.copy = Some(ceiling::measure(device)?.copy_bytes_per_s);
    let inputs = [device.upload(&random)?, device.zeros(n)?];
    let counts = device.zeros(BYTE_BINS)?;
    for rung in rungs() {
        progress(rung.name);
        let measure_rate = |input: &Buffer<u8>| -> Result<Option<f64>, DeviceError> {
            let histogram = RungHistogram::new(device, rung.variant)?;
            rate_on_device(device, bytes, || histogram.launch(device.queue(), input, &counts)).map(Some)
        };
        let rates = inputs.iter().map(measure_rate).collect::<Result<_, _>>()?;
        sweep.rungs.push(SweepRung { name: rung.name, rates, course: None, note: rung.note });
    }
    Ok(sweep)
}
