//! Ladder of the wave equation: time steps of a cube with a velocity per node and free sides in
//! f32, for order 8 and order 2 in space.

use std::cell::{RefCell, RefMut};

use orrery_device::{Device, DeviceError};
use orrery_fields::wave::cpu::WaveCpuStrategy;
use orrery_fields::wave::device::{DeviceWave, WaveDeviceStrategy, WaveShape};
use orrery_fields::wave::{HostWave, SpaceOrder, reference};
use orrery_measure::MeasureError;
use orrery_measure::bench::wave::{
    WaveWorkload, bench_state, production_strategy, time_steps, time_steps_on_host,
};
use orrery_measure::timing::{Times, time_on_host};
use orrery_measure::tuning::Tuning;
use orrery_model::Precision;
use orrery_model::wave::MIN_NODES;

use super::repeats::TEST_REPEATS;
use super::{
    Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, LadderRung, MeasuredRung, Parameter,
    PrepareResult, PreparedRung, ReferenceTable, RungClock, RungLabel, RungLimit, RungSet, ShownValue,
    TimedRuns, Work,
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
    rungs: &[RungSet::of::<WaveRungPair>()],
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

/// A rung for each of [`ORDERS`].
pub struct WaveRungPair([WaveRung; ORDERS.len()]);

/// Workload, the strategies that runs use for each order, and the wave of one order at a time.
pub struct WaveInput {
    device: Device,
    workload: WaveWorkload,
    production: [WaveDeviceStrategy; ORDERS.len()],
    wave: RefCell<Option<(usize, DeviceWave<f32>)>>,
}

fn shape_of(workload: WaveWorkload, order: SpaceOrder) -> WaveShape {
    WaveShape::new(&workload.grid(), order.radius(), Precision::Single)
}

impl WaveInput {
    fn new(device: &Device, n: usize, tuning: Option<&Tuning>) -> Self {
        let workload = cube(n);
        let production = ORDERS.map(|order| {
            production_strategy(device, tuning, shape_of(workload, order), workload.is_variable)
        });
        Self { device: device.clone(), workload, production, wave: RefCell::new(None) }
    }

    fn rungs(&self) -> Vec<WaveRungPair> {
        let [eighth, second] = [0, 1]
            .map(|order| rungs(&self.device, shape_of(self.workload, ORDERS[order]), self.production[order]));
        eighth.into_iter().zip(second).map(|(eighth, second)| WaveRungPair([eighth, second])).collect()
    }

    /// Returns the wave of an order, which replaces that of another one.
    fn select(&self, rung: &WaveRung, order: usize) -> Result<RefMut<'_, DeviceWave<f32>>, DeviceError> {
        let mut current = self.wave.borrow_mut();
        if current.as_ref().is_none_or(|(known, _)| *known != order) {
            *current = None;
            let medium = self.workload.medium::<f32>(ORDERS[order]);
            let state = bench_state(&medium);
            let wave = DeviceWave::new(&self.device, medium, &state, self.production[order])?;
            *current = Some((order, wave));
        }
        let mut wave =
            RefMut::map(current, |current| &mut current.as_mut().expect("the wave of this order").1);
        rung.select(&mut wave)?;
        Ok(wave)
    }
}

impl LadderRung for WaveRungPair {
    type Input = WaveInput;

    const VALUES: usize = ORDERS.len();
    const TEST_SIZE: usize = 32 * 32 * 32;

    fn all(device: &Device) -> Vec<Self> {
        WaveInput::new(device, Self::TEST_SIZE, None).rungs()
    }

    fn new_input(device: &Device, n: usize) -> Result<WaveInput, MeasureError> {
        Ok(WaveInput::new(device, n, None))
    }

    /// The note is that for order 8, and that for order 2 if it differs.
    fn label(&self) -> RungLabel<'_> {
        let note = match self.0.each_ref().map(WaveRung::description) {
            [eighth, second] if eighth == second => eighth,
            [eighth, second] => format!("{eighth}; order 2: {second}"),
        };
        RungLabel::new(self.0[0].name, note)
    }

    fn prepare<'a>(&'a self, input: &'a WaveInput, n: usize, value: usize) -> PrepareResult<'a> {
        let mut wave = input.select(&self.0[value], value)?;
        let clock = RungClock::of(&input.device);
        Ok(Some(PreparedRung::new(clock, n, n as f64, move || wave.advance(1))))
    }

    /// Times several steps per run.
    fn measure_value(
        &self,
        input: &WaveInput,
        _: usize,
        value: usize,
    ) -> Result<Option<MeasuredRung>, MeasureError> {
        let mut wave = input.select(&self.0[value], value)?;
        let runs = timed(input.workload, time_steps(&mut wave, TEST_REPEATS)?);
        let kernel = Some((wave.kernel().resources(), None));
        let result = MeasuredRung::on_device(runs, work_of(input.workload), RungLimit::Bandwidth);
        Ok(Some(MeasuredRung { kernel, ..result }))
    }
}

/// Returns the work per point for order 8.
fn work_of(workload: WaveWorkload) -> Work {
    Work { flops: Some(flops_per_point(ORDERS[0])), bytes: Some(workload.bytes_per_point()) }
}

/// Adds a rung with its rate relative to that of the course.
fn add(ladder: &mut Ladder, label: RungLabel, measured: Vec<Option<MeasuredRung>>) {
    let rate = measured[0].as_ref().map(|eighth| eighth.runs.rate() / COURSE_RATE);
    ladder.add_measured(RungLabel { reference: rate.as_slice(), ..label }, measured);
}

fn measure_on_host(request: &mut LadderRequest, ladder: &mut Ladder) {
    type TimeOnHost = fn(WaveWorkload) -> Times;
    let versions: [(&str, usize, TimeOnHost); 2] = [
        ("CPU, one thread", MAX_SERIAL_NODES, time_reference),
        ("CPU, all cores, SIMD", MAX_CPU_NODES, time_all_cores),
    ];
    for (name, most, time) in versions {
        (request.progress)(name);
        let workload = cube(request.n.min(most));
        let runs = timed(workload, time(workload));
        let result = MeasuredRung::on_host(runs, work_of(workload), RungLimit::Bandwidth);
        add(ladder, RungLabel::new(name, ""), vec![Some(result)]);
    }
}

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let bytes = cube(request.n).bytes_per_point();
    let flops_of_second = flops_per_point(ORDERS[1]);
    ladder.remarks.push(format!(
        "A velocity per node: {bytes} bytes per point. Order 2 has {flops_of_second} flops per point."
    ));
    ladder.remarks.push(NO_TEMPORAL_BLOCKING.to_owned());
    ladder.reference = Some(ReferenceTable {
        caption: "Rate with order 8 over the 3,000 Mpt/s of one GPU in the course".to_owned(),
        columns: vec!["ratio".to_owned()],
        legend: &[],
    });
    ladder.roof = ladder.host_roofs.copy_roof();
    measure_on_host(request, ladder);
    let Some(device) = request.device else { return Ok(()) };
    ladder.use_copy_roof_of(device)?;
    let values = ORDERS.map(|order| order.number().to_string()).to_vec();
    ladder.parameter = Some(Parameter { name: "order", values, shown: ShownValue::First });
    let input = WaveInput::new(device, request.n, request.tuning);
    let rungs = input.rungs();
    let mut measured: Vec<_> = rungs.iter().map(|_| Vec::new()).collect();
    // Only the wave of one order is on the device.
    for (value, order) in ORDERS.iter().enumerate() {
        for (rung, measured) in rungs.iter().zip(&mut measured) {
            (request.progress)(&format!("{}, order {}", rung.label().name, order.number()));
            measured.push(rung.measure_value(&input, request.n, value)?);
        }
    }
    for (rung, measured) in rungs.iter().zip(measured) {
        add(ladder, rung.label(), measured);
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
    time_steps_on_host(
        HostWave::new(medium, &state, WaveCpuStrategy::resolve()),
        TEST_REPEATS.or(Some(CPU_REPEATS)),
    )
}
