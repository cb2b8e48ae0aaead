//! Runs repeat bit for bit, for any number of threads.

use orrery_device::testing::is_soak;
use orrery_gravity::bodies::Bodies;
use orrery_gravity::integrator::adaptive;
use orrery_gravity::settings::{Acceptance, GravitySettings, IntegratorChoice};
use orrery_model::Precision;
use orrery_model::ic::Plummer;
use orrery_validation::{direct_settings, run_on_threads, take_steps, tree_settings};

const THREADS: [usize; 3] = [1, 2, 7];

/// Returns the number of repetitions of each run, with 1, 2 and 7 threads in turn.
fn repetitions() -> usize {
    if is_soak() { 20 } else { THREADS.len() }
}

/// Returns an FNV-1a hash of the bits of the state. A comparison with `==` would not distinguish −0
/// from 0.
fn state_hash(bodies: &Bodies) -> u64 {
    let particles = bodies.particles().unwrap();
    let (x, v, a) = (&particles.position, &particles.velocity, bodies.acceleration().unwrap());
    let numbers = [&x.x, &x.y, &x.z, &v.x, &v.y, &v.z, &a.x, &a.y, &a.z, &particles.mass];
    let bits =
        numbers.into_iter().flatten().map(|number| number.to_bits()).chain(particles.id.iter().copied());
    bits.flat_map(u64::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Returns the hash after `steps` steps of 0.01. Each step builds and walks a tree, so a single
/// different bit grows.
fn hash_after_run(settings: &GravitySettings, method: IntegratorChoice, n: usize, steps: usize) -> u64 {
    let start = Plummer { n, ..Plummer::default() }.generate(1.0).unwrap();
    let mut bodies = Bodies::new(start, settings, None).unwrap();
    take_steps(&mut bodies, method, 0.01, steps);
    state_hash(&bodies)
}

/// Checks that all repetitions give the same hash.
fn check_hashes_are_equal(label: &str, run: impl Fn() -> u64 + Sync) {
    let first = run_on_threads(1, &run);
    for k in 1..repetitions() {
        let threads = THREADS[k % THREADS.len()];
        assert_eq!(first, run_on_threads(threads, &run), "{label}: run {k}, with {threads} threads, differs");
    }
    println!("{label}: {} runs, one hash {first:016x}", repetitions());
}

fn relative_tree_settings(precision: Precision) -> GravitySettings {
    let acceptance = Acceptance::Relative { alpha: 0.005, theta: 0.6 };
    GravitySettings { acceptance, ..tree_settings(0.01, 0.6, precision) }
}

#[test]
fn every_solver_in_every_precision_repeats_bit_for_bit() {
    for precision in Precision::ALL {
        for (solver, settings) in [
            ("direct", direct_settings(0.01, precision)),
            ("tree, geometric", tree_settings(0.01, 0.6, precision)),
            ("tree, relative", relative_tree_settings(precision)),
        ] {
            let label = format!("{solver}, {precision:?}");
            check_hashes_are_equal(&label, || {
                hash_after_run(&settings, IntegratorChoice::Leapfrog, 2000, 10)
            });
        }
    }
}

#[test]
fn every_integrator_repeats_bit_for_bit() {
    use IntegratorChoice::{BlanesMoan4, Hermite4, Leapfrog, Yoshida4, Yoshida6};
    for method in [Leapfrog, Yoshida4, Yoshida6, BlanesMoan4] {
        check_hashes_are_equal(&format!("{method:?}, tree"), || {
            hash_after_run(&relative_tree_settings(Precision::Mixed), method, 1000, 4)
        });
    }
    let settings = direct_settings(0.01, Precision::Double);
    check_hashes_are_equal("Hermite4, direct", || hash_after_run(&settings, Hermite4, 500, 4));
}

/// The shortest time of all pairs must not depend on the thread that finds it.
#[test]
fn adaptive_steps_repeat_bit_for_bit() {
    for eps in [0.0, 0.01] {
        check_hashes_are_equal(&format!("adaptive, eps {eps}"), || {
            let start = Plummer { n: 500, ..Plummer::default() }.generate(1.0).unwrap();
            let mut bodies = Bodies::new(start, &direct_settings(eps, Precision::Double), None).unwrap();
            for _ in 0..10 {
                let dt = adaptive::step_length(&bodies, 0.05).unwrap();
                IntegratorChoice::Leapfrog.step(&mut bodies, dt).unwrap();
            }
            state_hash(&bodies)
        });
    }
}

/// In a longer run, threads wait and wake at different times.
#[test]
fn a_hundred_steps_repeat_bit_for_bit() {
    let run = |threads| {
        run_on_threads(threads, || {
            hash_after_run(&tree_settings(0.01, 0.6, Precision::Mixed), IntegratorChoice::Leapfrog, 3000, 100)
        })
    };
    assert_eq!(THREADS.map(run), [run(2); 3]);
}

/// The hash must detect a change of the softening by 1e-15.
#[test]
fn a_change_of_the_softening_by_1e_15_changes_the_hash() {
    let run =
        |eps| hash_after_run(&direct_settings(eps, Precision::Double), IntegratorChoice::Leapfrog, 2000, 10);
    assert_ne!(run(0.01), run(0.01 + 1e-15));
}
