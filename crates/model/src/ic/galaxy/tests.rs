//! Equilibrium, profiles and reproducibility of the disc galaxy.

use super::disc::DiscRing;
use super::*;
use crate::analysis::{lagrangian_radii, surface_density_profile};
use crate::ic::testing::{assert_well_formed, hash_bits, virial_ratio};

const G: f64 = 43_007.1;

fn small_galaxy() -> Galaxy {
    Galaxy { n_disc: 4000, n_bulge: 1000, n_halo: 8000, eps: 0.1, ..Galaxy::default() }
}

/// Returns the disc of a galaxy and its velocity moments.
fn disc_and_rings(galaxy: &Galaxy) -> (Disc, Vec<DiscRing>) {
    let grid = galaxy.radial_grid();
    let disc = Disc::new(galaxy, G);
    let mut layers = Layers::massless(&grid);
    [galaxy.bulge_spheroid(&grid), galaxy.halo_spheroid(&grid)]
        .into_iter()
        .flatten()
        .for_each(|part| layers.add_masses(part.layer_masses(&grid)));
    let rings = disc.ring_moments(&RadialField::new(&grid, &layers, G, galaxy.eps));
    (disc, rings)
}

#[test]
fn virial_ratio_is_one() {
    for galaxy in [
        small_galaxy(),
        Galaxy { n_disc: 0, ..small_galaxy() },
        Galaxy { n_disc: 0, n_halo: 0, ..small_galaxy() },
    ] {
        let bodies = galaxy.generate(G).unwrap();
        assert_well_formed(&bodies);
        let ratio = virial_ratio(&bodies, G, galaxy.eps);
        assert!((ratio - 1.0).abs() < 0.03, "{ratio}");
    }
}

#[test]
fn components_have_their_masses_and_species() {
    let galaxy = small_galaxy();
    let bodies = galaxy.generate(G).unwrap();
    let part = |species| bodies.filtered(|body| body.species == species);
    for (species, n, mass) in
        [(Species::Disc, 4000, 4.0), (Species::Bulge, 1000, 1.0), (Species::Halo, 8000, galaxy.halo_mass)]
    {
        let part = part(species);
        assert_eq!(part.len(), n);
        assert!((part.total_mass() / mass - 1.0).abs() < 1e-12);
    }
    assert_eq!(galaxy.total_mass(), 5.0 + galaxy.halo_mass);
    let reach = galaxy.halo_cutoff * galaxy.halo_scale_radius;
    assert!(lagrangian_radii(&bodies, [0.0; 3], &[1.0])[0] < 1.05 * reach);
}

#[test]
fn surface_density_is_exponential() {
    let galaxy = Galaxy { n_disc: 50_000, n_bulge: 0, n_halo: 0, ..small_galaxy() };
    let bodies = galaxy.generate(G).unwrap();
    let disc = Disc::new(&galaxy, G);
    for ring in surface_density_profile(&bodies, [0.0; 3], 15.0, 30) {
        let expected = disc.surface_density(0.5 * (ring.r_inner + ring.r_outer));
        // Poisson noise, and 0.1% for the width of the ring.
        let error = 4.0 / (ring.count as f64).sqrt() + 0.001;
        assert!((ring.density / expected - 1.0).abs() < error, "{ring:?} {expected}");
    }
    let mean_height = bodies.position.z.iter().map(|z| z.abs()).sum::<f64>() / bodies.len() as f64;
    assert!((mean_height / (0.4 * 2f64.ln()) - 1.0).abs() < 0.02, "{mean_height}");
}

/// Freeman's disc: v_c has its maximum of 0.62 (G M / R_d)^{1/2} at 2.15 R_d.
#[test]
fn rotation_curve_of_a_thin_disc_is_freemans() {
    let galaxy = Galaxy { n_bulge: 0, n_halo: 0, disc_scale_height: 1e-3, eps: 0.0, ..small_galaxy() };
    let (disc, rings) = disc_and_rings(&galaxy);
    let unit = G * galaxy.disc_mass / galaxy.disc_scale_length;
    let (mut peak, mut peak_radius) = (0.0f64, 0.0f64);
    for (k, ring) in rings.iter().enumerate() {
        if ring.circular_squared > peak {
            (peak, peak_radius) = (ring.circular_squared, disc.ring_radius(k) / galaxy.disc_scale_length);
        }
    }
    assert!(((peak / unit).sqrt() - 0.6226).abs() < 0.001, "{}", (peak / unit).sqrt());
    assert!((peak_radius - 2.15).abs() < 0.1, "{peak_radius}");
}

#[test]
fn smallest_toomre_q_is_the_requested_one() {
    let galaxy = Galaxy { toomre_q: 1.3, ..small_galaxy() };
    let (disc, rings) = disc_and_rings(&galaxy);
    let q: Vec<f64> =
        rings.iter().enumerate().map(|(k, ring)| disc.toomre_q(disc.ring_radius(k), ring)).collect();
    assert!(q.iter().all(|&q| q > 0.0));
    // Near the centre, where pressure supports the disc, Q may be lower than requested.
    let beyond = q.iter().enumerate().filter(|(k, _)| disc.ring_radius(*k) > galaxy.disc_scale_length);
    let smallest = beyond.map(|(_, &q)| q).fold(f64::INFINITY, f64::min);
    assert!((smallest - 1.3).abs() < 1e-3, "{smallest}");
}

/// An isotropic equilibrium exists for the default galaxy: f > 0 at all energies.
#[test]
fn distribution_functions_are_positive() {
    for galaxy in [small_galaxy(), Galaxy { eps: 0.0, ..small_galaxy() }] {
        let grid = galaxy.radial_grid();
        let parts = [galaxy.bulge_spheroid(&grid).unwrap(), galaxy.halo_spheroid(&grid).unwrap()];
        let mut layers = Layers::massless(&grid);
        parts.iter().for_each(|part| layers.add_masses(part.layer_masses(&grid)));
        layers.add_masses(Disc::new(&galaxy, G).layer_masses(&grid));
        let field = RadialField::new(&grid, &layers, G, galaxy.eps);
        for part in &parts {
            let (energy, f) = part.distribution_function(&grid, &field);
            assert!(energy.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(f[1..].iter().all(|&f| f > 0.0), "{f:?}");
        }
    }
}

#[test]
fn extreme_parameters_give_finite_bodies() {
    let extreme = [
        Galaxy { toomre_q: 100.0, ..small_galaxy() },
        Galaxy { toomre_q: 1e9, ..small_galaxy() },
        Galaxy { disc_scale_height: 3.0, ..small_galaxy() },
        Galaxy { disc_scale_height: 1e-4, eps: 0.0, ..small_galaxy() },
        Galaxy { eps: 5.0, ..small_galaxy() },
        Galaxy { halo_cutoff: 0.1, ..small_galaxy() },
        Galaxy { halo_cutoff: 1000.0, ..small_galaxy() },
        Galaxy { bulge_scale_radius: 1e-3, ..small_galaxy() },
        Galaxy { halo_mass: 1e-6, bulge_mass: 1e-6, ..small_galaxy() },
        Galaxy { disc_mass: 1e-6, ..small_galaxy() },
    ];
    for galaxy in extreme {
        let bodies = Galaxy { n_disc: 300, n_bulge: 300, n_halo: 300, ..galaxy.clone() }.generate(G).unwrap();
        assert!(bodies.validate().is_ok(), "{galaxy:?}");
    }
    assert!(Galaxy { n_disc: 0, n_bulge: 0, n_halo: 0, ..small_galaxy() }.generate(G).is_err());
}

#[test]
fn same_seed_gives_the_same_bits() {
    let galaxy = Galaxy { n_disc: 40, n_bulge: 20, n_halo: 60, ..small_galaxy() };
    assert_eq!(hash_bits(&galaxy.generate(G).unwrap()), 0x0c62_d62e_a67c_161a);
}
