//! Steps and measurements have the same bits for any number of threads.

use orrery_gravity::bodies::{Bodies, BodiesMotion, CheckStamp};
use orrery_gravity::integrator::leapfrog_step;
use orrery_gravity::settings::{Acceptance, GravitySettings, SolverChoice};
use orrery_model::analysis::{angular_momentum, kinetic_energy, momentum};
use orrery_model::rng::Draws;
use orrery_model::{Particle, Particles, Precision, Species};

/// Returns bodies that are clustered on many scales. Every `repeat`-th has the position of body 0.
fn clustered_bodies(n: usize, repeat: usize) -> Particles {
    let mut bodies = Particles::with_capacity(n);
    for i in 0..n {
        let mut draws = Draws::new(9, 0, if i % repeat == 0 { 0 } else { i as u64 });
        let r = draws.uniform().powi(6);
        bodies.push(Particle {
            position: draws.direction().map(|c| r * c),
            velocity: [0; 3].map(|_| draws.uniform_in(-0.1, 0.1)),
            mass: draws.uniform_in(0.5, 1.5) / n as f64,
            id: i as u64,
            species: Species::Halo,
        });
    }
    bodies
}

fn tree_settings(acceptance: Acceptance) -> GravitySettings {
    GravitySettings { g: 1.0, eps: 0.05, solver: SolverChoice::Tree, acceptance, precision: Precision::Mixed }
}

/// Sizes are around a chunk of 1024 bodies and a block of a sum of 4096.
#[test]
fn steps_and_measurements_have_the_same_bits_for_any_number_of_threads() {
    let geometric = tree_settings(Acceptance::Geometric { theta: 0.7 });
    let relative = tree_settings(Acceptance::Relative { alpha: 0.02, theta: 0.7 });
    for n in [0, 1, 2, 1000, 1024, 1025, 4096, 4097, 5000] {
        for (settings, repeat) in [(geometric, 2), (relative, n + 1)] {
            let run = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    let mut bodies = Bodies::new(clustered_bodies(n, repeat), &settings, None).unwrap();
                    for step in 1..=2 {
                        leapfrog_step(&mut bodies, 0.01).unwrap();
                        bodies.check_step(CheckStamp { step, time: 0.0 }).unwrap();
                    }
                    let measured = (bodies.motion().unwrap(), bodies.potential_energy().unwrap());
                    let largest = bodies.largest_acceleration2().unwrap();
                    (bodies.particles().unwrap().clone(), measured, largest)
                })
            };
            let one = run(1);
            for threads in [2, 3, 7, 16] {
                assert!(run(threads) == one, "{n} bodies, {threads} threads, {settings:?}");
            }
        }
    }
}

/// Sums of blocks and serial sums are both compensated: each has an error of one rounding of the
/// result, and of n u² Σ|x|, which is far below it.
#[test]
fn sums_over_blocks_agree_with_serial_sums() {
    let settings = GravitySettings { g: 0.0, ..tree_settings(Acceptance::default()) };
    for n in [4096, 4097, 20_000] {
        let bodies = Bodies::new(clustered_bodies(n, n + 1), &settings, None).unwrap();
        let particles = bodies.particles().unwrap();
        let BodiesMotion { kinetic_energy: energy, momentum: p, angular_momentum: l } =
            bodies.motion().unwrap();
        let pairs = [(energy, kinetic_energy(particles))].into_iter();
        let pairs = pairs.chain(p.into_iter().zip(momentum(particles)));
        for (found, expected) in pairs.chain(l.into_iter().zip(angular_momentum(particles))) {
            assert!((found - expected).abs() <= 2.0 * f64::EPSILON * expected.abs(), "{found}, {expected}");
        }
    }
}
