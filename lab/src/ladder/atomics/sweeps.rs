//! Atomics over a parameter: additions over the number of numbers, in global and in shared memory,
//! and the table of votes.

use orrery_device::{Device, DeviceError, DeviceKind};
use orrery_measure::timing::{largest_affordable_size, time_on_device, time_once};

use super::{MAX_NUMBERS_LOG, NUMBERS, shared_rounds};
use crate::experiments::atomics::device::{AtomicSupport, RealAddition, RealAtomics, Returns, WordAtomics};
use crate::experiments::atomics::shared::{SharedAddition, SharedAdditions, SharedPattern};
use crate::experiments::atomics::votes::{Vote, Votes};
use crate::experiments::atomics::{AtomicOperation, AtomicPattern, AtomicWorkload};
use crate::ladder::{DataCell, DataRow, DataTable, LadderRequest, Sweep, SweepScale, SweepSeries};

/// Time limit for a point of the sweep: on one number, compare-and-swap is slow.
const SWEEP_SECONDS: f64 = 0.02;
/// Number of timed runs of a point.
const SWEEP_REPEATS: usize = 3;
/// Numbers per warp of the sweep of shared memory.
const SHARED_NUMBERS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Votes of each warp on a GPU and on another device.
const VOTE_ROUNDS: [i32; 2] = [1000, 50];

/// Kinds of additions of the sweep, in the order of [`Contended::rates`].
const KINDS: [&str; 7] =
    ["racing", "u32 add", "random order", "with result", "f32 add", "f32 by CAS", "f64 add"];

/// Additions to few or many numbers.
pub struct Contended<'a> {
    device: &'a Device,
    /// Largest number of operations of a launch.
    operations: u32,
    words: WordAtomics<u32>,
    results: WordAtomics<u32>,
    floats: RealAtomics<f32>,
    has_f32_add: bool,
    /// None if the hardware does not add f64.
    doubles: Option<RealAtomics<f64>>,
}

impl<'a> Contended<'a> {
    /// Compiles the kernels for launches of `operations` operations.
    pub fn new(device: &'a Device, operations: u32, support: AtomicSupport) -> Result<Self, DeviceError> {
        let words = |returns| WordAtomics::<u32>::new(device, returns, NUMBERS, operations);
        let has_f64_add = support.has_u64 && device.properties().has_f64 && support.has_f64_add;
        Ok(Self {
            device,
            operations,
            words: words(Returns::Unused)?,
            results: words(Returns::Summed)?,
            floats: RealAtomics::new(device, NUMBERS)?,
            has_f32_add: support.has_f32_add,
            doubles: has_f64_add.then(|| RealAtomics::new(device, NUMBERS)).transpose()?,
        })
    }

    /// Measures the rate of the operations that `launch` queues, in 1e9 per second.
    fn rate_of(&self, launch: impl Fn(u32) -> Result<(), DeviceError>) -> Result<Option<f64>, DeviceError> {
        let time = |operations: usize| time_once(self.device, || launch(operations as u32));
        let (operations, seconds) = largest_affordable_size(self.operations as usize, SWEEP_SECONDS, time)?;
        let times = time_on_device(self.device, SWEEP_REPEATS, seconds, || launch(operations as u32))?;
        Ok(Some(operations as f64 / times.median() / 1e9))
    }

    /// Measures all kinds of additions to `numbers` numbers. None for those that the device lacks.
    fn rates(&self, numbers: usize) -> Result<[Option<f64>; KINDS.len()], DeviceError> {
        let queue = self.device.queue();
        let in_order = |operations| AtomicWorkload { operations, numbers, pattern: AtomicPattern::InOrder };
        let random = |operations| AtomicWorkload { operations, numbers, pattern: AtomicPattern::Random };
        let (add, racing) = (AtomicOperation::Add, AtomicOperation::RacingAdd);
        let (hardware, by_cas) = (RealAddition::Hardware, RealAddition::CompareAndSwap);
        let add_floats = |method| self.rate_of(|count| self.floats.launch(queue, method, &in_order(count)));
        let add_doubles = |doubles: &RealAtomics<f64>| {
            self.rate_of(|count| doubles.launch(queue, hardware, &in_order(count)))
        };
        Ok([
            self.rate_of(|count| self.words.launch(queue, racing, &in_order(count)))?,
            self.rate_of(|count| self.words.launch(queue, add, &in_order(count)))?,
            self.rate_of(|count| self.words.launch(queue, add, &random(count)))?,
            self.rate_of(|count| self.results.launch(queue, add, &in_order(count)))?,
            if self.has_f32_add { add_floats(hardware)? } else { None },
            add_floats(by_cas)?,
            self.doubles.as_ref().map_or(Ok(None), add_doubles)?,
        ])
    }

    /// Returns the percentage of racing additions of 1 to `numbers` numbers that get lost.
    fn lost_percent(&self, numbers: usize) -> Result<f64, DeviceError> {
        let (queue, racing) = (self.device.queue(), AtomicOperation::RacingAdd);
        let work = AtomicWorkload { operations: self.operations, numbers, pattern: AtomicPattern::InOrder };
        self.words.reset(queue, racing)?;
        self.words.launch(queue, racing, &work)?;
        let kept = self.words.numbers(numbers)?.iter().sum::<u64>() as f64;
        Ok(100.0 * (1.0 - kept / f64::from(work.operations)))
    }

    /// Measures additions over the number of numbers, and the share of racing additions that get
    /// lost.
    pub fn sweep_numbers(&self, request: &mut LadderRequest) -> Result<[Sweep; 2], DeviceError> {
        let step = if self.device.properties().kind == DeviceKind::Gpu { 1 } else { 4 };
        let counts: Vec<usize> = (0..=MAX_NUMBERS_LOG).step_by(step).map(|log| 1 << log).collect();
        let mut series = KINDS.map(|name| SweepSeries { name: name.to_owned(), points: Vec::new() });
        let mut lost = Vec::new();
        for &numbers in &counts {
            (request.progress)(&format!("additions to {numbers} numbers"));
            let rates = self.rates(numbers)?;
            series.iter_mut().zip(rates).for_each(|(series, rate)| series.points.push(rate));
            lost.push(Some(self.lost_percent(numbers)?));
        }
        let sweep = |title: &str, unit, y_scale, series| Sweep {
            title: title.to_owned(),
            parameter: "numbers",
            unit,
            x_scale: SweepScale::Log,
            y_scale,
            values: counts.iter().map(|count| *count as f64).collect(),
            series,
        };
        let has_points = |series: &SweepSeries| series.points.iter().any(Option::is_some);
        let series = series.into_iter().filter(has_points).collect();
        let lost = vec![SweepSeries { name: "lost".to_owned(), points: lost }];
        Ok([
            sweep("additions by the number of numbers", "Gop/s", SweepScale::Log, series),
            sweep("racing additions that got lost", "%", SweepScale::Linear, lost),
        ])
    }
}

/// Measures the cost of an addition of a warp in shared memory over the numbers that its lanes
/// use.
pub fn sweep_shared(
    request: &mut LadderRequest,
    device: &Device,
    has_u64: bool,
) -> Result<Sweep, DeviceError> {
    let kinds = [("u32", SharedAddition::U32), ("f32", SharedAddition::F32), ("u64", SharedAddition::U64)];
    let mut unit = "ns per addition of a warp";
    let mut series = Vec::new();
    for (name, addition) in
        kinds.into_iter().filter(|(_, addition)| has_u64 || *addition != SharedAddition::U64)
    {
        (request.progress)(&format!("shared memory, {name}"));
        let mut points = Vec::new();
        for numbers in SHARED_NUMBERS {
            let additions = SharedAdditions::new(device, SharedPattern::Numbers(numbers))?;
            let rounds = shared_rounds(request.n, &additions);
            let seconds = time_once(device, || additions.launch(device.queue(), addition, rounds))?;
            let cycles = additions.cycles_per_addition(rounds)?;
            if cycles.is_some() {
                unit = "cycles per addition of a warp";
            }
            points.push(Some(cycles.unwrap_or(1e9 * seconds / additions.additions_per_block(rounds))));
        }
        series.push(SweepSeries { name: name.to_owned(), points });
    }
    Ok(Sweep {
        title: "additions to shared memory".to_owned(),
        parameter: "numbers per warp",
        unit,
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Log,
        values: SHARED_NUMBERS.map(|numbers| numbers as f64).to_vec(),
        series,
    })
}

/// Returns the table of votes.
pub fn vote_table(request: &mut LadderRequest, device: &Device) -> Result<DataTable, DeviceError> {
    let properties = device.properties();
    let is_gpu = properties.kind == DeviceKind::Gpu;
    let blocks = if is_gpu { Votes::new(device, 1)?.resident_blocks() } else { properties.sm_count };
    let votes = Votes::new(device, blocks)?;
    let rounds = VOTE_ROUNDS[usize::from(!is_gpu)];
    let mut rows = Vec::new();
    for vote in Vote::ALL {
        (request.progress)(vote.name());
        let seconds = time_once(device, || votes.launch(device.queue(), vote, rounds))?;
        let rate = votes.warp_count() as f64 * f64::from(rounds) / seconds;
        let per_clock = rate / (f64::from(properties.sm_count) * properties.clock_hz);
        let per_clock = if is_gpu { DataCell::Number(per_clock) } else { DataCell::Text("-".to_owned()) };
        let cells = vec![DataCell::Number(rate / 1e9), per_clock];
        rows.push(DataRow { name: vote.name().to_owned(), cells });
    }
    let how = if properties.has_warp_shuffle { "" } else { ", through shared memory" };
    Ok(DataTable {
        title: format!("votes of warps{how}, each with the computation of its numbers"),
        row_heading: "vote",
        columns: ["1e9 per s", "per SM and clock"].map(str::to_owned).to_vec(),
        rows,
    })
}
