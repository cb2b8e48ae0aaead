//! Lagrangian radii, and the centre that they are measured from.
//!
//! r_f is the smallest radius with M(≤ r_f) ≥ f M. The centre is found by shrinking spheres (Power et al.
//! 2003, MNRAS 338, 14, §2.5): take the centre of mass within a sphere, move the sphere there, shrink it,
//! until few bodies are left. Far bodies and escapers do not pull it, unlike the centre of mass.

use super::momentum::centre_of_mass;
use super::sum::{CompensatedSum, compensated_sum, compensated_vector_sum};
use crate::Particles;

/// Each sphere's radius in units of the one before.
const SHRINK: f64 = 0.9;
/// The last sphere holds at least this many bodies, or 1% of all where that is more (up to 1000).
const FEWEST: usize = 32;

/// Distance of `place` from `centre`.
pub(super) fn distance(place: [f64; 3], centre: [f64; 3]) -> f64 {
    let [dx, dy, dz] = [0, 1, 2].map(|k| place[k] - centre[k]);
    (dx * dx + dy * dy + dz * dz).sqrt()
}

/// The radii about `centre` that enclose the `fractions` of the mass, in the order asked for. A fraction
/// above 1 counts as 1; a system without bodies has radii 0.
pub fn lagrangian_radii(bodies: &Particles, centre: [f64; 3], fractions: &[f64]) -> Vec<f64> {
    let mut by_radius: Vec<(f64, f64)> =
        bodies.position.iter().zip(&bodies.mass).map(|(place, &m)| (distance(place, centre), m)).collect();
    by_radius.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut sum = CompensatedSum::default();
    let mut enclosed = 0.0f64;
    let enclosed: Vec<f64> = by_radius
        .iter()
        .map(|&(_, m)| {
            sum.add(m);
            // The rounded sum may step back by an ulp when a massless body is added.
            enclosed = enclosed.max(sum.value());
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

/// The densest place of a system with one centre; its centre of mass where there are few bodies.
pub fn shrinking_sphere_centre(bodies: &Particles) -> [f64; 3] {
    let mut centre = centre_of_mass(bodies);
    let mut radius = bodies.position.iter().map(|place| distance(place, centre)).fold(0.0, f64::max);
    let fewest = (bodies.len() / 20).clamp(FEWEST, 2000);
    while radius > 0.0 {
        radius *= SHRINK;
        let inside: Vec<usize> =
            (0..bodies.len()).filter(|&i| distance(bodies.position.get(i), centre) <= radius).collect();
        let mass = compensated_sum(inside.iter().map(|&i| bodies.mass[i]));
        if inside.len() < fewest || mass <= 0.0 {
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
    fn radii_of_four_bodies() {
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
    fn a_far_clump_does_not_pull_the_centre() {
        let mut bodies = Plummer { n: 4000, ..Plummer::default() }.generate(1.0).unwrap();
        let mut clump = Plummer { n: 400, mass: 0.1, ..Plummer::default() }.generate(1.0).unwrap();
        clump.position.translate([30.0, 0.0, 0.0]);
        bodies.extend(&clump);
        assert!(centre_of_mass(&bodies)[0] > 2.0);
        // 220 bodies within some 0.4 scale radii are left: their mean is good to 0.4 / sqrt(220) = 0.03.
        assert!(distance(shrinking_sphere_centre(&bodies), [0.0; 3]) < 0.1);
    }
}
