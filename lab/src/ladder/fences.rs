//! Ladder of fences: trials of litmus tests per second, and the outcomes that occurred.

use std::cell::OnceCell;

use orrery_device::{Device, DeviceKind};
use orrery_measure::MeasureError;
use orrery_measure::format::format_thousands;

use super::{
    Counted, DataCell, DataRow, DataTable, DefaultSizes, Ladder, LadderEntry, LadderRequest, LadderRung,
    PrepareResult, PreparedRung, Roof, RungClock, RungDetails, RungLabel, RungLimit, RungSet, TimedRuns,
};
use crate::experiments::fences::cpu::{CpuOrdering, run_in_one_thread, run_in_two_threads};
use crate::experiments::fences::{
    LitmusAccess, LitmusFence, LitmusPlacement, LitmusTest, LitmusTrials, OUTCOME_NAMES, OutcomeCounts,
};

pub static LADDER: LadderEntry = LadderEntry {
    name: "fences",
    description: "Order of writes as another thread sees it, with and without fences",
    title: "litmus tests of the memory model",
    size_unit: "trials",
    host_bytes: |_| 1 << 20,
    sizes: DefaultSizes { gpu: 1 << 24, opencl_cpu: 1 << 17, host: 1 << 16 },
    counted: Counted {
        item: "trial",
        rate_unit: "trials/s",
        heading: "Mtri/s",
        to_column: |rate| rate / 1e6,
    },
    rungs: &[RungSet::of::<FenceRung>()],
    measure,
};

/// Largest number of trials on the CPU, whose threads meet before each trial.
const MAX_CPU_TRIALS: usize = 1 << 16;
/// Number of timed runs on the CPU. They are long on a machine whose cores are busy.
const CPU_REPEATS: usize = 3;

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    ladder.remarks.push(
        "X = 1 and Y = 2 become X = 10 and Y = 20. course: X = 10, Y = 20 in one thread, A = X, B = Y in the \
         other. message passing: B = Y, A = X. store buffering: X = 10, B = Y in one thread, Y = 20, A = X in \
         the other. The fence is between the two accesses of each thread."
            .to_owned(),
    );
    add_cpu_rungs(request, ladder)?;
    let Some(device) = request.device else { return Ok(()) };
    if device.properties().kind != DeviceKind::Gpu {
        ladder.remarks.push(
            "This device runs a block in one thread of the CPU, so only threads of different blocks race."
                .to_owned(),
        );
    }
    ladder.roof = Some(Roof {
        name: "free",
        description: "the same test without fence; CPU rungs have none".to_owned(),
    });
    (request.progress)("outcomes");
    let input = FenceRung::new_input(device, request.n)?;
    ladder.measure_rungs(request, &FenceRung::all(device), &input)?;
    for test in LitmusTest::ALL {
        let places = measured_placements(device).iter();
        ladder.tables.extend(places.map(|place| device_table(test, *place, &input.variants)));
    }
    Ok(())
}

/// Returns the fences that the ladder measures. OpenCL on a CPU compiles slowly, and has no threads
/// of a block that run at the same time and no further devices.
fn measured_fences(device: &Device) -> Vec<LitmusFence> {
    match device.properties().kind {
        DeviceKind::Gpu => LitmusFence::ALL.to_vec(),
        DeviceKind::Cpu | DeviceKind::Other => vec![LitmusFence::None, LitmusFence::Device],
    }
}

/// Returns the placements that the ladder measures.
fn measured_placements(device: &Device) -> &'static [LitmusPlacement] {
    match device.properties().kind {
        DeviceKind::Gpu => &LitmusPlacement::ALL,
        DeviceKind::Cpu | DeviceKind::Other => &[LitmusPlacement::DifferentBlocks],
    }
}

/// Outcomes of a test with the threads at one position.
struct CountedTest {
    test: LitmusTest,
    placement: LitmusPlacement,
    outcomes: OutcomeCounts,
    forbidden: Option<usize>,
}

/// A kind of access and fence with the outcomes of all tests.
struct CountedTrials {
    access: LitmusAccess,
    fence: LitmusFence,
    trials: LitmusTrials,
    counts: Vec<CountedTest>,
}

impl CountedTrials {
    fn find(&self, test: LitmusTest, placement: LitmusPlacement) -> Option<&CountedTest> {
        self.counts.iter().find(|counted| counted.test == test && counted.placement == placement)
    }
}

/// Counts the outcomes of all tests. A forbidden outcome is an error.
fn count_outcomes(
    device: &Device,
    trials: &LitmusTrials,
    count: usize,
) -> Result<Vec<CountedTest>, MeasureError> {
    let mut counts = Vec::new();
    for test in LitmusTest::ALL {
        for &placement in measured_placements(device) {
            let outcomes = trials.count_outcomes(device.queue(), test, placement, count)?;
            let forbidden = trials.forbidden(test, placement);
            if let Some(message) = outcomes.find_forbidden(forbidden) {
                let rung = format!("{}, {}", test.name(), placement.name());
                return Err(MeasureError::WrongResult { rung, message });
            }
            counts.push(CountedTest { test, placement, outcomes, forbidden });
        }
    }
    Ok(counts)
}

/// One test with one fence, with volatile accesses of threads of different blocks.
struct FenceRung {
    test: LitmusTest,
    fence: LitmusFence,
}

/// Outcomes for all kinds of accesses and fences, and the rate of each test without a fence.
pub struct FenceInput {
    device: Device,
    variants: Vec<CountedTrials>,
    free_rates: [OnceCell<f64>; LitmusTest::ALL.len()],
}

impl LadderRung for FenceRung {
    type Input = FenceInput;

    fn all(device: &Device) -> Vec<Self> {
        let rungs_of = |test| measured_fences(device).into_iter().map(move |fence| Self { test, fence });
        LitmusTest::ALL.into_iter().flat_map(rungs_of).collect()
    }

    fn new_input(device: &Device, n: usize) -> Result<FenceInput, MeasureError> {
        let mut variants = Vec::new();
        for access in LitmusAccess::ALL {
            for fence in measured_fences(device) {
                let trials = LitmusTrials::new(device, access, fence)?;
                let counts = count_outcomes(device, &trials, n)?;
                variants.push(CountedTrials { access, fence, trials, counts });
            }
        }
        Ok(FenceInput { device: device.clone(), variants, free_rates: Default::default() })
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel::new(format!("{}, {}", self.test.name(), self.fence.name()), "")
    }

    fn prepare<'a>(
        &'a self,
        FenceInput { device, variants, free_rates }: &'a FenceInput,
        n: usize,
        _: usize,
    ) -> PrepareResult<'a> {
        let is_own = |variant: &&CountedTrials| {
            variant.access == LitmusAccess::Volatile && variant.fence == self.fence
        };
        let Some(CountedTrials { trials, counts, .. }) = variants.iter().find(is_own) else {
            return Ok(None);
        };
        let (test, placement) = (self.test, LitmusPlacement::DifferentBlocks);
        let launch = move |(): &mut ()| trials.launch_trials(device.queue(), test, placement);
        let details = move |(): &mut (), runs: &TimedRuns| {
            let free_rate = *free_rates[test as usize].get_or_init(|| runs.rate());
            let counted =
                counts.iter().find(|counted| counted.test == test && counted.placement == placement);
            Ok(RungDetails {
                note: counted.map(|counted| describe_outcomes(&counted.outcomes, counted.forbidden)),
                limit: Some(RungLimit::Rate(free_rate)),
                ..RungDetails::default()
            })
        };
        let (clock, items) = (RungClock::of(device), trials.trials_per_launch() as f64);
        let prepared = PreparedRung::with_details(clock, n, items, (), launch, details);
        Ok(Some(prepared.with_kernel(trials.resources())))
    }
}

/// Describes the outcomes that occurred.
fn describe_outcomes(outcomes: &OutcomeCounts, forbidden: Option<usize>) -> String {
    let counts = OUTCOME_NAMES
        .iter()
        .zip(outcomes.counts)
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("({name}) {}", format_thousands(count as usize)));
    let counts = counts.collect::<Vec<_>>().join(", ");
    match forbidden {
        None => format!("A, B: {counts}"),
        Some(outcome) => format!("A, B: {counts}; ({}) is forbidden", OUTCOME_NAMES[outcome]),
    }
}

/// Adds the rungs of the CPU, in one thread and in two with each ordering, and the table of their
/// outcomes. The course's example has no rung: its accesses are those of message passing.
fn add_cpu_rungs(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let n = request.n.min(MAX_CPU_TRIALS);
    let mut rows = Vec::new();
    let mut add = |name: String, has_rung: bool, forbidden, run: &dyn Fn() -> OutcomeCounts| {
        (request.progress)(&name);
        rows.push(outcome_row(name.trim_start_matches("CPU, ").to_owned(), &run(), forbidden));
        if has_rung {
            let prepared = PreparedRung::on_host(n, n as f64, run).with_repeats(CPU_REPEATS);
            ladder.measure_prepared(request, &name, "", prepared)?;
        }
        Ok::<_, MeasureError>(())
    };
    for test in LitmusTest::ALL {
        let name = format!("CPU, one thread, {}", test.name());
        add(name, test == LitmusTest::MessagePassing, test.forbidden_in_order(), &|| {
            run_in_one_thread(test, n)
        })?;
    }
    for test in LitmusTest::ALL {
        for ordering in CpuOrdering::ALL {
            let name = format!("CPU, {}, {}", test.name(), ordering.name());
            add(name, test != LitmusTest::Course, ordering.forbidden(test), &|| {
                run_in_two_threads(test, ordering, n)
            })?;
        }
    }
    let title = format!(
        "outcomes A, B on the CPU, {} trials each: one thread in random order, two threads with atomics",
        format_thousands(n)
    );
    ladder.tables.push(outcome_table(title, rows));
    Ok(())
}

/// Returns the table of a test with the threads at one position: one row per access and fence.
fn device_table(test: LitmusTest, placement: LitmusPlacement, variants: &[CountedTrials]) -> DataTable {
    let row_of = |variant: &CountedTrials| {
        let counted = variant.find(test, placement)?;
        let name = format!("{}, {}", variant.access.name(), variant.fence.name());
        Some(outcome_row(name, &counted.outcomes, counted.forbidden))
    };
    let counted = variants.iter().find_map(|variant| variant.find(test, placement));
    let trials = counted.map_or(0, |counted| counted.outcomes.trials());
    let title = format!(
        "outcomes A, B of {}, threads in {}, {} trials each",
        test.name(),
        placement.name(),
        format_thousands(trials as usize)
    );
    outcome_table(title, variants.iter().filter_map(row_of).collect())
}

fn outcome_row(name: String, outcomes: &OutcomeCounts, forbidden: Option<usize>) -> DataRow {
    let allowed = match forbidden {
        None => "all".to_owned(),
        Some(outcome) => format!("not {}", OUTCOME_NAMES[outcome]),
    };
    let counts = outcomes.counts.into_iter().map(DataCell::Count);
    DataRow { name, cells: counts.chain([DataCell::Text(allowed)]).collect() }
}

fn outcome_table(title: String, rows: Vec<DataRow>) -> DataTable {
    let columns = OUTCOME_NAMES.into_iter().chain(["allowed"]).map(str::to_owned).collect();
    DataTable { title, row_heading: "variant", columns, rows }
}
