//! Forces by the sum over all pairs in f64, with bounds for the errors of f32.
//!
//! Relative errors of a force have no bound, because the pair forces on a particle may cancel. The
//! bounds are proportional to Σ_j m_ij instead, where m_ij is the repulsion plus the attraction of
//! a pair, both without their signs.

use orrery_model::Vec3s;
use orrery_model::analysis::max_or_nan;
use orrery_model::fluid::FluidParticles;
use rayon::prelude::*;

use super::arithmetic::{PairReal, force_quantum};
use super::potential::{PairParameters, Potential};

/// Unit roundoff of f32.
const ROUNDOFF: f64 = 5.960_464_477_539_063e-8;
/// Rounding errors of one pair in f32, in units of the roundoff: 3 for a difference of coordinates,
/// 9 for r², 11 for r² + δ², 7 x 11 + 4 for its 7th power, 7 for the division, the difference and
/// the product with the vector. The rest is for terms of second order.
const PAIR_ROUNDINGS: f64 = 100.0;
/// Relative change of m with the relative change of r, at most 14 √3 + √3, rounded up.
const POSITION_FACTOR: f64 = 26.0;
/// Pairs nearer to the cutoff than this, relative to it, may be counted or not: r in f32 has an
/// error of 6 roundoffs, and of the resolution of positions.
const CUTOFF_TOLERANCE: f64 = 1e-6;

/// Force on one particle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundedForce {
    /// Sum over all pairs in f64.
    pub force: [f64; 3],
    /// Largest distance of a force in f32 from it, with sums in f32 or in integers.
    pub bound: f64,
}

/// Returns the forces on the particles of `sample`, which has indices of particles. The result has
/// one entry per index. The potential has no switch.
pub fn forces_with_bounds(
    particles: &FluidParticles,
    potential: &Potential,
    sample: &[usize],
) -> Vec<BoundedForce> {
    sample.par_iter().map(|&particle| bounded_force(particles, potential, particle)).collect()
}

fn bounded_force(particles: &FluidParticles, potential: &Potential, particle: usize) -> BoundedForce {
    let bounds = &particles.bounds;
    let longest = bounds.lengths[..bounds.dimensions].iter().copied().fold(0.0, max_or_nan);
    let resolution = longest * 2f64.powi(-f32::POSITION_BITS);
    let at = |k: usize| (particles.fractions(k), usize::from(particles.species[k]));
    let (own, species) = at(particle);
    let (mut force, mut bound, mut magnitudes, mut pairs) = ([0.0; 3], 0.0, 0.0, 0.0);
    for other in (0..particles.len()).filter(|&other| other != particle) {
        let (there, other_species) = at(other);
        let d = bounds.separation(own, there);
        let r2: f64 = d.iter().map(|x| x * x).sum();
        let PairParameters { sigma, epsilon, cutoff } = potential.pair(species, other_species);
        let distance_to_cutoff = match potential.largest_cutoff() {
            Some(_) => (r2.sqrt() / cutoff - 1.0).abs(),
            None => f64::INFINITY,
        };
        let term = potential.pair_term(species, other_species, r2).force_over_r;
        let is_near_cutoff = distance_to_cutoff < CUTOFF_TOLERANCE;
        if term == 0.0 && !is_near_cutoff {
            continue;
        }
        (0..3).for_each(|axis| force[axis] += term * d[axis]);
        let s2 = r2 + potential.damping * potential.damping;
        let x6 = (sigma * sigma / s2).powi(3);
        let magnitude = 24.0 * epsilon * (2.0 * x6 * x6 + x6) / s2 * r2.sqrt();
        magnitudes += magnitude;
        pairs += 1.0;
        bound += magnitude * POSITION_FACTOR * resolution / s2.sqrt();
        if is_near_cutoff {
            bound += magnitude;
        }
    }
    bound += magnitudes * (PAIR_ROUNDINGS + pairs) * ROUNDOFF;
    // Integer sums round each component of each pair to half a unit.
    let integer_unit = force_quantum::<f32>(potential);
    bound += 3f64.sqrt() * 0.5 * integer_unit * pairs;
    BoundedForce { force, bound }
}

/// Checks that all forces of a sample are within their bounds. `found` has one entry per particle,
/// `expected` one per index of `sample`.
pub fn check_forces(found: &Vec3s, sample: &[usize], expected: &[BoundedForce]) -> Result<(), String> {
    for (&particle, BoundedForce { force, bound }) in sample.iter().zip(expected) {
        let here = found.get(particle);
        let error = (0..3).map(|axis| (here[axis] - force[axis]).powi(2)).sum::<f64>().sqrt();
        if error.is_nan() || error > *bound {
            return Err(format!(
                "force on particle {particle} is {here:?}, expected {force:?} within {bound:.1e}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::HostFluid;
    use super::super::sample::{displaced_melt, melt_settings};
    use super::super::settings::FluidSettings;
    use super::*;

    /// The bound is tight enough that the weakest pair of the melt, which has a force of 0.04, may
    /// not be missing, and a NaN in any component fails.
    #[test]
    fn a_missing_pair_and_a_nan_fail() {
        let (particles, settings) = (displaced_melt(256), melt_settings());
        let sample: Vec<usize> = (0..256).collect();
        let expected = forces_with_bounds(&particles, &settings.potential, &sample);
        let found = HostFluid::new(particles, &settings).forces();
        check_forces(&found, &sample, &expected).unwrap();
        let weakest = settings.potential.pair_term(0, 0, 2.4999f64.powi(2)).force_over_r.abs() * 2.4999;
        assert!(weakest > 0.03);
        assert!(expected.iter().all(|force| force.bound < 0.5 * weakest), "{expected:?}");
        let mut missing = found.clone();
        missing.x[17] += weakest;
        assert!(check_forces(&missing, &sample, &expected).unwrap_err().contains("particle 17 "));
        for axis in 0..3 {
            let mut with_nan = found.clone();
            [&mut with_nan.x, &mut with_nan.y, &mut with_nan.z][axis][200] = f64::NAN;
            check_forces(&with_nan, &sample, &expected).unwrap_err();
        }
    }

    /// Damped and undamped forces differ by more than the bounds.
    #[test]
    fn the_damped_potential_has_its_own_forces() {
        let (particles, settings) = (displaced_melt(256), melt_settings());
        let sample = [0, 100, 255];
        let damped = FluidSettings { potential: settings.potential.clone().damped(0.05), ..settings.clone() };
        let [plain, expected] =
            [&settings, &damped].map(|settings| forces_with_bounds(&particles, &settings.potential, &sample));
        let found = HostFluid::new(particles, &damped).forces();
        check_forces(&found, &sample, &expected).unwrap();
        check_forces(&found, &sample, &plain).unwrap_err();
    }
}
