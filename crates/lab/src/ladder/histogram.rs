//! The ladder of histograms: bytes in 256 bins, when they are random and when they are all the same.

use orrery_device::{Buffer, Device, DeviceError, ceiling};
use orrery_primitives::histogram::rungs::{RungHistogram, rungs};
use orrery_primitives::histogram::{BYTE_BINS, histogram_on_cpu, histogram_reference};
use rayon::prelude::*;

use super::grid::{Grid, Judged, Row};
use super::peaks::{rate_on_cpu, rate_on_device};
use crate::LabError;

/// Kinds of bytes. Those that are all the same want one counter all the time.
const KINDS: [&str; 2] = ["random", "equal"];

/// Measures every rung that `device` has, after the processor's; `progress` hears each rung's name before it is measured.
pub fn measure(device: Option<&Device>, n: usize, progress: &mut dyn FnMut(&str)) -> Result<Grid, LabError> {
    let random: Vec<u8> = (0..n as u64).into_par_iter().map(mixed).collect();
    let bytes = n as f64;
    progress("CPU");
    let mut grid = Grid {
        title: "histogram of 256 bins".to_owned(),
        device: device.map_or_else(crate::devices::cpu_name, |device| device.title()),
        n,
        counted: "bytes",
        over: "kind of bytes",
        columns: KINDS.map(str::to_owned).to_vec(),
        judged: Judged::ByFirst,
        copy: None,
        on_cpu: vec![
            ("CPU, one thread", rate_on_cpu(bytes, || histogram_reference(&random))),
            ("CPU, all cores", rate_on_cpu(bytes, || histogram_on_cpu(&random))),
        ],
        rungs: Vec::new(),
    };
    let Some(device) = device else { return Ok(grid) };
    grid.copy = Some(ceiling::measure(device)?.copy_bytes_per_s);
    let kinds = [device.upload(&random)?, device.zeros(n)?];
    let to = device.zeros(BYTE_BINS)?;
    for rung in rungs() {
        progress(rung.name);
        let rate = |from: &Buffer<u8>| -> Result<Option<f64>, DeviceError> {
            let histogram = RungHistogram::new(device, rung.variant)?;
            rate_on_device(device, bytes, || histogram.queue(from, &to)).map(Some)
        };
        let rates = kinds.iter().map(rate).collect::<Result<_, _>>()?;
        grid.rungs.push(Row { name: rung.name, rates, course: None, note: rung.note });
    }
    Ok(grid)
}

/// A byte that has nothing to do with its neighbours' (Steele et al. 2014, SplitMix64).
fn mixed(index: u64) -> u8 {
    let mut z = (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as u8
}
