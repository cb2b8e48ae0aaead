//! Steps of one rank on the CPU.

use super::{HostPart, SlabFluid, SlabPart};
use crate::DeviceFluidError;
use crate::host::FluidMotion;
use crate::settings::FluidSettings;
use crate::steps::{Stepping, take_step};

impl SlabFluid<HostPart> {
    /// Takes `steps` steps of length `dt`. `first` is the number of steps before. All ranks return
    /// the same error if a particle moves too far.
    pub(crate) fn advance(&mut self, dt: f64, first: u64, steps: u64) -> Result<(), DeviceFluidError> {
        let end = first + steps;
        for step in first..end {
            self.choose_bits(step + 1 == end);
            take_step(self, dt, step).map_err(|error| error.at_step(step))?;
        }
        Ok(())
    }
}

impl Stepping for SlabFluid<HostPart> {
    type Error = DeviceFluidError;

    fn settings(&self) -> &FluidSettings {
        self.part.settings()
    }

    fn degrees_of_freedom(&self) -> f64 {
        self.degrees_of_freedom()
    }

    fn apply(&mut self, motions: &[FluidMotion]) -> Result<(), DeviceFluidError> {
        // Only a drift may fail or invalidate lists.
        self.part.move_particles(motions).map_or(Ok(()), |report| self.agree(report))
    }

    fn update_forces(&mut self) -> Result<(), DeviceFluidError> {
        self.update_surroundings()?;
        self.part.compute_forces()
    }

    fn kinetic_energy(&self) -> Result<f64, DeviceFluidError> {
        self.total_kinetic_energy(self.part.kinetic_sum())
    }
}
