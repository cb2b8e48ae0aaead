//! The settings of Lennard-Jones fluids: `[lennard_jones]`, its species and pairs, `[particles]`,
//! `[thermostat]` and `[structure]`.

use std::path::PathBuf;

use orrery_fluids::ensemble::Ensemble;
use orrery_fluids::potential::{PairParameters, Potential, Truncation};
use orrery_fluids::settings::{FluidSettings, PairPrecision, PairSearch};
use orrery_gravity::settings::StepChoice;
use orrery_model::Precision;
use orrery_model::ic::lattice::Lattice;
use orrery_model::simulation_box::BoxSides;

use super::{Every, TimeSettings};

/// A fluid of particles with Lennard-Jones forces. All numbers are in the units of the case.
/// Temperatures are in kelvin, or in ε/k_B in reduced units.
#[derive(Clone, Debug, PartialEq)]
pub struct FluidCase {
    /// Species, at least one.
    pub species: Vec<SpeciesCase>,
    /// Pairs of species whose parameters do not follow from the mixing rules.
    pub pairs: Vec<PairCase>,
    /// End of the potential at the cutoff.
    pub truncation: Truncation,
    /// Cutoff in units of σ of each pair.
    pub cutoff: f64,
    /// Damping δ of the potential, 0 for none.
    pub damping: f64,
    /// True if energy and pressure contain the pairs beyond the cutoff, at uniform density.
    pub has_tail_corrections: bool,
    /// Arithmetic of the pairs.
    pub precision: PairPrecision,
    /// How pairs are found.
    pub search: PairSearch,
    /// Skin of the neighbour lists. `None` is the default of the device.
    pub skin: Option<f64>,
    /// Initial positions.
    pub start: FluidStart,
    /// Temperature of the initial velocities. `None` is that of the file, or particles at rest.
    pub temperature: Option<f64>,
    /// Seed of positions, velocities and of the places of the species.
    pub seed: u64,
    /// True to minimise the energy before the start.
    pub minimises: bool,
    /// Largest component of a force at the minimum, in units of ε/σ.
    pub minimise_force: f64,
    /// Largest number of steps of the minimisation.
    pub minimise_steps: u32,
    /// True to remove the motion of the centre of mass at the start.
    pub removes_drift: bool,
    /// Thermostat, `None` for constant energy.
    pub thermostat: Option<ThermostatCase>,
    /// Measures of structure and diffusion.
    pub structure: StructureCase,
    /// Appearance of images.
    pub view: FluidView,
}

/// A species.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeciesCase {
    /// Name, for example "Ar".
    pub name: String,
    /// Mass of a particle.
    pub mass: f64,
    /// Distance at which the potential between two particles is 0.
    pub sigma: f64,
    /// Depth of the potential between two particles.
    pub epsilon: f64,
    /// Fraction of the particles. The fractions of all species have the sum 1.
    pub fraction: f64,
}

/// Parameters between two species that replace those of the mixing rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairCase {
    /// Indices of the species.
    pub species: [usize; 2],
    /// σ, `None` for that of the mixing rule.
    pub sigma: Option<f64>,
    /// ε, `None` for that of the mixing rule.
    pub epsilon: Option<f64>,
}

/// Initial positions of the particles.
#[derive(Clone, Debug, PartialEq)]
pub enum FluidStart {
    /// A lattice that fills the box.
    Lattice {
        /// Kind of the lattice.
        lattice: Lattice,
        /// Number of its cells along each axis. In two dimensions the last one is 1.
        cells: [usize; 3],
        /// Density of all particles.
        density: FluidDensity,
        /// Sides of the box.
        sides: BoxSides,
    },
    /// A drop of liquid in the middle of a periodic cube, in vapour.
    Droplet {
        /// Number of particles of the drop.
        n: usize,
        /// Density of the drop.
        density: FluidDensity,
        /// Number of particles of the vapour per volume.
        vapour_density: f64,
        /// Side of the box.
        length: f64,
    },
    /// Random positions.
    Random {
        /// Number of particles.
        n: usize,
        /// Density of all particles.
        density: FluidDensity,
        /// Number of dimensions, 2 or 3.
        dimensions: usize,
        /// Sides of the box.
        sides: BoxSides,
    },
    /// Positions, box and perhaps velocities of a file.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Number of dimensions, 2 or 3.
        dimensions: usize,
        /// True to move particles outside of a periodic box into it.
        wraps: bool,
    },
}

/// Density of a fluid, as a case gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FluidDensity {
    /// Number of particles per volume, or per area in two dimensions.
    Number(f64),
    /// Mass per volume.
    Mass(f64),
}

/// Method of a thermostat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThermostatMethod {
    /// Friction and noise of each particle.
    Langevin,
    /// Stochastic rescaling of all velocities.
    Rescaling,
}

/// A thermostat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThermostatCase {
    /// Method.
    pub method: ThermostatMethod,
    /// Temperature.
    pub temperature: f64,
    /// Relaxation time.
    pub time: f64,
    /// Seed of its random numbers.
    pub seed: u64,
    /// Time at which the thermostat is switched off. `None` is the end of the run.
    pub until: Option<f64>,
}

/// `[structure]`: pair distribution function and mean square displacement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StructureCase {
    /// When they are measured.
    pub every: Every,
    /// Time of the first measurement.
    pub from: f64,
    /// Largest distance of the pair distribution function. `None` fits the box.
    pub radius: Option<f64>,
    /// Number of bins of the pair distribution function.
    pub bins: usize,
}

/// Quantity that the colours of particles show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FluidColour {
    /// Species.
    Species,
    /// Speed.
    Speed,
    /// Number of particles in the neighbourhood.
    Density,
}

/// Settings of `[image]` for fluids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FluidView {
    /// Meaning of the colours.
    pub colour: FluidColour,
    /// Angle of the viewer about the z axis, in radians.
    pub azimuth: f64,
    /// Angle of the viewer above the x-y plane, in radians.
    pub elevation: f64,
}

/// Skin of neighbour lists on the CPU in units of σ, if the case gives none. On two cores with
/// AVX-512 the melt of 32,000 particles takes 9.2e6, 10.5e6, 10.7e6 and 11.7e6 particle-steps per
/// second with 0.2, 0.3, 0.4 and 0.5 (`speed_of_the_melt`).
const DEFAULT_SKIN: f64 = 0.5;

impl FluidCase {
    /// Returns the potential between all pairs of species.
    pub fn potential(&self) -> Potential {
        let species: Vec<(f64, f64)> = self.species.iter().map(|s| (s.sigma, s.epsilon)).collect();
        let mut potential = Potential::mixed(&species, self.cutoff, self.truncation).damped(self.damping);
        for &PairCase { species: [a, b], sigma, epsilon } in &self.pairs {
            let mixed = potential.pair(a, b);
            let sigma = sigma.unwrap_or(mixed.sigma);
            let epsilon = epsilon.unwrap_or(mixed.epsilon);
            potential.set_pair(a, b, PairParameters { sigma, epsilon, cutoff: self.cutoff * sigma });
        }
        potential
    }

    /// Returns the settings of the solver in this ensemble, with the step of `time`.
    pub fn settings(&self, ensemble: Ensemble, time: &TimeSettings) -> FluidSettings {
        let potential = self.potential();
        let skin = self.skin.unwrap_or(DEFAULT_SKIN * potential.length_unit());
        let mass: Vec<f64> = self.species.iter().map(|species| species.mass).collect();
        let largest_kinetic = match time.step {
            StepChoice::Fixed(dt) => FluidSettings::largest_kinetic(&potential, &mass, dt),
            StepChoice::Adaptive { .. } => 0.0,
        };
        FluidSettings {
            mass,
            largest_kinetic,
            potential,
            precision: self.precision,
            search: self.search,
            skin,
            ensemble,
        }
    }

    /// Returns the ensemble while the thermostat is on, with Boltzmann's constant `boltzmann`.
    pub fn ensemble(&self, boltzmann: f64) -> Ensemble {
        match self.thermostat {
            None => Ensemble::Nve,
            Some(ThermostatCase { method, temperature, time, seed, .. }) => {
                let kt = boltzmann * temperature;
                match method {
                    ThermostatMethod::Langevin => Ensemble::Langevin { kt, friction: 1.0 / time, seed },
                    ThermostatMethod::Rescaling => Ensemble::Rescaling { kt, time, seed },
                }
            }
        }
    }

    /// Returns the number of particles. `None` if they come from a file.
    pub fn particle_count(&self) -> Option<u64> {
        match &self.start {
            FluidStart::Lattice { lattice, cells, .. } => {
                let cells = cells.iter().fold(1u64, |product, &count| product.saturating_mul(count as u64));
                Some(cells.saturating_mul(lattice.particles_per_cell() as u64))
            }
            FluidStart::Droplet { n, vapour_density, length, .. } => {
                Some((*n as u64).saturating_add((vapour_density * length.powi(3)) as u64))
            }
            FluidStart::Random { n, .. } => Some(*n as u64),
            FluidStart::File { .. } => None,
        }
    }

    /// Returns the number of dimensions.
    pub fn dimensions(&self) -> usize {
        match self.start {
            FluidStart::Lattice { lattice, .. } => lattice.dimensions(),
            FluidStart::Droplet { .. } => 3,
            FluidStart::Random { dimensions, .. } | FluidStart::File { dimensions, .. } => dimensions,
        }
    }

    /// Returns the number of particles per volume that `density` means.
    pub fn number_density(&self, density: FluidDensity) -> f64 {
        match density {
            FluidDensity::Number(number) => number,
            FluidDensity::Mass(mass) => {
                mass / self.species.iter().map(|species| species.fraction * species.mass).sum::<f64>()
            }
        }
    }

    /// Returns the precision of the pair arithmetic.
    pub fn model_precision(&self) -> Precision {
        match self.precision {
            PairPrecision::Mixed => Precision::Mixed,
            PairPrecision::Double => Precision::Double,
        }
    }

    /// Returns the paths in the case, which may be relative to its folder.
    pub(super) fn paths_mut(&mut self) -> Vec<(&mut PathBuf, bool)> {
        match &mut self.start {
            FluidStart::File { path, .. } => vec![(path, false)],
            _ => Vec::new(),
        }
    }
}
