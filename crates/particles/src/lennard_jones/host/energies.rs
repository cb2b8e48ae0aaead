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
        let n = self.len();
        let pairs = (0..n.div_ceil(CHUNK))
            .into_par_iter()
            .map(|index| {
                let particles = index * CHUNK..((index + 1) * CHUNK).min(n);
                dispatch(self.set, EnergyChunk { fluid: self, particles })
            })
            .reduce(|| [0i64; 2], add);
        let energy = self.settings.potential.energy_unit() * 2f64.powi(-ENERGY_BITS);
        let [potential, virial] = pairs.map(|sum| sum as f64 * energy);
        let (kinetic, momentum) = self.motion();
        FluidMeasures { potential, virial, kinetic, momentum }
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
        let [x, y, z] = fluid.position.each_ref().map(Vec::as_slice);
        let mut sums = [0i64; 2];
        for particle in particles {
            let at = |k: usize| [x[k], y[k], z[k]];
            let (own, species) = (at(particle), fluid.species[particle]);
            let pair_energy =
                |other: usize| fluid.energies.pair_energy(own, species, at(other), fluid.species[other]);
            match &fluid.lists {
                Some(lists) => {
                    for group in 0..fluid.single.species {
                        // Each pair once. Its lists contain it twice.
                        for &other in lists.of(particle, group).iter().filter(|&&k| k as usize > particle) {
                            sums = add(sums, pair_energy(other as usize));
                        }
                    }
                }
                None => {
                    for other in particle + 1..x.len() {
                        sums = add(sums, pair_energy(other));
                    }
                }
            }
        }
        sums
    }
}
