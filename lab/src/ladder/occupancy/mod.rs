//! Ladder of occupancy: how many operations and bytes in flight hide the latency.

mod limits;
mod sweeps;

use orrery_device::occupancy::SmLimits;
use orrery_device::{Backend, Device, DeviceError, DeviceKind};
use orrery_measure::MeasureError;
use orrery_measure::cpu_peak::{LEAST_FMAS, run_fma_chains};
use orrery_measure::format::format_number;
use orrery_model::Precision;

use super::arithmetic::latency_cycles;
use super::repeats::time_point;
use super::{
    Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, LadderRung, PrepareResult, PreparedRung,
    Roofs, RungClock, RungDetails, RungLabel, RungLimit, RungSet, TimedRuns, Work,
};
use crate::experiments::arithmetic::{ChainShape, Chains, one_register_fma};
use crate::experiments::occupancy::shared_for_blocks;

pub static LADDER: LadderEntry = LadderEntry {
    name: "occupancy",
    description: "Operations and bytes in flight that hide latencies",
    title: "FMAs in flight",
    size_unit: "FMAs per thread",
    host_bytes: |n| 3 * 4 * (FLOATS_PER_FMA * n) as u64,
    sizes: DefaultSizes { gpu: 1 << 18, opencl_cpu: 1 << 10, host: 1 << 24 },
    counted: Counted { item: "FMA", rate_unit: "FMA/s", heading: "GFMA/s", to_column: |rate| rate / 1e9 },
    rungs: &[RungSet::of::<ResidentRung>()],
    measure,
};

/// Floats of the array that is read, per FMA of a thread: 512 MiB for the default size on a GPU,
/// more than its caches.
const FLOATS_PER_FMA: usize = 512;
/// Work of an FMA, which accesses no memory.
const WORK: Work = Work { flops: Some(2.0), bytes: None };
/// Numbers of independent chains on the CPU.
const CPU_CHAINS: [usize; 6] = [1, 2, 4, 8, 12, 16];
/// Number of timed runs for each point of a sweep.
const SWEEP_REPEATS: usize = 3;

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    measure_on_host(request, ladder)?;
    ladder.remarks.push("needed parallelism = latency x throughput (Little's law)".to_owned());
    ladder.remarks.push(
        "the course: 24 cycles x 8 = 192 operations per SM (GT200), 18 x 32 = 576 (GF100), 18 x 48 = 864 (GF104); \
         100 KB of memory traffic in flight on the card for 177 GB/s"
            .to_owned(),
    );
    let Some(device) = request.device else { return Ok(()) };
    ladder.roofs = Roofs::of_device(device)?;
    ladder.roof = ladder.roofs.peak_roof();
    let peak = ladder.roofs.peak_flops(Precision::Single).map_or(f64::NAN, |flops| 0.5 * flops);
    let lab = Laboratory { device: device.clone(), n: request.n, peak };
    for rung in ResidentRung::all(device) {
        if !ladder.measure_rung(request, &rung, &lab)? {
            let name = rung.label().name;
            ladder.remarks.push(format!("{name}: an SM of this device does not hold as many"));
        }
    }
    lab.add_law_of_arithmetic(ladder)?;
    let progress = &mut *request.progress;
    progress("chains and warps");
    ladder.sweeps.push(sweeps::chains_and_warps(&lab)?);
    progress("bytes in flight");
    sweeps::add_bytes_in_flight(&lab, ladder)?;
    progress("limits of registers");
    limits::add_register_limits(&lab, ladder)?;
    progress("block sizes");
    ladder.sweeps.push(limits::block_sizes(&lab)?);
    progress("waves of blocks");
    ladder.sweeps.push(limits::waves(&lab)?);
    Ok(())
}

fn measure_on_host(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let n = request.n.max(LEAST_FMAS);
    let roof = ladder.host_roofs.flops.map(|flops| 0.5 * flops / rayon::current_num_threads() as f64);
    let limit = roof.map_or(RungLimit::Unknown, RungLimit::Rate);
    for chains in CPU_CHAINS {
        let name = format!("CPU, one thread, {}", count_chains(chains));
        let run = |items: &mut f64| {
            *items = run_fma_chains(chains, n);
            Ok::<_, MeasureError>(())
        };
        let details = |items: &mut f64, _: &TimedRuns| {
            Ok(RungDetails { counted: Some((*items, WORK)), ..RungDetails::default() })
        };
        let prepared = PreparedRung::with_details(RungClock::Host, n, 0.0, 0.0, run, details);
        ladder.measure_prepared(request, &name, "", prepared.with_work(WORK, limit))?;
    }
    Ok(())
}

fn count_chains(chains: usize) -> String {
    if chains == 1 { "1 chain".to_owned() } else { format!("{chains} chains") }
}

/// Warps per SM, and independent chains of each thread.
struct ResidentRung {
    warps: u32,
    chains: usize,
}

impl LadderRung for ResidentRung {
    type Input = Laboratory;

    fn all(device: &Device) -> Vec<Self> {
        let points: &[(u32, usize)] = match device.properties().kind {
            DeviceKind::Gpu => &[(1, 1), (1, 8), (4, 1), (4, 4), (8, 1), (16, 1), (16, 4), (64, 1), (64, 8)],
            DeviceKind::Cpu | DeviceKind::Other => &[(1, 1), (1, 4), (4, 1), (4, 4)],
        };
        points.iter().map(|&(warps, chains)| Self { warps, chains }).collect()
    }

    fn new_input(device: &Device, n: usize) -> Result<Laboratory, MeasureError> {
        Ok(Laboratory { device: device.clone(), n, peak: f64::NAN })
    }

    fn label(&self) -> RungLabel<'_> {
        let warps = if self.warps == 1 { "1 warp".to_owned() } else { format!("{} warps", self.warps) };
        RungLabel::new(format!("{warps} per SM, {}", count_chains(self.chains)), "")
    }

    fn prepare<'a>(&'a self, lab: &'a Laboratory, n: usize, _: usize) -> PrepareResult<'a> {
        let Some(residents) = lab.residents(self.warps) else { return Ok(None) };
        let fmas = lab.chains(self.chains, residents)?;
        let rounds = fmas.rounds_for(n);
        let (kernel, items) = (fmas.resources(), fmas.operation_count(rounds));
        let launch = move || fmas.launch(lab.device.queue(), rounds, 0);
        let prepared = PreparedRung::new(RungClock::of(&lab.device), n, items, launch);
        Ok(Some(prepared.with_work(WORK, RungLimit::Rate(lab.peak)).with_kernel(kernel)))
    }
}

/// Device and problem of the measurements.
pub struct Laboratory {
    device: Device,
    /// FMAs per thread.
    n: usize,
    /// FMAs per second of the device.
    peak: f64,
}

/// Blocks of a launch that fill each SM with the same number of warps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Residents {
    block_size: u32,
    block_count: u32,
    /// Bytes of dynamic shared memory with which no SM gets more blocks.
    dynamic_shared: u32,
}

impl Laboratory {
    fn is_gpu(&self) -> bool {
        self.device.properties().kind == DeviceKind::Gpu
    }

    /// Returns the limits of an SM if dynamic shared memory can limit its blocks.
    fn sm_limits(&self) -> Option<&'static SmLimits> {
        let properties = self.device.properties();
        let limits = properties.capability.and_then(SmLimits::of);
        limits.filter(|_| properties.backend == Backend::Cuda)
    }

    /// Returns the blocks with which every SM has `warps` warps: one block per SM if it is small
    /// enough, else two. None if an SM cannot hold as many.
    fn residents(&self, warps: u32) -> Option<Residents> {
        let properties = self.device.properties();
        let threads = 32 * warps;
        let blocks_per_sm = threads.div_ceil(properties.max_block_size.min(1024));
        let fits = self.sm_limits().is_none_or(|limits| threads <= limits.threads_per_sm);
        (fits && threads.is_multiple_of(32 * blocks_per_sm)).then(|| Residents {
            block_size: threads / blocks_per_sm,
            block_count: properties.sm_count.max(1) * blocks_per_sm,
            dynamic_shared: self.sm_limits().map_or(0, |limits| shared_for_blocks(limits, blocks_per_sm)),
        })
    }

    /// Compiles chains of FMAs for these blocks.
    fn chains(&self, chains: usize, residents: Residents) -> Result<Chains<f32>, DeviceError> {
        let Residents { block_size, block_count, dynamic_shared } = residents;
        let shape =
            ChainShape { dynamic_shared, ..ChainShape::with_chains(&self.device, chains, block_size) };
        Chains::new(&self.device, &one_register_fma(), shape, block_count)
    }

    /// Returns the FMAs per second of a launch, at its fastest time.
    fn fma_rate(&self, fmas: &Chains<f32>) -> Result<f64, DeviceError> {
        let rounds = fmas.rounds_for(self.n);
        let seconds = self.fastest_seconds(|| fmas.launch(self.device.queue(), rounds, 0))?;
        Ok(fmas.operation_count(rounds) / seconds)
    }

    /// Returns the shortest time of a few launches.
    fn fastest_seconds(&self, launch: impl FnMut() -> Result<(), DeviceError>) -> Result<f64, DeviceError> {
        time_point(&self.device, SWEEP_REPEATS, launch).map(|times| times.fastest())
    }

    /// Returns the FMAs that one SM completes per cycle.
    fn lanes(&self) -> f64 {
        let properties = self.device.properties();
        self.peak / (f64::from(properties.sm_count) * properties.clock_hz)
    }

    /// Adds a remark with the latency of an FMA and the operations in flight that hide it.
    fn add_law_of_arithmetic(&self, ladder: &mut Ladder) -> Result<(), DeviceError> {
        if let Some(latency) = self.fma_latency()? {
            let (latency, lanes) = (latency, self.lanes());
            ladder.remarks.push(format!(
                "this device: {} cycles x {} = {} operations per SM",
                format_number(latency),
                format_number(lanes),
                format_number(latency * lanes)
            ));
        }
        Ok(())
    }

    /// Measures the cycles of an FMA that waits for the one before. None on a CPU.
    fn fma_latency(&self) -> Result<Option<f64>, DeviceError> {
        if self.is_gpu() { latency_cycles(&self.device, &one_register_fma()) } else { Ok(None) }
    }
}
