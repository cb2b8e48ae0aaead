//! Threads of a warp that take different paths.
//!
//! The lanes of a warp execute one instruction at a time. If lanes take different paths of a
//! branch, the warp executes the paths one after the other, and the other lanes wait: the warp
//! diverges. A loop runs until its last lane has finished. For a warp w whose lanes l on path p
//! have n_l steps,
//!
//! time of the warp = sum over its paths p of max(n_l, l on p)
//!
//! and the share of active lanes is the sum of all n_l over 32 times the sum of all times. It is 1
//! if all lanes take the same path with the same number of steps, and 1/k for k paths of equal
//! length.
//!
//! Cost: 16 dependent fused multiply-adds per step. Limit: arithmetic. A device without warps, such
//! as a CPU through OpenCL, has the same speed for all patterns, apart from branch prediction.

pub mod patterns;
pub mod predication;
pub mod selftest;

use orrery_device::{Backend, Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, Resources};
use rayon::prelude::*;

pub use patterns::{DivergencePattern, DivergenceRung, ThreadWork, rungs};

// SAFETY: the kernel accesses element i < n of all buffers, and elements 2 i and 2 i + 1 of
// `counts` if it counts lanes. `DivergentWork` allocates n and 2 n elements and passes n. A path of
// PATHS or more does nothing.
const DIVERGENCE: KernelFile = unsafe { KernelFile::new("divergence.cu", include_str!("divergence.cu")) };

/// Lanes of a warp.
pub const LANES: usize = 32;
/// Different paths of the kernel.
pub const PATHS: usize = 32;
/// Threads per block.
pub const BLOCK_SIZE: usize = 256;
/// Fused multiply-adds of a step.
pub const FMAS_PER_STEP: usize = 16;

/// Returns a and b of a path.
fn coefficients(path: u32) -> (f32, f32) {
    (1.0 - 1.0 / 64.0 - path as f32 / 4096.0, 0.25 + path as f32 / 64.0)
}

/// Computes `steps` steps of a path.
fn run_path(path: u32, steps: u32) -> f32 {
    let (slope, shift) = coefficients(path);
    (0..steps as usize * FMAS_PER_STEP).fold(1.0f32, |x, _| x.mul_add(slope, shift))
}

/// Does the same with a product and a sum, which are rounded separately. A fused multiply-add is a
/// slow function on a CPU for which it is not compiled.
fn run_path_unfused(path: u32, steps: u32) -> f32 {
    let (slope, shift) = coefficients(path);
    (0..steps as usize * FMAS_PER_STEP).fold(1.0f32, |x, _| x * slope + shift)
}

/// Reference implementation: returns the result of each thread.
pub fn run_reference(work: &ThreadWork) -> Vec<f32> {
    work.paths.iter().zip(&work.lengths).map(|(path, steps)| run_path(*path, *steps)).collect()
}

/// Computes the same on one CPU core, with unfused operations.
pub fn run_on_one_core(work: &ThreadWork) -> Vec<f32> {
    work.paths.iter().zip(&work.lengths).map(|(path, steps)| run_path_unfused(*path, *steps)).collect()
}

/// Computes the same on all CPU cores, with unfused operations.
pub fn run_on_all_cores(work: &ThreadWork) -> Vec<f32> {
    work.paths.par_iter().zip(&work.lengths).map(|(path, steps)| run_path_unfused(*path, *steps)).collect()
}

/// Steps of lanes and of warps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepCounts {
    /// Steps of all threads.
    pub lane_steps: u64,
    /// Steps that the warps execute.
    pub warp_steps: u64,
}

impl StepCounts {
    /// Returns the steps by the model above.
    pub fn by_model(work: &ThreadWork) -> Self {
        let warps = work.paths.chunks(LANES).zip(work.lengths.chunks(LANES));
        let steps_of_warp = |(paths, lengths): (&[u32], &[u32])| {
            let mut longest = [0u64; PATHS];
            for (path, length) in paths.iter().zip(lengths) {
                let longest = &mut longest[*path as usize];
                *longest = (*longest).max((*length).into());
            }
            longest.iter().sum::<u64>()
        };
        Self {
            lane_steps: work.lengths.iter().map(|length| u64::from(*length)).sum(),
            warp_steps: warps.map(steps_of_warp).sum(),
        }
    }

    /// Returns the share of active lanes.
    pub fn active_share(&self) -> f64 {
        self.lane_steps as f64 / (LANES as f64 * self.warp_steps as f64)
    }
}

/// Work of all threads on a device.
#[derive(Debug)]
pub struct DivergentWork {
    device: Device,
    kernel: Kernel,
    paths: Buffer<u32>,
    lengths: Buffer<u32>,
    results: Buffer<f32>,
    unused: Buffer<u32>,
}

fn build_kernel(device: &Device, counts_lanes: bool) -> Result<Kernel, DeviceError> {
    let definitions = [
        ("BLOCK_SIZE", BLOCK_SIZE.to_string()),
        ("FMAS_PER_STEP", FMAS_PER_STEP.to_string()),
        ("COUNTS_LANES", i32::from(counts_lanes).to_string()),
    ];
    device.build(&DIVERGENCE, &definitions, Math::Precise)?.kernel("run_paths")
}

impl DivergentWork {
    /// Compiles the kernel and uploads the work.
    ///
    /// # Panics
    /// If a path is not below [`PATHS`].
    pub fn new(device: &Device, work: &ThreadWork) -> Result<Self, DeviceError> {
        assert!(work.paths.iter().all(|path| (*path as usize) < PATHS), "a path of {PATHS} or more");
        Ok(Self {
            device: device.clone(),
            kernel: build_kernel(device, false)?,
            paths: device.upload(&work.paths)?,
            lengths: device.upload(&work.lengths)?,
            results: device.zeros(work.paths.len())?,
            unused: device.zeros(1)?,
        })
    }

    /// Queues the work of all threads. Does not wait.
    pub fn launch(&self, queue: &Queue) -> Result<(), DeviceError> {
        self.launch_kernel(queue, &self.kernel, &self.unused)
    }

    fn launch_kernel(&self, queue: &Queue, kernel: &Kernel, counts: &Buffer<u32>) -> Result<(), DeviceError> {
        let n = self.paths.len();
        let args = [
            (&self.paths).into(),
            (&self.lengths).into(),
            (n as u32).into(),
            (&self.results).into(),
            counts.into(),
        ];
        queue.launch(kernel, n.div_ceil(BLOCK_SIZE) as u32, BLOCK_SIZE as u32, &args)
    }

    /// Returns the result of each thread in the last launch.
    pub fn results(&self) -> Result<Vec<f32>, DeviceError> {
        self.results.to_vec()
    }

    /// Counts the active lanes of each step with another kernel. Returns None if the device cannot.
    pub fn count_steps(&self) -> Result<Option<StepCounts>, DeviceError> {
        let properties = self.device.properties();
        if properties.backend != Backend::Cuda && !properties.has_warp_shuffle {
            return Ok(None);
        }
        let counts = self.device.zeros::<u32>(2 * self.paths.len())?;
        self.launch_kernel(self.device.queue(), &build_kernel(&self.device, true)?, &counts)?;
        let counts = counts.to_vec()?;
        let sum_of = |start| counts.iter().skip(start).step_by(2).map(|count| u64::from(*count)).sum();
        Ok(Some(StepCounts { warp_steps: sum_of(0), lane_steps: sum_of(1) }))
    }

    /// Returns the resources of the kernel and its occupancy.
    pub fn resources(&self) -> (Resources, Option<f64>) {
        (self.kernel.resources(), self.kernel.occupancy(BLOCK_SIZE as u32))
    }
}

#[cfg(test)]
mod tests {
    use orrery_model::analysis::max_or_nan;

    use super::*;

    /// Rounding of the product is an error of at most eps / 2 |x| per step, and a step reduces
    /// earlier errors by the factor a <= 1 - 1/64. The sum of the errors is at most 64 eps / 2
    /// times the largest x, to which the rounding of the results adds less than as much again.
    #[test]
    fn cores_compute_the_reference() {
        for rung in rungs() {
            let work = rung.pattern.work(1000, 3);
            let expected = run_reference(&work);
            let largest = expected.iter().map(|&x| f64::from(x)).fold(1.0, max_or_nan) as f32;
            for found in [run_on_one_core(&work), run_on_all_cores(&work)] {
                assert_eq!(found.len(), expected.len());
                let is_close = |(x, y): (&f32, &f32)| (x - y).abs() <= 64.0 * f32::EPSILON * largest;
                assert!(found.iter().zip(&expected).all(is_close), "{}", rung.name);
            }
        }
    }

    /// Different paths and different lengths must have different results, or errors would not be
    /// found.
    #[test]
    fn results_tell_paths_and_lengths_apart() {
        let mut results: Vec<u32> = (0..PATHS as u32)
            .flat_map(|path| (0..16).map(move |steps| run_path(path, steps).to_bits()))
            .collect();
        results.sort_unstable();
        results.dedup();
        // All paths start with the same number.
        assert_eq!(results.len(), PATHS * 15 + 1);
    }

    #[test]
    fn active_share_of_known_warps() {
        let share = |paths: &[u32], lengths: &[u32]| {
            let work = ThreadWork { paths: paths.to_vec(), lengths: lengths.to_vec() };
            StepCounts::by_model(&work).active_share()
        };
        assert_eq!(share(&[0; 64], &[5; 64]), 1.0);
        let parity: Vec<u32> = (0..32).map(|lane| lane % 2).collect();
        assert_eq!(share(&parity, &[5; 32]), 0.5);
        let different: Vec<u32> = (0..32).collect();
        assert_eq!(share(&different, &[5; 32]), 1.0 / 32.0);
        // One lane with 10 steps, 31 with one: 41 of 320.
        let mut lengths = [1; 32];
        lengths[7] = 10;
        assert_eq!(share(&[0; 32], &lengths), 41.0 / 320.0);
        // The second warp has one lane.
        assert_eq!(share(&[0; 33], &[5; 33]), 33.0 / 64.0);
    }
}
