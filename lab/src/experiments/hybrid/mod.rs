//! One direct sum of gravity that the CPU and a device share:
//!
//!   a_i = G Σ_j m_j (x_j − x_i) / (|x_j − x_i|² + eps²)^{3/2}
//!
//! The device computes the accelerations of the first bodies, the CPU at the same time those of the
//! others. Both need the positions of all bodies. Let the CPU alone take T_c and the device alone
//! T_d. If the CPU has the share s of the targets, the time is
//!
//!   T(s) = max(s T_c, (1 − s) T_d)
//!
//! It is shortest for s = T_d / (T_c + T_d), where both finish at once. The gain over the device
//! alone is then 1 + T_d / T_c. For a device that is ten times as fast as the CPU that is 10%.
//!
//! Cost: 20 flops per pair. Copies of 24 bytes per body to the device and of 24 bytes per target of
//! the device back. Limit: arithmetic, and for few bodies the copies.
//!
//! When not to use it: if another algorithm gains more. A device that computes each pair once for
//! both bodies is faster than a device and a CPU that compute it twice.

mod alone;
mod device_part;
pub mod selftest;
mod share;

pub use alone::DeviceAlone;
pub use device_part::{CopyMode, LANE_NAMES};
pub use share::{MeasuredSum, balanced_share, cpu_target_count, find_share};

use std::time::Instant;

use orrery_device::{Device, DeviceError, DeviceKind};
use orrery_gravity::solver::direct::device::{DirectDeviceStrategy, DirectKernel};
use orrery_gravity::solver::direct::{DirectCpuStrategy, forces_on_range};
use orrery_gravity::solver::{CpuMemory, ForceProblem, Forces};
use orrery_model::{Precision, Vec3s};
use orrery_simd::InstructionSet;

use super::transfer::clock::SpanRecorder;
use device_part::HybridDevicePart;

/// Returns the strategy of the device. Its kernel computes any range of targets.
pub fn device_strategy(device: &Device) -> DirectDeviceStrategy {
    let (kernel, precision) = (DirectKernel::Tiled, Precision::Single);
    // The rung of the direct ladder with several targets per thread.
    let several_targets =
        DirectDeviceStrategy { kernel, precision, block: 256, targets: 4, unroll: 32, splits: 0 };
    if device.properties().kind == DeviceKind::Gpu && several_targets.fits(device) {
        return several_targets;
    }
    DirectDeviceStrategy::default_for(device, 0, precision)
}

/// Returns the strategy of the CPU.
pub fn cpu_strategy() -> DirectCpuStrategy {
    DirectCpuStrategy::new(Precision::Single, InstructionSet::best())
}

/// Times of both parts of a sum, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HybridPartTimes {
    /// Time of the CPU's share.
    pub cpu: f64,
    /// Time in which the device works at the same time: its kernels, and the copies if they
    /// overlap.
    pub device: f64,
}

/// A sum that the CPU and a device share.
pub struct HybridSum<'a> {
    problem: ForceProblem<'a>,
    device_part: HybridDevicePart<'a>,
    memory: CpuMemory,
    cpu_forces: Forces,
}

impl<'a> HybridSum<'a> {
    /// Prepares the sum. The CPU computes the last `cpu_targets` bodies, at most all. The masses
    /// are copied to the device here, the positions in every [`HybridSum::run`].
    pub fn new(
        device: &'a Device,
        problem: ForceProblem<'a>,
        cpu_targets: usize,
        copies: CopyMode,
    ) -> Result<Self, DeviceError> {
        let device_targets = problem.mass.len() - cpu_targets;
        let device_part = HybridDevicePart::new(device, problem, device_targets, copies)?;
        Ok(Self { problem, device_part, memory: CpuMemory::default(), cpu_forces: Forces::default() })
    }

    /// Computes all accelerations and waits for them. Returns the times of both parts.
    pub fn run(&mut self, recorder: &mut SpanRecorder) -> Result<HybridPartTimes, DeviceError> {
        self.device_part.queue_work(recorder)?;
        let (n, first) = (self.problem.mass.len(), self.device_part.target_count());
        let start = Instant::now();
        recorder.record_call("CPU's share", || {
            let Self { problem, memory, cpu_forces, .. } = self;
            forces_on_range(problem, &cpu_strategy(), first..n, memory, cpu_forces);
        });
        let cpu = start.elapsed().as_secs_f64();
        Ok(HybridPartTimes { cpu, device: self.device_part.finish(recorder)? })
    }

    /// Returns the accelerations of the last run, one per body.
    pub fn accelerations(&self) -> Vec3s {
        let mut all = self.device_part.accelerations();
        self.cpu_forces.acceleration.iter().for_each(|acceleration| all.push(acceleration));
        all
    }
}
