//! Choices of a user, as plain data.

use orrery_model::analysis::max_or_nan;
use orrery_model::simulation_box::{BoxSides, SimulationBox};
use serde::{Deserialize, Serialize};

use super::FluidMeasures;
use super::ensemble::Ensemble;
use super::potential::{Potential, Truncation};
use super::sums::{LARGEST_TERM, MeasureSums, WideSum};

/// Arithmetic of pair forces. Sums are exact in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PairPrecision {
    /// Terms in f32, positions, velocities and energies in 64 bits.
    Mixed,
    /// Everything in 64 bits.
    Double,
}

/// How pairs within the cutoff are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PairSearch {
    /// Lists where there is a cutoff and enough particles, otherwise all pairs.
    Auto,
    /// All pairs.
    AllPairs,
    /// Neighbour lists.
    Lists,
}

/// Settings of a fluid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FluidSettings {
    /// Pair potential.
    pub potential: Potential,
    /// Mass of each species.
    pub mass: Vec<f64>,
    /// Arithmetic of the forces.
    pub precision: PairPrecision,
    /// How pairs are found.
    pub search: PairSearch,
    /// Distance beyond the cutoff up to which lists contain particles.
    pub skin: f64,
    /// Ensemble.
    pub ensemble: Ensemble,
    /// Kinetic energy from which a particle moves too far in a step, 0 if unknown.
    pub largest_kinetic: f64,
}

/// From this number of particles on, lists are faster than all pairs.
const MIN_LIST_PARTICLES: usize = 500;

impl FluidSettings {
    /// Returns true if a fluid of `n` particles uses neighbour lists.
    pub fn uses_lists(&self, n: usize, _bounds: &SimulationBox) -> bool {
        match self.search {
            _ if self.potential.truncation == Truncation::None => false,
            PairSearch::Auto => n >= MIN_LIST_PARTICLES,
            PairSearch::AllPairs => false,
            PairSearch::Lists => true,
        }
    }

    /// Returns the radius of the lists: the largest cutoff and the skin.
    pub fn list_radius(&self) -> f64 {
        self.potential.largest_cutoff().unwrap_or_default() + self.skin
    }

    /// Returns the longest distance that a particle may move in one step. A longer one means that
    /// the system explodes.
    pub fn largest_move(&self, bounds: &SimulationBox) -> f64 {
        let lengths = &bounds.lengths[..bounds.dimensions];
        let quarter = 0.25 * lengths.iter().copied().fold(f64::INFINITY, f64::min);
        match bounds.sides {
            BoxSides::Periodic => quarter.min(self.potential.length_unit()),
            BoxSides::Open => (0.5 * quarter).min(self.potential.length_unit()),
        }
    }

    /// Returns the unit of sums of kinetic energies: the largest ε, or a power of two that is large
    /// enough for particles that move as far in a step as they may.
    pub fn kinetic_unit(&self) -> f64 {
        let (deepest, least) = (self.potential.largest_epsilon(), self.largest_kinetic / LARGEST_TERM);
        if deepest > 0.0 && deepest >= least {
            deepest
        } else if least.is_normal() {
            // The next power of two: the exponent without the fraction, plus 1.
            f64::from_bits(((least.to_bits() >> 52) + 1) << 52)
        } else {
            1.0
        }
    }

    /// Returns the kinetic energy of a sum. Too large terms count as the largest one.
    pub(super) fn kinetic_energy(&self, sum: WideSum) -> f64 {
        sum.bounded_value() * self.kinetic_unit()
    }

    /// Returns the measures of sums over all particles, infinite where a term was too large.
    pub(super) fn measures_of(&self, sums: MeasureSums) -> FluidMeasures {
        let (energy, momentum) = (self.potential.energy_unit(), self.momentum_unit());
        FluidMeasures {
            potential: sums.potential.value() * energy,
            virial: sums.virial.value() * energy,
            kinetic: sums.kinetic.value() * self.kinetic_unit(),
            momentum: sums.momentum.map(|sum| sum.value() * momentum),
        }
    }

    /// Returns the unit of sums of momenta.
    pub fn momentum_unit(&self) -> f64 {
        let heaviest = self.mass.iter().copied().fold(0.0, max_or_nan);
        (heaviest * self.kinetic_unit()).sqrt()
    }

    /// Returns the kinetic energy from which a particle moves too far in a step of length `dt`. Its
    /// way along each axis is at most the largest σ, or twice that with Langevin dynamics, which
    /// has drifts of half a step.
    pub fn largest_kinetic(potential: &Potential, mass: &[f64], dt: f64) -> f64 {
        let heaviest = mass.iter().copied().fold(0.0, max_or_nan);
        let fastest = 2.0 * potential.length_unit() / dt;
        1.5 * heaviest * fastest * fastest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fluids of usual depth keep ε as the unit. In a shallow one the fastest particle that a step
    /// allows fits into a term, and a unit below it would not do.
    #[test]
    fn units_of_kinetic_energy_fit_what_particles_reach() {
        let settings = |epsilon: f64, dt: f64| {
            let potential = Potential::mixed(&[(1.0, epsilon)], 2.5, Truncation::Truncated);
            let largest_kinetic = FluidSettings::largest_kinetic(&potential, &[2.0], dt);
            FluidSettings {
                potential,
                mass: vec![2.0],
                precision: PairPrecision::Mixed,
                search: PairSearch::Auto,
                skin: 0.3,
                ensemble: Ensemble::Nve,
                largest_kinetic,
            }
        };
        assert_eq!(settings(1.0, 0.005).kinetic_unit(), 1.0);
        assert_eq!(settings(1e-4, 0.005).kinetic_unit(), 1e-4);
        for (epsilon, dt) in [(1e-9, 0.005), (0.0, 0.005), (0.0, 1e-9), (1.65e-21, 1e-30)] {
            let settings = settings(epsilon, dt);
            let unit = settings.kinetic_unit();
            let ratio = settings.largest_kinetic / unit;
            assert!(ratio < LARGEST_TERM && ratio > 0.49 * LARGEST_TERM, "{epsilon}, {dt}: {ratio}");
        }
        assert_eq!(settings(0.0, f64::INFINITY).kinetic_unit(), 1.0);
    }
}
