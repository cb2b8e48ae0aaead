//! Steps of one rank on a device. Kernels end a step and start the next one together, and ghosts
//! are sent between them.

use super::{MotionReport, SlabFluid, SlabPart};
use crate::DeviceFluidError;
use crate::device::{FluidDevicePart, MAX_BATCH};
use crate::ensemble::{Ensemble, rescaling_factor};

impl SlabFluid<FluidDevicePart> {
    /// Takes `steps` steps of length `dt`. `first` is the number of steps before. All ranks return
    /// the same error if a particle moves too far.
    pub(crate) fn advance(&mut self, dt: f64, first: u64, steps: u64) -> Result<(), DeviceFluidError> {
        let mut done = 0;
        while done < steps {
            let batch = (steps - done).min(MAX_BATCH);
            self.advance_batch(dt, first + done, batch)?;
            done += batch;
        }
        Ok(())
    }

    fn advance_batch(&mut self, dt: f64, first: u64, steps: u64) -> Result<(), DeviceFluidError> {
        self.part.start_batch(dt, first, steps as u32)?;
        let mut report = self.part.take_first_step()?;
        for step in first..first + steps {
            let is_last = step + 1 == first + steps;
            self.agree(report).map_err(|error| error.at_step(step))?;
            self.choose_bits(is_last);
            self.update_surroundings()?;
            report = self.finish_step(dt, step, is_last)?;
        }
        Ok(())
    }

    /// Computes forces and ends a step. Starts the next one, if it is not the last, and returns the
    /// result of its drift.
    fn finish_step(&mut self, dt: f64, step: u64, is_last: bool) -> Result<MotionReport, DeviceFluidError> {
        match self.part.settings().ensemble {
            Ensemble::Rescaling { kt, time, seed } => {
                let sum = self.part.kick_and_sum()?;
                let (freedom, kinetic) = (self.degrees_of_freedom(), self.total_kinetic_energy(sum)?);
                let factor = rescaling_factor(kinetic, kt, freedom, dt / time, seed, step);
                self.part.scale_and_drift(factor)
            }
            Ensemble::Nve | Ensemble::Langevin { .. } if is_last => {
                self.part.kick_last()?;
                Ok(MotionReport::default())
            }
            Ensemble::Nve | Ensemble::Langevin { .. } => self.part.take_middle_step(),
        }
    }
}
