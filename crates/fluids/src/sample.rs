//! The melt that benchmarks, the ladder and the self-test use: particles on a face-centred cubic
//! lattice with density 0.8442 and temperature 1.44, cutoff 2.5, in reduced units. This is the
//! benchmark of LAMMPS (Plimpton 1995).

use orrery_model::fluid::FluidParticles;
use orrery_model::ic::lattice::{Lattice, set_maxwell_velocities};
use orrery_model::rng::Draws;
use orrery_model::simulation_box::move_fraction;

use super::ensemble::Ensemble;
use super::potential::{Potential, Truncation};
use super::settings::{FluidSettings, PairPrecision, PairSearch};

/// Particles per volume.
pub const MELT_DENSITY: f64 = 0.8442;
/// Initial temperature.
pub const MELT_TEMPERATURE: f64 = 1.44;
/// Cutoff.
pub const MELT_CUTOFF: f64 = 2.5;
/// Length of a time step.
pub const MELT_DT: f64 = 0.005;
/// Distance beyond the cutoff up to which lists contain particles.
const MELT_SKIN: f64 = 0.3;

/// Fewest cells of the lattice along an axis. A box of four is 6.7 wide, more than two cutoffs.
const MIN_LATTICE_CELLS: usize = 4;
/// Largest displacement of [`displaced_melt`] along an axis. Neighbours on the lattice are 1.19
/// apart, so no two particles come nearer than 0.84.
const DISPLACEMENT: f64 = 0.1;
/// Stream of the displacements.
const DISPLACEMENT_STREAM: u32 = 42;

/// Returns the settings of the melt: NVE, truncated potential, mixed precision, neighbour lists.
pub fn melt_settings() -> FluidSettings {
    FluidSettings {
        potential: Potential::mixed(&[(1.0, 1.0)], MELT_CUTOFF, Truncation::Truncated),
        mass: vec![1.0],
        precision: PairPrecision::Mixed,
        search: PairSearch::Lists,
        skin: MELT_SKIN,
        ensemble: Ensemble::Nve,
        largest_kinetic: 0.0,
    }
}

/// Returns about `n` particles of the melt with their initial velocities. Their number is exact for
/// 4 times a power of two from 256 on, for example 65,536. There are at least 256.
pub fn melt(n: usize) -> FluidParticles {
    let mut particles = Lattice::Fcc.fill(lattice_cells(n), MELT_DENSITY);
    set_maxwell_velocities(&mut particles, &[1.0], MELT_TEMPERATURE, 1);
    particles
}

/// Returns about `n` particles at rest near the sites of the melt's lattice. On the sites all
/// forces would be 0.
pub fn displaced_melt(n: usize) -> FluidParticles {
    let mut particles = Lattice::Fcc.fill(lattice_cells(n), MELT_DENSITY);
    let bounds = particles.bounds;
    for particle in 0..particles.len() {
        let mut draws = Draws::new(1, DISPLACEMENT_STREAM, particle as u64);
        for axis in 0..3 {
            let displacement = draws.uniform_in(-DISPLACEMENT, DISPLACEMENT);
            let step = (displacement / bounds.lengths[axis] * 2f64.powi(64)) as i64;
            let (position, image) = (&mut particles.position[axis], &mut particles.image[axis]);
            move_fraction(&mut position[particle], &mut image[particle], step);
        }
    }
    particles
}

/// Returns the cells of the lattice along each axis: about n / 4 in all, and as near to a cube as
/// the number allows.
fn lattice_cells(n: usize) -> [usize; 3] {
    let wanted = (n as f64 / 4.0).max(1.0);
    let side = (wanted.cbrt().round() as usize).max(MIN_LATTICE_CELLS);
    let sides = (side / 2).max(MIN_LATTICE_CELLS)..=2 * side;
    let mut best = [side; 3];
    let badness = |cells: [usize; 3]| {
        let error = (cells.iter().product::<usize>() as f64 - wanted).abs();
        (error, cells[2].abs_diff(cells[0]))
    };
    for x in sides.clone() {
        for y in x..=*sides.end() {
            let z = ((wanted / (x * y) as f64).round() as usize).max(y);
            let cells = [x, y, z];
            if badness(cells) < badness(best) {
                best = cells;
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_melt_has_the_wanted_number_of_particles() {
        for (n, cells) in [
            (256, [4, 4, 4]),
            (4096, [8, 8, 16]),
            (32_000, [20, 20, 20]),
            (65_536, [16, 32, 32]),
            (1 << 20, [64, 64, 64]),
            (1 << 24, [128, 128, 256]),
        ] {
            assert_eq!(lattice_cells(n), cells);
            assert_eq!(4 * cells.iter().product::<usize>(), n);
        }
        assert_eq!(melt(1).len(), 256);
        // Any other number is met within a few lattice cells.
        for n in [1000, 12_345, 100_000, 999_999] {
            let found = 4 * lattice_cells(n).iter().product::<usize>();
            assert!(found.abs_diff(n) < n / 100, "{n}: {found}");
        }
    }

    #[test]
    fn displaced_particles_stay_near_their_sites_and_apart() {
        let (sites, particles) = (melt(256), displaced_melt(256));
        let bounds = particles.bounds;
        assert_ne!(sites.position, particles.position);
        for k in 0..256 {
            let moved = bounds.separation(sites.fractions(k), particles.fractions(k));
            assert!(moved.iter().all(|d| d.abs() <= DISPLACEMENT), "{moved:?}");
            for other in 0..k {
                let d = bounds.separation(particles.fractions(k), particles.fractions(other));
                assert!(d.iter().map(|x| x * x).sum::<f64>().sqrt() > 0.84);
            }
        }
    }
}
