//! The disc: Σ(R) = M / (2π R_d²) exp(−R/R_d), with a vertical profile sech²(z/z_0).
//!
//! Rotation. With k in units of 1/R_d and x = R/R_d, the disc contributes to the circular speed
//!
//! v²(R) = (G M / R_d) x ∫ k (1 + k²)^{−3/2} T(k) J_1(k x) dk
//!
//! (Binney & Tremaine 2008, §2.6.2). T = ⟨exp(−k (d² + eps²)^{1/2})⟩ is the mean over the vertical
//! distances d of two bodies of the disc. It accounts for thickness and softening.
//!
//! Dispersions (Hernquist 1993, ApJS 86, 389, §2.2.3):
//!
//! σ_R² ∝ exp(−R/R_d), scaled so that the smallest Q = σ_R κ / (3.36 G Σ) is the requested one
//! σ_φ² = σ_R² κ² / (4 Ω²)
//! ⟨v_φ⟩² = v_c² + σ_R² (1 − κ² / (4 Ω²) − 2 R/R_d)
//! σ_z² = π G Σ z_0 + ν² ⟨z²⟩
//!
//! The last line is the vertical virial theorem, with ν from bulge and halo and ⟨z²⟩ = π² z_0² /
//! 12.

use std::f64::consts::{PI, TAU};

use super::Galaxy;
use super::field::{RadialField, RadialGrid};
use crate::ic::{IcError, MAX_ATTEMPTS, stream};
use crate::rng::Draws;

/// Radius where the disc ends, in scale lengths. 0.05% of the mass of an infinite disc lies beyond.
pub const CUTOFF: f64 = 10.0;
/// Number of radii at which velocity moments are computed.
const RINGS: usize = 200;
/// Number of heights, at equal steps of mass, that sample the vertical profile.
const HEIGHTS: u32 = 24;
/// Step of the wave number k in the integral of the rotation curve: 12 steps per oscillation of J_1
/// at the end of the disc.
const WAVE_STEP: f64 = 0.05;
/// Number of wave numbers in that integral.
const WAVES: u32 = 2000;
/// Largest speed of a disc body, as a fraction of the escape speed.
const MAX_ESCAPE_FRACTION: f64 = 0.95;

/// Parameters of the disc, and G.
pub struct Disc {
    g: f64,
    mass: f64,
    scale_length: f64,
    scale_height: f64,
    toomre_q: f64,
    eps: f64,
}

/// Moments of the velocities at one radius.
#[derive(Clone, Copy, Debug)]
pub struct DiscRing {
    /// Circular speed squared, v_c².
    pub circular_squared: f64,
    /// κ² / (4 Ω²), between 1/4 (point mass) and 1 (uniform density).
    pub epicyclic_ratio: f64,
    /// Mean rotation ⟨v_φ⟩.
    pub rotation: f64,
    /// Dispersions in R, φ and z.
    pub sigma: [f64; 3],
}

impl Disc {
    /// Takes the disc parameters of `galaxy`.
    pub fn new(galaxy: &Galaxy, g: f64) -> Self {
        Self {
            g,
            mass: galaxy.disc_mass,
            scale_length: galaxy.disc_scale_length,
            scale_height: galaxy.disc_scale_height,
            toomre_q: galaxy.toomre_q,
            eps: galaxy.eps,
        }
    }

    /// Returns the mass in each layer of the grid, by cylindrical radius. The spheroids see the
    /// disc as these spherical layers.
    pub fn layer_masses(&self, grid: &RadialGrid) -> Vec<f64> {
        grid.interval_masses(|r| {
            let x = r / self.scale_length;
            self.mass * (1.0 - (1.0 + x) * libm::exp(-x))
        })
    }

    /// Surface density Σ(R).
    pub fn surface_density(&self, radius: f64) -> f64 {
        let central = self.mass / (TAU * self.scale_length * self.scale_length);
        central * libm::exp(-radius / self.scale_length)
    }

    /// Toomre's Q of `ring`, which is at `radius`.
    pub fn toomre_q(&self, radius: f64, ring: &DiscRing) -> f64 {
        let kappa = 2.0 * (ring.epicyclic_ratio * ring.circular_squared).sqrt() / radius;
        ring.sigma[0] * kappa / (3.36 * self.g * self.surface_density(radius))
    }

    /// Radius of ring `k`. Rings have equal steps in R^{1/2}, so they are closer together at the
    /// centre.
    pub fn ring_radius(&self, k: usize) -> f64 {
        let fraction = (k as f64 + 0.5) / RINGS as f64;
        CUTOFF * self.scale_length * fraction * fraction
    }

    /// Returns the velocity moments of each ring in the field of the disc and of `spheroids`.
    pub fn ring_moments(&self, spheroids: &RadialField) -> Vec<DiscRing> {
        let distances = self.vertical_distances();
        let mean_square_height = PI * PI / 12.0 * self.scale_height * self.scale_height;
        let radius: Vec<f64> = (0..RINGS).map(|k| self.ring_radius(k)).collect();
        // Evaluated at the root-mean-square height of a body.
        let frequency_squared: Vec<f64> = radius
            .iter()
            .map(|r| spheroids.angular_speed_squared((r * r + mean_square_height).sqrt()))
            .collect();
        let disc_part = self.disc_circular_squared(&radius, &distances);
        let circular_squared: Vec<f64> =
            (0..RINGS).map(|k| disc_part[k] + radius[k] * radius[k] * frequency_squared[k]).collect();
        let ratio = epicyclic_ratios(&radius, &circular_squared);

        // Q is proportional to σ_R. Its smallest value for a trial dispersion gives the scale
        // factor to the requested Q.
        let central_sigma = (self.g * self.mass / self.scale_length).sqrt();
        let softened_fraction = self.softened_fraction(&distances);
        let mut rings: Vec<DiscRing> = (0..RINGS)
            .map(|k| {
                let sheet =
                    PI * self.g * self.surface_density(radius[k]) * self.scale_height * softened_fraction;
                let sigma_r = central_sigma * libm::exp(-0.5 * radius[k] / self.scale_length);
                let sigma_z = (sheet + frequency_squared[k] * mean_square_height).sqrt();
                DiscRing {
                    circular_squared: circular_squared[k],
                    epicyclic_ratio: ratio[k],
                    rotation: circular_squared[k].sqrt(),
                    sigma: [sigma_r, sigma_r * ratio[k].sqrt(), sigma_z],
                }
            })
            .collect();
        let q = radius.iter().zip(&rings).map(|(&r, ring)| self.toomre_q(r, ring));
        let sigma_scale = self.toomre_q / q.fold(f64::INFINITY, f64::min);
        for (r, ring) in radius.iter().zip(&mut rings) {
            let drift_factor = 1.0 - ring.epicyclic_ratio - 2.0 * r / self.scale_length;
            let requested = sigma_scale * sigma_scale * ring.sigma[0] * ring.sigma[0];
            // σ_R² is limited to the value where pressure alone supports the ring and rotation is
            // zero.
            let radial = if drift_factor < 0.0 {
                requested.min(-ring.circular_squared / drift_factor)
            } else {
                requested
            };
            ring.rotation =
                (ring.circular_squared + radial * drift_factor).max(0.0).min(ring.circular_squared).sqrt();
            ring.sigma[0] = radial.sqrt();
            ring.sigma[1] = (radial * ring.epicyclic_ratio).sqrt();
        }
        rings
    }

    /// Draws position and velocity of body `index`.
    pub fn draw_body(
        &self,
        rings: &[DiscRing],
        field: &RadialField,
        seed: u64,
        index: u64,
    ) -> Result<([f64; 3], [f64; 3]), IcError> {
        let mut draws = Draws::new(seed, stream::DISC, index);
        // The sum of two exponential variates has density x exp(−x).
        let x = loop {
            let x = -libm::log(draws.uniform() * draws.uniform());
            if x < CUTOFF {
                break x;
            }
        };
        let (radius, azimuth) = (x * self.scale_length, draws.uniform_in(0.0, TAU));
        let z = self.height_enclosing(draws.uniform());
        let (sin, cos) = (libm::sin(azimuth), libm::cos(azimuth));
        let escape_squared = -2.0 * field.potential_at((radius * radius + z * z).sqrt());
        let (rotation, sigma) = self.moments_at(rings, radius);
        // The limit keeps the rejection below fast. It only affects discs much hotter than real
        // ones, where nearly all drawn velocities would be unbound.
        let [sigma_r, sigma_phi, sigma_z] = sigma.map(|sigma| sigma.min((escape_squared / 6.0).sqrt()));
        let velocity = (0..MAX_ATTEMPTS).find_map(|_| {
            let v_r = sigma_r * draws.normal();
            let v_phi = rotation + sigma_phi * draws.normal();
            let v_z = sigma_z * draws.normal();
            let is_bound = v_r * v_r + v_phi * v_phi + v_z * v_z
                < MAX_ESCAPE_FRACTION * MAX_ESCAPE_FRACTION * escape_squared;
            is_bound.then_some([v_r * cos - v_phi * sin, v_r * sin + v_phi * cos, v_z])
        });
        let velocity =
            velocity.ok_or(IcError::NoSample { component: "disc", index, quantity: "velocities" })?;
        Ok(([radius * cos, radius * sin, z], velocity))
    }

    /// Returns mean rotation and dispersions at `radius`, interpolated between rings.
    fn moments_at(&self, rings: &[DiscRing], radius: f64) -> (f64, [f64; 3]) {
        let steps = (radius / (CUTOFF * self.scale_length)).sqrt() * RINGS as f64 - 0.5;
        let steps = steps.clamp(0.0, (RINGS - 1) as f64);
        let inner = (steps as usize).min(RINGS - 2);
        let fraction = steps - inner as f64;
        let interpolated = |moment: fn(&DiscRing) -> f64| {
            moment(&rings[inner]) + fraction * (moment(&rings[inner + 1]) - moment(&rings[inner]))
        };
        (
            interpolated(|ring| ring.rotation),
            [
                interpolated(|ring| ring.sigma[0]),
                interpolated(|ring| ring.sigma[1]),
                interpolated(|ring| ring.sigma[2]),
            ],
        )
    }

    /// Returns the height below which the `fraction` of the mass of a column lies:
    /// z_0 artanh(2 fraction − 1).
    fn height_enclosing(&self, fraction: f64) -> f64 {
        0.5 * self.scale_height * libm::log(fraction / (1.0 - fraction))
    }

    /// Returns equally likely vertical distances between two bodies.
    fn vertical_distances(&self) -> Vec<f64> {
        let heights: Vec<f64> =
            (0..HEIGHTS).map(|k| self.height_enclosing((f64::from(k) + 0.5) / f64::from(HEIGHTS))).collect();
        heights.iter().flat_map(|z| heights.iter().map(move |other| (z - other).abs())).collect()
    }

    /// Returns the fraction of the vertical self-attraction of the disc that remains with
    /// softening: the virial ⟨d² / (d² + eps²)^{1/2}⟩ divided by its value for eps = 0.
    fn softened_fraction(&self, distances: &[f64]) -> f64 {
        let softened = |d: &f64| if *d > 0.0 { d * d / (d * d + self.eps * self.eps).sqrt() } else { 0.0 };
        distances.iter().map(softened).sum::<f64>() / distances.iter().sum::<f64>()
    }

    /// Returns the contribution of the disc to v_c² at each `radius`.
    fn disc_circular_squared(&self, radius: &[f64], distances: &[f64]) -> Vec<f64> {
        let unit = self.scale_length;
        let separations: Vec<f64> =
            distances.iter().map(|d| (d * d + self.eps * self.eps).sqrt() / unit).collect();
        let weights: Vec<(f64, f64)> = (1..=WAVES)
            .map(|i| {
                let k = WAVE_STEP * f64::from(i);
                let thickness =
                    separations.iter().map(|s| libm::exp(-k * s)).sum::<f64>() / separations.len() as f64;
                let falloff = 1.0 + k * k;
                (k, WAVE_STEP * k * thickness / (falloff * falloff.sqrt()))
            })
            .collect();
        let at = |r: &f64| {
            let x = r / unit;
            let integral: f64 = weights.iter().map(|(k, weight)| weight * libm::j1(k * x)).sum();
            // The attraction is inward everywhere. A negative value is an error of truncating the
            // integral.
            (self.g * self.mass / unit * x * integral).max(0.0)
        };
        radius.iter().map(at).collect()
    }
}

/// Returns κ² / (4 Ω²) = ½ d(R² v_c²)/d(R²) / v_c² at each radius, by central differences.
fn epicyclic_ratios(radius: &[f64], circular_squared: &[f64]) -> Vec<f64> {
    let last = radius.len() - 1;
    let square = |k: usize| radius[k] * radius[k];
    let ratio = |k: usize| {
        let (inner, outer) = (k.saturating_sub(1), (k + 1).min(last));
        let rise = square(outer) * circular_squared[outer] - square(inner) * circular_squared[inner];
        0.5 * rise / (square(outer) - square(inner)) / circular_squared[k]
    };
    // A density that falls outwards gives values in this range. Finite differences can leave it.
    (0..=last).map(|k| ratio(k).clamp(0.25, 1.0)).collect()
}
