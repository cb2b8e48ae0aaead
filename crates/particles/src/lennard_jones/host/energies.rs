//! Energies and virials of all pairs, as sums of integers.

use orrery_simd::{SimdKernel, SingleVector, Vector, dispatch};
use rayon::prelude::*;

use super::HostFluid;
use crate::lennard_jones::FluidMeasures;
use crate::lennard_jones::arithmetic::ENERGY_BITS;

/// Particles of a task.
const CHUNK: usize = 128;

impl HostFluid {
    /// Measures energies, momentum and virial. All sums are sums of integers.
    pub fn measure(&self) -> FluidMeasures {
        self.measures_of(self.pair_sums(), self.motion_sums())
    }

    /// Returns the measures of sums of integers.
    pub(in crate::lennard_jones) fn measures_of(&self, pairs: [i64; 2], motion: [i64; 4]) -> FluidMeasures {
        let energy = self.settings.potential.energy_unit() * 2f64.powi(-ENERGY_BITS);
        let [potential, virial] = pairs.map(|sum| sum as f64 * energy);
        let (kinetic, momentum) = self.motion_of(motion);
        FluidMeasures { potential, virial, kinetic, momentum }
    }

    /// Returns the sums of energies and virials as integers. A pair of a particle and a ghost
    /// counts on one of the two ranks that have it.
    pub(in crate::lennard_jones) fn pair_sums(&self) -> [i64; 2] {
        let n = self.len();
        (0..n.div_ceil(CHUNK))
            .into_par_iter()
            .map(|index| {
                let particles = index * CHUNK..((index + 1) * CHUNK).min(n);
                dispatch(self.set, EnergyChunk { fluid: self, particles })
            })
            .reduce(|| [0i64; 2], add)
    }
}

#[inline(always)]
fn add(a: [i64; 2], b: [i64; 2]) -> [i64; 2] {
    [a[0].wrapping_add(b[0]), a[1].wrapping_add(b[1])]
}

/// Energies and virials of consecutive particles. It runs within [`dispatch`], because without its
/// instruction sets a fused multiply-add is a function call.
struct EnergyChunk<'a> {
    fluid: &'a HostFluid,
    particles: std::ops::Range<usize>,
}

impl SimdKernel for EnergyChunk<'_> {
    type Output = [i64; 2];

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) -> [i64; 2] {
        let Self { fluid, particles } = self;
        let [x, y, z] = &fluid.position;
        let mut sums = [0i64; 2];
        // Closures would be compiled without the instruction set.
        for particle in particles {
            let (own, species) = ([x[particle], y[particle], z[particle]], fluid.species[particle]);
            let user = fluid.order[particle];
            match &fluid.lists {
                Some(lists) => {
                    for group in 0..fluid.single.species {
                        for &other in lists.of(particle, group) {
                            let k = other as usize;
                            // Each pair once: for the first of the two in the user's order.
                            if fluid.order[k] > user {
                                let pair = [x[k], y[k], z[k]];
                                let energy = fluid.energies.pair_energy(own, species, pair, fluid.species[k]);
                                sums = add(sums, energy);
                            }
                        }
                    }
                }
                None => {
                    for k in 0..x.len() {
                        if fluid.order[k] > user {
                            let pair = [x[k], y[k], z[k]];
                            let energy = fluid.energies.pair_energy(own, species, pair, fluid.species[k]);
                            sums = add(sums, energy);
                        }
                    }
                }
            }
        }
        sums
    }
}
