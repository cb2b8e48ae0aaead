//! Ensembles: constant energy, and two thermostats.
//!
//! - Langevin dynamics with the splitting BAOAB (Leimkuhler & Matthews 2013): half a kick, half a
//!   drift, v ← c v + √((1 − c²) kT / m) ξ with c = exp(−γ dt), half a drift, half a kick. The normal
//!   numbers ξ are functions of seed, step and identifier of the particle.
//! - Stochastic velocity rescaling (Bussi, Donadio & Parrinello 2007): velocity Verlet, after which all
//!   velocities are multiplied by α, such that the kinetic energy has its canonical distribution. With
//!   K̄ = N_f kT / 2 and c = exp(−dt / τ),
//!   α² = c + (1 − c) K̄ / (N_f K) (R₁² + Σ R²) + 2 R₁ √(c (1 − c) K̄ / (N_f K)).

use orrery_model::rng::{Draws, philox4x32_10};

/// Ensemble of a fluid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ensemble {
    /// Constant energy.
    Nve,
    /// Constant temperature by friction and noise.
    Langevin {
        /// Temperature kT in units of energy of the case.
        kt: f64,
        /// Friction γ per time.
        friction: f64,
        /// Seed of the noise.
        seed: u64,
    },
    /// Constant temperature by stochastic rescaling of all velocities.
    Rescaling {
        /// Temperature kT in units of energy of the case.
        kt: f64,
        /// Relaxation time τ.
        time: f64,
        /// Seed of the noise.
        seed: u64,
    },
}

impl Ensemble {
    /// Returns the number of degrees of freedom of `n` particles. Momentum is not conserved with
    /// Langevin dynamics, so its motion counts there.
    pub fn degrees_of_freedom(&self, n: usize, dimensions: usize) -> f64 {
        let conserved = match self {
            Self::Langevin { .. } => 0,
            Self::Nve | Self::Rescaling { .. } => dimensions,
        };
        (dimensions * n).saturating_sub(conserved) as f64
    }
}

/// Separates the noise of particles from other uses of a seed.
const NOISE_KEY: u32 = 0x4c4a_4e56;
/// Stream of the numbers of the rescaling.
const RESCALING_STREAM: u32 = 42;

/// Returns three standard normal numbers of a particle at a step (Box-Muller).
pub fn noise(seed: u64, step: u64, id: u64) -> [f64; 3] {
    let counter = [step as u32, (step >> 32) as u32, id as u32, (id >> 32) as u32];
    let bits = philox4x32_10(counter, [seed as u32 ^ NOISE_KEY, (seed >> 32) as u32]);
    let unit = |word: u32| (f64::from(word) + 0.5) * 2f64.powi(-32);
    let pair = |a: u32, b: u32| {
        let radius = libm::sqrt(-2.0 * libm::log(unit(a)));
        let angle = std::f64::consts::TAU * unit(b);
        [radius * libm::cos(angle), radius * libm::sin(angle)]
    };
    let ([x, y], [z, _]) = (pair(bits[0], bits[1]), pair(bits[2], bits[3]));
    [x, y, z]
}

/// Returns the factor α of all velocities for a kinetic energy `kinetic` with `freedom` degrees of
/// freedom.
pub fn rescaling_factor(
    kinetic: f64,
    kt: f64,
    freedom: f64,
    steps_per_time: f64,
    seed: u64,
    step: u64,
) -> f64 {
    if kinetic <= 0.0 || freedom < 1.0 {
        return 1.0;
    }
    let mut draws = Draws::new(seed, RESCALING_STREAM, step);
    let decay = libm::exp(-steps_per_time);
    let first = draws.normal();
    let others = 2.0 * gamma(0.5 * (freedom - 1.0), &mut draws);
    let share = (1.0 - decay) * 0.5 * kt / kinetic;
    let factor2 = decay + share * (first * first + others) + 2.0 * first * (decay * share).sqrt();
    // The sign of α: with a strong thermostat, velocities may change their direction.
    let is_positive = first + (decay / share).sqrt() > 0.0;
    if is_positive { factor2.max(0.0).sqrt() } else { -factor2.max(0.0).sqrt() }
}

/// Draws a number of the gamma distribution with this shape and scale 1 (Marsaglia & Tsang 2000).
fn gamma(shape: f64, draws: &mut Draws) -> f64 {
    if shape <= 0.0 {
        return 0.0;
    }
    if shape < 1.0 {
        let power = libm::pow(draws.uniform(), 1.0 / shape);
        return power * gamma(shape + 1.0, draws);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = draws.normal();
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && libm::log(draws.uniform()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_of_freedom_are_counted() {
        let langevin = Ensemble::Langevin { kt: 1.0, friction: 1.0, seed: 1 };
        assert_eq!(Ensemble::Nve.degrees_of_freedom(100, 3), 297.0);
        assert_eq!(langevin.degrees_of_freedom(100, 3), 300.0);
        assert_eq!(Ensemble::Rescaling { kt: 1.0, time: 1.0, seed: 1 }.degrees_of_freedom(50, 2), 98.0);
    }

    /// Mean 0, variance 1, fourth moment 3 and no correlations, within five standard errors.
    #[test]
    fn noise_is_normal_and_independent() {
        let n = 50_000u64;
        let mut sums = [0.0; 5];
        for k in 0..n {
            let [x, y, z] = noise(3, k / 100, k % 100);
            sums[0] += x + y + z;
            sums[1] += x * x + y * y + z * z;
            sums[2] += x.powi(4) + y.powi(4) + z.powi(4);
            sums[3] += x * y + y * z + z * x;
            sums[4] += x * noise(3, k / 100 + 1, k % 100)[0];
        }
        let count = 3.0 * n as f64;
        assert!((sums[0] / count).abs() < 5.0 / count.sqrt());
        assert!((sums[1] / count - 1.0).abs() < 5.0 * (2.0 / count).sqrt());
        assert!((sums[2] / count - 3.0).abs() < 5.0 * (96.0 / count).sqrt());
        assert!((sums[3] / count).abs() < 5.0 / count.sqrt());
        assert!((sums[4] / n as f64).abs() < 5.0 / (n as f64).sqrt());
    }

    #[test]
    fn gamma_numbers_have_their_mean_and_variance() {
        for shape in [0.5, 1.0, 4.5, 300.0] {
            let n = 20_000;
            let (mut mean, mut square) = (0.0, 0.0);
            for k in 0..n {
                let x = gamma(shape, &mut Draws::new(8, 0, k));
                mean += x / n as f64;
                square += x * x / n as f64;
            }
            let error = (shape / n as f64).sqrt();
            assert!((mean - shape).abs() < 5.0 * error, "{shape}: {mean}");
            // The variance of x² of a gamma distribution is below (2 shape + 2)³ shape.
            let variance = square - mean * mean;
            let bound = 5.0 * ((6.0 / shape + 2.0) / n as f64).sqrt() * shape;
            assert!((variance - shape).abs() < bound, "{shape}: {variance}");
        }
    }

    /// Applied again and again, the kinetic energy has the gamma distribution with N_f / 2 degrees:
    /// its mean is N_f kT / 2 and its variance N_f (kT)² / 2.
    #[test]
    fn rescaling_gives_the_canonical_distribution() {
        let (freedom, kt) = (30.0, 0.7);
        let (mut kinetic, mut mean, mut square) = (1.0, 0.0, 0.0);
        let n = 40_000u64;
        for step in 0..n {
            let factor = rescaling_factor(kinetic, kt, freedom, 0.5, 4, step);
            kinetic *= factor * factor;
            mean += kinetic / n as f64;
            square += kinetic * kinetic / n as f64;
        }
        let (expected, variance) = (0.5 * freedom * kt, 0.5 * freedom * kt * kt);
        // Correlations over 2 / 0.5 steps reduce the number of independent values to a quarter.
        let error = (variance * 4.0 / n as f64).sqrt();
        assert!((mean - expected).abs() < 5.0 * error, "{mean} {expected}");
        assert!((square - mean * mean - variance).abs() < 0.1 * variance);
    }
}
