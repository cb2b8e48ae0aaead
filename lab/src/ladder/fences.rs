//! Ladder of fences: trials of litmus tests per second, and the outcomes that occurred.

use orrery_device::{Device, DeviceKind};
use orrery_measure::MeasureError;
use orrery_measure::format::format_thousands;
use orrery_measure::timing::time_on_host;

use super::repeats::time_rung_on_device;
use super::{
    Counted, DataCell, DataRow, DataTable, DefaultSizes, Ladder, LadderEntry, LadderRequest, Roof,
    RungResult, TimedRuns,
};
use crate::experiments::fences::cpu::{CpuOrdering, run_in_one_thread, run_in_two_threads};
use crate::experiments::fences::{
    Access, Fence, LitmusTest, LitmusTrials, OUTCOME_NAMES, OutcomeCounts, Placement,
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
    add_cpu_rungs(request, ladder);
    let Some(device) = request.device else { return Ok(()) };
    if device.properties().kind != DeviceKind::Gpu {
        ladder.remarks.push(
            "This device runs a block in one thread of the CPU, so only threads of different blocks race."
                .to_owned(),
        );
    }
    let mut variants = Vec::new();
    for access in Access::ALL {
        for fence in measured_fences(device) {
            (request.progress)(&format!("outcomes, {}, {}", access.name(), fence.name()));
            let trials = LitmusTrials::new(device, access, fence)?;
            let counts = count_outcomes(device, &trials, request.n)?;
            variants.push(Variant { access, fence, trials, counts });
        }
    }
    add_device_rungs(request, ladder, device, &variants)?;
    for test in LitmusTest::ALL {
        let places = measured_placements(device).iter();
        ladder.tables.extend(places.map(|place| device_table(test, *place, &variants)));
    }
    Ok(())
}

/// Returns the fences that the ladder measures. OpenCL on a CPU compiles slowly, and has no threads
/// of a block that run at the same time and no further devices.
fn measured_fences(device: &Device) -> Vec<Fence> {
    match device.properties().kind {
        DeviceKind::Gpu => Fence::ALL.to_vec(),
        DeviceKind::Cpu | DeviceKind::Other => vec![Fence::None, Fence::Device],
    }
}

/// Returns the placements that the ladder measures.
fn measured_placements(device: &Device) -> &'static [Placement] {
    match device.properties().kind {
        DeviceKind::Gpu => &Placement::ALL,
        DeviceKind::Cpu | DeviceKind::Other => &[Placement::DifferentBlocks],
    }
}

/// Outcomes of a test with the threads at one position.
struct CountedTest {
    test: LitmusTest,
    placement: Placement,
    outcomes: OutcomeCounts,
    forbidden: Option<usize>,
}

/// A kind of access and fence with the outcomes of all tests.
struct Variant {
    access: Access,
    fence: Fence,
    trials: LitmusTrials,
    counts: Vec<CountedTest>,
}

impl Variant {
    fn find(&self, test: LitmusTest, placement: Placement) -> Option<&CountedTest> {
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

/// Adds one rung per test and fence, with volatile accesses of threads of different blocks. The
/// roof of a test is its rate without a fence.
fn add_device_rungs(
    request: &mut LadderRequest,
    ladder: &mut Ladder,
    device: &Device,
    variants: &[Variant],
) -> Result<(), MeasureError> {
    ladder.roof = Some(Roof {
        name: "free",
        description: "the same test without fence; CPU rungs have none".to_owned(),
    });
    for test in LitmusTest::ALL {
        let mut free_rate = None;
        for variant in variants.iter().filter(|variant| variant.access == Access::Volatile) {
            let name = format!("{}, {}", test.name(), variant.fence.name());
            (request.progress)(&name);
            let launch = || variant.trials.launch_trials(device.queue(), test, Placement::DifferentBlocks);
            let times = time_rung_on_device(device, launch)?;
            let trials = variant.trials.trials_per_launch();
            let runs = TimedRuns { n: request.n, items: trials as f64, times };
            let counted = variant.find(test, Placement::DifferentBlocks);
            let note = counted.map(|counted| describe_outcomes(&counted.outcomes, counted.forbidden));
            let (kernel, occupancy) = variant.trials.resources();
            ladder.add_rung(RungResult {
                note: note.unwrap_or_default(),
                roof: Some(*free_rate.get_or_insert(runs.rate())),
                registers: kernel.registers,
                shared_bytes: Some(kernel.shared_bytes),
                occupancy,
                ..RungResult::new(&name, &runs)
            });
        }
    }
    Ok(())
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
fn add_cpu_rungs(request: &mut LadderRequest, ladder: &mut Ladder) {
    let n = request.n.min(MAX_CPU_TRIALS);
    let mut rows = Vec::new();
    let mut add = |name: String, has_rung: bool, forbidden, run: &dyn Fn() -> OutcomeCounts| {
        (request.progress)(&name);
        rows.push(outcome_row(name.trim_start_matches("CPU, ").to_owned(), &run(), forbidden));
        if has_rung {
            let times = time_on_host(CPU_REPEATS, || {
                std::hint::black_box(run());
            });
            ladder.add_rung(RungResult::new(&name, &TimedRuns { n, items: n as f64, times }));
        }
    };
    for test in LitmusTest::ALL {
        let name = format!("CPU, one thread, {}", test.name());
        add(name, test == LitmusTest::MessagePassing, test.forbidden_in_order(), &|| {
            run_in_one_thread(test, n)
        });
    }
    for test in LitmusTest::ALL {
        for ordering in CpuOrdering::ALL {
            let name = format!("CPU, {}, {}", test.name(), ordering.name());
            add(name, test != LitmusTest::Course, ordering.forbidden(test), &|| {
                run_in_two_threads(test, ordering, n)
            });
        }
    }
    let title = format!(
        "outcomes A, B on the CPU, {} trials each: one thread in random order, two threads with atomics",
        format_thousands(n)
    );
    ladder.tables.push(outcome_table(title, rows));
}

/// Returns the table of a test with the threads at one position: one row per access and fence.
fn device_table(test: LitmusTest, placement: Placement, variants: &[Variant]) -> DataTable {
    let row_of = |variant: &Variant| {
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
