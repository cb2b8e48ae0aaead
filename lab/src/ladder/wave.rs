//! Ladder of the wave equation: time steps of a cube with a velocity per node and free sides in
//! f32, for order 8 and order 2 in space.

use orrery_device::{Device, DeviceError, Resources};
use orrery_fields::wave::cpu::WaveCpuStrategy;
use orrery_fields::wave::device::{DeviceWave, WaveShape};
use orrery_fields::wave::{HostWave, SpaceOrder, reference};
use orrery_measure::MeasureError;
use orrery_measure::bench::wave::{
    WaveWorkload, bench_state, production_strategy, time_steps, time_steps_on_host,
};
use orrery_measure::timing::{Times, time_on_host};
use orrery_model::Precision;
use orrery_model::wave::MIN_NODES;

use super::{
    Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, Parameter, ReferenceTable, Roofs, RungResult,
    ShownValue, TimedRuns, Work,
};
use crate::rungs::wave::{WaveRung, rungs};

pub static LADDER: LadderEntry = LadderEntry {
    name: "wave",
    description: "Acoustic waves in a cube, of order 8 and 2 in space",
    title: "wave equation, f32",
    size_unit: "nodes",
    host_bytes: |n| (n as u64).saturating_mul(40),
    sizes: DefaultSizes { gpu: 1 << 30, opencl_cpu: 1 << 18, host: 1 << 24 },
    counted: Counted { item: "point", rate_unit: "points/s", heading: "Mpt/s", to_column: |rate| rate / 1e6 },
    measure,
};

/// Orders that are measured. The first one represents a rung.
const ORDERS: [SpaceOrder; 2] = [SpaceOrder::Eighth, SpaceOrder::Second];
/// Updated points per second on one GPU that the course reports for order 8.
const COURSE_RATE: f64 = 3e9;
/// Largest number of nodes for the reference, which computes about 1e7 points per second.
const MAX_SERIAL_NODES: usize = 1 << 21;
/// Largest number of nodes on all cores, which compute about 1e9 points per second.
const MAX_CPU_NODES: usize = 1 << 27;
/// Number of timed runs on the CPU.
const CPU_REPEATS: usize = 3;

/// Reason why no rung computes several steps per pass, as the ladder of heat does.
///
/// Two steps read u, the previous u and v and write two results: 5 fields instead of 2 x 4.
const NO_TEMPORAL_BLOCKING: &str = "No rung computes two steps per pass. At best that would move 5/8 of the \
    bytes, but with order 8 it needs halos of 8 nodes and twice the planes in shared memory, where those of \
    one step take 191 KiB of 227 on an H200. Layers, sources and receivers act between the steps.";

/// Returns the operations per point: a product, and per neighbour pair a sum and an FMA, then two
/// FMAs. 41 for order 8 and 14 for order 2.
fn flops_per_point(order: SpaceOrder) -> f64 {
    let pairs = 3 * order.radius();
    (1 + 3 * pairs + 4) as f64
}

/// Returns the cube with about `nodes` nodes.
fn cube(nodes: usize) -> WaveWorkload {
    let side = ((nodes as f64).cbrt().round() as usize).max(MIN_NODES);
    let [cube, _] = WaveWorkload::cube_and_square(side, Precision::Single, true);
    cube
}

fn timed(workload: WaveWorkload, times: Times) -> TimedRuns {
    let n = workload.grid().len();
    TimedRuns { n, items: n as f64, times }
}

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let workload = cube(request.n);
    let bytes = workload.bytes_per_point();
    let [flops, flops_of_second] = ORDERS.map(flops_per_point);
    let work = Work { flops: Some(flops), bytes: Some(bytes) };
    ladder.remarks.push(format!(
        "A velocity per node: {bytes} bytes per point. Order 2 has {flops_of_second} flops per point."
    ));
    ladder.remarks.push(NO_TEMPORAL_BLOCKING.to_owned());
    ladder.reference = Some(ReferenceTable {
        caption: "Rate with order 8 over the 3,000 Mpt/s of one GPU in the course".to_owned(),
        columns: vec!["ratio".to_owned()],
        legend: &[],
    });
    let add = |ladder: &mut Ladder, result: RungResult| {
        ladder.add_rung(RungResult { work, reference: vec![result.rate / COURSE_RATE], ..result });
    };
    ladder.roof = ladder.host_roofs.copy_roof();
    let host_roof = ladder.host_roofs.bandwidth_roof(bytes);
    let add_on_cpu = |ladder: &mut Ladder, name: &str, runs: &TimedRuns| {
        add(ladder, RungResult { roof: host_roof, ..RungResult::new(name, runs) });
    };
    (request.progress)("CPU, one thread");
    let serial = cube(request.n.min(MAX_SERIAL_NODES));
    add_on_cpu(ladder, "CPU, one thread", &timed(serial, time_reference(serial)));
    (request.progress)("CPU, all cores, SIMD");
    let parallel = cube(request.n.min(MAX_CPU_NODES));
    add_on_cpu(ladder, "CPU, all cores, SIMD", &timed(parallel, time_all_cores(parallel)));

    let Some(device) = request.device else { return Ok(()) };
    ladder.roofs = Roofs::of_device(device)?;
    ladder.roof = ladder.roofs.copy_roof();
    let values = ORDERS.map(|order| order.number().to_string()).to_vec();
    ladder.parameter = Some(Parameter { name: "order", values, shown: ShownValue::First });
    let eighth = time_rungs(request, device, workload, ORDERS[0])?;
    let second = time_rungs(request, device, workload, ORDERS[1])?;
    for (eighth, second) in eighth.into_iter().zip(second) {
        let note = eighth.note(&second);
        let runs = [Some(eighth.runs), Some(second.runs)];
        let Some(result) = RungResult::with_sweep(eighth.rung.name, &runs, ShownValue::First) else {
            continue;
        };
        let roof = ladder.roofs.bandwidth.map(|copy| copy / bytes);
        let (registers, shared_bytes) = (eighth.resources.registers, Some(eighth.resources.shared_bytes));
        add(ladder, RungResult { note, roof, registers, shared_bytes, ..result });
    }
    Ok(())
}

/// Times one step of the reference.
fn time_reference(workload: WaveWorkload) -> Times {
    let medium = workload.medium::<f32>(ORDERS[0]);
    let mut state = bench_state(&medium);
    time_on_host(CPU_REPEATS, || reference::step(&medium, &mut state))
}

/// Times one step with the default strategy of the CPU.
fn time_all_cores(workload: WaveWorkload) -> Times {
    let medium = workload.medium::<f32>(ORDERS[0]);
    let state = bench_state(&medium);
    time_steps_on_host(HostWave::new(medium, &state, WaveCpuStrategy::resolve()), Some(CPU_REPEATS))
}

/// A rung with its times for one order.
struct TimedRung {
    rung: WaveRung,
    runs: TimedRuns,
    resources: Resources,
}

impl TimedRung {
    /// Returns the note of the rung for order 8, and that for order 2 if it differs.
    fn note(&self, second: &Self) -> String {
        match [self.rung.description(), second.rung.description()] {
            [eighth, second] if eighth == second => eighth,
            [eighth, second] => format!("{eighth}; order 2: {second}"),
        }
    }
}

/// Times all rungs of a device for one order.
fn time_rungs(
    request: &mut LadderRequest,
    device: &Device,
    workload: WaveWorkload,
    order: SpaceOrder,
) -> Result<Vec<TimedRung>, DeviceError> {
    let medium = workload.medium::<f32>(order);
    let shape = WaveShape::of_medium(&medium);
    let production = production_strategy(device, request.tuning, shape, workload.is_variable);
    let state = bench_state(&medium);
    let mut wave = DeviceWave::new(device, medium, &state, production)?;
    drop(state);
    let mut timed_rungs = Vec::new();
    for rung in rungs(device, shape, production) {
        (request.progress)(&format!("{}, order {}", rung.name, order.number()));
        rung.select(&mut wave)?;
        let runs = timed(workload, time_steps(&mut wave, None)?);
        timed_rungs.push(TimedRung { rung, runs, resources: wave.kernel().resources() });
    }
    Ok(timed_rungs)
}
