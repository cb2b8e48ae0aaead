//! A disc galaxy in equilibrium: exponential disc, Hernquist bulge, Hernquist halo.
//!
//! | component | density | velocities |
//! |---|---|---|
//! | [`disc`] | ∝ exp(−R/R_d) sech²(z/z_0) | Gaussian, moments from Jeans' equations |
//! | bulge, halo ([`spheroid`]) | ∝ 1 / (r (r + a)³), tapered | isotropic, Eddington's inversion |
//!
//! Each component is in equilibrium with the field of all components (after Hernquist 1993, ApJS
//! 86, 389). The field is softened by `eps`, as in the simulation. The spheroids see the disc as
//! its spherical average.
//!
//! Two effects are neglected: the disc flattens the spheroids, and the velocities of the disc are
//! skewed. The galaxy adjusts to them within one or two rotations.

mod disc;
mod field;
mod spheroid;

use std::sync::atomic::AtomicBool;

use super::{
    IcError, check_stop, move_to_rest_frame_by_distant_bodies, require_positive, require_positive_between,
    require_range, require_ratio, stream,
};
use crate::analysis::max_or_nan;
use crate::{Particle, Particles, Species};
use disc::Disc;
use field::{Layers, RadialField, RadialGrid};
use spheroid::Spheroid;

/// Radius where the bulge ends, in its scale radii.
const BULGE_CUTOFF: f64 = 20.0;
/// Innermost radius of the tabulated field, as a fraction of the smallest scale of a component.
const INNERMOST: f64 = 1e-3;

/// Smallest and largest length. The computation contains densities per length, m / r⁴, and G m /
/// r².
pub(super) const LENGTHS: [f64; 2] = [1e-30, 1e30];
/// Smallest and largest mass of a component.
const MASSES: [f64; 2] = [1e-60, 1e60];
/// Range of a scale of one component, in units of the median scale. With the largest differences,
/// one interval of the grid is 9% of its radius.
const SCALE_FACTORS: [f64; 2] = [1e-4, 1e4];
/// Range of the scale height, in scale lengths. A thicker disc has no rotation that is bound.
const HEIGHT_FACTORS: [f64; 2] = [1e-6, 10.0];
/// Range of the cutoff of the halo, in its scale radii.
const HALO_CUTOFFS: [f64; 2] = [1e-2, 1e4];
/// Range of Toomre's Q.
const TOOMRE_Q: [f64; 2] = [1e-12, 1e12];
/// Largest softening, in units of the smallest scale. Beyond it the potential at the centre is
/// constant in f64.
const MAX_SOFTENING_RATIO: f64 = 1e3;

/// A disc galaxy. A component with 0 bodies is absent and its mass is not counted. The disc lies in
/// the x-y plane and rotates counterclockwise seen from +z.
#[derive(Clone, Debug, PartialEq)]
pub struct Galaxy {
    /// Bodies in the disc.
    pub n_disc: usize,
    /// Bodies in the bulge.
    pub n_bulge: usize,
    /// Bodies in the halo.
    pub n_halo: usize,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Mass of the disc.
    pub disc_mass: f64,
    /// Radial scale length R_d.
    pub disc_scale_length: f64,
    /// Vertical scale height z_0.
    pub disc_scale_height: f64,
    /// Mass of the bulge.
    pub bulge_mass: f64,
    /// Scale radius of the bulge.
    pub bulge_scale_radius: f64,
    /// Mass of the halo, all of it within the cutoff.
    pub halo_mass: f64,
    /// Scale radius of the halo.
    pub halo_scale_radius: f64,
    /// Radius where the halo ends, in its scale radii.
    pub halo_cutoff: f64,
    /// Smallest value of Toomre's Q over the disc. Below 1 the disc fragments, at 1.5 it is stable.
    pub toomre_q: f64,
    /// Plummer softening of the simulation, or 0 for none.
    pub eps: f64,
}

impl Default for Galaxy {
    /// A galaxy similar to the Milky Way in galactic units (kpc, 10¹⁰ solar masses, km/s). v_c is
    /// 260 at 8 kpc, where one rotation takes 0.19. The halo is light and ends early, so that its
    /// bodies are not much heavier than those of the disc.
    ///
    /// Measured over five rotations with 60% of these body counts, softening 0.2, steps of 0.001
    /// and direct sums: the half-mass radius of the disc grows from 5.02 to 5.10, and no bar forms.
    /// Shot noise makes the disc 1.5 times as thick inside 8 kpc and twice as thick beyond. More
    /// bodies reduce this heating.
    fn default() -> Self {
        Self {
            n_disc: 10_000,
            n_bulge: 2_500,
            n_halo: 20_000,
            seed: 1,
            disc_mass: 4.0,
            disc_scale_length: 3.0,
            disc_scale_height: 0.4,
            bulge_mass: 1.0,
            bulge_scale_radius: 0.6,
            halo_mass: 24.0,
            halo_scale_radius: 10.0,
            halo_cutoff: 6.0,
            toomre_q: 1.5,
            eps: 0.0,
        }
    }
}

impl Galaxy {
    /// Samples the bodies: disc, then bulge, then halo.
    pub fn generate(&self, g: f64) -> Result<Particles, IcError> {
        self.generate_until(g, &AtomicBool::new(false))
    }

    /// Does the same as `generate`. Returns [`IcError::Stopped`] soon after `stop` is set.
    pub fn generate_until(&self, g: f64, stop: &AtomicBool) -> Result<Particles, IcError> {
        self.check_parameters()?;
        require_positive("g", g)?;
        let grid = self.radial_grid();
        let disc = (self.n_disc > 0).then(|| Disc::new(self, g));
        let bulge = self.bulge_spheroid(&grid);
        let halo = self.halo_spheroid(&grid);
        let mut spheroid_layers = Layers::massless(&grid);
        [&bulge, &halo]
            .into_iter()
            .flatten()
            .for_each(|part| spheroid_layers.add_masses(part.layer_masses(&grid)));
        let mut layers = spheroid_layers.clone();
        disc.iter().for_each(|disc| layers.add_masses(disc.layer_masses(&grid)));
        let field = RadialField::new(&grid, &layers, g, self.eps);

        let mut bodies = Particles::with_capacity(self.n_disc + self.n_bulge + self.n_halo);
        if let Some(disc) = disc {
            let spheroid_field = RadialField::new(&grid, &spheroid_layers, g, self.eps);
            let rings = disc.ring_moments(&spheroid_field);
            let mass = self.disc_mass / self.n_disc as f64;
            append_bodies(&mut bodies, self.n_disc, mass, Species::Disc, |i| {
                check_stop(stop)?;
                disc.draw_body(&rings, &field, self.seed, i)
            })?;
        }
        let spheroids = [
            (bulge, self.n_bulge, self.bulge_mass, stream::BULGE, Species::Bulge),
            (halo, self.n_halo, self.halo_mass, stream::HALO, Species::Halo),
        ];
        for (part, n, mass, stream, species) in spheroids {
            if let Some(part) = part {
                let sampler = part.body_sampler(&grid, &field);
                append_bodies(&mut bodies, n, mass / n as f64, species, |i| {
                    check_stop(stop)?;
                    sampler.draw_body(self.seed, stream, i)
                })?;
            }
        }
        move_to_rest_frame_by_distant_bodies(&mut bodies);
        Ok(bodies)
    }

    /// Total mass of the components that have bodies.
    pub fn total_mass(&self) -> f64 {
        let present = |n: usize, mass: f64| if n > 0 { mass } else { 0.0 };
        present(self.n_disc, self.disc_mass)
            + present(self.n_bulge, self.bulge_mass)
            + present(self.n_halo, self.halo_mass)
    }

    /// Checks that all parameters are in range.
    pub(super) fn check_parameters(&self) -> Result<(), IcError> {
        let n = self.n_disc + self.n_bulge + self.n_halo;
        let sum = "n_disc + n_bulge + n_halo";
        require_range(n > 0, sum, n as f64, format!("{sum} > 0"))?;
        for (n, name, mass) in [
            (self.n_disc, "disc_mass", self.disc_mass),
            (self.n_bulge, "bulge_mass", self.bulge_mass),
            (self.n_halo, "halo_mass", self.halo_mass),
        ] {
            if n > 0 {
                require_positive_between(name, mass, MASSES)?;
            }
        }
        if self.n_disc > 0 {
            require_positive("disc_scale_height", self.disc_scale_height)?;
            require_positive_between("toomre_q", self.toomre_q, TOOMRE_Q)?;
        }
        if self.n_halo > 0 {
            require_positive_between("halo_cutoff", self.halo_cutoff, HALO_CUTOFFS)?;
        }
        self.check_scales()
    }

    /// Checks the lengths and their ratios. The field is tabulated on one grid from the smallest to
    /// the largest, and bodies of one component must be bound in the field of the others.
    fn check_scales(&self) -> Result<(), IcError> {
        let mut scales = vec![
            (self.n_disc, "disc_scale_length", self.disc_scale_length),
            (self.n_bulge, "bulge_scale_radius", self.bulge_scale_radius),
            (self.n_halo, "halo_scale_radius", self.halo_scale_radius),
        ];
        scales.retain(|&(n, ..)| n > 0);
        for &(_, name, scale) in &scales {
            require_positive_between(name, scale, LENGTHS)?;
        }
        scales.sort_by(|a, b| a.2.total_cmp(&b.2));
        // The median is not the one that is far away from the others.
        let (_, median_name, median) = scales[scales.len() / 2];
        for &(_, name, scale) in scales.iter().filter(|scale| scale.1 != median_name) {
            require_ratio(name, scale, SCALE_FACTORS, (median_name, median))?;
        }
        if self.n_disc > 0 {
            let length = ("disc_scale_length", self.disc_scale_length);
            require_ratio("disc_scale_height", self.disc_scale_height, HEIGHT_FACTORS, length)?;
        }
        let (_, smallest_name, smallest) = scales[0];
        require_ratio("eps", self.eps, [0.0, MAX_SOFTENING_RATIO], (smallest_name, smallest))
    }

    fn bulge_spheroid(&self, grid: &RadialGrid) -> Option<Spheroid> {
        let cutoff = BULGE_CUTOFF * self.bulge_scale_radius;
        (self.n_bulge > 0).then(|| Spheroid::new(self.bulge_mass, self.bulge_scale_radius, cutoff, grid))
    }

    fn halo_spheroid(&self, grid: &RadialGrid) -> Option<Spheroid> {
        let cutoff = self.halo_cutoff * self.halo_scale_radius;
        (self.n_halo > 0).then(|| Spheroid::new(self.halo_mass, self.halo_scale_radius, cutoff, grid))
    }

    /// Returns a grid from well inside the smallest component to the end of the largest.
    fn radial_grid(&self) -> RadialGrid {
        let components = [
            (self.n_disc, self.disc_scale_length, disc::CUTOFF * self.disc_scale_length),
            (self.n_bulge, self.bulge_scale_radius, BULGE_CUTOFF * self.bulge_scale_radius),
            (self.n_halo, self.halo_scale_radius, self.halo_cutoff * self.halo_scale_radius),
        ];
        let present = components.into_iter().filter(|&(n, ..)| n > 0);
        let (smallest, largest) = present.fold((f64::INFINITY, 0.0), |(s, l), (_, scale, end)| {
            (f64::min(s, scale.min(end)), max_or_nan(l, end))
        });
        RadialGrid::new(INNERMOST * smallest, largest)
    }
}

/// Appends `n` bodies of one component, with positions and velocities from `draw`.
fn append_bodies(
    bodies: &mut Particles,
    n: usize,
    mass: f64,
    species: Species,
    draw: impl Fn(u64) -> Result<([f64; 3], [f64; 3]), IcError>,
) -> Result<(), IcError> {
    for i in 0..n as u64 {
        let (position, velocity) = draw(i)?;
        bodies.push(Particle { position, velocity, mass, id: bodies.len() as u64, species });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
