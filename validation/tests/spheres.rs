//! Spheres as they are sampled: the distributions that they claim to follow.

use orrery_model::Particles;
use orrery_model::analysis::{kinetic_energy, lagrangian_radii, potential_energy_direct};
use orrery_model::ic::{Hernquist, Plummer};
use orrery_validation::{kolmogorov_bound, kolmogorov_gap, norm, virial_ratio};

fn radii(particles: &Particles) -> Vec<f64> {
    particles.position.iter().map(norm).collect()
}

/// G = M = 1, E = −1/4: virial ratio 1, half-mass radius 0.769.
#[test]
fn plummer_sphere_in_n_body_units() {
    let n = 16_384;
    let bodies = Plummer { n, ..Plummer::default() }.generate(1.0).unwrap();
    // v²/⟨v²⟩ and φ/⟨φ⟩ spread by less than 1 over the bodies: four standard errors.
    let noise = 4.0 / (n as f64).sqrt();
    let ratio = virial_ratio(&bodies, 1.0, 0.0);
    let energy = kinetic_energy(&bodies) + potential_energy_direct(&bodies, 1.0, 0.0);
    let half = lagrangian_radii(&bodies, [0.0; 3], &[0.5])[0];
    println!("Plummer, N = {n}: 2T/|W| {ratio:.4}, E {energy:.5}, half-mass radius {half:.4}");
    assert!((ratio - 1.0).abs() < noise, "virial ratio {ratio}");
    // The cut at 99.9% of the mass binds the rest by 0.2% more.
    assert!((energy / -0.25 - 1.0).abs() < noise + 0.002, "energy {energy}");
    // dM/dr = 0.43 there, so half a body in √n shifts it by 0.5/√n/0.43.
    assert!((half - 0.769).abs() < noise * 0.5 / 0.43, "half-mass radius {half}");
}

#[test]
fn plummer_mass_profile() {
    let n = 100_000;
    let model = Plummer { n, ..Plummer::default() };
    let bodies = model.generate(1.0).unwrap();
    let enclosed = |r: f64| (1.0 + (model.scale_radius / r).powi(2)).powf(-1.5) / 0.999;
    let gap = kolmogorov_gap(radii(&bodies), enclosed);
    println!("Plummer, N = {n}: D {gap:.2e}, bound {:.2e}", kolmogorov_bound(n));
    assert!(gap < kolmogorov_bound(n), "D = {gap}");
}

/// M(r)/M = r²/(r + a)², scaled to the mass within the cutoff, in the Kolmogorov-Smirnov sense.
#[test]
fn hernquist_mass_profile() {
    let n = 100_000;
    for cutoff in [1000.0, 10.0] {
        let model = Hernquist { n, scale_radius: 0.7, cutoff, ..Hernquist::default() };
        let bodies = model.generate(1.0).unwrap();
        let share = |x: f64| (x / (x + 1.0)).powi(2);
        let enclosed = |r: f64| (share(r / model.scale_radius) / share(cutoff)).min(1.0);
        let gap = kolmogorov_gap(radii(&bodies), enclosed);
        println!("Hernquist to {cutoff} a, N = {n}: D {gap:.2e}, bound {:.2e}", kolmogorov_bound(n));
        assert!(gap < kolmogorov_bound(n), "cutoff {cutoff}: D = {gap}");
    }
}
