//! Scaling with the number of ranks: measured, modelled, and predicted for many GPUs.
//!
//! All ranks call [`measure`]. For 1, 2, 4, ... ranks, the first ones take part and the others
//! wait. Two kinds of times are measured:
//!
//! - **Parts.** Each rank computes its part without communication, while the others do the same.
//!   This is the computation of a part on a machine where ranks share cores, memory or a device.
//!   For gravity a part is an equal number of targets, otherwise it is a smaller problem.
//! - **Together.** The ranks compute one problem, with communication.
//!
//! The [`model`] adds the time of the messages to that of the parts, and predicts the times
//! together. For fields and gravity, its parameters are times of parts and of exchanges. A fluid
//! has more work at the borders of its parts than messages: ghosts are selected, packed and sorted.
//! There a constant and a time per sent byte are fitted to the times together of other sizes than
//! those of strong and weak scaling. See [`model`] for the equations.

pub mod model;
#[cfg(test)]
mod model_tests;
mod probe;
mod report;
mod study;
mod systems;
#[cfg(test)]
mod tests;
mod timing;

use orrery_cluster::Transport;
use orrery_device::Device;
use serde::Serialize;

use crate::MeasureError;
use model::MessageLink;
pub use probe::{LinkTimes, PingPong};
pub use report::{efficiency_plot, link_lines, physics_lines, plot, to_json};
pub use study::{RankMeasurement, ScalingStudy};

/// Physics whose steps are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MeasuredPhysics {
    /// Acoustic waves in a cube, order 8, f32, uniform velocity.
    Wave,
    /// Heat on a square, f32, uniform conductivity.
    Heat,
    /// Plummer sphere with the tree, mixed precision, theta 0.6.
    Gravity,
    /// Lennard-Jones melt.
    #[serde(rename = "lj")]
    LennardJones,
}

impl MeasuredPhysics {
    /// All physics, in the order of reports.
    pub const ALL: [Self; 4] = [Self::Wave, Self::Heat, Self::Gravity, Self::LennardJones];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wave => "wave",
            Self::Heat => "heat",
            Self::Gravity => "gravity",
            Self::LennardJones => "lj",
        }
    }

    /// Returns the name of the elements that ranks divide.
    pub fn elements(self) -> &'static str {
        match self {
            Self::Wave => "planes",
            Self::Heat => "rows",
            Self::Gravity => "bodies",
            Self::LennardJones => "particles",
        }
    }

    /// Returns the default size: nodes along a side of a field, or particles.
    pub fn default_size(self, device: Option<&Device>) -> usize {
        use orrery_device::DeviceKind::{Cpu, Gpu, Other};
        let sizes = match self {
            Self::Wave => [1024, 256, 64],
            Self::Heat => [16_384, 4096, 512],
            Self::Gravity => [1 << 20, 1 << 17, 4096],
            Self::LennardJones => [1 << 20, 1 << 15, 4096],
        };
        match device.map(|device| device.properties().kind) {
            Some(Gpu) => sizes[0],
            None => sizes[1],
            Some(Cpu | Other) => sizes[2],
        }
    }

    /// Returns the smallest size that two ranks can divide in a useful way.
    pub fn min_size(self) -> usize {
        match self {
            Self::Wave | Self::Heat => 32,
            Self::Gravity => 256,
            Self::LennardJones => 2048,
        }
    }
}

/// Settings of a measurement. They are the same on all ranks.
#[derive(Clone, Copy, Debug)]
pub struct ScalingSettings {
    /// Threads of the CPU per rank.
    pub threads: usize,
    /// Timed runs per measurement. The fastest counts.
    pub repeats: usize,
    /// Seconds of a timed run, if its fewest steps do not take longer.
    pub run_secs: f64,
    /// Bytes of memory per rank. Larger problems are not measured.
    pub memory: Option<u64>,
}

/// One rank of a measurement.
#[derive(Clone, Copy)]
pub struct MeasuredRank<'a> {
    /// Connection to all ranks.
    pub transport: &'a Transport,
    /// Device of this rank, `None` for the CPU. All ranks have one or none has.
    pub device: Option<&'a Device>,
    /// Settings.
    pub settings: ScalingSettings,
}

/// Processors that the ranks share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Processors {
    /// For each rank, a name that is equal for ranks that share cores or a device.
    names: Vec<String>,
    /// Ranks that one of these processors computes for at the same time.
    capacity: usize,
}

impl Processors {
    /// Finds the processors of all ranks, which must call it.
    pub fn find(rank: &MeasuredRank<'_>) -> Result<Self, MeasureError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let capacity = if rank.device.is_some() { 1 } else { (cores / rank.settings.threads).max(1) };
        let names = rank.transport.all_gather(processor_name(rank.device).as_bytes())?;
        let names = names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        Ok(Self { names, capacity })
    }

    /// Returns how many of the first `ranks` ranks compute at the same time.
    pub fn slots(&self, ranks: usize) -> usize {
        let names = &self.names[..ranks];
        let is_first = |index: &usize| !names[..*index].contains(&names[*index]);
        let of_name = |name: &String| names.iter().filter(|other| *other == name).count();
        (0..ranks).filter(is_first).map(|index| of_name(&names[index]).min(self.capacity)).sum()
    }
}

/// Returns a text that is equal for ranks with the same device, or with the same cores.
fn processor_name(device: Option<&Device>) -> String {
    let computer = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let computer = computer.trim();
    if let Some(device) = device {
        // Launchers can give each rank another device with the same number.
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
        return format!("{computer} {} {visible}", device.label());
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let cores = status.lines().find(|line| line.starts_with("Cpus_allowed_list:"));
    format!("{computer} {}", cores.unwrap_or_default())
}

/// Returns 1, 2, 4, ... ranks up to `size`, which is the last.
pub fn rank_counts(size: usize) -> Vec<usize> {
    let mut counts: Vec<usize> =
        std::iter::successors(Some(1), |count| Some(2 * count)).take_while(|&count| count < size).collect();
    counts.push(size);
    counts
}

/// Link of an InfiniBand NDR port: 400 Gbit/s per direction, and 5 µs from GPU to GPU. Published
/// latencies between nodes are 1 to 5 µs. DGX H100 and H200 have one port per GPU. NVLink between
/// the GPUs of a node is faster: 450 GB/s per direction.
pub const DEFAULT_LINK: MessageLink = MessageLink { latency_secs: 5e-6, bytes_per_s: 50e9 };

/// Numbers of ranks of a prediction.
pub const PREDICTED_RANKS: [usize; 11] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 10_000];

/// Measures a physics of size `n`: nodes along a side of a field, or particles. All ranks must call
/// it. Rank 0 returns the results. `progress` gets a description of each measurement.
pub fn measure(
    rank: &MeasuredRank<'_>,
    processors: &Processors,
    physics: MeasuredPhysics,
    n: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<ScalingStudy>, MeasureError> {
    study::ScalingMeasurement::new(*rank, processors, physics, n, progress).run()
}

/// Measures messages between ranks 0 and 1: short ones, and of `bytes` bytes. All ranks must call
/// it. Returns nothing for one rank.
pub fn measure_ping_pong(rank: &MeasuredRank<'_>, bytes: usize) -> Result<Vec<PingPong>, MeasureError> {
    probe::ping_pong(rank.transport, bytes)
}
