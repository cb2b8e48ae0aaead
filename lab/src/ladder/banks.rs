//! Ladder of shared memory banks: reads of a warp with and without bank conflicts.

use std::cell::OnceCell;
use std::fmt;

use orrery_device::{Device, DeviceError, DeviceKind};
use orrery_measure::MeasureError;
use orrery_measure::format::{format_number, format_rate};

use super::repeats::time_point;
use super::{
    BYTES, CheckedRung, DefaultSizes, Ladder, LadderEntry, LadderRequest, LadderRung, PrepareResult,
    PreparedRung, Roof, RungClock, RungDetails, RungLabel, RungLimit, RungSet, Sweep, SweepScale,
    SweepSeries, TimedRuns, Work,
};
use crate::experiments::banks::{
    BankPattern, BankReads, BankRung, LANES, READS_PER_ROUND, read_on_all_cores, read_reference, rungs,
    selftest,
};

pub static LADDER: LadderEntry = LadderEntry {
    name: "banks",
    description: "Reads of shared memory with and without bank conflicts",
    title: "reads of shared memory",
    size_unit: "reads per thread",
    host_bytes: |n| n as u64,
    sizes: DefaultSizes { gpu: 1 << 16, opencl_cpu: 1 << 12, host: 1 << 20 },
    counted: BYTES,
    rungs: &[RungSet::of::<BankRung>()],
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

/// Reads per thread, and the first rung, which has no conflicts and with which all are compared.
pub struct BankInput {
    device: Device,
    rounds: i32,
    free: OnceCell<(f64, ReadCost)>,
}

/// Returns the rounds in which a thread does about `n` reads.
fn rounds_of(n: usize) -> usize {
    n.div_ceil(READS_PER_ROUND).min(i32::MAX as usize)
}

/// Returns the bytes that `threads` threads read.
fn bytes_read(threads: usize, rounds: usize) -> f64 {
    BYTES_PER_READ * threads as f64 * (rounds * READS_PER_ROUND) as f64
}

impl LadderRung for BankRung {
    type Input = BankInput;

    fn all(_: &Device) -> Vec<Self> {
        rungs()
    }

    fn new_input(device: &Device, n: usize) -> Result<BankInput, MeasureError> {
        Ok(BankInput { device: device.clone(), rounds: rounds_of(n) as i32, free: OnceCell::new() })
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel::new(self.name, "")
    }

    fn prepare<'a>(
        &'a self,
        BankInput { device, rounds, free }: &'a BankInput,
        n: usize,
        _: usize,
    ) -> PrepareResult<'a> {
        let reads = BankReads::new(device, self.pattern)?;
        let (kernel, items) = (reads.resources(), bytes_read(reads.thread_count(), *rounds as usize));
        let launch = move |reads: &mut BankReads| reads.launch(device.queue(), *rounds);
        let details = move |reads: &mut BankReads, runs: &TimedRuns| {
            let cost = ReadCost::of_last_launch(reads, *rounds, runs.times.median())?;
            let (free_rate, free_cost) = *free.get_or_init(|| (runs.rate(), cost));
            let factor = format_number(cost.value / free_cost.value);
            let expected = self.pattern.conflict_factor();
            let note = format!("{cost}, conflict factor {factor}, expected {expected} for 32 banks");
            Ok(RungDetails {
                note: Some(note),
                limit: Some(RungLimit::Rate(free_rate)),
                ..RungDetails::default()
            })
        };
        let prepared = PreparedRung::with_details(RungClock::of(device), n, items, reads, launch, details);
        Ok(Some(prepared.with_work(WORK, RungLimit::Unknown).with_kernel(kernel)))
    }
}

impl CheckedRung for BankRung {
    fn check(&self, device: &Device) -> Result<(), String> {
        selftest::check_pattern(device, self.pattern)
    }
}

fn measure_on_host(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    type ReadOnHost = fn(&[u32; LANES], usize) -> [u32; LANES];
    let (words, rounds) = (BankPattern::Stride(1).words(), rounds_of(request.n));
    let reads: [(&str, ReadOnHost, usize); 2] = [
        ("CPU, one thread", read_reference, 1),
        ("CPU, all cores", read_on_all_cores, rayon::current_num_threads()),
    ];
    for (name, read, threads) in reads {
        let items = bytes_read(LANES * threads, rounds);
        let prepared = PreparedRung::on_host(request.n, items, || read(&words, rounds))
            .with_work(WORK, RungLimit::Unknown);
        let note = "32 lanes in turn, from an array in the cache";
        ladder.measure_prepared(request, name, note, prepared)?;
    }
    Ok(())
}

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    measure_on_host(request, ladder)?;
    let Some(device) = request.device else { return Ok(()) };
    let input = BankRung::new_input(device, request.n)?;
    ladder.measure_rungs(request, &rungs(), &input)?;
    ladder.roof = input.free.get().map(|(rate, _)| Roof {
        name: "free",
        description: format!("{}, stride 1, which is free of conflicts", format_rate(*rate, "B/s")),
    });
    if device.properties().kind != DeviceKind::Gpu {
        ladder.remarks.push(
            "Shared memory of this device is a cache without banks, so it has no conflicts.".to_owned(),
        );
    }
    (request.progress)("all strides");
    ladder.sweeps.push(sweep_strides(device, input.rounds)?);
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
        let times = time_point(device, SWEEP_REPEATS, || reads.launch(device.queue(), rounds))?;
        ReadCost::of_last_launch(&reads, rounds, times.median())
    };
    let costs = STRIDES.map(cost_of).collect::<Result<Vec<_>, _>>()?;
    let ReadCost { value: free_cost, unit } = costs[0];
    let expected = STRIDES.map(|stride| free_cost * BankPattern::Stride(stride).conflict_factor() as f64);
    Ok(Sweep {
        title: "reads of shared memory with a stride".to_owned(),
        parameter: "stride, words",
        unit,
        x_scale: SweepScale::Linear,
        y_scale: SweepScale::Linear,
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
