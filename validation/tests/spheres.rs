//! Sampled spheres follow the distributions of their models.

use orrery_model::Particles;
use orrery_model::analysis::{kinetic_energy, lagrangian_radii, potential_energy_direct};
use orrery_model::ic::{Hernquist, Plummer};
use orrery_validation::{kolmogorov_bound, kolmogorov_gap, norm, virial_ratio};

fn distances_from_origin(particles: &Particles) -> Vec<f64> {
    particles.position.iter().map(norm).collect()
}

/// With G = M = 1 and E = −1/4 the virial ratio is 1 and the half-mass radius 0.769.
#[test]
fn plummer_sphere_has_n_body_units() {
    let n = 16_384;
    let bodies = Plummer { n, ..Plummer::default() }.generate(1.0).unwrap();
    // Four standard errors: the standard deviations of v²/⟨v²⟩ and φ/⟨φ⟩ over the bodies are below
    // 1.
    let noise = 4.0 / (n as f64).sqrt();
    let ratio = virial_ratio(&bodies, 1.0, 0.0);
    let energy = kinetic_energy(&bodies) + potential_energy_direct(&bodies, 1.0, 0.0);
    let half = lagrangian_radii(&bodies, [0.0; 3], &[0.5])[0];
    println!("Plummer, N = {n}: 2T/|W| {ratio:.4}, E {energy:.5}, half-mass radius {half:.4}");
    assert!((ratio - 1.0).abs() < noise, "virial ratio {ratio}");
    // The model is cut at 99.9% of the mass, which makes the binding energy of the rest 0.2%
    // larger.
    assert!((energy / -0.25 - 1.0).abs() < noise + 0.002, "energy {energy}");
    // The standard error of the median is 0.5/√n/(dM/dr), with dM/dr = 0.43 at this radius.
    assert!((half - 0.769).abs() < noise * 0.5 / 0.43, "half-mass radius {half}");
}

#[test]
fn plummer_radii_follow_the_mass_profile() {
    let n = 100_000;
    let model = Plummer { n, ..Plummer::default() };
    let bodies = model.generate(1.0).unwrap();
    let enclosed = |r: f64| (1.0 + (model.scale_radius / r).powi(2)).powf(-1.5) / 0.999;
    let gap = kolmogorov_gap(distances_from_origin(&bodies), enclosed);
    println!("Plummer, N = {n}: D {gap:.2e}, bound {:.2e}", kolmogorov_bound(n));
    assert!(gap < kolmogorov_bound(n), "D = {gap}");
}

/// A Kolmogorov-Smirnov test of M(r)/M = r²/(r + a)², scaled to the mass within the cutoff.
#[test]
fn hernquist_radii_follow_the_mass_profile() {
    let n = 100_000;
    for cutoff in [1000.0, 10.0] {
        let model = Hernquist { n, scale_radius: 0.7, cutoff, ..Hernquist::default() };
        let bodies = model.generate(1.0).unwrap();
        let mass_fraction = |x: f64| (x / (x + 1.0)).powi(2);
        let enclosed = |r: f64| (mass_fraction(r / model.scale_radius) / mass_fraction(cutoff)).min(1.0);
        let gap = kolmogorov_gap(distances_from_origin(&bodies), enclosed);
        println!("Hernquist to {cutoff} a, N = {n}: D {gap:.2e}, bound {:.2e}", kolmogorov_bound(n));
        assert!(gap < kolmogorov_bound(n), "cutoff {cutoff}: D = {gap}");
    }
}
