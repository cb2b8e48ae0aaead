//! The same bits every time: threads decide who computes, never what.

use orrery_model::Particles;
use orrery_model::ic::Plummer;
use orrery_particles::bodies::Bodies;
use orrery_particles::settings::GravitySettings;
use orrery_particles::settings::IntegratorChoice::Leapfrog;
use orrery_validation::{PRECISIONS, advance, direct, on_threads, tree};

/// The bodies after 100 steps. A tree is built and walked in each, so one differing bit anywhere grows.
fn end_of_run(settings: &GravitySettings, threads: usize) -> Particles {
    on_threads(threads, || {
        let start = Plummer { n: 3000, ..Plummer::default() }.generate(1.0).unwrap();
        let mut bodies = Bodies::new(start, settings);
        advance(&mut bodies, Leapfrog, 0.01, 100);
        bodies.particles().clone()
    })
}

/// Every number's bits: `==` would call −0 and 0 equal.
fn bits(particles: &Particles) -> Vec<u64> {
    let Particles { position: x, velocity: v, .. } = particles;
    [&x.x, &x.y, &x.z, &v.x, &v.y, &v.z].into_iter().flatten().map(|value| value.to_bits()).collect()
}

fn same_bits_for(settings: &GravitySettings) {
    let one = bits(&end_of_run(settings, 1));
    for threads in [2, 7, 2] {
        assert!(
            one == bits(&end_of_run(settings, threads)),
            "{settings:?}: {threads} threads differ from one"
        );
    }
}

#[test]
fn direct_runs_repeat_bit_for_bit() {
    PRECISIONS.into_iter().for_each(|precision| same_bits_for(&direct(0.01, precision)));
}

#[test]
fn tree_runs_repeat_bit_for_bit() {
    PRECISIONS.into_iter().for_each(|precision| same_bits_for(&tree(0.01, 0.6, precision)));
}

/// The comparison sees one part in 10¹⁵.
#[test]
fn another_softening_gives_other_bits() {
    let [a, b] = [0.01, 0.01 + 1e-15]
        .map(|eps| end_of_run(&direct(eps, orrery_particles::settings::Precision::Double), 2));
    assert!(bits(&a) != bits(&b));
}
