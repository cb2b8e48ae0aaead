//! Structure and motion of a fluid: pair distribution function and mean square displacement.
//!
//! g(r) is the number of particles at distance r of a particle, divided by that of an ideal gas of
//! the same density. ⟨|r(t) − r(0)|²⟩ grows as 2 d D t in a fluid of d dimensions with the
//! diffusion coefficient D (Einstein 1905).

use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use rayon::prelude::*;

use super::arithmetic::upper_half;
use super::cells::{CellGrid, sort_by_cell};
use super::potential::{PairParameters, Potential};

/// Pair distribution function in bins of equal width from 0 on.
#[derive(Clone, Debug, PartialEq)]
pub struct PairDistribution {
    /// Width of a bin.
    pub bin_width: f64,
    /// g(r) in each bin.
    pub values: Vec<f64>,
}

/// Particles sorted into cells, for searches of all particles near another one.
struct NearParticles<'a> {
    particles: &'a FluidParticles,
    grid: CellGrid,
    starts: Vec<u32>,
    order: Vec<u32>,
}

impl<'a> NearParticles<'a> {
    /// Prepares searches up to the distance `radius`.
    fn new(particles: &'a FluidParticles, radius: f64) -> Self {
        let n = particles.len();
        let bound = |axis: usize, pick: fn(u32, u32) -> u32, start: u32| {
            (0..n).fold(start, |found, k| pick(found, upper_half(particles.position[axis][k]) as u32))
        };
        let low = [0, 1, 2].map(|axis| bound(axis, u32::min, u32::MAX));
        let high = [0, 1, 2].map(|axis| bound(axis, u32::max, 0));
        let grid = CellGrid::new(&particles.bounds, radius, low, high, n);
        let cells: Vec<u32> = (0..n).map(|k| grid.cell(particles.fractions(k)) as u32).collect();
        let (starts, order) = sort_by_cell(&cells, grid.len());
        Self { particles, grid, starts, order }
    }

    /// Calls `visit` with each other particle that may be within the radius, and its squared
    /// distance.
    fn for_each(&self, k: usize, mut visit: impl FnMut(usize, f64)) {
        let own = self.particles.fractions(k);
        let upper = |axis: usize| upper_half(self.particles.position[axis][k]) as u32;
        let cell = [0, 1, 2].map(|axis| self.grid.axis_cell(axis, upper(axis)));
        self.grid.for_each_neighbour_range(cell, |first, end| {
            for &other in &self.order[self.starts[first] as usize..self.starts[end] as usize] {
                if other as usize != k {
                    let d = self.particles.bounds.separation(own, self.particles.fractions(other as usize));
                    visit(other as usize, d.iter().map(|x| x * x).sum::<f64>());
                }
            }
        });
    }
}

/// Particles of a task.
const MIN_PARTICLES: usize = 256;

/// Two particles that are much closer than the σ of their pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overlap {
    /// Indices of the particles.
    pub particles: [usize; 2],
    /// Their distance.
    pub distance: f64,
    /// σ of the pair.
    pub sigma: f64,
}

/// Returns the pair with the smallest distance in units of σ, if it is below `fraction`. Particles
/// without interaction (ε = 0) may be at the same place.
pub fn closest_overlap(particles: &FluidParticles, potential: &Potential, fraction: f64) -> Option<Overlap> {
    let radius = fraction * potential.length_unit();
    let near = NearParticles::new(particles, radius);
    let closest_of = |k: usize| {
        let mut closest: Option<Overlap> = None;
        near.for_each(k, |other, r2| {
            let [a, b] = [k, other].map(|k| usize::from(particles.species[k]));
            let PairParameters { sigma, epsilon, .. } = potential.pair(a, b);
            let distance = r2.sqrt();
            let limit = closest.map_or(fraction, |found| found.distance / found.sigma);
            if other > k && epsilon > 0.0 && distance / sigma < limit {
                closest = Some(Overlap { particles: [k, other], distance, sigma });
            }
        });
        closest
    };
    let ratio = |found: &Overlap| found.distance / found.sigma;
    (0..particles.len())
        .into_par_iter()
        .with_min_len(MIN_PARTICLES)
        .filter_map(closest_of)
        .min_by(|a, b| ratio(a).total_cmp(&ratio(b)).then(a.particles.cmp(&b.particles)))
}

/// Returns the number of other particles within `radius` of each particle. `radius` is at most half
/// the box.
pub fn neighbour_counts(particles: &FluidParticles, radius: f64) -> Vec<u32> {
    let near = NearParticles::new(particles, radius);
    let count = |k: usize| {
        let mut count = 0;
        near.for_each(k, |_, r2| count += u32::from(r2 < radius * radius));
        count
    };
    (0..particles.len()).into_par_iter().with_min_len(MIN_PARTICLES).map(count).collect()
}

impl PairDistribution {
    /// Counts the pairs up to the distance `radius`, which is at most half the box. Needs two
    /// particles and one bin.
    pub fn measure(particles: &FluidParticles, radius: f64, bins: usize) -> Self {
        let (n, bounds) = (particles.len(), &particles.bounds);
        let near = NearParticles::new(particles, radius);
        let bins_per_length = bins as f64 / radius;
        let count_pairs = |mut counts: Vec<u64>, k: usize| {
            near.for_each(k, |other, r2| {
                // Each pair once.
                if other > k
                    && let Some(count) = counts.get_mut((r2.sqrt() * bins_per_length) as usize)
                {
                    *count += 1;
                }
            });
            counts
        };
        let add = |mut a: Vec<u64>, b: Vec<u64>| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            a
        };
        let counts = (0..n)
            .into_par_iter()
            .with_min_len(MIN_PARTICLES)
            .fold(|| vec![0; bins], count_pairs)
            .reduce(|| vec![0; bins], add);
        let bin_width = radius / bins as f64;
        let pairs_per_volume = 0.5 * n as f64 * (n as f64 - 1.0) / bounds.volume();
        let ball = |r: f64| match bounds.dimensions {
            2 => std::f64::consts::PI * r * r,
            _ => 4.0 / 3.0 * std::f64::consts::PI * r.powi(3),
        };
        let value = |(bin, &count): (usize, &u64)| {
            let shell = ball((bin + 1) as f64 * bin_width) - ball(bin as f64 * bin_width);
            count as f64 / (pairs_per_volume * shell)
        };
        Self { bin_width, values: counts.iter().enumerate().map(value).collect() }
    }

    /// Returns the distance in the middle of a bin.
    pub fn distance(&self, bin: usize) -> f64 {
        (bin as f64 + 0.5) * self.bin_width
    }
}

/// Returns the mean square displacement between two unwrapped positions of the same particles,
/// relative to the motion of their centre. All particles count the same.
pub fn mean_square_displacement(before: &Vec3s, after: &Vec3s) -> f64 {
    let n = before.len() as f64;
    let mut drift = [0.0; 3];
    for (a, b) in before.iter().zip(after.iter()) {
        (0..3).for_each(|axis| drift[axis] += (b[axis] - a[axis]) / n);
    }
    let square = |(a, b): ([f64; 3], [f64; 3])| {
        (0..3).map(|axis| (b[axis] - a[axis] - drift[axis]).powi(2)).sum::<f64>()
    };
    before.iter().zip(after.iter()).map(square).sum::<f64>() / n
}

#[cfg(test)]
mod tests {
    use orrery_model::ic::lattice::{Lattice, random_positions};
    use orrery_model::simulation_box::SimulationBox;

    use super::*;
    use crate::potential::Truncation;

    #[test]
    fn the_closest_pair_in_units_of_sigma_is_found() {
        let bounds = SimulationBox::periodic([10.0; 3], 3);
        // Particles 1 and 2 touch through the side of the box. 3 and 4 are closer, but smaller.
        let x = vec![5.0, 9.9, 0.2, 3.0, 3.25];
        let coordinates = Vec3s { y: vec![1.0; 5], z: vec![2.0; 5], x };
        let mut particles = FluidParticles::at_rest(bounds, &coordinates);
        particles.species = vec![0, 0, 0, 1, 1];
        let potential = Potential::mixed(&[(1.0, 1.0), (0.5, 1.0)], 2.5, Truncation::Truncated);
        let found = closest_overlap(&particles, &potential, 0.6).unwrap();
        assert_eq!((found.particles, found.sigma), ([1, 2], 1.0));
        assert!((found.distance - 0.3).abs() < 1e-12);
        assert_eq!(closest_overlap(&particles, &potential, 0.2), None);
        assert_eq!(neighbour_counts(&particles, 1.0), [0, 1, 1, 1, 1]);
    }

    /// The ideal gas has g = 1. A bin with k pairs has the relative error 1/√k.
    #[test]
    fn the_ideal_gas_has_no_structure() {
        for dimensions in [2, 3] {
            let mut bounds = SimulationBox::periodic([8.0, 9.0, 10.0], dimensions);
            bounds.lengths[2] = if dimensions == 2 { 1.0 } else { 10.0 };
            let n = 3000;
            let found = PairDistribution::measure(&random_positions(bounds, n, 2), 3.9, 13);
            let pairs_per_volume = 0.5 * (n * n) as f64 / bounds.volume();
            for (bin, g) in found.values.iter().enumerate() {
                let r = found.distance(bin);
                let shell = match dimensions {
                    2 => 2.0 * std::f64::consts::PI * r,
                    _ => 4.0 * std::f64::consts::PI * r * r,
                } * found.bin_width;
                let error = 1.0 / (pairs_per_volume * shell).sqrt();
                assert!((g - 1.0).abs() < 5.0 * error, "{dimensions}: {r} {g} {error}");
            }
        }
    }

    /// The first shell of FCC has 12 particles at side / √2.
    #[test]
    fn a_lattice_has_its_shells() {
        let particles = Lattice::Fcc.fill([5, 5, 5], 1.0);
        let side = 4f64.cbrt();
        let found = PairDistribution::measure(&particles, 2.0, 200);
        let neighbours: f64 = (0..200)
            .filter(|&bin| found.distance(bin) < 0.85 * side)
            .map(|bin| {
                let shell = 4.0
                    * std::f64::consts::PI
                    * (found.distance(bin).powi(2) + found.bin_width.powi(2) / 12.0)
                    * found.bin_width;
                found.values[bin] * shell
            })
            .sum();
        assert!((neighbours * 499.0 / 500.0 - 12.0).abs() < 1e-9, "{neighbours}");
    }

    #[test]
    fn displacements_are_relative_to_the_centre() {
        let before = Vec3s { x: vec![0.0, 1.0], y: vec![0.0; 2], z: vec![0.0; 2] };
        let after = Vec3s { x: vec![5.0, 8.0], y: vec![3.0; 2], z: vec![0.0; 2] };
        // The centre moves by (6, 3, 0), and the particles by 1 to the left and to the right of it.
        assert_eq!(mean_square_displacement(&before, &after), 1.0);
    }
}
