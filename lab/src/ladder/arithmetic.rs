//! Ladder of arithmetic: throughput, latency and error of operations.

use std::cell::RefCell;

use orrery_device::{Device, DeviceError, DeviceKind};
use orrery_measure::MeasureError;
use orrery_measure::format::{format_number, format_rate, format_thousands};
use orrery_measure::timing::{time_on_device, time_once};

use super::{
    CheckedRung, Counted, DataCell, DataRow, DataTable, DefaultSizes, Ladder, LadderEntry, LadderRequest,
    LadderRung, PrepareResult, PreparedRung, Roof, RungClock, RungDetails, RungLabel, RungLimit, RungSet,
    TimedRuns, Work,
};
use crate::experiments::arithmetic::sums::{OrderedSums, TERMS};
use crate::experiments::arithmetic::ulp::larger_error;
use crate::experiments::arithmetic::{
    AnyOperation, ArithmeticOperation, ChainNumber, ChainShape, Chains, all_operations, flag_operations,
    fma_operation, for_number, host, selftest,
};

pub static LADDER: LadderEntry = LadderEntry {
    name: "arithmetic",
    description: "Throughput, latency and error of arithmetic operations",
    title: "arithmetic operations",
    size_unit: "operations per thread",
    host_bytes: |_| 256 << 20,
    sizes: DefaultSizes { gpu: 1 << 17, opencl_cpu: 1 << 10, host: 1 << 24 },
    counted: Counted {
        item: "operation",
        rate_unit: "operations/s",
        heading: "Gop/s",
        to_column: |rate| rate / 1e9,
    },
    rungs: &[RungSet::of::<AnyOperation>()],
    measure,
};

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    measure_on_host(request, ladder)?;
    let n = request.n;
    let Some(device) = request.device else {
        ladder.remarks.extend(sum_remarks(OrderedSums::single_on_cpu(), Some(OrderedSums::double_on_cpu())));
        return Ok(());
    };
    let single = OrderedSums::single_on_device(device)?;
    let has_f64 = device.properties().has_f64;
    let double = if has_f64 { Some(OrderedSums::double_on_device(device)?) } else { None };
    ladder.remarks.push("error: largest error in ulp for random arguments".to_owned());
    let input = AnyOperation::new_input(device, n)?;
    for operation in all_operations() {
        if !ladder.measure_rung(request, &operation, &input)? {
            let name = operation.label().name;
            ladder.remarks.push(format!("{name}: this device does not have the number type"));
        }
    }
    ladder.remarks.extend(sum_remarks(single, double));
    if ladder.rungs.iter().any(|rung| rung.roof.is_some()) {
        let description = "lanes of the execution unit x SMs x clock; CPU: measured peak of f32".to_owned();
        ladder.roof = Some(Roof { name: "peak", description });
    }
    if device.properties().kind == DeviceKind::Gpu {
        ladder.remarks.extend(clock_remark(device)?);
        ladder.tables.push(operation_table(input.rows.into_inner()));
    }
    (request.progress)("flags of the compiler");
    ladder.tables.push(flag_table(device, ladder)?);
    Ok(())
}

fn measure_on_host(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let threads = rayon::current_num_threads() as f64;
    for operation in host::operations() {
        let n = request.n.max(operation.least);
        let run = |items: &mut f64| {
            *items = (operation.run)(n);
            Ok::<_, MeasureError>(())
        };
        let work = Work { flops: operation.flops, bytes: None };
        let details = |items: &mut f64, _: &TimedRuns| {
            Ok(RungDetails { counted: Some((*items, work)), ..RungDetails::default() })
        };
        let shared_by = if operation.is_parallel { 1.0 } else { threads };
        let roof = ladder.host_roofs.flops.zip(operation.flops).map(|(peak, flops)| peak / flops / shared_by);
        let limit = roof.map_or(RungLimit::Unknown, RungLimit::Rate);
        let prepared = PreparedRung::with_details(RungClock::Host, n, 0.0, 0.0, run, details);
        ladder.measure_prepared(request, operation.name, "", prepared.with_work(work, limit))?;
    }
    Ok(())
}

/// Device, and the rows of the table of operations.
pub struct ArithmeticInput {
    device: Device,
    rows: RefCell<Vec<DataRow>>,
}

impl LadderRung for AnyOperation {
    type Input = ArithmeticInput;

    const TEST_SIZE: usize = 1;

    fn all(_: &Device) -> Vec<Self> {
        all_operations()
    }

    fn new_input(device: &Device, _: usize) -> Result<ArithmeticInput, MeasureError> {
        Ok(ArithmeticInput { device: device.clone(), rows: RefCell::default() })
    }

    fn label(&self) -> RungLabel<'_> {
        for_number!(self, operation => RungLabel::new(operation.name, match operation.has_other_operations {
            true => format!("x = {}", operation.formula),
            false => String::new(),
        }))
    }

    fn prepare<'a>(&'a self, input: &'a ArithmeticInput, n: usize, _: usize) -> PrepareResult<'a> {
        for_number!(self, operation => prepare_operation(input, operation, n))
    }
}

impl CheckedRung for AnyOperation {
    fn check(&self, device: &Device) -> Result<(), String> {
        for_number!(self, operation => selftest::check_operation(device, operation))
    }
}

/// Blocks per SM in measurements of the throughput: two times the threads of an SM.
const BLOCKS_PER_SM: u32 = 16;
/// The same for a CPU through OpenCL, whose blocks run one after the other.
const BLOCKS_PER_CORE: u32 = 4;

/// Compiles an operation for a measurement of its throughput.
fn throughput_chains<T: ChainNumber>(
    device: &Device,
    operation: &ArithmeticOperation<T>,
) -> Result<Chains<T>, DeviceError> {
    let properties = device.properties();
    let per_sm = if properties.kind == DeviceKind::Gpu { BLOCKS_PER_SM } else { BLOCKS_PER_CORE };
    let shape = ChainShape::for_throughput(device, operation.size);
    Chains::new(device, operation, shape, properties.sm_count.max(1) * per_sm)
}

/// Measures the clock rate of the first SM while all SMs compute FMAs: cycles per second, from the
/// difference of two launches. So the time of loads and launches cancels. None if kernels cannot
/// read a clock.
fn clock_under_load(device: &Device) -> Result<Option<f64>, DeviceError> {
    let operation = fma_operation();
    let shape = ChainShape::for_throughput(device, operation.size);
    // All blocks run at once, so the slowest of them runs as long as the kernel.
    let block_count = Chains::new(device, &operation, shape, 1)?.resident_blocks();
    let chains = Chains::new(device, &operation, shape, block_count)?;
    let measure = |rounds| -> Result<Option<(f64, f64)>, DeviceError> {
        let mut launch = || chains.launch(device.queue(), rounds, 0);
        let run_seconds = time_once(device, &mut launch)?;
        let times = time_on_device(device, 5, run_seconds, launch)?;
        Ok(chains.cycles()?.map(|cycles| (cycles as f64, times.median())))
    };
    let rounds = chains.rounds_for(CLOCK_OPERATIONS);
    let (once, twice) = (measure(rounds)?, measure(2 * rounds)?);
    Ok(once.zip(twice).map(|(once, twice)| (twice.0 - once.0) / (twice.1 - once.1)))
}

/// FMAs per thread in the shorter measurement of the clock rate: 1 ms on an H200.
const CLOCK_OPERATIONS: usize = 1 << 17;

fn clock_remark(device: &Device) -> Result<Option<String>, DeviceError> {
    let highest = format_rate(device.properties().clock_hz, "Hz");
    let remark = |clock| format!("clock during FMAs: {}, highest {highest}", format_rate(clock, "Hz"));
    Ok(clock_under_load(device)?.map(remark))
}

/// Returns the number of sets of random arguments. One set of an H200 has at least a million.
fn error_passes(device: &Device) -> usize {
    if device.properties().kind == DeviceKind::Gpu { 1 } else { 8 }
}

/// Builds an operation. Returns `None` if the device does not have its number type.
fn prepare_operation<'a, T: ChainNumber>(
    input: &'a ArithmeticInput,
    operation: &'a ArithmeticOperation<T>,
    n: usize,
) -> PrepareResult<'a> {
    let (device, properties) = (&input.device, input.device.properties());
    if !operation.is_supported(properties) {
        return Ok(None);
    }
    let chains = throughput_chains(device, operation)?;
    let rounds = chains.rounds_for(n);
    let cycles_per_s = f64::from(properties.sm_count) * properties.clock_hz;
    let listed = properties.capability.and_then(|capability| operation.unit?.listed_per_cycle(capability));
    let (clock, items) = (RungClock::of(device), chains.operation_count(rounds));
    let launch = move |chains: &mut Chains<T>| chains.launch(device.queue(), rounds, 0);
    let details = move |chains: &mut Chains<T>, runs: &TimedRuns| {
        let error = chains.largest_error(device, error_passes(device))?;
        let latency = match properties.kind {
            DeviceKind::Gpu => latency_cycles(device, operation)?,
            DeviceKind::Cpu | DeviceKind::Other => None,
        };
        let cells = [Some(runs.rate() / cycles_per_s), listed, latency].map(DataCell::from);
        let cells = cells.into_iter().chain([error_cell(error)]).collect();
        input.rows.borrow_mut().push(DataRow { name: operation.name.to_owned(), cells });
        Ok(RungDetails { error, ..RungDetails::default() })
    };
    let limit = listed.map_or(RungLimit::Unknown, |per_cycle| RungLimit::Rate(per_cycle * cycles_per_s));
    let work = Work { flops: operation.flops, bytes: None };
    let prepared = PreparedRung::with_details(clock, n, items, chains, launch, details);
    Ok(Some(prepared.with_work(work, limit)))
}

/// Returns the cell of an error. A result that is not finite is no dash.
fn error_cell(error: Option<f64>) -> DataCell {
    match error {
        Some(error) if !error.is_finite() => DataCell::Text(error.to_string()),
        _ => DataCell::from(error),
    }
}

/// Steps of the shorter of two measurements of a latency.
const LATENCY_STEPS: i32 = 4096;

/// Measures the cycles of one step of one chain, in a block of one warp: the difference of two
/// launches, one of which has twice as many steps. So the time of loads and stores cancels.
pub(super) fn latency_cycles<T: ChainNumber>(
    device: &Device,
    operation: &ArithmeticOperation<T>,
) -> Result<Option<f64>, DeviceError> {
    let shape = ChainShape::for_latency(operation.size);
    let chains = Chains::new(device, operation, shape, 1)?;
    let rounds = LATENCY_STEPS / shape.steps as i32;
    let cycles_of = |rounds| -> Result<f64, DeviceError> {
        let mut launch = || chains.launch(device.queue(), rounds, 0);
        let run_seconds = time_once(device, &mut launch)?;
        let times = time_on_device(device, 3, run_seconds, launch)?;
        // Without a clock in kernels, the time of the device and the highest clock rate.
        let from_time = times.fastest() * device.properties().clock_hz;
        Ok(chains.cycles()?.map_or(from_time, |cycles| cycles as f64))
    };
    let (once, twice) = (cycles_of(rounds)?, cycles_of(2 * rounds)?);
    let cycles = (twice - once) / (f64::from(rounds) * shape.steps as f64);
    Ok((cycles > 0.0).then_some(cycles))
}

fn operation_table(rows: Vec<DataRow>) -> DataTable {
    DataTable {
        title: "operations of one SM per cycle at the highest clock rate, measured and listed in the CUDA C++ \
                programming guide; latency: cycles of one operation of a warp, with the others of its formula; error: \
                in ulp"
            .to_owned(),
        row_heading: "operation",
        columns: ["per cycle", "listed", "latency", "error"].map(str::to_owned).to_vec(),
        rows,
    }
}

/// Arguments of the expression √(x² + b) / (x + c) for which x² is denormal.
fn denormal_arguments(u: [f64; 3]) -> [f32; 3] {
    [1e-20 * (1.0 + u[0] as f32), 0.0, 1e-20 * (1.0 + u[2] as f32)]
}

/// Measures the errors of the expression with each flag of fast math. Its times are those of the
/// rungs.
fn flag_table(device: &Device, ladder: &Ladder) -> Result<DataTable, DeviceError> {
    let operations = flag_operations();
    let rate_of = |name: &str| ladder.rungs.iter().find(|rung| rung.name == name).map(|rung| rung.rate);
    let precise_rate = operations.first().and_then(|operation| rate_of(operation.name));
    let mut rows = Vec::new();
    for operation in &operations {
        let chains = throughput_chains(device, operation)?;
        let normal = chains.largest_error(device, error_passes(device))?;
        let mut denormal = 0.0f64;
        if let Some(error) = operation.error {
            for (arguments, found) in chains.evaluate(device, 0, denormal_arguments)? {
                denormal = larger_error(denormal, error(arguments, found));
            }
        }
        let time = rate_of(operation.name).zip(precise_rate).map(|(own, precise)| precise / own);
        let name = operation.name.strip_prefix("expression, ").unwrap_or(operation.name).to_owned();
        rows.push(DataRow {
            name,
            cells: vec![DataCell::from(time), error_cell(normal), error_cell(Some(denormal))],
        });
    }
    Ok(DataTable {
        title: "flags of the compiler: sqrt(x x + b) / (x + c); time relative to precise, largest error in ulp, and \
                the same where x x is denormal"
            .to_owned(),
        row_heading: "flag",
        columns: ["time", "error", "denormal"].map(str::to_owned).to_vec(),
        rows,
    })
}

fn sum_remarks(single: OrderedSums, double: Option<OrderedSums>) -> Vec<String> {
    let terms = format_thousands(TERMS);
    let lines = |name: &str, sums: OrderedSums, digits: usize| {
        [
            format!(
                "{name}: (1e30 - 1e30) + 1 = {}, 1e30 + (-1e30 + 1) = {}",
                format_number(sums.left_first),
                format_number(sums.right_first)
            ),
            format!(
                "{name}: sum of 1/i for i = 1 to {terms}: forward {:.digits$}, backward {:.digits$}",
                sums.forward, sums.backward
            ),
        ]
    };
    let mut remarks = lines("f32", single, 6).to_vec();
    remarks.extend(double.into_iter().flat_map(|double| lines("f64", double, 13)));
    remarks
}
