//! Bulge and halo: an isotropic, tapered Hernquist sphere in the field of the whole galaxy.
//!
//! ρ(r) ∝ (1 − r²/c²)² / (r (r + a)³),  r < c
//!
//! f(E) = 1/(8^{1/2} π²) ∫_0^E d²ρ/dψ² dψ / (E − ψ)^{1/2},   ψ = Φ(c) − Φ
//!
//! This is Eddington's inversion (Binney & Tremaine 2008, eq. 4.46b). The taper takes ρ and dρ/dψ
//! to zero at the cutoff c, so there is no boundary term and f stays finite. dρ/dψ is computed in
//! closed form at the nodes of the grid and interpolated linearly in ψ. The integral is then a sum
//! of square roots.

use std::f64::consts::PI;

use super::field::{RadialField, RadialGrid};
use crate::ic::speed::SpeedSampler;
use crate::ic::{IcError, MAX_ATTEMPTS, hernquist, scaled, stream};
use crate::rng::Draws;

/// A tapered Hernquist sphere.
pub struct Spheroid {
    scale_radius: f64,
    /// Cutoff c, where the density ends.
    cutoff: f64,
    /// Mass of the Hernquist sphere before the taper.
    hernquist_mass: f64,
}

impl Spheroid {
    /// Creates a sphere of `mass` that ends at `cutoff`.
    pub fn new(mass: f64, scale_radius: f64, cutoff: f64, grid: &RadialGrid) -> Self {
        let unit = Self { scale_radius, cutoff, hernquist_mass: 1.0 };
        let tapered_mass: f64 = unit.layer_masses(grid).iter().sum();
        Self { hernquist_mass: mass / tapered_mass, ..unit }
    }

    /// Returns the mass in each layer of the grid.
    pub fn layer_masses(&self, grid: &RadialGrid) -> Vec<f64> {
        let untapered =
            grid.interval_masses(|r| self.hernquist_mass * hernquist::mass_fraction(r / self.scale_radius));
        grid.interval_centres().zip(untapered).map(|(r, mass)| mass * self.taper(r)).collect()
    }

    /// Factor of the taper, from 1 at the centre to 0 at the cutoff.
    fn taper(&self, r: f64) -> f64 {
        let x = (r / self.cutoff).min(1.0);
        (1.0 - x * x) * (1.0 - x * x)
    }

    /// Density gradient dρ/dr.
    fn density_gradient(&self, r: f64) -> f64 {
        let (a, x) = (self.scale_radius, (r / self.cutoff).min(1.0));
        let r_plus_a_cubed = (r + a) * (r + a) * (r + a);
        let density = self.hernquist_mass * a / (2.0 * PI * r * r_plus_a_cubed);
        let taper_gradient = -4.0 * x * (1.0 - x * x) / self.cutoff;
        density * (taper_gradient - self.taper(r) * (1.0 / r + 3.0 / (r + a)))
    }

    /// Returns E and f(E) at the nodes inside the cutoff, from the cutoff (E = 0) to the centre.
    pub fn distribution_function(&self, grid: &RadialGrid, field: &RadialField) -> (Vec<f64>, Vec<f64>) {
        let edge = grid.radius.partition_point(|&r| r < self.cutoff).min(grid.radius.len() - 1);
        let nodes: Vec<usize> = (0..=edge).rev().collect();
        let psi: Vec<f64> = nodes.iter().map(|&k| field.potential[edge] - field.potential[k]).collect();
        let slope: Vec<f64> =
            nodes.iter().map(|&k| -self.density_gradient(grid.radius[k]) / field.gradient[k]).collect();
        let f = |j: usize| {
            let part = |k: usize| {
                let second = (slope[k + 1] - slope[k]) / (psi[k + 1] - psi[k]);
                second * 2.0 * ((psi[j] - psi[k]).sqrt() - (psi[j] - psi[k + 1]).sqrt())
            };
            // A negative f means that no isotropic equilibrium has this density. It is replaced by
            // 0.
            ((0..j).map(part).sum::<f64>() / (8f64.sqrt() * PI * PI)).max(0.0)
        };
        let f = (0..psi.len()).map(f).collect();
        (psi, f)
    }

    /// Returns a sampler of bodies in equilibrium with `field`.
    pub fn body_sampler<'a>(
        &'a self,
        grid: &RadialGrid,
        field: &'a RadialField<'a>,
    ) -> SpheroidSampler<'a, impl Fn(f64) -> f64> {
        let (energy, f) = self.distribution_function(grid, field);
        let nodes = energy.clone();
        let interpolated = move |e: f64| {
            let upper = nodes.partition_point(|&node| node < e).clamp(1, nodes.len() - 1);
            let fraction = (e - nodes[upper - 1]) / (nodes[upper] - nodes[upper - 1]);
            f[upper - 1] + fraction.clamp(0.0, 1.0) * (f[upper] - f[upper - 1])
        };
        SpheroidSampler { spheroid: self, field, speeds: SpeedSampler::new(interpolated, energy) }
    }
}

/// Sampler of the bodies of a spheroid.
pub struct SpheroidSampler<'a, F> {
    spheroid: &'a Spheroid,
    field: &'a RadialField<'a>,
    speeds: SpeedSampler<F>,
}

impl<F: Fn(f64) -> f64> SpheroidSampler<'_, F> {
    /// Draws position and velocity of body `index`.
    pub fn draw_body(&self, seed: u64, stream: u32, index: u64) -> Result<([f64; 3], [f64; 3]), IcError> {
        let no_sample = |quantity| IcError::NoSample { component: component_name(stream), index, quantity };
        let Spheroid { scale_radius, cutoff, .. } = *self.spheroid;
        let mut draws = Draws::new(seed, stream, index);
        let radius = (0..MAX_ATTEMPTS).find_map(|_| {
            let r = scale_radius * hernquist::radius_enclosing(draws.uniform(), cutoff / scale_radius);
            (draws.uniform() < self.spheroid.taper(r)).then_some(r)
        });
        let r = radius.ok_or(no_sample("radii"))?;
        let psi = self.field.potential_at(cutoff) - self.field.potential_at(r);
        let position = scaled(draws.direction(), r);
        let direction = draws.direction();
        let speed = self.speeds.draw_speed(psi, &mut draws).ok_or(no_sample("speeds"))?;
        Ok((position, scaled(direction, speed)))
    }
}

/// Name of the component that uses this stream of random numbers.
fn component_name(stream: u32) -> &'static str {
    if stream == stream::BULGE { "bulge" } else { "halo" }
}
