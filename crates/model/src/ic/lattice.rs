//! Starts of fluids: lattices, random positions, and velocities at a temperature.

use crate::Vec3s;
use crate::fluid::FluidParticles;
use crate::rng::Draws;
use crate::simulation_box::SimulationBox;

/// Stream of the random velocities.
const VELOCITY_STREAM: u32 = 40;
/// Stream of the random positions.
const POSITION_STREAM: u32 = 41;
/// Stream of the places of species.
const SPECIES_STREAM: u32 = 43;

/// A lattice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lattice {
    /// Face-centred cubic: four particles per cell.
    Fcc,
    /// Simple cubic: one particle per cell.
    SimpleCubic,
    /// Square, in two dimensions: one particle per cell.
    Square,
}

impl Lattice {
    /// Positions within a cell of side 1, away from its sides.
    fn basis(self) -> &'static [[f64; 3]] {
        match self {
            Self::Fcc => &[[0.25, 0.25, 0.25], [0.75, 0.75, 0.25], [0.75, 0.25, 0.75], [0.25, 0.75, 0.75]],
            Self::SimpleCubic => &[[0.5, 0.5, 0.5]],
            Self::Square => &[[0.5, 0.5, 0.0]],
        }
    }

    /// Returns the number of dimensions.
    pub fn dimensions(self) -> usize {
        if self == Self::Square { 2 } else { 3 }
    }

    /// Returns the number of particles per cell.
    pub fn particles_per_cell(self) -> usize {
        self.basis().len()
    }

    /// Returns particles at rest on this lattice, in a periodic box of `cells` cells along each
    /// axis. `density` is the number of particles per volume, or per area in two dimensions.
    pub fn fill(self, cells: [usize; 3], density: f64) -> FluidParticles {
        let dimensions = self.dimensions();
        let side = (self.particles_per_cell() as f64 / density).powf(1.0 / dimensions as f64);
        let counts = if dimensions == 2 { [cells[0], cells[1], 1] } else { cells };
        let mut lengths = counts.map(|count| count as f64 * side);
        if dimensions == 2 {
            lengths[2] = 1.0;
        }
        let mut coordinates = Vec3s::default();
        for z in 0..counts[2] {
            for y in 0..counts[1] {
                for x in 0..counts[0] {
                    for [a, b, c] in self.basis() {
                        coordinates.push([x as f64 + a, y as f64 + b, z as f64 + c].map(|k| k * side));
                    }
                }
            }
        }
        FluidParticles::at_rest(SimulationBox::periodic(lengths, dimensions), &coordinates)
    }
}

/// Returns `n` particles at random positions in `bounds`.
pub fn random_positions(bounds: SimulationBox, n: usize, seed: u64) -> FluidParticles {
    let mut coordinates = Vec3s::default();
    for index in 0..n {
        let mut draws = Draws::new(seed, POSITION_STREAM, index as u64);
        coordinates.push([0, 1, 2].map(|axis| bounds.origin[axis] + bounds.lengths[axis] * draws.uniform()));
    }
    FluidParticles::at_rest(bounds, &coordinates)
}

/// Returns a drop of `n` particles at rest on an FCC lattice of this `density`, in the middle of a
/// periodic cube with the side `length`. Around it is vapour with `vapour_density` particles per
/// volume, on a simple cubic lattice. Returns `None` if the drop does not fit into the box.
pub fn droplet(n: usize, density: f64, vapour_density: f64, length: f64) -> Option<FluidParticles> {
    let side = (4.0 / density).cbrt();
    // The lattice contains a ball of n particles, with a margin of one cell.
    let cells =
        (2.0 * (3.0 * n as f64 / (4.0 * std::f64::consts::PI * density)).cbrt() / side).ceil() as usize + 2;
    let lattice = Lattice::Fcc.fill([cells; 3], density).coordinates();
    let middle = 0.5 * cells as f64 * side;
    let mut offsets: Vec<[f64; 3]> = lattice.iter().map(|x| x.map(|c| c - middle)).collect();
    let distance2 = |x: &[f64; 3]| x.iter().map(|c| c * c).sum::<f64>();
    // Sites at the same distance keep their order.
    offsets.sort_by(|a, b| distance2(a).total_cmp(&distance2(b)));
    offsets.truncate(n);
    let radius = offsets.last().map_or(0.0, |x| distance2(x).sqrt());
    if radius > 0.5 * length {
        return None;
    }
    let mut coordinates = Vec3s::default();
    offsets.iter().for_each(|x| coordinates.push(x.map(|c| c + 0.5 * length)));
    let vapour_cells = (vapour_density.cbrt() * length).floor();
    let spacing = length / vapour_cells.max(1.0);
    // The vapour keeps the distance of neighbours in the drop.
    let nearest2 = (radius + side).powi(2);
    let along = || (0..vapour_cells as usize).map(|k| (k as f64 + 0.5) * spacing);
    for z in along() {
        for y in along() {
            for x in along() {
                if distance2(&[x, y, z].map(|c| c - 0.5 * length)) > nearest2 {
                    coordinates.push([x, y, z]);
                }
            }
        }
    }
    Some(FluidParticles::at_rest(SimulationBox::periodic([length; 3], 3), &coordinates))
}

/// Assigns species at random, such that their numbers are the nearest to `fractions`, which have
/// the sum 1.
pub fn assign_species(particles: &mut FluidParticles, fractions: &[f64], seed: u64) {
    let n = particles.len();
    let mut end = 0.0;
    let mut first = 0;
    for (species, fraction) in fractions.iter().enumerate() {
        end += fraction;
        let last =
            if species + 1 == fractions.len() { n } else { ((end * n as f64).round() as usize).min(n) };
        particles.species[first..last].fill(species as u8);
        first = last;
    }
    if fractions.len() > 1 {
        // Fisher-Yates.
        for k in (1..n).rev() {
            let other = (Draws::new(seed, SPECIES_STREAM, k as u64).uniform() * (k + 1) as f64) as usize;
            particles.species.swap(k, other.min(k));
        }
    }
}

/// Subtracts the velocity of the centre of mass. `mass` has the mass of each species.
pub fn remove_drift(particles: &mut FluidParticles, mass: &[f64]) {
    let mass_of = |species: u8| mass[usize::from(species)];
    let total: f64 = particles.species.iter().map(|&species| mass_of(species)).sum();
    let mut drift = [0.0; 3];
    for (v, &species) in particles.velocity.iter().zip(&particles.species) {
        (0..3).for_each(|axis| drift[axis] += mass_of(species) * v[axis] / total);
    }
    let Vec3s { x, y, z } = &mut particles.velocity;
    for (column, drift) in [x, y, z].into_iter().zip(drift) {
        column.iter_mut().for_each(|v| *v -= drift);
    }
}

/// Sets velocities of the Maxwell distribution at the temperature kT = `kt`, with total momentum 0
/// and exactly this temperature: Σ m v² = (d N − d) kT in d dimensions. `mass` has the mass of each
/// species. A velocity depends on the seed and on the identifier of its particle, up to the two
/// corrections.
pub fn set_maxwell_velocities(particles: &mut FluidParticles, mass: &[f64], kt: f64, seed: u64) {
    let dimensions = particles.bounds.dimensions;
    let n = particles.len();
    let mass_of = |species: u8| mass[usize::from(species)];
    let mut velocity: Vec<[f64; 3]> = (0..n)
        .map(|k| {
            let mut draws = Draws::new(seed, VELOCITY_STREAM, particles.id[k]);
            let width = (kt / mass_of(particles.species[k])).sqrt();
            let mut v = [0.0; 3];
            v[..dimensions].fill_with(|| width * draws.normal());
            v
        })
        .collect();
    let total_mass: f64 = particles.species.iter().map(|&species| mass_of(species)).sum();
    let mut drift = [0.0; 3];
    for (v, &species) in velocity.iter().zip(&particles.species) {
        (0..3).for_each(|axis| drift[axis] += mass_of(species) * v[axis] / total_mass);
    }
    let mut twice_kinetic = 0.0;
    for (v, &species) in velocity.iter_mut().zip(&particles.species) {
        for axis in 0..3 {
            v[axis] -= drift[axis];
            twice_kinetic += mass_of(species) * v[axis] * v[axis];
        }
    }
    let freedom = (dimensions * n.saturating_sub(1)) as f64;
    let factor = if twice_kinetic > 0.0 { (freedom * kt / twice_kinetic).sqrt() } else { 0.0 };
    for (k, v) in velocity.iter().enumerate() {
        particles.velocity.set(k, v.map(|component| factor * component));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lattices_have_the_density_and_the_nearest_distance() {
        for (lattice, cells, count, nearest) in [
            // The nearest distance of FCC is side / √2, with four particles per side³.
            (Lattice::Fcc, [3, 4, 5], 240, (4.0f64 / 0.8442).cbrt() / 2f64.sqrt()),
            (Lattice::SimpleCubic, [3, 4, 5], 60, (1.0f64 / 0.8442).cbrt()),
            (Lattice::Square, [6, 4, 9], 24, (1.0f64 / 0.8442).sqrt()),
        ] {
            let particles = lattice.fill(cells, 0.8442);
            assert_eq!(particles.len(), count);
            assert!((count as f64 / particles.bounds.volume() - 0.8442).abs() < 1e-12);
            let distance2 = |k: usize| {
                let d = particles.bounds.separation(particles.fractions(0), particles.fractions(k));
                d.iter().map(|x| x * x).sum::<f64>()
            };
            let found = (1..count).map(distance2).fold(f64::INFINITY, f64::min).sqrt();
            assert!((found - nearest).abs() < 1e-9, "{lattice:?}: {found} {nearest}");
        }
    }

    #[test]
    fn velocities_have_the_temperature_and_no_drift() {
        for lattice in [Lattice::Fcc, Lattice::Square] {
            let mut particles = lattice.fill([6, 6, 6], 0.8);
            particles.species.iter_mut().enumerate().for_each(|(k, species)| *species = (k % 2) as u8);
            let mass = [1.0, 3.0];
            set_maxwell_velocities(&mut particles, &mass, 1.44, 7);
            let (mut momentum, mut twice_kinetic) = ([0.0; 3], 0.0);
            for (k, v) in particles.velocity.iter().enumerate() {
                let m = mass[usize::from(particles.species[k])];
                (0..3).for_each(|axis| momentum[axis] += m * v[axis]);
                twice_kinetic += m * v.iter().map(|x| x * x).sum::<f64>();
            }
            assert!(momentum.iter().all(|p| p.abs() < 1e-10), "{momentum:?}");
            let freedom = lattice.dimensions() * (particles.len() - 1);
            assert!((twice_kinetic / freedom as f64 - 1.44).abs() < 1e-12);
            assert!(lattice != Lattice::Square || particles.velocity.z.iter().all(|&v| v == 0.0));
        }
    }

    #[test]
    fn a_drop_is_in_the_middle_of_its_vapour() {
        let particles = droplet(500, 0.8, 0.01, 20.0).unwrap();
        let middle_distance = |k: usize| {
            let x = particles.coordinates().get(k);
            x.iter().map(|c| (c - 10.0).powi(2)).sum::<f64>().sqrt()
        };
        // A ball of 500 particles at this density has the radius 5.3.
        let radius = (3.0 * 500.0 / (4.0 * std::f64::consts::PI * 0.8f64)).cbrt();
        assert!((0..500).all(|k| middle_distance(k) < radius + 0.6));
        assert!((500..particles.len()).all(|k| middle_distance(k) > radius + 1.0));
        // The vapour fills the box except the ball and a shell around it.
        let vapour = particles.len() - 500;
        assert!((40..80).contains(&vapour), "{vapour}");
        assert_eq!(droplet(500, 0.8, 0.01, 10.0), None);
        assert_eq!(droplet(1, 0.8, 0.0, 10.0).unwrap().len(), 1);
    }

    #[test]
    fn species_have_their_fractions_at_random_places() {
        let mut particles = Lattice::Fcc.fill([5; 3], 1.2);
        assign_species(&mut particles, &[0.8, 0.2], 3);
        let count =
            |range: std::ops::Range<usize>| particles.species[range].iter().filter(|s| **s == 1).count();
        assert_eq!(count(0..500), 100);
        // Five standard deviations of a hypergeometric number: 50 ± 5 × 4.5.
        assert!((28..=72).contains(&count(0..250)), "{}", count(0..250));
        let mut again = Lattice::Fcc.fill([5; 3], 1.2);
        assign_species(&mut again, &[0.8, 0.2], 3);
        assert_eq!(particles.species, again.species);
    }

    #[test]
    fn the_drift_of_heavy_and_light_particles_is_removed() {
        let mut particles = Lattice::SimpleCubic.fill([2, 1, 1], 1.0);
        particles.species = vec![0, 1];
        particles.velocity.set(0, [3.0, 0.0, -1.0]);
        remove_drift(&mut particles, &[1.0, 2.0]);
        for (found, expected) in
            particles.velocity.iter().zip([[2.0, 0.0, -2.0 / 3.0], [-1.0, 0.0, 1.0 / 3.0]])
        {
            assert!(
                (0..3).all(|axis| (found[axis] - expected[axis]).abs() < 1e-15),
                "{found:?} {expected:?}"
            );
        }
    }

    #[test]
    fn random_particles_are_in_the_box() {
        let bounds = SimulationBox { origin: [-2.0; 3], ..SimulationBox::periodic([4.0; 3], 3) };
        let particles = random_positions(bounds, 500, 3);
        assert!(particles.image.iter().flatten().all(|&image| image == 0));
        let mean: f64 = particles.coordinates().x.iter().sum::<f64>() / 500.0;
        // Five standard errors of the mean: 5 × 4 / √(12 × 500).
        assert!(mean.abs() < 0.26, "{mean}");
    }
}
