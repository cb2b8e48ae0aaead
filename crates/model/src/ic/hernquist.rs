//! The Hernquist sphere, a model with a central cusp for elliptical galaxies, bulges and haloes.
//!
//! ρ(r) = M a / (2π r (r + a)³),   M(r) = M r² / (r + a)²,   Φ(r) = −G M / (r + a)
//!
//! Isotropic distribution function (Hernquist 1990, ApJ 356, 359, eq. 17), with q² = −E a / (G M):
//!
//! f ∝ (1 − q²)^{−5/2} [3 asin q + q (1 − q²)^{1/2} (1 − 2q²) (8q⁴ − 8q² − 3)]
//!
//! Bodies lie within the cutoff c and have the requested total mass. They are cut from a sphere
//! whose mass is larger by (c + 1)²/c². The speeds are drawn for that sphere, so the inner parts
//! are in equilibrium for any cutoff. Without the bodies outside, nothing balances the pressure at
//! the cutoff, and the sphere expands: by the Jeans equation
//!
//! 2 K / |W| = 1 + 4π c³ ρ(c) σ²(c) / |W| = 1 + 12 (1 + c) σ²(c) / (c (c + 4))
//!
//! with the radial dispersion σ² of eq. 10. That is 1.02 for c = 10 and 1.42 for c = 1.

use std::sync::atomic::AtomicBool;

use super::speed::SpeedSampler;
use super::{
    IcError, check_stop, move_to_rest_frame_by_distant_bodies, require_bodies, require_positive,
    require_positive_between, scaled, stream,
};
use crate::rng::Draws;
use crate::{Particle, Particles, Species};

/// Smallest radius, in scale radii, at which the bound of the rejection sampling is tabulated.
const INNERMOST_NODE: f64 = 1e-4;
/// Number of intervals of that table.
const NODES: u32 = 300;

/// Smallest and largest cutoff. Below it f diverges: bodies are bound by almost the whole central
/// potential. Above it f of the outermost bodies is lost to cancellation.
const CUTOFFS: [f64; 2] = [1e-3, 1e6];

/// A Hernquist sphere.
#[derive(Clone, Debug, PartialEq)]
pub struct Hernquist {
    /// Number of bodies.
    pub n: usize,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Total mass.
    pub mass: f64,
    /// Scale radius a. Half of the mass lies within 2.41 a.
    pub scale_radius: f64,
    /// Largest radius, in scale radii.
    pub cutoff: f64,
}

impl Default for Hernquist {
    /// The cutoff excludes 0.2% of the mass.
    fn default() -> Self {
        Self { n: 1000, seed: 1, mass: 1.0, scale_radius: 1.0, cutoff: 1000.0 }
    }
}

impl Hernquist {
    /// Returns 2 K / |W|, which is 1 in equilibrium. It is larger for a small cutoff.
    pub fn virial_ratio(&self) -> f64 {
        let c = self.cutoff;
        // Above this the dispersion is the difference of large numbers, and near 0.2 / c.
        let dispersion2 = if c > 100.0 { 0.2 / c } else { radial_dispersion2(c) };
        1.0 + 12.0 * (1.0 + c) * dispersion2 / (c * (c + 4.0))
    }

    /// Samples the bodies.
    pub fn generate(&self, g: f64) -> Result<Particles, IcError> {
        self.generate_until(g, &AtomicBool::new(false))
    }

    /// Does the same as `generate`. Returns [`IcError::Stopped`] soon after `stop` is set.
    pub fn generate_until(&self, g: f64, stop: &AtomicBool) -> Result<Particles, IcError> {
        require_bodies("n", self.n)?;
        require_positive("mass", self.mass)?;
        require_positive("scale_radius", self.scale_radius)?;
        require_positive_between("cutoff", self.cutoff, CUTOFFS)?;
        require_positive("g", g)?;
        let speed_unit = (g * self.mass / mass_fraction(self.cutoff) / self.scale_radius).sqrt();
        let speeds = SpeedSampler::new(distribution_function, node_energies(self.cutoff));
        let mut bodies = Particles::with_capacity(self.n);
        for id in 0..self.n as u64 {
            check_stop(stop)?;
            let mut draws = Draws::new(self.seed, stream::SPHERE, id);
            let r = radius_enclosing(draws.uniform(), self.cutoff);
            let position = scaled(draws.direction(), self.scale_radius * r);
            let direction = draws.direction();
            let speed = speeds.draw_speed(1.0 / (1.0 + r), &mut draws).ok_or(IcError::NoSample {
                component: "hernquist",
                index: id,
                quantity: "speeds",
            })?;
            bodies.push(Particle {
                position,
                velocity: scaled(direction, speed_unit * speed),
                mass: self.mass / self.n as f64,
                id,
                species: Species::Halo,
            });
        }
        move_to_rest_frame_by_distant_bodies(&mut bodies);
        Ok(bodies)
    }
}

/// Returns σ² a / (G M) of the radial velocities at r, in scale radii (Hernquist 1990, eq. 10).
fn radial_dispersion2(r: f64) -> f64 {
    let q = r + 1.0;
    let polynomial = 25.0 + r * (52.0 + r * (42.0 + r * 12.0));
    r * q * q * q * libm::log(q / r) - r / (12.0 * q) * polynomial
}

/// Returns M(r)/M for r in scale radii.
pub(super) fn mass_fraction(r: f64) -> f64 {
    let sqrt_fraction = r / (r + 1.0);
    sqrt_fraction * sqrt_fraction
}

/// Returns the radius, in scale radii, that encloses the `fraction` of the mass inside `cutoff`.
pub(super) fn radius_enclosing(fraction: f64, cutoff: f64) -> f64 {
    let sqrt_fraction = fraction.sqrt() * cutoff / (cutoff + 1.0);
    sqrt_fraction / (1.0 - sqrt_fraction)
}

/// Returns f(E) up to a constant factor. `energy` is −E a / (G M), in 0..1.
fn distribution_function(energy: f64) -> f64 {
    let q2 = energy;
    let (q, p) = (q2.sqrt(), 1.0 - q2);
    let bracket = 3.0 * libm::asin(q) + q * p.sqrt() * (1.0 - 2.0 * q2) * (8.0 * q2 * q2 - 8.0 * q2 - 3.0);
    bracket / (p * p * p.sqrt())
}

/// Returns the energies of bodies at rest, from the cutoff (first) to the centre (last).
fn node_energies(cutoff: f64) -> Vec<f64> {
    let step = libm::log((cutoff / INNERMOST_NODE).max(2.0)) / f64::from(NODES);
    (0..=NODES).map(|k| 1.0 / (1.0 + cutoff * libm::exp(-step * f64::from(k)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::max_or_nan;
    use crate::ic::testing::{assert_well_formed, hash_bits, virial_ratio};

    /// Kolmogorov-Smirnov test at the 0.1% level: the cumulative mass differs by less than
    /// 1.95 / sqrt(n) from the model.
    #[test]
    fn cumulative_mass_follows_the_profile() {
        let model = Hernquist { n: 20_000, scale_radius: 2.5, ..Hernquist::default() };
        let bodies = model.generate(1.0).unwrap();
        assert_well_formed(&bodies);
        let mut r: Vec<f64> =
            bodies.position.iter().map(|[x, y, z]| (x * x + y * y + z * z).sqrt()).collect();
        r.sort_by(f64::total_cmp);
        let n = r.len() as f64;
        let gap = |(i, r): (usize, &f64)| {
            let expected = mass_fraction(r / 2.5) / mass_fraction(model.cutoff);
            max_or_nan((expected - i as f64 / n).abs(), (expected - (i + 1) as f64 / n).abs())
        };
        let largest = r.iter().enumerate().map(gap).fold(0.0, max_or_nan);
        assert!(largest < 1.95 / n.sqrt(), "{largest}");
    }

    /// A sphere that is cut at a small radius is not in equilibrium.
    #[test]
    fn virial_ratio_of_a_cut_sphere_is_predicted() {
        for (cutoff, expected) in [(1.0, 1.417), (10.0, 1.017), (100.0, 1.0002), (1000.0, 1.0)] {
            let model = Hernquist { n: 3000, cutoff, ..Hernquist::default() };
            let found = model.virial_ratio();
            assert!((found - expected).abs() < 1e-3, "{cutoff}: {found}");
            let measured = virial_ratio(&model.generate(1.0).unwrap(), 1.0, 0.0);
            assert!((measured / found - 1.0).abs() < 4.0 / 3000f64.sqrt(), "{cutoff}: {measured} {found}");
        }
    }

    /// The dispersion at r = a is that of the isotropic sphere (Hernquist 1990, eq. 10).
    #[test]
    fn dispersion_and_virial_ratio_match_the_model() {
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
    fn same_seed_gives_the_same_bits() {
        let bodies = Hernquist { n: 64, ..Hernquist::default() }.generate(1.0).unwrap();
        assert_eq!(hash_bits(&bodies), 0xb028_0e4f_7d92_825c);
    }
}
