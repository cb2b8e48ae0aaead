//! Hand-over of a fluid from a thermostat to constant energy.
//!
//! The mean temperature at constant energy follows from the energy E. When a thermostat is switched
//! off, E is one draw of the canonical distribution, which is off by T √(k_B/C) with the heat
//! capacity C: 2% for 864 atoms. So velocities are scaled once, to the mean energy of the second
//! half of the thermostatted phase,
//!
//!   E = ⟨U⟩ + ⟨K⟩ − 3/2 (⟨K⟩ − K₀),
//!
//! where K₀ = N_f k_B T₀ / 2 is the exact mean of the kinetic energy. The last term corrects the
//! error of a mean over a finite time: where the fluid was too warm on average, its energy was too
//! large by C (⟨T⟩ − T₀). C = 3/4 N_f k_B is between that of an ideal gas, 1/2, and of a harmonic
//! solid, 1.

use orrery_fluids::FluidMeasures;
use orrery_fluids::ensemble::Ensemble;
use orrery_model::fluid::FluidParticles;

/// Steps between two samples of the energies.
pub(super) const SAMPLE_STEPS: u64 = 20;

/// Correction of the mean energy for each unit of energy by which the mean kinetic energy is too
/// large.
const MEAN_CORRECTION: f64 = 1.5;

/// Kinetic energies after and before the scaling have at most this ratio, or its inverse. Beyond
/// it the fluid was not in equilibrium, and is left as it is.
const LARGEST_RATIO: f64 = 2.0;

/// Sums of the energies of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct EnergyMean {
    potential: f64,
    kinetic: f64,
    count: f64,
}

impl EnergyMean {
    pub fn add(&mut self, measures: &FluidMeasures) {
        self.potential += measures.potential;
        self.kinetic += measures.kinetic;
        self.count += 1.0;
    }

    /// Returns the sums for a checkpoint.
    pub fn to_numbers(self) -> Vec<f64> {
        vec![self.potential, self.kinetic, self.count]
    }

    /// Returns the sums of a checkpoint. `None` for numbers that no run writes.
    pub fn from_numbers(numbers: &[f64]) -> Option<Self> {
        let &[potential, kinetic, count] = numbers else { return None };
        let is_valid = potential.is_finite() && kinetic.is_finite() && count >= 0.0 && count.fract() == 0.0;
        is_valid.then_some(Self { potential, kinetic, count })
    }

    /// Scales velocities such that the energy at constant energy is the mean in `ensemble`.
    /// `potential` is the potential energy now. `stops_drift` is true if the motion of the centre
    /// of mass has been removed.
    pub fn apply(
        &self,
        particles: &mut FluidParticles,
        mass: &[f64],
        potential: f64,
        ensemble: Ensemble,
        stops_drift: bool,
    ) {
        let (Ensemble::Langevin { kt, .. } | Ensemble::Rescaling { kt, .. }) = ensemble else { return };
        if self.count == 0.0 {
            return;
        }
        let (n, dimensions) = (particles.len(), particles.bounds.dimensions);
        let freedom = ensemble.degrees_of_freedom(n, dimensions);
        let [mean_potential, mean_kinetic] = [self.potential, self.kinetic].map(|sum| sum / self.count);
        let excess = mean_kinetic - 0.5 * freedom * kt;
        let mut energy = mean_potential + mean_kinetic - MEAN_CORRECTION * excess;
        if stops_drift {
            energy -= 0.5 * (freedom - Ensemble::Nve.degrees_of_freedom(n, dimensions)) * kt;
        }
        let ratio = (energy - potential) / kinetic_energy(particles, mass);
        // The comparison excludes NaN.
        if (1.0 / LARGEST_RATIO..=LARGEST_RATIO).contains(&ratio) {
            let factor = ratio.sqrt();
            let velocity = &mut particles.velocity;
            [&mut velocity.x, &mut velocity.y, &mut velocity.z]
                .into_iter()
                .flatten()
                .for_each(|component| *component *= factor);
        }
    }
}

/// Returns ½ Σ m v², summed in the order of the particles.
fn kinetic_energy(particles: &FluidParticles, mass: &[f64]) -> f64 {
    let terms = particles.velocity.iter().zip(&particles.species);
    terms
        .map(|(v, &species)| 0.5 * mass[usize::from(species)] * (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]))
        .sum()
}
