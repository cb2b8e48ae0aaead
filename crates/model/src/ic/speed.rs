//! Random speeds in an isotropic equilibrium.
//!
//! At relative potential ψ = −Φ the speed has density p(v) ∝ v² f(ψ − v²/2) for 0 < v < (2ψ)^{1/2}.
//! It is drawn by rejection under a constant bound.
//!
//! Invariants: `energy` is ascending, and `bound[k]` ≥ v² f(ψ − v²/2) for every v and every
//! ψ ≤ `energy[k]`.
//!
//! Why the bound is valid: take ψ = E_k and E between E_j and E_{j+1}. Then v² = 2 (E_k − E) is
//! largest at E_j. f is largest at one of the two nodes, because it is monotonic or linear between
//! them. At given E, v² grows with ψ, so a bound for E_k is also valid for every lower ψ.

use super::MAX_ATTEMPTS;
use crate::rng::Draws;

/// Sampler of speeds for one distribution function.
pub struct SpeedSampler<F> {
    distribution: F,
    energy: Vec<f64>,
    bound: Vec<f64>,
}

impl<F: Fn(f64) -> f64> SpeedSampler<F> {
    /// Tabulates the bound for `distribution`, which is f(E) ≥ 0.
    ///
    /// f must rise with E, or be linear between consecutive values of `energy`. These are ascending
    /// and not negative.
    pub fn new(distribution: F, energy: Vec<f64>) -> Self {
        let f: Vec<f64> = energy.iter().map(|&e| distribution(e)).collect();
        let bound_at = |k: usize| {
            let below = |j: usize| 2.0 * (energy[k] - energy[j]) * f[j].max(f[j + 1]);
            // Below the first node f is at most f[0].
            (0..k).map(below).fold(2.0 * energy[k] * f[0], f64::max)
        };
        let bound = (0..energy.len()).map(bound_at).collect();
        Self { distribution, energy, bound }
    }

    /// Draws a speed at relative potential `psi`. A `psi` above the last node is replaced by the
    /// energy of that node. Returns `None` if no draw is accepted, for example because f overflows.
    pub fn draw_speed(&self, psi: f64, draws: &mut Draws) -> Option<f64> {
        let node = self.energy.partition_point(|&e| e < psi).min(self.energy.len() - 1);
        let (psi, bound) = (psi.min(self.energy[node]), self.bound[node]);
        if psi <= 0.0 || bound <= 0.0 {
            return Some(0.0);
        }
        let escape = (2.0 * psi).sqrt();
        (0..MAX_ATTEMPTS).find_map(|_| {
            let v = escape * draws.uniform();
            (bound * draws.uniform() < v * v * (self.distribution)(psi - 0.5 * v * v)).then_some(v)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// f = const gives p(v) ∝ v², so ⟨v⟩ is 3/4 of the escape speed, with standard deviation 0.194.
    #[test]
    fn constant_distribution_function_gives_the_known_mean_speed() {
        let sampler = SpeedSampler::new(|_| 1.0, (0..=20).map(|k| 0.1 * f64::from(k)).collect());
        let n = 20_000;
        let mean = (0..n).map(|i| sampler.draw_speed(1.33, &mut Draws::new(5, 0, i)).unwrap()).sum::<f64>()
            / n as f64;
        let expected = 0.75 * 2.66f64.sqrt();
        assert!((mean / expected - 1.0).abs() < 4.0 * 0.26 / (n as f64).sqrt(), "{mean} {expected}");
    }

    #[test]
    fn zero_distribution_function_gives_zero_speed() {
        let sampler = SpeedSampler::new(|_| 0.0, vec![0.0, 1.0]);
        assert_eq!(sampler.draw_speed(0.5, &mut Draws::new(1, 0, 0)), Some(0.0));
    }

    #[test]
    fn infinite_bound_gives_no_speed() {
        let sampler = SpeedSampler::new(|_| f64::INFINITY, vec![0.0, 1.0]);
        assert_eq!(sampler.draw_speed(0.5, &mut Draws::new(1, 0, 0)), None);
    }
}
