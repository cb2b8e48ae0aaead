//! Lagrangian radii, and the centre that they are measured from.
//!
//! r_f is the smallest radius with M(≤ r_f) ≥ f M.
//!
//! The centre is found by shrinking spheres (Power et al. 2003, MNRAS 338, 14, §2.5). Each
//! iteration moves a sphere to the centre of mass of the bodies inside it and shrinks it, until few
//! bodies remain. Unlike the centre of mass, the result does not depend on distant bodies and
//! escapers.

use super::momentum::centre_of_mass;
use super::sum::{CompensatedSum, compensated_sum, compensated_vector_sum};
use crate::Particles;
use crate::analysis::max_or_nan;

/// Radius of each sphere relative to the previous one.
const SHRINK_FACTOR: f64 = 0.9;
/// Smallest number of bodies in the last sphere. In larger systems it is 5% of all bodies, at most
/// [`MAX_LAST_SPHERE`].
const MIN_LAST_SPHERE: usize = 32;
const MAX_LAST_SPHERE: usize = 2000;

/// Distance of `position` from `centre`.
pub(super) fn distance(position: [f64; 3], centre: [f64; 3]) -> f64 {
    let [dx, dy, dz] = [0, 1, 2].map(|k| position[k] - centre[k]);
    (dx * dx + dy * dy + dz * dz).sqrt()
}

/// Returns the radii about `centre` that enclose the given `fractions` of the mass, in the order
/// given.
///
/// A fraction above 1 counts as 1. A system without bodies has radii 0.
pub fn lagrangian_radii(bodies: &Particles, centre: [f64; 3], fractions: &[f64]) -> Vec<f64> {
    let mut by_radius: Vec<(f64, f64)> = bodies
        .position
        .iter()
        .zip(&bodies.mass)
        .map(|(position, &m)| (distance(position, centre), m))
        .collect();
    by_radius.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut sum = CompensatedSum::default();
    let mut enclosed = 0.0f64;
    let enclosed: Vec<f64> = by_radius
        .iter()
        .map(|&(_, m)| {
            sum.add(m);
            // Adding a massless body can lower the rounded sum by one ulp.
            enclosed = max_or_nan(enclosed, sum.value());
            enclosed
        })
        .collect();
    let Some(&total) = enclosed.last() else {
        return vec![0.0; fractions.len()];
    };
    let radius = |f: &f64| {
        let first = enclosed.partition_point(|&m| m < f.min(1.0) * total);
        by_radius[first.min(by_radius.len() - 1)].0
    };
    fractions.iter().map(radius).collect()
}

/// Returns the densest point of a system with one centre. With few bodies this is the centre of
/// mass.
pub fn shrinking_sphere_centre(bodies: &Particles) -> [f64; 3] {
    let mut centre = centre_of_mass(bodies);
    let mut radius = bodies.position.iter().map(|position| distance(position, centre)).fold(0.0, max_or_nan);
    let min_count = (bodies.len() / 20).clamp(MIN_LAST_SPHERE, MAX_LAST_SPHERE);
    while radius > 0.0 {
        radius *= SHRINK_FACTOR;
        let inside: Vec<usize> =
            (0..bodies.len()).filter(|&i| distance(bodies.position.get(i), centre) <= radius).collect();
        let mass = compensated_sum(inside.iter().map(|&i| bodies.mass[i]));
        if inside.len() < min_count || mass <= 0.0 {
            break;
        }
        let weighted = inside.iter().map(|&i| bodies.position.get(i).map(|c| bodies.mass[i] * c));
        centre = compensated_vector_sum(weighted).map(|c| c / mass);
    }
    centre
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ic::Plummer;
    use crate::{Particle, Species};

    #[test]
    fn radii_of_four_bodies_are_their_distances() {
        let mut bodies = Particles::default();
        assert_eq!(lagrangian_radii(&bodies, [0.0; 3], &[0.5]), [0.0]);
        for (id, x) in [4.0, -2.0, 3.0, 1.0].into_iter().enumerate() {
            let position = [x + 10.0, 0.0, 0.0];
            bodies.push(Particle {
                position,
                velocity: [0.0; 3],
                mass: 1.0,
                id: id as u64,
                species: Species::Halo,
            });
        }
        let radii = lagrangian_radii(&bodies, [10.0, 0.0, 0.0], &[0.25, 0.5, 0.51, 1.0, 2.0]);
        assert_eq!(radii, [1.0, 2.0, 3.0, 4.0, 4.0]);
    }

    #[test]
    fn distant_clump_does_not_shift_the_centre() {
        let mut bodies = Plummer { n: 4000, ..Plummer::default() }.generate(1.0).unwrap();
        let mut clump = Plummer { n: 400, mass: 0.1, ..Plummer::default() }.generate(1.0).unwrap();
        clump.position.translate([30.0, 0.0, 0.0]);
        bodies.extend(&clump);
        assert!(centre_of_mass(&bodies)[0] > 2.0);
        // 220 bodies within about 0.4 scale radii remain. The error of their mean is about
        // 0.4 / sqrt(220) = 0.03.
        assert!(distance(shrinking_sphere_centre(&bodies), [0.0; 3]) < 0.1);
    }
}
