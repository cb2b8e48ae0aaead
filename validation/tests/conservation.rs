//! Momentum and angular momentum over whole runs.

use orrery_gravity::bodies::Bodies;
use orrery_gravity::settings::GravitySettings;
use orrery_gravity::settings::IntegratorChoice::Leapfrog;
use orrery_model::analysis::{angular_momentum, momentum};
use orrery_model::ic::Plummer;
use orrery_model::{Particles, Precision};
use orrery_validation::{difference, direct_settings, norm, take_steps, tree_settings};

const STEPS: usize = 100;
const DT: f64 = 0.01;

/// Returns the changes over [`STEPS`] steps: of momentum relative to Σ m|v|, and of angular
/// momentum relative to Σ m|x||v|.
fn momentum_changes(start: &Particles, settings: &GravitySettings) -> [f64; 2] {
    let mut bodies = Bodies::new(start.clone(), settings, None).unwrap();
    take_steps(&mut bodies, Leapfrog, DT, STEPS);
    let end = bodies.particles().unwrap();
    let sum = |weight: fn([f64; 3]) -> f64| -> f64 {
        start.iter().map(|b| b.mass * weight(b.position) * norm(b.velocity)).sum()
    };
    [
        norm(difference(momentum(end), momentum(start))) / sum(|_| 1.0),
        norm(difference(angular_momentum(end), angular_momentum(start))) / sum(norm),
    ]
}

/// The direct sum computes the force on each body separately, so Newton's third law is satisfied to
/// rounding. The sum of all kicks of the run is dt Σ|a| / |v| ≈ 1 of the momenta. Rounding errors
/// of N bodies are random, which gives a factor of 1/√N.
///
/// - f32: 2⁻²⁴ of each force, at worst with the same sign in every step: 2⁻²⁴ / √N
/// - f64: v and x are rounded in each step: √steps 2⁻⁵³ / √N, with a factor of ten for the tail of
///   the sums
#[test]
fn direct_sum_conserves_momentum_to_rounding() {
    for n in [100, 1000, 3000] {
        let start = Plummer { n, ..Plummer::default() }.generate(1.0).unwrap();
        let f32_bound = 0.5f64.powi(24) / (n as f64).sqrt();
        let f64_bound = 10.0 * 0.5f64.powi(53) * (STEPS as f64 / n as f64).sqrt();
        for (precision, bound) in
            [(Precision::Double, f64_bound), (Precision::Mixed, f32_bound), (Precision::Single, f32_bound)]
        {
            let [p, l] = momentum_changes(&start, &direct_settings(0.02, precision));
            println!("direct {precision:?}, N = {n}: momentum {p:.1e}, angular momentum {l:.1e}");
            assert!(p < bound && l < bound, "{precision:?}, N = {n}: {p}, {l}, bound {bound}");
        }
    }
}

/// Forces of the tree do not satisfy Newton's third law. The change of momentum is at most the rms
/// force error (see forces.rs), which it reaches if all errors have the same sign.
#[test]
fn tree_conserves_momentum_to_its_force_error() {
    let start = Plummer { n: 3000, ..Plummer::default() }.generate(1.0).unwrap();
    for (theta, force_error) in [(0.6, 5e-4), (0.4, 1e-4)] {
        let [p, l] = momentum_changes(&start, &tree_settings(0.02, theta, Precision::Mixed));
        println!("tree, theta {theta}: momentum {p:.1e}, angular momentum {l:.1e}");
        assert!(p < force_error && l < force_error, "theta = {theta}: {p}, {l}");
        // A smaller change would mean that the forces do not come from the tree.
        assert!(p > 1e-9, "theta = {theta}: {p}");
    }
}
