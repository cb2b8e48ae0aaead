//! Sums and changes of velocities for the minimisation of the energy.

use rayon::prelude::*;

use super::{CHUNK, HostFluid};
use crate::minimise::ForceSums;

impl HostFluid {
    /// Returns sums over the forces in the user's order: over chunks of particles, and then over
    /// the chunks.
    pub(crate) fn force_sums(&self) -> ForceSums {
        let (unit, sorted) = (self.force_unit(), self.ranks());
        let of_particle = |&rank: &u32| {
            let mut sums = ForceSums::default();
            for axis in 0..3 {
                let (f, v) =
                    (self.force[axis][rank as usize] as f64 * unit, self.velocity[axis][rank as usize]);
                let of_axis = ForceSums { largest: f.abs(), power: f * v, force2: f * f, velocity2: v * v };
                sums = sums.and(of_axis);
            }
            sums
        };
        let of_chunk =
            |chunk: &[u32]| chunk.iter().map(of_particle).fold(ForceSums::default(), ForceSums::and);
        let chunks: Vec<ForceSums> = sorted.par_chunks(CHUNK).map(of_chunk).collect();
        chunks.into_iter().fold(ForceSums::default(), ForceSums::and)
    }

    /// Changes velocities: v ← `keep` v + `towards` f.
    pub(crate) fn mix_velocities(&mut self, keep: f64, towards: f64) {
        let factor = towards * self.force_unit();
        for (velocity, force) in self.velocity.iter_mut().zip(&self.force) {
            velocity.par_iter_mut().zip(force).with_min_len(CHUNK).for_each(|(v, &force)| {
                *v = keep * *v + factor * force as f64;
            });
        }
    }

    /// Shortens velocities that are longer than `largest`. They keep their direction.
    pub(crate) fn limit_speeds(&mut self, largest: f64) {
        let [x, y, z] = &mut self.velocity;
        let components = x.par_iter_mut().zip(y.par_iter_mut()).zip(z.par_iter_mut());
        components.with_min_len(CHUNK).for_each(|((x, y), z)| {
            let speed = (*x * *x + *y * *y + *z * *z).sqrt();
            if speed > largest {
                let factor = largest / speed;
                [x, y, z].into_iter().for_each(|component| *component *= factor);
            }
        });
    }
}
