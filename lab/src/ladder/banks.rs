//! Ladder of shared memory banks: reads of a warp with and without bank conflicts.

use std::fmt;

use orrery_device::{Device, DeviceError, DeviceKind};
use orrery_measure::MeasureError;
use orrery_measure::format::{format_number, format_rate};
use orrery_measure::timing::{Times, time_on_device, time_once};

use super::repeats::{time_rung_on_cpu, time_rung_on_device};
use super::{
    BYTES, DefaultSizes, Ladder, LadderEntry, LadderRequest, Roof, RungResult, Scale, Sweep, SweepSeries,
    TimedRuns, Work,
};
use crate::experiments::banks::{
    BankPattern, BankReads, LANES, READS_PER_ROUND, read_on_all_cores, read_reference, rungs,
};

pub static LADDER: LadderEntry = LadderEntry {
    name: "banks",
    description: "Reads of shared memory with and without bank conflicts",
    title: "reads of shared memory",
    size_unit: "reads per thread",
    host_bytes: |n| n as u64,
    sizes: DefaultSizes { gpu: 1 << 16, opencl_cpu: 1 << 12, host: 1 << 20 },
    counted: BYTES,
    measure,
};

/// Bytes of a read.
const BYTES_PER_READ: f64 = 4.0;
/// The counted item is a byte that is read.
const WORK: Work = Work { flops: None, bytes: Some(1.0) };
/// Strides of the sweep.
const STRIDES: std::ops::RangeInclusive<usize> = 1..=33;
/// Number of timed runs for each stride of the sweep.
const SWEEP_REPEATS: usize = 5;

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let n = request.n;
    let rounds = n.div_ceil(READS_PER_ROUND).min(i32::MAX as usize);
    let reads_per_thread = (rounds * READS_PER_ROUND) as f64;
    let timed = |threads: usize, times: Times| TimedRuns {
        n,
        items: BYTES_PER_READ * threads as f64 * reads_per_thread,
        times,
    };
    let words = BankPattern::Stride(1).words();
    let mut add_on_cpu = |name, read: fn(&[u32; LANES], usize) -> [u32; LANES], threads| {
        (request.progress)(name);
        let runs = timed(LANES * threads, time_rung_on_cpu(|| read(&words, rounds)));
        let note = "32 lanes in turn, from an array in the cache".to_owned();
        ladder.add_rung(RungResult { note, work: WORK, ..RungResult::new(name, &runs) });
    };
    add_on_cpu("CPU, one thread", read_reference, 1);
    add_on_cpu("CPU, all cores", read_on_all_cores, rayon::current_num_threads());

    let Some(device) = request.device else { return Ok(()) };
    let rounds = rounds as i32;
    let mut fastest: Option<(f64, ReadCost)> = None;
    for rung in rungs() {
        (request.progress)(rung.name);
        let reads = BankReads::new(device, rung.pattern)?;
        let times = time_rung_on_device(device, || reads.launch(device.queue(), rounds))?;
        let runs = timed(reads.thread_count(), times);
        let cost = ReadCost::of_last_launch(&reads, rounds, runs.times.median())?;
        // The first rung has no conflicts. All others are compared with it.
        let (free_rate, free_cost) = *fastest.get_or_insert((runs.rate(), cost));
        let factor = cost.value / free_cost.value;
        let expected = rung.pattern.conflict_factor();
        let (kernel, occupancy) = reads.resources();
        ladder.add_rung(RungResult {
            note: format!(
                "{cost}, conflict factor {}, expected {expected} for 32 banks",
                format_number(factor)
            ),
            work: WORK,
            roof: Some(free_rate),
            registers: kernel.registers,
            shared_bytes: Some(kernel.shared_bytes),
            occupancy,
            ..RungResult::new(rung.name, &runs)
        });
    }
    let free_rate = fastest.map(|(rate, _)| rate);
    ladder.roof = free_rate.map(|rate| Roof {
        name: "free",
        description: format!("{}, stride 1, which is free of conflicts", format_rate(rate, "B/s")),
    });
    if device.properties().kind != DeviceKind::Gpu {
        ladder.remarks.push(
            "Shared memory of this device is a cache without banks, so it has no conflicts.".to_owned(),
        );
    }
    (request.progress)("all strides");
    ladder.sweeps.push(sweep_strides(device, rounds)?);
    Ok(())
}

/// Cost of one read by a warp.
#[derive(Clone, Copy, Debug)]
struct ReadCost {
    value: f64,
    unit: &'static str,
}

impl ReadCost {
    /// Returns the cost in the last launch, which took `seconds`: in cycles if the device counts
    /// them, else in ns. In both cases a block has an SM for itself.
    fn of_last_launch(reads: &BankReads, rounds: i32, seconds: f64) -> Result<Self, DeviceError> {
        Ok(match reads.cycles_per_read(rounds)? {
            Some(value) => Self { value, unit: "cycles per read of a warp" },
            None => {
                let value = 1e9 * seconds / reads.warp_reads_per_block(rounds);
                Self { value, unit: "ns per read of a warp" }
            }
        })
    }
}

impl fmt::Display for ReadCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", format_number(self.value), self.unit)
    }
}

/// Measures the cost of a read for all strides up to 33, next to the expected one: the cost of
/// stride 1 times gcd(stride, 32).
fn sweep_strides(device: &Device, rounds: i32) -> Result<Sweep, DeviceError> {
    let cost_of = |stride| -> Result<ReadCost, DeviceError> {
        let reads = BankReads::new(device, BankPattern::Stride(stride))?;
        let mut launch = || reads.launch(device.queue(), rounds);
        let run_seconds = time_once(device, &mut launch)?;
        let times = time_on_device(device, SWEEP_REPEATS, run_seconds, launch)?;
        ReadCost::of_last_launch(&reads, rounds, times.median())
    };
    let costs = STRIDES.map(cost_of).collect::<Result<Vec<_>, _>>()?;
    let ReadCost { value: free_cost, unit } = costs[0];
    let expected = STRIDES.map(|stride| free_cost * BankPattern::Stride(stride).conflict_factor() as f64);
    Ok(Sweep {
        title: "reads of shared memory with a stride".to_owned(),
        parameter: "stride, words",
        unit,
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        values: STRIDES.map(|stride| stride as f64).collect(),
        series: vec![
            SweepSeries {
                name: "measured".to_owned(),
                points: costs.iter().map(|cost| Some(cost.value)).collect(),
            },
            SweepSeries { name: "32 banks".to_owned(), points: expected.map(Some).collect() },
        ],
    })
}
