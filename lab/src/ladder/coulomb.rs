//! Ladder of the electrostatic map: the potential of point charges on a grid, from a loop to
//! kernels that the special function units limit.

use orrery_device::{Buffer, Device, DeviceError, DeviceKind};
use orrery_measure::MeasureError;
use orrery_measure::sample::evenly_spaced_indices;
use orrery_measure::timing::{largest_affordable_size, time_once};
use orrery_model::Precision;

use super::repeats::{max_run_seconds, repeat_count, time_point};
use super::{
    CheckedRung, Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, LadderRung, PrepareResult,
    PreparedRung, Roof, Roofs, RungClock, RungDetails, RungLabel, RungLimit, RungSet, Sweep, SweepScale,
    SweepSeries, TimedRuns, Work,
};
use crate::experiments::coulomb::{
    CHUNK, Charge, CoulombMap, CoulombMethod, CoulombRung, DeviceCharges, PointGrid, TiledStrategy,
    gather_on_cpu, largest_error, potential_on_all_cores, random_charges, rsqrt_rate, rungs, scatter_on_cpu,
    selftest,
};

pub static LADDER: LadderEntry = LadderEntry {
    name: "coulomb",
    description: "Electrostatic potential of charges on a grid, scattered and gathered",
    title: "electrostatic map",
    size_unit: "charges",
    // Charges twice, and potentials of 64 points per charge twice.
    host_bytes: |n| (n as u64).saturating_mul(32 + 2 * 4 * POINTS_PER_CHARGE as u64),
    sizes: DefaultSizes { gpu: 32_768, opencl_cpu: 1024, host: 4096 },
    counted: Counted { item: "term", rate_unit: "terms/s", heading: "Gterm/s", to_column: |rate| rate / 1e9 },
    rungs: &[RungSet::of::<CoulombRung>()],
    measure,
};

/// Points of the grid per charge, before the side is rounded.
const POINTS_PER_CHARGE: usize = 64;
/// Largest side of the grid.
const MAX_SIDE: usize = 1000;
/// Largest number of charges.
const MAX_CHARGES: usize = 1 << 30;
/// Distance of neighbouring points.
const SPACING: f32 = 0.5;
/// Operations of a term by the textbook: 3 differences, 3 squares, 3 additions with eps², a
/// reciprocal square root, a product and a sum.
const FLOPS: f64 = 12.0;
/// Points at which potentials are compared with the reference.
const SAMPLE: usize = 200;
/// Points per thread of the sweep.
const SWEPT_POINTS: [u32; 5] = [1, 2, 4, 8, 16];
/// Points per thread on a CPU through OpenCL, which takes long to compile a kernel.
const SWEPT_POINTS_CPU: [u32; 2] = [1, 8];
/// Charges per launch of the sweep over their bytes: 256 bytes to all of constant memory.
const SWEPT_CHARGES: [usize; 9] = [16, 32, 64, 128, 256, 512, 1024, 2048, CHUNK];
/// Number of timed runs of each point of this sweep.
const SWEEP_REPEATS: usize = 3;

/// A version on the CPU.
type MapOnHost = fn(&[Charge], &PointGrid) -> Vec<f32>;
/// Its name and note, and the bytes that threads request per term. Potentials are read and written,
/// charges are read.
const CPU_RUNGS: [(&str, &str, f64, MapOnHost); 3] = [
    ("CPU, one thread, scatter", "one charge after the other", 8.0, scatter_on_cpu),
    ("CPU, one thread, gather", "one point after the other", 16.0, gather_on_cpu),
    ("CPU, all cores, SIMD", "registers of points, tiles of charges", 12.0 / 64.0, potential_on_all_cores),
];

/// Charges and the grid around them.
struct ChargedGrid {
    charges: Vec<Charge>,
    grid: PointGrid,
}

impl ChargedGrid {
    /// Creates `n` charges and a cube of about 64 points per charge.
    fn new(n: usize) -> Self {
        let grid = PointGrid::new([grid_side(n); 3], [0.0; 3], SPACING);
        Self { charges: random_charges(&grid, n), grid }
    }

    fn term_count(&self) -> f64 {
        self.charges.len() as f64 * self.grid.point_count() as f64
    }

    /// Returns the largest error at a sample of points, relative to the sum of the magnitudes.
    fn error_of(&self, potential: &[f32]) -> f64 {
        let points = evenly_spaced_indices(self.grid.point_count(), SAMPLE);
        largest_error(&self.charges, &self.grid, &points, potential)
    }
}

/// Returns the side of a cube of about 64 points per charge, a multiple of 8.
fn grid_side(n: usize) -> usize {
    let side = ((n * POINTS_PER_CHARGE) as f64).cbrt().round() as usize;
    side.next_multiple_of(8).min(MAX_SIDE)
}

/// Device, and the rate of its reciprocal square roots.
pub struct CoulombInput {
    device: Device,
    rsqrt_rate: f64,
}

impl LadderRung for CoulombRung {
    type Input = CoulombInput;

    const TEST_SIZE: usize = 100;

    fn all(_: &Device) -> Vec<Self> {
        rungs()
    }

    fn new_input(device: &Device, _: usize) -> Result<CoulombInput, MeasureError> {
        Ok(CoulombInput { device: device.clone(), rsqrt_rate: rsqrt_rate(device)? })
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel::new(self.name, self.note)
    }

    fn max_seconds(&self) -> Option<f64> {
        Some(max_run_seconds())
    }

    fn prepare<'a>(
        &'a self,
        CoulombInput { device, rsqrt_rate }: &'a CoulombInput,
        n: usize,
        _: usize,
    ) -> PrepareResult<'a> {
        let coulomb = CoulombMap::new(device, self.method)?;
        let (map, kernel) = (DeviceMap::upload(device, n)?, coulomb.resources());
        let (clock, items) = (RungClock::of(device), map.host.term_count());
        let launch = move |map: &mut DeviceMap| map.queue_potential(&coulomb);
        let details = |map: &mut DeviceMap, _: &TimedRuns| {
            let error = Some(map.host.error_of(&map.potential.to_vec()?));
            Ok(RungDetails { error, ..RungDetails::default() })
        };
        let work = Work { flops: Some(FLOPS), bytes: Some(self.method.bytes_per_term()) };
        let prepared = PreparedRung::with_details(clock, n, items, map, launch, details);
        Ok(Some(prepared.with_work(work, RungLimit::Rate(*rsqrt_rate)).with_kernel(kernel)))
    }
}

impl CheckedRung for CoulombRung {
    fn check(&self, device: &Device) -> Result<(), String> {
        selftest::check_method(device, self.method)
    }
}

/// Builds a version on the CPU for `n` charges.
fn prepare_on_host(n: usize, bytes: f64, version: MapOnHost) -> PreparedRung<'static> {
    let state = (ChargedGrid::new(n), Vec::new());
    let items = state.0.term_count();
    let run = move |(map, potential): &mut (ChargedGrid, Vec<f32>)| {
        *potential = version(&map.charges, &map.grid);
        Ok::<_, MeasureError>(())
    };
    let details = |(map, potential): &mut (ChargedGrid, Vec<f32>), _: &TimedRuns| {
        Ok(RungDetails { error: Some(map.error_of(potential)), ..RungDetails::default() })
    };
    let work = Work { flops: Some(FLOPS), bytes: Some(bytes) };
    PreparedRung::with_details(RungClock::Host, n, items, state, run, details)
        .with_work(work, RungLimit::Flops(Precision::Single))
}

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    request.n = request.n.min(MAX_CHARGES);
    let n = request.n;
    ladder.roof = ladder.host_roofs.peak_roof();
    ladder.remarks = vec!["error: largest error, relative to the sum of |q| / r".to_owned()];
    for (name, note, bytes, version) in CPU_RUNGS {
        let time_size = |n| prepare_on_host(n, bytes, version).time_once();
        let (n, run_seconds) = largest_affordable_size(n, max_run_seconds(), time_size)?;
        let prepared = prepare_on_host(n, bytes, version).with_repeats(repeat_count(run_seconds));
        ladder.measure_prepared(request, name, note, prepared)?;
    }
    let Some(device) = request.device else { return Ok(()) };
    ladder.roofs = Roofs::of_device(device)?;
    let input = CoulombRung::new_input(device, n)?;
    let description = format!("{:.2e} reciprocal square roots per second, measured", input.rsqrt_rate);
    ladder.roof = Some(Roof { name: "rsq", description });
    ladder.remarks.push("of rsq for CPU rungs: of the f32 peak at 12 flops per term".to_owned());
    ladder.measure_rungs(request, &rungs(), &input)?;
    (request.progress)("points per thread");
    ladder.sweeps.push(sweep_points(device, n)?);
    (request.progress)("bytes of charges per launch");
    ladder.sweeps.extend(sweep_charges(device, n)?);
    Ok(())
}

/// Charges, grid and potentials on a device.
struct DeviceMap<'a> {
    device: &'a Device,
    host: ChargedGrid,
    charges: DeviceCharges,
    potential: Buffer<f32>,
}

impl<'a> DeviceMap<'a> {
    fn upload(device: &'a Device, n: usize) -> Result<Self, DeviceError> {
        let host = ChargedGrid::new(n);
        let charges = DeviceCharges::upload(device, &host.charges)?;
        let potential = device.zeros(host.grid.point_count())?;
        Ok(Self { device, host, charges, potential })
    }

    fn queue_potential(&self, coulomb: &CoulombMap) -> Result<(), DeviceError> {
        coulomb.launch(self.device.queue(), &self.charges, &self.host.grid, &self.potential)
    }

    fn time_once(&self, coulomb: &CoulombMap) -> Result<f64, DeviceError> {
        time_once(self.device, || self.queue_potential(coulomb))
    }
}

/// Measures the tuned kernel for several numbers of points per thread.
fn sweep_points(device: &Device, n: usize) -> Result<Sweep, DeviceError> {
    let points: &[u32] = match device.properties().kind {
        DeviceKind::Gpu => &SWEPT_POINTS,
        DeviceKind::Cpu | DeviceKind::Other => &SWEPT_POINTS_CPU,
    };
    let map = DeviceMap::upload(device, n)?;
    let rate = |&points: &u32| {
        let strategy = TiledStrategy { points, ..TiledStrategy::TUNED };
        let coulomb = CoulombMap::new(device, CoulombMethod::Tiled(strategy))?;
        Ok(Some(map.host.term_count() / map.time_once(&coulomb)? / 1e9))
    };
    Ok(Sweep {
        title: "tuned kernel by points per thread".to_owned(),
        parameter: "points",
        unit: "Gterm/s",
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Log,
        values: points.iter().map(|points| f64::from(*points)).collect(),
        series: vec![SweepSeries {
            name: "tuned".to_owned(),
            points: points.iter().map(rate).collect::<Result<_, DeviceError>>()?,
        }],
    })
}

/// Measures one launch of `gather` and of its version with constant memory over the bytes of its
/// charges, which stay in memory from launch to launch. `None` for fewer charges than the smallest
/// launch has.
fn sweep_charges(device: &Device, n: usize) -> Result<Option<Sweep>, DeviceError> {
    let counts: Vec<usize> = SWEPT_CHARGES.into_iter().filter(|count| *count <= n).collect();
    if counts.is_empty() {
        return Ok(None);
    }
    let map = DeviceMap::upload(device, n)?;
    let points = map.host.grid.point_count() as f64;
    let measure_memory = |name: &str, method| -> Result<SweepSeries, DeviceError> {
        let coulomb = CoulombMap::new(device, method)?;
        coulomb.write_chunk(device.queue(), &map.charges)?;
        let rate = |&count: &usize| {
            let launch = || {
                let DeviceMap { host, charges, potential, .. } = &map;
                coulomb.launch_chunk(device.queue(), charges, count, &host.grid, potential)
            };
            let times = time_point(device, SWEEP_REPEATS, launch)?;
            Ok(Some(count as f64 * points / times.median() / 1e9))
        };
        let points = counts.iter().map(rate).collect::<Result<_, DeviceError>>()?;
        Ok(SweepSeries { name: name.to_owned(), points })
    };
    let series = vec![
        measure_memory("constant", CoulombMethod::Constant)?,
        measure_memory("global", CoulombMethod::Gather)?,
    ];
    Ok(Some(Sweep {
        title: "one thread per point, by bytes of charges per launch".to_owned(),
        parameter: "bytes",
        unit: "Gterm/s",
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Log,
        values: counts.iter().map(|count| (count * size_of::<Charge>()) as f64).collect(),
        series,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_have_about_64_points_per_charge() {
        assert_eq!([1, 64, 1024, 32_768, MAX_CHARGES].map(grid_side), [8, 16, 40, 128, MAX_SIDE]);
        assert_eq!(ChargedGrid::new(64).term_count(), 64.0 * 4096.0);
    }

    #[test]
    fn launches_of_up_to_n_charges_are_measured() {
        let Some(device) = crate::test_device() else { return };
        assert_eq!(sweep_charges(&device, 15).unwrap(), None);
        let sweep = sweep_charges(&device, 40).unwrap().unwrap();
        assert_eq!(sweep.values, [256.0, 512.0]);
        for series in &sweep.series {
            assert!(series.points.iter().all(|rate| rate.is_some_and(|rate| rate > 0.0)), "{series:?}");
        }
    }
}
