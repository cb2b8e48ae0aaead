//! The pair potential, its truncations, and the corrections for pairs beyond the cutoff.
//!
//! With s² = r² + δ² (δ = 0 unless the potential is damped),
//!
//!   u(r) = C₁₂ / s¹² − C₆ / s⁶   and   −u'(r) / r = (12 C₁₂ / s¹² − 6 C₆ / s⁶) / s²
//!
//! where C₁₂ = 4 ε σ¹² and C₆ = 4 ε σ⁶. A switched force subtracts a polynomial of r − r₁ between
//! r₁ and the cutoff, after which force and potential end smoothly (van der Spoel & van Maaren
//! 2006, eq. 8).

use std::f64::consts::PI;

use orrery_model::analysis::max_or_nan;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// End of the potential at the cutoff.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Truncation {
    /// There is no cutoff.
    None,
    /// Potential and force jump to 0 at the cutoff.
    Truncated,
    /// The potential is shifted such that it is 0 at the cutoff. The force jumps.
    Shifted,
    /// Force and potential go to 0 between the distance `start`, as a fraction of the cutoff, and
    /// the cutoff.
    Switched {
        /// Start of the switch, between 0 and 1.
        start: f64,
    },
}

/// Parameters of the potential between two species.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairParameters {
    /// Distance at which the potential is 0.
    pub sigma: f64,
    /// Depth of the potential, 0 for none.
    pub epsilon: f64,
    /// Cutoff. Unused without truncation.
    pub cutoff: f64,
}

/// The potential between all pairs of species.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Potential {
    species: usize,
    /// Parameters of species (a, b) at a × species + b. Symmetric.
    pairs: Vec<PairParameters>,
    /// End of the potential.
    pub truncation: Truncation,
    /// δ of the damped form, 0 for the potential itself.
    pub damping: f64,
}

/// Energy and force of one pair.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PairTerm {
    /// Potential energy.
    pub energy: f64,
    /// Force divided by the distance. Positive if the particles repel each other.
    pub force_over_r: f64,
}

impl Potential {
    /// Combines the parameters of each species by the rules of Lorentz and Berthelot:
    /// σ = (σ_a + σ_b) / 2 and ε = √(ε_a ε_b). The cutoff of a pair is `cutoff` times its σ.
    pub fn mixed(species: &[(f64, f64)], cutoff: f64, truncation: Truncation) -> Self {
        let pair = |a: (f64, f64), b: (f64, f64)| {
            let sigma = 0.5 * (a.0 + b.0);
            PairParameters { sigma, epsilon: (a.1 * b.1).sqrt(), cutoff: cutoff * sigma }
        };
        let pairs = species.iter().flat_map(|&a| species.iter().map(move |&b| pair(a, b))).collect();
        Self { species: species.len(), pairs, truncation, damping: 0.0 }
    }

    /// Returns this potential with the damping δ.
    pub fn damped(self, damping: f64) -> Self {
        Self { damping, ..self }
    }

    /// Sets the parameters between species `a` and `b`.
    pub fn set_pair(&mut self, a: usize, b: usize, parameters: PairParameters) {
        self.pairs[a * self.species + b] = parameters;
        self.pairs[b * self.species + a] = parameters;
    }

    /// Returns the number of species.
    pub fn species_count(&self) -> usize {
        self.species
    }

    /// Returns the parameters between species `a` and `b`.
    pub fn pair(&self, a: usize, b: usize) -> PairParameters {
        self.pairs[a * self.species + b]
    }

    /// Returns the largest cutoff of all pairs, `None` without truncation.
    pub fn largest_cutoff(&self) -> Option<f64> {
        (self.truncation != Truncation::None)
            .then(|| self.pairs.iter().map(|pair| pair.cutoff).fold(0.0, max_or_nan))
    }

    /// Returns the unit of length of the pair arithmetic: the largest σ.
    pub fn length_unit(&self) -> f64 {
        self.pairs.iter().map(|pair| pair.sigma).fold(0.0, max_or_nan)
    }

    /// Returns the largest ε. It is 0 for an ideal gas.
    pub fn largest_epsilon(&self) -> f64 {
        self.pairs.iter().map(|pair| pair.epsilon).fold(0.0, max_or_nan)
    }

    /// Returns the unit of energy of the pair arithmetic: the largest ε, or 1 for an ideal gas.
    pub fn energy_unit(&self) -> f64 {
        let largest = self.largest_epsilon();
        if largest > 0.0 { largest } else { 1.0 }
    }

    /// Returns energy and force of a pair at the squared distance `r2`, in f64. This is the
    /// reference of all solvers.
    pub fn pair_term(&self, a: usize, b: usize, r2: f64) -> PairTerm {
        let PairParameters { sigma, epsilon, cutoff } = self.pair(a, b);
        // Without interaction, particles may be at the same place.
        if epsilon == 0.0 || self.truncation != Truncation::None && r2 >= cutoff * cutoff {
            return PairTerm::default();
        }
        let s2 = r2 + self.damping * self.damping;
        let plain = plain_term(sigma, epsilon, s2);
        match self.truncation {
            Truncation::None | Truncation::Truncated => plain,
            Truncation::Shifted => {
                let at_cutoff = plain_term(sigma, epsilon, cutoff * cutoff + self.damping * self.damping);
                PairTerm { energy: plain.energy - at_cutoff.energy, ..plain }
            }
            Truncation::Switched { start } => {
                let switch = SwitchPolynomial::new(sigma, epsilon, start * cutoff, cutoff, self.damping);
                let r = r2.sqrt();
                let beyond = (r - start * cutoff).max(0.0);
                PairTerm {
                    energy: plain.energy + switch.energy(beyond),
                    force_over_r: plain.force_over_r + switch.force(beyond) / r,
                }
            }
        }
    }

    /// Returns the mean energy per particle of pairs beyond the cutoff, with uniform `density`
    /// (number per volume or area) there. `fractions` has the fraction of each species.
    pub fn tail_energy(&self, density: f64, fractions: &[f64], dimensions: usize) -> f64 {
        let shell = shell_factor(dimensions);
        let damping = self.damping;
        self.sum_of_tails(fractions, |pair| {
            0.5 * density * shell * integral_beyond_cutoff(pair, damping, dimensions)
        })
    }

    /// Returns the pressure of pairs beyond the cutoff, as for [`Potential::tail_energy`]. With d
    /// dimensions it is ρ² S / 2d ∫ r^d (−u') dr, in which the integral is r^d u at the cutoff plus
    /// d ∫ r^(d−1) u dr.
    pub fn tail_pressure(&self, density: f64, fractions: &[f64], dimensions: usize) -> f64 {
        let (shell, d) = (shell_factor(dimensions), dimensions as f64);
        let damping = self.damping;
        self.sum_of_tails(fractions, |pair| {
            let PairParameters { sigma, epsilon, cutoff } = pair;
            let at_cutoff = plain_term(sigma, epsilon, cutoff * cutoff + damping * damping).energy;
            let integral = integral_beyond_cutoff(pair, damping, dimensions);
            0.5 * density * density * shell * (cutoff.powi(dimensions as i32) * at_cutoff / d + integral)
        })
    }

    fn sum_of_tails(&self, fractions: &[f64], tail: impl Fn(PairParameters) -> f64) -> f64 {
        let pairs = (0..self.species).flat_map(|a| (0..self.species).map(move |b| (a, b)));
        pairs.map(|(a, b)| fractions[a] * fractions[b] * tail(self.pair(a, b))).sum()
    }

    /// Checks all parameters.
    pub fn validate(&self) -> Result<(), PotentialError> {
        let is_positive = |x: f64| x > 0.0 && x.is_finite();
        for (index, pair) in self.pairs.iter().enumerate() {
            let (a, b) = (index / self.species, index % self.species);
            for (name, value) in [("sigma", pair.sigma), ("epsilon", pair.epsilon), ("cutoff", pair.cutoff)] {
                let is_ideal = name == "epsilon" && value == 0.0;
                if !(is_positive(value) || is_ideal) {
                    return Err(PotentialError { name, a, b, value });
                }
            }
        }
        Ok(())
    }
}

/// Returns the potential and its force without truncation.
fn plain_term(sigma: f64, epsilon: f64, s2: f64) -> PairTerm {
    let x6 = (sigma * sigma / s2).powi(3);
    PairTerm {
        energy: 4.0 * epsilon * (x6 * x6 - x6),
        force_over_r: 24.0 * epsilon * (2.0 * x6 * x6 - x6) / s2,
    }
}

/// Returns the surface of the unit sphere, or the circumference of the unit circle.
fn shell_factor(dimensions: usize) -> f64 {
    if dimensions == 2 { 2.0 * PI } else { 4.0 * PI }
}

/// Returns ∫ r^(d−1) u(r) dr from the cutoff to infinity, for d = `dimensions`.
fn integral_beyond_cutoff(pair: PairParameters, damping: f64, dimensions: usize) -> f64 {
    let PairParameters { sigma, epsilon, cutoff } = pair;
    let s2 = cutoff * cutoff + damping * damping;
    let x6 = (sigma * sigma / s2).powi(3);
    // ∫ r^(d−1) s^(−p) dr in units of s^(d−p) at the cutoff.
    let integral = |power: f64| match dimensions {
        2 => 1.0 / (power - 2.0),
        _ => damped_integral(power, damping * damping / s2),
    };
    let scale = if dimensions == 2 { s2 } else { s2 * s2.sqrt() };
    4.0 * epsilon * scale * (x6 * x6 * integral(12.0) - x6 * integral(6.0))
}

/// Returns ∫ w^(p−4) √(1 − q w²) dw from 0 to 1, which is ∫ r² s^(−p) dr beyond the cutoff in units
/// of s^(3−p) there, with w = s(cutoff) / s and q = δ² / s(cutoff)² < 1: the binomial series.
fn damped_integral(power: f64, q: f64) -> f64 {
    let (mut sum, mut coefficient) = (0.0, 1.0);
    // For q near 1, the terms decrease as k^(−5/2), and the rest is below 1e-8.
    for k in 0..200_000 {
        let k = f64::from(k);
        let term = coefficient / (power - 3.0 + 2.0 * k);
        sum += term;
        if term.abs() < 1e-17 * sum {
            break;
        }
        coefficient *= q * (k - 0.5) / (k + 1.0);
    }
    sum
}

/// Polynomial that ends the force at the cutoff: with x = r − r₁, the force gets A x² + B x³ and
/// the energy −A x³ / 3 − B x⁴ / 4 − C. Force, its derivative and the energy are 0 at the cutoff.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwitchPolynomial {
    a: f64,
    b: f64,
    c: f64,
}

impl SwitchPolynomial {
    /// Returns the polynomial for a switch from `start` to `cutoff` with this damping.
    pub fn new(sigma: f64, epsilon: f64, start: f64, cutoff: f64, damping: f64) -> Self {
        let width = cutoff - start;
        let s2 = cutoff * cutoff + damping * damping;
        let s = s2.sqrt();
        let coefficient = |power: i32| {
            // The force p r / s^(p+2) of s^(−p) has the slope −slope p / s^(p+2).
            let p = f64::from(power);
            let scale = p / s.powi(power + 2);
            let slope = (p + 2.0) * (cutoff * cutoff / s2) - 1.0;
            let a = -scale * ((slope + 3.0) * cutoff - slope * start) / width.powi(2);
            let b = scale * ((slope + 2.0) * cutoff - slope * start) / width.powi(3);
            let c = s.powi(-power) - a / 3.0 * width.powi(3) - b / 4.0 * width.powi(4);
            [a, b, c]
        };
        let (c12, c6) = (4.0 * epsilon * sigma.powi(12), 4.0 * epsilon * sigma.powi(6));
        let [repulsion, attraction] = [coefficient(12), coefficient(6)];
        let [a, b, c] = [0, 1, 2].map(|k| c12 * repulsion[k] - c6 * attraction[k]);
        Self { a, b, c }
    }

    /// Returns the coefficients A, B and C.
    pub fn coefficients(&self) -> [f64; 3] {
        [self.a, self.b, self.c]
    }

    fn force(&self, x: f64) -> f64 {
        x * x * (self.a + self.b * x)
    }

    fn energy(&self, x: f64) -> f64 {
        -x.powi(3) * (self.a / 3.0 + self.b / 4.0 * x) - self.c
    }
}

/// A parameter that no pair can have.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("{name} of species {a} and {b} is {value:e}, expected a positive number")]
pub struct PotentialError {
    /// sigma, epsilon or cutoff.
    pub name: &'static str,
    /// First species.
    pub a: usize,
    /// Second species.
    pub b: usize,
    /// Value found.
    pub value: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUNCATIONS: [Truncation; 4] =
        [Truncation::None, Truncation::Truncated, Truncation::Shifted, Truncation::Switched { start: 0.8 }];

    fn argon(truncation: Truncation) -> Potential {
        Potential::mixed(&[(1.0, 1.0)], 2.5, truncation)
    }

    #[test]
    fn minimum_and_zero_are_where_they_belong() {
        let potential = argon(Truncation::None);
        assert!(potential.pair_term(0, 0, 1.0).energy.abs() < 1e-15);
        let minimum = potential.pair_term(0, 0, 2f64.powf(1.0 / 3.0));
        assert!((minimum.energy + 1.0).abs() < 1e-14 && minimum.force_over_r.abs() < 1e-13);
    }

    /// The force is the derivative of the energy, by central differences with an error of h².
    #[test]
    fn forces_are_derivatives_of_energies() {
        let h = 1e-5;
        for truncation in TRUNCATIONS {
            for damping in [0.0, 0.3] {
                let potential = Potential { damping, ..argon(truncation) };
                for r in [0.9, 1.0, 1.2, 1.7, 2.1, 2.3, 2.49] {
                    let energy = |r: f64| potential.pair_term(0, 0, r * r).energy;
                    let slope = (energy(r + h) - energy(r - h)) / (2.0 * h);
                    let force = r * potential.pair_term(0, 0, r * r).force_over_r;
                    assert!((slope + force).abs() < 1e-7 * (1.0 + force.abs()), "{truncation:?}, {r}");
                }
            }
        }
    }

    #[test]
    fn shifted_and_switched_potentials_end_at_the_cutoff() {
        let just_inside = (2.5f64 - 1e-9).powi(2);
        for truncation in [Truncation::Shifted, Truncation::Switched { start: 0.8 }] {
            assert!(argon(truncation).pair_term(0, 0, just_inside).energy.abs() < 1e-9);
        }
        assert!(
            argon(Truncation::Switched { start: 0.8 }).pair_term(0, 0, just_inside).force_over_r.abs() < 1e-9
        );
        assert!(argon(Truncation::Shifted).pair_term(0, 0, just_inside).force_over_r.abs() > 1e-3);
        // Damping changes force and energy at the cutoff, and the ends must follow.
        for damping in [0.3, 1.0, 4.0] {
            let switched = argon(Truncation::Switched { start: 0.8 }).damped(damping);
            let term = switched.pair_term(0, 0, just_inside);
            assert!(term.energy.abs() < 1e-9 && term.force_over_r.abs() < 1e-9, "{damping}: {term:?}");
            let shifted = argon(Truncation::Shifted).damped(damping);
            assert!(shifted.pair_term(0, 0, just_inside).energy.abs() < 1e-9, "{damping}");
        }
        for truncation in &TRUNCATIONS[1..] {
            assert_eq!(argon(*truncation).pair_term(0, 0, 6.2500001), PairTerm::default());
        }
        assert!(argon(Truncation::None).pair_term(0, 0, 6.2500001).energy < 0.0);
    }

    #[test]
    fn species_are_mixed_by_lorentz_and_berthelot() {
        let mut potential = Potential::mixed(&[(1.0, 1.0), (0.5, 4.0)], 2.5, Truncation::Shifted);
        assert_eq!(potential.pair(0, 1), PairParameters { sigma: 0.75, epsilon: 2.0, cutoff: 1.875 });
        assert_eq!(potential.pair(1, 0), potential.pair(0, 1));
        let other = PairParameters { sigma: 0.8, epsilon: 1.5, cutoff: 2.0 };
        potential.set_pair(0, 1, other);
        assert_eq!((potential.pair(0, 1), potential.pair(1, 0)), (other, other));
        assert_eq!(potential.largest_cutoff(), Some(2.5));
        assert_eq!((potential.length_unit(), potential.energy_unit()), (1.0, 4.0));
    }

    /// Against numerical integrals over shells beyond the cutoff, with r = cutoff / t.
    #[test]
    fn tails_are_the_integrals_beyond_the_cutoff() {
        let density = 0.8;
        for (damping, dimensions) in [(0.0, 2), (0.0, 3), (0.3, 2), (0.3, 3), (2.5, 3), (40.0, 2), (40.0, 3)]
        {
            let potential = argon(Truncation::Truncated).damped(damping);
            let full = argon(Truncation::None).damped(damping);
            let (mut energy, mut pressure) = (0.0, 0.0);
            // The midpoint rule has an error of (h δ)² in units of the cutoff.
            let h = 5e-6;
            for k in 0..200_000 {
                let t = (f64::from(k) + 0.5) * h;
                let r = 2.5 / t;
                let weight = h * 2.5 / (t * t);
                let shell = if dimensions == 2 { 2.0 * PI * r } else { 4.0 * PI * r * r };
                let term = full.pair_term(0, 0, r * r);
                energy += 0.5 * density * term.energy * shell * weight;
                pressure +=
                    0.5 * density * density / dimensions as f64 * r * r * term.force_over_r * shell * weight;
            }
            let found = potential.tail_energy(density, &[1.0], dimensions);
            assert!((found / energy - 1.0).abs() < 1e-7, "{damping}: {found} {energy}");
            let found = potential.tail_pressure(density, &[1.0], dimensions);
            assert!((found / pressure - 1.0).abs() < 1e-7, "{damping}: {found} {pressure}");
        }
    }

    #[test]
    fn parameters_must_be_positive() {
        let error = Potential::mixed(&[(1.0, 1.0), (0.0, 1.0)], 2.5, Truncation::Shifted).validate();
        let expected = "sigma of species 1 and 1 is 0e0, expected a positive number";
        assert_eq!(error.unwrap_err().to_string(), expected);
        assert!(argon(Truncation::Shifted).validate().is_ok());
    }
}
