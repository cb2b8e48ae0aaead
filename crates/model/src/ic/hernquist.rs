//! The Hernquist sphere: an elliptical galaxy, a bulge or a halo, with a cusp.
//!
//! ρ(r) = M a / (2π r (r + a)³),   M(r) = M r² / (r + a)²,   Φ(r) = −G M / (r + a)
//!
//! The isotropic distribution function (Hernquist 1990, ApJ 356, 359, eq. 17), with q² = −E a / (G M):
//!
//! f ∝ (1 − q²)^{−5/2} [3 asin q + q (1 − q²)^{1/2} (1 − 2q²) (8q⁴ − 8q² − 3)]
//!
//! Bodies lie within the cutoff and have the mass asked for; the sphere that they are cut from has that
//! mass over c²/(c + 1)², which is what the speeds are drawn for, so the inner parts are in equilibrium
//! whatever the cutoff.

use super::speed::SpeedSampler;
use super::{IcError, centre_by_far_bodies, require_bodies, require_positive, scaled, stream};
use crate::rng::Draws;
use crate::{Particle, Particles, Species};

/// Energies tabulated for the bound of the rejection, at radii from this one (in scale radii) outwards.
const INNERMOST_NODE: f64 = 1e-4;
const NODES: u32 = 300;

/// A Hernquist sphere.
#[derive(Clone, Debug, PartialEq)]
pub struct Hernquist {
    /// How many bodies.
    pub n: usize,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Mass of all bodies.
    pub mass: f64,
    /// The scale radius a; half the mass lies within 2.41 a.
    pub scale_radius: f64,
    /// Largest radius, in scale radii.
    pub cutoff: f64,
}

impl Default for Hernquist {
    /// The cutoff leaves out 0.2% of the mass.
    fn default() -> Self {
        Self { n: 1000, seed: 1, mass: 1.0, scale_radius: 1.0, cutoff: 1000.0 }
    }
}

impl Hernquist {
    /// Samples the bodies.
    pub fn generate(&self, g: f64) -> Result<Particles, IcError> {
        require_bodies("n", self.n)?;
        require_positive("mass", self.mass)?;
        require_positive("scale_radius", self.scale_radius)?;
        require_positive("cutoff", self.cutoff)?;
        require_positive("g", g)?;
        let speed_unit = (g * self.mass / mass_fraction(self.cutoff) / self.scale_radius).sqrt();
        let speeds = SpeedSampler::new(distribution, node_energies(self.cutoff));
        let mut bodies = Particles::with_capacity(self.n);
        for id in 0..self.n as u64 {
            let mut draws = Draws::new(self.seed, stream::SPHERE, id);
            let r = radius(draws.uniform(), self.cutoff);
            bodies.push(Particle {
                position: scaled(draws.direction(), self.scale_radius * r),
                velocity: scaled(draws.direction(), speed_unit * speeds.draw(1.0 / (1.0 + r), &mut draws)),
                mass: self.mass / self.n as f64,
                id,
                species: Species::Halo,
            });
        }
        centre_by_far_bodies(&mut bodies);
        Ok(bodies)
    }
}

/// M(r)/M, r in scale radii.
pub(super) fn mass_fraction(r: f64) -> f64 {
    let root = r / (r + 1.0);
    root * root
}

/// The radius, in scale radii, within which lies the `share` of the mass inside `cutoff`.
pub(super) fn radius(share: f64, cutoff: f64) -> f64 {
    let root = share.sqrt() * cutoff / (cutoff + 1.0);
    root / (1.0 - root)
}

/// f(E) up to a constant; `energy` is −E a / (G M), in 0..1.
fn distribution(energy: f64) -> f64 {
    let q2 = energy;
    let (q, rest) = (q2.sqrt(), 1.0 - q2);
    let bracket = 3.0 * libm::asin(q) + q * rest.sqrt() * (1.0 - 2.0 * q2) * (8.0 * q2 * q2 - 8.0 * q2 - 3.0);
    bracket / (rest * rest * rest.sqrt())
}

/// Energies at rest from the centre (last) out to the cutoff (first).
fn node_energies(cutoff: f64) -> Vec<f64> {
    let step = libm::log((cutoff / INNERMOST_NODE).max(2.0)) / f64::from(NODES);
    (0..=NODES).map(|k| 1.0 / (1.0 + cutoff * libm::exp(-step * f64::from(k)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ic::testing::{assert_well_formed, hash, virial_ratio};

    /// Kolmogorov-Smirnov: the largest distance of the cumulative mass stays below 1.95 / sqrt(n) (0.1%).
    #[test]
    fn mass_follows_the_profile() {
        let model = Hernquist { n: 20_000, scale_radius: 2.5, ..Hernquist::default() };
        let bodies = model.generate(1.0).unwrap();
        assert_well_formed(&bodies);
        let mut r: Vec<f64> =
            bodies.position.iter().map(|[x, y, z]| (x * x + y * y + z * z).sqrt()).collect();
        r.sort_by(f64::total_cmp);
        let n = r.len() as f64;
        let gap = |(i, r): (usize, &f64)| {
            let expected = mass_fraction(r / 2.5) / mass_fraction(model.cutoff);
            (expected - i as f64 / n).abs().max((expected - (i + 1) as f64 / n).abs())
        };
        let largest = r.iter().enumerate().map(gap).fold(0.0, f64::max);
        assert!(largest < 1.95 / n.sqrt(), "{largest}");
    }

    /// The radial dispersion about r = a is the one of the isotropic sphere (Hernquist 1990, eq. 10).
    #[test]
    fn dispersion_and_virial_ratio() {
        let n = 20_000;
        let bodies = Hernquist { n, ..Hernquist::default() }.generate(1.0).unwrap();
        let (mut sum, mut count) = (0.0, 0.0);
        for body in bodies.iter() {
            let [x, y, z] = body.position;
            if (0.9..1.1).contains(&(x * x + y * y + z * z).sqrt()) {
                sum += body.velocity.iter().map(|v| v * v).sum::<f64>() / 3.0;
                count += 1.0;
            }
        }
        // σ² = r (1 + r)³ ln(1 + 1/r) − r/(1 + r) (25 + 52 r + 42 r² + 12 r³) / 12, in G M / a.
        let expected = 8.0 * 2f64.ln() - 131.0 / 24.0;
        assert!(
            (sum / count / expected - 1.0).abs() < 4.0 * (2.0f64 / 3.0 / count).sqrt(),
            "{} {expected}",
            sum / count
        );
        let ratio = virial_ratio(&bodies, 1.0, 0.0);
        assert!((ratio - 1.0).abs() < 4.0 / (n as f64).sqrt(), "virial ratio {ratio}");
    }

    #[test]
    fn same_seed_same_bits() {
        let bodies = Hernquist { n: 64, ..Hernquist::default() }.generate(1.0).unwrap();
        assert_eq!(hash(&bodies), 0xb028_0e4f_7d92_825c);
    }
}
