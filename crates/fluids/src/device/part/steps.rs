//! Steps of one rank. The host waits for each kernel, because it sends the ghosts after it.

use orrery_device::DeviceError;

use super::FluidDevicePart;
use crate::DeviceFluidError;
use crate::device::ControlWord;
use crate::device::batch::{StepBatch, StepKind};
use crate::host::MotionFailure;
use crate::slab::MotionReport;
use crate::sums::WideSum;

impl FluidDevicePart {
    /// Starts `steps` steps of length `dt`. `first` is the number of steps before.
    pub(crate) fn start_batch(&mut self, dt: f64, first: u64, steps: u32) -> Result<(), DeviceError> {
        self.batch = StepBatch { dt, first, steps };
        self.fluid.start_batch(&self.batch)
    }

    /// Takes the first half kick with the stored forces, and the first drift.
    pub(crate) fn take_first_step(&mut self) -> Result<MotionReport, DeviceFluidError> {
        self.fluid.queue_step(StepKind::First, &self.batch)?;
        self.finish_drift()
    }

    /// Computes forces, ends a step and takes the drift of the next one.
    pub(crate) fn take_middle_step(&mut self) -> Result<MotionReport, DeviceFluidError> {
        self.fluid.queue_force_step(&self.batch)?;
        self.finish_drift()
    }

    /// Computes forces and ends the last step.
    pub(crate) fn kick_last(&mut self) -> Result<(), DeviceFluidError> {
        self.fluid.queue_step(StepKind::LastKick, &self.batch)?;
        self.finish_step(|words| words[ControlWord::IsFinal as usize] = 1)
    }

    /// Rescaling: computes forces, ends a step without the scaling, and returns the sum of the
    /// kinetic energy.
    pub(crate) fn kick_and_sum(&mut self) -> Result<WideSum, DeviceFluidError> {
        let queue = self.device().queue();
        queue.write(&self.fluid.kinetic_sum, &[0; 2])?;
        self.fluid.queue_force_step(&self.batch)?;
        let mut sum = [0u64; 2];
        queue.read(&self.fluid.kinetic_sum, &mut sum)?;
        self.finish_step(|words| words[ControlWord::IsKicked as usize] = 1)?;
        Ok(WideSum { whole: sum[0] as i64, rest: sum[1] as i64, large_terms: 0 })
    }

    /// Rescaling: multiplies the velocities by a factor, and takes the drift of the next step, if
    /// there is one.
    pub(crate) fn scale_and_drift(&mut self, factor: f64) -> Result<MotionReport, DeviceFluidError> {
        self.device().queue().write(&self.fluid.factor, &[factor])?;
        self.fluid.queue_step(StepKind::ScaleAndDrift, &self.batch)?;
        let words = &self.fluid.words;
        if words[ControlWord::Step as usize] != words[ControlWord::Target as usize] {
            return self.finish_drift();
        }
        self.finish_step(|words| {
            words[ControlWord::IsKicked as usize] = 0;
            words[ControlWord::IsFinal as usize] = 1;
        })?;
        Ok(MotionReport { must_rebuild: false, must_widen: false, failure: None })
    }

    /// Waits for a drift and returns its result.
    fn finish_drift(&mut self) -> Result<MotionReport, DeviceFluidError> {
        self.finish_step(|words| {
            words[ControlWord::IsKicked as usize] = 0;
            words[ControlWord::Step as usize] = words[ControlWord::Step as usize].wrapping_add(1);
        })?;
        let word = |word: ControlWord| self.fluid.words[word as usize];
        let failed = word(ControlWord::Failed);
        Ok(MotionReport {
            must_rebuild: word(ControlWord::Rebuild) > 0,
            must_widen: word(ControlWord::Widen) > 0,
            failure: if failed > 0 { Some(self.find_failure(u32::MAX - failed)?) } else { None },
        })
    }

    /// Waits for a kernel. Without particles nothing runs, and `replace` changes the words as a
    /// kernel would.
    fn finish_step(&mut self, replace: impl Fn(&mut [u32])) -> Result<(), DeviceFluidError> {
        let mut expected = self.fluid.words;
        replace(&mut expected);
        if self.fluid.n == 0 {
            self.fluid.words = expected;
            return Ok(self.write_words()?);
        }
        self.read_words()?;
        let progress =
            [ControlWord::Step, ControlWord::IsKicked, ControlWord::IsFinal].map(|word| word as usize);
        self.expect_progress(progress.iter().all(|&word| self.fluid.words[word] == expected[word]))
    }

    /// Returns an error if kernels had no effect.
    pub(super) fn expect_progress(&self, has_progress: bool) -> Result<(), DeviceFluidError> {
        let stalled = || DeviceFluidError::Stalled { device: self.device().title() };
        if has_progress { Ok(()) } else { Err(stalled()) }
    }

    /// Describes the particle with this index of the user, which would move too far.
    fn find_failure(&self, user: u32) -> Result<MotionFailure, DeviceError> {
        let (queue, fluid) = (self.device().queue(), &self.fluid);
        let first = fluid.side() * fluid.stride;
        let mut order = vec![0; fluid.n];
        queue.read(fluid.order.range(first..first + fluid.n)?, &mut order)?;
        let at = first + order.iter().position(|&other| other == user).unwrap_or(0);
        let mut velocity = [0.0; 3];
        for axis in 0..3 {
            queue.read(fluid.velocity[axis].range(at..at + 1)?, &mut velocity[axis..axis + 1])?;
        }
        Ok(fluid.failure(user, velocity, &self.batch))
    }

    /// Doubles an open box.
    pub(super) fn widen(&mut self) -> Result<(), DeviceError> {
        self.fluid.words[ControlWord::Widen as usize] = 0;
        self.fluid.words[ControlWord::WidenNext as usize] = 0;
        self.fluid.widen_box(&self.batch)?;
        self.write_words()
    }

    /// Copies the words of `control` from the device.
    pub(super) fn read_words(&mut self) -> Result<(), DeviceError> {
        let fluid = &mut self.fluid;
        fluid.device.queue().read(&fluid.control, &mut fluid.words)
    }

    /// Copies the words of `control` to the device.
    pub(super) fn write_words(&self) -> Result<(), DeviceError> {
        self.fluid.device.queue().write(&self.fluid.control, &self.fluid.words)
    }
}
