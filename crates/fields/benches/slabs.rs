//! Speed of waves and heat on several ranks, relative to one.
//!
//!     cargo bench -p orrery-fields --bench slabs -- wave plane heat [cpu] [n=N] [ranks=1,2]
//!
//! Without a launcher, the ranks are threads of this process that share the first GPU, or the cores
//! of the CPU with `cpu`. Under `mpirun` the processes are the ranks, which share the GPU too, and
//! the figure is that of all of them. `wave` has N³ nodes in f32 with order 8 and a velocity per
//! node, `plane` (8 N)² nodes, and `heat` (16 N)² nodes. `uniform` replaces fields of velocity or
//! conductivity by numbers. The time of a step is a difference of two runs, so it has no start and
//! no end. The figure is that of the fastest of several runs.

use std::time::Instant;

use orrery_cluster::process::{self, MpiOptions};
use orrery_cluster::{ClusterError, Team, Transport, threads};
use orrery_device::{Device, DeviceError, DeviceKind};
use orrery_fields::heat::{self, Conductivity, HeatDeviceSetup, HeatField, HeatProblem};
use orrery_fields::wave::{self, SpaceOrder, Velocity, WaveDeviceSetup, WaveError, WaveField, WaveProblem};
use orrery_fields::{FieldColumn, NamedColumn};
use orrery_model::Precision;
use orrery_model::grid::{Boundaries, Boundary, Grid};
use orrery_model::wave::{SideCondition, Sides, WaveGrid};
use rayon::prelude::*;

/// Steps of the short and of the long run, and repetitions.
const STEPS: [u64; 2] = [16, 48];
const RUNS: usize = 4;

/// Message of a failed measurement.
struct BenchError(String);

impl std::fmt::Display for BenchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! impl_from {
    ($($kind:ty),*) => { $(
        impl From<$kind> for BenchError {
            fn from(error: $kind) -> Self {
                Self(error.to_string())
            }
        }
    )* };
}
impl_from!(ClusterError, DeviceError, WaveError, heat::HeatError);

/// Settings of the command line.
struct Options {
    arguments: Vec<String>,
    device: Option<Device>,
    n: usize,
}

impl Options {
    fn has(&self, name: &str) -> bool {
        self.arguments.iter().any(|argument| argument == name)
    }

    fn value(&self, prefix: &str) -> Option<&str> {
        self.arguments.iter().find_map(|argument| argument.strip_prefix(prefix))
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let is_gpu = |device: &Device| device.properties().kind == DeviceKind::Gpu;
    let is_cpu = arguments.iter().any(|argument| argument == "cpu");
    let device = if is_cpu { None } else { Device::list().devices.into_iter().find(is_gpu) };
    let mut options = Options { arguments, n: if device.is_some() { 1024 } else { 256 }, device };
    options.n = options.value("n=").and_then(|n| n.parse().ok()).unwrap_or(options.n);
    let result = process::run(
        MpiOptions::default(),
        |_| 1,
        |transport| {
            if transport.rank() == 0 {
                println!("{}", options.device.as_ref().map_or("CPU".to_owned(), Device::title));
            }
            let works: [(&str, Work); 3] = [("wave", wave_rate), ("plane", plane_rate), ("heat", heat_rate)];
            for (name, work) in works.into_iter().filter(|(name, _)| options.has(name)) {
                measure(&options, name, work, transport)?;
            }
            Ok::<_, BenchError>(())
        },
    );
    if let Err(error) = result {
        println!("{error}");
    }
}

/// Returns Gpoint/s on the leader.
type Work = fn(&Options, &Transport) -> Result<Option<f64>, BenchError>;

fn measure(options: &Options, name: &str, work: Work, transport: &Transport) -> Result<(), BenchError> {
    if transport.size() > 1 {
        let rate = work(options, transport)?;
        rate.into_iter().for_each(|rate| println!("{name}: {} ranks, {rate:.2} Gpoint/s", transport.size()));
        return Ok(());
    }
    let mut one = None;
    for ranks in options.value("ranks=").unwrap_or("1,2,4").split(',').filter_map(|text| text.parse().ok()) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let rates = threads::run(ranks, |transport| {
            // The ranks share the cores.
            let pool = rayon::ThreadPoolBuilder::new().num_threads((cores / ranks).max(1));
            let pool = pool.build().map_err(|error| BenchError(error.to_string()))?;
            pool.install(|| work(options, transport))
        })?;
        let rate = rates[0].unwrap_or(f64::NAN);
        let one = *one.get_or_insert(rate);
        println!("{name}: {ranks} slabs, {rate:.2} Gpoint/s, {:.3} of the first line", rate / one);
    }
    Ok(())
}

/// Returns the rate of the fastest of several runs. `advance` computes some steps and waits for
/// them.
fn fastest_rate(
    nodes: usize,
    mut advance: impl FnMut(u64) -> Result<(), BenchError>,
) -> Result<f64, BenchError> {
    let mut seconds = [f64::INFINITY; 2];
    advance(STEPS[0])?;
    for _ in 0..RUNS {
        for (steps, fastest) in STEPS.into_iter().zip(&mut seconds) {
            let start = Instant::now();
            advance(steps)?;
            *fastest = fastest.min(start.elapsed().as_secs_f64());
        }
    }
    Ok(nodes as f64 * (STEPS[1] - STEPS[0]) as f64 / (seconds[1] - seconds[0]) / 1e9)
}

fn noise(k: usize) -> f64 {
    ((k as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1u64 << 24) as f64
}

fn values<T: Send>(count: usize, value: impl Fn(f64) -> T + Sync) -> Vec<T> {
    (0..count).into_par_iter().map(|k| value(noise(k))).collect()
}

fn wave_rate(options: &Options, transport: &Transport) -> Result<Option<f64>, BenchError> {
    rate_of_grid(options, transport, WaveGrid::volume([options.n; 3], [1.0; 3]))
}

fn plane_rate(options: &Options, transport: &Transport) -> Result<Option<f64>, BenchError> {
    rate_of_grid(options, transport, WaveGrid::plane([8 * options.n; 2], [1.0; 2]))
}

fn rate_of_grid(options: &Options, transport: &Transport, grid: WaveGrid) -> Result<Option<f64>, BenchError> {
    let velocity = match options.has("uniform") {
        true => Velocity::Uniform(1.0),
        false => Velocity::Field(values(grid.len(), |noise| 0.8 + 0.2 * noise)),
    };
    let sides = Sides::uniform(SideCondition::Free);
    let (order, precision) = (SpaceOrder::Eighth, Precision::Single);
    let problem = WaveProblem::new(grid, sides, order, velocity, vec![], vec![], precision)?;
    let (team, dt) = (Team::new(transport), 0.9 * problem.max_stable_step());
    let setup = options.device.as_ref().map(|device| WaveDeviceSetup::new(device, &problem));
    if !team.is_leader() {
        wave::follow(&team, &problem, setup.as_ref())?;
        return Ok(None);
    }
    let column = |name: &str, shift: f64| {
        let values = FieldColumn::Single(values(grid.len(), |noise| (noise - shift) as f32));
        NamedColumn { name: name.to_owned(), values }
    };
    let samples = NamedColumn { name: "samples".to_owned(), values: FieldColumn::Single(Vec::new()) };
    let columns = vec![column("u", 0.5), column("u_previous", 0.4), samples];
    let field = WaveField::restore(&problem, dt, 0, columns)?;
    drop(problem);
    let mut field = field.moved_to_team(&team, setup.as_ref().map(|setup| (&setup.device, None)))?;
    let rate = fastest_rate(grid.len(), |steps| {
        field.advance(dt, steps)?;
        Ok(field.wait()?)
    });
    rate.map(Some)
}

fn heat_rate(options: &Options, transport: &Transport) -> Result<Option<f64>, BenchError> {
    let n = 16 * options.n;
    let grid = Grid { nx: n, ny: n, hx: 1.0, hy: 1.0 };
    let conductivity = match options.has("uniform") {
        true => Conductivity::Uniform(1.0),
        false => Conductivity::Field(values(grid.len(), |noise| 0.5 + 0.5 * noise)),
    };
    let edges = Boundaries::uniform(Boundary::fixed(0.0));
    let problem = HeatProblem::new(grid, edges, conductivity, None, Precision::Single)?;
    let (team, dt) = (Team::new(transport), problem.max_stable_step());
    let setup = options.device.as_ref().map(|device| HeatDeviceSetup::new(device, &problem));
    if !team.is_leader() {
        heat::follow(&team, &problem, setup.as_ref())?;
        return Ok(None);
    }
    let column = FieldColumn::Single(values(grid.len(), |noise| noise as f32));
    let mut field = HeatField::restore_in_team(&team, &problem, column, setup.as_ref())?;
    let rate = fastest_rate(grid.len(), |steps| {
        field.advance(dt, steps)?;
        Ok(field.wait()?)
    });
    rate.map(Some)
}
