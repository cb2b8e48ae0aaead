//! Measures and downloads of a fluid on a device.

use orrery_device::{Arg, DeviceError};
use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;

use super::{DeviceFluid, SUM_WORDS};
use crate::FluidMeasures;
use crate::arithmetic::PairReal;
use crate::sums::MeasureSums;

impl DeviceFluid {
    /// Measures energies, momentum and virial.
    pub fn measure(&self) -> Result<FluidMeasures, DeviceError> {
        Ok(self.measures_of(self.measure_sums()?))
    }

    /// Returns the measures of sums. Pairs count twice in potential energy and virial.
    pub(super) fn measures_of(&self, sums: MeasureSums) -> FluidMeasures {
        let FluidMeasures { potential, virial, kinetic, momentum } = self.settings.measures_of(sums);
        FluidMeasures { potential: 0.5 * potential, virial: 0.5 * virial, kinetic, momentum }
    }

    /// Returns the sums over the particles here.
    pub(super) fn measure_sums(&self) -> Result<MeasureSums, DeviceError> {
        let (counts, entries, capacity) = match &self.lists {
            Some(lists) => (&lists.counts, &lists.entries, lists.capacity),
            None => (&self.order, &self.listed, 1),
        };
        self.device.queue().write(&self.sums, &[0; SUM_WORDS])?;
        let mut args: Vec<Arg> = vec![(&self.control).into()];
        args.extend([self.n as u32, self.stride as u32].map(Arg::from));
        args.extend(self.position.iter().map(Arg::from));
        args.push((&self.species).into());
        args.extend(self.velocity.iter().map(Arg::from));
        args.extend([Arg::from(counts), entries.into(), capacity.into()]);
        args.extend([&self.energy_pairs, &self.mass].map(Arg::from));
        args.extend(self.energies.forces.scale.map(Arg::from));
        args.extend(
            [2f64.powi(-f64::FORCE_BITS), 1.0 / self.settings.kinetic_unit(), self.settings.momentum_unit()]
                .map(Arg::from),
        );
        args.push((&self.sums).into());
        let blocks = self.blocks(self.strategy.lanes);
        self.device.queue().launch(&self.kernels.measure, blocks, self.strategy.block_size, &args)?;
        let mut words = [0u64; SUM_WORDS];
        self.device.queue().read(&self.sums, &mut words)?;
        let word = |sum: usize, k: usize| words[3 * sum + k] as i64;
        let sums = [0, 1, 2, 3, 4, 5].map(|sum| [word(sum, 0), word(sum, 1), word(sum, 2)]);
        Ok(MeasureSums::from_words(sums))
    }

    /// Returns the particles in the user's order.
    pub fn particles(&self) -> Result<FluidParticles, DeviceError> {
        let side = self.side() * self.stride;
        let order = self.order.to_vec()?;
        let mut ranks = vec![0; self.n];
        for (rank, &user) in order[side..side + self.n].iter().enumerate() {
            ranks[user as usize] = side + rank;
        }
        fn gathered<T: Copy>(values: &[T], ranks: &[usize]) -> Vec<T> {
            ranks.iter().map(|&rank| values[rank]).collect()
        }
        let [px, py, pz] = &self.position;
        let [ix, iy, iz] = &self.image;
        let [vx, vy, vz] = &self.velocity;
        let species = gathered(&self.species.to_vec()?, &ranks);
        Ok(FluidParticles {
            bounds: self.bounds,
            position: [
                gathered(&px.to_vec()?, &ranks),
                gathered(&py.to_vec()?, &ranks),
                gathered(&pz.to_vec()?, &ranks),
            ],
            image: [
                gathered(&ix.to_vec()?, &ranks),
                gathered(&iy.to_vec()?, &ranks),
                gathered(&iz.to_vec()?, &ranks),
            ],
            velocity: Vec3s {
                x: gathered(&vx.to_vec()?, &ranks),
                y: gathered(&vy.to_vec()?, &ranks),
                z: gathered(&vz.to_vec()?, &ranks),
            },
            species: species.into_iter().map(|species| species as u8).collect(),
            id: self.id.clone(),
        })
    }
}
