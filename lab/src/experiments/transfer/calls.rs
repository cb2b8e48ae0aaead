//! Calls of the host while a kernel runs: which of them wait for it?
//!
//! A kernel occupies one SM for some milliseconds. The host then makes one call, and both are shown
//! on one clock. A call that ends with the kernel has waited for it. The course lists allocations,
//! page-locking and blocking copies as calls that wait for all work of the device.

use orrery_device::{Buffer, Device, DeviceError, Kernel, Queue};
use orrery_measure::timing::time_once;

use super::clock::{SharedClock, start_at_zero};
use super::segments::{BLOCK_SIZE, build_kernel};
use crate::ladder::{TimelineLane, TimelineSpan};

/// A call of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostCall {
    /// A copy from page-locked memory in another queue, which the host does not wait for.
    AsynchronousCopy,
    /// A copy from page-locked memory in another queue, which the host waits for.
    BlockingCopy,
    /// A copy from ordinary memory in another queue.
    PageableCopy,
    /// A copy from ordinary memory in the queue of the kernel.
    CopyInSameQueue,
    /// Allocation of device memory and zeros in it.
    Allocation,
    /// Release of device memory.
    Release,
    /// Allocation of page-locked memory.
    Pinning,
}

impl HostCall {
    /// All calls.
    pub const ALL: [Self; 7] = [
        Self::AsynchronousCopy,
        Self::BlockingCopy,
        Self::PageableCopy,
        Self::CopyInSameQueue,
        Self::Allocation,
        Self::Release,
        Self::Pinning,
    ];

    /// Returns a name for lanes of a time line.
    pub fn name(self) -> &'static str {
        match self {
            Self::AsynchronousCopy => "async copy",
            Self::BlockingCopy => "blocking copy",
            Self::PageableCopy => "pageable copy",
            Self::CopyInSameQueue => "copy, same queue",
            Self::Allocation => "allocation",
            Self::Release => "release",
            Self::Pinning => "pinning",
        }
    }
}

/// Intervals of a kernel and of a call of the host, in seconds. The earlier one starts at 0.
#[derive(Clone, Debug)]
pub struct CallDuringKernel {
    /// Call.
    pub call: HostCall,
    /// Start and end of the call.
    pub host: [f64; 2],
    /// Start and end of the kernel.
    pub kernel: [f64; 2],
}

impl CallDuringKernel {
    /// Returns whether the call ended with the kernel or later. A twentieth of the kernel's time is
    /// allowed for the difference of the clocks.
    pub fn has_waited(&self) -> bool {
        let [start, end] = self.kernel;
        self.host[1] > end - 0.05 * (end - start)
    }

    /// Returns a lane for the host and one for the device.
    pub fn lanes(&self) -> [TimelineLane; 2] {
        let name = self.call.name();
        let lane = |name: String, label: &str, [start, end]: [f64; 2]| TimelineLane {
            name,
            spans: vec![TimelineSpan { label: label.to_owned(), start, end }],
        };
        [lane(name.to_owned(), "call", self.host), lane("  kernel".to_owned(), "kernel", self.kernel)]
    }
}

/// Makes calls while a kernel runs.
#[derive(Debug)]
pub struct CallExperiment {
    device: Device,
    kernel: Kernel,
    /// Queue of the kernel.
    kernel_queue: Queue,
    /// Queue of copies.
    copy_queue: Queue,
    /// One number per thread.
    out: Buffer<f32>,
    rounds: i32,
    /// Numbers that a call copies or allocates.
    len: usize,
}

/// Rounds of the first launch, from which the time of a round follows.
const FIRST_ROUNDS: i32 = 100_000;

impl CallExperiment {
    /// Compiles the kernel and finds the number of rounds that take about `kernel_seconds`. Calls
    /// copy or allocate `len` numbers of 32 bits.
    pub fn new(device: &Device, kernel_seconds: f64, len: usize) -> Result<Self, DeviceError> {
        let mut experiment = Self {
            device: device.clone(),
            kernel: build_kernel(device, "occupy")?,
            kernel_queue: device.new_queue()?,
            copy_queue: device.new_queue()?,
            out: device.zeros(BLOCK_SIZE as usize)?,
            rounds: FIRST_ROUNDS,
            len: len.max(1),
        };
        let seconds = time_once(device, || experiment.launch(device.queue()))?;
        let rounds = f64::from(FIRST_ROUNDS) * kernel_seconds / seconds.max(1e-7);
        experiment.rounds = rounds.clamp(1.0, 1e9) as i32;
        Ok(experiment)
    }

    fn launch(&self, queue: &Queue) -> Result<(), DeviceError> {
        let args = [self.rounds.into(), 0.5f32.into(), (&self.out).into()];
        queue.launch(&self.kernel, 1, BLOCK_SIZE, &args)
    }

    /// Makes a call while the kernel runs. Waits for both.
    pub fn run(&self, call: HostCall) -> Result<CallDuringKernel, DeviceError> {
        let pageable = vec![1u32; self.len];
        let mut pinned = self.device.pinned::<u32>(self.len)?;
        let target = self.device.zeros::<u32>(self.len)?;
        let mut released = Some(self.device.zeros::<u32>(self.len)?);
        let clock = SharedClock::new(&self.kernel_queue)?;
        let start = self.kernel_queue.record()?;
        self.launch(&self.kernel_queue)?;
        let end = self.kernel_queue.record()?;
        let before = clock.now();
        // Memory that a call allocates is freed after the end of the kernel.
        let (mut allocated, mut page_locked) = (None, None);
        match call {
            HostCall::AsynchronousCopy => self.copy_queue.write_async(&target, &mut pinned).map(drop)?,
            HostCall::BlockingCopy => self.copy_queue.write(&target, &pinned)?,
            HostCall::PageableCopy => self.copy_queue.write(&target, &pageable)?,
            HostCall::CopyInSameQueue => self.kernel_queue.write(&target, &pageable)?,
            HostCall::Allocation => allocated = Some(self.device.zeros::<u32>(self.len)?),
            HostCall::Release => drop(released.take()),
            HostCall::Pinning => page_locked = Some(self.device.pinned::<u32>(self.len)?),
        }
        let after = clock.now();
        self.kernel_queue.finish()?;
        self.copy_queue.finish()?;
        drop((allocated, page_locked));
        let (start, end) = (clock.time_of(&start)?, clock.time_of(&end)?);
        let mut result = CallDuringKernel { call, host: [before, after], kernel: [start, end.max(start)] };
        let first = before.min(start);
        for time in result.host.iter_mut().chain(&mut result.kernel) {
            *time -= first;
        }
        Ok(result)
    }

    /// Returns what the threads of the last kernel computed.
    pub fn kernel_output(&self) -> Result<Vec<f32>, DeviceError> {
        self.out.to_vec()
    }
}

/// Returns the lanes of several calls.
pub fn lanes_of(calls: &[CallDuringKernel]) -> Vec<TimelineLane> {
    let mut lanes: Vec<TimelineLane> = calls.iter().flat_map(CallDuringKernel::lanes).collect();
    start_at_zero(&mut lanes);
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_ends_with_the_kernel_has_waited() {
        let call = HostCall::Release;
        let during = |end| CallDuringKernel { call, host: [0.001, end], kernel: [0.0, 0.02] };
        assert!(!during(0.0011).has_waited());
        assert!(during(0.0199).has_waited() && during(0.03).has_waited());
    }

    /// A copy in the queue of the kernel runs after it, with any driver.
    #[test]
    fn a_copy_in_the_queue_of_the_kernel_waits_for_it() {
        for device in orrery_device::testing::test_devices() {
            let experiment = CallExperiment::new(&device, 0.01, 1000).unwrap();
            let found = experiment.run(HostCall::CopyInSameQueue).unwrap();
            assert!(found.has_waited(), "{found:?}");
            assert!(found.kernel[0] <= found.kernel[1] && found.host[0] <= found.host[1], "{found:?}");
            for call in HostCall::ALL {
                let lanes = lanes_of(&[experiment.run(call).unwrap()]);
                assert_eq!(lanes.len(), 2);
            }
        }
    }
}
