//! The same bits every time: threads decide who computes, never what.

use orrery_model::ic::Plummer;
use orrery_particles::bodies::Bodies;
use orrery_particles::integrator::adaptive;
use orrery_particles::settings::{Acceptance, GravitySettings, IntegratorChoice, Precision};
use orrery_validation::{PRECISIONS, advance, direct, on_threads, tree};

/// How many times each run is made; with one thread, two and seven in turn.
const TIMES: usize = 20;
const THREADS: [usize; 3] = [1, 2, 7];

/// FNV-1a over all that a next step would start from, bit by bit: `==` would call −0 and 0 equal.
fn hash(bodies: &Bodies) -> u64 {
    let particles = bodies.particles().unwrap();
    let (x, v, a) = (&particles.position, &particles.velocity, bodies.acceleration().unwrap());
    let numbers = [&x.x, &x.y, &x.z, &v.x, &v.y, &v.z, &a.x, &a.y, &a.z, &particles.mass];
    let bits =
        numbers.into_iter().flatten().map(|number| number.to_bits()).chain(particles.id.iter().copied());
    bits.flat_map(u64::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The hash after `steps` steps of 0.01. A tree is built and walked in each, so one differing bit anywhere grows.
fn end_of_run(settings: &GravitySettings, method: IntegratorChoice, n: usize, steps: usize) -> u64 {
    let start = Plummer { n, ..Plummer::default() }.generate(1.0).unwrap();
    let mut bodies = Bodies::new(start, settings, None).unwrap();
    advance(&mut bodies, method, 0.01, steps);
    hash(&bodies)
}

/// All of [`TIMES`] runs end with one hash.
fn one_hash(what: &str, run: impl Fn() -> u64 + Sync) {
    let first = on_threads(1, &run);
    for k in 1..TIMES {
        let threads = THREADS[k % THREADS.len()];
        assert_eq!(first, on_threads(threads, &run), "{what}: run {k}, with {threads} threads, differs");
    }
    println!("{what}: {TIMES} runs, one hash {first:016x}");
}

fn relative(precision: Precision) -> GravitySettings {
    let acceptance = Acceptance::Relative { alpha: 0.005, theta: 0.6 };
    GravitySettings { acceptance, ..tree(0.01, 0.6, precision) }
}

#[test]
fn every_solver_in_every_precision_repeats_bit_for_bit() {
    for precision in PRECISIONS {
        for (solver, settings) in [
            ("direct", direct(0.01, precision)),
            ("tree, geometric", tree(0.01, 0.6, precision)),
            ("tree, relative", relative(precision)),
        ] {
            let what = format!("{solver}, {precision:?}");
            one_hash(&what, || end_of_run(&settings, IntegratorChoice::Leapfrog, 2000, 10));
        }
    }
}

#[test]
fn every_integrator_repeats_bit_for_bit() {
    use IntegratorChoice::{BlanesMoan4, Hermite4, Leapfrog, Yoshida4, Yoshida6};
    for method in [Leapfrog, Yoshida4, Yoshida6, BlanesMoan4] {
        one_hash(&format!("{method:?}, tree"), || end_of_run(&relative(Precision::Mixed), method, 1000, 4));
    }
    let settings = direct(0.01, Precision::Double);
    one_hash("Hermite4, direct", || end_of_run(&settings, Hermite4, 500, 4));
}

/// Steps that follow the state: the shortest time of all pairs is the same whoever finds it.
#[test]
fn adaptive_steps_repeat_bit_for_bit() {
    for eps in [0.0, 0.01] {
        one_hash(&format!("adaptive, eps {eps}"), || {
            let start = Plummer { n: 500, ..Plummer::default() }.generate(1.0).unwrap();
            let mut bodies = Bodies::new(start, &direct(eps, Precision::Double), None).unwrap();
            for _ in 0..10 {
                let dt = adaptive::step_length(&bodies, 0.05).unwrap();
                IntegratorChoice::Leapfrog.step(&mut bodies, dt).unwrap();
            }
            hash(&bodies)
        });
    }
}

/// A longer run, with threads that wait and wake at other times.
#[test]
fn a_hundred_steps_repeat_bit_for_bit() {
    let run = |threads| {
        on_threads(threads, || {
            end_of_run(&tree(0.01, 0.6, Precision::Mixed), IntegratorChoice::Leapfrog, 3000, 100)
        })
    };
    assert_eq!(THREADS.map(run), [run(2); 3]);
}

/// The comparison sees one part in 10¹⁵.
#[test]
fn another_softening_gives_other_bits() {
    let run = |eps| end_of_run(&direct(eps, Precision::Double), IntegratorChoice::Leapfrog, 2000, 10);
    assert_ne!(run(0.01), run(0.01 + 1e-15));
}
