//! Energies and virials of all pairs, as sums of integers.

use orrery_simd::{SimdKernel, SingleVector, Vector, dispatch};
use rayon::prelude::*;

use super::HostFluid;
use crate::FluidMeasures;
use crate::sums::{MeasureSums, WideSum};

/// Particles of a task.
const CHUNK: usize = 128;

impl HostFluid {
    /// Measures energies, momentum and virial. All sums are sums of integers.
    pub fn measure(&self) -> FluidMeasures {
        self.settings.measures_of(self.measure_sums())
    }

    /// Returns the sums of energies, virials and momenta of the particles here.
    pub(crate) fn measure_sums(&self) -> MeasureSums {
        let [potential, virial] = self.pair_sums();
        let (kinetic, momentum) = self.motion_sums();
        MeasureSums { potential, virial, kinetic, momentum }
    }

    /// Returns the sums of energies and virials. A pair of a particle and a ghost counts on one of
    /// the two ranks that have it.
    fn pair_sums(&self) -> [WideSum; 2] {
        let n = self.len();
        (0..n.div_ceil(CHUNK))
            .into_par_iter()
            .map(|index| {
                let particles = index * CHUNK..((index + 1) * CHUNK).min(n);
                dispatch(self.set, EnergyChunk { fluid: self, particles })
            })
            .reduce(|| [WideSum::default(); 2], add)
    }
}

#[inline(always)]
fn add(a: [WideSum; 2], b: [WideSum; 2]) -> [WideSum; 2] {
    [a[0].plus(b[0]), a[1].plus(b[1])]
}

/// Energies and virials of consecutive particles. It runs within [`dispatch`], because without its
/// instruction sets a fused multiply-add is a function call.
struct EnergyChunk<'a> {
    fluid: &'a HostFluid,
    particles: std::ops::Range<usize>,
}

impl SimdKernel for EnergyChunk<'_> {
    type Output = [WideSum; 2];

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) -> [WideSum; 2] {
        let Self { fluid, particles } = self;
        let [x, y, z] = &fluid.position;
        let mut total = [WideSum::default(); 2];
        // Closures would be compiled without the instruction set.
        for particle in particles {
            let (own, species) = ([x[particle], y[particle], z[particle]], fluid.species[particle]);
            let user = fluid.order[particle];
            let mut sums = [WideSum::default(); 2];
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
            total = add(total, [sums[0].bounded(), sums[1].bounded()]);
        }
        total
    }
}
