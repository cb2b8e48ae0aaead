//! Batches of steps.
//!
//! A batch is queued in rounds: some steps, and then the kernels that build lists if a particle has
//! moved too far. Steps that come too late for the lists return at once and are taken in the next
//! round. The host reads the number of steps done one round later, so it never waits for a single
//! step. With several steps per launch, the steps of a round are one launch.

use orrery_device::{Arg, DeviceError};
use orrery_model::simulation_box::SimulationBox;

use super::lists::Lists;
use super::{ControlWord, DeviceFluid, DeviceFluidError, kernel_number};
use crate::Exploded;
use crate::arithmetic::{EnergyArithmetic, PairArithmetic};
use crate::ensemble::{Ensemble, rescaling_numbers};
use crate::host::MotionFailure;

/// Most steps of one batch: steps are counted in 32 bits, and rescaling has two numbers for each.
pub(crate) const MAX_BATCH: u64 = 1 << 16;

/// Most steps of a round. More steps may come too late for the lists.
const MAX_ROUND: u32 = 64;

/// Kinds of `take_step`. `step.cu` describes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum StepKind {
    First = kernel_number("FIRST_STEP"),
    LastKick = kernel_number("LAST_KICK"),
    ScaleAndDrift = kernel_number("SCALE_AND_DRIFT"),
}

/// Steps of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepBatch {
    pub dt: f64,
    /// Number of steps before.
    pub first: u64,
    pub steps: u32,
}

impl DeviceFluid {
    /// Takes `steps` steps of length `dt`. `first` is the number of steps before, which selects the
    /// random numbers of a thermostat.
    pub fn advance(&mut self, dt: f64, first: u64, steps: u64) -> Result<(), DeviceFluidError> {
        let mut done = 0;
        while done < steps {
            let batch = (steps - done).min(MAX_BATCH);
            self.advance_batch(StepBatch { dt, first: first + done, steps: batch as u32 })?;
            done += batch;
        }
        Ok(())
    }

    /// Builds lists and computes the forces at the current positions.
    pub(super) fn update_forces(&mut self) -> Result<(), DeviceFluidError> {
        self.advance_batch(StepBatch { dt: 0.0, first: 0, steps: 0 })
    }

    fn advance_batch(&mut self, batch: StepBatch) -> Result<(), DeviceFluidError> {
        let start = self.words[ControlWord::Step as usize];
        self.start_batch(&batch)?;
        let builds_before = self.words[ControlWord::Rebuilds as usize];
        self.write_rescaling_numbers(&batch)?;
        self.queue_step(StepKind::First, &batch)?;
        let mut left = batch.steps;
        // The words are read one round later, so that the device always has a round to work on.
        let mut is_pending = false;
        loop {
            self.queue_round(left, &batch)?;
            self.pinned.swap(0, 1);
            self.device.queue().read_async(&self.control, &mut self.pinned[0])?;
            if !std::mem::replace(&mut is_pending, true) {
                continue;
            }
            let before = self.words;
            self.words.copy_from_slice(&self.pinned[1]);
            if self.has_failed() {
                self.words.copy_from_slice(&self.pinned[0]);
                self.resolve_failures(&batch)?;
                is_pending = false;
            } else if self.words == before {
                return Err(DeviceFluidError::Stalled { device: self.device.title() });
            }
            if self.words[ControlWord::IsFinal as usize] > 0 {
                break;
            }
            left = batch.steps - self.words[ControlWord::Step as usize].wrapping_sub(start);
        }
        // The last round did nothing, but its copy of the words must not be read later.
        self.words.copy_from_slice(&self.pinned[0]);
        let builds = self.words[ControlWord::Rebuilds as usize].wrapping_sub(builds_before);
        if builds > 0 && batch.steps > 0 {
            self.steps_per_build = f64::from(batch.steps) / f64::from(builds);
        }
        Ok(())
    }

    /// Writes the words of `control` and the constants of the motion for a batch.
    pub(super) fn start_batch(&mut self, batch: &StepBatch) -> Result<(), DeviceError> {
        let start = self.words[ControlWord::Step as usize];
        self.words[ControlWord::Start as usize] = start;
        self.words[ControlWord::Target as usize] = start.wrapping_add(batch.steps);
        self.words[ControlWord::IsFinal as usize] = 0;
        self.device.queue().write(&self.control, &self.words)?;
        self.write_motion(batch)
    }

    /// Queues steps, up to the number that the lists will allow, a build of the lists, and the end
    /// of the batch.
    fn queue_round(&mut self, left: u32, batch: &StepBatch) -> Result<(), DeviceError> {
        let steps = match self.lists {
            Some(_) => (self.steps_per_build as u32 + 1).clamp(1, MAX_ROUND).min(left.max(1)),
            None => left.clamp(1, 4 * MAX_ROUND),
        };
        let is_rescaling = matches!(self.settings.ensemble, Ensemble::Rescaling { .. });
        if self.strategy.steps_per_launch > 1 {
            let mut args = self.step_arguments(batch);
            args[0] = steps.min(self.strategy.steps_per_launch).into();
            let (kernel, block_size) = (&self.kernels.take_steps, self.strategy.block_size);
            let blocks = self.blocks(self.strategy.lanes).min(self.resident_blocks);
            self.device.queue().launch_cooperative(kernel, blocks, block_size, &args)?;
        } else {
            for _ in 0..steps {
                self.queue_middle_step(batch)?;
            }
        }
        self.queue_build()?;
        if is_rescaling && batch.steps > 0 {
            return self.queue_middle_step(batch);
        }
        self.queue_step(StepKind::LastKick, batch)
    }

    /// Queues the kernels of one step in the middle of a batch.
    fn queue_middle_step(&self, batch: &StepBatch) -> Result<(), DeviceError> {
        self.queue_force_step(batch)?;
        match self.settings.ensemble {
            Ensemble::Rescaling { .. } => self.queue_step(StepKind::ScaleAndDrift, batch),
            Ensemble::Nve | Ensemble::Langevin { .. } => Ok(()),
        }
    }

    /// Queues the kernel of a step in the middle of a batch that computes forces.
    pub(super) fn queue_force_step(&self, batch: &StepBatch) -> Result<(), DeviceError> {
        let args = self.step_arguments(batch);
        let (blocks, block_size) = (self.blocks(self.strategy.lanes), self.strategy.block_size);
        self.device.queue().launch(&self.kernels.take_force_step, blocks, block_size, &args[1..])
    }

    /// Returns true if a kernel has stopped for a reason that the host must handle.
    fn has_failed(&self) -> bool {
        [ControlWord::Failed, ControlWord::Overflow, ControlWord::Widen]
            .iter()
            .any(|&word| self.words[word as usize] > 0)
    }

    /// Grows lists that were too short, and an open box that particles leave. Returns an error if a
    /// particle moves too fast.
    fn resolve_failures(&mut self, batch: &StepBatch) -> Result<(), DeviceFluidError> {
        if self.words[ControlWord::Failed as usize] > 0 {
            return Err(self.find_exploded(batch)?.into());
        }
        let overflow = std::mem::take(&mut self.words[ControlWord::Overflow as usize]);
        self.words[ControlWord::OverflowNext as usize] = 0;
        if let (Some(lists), true) = (&mut self.lists, overflow > 0) {
            lists.grow(&self.device, self.stride, overflow)?;
        }
        if std::mem::take(&mut self.words[ControlWord::Widen as usize]) > 0 {
            self.words[ControlWord::WidenNext as usize] = 0;
            self.widen_box(batch)?;
        }
        self.device.queue().write(&self.control, &self.words)?;
        Ok(())
    }

    /// Doubles an open box. Lists are built again.
    pub(super) fn widen_box(&mut self, batch: &StepBatch) -> Result<(), DeviceError> {
        self.bounds = self.bounds.doubled();
        self.single = PairArithmetic::new(&self.settings.potential, &self.bounds);
        self.energies = EnergyArithmetic::new(&self.settings.potential, &self.bounds);
        let mut args: Vec<Arg> = vec![(&self.control).into()];
        args.extend([self.n as u32, self.stride as u32].map(Arg::from));
        args.extend(self.position.iter().map(Arg::from));
        args.extend([Arg::from(&self.species), (&self.upper).into()]);
        let blocks = self.blocks(1);
        self.device.queue().launch(&self.kernels.widen_box, blocks, self.strategy.block_size, &args)?;
        if let Some(lists) = self.lists.take() {
            // The old lists are freed first.
            let capacity = lists.capacity;
            drop(lists);
            let sizes = [self.total, self.stride];
            let mut lists = Lists::new(&self.device, sizes, &self.settings, &self.bounds, &self.strategy)?;
            if lists.capacity < capacity {
                lists.grow(&self.device, self.stride, capacity)?;
            }
            if self.kernels.slab.is_some() {
                lists.add_ghost_cells(&self.device)?;
            }
            self.lists = Some(lists);
            self.words[ControlWord::Rebuild as usize] = 1;
        }
        self.write_motion(batch)
    }

    /// Returns the error of the particle that would move too far.
    fn find_exploded(&self, batch: &StepBatch) -> Result<Exploded, DeviceError> {
        let user = u32::MAX - self.words[ControlWord::Failed as usize];
        let failure = self.failure(user, self.particles()?.velocity.get(user as usize), batch);
        // The step that failed was counted.
        let done =
            self.words[ControlWord::Step as usize].wrapping_sub(self.words[ControlWord::Start as usize]) - 1;
        Ok(Exploded { step: batch.first + u64::from(done), ..failure.into() })
    }

    /// Describes the particle with this index of the user and velocity, which would move too far.
    pub(super) fn failure(&self, user: u32, velocity: [f64; 3], batch: &StepBatch) -> MotionFailure {
        // As in `drift` of `step.cu`. NaN moves too far.
        let is_too_far = |axis: usize| {
            let step = velocity[axis] * drift_factor(&self.bounds, axis, self.drift_time(batch.dt));
            step.is_nan() || step.abs() >= self.drift_limit(axis)
        };
        let axis = (0..self.bounds.dimensions).find(|&axis| is_too_far(axis)).unwrap_or(0);
        MotionFailure { user, id: self.id[user as usize], axis, velocity: velocity[axis] }
    }

    /// Returns the time of one drift. Langevin dynamics has two drifts per step.
    fn drift_time(&self, dt: f64) -> f64 {
        if matches!(self.settings.ensemble, Ensemble::Langevin { .. }) { 0.5 * dt } else { dt }
    }

    /// Returns the longest drift along an axis, in fractions of the box.
    fn drift_limit(&self, axis: usize) -> f64 {
        drift_factor(&self.bounds, axis, self.settings.largest_move(&self.bounds))
    }

    /// Writes the numbers of `motion` in the order of `step.cu`.
    fn write_motion(&self, batch: &StepBatch) -> Result<(), DeviceError> {
        let StepBatch { dt, .. } = *batch;
        let (decay, share, kt) = match self.settings.ensemble {
            Ensemble::Nve => (1.0, 0.0, 0.0),
            Ensemble::Langevin { kt, friction, .. } => (libm::exp(-friction * dt), 0.0, kt),
            // These numbers give the factor 1.
            Ensemble::Rescaling { .. } if self.degrees_of_freedom() < 1.0 => (1.0, 0.0, 0.0),
            Ensemble::Rescaling { kt, time, .. } => {
                let decay = libm::exp(-(dt / time));
                (decay, (1.0 - decay) * 0.5 * kt, 0.0)
            }
        };
        let kinetic_unit = self.settings.kinetic_unit();
        let drift = [0, 1, 2].map(|axis| drift_factor(&self.bounds, axis, self.drift_time(dt)));
        let limit = [0, 1, 2].map(|axis| self.drift_limit(axis));
        let mut motion = [drift, limit].concat();
        motion.extend([decay, share, 1.0 / kinetic_unit, kinetic_unit]);
        for &mass in &self.settings.mass {
            let width = ((1.0 - decay * decay) * kt / mass).sqrt();
            motion.extend([0.5 * dt * self.force_unit() / mass, width, mass]);
        }
        self.device.queue().write(&self.motion, &motion)
    }

    /// Writes the random numbers of stochastic rescaling, which do not depend on the state.
    fn write_rescaling_numbers(&mut self, batch: &StepBatch) -> Result<(), DeviceError> {
        let Ensemble::Rescaling { seed, .. } = self.settings.ensemble else { return Ok(()) };
        let freedom = self.degrees_of_freedom();
        let numbers: Vec<f64> = (batch.first..batch.first + u64::from(batch.steps))
            .flat_map(|step| rescaling_numbers(freedom, seed, step))
            .collect();
        if self.rescaling_numbers.len() < numbers.len() {
            self.rescaling_numbers = self.device.zeros(numbers.len())?;
        }
        if !numbers.is_empty() {
            self.device.queue().write(self.rescaling_numbers.range(..numbers.len())?, &numbers)?;
        }
        Ok(())
    }

    /// Queues one step.
    pub(super) fn queue_step(&self, kind: StepKind, batch: &StepBatch) -> Result<(), DeviceError> {
        let mut args = self.step_arguments(batch);
        args[0] = (kind as i32).into();
        let blocks = self.blocks(self.strategy.lanes);
        self.device.queue().launch(&self.kernels.take_step, blocks, self.strategy.block_size, &args)
    }

    /// Returns the arguments of kernels that take steps. The first one is different for each kernel
    /// and set by the caller.
    fn step_arguments<'a>(&'a self, batch: &StepBatch) -> Vec<Arg<'a>> {
        let (counts, entries, capacity, half_skin2) = match &self.lists {
            Some(lists) => (&lists.counts, &lists.entries, lists.capacity, lists.half_skin2),
            // The kernel does not read them.
            None => (&self.order, &self.listed, 1, 0.0),
        };
        let seed = match self.settings.ensemble {
            Ensemble::Langevin { seed, .. } => seed,
            Ensemble::Nve | Ensemble::Rescaling { .. } => 0,
        };
        let mut args: Vec<Arg> = Vec::with_capacity(40);
        args.extend([0, self.n as u32, self.stride as u32].map(Arg::from));
        args.push((&self.control).into());
        args.extend([Arg::from(&self.upper), (&self.listed).into()]);
        args.extend([Arg::from(counts), entries.into(), capacity.into(), (&self.pairs).into()]);
        args.extend(self.single.scale.map(Arg::from));
        args.extend([Arg::from(&self.motion), half_skin2.into()]);
        args.extend(self.position.iter().map(Arg::from));
        args.extend(self.image.iter().map(Arg::from));
        args.extend(self.velocity.iter().map(Arg::from));
        args.extend(self.force.iter().map(Arg::from));
        args.extend([Arg::from(&self.order), (&self.noise_ids).into(), seed.into(), batch.first.into()]);
        args.extend([Arg::from(&self.kinetic_sum), (&self.factor).into(), (&self.rescaling_numbers).into()]);
        args
    }
}

/// Returns a distance in fractions of the box. With a time, the fractions per velocity.
fn drift_factor(bounds: &SimulationBox, axis: usize, distance: f64) -> f64 {
    distance / bounds.lengths[axis] * 2f64.powi(64)
}
