//! Starts of fluids: lattices, random positions, and velocities at a temperature.

use crate::Vec3s;
use crate::fluid::FluidParticles;
use crate::rng::Draws;
use crate::simulation_box::SimulationBox;

/// Stream of the random velocities.
const VELOCITY_STREAM: u32 = 40;
/// Stream of the random positions.
const POSITION_STREAM: u32 = 41;

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

    /// Returns particles at rest on this lattice, in a periodic box of `cells` cells along each axis.
    /// `density` is the number of particles per volume, or per area in two dimensions.
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
    fn random_particles_are_in_the_box() {
        let bounds = SimulationBox { origin: [-2.0; 3], ..SimulationBox::periodic([4.0; 3], 3) };
        let particles = random_positions(bounds, 500, 3);
        assert!(particles.image.iter().flatten().all(|&image| image == 0));
        let mean: f64 = particles.coordinates().x.iter().sum::<f64>() / 500.0;
        // Five standard errors of the mean: 5 × 4 / √(12 × 500).
        assert!(mean.abs() < 0.26, "{mean}");
    }
}
