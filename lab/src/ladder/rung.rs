//! The trait that all rungs implement, and the loop that measures them.
//!
//! A [`LadderRung`] is a value: a name, a note, and a function that builds it for a problem size.
//! From the values of a ladder follow its table ([`Ladder::measure_rungs`]), the check "by every
//! rung" of the self-test ([`check_rungs`]), and the kernels that are compiled for CUDA without a
//! GPU ([`RungSet`]).

use std::borrow::Cow;
use std::time::Instant;

use orrery_device::{Device, DeviceError, Kernel, Resources};
use orrery_measure::MeasureError;
use orrery_measure::timing::{self, Times, largest_affordable_size, time_on_host};
use orrery_model::Precision;

use super::repeats::{TEST_REPEATS, time_rung_on_cpu, time_rung_on_device, time_waiting_rung};
use super::{Ladder, LadderRequest, Roofs, RungResult, ShownValue, TimedRuns, Work};

/// Rung that is built, or `None` if a device does not support it.
pub type PrepareResult<'a> = Result<Option<PreparedRung<'a>>, MeasureError>;

/// One rung of a ladder.
pub trait LadderRung: Sized {
    /// Input that the rungs of a ladder share, for example buffers on a device.
    type Input;

    /// Number of values of the ladder's parameter, for example of block sizes. 1 without one.
    const VALUES: usize = 1;
    /// Problem size with which a test builds and runs every rung once. All rungs can have it.
    const TEST_SIZE: usize = 1000;

    /// Returns the rungs for a device without results of the tuner, in the order of the table.
    fn all(device: &Device) -> Vec<Self>;

    /// Creates the input of a problem of size `n`.
    fn new_input(device: &Device, n: usize) -> Result<Self::Input, MeasureError>;

    /// Returns name, remark and figures of the row of the table.
    fn label(&self) -> RungLabel<'_>;

    /// Returns whether the rung depends on the ladder's parameter.
    fn has_parameter(&self) -> bool {
        Self::VALUES > 1
    }

    /// Returns the longest time of a run, in seconds. The problem is made smaller if a run would
    /// take longer. `None`: the problem always has the requested size.
    fn max_seconds(&self) -> Option<f64> {
        None
    }

    /// Builds the rung for a problem of size `n` and the parameter value with this index. Returns
    /// `None` if the device does not support the value, or not the rung.
    fn prepare<'a>(&'a self, input: &'a Self::Input, n: usize, value: usize) -> PrepareResult<'a>;

    /// Measures one value of the parameter.
    fn measure_value(
        &self,
        input: &Self::Input,
        n: usize,
        value: usize,
    ) -> Result<Option<MeasuredRung>, MeasureError> {
        let time_size = |n| match self.prepare(input, n, value)? {
            Some(mut prepared) => prepared.time_once(),
            None => Ok(0.0),
        };
        let n = match self.max_seconds() {
            Some(limit) => largest_affordable_size(n, limit, time_size)?.0,
            None => n,
        };
        self.prepare(input, n, value)?.map(PreparedRung::measure).transpose()
    }

    /// Measures all values of the parameter.
    fn measure(&self, input: &Self::Input, n: usize) -> Result<Vec<Option<MeasuredRung>>, MeasureError> {
        (0..value_count(self)).map(|value| self.measure_value(input, n, value)).collect()
    }
}

/// Returns the number of parameter values for which a rung is measured.
fn value_count<R: LadderRung>(rung: &R) -> usize {
    if rung.has_parameter() { R::VALUES } else { 1 }
}

/// Rung that the self-test compares with a reference implementation.
pub trait CheckedRung: LadderRung {
    /// Compares the results of the rung. The error is one line that says what is wrong.
    fn check(&self, device: &Device) -> Result<(), String>;
}

/// Checks every rung, for the self-test.
pub fn check_rungs<R: CheckedRung>(device: &Device) -> Result<(), String> {
    R::all(device)
        .iter()
        .try_for_each(|rung| rung.check(device).map_err(|error| format!("{}: {error}", rung.label().name)))
}

/// Rungs of one type, in the registry of ladders.
#[derive(Clone, Copy, Debug)]
pub struct RungSet {
    /// Builds every rung for a small problem and all values of the parameter, and runs it once.
    pub run_once: fn(&Device) -> Result<(), MeasureError>,
}

impl RungSet {
    /// Returns the set of all rungs of a type.
    pub const fn of<R: LadderRung>() -> Self {
        Self { run_once: run_once::<R> }
    }
}

fn run_once<R: LadderRung>(device: &Device) -> Result<(), MeasureError> {
    let input = R::new_input(device, R::TEST_SIZE)?;
    for rung in R::all(device) {
        for value in 0..value_count(&rung) {
            if let Some(mut prepared) = rung.prepare(&input, R::TEST_SIZE, value)? {
                prepared.run()?;
            }
        }
    }
    Ok(())
}

/// Clock that times the runs of a rung.
#[derive(Clone, Debug)]
pub enum RungClock {
    /// Clock of the host, for work of the CPU.
    Host,
    /// The same for a fixed number of runs.
    HostRepeats(usize),
    /// Clock of the host, for work that waits for the device.
    Waiting,
    /// Events in the default queue of a device.
    Queue(Device),
}

/// Highest rate that the hardware allows.
#[derive(Clone, Copy, Debug)]
pub enum RungLimit {
    /// Unknown.
    Unknown,
    /// Bytes per item at the bandwidth of memory.
    Bandwidth,
    /// Operations per item at the peak of a precision.
    Flops(Precision),
    /// Items per second.
    Rate(f64),
}

impl RungClock {
    /// Returns the clock of a device's default queue.
    pub fn of(device: &Device) -> Self {
        Self::Queue(device.clone())
    }
}

impl RungLimit {
    fn rate(self, roofs: &Roofs, work: &Work) -> Option<f64> {
        match self {
            Self::Unknown => None,
            Self::Bandwidth => Some(roofs.bandwidth? / work.bytes?),
            Self::Flops(precision) => Some(roofs.peak_flops(precision)? / work.flops?),
            Self::Rate(rate) => Some(rate),
        }
    }
}

/// Resources of the kernel that takes most of the time, and its occupancy.
pub type KernelUse = (Resources, Option<f64>);

/// Returns the resources of a kernel that is launched with this block size.
pub fn kernel_use(kernel: &Kernel, block_size: u32) -> KernelUse {
    (kernel.resources(), kernel.occupancy(block_size))
}

/// Facts about a rung that only its runs show. `None` leaves them as they are.
#[derive(Clone, Debug, Default)]
pub struct RungDetails {
    /// Remark for readers of the table.
    pub note: Option<String>,
    /// Error of the result.
    pub error: Option<f64>,
    /// Items of a run, and the work per item.
    pub counted: Option<(f64, Work)>,
    /// Resources of the kernel.
    pub kernel: Option<KernelUse>,
    /// Highest rate that the hardware allows.
    pub limit: Option<RungLimit>,
}

/// Program of a rung with its state.
trait RungProgram {
    fn run(&mut self) -> Result<(), MeasureError>;
    fn details(&mut self, runs: &TimedRuns) -> Result<RungDetails, MeasureError>;
}

struct StatefulProgram<S, R, D> {
    state: S,
    run: R,
    details: D,
}

impl<S, E, R, D> RungProgram for StatefulProgram<S, R, D>
where
    MeasureError: From<E>,
    R: FnMut(&mut S) -> Result<(), E>,
    D: FnMut(&mut S, &TimedRuns) -> Result<RungDetails, MeasureError>,
{
    fn run(&mut self) -> Result<(), MeasureError> {
        Ok((self.run)(&mut self.state)?)
    }

    fn details(&mut self, runs: &TimedRuns) -> Result<RungDetails, MeasureError> {
        (self.details)(&mut self.state, runs)
    }
}

/// Rung that is built for a problem size and can run.
pub struct PreparedRung<'a> {
    n: usize,
    items: f64,
    work: Work,
    limit: RungLimit,
    kernel: Option<KernelUse>,
    clock: RungClock,
    program: Box<dyn RungProgram + 'a>,
}

impl<'a> PreparedRung<'a> {
    /// Creates a rung of `n` items as the problem size, of which a run counts `items`.
    pub fn new<E: 'a>(
        clock: RungClock,
        n: usize,
        items: f64,
        mut run: impl FnMut() -> Result<(), E> + 'a,
    ) -> Self
    where
        MeasureError: From<E>,
    {
        let details = |_: &mut (), _: &TimedRuns| Ok(RungDetails::default());
        Self::with_details(clock, n, items, (), move |_| run(), details)
    }

    /// Does the same for a rung whose state also shows details after its runs.
    pub fn with_details<S: 'a, E: 'a>(
        clock: RungClock,
        n: usize,
        items: f64,
        state: S,
        run: impl FnMut(&mut S) -> Result<(), E> + 'a,
        details: impl FnMut(&mut S, &TimedRuns) -> Result<RungDetails, MeasureError> + 'a,
    ) -> Self
    where
        MeasureError: From<E>,
    {
        let program = Box::new(StatefulProgram { state, run, details });
        let (work, limit) = (Work::default(), RungLimit::Unknown);
        Self { n, items, work, limit, kernel: None, clock, program }
    }

    /// Creates a rung of the CPU.
    pub fn on_host<T>(n: usize, items: f64, mut work: impl FnMut() -> T + 'a) -> Self {
        let run = move || {
            std::hint::black_box(work());
            Ok::<_, MeasureError>(())
        };
        Self::new(RungClock::Host, n, items, run)
    }

    /// Sets the number of timed runs of a rung of the CPU.
    pub fn with_repeats(self, repeats: usize) -> Self {
        Self { clock: RungClock::HostRepeats(repeats), ..self }
    }

    /// Sets the work per item and what limits the rate.
    pub fn with_work(self, work: Work, limit: RungLimit) -> Self {
        Self { work, limit, ..self }
    }

    /// Sets the resources of the kernel that takes most of the time.
    pub fn with_kernel(self, kernel: KernelUse) -> Self {
        Self { kernel: Some(kernel), ..self }
    }

    /// Runs once: queues the work of a device, or does that of the CPU.
    pub fn run(&mut self) -> Result<(), MeasureError> {
        self.program.run()
    }

    /// Times one run, after one that is not timed.
    pub fn time_once(&mut self) -> Result<f64, MeasureError> {
        let program = &mut self.program;
        match &self.clock {
            RungClock::Queue(device) => timing::time_once(device, || program.run()),
            _ => {
                self.run()?;
                let start = Instant::now();
                self.run()?;
                Ok(start.elapsed().as_secs_f64())
            }
        }
    }

    /// Times as many runs as a rung has time for.
    fn time(&mut self) -> Result<Times, MeasureError> {
        let program = &mut self.program;
        let mut failure = None;
        let mut run_on_host = || {
            if failure.is_none() {
                failure = program.run().err();
            }
        };
        let times = match &self.clock {
            RungClock::Queue(device) => return time_rung_on_device(device, || program.run()),
            RungClock::Waiting => return time_waiting_rung(|| program.run()),
            RungClock::Host => time_rung_on_cpu(&mut run_on_host),
            RungClock::HostRepeats(repeats) => {
                time_on_host(TEST_REPEATS.unwrap_or(*repeats), &mut run_on_host)
            }
        };
        failure.map_or(Ok(times), Err)
    }

    /// Measures the rung.
    pub fn measure(mut self) -> Result<MeasuredRung, MeasureError> {
        let times = self.time()?;
        let mut runs = TimedRuns { n: self.n, items: self.items, times };
        let details = self.program.details(&runs)?;
        let (items, work) = details.counted.unwrap_or((self.items, self.work));
        runs.items = items;
        Ok(MeasuredRung {
            is_on_host: matches!(self.clock, RungClock::Host | RungClock::HostRepeats(_)),
            runs,
            work,
            limit: details.limit.unwrap_or(self.limit),
            kernel: details.kernel.or(self.kernel),
            note: details.note,
            error: details.error,
        })
    }
}

/// Result of a rung for one value of the parameter.
#[derive(Clone, Debug)]
pub struct MeasuredRung {
    /// Whether the CPU runs the rung, so that its roofs are those of the host.
    pub is_on_host: bool,
    /// Times and counted items.
    pub runs: TimedRuns,
    /// Work per item.
    pub work: Work,
    /// Highest rate that the hardware allows.
    pub limit: RungLimit,
    /// Resources of the kernel that takes most of the time.
    pub kernel: Option<KernelUse>,
    /// Remark in place of that of the rung.
    pub note: Option<String>,
    /// Error of the result.
    pub error: Option<f64>,
}

impl MeasuredRung {
    /// Creates the result of runs on a device.
    pub fn on_device(runs: TimedRuns, work: Work, limit: RungLimit) -> Self {
        Self { is_on_host: false, runs, work, limit, kernel: None, note: None, error: None }
    }

    /// Creates the result of runs on the CPU.
    pub fn on_host(runs: TimedRuns, work: Work, limit: RungLimit) -> Self {
        Self { is_on_host: true, ..Self::on_device(runs, work, limit) }
    }
}

/// Name, remark and figures of a row of the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RungLabel<'a> {
    /// Name: the change from the previous rung.
    pub name: Cow<'a, str>,
    /// Remark for readers of the table. May be empty.
    pub note: Cow<'a, str>,
    /// Figures from another source, for example a course. Empty if there are none.
    pub reference: &'a [f64],
}

impl<'a> RungLabel<'a> {
    /// Creates a label without figures from another source.
    pub fn new(name: impl Into<Cow<'a, str>>, note: impl Into<Cow<'a, str>>) -> Self {
        Self { name: name.into(), note: note.into(), reference: &[] }
    }
}

impl Ladder {
    /// Measures rungs one after the other and adds their results. This is the loop of all ladders.
    pub(super) fn measure_rungs<R: LadderRung>(
        &mut self,
        request: &mut LadderRequest,
        rungs: &[R],
        input: &R::Input,
    ) -> Result<(), MeasureError> {
        rungs.iter().try_for_each(|rung| self.measure_rung(request, rung, input).map(drop))
    }

    /// Measures one rung and adds its result. Returns whether the device supports it.
    pub(super) fn measure_rung<R: LadderRung>(
        &mut self,
        request: &mut LadderRequest,
        rung: &R,
        input: &R::Input,
    ) -> Result<bool, MeasureError> {
        let label = rung.label();
        (request.progress)(&label.name);
        let measured = rung.measure(input, request.n)?;
        Ok(self.add_measured(label, measured))
    }

    /// Measures a rung that is built already, for example one of the CPU, and adds its result.
    pub(super) fn measure_prepared(
        &mut self,
        request: &mut LadderRequest,
        name: &str,
        note: &str,
        prepared: PreparedRung,
    ) -> Result<(), MeasureError> {
        (request.progress)(name);
        self.add_measured(RungLabel::new(name, note), vec![Some(prepared.measure()?)]);
        Ok(())
    }

    /// Adds the results of a rung, one for each value of the parameter, or a single one if it does
    /// not depend on it. Returns false if the value that represents the rung was not measured.
    pub(super) fn add_measured(&mut self, label: RungLabel, measured: Vec<Option<MeasuredRung>>) -> bool {
        let result = match (&self.parameter, &measured[..]) {
            (_, [single]) => single.as_ref().map(|single| RungResult::new(&label.name, &single.runs)),
            (parameter, _) => {
                let runs: Vec<_> = measured.iter().map(|value| Some(value.as_ref()?.runs.clone())).collect();
                let shown = parameter.as_ref().map_or(ShownValue::First, |parameter| parameter.shown);
                RungResult::with_sweep(&label.name, &runs, shown)
            }
        };
        let Some(result) = result else { return false };
        let Some(shown) = measured.into_iter().nth(result.value.unwrap_or(0)).flatten() else { return false };
        let roofs = if shown.is_on_host { &self.host_roofs } else { &self.roofs };
        let (kernel, occupancy) = shown.kernel.unzip();
        let rung = RungResult {
            note: shown.note.unwrap_or_else(|| label.note.into_owned()),
            work: shown.work,
            roof: shown.limit.rate(roofs, &shown.work),
            registers: kernel.and_then(|kernel| kernel.registers),
            shared_bytes: kernel.map(|kernel| kernel.shared_bytes),
            occupancy: occupancy.flatten(),
            error: shown.error,
            reference: label.reference.to_vec(),
            ..result
        };
        self.add_rung(rung);
        true
    }

    /// Compares the following rungs with copies in the memory of the device.
    pub(super) fn use_copy_roof_of(&mut self, device: &Device) -> Result<(), DeviceError> {
        self.roofs = Roofs::of_device(device)?;
        self.roof = self.roofs.copy_roof();
        Ok(())
    }
}
