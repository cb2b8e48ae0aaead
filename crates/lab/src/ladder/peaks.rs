//! Shared parts of the ladders: peak rates, thread pools and repeat counts.

use orrery_device::{Device, DeviceError, ceiling};
use orrery_model::Precision;
use orrery_particles::solver::direct::rungs::Threads;
use orrery_simd::InstructionSet;

use super::Roofs;
use crate::{LabError, cpu_peak, timing};

/// Longest time of a single run of a rung. Slower rungs are measured with a smaller problem.
pub const MAX_RUN_SECONDS: f64 = 0.5;
/// Approximate time for all timed runs of a rung.
const SECONDS_PER_RUNG: f64 = 1.5;
/// Largest number of timed runs.
const MAX_REPEATS: f64 = 20.0;

/// Peak floating-point rates, in operations per second.
pub struct Peaks {
    /// Roofs of the device, or of the CPU if there is no device.
    pub roofs: Roofs,
    device_f64: Option<f64>,
    /// f32 and f64 peaks of all CPU cores together.
    cpu: [f64; 2],
}

impl Peaks {
    /// Measures the peaks of the CPU and of `device`.
    pub fn measure(device: Option<&Device>) -> Result<Self, LabError> {
        let cpu = [Precision::Single, Precision::Double]
            .map(|precision| cpu_peak::flops_per_second(InstructionSet::best(), precision));
        let (roofs, device_f64) = match device {
            None => (Roofs { flops: Some(cpu[0]), ..Roofs::default() }, Some(cpu[1])),
            Some(device) => {
                let (measured, properties) = (ceiling::measure(device)?, device.properties());
                let roofs = Roofs {
                    bandwidth: Some(measured.copy_bytes_per_s),
                    flops: Some(measured.f32_flops),
                    theoretical_bandwidth: properties.peak_bandwidth,
                    theoretical_flops: properties.peak_f32,
                };
                (roofs, properties.peak_f64.or(measured.f64_flops))
            }
        };
        Ok(Self { roofs, device_f64, cpu })
    }

    /// Returns the device's theoretical peak, or the measured one if the theoretical is unknown.
    pub fn device_peak(&self, precision: Precision) -> Option<f64> {
        match precision {
            Precision::Double => self.device_f64,
            Precision::Single | Precision::Mixed => self.roofs.theoretical_flops.or(self.roofs.flops),
        }
    }

    /// Returns the measured peak of all CPU cores.
    pub fn cpu_peak(&self, precision: Precision) -> f64 {
        self.cpu[usize::from(precision == Precision::Double)]
    }
}

/// Builds a pool of one thread or of as many threads as the current pool has.
pub fn build_thread_pool(threads: Threads) -> Result<rayon::ThreadPool, LabError> {
    let threads = match threads {
        Threads::One => 1,
        Threads::All => rayon::current_num_threads(),
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|e| LabError::Threads { threads, cause: e.to_string() })
}

/// Returns the number of timed runs for a rung whose run takes `run_seconds`.
pub fn repeat_count(run_seconds: f64) -> usize {
    (SECONDS_PER_RUNG / run_seconds).clamp(1.0, MAX_REPEATS) as usize
}

/// Measures the work that `queue_work` queues and moves `bytes`. Returns bytes per second at the
/// median time.
pub fn rate_on_device(
    device: &Device,
    bytes: f64,
    mut queue_work: impl FnMut() -> Result<(), DeviceError>,
) -> Result<f64, DeviceError> {
    let run_seconds = timing::time_once(device, &mut queue_work)?;
    Ok(bytes / timing::time_on_device(device, repeat_count(run_seconds), run_seconds, queue_work)?.median())
}

/// Measures `work`, which moves `bytes`, on the CPU. Returns bytes per second at the median time.
pub fn rate_on_cpu<T>(bytes: f64, work: impl Fn() -> T) -> f64 {
    let run = || drop(std::hint::black_box(work()));
    let run_seconds = timing::time_on_host(1, run).median();
    bytes / timing::time_on_host(repeat_count(run_seconds), run).median()
}
