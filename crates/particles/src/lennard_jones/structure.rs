//! Structure and motion of a fluid: pair distribution function and mean square displacement.
//!
//! g(r) is the number of particles at distance r of a particle, divided by that of an ideal gas of the
//! same density. ⟨|r(t) − r(0)|²⟩ grows as 2 d D t in a fluid of d dimensions with the diffusion
//! coefficient D (Einstein 1905).

use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use rayon::prelude::*;

use super::arithmetic::upper_half;
use super::cells::{CellGrid, sort_by_cell};

/// Pair distribution function in bins of equal width from 0 on.
#[derive(Clone, Debug, PartialEq)]
pub struct PairDistribution {
    /// Width of a bin.
    pub bin_width: f64,
    /// g(r) in each bin.
    pub values: Vec<f64>,
}

impl PairDistribution {
    /// Counts the pairs up to the distance `radius`, which is at most half the box. Needs two
    /// particles and one bin.
    pub fn measure(particles: &FluidParticles, radius: f64, bins: usize) -> Self {
        let (n, bounds) = (particles.len(), &particles.bounds);
        let upper = |axis: usize, k: usize| upper_half(particles.position[axis][k]) as u32;
        let bound = |axis: usize, pick: fn(u32, u32) -> u32, start: u32| {
            (0..n).fold(start, |found, k| pick(found, upper(axis, k)))
        };
        let low = [0, 1, 2].map(|axis| bound(axis, u32::min, u32::MAX));
        let high = [0, 1, 2].map(|axis| bound(axis, u32::max, 0));
        let grid = CellGrid::new(bounds, radius, low, high, n);
        let cells: Vec<u32> = (0..n).map(|k| grid.cell(particles.fractions(k)) as u32).collect();
        let (starts, order) = sort_by_cell(&cells, grid.len());
        let bins_per_length = bins as f64 / radius;
        let count_pairs = |mut counts: Vec<u64>, k: usize| {
            let own = particles.fractions(k);
            let cell = [0, 1, 2].map(|axis| grid.axis_cell(axis, upper(axis, k)));
            grid.for_each_neighbour_range(cell, |first, end| {
                for &other in &order[starts[first] as usize..starts[end] as usize] {
                    // Each pair once.
                    if other as usize > k {
                        let d = bounds.separation(own, particles.fractions(other as usize));
                        let r = d.iter().map(|x| x * x).sum::<f64>().sqrt();
                        if let Some(count) = counts.get_mut((r * bins_per_length) as usize) {
                            *count += 1;
                        }
                    }
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
            .with_min_len(256)
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
