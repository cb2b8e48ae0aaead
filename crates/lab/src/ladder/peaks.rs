//! What ladders share: the peaks that rungs are held against, threads, and how often a rung is timed.

use orrery_device::{Device, DeviceError, ceiling};
use orrery_particles::settings::Precision;
use orrery_particles::simd::{InstructionSet, peak};
use orrery_particles::solver::direct::rungs::Threads;

use super::Roofs;
use crate::{LabError, timing};

/// One evaluation of a rung may take so long, and all of them so long together.
pub const ONE_SECONDS: f64 = 0.5;
const RUNG_SECONDS: f64 = 1.5;
/// Timed evaluations at most.
const REPEATS: f64 = 20.0;

/// Operations a second.
pub struct Peaks {
    /// Those of the device; without one, of the processor.
    pub roofs: Roofs,
    f64: Option<f64>,
    /// Of all the processor's cores, f32 and f64.
    cpu: [f64; 2],
}

impl Peaks {
    /// Measures them.
    pub fn measure(device: Option<&Device>) -> Result<Self, LabError> {
        let cpu = [Precision::Single, Precision::Double]
            .map(|precision| peak::flops_per_second(InstructionSet::best(), precision));
        let (roofs, f64) = match device {
            None => (Roofs { flops: Some(cpu[0]), ..Roofs::default() }, Some(cpu[1])),
            Some(device) => {
                let (found, told) = (ceiling::measure(device)?, device.properties());
                let roofs = Roofs {
                    bandwidth: Some(found.copy_bytes_per_s),
                    flops: Some(found.f32_flops),
                    theoretical_bandwidth: told.peak_bandwidth,
                    theoretical_flops: told.peak_f32,
                };
                (roofs, told.peak_f64.or(found.f64_flops))
            }
        };
        Ok(Self { roofs, f64, cpu })
    }

    /// The device's, by its data sheet where that is known.
    pub fn of_device(&self, precision: Precision) -> Option<f64> {
        match precision {
            Precision::Double => self.f64,
            Precision::Single | Precision::Mixed => self.roofs.theoretical_flops.or(self.roofs.flops),
        }
    }

    /// The processor's.
    pub fn of_cpu(&self, precision: Precision) -> f64 {
        self.cpu[usize::from(precision == Precision::Double)]
    }
}

/// A pool of so many threads.
pub fn pool(threads: Threads) -> Result<rayon::ThreadPool, LabError> {
    let threads = match threads {
        Threads::One => 1,
        Threads::All => rayon::current_num_threads(),
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|e| LabError::Threads { threads, word: e.to_string() })
}

/// How often a rung is timed whose evaluation takes `once`.
pub fn repeats(once: f64) -> usize {
    (RUNG_SECONDS / once).clamp(1.0, REPEATS) as usize
}

/// Bytes a second of what `queue_work` queues, at the median.
pub fn rate_on_device(
    device: &Device,
    bytes: f64,
    mut queue_work: impl FnMut() -> Result<(), DeviceError>,
) -> Result<f64, DeviceError> {
    let once = timing::once(device, &mut queue_work)?;
    Ok(bytes / timing::on_device(device, repeats(once), once, queue_work)?.median())
}

/// The same on the processor.
pub fn rate_on_cpu<T>(bytes: f64, work: impl Fn() -> T) -> f64 {
    let run = || drop(std::hint::black_box(work()));
    let once = timing::on_host(1, run).median();
    bytes / timing::on_host(repeats(once), run).median()
}
