//! Ensembles: constant energy, and two thermostats.
//!
//! - Langevin dynamics with the splitting BAOAB (Leimkuhler & Matthews 2013): half a kick, half a
//!   drift, v ← c v + √((1 − c²) kT / m) ξ with c = exp(−γ dt), half a drift, half a kick. The
//!   normal numbers ξ are functions of seed, step and identifier of the particle.
//! - Stochastic velocity rescaling (Bussi, Donadio & Parrinello 2007): velocity Verlet, after which
//!   all velocities are multiplied by α, such that the kinetic energy has its canonical
//!   distribution. With K̄ = N_f kT / 2 and c = exp(−dt / τ),
//!   α² = c + (1 − c) K̄ / (N_f K) (R₁² + Σ R²) + 2 R₁ √(c (1 − c) K̄ / (N_f K)).

use orrery_model::rng::{Draws, philox4x32_10};
use serde::{Deserialize, Serialize};

/// Ensemble of a fluid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
///
/// `noise.cu` has the same operations, each of which is rounded once. So the bits are the same on
/// every device, which those of the functions of a library are not.
#[inline(always)]
pub fn noise(seed: u64, step: u64, id: u64) -> [f64; 3] {
    let counter = [step as u32, (step >> 32) as u32, id as u32, (id >> 32) as u32];
    let bits = philox4x32_10(counter, [seed as u32 ^ NOISE_KEY, (seed >> 32) as u32]);
    let radius = (-2.0 * log_of_unit(bits[0])).sqrt();
    let [cosine, sine] = cosine_and_sine(bits[1]);
    let second_radius = (-2.0 * log_of_unit(bits[2])).sqrt();
    [radius * cosine, radius * sine, second_radius * cosine_and_sine(bits[3])[0]]
}

/// Returns Σ cₖ xᵏ for coefficients from the highest power down.
#[inline(always)]
fn polynomial<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[0];
    for &coefficient in &coefficients[1..] {
        sum = sum.mul_add(x, coefficient);
    }
    sum
}

/// Returns log((word + ½) / 2³²), as e log 2 + log f with √½ < f ≤ √2. With s = (f − 1) / (f + 1),
/// log f = 2 (s + s³ / 3 + s⁵ / 5 + …), and s² is below 0.03.
#[inline(always)]
fn log_of_unit(word: u32) -> f64 {
    let odd = 2 * u64::from(word) + 1;
    let shift = odd.leading_zeros();
    let mut fraction = (odd << shift) as f64 * (1.0 / 9_223_372_036_854_775_808.0);
    let mut exponent = 30 - shift as i32;
    if fraction > std::f64::consts::SQRT_2 {
        fraction *= 0.5;
        exponent += 1;
    }
    let s = (fraction - 1.0) / (fraction + 1.0);
    let s2 = s * s;
    let sum = polynomial(
        s2,
        [
            1.0 / 21.0,
            1.0 / 19.0,
            1.0 / 17.0,
            1.0 / 15.0,
            1.0 / 13.0,
            1.0 / 11.0,
            1.0 / 9.0,
            1.0 / 7.0,
            1.0 / 5.0,
            1.0 / 3.0,
        ],
    );
    let twice = 2.0 * s;
    f64::from(exponent).mul_add(std::f64::consts::LN_2, twice.mul_add(s2 * sum, twice))
}

/// Returns cosine and sine of 2π (word + ½) / 2³²: Taylor series around the nearest quarter of a
/// turn.
#[inline(always)]
fn cosine_and_sine(word: u32) -> [f64; 2] {
    let odd = 2 * u64::from(word) + 1;
    // A quarter has 2³¹ units.
    let quarter = (odd + (1 << 30)) >> 31;
    let rest = odd as i64 - (quarter << 31) as i64;
    let x = rest as f64 * (std::f64::consts::PI / 4_294_967_296.0);
    let x2 = x * x;
    let sum = polynomial(
        x2,
        [
            -1.0 / 1_307_674_368_000.0,
            1.0 / 6_227_020_800.0,
            -1.0 / 39_916_800.0,
            1.0 / 362_880.0,
            -1.0 / 5040.0,
            1.0 / 120.0,
            -1.0 / 6.0,
        ],
    );
    let s = x.mul_add(x2 * sum, x);
    let c = polynomial(
        x2,
        [
            1.0 / 20_922_789_888_000.0,
            -1.0 / 87_178_291_200.0,
            1.0 / 479_001_600.0,
            -1.0 / 3_628_800.0,
            1.0 / 40_320.0,
            -1.0 / 720.0,
            1.0 / 24.0,
            -0.5,
            1.0,
        ],
    );
    let [first, second] = if quarter & 1 == 1 { [s, c] } else { [c, s] };
    let turn = quarter & 3;
    let cosine = if turn == 1 || turn == 2 { -first } else { first };
    let sine = if turn == 2 || turn == 3 { -second } else { second };
    [cosine, sine]
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
    if freedom < 1.0 {
        return 1.0;
    }
    let decay = libm::exp(-steps_per_time);
    rescaling_factor_with(kinetic, kt, decay, rescaling_numbers(freedom, seed, step))
}

/// Returns the random numbers of a step: R₁, and Σ R² over the other degrees of freedom. They do
/// not depend on the state.
pub fn rescaling_numbers(freedom: f64, seed: u64, step: u64) -> [f64; 2] {
    let mut draws = Draws::new(seed, RESCALING_STREAM, step);
    let first = draws.normal();
    [first, 2.0 * gamma(0.5 * (freedom - 1.0), &mut draws)]
}

/// Returns the factor α for the random numbers of a step. `step.cu` has the same operations.
fn rescaling_factor_with(kinetic: f64, kt: f64, decay: f64, [first, others]: [f64; 2]) -> f64 {
    if kinetic <= 0.0 {
        return 1.0;
    }
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

    /// The library has an error of less than 1 ulp, and its angle one of 2π 2⁻⁵³. The logarithm
    /// near 1 has a small relative error too.
    #[test]
    fn logarithms_and_angles_agree_with_the_library() {
        let mut words: Vec<u32> = (0..20_000).map(|k| philox4x32_10([k, 0, 0, 0], [1, 2])[0]).collect();
        words.extend([
            0,
            1,
            2,
            u32::MAX,
            u32::MAX - 1,
            1 << 31,
            (1 << 31) - 1,
            1 << 30,
            (1 << 29) - 1,
            3 << 29,
        ]);
        for word in words {
            let unit = (f64::from(word) + 0.5) * 2f64.powi(-32);
            let (found, expected) = (log_of_unit(word), libm::log(unit));
            assert!((found - expected).abs() <= 1e-15 * expected.abs(), "{word}: {found} {expected}");
            let angle = std::f64::consts::TAU * unit;
            let [cosine, sine] = cosine_and_sine(word);
            assert!((cosine - libm::cos(angle)).abs() < 1e-15, "{word}");
            assert!((sine - libm::sin(angle)).abs() < 1e-15, "{word}");
        }
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
