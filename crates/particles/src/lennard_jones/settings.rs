//! Choices of a user, as plain data.

use orrery_model::simulation_box::{BoxSides, SimulationBox};
use serde::{Deserialize, Serialize};

use super::ensemble::Ensemble;
use super::potential::{Potential, Truncation};

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

    /// Returns the unit of sums of momenta. It is small against the momentum of one particle.
    pub fn momentum_unit(&self) -> f64 {
        let heaviest = self.mass.iter().copied().fold(0.0, f64::max);
        (heaviest * self.potential.energy_unit()).sqrt() * 2f64.powi(-32)
    }
}
